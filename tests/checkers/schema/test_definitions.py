"""Definitions: what all nodes show alike may still be what nobody asked for."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import orjson
import pytest
from histories import judged

from schemaquake.checkers.schema.definitions import Definitions
from schemaquake.harness.model.verdict import Anomaly, Verdict

KEYSPACE = ("@1 p90 n1 invoke create-keyspace k", "@2 p90 n1 ok")
TABLE = ("@3 p91 n1 invoke create-table k.t a:int* b:text+ c:int s:text!", "@4 p91 n1 ok")
TYPE = ("@5 p92 n1 invoke create-type k.u f0:int f1:text", "@6 p92 n1 ok")
ALL = "settled n1,n2,n3"
COLUMNS = {
    "a": {"type": "int", "kind": "partition_key", "position": 0},
    "b": {"type": "text", "kind": "clustering", "position": 0, "order": "asc"},
    "c": {"type": "int", "kind": "regular", "position": -1},
    "s": {"type": "text", "kind": "static", "position": -1},
}


def verdict(history: Sequence[str], observations: Sequence[str]) -> Verdict:
    return Definitions().check(judged(history, [f"{ALL} keyspace k", *observations]), limit_s=5)


def found(history: Sequence[str], observations: Sequence[str]) -> list[Anomaly]:
    answer = verdict(history, observations)
    assert answer.valid is not bool(answer.anomalies)
    return list(answer.anomalies)


def table(columns: object = None, **more: object) -> str:
    return f"{ALL} table k.t id=1 {orjson.dumps({'columns': columns or COLUMNS, **more}).decode()}"


def with_column(name: str, **changes: object) -> dict[str, object]:
    return {**COLUMNS, name: {**COLUMNS.get(name, {"kind": "regular", "position": -1}), **changes}}


def test_a_table_as_it_was_declared_is_sound() -> None:
    assert found([*KEYSPACE, *TABLE], [table()]) == []


@pytest.mark.parametrize(
    ("column", "changes"),
    [
        ("c", {"type": "text"}),
        ("c", {"kind": "static"}),
        ("a", {"position": 1}),
        ("b", {"order": "desc"}),
        ("b", {"kind": "partition_key", "position": 1}),
        ("ghost", {"type": "int"}),
    ],
)
def test_a_column_that_no_change_made_so_is_found_although_all_nodes_agree(column: str, changes: dict) -> None:
    (one,) = found([*KEYSPACE, *TABLE], [table(with_column(column, **changes))])
    assert (one.type, one.objects, one.evidence["part"]) == ("unexplained-definition", ("k.t",), f"column {column}")
    assert one.nodes == ("n1", "n2", "n3")


def test_a_refused_column_that_is_there_is_found_and_an_unanswered_one_is_not() -> None:
    added = [table(with_column("d", type="int"))]
    history = [*KEYSPACE, *TABLE, "@7 p1 n2 invoke add-column k.t d:int"]
    (one,) = found([*history, "@8 p1 n2 fail InvalidRequest: no"], added)
    assert one.evidence["part"] == "column d"
    assert len(one.ops) == 1
    for answer in ("@8 p1 n2 info Timeout", "@8 p1 n2 ok"):
        assert found([*history, answer], added) == []
    (other,) = found([*history, "@8 p1 n2 ok"], [table(with_column("d", type="text"))])
    assert other.evidence["possible"] == [{"type": "int", "kind": "regular", "position": -1}]


@pytest.mark.parametrize(("asked", "other"), [("static", "regular"), ("regular", "static")])
def test_an_added_column_is_static_if_it_was_asked_for_so(asked: str, other: str) -> None:
    add = f'@7 p1 n2 invoke add-column k.t d:int {{"static": {"true" if asked == "static" else "false"}}}'
    history = [*KEYSPACE, *TABLE, add, "@8 p1 n2 ok"]
    assert found(history, [table(with_column("d", type="int", kind=asked))]) == []
    (one,) = found(history, [table(with_column("d", type="int", kind=other))])
    assert one.evidence["part"] == "column d"
    assert one.evidence["possible"] == [{"type": "int", "kind": asked, "position": -1}]


def test_a_column_of_a_former_life_is_found() -> None:
    history = [
        *KEYSPACE,
        *TABLE,
        *("@7 p1 n2 invoke add-column k.t d:int", "@8 p1 n2 ok"),
        *("@9 p1 n2 invoke drop-table k.t", "@10 p1 n2 ok"),
        *("@11 p1 n2 invoke create-table k.t a:int* b:text+ c:int s:text!", "@12 p1 n2 ok"),
    ]
    (one,) = found(history, [table(with_column("d", type="int"))])
    assert one.evidence["part"] == "column d"
    # Had the ADD been concurrent with the DROP and the CREATE, it might have come last.
    concurrent = [line.replace("@8 p1 n2 ok", "@13 p5 n2 ok").replace("@7 p1", "@7 p5") for line in history]
    assert found(concurrent, [table(with_column("d", type="int"))]) == []


def test_a_renamed_column_has_the_type_and_the_place_of_its_old_name() -> None:
    history = [*KEYSPACE, *TABLE, "@7 p1 n2 invoke rename-column k.t a>z", "@8 p1 n2 ok"]
    columns = {("z" if name == "a" else name): column for name, column in COLUMNS.items()}
    assert found(history, [table(columns)]) == []
    (one,) = found(history, [table({**columns, "z": {**COLUMNS["a"], "type": "text"}})])
    assert one.evidence["part"] == "column z"


def test_a_frozen_type_that_is_not_frozen_is_found_where_others_are() -> None:
    history = [*KEYSPACE, *TYPE, "@7 p1 n2 invoke create-table k.t a:int* x:frozen<u> y:frozen<u>", "@8 p1 n2 ok"]
    plain = {"kind": "regular", "position": -1}
    columns = {
        "a": COLUMNS["a"],
        "x": {"type": "frozen<u>", **plain},
        "y": {"type": "frozen<u>", **plain},
    }
    kept = [f"{ALL} type k.u f0:int f1:text"]
    assert found(history, [*kept, table(columns)]) == []
    (one,) = found(history, [*kept, table({**columns, "y": {"type": "u", **plain}})])
    assert one.evidence["part"] == "column y"


@pytest.mark.parametrize(
    ("asked", "shown", "strange"),
    [
        pytest.param("u", "u", 0, id="not frozen"),
        pytest.param("u", "frozen<u>", 1, id="frozen, and not asked for so"),
        pytest.param("frozen<u>", "frozen<u>", 0, id="frozen"),
        pytest.param("FROZEN<u>", "frozen<u>", 0, id="in capitals"),
        pytest.param("tuple<int,u>", "frozen<tuple<int, u>>", 0, id="a tuple always is"),
        pytest.param("list<frozen<u>>", "list<frozen<u>>", 0, id="a list of what is frozen"),
        pytest.param("list<frozen<u>>", "frozen<list<frozen<u>>>", 1, id="a frozen list"),
    ],
)
def test_a_type_is_frozen_where_it_was_asked_for_so(asked: str, shown: str, strange: int) -> None:
    create = f"@7 p1 n2 invoke create-table k.t a:int* y:{asked}"
    columns = {"a": COLUMNS["a"], "y": {"type": shown, "kind": "regular", "position": -1}}
    other = table({"a": COLUMNS["a"], "x": {"type": "frozen<u>", "kind": "regular", "position": -1}}).replace(
        "k.t", "k.o"
    )
    history = [
        *KEYSPACE,
        *TYPE,
        create,
        "@8 p1 n2 ok",
        "@9 p1 n2 invoke create-table k.o a:int* x:frozen<u>",
        "@10 p1 n2 ok",
    ]
    kept = [f"{ALL} type k.u f0:int f1:text", other.replace("id=aa", "id=bb")]
    assert len(found(history, [*kept, table(columns)])) == strange


@pytest.mark.parametrize(("seen", "upgraded", "strange"), [(True, False, 1), (False, False, 0), (True, True, 0)])
def test_the_only_frozen_type_is_missed_if_it_was_shown_before(*, seen: bool, upgraded: bool, strange: int) -> None:
    history = [*KEYSPACE, *TYPE, "@7 p1 n2 invoke create-table k.t a:int* x:frozen<u>", "@8 p1 n2 ok"]
    step = '{"operation": 1, "nodes": ["n1"], "parameters": {"stage": "node", "to": "y"}, "becomes": {"n1": "normal"}}'
    history += [f"@9 -- n1 invoke rolling-upgrade {step}"] if upgraded else []
    plain = {"kind": "regular", "position": -1}
    kept = [f"{ALL} type k.u f0:int f1:text"]
    before = {"a": COLUMNS["a"], "x": {"type": "frozen<u>" if seen else "u", **plain}}
    running = table(before).replace(ALL, "@10 running n1")
    lost = {**before, "x": {"type": "u", **plain}}
    assert len(found(history, [*kept, running, table(lost)])) == strange


def test_words_that_cql_has_no_type_for_are_not_judged() -> None:
    columns = with_column("c", type="org.apache.cassandra.db.marshal.SomeType")
    assert found([*KEYSPACE, *TABLE], [table(columns)]) == []


# ── dropped columns ──────────────────────────────────────────────────────────────────────────────────────────────────

DROP = ("@7 p1 n2 invoke drop-column k.t c", "@8 p1 n2 ok")
LEFT = {name: column for name, column in COLUMNS.items() if name != "c"}


def test_dropped_columns_are_those_that_were_dropped_with_the_type_they_had() -> None:
    def dropped(**columns: object) -> list[str]:
        return [table(LEFT, dropped_columns=columns)]

    entry = {"type": "int", "dropped_time": 1}
    assert found([*KEYSPACE, *TABLE, *DROP], dropped(c=entry)) == []
    (nobody,) = found([*KEYSPACE, *TABLE, *DROP], dropped(c=entry, d=entry))
    assert nobody.evidence["part"] == "dropped column d"
    (other,) = found([*KEYSPACE, *TABLE, *DROP], dropped(c={**entry, "type": "text"}))
    assert "text" in other.explanation


def test_an_entry_of_a_drop_is_missed_where_the_node_describes_its_memory() -> None:
    missing = [table(LEFT)]
    assert found([*KEYSPACE, *TABLE, *DROP], missing) == []
    told = f"{ALL} live k CREATE KEYSPACE k WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': '3'}}"
    (one,) = found([*KEYSPACE, *TABLE, *DROP], [*missing, told])
    assert one.evidence["part"] == "dropped column c"
    unanswered = [*KEYSPACE, *TABLE, DROP[0], "@8 p1 n2 info Timeout"]
    assert found(unanswered, [*missing, told]) == []


SECOND_MS = 1000
CREATED_MS = 1_795_000_000_000


def time_uuid(at_ms: int) -> str:
    ticks = (at_ms + 12_219_292_800_000) * 10_000
    return f"{ticks & 0xFFFFFFFF:08x}{ticks >> 32 & 0xFFFF:04x}1{ticks >> 48:03x}8000000000000001"


@pytest.mark.parametrize(
    ("seconds", "sound"), [(0, True), (30, True), (-30, True), (3600, False), (-3600, False), (86400 * 365, False)]
)
def test_the_time_of_a_drop_is_that_of_a_drop(seconds: int, sound: bool) -> None:
    entry = {"c": {"type": "int", "dropped_time": CREATED_MS + seconds * SECOND_MS}}
    told = table(LEFT, dropped_columns=entry).replace("id=1", f"id={time_uuid(CREATED_MS)}")
    assert (found([*KEYSPACE, *TABLE, *DROP], [told]) == []) is sound


def planned(at_ms: int, **more: str) -> str:
    """The note of the plan, of 10 ms on the run's clock, which was 0 at this time of day."""
    note = {"restart": "rolling", "utc": datetime.fromtimestamp((at_ms + 10) / 1000, UTC).isoformat(), **more}
    return f"@10 -- info run-planned {orjson.dumps(note).decode()}"


