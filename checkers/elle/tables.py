"""Tables: what several of them hold is judged table by table, for a key is a number within its table.

A transaction's key (`schemaquake.harness.model.records.HISTORY`) names the table, its micro-operations name rows of it. Histories of other
tools have no tables: all their transactions are of one; or, with independent keys, each key is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.harness.compiled import working_time
from schemaquake.harness.history.gather import gather
from schemaquake.harness.model.records import plain
from schemaquake.harness.model.verdict import Anomaly, Doubt, Stat, Verdict, combine, merge_doubts

__all__ = ["of_each_table", "of_tables"]

_TABLES_MOST: Final = 100  # with statistics of their own
_ANOMALIES_MOST: Final = 200
_FEW: Final = 8


def of_each_table(history: pa.Table, judge: Callable[[pa.Table, float], Verdict], *, limit_s: float) -> Verdict:
    """Merge the verdicts on each table's transactions into one; `stats` are by table where there are several.

    `judge` gets what is left of the limit. Tables that it does not come to are left open.
    """
    if history["key"].null_count == len(history):
        return judge(history, limit_s)
    named = plain(history.select(["key"]).filter(history["mops"].is_valid()))["key"]
    tables = pc.unique(named).to_pylist()
    if len(tables) <= 1:
        return judge(history, limit_s)
    return of_tables(_verdicts(history, tables, judge, limit_s))


def of_tables(verdicts: Iterable[tuple[str, Verdict]]) -> Verdict:
    """Merge the verdicts on several tables into one: counts, and findings of the first ones, if there are very many."""
    first: Verdict | None = None
    checker = ""
    validities = set()
    stats: dict[str, Stat] = {}
    anomalies: list[Anomaly] = []
    doubts: list[Doubt] = []
    judged = found = 0
    for name, verdict in verdicts:
        first = first or verdict
        if verdict.judged_nothing:
            continue
        judged += 1
        found += len(verdict.anomalies)
        checker = verdict.checker
        validities.add(verdict.valid)
        anomalies += verdict.anomalies[: _ANOMALIES_MOST - len(anomalies)]
        if len(stats) < _TABLES_MOST:
            stats[name] = Stat(verdict.figures)
        doubts += [replace(doubt, objects=doubt.objects or (name,)) for doubt in verdict.doubts]
    assert first is not None
    if not judged:
        return first
    if judged > len(stats):
        stats["tables_left_out"] = Stat(judged - len(stats))
    if found > len(anomalies):
        stats["anomalies_left_out"] = Stat(found - len(anomalies))
    return Verdict(
        valid=combine(validities),
        checker=checker,
        anomalies=tuple(anomalies),
        stats=stats,
        doubts=merge_doubts(doubts),
    )


def _verdicts(
    history: pa.Table, tables: list[str | None], judge: Callable[[pa.Table, float], Verdict], limit_s: float
) -> Iterator[tuple[str, Verdict]]:
    keys = plain(history.select(["key"]))["key"]
    codes = pc.index_in(keys, value_set=pa.array(tables, pa.string())).fill_null(-1).to_numpy()
    order = np.argsort(codes, kind="stable")
    starts = np.searchsorted(codes[order], np.arange(len(tables) + 1))
    if len(tables) > _FEW:  # or it would be joined for every one of them
        history = history.combine_chunks()
    deadline = working_time() + limit_s
    checker = ""
    for number, table in enumerate(tables):
        left_s = deadline - working_time()
        if number and left_s <= 0:
            left = tuple(str(name) for name in tables[number:])
            doubt = Doubt("time", f"the time limit of {limit_s:g} s passed before they were looked at", left)
            yield f"{len(tables) - number} tables", Verdict.unknown(checker, doubt)
            return
        verdict = judge(gather(history, order[starts[number] : starts[number + 1]]), left_s)
        checker = verdict.checker
        yield str(table), verdict
