"""Change log: every node keeps the same log of changes; it never shrinks, and holds every acknowledged change.

Judges nodes that keep such a log (observations of kind `log`: ScyllaDB's group 0), their epochs in every reading, and
the group that each says it belongs to. A state machine that is replicated by a log has the same entries in the same order
wherever two copies overlap, and a change is acknowledged only when it is one of them. A copy that ends earlier is only
behind: unless the node had passed a read barrier first, it may lack the later entries of others.
Finds: `forked-log`, `forgotten-change`, `unlogged-change`, `divided-group`.
Source: ScyllaDB, Making Schema Changes Safe with Raft; Ongaro and Ousterhout 2014; CEP-21, "strict linearizability".

What is left open on purpose, because a false accusation is worse than a miss:
- A node that was started between two readings without a barrier may show less in the second one, unless its system
  keeps epochs and no log (`schemaquake.checkers.schema.epochs`).
- An ALTER KEYSPACE may be a change of the topology, which the log describes in other words; raw `cql` may be anything.
- Old entries are deleted after a while, and only the newest are read: changes older than the log need not be in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, Literal, NamedTuple

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.node_schemas import GROUP_HISTORY, PHASES
from schemaquake.checkers.evidence.notes import Notes
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.findings.argument import Argument
from schemaquake.checkers.findings.catalogue import anomaly
from schemaquake.checkers.findings.explanation import listing, phase_text, seconds
from schemaquake.checkers.findings.limits import LIMITS
from schemaquake.checkers.schema.epochs import (
    Epoch,
    find_older_epochs,
    find_standing_epochs,
    read_epochs,
    started_between,
)
from schemaquake.checkers.schema.group_state import find_strange_groups, find_strange_logs
from schemaquake.checkers.schema.judge import Findings, judge
from schemaquake.checkers.schema.node_logs import Change, NodeLog, spaced
from schemaquake.harness.ddl.cql import statement
from schemaquake.harness.ddl.schema_changes import SCHEMA_CHANGES
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.records import Records
from schemaquake.harness.model.verdict import Anomaly, Doubt, Verdict, make_stats

__all__ = ["ChangeLog"]

_UNSPELLED: Final = frozenset({"alter-keyspace"})
"""Changes that the log does not spell as their statements."""
_IN_USE: Final = "use_post_raft_procedures"
_KEPT_NS: Final = 45 * 60 * 10**9
"""Entries younger than this are there: ScyllaDB keeps them for a week, releases of 2026 for an hour."""


class ChangeLog:
    """One log of changes on every node, with every acknowledged change."""

    name = "change-log"
    scope: Literal["keyspace", "run"] = "run"
    finds: tuple[str, ...] = ("forked-log", "forgotten-change", "unlogged-change", "divided-group")
    vouches: bool = True

    def check(self, records: Records, *, limit_s: float) -> Verdict:
        """Judge logs, epochs and groups. Stats: entries by phase and node, and how many readings had a barrier."""
        evidence = Evidence.of(records)
        logs = _logs(evidence)
        epochs = read_epochs(evidence, without={log.node for log in logs})
        unread = _unread_logs(evidence, logs)
        if not logs and not epochs and not unread:
            nothing = Doubt("nothing-to-judge", "no node keeps a log of changes, or showed an epoch twice")
            return Verdict.unknown(self.name, nothing)
        verdict = judge(self.name, records, partial(_find, logs, epochs, unread), limit_s=limit_s)
        entries: dict[str, dict[str, int]] = {}
        for log in logs:
            entries.setdefault(log.phase, {})[log.node] = len(log.changes)
        barriers = sum(log.caught_up for log in logs)
        counts = {"entries": entries, "readings": len(logs), "readings_after_a_barrier": barriers}
        return replace(verdict, stats={**verdict.stats, **make_stats(counts)})


def _find(
    logs: Sequence[NodeLog], epochs: Mapping[str, list[Epoch]], unread: Sequence[Doubt], case: Evidence
) -> Findings:
    yield from unread
    yield from find_older_epochs(epochs, case.notes)
    yield from find_standing_epochs(epochs, case)
    if not logs:
        return
    yield from _forked(logs)
    yield from _forgotten(logs, case)
    yield from _unlogged(logs, case)
    yield from _divided(logs)
    yield from find_strange_logs(logs, case)
    yield from find_strange_groups(logs, case)


# ── one log ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _forked(logs: Sequence[NodeLog]) -> Findings:
    """Yield a finding for each node that lacks an entry between two of its own."""
    known: dict[Change, NodeLog] = {}
    for log in logs:
        for change in log.changes:
            known.setdefault(change, log)
    missing: dict[str, dict[str, list[Change]]] = {}
    for log in logs:
        if not log.changes:
            continue
        first, last, entries = log.changes[0], log.changes[-1], frozenset(log.changes)
        lacking = [change for change in known if first.epoch <= change.epoch <= last.epoch and change not in entries]
        if lacking:
            missing.setdefault(log.node, {})[log.phase] = sorted(lacking)
    for node in sorted({log.node for log in logs}):
        yield _fork(node, missing[node], logs, known) if node in missing else None


def _fork(
    node: str,
    missing: Mapping[str, Sequence[Change]],
    logs: Sequence[NodeLog],
    known: Mapping[Change, NodeLog],
) -> Anomaly:
    phase, lacking = next(iter(missing.items()))
    own = next(log for log in logs if (log.phase, log.node) == (phase, node))
    change, other = lacking[0], known[lacking[0]]
    later = next(entry for entry in own.changes if entry.epoch >= change.epoch)
    return anomaly(
        "forked-log",
        nodes=[node, *(known[change].node for change in lacking)],
        evidence={
            "missing": {phase: [*map(list, found[: LIMITS.examples])] for phase, found in missing.items()},
            "missing_count": {phase: len(found) for phase, found in missing.items()},
        },
        explanation=Argument(
            [
                f"E1 = {_render_change(change)}, in the log of {other.node} {phase_text(other.phase)}",
                f"E2 = {_render_change(later)}, in the log of {node} {phase_text(phase)}",
            ],
            "every node applies the same changes in one order, and E1 is older than E2: a node with E2 has E1.",
            f"{node} has E2, older entries too, and {_count(len(lacking), 'entry', 'entries')} of others' not: E1 is missing.",
        ),
    )


# ── a log that only grows ────────────────────────────────────────────────────────────────────────────────────────────


class _Sight(NamedTuple):
    """A node's newest epoch in one reading."""

    time: int
    node: str
    phase: str
    epoch: int
    caught_up: bool


