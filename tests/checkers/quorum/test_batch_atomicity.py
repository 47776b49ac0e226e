"""Batch atomicity: all of a batch or nothing, in the end; a replay under way is no anomaly."""

from __future__ import annotations

from random import Random
from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from quorum_store import table

from schemaquake.checkers.quorum.batch_atomicity import BatchAtomicity
from schemaquake.harness.errors import HistoryError
from schemaquake.harness.model.records import HISTORY, Records
from schemaquake.harness.model.verdict import Verdict

TABLES = ("a", "b", "c")


def operation(
    process: int, begins_s: float, ends_s: float, f: str, key: str, value: Any, told: Any, kind: str = "ok"
) -> list[dict[str, Any]]:
    """The two events of one operation through n1."""
    both = [(begins_s, "invoke", value, None), (ends_s, kind, told, None if kind == "ok" else "WriteTimeout: …")]
    return [
        {
            "time": int(time_s * 1e9),
            "process": process,
            "type": of_event,
            "f": f,
            "node": "n1",
            "key": key,
            "value": None if document is None else orjson.dumps(document).decode(),
            "error": error,
            "mops": None,
        }
        for time_s, of_event, document, error in both
    ]


KEYSPACE = operation(0, 0, 0.1, "create-keyspace", "k", {"replication": {"class": "S", "replication_factor": 3}}, None)


def batch(number: int, kind: str = "ok", *, level: str = "QUORUM", at_s: float = 1) -> list[dict[str, Any]]:
    value = {"id": number, "tables": list(TABLES), "consistency": level}
    return operation(number, at_s, at_s + 0.5, "batch", "k", value, value, kind)


def read(at_s: float, name: str, *ids: int, kind: str = "ok", level: str = "ALL") -> list[dict[str, Any]]:
    told = list(ids) if kind == "ok" else None
    process = 1_000_000 + int(at_s * 1000) * 8 + TABLES.index(name)
    return operation(process, at_s, at_s + 0.2, "read-batches", f"k.{name}", {"consistency": level}, told, kind)


def read_all(at_s: float, a: list[int], b: list[int], c: list[int]) -> list[dict[str, Any]]:
    return [*read(at_s, "a", *a), *read(at_s, "b", *b), *read(at_s, "c", *c)]


def judge(*events: list[dict[str, Any]]) -> Verdict:
    return BatchAtomicity().check(Records.of(table([row for some in (KEYSPACE, *events) for row in some])), limit_s=10)


def types(verdict: Verdict) -> list[str]:
    return [anomaly.type for anomaly in verdict.anomalies]


def test_batches_that_are_there_as_a_whole_or_not_at_all_are_valid() -> None:
    verdict = judge(
        batch(1), batch(2, "info"), batch(3, "fail"), batch(4, "info"), read_all(20, [1, 2], [1, 2], [1, 2])
    )
    assert verdict.valid is True
    assert verdict.figures == {
        "batches": 4,
        "acknowledged": 1,
        "of_unknown_outcome": 2,
        "readings": 3,
        "lost_batch": 0,
        "torn_batch": 0,
        "refused_batch_applied": 0,
        "unwritten_value": 0,
        "repeated_rows": 0,
    }


def test_an_acknowledged_batch_that_is_nowhere_is_lost() -> None:
    verdict = judge(batch(1), batch(2), read_all(20, [2], [2], [2]))
    (found,) = verdict.anomalies
    assert found.type == "lost-batch"
    assert found.objects == ("k.a", "k.b", "k.c")
    assert found.ops == (2, 8)
    assert found.evidence["examples"][0]["batch"] == 1
    assert found.explanation == (
        "Let  T1 = op 2: p1 n1 logged batch 1 at QUORUM into k.a, k.b and k.c -> ok at 1.500 s\n"
        "Then T1 was acknowledged, so every later reading at a level that overlaps with it must show its rows, in all of its tables.\n"
        "     But batch 1 is not in k.a (op 6 at ALL, 20.200 s), k.b (op 7 at ALL, 20.200 s) and k.c (op 8 at ALL, "
        "20.200 s), and no reading shows it at all."
    )


def test_an_acknowledged_batch_that_lacks_one_row_is_torn() -> None:
    verdict = judge(batch(1), read_all(20, [1], [], [1]))
    (found,) = verdict.anomalies
    assert found.type == "torn-batch"
    (example,) = found.evidence["examples"]
    assert {entry["table"] for entry in example["not_there"]} == {"k.b"}
    assert {entry["table"] for entry in example["there"]} == {"k.a", "k.c"}


