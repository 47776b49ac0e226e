"""Histories with known verdicts, as tables of ours.

Generated ones, and what the original Elle says of each by eight models, are in tests/histories. Those of peers may not
be copied: they are read where SCHEMAQUAKE_SHARED says, or beside the repository, and not collected where they are absent.
"""

from __future__ import annotations

import json
import lzma
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from places import ROOT

from schemaquake.harness.model.records import HISTORY
from schemaquake.results.formats import edn

SHARED = Path(os.environ.get("SCHEMAQUAKE_SHARED", ROOT.parent / "shared"))


def shared(name: str) -> Path:
    """Find a file of the peers' histories. Tests that ask for one are collected only where `SHARED` is."""
    return SHARED / name


def conformance(name: str) -> Iterator[dict[str, Any]]:
    """Read tests/histories/NAME.jsonl.xz: one document a history, `{"id", "kind", "ops", "elle": {model: verdict}}`."""
    with lzma.open(ROOT / "tests" / "histories" / f"{name}.jsonl.xz", "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


def from_json(ops: Iterable[Mapping[str, Any]]) -> pa.Table:
    """A history from op maps that are complete: every one has its process, and was invoked."""
    rows = [
        {
            "index": op["index"],
            "time": op["time"],
            "process": op["process"],
            "type": op["type"],
            "f": "txn",
            "mops": [micro_op(*part) for part in op["value"]],
        }
        for op in ops
    ]
    return pa.Table.from_pylist(rows, schema=HISTORY)


def micro_op(f: str, key: int, value: int | list[int] | None = None) -> dict[str, Any]:
    many = isinstance(value, list)
    return {"f": f, "k": key, "v": None if many else value, "vs": value if many else None}


def from_edn(path: Path) -> pa.Table:
    """A history from a file of op maps in which processes may overlap, and ops may be completed but never invoked.

    Each operation gets a process of its own unless its process is sequential; what was never invoked may have begun at
    any time before.
    """
    with path.open("rb") as file:
        found = [op for _, op in edn.forms(file, str(path))]
    ops = [op for op in found if op.get("process") != "nemesis" and isinstance(op.get("value"), list)]
    numbers: dict[Any, int] = {}
    paired = _paired(ops)
    sequential = _sequential([invocation for invocation, _ in paired], ops)
    processes = {}
    for number, (invocation, completion) in enumerate(paired):
        process = ops[completion if invocation is None else invocation].get("process")
        own = 1000 + number
        for at in (invocation, completion):
            if at is not None:
                processes[at] = process if sequential and isinstance(process, int) else own
    rows: list[dict[str, Any]] = []
    begun = [(completion, ops[completion]) for invocation, completion in paired if invocation is None]
    for at, op in begun:
        rows.append(_row(op, "invoke", processes[at], numbers))
    rows += [_row(op, op["type"], processes[at], numbers) for at, op in enumerate(ops)]
    return pa.Table.from_pylist([{**row, "index": at, "time": at} for at, row in enumerate(rows)], schema=HISTORY)


def _row(op: Mapping[str, Any], of_type: str, process: int, numbers: dict[Any, int]) -> dict[str, Any]:
    def number(name: Any) -> Any:
        if isinstance(name, list):
            return [number(element) for element in name]
        return name if name is None or isinstance(name, int) else numbers.setdefault(name, 10_000_000 + len(numbers))

    mops = [micro_op(part[0], number(part[1]), number(part[2]) if len(part) > 2 else None) for part in op["value"]]
    return {"process": process, "type": of_type, "f": "txn", "mops": mops}


def _paired(ops: list[Any]) -> list[tuple[int | None, Any]]:
    """(place of the invocation, place of the completion) of each operation; either may be missing."""
    waiting: list[int] = []
    found: list[tuple[int | None, Any]] = []
    for at, op in enumerate(ops):
        if op["type"] == "invoke":
            waiting.append(at)
            continue
        alike = [
            place
            for place in waiting
            if ops[place].get("process") == op.get("process") and _asked(ops[place]) == _asked(op)
        ]
        if alike:
            waiting.remove(alike[0])
        found.append((alike[0] if alike else None, at))
    return found + [(at, None) for at in waiting]


def _asked(op: Mapping[str, Any]) -> list[Any]:
    return [part[:2] if part[0] == "r" else part for part in op["value"]]


def _sequential(invocations: list[int | None], ops: list[Any]) -> bool:
    """Whether every operation was invoked, and no process does two things at a time or goes on after an info."""
    if None in invocations:
        return False
    busy: set[Any] = set()
    for op in ops:
        process = op.get("process")
        if op["type"] == "invoke":
            if process in busy or not isinstance(process, int):
                return False
            busy.add(process)
        elif op["type"] != "info":
            busy.discard(process)
    return True