def _forgotten(logs: Sequence[NodeLog], case: Evidence) -> Findings:
    """Yield a finding for each node that showed an older state than before, or than a read barrier allows."""
    notes = case.notes
    nodes = {log.node for log in logs}
    sights = [sight for sight in _sights(case.observations, notes) if sight.node in nodes]
    for node in sorted(nodes):
        of_node = [sight for sight in sights if sight.node == node]
        doubtful = (_older_than_before(now, of_node, sights, notes) for now in _worth_a_look(of_node))
        yield next((found for found in doubtful if found is not None), None)


def _worth_a_look(sights: Sequence[_Sight]) -> Iterator[_Sight]:
    newest = 0
    for sight in sights:
        if sight.epoch < newest or sight.caught_up:
            yield sight
        newest = max(newest, sight.epoch)


def _older_than_before(
    now: _Sight, of_node: Sequence[_Sight], sights: Sequence[_Sight], notes: Notes
) -> Anomaly | None:
    began = notes.began(f"final-{now.phase}")
    earlier = [
        then
        for then in of_node
        if then.time < now.time and (now.caught_up or not started_between(notes, now.node, then.time, now.time))
    ]
    if now.caught_up and began is not None:
        earlier += [then for then in sights if then.time < began]
    newest = max(earlier, key=lambda then: then.epoch, default=None)
    if newest is None or newest.epoch <= now.epoch:
        return None
    then, also = (
        ("a node forgets no change that it applied.", "")
        if newest.node == now.node
        else (
            "a node that passed a read barrier has every change that any node had applied before.",
            " after a read barrier",
        )
    )
    return anomaly(
        "forgotten-change",
        nodes=[now.node, newest.node],
        evidence={"then": newest._asdict(), "now": now._asdict()},
        explanation=Argument(
            [f"E1 = epoch {newest.epoch}, shown by {newest.node} at {seconds(newest.time)}"],
            then,
            f"{now.node} showed epoch {now.epoch} at {seconds(now.time)}{also}.",
        ),
    )


def _sights(observations: pa.Table, notes: Notes) -> Iterator[_Sight]:
    for row in observations.filter(pc.equal(observations["kind"], "version")).sort_by("time").to_pylist():
        version = orjson.loads(row["definition"] or "{}")
        if version.get("epoch") is not None:
            caught_up = (row["phase"], row["node"]) in notes.caught_up or _passed(version)
            yield _Sight(row["time"], row["node"], row["phase"], version["epoch"], caught_up)


# ── acknowledged changes ─────────────────────────────────────────────────────────────────────────────────────────────


