"""Node log: whether the servers' own logs report damage that no fault explains.

Judges the warnings and errors of every node (and lower entries that a rule asks for) by the rules of
`schemaquake.checkers.run.log_rules`. A trace that may pass by itself, such as rows for a table that was created a moment ago, is counted
and never accused: a log has wall-clock time, which cannot be laid over the history to tell before from after. An
exception that no rule knows is accused, unless the same node says that its machine failed it.
Finds: `unexpected-log-error`. Source: CEP-21, "Motivation"; the messages that each known bug leaves.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from schemaquake.checkers.evidence.notes import Notes
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.findings.catalogue import anomaly
from schemaquake.checkers.findings.explanation import explain, listing
from schemaquake.checkers.run.log_rules import UNEXPECTED, LogRule, patterns_below_warning, rule_of
from schemaquake.checkers.run.mentions import Mentions
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.records import Records, plain
from schemaquake.harness.model.verdict import Anomaly, Doubt, Verdict, make_stats

__all__ = ["NOTED", "NodeLog"]

NOTED: Final = tuple(patterns_below_warning())
"""Patterns of entries below WARN that the logs should keep."""

_ENTRIES_BETWEEN_LOOKS_AT_THE_CLOCK: Final = 1024
_CHANGES_TOLD_MAX: Final = 4
_TEXT_MAX: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    node: str
    boot: int
    line: int
    timestamp: str | None
    level: str
    message: str
    stack: str

    @property
    def text(self) -> str:
        return f"{self.message}\n{self.stack}"


class NodeLog:
    """No server reports damage."""

    name = "node-log"
    scope: Literal["keyspace", "run"] = "run"
    finds: tuple[str, ...] = ("unexpected-log-error",)
    vouches: bool = True
    noted = NOTED

    def check(self, records: Records, *, limit_s: float) -> Verdict:
        """Judge every entry. Unknown without any log. Raises HistoryError."""
        ends = time.monotonic() + limit_s
        nemeses = Notes(records.history).nemeses
        entries = [_entry(row) for row in plain(records.logs).to_pylist()]
        if not entries:
            return Verdict.unknown(self.name, Doubt("nothing-to-judge", "no log of any node"))
        found: dict[str, tuple[LogRule, list[_Entry]]] = {}
        doubts: list[Doubt] = []
        # A server may say the same a hundred thousand times.
        decided: dict[tuple[str, str, int], LogRule | None] = {}
        for number, entry in enumerate(entries):
            if number % _ENTRIES_BETWEEN_LOOKS_AT_THE_CLOCK == 0 and time.monotonic() > ends:
                text = f"the time limit of {limit_s:g} s passed after {number} of {len(entries)} entries"
                doubts.append(Doubt("time", text))
                break
            said = (entry.text, entry.level, entry.boot)
            if said not in decided:
                decided[said] = rule_of(entry.text, level=entry.level, boot=entry.boot, nemeses=nemeses)
            rule = decided[said]
            if rule is not None:
                found.setdefault(_kind(rule, entry), (rule, []))[1].append(entry)
        failed = {entry.node for rule, group in found.values() if rule.means == "environment" for entry in group}
        mentions = Mentions(records.history, records.observations)
        anomalies = []
        for rule, group in found.values():
            if rule.means == "damning":
                believed = [entry for entry in group if rule is not UNEXPECTED or entry.node not in failed]
                if believed:
                    anomalies.append(_reported(rule, believed, mentions))
                if len(believed) < len(group):
                    doubts.append(_doubted(group, failed))
        return Verdict(
            valid=False if anomalies else "unknown" if doubts else True,
            checker=self.name,
            anomalies=tuple(anomalies),
            stats=make_stats({"entries": len(entries), "by_rule": _counts(found.values())}),
            doubts=tuple(doubts),
        )


def _entry(row: Mapping[str, JSON]) -> _Entry:
    return _Entry(
        node=row["node"],
        boot=row["boot"],
        line=row["line"],
        timestamp=row["timestamp"],
        level=row["level"],
        message=row["message"],
        stack=row["stack"] or "",
    )


def _kind(rule: LogRule, entry: _Entry) -> str:
    """What is told together: one rule; of unexpected exceptions, those of one class."""
    if rule is not UNEXPECTED:
        return rule.name
    exception = re.search(r"[\w.$]*(?:Exception|Error|Throwable)\b(?=[:\s]|$)", entry.stack or entry.message)
    return f"{rule.name} {exception[0] if exception else entry.message[:80]}"


def _counts(found: Iterable[tuple[LogRule, Sequence[_Entry]]]) -> Mapping[str, int]:
    counts: Counter[str] = Counter()
    for rule, group in found:
        counts[rule.name] += len(group)
    return dict(sorted(counts.items()))


def _doubted(group: Sequence[_Entry], failed: Iterable[str]) -> Doubt:
    nodes = sorted({entry.node for entry in group} & set(failed))
    text = f"exceptions of {listing(nodes)} prove nothing, because the machine failed there: {_told(group[0])}"
    return Doubt("undecided", text)


def _reported(rule: LogRule, group: Sequence[_Entry], mentions: Mentions) -> Anomaly:
    nodes = sorted({entry.node for entry in group})
    objects = mentions.keys("\n".join(dict.fromkeys(entry.text for entry in group)))
    changes = mentions.changes(objects)
    first = {node: next(entry for entry in group if entry.node == node) for node in nodes}
    told: list[PairedOperation | str] = list(changes[:_CHANGES_TOLD_MAX])
    if len(changes) > _CHANGES_TOLD_MAX:
        told.append(f"… and {len(changes) - _CHANGES_TOLD_MAX} more changes of {listing(objects)}")
    told += [
        f"{node}, line {entry.line} of its log since start {entry.boot}: {_told(entry)}"
        for node, entry in first.items()
    ]
    times = "once" if len(group) == 1 else f"{len(group)} times"
    return anomaly(
        "unexpected-log-error",
        objects=objects,
        nodes=nodes,
        ops=[operation.index for operation in changes],
        evidence={
            "rule": rule.name,
            "tickets": list(rule.tickets),
            "count": len(group),
            "first": {
                node: {
                    "boot": entry.boot,
                    "line": entry.line,
                    "timestamp": entry.timestamp,
                    "level": entry.level,
                    "message": entry.message,
                    "stack": entry.stack,
                }
                for node, entry in first.items()
            },
        },
        explanation=explain(
            told,
            "faults of the network, of clocks and of processes explain lost connections and time-outs, and no more.",
            f"{listing(nodes)} said {times} that {rule.explanation}.",
        ),
    )


def _told(entry: _Entry) -> str:
    """Level and message on one line, with the exception if the message does not name it."""
    exception = entry.stack.strip().splitlines()[:1]
    words = " ".join([entry.level, entry.message, *(f"({line.strip()})" for line in exception)])
    return words if len(words) <= _TEXT_MAX else f"{words[:_TEXT_MAX]}…"
