"""Faults: whether what was planned really happened to the cluster.

A fault counts only when its effect was read back from the system (packets dropped, a process gone, a clock shifted).
Judges the conductor's notes `faults-planned`, `fault-begins`, `fault-ends`, `fault-failed` and `fault-skipped`. Never accuses the cluster:
a run whose faults did not happen is `unknown`, because nothing was shown about a cluster under faults.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from schemaquake.checkers.evidence.notes import read_notes
from schemaquake.harness.model.records import Records
from schemaquake.harness.model.verdict import Doubt, Verdict, make_stats

__all__ = ["Faults"]

_NOTES: Final = ("faults-planned", "fault-begins", "fault-ends", "fault-failed", "fault-skipped")


class Faults:
    """Whether every fault of the run was injected, seen and undone."""

    name = "faults"
    scope: Final = "run"
    finds: tuple[str, ...] = ()
    vouches: bool = False

    def check(self, records: Records, *, limit_s: float) -> Verdict:  # noqa: ARG002 - a few notes take no time
        """True if there was nothing to inject or all of it was seen; unknown, with the reason, otherwise."""
        notes = [(event["f"], value) for event, value in read_notes(records.history) if event["f"] in _NOTES]
        counts = Counter(f for f, _ in notes)
        planned = sum(note["count"] for f, note in notes if f == "faults-planned")
        doubts = [Doubt("undecided", text) for text in _shortcomings(notes, planned, counts["fault-skipped"])]
        stats = make_stats({name: counts[name] for name in _NOTES[1:] if counts[name]})
        return Verdict(valid="unknown" if doubts else True, checker=self.name, stats=stats, doubts=tuple(doubts))


def _shortcomings(notes: Sequence[tuple[str, Mapping[str, Any]]], planned: int, skipped: int) -> Iterator[str]:
    """Yield why it cannot be said that what was planned was done to the cluster."""
    begun = {note["id"] for f, note in notes if f == "fault-begins"}
    ended = {note["id"] for f, note in notes if f == "fault-ends"}
    failed = [note for f, note in notes if f == "fault-failed"]
    unseen = [note for f, note in notes if f == "fault-ends" and _unseen(note)]
    for note in failed:
        yield f"{note['nemesis']} (fault {note['id']}) failed to {note.get('stage', 'inject')}: {note.get('error')}"
    for note in unseen:
        yield f"{note['nemesis']} (fault {note['id']}) had no effect that could be seen"
    for number in sorted(begun - ended):
        yield f"fault {number} was begun and never ended"
    if skipped and not begun:
        yield f"all {skipped} faults were skipped"
    elif planned and not begun and not failed and not unseen:
        yield f"the main phase ended before the first of {planned} planned faults began"


def _unseen(note: Mapping[str, Any]) -> bool:
    """A healing that read back that nothing had been hit; a nemesis that does not say is believed."""
    effect = note.get("effect")
    return isinstance(effect, dict) and effect.get("observed") is False
