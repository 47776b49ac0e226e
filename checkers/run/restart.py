"""Restart: whether every node that was stopped serves again.

Judges the conductor's notes `node-start` of the phases `restart` (every node was killed and started while nothing else
went on) and `fault` (a node that had fallen was started again), and `node-died`. The same first error on several nodes
is one finding; what differs by address, time or the node's folder alone is the same.
Finds: `node-will-not-start`, `node-died`. Source: CEP-21, "Racing DROP X validations" (at the next restart, nodes won't
start up again); the 0.7 document, "Handling Failure"; CASSANDRA-13180.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from schemaquake.checkers.evidence.notes import NodeDeath, NodeStart, Notes
from schemaquake.checkers.findings.catalogue import anomaly
from schemaquake.checkers.findings.explanation import explain, listing, seconds
from schemaquake.checkers.run.log_rules import rule_of
from schemaquake.checkers.run.mentions import Mentions
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.records import Records
from schemaquake.harness.model.verdict import Anomaly, Doubt, Validity, Verdict, make_stats

__all__ = ["Restart"]

_End: TypeAlias = NodeStart | NodeDeath
"""A start that did not serve, or a process that ended."""

_Cause: TypeAlias = tuple[str, int | None, str]
"""What was noted, the exit code, and the first error without what differs from node to node."""

# The phases in which a node that had served is started again.
_STARTED_AGAIN: Final = ("restart", "fault")
_TIMESTAMP: Final = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[,.]\d+)?Z?")
_ADDRESS: Final = re.compile(
    r"/?(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?|/?\[?(?:[0-9a-f]{0,4}:){3,}[0-9a-f]{0,4}\]?(?::\d+)?", re.IGNORECASE
)
_CHANGES_MOST: Final = 8
_KILLED: Final = frozenset({-9, 137})


class Restart:
    """Every node that served once serves again when it is started again."""

    name = "restart"
    scope: Final = "run"
    finds: tuple[str, ...] = ("node-will-not-start", "node-died")
    vouches: bool = True

    def check(self, records: Records, *, limit_s: float) -> Verdict:  # noqa: ARG002 - a few notes take no time
        """Judge every start but the first, and every death. Unknown if no node was started again. Raises HistoryError."""
        notes = Notes(records.history)
        again = [start for start in notes.starts if start.phase in _STARTED_AGAIN]
        ends: list[_End] = [*(start for start in again if not start.served), *notes.deaths]
        bad = [end for end in ends if _of_the_machine(end) is None]
        anomalies = _anomalies(bad, records) if bad else []
        doubts = [
            Doubt("undecided", f"{end.node} did not serve: {told}")
            for end in ends
            if (told := _of_the_machine(end)) is not None
        ]
        doubts += _doubts(notes.starts, ends)
        valid: Validity = False if anomalies else "unknown" if doubts else True
        return Verdict(
            valid=valid,
            checker=self.name,
            anomalies=tuple(anomalies),
            stats=make_stats(_stats(again)),
            doubts=tuple(doubts),
        )


def _of_the_machine(end: _End) -> str | None:
    """Why the machine is to blame, or somebody at it: no schema fills a disk, or sends SIGKILL."""
    rule = rule_of(end.first_error or "", level="ERROR", boot=1, nemeses=())
    if rule is not None and rule.means == "environment":
        return rule.explanation
    if end.exit_code in _KILLED and not end.first_error:
        return "somebody killed it, as the kernel does when memory runs out"
    return None


def _doubts(starts: Sequence[NodeStart], ends: Sequence[_End]) -> list[Doubt]:
    """Why the nodes that did not end are not cleared either."""
    if all(start.phase not in _STARTED_AGAIN for start in starts):
        return [] if ends else [Doubt("nothing-to-judge", "no node was restarted")]
    restarted = {start.node for start in starts if start.phase == "restart"}
    booted = {start.node for start in starts if start.phase == "boot" and start.served}
    left_out = sorted(booted - restarted - {end.node for end in ends})
    if not restarted or not left_out:
        return []
    text = f"{listing(left_out)} served once and {'was' if len(left_out) == 1 else 'were'} never restarted"
    return [Doubt("undecided", text)]


def _stats(again: Sequence[NodeStart]) -> Mapping[str, JSON]:
    """`starts`, how many of them `served`, and phase → node → seconds until it served or was given up."""
    took: dict[str, dict[str, float]] = {}
    for start in again:
        took.setdefault(start.phase, {})[start.node] = start.seconds
    return {
        "starts": len(again),
        "served": sum(start.served for start in again),
        "seconds": {phase: dict(sorted(nodes.items())) for phase, nodes in took.items()},
    }


def _anomalies(bad: Sequence[_End], records: Records) -> list[Anomaly]:
    mentions = Mentions(records.history, records.observations)
    folded: dict[_Cause, list[_End]] = {}
    for end in bad:
        folded.setdefault(_cause(end), []).append(end)
    return [_anomaly(sorted(same, key=lambda end: end.node), mentions) for same in folded.values()]


def _cause(end: _End) -> _Cause:
    error = _ADDRESS.sub("", _TIMESTAMP.sub("", end.first_error or ""))
    # A folder named for the node stands in paths: …/nodes/n1/data/…
    error = re.sub(rf"(?<=/){re.escape(end.node)}(?=/)", "", error)
    return end.phase if isinstance(end, NodeStart) else "died", end.exit_code, error


def _anomaly(same: Sequence[_End], mentions: Mentions) -> Anomaly:
    """One cause, on one node or more; the first in order of name speaks for all."""
    first = same[0]
    nodes = sorted({end.node for end in same})
    objects = mentions.keys(first.first_error or "")
    # The race is what happened last; where the object is old, its early life is not told.
    changes = mentions.changes(objects)[-_CHANGES_MOST:]
    evidence: dict[str, Any] = {"exit_code": first.exit_code, "first_error": first.first_error}
    starts = [end for end in same if isinstance(end, NodeStart)]
    if starts:
        evidence["seconds"] = {start.node: start.seconds for start in starts}
    return anomaly(
        "node-will-not-start" if starts else "node-died",
        objects=objects,
        nodes=nodes,
        ops=[operation.index for operation in changes],
        evidence=evidence,
        explanation=explain(changes, _then(first, nodes, objects), _but(same)),
    )


def _then(first: _End, nodes: Sequence[str], objects: Sequence[str]) -> str:
    who = listing(nodes)
    they, them, were = ("it", "it", "was") if len(nodes) == 1 else ("they", "them", "were")
    if isinstance(first, NodeDeath):
        then = f"{who} had served, and nobody stopped or killed {them}, so {they} must go on serving."
    elif first.phase == "restart":
        then = f"{who} had served and {were} killed and started after the cluster settled, so {they} must serve again."
    else:
        then = f"{who} had served, fell under faults, and must serve again when started with every fault healed."
    return then if not objects else f"{then} No order of these changes of {listing(objects)} may forbid it."


def _but(same: Sequence[_End]) -> str:
    """What each node did, and the error's own words without a stack."""
    parts = []
    for end in same:
        code = "" if end.exit_code is None else f" with code {end.exit_code}"
        if isinstance(end, NodeDeath):
            parts.append(f"{end.node}'s process ended{code} (noticed at {seconds(end.time)})")
        else:
            how = f"exited{code}" if code else "did not serve"
            parts.append(f"{end.node} {how} after {end.seconds:.1f} s")
    lines = [line.strip() for line in (same[0].first_error or "").splitlines()]
    words = " ".join(line for line in lines if line and not line.startswith("at "))
    return listing(parts) + (f": {words}" if words else " and left no error in its log.")
