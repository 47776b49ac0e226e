"""Keyspaces: a run's records divided into parts that may be judged separately.

The part of a keyspace has the events of its own keys, the events that belong to the run as a whole (a null key) and
every event of process −1 (notes and faults); the observations of that keyspace and of the node as a whole; all logs.
An event keeps its index, so an anomaly found in a part points into the whole history.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from schemaquake.harness.history.gather import gather
from schemaquake.harness.model.operation import NEMESIS
from schemaquake.harness.model.records import Records, keyspace_of

__all__ = ["Keyspaces", "events_of", "observations_of"]

_Codes: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]

_OF_THE_RUN: Final = -1


class Keyspaces:
    """The parts of some records. `names` are the keyspaces in events and observations, sorted."""

    def __init__(self, records: Records) -> None:
        self._records = records
        events = _events(records.history)
        observations = _observations(records.observations)
        self.names: tuple[str, ...] = tuple(sorted(events.present() | observations.present()))
        self._named = (events, observations)

    @cached_property
    def _codes(self) -> tuple[_Codes, _Codes]:
        events, observations = self._named
        return events.coded(self.names), observations.coded(self.names)

    @property
    def weights(self) -> Mapping[str, int]:
        """Count the rows of each keyspace's own."""
        if not self.names:
            return {}
        counts = sum(np.bincount(codes[codes >= 0], minlength=len(self.names)) for codes in self._codes)
        return dict(zip(self.names, np.asarray(counts).tolist(), strict=True))

    @cached_property
    def _events(self) -> _Rows:
        return _Rows(self._codes[0])

    @cached_property
    def _observations(self) -> _Rows:
        return _Rows(self._codes[1])

    def part(self, name: str) -> Records:
        """Return the records of one keyspace of `names`: all of them, with what is known of them, if every row is in its part."""
        code = bisect_left(self.names, name)
        assert self.names[code] == name
        records = self._records
        events, observations = self._events.of(code), self._observations.of(code)
        if len(events) == len(records.history) and len(observations) == len(records.observations):
            return records
        return Records(gather(records.history, events), gather(records.observations, observations), records.logs)


def events_of(history: pa.Table, keyspaces: Collection[str]) -> pa.Table:
    """Return the events in the parts of these keyspaces."""
    return _kept(history, _events(history), keyspaces)


def observations_of(observations: pa.Table, keyspaces: Collection[str]) -> pa.Table:
    """Return the observations in the parts of these keyspaces."""
    return _kept(observations, _observations(observations), keyspaces)


@dataclass(frozen=True, slots=True)
class _Named:
    """The keyspace of every row, as a position in `names`; `_OF_THE_RUN` for none."""

    names: tuple[str, ...]
    positions: _Codes

    def present(self) -> set[str]:
        if not self.names:
            return set()
        counts = np.bincount(self.positions[self.positions != _OF_THE_RUN], minlength=len(self.names))
        return {name for name, count in zip(self.names, counts, strict=True) if count}

    def coded(self, names: Collection[str]) -> _Codes:
        """Return the codes by the order of `names`; other keyspaces are coded beyond their end."""
        codes = {name: code for code, name in enumerate(names)}
        table = np.array([*(codes.get(name, len(codes)) for name in self.names), _OF_THE_RUN])
        recoded: _Codes = table[self.positions]  # the last entry is at −1
        return recoded


def _events(history: pa.Table) -> _Named:
    named = _named(history["key"], keyspace_of)
    if not named.names:
        return named
    # A note's key is free text, and makes no keyspace.
    notes = history["process"].to_numpy() == NEMESIS
    return _Named(named.names, np.where(notes, _OF_THE_RUN, named.positions))


def _observations(observations: pa.Table) -> _Named:
    return _named(observations["keyspace"], lambda keyspace: keyspace)


def _named(column: pa.ChunkedArray, keyspace_of_text: Callable[[str], str | None]) -> _Named:
    if column.null_count == len(column):
        return _Named(
            (), np.broadcast_to(np.int64(_OF_THE_RUN), len(column))
        )  # without memory: histories of tools are long
    joined = column.combine_chunks()
    encoded = joined if pa.types.is_dictionary(joined.type) else joined.dictionary_encode()
    keyspaces = [keyspace_of_text(text) for text in encoded.dictionary.to_pylist()]
    names = tuple(sorted({keyspace for keyspace in keyspaces if keyspace is not None}))
    positions = {name: position for position, name in enumerate(names)}
    table = np.array(
        [*(_OF_THE_RUN if keyspace is None else positions[keyspace] for keyspace in keyspaces), _OF_THE_RUN]
    )
    return _Named(names, table[encoded.indices.fill_null(len(keyspaces)).to_numpy()])


def _kept(table: pa.Table, named: _Named, keyspaces: Collection[str]) -> pa.Table:
    return table.filter(pa.array(named.coded(tuple(keyspaces)) < len(keyspaces)))


class _Rows:
    """The rows of each code, together with those of the run, in their own order."""

    def __init__(self, codes: _Codes) -> None:
        self._order = np.argsort(codes, kind="stable")
        self._sorted = codes[self._order]

    def of(self, code: int) -> _Codes:
        of_the_run, begin, end = np.searchsorted(self._sorted, [0, code, code + 1])
        return np.sort(np.concatenate([self._order[:of_the_run], self._order[begin:end]]))
