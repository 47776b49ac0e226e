"""Faults: every planned fault took effect on the cluster.

A fault counts only if its effect was read back from the system (packets dropped, a process gone, a clock shifted).
Judges the conductor's notes `faults-planned`, `fault-begins`, `fault-ends`, `fault-failed`, `fault-skipped`, `operation-skipped`,
`aim-missed` and `nemesis-died`: every planned fault has begun and ended, failed, or been skipped with a reason; and no server that a fault
held down or frozen answered anybody meanwhile. Never accuses the cluster:
a run whose faults did not happen is `unknown`, because it shows nothing about a cluster under faults.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.notes import traits_of
from schemaquake.checkers.evidence.operations import select_clients
from schemaquake.checkers.findings.explanation import listing, seconds
from schemaquake.checkers.findings.tally import Tally
from schemaquake.checkers.run.effects import UNDONE, find_false_effects
from schemaquake.harness.errors import HistoryError
from schemaquake.harness.model.records import Records, plain
from schemaquake.harness.model.verdict import Doubt, Verdict
from schemaquake.harness.units import S

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

_SILENCING: Final = frozenset({"down", "frozen"})
"""Effects of faults whose servers answer nobody from the note of the begin until they are healed."""
_DISTURBING: Final = _SILENCING | {"down-in-turn"}
"""Effects of faults whose healing may start a server, or let it go on."""
_HEALING_NS: Final = 5 * S
"""How long before the note of its end a fault may have been undone, beside the time that servers took to start."""


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
            *notes.answers_of_silenced(),
        ):
            tally.doubt(Doubt("undecided", text))
        return tally.verdict(**{name: count for name in _COUNTED if (count := len(notes.of(name)))})


class _FaultNotes:
    """The notes about faults, by their name."""

    def __init__(self, records: Records) -> None:
        self._evidence = Evidence.of(records)
        notes = self._evidence.notes
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

    def answers_of_silenced(self) -> Iterator[str]:
        """Yield the faults that held a server down or frozen which answered a client, or was read, meanwhile: what excuses others did not happen.

        Not judged: a node from when another fault, a start, or an operation on it may have brought it back.
        """
        ends = {note["id"]: (note, time) for name, note, time in self._notes if name == "fault-ends"}
        for name, note, begun in self._notes:
            if (
                name != "fault-begins"
                or note["id"] not in ends
                or traits_of(note.get("nemesis", "")).effect not in _SILENCING
            ):
                continue
            end, ended = ends[note["id"]]
            effect = end.get("effect")
            healed = effect if isinstance(effect, dict) else {}
            if healed.get("observed") is not True or UNDONE & healed.keys():
                continue
            states = healed.get("nodes")
            starts = [
                state.get("seconds")
                for state in (states if isinstance(states, dict) else {}).values()
                if isinstance(state, dict)
            ]
            until = ended - _HEALING_NS - round(S * sum(one for one in starts if isinstance(one, int | float)))
            for node in note.get("nodes") or ():
                back = self._back_from(node, note["id"], begun, ended)
                if text := self._answer_of(node, begun, min(until, back)):
                    yield f"{note['nemesis']} (fault {note['id']}) held {node} {begun / S:.3f} s to {ended / S:.3f} s, and {text}"

    def _back_from(self, node: str, number: object, begun: int, ended: int) -> int:
        """Return from when on (ns) anything but the healing of this fault may have brought a server back; its end if nothing did."""
        notes = self._evidence.notes
        ends = {note.get("id"): time for name, note, time in self._notes if name == "fault-ends"}
        others = (
            (time, ends.get(note.get("id")))
            for name, note, time in self._notes
            if name == "fault-begins"
            and note.get("id") != number
            and node in (note.get("nodes") or ())
            and traits_of(note.get("nemesis", "")).effect in _DISTURBING
        )
        operations = ((one.invoked, one.completed) for one in notes.operations if not one.nodes or node in one.nodes)
        if any(start.node == node and begun <= start.time <= ended for start in notes.starts):
            return begun  # the note is of when it served
        every = (*others, *operations)
        overlapping = [first for first, last in every if first <= ended and (last is None or last >= begun)]
        return max(min(overlapping, default=ended), begun)

    def _answer_of(self, node: str, begun: int, until: int) -> str:
        """Describe the first answer of a node to a question from after a time (ns), given before another one; "" if there is none."""
        answers = self._answers
        own = answers.filter(pc.and_(pc.equal(answers["node"], node), pc.less(answers["time"], until)))
        for row in own.filter(pc.greater(own["invoked"], begun)).slice(0, 1).to_pylist():
            return f"it answered op {row['index']} at {seconds(row['time'])}"
        rows = plain(self._evidence.observations.select(["kind", "node", "time", "error"]))
        read = rows.filter(
            pc.and_(pc.equal(rows["node"], node), pc.and_(pc.equal(rows["kind"], "version"), pc.is_null(rows["error"])))
        )
        times = read.filter(pc.and_(pc.greater(read["time"], begun + S), pc.less(read["time"], until)))["time"]
        return f"it was read at {seconds(times[0].as_py())}" if len(times) else ""

    @cached_property
    def _answers(self) -> pa.Table:
        """The acknowledged operations of clients: `index` and `invoked` (ns) of the question, `time` (ns) and `node` of the answer."""
        history = self._evidence.history
        try:
            invocation, completion = self._evidence.ends()
        except HistoryError:
            invocation = completion = np.array([], dtype=np.int64)
        answered = completion >= 0
        asked = plain(history.select(["index", "time", "process"]).take(pa.array(invocation[answered])))
        answers = plain(history.select(["time", "type", "node"]).take(pa.array(completion[answered])))
        both = answers.append_column("index", asked["index"]).append_column("invoked", asked["time"])
        both = both.append_column("process", asked["process"])
        return select_clients(both.filter(pc.equal(both["type"], "ok")))

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
