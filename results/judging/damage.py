"""Damage: a verdict from records that are not what was written would be about the disk, and not about the cluster.

So no checker sees them: the verdict is unknown, whatever they would find, and its doubts name the places.
"""

from __future__ import annotations

from collections.abc import Sequence

from schemaquake.harness.errors import DamagedFile
from schemaquake.harness.model.protocols import Checker
from schemaquake.harness.model.verdict import Doubt, Verdict
from schemaquake.results.judging.sources import HistoryFile
from schemaquake.results.store.examination import examine
from schemaquake.results.store.seal import refuse_damage
from schemaquake.results.store.store import Store

__all__ = ["places_of_damage", "unknown_for_damage"]


def places_of_damage(subject: object, *, hand_over: bool = False) -> tuple[str, ...]:
    """Return the damaged places of the records of a run or of a history file; records in memory have none.

    With `hand_over` the table of a file that another tool made is kept for its reader (`schemaquake.results.store.examination`).
    Raises HistoryError for a file of another tool that no process survives reading.
    """
    if isinstance(subject, Store):
        return subject.damage()
    if isinstance(subject, HistoryFile):
        try:
            if not refuse_damage(subject.path):
                examine(subject.path, hand_over=hand_over)
        except FileNotFoundError:
            return ()  # its reader says so
        except DamagedFile as error:
            return (str(error),)
    return ()


def unknown_for_damage(checkers: Sequence[Checker], places: Sequence[str]) -> Verdict:
    """Return the verdict on damaged records, with a part for each checker."""
    doubt = Doubt("unread", "what the run left is damaged", objects=tuple(places))
    parts = tuple(Verdict.unknown(checker.name, doubt) for checker in checkers)
    return Verdict(valid="unknown", checker="all", doubts=(doubt,), parts=parts)
