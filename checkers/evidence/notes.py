"""Notes: events of process −1 that the conductor writes into the history beside the operations.

They are of type `info`, but for operations on the topology: the phases of the run, every start of a node and how it ended, node processes that died, and
the faults. A node is down from a failed start, or from its death, until a start that served.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any, Final, NamedTuple

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.checkers.evidence.membership import Membership
from schemaquake.checkers.evidence.reloads import Reload, read_reloads
from schemaquake.checkers.evidence.topology_operations import DiskLosses, TopologyOperation, read_operations
from schemaquake.checkers.evidence.upgrades import Upgrades
from schemaquake.harness.errors import EnvironmentLacks, PlanError
from schemaquake.harness.model.operation import NEMESIS
from schemaquake.harness.model.records import plain
from schemaquake.harness.model.traits import NemesisTraits, nemesis_traits
from schemaquake.harness.registry import load
from schemaquake.harness.units import MS, S

__all__ = ["Fault", "NodeDeath", "NodeStart", "Note", "Notes", "may_start", "read_notes", "traits_of"]

_STARTS: Final = re.compile(r"\b(?:re)?start\b")


def _time_at_zero(event: Mapping[str, Any], utc: object) -> float | None:
    try:
        noted = datetime.fromisoformat(str(utc))
    except ValueError:
        return None
    return None if noted.tzinfo is None else noted.timestamp() * 1000 - event["time"] / MS


class Note(NamedTuple):
    """One note: the event's row, and its value as a map."""

    event: Mapping[str, Any]
    value: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStart:
    """One start of a node. `phase`: boot, fault (while faults were going on or were healed) or restart.

    In phase `operation`: the end of an operation that took the node down, or had it forget its schema, as a start would.
    An operation that was never asked for is none.
    """

    index: int
    time: int
    node: str
    phase: str
    served: bool
    seconds: float
    exit_code: int | None
    first_error: str | None
    ended: bool = True
    """False if the process was alive and did not serve within its deadline."""
    anew: bool = True
    """False if the server's process may have run on, as where an operation only kept clients from it for a while."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDeath:
    """The death of a node's process that was not asked to stop."""

    index: int
    time: int
    node: str
    exit_code: int | None
    first_error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One injected fault, from its begin to its end (ns; null: no end was noted)."""

    nemesis: str
    nodes: tuple[str, ...]
    begins: int
    ends: int | None
    offsets: Mapping[str, float] = field(default_factory=dict)
    """By how many seconds it put the clock of each node ahead; empty: it left clocks alone."""

    @property
    def skew_s(self) -> float:
        """The largest distance (s) between two clocks, or between a clock and the true time."""
        shifts = [0.0, *self.offsets.values()]
        return max(shifts) - min(shifts)

    @property
    def effect(self) -> str | None:
        """The kind of effect that its nemesis declares."""
        return traits_of(self.nemesis).effect


@cache
def traits_of(nemesis: str) -> NemesisTraits:
    """Return what a nemesis declares of itself; the defaults if it is not installed."""
    try:
        return nemesis_traits(load("nemeses", nemesis))
    except (PlanError, EnvironmentLacks):
        return NemesisTraits()


def may_start(attempt: Mapping[str, Any]) -> bool:
    """Check whether an attempt at an operation may have started a server: its command says so, or it names none."""
    command = attempt.get("command")
    return not isinstance(command, str) or _STARTS.search(command) is not None


def read_notes(history: pa.Table) -> list[Note]:
    """Read every note, in order."""
    columns = history.select(["index", "time", "process", "type", "f", "node", "value", "error"])
    events = plain(columns.filter(pc.equal(columns["process"], NEMESIS)))
    return [Note(row, _value(row)) for row in events.to_pylist()]


class Notes:
    """The notes of a history (`schemaquake.harness.model.records.HISTORY`)."""

    def __init__(self, history: pa.Table) -> None:
        """Read the notes of a history."""
        self.all: Sequence[Note] = (values := read_notes(history))
        """Every note, in order."""
        self.starts: Sequence[NodeStart] = [
            *(_start(row, value) for row, value in values if row["f"] == "node-start"),
            *_starts_of_operations(values),
        ]
        self.deaths: Sequence[NodeDeath] = [_death(row, value) for row, value in values if row["f"] == "node-died"]
        self.faults: Sequence[Fault] = _faults(values)
        self.operations: Sequence[TopologyOperation] = read_operations(values)
        """The operations on the topology, in order of their invocations."""
        self.losses = DiskLosses(self.operations)
        """The operations that took disks away."""
        self.membership = Membership(values, self.operations)
        """The nodes that should serve, by time."""
        self.upgrades = Upgrades(values)
        """The operations by which nodes became another version."""
        self.reloads: Sequence[Reload] = read_reloads(self.operations)
        """The operations that exchanged a table and loaded its rows again."""
        self.caught_up: frozenset[tuple[str, str]] = frozenset(
            (value.get("phase", ""), node)
            for row, value in values
            if row["f"] == "barriers"
            for node, how in value.get("nodes", {}).items()
            if how.get("passed") is True
        )
        """Final readings, as (phase, node), before which the node passed a read barrier."""
        self.settles: Sequence[Mapping[str, Any]] = [value for row, value in values if row["f"] == "settle"]
        """How each wait for one schema version ended: `phase`, `agreed`, `seconds`."""
        self.phases: Sequence[tuple[int, str | None, str | None]] = [
            (row["time"], value.get("phase"), value.get("state")) for row, value in values if row["f"] == "phase"
        ]
        """Notes of the conductor's phases as (time in ns, name, begins or ends)."""
        self.shortened: Sequence[tuple[str, str]] = [
            (value.get("phase", ""), str(value.get("because") or "the cluster answered too slowly"))
            for row, value in values
            if row["f"] in {"phase-cut-short", "phase-ended-early"}
        ]
        """Phases that ended before their steps did, each with the reason."""
        planned: Mapping[str, Any] = next((value for row, value in values if row["f"] == "run-planned"), {})
        self.planned: Mapping[str, Any] = planned
        """What the run was to do, as it noted; empty in runs of 0.1."""
        self.kinds: frozenset[str] = frozenset(row["f"] for row, _ in values)
        """The kinds of notes (their `f`) that there are."""
        self.planned_restart: str | None = planned.get("restart")
        """How every node was to be restarted in the end (`none`: not at all); null in runs of 0.1, which do not say it."""
        self.begins_ms: float | None = next(
            (_time_at_zero(row, value["utc"]) for row, value in values if row["f"] == "run-planned" and "utc" in value),
            None,
        )
        """The time of day (ms since 1970) at which the run's clock was 0; null if nodes read another clock, or the note cannot be read."""
        self.pull_delay_s: float | None = planned.get("pull_delay_s")
        """How long a node waits before it asks another one for a schema that it lacks; null in runs of 0.1."""
        self.logging: frozenset[str] = frozenset(planned.get("logs", (start.node for start in self.starts)))
        """The nodes that keep a log; in runs of 0.1 all that were started."""

    def began(self, phase: str) -> int | None:
        """Return the time (ns) at which a phase of the conductor began first; null if it never did."""
        return next((time for time, name, state in self.phases if name == phase and state == "begins"), None)

    def ended(self, phase: str) -> int | None:
        """Return the time (ns) at which a phase of the conductor ended last; null if that was not noted."""
        return max((time for time, name, state in self.phases if name == phase and state == "ends"), default=None)

    def agreements(self, node: str) -> Iterator[tuple[int, int]]:
        """Yield the waits (ns, from the begin to the note) after which a node had agreed with all others on one schema."""
        for note, value in self.all:
            if note["f"] == "settle" and value.get("agreed") is True and node in (value.get("versions") or ()):
                yield note["time"] - round(float(value.get("seconds") or 0) * S), note["time"]

    @property
    def unended(self) -> Sequence[str]:
        """Phases that began and never ended, in order."""
        ended = {name for _, name, state in self.phases if state == "ends"}
        return [name for _, name, state in self.phases if state == "begins" and name is not None and name not in ended]

    def gone(self, phase: str, nodes: Iterable[str]) -> frozenset[str]:
        """Return those of the nodes that need not serve in that final phase: they left before it, or have not joined."""
        began = self.began(f"final-{phase}")
        return (
            frozenset()
            if began is None
            else frozenset(node for node in nodes if not self.membership.serves(node, began))
        )

    def down(self, time: int) -> frozenset[str]:
        """Return the nodes that were down at `time` (ns)."""
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
        """Return the faults in place at any moment of an interval (ns; null: to the end of the run)."""
        return [
            fault
            for fault in self.faults
            if (ends is None or fault.begins <= ends) and (fault.ends is None or fault.ends >= begins)
        ]

    @property
    def nemeses(self) -> frozenset[str]:
        """Names of the nemeses that injected faults."""
        return frozenset(fault.nemesis for fault in self.faults)


