"""Chronicle: what the conductor and the nemesis noted in a history, as phases, faults, boots and settlings.

They are the events of process −1: `phase` (begins, ends), `phase-ended-early`, `phase-cut-short`, `fault-begins`,
`fault-ends`, `fault-failed`, `fault-skipped`, `node-start` and `settle`. Times in ns since the run started.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.harness.model.operation import NEMESIS
from schemaquake.harness.model.protocols import Boot
from schemaquake.harness.model.records import plain
from schemaquake.results.wording import joined

__all__ = ["Chronicle", "FaultWindow", "NodeStart", "Phase", "Settling", "chronicle_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A stretch of the run, under the conductor's name for it (boot, main, settle-settled, restart)."""

    name: str
    begins: int
    ends: int
    note: str = ""
    """What the reader should know of it: "schema versions agreed after 3.7 s"."""

    @property
    def seconds(self) -> float:
        """How long it took."""
        return (self.ends - self.begins) / 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultWindow:
    """A fault while it was in place. `ends` null: it was never healed while the run went on."""

    nemesis: str
    begins: int
    ends: int | None
    nodes: tuple[str, ...] = ()
    error: str | None = None
    """Injecting or healing it failed, in these words: what it did to the cluster is not known."""

    def title(self) -> str:
        """The fault in a line."""
        lasted = "not healed" if self.ends is None else f"{(self.ends - self.begins) / 1e9:.1f} s"
        where = f" on {joined(self.nodes)}" if self.nodes else ""
        return f"{self.nemesis}{where}, {lasted}" + (f", failed: {self.error}" if self.error else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStart:
    """One start of a node: `phase` is boot, fault or restart; `begins` when its process was started."""

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
    """Everything noted, each in order of time."""

    phases: tuple[Phase, ...] = ()
    faults: tuple[FaultWindow, ...] = ()
    starts: tuple[NodeStart, ...] = ()
    settlings: tuple[Settling, ...] = ()
    ended_early: Mapping[str, str] = field(default_factory=dict)
    """Phase → why a worker ended it before its steps did: the cluster never did what was required of it."""

    def phase(self, name: str) -> Phase | None:
        """The first phase of that name."""
        return next((phase for phase in self.phases if phase.name == name), None)

    def settling(self, name: str) -> Settling | None:
        """How the wait for agreement of that name ended."""
        return next((settling for settling in self.settlings if settling.phase == name), None)

    def restarts(self) -> tuple[NodeStart, ...]:
        """Every start but the first boot."""
        return tuple(start for start in self.starts if start.phase != "boot")

    def never_back(self) -> Mapping[str, NodeStart]:
        """The nodes whose last start failed, with that start."""
        last = {start.boot.node: start for start in self.starts}
        return {node: start for node, start in last.items() if not start.boot.served}


def chronicle_of(history: pa.Table) -> Chronicle:
    """The chronicle of a history (`schemaquake.harness.model.records.HISTORY`). What never ended ends with the history.

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
        starts=tuple(_start(time, node, note) for time, node, note in _of_nodes(notes, "node-start")),
        settlings=settlings,
        ended_early=_ended_early(notes),
    )


_Note = tuple[int, str, str | None, Mapping[str, Any]]


def _notes(history: pa.Table) -> list[_Note]:
    """(time, f, node, value) of every note whose value is an object."""
    table = plain(history.filter(pc.equal(history.column("process"), NEMESIS)).select(["time", "f", "node", "value"]))
    found: list[_Note] = []
    for row in table.to_pylist():
        value = None if row["value"] is None else orjson.loads(row["value"])
        if isinstance(value, dict):
            found.append((row["time"], row["f"], row["node"], value))
    return found


def _named(notes: Iterable[_Note], f: str) -> list[tuple[int, Mapping[str, Any]]]:
    return [(time, value) for time, name, _, value in notes if name == f]


def _of_nodes(notes: Iterable[_Note], f: str) -> list[tuple[int, str, Mapping[str, Any]]]:
    return [(time, node, value) for time, name, node, value in notes if name == f and node is not None]


def _phases(notes: Sequence[_Note], settlings: Sequence[Settling], end: int) -> tuple[Phase, ...]:
    begun: dict[str, int] = {}
    ended: dict[str, int] = {}
    for time, value in _named(notes, "phase"):
        (begun if value["state"] == "begins" else ended).setdefault(value["phase"], time)
    spoken = {f"settle-{settling.phase}": _agreement(settling) for settling in settlings}
    spoken |= {"setup": spoken.get("settle-setup", "")}
    spoken |= {
        value["phase"]: "cut short: the cluster answered too slowly" for _, value in _named(notes, "phase-cut-short")
    }
    spoken |= {phase: f"ended early: {because}" for phase, because in _ended_early(notes).items()}
    return tuple(
        Phase(name=name, begins=begins, ends=ended.get(name, end), note=spoken.get(name, ""))
        for name, begins in begun.items()
    )


def _ended_early(notes: Sequence[_Note]) -> Mapping[str, str]:
    """By the word of the first worker who had to end the phase; two may come to it at once."""
    told: dict[str, str] = {}
    for _, value in _named(notes, "phase-ended-early"):
        told.setdefault(value["phase"], str(value["because"]))
    return told


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


def _start(time: int, node: str, note: Mapping[str, Any]) -> NodeStart:
    boot = Boot(
        node=node,
        served=note["served"],
        seconds=note["seconds"],
        exit_code=note.get("exit_code"),
        first_error=note.get("first_error"),
    )
    return NodeStart(phase=note["phase"], begins=max(0, time - int(boot.seconds * 1e9)), boot=boot)
