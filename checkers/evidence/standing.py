"""Standing objects: what a node went on to show once it had acknowledged a change.

A reading while the run goes on has rows of what is another than in the reading before (`schemaquake.harness.model.observation`). So an object
without a row stands as it was, and one that never had a row is not there. A node knows what it acknowledged: the first whole reading that it
begins afterwards shows the change. What a client listed anew, or after the node could not be read, says nothing of what it did not list: sessions
are renewed when faults are healed, when nodes were restarted, and to a node that an operation on the topology concerns.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import pyarrow.compute as pc

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.notes import Notes
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.evidence.schema_changes import SchemaObject, certainly_applied, target
from schemaquake.checkers.evidence.sights import Place, Sight, followed_from, read_samples, read_sights
from schemaquake.harness.model.observation import kind_in_memory
from schemaquake.harness.model.records import plain

__all__ = ["read_standing"]

_SIDES: Final = ("disk", "memory")
_RENEWING: Final = ("heal", "restart", "death")
"""What notes of the members are of after which sessions are renewed, before the final readings; those of the boot come before the first ones."""


def read_standing(case: Evidence) -> Sequence[Sight]:
    """Read how objects stood in the first whole reading that a node began after it had acknowledged a change of them, where that has no row of them."""
    return tuple(_Standing(case).find())


def _list_renewals(notes: Notes) -> Mapping[str | None, int]:
    """Map each node that an operation concerns, and None for all others, to the time (ns) since which sessions to it may have been renewed."""
    looks = [event["time"] for event, value in notes.all if event["f"] == "membership" and value.get("at") in _RENEWING]
    found: dict[str | None, int] = {None: min(looks)} if looks else {}
    for operation in notes.operations:
        for node in operation.nodes:
            found[node] = min(operation.invoked, found.get(node, operation.invoked), *looks)
    return found


def _shown_by(change: PairedOperation) -> Sequence[SchemaObject]:
    """List the objects whose rows show a change: an index is in its table's row on disk, and has its own in memory."""
    subject = target(change)
    if change.f != "create-index":
        return (subject,)
    return (subject, SchemaObject("table", subject.keyspace, change.argument["table"]))


class _Standing:
    """The last account of each object on each side of each node, and the changes that the node acknowledged since."""

    def __init__(self, case: Evidence) -> None:
        self._case = case
        self._last: dict[Place, dict[SchemaObject, Sight]] = {}
        self._ever: dict[Place, set[SchemaObject]] = {}
        self._waiting: dict[Place, list[PairedOperation]] = {}
        self._renewed = _list_renewals(case.notes)
        self._keyspace_drops = [change for change in case.changes.possible if change.f == "drop-keyspace"]
        for change in case.changes.possible:
            if change.node is not None and change.completed is not None and certainly_applied(change):
                for side in _SIDES:
                    self._waiting.setdefault(Place(change.node, side), []).append(change)

    def find(self) -> Iterator[Sight]:
        """Yield the sightings in order of time."""
        sights: dict[tuple[str, int], list[Sight]] = {}
        for sight in self._case.derive(read_sights):
            sights.setdefault((sight.place.node, sight.ends), []).append(sight)
        kinds = self._read_kinds()
        began: dict[str, int] = {}
        versions: dict[str, str | None] = {}
        for (node, _), rows in read_samples(self._case.observations).items():
            ends = max(row["time"] for row in rows)
            begins = began.get(node, followed_from(self._case.notes))
            began[node] = ends
            shown = sights.get((node, ends), ())
            version = next((row["id"] for row in rows if row["kind"] == "version"), None)
            # Another version and no change: the reading lists what there is, nothing after a DROP KEYSPACE, and not what became of it.
            is_bare = not shown and version != versions.get(node, version)
            lists_nothing = is_bare and any(drop.invoked < ends for drop in self._keyspace_drops)
            versions[node] = version
            for side in _SIDES:
                place = Place(node, side)
                if lists_nothing:
                    self._last.pop(place, None)
                if any(row["error"] is not None for row in rows):
                    self._last.pop(place, None)
                    continue
                own = [sight for sight in shown if sight.place.side == side]
                self._take(place, own)
                if self._is_whole(rows, side):
                    yield from self._list_standing(place, begins, ends, {sight.subject for sight in own}, kinds[side])

    def _read_kinds(self) -> Mapping[str, Collection[str]]:
        """Return the kinds of objects of which any reading of the run, a final one too, has rows, by side."""
        rows = plain(self._case.observations.select(["kind", "id", "definition"]))
        lives = rows.filter(pc.and_(pc.equal(rows["kind"], "live"), pc.is_valid(rows["definition"])))
        memory = {
            kind_in_memory("live", None, self._case.parse(text)) for text in pc.unique(lives["definition"]).to_pylist()
        }
        return {"disk": set(pc.unique(rows["kind"]).to_pylist()), "memory": memory - {None}}

    def _take(self, place: Place, shown: Sequence[Sight]) -> None:
        """Remember what a reading showed. One that lists an object as it was known is of a client that knew nothing."""
        last = self._last.setdefault(place, {})
        if any(sight.subject in last and last[sight.subject].definition == sight.definition for sight in shown):
            last.clear()
        last.update({sight.subject: sight for sight in shown})
        self._ever.setdefault(place, set()).update(sight.subject for sight in shown)

    def _list_standing(
        self, place: Place, begins: int, ends: int, shown: Collection[SchemaObject], kinds: Collection[str]
    ) -> Iterator[Sight]:
        """Yield the objects without a row in a reading, of which its node had acknowledged changes since the whole reading before."""
        due = [one for one in self._waiting.get(place, ()) if one.completed is not None and one.completed < begins]
        if not due:
            return
        self._waiting[place] = [one for one in self._waiting[place] if one not in due]
        last, ever = self._last[place], self._ever[place]
        for subject in dict.fromkeys(subject for one in due for subject in _shown_by(one)):
            if subject in shown or subject.kind not in kinds:
                continue
            if subject in last:
                if ends >= self._renewed.get(place.node, self._renewed.get(None, ends + 1)):
                    continue
                yield replace(last[subject], begins=begins, ends=ends, corrected=False, stands=True)
            elif subject not in ever:
                yield Sight(place=place, begins=begins, ends=ends, subject=subject, definition=None, stands=True)

    def _is_whole(self, rows: Sequence[Mapping[str, Any]], side: str) -> bool:
        """Tell if a reading is one of everything on that side: of a node whose version stays the same, the version is read alone."""
        version = next((row["definition"] for row in rows if row["kind"] == "version"), None)
        facts = {} if version is None else self._case.parse(version)
        if side == "memory":
            return facts.get("memory") == "statements" and "memory_error" not in facts
        return len(rows) > 1 or "memory" in facts