def _unlogged(logs: Sequence[NodeLog], case: Evidence) -> Findings:
    """Yield a finding for each statement with more acknowledgements than entries in a log that must have it."""
    notes = case.notes
    acknowledged = [
        operation
        for operation in case.changes.all
        if operation.acknowledged and operation.f in SCHEMA_CHANGES - _UNSPELLED
    ]
    lacking: dict[str, list[tuple[NodeLog, int]]] = {}
    asked: dict[str, Sequence[PairedOperation]] = {}
    doubts: dict[Doubt, None] = {}
    for copies, due in _must_have(logs, acknowledged, notes):
        young = [one for one in due if not copies[0].cut and copies[0].began - one.invoked < _KEPT_NS]
        if len(young) < len(due):
            text = f"{len(due) - len(young)} changes may be older than the log of {copies[0].node}"
            doubts[Doubt("unread", text)] = None
        entries = Counter[str]()
        for log in copies:
            entries |= log.statements
        by_text = _by_text(young)
        if by_text and not entries.keys() & by_text.keys():
            text = f"the log of {listing(log.node for log in copies)} names none of the statements"
            doubts[Doubt("undecided", text)] = None
            continue
        for text, operations in by_text.items():
            asked[text] = operations
            if entries[text] < len(operations):
                lacking.setdefault(text, []).extend((log, entries[text]) for log in copies)
    yield from doubts
    for text in sorted(asked):
        yield _unlogged_anomaly(asked[text], lacking[text]) if text in lacking else None


def _must_have(
    logs: Sequence[NodeLog], acknowledged: Sequence[PairedOperation], notes: Notes
) -> Iterator[tuple[Sequence[NodeLog], Sequence[PairedOperation]]]:
    """List copies of the log with the changes of which each is in at least one of them.

    Each copy by itself that caught up after they were acknowledged. Else all of them together, before nodes are
    restarted: a coordinator has applied what it acknowledges, and still has it if it was not started since.
    """
    for log in logs:
        began = notes.began(f"final-{log.phase}")
        if log.caught_up and began is not None:
            yield [log], [one for one in acknowledged if _completed(one) < began]
    settled = [log for log in logs if log.phase == PHASES[0]]
    if settled:
        began = min(log.began for log in settled)
        nodes = {log.node for log in settled}
        yield (
            settled,
            [
                one
                for one in acknowledged
                if _completed(one) < began
                and one.node in nodes
                and not any(start.node == one.node and one.invoked < start.time < began for start in notes.starts)
            ],
        )


def _completed(operation: PairedOperation) -> int:
    assert operation.completed is not None, "it was acknowledged"
    return operation.completed


def _by_text(operations: Iterable[PairedOperation]) -> Mapping[str, Sequence[PairedOperation]]:
    found: dict[str, list[PairedOperation]] = {}
    for operation in operations:
        found.setdefault(spaced(statement(operation.f, operation.argument)), []).append(operation)
    return found


def _unlogged_anomaly(operations: Sequence[PairedOperation], logs: Sequence[tuple[NodeLog, int]]) -> Anomaly:
    phase = logs[0][0].phase
    nodes = sorted({log.node for log, _ in logs})
    often = {log.phase: dict[str, int]() for log, _ in logs}
    for log, count in logs:
        often[log.phase][log.node] = count
    held = max(count for log, count in logs if log.phase == phase)
    return anomaly(
        "unlogged-change",
        objects=sorted({operation.key for operation in operations if operation.key is not None}),
        nodes=nodes,
        ops=[operation.index for operation in operations],
        evidence={"acknowledged": len(operations), "in_the_log": often},
        explanation=Argument(
            operations,
            "each of them is an entry of the log of changes: a change is acknowledged once it was applied from there.",
            f"{phase_text(phase)} the log of {listing(nodes)} has {_count(held, 'entry', 'entries')} of that statement.",
        ),
    )


# ── the group ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _divided(logs: Sequence[NodeLog]) -> Findings:
    """Yield a finding for each phase in which nodes show different groups, members or states of the ring's nodes."""
    for log in logs:
        if "error" in log.group:
            yield Doubt("unread", f"the group of {log.node} could not be read: {log.group['error']}")
        state = log.group.get("upgrade_state")
        if state is not None and state != _IN_USE:
            yield Doubt("undecided", f"group 0 is not in use on {log.node}, which says {state}")
    for phase in PHASES:
        of_phase = [log for log in logs if log.phase == phase and log.group and "error" not in log.group]
        # Without a barrier a node may not have heard yet of the last change of members.
        caught_up = [log for log in of_phase if log.caught_up]
        shown = {
            "ids of the group": {log.node: log.group.get("id") for log in of_phase},
            "members of the group": {log.node: log.group.get("members") for log in caught_up},
            "states of the ring's nodes": {log.node: log.group.get("nodes") for log in caught_up},
        }
        apart: dict[str, JSON] = {
            attribute: by_node
            for attribute, by_node in shown.items()
            if any(value != next(iter(by_node.values())) for value in by_node.values())
        }
        strangers = {log.node: found for log in caught_up if (found := _strangers(log.group))}
        if strangers:
            apart["nodes in the ring and in the group"] = strangers
        if of_phase:
            yield _division(phase, of_phase, apart) if apart else None


