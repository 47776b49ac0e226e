"""Restart: whether every node that was stopped serves again.

Judges the conductor's notes `node-start` of the phases `restart` (every node was stopped and started while nothing else
went on) and `fault` (a node that had fallen was started again), and `node-died`. The same first error on several nodes
is one finding; what differs by address, time or the node's folder alone is the same.
Finds: `node-will-not-start`, `node-died`. Source: CEP-21, "Racing DROP X validations" (at the next restart, nodes won't
start up again); the 0.7 document, "Handling Failure"; CASSANDRA-13180.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from checkers.catalogue import anomaly
from checkers.explanation import explain, listing, seconds
from checkers.mentions import Mentions
from checkers.notes import Note, notes
from harness.operations import JSON
from harness.records import Records
from harness.verdict import Anomaly, Validity, Verdict

__all__ = ["Restart"]

_Cause: TypeAlias = tuple[str, int | None, str]
"""What was noted, the exit code, and the first error without what differs from node to node."""

# The phases in which a node that had served is started again.
_STARTED_AGAIN: Final = ("restart", "fault")
_TIMESTAMP: Final = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[,.]\d+)?Z?")
_ADDRESS: Final = re.compile(
    r"/?(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?|/?\[?(?:[0-9a-f]{0,4}:){3,}[0-9a-f]{0,4}\]?(?::\d+)?", re.IGNORECASE
)
_CONTESTED_MOST: Final = 8


class Restart:
    """Every node that served once serves again when it is started again."""

    name = "restart"
    scope: Final = "run"

    def check(self, records: Records, *, limit_s: float) -> Verdict:  # noqa: ARG002 - a few notes take no time
        """Judge every start but the first, and every death. Unknown if no node was started again. Raises HistoryError."""
        starts = notes(records.history, "node-start")
        again = [note for note in starts if note.value["phase"] in _STARTED_AGAIN]
        bad = [note for note in again if not note.value["served"]]
        bad += notes(records.history, "node-died")
        anomalies = _anomalies(bad, records) if bad else []
        reason = _doubt(starts, again, bad)
        valid: Validity = False if anomalies else "unknown" if reason else True
        return Verdict(valid=valid, checker=self.name, anomalies=tuple(anomalies), stats=_stats(again), reason=reason)


def _doubt(starts: Sequence[Note], again: Sequence[Note], bad: Sequence[Note]) -> str | None:
    """Why the nodes that are not accused are not cleared either."""
    if not again:
        return "nothing to judge: no node was restarted"
    restarted = {note.node for note in again if note.value["phase"] == "restart"}
    booted = {note.node for note in starts if note.value["phase"] == "boot" and note.value["served"]}
    left_out = sorted(str(node) for node in booted - restarted - {note.node for note in bad})
    if restarted and left_out:
        return f"{listing(left_out)} served once and {'was' if len(left_out) == 1 else 'were'} never restarted"
    return None


def _stats(again: Sequence[Note]) -> Mapping[str, JSON]:
    """`starts`, how many of them `served`, and phase → node → seconds until it served or was given up."""
    took: dict[str, dict[str, float]] = {}
    for note in again:
        took.setdefault(note.value["phase"], {})[str(note.node)] = note.value["seconds"]
    return {
        "starts": len(again),
        "served": sum(bool(note.value["served"]) for note in again),
        "seconds": {phase: dict(sorted(nodes.items())) for phase, nodes in took.items()},
    }


def _anomalies(bad: Sequence[Note], records: Records) -> list[Anomaly]:
    mentions = Mentions(records.history, records.observations)
    folded: dict[_Cause, list[Note]] = {}
    for note in bad:
        folded.setdefault(_cause(note), []).append(note)
    return [_anomaly(sorted(same, key=lambda note: str(note.node)), mentions) for same in folded.values()]


def _cause(note: Note) -> _Cause:
    error = _TIMESTAMP.sub("", note.value.get("first_error") or "")
    error = _ADDRESS.sub("", error)
    # A folder named for the node stands in paths: …/nodes/n1/data/…
    error = re.sub(rf"(?<=/){re.escape(str(note.node))}(?=/)", "", error)
    return note.f if note.f == "node-died" else note.value["phase"], note.value.get("exit_code"), error


def _anomaly(same: Sequence[Note], mentions: Mentions) -> Anomaly:
    """One cause, on one node or more; the first in order of name speaks for all."""
    first = same[0]
    nodes = sorted({str(note.node) for note in same})
    error = first.value.get("first_error")
    objects = mentions.keys(error or "")
    changes = mentions.changes(objects)
    # The race is what happened last; where the object is old, its early life is not told.
    told = changes[-_CONTESTED_MOST:]
    died = first.f == "node-died"
    return anomaly(
        "node-died" if died else "node-will-not-start",
        objects=objects,
        nodes=nodes,
        ops=[operation.index for operation in told],
        evidence=_evidence(same),
        explanation=explain(told, _then(first, nodes, objects), _but(same, error)),
    )


def _evidence(same: Sequence[Note]) -> JSON:
    first = same[0].value
    evidence: dict[str, Any] = {"exit_code": first.get("exit_code"), "first_error": first.get("first_error")}
    if "seconds" in first:
        evidence["seconds"] = {str(note.node): note.value["seconds"] for note in same}
    return evidence


def _then(first: Note, nodes: Sequence[str], objects: Sequence[str]) -> str:
    had = f"{listing(nodes)} had served"
    one = len(nodes) == 1
    they = "it" if one else "they"
    if first.f == "node-died":
        then = f"{had}, and nobody stopped or killed {'it' if one else 'them'}, so {they} must go on serving."
    elif first.value["phase"] == "restart":
        then = f"{had} and {'was' if one else 'were'} stopped after the cluster settled, so {they} must serve again."
    else:
        then = f"{had}, fell while faults were injected, and must serve again when started with every fault healed."
    return then if not objects else f"{then} No order of these changes of {listing(objects)} may forbid it."


def _but(same: Sequence[Note], error: str | None) -> str:
    """What each node did, and the error's own words without a stack."""
    parts = []
    for note in same:
        code = note.value.get("exit_code")
        if note.f == "node-died":
            how = "process ended" if code is None else f"process ended with code {code}"
            parts.append(f"{note.node}'s {how} (noticed at {seconds(note.time)})")
        else:
            how = "did not serve" if code is None else f"exited with code {code}"
            parts.append(f"{note.node} {how} after {note.value['seconds']:.1f} s")
    words = [
        line.strip() for line in (error or "").splitlines() if line.strip() and not line.lstrip().startswith("at ")
    ]
    return f"{listing(parts)}" + (f": {' '.join(words)}" if words else " and left no error in its log.")
