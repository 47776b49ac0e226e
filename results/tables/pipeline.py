"""Pipeline: from a run's events to the tables for reports and readers, all under `analysis/`.

events → `operations` (invocation and completion paired, by processes)
       → `rates` and `latencies` (by windows of a second), `timelines` (by objects)
observations → `schema_timeline` (by nodes); notes and anomalies → `races`, `meetings`

Every table is made by one pure function; the engine assigns shares of the rows to tasks, and the result is the same,
because a process, a window, an object and a node are each whole in one share. A task gets the file and the rows of its
share, reads the columns it needs, and returns rows if they are few: operations go into files.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.harness.history.gather import gather
from schemaquake.harness.history.pairing import OPERATIONS, pair
from schemaquake.harness.model.operation import NEMESIS
from schemaquake.harness.model.records import HISTORY, OBSERVATIONS, keyspace_of
from schemaquake.harness.model.verdict import Verdict
from schemaquake.results.engines.engine import Engine, choose, shares
from schemaquake.results.store.store import Store, read_table, write_table
from schemaquake.results.tables.meetings import tabulate_meetings
from schemaquake.results.tables.races import tabulate_races
from schemaquake.results.tables.rates import LATENCIES, RATES, WINDOW_NS, count_rates, measure_latencies
from schemaquake.results.tables.schema_timeline import SCHEMA_TIMELINE, tabulate_schema_timeline
from schemaquake.results.tables.timelines import TIMELINES, tabulate_timelines

__all__ = ["TABLES", "analyse"]

TABLES: Final = ("operations", "rates", "latencies", "timelines", "races", "meetings", "schema_timeline")
"""The tables that `analyse` writes: `analysis/<name>.parquet`."""

_DRAFTS: Final = pa.schema([("file", pa.string())])

_Share: TypeAlias = Mapping[str, Any]
_Mask: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]


def analyse(store: Store, verdict: Verdict, *, engine: str = "auto", master: str | None = None) -> None:
    """Make every table of `TABLES` from the run's history, its observations and the anomalies of its verdict.

    Raises HistoryError for a missing or impossible table, EnvironmentLacks as `judge` does.
    """
    with choose(engine, events=store.event_count(), master=master) as carrier:
        analysis = store.path("analysis").resolve()
        analysis.mkdir(exist_ok=True)
        operations = analysis / "operations.parquet"
        _write_operations(carrier, store.path("history.parquet").resolve(), operations)
        windows = _windows(operations, carrier.width)
        timed = _columns(OPERATIONS, "f", "type", "invoked", "completed")
        keyed = _columns(
            OPERATIONS, "index", "completion", "process", "node", "f", "type", "invoked", "completed", "key"
        )
        observations = store.path("observations.parquet").resolve()
        for name, step, groups, schema, order in (
            ("rates", _Step(operations, timed, _completed_in, count_rates), windows, RATES, RATES.names[:3]),
            (
                "latencies",
                _Step(operations, timed, _invoked_in, measure_latencies),
                windows,
                LATENCIES,
                LATENCIES.names[:3],
            ),
            (
                "timelines",
                _Step(operations, keyed, _select_keyspaces, tabulate_timelines),
                _keyspaces(operations, carrier.width),
                TIMELINES,
                ["key"],
            ),
            (
                "schema_timeline",
                _Step(observations, OBSERVATIONS, _select_nodes, tabulate_schema_timeline),
                _nodes(store.read_observations(), carrier.width),
                SCHEMA_TIMELINE,
                ["node"],  # the sort is stable: a node's rows stay in their order
            ),
        ):
            table = carrier.carry(step, groups, schema)
            store.write_analysis(name, table.sort_by([(column, "ascending") for column in order]))
    columns = _columns(HISTORY, "index", "time", "process", "type", "node", "f", "key", "value", "error")
    noted = read_table(store.path("history.parquet"), columns, keep=_notes)
    outcomes = read_table(operations, _columns(OPERATIONS, "index", "completion", "type", "key"))
    store.write_analysis("races", tabulate_races(noted, outcomes, verdict.anomalies))
    store.write_analysis("meetings", tabulate_meetings(noted))


# ── steps ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Step:
    """One function of the rows of a file that are a unit's share."""

    file: Path
    columns: pa.Schema
    is_mine: Callable[[pa.Table, _Share], _Mask]
    function: Callable[[pa.Table], pa.Table]

    def __call__(self, group: pa.Table) -> pa.Table:
        (share,) = group.to_pylist()
        return self.function(
            read_table(self.file, self.columns, keep=lambda rows: rows.filter(pa.array(self.is_mine(rows, share))))
        )


