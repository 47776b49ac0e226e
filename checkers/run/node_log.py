"""Node log: the servers' own logs report no damage that faults cannot explain.

Judges the warnings and errors of every node (and lower entries that a rule selects) by the rules of
`schemaquake.checkers.run.log_rules`. A trace that may pass by itself, such as rows for a table that was just created, is
counted and never a finding: a log has wall-clock times, which cannot be ordered against the history. An exception without
a rule is a finding, unless the same node's log shows that its machine failed; an error without an exception and without a rule
is a doubt.
Finds: `unexpected-log-error`. Source: CEP-21, "Motivation"; the messages that each known bug leaves.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final, Literal

import pyarrow.compute as pc

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.notes import Notes, may_start
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.findings.argument import Argument
from schemaquake.checkers.findings.catalogue import anomaly
from schemaquake.checkers.findings.explanation import listing
from schemaquake.checkers.findings.limits import LIMITS
from schemaquake.checkers.findings.tally import Tally
from schemaquake.checkers.run.copied_logs import find_copied_logs
from schemaquake.checkers.run.log_rules import UNEXPECTED, UNFORESEEN, LogRule, find_rule, list_patterns_below_warning
from schemaquake.checkers.run.mentions import Mentions
from schemaquake.checkers.run.starts import starts_at_least, starts_at_most
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.records import Records, plain
from schemaquake.harness.model.verdict import Anomaly, Doubt, Verdict

__all__ = ["NOTED", "NodeLog"]

NOTED: Final = tuple(list_patterns_below_warning())
"""The patterns of entries below WARN that the logs should keep."""

_ENTRIES_PER_CLOCK_CHECK: Final = 1024
_ENTRIES_PER_CHANGE: Final = 20
"""Pulls that one schema change may bring about on one node, with its peers' answers and tries again."""
_LIMITS: Final = replace(LIMITS, suspects=4)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """One entry of a node's log. `boot` counts the node's starts from 0; `line` counts within one."""

    node: str
    boot: int
    line: int
    timestamp: str | None
    level: str
    message: str
    stack: str
    thread: str | None = None

    @property
    def text(self) -> str:
        return f"{self.message}\n{self.stack}"


class NodeLog:
    """No server reports damage in its log."""

    name = "node-log"
    scope: Literal["keyspace", "run"] = "run"
    finds: tuple[str, ...] = ("unexpected-log-error",)
    vouches: bool = True
    noted = NOTED

    def check(self, records: Records, *, limit_s: float) -> Verdict:
        """Judge every entry. Unknown without any log. Raises HistoryError."""
        deadline = time.monotonic() + limit_s
        evidence = Evidence.of(records)
        nemeses = evidence.notes.nemeses
        entries = [_parse_entry(row) for row in plain(records.logs).to_pylist()]
        tally = Tally(self.name)
        tally.doubt(*_list_missing_logs(evidence.notes, entries))
        tally.doubt(*(Doubt("incomplete-run", text) for text in find_copied_logs(records.logs, evidence.notes)))
        if not entries and not tally.doubts:
            return Verdict.unknown(self.name, Doubt("nothing-to-judge", "no log of any node"))
        groups: dict[str, tuple[LogRule, list[_Entry]]] = {}
        # A server may log the same entry a hundred thousand times.
        decided: dict[tuple[str, str, int, str | None], LogRule | None] = {}
        restarted = any(start.phase != "boot" for start in evidence.notes.starts) or not evidence.notes.starts
        dropped = _may_lose_files(evidence)
        for number, entry in enumerate(entries):
            if number % _ENTRIES_PER_CLOCK_CHECK == 0 and time.monotonic() > deadline:
                text = f"the time limit of {limit_s:g} s passed after {number} of {len(entries)} entries"
                tally.doubt(Doubt("time", text))
                break
            entry_key = (entry.text, entry.level, entry.boot, entry.thread)
            if entry_key not in decided:
                decided[entry_key] = find_rule(
                    entry.text,
                    level=entry.level,
                    boot=entry.boot,
                    nemeses=nemeses,
                    thread=entry.thread,
                    restarted=restarted,
                    dropped=dropped,
                )
            rule = decided[entry_key]
            if rule is not None:
                groups.setdefault(_find_group(rule, entry), (rule, []))[1].append(entry)
        failed = {entry.node for rule, group in groups.values() if rule.means == "environment" for entry in group}
        for rule, group in groups.values():
            _judge_group(tally, rule, group, failed, evidence)
        return tally.verdict(entries=len(entries), by_rule=_count_by_rule(groups.values()))


