"""Merged definitions: the smallest merged table, and everything that looks like one and is not."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from histories import judged

from schemaquake.checkers.schema.merged_definitions import MergedDefinitions
from schemaquake.harness.model.verdict import Verdict

A = ("@1 p0 n1 invoke create-table k.t a:int* x:int", "@2 p0 n1 ok")
B = ("@1 p1 n2 invoke create-table k.t b:int* y:int", "@2 p1 n2 ok")


def verdict(history: Sequence[str], *observations: str) -> Verdict:
    return MergedDefinitions().check(judged(history, observations), limit_s=5)


def test_the_columns_of_two_creates_are_merged() -> None:
    (found,) = verdict([*A, *B], "settled,restarted n1,n2 table k.t id=1 a:int* b:int* x:int y:int").anomalies
    assert found.type == "merged-definitions"
    assert found.objects == ("k.t",)
    assert found.nodes == ("n1", "n2")
    first, second = found.ops
    assert found.evidence["declared_by"] == {"a": [first], "b": [second], "x": [first], "y": [second]}
    assert set(found.evidence["columns"]) == {"settled", "restarted"}


@pytest.mark.parametrize("shown", ["a:int* x:int", "b:int* y:int"], ids=["the first", "the second"])
def test_the_columns_of_either_create_are_not_merged(shown: str) -> None:
    assert verdict([*A, *B], f"settled n1,n2 table k.t id=1 {shown}").valid is True


def test_two_creates_of_one_definition_are_not_merged() -> None:
    also = ("@1 p1 n2 invoke create-table k.t a:int* x:int", "@2 p1 n2 ok")
    assert verdict([*A, *also], "settled n1,n2 table k.t id=1 a:int* x:int").valid is True


def test_a_create_that_failed_gives_nothing() -> None:
    refused = (B[0], "@2 p1 n2 fail AlreadyExists")
    assert verdict([*A, *refused], "settled n1,n2 table k.t id=1 a:int* x:int y:int").valid is True


def test_a_create_of_unknown_outcome_may_be_merged_in() -> None:
    unknown = (B[0], "@2 p1 n2 info timed out")
    assert verdict([*A, *unknown], "settled n1,n2 table k.t id=1 a:int* b:int* x:int y:int").valid is False


def test_part_of_the_union_is_merged() -> None:
    assert verdict([*A, *B], "settled n1,n2 table k.t id=1 a:int* y:int").valid is False


ADD_Y = "@4 p2 n1 invoke add-column k.t y:int"


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        pytest.param("@5 p2 n1 ok", "a:int* x:int y:int", id="added"),
        pytest.param("@5 p2 n1 info timed out", "a:int* x:int y:int", id="perhaps added"),
        pytest.param("@5 p2 n1 info timed out", "a:int* x:int", id="perhaps not added"),
    ],
)
def test_a_column_of_a_later_alter_is_not_merged(answer: str, shown: str) -> None:
    assert verdict([*A, *B, ADD_Y, answer], f"settled n1,n2 table k.t id=1 {shown}").valid is True


def test_a_column_that_an_alter_failed_to_add_is_merged() -> None:
    history = [*A, *B, ADD_Y, "@5 p2 n1 fail InvalidRequest"]
    assert verdict(history, "settled n1,n2 table k.t id=1 a:int* x:int y:int").valid is False


def test_a_column_missing_by_a_later_drop_is_not_a_sign_of_merging() -> None:
    history = [*A, *B, "@4 p2 n1 invoke drop-column k.t x", "@5 p2 n1 ok"]
    assert verdict(history, "settled n1,n2 table k.t id=1 a:int*").valid is True


def test_a_renamed_key_is_not_a_sign_of_merging() -> None:
    history = [*A, *B, "@4 p2 n1 invoke rename-column k.t a>b", "@5 p2 n1 ok"]
    assert verdict(history, "settled n1,n2 table k.t id=1 b:int* x:int").valid is True


def test_one_name_declared_twice_belongs_to_the_create_whose_type_it_has() -> None:
    one = ("@1 p0 n1 invoke create-table k.t a:int* x:int y:int", "@2 p0 n1 ok")
    other = ("@1 p1 n2 invoke create-table k.t a:int* x:text y:text", "@2 p1 n2 ok")
    assert verdict([*one, *other], "settled n1,n2 table k.t id=1 a:int* x:int y:text").valid is False
    assert verdict([*one, *other], "settled n1,n2 table k.t id=1 a:int* x:varchar y:text").valid is True


def test_a_type_that_the_server_spells_in_its_own_way_tells_nothing() -> None:
    one = ("@1 p0 n1 invoke create-table k.t a:int* x:list<int>", "@2 p0 n1 ok")
    other = ("@1 p1 n2 invoke create-table k.t a:int* x:set<int>", "@2 p1 n2 ok")
    observation = "settled n1,n2 table k.t id=1 a:int* x:org.apache.cassandra.db.marshal.ListType(Int32Type)"
    assert verdict([*one, *other], observation).valid is True


def test_free_text_may_have_added_anything() -> None:
    text = ('@4 p2 n1 invoke cql k {"statement": "ALTER TABLE k.t ADD (b int, y int)"}', "@5 p2 n1 ok")
    assert verdict([*A, *B, *text], "settled n1,n2 table k.t id=1 a:int* x:int b:int y:int").valid == "unknown"


def test_a_column_that_nobody_declared_is_somebody_elses_finding() -> None:
    assert verdict([*A, *B], "settled n1,n2 table k.t id=1 a:int* x:int z:int").valid is True
