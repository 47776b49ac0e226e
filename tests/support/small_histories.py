"""A little language for histories of transactions: one line a transaction.

    p0 1..4 ok a1=7 r2=[5,7] r3=        process 0 invokes at 1 and completes at 4: appends 7 to key 1, reads keys 2 and 3
    p1 2..  info w1=7 r2=5              never completes: writes 7 to key 1; what it would read of key 2 is not known

Moments are unique. An invocation does not say what is read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import pyarrow as pa

from schemaquake.harness.model.records import HISTORY

MicroOp: TypeAlias = tuple[str, int, Any]
_LINE = re.compile(r"p(\d+) (\d+)\.\.(\d*) (ok|fail|info) (.*)")
_MICRO = re.compile(r"([arw])(\d+)=(\S*)")
_F = {"a": "append", "r": "r", "w": "w"}


@dataclass(frozen=True)
class Transaction:
    """One line."""

    process: int
    invoked: int
    completed: int | None
    type: str
    mops: tuple[MicroOp, ...]


def parsed(line: str) -> Transaction:
    found = _LINE.fullmatch(line)
    assert found, line
    process, invoked, completed, of_type, words = found.groups()
    mops = tuple((_F[f], int(key), json.loads(value) if value else None) for f, key, value in _MICRO.findall(words))
    return Transaction(int(process), int(invoked), int(completed) if completed else None, of_type, mops)


def history(*lines: str) -> pa.Table:
    return table(map(parsed, lines))


def table(transactions: Iterable[Transaction]) -> pa.Table:
    """The history of those transactions, in order of their moments."""
    events: list[tuple[int, dict[str, Any]]] = []
    for one in transactions:
        asked = [(f, key, None if f == "r" else value) for f, key, value in one.mops]
        events.append((one.invoked, _event(one, "invoke", asked)))
        if one.completed is not None:
            known = asked if one.type == "info" else one.mops
            events.append((one.completed, _event(one, one.type, known)))
    events.sort(key=lambda event: event[0])
    assert len({moment for moment, _ in events}) == len(events)
    rows = [{**event, "index": index, "time": moment} for index, (moment, event) in enumerate(events)]
    return pa.Table.from_pylist(rows, schema=HISTORY)


def _event(one: Transaction, of_type: str, mops: Sequence[MicroOp]) -> dict[str, Any]:
    micro = [
        {
            "f": f,
            "k": key,
            "v": None if isinstance(value, list) else value,
            "vs": value if isinstance(value, list) else None,
        }
        for f, key, value in mops
    ]
    return {"process": one.process, "type": of_type, "f": "txn", "mops": micro}


def shifted(transactions: Sequence[Transaction], *, later: int) -> list[Transaction]:
    """The same, so much later."""
    return [
        replace(one, invoked=one.invoked + later, completed=None if one.completed is None else one.completed + later)
        for one in transactions
    ]


def renamed(
    transactions: Sequence[Transaction], *, keys: dict[int, int], values: dict[Any, int], processes: dict[int, int]
) -> list[Transaction]:
    """The same under other names; `values` by (key, value)."""

    def value_of(key: int, value: Any) -> Any:
        if isinstance(value, list):
            return [values[key, one] for one in value]
        return None if value is None else values[key, value]

    return [
        replace(
            one,
            process=processes[one.process],
            mops=tuple((f, keys[key], value_of(key, value)) for f, key, value in one.mops),
        )
        for one in transactions
    ]
