"""Rates and latencies: the number of operations by outcome, and their duration, second by second.

As in Jepsen's plots, a rate counts operations that *completed* in a second, a latency belongs to the second in which its
operation was *invoked*: a timeout shows where the trouble began. Pure functions of `schemaquake.harness.history.pairing.OPERATIONS`; any
set of operations that is whole in its windows gives the same rows as the run does.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from schemaquake.harness.model.records import plain
from schemaquake.harness.units import S

__all__ = ["LATENCIES", "RATES", "WINDOW_NS", "count_rates", "measure_latencies"]

WINDOW_NS: Final = 1 * S

RATES: Final = pa.schema(
    [
        ("window", pa.int64()),  # s since the run started, of the completion
        ("f", pa.string()),
        ("type", pa.string()),  # ok, fail, info
        ("count", pa.int64()),
    ]
)

LATENCIES: Final = pa.schema(
    [
        ("window", pa.int64()),  # s since the run started, of the invocation
        ("f", pa.string()),
        ("type", pa.string()),  # ok, fail, info
        ("count", pa.int64()),
        ("p50", pa.int64()),  # ns, as the other three
        ("p95", pa.int64()),
        ("p99", pa.int64()),
        ("max", pa.int64()),
    ]
)

_Numbers: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]

_PERCENTILES: Final = {"p50": 50, "p95": 95, "p99": 99, "max": 100}


def count_rates(operations: pa.Table) -> pa.Table:
    """Count completed operations (`RATES`, by window, f and type). An operation without a completion is in no window."""
    completed = _completed(operations)
    counted = (
        pa.table({"window": _windows(completed["completed"]), "f": completed["f"], "type": completed["type"]})
        .group_by(["window", "f", "type"], use_threads=False)
        .aggregate([([], "count_all")])
        .rename_columns({"count_all": "count"})
    )
    return counted.select(RATES.names).cast(RATES).sort_by([(name, "ascending") for name in ("window", "f", "type")])


def measure_latencies(operations: pa.Table) -> pa.Table:
    """Measure the duration of completed operations (`LATENCIES`, by window, f and type).

    A percentile is one of the measured latencies: the smallest that this share of them does not exceed.
    """
    completed = _completed(operations)
    took = completed["completed"].to_numpy() - completed["invoked"].to_numpy()
    windows = completed["invoked"].to_numpy() // WINDOW_NS
    names, kinds = (_ranks(completed[column]) for column in ("f", "type"))
    order = np.lexsort((took, kinds, names, windows))
    first = np.flatnonzero(_changes(windows[order]) | _changes(names[order]) | _changes(kinds[order]))
    counts = np.diff(np.append(first, len(order)))
    columns: dict[str, Any] = {
        "window": windows[order][first],
        "f": completed["f"].take(pa.array(order[first])),
        "type": completed["type"].take(pa.array(order[first])),
        "count": counts,
    }
    for column, percent in _PERCENTILES.items():
        place = -(-percent * counts // 100) - 1  # nearest rank: the percentage of the count, rounded up
        columns[column] = took[order[first + place]]
    return pa.table(columns).cast(LATENCIES)


def _completed(operations: pa.Table) -> pa.Table:
    columns = plain(operations.select(["f", "type", "invoked", "completed"]))
    return columns.filter(columns["completed"].is_valid()).combine_chunks()


def _windows(times: pa.ChunkedArray) -> pa.Array:
    return pa.array(times.to_numpy() // WINDOW_NS)


def _ranks(column: pa.ChunkedArray) -> _Numbers:
    """Convert a text column to numbers in the same order."""
    encoded = column.combine_chunks().dictionary_encode()
    ranks = np.argsort(np.argsort(np.array(encoded.dictionary.to_pylist(), dtype=str)))
    ranked: _Numbers = ranks[encoded.indices.to_numpy()]
    return ranked


def _changes(values: _Numbers) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Mark the values that differ from the one before; the first does."""
    return np.append([True] * bool(len(values)), values[1:] != values[:-1]).astype(bool)
