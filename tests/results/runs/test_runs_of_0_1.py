"""Runs that version 0.1 judged can be reported as they are, and judged again."""

from __future__ import annotations

import orjson
import pytest
from recorded_0_1 import lay_out_old_run, old_verdict

from schemaquake.harness.model.verdict import Verdict
from schemaquake.results.matrix.facts import RunFacts
from schemaquake.results.runs.execution import conclude, write_reports
from schemaquake.results.store.store import Store

RUNS = ["broken", "cut-short"]


@pytest.mark.parametrize("name", RUNS)
def test_its_reports_are_drawn_from_the_verdict_of_0_1(name, tmp_path):
    run = lay_out_old_run(name, tmp_path)
    page = write_reports(run)
    assert page.is_file()
    told = (run / "report.md").read_text(encoding="utf-8")
    for anomaly in old_verdict(name)["anomalies"]:
        assert anomaly["type"] in told
    assert orjson.loads((run / "verdict.json").read_bytes()) == old_verdict(name), "only `check` writes it anew"


@pytest.mark.parametrize("name", RUNS)
def test_it_is_judged_again_to_the_same_answer(name, tmp_path):
    run = lay_out_old_run(name, tmp_path)
    old = Verdict.from_json(old_verdict(name))
    conclude(run, engine="local")
    new = Store(run).read_verdict()
    assert orjson.loads((run / "verdict.json").read_bytes())["schema"] == 2
    assert new.valid == old.valid
    before_by_checker = {part.checker: part for part in old.parts}
    assert [part.checker for part in new.parts if part.checker not in NEW] == list(before_by_checker)
    for part in new.parts:
        if part.checker in NEW:
            continue
        before = before_by_checker[part.checker]
        if part.checker in SHARPER:
            assert all(one in found(part) for one in found(before))
        else:
            assert kinds(part) == kinds(before)
    checkers = {part.checker for part in new.parts} - SHARPER
    mine = {(doubt.kind, doubt.checker) for doubt in new.doubts if doubt.checker not in SHARPER}
    assert mine == {(doubt.kind, doubt.checker) for doubt in old.doubts if doubt.checker in {None, *checkers}}


NEW = {
    "defaults",
    "definitions",
    "membership",
    "metadata-log",
    "placements",
    "replica-sets",
    "sightings",
    "upgrades",
    "visibility",
}
"""Checkers that 0.1 had not (issues 12, 16 and 17)."""
SHARPER = {"data-directories", "writability", *NEW}
"""Checkers that find or doubt more than in 0.1, where one missing node excused every probe above ONE (issue 12)."""


def kinds(part: Verdict) -> tuple[object, ...]:
    """What programs compare of a checker's verdict."""
    doubts = sorted({doubt.kind for doubt in part.doubts})
    return part.checker, part.valid, found(part), doubts, part.undecided, part.judged_nothing


def found(part: Verdict) -> list[tuple[object, ...]]:
    """What programs compare of anomalies: everything but the title and the explanation, which later versions word anew."""
    return [(one.type, one.objects, one.nodes, one.ops, one.evidence) for one in part.anomalies]


def test_facts_of_a_matrix_of_0_1_are_read():
    race = {"keyspace": "sq_0", "workload": "drop-type", "number": 0, "acknowledged": 2, "anomalies": []}
    document = {
        "run": "runs/a",
        "completed": True,
        "applicable": True,
        "error": "",
        "seconds": 1.0,
        "races": [{**race, "doubts": [["acked-rows", "the time limit of 60 s passed after 2 objects"]]}],
        "at_large": [],
        "doubts": [["restart", "nothing to judge: no node was restarted"], ["run", "it was not completed: killed"]],
        "findings": [],
    }
    facts = RunFacts.from_json(document)
    assert [(doubt.checker, doubt.kind, doubt.weighs) for doubt in facts.doubts] == [
        ("restart", "nothing-to-judge", False),
        ("run", "incomplete-run", True),
    ]
    assert [(doubt.checker, doubt.kind) for doubt in facts.races[0].doubts] == [("acked-rows", "time")]
    assert RunFacts.from_json(facts.to_json()) == facts
