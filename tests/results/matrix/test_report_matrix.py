"""The matrix as a page and as Markdown: every state in words, evidence behind every broken cell, no false comfort."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from hostile_pages import EVIL, LOADING, Page, styles
from matrices import COMMAND, CONTROL, FOUND, SYSTEMS, hostile_matrix, matrix

from schemaquake.checkers.findings.catalogue import CATALOGUE
from schemaquake.results.findings.cause import Cause
from schemaquake.results.findings.finding import Finding, Rate, Symptom
from schemaquake.results.findings.shapes import parse_shape
from schemaquake.results.findings.tracking import JudgedRace, JudgedRun, track_findings
from schemaquake.results.matrix.markdown import render_matrix_markdown
from schemaquake.results.matrix.page import (
    Anchors,
    cell_sentence,
    facts_of,
    interval_in_words,
    render_matrix_html,
)
from schemaquake.results.matrix.promises import PROMISES
from schemaquake.results.matrix.tally import Matrix, Row
from schemaquake.results.summary.cell import Cell


@pytest.fixture(scope="module")
def made() -> Matrix:
    return matrix()


@pytest.fixture(scope="module")
def text(made: Matrix) -> str:
    return render_matrix_html(made)


@pytest.fixture(scope="module")
def page(text: str) -> Page:
    return Page(text)


def part(text: str, tag: str, identity: str) -> str:
    """The words of one element, from its id to its end (no element of the same kind stands in it)."""
    found = re.search(rf'<{tag}[^>]* id="{re.escape(identity)}".*?</{tag}>', text, re.DOTALL)
    assert found is not None, identity
    return Page(found[0]).words


# ── what it says ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_sentence_comes_first_then_what_is_worst(page: Page):
    sentence = (
        "Of 15 versions of Cassandra, only 6.0-alpha2 came through every race it was put to without an anomaly "
        "(0 of 84 races); 14 broke."
    )
    assert page.words.index(sentence) < page.words.index("A node does not start any more on 7 of 15")


def test_sections_stand_in_the_order_in_which_a_reader_asks(page: Page):
    assert [attributes["id"] for attributes in page.all("section")] == [
        "matrix",
        "details",
        "controls",
        "promises",
        "changes",
    ]


@pytest.mark.parametrize(
    "words",
    [COMMAND, "1,330", "97", "53 min 9 s", "2026-11-21 10:02 UTC", "a processor with 2 cores", "the time budget ended"],
)
def test_what_was_run_when_where_and_how_long(page: Page, words: str):
    assert words in page.words


def test_every_row_has_a_cell_for_every_version(text: str):
    grid = re.search(r'<table class="grid".*?</table>', text, re.DOTALL)
    assert grid is not None
    rows = re.findall(r"<tr class=\"(?:kind|whole[^\"]*)\".*?</tr>", grid[0], re.DOTALL)
    assert len(rows) == 1 + len(FOUND) + sum(len(kinds) for kinds in FOUND.values())
    assert {row.count("<td ") for row in rows} == {len(SYSTEMS)}


def test_rows_of_one_workload_begin_with_any_anomaly_and_bear_the_titles_of_the_catalogue(text: str):
    words = part(text, "tbody", "workload.create-table.barrier")
    assert words.startswith("create-table any anomaly")
    places = [words.index(CATALOGUE[kind].title) for kind in FOUND["create-table"]]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("row.create-table.barrier.any", "✕ 12/12 broke"),
        ("row.create-table.barrier.lost-rows", "✓ 0/12 held"),
        ("row.create-table.barrier.node-will-not-start", "✕ 2/2 broke"),
        ("row.add-columns.barrier.any", "? unknown"),
        ("row.drop-type.barrier.any", "– not applicable"),
        ("row.drop-keyspace.barrier.any", "· not run"),
        ("row.control", "✓ 0/12 quiet"),
        ("row.control", "? 0/10 unknown"),
    ],
)
def test_every_state_is_said_in_a_word_a_shape_and_numbers(text: str, row: str, words: str):
    assert words in part(text, "tr", row)


def test_what_is_no_pass_does_not_look_like_one(text: str):
    grid = re.search(r'<table class="grid".*?</table>', text, re.DOTALL)
    assert grid is not None
    cells = re.findall(r'<td class="(\w+)">(.*?)</td>', grid[0], re.DOTALL)
    styles_of: dict[str, set[str]] = {}
    for style, inside in cells:
        word = Page(inside).words.split(" ", 1)[1].lstrip("0123456789/ ")
        styles_of.setdefault(word, set()).add(style)
    assert styles_of == {
        "broke": {"fail"},
        "held": {"ok"},
        "quiet": {"ok"},
        "unknown": {"info"},
        "not applicable": {"other"},
        "not run": {"other"},
    }


def test_how_sure_a_rate_is_stands_in_the_title_of_its_cell(page: Page):
    titles = {str(attributes.get("title")) for attributes in page.all("a")}
    assert (
        "Cassandra 5.0.9, Acknowledged rows are gone: broke: found in 11 of 12 races; "
        "the true rate is between 65 % and 99 %." in titles
    )


def test_a_broken_cell_leads_to_all_that_is_known_of_it(text: str):
    detail = part(text, "article", "cell.create-table.barrier.lost-rows.5.0.9")
    for words in (
        "Cassandra 5.0.9: Acknowledged rows are gone",
        "✕ broke 11/12",
        "Let T1 = op 412",
        "coordinator 1 CREATE TABLE sq_create_table_003.t",
        "coordinator 2 CREATE TABLE",
        "n3: ERROR [main] Exception encountered during startup",
        "schemaquake run --system cassandra:5.0.9 --workload create-table --races 4 --seed 1",
        "Report of this run",
    ):
        assert words in detail


def test_any_anomaly_lists_what_was_found_and_leads_there(text: str):
    found = re.search(r'<article[^>]* id="cell.create-table.barrier.any.5.0.9".*?</article>', text, re.DOTALL)
    assert found is not None
    links = [attributes["href"] for attributes in Page(found[0]).all("a")]
    assert "#cell.create-table.barrier.merged-definitions.5.0.9" in links
    assert "Let T1" not in Page(found[0]).words  # once is enough


def test_any_anomaly_has_the_evidence_itself_where_no_row_below_has_it(made: Matrix):
    cells = tuple(
        replace(cell, evidence=None) if cell.anomaly is not None else cell
        for cell in made.cells
        if cell.workload == "drop-type"
    )
    bare = replace(made, cells=cells, rows=tuple(row for row in made.rows if row.workload == "drop-type"))
    assert "Let T1" in part(render_matrix_html(bare), "article", "cell.drop-type.barrier.any.5.0.9")


def test_what_was_not_decided_says_why(text: str):
    assert "the cluster never agreed" in part(text, "article", "cell.add-columns.barrier.any.1.1.0")
    assert "it has no" in part(text, "article", "cell.drop-type.barrier.any.1.2.19").replace(
        "1.2.19 has no", "it has no"
    )


def test_reports_are_addressed_beside_the_page(page: Page):
    links = [str(attributes["href"]) for attributes in page.all("a")]
    assert "./runs/20261121T101112Z-create-table-5.0.9/report.html" in links
    assert [link for link in links if not re.match(r"#|\./|https://issues\.apache\.org/jira/browse/CASSANDRA-\d+$|"
                                                   r"https://github\.com/scylladb/scylladb/issues/\d+$", link)] == []  # fmt: skip


def test_links_within_the_page_lead_somewhere_and_ids_are_unique(page: Page):
    ids = [str(attributes["id"]) for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    inner = {str(attributes["href"])[1:] for attributes in page.all("a") if str(attributes["href"]).startswith("#")}
    assert len(inner) > 300
    assert inner <= set(ids)


def test_every_promise_is_there_with_what_became_of_it(text: str):
    words = Page(text).words
    for promise in PROMISES:
        assert promise.says in words
    assert "✓ kept Kept in 84 tries on 1 version." in words
    assert "✕ broken Broken on 3 of 3 versions." in words
    assert "– not judged Not judged: nodes are made to join from 3.0 on only." in words
    assert "admitted weakness" in words


def test_a_broken_promise_leads_to_its_evidence(text: str):
    found = re.search(r'<li id="promise.0.7-laggards-are-sent-what-they-lack">.*?</ul>', text, re.DOTALL)
    assert found is not None
    assert 'href="#cell.create-table.barrier.schema-disagreement.0.7.10"' in found[0]


def test_a_loud_control_is_loud_everywhere(made: Matrix):
    loud = replace(made.controls[-1], state="broke", broken=1)
    words = Page(render_matrix_html(replace(made, controls=(*made.controls[:-1], loud)))).words
    assert loud.system == CONTROL
    assert "The controls were not quiet: anomalies were found on 6.0-alpha2." in words
    assert "✕ 1/14 loud" in words


def test_an_unfinished_matrix_says_so(made: Matrix):
    assert "Not finished." in Page(render_matrix_html(replace(made, finished=None))).words
    assert "Not finished" in render_matrix_markdown(replace(made, finished=None))


def test_conditions_are_named_where_they_differ(made: Matrix):
    row = Row(workload="drop-type", mode="barrier", nemeses=("kill",))
    two = replace(made, rows=(*made.rows, row))
    words = Page(render_matrix_html(two)).words
    assert "drop-type barrier, kill" in words
    assert "[drop-type, barrier, kill](#drop-type-barrier-kill)" in render_matrix_markdown(two)
    assert "drop-type barrier" not in Page(render_matrix_html(made)).words


def test_a_matrix_that_has_only_begun_has_a_page_too():
    nothing = Matrix(
        systems=SYSTEMS, rows=(), cells=(), started="2026-11-21T10:00:00+00:00", command="schemaquake matrix --quick"
    )
    assert "Nothing is decided on 15 versions of Cassandra." in Page(render_matrix_html(nothing)).words
    assert "Nothing is decided" in render_matrix_markdown(nothing)


def test_a_rate_of_nothing_is_said_honestly():
    low = Cell(system="s", workload="w", mode="barrier", state="held", tried=3, low=0.0, high=0.5615)
    assert interval_in_words(low) == "between 0 % and 56 %"
    assert cell_sentence(low) == "held: an anomaly was found in 0 of 3 races; the true rate is between 0 % and 56 %."


def test_addresses_are_made_apart_where_names_look_alike():
    rows = tuple(Row(workload=name, mode="m") for name in ("a b", "a-b", "a_b"))
    anchors = Anchors(Matrix(systems=("cassandra:5.0",), rows=rows, cells=(), started="", command=""))
    made = [anchors.row_anchor(row) for row in rows]
    assert len(set(made)) == 3
    assert all(re.fullmatch(r"[a-z0-9.-]+", anchor) for anchor in made)


# ── self-contained ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_nothing_is_loaded_and_no_handler_is_inline(text: str, page: Page):
    assert [(tag, name) for tag, attributes in page.elements for name in attributes if name in LOADING] == []
    assert not {"link", "img", "iframe", "object", "embed", "base", "form", "image", "use"} & {
        tag for tag, _ in page.elements
    }
    assert "@import" not in styles(text)
    assert re.findall(r"url\((?!#)", styles(text)) == []
    assert [name for _, attributes in page.elements for name in attributes if name.startswith("on")] == []
    assert len(text.encode()) < 1_500_000


def test_the_policy_allows_two_scripts(page: Page):
    policy = next(str(a["content"]) for a in page.all("meta") if a.get("http-equiv") == "Content-Security-Policy")
    assert len(page.scripts) == 2
    assert policy.count("'sha256-") == 2
    assert "default-src 'none'" in policy


# ── hostile ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_hostile_text_stays_text():
    page = Page(render_matrix_html(hostile_matrix(EVIL)))
    assert len(page.scripts) == 2
    assert "img" not in {tag for tag, _ in page.elements}
    assert [name for _, attributes in page.elements for name in attributes if name.startswith("on")] == []
    assert "alert(1)" in page.words
    assert "{{ 7*7 }}" in page.words
    links = [str(attributes["href"]) for attributes in page.all("a")]
    assert [link for link in links if not re.match(r"#|\./|https://(issues\.apache\.org|github\.com)/", link)] == []


def test_hostile_text_stays_text_in_markdown():
    hostile = render_matrix_markdown(hostile_matrix(EVIL))
    spans = r"(?s)(?<![\\`])(`+)(?!`).*?(?<!`)\1(?!`)"  # code, in a line or in a block of its own
    outside = re.sub(spans, "", hostile)
    assert "alert" in outside
    assert re.findall(r"(?<!\\)<(?!br>)", outside) == []
    assert re.findall(r"(?<!\\)\[(?![\w`\\#-]+\]\()", outside) == []


# ── Markdown ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_tables_of_the_markdown_are_as_wide_as_their_heads(made: Matrix):
    for table in re.findall(r"(?:^\|.*\n)+", render_matrix_markdown(made), re.MULTILINE):
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(widths) == 1


def test_every_command_of_a_broken_version_is_in_the_markdown(made: Matrix):
    text = render_matrix_markdown(made)
    for cell in made.cells:
        if cell.anomaly is None and cell.evidence is not None:
            assert cell.evidence.command in text


def test_links_of_the_markdown_lead_to_headings(made: Matrix):
    text = render_matrix_markdown(made)
    headings = {
        re.sub(r"[^a-z0-9 -]", "", line[1].lower()).replace(" ", "-") for line in re.finditer(r"(?m)^#+ (.*)$", text)
    }
    linked = re.findall(r"\]\(#([^)]*)\)", text)
    assert len(linked) == len(FOUND)
    assert set(linked) <= headings


def test_markdown(made: Matrix, golden: Callable[[str, str], None]):
    golden("matrix.md", render_matrix_markdown(made))


def test_a_workload_that_held_everywhere_has_a_section_that_says_so_and_one_that_was_not_run_says_that(made: Matrix):
    whole = [row for row in made.rows if row.anomaly is None and row.workload == "create-table"]
    for state, said in (("held", "No anomaly."), ("not-run", "6.0-alpha2: not-run")):
        cells = tuple(
            replace(cell, state=state, broken=0, evidence=None)
            for cell in made.cells
            if (cell.workload, cell.anomaly) == ("create-table", None)
        )
        text = render_matrix_markdown(replace(made, rows=tuple(whole), cells=cells, findings=()))
        section = text.partition("## Anomaly by anomaly")[2].partition("## Promises")[0]
        assert said in section
        assert ("No anomaly." in section) is (state == "held")


def test_findings_stand_before_the_matrix_with_the_versions_they_affect():
    shapes = tuple(map(parse_shape, ("drop-type(A)", "create-table(B uses A)")))
    symptom = Symptom(type="dangling-type", mechanism=None, anomalies=(0,), races=(), nodes=())
    broken = Finding(
        cause=Cause(product="cassandra", era="system_schema", statements=shapes),
        symptoms=(symptom,),
        races=("a",),
        sides=(shapes,),
        rate=Rate(2, 3, "race"),
    )
    held = JudgedRace(tuple(map(str, shapes)), broken=False, decided=True)
    common = {"run": "r", "valid": False, "workloads": ("drop-type",), "nemeses": ()}
    runs = [
        JudgedRun(system="cassandra:5.0.9", findings=(broken,), races=(), **common),
        JudgedRun(system="cassandra:6.0-alpha2", findings=(), races=(held,), **common),
    ]
    found = matrix(findings=track_findings(runs, SYSTEMS))
    words = Page(render_matrix_html(found)).words
    assert "A table is created with a type that is being dropped" in words
    assert "Cassandra 5.0.9 2 of 3 races, 21–94 % Cassandra 6.0-alpha2 0 of 1 race" in words
    assert words.index("SQ-E3ZATWYL") < words.index("Versions across, anomalies down")
    text = render_matrix_markdown(found)
    assert text.index("SQ-E3ZATWYL") < text.index("## The matrix")
    assert Matrix.from_json(found.to_json()) == found


def test_modes_and_nemeses_are_facts_of_their_own(made: Matrix):
    rows = [
        Row(workload="set", mode=mode, nemeses=nemeses)
        for mode in ("barrier", "partition")
        for nemeses in ((), ("kill", "move"), ("kill:kill.targets=all", "move:aim=pause@MID"))
    ]
    facts = dict(facts_of(replace(made, rows=tuple(rows))))
    assert (facts["Mode"], facts["Nemeses"]) == ("barrier and partition", "none; kill and move")
    assert "Nemeses" not in dict(facts_of(made))