def test_an_acknowledged_batch_that_was_lost_later_is_torn_even_if_it_was_once_whole() -> None:
    verdict = judge(batch(1), read_all(20, [1], [1], [1]), read_all(60, [], [], []))
    assert types(verdict) == ["torn-batch"]


def test_a_reading_before_the_batch_was_acknowledged_need_not_show_it() -> None:
    assert judge(batch(1, at_s=20), read_all(20.3, [1], [], []), read_all(40, [1], [1], [1])).valid is True


@pytest.mark.parametrize(
    ("writes", "reads", "valid"), [("ONE", "ONE", "unknown"), ("ONE", "ALL", False), ("QUORUM", "QUORUM", False)]
)
def test_only_readings_that_must_meet_a_batch_count(writes: str, reads: str, valid: object) -> None:
    readings = [row for name in TABLES for row in read(20, name, level=reads)]
    assert judge(batch(1, level=writes), readings).valid is valid


def test_a_batch_of_unknown_outcome_that_stays_in_part_is_torn() -> None:
    verdict = judge(batch(1, "info"), read_all(20, [1], [], [1]), read_all(32, [1], [], [1]))
    (found,) = verdict.anomalies
    assert found.type == "torn-batch"
    assert {entry["table"] for entry in found.evidence["examples"][0]["not_there"]} == {"k.b"}


def test_a_batch_that_is_carried_out_late_is_not_torn() -> None:
    assert judge(batch(1, "info"), read_all(20, [1], [], [1]), read_all(32, [1], [1], [1])).valid is True


def test_a_batch_that_was_seen_in_part_only_at_the_very_end_is_not_decided() -> None:
    verdict = judge(batch(1, "info"), read_all(20, [], [], []), read_all(32, [1], [], [1]))
    assert verdict.valid == "unknown"
    assert [doubt.kind for doubt in verdict.doubts] == ["undecided"]


def test_a_table_that_was_never_read_leaves_its_batches_open() -> None:
    verdict = judge(batch(1), read(20, "a", 1), read(20, "b", 1), read(20, "c", kind="fail"))
    assert verdict.valid == "unknown"
    assert [doubt.kind for doubt in verdict.doubts] == ["unread"]
    assert types(judge(batch(1), read(20, "a", 1), read(20, "b"), read(20, "c", kind="fail"))) == ["torn-batch"]


def test_a_refused_batch_that_is_there_is_found() -> None:
    verdict = judge(batch(1, "fail"), read_all(20, [], [1], []))
    (found,) = verdict.anomalies
    assert found.type == "refused-batch-applied"
    assert {entry["table"] for entry in found.evidence["examples"][0]["there"]} == {"k.b"}


@pytest.mark.parametrize(
    ("events", "number", "op"),
    [
        ([batch(1), read_all(20, [1, 9], [1], [1])], 9, None),
        ([batch(1, at_s=30), read_all(20, [1], [], []), read_all(40, [1], [1], [1])], 1, 8),
    ],
    ids=["never written", "not yet written"],
)
def test_a_reading_of_a_batch_that_was_not_written_by_then_is_found(
    events: list[list[dict[str, Any]]], number: int, op: int | None
) -> None:
    (found,) = judge(*events).anomalies
    assert found.type == "unwritten-value"
    assert [(example["batch"], example["op"]) for example in found.evidence["examples"]] == [(number, op)]


def test_without_batches_or_readings_there_is_nothing_to_judge() -> None:
    for events in ([], [batch(1)], [read_all(20, [], [], [])]):
        verdict = judge(*events)
        assert verdict.valid == "unknown"
        assert verdict.judged_nothing


def test_two_batches_of_one_number_are_refused() -> None:
    other = [{**row, "process": 7} for row in batch(1, at_s=3)]
    with pytest.raises(HistoryError, match="op 2 and op 4 are both batch 1"):
        judge(batch(1), other, read_all(20, [1], [1], [1]))


def test_a_batch_without_tables_is_refused() -> None:
    with pytest.raises(HistoryError, match="op 2: a batch has a number and tables"):
        judge(operation(1, 1, 2, "batch", "k", {"id": 1}, None), read_all(20, [], [], []))


KINDS = st.lists(st.tuples(st.sampled_from(["ok", "info", "fail"]), st.booleans()), min_size=1, max_size=30)


def carried_out(kinds: list[tuple[str, bool]]) -> pa.Table:
    """Batches of a cluster that keeps its promises: some of unknown outcome are replayed between two readings."""
    random = Random(len(kinds))
    there, later = [], []
    events = [KEYSPACE]
    for number, (kind, applied) in enumerate(kinds, 1):
        events.append(batch(number, kind))
        if kind == "ok" or (kind == "info" and applied):
            (later if kind == "info" and random.random() < 0.3 else there).append(number)
    everything = sorted(there + later)
    events += [read_all(20, there, there, there), read_all(32, everything, everything, everything)]
    return table([row for some in events for row in some])


