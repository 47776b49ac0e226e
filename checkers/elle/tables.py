"""Tables: what several of them hold is judged table by table, for a key is a number within its table.

A transaction's key (`harness.records.HISTORY`) names the table, its micro-operations name rows of it. Histories of other
tools have no tables: all their transactions are of one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from harness.records import plain
from harness.verdict import Verdict, combine

__all__ = ["of_each_table", "of_tables"]

_NOTHING: Final = "nothing to judge"


def of_each_table(history: pa.Table, judge: Callable[[pa.Table], Verdict]) -> Verdict:
    """One verdict from those on each table's transactions; `stats` are by table where there are several."""
    if history["key"].null_count == len(history):
        return judge(history)
    named = plain(history.select(["key"]).filter(history["mops"].is_valid()))["key"]
    tables = pc.unique(named).to_pylist()
    if len(tables) <= 1:
        return judge(history)
    return of_tables({str(table): verdict for table, verdict in _verdicts(history, tables, judge)})


def of_tables(verdicts: Mapping[str, Verdict]) -> Verdict:
    """One verdict from those on several tables."""
    judged = {name: verdict for name, verdict in verdicts.items() if not (verdict.reason or "").startswith(_NOTHING)}
    if not judged:
        return next(iter(verdicts.values()))
    doubts = [f"{name}: {verdict.reason}" for name, verdict in judged.items() if verdict.reason]
    return Verdict(
        valid=combine(verdict.valid for verdict in judged.values()),
        checker=next(iter(judged.values())).checker,
        anomalies=tuple(anomaly for verdict in judged.values() for anomaly in verdict.anomalies),
        stats={name: dict(verdict.stats) for name, verdict in judged.items()},
        reason="; ".join(doubts) or None,
    )


def _verdicts(
    history: pa.Table, tables: list[str | None], judge: Callable[[pa.Table], Verdict]
) -> Iterator[tuple[str | None, Verdict]]:
    keys = plain(history.select(["key"]))["key"]
    for table in tables:
        mine = keys.is_null() if table is None else pc.fill_null(pc.equal(keys, table), fill_value=False)
        yield table, judge(history.filter(mine))