def _value(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a note says. An operation is named by a number: a note that names one by a list or a map is damaged, and names none."""
    value = None if row["value"] is None else orjson.loads(row["value"])
    if not isinstance(value, dict):
        return {}
    if isinstance(value.get("operation"), list | dict):
        del value["operation"]
    return value


def _start(row: Mapping[str, Any], value: Mapping[str, Any]) -> NodeStart:
    # Notes of 0.1 do not say if the process had ended, but have the exit code of one that had.
    ended = value.get("ended")
    return NodeStart(
        ended=bool(ended) if ended is not None else value.get("exit_code") is not None,
        index=row["index"],
        time=row["time"],
        node=row["node"] or "",
        phase=value.get("phase", ""),
        served=bool(value.get("served")),
        seconds=float(value.get("seconds") or 0),
        exit_code=value.get("exit_code"),
        first_error=value.get("first_error"),
    )


def _starts_of_operations(values: Sequence[Note]) -> Iterator[NodeStart]:
    """Yield an entry for each ended operation behind which its nodes are as after a start; unknown outcomes leave them down."""
    begun = {value.get("operation"): row["time"] for row, value in values if row["type"] == "invoke"}
    for row, value in values:
        parameters = value.get("parameters")
        if row["type"] == "invoke" or "operation" not in value or not isinstance(parameters, Mapping):
            continue
        down = parameters.get("takes_down") is True
        attempts = _attempts(value)
        if row["type"] == "fail" and attempts == []:
            continue
        if down or parameters.get("forgets") is True:
            for node in value.get("nodes") or ():
                yield NodeStart(
                    index=row["index"],
                    time=row["time"],
                    node=node,
                    phase="operation",
                    served=not down or row["type"] != "info",
                    seconds=(row["time"] - begun.get(value["operation"], row["time"])) / 1e9,
                    exit_code=None,
                    first_error=None,
                    ended=not _timed_out(attempts),
                    anew=any(one.get("outcome") == "ok" and may_start(one) for one in attempts or ()),
                )


def _attempts(value: Mapping[str, Any]) -> Sequence[Mapping[str, Any]] | None:
    """Return the attempts of an operation's end (`schemaquake.harness.model.topology.Attempt`); None if none were noted."""
    effect = value.get("effect")
    attempts = effect.get("attempts") if isinstance(effect, Mapping) else None
    return [one for one in attempts if isinstance(one, Mapping)] if isinstance(attempts, list) else None


def _timed_out(attempts: Sequence[Mapping[str, Any]] | None) -> bool:
    """Tell if the last attempt had no end when it was given up, so that its server may have been alive."""
    last = attempts[-1] if attempts else {}
    return last.get("timed_out") is True


def _death(row: Mapping[str, Any], value: Mapping[str, Any]) -> NodeDeath:
    return NodeDeath(
        index=row["index"],
        time=row["time"],
        node=row["node"] or "",
        exit_code=value.get("exit_code"),
        first_error=value.get("first_error"),
    )


def _faults(values: Sequence[Note]) -> Sequence[Fault]:
    ends = {value.get("id"): row["time"] for row, value in values if row["f"] == "fault-ends"}
    return [
        Fault(
            nemesis=value.get("nemesis", ""),
            nodes=tuple(value.get("nodes") or ()),
            begins=row["time"],
            ends=ends.get(value.get("id")),
            offsets={
                node: float(shift) for node, shift in ((value.get("parameters") or {}).get("offsets") or {}).items()
            },
        )
        for row, value in values
        if row["f"] == "fault-begins"
    ]
