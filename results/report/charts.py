"""Charts: latencies and throughput as plain numbers for the page's script, which draws them with uPlot.

The data is in columns and has no more precision than a screen: the page must stay small enough for an e-mail.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.harness.ddl.schema_changes import SCHEMA_CHANGES
from schemaquake.harness.model.records import plain
from schemaquake.harness.units import S
from schemaquake.results.report.material import Material

__all__ = ["POINTS_DRAWN", "chart_data"]

POINTS_DRAWN: Final = 4_000
"""Maximum number of raw latencies drawn; of more operations, every k-th is drawn."""
OUTCOMES: Final = ("ok", "info", "fail")
EVERYTHING: Final = "all operations"


def chart_data(material: Material) -> Mapping[str, Any]:
    """Collect the data of all charts as a JSON document. Times in s since the run started, latencies in ms."""
    chronicle = material.chronicle
    duration = material.duration
    return {
        "duration": round(duration / 1e9, 3),
        "phases": [[phase.name, _s(phase.begins), _s(phase.ends)] for phase in chronicle.phases],
        "faults": [
            [fault.nemesis, _s(fault.begins), _s(duration if fault.ends is None else fault.ends)]
            for fault in chronicle.faults
        ]
        + [
            [one.nemesis, _s(one.begins), _s(duration if one.ends is None else one.ends)]
            for one in chronicle.operations
        ],
        "quantiles": _quantiles(material.latencies),
        "rates": _rates(material.rates, duration),
        "raw": _raw(material.operations),
    }


def _s(time: int) -> float:
    return round(time / 1e9, 3)


def _quantiles(latencies: pa.Table) -> Mapping[str, Mapping[str, Sequence[float]]]:
    """Map `f outcome` to columns t, 0.5, 0.95, 0.99, 1: schema changes first, then by number of operations."""
    table = plain(latencies).sort_by("window")
    series: dict[str, dict[str, list[float]]] = {}
    counts: dict[str, tuple[bool, int]] = {}
    for row in table.to_pylist():
        name = f"{row['f']} {row['type']}"
        columns = series.setdefault(name, {column: [] for column in ("t", "0.5", "0.95", "0.99", "1")})
        columns["t"].append(row["window"])
        for column, quantile in (("0.5", "p50"), ("0.95", "p95"), ("0.99", "p99"), ("1", "max")):
            columns[column].append(_ms(row[quantile]))
        counts[name] = (row["f"] not in SCHEMA_CHANGES, counts.get(name, (False, 0))[1] - row["count"])
    return {name: series[name] for name in sorted(series, key=lambda name: (counts[name], name))}


def _rates(rates: pa.Table, duration: int) -> Mapping[str, Any]:
    """Count completed operations per second by outcome, for every f and for all together. Windows without operations count 0."""
    seconds = duration // S + 1
    by_f: dict[str, dict[str, list[int]]] = {EVERYTHING: _zeroes(seconds)}
    for row in plain(rates).to_pylist():
        for name in (EVERYTHING, row["f"]):
            counted = by_f.setdefault(name, _zeroes(seconds))
            if row["type"] in counted and 0 <= row["window"] < seconds:
                counted[row["type"]][row["window"]] += row["count"]
    names = [EVERYTHING, *sorted(name for name in by_f if name != EVERYTHING)]
    return {"t": list(range(seconds)), "f": {name: by_f[name] for name in names}}


def _zeroes(seconds: int) -> dict[str, list[int]]:
    return {outcome: [0] * seconds for outcome in OUTCOMES}


def _raw(operations: pa.Table) -> Mapping[str, Any]:
    """Return every completed operation (or every k-th) as a point: t, ms, and indices into the names of f and of outcomes."""
    table = plain(operations).select(["invoked", "completed", "f", "type"])
    table = table.filter(pc.is_valid(table.column("completed")))
    total = table.num_rows
    stride = -(-total // POINTS_DRAWN) or 1
    rows = table.take(pa.array(range(0, total, stride), pa.int64())).to_pylist()
    rows.sort(key=lambda row: row["completed"])
    names = sorted({row["f"] for row in rows})
    place = {name: number for number, name in enumerate(names)}
    return {
        "names": names,
        "t": [_s(row["completed"]) for row in rows],
        "ms": [_ms(row["completed"] - row["invoked"]) for row in rows],
        "f": [place[row["f"]] for row in rows],
        "o": [OUTCOMES.index(row["type"]) for row in rows],
        "of": total,
    }


def _ms(latency: int) -> float:
    """Round a latency to three significant digits, ms, at least 0.001: uPlot's logarithmic axis accepts no zero."""
    return max(float(f"{latency / 1e6:.3g}"), 0.001)
