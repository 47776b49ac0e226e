"""The metadata log: forks, gaps and losses; and snapshots, late joiners and newer entries, which are none of these."""

from __future__ import annotations

import orjson
from histories import judged

from schemaquake.checkers.topology.metadata_log import MetadataLog

LOG = [[1, "1", "a"], [2, "4", "b"], [3, "4", "c"], [4, "21", "d"]]


def log(node, entries, phase="settled,restarted"):
    return f"{phase} {node} epochs {orjson.dumps({'entries': entries}).decode()}"


def verdict(*lines):
    return MetadataLog().check(judged([], lines), limit_s=5)


def found(*lines):
    return [(one.type, one.nodes) for one in verdict(*lines).anomalies]


def test_one_log_on_all_nodes_is_valid():
    result = verdict(log("n1", LOG), log("n2", LOG))
    assert (result.valid, result.doubts) == (True, ())


def test_an_epoch_with_two_entries_is_a_fork():
    for other in ([3, "4", "x"], [3, "5", "c"]):
        assert found(log("n1", LOG), log("n2", [*LOG[:2], other, LOG[3]])) == [("forked-metadata-log", ("n1", "n2"))]


def test_a_restart_that_rewrites_an_epoch_is_a_fork():
    assert found(log("n1", LOG, "settled"), log("n1", [*LOG[:3], [4, "21", "x"]], "restarted")) == [
        ("forked-metadata-log", ("n1",))
    ]


def test_a_skipped_epoch_is_a_gap_on_that_node():
    assert found(log("n1", LOG), log("n2", [LOG[0], *LOG[2:]], "settled")) == [("gap-in-metadata-log", ("n2",))]


def test_a_snapshot_explains_a_gap_and_a_joiner_begins_late():
    snapshot = [*LOG, [5, "2", "e"]]
    assert found(log("n1", snapshot), log("n2", [LOG[0], snapshot[-1]]), log("n3", LOG[2:], "settled")) == []


def test_what_was_known_before_the_restart_is_not_lost_after_it():
    lines = [log("n1", LOG), log("n2", LOG[:3], "settled"), log("n2", LOG, "restarted")]
    assert found(*lines) == []
    assert found(*lines[:2], log("n2", LOG[:3], "restarted")) == [("lost-metadata", ("n1", "n2"))]
    # Newer entries than those of the settled cluster may still be on their way.
    newer = [*LOG, [5, "4", "e"]]
    assert found(log("n1", LOG, "settled"), log("n1", newer, "restarted"), log("n2", LOG)) == []


def test_without_entries_there_is_nothing_to_judge():
    for lines in ([], [log("n1", [])]):
        assert [doubt.kind for doubt in verdict(*lines).doubts] == ["nothing-to-judge"]
