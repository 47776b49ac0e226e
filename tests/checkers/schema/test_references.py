"""References: each dangling one, and the same reference with what it needs."""

from __future__ import annotations

import json

import pytest
from histories import judged

from schemaquake.checkers.findings.limits import LIMITS
from schemaquake.checkers.schema.references import References
from schemaquake.harness.model.traits import checker_traits
from schemaquake.harness.model.verdict import Verdict

SHAPED = "@5 running n1 table k.z id=9 a:int*"
"""Shows that this system's schema tables describe primary keys."""


def verdict(*observations: str, history: tuple[str, ...] = ()) -> Verdict:
    return References().check(judged(history, [SHAPED, *observations]), limit_s=5)


def types(*observations: str) -> list[str]:
    return [anomaly.type for anomaly in verdict(*observations).anomalies]


@pytest.mark.parametrize(
    "user",
    [
        "table k.x id=1 a:int* c:u",
        "table k.x id=1 a:int* c:frozen<list<u>>",
        "table k.x id=1 a:int* c:map<text,frozen<u>>",
        "table k.x id=1 a:int* c:tuple<int,u>",
        "table k.x id=1 a:int* c:k.u",
        "view k.m id=1 a:int* c:frozen<u>",
        "type k.w f:frozen<u>",
        'function k.f {"arguments": [["p", "frozen<u>"]]}',
        'function k.f {"returns": "u"}',
        'aggregate k.g {"arguments": ["u"]}',
        'aggregate k.g {"state_type": "frozen<u>"}',
    ],
)
def test_a_type_that_does_not_exist_is_dangling_and_one_that_does_is_not(user: str) -> None:
    assert types(f"settled n1 {user}") == ["dangling-type"]
    assert types(f"settled n1 {user}", "settled n1 type k.u f0:int") == []


def test_a_type_of_another_keyspace_does_not_help() -> None:
    assert types("settled n1 table k.x id=1 a:int* c:u", "settled n1 type l.u f0:int") == ["dangling-type"]


def test_the_same_flaw_on_two_nodes_and_in_two_phases_is_one_finding() -> None:
    (found,) = verdict(
        "settled,restarted n1,n2 table k.x id=1 a:int* c:u",
        history=("@1 p0 n1 invoke create-table k.x a:int* c:u", "@2 p0 n1 ok"),
    ).anomalies
    assert found.nodes == ("n1", "n2")
    assert set(found.evidence["readings"]) == {"settled", "restarted"}
    assert found.evidence["missing"] == "k.u"
    assert found.ops == (0,)


def test_a_type_missing_on_one_node_only_is_found_there() -> None:
    (found,) = verdict("settled n1,n2 table k.x id=1 a:int* c:u", "settled n2 type k.u f0:int").anomalies
    assert found.nodes == ("n1",)


@pytest.mark.parametrize("part", ["state_function", "final_function"])
def test_an_aggregate_needs_its_functions(part: str) -> None:
    aggregate = f'settled n1 aggregate k.g {{"{part}": "f"}}'
    assert types(aggregate) == ["dangling-function"]
    assert types(aggregate, "settled n1 function k.f") == []


def test_a_function_of_another_keyspace_is_not_judged() -> None:
    assert types('settled n1 aggregate k.g {"state_function": "system.f"}') == []


def test_a_view_needs_the_very_table_it_was_made_on() -> None:
    view = 'settled n1 view k.m id=5 a:int* {"base_table_id": "1", "base_table_name": "t"}'
    assert types(view) == ["orphan-view"]
    assert types(view, "settled n1 table k.t id=2 a:int*") == ["orphan-view"]
    assert types(view, "settled n1 table k.t id=1 a:int*") == []


def test_a_base_that_is_judged_by_memory_has_no_id_to_compare() -> None:
    """The node's copy of its schema lacks column c of the base, which its memory has."""
    view = 'view k.m id=5 c:int* a:int+ {"base_table_id": "7", "base_table_name": "t"}'
    made = "live k.m CREATE MATERIALIZED VIEW k.m AS SELECT a, c FROM k.t WHERE c IS NOT NULL PRIMARY KEY (c, a)"
    base = ("table k.t id=7 a:int*", "live k.t CREATE TABLE k.t (a int PRIMARY KEY, c int)")
    shown = ['version v9 {"epoch": 9, "authority": "log"}', "keyspace k", "live k CREATE KEYSPACE k", view, made]
    assert types(*(f"settled n1 {row}" for row in [*shown, *base])) == []
    assert types(*(f"settled n1 {row}" for row in shown)) == ["orphan-view"]


def index(target: str) -> str:
    return f'settled n1 table k.t id=1 a:int* c:int D:int {{"indexes": {{"i": {{"kind": "K", "target": {target}}}}}}}'


