"""Evidence: derived once for all who judge the same records, and gone with them."""

from __future__ import annotations

import gc
import weakref

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
        ("k ", "DROP TABLE t", True),
        ("", "DROP TABLE t", True),
    ],
)
def test_a_statement_in_free_text_concerns_the_keyspaces_that_it_may_name(
    key: str, statement: str, *, concerned: bool
) -> None:
    lines = [f'@1 p0 n1 invoke cql {key}{{"statement": "{statement}"}}', "@2 p0 n1 ok"]
    assert bool(Evidence.of(judged(lines, [])).changes.texts("k")) is concerned