def _judge_group(
    tally: Tally, rule: LogRule, group: Sequence[_Entry], failed: Collection[str], evidence: Evidence
) -> None:
    """Add what the entries of one rule show; `failed` are the nodes whose machine failed."""
    if rule is UNFORESEEN:
        tally.doubt(_doubt_error(group))
    if rule.means == "damning":
        trusted = _select_proofs(rule, group, failed, len(evidence.changes.all))
        if trusted:
            tally.add(_report_rule(rule, trusted, evidence.derive(Mentions)))
        if rule is UNEXPECTED and len(trusted) < len(group):
            tally.doubt(_report_doubt(group, failed))


def _may_lose_files(evidence: Evidence) -> bool:
    """Tell if anything in the run may take files of tables away: a DROP, a TRUNCATE, free text, an operation on nodes, or what no history tells."""
    functions = frozenset(pc.unique(plain(evidence.history.select(["f"]))["f"]).to_pylist())
    taking = any(f in {"truncate", "cql"} or f.startswith("drop-") for f in functions)
    return taking or not evidence.changes.all or bool(evidence.notes.membership.operations)


def _list_missing_logs(notes: Notes, entries: Iterable[_Entry]) -> Iterator[Doubt]:
    """Yield a doubt for each node that keeps a log of which nothing was read, or nothing of a start after which it served."""
    boots: dict[str, set[int]] = {}
    for entry in entries:
        boots.setdefault(entry.node, set()).add(entry.boot)
    again = {start.node for start in notes.starts if start.anew and start.phase != "boot"}
    # Spares have no log yet when it is noted which nodes keep one.
    nodes = sorted(notes.logging | (_list_joined(notes) if notes.logging else set()))
    for node, most in starts_at_most(notes, nodes).items():
        served = starts_at_least(notes, node)
        if node not in boots:
            yield Doubt("unread", f"no log of {node} was read")
        elif node in again and not max(boots[node]):
            yield Doubt("unread", f"{node} was started again, and of its log only that of the first start was read")
        elif len(boots[node]) < served:
            yield Doubt(
                "unread", f"{node} served after {served} starts, and logs of {len(boots[node])} of them were read"
            )
        elif missing := _list_missing_starts(notes, node, boots[node]):
            yield Doubt("unread", f"of the log of {node} nothing was read of start {listing(map(str, missing))}")
        elif most is not None and max(boots[node]) >= most:
            text = f"{node} has a log of start {max(boots[node])}, and no more than {most} starts of it are explained"
            yield Doubt("undecided", text)


def _list_joined(notes: Notes) -> set[str]:
    """List the nodes that an operation started, and that served then, without having been there from the beginning."""
    founders = {start.node for start in notes.starts if start.phase == "boot"}
    return {
        one["node"]
        for event, value in notes.all
        if "becomes" in value and event["type"] != "invoke"
        for one in (value.get("effect") or {}).get("attempts") or ()
        if may_start(one) and one.get("outcome") == "ok" and one.get("node") in {*(value.get("nodes") or ())} - founders
    }


def _list_missing_starts(notes: Notes, node: str, boots: Collection[int]) -> Sequence[int]:
    """List the starts of a node, by their numbers, of which its log must have something; one that failed may have left nothing."""
    missing = [boot for boot in range(max(boots)) if boot not in boots]
    first = any(start.node == node and start.phase == "boot" and start.served for start in notes.starts)
    failed = sum(start.node == node and start.anew and not start.served for start in notes.starts)
    tried = []
    for event, value in notes.all:
        if "becomes" in value and node in (value.get("nodes") or ()) and event["type"] != "invoke":
            attempts = (value.get("effect") or {}).get("attempts")
            if attempts == [] and event["type"] == "fail":
                continue  # it was never asked for
            failed += sum(one.get("outcome", event["type"]) != "ok" and may_start(one) for one in attempts or [{}])
            tried += [one.get("outcome") for one in attempts or () if may_start(one) and one.get("node") == node]
    was_spare = node not in {start.node for start in notes.starts if start.phase == "boot"}
    first = first or (was_spare and tried[:1] == ["ok"])  # it began to serve when it joined
    return missing if len(missing) > failed or (first and 0 in missing) else ()


