"""Sites: every link leads somewhere, equal runs give equal bytes, only what changed is written, and hostile names do nothing."""

from __future__ import annotations

import errno
import os
import re
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree as ET

import orjson
import pytest
from bundles import RUN, judged_run
from hostile_pages import Page
from places import ROOT
from site_runs import EVIL, further_run, held
from typer.testing import CliRunner

from schemaquake.harness.cli.command_line import application
from schemaquake.harness.errors import PlanError
from schemaquake.harness.sealed_json import dump_sealed, load_sealed
from schemaquake.results.findings.curation import Curated, Curation
from schemaquake.results.site.building import publish
from schemaquake.results.site.feed import render_badge
from schemaquake.results.site.records import file_name, system_file_name
from schemaquake.results.site.rendering import families
from schemaquake.results.store.progress import working_alone

FIVE, SIX = "simulated:cassandra-5.0", "simulated:cassandra-6.0"
AT = "2026-11-{:02}T10:00:00+00:00"


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    run = judged_run(folder / RUN)
    (run / "report.html").write_text("<title>report</title>")
    further_run(run, folder / "deep" / "er" / "held", system=SIX, started=AT.format(2), **held(run))
    further_run(run, folder / "again", started=AT.format(3), seed=7)
    return folder


@pytest.fixture(scope="module")
def site(runs, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "public"
    assert publish([runs], folder).unread == []
    return folder


def files(site: Path) -> dict[str, bytes]:
    return {
        path.relative_to(site).as_posix(): path.read_bytes()
        for path in site.rglob("*")
        if path.is_file() and ".schemaquake" not in path.parts
    }


def links(page: Path) -> list[Path]:
    text = page.read_text("utf-8")
    found = re.findall(r'(?:href|src)="([^"#]+)', text) + re.findall(r'url=([^"]+)"', text)
    return [page.parent / unquote(link) for link in found if "://" not in link]


def test_every_link_leads_to_a_file(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 12
    for page in pages:
        assert [str(link) for link in links(page) if not link.is_file()] == [], page


def test_every_page_has_one_policy_and_the_scripts_of_the_site(site):
    for path in site.rglob("*.html"):
        if path.parent.name == "reports":
            continue
        page = Page(path.read_text("utf-8"))
        (policy,) = [
            meta["content"] for meta in page.all("meta") if meta.get("http-equiv") == "Content-Security-Policy"
        ]
        assert policy.startswith("default-src 'none'")
        assert "unsafe" not in policy
        assert {script["src"].rpartition("/")[2] for script in page.all("script")} <= {"site.js", "served.js"}
        assert not [
            name for _, attributes in page.elements for name in attributes if name.startswith("on") or name == "style"
        ]


def test_a_site_of_one_run_is_said_to_be_of_one(runs, tmp_path):
    done = CliRunner().invoke(application(), ["publish", str(runs / "again"), "--to", str(tmp_path / "site")])
    assert done.exit_code == 0
    assert " in 1 run, " in done.stderr


def test_a_page_of_a_finding_has_what_a_reader_decides_by(site):
    (finding,) = orjson.loads((site / "findings.json").read_bytes())[:1]
    page = Page((site / "findings" / f"{finding['id']}.html").read_text()).words
    assert "2 of 2 races" in page
    assert "0 of 1 race" in page
    assert "### Frequency" in page, "the ticket's text"
    assert "[to write]" in page, "the draft's gaps"
    assert RUN in page
    draft = (site / "findings" / f"{finding['id']}.md").read_text()
    assert "| Simulated Cassandra 6.0 | held | 0 of 1 race, 0–79 % |" in draft
    assert orjson.loads((site / "findings" / f"{finding['id']}.json").read_bytes()) == finding


def test_a_finding_leads_to_its_page_in_the_documentation_if_its_address_is_given(runs, site, tmp_path):
    publish([runs], tmp_path / "site", docs="https://docs.example/quake/")
    with_pages = {
        path.name: found[1]
        for path in (tmp_path / "site" / "findings").glob("*.html")
        if (found := re.search(r'href="https://docs\.example/quake/([^"]+)"', path.read_text("utf-8")))
    }
    assert with_pages
    for name, page in with_pages.items():
        named = (site / "findings" / name).read_text("utf-8")
        assert f"<code>docs/{page}</code>" in named, "without an address it is named, and is no link"
        assert (ROOT / "docs" / page.partition("#")[0]).is_file()


def test_every_page_leads_on_and_back(site):
    (finding,) = orjson.loads((site / "findings.json").read_bytes())[:1]
    report = (site / "reports" / f"{RUN}.html").read_text("utf-8")
    assert "<title>report</title>" not in report, "drawn anew, not taken from the run's folder"
    for way in ("../index.html", f"../runs/{RUN}.html", f"../findings/{finding['id']}.html"):
        assert f'href="{way}"' in report
    assert f'id="{finding["id"]}"' in report
    assert f'href="../reports/{RUN}.html#{finding["id"]}"' in (site / "findings" / f"{finding['id']}.html").read_text()
    assert f'href="../reports/{RUN}.html"' in (site / "runs" / f"{RUN}.html").read_text()
    assert "../reports/" not in (site / "runs" / "held.html").read_text()


def test_a_pair_of_versions_tells_what_is_gone_and_what_nobody_tried(site):
    page = Page((site / "compare" / "simulated-cassandra-5.0--simulated-cassandra-6.0.html").read_text())
    back = Page((site / "compare" / "simulated-cassandra-6.0--simulated-cassandra-5.0.html").read_text())
    assert "perhaps-gone" in [attributes.get("id") for _, attributes in page.elements], "held once"
    assert "perhaps-new" in [attributes.get("id") for _, attributes in back.elements]
    for one in (page, back):
        assert "1 of the 8 tries that would show it" in one.words, "2 of 2 before"
        ids = {attributes.get("id") for _, attributes in one.elements}
        assert {link["href"][1:] for link in one.all("a") if link["href"].startswith("#")} <= ids


def test_what_is_verified_on_a_versions_page_is_gone_in_the_comparison_and_nothing_else_is(runs, tmp_path):
    """A finding of three versions takes fewer tries than one of them alone would ask for."""
    verified = set()
    for number, version in enumerate(("2.2", "3.11", "5.0", "5.0")):
        further_run(
            runs / RUN,
            tmp_path / f"seen-{number}",
            system=f"simulated:cassandra-{version}",
            started=AT.format(1 + number),
        )
    for number in range(6):
        further_run(
            runs / RUN, tmp_path / f"held-{number}", system=SIX, started=AT.format(10 + number), **held(runs / RUN)
        )
        publish([*tmp_path.glob("seen-*"), *tmp_path.glob("held-*")], tmp_path / "site")
        page = files(tmp_path / "site")["compare/simulated-cassandra-5.0--simulated-cassandra-6.0.html"].decode()
        gone = page.partition('id="gone"')[2].partition("</section>")[0]
        for one in orjson.loads((tmp_path / "site" / "findings.json").read_bytes()):
            for life in one["life"]:
                if life["system"] == SIX:
                    assert (life["stage"] == "verified") == (f"{one['id']}.html" in gone), (one["id"], number)
                    verified |= {(one["id"], number)} if life["stage"] == "verified" else set()
    assert verified
    assert len(verified) < 6 * len({name for name, _ in verified}), "and not from the first try on"


def test_findings_with_one_title_stand_together_where_the_first_of_them_is():
    rows = [
        {"title": title, "worst": f"w{n}", "tickets": tickets}
        for n, (title, tickets) in enumerate([("a", ["T-1"]), ("b", []), ("a", ["T-2", "T-1"])])
    ]
    assert [(one["title"], one["worst"], len(one["rows"]), one["tickets"]) for one in families(rows)] == [
        ("a", "w0", 2, ["T-1", "T-2"]),
        ("b", "w1", 1, []),
    ]


def test_equal_runs_give_equal_bytes_and_nothing_is_written_twice(runs, site, tmp_path):
    other = publish(sorted(runs.iterdir(), reverse=True), tmp_path / "other")
    assert files(tmp_path / "other") == files(site)
    assert other.written > 0
    assert publish([runs], tmp_path / "other").written == 0


def test_only_the_pages_that_change_are_written_and_those_of_lost_runs_go(runs, tmp_path):
    site, own = tmp_path / "site", tmp_path / "own"
    publish([runs], site)
    before = {path: path.stat().st_mtime_ns for path in (site / "runs").iterdir()}
    more = further_run(runs / RUN, own / "more", started=AT.format(9))
    publish([runs, own], site)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert (site / "runs" / "more.html").is_file()
    (more / "summary.json").unlink()
    assert [run for run, _ in publish([runs, own], site).unread] == ["more"]
    assert not (site / "runs" / "more.html").exists()
    assert files(site)["runs.html"].count(b"more.html") == 0


def test_of_two_runs_of_one_name_the_first_has_the_page_whoever_is_written_last(runs, tmp_path):
    first = further_run(runs / RUN, tmp_path / "a" / "same", seed=1)
    second = further_run(runs / RUN, tmp_path / "b" / "same", seed=2, **held(runs / RUN))
    site = tmp_path / "site"
    page = site / "runs" / "same.html"
    assert publish([first, second], site).unread == [("same", "another run has the same name")]
    whole = files(site)
    assert "✕ invalid" in page.read_text()
    (second / "summary.json").touch()
    assert publish([first, second], site).written == 0
    assert files(site) == whole
    (first / "summary.json").unlink()
    assert publish([first, second], site).runs == 1
    assert "✓ valid" in page.read_text()
    site = tmp_path / "other"
    publish([tmp_path / "b"], site)
    publish([tmp_path / "a" / "same", tmp_path / "b"], site)
    assert "✓ valid" in (site / "runs" / "same.html").read_text(), "the first of them cannot be read"
    further_run(runs / RUN, tmp_path / "c" / "same", seed=1)
    publish([tmp_path / "c", tmp_path / "b"], site)
    assert files(site) == whole, "a run that comes before one that was there"
    publish([tmp_path / "b"], site)
    assert "✓ valid" in (site / "runs" / "same.html").read_text(), "one that was second is the only one now"


def test_names_that_differ_in_case_alone_have_files_of_their_own_everywhere(runs, tmp_path):
    for number, name in enumerate(("Run-A", "run-a", "RUN-A", "con", "20260101T000000Z-a", "20260101t000000z-a")):
        further_run(runs / RUN, tmp_path / "runs" / name, system=f"cassandra:5.0-{name}", seed=number)
    assert publish([tmp_path / "runs"], tmp_path / "site").unread == []
    names = [path.relative_to(tmp_path / "site").as_posix() for path in (tmp_path / "site").rglob("*.*")]
    assert len({name.casefold() for name in names}) == len(names)
    pages = {path.name for path in (tmp_path / "site" / "runs").iterdir()}
    assert {"run-a.html", "20260101T000000Z-a.html"} < pages
    assert "con.html" not in pages
    assert len(pages) == 6


def test_folders_whose_names_are_not_utf_8_are_read_and_named(runs, tmp_path):
    for name in (b"bad\xff", b"rubbish\xfe"):
        (folder := tmp_path / "runs" / os.fsdecode(name)).mkdir(parents=True)
        for file in ("summary.json", "plan.json"):
            shutil.copy(runs / RUN / file, folder / file)
    (folder / "summary.json").write_bytes(b"{")
    published = publish([tmp_path / "runs"], tmp_path / "site")
    assert published.runs == 1
    ((name, reason),) = published.unread
    assert name == "rubbish\\udcfe"
    assert "rubbish\\udcfe" in reason
    assert "rubbish\\udcfe" in (tmp_path / "site" / "index.html").read_text("utf-8")
    assert publish([tmp_path / "runs"], tmp_path / "site").written == 0


def test_a_name_cannot_turn_its_letters_round_or_hide_some(runs, tmp_path):
    turned, hidden = "\u202ednuof", "\u2066not\u200bseen\u2069"
    further_run(runs / RUN, tmp_path / "runs" / turned, system=f"cassandra:5{turned}", workloads=[hidden], error=hidden)
    judged_run(tmp_path / "runs" / hidden)
    publish([tmp_path / "runs"], tmp_path / "site")
    texts = {
        name: content.decode() for name, content in files(tmp_path / "site").items() if name.endswith((".html", ".js"))
    }
    assert [name for name, text in texts.items() if re.search("[\u200b-\u200f\u202a-\u202e\u2060-\u2069]", text)] == []
    assert "\\u202ednuof" in texts["runs.html"]
    assert "\\\\u202ednuof" in texts["data/runs-000.js"], "a text and not an escape"
    (report,) = (text for name, text in texts.items() if name.startswith("reports/"))
    assert "\\u2066not\\u200bseen" in report


@pytest.mark.parametrize(
    "started", ["yesterday", "2026-13-01T00:00:00+00:00", "2026-11-01T10:00:00", "2026-11-01T10:00:00+02:00", 7]
)
def test_a_run_that_began_at_no_time_is_not_read(runs, tmp_path, started):
    further_run(runs / RUN, tmp_path / "runs" / "odd", started=started)
    published = publish([tmp_path / "runs"], tmp_path / "site")
    assert [run for run, _ in published.unread] == ["odd"]
    assert published.runs == 0


def test_a_run_whose_summary_no_harness_can_have_written_does_not_keep_others_from_being_shown(runs, tmp_path):
    finding = load_sealed((runs / RUN / "summary.json").read_bytes())["findings"][0]
    odd: dict[str, Any] = {
        "system": None, "cluster": [], "nodes": "three", "workloads": "racing-ddl", "valid": {}, "seconds": "1", "operations": {"ok": "1"},
        "races": [{"keyspace": {}}], "anomalies": [1], "started": 3, "error": ["x"],
    }  # fmt: skip
    of_findings: list[dict[str, Any]] = [
        {"symptoms": []}, {"rate": finding["rate"] | {"broken": finding["rate"]["tried"] + 1}}, {"first_seen": 7},
        {"cause": finding["cause"] | {"era": True}}, {"cause": finding["cause"] | {"fault": {}}}, {"statements": [None]},
    ]  # fmt: skip
    for name, value in odd.items():
        further_run(runs / RUN, tmp_path / "runs" / name, **{name: value})
    for number, changed in enumerate(of_findings):
        further_run(runs / RUN, tmp_path / "runs" / f"finding-{number}", findings=[finding | changed])
    published = publish([runs, tmp_path / "runs"], tmp_path / "site")
    assert published.runs == 3
    assert sorted(run for run, _ in published.unread) == sorted(
        [*odd, *(f"finding-{n}" for n in range(len(of_findings)))]
    )


def test_two_processes_do_not_build_one_site_at_once(runs, site):
    before = files(site)
    with working_alone(site / ".schemaquake" / "lock"), pytest.raises(PlanError, match="another process"):
        publish([runs], site)
    assert files(site) == before


def test_a_page_that_cannot_be_written_is_named_and_leaves_no_draft(runs, tmp_path, monkeypatch):
    site, whole = tmp_path / "site", Path.write_bytes

    def until_full(path: Path, content: bytes) -> int:
        if path.name.startswith(".versions.html"):
            whole(path, content[:10])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return whole(path, content)

    monkeypatch.setattr(Path, "write_bytes", until_full)
    with pytest.raises(PlanError, match=r"versions\.html: No space left"):
        publish([runs], site)
    assert not list(site.rglob("*.new"))
    monkeypatch.undo()
    publish([runs], site)
    publish([runs], tmp_path / "other")
    assert files(site) == files(tmp_path / "other")


def test_a_folder_that_was_renamed_is_still_its_run(runs, tmp_path):
    judged_run(tmp_path / "runs" / "moved")
    summary = load_sealed((tmp_path / "runs" / "moved" / "summary.json").read_bytes())
    (tmp_path / "runs" / "moved" / "summary.json").write_bytes(dump_sealed(summary | {"run": "as-it-was"}))
    published = publish([tmp_path / "runs"], tmp_path / "site")
    assert {page: folder.name for page, folder in published.folders.items()} == {"as-it-was": "moved"}
    assert [path.name for path in (tmp_path / "site" / "reports").iterdir()] == ["as-it-was.html"]
    for page in (tmp_path / "site").rglob("*.html"):
        for target in links(page):
            assert target.exists(), f"{page.name} leads to {target}"


def test_a_damaged_memory_is_no_memory(runs, site, tmp_path):
    again = tmp_path / "site"
    publish([runs], again)
    for path in (again / ".schemaquake").iterdir():
        path.write_bytes(path.read_bytes()[:40] + b"rubbish")
    publish([runs], again)
    assert files(again) == files(site)


def test_a_merged_finding_leads_to_the_other(runs, tmp_path):
    whole = orjson.loads((publish([runs], tmp_path / "a").index.parent / "findings.json").read_bytes())
    own, other = whole[0]["id"], "SQ-AAAAAAAA"
    publish(
        [runs], tmp_path / "b", curation=Curation(dict.fromkeys((own, other), Curated(ids=(other, own), title="T")))
    )
    assert f"url={other}.html" in (tmp_path / "b" / "findings" / f"{own}.html").read_text()
    assert '<h1 class="page">T</h1>' in (tmp_path / "b" / "findings" / f"{other}.html").read_text()


def test_hostile_texts_are_texts(runs, tmp_path):
    folder = tmp_path / "runs"
    run = runs / RUN
    names = ["<img src=x onerror=alert(2)>", "..%2f..%2fup", "a b\n'\"", "con", "x" * 200, "-rf", "%2e%2e", "ü"]
    for number, name in enumerate(names):
        changed = {"system": f"cassandra:{EVIL}{number}", "workloads": [EVIL], "nemeses": [EVIL], "error": EVIL}
        more = {
            "completed": False,
            "phases": [{"name": EVIL, "begins_s": 0.0, "seconds": 1.0}],
            "schemaquake_version": EVIL,
        }
        further_run(run, folder / name, started=AT.format(number + 1), **changed, **more)
    site = tmp_path / "site"
    published = publish([folder, runs], site, address="https://example.org/<>&/")
    assert published.runs == len(names) + 3
    assert published.unread == []
    for path in site.rglob("*.html"):
        if path.parent.name == "reports":
            continue
        page = Page(path.read_text("utf-8"))
        assert all(script == "" for script in page.scripts), path
        assert {image["src"].startswith("../badges/") for image in page.all("img")} <= {True}
        assert [str(link) for link in links(path) if not link.is_file()] == []
    ET.fromstring((site / "feed.xml").read_text("utf-8"))  # noqa: S314 - we wrote it
    for badge in (site / "badges").iterdir():
        ET.fromstring(badge.read_text("utf-8"))  # noqa: S314 - we wrote it
    data = (site / "data" / "runs-000.js").read_text("utf-8")
    assert "<" not in data
    assert "\u2028" not in data
    inside = {path.relative_to(site).parts[0] for path in site.rglob("*")}
    assert inside <= {
        ".schemaquake", "assets", "badges", "compare", "data", "findings", "reports", "runs", "versions", "feed.xml", "findings.json",
        *(f"{name}.html" for name in ("index", "versions", "compare", "runs", "trends", "method")),
    }  # fmt: skip


@pytest.mark.parametrize("text", ["a/b", "..", ".", "", "a\0b", "CON:", "a" * 300, "\ud800", "é", "a..b", "a."])
def test_names_of_files_are_harmless_and_differ(text):
    name = file_name(text)
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_+-]*(\.[A-Za-z0-9_+-]+)*", name)
    assert len(name) <= 120
    assert name != file_name(text + "x")


def test_names_of_versions_can_be_read():
    assert system_file_name("cassandra:5.0.9") == "cassandra-5.0.9"
    assert system_file_name("cassandra-5:0.9") != "cassandra-5-0.9"


def test_other_peoples_folders_are_left_alone(runs, tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    for target in (tmp_path, tmp_path / "thesis.txt"):
        with pytest.raises(PlanError):
            publish([runs], target)
    assert (tmp_path / "thesis.txt").read_text() == "mine"
    with pytest.raises(PlanError):
        publish([tmp_path / "absent"], tmp_path / "site")
    (tmp_path / "empty").mkdir()
    with pytest.raises(PlanError):
        publish([tmp_path / "empty"], tmp_path / "site")


def test_a_run_that_cannot_be_read_is_named(runs, tmp_path):
    for name, content in (("rubbish", b"{"), ("empty", b""), ("other", b'{"schema": 2}')):
        further_run(runs / RUN, tmp_path / "runs" / name)
        (tmp_path / "runs" / name / "summary.json").write_bytes(content)
    published = publish([tmp_path / "runs", runs], tmp_path / "site")
    assert [run for run, _ in published.unread] == ["empty", "other", "rubbish"]
    assert "rubbish" in Page((tmp_path / "site" / "index.html").read_text()).words


def test_a_badge_is_a_picture_whatever_a_version_is_called():
    for text in ("5.0\x00\x1b\ud800\uffff", EVIL, "x" * 3000):
        picture = ET.fromstring(render_badge(text, text, "fail"))  # noqa: S314 - we wrote it
        assert int(picture.get("width")) < 1000
        assert picture.get("aria-label").count(": ") == 1
        left, right = (part.text for part in picture.iter("{http://www.w3.org/2000/svg}text"))
        assert left == right
        assert len(left) <= 60


def test_runs_in_virtual_time_have_one_day_of_their_own(runs, tmp_path):
    publish([runs / RUN], tmp_path / "site")
    pages = {name: page.decode() for name, page in files(tmp_path / "site").items() if name.endswith(".html")}
    # A report shows the servers' logs, whose lines have the dates of their clocks.
    assert not [name for name, page in pages.items() if "2000-01-01" in page and not name.startswith("reports/")]
    trends = " ".join(pages["trends.html"].split())
    assert '<th scope="col">in virtual time</th>' in trends
    assert "Nothing was found" not in trends
    for name in ("index.html", "versions.html", f"runs/{RUN}.html"):
        assert "in virtual time" in pages[name], name


def test_the_feed_has_each_event_once_with_the_date_of_its_run(runs, tmp_path):
    publish([runs], tmp_path / "site", address="https://example.org/")
    feed = ET.fromstring((tmp_path / "site" / "feed.xml").read_text())  # noqa: S314 - we wrote it
    atom = "{http://www.w3.org/2005/Atom}"
    ids = [entry.findtext(f"{atom}id") for entry in feed.iter(f"{atom}entry")]
    assert len(ids) == len(set(ids)) > 0
    assert all(":new:" in one for one in ids if one)
    (link,) = {entry.find(f"{atom}link").get("href").rpartition("/")[0] for entry in feed.iter(f"{atom}entry")}
    assert link == "https://example.org/findings"
