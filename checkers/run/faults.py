"""Faults: every planned fault took effect on the cluster.

A fault counts only if its effect was read back from the system (packets dropped, a process gone, a clock shifted).
Judges the conductor's notes `faults-planned`, `fault-begins`, `fault-ends`, `fault-failed` and `fault-skipped`. Never accuses the cluster:
a run whose faults did not happen is `unknown`, because it shows nothing about a cluster under faults.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.notes import read_notes
from schemaquake.checkers.findings.tally import Tally
from schemaquake.harness.model.records import Records
from schemaquake.harness.model.verdict import Doubt, Verdict

__all__ = ["Faults"]

_NOTES: Final = ("faults-planned", "fault-begins", "fault-ends", "fault-failed", "fault-skipped")


class Faults:
    """Every fault of the run was injected, had an effect, and was undone."""

    name = "faults"
    scope: Final = "run"
    finds: tuple[str, ...] = ()
    vouches: bool = False

    def check(self, records: Records, *, limit_s: float) -> Verdict:  # noqa: ARG002 - a few notes take no time
        """Judge the faults: true if every planned fault had an effect or none was planned, else unknown with the reasons."""
        notes = [(event["f"], value) for event, value in read_notes(records.history) if event["f"] in _NOTES]
        counts = Counter(f for f, _ in notes)
        planned = sum(note["count"] for f, note in notes if f == "faults-planned")
        tally = Tally(self.name)
        for text in _list_shortcomings(notes, planned, counts["fault-skipped"]):
            tally.doubt(Doubt("undecided", text))
        operations = sum(note.get("operations", 0) for f, note in notes if f == "faults-planned")
        if operations and not Evidence.of(records).notes.membership.operations:
            text = f"the main phase ended before the first of {operations} planned operations on the topology began"
            tally.doubt(Doubt("undecided", text))
        return tally.verdict(**{name: counts[name] for name in _NOTES[1:] if counts[name]})


def _list_shortcomings(notes: Sequence[tuple[str, Mapping[str, Any]]], planned: int, skipped: int) -> Iterator[str]:
    """Yield the reasons why the planned faults cannot be said to have happened."""
    begun = {note["id"] for f, note in notes if f == "fault-begins"}
    ended = {note["id"] for f, note in notes if f == "fault-ends"}
    failed = [note for f, note in notes if f == "fault-failed"]
    without_effect = [note for f, note in notes if f == "fault-ends" and _had_no_effect(note)]
    for note in failed:
        yield f"{note['nemesis']} (fault {note['id']}) failed to {note.get('stage', 'inject')}: {note.get('error')}"
    for note in without_effect:
        yield f"{note['nemesis']} (fault {note['id']}) had no visible effect"
    for number in sorted(begun - ended):
        yield f"fault {number} was begun and never ended"
    if skipped and not begun:
        yield f"all {skipped} faults were skipped"
    elif planned and not begun and not failed and not without_effect:
        yield f"the main phase ended before the first of {planned} planned faults began"


def _had_no_effect(note: Mapping[str, Any]) -> bool:
    """Check whether the note of the healing reports that the fault had no effect; without a report it had one."""
    effect = note.get("effect")
    return isinstance(effect, dict) and effect.get("observed") is False
