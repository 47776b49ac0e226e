"""References: each dangling one, and the same reference with what it needs."""

from __future__ import annotations

import json

import pytest
from histories import judged

from schemaquake.checkers.schema.references import References
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
