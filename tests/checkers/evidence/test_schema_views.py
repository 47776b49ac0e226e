"""Schema views: which reading of which node counts, and what it holds."""

from __future__ import annotations

from histories import observed

from schemaquake.checkers.evidence.node_schemas import NodeSchema, Unread, read_final_schemas, read_sightings


def only(*lines: str) -> NodeSchema:
    (schema,) = read_final_schemas(observed(*lines)).schemas
    return schema


def test_a_reading_holds_everything_by_kind() -> None:
    schema = only(
        'settled n1 version v7 {"epoch": 7}',
        "settled n1 keyspace k",
        'settled n1 table k.t id=1 a:int* b:int+ c:text {"options": {"comment": "x"}}',
        'settled n1 view k.m id=2 c:text* {"base_table_id": "1", "base_table_name": "t"}',
        "settled n1 type k.u f0:int",
        'settled n1 function k.f {"arguments": [["s", "int"]]}',
        'settled n1 aggregate k.g {"state_function": "f"}',
        "settled n1 live k.t CREATE TABLE k.t (a int)",
    )
    assert (schema.phase, schema.node, schema.version, schema.epoch) == ("settled", "n1", "v7", 7)
    assert schema.keyspaces["k"]["durable_writes"] is True
    table = schema.tables["k", "t"]
    assert table.id == "1"
    assert table.columns["b"].kind == "clustering"
    assert table.columns["b"].position == 0
    assert table.options == {"comment": "x"}
    assert schema.views["k", "m"].base_table_id == "1"
    assert schema.types["k", "u"] == (("f0", "int"),)
    assert schema.functions["k", "f"].arguments == (("s", "int"),)
    assert schema.aggregates["k", "g"].state_function == "f"
    assert schema.live["table", "k", "t"].statement == "CREATE TABLE k.t (a int)"
    assert set(schema.objects()) == {
        ("keyspace", "k", ""),
        ("table", "k", "t"),
        ("view", "k", "m"),
        ("type", "k", "u"),
        ("function", "k", "f"),
        ("aggregate", "k", "g"),
    }


def test_the_last_complete_reading_counts() -> None:
    schema = only("settled n1 table k.t id=1 a:int*", "settled#1 n1 table k.s id=2 a:int*", "settled#2 n1 error gone")
    assert set(schema.tables) == {("k", "s")}


def test_a_node_that_only_answered_with_errors_is_listed_apart() -> None:
    readings = read_final_schemas(observed("settled n1 keyspace k", "settled n2 error gone"))
    assert [schema.node for schema in readings.schemas] == ["n1"]
    assert readings.unread == (Unread("settled", "n2", "gone"),)


def test_a_node_of_the_history_without_a_reading_is_listed_apart() -> None:
    readings = read_final_schemas(observed("settled n1 keyspace k"), nodes=frozenset({"n1", "n2"}))
    assert readings.unread == (Unread("settled", "n2", "no reading of it was recorded"),)


def test_a_node_that_is_missing_from_a_later_phase_is_unread_in_that_phase() -> None:
    readings = read_final_schemas(observed("settled n1,n2 keyspace k", "restarted n1 keyspace k"))
    assert [(unread.phase, unread.node) for unread in readings.unread] == [("restarted", "n2")]
    assert readings.phases == ("settled", "restarted")


def test_a_phase_that_never_was_leaves_nobody_unread() -> None:
    readings = read_final_schemas(observed("settled n1,n2 keyspace k"))
    assert readings.phases == ("settled",)
    assert readings.unread == ()


def test_data_directories_are_no_reading_of_the_schema() -> None:
    directory = 'settled#9 n1 data-directory k.t id=1 {"live": true, "snapshots": []}'
    assert set(only("settled n1 table k.t id=1 a:int*", directory).tables) == {("k", "t")}
    assert (
        read_final_schemas(observed('running n1 data-directory k.t id=1 {"live": true, "snapshots": []}')).schemas == ()
    )


def test_readings_while_the_run_goes_on_are_not_final() -> None:
    readings = read_final_schemas(observed("running n1 table k.t id=1 a:int*"))
    assert readings.schemas == ()
    assert readings.phases == ()


def test_a_headless_table_lacks_one_half_and_a_residue_both() -> None:
    schema = only(
        "settled n1 table k.whole id=1 a:int*",
        "settled n1 table k.options id=2",
        "settled n1 table k.columns a:int*",
        'settled n1 table k.residue {"indexes": {"i": {"kind": "K", "target": "c"}}}',
    )
    told = {name: (table.headless, table.residue) for (_, name), table in schema.tables.items()}
    assert told == {
        "whole": (False, False),
        "options": (True, False),
        "columns": (True, False),
        "residue": (False, True),
    }
    assert ("table", "k", "residue") not in set(schema.objects())
    assert ("index", "k", "i") in set(schema.objects())


def test_a_line_that_tells_no_ids_still_has_tables_with_both_halves() -> None:
    schema = only(
        'settled n1 table k.whole a:int* {"options": {"comment": ""}}',
        'settled n1 table k.options {"options": {"comment": ""}}',
        "settled n1 table k.columns a:int*",
    )
    told = {name: (table.has_own_row, table.headless) for (_, name), table in schema.tables.items()}
    assert told == {"whole": (True, False), "options": (True, True), "columns": (False, True)}


def test_a_memory_that_is_asked_tells_what_it_serves_what_it_refuses_and_what_it_leaves_open() -> None:
    schema = only(
        'settled n1 live k.t {"kind": "table", "columns": {"a": "int"}}',
        'settled n1 live k.gone {"kind": "table", "refusal": "unconfigured table gone"}',
        'settled n1 live k.mute {"kind": "view", "error": "timed out"}',
    )
    assert schema.live["table", "k", "t"].columns == {"a": "int"}
    assert schema.live["table", "k", "t"].statement is None
    assert schema.refusals == {("table", "k", "gone"): "unconfigured table gone"}
    assert schema.unanswered == {("view", "k", "mute")}
    assert schema.remembers
    assert not only('settled n1 live k.mute {"kind": "view", "error": "timed out"}').remembers


def test_sightings_come_in_order_of_time_from_every_phase() -> None:
    told = list(
        read_sightings(
            observed(
                "settled n1 table k.t id=2 a:int*",
                "@7 running n2 table k.t id=1 a:int*",
                "@9 running n2 table k.t gone",
            ),
            "table",
        )
    )
    assert [(time, phase, node, table_id) for time, phase, node, _, _, table_id, _ in told] == [
        (7_000_000, "running", "n2", "1"),
        (9_000_000, "running", "n2", None),
        (10_000_000_000, "settled", "n1", "2"),
    ]
    assert told[1][-1] is None