@pytest.mark.parametrize(
    ("seconds", "sound"), [(0, True), (50, True), (-50, True), (70, False), (-70, False), (3600, False)]
)
def test_where_ids_are_no_times_that_of_a_drop_is_held_against_the_note_of_the_plan(seconds: int, sound: bool) -> None:
    entry = {"c": {"type": "int", "dropped_time": CREATED_MS + seconds * SECOND_MS}}
    history = [planned(CREATED_MS), *KEYSPACE, *TABLE, *DROP]
    assert (found(history, [table(LEFT, dropped_columns=entry)]) == []) is sound
    unread = [planned(CREATED_MS, utc="today"), *history[1:]]
    assert found(unread, [table(LEFT, dropped_columns=entry)]) == [], (
        "that note says nothing, which is doubted elsewhere"
    )
    skewed = '{"id": 0, "nemesis": "clock", "nodes": ["n2"], "parameters": {"offsets": {"n2": 3600}}}'
    assert found([f"@6 -- info fault-begins {skewed}", *history], [table(LEFT, dropped_columns=entry)]) == []


@pytest.mark.parametrize(("seconds", "is_doubted"), [(0, False), (100, False), (130, True), (-130, True), (3600, True)])
def test_the_note_of_the_plan_is_held_against_ids_that_are_times(seconds: int, is_doubted: bool) -> None:
    told = table(COLUMNS).replace("id=1", f"id={time_uuid(CREATED_MS)}")
    judgement = verdict([planned(CREATED_MS + seconds * SECOND_MS), *KEYSPACE, *TABLE], [told])
    assert ("incomplete-run" in [doubt.kind for doubt in judgement.doubts]) is is_doubted
    assert judgement.anomalies == ()