@pytest.mark.parametrize(
    "target", ['"c"', '"values(c)"', '"keys(c)"', '"entries(c)"', '"full(c)"', '"\\"D\\""', "null"]
)
def test_an_index_on_a_column_of_its_table_is_sound(target: str) -> None:
    assert types(index(target)) == []


@pytest.mark.parametrize("target", ['"e"', '"values(e)"', '"\\"C\\""', '"{\\"pk\\": [\\"a\\"], \\"ck\\": [\\"e\\"]}"'])
def test_an_index_on_a_column_that_is_not_there_is_found(target: str) -> None:
    assert types(index(target)) == ["dangling-index-target"]


def test_rows_of_an_index_whose_table_is_gone_are_found() -> None:
    residue = 'settled n1 table k.t {"indexes": {"i": {"kind": "K", "target": "c"}}}'
    assert types(residue) == ["dangling-index-target"]


def test_a_row_of_a_table_without_columns_is_headless() -> None:
    assert types("settled n1 table k.t id=1") == ["headless-table"]
    assert types("settled n1 table k.t id=1 a:int*") == []


def test_columns_without_a_row_of_their_table_are_headless() -> None:
    assert types("settled n1 table k.t c:int") == ["headless-table"]


def test_where_no_table_shows_a_key_none_is_missed() -> None:
    for observation in ("settled n1 table k.t id=1", "settled n1 table k.t id=1 c:int"):
        assert References().check(judged((), [observation]), limit_s=5).valid is True


def test_a_memory_that_can_be_described_tells_of_keys() -> None:
    observations = ["settled n1 table k.t id=1", "settled n1 live k CREATE KEYSPACE k"]
    assert References().check(judged((), observations), limit_s=5).valid is False


KEYS = {
    "no partition key": ([("c", "regular", -1)], False),
    "two at position 0": ([("a", "partition_key", 0), ("b", "partition_key", 0)], False),
    "a gap": ([("a", "partition_key", 0), ("b", "clustering", 1)], False),
    "in order": ([("a", "partition_key", 1), ("b", "partition_key", 0)], True),
    "positions not told": ([("a", "partition_key", None), ("b", "partition_key", None)], True),
}


@pytest.mark.parametrize("name", KEYS)
def test_positions_of_a_key_count_from_0_without_a_gap(name: str) -> None:
    members, valid = KEYS[name]
    columns = {column: {"type": "int", "kind": kind, "position": position} for column, kind, position in members}
    found = verdict(f"settled n1 table k.t id=1 {json.dumps({'columns': columns})}")
    assert found.valid is valid
    assert [anomaly.type for anomaly in found.anomalies] == ([] if valid else ["bad-primary-key"])


def test_columns_of_which_none_is_told_to_be_a_partition_key_are_no_sign_that_keys_are_described() -> None:
    assert References().check(judged((), ["settled n1 table k.t id=1 c:int+ d:int"]), limit_s=5).valid is True
    gap = {"c": {"type": "int", "kind": "clustering", "position": 1}}
    found = References().check(judged((), [f"settled n1 table k.t id=1 {json.dumps({'columns': gap})}"]), limit_s=5)
    assert [anomaly.type for anomaly in found.anomalies] == ["bad-primary-key"]


# ── what a finding says ──────────────────────────────────────────────────────────────────────────────────────────────


def test_it_vouches_and_judges_while_a_run_goes_on() -> None:
    assert References.vouches
    assert checker_traits(References()).judges_early


def test_every_object_is_judged_once_sound_ones_beside_each_flaw() -> None:
    sound = ["settled n1,n2 table k.y id=2 a:int*", "settled n1,n2 type k.v f:int"]
    residue = 'settled n1 table k.t {"indexes": {"i": {"kind": "K", "target": "c"}}}'
    assert verdict(*sound).stats["judged"].value == 2
    assert verdict(*sound, "settled n1 table k.t c:int").stats["judged"].value == 3, "columns alone are no object"
    assert verdict(*sound, "settled n1 table k.x id=1 a:int* c:u", residue).stats["judged"].value == 4


@pytest.mark.parametrize(("keyspace", "dangles"), [("shop", True), ("auth", False), ("wares", False)])
def test_a_type_is_judged_if_it_is_of_the_keyspace_itself(keyspace: str, dangles: bool) -> None:
    shown = f"settled n1 table shop.x id=1 a:int* c:{keyspace}.money"
    found = References().check(judged((), [shown]), limit_s=5)
    assert [anomaly.evidence["missing"] for anomaly in found.anomalies] == ([f"{keyspace}.money"] if dangles else [])


