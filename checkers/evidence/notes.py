"""Notes: what the conductor wrote into the history beside the operations.

Events of process −1, type `info`: the phases of the run, every start of a node and how it ended, nodes that ended by
themselves, and the faults. A node is down from a start that did not serve, or from its own end, until a start that did.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.harness.model.operation import NEMESIS
from schemaquake.harness.model.records import plain

__all__ = ["Fault", "NodeDeath", "NodeStart", "Notes", "told"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStart:
    """One start of a node. `phase`: boot, fault (while faults were going on or were healed) or restart."""

    index: int
    time: int
    node: str
    phase: str
    served: bool
    seconds: float
    exit_code: int | None
    first_error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDeath:
    """A node's process that ended by itself."""

    index: int
    time: int
    node: str
    exit_code: int | None
    first_error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One injected fault, from its begin to its end (ns; null: it was never seen to end)."""

    nemesis: str
    nodes: tuple[str, ...]
    begins: int
    ends: int | None


def told(history: pa.Table) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """(event, value) of every note, in order."""
    events = plain(history.select(["index", "time", "process", "f", "node", "value"]))
    return [(row, _value(row)) for row in events.filter(pc.equal(events["process"], NEMESIS)).to_pylist()]


class Notes:
    """The notes of a history (`schemaquake.harness.model.records.HISTORY`)."""

    def __init__(self, history: pa.Table) -> None:
        values = told(history)
        self.starts: Sequence[NodeStart] = [_start(row, value) for row, value in values if row["f"] == "node-start"]
        self.deaths: Sequence[NodeDeath] = [_death(row, value) for row, value in values if row["f"] == "node-died"]
        self.faults: Sequence[Fault] = _faults(values)
        self.caught_up: frozenset[tuple[str, str]] = frozenset(
            (value.get("phase", ""), node)
            for row, value in values
            if row["f"] == "barriers"
            for node, how in value.get("nodes", {}).items()
            if how.get("passed") is True
        )
        """(phase, node) of final readings before which the node was had to apply all that was committed."""
        self.settles: Sequence[Mapping[str, Any]] = [value for row, value in values if row["f"] == "settle"]
        """How each wait for one schema version ended: `phase`, `agreed`, `seconds`."""
        self._phases = [
            (row["time"], value.get("phase"), value.get("state")) for row, value in values if row["f"] == "phase"
        ]

    def began(self, phase: str) -> int | None:
        """When that phase of the conductor began first (ns), null if it never did."""
        return next((time for time, name, state in self._phases if name == phase and state == "begins"), None)

    def down(self, time: int) -> frozenset[str]:
        """The nodes that were down at `time` (ns) and were not to come back without a start."""
        down: set[str] = set()
        ends = [(death.time, death.index, death.node, False) for death in self.deaths]
        starts = [(start.time, start.index, start.node, start.served) for start in self.starts]
        for _, _, node, serves in sorted(entry for entry in (*ends, *starts) if entry[0] <= time):
            if serves:
                down.discard(node)
            else:
                down.add(node)
        return frozenset(down)

    def active(self, begins: int, ends: int | None) -> Sequence[Fault]:
        """The faults that were in place at some moment between these two (ns)."""
        return [
            fault
            for fault in self.faults
            if (ends is None or fault.begins <= ends) and (fault.ends is None or fault.ends >= begins)
        ]

    @property
    def nemeses(self) -> frozenset[str]:
        """The kinds of faults that were injected."""
        return frozenset(fault.nemesis for fault in self.faults)


def _value(row: Mapping[str, Any]) -> Mapping[str, Any]:
    value = None if row["value"] is None else orjson.loads(row["value"])
    return value if isinstance(value, dict) else {}


def _start(row: Mapping[str, Any], value: Mapping[str, Any]) -> NodeStart:
    return NodeStart(
        index=row["index"],
        time=row["time"],
        node=row["node"] or "",
        phase=value.get("phase", ""),
        served=bool(value.get("served")),
        seconds=float(value.get("seconds") or 0),
        exit_code=value.get("exit_code"),
        first_error=value.get("first_error"),
    )


def _death(row: Mapping[str, Any], value: Mapping[str, Any]) -> NodeDeath:
    return NodeDeath(
        index=row["index"],
        time=row["time"],
        node=row["node"] or "",
        exit_code=value.get("exit_code"),
        first_error=value.get("first_error"),
    )


def _faults(values: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> Sequence[Fault]:
    ends = {value.get("id"): row["time"] for row, value in values if row["f"] == "fault-ends"}
    return [
        Fault(
            nemesis=value.get("nemesis", ""),
            nodes=tuple(value.get("nodes") or ()),
            begins=row["time"],
            ends=ends.get(value.get("id")),
        )
        for row, value in values
        if row["f"] == "fault-begins"
    ]
