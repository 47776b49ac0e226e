"""Tables: row 1 of one table is not row 1 of another."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from schemaquake.checkers.elle.list_append import ListAppend
from schemaquake.checkers.elle.rw_register import RwRegister
from schemaquake.harness.history.lean_mops import narrow
from schemaquake.harness.model.records import HISTORY, Records
from schemaquake.harness.model.verdict import Verdict

MicroOps = list[dict[str, Any]]


def mop(f: str, key: int, value: int | None = None, values: list[int] | None = None) -> dict[str, Any]:
    return {"f": f, "k": key, "v": value, "vs": values}


def history(*transactions: tuple[str | None, MicroOps]) -> pa.Table:
    """One transaction after another, each of one table."""
    rows: list[dict[str, Any]] = []
    for process, (table, mops) in enumerate(transactions):
        for kind in ("invoke", "ok"):
            asked = [{**one, "vs": None, "v": None} if one["f"] == "r" else one for one in mops]
            rows.append(
                {
                    "index": len(rows),
                    "time": len(rows) * 1_000_000,
                    "process": process,
                    "type": kind,
                    "f": "txn",
                    "node": "n1",
                    "key": table,
                    "value": None,
                    "error": None,
                    "mops": asked if kind == "invoke" else mops,
                }
            )
    return pa.Table.from_pylist(rows, schema=HISTORY)


def judge(checker: Any, *transactions: tuple[str | None, MicroOps]) -> Verdict:
    """Judge them as they are and with lean micro-operations: the verdicts are one."""
    wide = history(*transactions)
    verdict: Verdict = checker.check(Records.of(wide), limit_s=10)
    lean = wide.set_column(HISTORY.get_field_index("mops"), "mops", narrow(wide["mops"]))
    same: Verdict = checker.check(Records.of(lean), limit_s=10)
    assert (same.valid, same.doubts, same.anomalies) == (verdict.valid, verdict.doubts, verdict.anomalies)
    return verdict


def test_one_row_key_in_two_tables_is_two_lists() -> None:
    one = ("k.a", [mop("append", 1, 1)]), ("k.a", [mop("r", 1, values=[1])])
    other = ("j.a", [mop("append", 1, 1)]), ("j.a", [mop("r", 1, values=[1])])
    assert judge(ListAppend(), *one, *other).valid is True
    assert judge(ListAppend(), *one, ("k.a", [mop("r", 1, values=[])])).valid is False


def test_an_empty_list_of_one_table_is_no_missing_value_of_another() -> None:
    register = ("k.r", [mop("w", 1, 5)]), ("k.r", [mop("r", 1, 5)])
    assert judge(RwRegister(), *register, ("k.a", [mop("r", 1)])).valid is True
    assert judge(RwRegister(), *register, ("k.r", [mop("r", 1)])).valid is False


@pytest.mark.parametrize("wrong", ["j.a", "k.a"])
def test_what_is_wrong_in_one_table_is_told_beside_what_is_right_in_the_other(wrong: str) -> None:
    right = "k.a" if wrong == "j.a" else "j.a"
    verdict = judge(
        ListAppend(),
        (right, [mop("append", 1, 1)]),
        (right, [mop("r", 1, values=[1])]),
        (wrong, [mop("append", 1, 1)]),
        (wrong, [mop("r", 1, values=[])]),
        (wrong, [mop("r", 1, values=[1])]),
    )
    assert verdict.valid is False
    assert set(verdict.figures) == {"k.a", "j.a"}
    assert {index for anomaly in verdict.anomalies for index in anomaly.ops} <= set(range(4, 10))


def test_a_history_without_tables_is_judged_as_one() -> None:
    assert judge(ListAppend(), (None, [mop("append", 1, 1)]), (None, [mop("r", 1, values=[])])).valid is False
    empty = judge(ListAppend(), ("k.r", [mop("w", 1, 5)]), ("j.r", [mop("w", 1, 5)]))
    assert empty.valid == "unknown"
    assert empty.judged_nothing
