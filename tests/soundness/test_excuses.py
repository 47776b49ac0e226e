"""Excuses: a change of unknown outcome excuses nothing but what it can reach.

A lie that makes the perfect run invalid makes it so, too, if one more change was never answered: of another keyspace, or of another
object of the same keyspace. In between its readings and long before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from random import Random
from typing import Any

import orjson
import pyarrow as pa
import pytest
from lies import CleanRun, Lie, NotThereError
from soundness import Judge, clean_run
from soundness_page import CLASSES, entry, is_hard, one_of_each

from schemaquake.harness.model.records import HISTORY, Records

SAMPLE = 8
ELSEWHERE: Mapping[str, tuple[str, str, Mapping[str, Any]]] = {
    "a DROP of another keyspace": ("drop-keyspace", "elsewhere", {"keyspace": "elsewhere"}),
    "an ALTER of another keyspace": (
        "alter-keyspace",
        "elsewhere",
        {"keyspace": "elsewhere", "replication": {"class": "SimpleStrategy", "replication_factor": 1}},
    ),
    "a DROP of a table beside it": ("drop-table", "ks_rich.beside", {"keyspace": "ks_rich", "name": "beside"}),
    "a column of a table beside it": (
        "add-column",
        "ks_rich.beside",
        {"keyspace": "ks_rich", "name": "beside", "column": ["c", "int"]},
    ),
}


def excused(records: Records, f: str, key: str, value: Mapping[str, Any]) -> Records:
    """The same run with one more change, invoked just before the main phase ends and never answered."""
    rows = records.history.to_pylist()
    end = {"phase": "main", "state": "ends"}
    (time,) = [row["time"] for row in rows if row["f"] == "phase" and orjson.loads(row["value"]) == end]
    event = {"process": 9_000, "f": f, "node": "n2", "key": key, "mops": None, "error": None}
    asked = {**event, "time": time - 2, "type": "invoke", "value": orjson.dumps(value).decode()}
    lost = {**event, "time": time - 1, "type": "info", "value": None, "error": "OperationTimedOut: no answer"}
    rows = sorted([*rows, asked, lost], key=lambda row: row["time"])
    history = pa.Table.from_pylist([{**row, "index": index} for index, row in enumerate(rows)], schema=HISTORY)
    return Records.of(history, records.observations, records.logs)


@cache
def invalid() -> Mapping[tuple[str, str], None]:
    """Lies by which the perfect run is invalid, as (kind, text)."""
    decide = Judge()
    shown = [lie for lie in one_of_each("perfect") if not lie.kind.startswith("question")]
    hard = [lie for lie in shown if is_hard(lie) and entry("may-stay-valid", lie, "perfect") is None]
    some = Random(CLASSES["seed"]).sample(hard, SAMPLE)
    return {(lie.kind, lie.text): None for lie in some if verdict_of(lie, decide) is False}


def verdict_of(lie: Lie, decide: Judge) -> bool | str | None:
    try:
        return decide.valid(lie)
    except NotThereError:
        return None


def same(run: CleanRun) -> Iterator[Lie]:
    """The same lies about another run."""
    yield from (lie for lie in run.lies() if (lie.kind, lie.text) in invalid() and is_hard(lie))


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_change_that_was_not_answered_excuses_no_lie_about_anything_else(name: str) -> None:
    run = CleanRun(excused(clean_run("perfect").records, *ELSEWHERE[name]), retold=True)
    decide = Judge()
    found = {(lie.kind, lie.text): verdict_of(lie, decide) for lie in same(run)}
    assert len(found) >= SAMPLE // 3
    assert found == dict.fromkeys(found, False)
