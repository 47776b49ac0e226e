"""Schema views: which reading of which node counts, and what it holds."""

from __future__ import annotations

import orjson
import pyarrow as pa
import pytest
from histories import observed

from schemaquake.checkers.evidence.node_schemas import (
    GROUP_HISTORY,
    NodeSchema,
    Unread,
    read_final_schemas,
    read_sightings,
)
from schemaquake.harness.model.records import OBSERVATIONS


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


def test_each_final_phase_has_readings_of_its_own() -> None:
    lines = (
        "settled n1,n2 table k.t id=1 a:int*",
        "restarted n1 table k.t id=2 a:int*",
        "restarted n2 error NoHostAvailable",
    )
    readings = read_final_schemas(observed(*lines))
    ids = {phase: {each.node: each.tables["k", "t"].id for each in readings.of(phase)} for phase in readings.phases}
    assert ids == {"settled": {"n1": "1", "n2": "1"}, "restarted": {"n1": "2"}}
    assert [(unread.phase, unread.node) for unread in readings.unread] == [("restarted", "n2")]
    assert read_final_schemas(observed(*lines[1:])).phases == ("restarted",)


def test_a_relation_has_its_names_and_what_is_left_of_it() -> None:
    schema = only("settled n1 table k.t id=1 a:int*", 'settled n1 table k.s a:int* {"indexes": {"i": {}}}')
    named = {key: (table.keyspace, table.name) for key, table in schema.tables.items()}
    assert named == {("k", "t"): ("k", "t"), ("k", "s"): ("k", "s")}
    assert not any(table.residue for table in schema.tables.values())


@pytest.mark.parametrize("row", ["keyspace k", "table k.t id=1 a:int*", "view k.m id=1 a:int*", "type k.u f0:int"])
def test_a_reading_with_an_error_of_one_object_or_without_a_version_is_incomplete(row: str) -> None:
    rows = observed("settled n1 version v", f"settled n1 {row}").to_pylist()
    failed = [each if each["kind"] == "version" else {**each, "error": "Timeout"} for each in rows]
    headless = [each for each in rows if each["kind"] != "version"]
    for odd, count in ((rows, 1), (failed, 0), (headless, 0)):
        assert len(read_final_schemas(pa.Table.from_pylist(odd, schema=OBSERVATIONS)).schemas) == count


def test_a_sighting_has_the_names_of_its_object() -> None:
    rows = observed("settled n1 table k.t id=1 a:int*", "settled n1 keyspace k")
    named = [(each.keyspace, each.name) for kind in ("table", "keyspace") for each in read_sightings(rows, kind)]
    assert named == [("k", "t"), ("k", "")]


def test_a_row_that_says_nothing_hides_none_of_those_after_it() -> None:
    rows = observed("settled n1 version v", "settled n1 table k.t id=1 a:int*").to_pylist()
    bare = [{**each, "definition": None} if each["kind"] == "version" else each for each in rows]
    assert read_final_schemas(pa.Table.from_pylist(bare, schema=OBSERVATIONS)).schemas[0].tables


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


def version(node: str = "n1", phase: str = "settled", **told: object) -> str:
    return f"{phase} {node} version v {orjson.dumps(told).decode()}"


@pytest.mark.parametrize(
    ("told", "authority", "follows_log", "mistakes"),
    [
        ({}, "disk", False, False),
        ({"epoch": 0}, "log", True, True),
        ({"told_from": "memory"}, "memory", False, False),
        ({"told_from": "memory", "epoch": 7}, "memory", False, False),
        ({"authority": "disk", "epoch": 7}, "disk", False, False),
        ({"authority": "log"}, "log", True, True),
        ({"authority": GROUP_HISTORY}, GROUP_HISTORY, True, False),
    ],
)
def test_a_reading_names_the_authority_or_it_follows_from_what_else_it_shows(
    told: dict[str, object], authority: str, *, follows_log: bool, mistakes: bool
) -> None:
    schema = only(version(**told), "settled n1 keyspace k")
    assert (schema.authority, schema.follows_log, schema.mistakes_no_ops) == (authority, follows_log, mistakes)
    assert schema.asks_before_it_answers is (follows_log and not mistakes)
    assert schema.source == told.get("told_from", "disk")


LIVE = "settled n1 live k.t CREATE TABLE k.t (a int)"


