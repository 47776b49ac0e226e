"""Log times: the order of a log's entries agrees with the times at which clients asked for the changes, and nodes showed epochs.

An entry's id says which node asked for it. Where a node was asked for one change after another, its entries are in the order of these changes:
each change that is sure to have an entry has one, and others may. So each entry is of one of a few known operations, and was made between
the begin of the first and the end of the last of these. It cannot stand behind an entry that was asked for later than that, or have been
shown before it was asked for. Source: CEP-21, linearizable changes of metadata.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.evidence.schema_changes import surely_changed
from schemaquake.checkers.findings.explanation import seconds

__all__ = ["list_untimely", "node_of_source", "read_epochs"]


class ShownEpoch(NamedTuple):
    """The epoch that a node showed in a reading that began and ended at these times (ns) of the run."""

    begins: int
    ends: int
    node: str
    epoch: int


class _Entry(NamedTuple):
    """An entry that a node asked for between two times (ns) of the run."""

    epoch: int
    node: str
    begins: int
    ends: int


def list_untimely(entries: Mapping[int, str], evidence: Evidence) -> Iterator[str]:
    """Yield where a log contradicts the times of the run, one line at most; `entries` maps the epochs of changes of the schema to nodes.

    No client may have asked one node for two changes at once.
    """
    dated = _date(entries, evidence)
    latest: _Entry | None = None
    for entry in dated:
        if latest is not None and entry.ends < latest.begins:
            yield (
                f"the metadata log has epoch {latest.epoch}, for which {latest.node} was asked at {seconds(latest.begins)} or later by its id, "
                f"before epoch {entry.epoch}, which {entry.node} had acknowledged by {seconds(entry.ends)}"
            )
            return
        latest = entry if latest is None else max(latest, entry, key=lambda one: one.begins)
    for shown in read_epochs(evidence):
        early = next((entry for entry in dated if entry.epoch <= shown.epoch and entry.begins > shown.ends), None)
        if early is not None:
            yield (
                f"{shown.node} showed epoch {shown.epoch} at {seconds(shown.ends)}, and by its id {early.node} was asked for epoch {early.epoch} "
                f"at {seconds(early.begins)} or later"
            )
            return


def node_of_source(source: str, evidence: Evidence) -> str | None:
    """Return the node whose name or address this is; None if it is not known."""
    membership = evidence.notes.membership
    if source in membership.initial:
        return source
    return next((node for node, address in membership.addresses.items() if address == source), None)


def _date(entries: Mapping[int, str], evidence: Evidence) -> Sequence[_Entry]:
    """Return the entries that changes of the run may have made, in order of epochs, each with the times between which its node was asked for it."""
    asked: dict[str, list[PairedOperation]] = {}
    for change in evidence.changes.possible:
        if change.node is not None:
            asked.setdefault(change.node, []).append(change)
    found = []
    for node, changes in asked.items():
        latest_first = sorted(changes, key=lambda one: one.invoked, reverse=True)
        owed = list(accumulate((surely_changed(change) for change in latest_first), initial=0))
        epochs = sorted((epoch for epoch, source in entries.items() if source == node), reverse=True)
        for later, epoch in enumerate(epochs):
            earlier = len(epochs) - 1 - later
            # Of the changes behind its own, and of those before it, all that are sure to have an entry have one.
            could_be = [
                place
                for place in range(later, len(latest_first))
                if owed[place] <= later and owed[-1] - owed[place + 1] <= earlier
            ]
            if could_be:
                last, first = latest_first[could_be[0]], latest_first[could_be[-1]]
                # Before all changes are the server's own entries.
                begins = 0 if owed[-1] <= later else first.invoked
                ends = last.completed if last.acknowledged else None
                found.append(_Entry(epoch, node, begins, sys.maxsize if ends is None else ends))
    return sorted(found)


def read_epochs(evidence: Evidence) -> Sequence[ShownEpoch]:
    """Read the epochs that nodes showed, in order of time; a reading of a node began after the one before it had ended."""
    found: list[ShownEpoch] = []
    last: dict[str, int] = {}
    for sighting in evidence.sightings("version"):
        epoch = sighting.definition.get("epoch") if isinstance(sighting.definition, dict) else None
        if epoch is not None:
            begins = max(last.get(sighting.node, 0), evidence.begins.get((sighting.phase, sighting.node), 0))
            found.append(ShownEpoch(begins, sighting.time, sighting.node, epoch))
        last[sighting.node] = sighting.time
    return found