def test_clocks_may_be_anywhere_while_a_fault_is_in_place() -> None:
    entry = {"c": {"type": "int", "dropped_time": CREATED_MS + 3600 * SECOND_MS}}
    told = table(LEFT, dropped_columns=entry).replace("id=1", f"id={time_uuid(CREATED_MS)}")
    fault = '{"id": 0, "nemesis": "clock", "nodes": ["n2"], "parameters": {}}'
    history = [*KEYSPACE, *TABLE, f"@6 -- info fault-begins {fault}", *DROP, f"@9 -- info fault-ends {fault}"]
    assert found(history, [told]) == []


# ── types, functions, indexes, views, keyspaces ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("fields", "sound"),
    [
        ("f0:int f1:text f2:int", True),
        ("f1:text f0:int f2:int", False),
        ("f0:int f2:int f1:text", False),
        ("f0:text f1:text f2:int", False),
        ("f0:int f1:text f2:int g:int", False),
    ],
)
def test_fields_have_their_types_and_their_order(fields: str, sound: bool) -> None:
    history = [*KEYSPACE, *TYPE, "@7 p1 n2 invoke add-field k.u f2:int", "@8 p1 n2 ok"]
    assert (found(history, [f"{ALL} type k.u {fields}"]) == []) is sound


def test_fields_that_were_added_at_once_have_any_order() -> None:
    history = [
        *(*KEYSPACE, *TYPE, "@7 p1 n2 invoke add-field k.u x:int", "@8 p2 n3 invoke add-field k.u y:int"),
        *("@9 p1 n2 ok", "@10 p2 n3 ok"),
    ]
    for fields in ("f0:int f1:text x:int y:int", "f0:int f1:text y:int x:int"):
        assert found(history, [f"{ALL} type k.u {fields}"]) == []