def _completed_in(operations: pa.Table, share: _Share) -> _Mask:
    return _within(operations["completed"].fill_null(-1).to_numpy(), share)


def _invoked_in(operations: pa.Table, share: _Share) -> _Mask:
    return _within(operations["invoked"].to_numpy(), share)


def _within(times: np.ndarray[Any, Any], share: _Share) -> _Mask:
    mask: _Mask = (times >= share["begins"]) & (times < share["ends"])
    return mask


def _select_keyspaces(operations: pa.Table, share: _Share) -> _Mask:
    wanted = set(share["keyspaces"])
    keys = pc.unique(operations["key"]).to_pylist()
    keys_of_share = pa.array([key for key in keys if keyspace_of(key) in wanted], pa.string())
    mask: _Mask = pc.is_in(operations["key"], keys_of_share).to_numpy(zero_copy_only=False)
    return mask


def _select_nodes(observations: pa.Table, share: _Share) -> _Mask:
    mask: _Mask = pc.is_in(observations["node"].cast(pa.string()), pa.array(share["nodes"])).to_numpy(
        zero_copy_only=False
    )
    return mask


def _notes(history: pa.Table) -> pa.Table:
    return history.filter(pc.equal(history["process"], NEMESIS))


# ── operations ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _write_operations(engine: Engine, history: Path, operations: Path) -> None:
    """Pair each share of the processes into a file of its own, then merge these by index."""
    with tempfile.TemporaryDirectory(dir=operations.parent, prefix=".operations-") as folder:
        groups = pa.table({"unit": pa.array(range(engine.width), pa.int32()), "of": [engine.width] * engine.width})
        drafts = engine.carry(_Pairing(history, Path(folder)), groups, _DRAFTS)
        paired = [read_table(Path(file), OPERATIONS) for file in sorted(drafts["file"].to_pylist())]
        merged = pa.concat_tables(paired)
        if len(paired) > 1:
            merged = gather(merged, np.argsort(merged["index"].to_numpy(), kind="stable"))
        write_table(operations, merged)


@dataclass(frozen=True, slots=True)
class _Pairing:
    """The operations of every n-th process, in a file of `folder`."""

    history: Path
    folder: Path

    def __call__(self, group: pa.Table) -> pa.Table:
        (share,) = group.to_pylist()

        def in_share(events: pa.Table) -> pa.Table:
            processes = events["process"].to_numpy()
            return events.filter(pa.array((processes != NEMESIS) & (processes % share["of"] == share["unit"])))

        file = self.folder / f"{share['unit']:04d}.parquet"
        write_table(file, pair(read_table(self.history, HISTORY, order="index", keep=in_share)))
        return pa.table({"file": [str(file)]}, schema=_DRAFTS)


# ── shares ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _windows(operations: Path, width: int) -> pa.Table:
    """Divide the time into spans of whole windows, with about as many operations in each."""
    invoked = np.sort(read_table(operations, _columns(OPERATIONS, "invoked"))["invoked"].to_numpy())
    inner = (
        [int(invoked[len(invoked) * n // width]) // WINDOW_NS * WINDOW_NS for n in range(1, width)]
        if len(invoked)
        else []
    )
    limits = [0, *sorted({limit for limit in inner if limit > 0}), np.iinfo(np.int64).max]
    return _groups(begins=limits[:-1], ends=limits[1:])


def _keyspaces(operations: Path, width: int) -> pa.Table:
    """Divide the keyspaces into shares, with about as many operations in each."""
    weights: dict[str, int] = {}
    for count in pc.value_counts(
        read_table(operations, _columns(OPERATIONS, "key"))["key"].combine_chunks()
    ).to_pylist():
        keyspace = keyspace_of(count["values"])
        if keyspace is not None:
            weights[keyspace] = weights.get(keyspace, 0) + count["counts"]
    return _groups(keyspaces=shares(weights, width))


def _nodes(observations: pa.Table, width: int) -> pa.Table:
    counts = pc.value_counts(observations["node"].cast(pa.string()).combine_chunks()).to_pylist()
    return _groups(nodes=shares({count["values"]: count["counts"] for count in counts}, width))


def _groups(**columns: list[Any]) -> pa.Table:
    units = pa.array(range(len(next(iter(columns.values())))), pa.int32())
    return pa.table({"unit": units, **columns})


def _columns(schema: pa.Schema, *names: str) -> pa.Schema:
    return pa.schema([schema.field(name) for name in names])
