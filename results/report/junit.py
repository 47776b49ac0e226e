"""junit.xml: the run for a build server: one test case per finding, per checker and per racing workload.

`invalid` is a failure and `unknown` is an error: build servers show `skipped` in green, and a check that could not decide
has not passed. A checker is skipped only if it had nothing to judge and the others decided the run. The format is xunit2, as
read by Jenkins and GitLab and written by pytest.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal
from xml.etree import ElementTree as ET

from schemaquake.harness.model.verdict import Anomaly, Verdict
from schemaquake.results.mode import mode_of
from schemaquake.results.report.findings import ReportedFinding, WorkloadSummary, report_findings, summarise_workloads
from schemaquake.results.report.material import Material, anomalies_of, checkers_of, counts
from schemaquake.results.wording import counted, shortened

__all__ = ["render_report_junit"]

TEXT_LIMIT = 60_000
"""Maximum length of a failure's text, characters: build servers keep the whole file in memory."""


@dataclass(frozen=True, slots=True)
class _Case:
    name: str
    result: Literal["passed", "failure", "error", "skipped"]
    message: str = ""
    type: str = ""
    text: str = ""


def render_report_junit(material: Material) -> str:
    """Render the document, with its XML declaration."""
    verdict = material.verdict
    suites = (
        [("findings", [_finding(reported) for reported in report_findings(material)])]
        if material.grouped.findings
        else []
    )
    suites += [("checkers", [_checker(part, counts=counts(verdict, part)) for part in checkers_of(verdict)])]
    races = [_race(material, summary) for summary in summarise_workloads(material)]
    if races:
        suites.append(("races", races))
    root = ET.Element("testsuites", {"name": "schemaquake", **_counts([case for _, cases in suites for case in cases])})
    root.set("time", f"{material.duration / 1e9:.3f}")
    for name, cases in suites:
        root.append(_suite(material, name, cases))
    ET.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _suite(material: Material, name: str, cases: Sequence[_Case]) -> ET.Element:
    system = _clean(str(material.plan.get("system", "")))
    suite = ET.Element("testsuite", {"name": f"{system} {name}", **_counts(cases)})
    suite.set("time", f"{material.duration / 1e9:.3f}")
    if material.started is not None:
        suite.set("timestamp", f"{material.started:%Y-%m-%dT%H:%M:%S}")
    properties = ET.SubElement(suite, "properties")
    plan = {**material.plan, "mode": mode_of(material.plan)}
    for key in ("system", "workloads", "nemeses", "mode", "nodes", "seed", "schemaquake_version"):
        value = plan.get(key)
        text = ",".join(value) if isinstance(value, list | tuple) else str(value)
        ET.SubElement(properties, "property", name=key, value=_clean(text))
    ET.SubElement(properties, "property", name="run", value=_clean(material.run))
    for case in cases:
        _add_case(suite, f"schemaquake.{name}", case)
    return suite


def _add_case(suite: ET.Element, classname: str, case: _Case) -> None:
    element = ET.SubElement(suite, "testcase", classname=classname, name=_clean(case.name), time="0")
    if case.result == "skipped":
        ET.SubElement(element, "skipped", message=_clean(case.message))
    elif case.result != "passed":
        result = ET.SubElement(element, case.result, message=_clean(case.message), type=_clean(case.type))
        result.text = _clean(shortened(case.text, TEXT_LIMIT))


def _counts(cases: Sequence[_Case]) -> dict[str, str]:
    results = [case.result for case in cases]
    return {
        "tests": str(len(results)),
        "failures": str(results.count("failure")),
        "errors": str(results.count("error")),
        "skipped": str(results.count("skipped")),
    }


def _finding(reported: ReportedFinding) -> _Case:
    """Return the case of a finding, under its id: build servers follow a case by its name."""
    message = f"{reported.title}: {reported.how_often}" + (f", {reported.standing}" if reported.standing else "")
    anomalies = [anomaly for symptom in reported.symptoms for anomaly in symptom.anomalies]
    return _Case(reported.id, "failure", message, ", ".join(reported.types), _describe_anomalies(anomalies))


def _checker(part: Verdict, *, counts: bool) -> _Case:
    if part.valid is True:
        return _Case(part.checker, "passed")
    if not counts:
        return _Case(part.checker, "skipped", part.reason or "nothing to judge")
    if part.valid == "unknown":
        reason = part.reason or "no reason given"
        return _Case(part.checker, "error", f"unknown: {reason}", "unknown", reason)
    anomalies = anomalies_of(part)
    types = dict.fromkeys(anomaly.type for anomaly in anomalies)
    message = f"{counted(len(anomalies), 'anomaly', 'anomalies')}: {', '.join(types)}"
    return _Case(part.checker, "failure", message, ", ".join(types), _describe_anomalies(anomalies))


def _race(material: Material, summary: WorkloadSummary) -> _Case:
    if summary.standing == "held":
        return _Case(summary.workload, "passed")
    if summary.standing == "unknown":
        return _Case(summary.workload, "error", f"unknown: {summary.reason()}", "unknown", summary.reason())
    keyspaces = {race.keyspace for race in summary.broken}
    concerned = [
        anomaly
        for anomaly in anomalies_of(material.verdict)
        if any(name.split(".", 1)[0] in keyspaces for name in anomaly.objects)
    ]
    return _Case(
        summary.workload, "failure", summary.reason(), ", ".join(summary.broke), _describe_anomalies(concerned)
    )


def _describe_anomalies(anomalies: Sequence[Anomaly]) -> str:
    return "\n\n".join(
        f"{anomaly.type}: {anomaly.title} ({', '.join(anomaly.objects) or 'the whole cluster'})\n{anomaly.explanation}"
        for anomaly in anomalies
    )


def _clean(text: str) -> str:
    """Replace the characters that XML 1.0 cannot represent, not even escaped."""
    return re.sub("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", text)
