"""Chronicle: the conductor's and the nemesis' notes in a history, as phases, faults, operations on nodes, boots and settlings.

Notes are the events of process −1: `phase` (begins, ends), `phase-ended-early`, `phase-cut-short`, `fault-begins`,
`fault-ends`, `fault-failed`, `fault-skipped`, `node-start` and `settle`; and the operations of nemeses on the topology, on versions and of
maintenance, each with an invocation and an outcome. Times in ns since the run started.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.checkers.evidence.notes import read_notes
from schemaquake.checkers.evidence.topology_operations import TopologyOperation, read_operations
from schemaquake.harness.model.membership import GONE
from schemaquake.harness.model.operation import NEMESIS
from schemaquake.harness.model.protocols import Boot
from schemaquake.harness.model.records import plain
from schemaquake.results.wording import joined

__all__ = ["Chronicle", "FaultWindow", "NodeOperation", "NodeStart", "Phase", "Settling", "chronicle_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A period of the run, under the conductor's name for it (boot, main, settle-settled, restart)."""

    name: str
    begins: int
    ends: int
    note: str = ""
    """A remark for the reader: "schema versions agreed after 3.7 s"."""

    @property
    def seconds(self) -> float:
        """The duration in seconds."""
        return (self.ends - self.begins) / 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultWindow:
    """The time during which a fault was in place. `ends` is None if it was not healed while the run went on."""

    nemesis: str
    begins: int
    ends: int | None
    nodes: tuple[str, ...] = ()
    error: str | None = None
    """The error of injecting or healing the fault, whose effect on the cluster is then unknown; None: neither failed."""

    def title(self) -> str:
        """Describe the fault in a line."""
        lasted = "not healed" if self.ends is None else f"{(self.ends - self.begins) / 1e9:.1f} s"
        where = f" on {joined(self.nodes)}" if self.nodes else ""
        return f"{self.nemesis}{where}, {lasted}" + (f", failed: {self.error}" if self.error else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOperation:
    """One operation of a nemesis, such as a decommission, from its invocation to its outcome; `ends` is None without one."""

    nemesis: str
    begins: int
    ends: int | None
    outcome: str
    """`ok`, `fail`, `info`, or empty without one."""
    nodes: tuple[str, ...] = ()
    about: str = ""
    """The system that a node becomes, or the kind of maintenance; empty if there is nothing to say."""
    becomes: str = ""
    """The system that the node became, of an acknowledged upgrade; or empty."""
    members: Mapping[str, str] = field(default_factory=dict)
    """What nodes became of an acknowledged operation, as `left`."""
    commands: tuple[str, ...] = ()
    """The commands of its attempts, each once, in order."""
    answer: str = ""
    """The last answer, if the operation was not acknowledged, or its error."""

    @property
    def name(self) -> str:
        """The operation and what it is about: `rolling-upgrade to cassandra:5.0.9`."""
        return f"{self.nemesis} {self.about}".rstrip()

    @property
    def took(self) -> str:
        """The time that it took, in words."""
        return "no end" if self.ends is None else f"{(self.ends - self.begins) / 1e9:.1f} s"

    def title(self) -> str:
        """Describe the operation in a line."""
        where = f" on {joined(self.nodes)}" if self.nodes else ""
        return f"{self.name}{where}, {self.outcome or 'no outcome'}, {self.took}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStart:
    """One start of a node: `phase` is boot, fault or restart; `begins` is the start of its process."""

    phase: str
    begins: int
    boot: Boot


@dataclass(frozen=True, slots=True, kw_only=True)
class Settling:
    """A wait for one schema version everywhere: of phase setup, settled or restarted."""

    phase: str
    agreed: bool
    seconds: float
    versions: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chronicle:
    """All notes of a run, each kind in order of time."""

    phases: tuple[Phase, ...] = ()
    faults: tuple[FaultWindow, ...] = ()
    operations: tuple[NodeOperation, ...] = ()
    starts: tuple[NodeStart, ...] = ()
    settlings: tuple[Settling, ...] = ()
    ended_early: Mapping[str, str] = field(default_factory=dict)
    """Phase → the reason for which a worker ended it before its steps did: the cluster never got all required operations."""

    def phase(self, name: str) -> Phase | None:
        """Return the first phase of that name, None if there is none."""
        return next((phase for phase in self.phases if phase.name == name), None)

    def settling(self, name: str) -> Settling | None:
        """Return the wait for agreement of that phase, None if there is none."""
        return next((settling for settling in self.settlings if settling.phase == name), None)

    def restarts(self) -> tuple[NodeStart, ...]:
        """Every start but the first boot."""
        return tuple(start for start in self.starts if start.phase != "boot")

    def left(self) -> Mapping[str, int]:
        """The nodes that an acknowledged operation took out of the cluster for good, with its end (ns)."""
        gone: dict[str, int] = {}
        for operation in self.operations:
            for node, state in operation.members.items():
                if state in GONE:
                    gone[node] = operation.begins if operation.ends is None else operation.ends
                else:
                    gone.pop(node, None)
        return gone

    def never_back(self) -> Mapping[str, NodeStart]:
        """The nodes whose last start failed, with that start."""
        last = {start.boot.node: start for start in self.starts}
        return {node: start for node, start in last.items() if not start.boot.served}


def chronicle_of(history: pa.Table) -> Chronicle:
    """Build the chronicle of a history (`schemaquake.harness.model.records.HISTORY`). Open phases end with the history.

    Histories of other tools have no such notes: then the chronicle is empty.
    """
    notes = _notes(history)
    end = pc.max(history.column("time")).as_py() if history.num_rows else 0
    settlings = tuple(
        Settling(
            phase=note["phase"], agreed=note["agreed"], seconds=note["seconds"], versions=note.get("versions") or {}
        )
        for _, note in _named(notes, "settle")
    )
    return Chronicle(
        phases=_phases(notes, settlings, end),
        faults=_faults(notes),
        operations=tuple(map(_operation, read_operations(read_notes(history)))),
        starts=tuple(_start(time, node, note) for time, node, note in _node_notes(notes, "node-start")),
        settlings=settlings,
        ended_early=_ended_early(notes),
    )


_Note = tuple[int, str, str | None, Mapping[str, Any]]


def _notes(history: pa.Table) -> list[_Note]:
    """List (time, f, node, value) of every note whose value is an object."""
    table = plain(history.filter(pc.equal(history.column("process"), NEMESIS)).select(["time", "f", "node", "value"]))
    found: list[_Note] = []
    for row in table.to_pylist():
        value = None if row["value"] is None else orjson.loads(row["value"])
        if isinstance(value, dict):
            found.append((row["time"], row["f"], row["node"], value))
    return found


def _named(notes: Iterable[_Note], f: str) -> list[tuple[int, Mapping[str, Any]]]:
    return [(time, value) for time, name, _, value in notes if name == f]


def _node_notes(notes: Iterable[_Note], f: str) -> list[tuple[int, str, Mapping[str, Any]]]:
    return [(time, node, value) for time, name, node, value in notes if name == f and node is not None]


def _phases(notes: Sequence[_Note], settlings: Sequence[Settling], end: int) -> tuple[Phase, ...]:
    begun: dict[str, int] = {}
    ended: dict[str, int] = {}
    for time, value in _named(notes, "phase"):
        (begun if value["state"] == "begins" else ended).setdefault(value["phase"], time)
    notes_of_phases = {f"settle-{settling.phase}": _agreement(settling) for settling in settlings}
    notes_of_phases |= {"setup": notes_of_phases.get("settle-setup", "")}
    notes_of_phases |= {
        value["phase"]: "cut short: the cluster answered too slowly" for _, value in _named(notes, "phase-cut-short")
    }
    notes_of_phases |= {phase: f"ended early: {because}" for phase, because in _ended_early(notes).items()}
    return tuple(
        Phase(name=name, begins=begins, ends=ended.get(name, end), note=notes_of_phases.get(name, ""))
        for name, begins in begun.items()
    )


def _ended_early(notes: Sequence[_Note]) -> Mapping[str, str]:
    """Return the reason of the first worker that ended each phase; two may end it at once."""
    reasons: dict[str, str] = {}
    for _, value in _named(notes, "phase-ended-early"):
        reasons.setdefault(value["phase"], str(value["because"]))
    return reasons


def _agreement(settling: Settling) -> str:
    if settling.agreed:
        return f"schema versions agreed after {settling.seconds:.2f} s"
    count = len(set(settling.versions.values()))
    return f"schema versions still differed after {settling.seconds:.1f} s ({count} versions)"


def _faults(notes: Sequence[_Note]) -> tuple[FaultWindow, ...]:
    ends = {value["id"]: time for time, value in _named(notes, "fault-ends")}
    errors = {value["id"]: str(value.get("error")) for _, value in _named(notes, "fault-failed")}
    begun = _named(notes, "fault-begins")
    never_begun = [
        (time, value)
        for time, value in _named(notes, "fault-failed")
        if value["id"] not in {known["id"] for _, known in begun}
    ]
    windows = [
        FaultWindow(
            nemesis=value["nemesis"],
            begins=time,
            ends=ends.get(value["id"], time if (time, value) in never_begun else None),
            nodes=tuple(value.get("nodes") or ()),
            error=errors.get(value["id"]),
        )
        for time, value in [*begun, *never_begun]
    ]
    return tuple(sorted(windows, key=lambda window: window.begins))


def _operation(one: TopologyOperation) -> NodeOperation:
    is_made = one.outcome == "ok"
    answer = str(one.error or (one.attempts[-1].get("answer") if one.attempts else "") or "")
    return NodeOperation(
        nemesis=one.f,
        begins=one.invoked,
        ends=one.completed,
        outcome=one.outcome or "",
        nodes=one.nodes,
        about=_about(one.parameters),
        becomes=str(one.effect.get("system") or "") if is_made and "to" in one.parameters else "",
        members=one.becomes if is_made else {},
        commands=tuple(dict.fromkeys(str(each["command"]) for each in one.attempts if each.get("command"))),
        answer="" if is_made else answer,
    )


def _about(parameters: Mapping[str, Any]) -> str:
    """Say what an operation is about, by the parameters that tell it."""
    if parameters.get("stage") == "finish":
        return f"ends, to {parameters.get('to')}"
    if parameters.get("stage") == "back":
        return f"back from {parameters.get('to')}"
    if "to" in parameters:
        return f"to {parameters['to']}"
    return str(parameters.get("kind") or "")


def _start(time: int, node: str, note: Mapping[str, Any]) -> NodeStart:
    boot = Boot(
        node=node,
        served=note["served"],
        seconds=note["seconds"],
        exit_code=note.get("exit_code"),
        first_error=note.get("first_error"),
    )
    return NodeStart(phase=note["phase"], begins=max(0, time - int(boot.seconds * 1e9)), boot=boot)
