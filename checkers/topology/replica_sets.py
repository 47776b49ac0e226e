"""Replica sets: what was acknowledged is on as many replicas as it was promised, and quorums find it, while nodes come and go.

Judges the bulk writes and checks of the workload `descriptors`. Where the levels of a write and of a check make their
replicas share one, the check shows that write or a later one, in every epoch of the ring that either was in
(`schemaquake.checkers.topology.row_states`). In the final phases every partition was read at ONE through every node, and a
coordinator that is a replica answers from its own data: a row acknowledged at a level that W replicas answered is on W
of the replicas that follow from the ring (`schemaquake.harness.placements`), or on fewer by the disks that operations lost
since.
Finds: `missed-rows`, `undeleted-rows`, `stale-rows`, `unwritten-rows`, `under-replicated-rows`, `disowned-rows`. Sources: seed document 4
(CEP-21), quorum intersection and data placement; CASSANDRA-16290, CASSANDRA-14801, CASSANDRA-14802; Gifford, "Weighted
voting for replicated data" (SOSP 1979).

One finding of a kind for each moment: an operation on the topology (the last one that had begun), or a final phase. Of
unknown or refused writes nothing is owed, and both outcomes are legal. Where the replication factor was
changed, `schemaquake.checkers.quorum.factors` follows what a write was promised from one factor to the next; what holds by some of the
factors that a request may have gone by is a doubt. So is what needs the ring, where that is not known.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Literal, NamedTuple

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.topology_operations import Around, TopologyOperation
from schemaquake.checkers.findings.argument import Argument, label
from schemaquake.checkers.findings.catalogue import anomaly
from schemaquake.checkers.findings.explanation import listing, phase_text
from schemaquake.checkers.findings.limits import LIMITS
from schemaquake.checkers.findings.tally import Tally
from schemaquake.checkers.quorum.factors import FactorSeries, Moment
from schemaquake.checkers.quorum.levels import count_replicas
from schemaquake.checkers.topology.accounts import PHASES, read_accounts
from schemaquake.checkers.topology.bulk_writes import BulkWrite, Check, Partition, read_checks, read_partitions
from schemaquake.checkers.topology.operations import render_change
from schemaquake.checkers.topology.ownership import model_of, read_replications
from schemaquake.checkers.topology.row_states import (
    Disowned,
    Flaw,
    FlawKind,
    Owed,
    find_disowned,
    find_forgotten,
    judge_reading,
    owed_copies,
)
from schemaquake.harness.counts import counted
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.records import Records
from schemaquake.harness.model.verdict import Anomaly, Doubt, Verdict
from schemaquake.harness.placements.strategies import Placement
from schemaquake.harness.placements.tokens import token_of_long

__all__ = ["ReplicaSets"]

_KINDS: Final[Mapping[FlawKind, str]] = {
    "missed": "missed-rows",
    "undeleted": "undeleted-rows",
    "stale": "stale-rows",
    "unwritten": "unwritten-rows",
}


_SYNCED_WITHIN_NS: Final = 15_000_000_000
"""How long after its acknowledgement a write may not be on disk yet: servers sync their commit log every ten seconds, or before they answer."""


class ReplicaSets:
    """Acknowledged rows are on the replicas of their epoch, and every quorum finds them."""

    name = "replica-sets"
    scope: Literal["keyspace", "run"] = "keyspace"
    finds: tuple[str, ...] = (
        "missed-rows",
        "undeleted-rows",
        "stale-rows",
        "unwritten-rows",
        "under-replicated-rows",
        "disowned-rows",
    )
    vouches: bool = True

    def check(self, records: Records, *, limit_s: float) -> Verdict:
        """Judge all checks. Unknown without any, or without an acknowledged write. Raises HistoryError."""
        ends_s = time.monotonic() + limit_s
        case = _Case(Evidence.of(records))
        if not case.checks or not any(w.acknowledged for p in case.partitions.values() for w in p.writes):
            missing = "check was answered" if not case.checks else "write was acknowledged"
            return Verdict.unknown(self.name, Doubt("nothing-to-judge", f"no {missing}"))
        if not case.series.factors:
            text = "the replication factor of the keyspace is not known: no CREATE KEYSPACE is known"
            return Verdict.unknown(self.name, Doubt("undecided", text))
        tally = Tally(self.name, keep=LIMITS.findings)
        moments: dict[tuple[str, str], _Moment] = {}
        possible: list[tuple[int, Flaw, Check]] = []
        for number, check in enumerate(case.checks):
            if time.monotonic() > ends_s:
                tally.doubt(Doubt("time", f"{len(case.checks) - number} of {len(case.checks)} checks are not judged"))
                break
            flaws = list(_judge_check(case, check))
            for partition, flaw in flaws:
                moment = case.moment_of(check)
                seen = moments.setdefault((_KINDS[flaw.kind], moment), _Moment(_KINDS[flaw.kind], moment))
                seen.add(partition, flaw, check)
            if not case.series.is_constant:
                possible += _find_possible(case, check, {partition for partition, _ in flaws})
        tally.doubt(*_describe_possible(case, possible))
        tally.add(*(_report(case, moment) for moment in moments.values()))
        tally.doubt(*_list_contradictions(case))
        for phase in PHASES:
            tally.judge(*_judge_copies(case, phase))
        tally.judge(*_judge_owners(case))
        return tally.verdict(
            writes=sum(len(one.writes) for one in case.partitions.values()),
            checks=len(case.checks),
            rows=sum(sum(sum(runs[1::3]) for runs in check.runs) for check in case.checks),
            levels={level: sum(one.level == level for one in case.checks) for level in sorted(case.levels)},
        )


@dataclass(slots=True)
class _Moment:
    """The flaws of one kind at one moment of the run."""

    kind: str
    moment: str
    rows: int = 0
    examples: list[tuple[int, Flaw, Check]] = field(default_factory=list)
    partitions: set[int] = field(default_factory=set)
    nodes: set[str] = field(default_factory=set)

    def add(self, partition: int, flaw: Flaw, check: Check) -> None:
        self.rows += flaw.rows
        self.partitions.add(partition)
        self.nodes.add(check.node)
        if len(self.examples) < LIMITS.examples:
            self.examples.append((partition, flaw, check))


class _WriteKind(NamedTuple):
    """A kind of acknowledged writes, which every check owes alike."""

    level: str
    by: Moment
    around: Around


@dataclass(frozen=True)
class _Case:
    """The evidence, as this checker reads it."""

    evidence: Evidence

    @cached_property
    def partitions(self) -> Mapping[int, Partition]:
        return read_partitions(self.evidence)

    @cached_property
    def checks(self) -> Sequence[Check]:
        return list(read_checks(self.evidence))

    @cached_property
    def levels(self) -> frozenset[str]:
        return frozenset(check.level for check in self.checks)

    @cached_property
    def series(self) -> FactorSeries:
        return self.evidence.derive(FactorSeries)

    @cached_property
    def operations(self) -> Sequence[TopologyOperation]:
        return self.evidence.notes.operations

    def lost(self, since: int, until: int) -> int:
        """Count the disks that operations may have lost between two times (ns)."""
        losses = self.evidence.notes.losses
        return losses.count_between(since, until)

    def duty(self, check: Check, *, possibly: bool = False) -> Callable[[BulkWrite], bool]:
        """Return what tells if the check must show a write, or a later one; `possibly`: by one of the factors that both may have gone by.

        Writes of one kind are owed alike, so that a check with thousands of writes asks a few times only.
        """
        read_by = self.series.moment(check.node, check.invoked, check.completed)
        later = self.evidence.notes.losses.around(check.completed, check.completed)
        owed: dict[_WriteKind, bool] = {}

        def must_show(write: BulkWrite) -> bool:
            if write.acknowledged is None or write.acknowledged >= check.invoked:
                return False
            kind = self.kind(write)
            if kind not in owed:
                lost = kind.around.lost_until(later)
                owed[kind] = self.series.share(
                    kind.level, kind.by, check.level, read_by, lost=lost, certain=not possibly
                )
            return owed[kind]

        return must_show

    def kind(self, write: BulkWrite) -> _WriteKind:
        """Return what a write has in common with others that every check owes alike; it was acknowledged."""
        found = self._kinds.get(write.index)
        if found is None:
            around = self.evidence.notes.losses.around(write.invoked, write.invoked)
            found = self._kinds[write.index] = _WriteKind(write.level, self.moment(write), around)
        return found

    @cached_property
    def _kinds(self) -> dict[int, _WriteKind]:
        return {}

    def moment(self, write: BulkWrite) -> Moment:
        """Return the factors that an acknowledged write may have gone by."""
        return self.series.moment(write.node, write.invoked, write.acknowledged or 0)

    def phase_of(self, check: Check) -> str | None:
        """Return the final phase of a check; None before them."""
        begun = [
            phase for phase in PHASES if (at := self.evidence.notes.began(f"final-{phase}")) and at <= check.invoked
        ]
        return begun[-1] if begun else None

    def moment_of(self, check: Check) -> str:
        """Name the moment of a check: a final phase, or the last operation that had begun."""
        phase = self.phase_of(check)
        if phase is not None:
            return phase
        begun = [operation for operation in self.operations if operation.invoked < check.completed]
        return str(begun[-1].number) if begun else ""


def _judge_check(case: _Case, check: Check) -> Iterator[tuple[int, Flaw]]:
    """Yield the flaws of one check, each with its partition."""
    must_show = case.duty(check)
    for partition, runs in _read_runs(case, check):
        flaws = judge_reading(partition, list(runs), completed=check.completed, certain=must_show)
        for flaw in flaws:
            yield partition.number, flaw
    for partition_number, *_ in check.strange:
        yield partition_number, Flaw("unwritten", 1, -1, 0, None)


def _read_runs(case: _Case, check: Check) -> Iterator[tuple[Partition, Sequence[int]]]:
    for place, runs in enumerate(check.runs):
        number = check.first + place
        yield case.partitions.get(number) or Partition(number=number, key=None, rows=0, writes=()), runs


def _find_possible(case: _Case, check: Check, flawed: Collection[int]) -> Iterator[tuple[int, Flaw, Check]]:
    """Yield flaws that the check has only by some of the replication factors, the first of each partition; `flawed` has others."""
    may_show = case.duty(check, possibly=True)
    for partition, runs in _read_runs(case, check):
        if partition.number in flawed:
            continue
        flaws = judge_reading(partition, list(runs), completed=check.completed, certain=may_show)
        possible = next(flaws, None)
        if possible is not None:
            yield partition.number, possible, check


def _describe_possible(case: _Case, found: Sequence[tuple[int, Flaw, Check]]) -> Iterator[Doubt]:
    if found:
        partition, flaw, check = found[0]
        write = "a write" if flaw.write is None else f"op {flaw.write.index}"
        yield Doubt(
            "undecided",
            f"{len({one.index for *_, one in found})} checks do not show what they had to by some of the replication factors that were in use, and not by "
            f"others ({case.series.describe_all()}); the first: op {check.index}, row {flaw.row} of partition {partition}, after {write}",
        )


def _report(case: _Case, moment: _Moment) -> Anomaly:
    partition, flaw, check = moment.examples[0]
    before = [operation for operation in case.operations if operation.invoked < check.completed]
    lines = [*([] if flaw.write is None else [flaw.write.text()]), check.text()]
    then, but = _argue(case, flaw, check, partition)
    return anomaly(
        moment.kind,
        objects=sorted({key for key in case.evidence.history["key"].to_pylist() if key and "." in key})[:1],
        nodes=moment.nodes,
        ops=[*(one.index for one in before), check.index, *([] if flaw.write is None else [flaw.write.index])],
        evidence={
            "rows": moment.rows,
            "partitions": sorted(moment.partitions)[: LIMITS.objects],
            "moment": moment.moment,
            "operations": [_render_operation(operation, check) for operation in before],
            "examples": [_render_example(*example) for example in moment.examples],
        },
        explanation=Argument(
            [*label(lines), *(render_change(operation) for operation in before)],
            then,
            f"{but} {moment.rows} rows of {len(moment.partitions)} partitions are like this"
            f"{'' if case.phase_of(check) is None else f' {phase_text(str(case.phase_of(check)))}'}.",
        ),
    )


def _argue(case: _Case, flaw: Flaw, check: Check, partition: int) -> tuple[str, str]:
    row = f"row {flaw.row} of partition {partition}"
    if flaw.write is None:
        shown = (
            "a row whose clustering or value no write gave it"
            if flaw.row < 0
            else f"{row} with write time {flaw.found} µs"
        )
        return "a read shows only what was written.", f"T1 shows {shown}, and no possible write made that."
    series = case.series
    if not series.is_constant:
        read_by = series.moment(check.node, check.invoked, check.completed)
        share = (
            f"T1 was acknowledged at {flaw.write.level} by the replication factor {series.describe(case.moment(flaw.write))} before T2 asked at "
            f"{check.level} by {series.describe(read_by)}, whatever the changes of the factor ({series.describe_all()}) took of its copies"
        )
    else:
        (factor,) = series.factors
        share = (
            f"T1 was acknowledged by {count_replicas(flaw.write.level, factor)} of {factor} replicas before T2 asked "
        )
        share += f"{count_replicas(check.level, factor)}"
    share += ", so they share one, and T2 must show T1 or a later write"
    lost = case.lost(flaw.write.invoked, check.completed)
    then = f"{share}." if not lost else f"{share}, though {lost} replicas lost their disk."
    shown = "no such row" if flaw.found == 0 else f"the row as the write of time {flaw.found} µs made it"
    return then, f"T2 shows {shown} in place of {row}."


def _render_operation(operation: TopologyOperation, check: Check) -> dict[str, JSON]:
    """Render an operation with the step that it had reached when the check began."""
    step = next((step for at, step in reversed(operation.steps) if at <= check.invoked), None)
    under_way = operation.completed is None or operation.completed > check.invoked
    return {
        "index": operation.index,
        "f": operation.f,
        "nodes": list(operation.nodes),
        "outcome": operation.outcome,
        "under_way": under_way,
        "step": step,
    }


def _render_example(partition: int, flaw: Flaw, check: Check) -> dict[str, JSON]:
    return {
        "partition": partition,
        "row": flaw.row,
        "rows": flaw.rows,
        "found": flaw.found or None,
        "check": {"op": check.index, "node": check.node, "consistency": check.level},
        "write": None
        if flaw.write is None
        else {
            "op": flaw.write.index,
            "lts": flaw.write.lts,
            "consistency": flaw.write.level,
            "deletes": flaw.write.deletes,
        },
    }


# ── copies ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _judge_copies(case: _Case, phase: str) -> Iterator[Anomaly | Doubt]:
    """Yield a finding if the replicas of a final phase hold too little, or why they could not be judged."""
    probes = [check for check in case.checks if check.level == "ONE" and case.phase_of(check) == phase]
    if not probes:
        # The other final phase asks every node, too.
        if case.evidence.notes.planned and case.evidence.notes.began(f"final-{phase}") is not None:
            yield Doubt("unread", f"{phase_text(phase)} no node was asked for the rows that it holds itself")
        return
    placement = _place(case, phase)
    if isinstance(placement, Doubt):
        yield placement
        return
    began = min(probe.invoked for probe in probes)
    placed = len(placement.groups[0])
    settled = case.series.at_end(began, placed, nodes=_count_nodes(placement))
    if settled is None:
        text = f"rows have {placed} replicas, which contradicts the replication factors {case.series.describe_all()}"
        yield Doubt(
            "undecided", f"{phase_text(phase)} {text}, or their order is not known, so what replicas hold is not judged"
        )
        return

    def copies(write: BulkWrite) -> int:
        if write.acknowledged is None or write.acknowledged >= began:
            return 0
        return case.series.copies(write.level, case.moment(write), settled, replicas=placed) - case.lost(
            write.invoked, began
        )

    held = _gather(probes)
    keyed = {number: one for number, one in case.partitions.items() if one.key is not None}
    replicas = {
        number: frozenset(replica.node for replica in placement.at(token_of_long(one.key or 0)))
        for number, one in keyed.items()
    }
    short = [
        (partition, replicas[number], owed)
        for number, partition in keyed.items()
        if number in held
        and (owed := owed_copies(partition, held[number], replicas[number], copies=copies)) is not None
    ]
    if short:
        yield _report_copies(case, phase, short)
    unasked = {number: group - held.get(number, {}).keys() for number, group in replicas.items()}
    yield from _list_unasked(phase, {number: nodes for number, nodes in unasked.items() if nodes})


def _count_nodes(placement: Placement) -> int:
    return len({replica.node for group in placement.groups for replica in group})


def _list_unasked(phase: str, unasked: Mapping[int, frozenset[str]]) -> Iterator[Doubt]:
    """Yield a doubt if replicas, by partition, did not say what they hold: each may hold nothing, or everything."""
    if unasked:
        first = min(unasked)
        text = f"{phase_text(phase)} {len(unasked)} partitions were not read at ONE through all of their replicas"
        yield Doubt("unread", f"{text}; of partition {first} {listing(sorted(unasked[first]))} did not answer")


def _list_contradictions(case: _Case) -> Iterator[Doubt]:
    """Yield a doubt for checks that count other rows than they name, and for partitions whose writes contradict one another."""
    checks = [check for check in case.checks if check.contradicts_itself]
    if checks:
        text = f"{len(checks)} checks contradict themselves in the rows that they name and count"
        yield Doubt("undecided", f"{text}; the first is op {checks[0].index}")
    partitions = [number for number, partition in case.partitions.items() if partition.contradictory]
    if partitions:
        text = f"the writes of {len(partitions)} partitions contradict one another in their keys or write times"
        yield Doubt("undecided", f"{text}; the first is partition {partitions[0]}")


def _judge_owners(case: _Case) -> Iterator[Anomaly | Doubt]:
    """Yield a finding if a node that is no replica answered, after the restart, with what no replica had any more.

    Replicas told what they held themselves before the restart, under the same placement. A write that may not have been synced when
    its nodes were killed accuses nobody. A replica that shows less than it showed before is a doubt: when it got a row is not known.
    """
    restart = case.evidence.notes.began("restart")
    before, after = (_place(case, phase) for phase in PHASES)
    if restart is None or isinstance(before, Doubt) or isinstance(after, Doubt):
        return
    if case.series.at_end(restart, len(after.groups[0]), nodes=_count_nodes(after)) is None:
        return
    probes = {phase: [c for c in case.checks if c.level == "ONE" and case.phase_of(c) == phase] for phase in PHASES}
    first, last = (_gather(probes[phase]) for phase in PHASES)
    found: list[tuple[Partition, str, frozenset[str], Disowned]] = []
    forgotten: list[tuple[int, str, int]] = []
    for number, partition in case.partitions.items():
        if partition.key is None or number not in first or number not in last:
            continue
        token = token_of_long(partition.key)
        replicas, again = (frozenset(replica.node for replica in one.at(token)) for one in (before, after))
        kept = frozenset(
            w.lts
            for w in partition.writes
            if w.acknowledged is not None and w.acknowledged < restart - _SYNCED_WITHIN_NS
        )
        for node in sorted(replicas & first[number].keys() & last[number].keys() if replicas == again else ()):
            rows = find_forgotten(partition, last[number][node], first[number][node])
            forgotten += [(number, node, row) for row in rows]
        for node in sorted(last[number].keys() - replicas if replicas == again else ()):
            disowned = find_disowned(partition, last[number][node], first[number], replicas, kept=kept)
            if disowned is not None:
                found.append((partition, node, replicas, disowned))
    if found:
        yield _report_owners(case, found)
    if forgotten:
        number, node, row = forgotten[0]
        text = f"replicas show {counted(len(forgotten), 'row')} after the restart as older than before it, or no more; the first: {node} row {row} of partition {number}"
        yield Doubt("undecided", text)


def _report_owners(case: _Case, found: Sequence[tuple[Partition, str, frozenset[str], Disowned]]) -> Anomaly:
    partition, node, replicas, disowned = found[0]
    rows = sum(one.rows for *_, one in found)
    return anomaly(
        "disowned-rows",
        objects=sorted({key for key in case.evidence.history["key"].to_pylist() if key and "." in key})[:1],
        nodes=sorted({each for _, each, _, _ in found}),
        ops=[operation.index for operation in case.operations],
        evidence={
            "rows": rows,
            "partitions": [one.number for one, *_ in found[: LIMITS.objects]],
            "examples": [
                {
                    "partition": one.number,
                    "node": each,
                    "replicas": sorted(group),
                    "row": what.row,
                    "shown": what.shown,
                    "least": what.least,
                }
                for one, each, group, what in found[: LIMITS.examples]
            ],
        },
        explanation=Argument(
            label(render_change(operation) for operation in case.operations),
            f"{node} is none of the replicas {listing(sorted(replicas))} of partition {partition.number}, so it has to ask one of them, and "
            f"before the restart each of them showed row {disowned.row} with write time {disowned.least} µs or later, by reads at ONE "
            "through itself.",
            f"after the restart {node} shows it at ONE with write time {disowned.shown} µs. {rows} rows of {len(found)} "
            "partitions are like this.",
        ),
    )


def _gather(probes: Sequence[Check]) -> Mapping[int, dict[str, list[int]]]:
    """Gather the runs that each node holds itself, by partition; the last probe of a node counts."""
    held: dict[int, dict[str, list[int]]] = {}
    for probe in probes:
        for place, runs in enumerate(probe.runs):
            held.setdefault(probe.first + place, {})[probe.node] = list(runs)
    return held


def _place(case: _Case, phase: str) -> Placement | Doubt:
    """Place replicas, by the nodes' names, on the ring that a node listed in this phase."""
    accounts = [one for one in read_accounts(case.evidence) if one.phase == phase and one.error is None]
    names = {one.address: one.node for one in accounts}
    keyspaces = {key.split(".", 1)[0] for key in case.evidence.history["key"].to_pylist() if key}
    for (of_phase, node, keyspace), replication in read_replications(case.evidence).items():
        account = next((one for one in accounts if one.node == node), None)
        if of_phase != phase or account is None or keyspace not in keyspaces:
            continue
        try:
            placement = model_of(account, replication)
        except ValueError as error:
            return Doubt("undecided", f"{phase_text(phase)} the replicas of {keyspace} are not known: {error}")
        groups = tuple(
            tuple(replica._replace(node=names.get(replica.node, replica.node)) for replica in group)
            for group in placement.groups
        )
        return Placement(placement.ends, groups)
    return Doubt("unread", f"{phase_text(phase)} no node listed the ring, so the replicas of a row are not known")