@pytest.mark.parametrize(
    ("shown", "sound"), [("f0:int f1:text", True), ("f0:text f1:text", False), ("g:int f1:text", True)]
)
def test_a_field_that_was_renamed_there_and_back_is_what_it_was(shown: str, sound: bool) -> None:
    there = ["@7 p1 n2 invoke rename-field k.u f0>g", "@8 p1 n2 ok"]
    back = [] if shown.startswith("g") else ["@9 p1 n2 invoke rename-field k.u g>f0", "@10 p1 n2 ok"]
    assert (found([*KEYSPACE, *TYPE, *there, *back], [f"{ALL} type k.u {shown}"]) == []) is sound


def function(body: str, **changes: object) -> str:
    value = {"arguments": [["s", "int"]], "returns": "int", "body": body, **changes}
    return orjson.dumps(value).decode()


def test_a_function_has_the_body_of_a_create_that_can_be_the_last() -> None:
    history = [
        *(*KEYSPACE, f"@3 p1 n1 invoke create-function k.f {function('return 1;')}", "@4 p1 n1 ok"),
        *("@5 p1 n1 invoke drop-function k.f", "@6 p1 n1 ok"),
        *(f"@7 p1 n1 invoke create-function k.f {function('return 2;')}", "@8 p1 n1 ok"),
    ]
    assert found(history, [f"{ALL} function k.f {function('return 2;')}"]) == []
    for shown in (function("return 1;"), function("return 2;", returns="text"), function("return 3;")):
        (one,) = found(history, [f"{ALL} function k.f {shown}"])
        assert one.evidence["possible"][0]["body"] == "return 2;"


