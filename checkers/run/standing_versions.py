"""Standing versions: a node shows another schema version once it has made a table or a keyspace.

A version is made of all that a node has of the schema (a digest from 1.1 to 5.0, a time before), so that two readings of one
node with an acknowledged CREATE between them, which nothing can have undone, name two versions. Epochs are judged by
`schemaquake.checkers.schema.epochs`. A version that stands still is a doubt: it tells nobody who lacks the change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.node_schemas import PHASES
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.evidence.schema_changes import surely_changed, target
from schemaquake.checkers.findings.explanation import seconds

__all__ = ["find_standing_versions"]

_MADE = frozenset({"create-table", "create-keyspace"})


class _Reading(NamedTuple):
    """The version that a node showed in a reading that began and ended at these times (ns) of the run."""

    begins: int
    ends: int
    version: str


def find_standing_versions(evidence: Evidence) -> Iterator[str]:
    """Yield each node that shows one version before and after a CREATE that it acknowledged, and that nothing can have undone."""
    made: dict[str, list[PairedOperation]] = {}
    for change in evidence.changes.possible:
        if change.f in _MADE and surely_changed(change) and change.node is not None and _lasts(change, evidence):
            made.setdefault(change.node, []).append(change)
    if not made or evidence.notes.upgrades.operations:
        return
    for node, readings in sorted(_read(evidence).items()):
        first: dict[str, _Reading] = {}
        last: dict[str, _Reading] = {}
        for reading in readings:
            first.setdefault(reading.version, reading)
            last[reading.version] = reading
        for change in made.get(node, ()):
            standing = next((v for v in first if _is_between(first[v], change, last[v])), None)
            if standing is not None:
                at = f"at {seconds(first[standing].ends)} and at {seconds(last[standing].ends)}"
                yield f"{node} shows version {standing} {at}, and acknowledged op {change.index} in between"
                break


def _lasts(create: PairedOperation, evidence: Evidence) -> bool:
    """Tell if what was made is there for good: nothing can have dropped it, or have made it before."""
    subject = target(create)
    changes = evidence.changes
    return len(changes.creates(subject)) == 1 and not changes.drops(subject) and not changes.texts(subject.keyspace)


def _is_between(first: _Reading, change: PairedOperation, last: _Reading) -> bool:
    return change.completed is not None and first.ends < change.invoked and change.completed < last.begins


def _read(evidence: Evidence) -> dict[str, Sequence[_Reading]]:
    """Read the versions of each node that shows no epochs, in order of time; a reading began after the one before it had ended."""
    found: dict[str, list[_Reading]] = {}
    with_epochs = set()
    for sighting in evidence.sightings("version"):
        node, shown = sighting.node, sighting.definition
        if isinstance(shown, dict) and shown.get("epoch") is not None:
            with_epochs.add(node)
        readings = found.setdefault(node, [])
        begins = readings[-1].ends if readings else 0
        if sighting.phase in PHASES:
            begins = max(begins, evidence.begins.get((sighting.phase, node), begins))
        if sighting.id is not None:
            readings.append(_Reading(begins, sighting.time, sighting.id))
    return {node: readings for node, readings in found.items() if node not in with_epochs}