def _strangers(group: Mapping[str, Any]) -> Sequence[str]:
    """List normal nodes of the ring that are no members of the group, and vice versa, while no topology change is under way."""
    nodes, topology = group.get("nodes"), group.get("topology") or {}
    if not nodes or group.get("members") is None or topology.get("transition_state") is not None:
        return []
    normal = {host for host, state in nodes.items() if state == "normal"}
    return sorted(normal ^ set(group["members"]))


def _division(phase: str, logs: Sequence[NodeLog], apart: Mapping[str, JSON]) -> Anomaly:
    return anomaly(
        "divided-group",
        nodes=[log.node for log in logs],
        evidence={phase: dict(apart)},
        explanation=Argument(
            [],
            "all nodes are members of one group, which decides about every change of the schema and of the ring.",
            f"{phase_text(phase)} they show different {listing(apart)}.",
        ),
    )


# ── what nodes showed ──────────────────────────────────────────────────────────────────────────────────────────────────


def _logs(case: Evidence) -> Sequence[NodeLog]:
    """Read the log of each final phase and node, from the last reading that has one."""
    caught_up = case.notes.caught_up
    readings: dict[tuple[str, str, int], dict[str, Mapping[str, Any]]] = {}
    began: dict[tuple[str, str, int], int] = {}
    for row in _final_rows(case).sort_by("time").to_pylist():
        if row["definition"] is not None and row["error"] is None:
            place = (row["phase"], row["node"], row["sample"])
            readings.setdefault(place, {})[row["kind"]] = orjson.loads(row["definition"])
            began.setdefault(place, row["time"])
    latest = {
        place[:2]: place
        for place in sorted(began, key=began.__getitem__)
        if "changes" in readings[place].get("log", {})
    }
    return [
        _log(place, began[place], readings[place], place[:2] in caught_up)
        for _, place in sorted(latest.items(), key=_in_order)
    ]


def _final_rows(case: Evidence) -> pa.Table:
    """Return the versions and logs of the final phases."""
    rows = case.observations
    wanted = pc.and_(
        pc.is_in(rows["kind"], value_set=pa.array(["version", "log"])),
        pc.is_in(rows["phase"], value_set=pa.array(PHASES)),
    )
    return rows.filter(wanted)


def _unread_logs(case: Evidence, logs: Sequence[NodeLog]) -> Sequence[Doubt]:
    """List a doubt for each node that shows its state in a group, but neither its log nor a reason for its absence."""
    read = {(log.phase, log.node) for log in logs}
    told: dict[tuple[str, str], dict[str, Mapping[str, Any]]] = {}
    for row in _final_rows(case).to_pylist():
        if row["definition"] is not None and row["error"] is None:
            told.setdefault((row["phase"], row["node"]), {})[row["kind"]] = orjson.loads(row["definition"])
    return [
        Doubt("unread", f"the log of {node} was not read {phase_text(phase)}")
        for (phase, node), found in sorted(told.items())
        if (found.get("version", {}).get(GROUP_HISTORY) or {}).get("id") is not None
        and (phase, node) not in read
        and "error" not in found.get("log", {})
    ]


def _in_order(entry: tuple[tuple[str, str], Any]) -> tuple[int, str]:
    (phase, node), _ = entry
    return PHASES.index(phase), node


def _log(place: tuple[str, str, int], began: int, reading: Mapping[str, Mapping[str, Any]], caught_up: bool) -> NodeLog:
    version = reading.get("version", {})
    changes = sorted(
        Change(epoch, identity, description or "") for identity, epoch, description in reading["log"]["changes"]
    )
    return NodeLog(
        phase=place[0],
        node=place[1],
        began=began,
        changes=changes,
        caught_up=caught_up or _passed(version),
        cut=bool(reading["log"].get("cut")),
        group=version.get(GROUP_HISTORY) or {},
        epoch=version.get("epoch"),
    )


def _passed(version: Mapping[str, Any]) -> bool:
    return (version.get("barrier") or {}).get("passed") is True


def _render_change(change: Change) -> str:
    return f"epoch {change.epoch}, {change.description or change.id}"


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one}" if number == 1 else f"{number} {many}"
