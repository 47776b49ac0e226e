"""Evidence: derived once for all who judge the same records, and gone with them."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence

import pyarrow as pa
import pytest
from histories import judged

from schemaquake.checkers.evidence import evidence as module
from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.schema.objects import Objects
from schemaquake.checkers.schema.table_ids import TableIds
from schemaquake.harness.errors import HistoryError
from schemaquake.harness.model.records import Records

CREATE = ("@1 p0 n1 invoke create-table k.t a:int*", "@2 p0 n1 ok")
SHOWN = ["running n1 table k.t id=1 a:int*", "settled n1,n2 table k.t id=1 a:int*"]


def test_all_who_judge_the_same_records_read_the_same_evidence() -> None:
    records = judged(CREATE, SHOWN)
    changes = Evidence.of(records).changes
    TableIds().check(records, limit_s=5)
    Objects().check(records, limit_s=5)
    assert Evidence.of(records).changes is changes
    assert Evidence.of(records).readings is Evidence.of(records).readings
    assert Evidence.of(records).sightings("table") is Evidence.of(records).sightings("table")


def test_equal_tables_of_other_records_are_other_evidence() -> None:
    records = judged(CREATE, SHOWN)
    again = Records(records.history, records.observations, records.logs)
    assert Evidence.of(again) is not Evidence.of(records)


def test_evidence_ends_with_its_records() -> None:
    records = judged(CREATE, SHOWN)
    TableIds().check(records, limit_s=5)
    evidence = weakref.ref(Evidence.of(records))
    del records
    gc.collect()
    assert evidence() is None


def test_a_sighting_is_one_object_of_one_node_in_order_of_time() -> None:
    seen = Evidence.of(judged(CREATE, SHOWN)).sightings("table")
    assert [(one.phase, one.node, one.name, one.id) for one in seen] == [
        ("running", "n1", "t", "1"),
        ("settled", "n1", "t", "1"),
        ("settled", "n2", "t", "1"),
    ]


def test_a_definition_that_several_nodes_show_is_parsed_once() -> None:
    evidence = Evidence.of(judged(CREATE, SHOWN))
    one, other = (schema.tables["k", "t"].definition for schema in evidence.readings.schemas)
    assert one is other


def test_nodes_that_only_the_history_names_are_unread() -> None:
    readings = Evidence.of(judged((*CREATE, "p1 n3 invoke drop-table k.t"), SHOWN)).readings
    assert [unread.node for unread in readings.unread] == ["n3"]


def test_operations_are_paired_by_what_they_do() -> None:
    evidence = Evidence.of(judged((*CREATE, "p1 n2 invoke drop-table k.t", "p1 n2 fail"), SHOWN))
    assert [operation.type for operation in evidence.operations(["drop-table"])] == ["fail"]


def test_what_a_room_derives_is_made_once() -> None:
    made: list[Evidence] = []

    def make(evidence: Evidence) -> int:
        made.append(evidence)
        return len(evidence.changes.all)

    evidence = Evidence.of(judged(CREATE, SHOWN))
    assert [evidence.derive(make), evidence.derive(make)] == [1, 1]
    assert made == [evidence]


def test_an_impossible_history_is_refused_each_time() -> None:
    evidence = Evidence.of(judged(("p0 n1 invoke drop-table k.t", "p0 n1 invoke drop-table k.t"), SHOWN))
    for _ in range(2):
        with pytest.raises(HistoryError, match="still open"):
            _ = evidence.changes


def test_operations_of_some_functions_are_those_of_the_whole_history_whether_it_is_kept_or_not(monkeypatch) -> None:
    events = (
        *CREATE,
        '@3 p1 n2 invoke insert k.t {"row": {"a": 1}}',
        "@4 p1 n2 ok",
        "@5 p0 n1 invoke drop-table k.t",
        "@6 p0 n1 info",
    )
    asked = [{"create-table"}, {"insert", "drop-table"}, {"read-rows"}]
    kept = Evidence.of(judged(events, SHOWN))
    found = [kept.operations(functions) for functions in asked]
    assert [[operation.f for operation in one] for one in found] == [["create-table"], ["insert", "drop-table"], []]
    assert kept.operations({"create-table"}) is kept.operations({"create-table"})
    monkeypatch.setattr(module, "_KEPT_MOST", 0)
    long = Evidence.of(judged(events, SHOWN))
    assert [list(long.operations(functions)) for functions in asked] == [list(one) for one in found]
    assert long.paired().equals(kept.paired())


def test_a_part_that_is_sound_is_paired_though_another_is_not() -> None:
    evidence = Evidence.of(judged((*CREATE, *2 * ('p1 n2 invoke insert k.t {"row": {"a": 1}}',)), SHOWN))
    assert [operation.f for operation in evidence.operations({"create-table"})] == ["create-table"]
    with pytest.raises(HistoryError):
        evidence.operations({"insert"})
    with pytest.raises(HistoryError):
        evidence.paired()


@pytest.mark.parametrize(
    ("key", "statement", "concerned"),
    [
        ("j ", "DROP KEYSPACE k", True),
        ("j ", "drop keyspace K", True),
        ("j ", "ALTER TABLE k.t ADD c int", True),
        ("j ", "DROP KEYSPACE kk", False),
        ("j ", "select * from k.t", False),
        ("l ", "DROP KEYSPACE kk", False),
        ("l ", "DROP KEYSPACE k", True),
        ("k ", "DROP TABLE t", True),
        ("", "DROP TABLE t", True),
    ],
)
def test_a_statement_in_free_text_concerns_the_keyspaces_that_it_may_name(
    key: str, statement: str, *, concerned: bool
) -> None:
    lines = [f'@1 p0 n1 invoke cql {key}{{"statement": "{statement}"}}', "@2 p0 n1 ok"]
    assert bool(Evidence.of(judged(lines, [])).changes.texts("k")) is concerned


READ = '@{} p{} {} invoke read-schema {{"phase": "{}"}}'


def begins(*lines: str, observations: Sequence[str] = ("@62 settled n1 keyspace k", "@64 settled n2 keyspace k")):
    evidence = Evidence.of(judged(lines, observations))
    return {place: time // 1_000_000 for place, time in evidence.begins.items()}


def test_a_final_reading_may_have_begun_with_its_phase_or_with_the_request_of_the_client_that_read() -> None:
    n1, n2 = ("settled", "n1"), ("settled", "n2")
    phase = '@{} -- info phase {{"phase": "final-{}", "state": "begins"}}'
    assert begins() == {n1: 62, n2: 64}
    assert begins(phase.format(60, "settled")) == {n1: 60, n2: 60}
    assert begins(phase.format(63, "settled")) == {n1: 62, n2: 63}, "a reading is no later than its answer"
    assert begins(phase.format(60, "restarted")) == {n1: 62, n2: 64}
    assert begins(READ.format(55, 1, "n1", "settled"), READ.format(70, 2, "n2", "settled")) == {n1: 55, n2: 64}
    assert begins(READ.format(55, 1, "n1", "restarted")) == {n1: 62, n2: 64, ("restarted", "n1"): 55}
    twice = READ.format(55, 1, "n3", "settled"), READ.format(57, 2, "n3", "settled")
    assert begins(*twice) == {n1: 62, n2: 64, ("settled", "n3"): 55}
    assert begins("@55 p1 n1 invoke read-schema") == {n1: 62, n2: 64}, "it does not say which reading it is"
    assert begins(observations=["@62 settled n1 keyspace k", "@61 settled n1 type k.u a:int"]) == {n1: 61}


def test_the_final_readings_of_some_nodes_go_on_from_the_first_to_the_last_of_them() -> None:
    shown = [f"@{at} settled {node} keyspace k" for at, node in ((64, "n2"), (62, "n1"), (66, "n3"))]
    evidence = Evidence.of(judged((READ.format(50, 1, "n3", "settled"),), [*shown, "@99 restarted n1 keyspace k"]))
    asked = {None: (50, 66), ("n1", "n2"): (62, 64), ("n1",): (62, 62), ("n3",): (50, 66)}
    for nodes, (first, last) in asked.items():
        assert evidence.interval("settled", nodes) == (first * 1_000_000, last * 1_000_000)
    assert evidence.interval("restarted") == (99_000_000, 99_000_000)


@pytest.mark.parametrize("spare", [0, -1])
def test_operations_of_a_history_are_kept_up_to_a_length(monkeypatch, spare: int) -> None:
    events = (*CREATE, "@3 p0 n2 invoke drop-table k.t", "@4 p0 n2 ok", "@5 p1 n1 invoke create-type k.u a:int")
    evidence = Evidence.of(judged(events, SHOWN))
    monkeypatch.setattr(module, "_KEPT_MOST", len(evidence.history) + spare)
    asked = {"create-table", "drop-table", "create-type"}
    assert [one.f for one in evidence.operations(asked)] == ["create-table", "drop-table", "create-type"]
    once, again = (evidence.operations({"create-table"}) for _ in range(2))
    assert (once is again) is (spare == 0)
    assert (evidence.paired() is evidence.paired()) is (spare == 0)
    assert (evidence.ends() is evidence.ends()) is (spare == 0)
    for processes, found in ([0], ["create-table", "drop-table"]), ([1], ["create-type"]), ([2], []):
        chosen = evidence.operations(asked, processes=pa.array(processes, pa.int64()))
        assert [one.f for one in chosen] == found
