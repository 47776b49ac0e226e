"""report.html: complete, self-contained, and deaf to whatever the cluster wrote."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import orjson
import pyarrow as pa
import pytest
from hostile_pages import EVIL, LOADING, Page, hostile_run, styles
from hypothesis import given
from hypothesis import strategies as st
from matrices import matrix
from synthetic_run import NODES, broken_run, held_run, keyspace_of_race

from schemaquake.harness.history.pairing import OPERATIONS
from schemaquake.harness.model.records import LOGS
from schemaquake.harness.model.verdict import Doubt, Verdict, make_stats
from schemaquake.results.matrix.page import render_matrix_html
from schemaquake.results.report import html
from schemaquake.results.report.addresses import relative_address
from schemaquake.results.report.html import (
    breakable,
    code_spans,
    render_report_html,
    restyled,
    safe_json,
    whole_options,
)
from schemaquake.results.report.material import Material
from schemaquake.results.report.scene import OPERATIONS_DRAWN


@pytest.fixture(scope="module")
def broken() -> Material:
    return broken_run()


@pytest.fixture(scope="module")
def page(broken: Material) -> Page:
    return Page(render_report_html(broken))


# ── what it says ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_verdict_comes_first_and_in_words(page: Page):
    assert page.words.index("INVALID") < page.words.index(
        "Cassandra 5.0.9 broke in 11 of 12 races: 2 findings and 1 of unknown cause."
    )
    assert page.words.index("2 findings and 1 of unknown cause.") < page.words.index("Reproducer: 5 of 5 races")


def test_sections_stand_in_the_order_in_which_a_reader_asks(page: Page):
    ids = [attributes["id"] for attributes in page.all("section")]
    assert ids == ["broke", "races", "schema", "operations", "latency", "checkers", "logs", "run", "repeat"]


@pytest.mark.parametrize(
    "words",
    [
        "Several CREATE TABLE statements were merged into one table",
        "5 of 5 races, 57–100 %",
        "One of the two had to be refused.",
        "Then at the same moment",
        "DROP TYPE sq_drop_type_000.u;",
        "schemaquake run --system cassandra:5.0.9 --workload drop-type,create-table",
        "n1 and n2 did not come back, so nothing could be written through them",
        "schema versions still differed after 20.0 s (2 versions)",
        "Unknown type sq_drop_type_000.u",
        "packet-loss on n2, 3.7 s",
        "schemaquake check runs/20261121T100211Z-drop-type-cassandra-5.0.9",
        "OpenJDK 17.0.17",
        "not within 20.0 s",
    ],
)
def test_what_a_sceptical_reader_needs_is_there(page: Page, words: str):
    assert words in page.words


def test_tickets_are_links_that_are_not_loaded(page: Page):
    links = {attributes["href"] for attributes in page.all("a")}
    assert "https://issues.apache.org/jira/browse/CASSANDRA-10699" in links


def test_links_within_the_page_lead_somewhere(page: Page):
    ids = {attributes.get("id") for _, attributes in page.elements}
    inner = [str(attributes["href"]) for attributes in page.all("a") if str(attributes["href"]).startswith("#")]
    assert len(inner) > 10
    assert {link[1:] for link in inner} <= ids


def test_ids_are_unique(page: Page):
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_a_valid_run_says_so_and_accuses_nobody():
    words = Page(render_report_html(held_run())).words
    assert "VALID" in words
    assert "Every checker judged this run, and none found an anomaly." in words
    assert "✕" not in words.split("The schema, node by node")[0]


def test_an_undecided_run_is_nowhere_called_good():
    words = Page(render_report_html(held_run(undecided=True))).words
    assert "UNKNOWN" in words
    assert "gave up after 120 s" in words
    assert "✓ held" not in words
    assert "✓ nothing" not in words


def test_a_checker_with_nothing_to_judge_is_no_pass_and_no_doubt():
    run = held_run()
    silent = Verdict.unknown("views", Doubt("nothing-to-judge", "no view was made"))
    with_silent = replace(run, verdict=replace(run.verdict, parts=(*run.verdict.parts, silent)))
    words = Page(render_report_html(with_silent)).words
    assert "– nothing to judge" in words
    assert "✓ held" in words


def test_errors_of_one_kind_are_told_once(broken: Material):
    row = broken.logs.to_pylist()[0]
    rows = [
        {
            **row,
            "line": line,
            "message": f"/10.0.0.{line % 250}:7000 failed after {line} ms",
            "stack": f"E: {line}\n\tat x",
        }
        for line in range(1, 3_000)
    ]
    text = render_report_html(replace(broken, logs=pa.Table.from_pylist(rows, schema=LOGS)))
    words = Page(text).words
    assert "2,999 errors, 0 warnings" in words
    assert "2,999 times" in words
    assert len(text) < 500_000


def test_statistics_are_words(broken: Material):
    stats = {"agreed": {"settled": False, "epochs": {}}, "slowest_s": 0.123456, "named": ["a", 2], "lost": 0}
    verdict = replace(broken.verdict, parts=(Verdict(valid=True, checker="c", stats=make_stats(stats)),))
    words = Page(render_report_html(replace(broken, verdict=verdict))).words
    assert "agreed (settled no), slowest s 0.1235, named (a, 2), lost 0" in words


def test_a_run_that_recorded_nothing_has_a_page_too(broken: Material):
    nothing = Material(
        run="r", plan=broken.plan, verdict=Verdict.unknown("run", Doubt("incomplete-run", "the run never began"))
    )
    words = Page(render_report_html(nothing)).words
    assert "Not decided: the run never began." in words


# ── self-contained ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_nothing_is_loaded(broken: Material):
    text = render_report_html(broken)
    page = Page(text)
    loading = [(tag, name) for tag, attributes in page.elements for name in attributes if name in LOADING]
    assert loading == []
    assert not {"link", "img", "iframe", "object", "embed", "base", "form", "image", "use"} & {
        tag for tag, _ in page.elements
    }
    assert "@import" not in styles(text)
    assert re.findall(r"url\((?!#)", styles(text)) == []
    assert [a for a in page.all("script") if "src" in a] == []


def test_handlers_are_never_inline(page: Page):
    assert [(tag, name) for tag, attributes in page.elements for name in attributes if name.startswith("on")] == []


def test_the_policy_allows_the_scripts_of_the_page_and_no_other(page: Page):
    policy = next(str(a["content"]) for a in page.all("meta") if a.get("http-equiv") == "Content-Security-Policy")
    kinds = [attributes.get("type") for attributes in page.all("script")]
    executed = [text for kind, text in zip(kinds, page.scripts, strict=True) if kind is None]
    hashes = {f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in executed}
    assert len(executed) == 3
    assert set(re.search(r"script-src ([^;]*)", policy)[1].split()) == hashes  # type: ignore[index]
    assert "default-src 'none'" in policy


def test_our_own_styles_and_scripts_cannot_end_their_element():
    folder = Path(html.__file__).parent
    for name in ("templates/report.css", "templates/matrix.css", "vendor/uPlot.min.css"):
        assert "</style" not in (folder / name).read_text().lower()
    for name in ("templates/charts.js", "templates/page.js", "templates/matrix.js", "vendor/uPlot.iife.min.js"):
        text = (folder / name).read_text().lower()
        assert "</script" not in text
        assert "<!--" not in text


def test_an_ordinary_run_fits_into_an_e_mail(broken: Material):
    assert len(render_report_html(broken).encode()) < 500_000


def test_a_very_busy_race_is_cut_with_a_note(broken: Material):
    keyspace = keyspace_of_race("drop-type", 0)
    rows = [
        {
            "index": 100_000 + number, "completion": None, "process": number % 30 + 50, "type": "ok", "f": "insert",
            "node": NODES[number % 3], "key": f"{keyspace}.x", "invoked": 16_030_000_000 + number * 1_000,
            "completed": 16_031_000_000 + number * 1_000, "argument": None, "value": None, "error": None, "mops": None,
        }
        for number in range(OPERATIONS_DRAWN + 3_000)
    ]  # fmt: skip
    busy = replace(
        broken, operations=pa.concat_tables([broken.operations, pa.Table.from_pylist(rows, schema=OPERATIONS)])
    )
    text = render_report_html(busy)
    assert "operations of this race are not drawn: a report has at most 10,000." in text
    assert text.count('class="bar ok') <= OPERATIONS_DRAWN + 1  # and one in the legend
    assert 'class="bar ok contested"' in text
    assert len(text.encode()) < 1_500_000


# ── hostile ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_hostile_text_stays_text():
    text = render_report_html(hostile_run())
    page = Page(text)
    kinds = [attributes.get("type") for attributes in page.all("script")]
    assert kinds == ["application/json", None, None, None]
    assert "img" not in {tag for tag, _ in page.elements}
    assert [name for _, attributes in page.elements for name in attributes if name.startswith("on")] == []
    assert "alert(1)" in page.words
    assert "{{ 7*7 }}" in page.words
    assert "49" not in page.words.split("What broke")[0]
    assert any(name.startswith(EVIL) for name in orjson.loads(page.scripts[0])["quantiles"])


def test_no_link_runs_a_script():
    page = Page(render_report_html(hostile_run()))
    assert [a["href"] for a in page.all("a") if not re.match(r"(#|https://)", str(a["href"]))] == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(JSON)
def test_json_in_a_page_is_the_same_and_ends_no_element(document: object):
    text = str(safe_json(document))
    assert not set("<>&\u2028\u2029") & set(text)
    assert orjson.loads(text) == document


@given(st.text())
def test_code_spans_change_nothing_but_the_look(text: str):
    shown = unescape(re.sub(r"</?code>", "", str(code_spans(text))))
    assert shown == (text.replace("`", "") if text.count("`") % 2 == 0 else text)


@pytest.mark.parametrize("path", ["javascript:alert(1)", "//evil.example/x", "https://evil.example", "a b?c#d", "../x"])
def test_an_address_beside_the_page_stays_beside_it(path: str):
    assert re.fullmatch(r"\./[A-Za-z0-9%._/~-]+", relative_address(path))


@given(st.text(alphabet='-abc <>&"=:@\n'))
def test_marks_within_commands_and_names_change_nothing_but_the_look(text: str):
    assert unescape(re.sub(r'<span class="nowrap">|</span>', "", str(whole_options(text)))) == text
    assert unescape(str(breakable(text)).replace("<wbr>", "")) == text


def test_the_name_of_an_option_is_never_broken_after_its_hyphens():
    shown = str(whole_options("schemaquake matrix --time-budget 42 -O a-b.c=1"))
    assert [*re.findall(r'<span class="nowrap">(.*?)</span>', shown)] == ["--time-budget", "-O"]


def test_a_stored_page_gets_the_styles_and_scripts_of_today():
    page = render_matrix_html(matrix())
    stored = page.replace("</style>", "body { color: red }</style>").replace("</script>", "alert(1)</script>")
    stored = stored.replace("sha256-", "sha256-old")
    assert stored != page
    assert restyled(stored, more="matrix") == page
    with pytest.raises(ValueError, match="0 of 1 places"):
        restyled("<html></html>", more="matrix")
