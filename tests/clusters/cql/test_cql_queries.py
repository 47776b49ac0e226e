"""CQL queries: every kind of answer becomes the completion that a checker reads, and levels become the driver's."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from cassandra import ConsistencyLevel

from schemaquake.clusters.cql.completions import completion_of, kind_of, of_condition, reads_only
from schemaquake.clusters.cql.queries import prepared
from schemaquake.harness.ddl.rows import insert, truncate
from schemaquake.harness.ddl.schema_changes import alter_view
from schemaquake.harness.model.operation import MicroOp
from schemaquake.harness.model.queries import READS, Answer, Query
from schemaquake.harness.model.steps import Invoke


def asked(answer: Answer, *, f: str = "read", value: Any = None, mops: tuple[MicroOp, ...] | None = None) -> Invoke:
    return Invoke(f, "k.t/1", value, mops, Query(text="…", answer=answer))


READ_LISTS: tuple[MicroOp, ...] = (("r", 1, None, None), ("append", 2, 9, None), ("r", 3, None, None))
READ_REGISTERS: tuple[MicroOp, ...] = (("w", 2, 9, None), ("r", 1, None, None))
GET = {"consistency": "QUORUM"}
CASES: list[tuple[str, Invoke, list[dict[str, Any]], Any]] = [
    ("nothing", asked("nothing", f="add", value=7), [], 7),
    ("cell", asked("cell"), [{"v": 5}], 5),
    ("cell without a row", asked("cell"), [], None),
    ("cell that is null", asked("cell"), [{"v": None}], None),
    ("column", asked("column"), [{"k": 3}, {"k": 1}, {"k": 2}], [1, 2, 3]),
    ("column without rows", asked("column"), [], []),
    ("collection", asked("collection"), [{"e": {3, 1}}], [1, 3]),
    ("collection that is null", asked("collection"), [{"e": None}], []),
    ("collection without a row", asked("collection"), [], []),
    (
        "cell-and-writetime",
        asked("cell-and-writetime", f="get", value=GET),
        [{"v": 5, "writetime(v)": 11}],
        {**GET, "value": 5, "writetime": 11},
    ),
    (
        "cell-and-writetime without a row",
        asked("cell-and-writetime", f="get", value=GET),
        [],
        {**GET, "value": None, "writetime": None},
    ),
    ("applied", asked("applied", f="cas", value=[1, 2]), [{"[applied]": True}], [1, 2]),
]


@pytest.mark.parametrize(("operation", "rows", "value"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_rows_become_the_value(operation: Invoke, rows: list[dict[str, Any]], value: Any) -> None:
    completion = completion_of(operation, rows)
    assert (completion.type, completion.value, completion.error) == ("ok", value, None)


@pytest.mark.parametrize(
    ("operation", "rows", "mops"),
    [
        (
            asked("lists", f="txn", mops=READ_LISTS),
            [{"r1.l": [4, 5], "r3.l": None}],
            (("r", 1, None, [4, 5]), ("append", 2, 9, None), ("r", 3, None, [])),
        ),
        (asked("lists", f="txn", mops=READ_LISTS[:1]), [], (("r", 1, None, []),)),
        (asked("lists", f="txn", mops=READ_LISTS[1:2]), [], READ_LISTS[1:2]),
        (
            asked("registers", f="txn", mops=READ_REGISTERS),
            [{"v": 8}],
            (("w", 2, 9, None), ("r", 1, 8, None)),
        ),
        (asked("registers", f="txn", mops=READ_REGISTERS[1:]), [], (("r", 1, None, None),)),
        (asked("applied", f="txn", mops=READ_LISTS[1:2]), [{"[applied]": True}], READ_LISTS[1:2]),
    ],
    ids=["lists", "no row", "only appends", "registers", "register without a row", "conditional append"],
)
def test_reads_of_a_transaction_are_filled_in(
    operation: Invoke, rows: list[dict[str, Any]], mops: tuple[MicroOp, ...]
) -> None:
    completion = completion_of(operation, rows)
    assert completion.type == "ok"
    assert completion.mops == mops


def test_a_condition_that_did_not_hold_is_a_failure() -> None:
    completion = completion_of(asked("applied", f="cas", value=[1, 2]), [{"[applied]": False, "v": 5}])
    assert (completion.type, completion.value) == ("fail", [1, 2])
    assert completion.error == "not applied: the condition did not hold"


def test_a_conditional_write_without_an_answer_is_no_answer() -> None:
    with pytest.raises(ValueError, match="answered without a row"):
        completion_of(asked("applied", f="cas", value=[1, 2]), [])


@pytest.mark.parametrize(
    ("rows", "outcome"), [([{"[applied]": True}], "ok"), ([{"[applied]": False, "k": 1, "v": "x"}], "fail")]
)
def test_a_conditional_row_is_written_or_certainly_not(rows: list[dict[str, Any]], outcome: str) -> None:
    write = insert("k", "t", {"k": 1}, consistency="QUORUM", form="conditional")
    assert kind_of(write) == "conditional"
    completion = of_condition(write.value, rows)
    assert (completion.type, completion.value) == (outcome, write.value)
    with pytest.raises(ValueError, match="answered without a row"):
        of_condition(write.value, [])


def test_other_forms_of_a_write_are_writes() -> None:
    assert kind_of(insert("k", "t", {"k": 1}, consistency="ONE", form="batch", beside={"k": 2})) == "write"
    assert kind_of(truncate("k", "t")) == "write"
    assert kind_of(alter_view("k", "w", {"comment": "x"})) == "schema"


def test_every_kind_of_answer_is_tried_here() -> None:
    tried = {case[1].query.answer for case in CASES if case[1].query is not None} | {"lists", "registers"}
    assert tried == set(get_args(Answer))


def test_a_statement_carries_its_levels() -> None:
    statement = prepared(Query(text="SELECT 1", consistency="SERIAL"))
    assert statement.query_string == "SELECT 1"
    assert statement.consistency_level == ConsistencyLevel.SERIAL
    assert statement.serial_consistency_level is None
    conditional = prepared(Query(text="…", consistency="ALL", serial_consistency="LOCAL_SERIAL"))
    assert conditional.serial_consistency_level == ConsistencyLevel.LOCAL_SERIAL
    with pytest.raises(KeyError):
        prepared(Query(text="…", consistency="SOME"))


def test_what_only_reads_is_known_as_such() -> None:
    assert all(reads_only(asked("cell", f=f)) for f in READS)
    assert reads_only(asked("lists", f="txn", mops=READ_LISTS[:1]))
    assert not reads_only(asked("lists", f="txn", mops=READ_LISTS))
    assert not reads_only(asked("nothing", f="add", value=1))