def test_an_aggregate_calls_the_functions_that_it_was_created_with() -> None:
    value = '{"arguments": ["int"], "state_function": "f", "state_type": "int"}'
    history = [*KEYSPACE, f"@3 p1 n1 invoke create-aggregate k.g {value}", "@4 p1 n1 ok"]
    shown = f"{ALL} aggregate k.g {value}"
    assert found(history, [shown]) == []
    assert found(history, [shown.replace('"f"', '"h"')])
    assert found(history, [shown.replace("}", ', "final_function": "h"}')])


def test_an_index_is_on_the_table_and_the_column_that_were_asked_for() -> None:
    create = "@5 p1 n1 invoke create-index k.i t c"
    history = [*KEYSPACE, *TABLE, create, "@6 p1 n1 ok"]

    def on(target: str) -> list[str]:
        return [table(indexes={"i": {"kind": "COMPOSITES", "target": target}})]

    for target in ("c", '"c"', "values(c)", '{"pk": ["a"], "ck": ["c"]}'):
        assert found(history, on(target)) == []
    (one,) = found(history, on("s"))
    assert one.objects == ("k.i",)


OTHER_TABLE = ("@7 p1 n1 invoke create-table k.x a:int* z:int", "@8 p1 n1 ok")


@pytest.mark.parametrize(
    ("version", "answer", "is_found"),
    [
        pytest.param({"epoch": 7}, 'ok {"applied": true}', False, id="its coordinator was behind the log"),
        pytest.param({}, 'ok {"applied": true}', True, id="no log decides"),
        pytest.param({"epoch": 7}, 'ok {"applied": false}', False, id="known as a no-op"),
    ],
)
def test_an_index_of_its_name_stays_where_if_not_exists_found_it(version: dict, answer: str, *, is_found: bool) -> None:
    first = ("@5 p1 n1 invoke create-index k.i t c", "@6 p1 n1 ok")
    again = ('@7 p2 n2 invoke create-index k.i t s {"if_not_exists": true}', f"@8 p2 n2 {answer}")
    shown = [
        f"{ALL} version v7 {orjson.dumps(version).decode()}",
        table(indexes={"i": {"kind": "COMPOSITES", "target": "c"}}),
    ]
    assert [one.type for one in found([*KEYSPACE, *TABLE, *first, *again], shown)] == [
        "unexplained-definition"
    ] * is_found


INDEX_OF_IT = ("@10 p2 n3 invoke create-index k.i x z", "@11 p2 n3 info OperationTimedOut: no")
INDEX = ("@20 p3 n3 invoke create-index k.i t c", "@21 p3 n3 ok")


@pytest.mark.parametrize(
    ("changes", "is_found"),
    [
        pytest.param(["drop-table k.x"], False, id="with its table goes the index of that table"),
        pytest.param(["drop-index k.i", "drop-table k.x"], True, id="none is left after its DROP"),
        pytest.param(
            ["drop-table k.t", "create-table k.t a:int* b:text+ c:int s:text!"], True, id="it went with its table"
        ),
        pytest.param(["drop-index k.i", "create-index k.i t s"], True, id="another was made in its place"),
    ],
)
def test_an_index_goes_with_the_table_that_it_is_on(changes: Sequence[str], *, is_found: bool) -> None:
    history = [*KEYSPACE, *TABLE, *OTHER_TABLE, *INDEX_OF_IT, *INDEX]
    for at, change in enumerate(changes):
        history += [f"@{30 + 2 * at} p4 n1 invoke {change}", f"@{31 + 2 * at} p4 n1 ok"]
    shown = found(history, [table(indexes={"i": {"kind": "COMPOSITES", "target": "c"}})])
    assert [one.objects for one in shown] == [("k.i",)] * is_found


def test_one_index_name_on_two_tables_is_found() -> None:
    indexes = {"i": {"kind": "COMPOSITES", "target": "c"}}
    value = orjson.dumps({"columns": COLUMNS, "indexes": indexes}).decode()
    create = "@5 p1 n1 invoke create-index k.i t c"
    history = [*KEYSPACE, *TABLE, create, "@6 p1 n1 ok"]
    both = [f"{ALL} table k.t id=1 {value}", f"{ALL} table k.s id=2 {value}"]
    assert "shared-index-name" in {one.type for one in found(history, both)}
    assert found(history, both[:1]) == []


