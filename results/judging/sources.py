"""Sources: the records for a step: in this process' memory, or in files that any task can open."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from schemaquake.harness.model.operation import NEMESIS
from schemaquake.harness.model.records import HISTORY, LOGS, OBSERVATIONS, Records, keyspace_of
from schemaquake.results.judging.keyspaces import Keyspaces, events_of, observations_of
from schemaquake.results.store.store import read_table

__all__ = ["HistoryFile", "InMemory", "OnDisk", "Source", "Survey"]

_LOOKED_AT: Final = 1 << 12  # rows at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """The amount of work before any of it is done: to divide it, and to find keyspaces that were not judged."""

    events: int
    weights: Mapping[str, int]
    """Keyspaces, sorted, with the number of their events and observations."""
    acknowledged: frozenset[str]
    """Keyspaces in which the cluster acknowledged an operation."""
    succeeded: bool
    """True if any operation of a client was acknowledged."""


class Source(Protocol):
    """The records of one run."""

    def survey(self) -> Survey:
        """Count the work."""
        ...

    def read(self, keyspaces: Collection[str] | None, *, lean: bool = False) -> Records:
        """Read the rows of the parts of these keyspaces, and possibly more; with None, everything.

        With `lean`, micro-operations of the whole history may be `LEAN_MOPS`.
        """
        ...


@dataclass(frozen=True, slots=True)
class InMemory:
    """Records in this process' memory."""

    records: Records

    def survey(self) -> Survey:
        """Count the work; see `Source`."""
        return _survey(self.records)

    def read(self, keyspaces: Collection[str] | None, *, lean: bool = False) -> Records:  # noqa: ARG002 - it costs nothing to give more
        """Return all records; see `Source`."""
        return self.records


@dataclass(frozen=True, slots=True)
class HistoryFile:
    """A history alone, in a Parquet file (`schemaquake.harness.model.records.HISTORY`)."""

    path: Path

    def event_count(self) -> int:
        """Count the events without reading them. Raises HistoryError."""
        try:
            return int(pq.read_metadata(self.path).num_rows)
        except (pa.ArrowException, OSError, UnicodeDecodeError):
            return len(self.read_history())  # it names the problem

    def read_history(self, *, lean: bool = False) -> pa.Table:
        """Read the history, by index; with `lean` its micro-operations may be `LEAN_MOPS`. Raises HistoryError."""
        return read_table(self.path, HISTORY, order="index", lean=lean)


@dataclass(frozen=True, slots=True)
class OnDisk:
    """Three Parquet files, or the history alone; only their paths are sent to a task.

    `lent` is a place where the tasks of this machine find the history decoded (`schemaquake.results.store.examination`).
    """

    history: Path
    observations: Path | None = None
    logs: Path | None = None
    lent: Path | None = None

    def survey(self) -> Survey:
        """Count the work from the needed columns only, a row group at a time. Raises HistoryError, FileNotFoundError."""
        columns = _columns(OBSERVATIONS, "keyspace")
        observations = None if self.observations is None else read_table(self.observations, columns)
        surveys: list[Survey] = []

        def survey(events: pa.Table) -> pa.Table:
            surveys.append(_survey(Records.of(events, None if surveys else observations)))
            return events.schema.empty_table()

        read_table(self.history, _columns(HISTORY, "process", "type", "key"), keep=survey)
        return _merge_surveys(surveys or [_survey(Records.of(HISTORY.empty_table(), observations))])

    def read(self, keyspaces: Collection[str] | None, *, lean: bool = False) -> Records:
        """Read one row group after another and filter it. Raises HistoryError, FileNotFoundError."""
        wanted = None if keyspaces is None else frozenset(keyspaces)
        keep = None if wanted is None else lambda t: events_of(t, wanted)
        history = read_table(self.history, HISTORY, order="index", keep=keep, lean=lean, lent=self.lent)
        observations = self.observations and read_table(
            self.observations, OBSERVATIONS, keep=None if wanted is None else lambda t: observations_of(t, wanted)
        )
        return Records.of(history, observations, self.logs and read_table(self.logs, LOGS))


def _merge_surveys(surveys: Sequence[Survey]) -> Survey:
    weights: dict[str, int] = {}
    for survey in surveys:
        for name, weight in survey.weights.items():
            weights[name] = weights.get(name, 0) + weight
    return Survey(
        events=sum(survey.events for survey in surveys),
        weights=dict(sorted(weights.items())),
        acknowledged=frozenset().union(*(survey.acknowledged for survey in surveys)),
        succeeded=any(survey.succeeded for survey in surveys),
    )


def _survey(records: Records) -> Survey:
    return Survey(
        events=len(records.history),
        weights=Keyspaces(records).weights,
        acknowledged=_acknowledged(records.history),
        succeeded=_is_any_acknowledged(records.history),
    )


def _acknowledged(history: pa.Table) -> frozenset[str]:
    """Return the keyspaces with an acknowledged operation. Histories of other tools have no keys, so none."""
    if history["key"].null_count == len(history):
        return frozenset()
    keys = pc.unique(history["key"].filter(pa.array(_are_acknowledged(history)))).to_pylist()
    keyspaces = {keyspace_of(key) for key in keys}
    return frozenset(keyspace for keyspace in keyspaces if keyspace is not None)


def _columns(schema: pa.Schema, *names: str) -> pa.Schema:
    return pa.schema([schema.field(name) for name in names])


def _is_any_acknowledged(history: pa.Table) -> bool:
    """Return True if there is an acknowledged operation: mostly one of the first, and nothing is looked at after it."""
    batches = history.select(["type", "process"]).to_batches(max_chunksize=_LOOKED_AT)
    return any(_are_acknowledged(pa.Table.from_batches([batch])).any() for batch in batches)


def _are_acknowledged(history: pa.Table) -> npt.NDArray[np.bool_]:
    """Mark the events that acknowledge an operation of a client."""
    is_ok: npt.NDArray[np.bool_] = pc.equal(history["type"], "ok").to_numpy(zero_copy_only=False)
    of_clients: npt.NDArray[np.bool_] = history["process"].to_numpy() != NEMESIS
    return np.logical_and(of_clients, is_ok)