@pytest.mark.parametrize(
    ("told", "lines", "described", "remembers", "error"),
    [
        ({"authority": "log"}, [], True, True, None),
        ({"authority": "disk", "memory": "statements"}, [], False, False, None),
        ({"epoch": 7}, [], False, False, None),
        ({"epoch": 7, "memory": "statements"}, [], True, True, None),
        ({"epoch": 7, "memory": "columns"}, [LIVE], False, True, None),
        ({"authority": "log", "memory_error": "E"}, [], False, False, "E"),
        ({"authority": "log", "memory_error": "E"}, [LIVE], False, True, "E"),
        ({"authority": "log"}, [LIVE, "settled n1 live k.s gone"], True, True, None),
        ({}, [LIVE], False, True, None),
    ],
)
def test_a_memory_is_whole_where_a_log_decides_and_it_was_described_without_an_error(
    told: dict[str, object], lines: list[str], *, described: bool, remembers: bool, error: str | None
) -> None:
    schema = only(version(**told), "settled n1 table k.t id=1 a:int*", *lines)
    assert (schema.described, schema.remembers, schema.memory_error) == (described, remembers, error)
    assert schema.shows_memory == told.get("memory")
    assert set(schema.live) == ({("table", "k", "t")} if lines else set())


def test_the_error_of_a_memory_is_that_of_its_first_row_unless_the_version_names_one() -> None:
    rows = observed(version(authority="log"), "settled n1 table k.t id=1 a:int*", LIVE).to_pylist()
    failed = [{**rows[-1], "definition": None, "error": text, "name": None} for text in ("first", "second")]
    for told, error in (({"authority": "log"}, "first"), ({"authority": "log", "memory_error": "E"}, "E")):
        named = [
            {**row, "definition": orjson.dumps(told).decode()} if row["kind"] == "version" else row for row in rows
        ]
        (schema,) = read_final_schemas(pa.Table.from_pylist([*named, *failed], schema=OBSERVATIONS)).schemas
        assert (schema.memory_error, schema.live, schema.described, schema.remembers) == (error, {}, False, False)
        assert set(schema.tables) == {("k", "t")}, "the disk was read all the same"


@pytest.mark.parametrize(
    ("lines", "unread"),
    [
        pytest.param(
            [version(memory="statements"), "settled n1 keyspace k"], True, id="of keyspaces it shows statements"
        ),
        pytest.param([version(memory="columns"), "settled n1 keyspace k"], False, id="of keyspaces it has no columns"),
        pytest.param([version(memory="columns"), "settled n1 table k.t id=1 a:int*"], True, id="a table"),
        pytest.param([version(memory="columns"), "settled n1 view k.v id=1 a:int*"], True, id="a view"),
        pytest.param([version(memory="statements")], False, id="nothing to show"),
        pytest.param([version(), "settled n1 table k.t id=1 a:int*"], False, id="a system that shows no memory"),
        pytest.param(
            [version(memory="columns", told_from="memory"), "settled n1 table k.t id=1 a:int*"],
            False,
            id="read from memory",
        ),
        pytest.param(
            [
                version(memory="columns"),
                "settled n1 table k.t id=1 a:int*",
                'settled n1 live k.t {"kind": "table", "error": "E"}',
            ],
            False,
            id="asked without an answer",
        ),
        pytest.param([version(memory="columns"), "settled n1 table k.t id=1 a:int*", LIVE], False, id="read"),
        pytest.param([version(memory_error="E")], True, id="it says why it was not"),
    ],
)
def test_a_memory_that_was_not_read_where_there_is_one_to_show_is_unread(lines: list[str], *, unread: bool) -> None:
    error = "E" if "memory_error" in lines[0] else "no reading of it was recorded"
    found = read_final_schemas(observed(*lines)).memories_unread
    assert found == ((Unread("settled", "n1", error),) if unread else ())


def test_where_one_memory_was_read_that_of_another_node_is_missing() -> None:
    lines = [version(), version("n2"), "settled n1,n2 table k.t id=1 a:int*"]
    assert read_final_schemas(observed(*lines)).memories_unread == ()
    assert [one.node for one in read_final_schemas(observed(*lines, LIVE)).memories_unread] == ["n2"]


def test_what_the_server_keeps_for_itself_is_no_object_of_a_client() -> None:
    schema = only(
        "settled n1 table k.t id=1 a:int*",
        'settled n1 table k.log id=2 a:int* {"derived_from": "k.t"}',
        'settled n1 view k.index id=3 a:int* {"derived_from": "k.i"}',
        "settled n1 view k.v id=4 a:int*",
    )
    assert schema.derived == {("table", "k", "log"), ("view", "k", "index")}
    assert set(schema.objects()) == {("table", "k", "t"), ("view", "k", "v")}