@settings(deadline=None)
@given(KINDS)
def test_a_cluster_that_keeps_its_promises_is_never_accused(kinds: list[tuple[str, bool]]) -> None:
    assert BatchAtomicity().check(Records.of(carried_out(kinds)), limit_s=10).valid is True


@settings(deadline=None)
@given(KINDS, st.randoms())
def test_a_row_taken_from_a_batch_is_always_found(kinds: list[tuple[str, bool]], random: Random) -> None:
    rows = carried_out(kinds).to_pylist()
    there = orjson.loads(next(row for row in reversed(rows) if row["key"] == "k.b" and row["type"] == "ok")["value"])
    seen = orjson.loads(next(row for row in rows if row["key"] == "k.b" and row["type"] == "ok")["value"])
    known = sorted(set(there) & set(seen))
    if not known:
        return
    victim = random.choice(known)
    for row in rows:
        if row["key"] == "k.b" and row["type"] == "ok":
            row["value"] = orjson.dumps([number for number in orjson.loads(row["value"]) if number != victim]).decode()
    verdict = BatchAtomicity().check(Records.of(pa.Table.from_pylist(rows, schema=HISTORY)), limit_s=10)
    assert [(a.type, a.evidence["examples"][0]["batch"]) for a in verdict.anomalies] == [("torn-batch", victim)]


@settings(deadline=None)
@given(KINDS)
def test_forgetting_acknowledgements_never_accuses(kinds: list[tuple[str, bool]]) -> None:
    rows = carried_out(kinds).to_pylist()
    for row in rows:
        if row["f"] == "batch" and row["type"] == "ok":
            row.update(type="info", value=None)
    verdict = BatchAtomicity().check(Records.of(pa.Table.from_pylist(rows, schema=HISTORY)), limit_s=10)
    assert verdict.valid is True


def removed(
    at_s: float, node: str, kind: str = "ok", *, number: int = 0, loses_disk: bool = True
) -> list[dict[str, Any]]:
    """The removal of a node, whose disk nobody can read any more."""
    parameters = {"loses_disk": True} if loses_disk else {}
    value = {"operation": number, "nodes": [node], "parameters": parameters, "becomes": {node: "left"}}
    return operation(-1, at_s, at_s + 1, "removenode", None, value, value, kind)


TWO = [*removed(5, "n2"), *removed(8, "n3", number=1)]


@pytest.mark.parametrize(
    ("level", "losses", "reads", "valid"),
    [
        pytest.param("QUORUM", [], "ALL", False, id="none was lost"),
        pytest.param("QUORUM", removed(5, "n2"), "ALL", False, id="one of two copies is left"),
        pytest.param("QUORUM", TWO, "ALL", "unknown", id="both copies may be gone"),
        pytest.param("ALL", TWO, "ALL", False, id="one of three copies is left"),
        pytest.param("ONE", removed(5, "n2"), "ALL", "unknown", id="the only copy may be gone"),
        pytest.param("QUORUM", removed(5, "n2"), "QUORUM", "unknown", id="two of three may be asked that have none"),
        pytest.param("ALL", removed(5, "n2"), "QUORUM", False, id="one of any two has it"),
        pytest.param("ONE", removed(5, "n2", "fail"), "ALL", False, id="the removal was refused"),
        pytest.param("ONE", removed(5, "n2", "info"), "ALL", "unknown", id="the removal is of unknown outcome"),
        pytest.param("ONE", removed(5, "n2", loses_disk=False), "ALL", False, id="its rows were handed over"),
        pytest.param("ONE", removed(0.2, "n2"), "ALL", "unknown", id="it went on as the batch was begun"),
        pytest.param("ONE", removed(40, "n2"), "ALL", False, id="it was removed after the reading"),
    ],
)
def test_a_disk_that_was_taken_away_may_have_had_a_copy_of_a_batch(
    level: str, losses: list[dict[str, Any]], reads: str, valid: object
) -> None:
    for others, kind in (([], "lost-batch"), ([1], "torn-batch")):
        readings = [*read(20, "a", *others, level=reads), *read(20, "b", level=reads), *read(20, "c", level=reads)]
        events = sorted([*batch(1, level=level), *losses, *readings], key=lambda row: row["time"])
        verdict = judge(events)
        assert verdict.valid is valid
        assert types(verdict) == ([kind] if valid is False else [])
        assert [doubt.kind for doubt in verdict.doubts] == ([] if valid is False else ["undecided"])
        # What is there is right, whatever was lost.
        whole = [row for name in TABLES for row in read(20, name, 1, level=reads)]
        there = judge(sorted([*batch(1, level=level), *losses, *whole], key=lambda row: row["time"]))
        assert (there.valid, there.doubts) == (True, ())


