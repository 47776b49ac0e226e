"""Restart: every node that was stopped serves again.

Judges the conductor's notes `node-start` of the phases `restart` (every node was killed and started after all
operations) and `fault` (a node that a fault had stopped was started again), and `node-died`. A node that was alive and had
logged no error at its deadline may only be slow: that is a doubt. A process that an operation had ended and not started again did not die by
itself; and no release promises that an older server starts with files that a newer one was started with, so a node whose upgrade failed and was
taken back is a doubt (the failed start of the newer one is `upgrade-start-failure`). The same first error on several nodes is one finding;
errors that differ only in address, time or the node's folder are the same.
Finds: `node-will-not-start`, `node-died`. Source: CEP-21, "Racing DROP X validations" (at the next restart, nodes won't
start up again); the 0.7 document, "Handling Failure"; CASSANDRA-13180.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.notes import NodeDeath, NodeStart, Notes
from schemaquake.checkers.findings.argument import Argument
from schemaquake.checkers.findings.catalogue import anomaly
from schemaquake.checkers.findings.explanation import listing, seconds
from schemaquake.checkers.findings.limits import LIMITS
from schemaquake.checkers.findings.tally import Tally
from schemaquake.checkers.run.log_rules import find_rule
from schemaquake.checkers.run.mentions import Mentions
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.records import Records
from schemaquake.harness.model.verdict import Anomaly, Doubt, Verdict

__all__ = ["Restart"]

_End: TypeAlias = NodeStart | NodeDeath
"""A start that did not serve, or a process that ended."""

_Cause: TypeAlias = tuple[str, int | None, str]
"""The phase of the start (or `died`), the exit code, and the first error without addresses, times and node folders."""

# The phases in which a node that served before is started again.
_STARTED_AGAIN: Final = ("restart", "fault")
_TIMESTAMP: Final = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[,.]\d+)?Z?")
_ADDRESS: Final = re.compile(
    r"/?(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?|/?\[?(?:[0-9a-f]{0,4}:){3,}[0-9a-f]{0,4}\]?(?::\d+)?", re.IGNORECASE
)
_LIMITS: Final = replace(LIMITS, suspects=8)
_GRAVE: Final = re.compile(r"\b(?:ERROR|FATAL)\b|(?:Exception|Error)\b")
_KILLED: Final = frozenset({-9, 137})


class Restart:
    """Every node that served once serves again after its next start."""

    name = "restart"
    scope: Final = "run"
    finds: tuple[str, ...] = ("node-will-not-start", "node-died")
    vouches: bool = True

    def check(self, records: Records, *, limit_s: float) -> Verdict:  # noqa: ARG002 - a few notes take no time
        """Judge every start but the first, and every death. Unknown if no node was started again. Raises HistoryError."""
        evidence = Evidence.of(records)
        notes = evidence.notes
        serves = notes.membership.serves
        restarts = [start for start in notes.starts if start.phase in _STARTED_AGAIN and serves(start.node, start.time)]
        deaths = [death for death in notes.deaths if serves(death.node, death.time) and not _was_ended(death, notes)]
        failed = [start for start in restarts if not start.served]
        ends: list[_End] = [*failed, *(death for death in deaths if not _is_repeated(death, failed))]
        all_ends = tuple(ends)
        slow = [end for end in ends if _is_slow(end)]
        ends = [end for end in ends if end not in slow]
        back = {id(end): text for end in ends if (text := _find_downgrade(end, notes)) is not None}
        tally = Tally(self.name)
        tally.doubt(*(Doubt("undecided", text) for text in sorted(set(back.values()))))
        ends = [end for end in ends if id(end) not in back]
        unexplained = [end for end in ends if _find_machine_cause(end) is None]
        if unexplained:
            tally.add(*_report_ends(unexplained, evidence))
        for end in ends:
            if (text := _find_machine_cause(end)) is not None:
                tally.doubt(Doubt("undecided", f"{end.node} did not serve: {text}"))
        for end in slow:
            text = f"{end.node} was alive and logged no error, and did not serve within its deadline (slow-start)"
            tally.doubt(Doubt("time", text))
        tally.doubt(*_list_doubts(notes, all_ends))
        return tally.verdict(**_summarize_starts(restarts))


def _is_slow(end: _End) -> bool:
    """Tell if a node may only have been slow: its process was alive and its log had no error at the deadline."""
    return isinstance(end, NodeStart) and not end.ended and _GRAVE.search(end.first_error or "") is None


def _was_ended(death: NodeDeath, notes: Notes) -> bool:
    """Tell if an operation had ended the process and left it down: then it did not end by itself when that was noticed."""
    before = [start for start in notes.starts if start.node == death.node and start.time <= death.time]
    last = max(before, key=lambda start: start.time, default=None)
    return last is not None and last.phase == "operation" and not last.served and last.ended


def _find_downgrade(end: _End, notes: Notes) -> str | None:
    """Describe a start as the older version with files that the newer one was started with; None: it was no such start."""
    own = [one for one in notes.upgrades.operations if one.node == end.node and one.stage != "finish"]
    if isinstance(end, NodeDeath) or not own:
        return None
    last = own[-1]
    tried = any(f"start as {last.to}" in str(attempt.get("command")) for attempt in last.attempts)
    if last.outcome == "ok" or last.ends > end.time or last.system in {None, last.to} or not tried:
        return None
    return (
        f"{end.node} did not start as {last.system}: its files are those with which {last.to} had been started, and no "
        "release promises the way back"
    )


def _is_repeated(death: NodeDeath, failed: Sequence[NodeStart]) -> bool:
    """Tell if a later start of the node ended alike: it was then in a start, such as the one after a kill, that it ended before, too."""
    return any(
        start.node == death.node and start.time >= death.time and _normalize_end(start) == _normalize_end(death)
        for start in failed
        if death.first_error
    )


def _find_machine_cause(end: _End) -> str | None:
    """Find a cause outside the server, such as a full disk or a SIGKILL; None: there is none."""
    rule = find_rule(end.first_error or "", level="ERROR", boot=1, nemeses=())
    if rule is not None and rule.means == "environment":
        return rule.explanation
    if end.exit_code in _KILLED and not end.first_error:
        return "it was killed from outside, as the kernel does when memory runs out"
    return None


def _list_doubts(notes: Notes, ends: Sequence[_End]) -> list[Doubt]:
    """List the reasons why the nodes without a failed start are not cleared either; one that had left needs no clearing."""
    starts = notes.starts
    restarted = {start.node for start in starts if start.phase == "restart"}
    if not restarted and _was_restart_due(notes):
        return [Doubt("unread", "every node was to be restarted in the end, and no start after that was noted")]
    if all(start.phase not in _STARTED_AGAIN for start in starts):
        return [] if ends else [Doubt("nothing-to-judge", "no node was restarted")]
    booted = {start.node for start in starts if start.phase == "boot" and start.served}
    began = notes.began("restart")
    known = booted | {node for one in notes.operations for node in one.nodes if one.outcome == "ok"}
    members = booted if began is None else {node for node in known if notes.membership.serves(node, began)}
    not_restarted = sorted(members - restarted - {end.node for end in ends})
    if not restarted or not not_restarted:
        return []
    text = f"{listing(not_restarted)} served once and {'was' if len(not_restarted) == 1 else 'were'} never restarted"
    return [Doubt("undecided", text)]


def _was_restart_due(notes: Notes) -> bool:
    """Tell if a complete run has a restart of every node; runs of 0.1 do not say it, and all but a few had one."""
    if notes.planned_restart is not None:
        return notes.planned_restart != "none"
    return notes.began("restart") is not None or notes.began("final-settled") is not None


def _summarize_starts(restarts: Sequence[NodeStart]) -> Mapping[str, JSON]:
    """Summarize the starts: `starts`, `served`, and phase → node → seconds until it served or failed."""
    durations: dict[str, dict[str, float]] = {}
    for start in restarts:
        durations.setdefault(start.phase, {})[start.node] = start.seconds
    return {
        "starts": len(restarts),
        "served": sum(start.served for start in restarts),
        "seconds": {phase: dict(sorted(nodes.items())) for phase, nodes in durations.items()},
    }


def _report_ends(unexplained: Sequence[_End], evidence: Evidence) -> list[Anomaly]:
    mentions = evidence.derive(Mentions)
    folded: dict[_Cause, list[_End]] = {}
    for end in unexplained:
        folded.setdefault(_normalize_cause(end), []).append(end)
    return [_report_cause(sorted(group, key=lambda end: end.node), mentions) for group in folded.values()]


def _normalize_cause(end: _End) -> _Cause:
    return end.phase if isinstance(end, NodeStart) else "died", *_normalize_end(end)


def _normalize_end(end: _End) -> tuple[int | None, str]:
    error = _ADDRESS.sub("", _TIMESTAMP.sub("", end.first_error or ""))
    # Paths contain a folder named after the node: …/nodes/n1/data/…
    return end.exit_code, re.sub(rf"(?<=/){re.escape(end.node)}(?=/)", "", error)


def _report_cause(group: Sequence[_End], mentions: Mentions) -> Anomaly:
    """Report one cause, on one node or more; the first in order of name is the example."""
    first = group[0]
    nodes = sorted({end.node for end in group})
    objects = mentions.keys(first.first_error or "")
    # The last changes are the race; the early changes of an old object are left out.
    changes = mentions.changes(objects)[-_LIMITS.suspects :]
    evidence: dict[str, Any] = {"exit_code": first.exit_code, "first_error": first.first_error}
    starts = [end for end in group if isinstance(end, NodeStart)]
    if starts:
        evidence["seconds"] = {start.node: start.seconds for start in starts}
    return anomaly(
        "node-will-not-start" if starts else "node-died",
        objects=objects,
        nodes=nodes,
        ops=[operation.index for operation in changes],
        evidence=evidence,
        explanation=Argument(changes, _explain_expectation(first, nodes, objects), _describe_ends(group)),
    )


def _explain_expectation(first: _End, nodes: Sequence[str], objects: Sequence[str]) -> str:
    names = listing(nodes)
    they, them, were = ("it", "it", "was") if len(nodes) == 1 else ("they", "them", "were")
    if isinstance(first, NodeDeath):
        then = f"{names} had served, and whatever stops or kills {them} starts {them} again, so {they} must serve."
    elif first.phase == "restart":
        then = (
            f"{names} had served and {were} killed and started after the cluster settled, so {they} must serve again."
        )
    else:
        then = f"{names} had served, stopped under faults, and must serve again when started with every fault healed."
    return then if not objects else f"{then} No order of these changes of {listing(objects)} may prevent that."


def _describe_ends(group: Sequence[_End]) -> str:
    """Describe the end of each node, and the first error without its stack."""
    parts = []
    for end in group:
        code = "" if end.exit_code is None else f" with code {end.exit_code}"
        if isinstance(end, NodeDeath):
            parts.append(f"{end.node}'s process ended{code} (noticed at {seconds(end.time)})")
        else:
            how = f"exited{code}" if code else "did not serve"
            parts.append(f"{end.node} {how} after {end.seconds:.1f} s")
    lines = [line.strip() for line in (group[0].first_error or "").splitlines()]
    error = " ".join(line for line in lines if line and not line.startswith("at "))
    return listing(parts) + (f": {error}" if error else " and left no error in its log.")