def test_arguments_of_an_aggregate_are_counted_from_one() -> None:
    (found,) = verdict('settled n1 aggregate k.g {"arguments": ["int", "u"]}').anomalies
    assert found.evidence["readings"]["settled"]["n1"] == {"part": "argument 2", "type": "u"}


@pytest.mark.parametrize("written", ["f", "k.f", '"f"', "f(int, int)", "k.f(int)"])
def test_a_function_is_known_by_its_name_however_it_is_written(written: str) -> None:
    aggregate = f"settled n1 aggregate k.g {json.dumps({'state_function': written})}"
    (found,) = verdict(aggregate).anomalies
    assert found.evidence["missing"] == "k.f"
    assert types(aggregate, "settled n1 function k.f") == []


def test_an_orphan_names_the_base_that_it_lacks_and_the_ids_there_are() -> None:
    named = 'settled n1 view k.m id=5 a:int* {"base_table_id": "1", "base_table_name": "t"}'
    (found,) = verdict(named, "settled n1 table k.t id=2 a:int*", "settled n1 table k.w id=3 a:int*").anomalies
    assert found.evidence["missing"] == "k.t"
    assert found.evidence["readings"]["settled"]["n1"]["table_ids"] == ["2", "3"]
    (unnamed,) = verdict('settled n1 view k.m id=5 a:int* {"base_table_id": "1"}').anomalies
    assert unnamed.evidence["missing"] is None


def test_a_headless_table_is_told_by_the_half_it_has() -> None:
    (row,) = verdict("settled n1 table k.t id=1").anomalies
    (columns,) = verdict("settled n1 table k.t c:int b:int").anomalies
    assert row.explanation.endswith("shows that there is the row of k.t and none of its columns.")
    assert columns.explanation.endswith("there are columns b and c of k.t and no row of the table itself.")


PLACES = {
    "clustering columns count by themselves": ([("a", "partition_key", 0), ("b", "clustering", 0)], None),
    "by position": ([("a", "partition_key", 2), ("b", "partition_key", 0)], "b at position 0 and a at position 2"),
    "by name": ([("b", "partition_key", 0), ("a", "partition_key", 0)], "a at position 0 and b at position 0"),
}


@pytest.mark.parametrize("name", PLACES)
def test_the_columns_of_a_bad_key_are_told_in_order(name: str) -> None:
    members, told = PLACES[name]
    columns = {column: {"type": "int", "kind": kind, "position": position} for column, kind, position in members}
    found = verdict(f"settled n1 table k.t id=1 {json.dumps({'columns': columns})}").anomalies
    assert [anomaly.explanation.partition("of k.t are ")[2] for anomaly in found] == ([f"{told}."] if told else [])


def changes(*statements: str) -> tuple[str, ...]:
    return tuple(
        line for n, statement in enumerate(statements) for line in (f"p{n} n1 invoke {statement}", f"p{n} n1 ok")
    )


def test_suspects_are_changes_of_the_object_and_of_what_it_lacks_and_alterations_that_name_it() -> None:
    made = ("create-type k.money f0:int", "create-table k.x a:int*", "create-table k.y a:int*", "add-column k.x d:int")
    history = changes(*made, "add-column k.x c:money", "drop-type k.money")
    (found,) = verdict("settled n1 table k.x id=1 a:int* c:money d:int", history=history).anomalies
    assert found.ops == (0, 2, 8, 10)
    assert "Then whatever the order of T1, T2, T3 and T4, a type that k.x uses must exist." in found.explanation


def test_a_table_of_the_name_of_its_type_is_suspected_with_it() -> None:
    history = changes("create-type k.u f0:int", "create-table k.u a:int* c:u", "drop-type k.u")
    (found,) = verdict("settled n1 table k.u id=1 a:int* c:u", history=history).anomalies
    assert found.ops == (0, 2, 4)


def test_of_many_suspects_the_last_are_named() -> None:
    drops = ("create-type k.u f0:int", "drop-type k.u") * 4
    (found,) = verdict("settled n1 table k.x id=1 a:int* c:u", history=changes(*drops)).anomalies
    assert found.ops == tuple(range(0, 16, 2))[-LIMITS.suspects :]


@pytest.mark.parametrize(
    ("history", "then"),
    [
        ((), "Then a type that k.x uses must exist."),
        (("create-table k.x a:int* c:u",), "Then a type that k.x uses must exist."),
        (("create-table k.x a:int* c:u", "drop-type k.u"), "Then whatever the order of T1 and T2, a type"),
    ],
    ids=["none", "one", "two"],
)
def test_an_order_is_spoken_of_where_there_are_two_suspects(history: tuple[str, ...], then: str) -> None:
    (found,) = verdict("settled n1 table k.x id=1 a:int* c:u", history=changes(*history)).anomalies
    assert then in found.explanation