def test_a_disk_that_was_lost_before_a_batch_was_begun_had_no_copy_of_it() -> None:
    early = [*removed(1, "n2"), *removed(2.5, "n3", number=1)]
    events = sorted([*early, *batch(1, level="ONE", at_s=4), *read_all(20, [], [], [])], key=lambda row: row["time"])
    assert types(judge(events)) == ["lost-batch"]


def test_a_reading_before_a_disk_was_lost_counts_as_ever() -> None:
    rows = [*batch(1), *read_all(3, [1], [], [1]), *TWO, *read_all(20, [], [], [])]
    verdict = judge(sorted(rows, key=lambda row: row["time"]))
    (found,) = verdict.anomalies
    assert [(each["table"], each["at_s"]) for each in found.evidence["examples"][0]["not_there"]] == [("k.b", 3.2)]


@pytest.mark.parametrize(
    ("at_s", "valid"),
    [
        pytest.param(15, "unknown", id="its only copy may be gone"),
        pytest.param(40, False, id="lost after all readings"),
    ],
)
def test_a_batch_of_unknown_outcome_that_is_there_in_part_may_have_lost_the_rest(at_s: float, valid: object) -> None:
    rows = [*batch(1, "info"), *removed(at_s, "n2"), *read_all(20, [1], [], [1]), *read_all(32, [1], [], [1])]
    verdict = judge(sorted(rows, key=lambda row: row["time"]))
    assert (verdict.valid, types(verdict)) == (valid, ["torn-batch"] * (valid is False))
    whole = [*batch(1, "info"), *removed(at_s, "n2"), *read_all(20, [1], [1], [1]), *read_all(32, [1], [1], [1])]
    assert judge(sorted(whole, key=lambda row: row["time"])).valid is True


@pytest.mark.parametrize("level", ["ALL", "ONE"])
def test_one_answer_lists_a_batch_once(level: str) -> None:
    both = (batch(1), batch(2))
    whole = (read(20, "a", 1, 2), read(20, "b", 1, 2), read(20, "c", 1, 2))
    again = read(30, "b", 1, 2, 1, level=level)
    assert types(judge(*both, *whole, read(30, "b", 2, 1, level=level))) == []
    verdict = judge(*both, *whole, again)
    assert types(verdict) == ["repeated-rows"]
    assert "batch 1 is more than once in k.b" in verdict.anomalies[0].explanation


def test_it_vouches() -> None:
    assert BatchAtomicity().vouches


@pytest.mark.parametrize(
    ("events", "missing"),
    [([batch(1)], "table of batches was read"), ([read_all(20, [], [], [])], "batch was written")],
)
def test_what_is_lacking_is_named(events: list[list[dict[str, Any]]], missing: str) -> None:
    assert [doubt.text for doubt in judge(*events).doubts] == [f"no {missing}"]


def replicated(count: int, f: str = "alter-keyspace") -> list[dict[str, Any]]:
    return operation(0, 0.2, 0.3, f, "k", {"replication": {"class": "S", "replication_factor": count}}, None)


def test_by_several_replication_factors_or_none_nothing_is_decided() -> None:
    lost = [*batch(1), *read_all(20, [], [], [])]
    assert types(judge(replicated(3), lost)) == ["lost-batch"]
    for verdict in (judge(replicated(2), lost), BatchAtomicity().check(Records.of(table(lost)), limit_s=10)):
        assert (verdict.valid, [doubt.kind for doubt in verdict.doubts]) == ("unknown", ["undecided"])
        assert "replication factor" in verdict.doubts[0].text


def test_batches_are_counted_by_their_outcomes() -> None:
    kinds = ["ok", "info", "info", "fail", "fail", "fail"]
    verdict = judge(*(batch(number, kind) for number, kind in enumerate(kinds, 1)), read_all(20, [1], [1], [1]))
    assert [verdict.figures[name] for name in ("batches", "acknowledged", "of_unknown_outcome")] == [6, 1, 2]


def test_any_client_may_write_a_batch_and_the_conductor_writes_none() -> None:
    assert judge(batch(0), read_all(20, [0], [0], [0])).valid is True
    value = {"id": 9, "tables": list(TABLES), "consistency": "QUORUM"}
    own = operation(-1, 1, 1.5, "batch", "k", value, value)
    assert types(judge(batch(1), own, read_all(20, [1], [1], [1]))) == []
    assert types(judge(batch(1), own, read_all(20, [1, 9], [1, 9], [1, 9]))) == ["unwritten-value"]
