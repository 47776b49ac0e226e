"""Verdicts of version 0.1: their sentences become doubts, and nothing else changes."""

from __future__ import annotations

import pytest
from recorded_0_1 import old_verdict

from schemaquake.harness.model.verdict import Anomaly, Doubt, Stat, Verdict
from schemaquake.harness.model.verdict_upgrade import upgrade_doubt

RUNS = ["broken", "cut-short"]
UNREAD = "n2 could not be read in phase settled: no reading of it was recorded"


@pytest.mark.parametrize(
    ("reason", "kind", "text"),
    [
        ("nothing to judge: no table", "nothing-to-judge", "no table"),
        ("nothing to judge for bank, counter and 2 more", "nothing-to-judge", "for bank, counter and 2 more"),
        ("the time limit of 60 s passed after 3 objects", "time", None),
        ("its time limit of 60 s had passed before it came to this", "time", None),
        ("it was ended: it did not end by itself within twice its limit of 60 s", "time", None),
        ("the memory limit of 512 MiB was reached for key 3", "memory", None),
        ("to know what happened before what would take more than 2 GiB of memory", "memory", None),
        ("the machine's memory does not suffice for what it has to judge", "memory", None),
        ("n1 could not be read in phase settled: OperationTimedOut", "unread", None),
        ("n1 was not read after every node was restarted: no reading of it was recorded", "unread", None),
        ("no node was read after the cluster settled", "unread", None),
        ("it crashed, which says nothing about the cluster.\nTraceback; the time limit", "crashed", None),
        ("it contradicts itself: valid, with anomalies", "crashed", None),
        ("the run was not completed: node n2 died", "incomplete-run", None),
        ("the run never began: no Java 11", "incomplete-run", None),
        ("no operation succeeded", "undecided", None),
        ("key 7 was written more than once: not for this check", "undecided", None),
    ],
)
def test_a_reason_of_0_1_is_a_doubt_of_its_kind(reason, kind, text):
    assert upgrade_doubt(reason) == {"kind": kind, "text": reason if text is None else text}
    assert upgrade_doubt(reason, checker="c")["checker"] == "c"


@pytest.mark.parametrize("run", RUNS)
def test_a_verdict_of_0_1_has_the_same_answers_and_findings(run):
    document = old_verdict(run)
    verdict = Verdict.from_json(document)
    assert "schema" not in document
    for old, new in zip([document, *document["parts"]], [verdict, *verdict.parts], strict=True):
        assert new.valid == old["valid"]
        assert new.checker == old["checker"]
        assert new.anomalies == tuple(Anomaly.from_json(one) for one in old["anomalies"])
        assert new.figures == {name: value for name, value in old["stats"].items() if name != "undecided"}
        assert bool(new.doubts) == bool(old.get("reason"))
        assert new.judged_nothing == (old["valid"] == "unknown" and old["reason"].startswith("nothing to judge"))


@pytest.mark.parametrize("run", RUNS)
def test_a_verdict_of_0_1_is_written_as_one_of_today(run):
    verdict = Verdict.from_json(old_verdict(run))
    assert verdict.to_json()["schema"] == 2
    assert Verdict.from_json(verdict.to_json()) == verdict


def test_the_doubts_of_a_run_that_was_cut_short_are_each_of_its_checker():
    verdict = Verdict.from_json(old_verdict("cut-short"))
    incomplete, *others, nothing = verdict.doubts
    assert incomplete == Doubt(
        "incomplete-run",
        "the run was not completed: interrupted; every fault was healed and every node ended",
    )
    unread = ["acked-rows", "alterations", "merged-definitions", "objects", "observed", "table-ids", "writability"]
    assert [(doubt.kind, doubt.checker) for doubt in others] == [("unread", checker) for checker in unread]
    assert (nothing.kind, nothing.checker) == ("nothing-to-judge", None)


def test_keyspaces_that_were_undecided_are_those_of_the_doubts():
    parts = {part.checker: part for part in Verdict.from_json(old_verdict("cut-short")).parts}
    assert parts["acked-rows"].undecided == ("sq_drop_type_000",)
    assert parts["acked-rows"].doubts == (Doubt("unread", UNREAD, ("sq_drop_type_000",)),)
    assert parts["references"].undecided == (), "it decided every keyspace"
    assert parts["quorum"].undecided == (), "no keyspace had anything for it"
    assert parts["observed"].undecided is None, "it judges the run as a whole"


def test_several_doubts_of_one_checker_stay_its_own():
    part = {"valid": "unknown", "checker": "observed", "anomalies": [], "stats": {"operations": 3}, "reason": "a; b"}
    reason = "observed: a; b; no checker found anything to judge in ks, where operations succeeded"
    whole = {"valid": "unknown", "checker": "all", "anomalies": [], "stats": {}, "reason": reason, "parts": [part]}
    verdict = Verdict.from_json(whole)
    assert [doubt.checker for doubt in verdict.doubts] == ["observed", "observed", None]
    assert verdict.parts[0].doubts == (Doubt("undecided", "a"), Doubt("undecided", "b"))
    assert verdict.parts[0].stats == {"operations": Stat(3)}