def _parse_entry(row: Mapping[str, JSON]) -> _Entry:
    return _Entry(
        node=row["node"],
        boot=row["boot"],
        line=row["line"],
        timestamp=row["timestamp"],
        level=row["level"],
        message=row["message"],
        stack=row["stack"] or "",
        thread=row["thread"],
    )


def _find_group(rule: LogRule, entry: _Entry) -> str:
    """Find the group of an entry: its rule, and for an unexpected exception also the exception's class."""
    if rule is UNFORESEEN:
        return f"{rule.name} {re.sub(r'[0-9a-f]*[0-9][0-9a-f]*', '#', entry.message)[:80]}"
    if rule is not UNEXPECTED:
        return rule.name
    exception = re.search(r"[\w.$]*(?:Exception|Error|Throwable)\b(?=[:\s]|$)", entry.stack or entry.message)
    return f"{rule.name} {exception[0] if exception else entry.message[:80]}"


def _count_by_rule(groups: Iterable[tuple[LogRule, Sequence[_Entry]]]) -> Mapping[str, int]:
    counts: Counter[str] = Counter()
    for rule, group in groups:
        counts[rule.name] += len(group)
    return dict(sorted(counts.items()))


def _select_proofs(rule: LogRule, group: Sequence[_Entry], failed: Collection[str], changes: int) -> Sequence[_Entry]:
    """Select the entries of a damning rule that prove something, where the run has so many schema changes.

    `failed` are the nodes whose machine failed: an unexpected exception there is no proof.
    """
    if rule.most is not None:
        return _find_storm(rule, group, changes)
    return [entry for entry in group if rule is not UNEXPECTED or entry.node not in failed]


def _find_storm(rule: LogRule, group: Sequence[_Entry], changes: int) -> Sequence[_Entry]:
    """Return the entries of the nodes on which more than `rule.most` fell within `rule.within_s`; changes explain some."""
    assert rule.most is not None
    most = rule.most + _ENTRIES_PER_CHANGE * changes
    storms: list[_Entry] = []
    for node in sorted({entry.node for entry in group}):
        of_node = [entry for entry in group if entry.node == node]
        times = sorted(time for entry in of_node if (time := _read_time(entry.timestamp)) is not None)
        if any(last - first <= rule.within_s for first, last in zip(times, times[most:], strict=False)):
            storms += of_node
    return storms


def _read_time(timestamp: str | None) -> float | None:
    """Read the time of an entry in seconds, as its node wrote it; null if it wrote none."""
    if timestamp is None:
        return None
    return datetime.fromisoformat(timestamp.replace(",", ".").rstrip("Z")).replace(tzinfo=UTC).timestamp()


def _report_doubt(group: Sequence[_Entry], failed: Iterable[str]) -> Doubt:
    nodes = sorted({entry.node for entry in group} & set(failed))
    text = f"exceptions on {listing(nodes)} prove nothing, because the machine failed there: {_render_entry(group[0])}"
    return Doubt("undecided", text)


def _doubt_error(group: Sequence[_Entry]) -> Doubt:
    nodes = sorted({entry.node for entry in group})
    times = "once" if len(group) == 1 else f"{len(group)} times"
    return Doubt("undecided", f"{listing(nodes)} logged {times} an error that no rule knows: {_render_entry(group[0])}")


def _report_rule(rule: LogRule, group: Sequence[_Entry], mentions: Mentions) -> Anomaly:
    nodes = sorted({entry.node for entry in group})
    objects = mentions.keys("\n".join(dict.fromkeys(entry.text for entry in group)))
    changes = mentions.changes(objects)
    first = {node: next(entry for entry in group if entry.node == node) for node in nodes}
    lines: list[PairedOperation | str] = list(changes[: _LIMITS.suspects])
    if len(changes) > _LIMITS.suspects:
        lines.append(f"… and {len(changes) - _LIMITS.suspects} more changes of {listing(objects)}")
    lines += [
        f"{node}, line {entry.line} of its log since start {entry.boot}: {_render_entry(entry)}"
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
        explanation=Argument(
            lines,
            "faults of the network, of clocks and of processes explain lost connections and time-outs only.",
            f"{listing(nodes)} logged {times} that {rule.explanation}.",
        ),
    )


def _render_entry(entry: _Entry) -> str:
    """Render the level and the message on one line, with the first line of the stack."""
    exception = entry.stack.strip().splitlines()[:1]
    text = " ".join([entry.level, entry.message, *(f"({line.strip()})" for line in exception)])
    return text if len(text) <= _LIMITS.error_length else f"{text[: _LIMITS.error_length]}…"