VIEW = '{"base": "t", "primary_key": ["c", "a", "b"]}'


def view(key: Sequence[str], where: Sequence[str] | None = None, base: str = "t") -> list[str]:
    kinds = {name: "clustering" if place else "partition_key" for place, name in enumerate(key)}
    columns = {
        name: {
            "type": column["type"],
            "kind": kinds.get(name, "regular"),
            "position": -1 if name not in kinds else max(0, key.index(name) - 1),
        }
        for name, column in COLUMNS.items()
        if column["kind"] != "static"
    }
    options = {
        "include_all_columns": True,
        "where_clause": " AND ".join(f"{name} IS NOT NULL" for name in where or key),
    }
    definition = {"columns": columns, "options": options, "base_table_id": "1", "base_table_name": base}
    return [table(), f"{ALL} view k.m id=2 {orjson.dumps(definition).decode()}"]


def test_a_view_has_the_base_the_key_and_the_columns_that_were_asked_for() -> None:
    history = [*KEYSPACE, *TABLE, f"@5 p1 n1 invoke create-view k.m {VIEW}", "@6 p1 n1 ok"]
    assert found(history, view(["c", "a", "b"])) == []
    for shown in (view(["c", "b", "a"]), view(["c", "a", "b"], where=["c", "a"]), view(["c", "a", "b"], base="s")):
        assert {one.objects for one in found(history, shown)} == {("k.m",)}


def test_a_rename_in_another_table_explains_no_view_of_that() -> None:
    """A key follows the names of the base that was asked for."""
    history = [*KEYSPACE, *TABLE, f"@5 p1 n1 invoke create-view k.m {VIEW}", "@6 p1 n1 ok"]
    sibling = ("@7 p1 n1 invoke create-table k.s a:int* b:text+ c:int s:text!", "@8 p1 n1 ok")
    renamed = [*history, *sibling, "@9 p1 n1 invoke rename-column k.s a>z", "@10 p1 n1 ok"]
    on_sibling = [*view(["c", "a", "b"], base="s"), table().replace("k.t id=1", "k.s id=3")]
    assert ("k.m",) in {one.objects for one in found(renamed, on_sibling)}
    own = [*history, "@9 p1 n1 invoke rename-column k.t a>z", "@10 p1 n1 ok"]
    assert ("k.m",) not in {one.objects for one in found(own, view(["c", "b", "a"]))}


@pytest.mark.parametrize(
    ("replication", "sound"),
    [
        ({"class": "SimpleStrategy", "replication_factor": "3"}, True),
        ({"class": "org.apache.cassandra.locator.SimpleStrategy", "replication_factor": 3}, True),
        ({"class": "com.example.SimpleStrategy", "replication_factor": "3"}, False),
        ({"class": "SimpleStrategy", "replication_factor": "2"}, False),
        ({"class": "SimpleStrategy"}, False),
        ({"class": "SimpleStrategy", "replication_factor": "3", "more": "1"}, False),
        ({"class": "NetworkTopologyStrategy", "replication_factor": "3"}, False),
    ],
)
def test_replication_is_what_was_asked_for(replication: dict, sound: bool) -> None:
    shown = orjson.dumps({"replication": replication, "durable_writes": True}).decode()
    records = judged(KEYSPACE, [f"{ALL} keyspace k {shown}"])
    assert Definitions().check(records, limit_s=5).valid is sound


def test_durable_writes_are_on_unless_somebody_switches_them_off() -> None:
    shown = '{"replication": {"class": "SimpleStrategy", "replication_factor": "3"}, "durable_writes": false}'
    records = judged(KEYSPACE, [f"{ALL} keyspace k {shown}"])
    (one,) = Definitions().check(records, limit_s=5).anomalies
    assert one.evidence["part"] == "durable_writes"


# ── what is left open ────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_object_that_may_be_older_than_the_history_is_not_judged() -> None:
    assert found(["@7 p1 n2 invoke add-column k.t d:int", "@8 p1 n2 ok"], [table()]) == []


def test_a_statement_in_free_text_may_have_changed_anything() -> None:
    text = ['@7 p1 n2 invoke cql k {"statement": "ALTER TABLE k.t ADD ghost int"}', "@8 p1 n2 ok"]
    assert found([*KEYSPACE, *TABLE, *text], [table(with_column("ghost", type="int"))]) == []
