"""Places: every note, reading and question is from the phase of the run to which it belongs.

The conductor goes through its phases in one order, and writes in each what belongs there. Final readings are made in their phases, from
when nodes settle on, and readings on the way between the note of the members for the boot and the end. Clients ask nothing before the setup, and nothing from the healing of faults until the final
phases. What is recorded at another time is a doubt: checkers go by these times. Phases that are not noted are not judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.notes import Notes
from schemaquake.checkers.evidence.operations import select_clients
from schemaquake.checkers.evidence.sights import followed_from

__all__ = ["find_misplaced"]

_ORDER: Final = (
    *("boot", "setup", "prepare", "main", "heal", "settle-settled", "final-settled"),
    *("restart", "settle-restarted", "final-restarted"),
)
_SETTLES: Final[Mapping[str, str]] = {
    "setup": "setup",
    "settled": "settle-settled",
    "restarted": "settle-restarted",
}
"""What a note of settling names → the phase in which it is."""
_LOOKS: Final = ("heal", "restart")
"""What a note of the members says that it is of, and is the phase in which it is."""
_READ: Final = ("settled", "restarted")
"""The phases of final readings."""


def find_misplaced(evidence: Evidence) -> Iterator[str]:
    """Yield what is from another phase than the one it belongs to, and what clients asked for when they ask nothing."""
    yield from _find_disorder(evidence.notes)
    yield from _find_misplaced_notes(evidence.notes)
    yield from _find_misplaced_readings(evidence)
    yield from _find_misplaced_questions(evidence)


def _find_disorder(notes: Notes) -> Iterator[str]:
    """Yield the first two phases whose notes are not in the order of a run."""
    noted = [(_ORDER.index(name), state == "ends") for _, name, state in notes.phases if name in _ORDER]
    for (one, _), (other, _) in (both for both in pairwise(noted) if both[0] > both[1]):
        yield f"the notes of phases {_ORDER[one]} and {_ORDER[other]} are not in the order of a run"
        return


def _find_misplaced_notes(notes: Notes) -> Iterator[str]:
    for event, value in notes.all:
        time, at = event["time"], str(value.get("at"))
        match event["f"]:
            case "settle":
                phase = _SETTLES.get(str(value.get("phase")))
                if phase is not None and not _may_be_in(notes, phase, time):
                    yield f"the note of how phase {value['phase']} settled is from another time"
            case "membership" if at in _LOOKS and not _may_be_in(notes, at, time):
                yield f"the members are noted for phase {at}, and were at another time"
            case "membership" if at == "boot" and _is_after(time, notes.began("prepare")):
                yield "the members are noted for the boot, and were after the setup"
            case "run-planned" if _is_after(time, notes.began("setup")):
                yield "the plan is noted after the run had begun"
            case "faults-planned" if not _may_be_in(notes, "main", time):
                yield "the planned faults are noted at another time than the begin of phase main"


def _is_after(time: int, other: int | None) -> bool:
    return other is not None and time > other


def _may_be_in(notes: Notes, phase: str, time: int) -> bool:
    """Check whether a phase was going on at a time (ns); also if it is not noted."""
    begin, end = notes.began(phase), notes.ended(phase)
    return begin is None or (begin <= time and not _is_after(time, end))


def _find_misplaced_readings(evidence: Evidence) -> Iterator[str]:
    notes, rows = evidence.notes, evidence.observations
    for phase in _READ:
        begin, end = notes.began(f"settle-{phase}"), notes.ended(f"final-{phase}")
        times = pc.min_max(rows.filter(pc.equal(rows["phase"], phase))["time"])
        if _lies_outside(times, begin, end):
            yield f"a reading of phase {phase} is from another time"
    last = max((time for time, *_ in notes.phases), default=None)
    on_the_way = pc.invert(pc.is_in(rows["phase"], value_set=pa.array(_READ)))
    times = pc.min_max(rows.filter(on_the_way)["time"])
    if _lies_outside(times, max(followed_from(notes), notes.began("boot") or 0), None if notes.unended else last):
        yield "a reading during the run is from another time"


def _lies_outside(times: pa.Scalar, begin: int | None, end: int | None) -> bool:
    """Check whether the first of some times (`min`, `max`; null: there are none) is before this begin, or the last one after this end."""
    first, last = times["min"].as_py(), times["max"].as_py()
    return first is not None and ((begin is not None and first < begin) or _is_after(last, end))


def _find_misplaced_questions(evidence: Evidence) -> Iterator[str]:
    """Yield the first question of a client in each stretch of the run in which clients ask nothing, and the changes that came too late.

    Nodes settle once no client changes anything any more; clients come back to read. Sessions of the harness may heal meanwhile.
    """
    began = evidence.notes.began
    events = evidence.history.filter(pc.equal(evidence.history["type"], "invoke")).select(["index", "time", "process"])
    events = select_clients(events)
    healing = "heal" if began("heal") is not None else "settle-settled"
    for begins, ends in (("boot", "setup"), (healing, "final-settled"), ("restart", "final-restarted")):
        if (first := began(begins)) is not None:
            last = began(ends)
            within = pc.greater(events["time"], first)
            if last is not None:
                within = pc.and_(within, pc.less(events["time"], last))
            for index in events.filter(within)["index"].to_pylist()[:1]:
                yield f"op {index} was asked between the beginnings of phases {begins} and {ends}"
    settled = began("final-settled")
    for change in evidence.changes.all:
        if settled is not None and change.invoked > settled:
            yield f"op {change.index} was to change the schema after the cluster had settled"
