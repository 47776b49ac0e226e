"""Faults: every planned fault took effect on the cluster.

A fault counts only if its effect was read back from the system (packets dropped, a process gone, a clock shifted).
Judges the conductor's notes `faults-planned`, `fault-begins`, `fault-ends`, `fault-failed`, `fault-skipped`, `operation-skipped`,
`aim-missed` and `nemesis-died`: every planned fault has begun and ended, failed, or been skipped with a reason. Never accuses the cluster:
a run whose faults did not happen is `unknown`, because it shows nothing about a cluster under faults.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.findings.explanation import listing
from schemaquake.checkers.findings.tally import Tally
from schemaquake.checkers.run.effects import find_false_effects
from schemaquake.harness.model.records import Records
from schemaquake.harness.model.verdict import Doubt, Verdict

__all__ = ["Faults"]

_COUNTED: Final = (
    "fault-begins",
    "fault-ends",
    "fault-failed",
    "fault-skipped",
    "operation-skipped",
    "aim-missed",
    "nemesis-died",
)


class Faults:
    """Every fault of the run was injected, had an effect, and was undone."""

    name = "faults"
    scope: Final = "run"
    finds: tuple[str, ...] = ()
    vouches: bool = False

    def check(self, records: Records, *, limit_s: float) -> Verdict:  # noqa: ARG002 - a few notes take no time
        """Judge the faults: true if every planned fault had an effect or none was planned, else unknown with the reasons."""
        notes = _FaultNotes(records)
        tally = Tally(self.name)
        for text in (
            *notes.shortcomings(),
            *notes.impossible_times(),
            *notes.missing_faults(),
            *notes.missing_operations(),
        ):
            tally.doubt(Doubt("undecided", text))
        return tally.verdict(**{name: count for name in _COUNTED if (count := len(notes.of(name)))})


class _FaultNotes:
    """The notes about faults, by their name."""

    def __init__(self, records: Records) -> None:
        notes = Evidence.of(records).notes
        self._notes = [(event["f"], value, event["time"]) for event, value in notes.all]
        self._membership = notes.membership
        self._operations = self._membership.operations

    def of(self, f: str) -> list[Mapping[str, Any]]:
        return [note for name, note, _ in self._notes if name == f]

    def _planned(self, what: str) -> int:
        return sum(note.get(what) or 0 for note in self.of("faults-planned"))

    def shortcomings(self) -> Iterator[str]:
        """Yield what is wrong with the faults that were tried, and with the nemeses that tried them."""
        begun = Counter(note["id"] for note in self.of("fault-begins"))
        ended = Counter(note["id"] for note in self.of("fault-ends"))
        for note in self.of("nemesis-died"):
            yield f"{note['nemesis']} ended before its schedule did: {note.get('error')}"
        for note in self.of("aim-missed"):
            yield f"{note['nemesis']} was aimed at {note['step']}, a step at which the operation was never seen"
        overtaken = {
            note["id"] for name, note, time in self._notes if name == "fault-failed" and self._was_overtaken(note, time)
        }
        for note in self.of("fault-failed"):
            if note["id"] not in overtaken:
                yield f"{note['nemesis']} (fault {note['id']}) failed to {note.get('stage', 'inject')}: {note.get('error')}"
        for name, note, time in self._notes:
            if name != "fault-ends" or not _had_no_effect(note) or note["id"] in overtaken:
                continue
            if not self._ended_in_an_operation(note, time):
                yield f"{note['nemesis']} (fault {note['id']}) had no visible effect"
        yield from self._contradictions()
        yield from self._false_effects()
        yield from self._odd_plans()
        for number in sorted((begun - ended).keys()):
            yield f"fault {number} was begun and never ended"
        for number in sorted((ended - begun).keys()):
            yield f"fault {number} was ended and never begun"

    def _ended_in_an_operation(self, end: Mapping[str, Any], time: int) -> bool:
        """Check whether a fault was seen to begin, and its nodes had been ended by operations on the topology when it was healed."""
        begun = [note for note in self.of("fault-begins") if note["id"] == end["id"] and not _had_no_effect(note)]
        effect = end.get("effect")
        found = effect.get("nodes") if isinstance(effect, dict) else None
        states = found if isinstance(found, dict) else {}
        has_ended = bool(states) and all(
            isinstance(each, dict) and each.get("after") == "stopped" for each in states.values()
        )
        return bool(begun) and has_ended and not any(self._membership.serves(node, time) for node in states)

    def _was_overtaken(self, failed: Mapping[str, Any], time: int) -> bool:
        """Check whether servers that a fault had stopped could not be brought back because operations on the topology took their nodes down."""
        begun = [note for note in self.of("fault-begins") if note["id"] == failed["id"] and not _had_no_effect(note)]
        effect = begun[0].get("effect") if begun else None
        found = effect.get("nodes") if isinstance(effect, dict) else None
        states = found if isinstance(found, dict) else {}
        had_stopped = bool(states) and all(
            isinstance(each, dict) and each.get("after") == "stopped" for each in states.values()
        )
        is_healing = failed.get("stage") == "heal"
        return is_healing and had_stopped and not any(self._membership.serves(node, time) for node in states)

    def _contradictions(self) -> Iterator[str]:
        """Yield the faults whose notes of begin and end differ in what the fault was, on which checkers rely."""
        ends = {note["id"]: note for note in self.of("fault-ends")}
        for begin in self.of("fault-begins"):
            end = ends.get(begin["id"])
            if end is not None and any(begin.get(name) != end.get(name) for name in ("nemesis", "nodes", "parameters")):
                yield f"the notes of the begin and of the end of fault {begin['id']} differ in what it was"

    def _false_effects(self) -> Iterator[str]:
        """Yield the faults whose effects, as they were read back, are not what these faults do."""
        ends = {note["id"]: note for note in self.of("fault-ends")}
        for begin in self.of("fault-begins"):
            for text in find_false_effects(begin, ends.get(begin["id"])):
                yield f"{begin['nemesis']} (fault {begin['id']}) {text}"

    def _odd_plans(self) -> Iterator[str]:
        """Yield what is wrong with the notes of what was planned; workloads may ask for further faults."""
        if any("ids" in note and note.get("count") != len(note["ids"] or ()) for note in self.of("faults-planned")):
            yield "the note of the planned faults lists other than as many as it counts"
        planned = [number for note in self.of("faults-planned") for number in note.get("ids") or ()]
        if len(planned) != len(set(planned)):
            yield "the note of the planned faults lists a fault twice"

    def impossible_times(self) -> Iterator[str]:
        """Yield the faults that ended no later than they began: nothing can have happened under them."""
        began = {note["id"]: time for name, note, time in self._notes if name == "fault-begins"}
        for name, note, time in self._notes:
            if name == "fault-ends" and time <= began.get(note["id"], -1):
                yield f"fault {note['id']} ended no later than it began"

    def missing_faults(self) -> Iterator[str]:
        """Yield why the planned faults cannot be said to have happened: none did, or some left no trace."""
        planned = self._planned("count")
        begun = {note["id"] for f in ("fault-begins", "fault-ends") for note in self.of(f)}
        failed = {note["id"] for note in self.of("fault-failed")}
        skipped = {note["id"] for note in self.of("fault-skipped")}
        ids = {number for note in self.of("faults-planned") for number in note.get("ids") or ()}
        known = begun | failed | skipped
        # Runs of 0.1 have the number of planned faults alone.
        left = len(ids - known) if ids else planned - len(known)
        if skipped and not begun:
            yield f"all {len(skipped)} faults were skipped: {listing(_reasons(self.of('fault-skipped')))}"
        elif planned and not begun and not failed:
            yield f"the main phase ended before the first of {planned} planned faults began"
        elif left > 0:
            yield f"{left} of {planned} planned faults neither began nor failed nor were skipped"

    def missing_operations(self) -> Iterator[str]:
        """Yield why the planned operations on the topology cannot be said to have happened."""
        planned = self._planned("operations")
        if planned and not self._operations:
            yield f"the main phase ended before the first of {planned} planned operations on the topology began"
        elif (left := planned - self._operations - len(self.of("operation-skipped"))) > 0:
            yield f"{left} of {planned} planned operations on the topology neither began nor were skipped"
        elif left < 0 and any("ids" in note for note in self.of("faults-planned")):
            yield f"{planned - left} operations on the topology began or were skipped, and {planned} were planned"


def _reasons(notes: list[Mapping[str, Any]]) -> list[str]:
    """List the reasons for which faults were skipped, each once."""
    return list(dict.fromkeys(str(note["reason"]) for note in notes if note.get("reason")))


def _had_no_effect(note: Mapping[str, Any]) -> bool:
    """Check whether the note of the healing does not report an effect of the fault; without a report it had one."""
    effect = note.get("effect")
    if effect is None:
        return False
    return not isinstance(effect, dict) or effect.get("observed", "healed" in effect) is not True
