"""GitHub: annotations that nobody's log can forge, and a summary that GitHub accepts."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

from synthetic_run import broken_run, held_run

from schemaquake.harness.model.verdict import Anomaly, Verdict
from schemaquake.results.report.github import (
    SUMMARY_BYTES_MAX,
    publish_to_github,
    render_annotations,
    render_step_summary,
)


def test_one_annotation_a_finding():
    lines = render_annotations(broken_run())
    assert len(lines) == 3
    assert lines[0].startswith("::error title=schemaquake%3A SQ-E3ZATWYL node-will-not-start::"), (
        "a lost node comes first"
    )
    assert "Cassandra 5.0.9: A table is created with a type that is being dropped, 5 of 5 races" in lines[0]


def test_a_valid_run_has_none():
    assert render_annotations(held_run()) == []


def test_an_undecided_run_is_an_error_too():
    (line,) = render_annotations(held_run(undecided=True))
    assert line.startswith("::error title=schemaquake%3A not decided::Not decided: schema-linearizability")


def test_more_types_than_github_shows_are_told_in_the_last_one():
    many = tuple(Anomaly(type=f"kind-{number:02}", title="t") for number in range(30))
    run = replace(broken_run(), verdict=Verdict(valid=False, checker="all", anomalies=many))
    lines = render_annotations(run)
    assert len(lines) == 10
    assert "21 more" in lines[-1]
    assert "kind-29" in lines[-1]


def test_text_cannot_begin_a_command_of_its_own():
    evil = "x\n::error::forged\r\n::add-mask::y%0A, z: w"
    run = replace(
        broken_run(),
        verdict=Verdict(valid=False, checker="all", anomalies=(Anomaly(type=evil, title=evil, explanation=evil),)),
    )
    (line,) = render_annotations(run)
    assert "\n" not in line
    assert "\r" not in line
    assert " x%0A%3A%3Aerror%3A%3Aforged" in line.split("::")[1]
    assert "%250A" in line


def test_the_summary_is_cut_below_the_limit():
    long = tuple(Anomaly(type=f"kind-{n}", title="t", explanation="ä" * 5_000) for n in range(200))
    run = replace(broken_run(), verdict=Verdict(valid=False, checker="all", anomalies=long))
    text = render_step_summary(run)
    assert len(text.encode()) < SUMMARY_BYTES_MAX + 200
    assert text.endswith("The rest is in report.md in the run's folder.\n")


def test_nothing_is_told_outside_of_github(tmp_path: Path):
    stream = io.StringIO()
    assert publish_to_github(broken_run(), {}, stream) is False
    assert stream.getvalue() == ""
    assert list(tmp_path.iterdir()) == []


def test_github_is_told_where_it_asks(tmp_path: Path):
    stream, summary = io.StringIO(), tmp_path / "summary.md"
    summary.write_text("before\n")
    assert (
        publish_to_github(broken_run(), {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(summary)}, stream) is True
    )
    assert stream.getvalue().count("::error title=") == 3
    assert summary.read_text().startswith("before\n# ✕ INVALID")
