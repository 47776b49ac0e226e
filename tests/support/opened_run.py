"""An opened run: the records of a clean run as rows, for forgers who alter whole records (`moved_lies`, `joint_lies`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final, TypeAlias

import pyarrow as pa
from lies import answered_operations, loaded

from schemaquake.harness.model.operation import NEMESIS
from schemaquake.harness.model.records import Records

__all__ = ["FRESH", "OpenedRun", "Row", "table"]

FRESH: Final = 1000
"""The first process that no clean run has."""

Row: TypeAlias = dict[str, Any]


class OpenedRun:
    """The rows of a run in which nothing is wrong, and what they tell of its course."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._history: list[Row] = records.history.to_pylist()
        self._observations: list[Row] = records.observations.to_pylist()
        self._logs: list[Row] = records.logs.to_pylist()
        self._values = [loaded(event["value"]) for event in self._history]

    @cached_property
    def _operations(self) -> Sequence[tuple[int, int]]:
        """(invocation, completion) of every operation of a client that was answered, in the order of the invocations."""
        return sorted(answered_operations(self._history))

    @cached_property
    def _phases(self) -> Mapping[str, tuple[int, int]]:
        """The begin and end (ns) of each phase, in their order."""
        found: dict[str, list[int]] = {}
        for event, value in zip(self._history, self._values, strict=True):
            if event["process"] == NEMESIS and event["f"] == "phase":
                found.setdefault(value["phase"], []).append(event["time"])
        return {phase: (times[0], times[-1]) for phase, times in found.items()}

    @cached_property
    def _nodes(self) -> Sequence[str]:
        """The nodes that were read, sorted."""
        return sorted({row["node"] for row in self._observations})


def table(rows: Sequence[Row], schema: pa.Schema) -> pa.Table:
    """Build a table of rows."""
    return pa.Table.from_pylist(list(rows), schema=schema)