def test_what_is_stored_is_comparable_by_kind_and_name() -> None:
    schema = only(
        "settled n1 keyspace k",
        "settled n1 table k.t id=1 a:int*",
        "settled n1 view k.v id=2 a:int*",
        "settled n1 type k.u f:int g:text",
        "settled n1 function k.f",
        "settled n1 aggregate k.g",
    )
    stored = schema.stored()
    assert stored["type", "k", "u"] == [["f", "int"], ["g", "text"]]
    assert [stored[kind, "k", name]["id"] for kind, name in (("table", "t"), ("view", "v"))] == ["1", "2"]
    assert stored["table", "k", "t"]["columns"] == {"a": {"type": "int", "kind": "partition_key", "position": 0}}
    assert stored["keyspace", "k", ""] == schema.keyspaces["k"]
    assert stored["function", "k", "f"] == schema.functions["k", "f"].definition
    assert stored["aggregate", "k", "g"] == schema.aggregates["k", "g"].definition
    assert len(stored) == 6


def test_what_a_definition_leaves_out_is_not_known() -> None:
    schema = only(
        'settled n1 table k.t {"columns": {"a": {"type": "int", "kind": "untold", "position": null}}, "options": null}',
        'settled n1 table k.s {"columns": null, "indexes": null, "dropped_columns": {"x": {}}}',
        'settled n1 function k.f {"arguments": null, "returns": null}',
        'settled n1 aggregate k.g {"arguments": ["int", "text"], "final_function": "h"}',
        'settled n1 type k.u {"fields": null}',
        "settled n1 table k.gone gone",
        "settled n1 ring {}",
    )
    columns = schema.tables["k", "t"].columns
    assert (columns["a"].kind, columns["a"].position) == ("untold", -1)
    assert (schema.tables["k", "t"].options, schema.tables["k", "s"].columns, schema.tables["k", "s"].indexes) == (
        {},
        {},
        {},
    )
    assert schema.tables["k", "s"].dropped_columns == {"x"}
    assert (schema.functions["k", "f"].arguments, schema.functions["k", "f"].returns) == ((), "")
    assert (schema.aggregates["k", "g"].arguments, schema.aggregates["k", "g"].final_function) == (("int", "text"), "h")
    assert (schema.types["k", "u"], ("k", "gone") in schema.tables) == ((), False)
    assert only(version(release="5.0.2", epoch=3)).release == "5.0.2"


def test_names_in_a_memory_are_bare() -> None:
    schema = only(
        'settled n1 live k.f(int) {"kind": "function", "statement": "S"}',
        'settled n1 live k."My(T)"(int) {"kind": "function", "refusal": "no"}',
        'settled n1 live k."A" {"kind": "table", "error": "E"}',
    )
    assert list(schema.live) == [("function", "k", "f")]
    assert schema.refusals == {("function", "k", "My(T)"): "no"}
    assert schema.unanswered == {("table", "k", "A")}
    assert schema.live["function", "k", "f"].evidence == "S"
    columns = only('settled n1 live k.t {"kind": "table", "columns": {"a": "int"}}').live["table", "k", "t"]
    assert columns.evidence == {"a": "int"}


def test_a_node_that_need_not_serve_is_not_unread_and_the_last_error_of_another_counts() -> None:
    lines = ["settled n1 keyspace k", "settled#1 n2 error first", "settled#2 n2 error second", "running n3 keyspace k"]
    asked: list[tuple[str, frozenset[str]]] = []

    def gone(phase: str, nodes: frozenset[str]) -> frozenset[str]:
        asked.append((phase, nodes))
        return frozenset({"n1", "n4"})

    found = read_final_schemas(observed(*lines), nodes=frozenset({"n4", "n5"}), gone=gone)
    assert [schema.node for schema in found.schemas] == ["n1"], "one that was read all the same"
    assert found.unread == (
        Unread("settled", "n2", "second"),
        Unread("settled", "n3", "no reading of it was recorded"),
        Unread("settled", "n5", "no reading of it was recorded"),
    )
    assert asked[0] == ("settled", frozenset({"n1", "n2", "n3", "n4", "n5"}))


def test_an_error_of_a_row_of_the_disk_makes_a_reading_incomplete() -> None:
    rows = observed("settled n1 keyspace k", "settled n1 table k.t id=1 a:int*", LIVE).to_pylist()

    def found(kind: str) -> int:
        failed = [{**row, "error": "E"} if row["kind"] == kind else row for row in rows]
        return len(read_final_schemas(pa.Table.from_pylist(failed, schema=OBSERVATIONS)).schemas)

    assert [found(kind) for kind in ("none", "live", "table", "version")] == [1, 1, 0, 0]
    without = pa.Table.from_pylist([row for row in rows if row["kind"] != "version"], schema=OBSERVATIONS)
    assert read_final_schemas(without).unread == (Unread("settled", "n1", "no reading of it was recorded"),)
