"""Epochs: a node never shows an older epoch than it had shown before.

Judges the epochs of all readings of nodes whose system orders its schemas by epochs (a `version` row has one) and keeps no
log of changes that a client can read: `schemaquake.checkers.schema.change_log` judges the others by their logs. An epoch is
on the node's disk before it is in force, so a final reading is never behind an earlier one, with or without a restart in
between. A reading while the run goes on is compared only if the node cannot have been started since: it may be answered
while the node still applies what it has on disk. An epoch that did not grow by every change that the node itself acknowledged
between two readings is a doubt.
Finds: `forgotten-change`. Source: CEP-21, "the log is the source of truth, in order of epochs".
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.node_schemas import GROUP_HISTORY, PHASES
from schemaquake.checkers.evidence.notes import Notes
from schemaquake.checkers.evidence.schema_changes import surely_changed
from schemaquake.checkers.findings.argument import Argument
from schemaquake.checkers.findings.catalogue import anomaly
from schemaquake.checkers.findings.explanation import seconds
from schemaquake.checkers.schema.judge import Findings
from schemaquake.harness.model.verdict import Anomaly, Doubt

__all__ = ["Epoch", "find_older_epochs", "find_standing_epochs", "read_epochs", "started_between"]


class Epoch(NamedTuple):
    """The epoch that a node showed in one reading; `time` in ns since the run started."""

    time: int
    node: str
    phase: str
    epoch: int


def read_epochs(case: Evidence, *, without: Collection[str]) -> Mapping[str, list[Epoch]]:
    """Read the epochs of each node in order of time, of nodes with two readings or more, without the nodes named."""
    epochs: dict[str, list[Epoch]] = {}
    for row, version in _version_rows(case.observations):
        # The state of a group in the reading: its system says by read barriers, and not by epochs alone, who is behind.
        if row["node"] not in without and version.get("epoch") is not None and GROUP_HISTORY not in version:
            epochs.setdefault(row["node"], []).append(Epoch(row["time"], row["node"], row["phase"], version["epoch"]))
    return {node: found for node, found in sorted(epochs.items()) if len(found) > 1}


def find_older_epochs(epochs: Mapping[str, list[Epoch]], notes: Notes) -> Findings:
    """Yield a finding for each node that showed an older epoch than before, None for each other node."""
    for found in epochs.values():
        yield _find_older(found, notes)


def find_standing_epochs(epochs: Mapping[str, list[Epoch]], case: Evidence) -> Iterator[Doubt]:
    """Yield a doubt for each node whose epoch grew by less than the changes that it acknowledged between two of its readings.

    Each change is an epoch of its own, later than all that the node had shown before it was asked, and the node has applied
    it when it acknowledges it. A reading is recorded when it has ended, and began after the one before it had. While nodes become another
    release, not all of them keep a log yet.
    """
    if case.notes.upgrades.operations:
        return
    for node, found in epochs.items():
        acked = [one for one in case.changes.possible if one.node == node and surely_changed(one)]
        invoked = sorted(change.invoked for change in acked)
        completed = sorted(change.completed or change.invoked for change in acked)
        # Of two readings a and b, at least (answered before b began) - (asked before a ended) changes lie between them. Which reading
        # makes most of this is the one with the least (asked before a ended) - (its epoch).
        since, least = found[0], bisect_right(invoked, found[0].time) - found[0].epoch
        for before, now in pairwise(found):
            begins = max(before.time, case.begins.get((now.phase, node), 0))
            owed = bisect_left(completed, begins) - now.epoch
            # One that went back is judged elsewhere, or was just started.
            if owed > least and now.epoch >= before.epoch:
                text = f"{node} acknowledged {owed - least} more changes than epochs passed from {seconds(since.time)} (epoch {since.epoch}) to {seconds(now.time)} (epoch {now.epoch})"
                yield Doubt("undecided", text)
                break
            begun = bisect_right(invoked, now.time) - now.epoch
            if begun < least or now.epoch < before.epoch:
                since, least = now, begun


def started_between(notes: Notes, node: str, begins: int, ends: int) -> bool:
    """Tell if the node may have been started between two times (ns), with its disk or with an empty one.

    A start is noted when it is over; that of a node which an operation took the disk from is no note of its own.
    """
    starts = [start for start in notes.starts if start.node == node]
    return (
        any(begins < start.time and start.time - start.seconds * 1e9 < ends for start in starts)
        or any(node in fault.nodes for fault in notes.active(begins, ends))
        or notes.losses.between(node, begins, ends)
    )


def _find_older(epochs: list[Epoch], notes: Notes) -> Anomaly | None:
    newest = epochs[0]
    for number, now in enumerate(epochs):
        if now.epoch >= newest.epoch:
            newest = now
            continue
        comparable = [
            then
            for then in epochs[:number]
            if now.phase in PHASES or not started_between(notes, now.node, then.time, now.time)
        ]
        then = max(comparable, key=lambda one: one.epoch, default=now)
        if then.epoch > now.epoch:
            return _report(then, now)
    return None


def _report(then: Epoch, now: Epoch) -> Anomaly:
    return anomaly(
        "forgotten-change",
        nodes=[now.node],
        evidence={"then": then._asdict(), "now": now._asdict()},
        explanation=Argument(
            [f"E1 = epoch {then.epoch}, shown by {then.node} at {seconds(then.time)}"],
            "a node forgets no change that it applied.",
            f"{now.node} showed epoch {now.epoch} at {seconds(now.time)}.",
        ),
    )


def _version_rows(observations: pa.Table) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    for row in observations.filter(pc.equal(observations["kind"], "version")).sort_by("time").to_pylist():
        if row["error"] is None:
            yield row, orjson.loads(row["definition"] or "{}")
