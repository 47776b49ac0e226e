"""junit.xml: what a build server makes of a run. Nothing undecided may look green."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest
from synthetic_run import broken_run, held_run

from schemaquake.harness.model.verdict import Anomaly, Doubt, Verdict
from schemaquake.results.report.junit import render_report_junit
from schemaquake.results.report.material import Material


def read(material: Material) -> ET.Element:
    return ET.fromstring(render_report_junit(material).encode())  # noqa: S314 - our own document


def cases(material: Material) -> dict[tuple[str, str], ET.Element | None]:
    """(class, name) → what is said of it; None is a pass."""
    root = read(material)
    return {(case.get("classname", ""), case.get("name", "")): next(iter(case), None) for case in root.iter("testcase")}


def test_every_checker_and_every_race_is_a_case():
    found = cases(broken_run())
    assert ("schemaquake.checkers", "table-ids") in found
    assert ("schemaquake.races", "drop-type") in found
    assert ("schemaquake.findings", "SQ-E3ZATWYL") in found
    assert len(found) == 3 + 9 + 2


def test_invalid_is_a_failure_with_its_explanation():
    said = cases(broken_run())["schemaquake.checkers", "references"]
    assert said is not None
    assert said.tag == "failure"
    assert "5 anomalies: dangling-type" in said.get("message", "")
    assert "One of the two had to be refused." in (said.text or "")


def test_unknown_is_an_error_and_never_skipped():
    said = cases(broken_run())["schemaquake.checkers", "writability"]
    assert said is not None
    assert said.tag == "error"
    assert "n1 and n2 did not come back" in said.get("message", "")


def test_a_broken_race_is_a_failure_that_counts():
    said = cases(broken_run())["schemaquake.races", "drop-type"]
    assert said is not None
    assert said.tag == "failure"
    assert said.get("message") == "5 of 6 races broke: dangling-type in 5, node-will-not-start in 5"


def test_races_of_an_undecided_run_are_errors():
    found = cases(held_run(undecided=True))
    assert {said.tag for (group, _), said in found.items() if group.endswith("races") and said is not None} == {"error"}
    assert None not in [said for (group, _), said in found.items() if group.endswith("races")]


def test_a_run_that_held_passes_everywhere():
    assert set(cases(held_run()).values()) == {None}


def test_a_race_in_which_nothing_was_acknowledged_is_an_error():
    run = held_run()
    refused = run.races.to_pylist()
    for row in refused:
        row |= {"ok": 0, "fail": 2}
    races = type(run.races).from_pylist(refused, schema=run.races.schema)
    said = cases(replace(run, races=races))["schemaquake.races", "drop-type"]
    assert said is not None
    assert said.tag == "error"
    assert "nothing to judge" in said.get("message", "")


def test_a_checker_with_nothing_to_judge_is_skipped_only_where_the_others_decided():
    silent = Verdict.unknown("views", Doubt("nothing-to-judge", "no view was made"))
    for run, expected in ((held_run(), "skipped"), (held_run(undecided=True), "error")):
        verdict = replace(run.verdict, parts=(*run.verdict.parts, silent))
        said = cases(replace(run, verdict=verdict))["schemaquake.checkers", "views"]
        assert said is not None
        assert said.tag == expected


def test_the_totals_are_those_of_the_cases():
    root = read(broken_run())
    suites = list(root.iter("testsuite"))
    for name in ("tests", "failures", "errors", "skipped"):
        assert int(root.get(name, "")) == sum(int(suite.get(name, "")) for suite in suites)
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("14", "10", "1")


def test_characters_that_xml_cannot_hold_are_replaced():
    evil = "\x00\x1b[31m]]></failure><x>\ufffe"
    anomaly = Anomaly(type=evil, title=evil, objects=(evil,), explanation=evil)
    verdict = Verdict(valid=False, checker=evil, anomalies=(anomaly,))
    root = read(replace(broken_run(), verdict=verdict, run=evil))
    assert root.find(".//x") is None
    assert "</failure><x>" in (root.find(".//failure").text or "")  # type: ignore[union-attr]


def test_a_build_server_reads_the_same():
    junitparser = pytest.importorskip("junitparser")
    parsed = junitparser.JUnitXml.fromstring(render_report_junit(broken_run()).encode())
    results = {case.name: [type(result).__name__ for result in case.result] for suite in parsed for case in suite}
    assert results["references"] == ["Failure"]
    assert results["writability"] == ["Error"]
    assert results["table-ids"] == []
    assert parsed.tests == 14