def _report_copies(case: _Case, phase: str, short: Sequence[tuple[Partition, frozenset[str], Owed]]) -> Anomaly:
    partition, replicas, owed = short[0]
    rows = sum(one.rows for _, _, one in short)
    return anomaly(
        "under-replicated-rows",
        objects=sorted({key for key in case.evidence.history["key"].to_pylist() if key and "." in key})[:1],
        nodes=[node for _, group, one in short for node in group - set(one.holders)],
        ops=[
            *(operation.index for operation in case.operations),
            *(one.write.index for _, _, one in short[: LIMITS.operations]),
        ],
        evidence={
            "phase": phase,
            "rows": rows,
            "partitions": [one.number for one, _, _ in short[: LIMITS.objects]],
            "examples": [
                {
                    "partition": one.number,
                    "row": found.row,
                    "write": found.write.index,
                    "consistency": found.write.level,
                    "replicas": sorted(group),
                    "holders": list(found.holders),
                    "promised": found.copies,
                }
                for one, group, found in short[: LIMITS.examples]
            ],
        },
        explanation=Argument(
            [*label([owed.write.text()]), *(render_change(operation) for operation in case.operations)],
            f"T1 was acknowledged, so {owed.copies} of the replicas {listing(sorted(replicas))} of partition "
            f"{partition.number} must hold row {owed.row} of it, or a later write.",
            f"{phase_text(phase)} only {listing(owed.holders)} {'does' if len(owed.holders) < 2 else 'do'}, by reads at ONE "
            f"through each of them. {rows} rows of {len(short)} partitions are like this.",
        ),
    )
