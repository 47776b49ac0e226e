"""Quorum probes: the values on each replica, from reads at ONE through every node after the cluster settled.

A coordinator that is a replica answers a read at ONE from its own data (the recipes see to that), and any other one from a
replica's. So at least as many nodes show a value as replicas hold it; where every node is a replica, as many. An acknowledged put is on
the number of replicas of its level from the moment it is acknowledged, whatever hints and repairs still do, so no wait is needed. Where every
node is a replica, one that shows an older value after the restart than before is a doubt: a log that is not synced may lose what was written last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from schemaquake.checkers.evidence.node_schemas import PHASES
from schemaquake.checkers.evidence.notes import Notes
from schemaquake.checkers.findings.explanation import phase_text
from schemaquake.checkers.quorum.factors import FactorSeries, Moment
from schemaquake.checkers.quorum.latest import Latest
from schemaquake.checkers.quorum.operations import NOTHING, Operations
from schemaquake.checkers.quorum.versions import Versions
from schemaquake.harness.counts import counted
from schemaquake.harness.model.verdict import Doubt

__all__ = ["Probed", "UnderReplicated", "find_under_replicated"]

_Group: TypeAlias = tuple[str, int, Mapping[str, int]]
"""The phase, the key, and by node the last answered probe of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnderReplicated:
    """An acknowledged put (position in `Operations`), and the last answered probe of its key through each node.

    The nodes `older` certainly show an older value; `holders` are the other probed nodes. `promised` of `replicas` must have it.
    """

    phase: str
    put: int
    probes: Mapping[str, int]
    holders: Sequence[str]
    older: Sequence[str]
    promised: int
    replicas: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """The verdict on the probes; `judged` is the number of values that were probed."""

    found: Sequence[UnderReplicated]
    doubts: Sequence[Doubt]
    judged: int


def find_under_replicated(operations: Operations, order: Versions, notes: Notes, *, series: FactorSeries) -> Probed:
    """Find the puts on too few replicas. With more nodes than copies some coordinators are no replicas, and may hide that there are too few.

    No key is judged where nodes joined or left: the replicas of a key are then not the same all the time. Where the replication factor
    changed, the last one counts, and what the changes before it left of a put.
    """
    copies = series.factors[-1]
    # Of a cluster that was there before, not every node need be named: there are at least as many as copies.
    booted = {start.node for start in notes.starts if start.phase == "boot"}
    nodes = len(booted) or max(len(operations.nodes), copies)
    if notes.membership.changes or not len(operations.probes):
        return Probed(found=(), doubts=(), judged=0)
    began = int(operations.invoked[operations.probes].min())
    settled = series.at_end(began, min(copies, nodes), nodes=nodes)
    if settled is None:
        text = f"which replication factor was the last one is not known, of {series.describe_all()}, so what replicas hold is not judged"
        return Probed(found=(), doubts=[Doubt("undecided", text)], judged=0)
    owed = (
        operations.copies
        if series.is_constant
        else np.array([series.copies(*each, settled, replicas=copies) for each in _kinds(operations)], np.int64)[
            operations.level
        ]
    )
    found: list[UnderReplicated] = []
    undecided: dict[str, list[str]] = {}
    judged = 0
    groups = list(_group_probes(operations, notes))
    puts = operations.acknowledged_puts
    for phase, put, probes in _find_latest(operations, groups, puts, owed, order.low[operations.version[puts]]):
        judged += 1
        older = [
            node for node in probes if order.high[operations.version[probes[node]]] < order.low[operations.version[put]]
        ]
        promised = int(owed[put])
        may_lack = max(nodes - promised, 0)
        if len(older) > may_lack:
            holders = [node for node in probes if node not in older]
            found.append(
                UnderReplicated(
                    phase=phase,
                    put=put,
                    probes=probes,
                    holders=holders,
                    older=older,
                    promised=promised,
                    replicas=copies,
                )
            )
        elif len(probes) < nodes and len(older) + nodes - len(probes) > may_lack:
            undecided.setdefault(phase, []).append(operations.keys[operations.key[put]])
    certain = {(one.phase, int(operations.key[one.put])) for one in found}
    lost = [
        (phase, put)
        for phase, put in _find_unseen_puts(operations, order, groups, owed, nodes=nodes)
        if (phase, int(operations.key[put])) not in certain
    ]
    forgotten = _find_forgotten(operations, order, groups) if copies >= nodes else []
    doubts = [
        *_describe_undecided(undecided),
        *_describe_unseen(operations, lost),
        *_describe_forgotten(operations, forgotten),
    ]
    return Probed(found=found, doubts=doubts, judged=judged)


def _find_forgotten(
    operations: Operations, order: Versions, groups: Sequence[_Group]
) -> Sequence[tuple[str, int, int]]:
    """Find (node, probe, later probe) where a replica shows an older value after the restart than it showed before."""
    before = {
        (key, node): probe for phase, key, probes in groups if phase == PHASES[0] for node, probe in probes.items()
    }
    return [
        (node, before[key, node], probe)
        for phase, key, probes in groups
        if phase != PHASES[0]
        for node, probe in probes.items()
        if (key, node) in before
        and order.high[operations.version[probe]] < order.low[operations.version[before[key, node]]]
    ]


def _describe_forgotten(operations: Operations, forgotten: Sequence[tuple[str, int, int]]) -> Iterator[Doubt]:
    if forgotten:
        node, earlier, later = forgotten[0]
        keys = tuple(dict.fromkeys(operations.keys[operations.key[probe]] for _, _, probe in forgotten))
        text = (
            f"{counted(len(forgotten), 'replica shows', 'replicas show')} an older value after the restart than before it: {node} by op "
            f"{operations.index[earlier]} and op {operations.index[later]}"
        )
        yield Doubt("undecided", text, keys)


def _find_unseen_puts(
    operations: Operations, order: Versions, groups: Sequence[_Group], owed: npt.NDArray[np.int64], *, nodes: int
) -> Iterator[tuple[str, int]]:
    """Yield (phase, put) of acknowledged puts that no read shows, where more nodes than may lack it show nothing, or what was put before it."""
    reads = np.concatenate([operations.gets, operations.probes])
    shown = operations.version[reads[operations.version[reads] != NOTHING]]
    puts = operations.acknowledged_puts
    unseen = puts[~np.isin(operations.version[puts], shown)]
    for phase, put, probes in _find_latest(operations, groups, unseen, owed, operations.invoked[unseen]):
        earlier = [node for node, probe in probes.items() if _shows_earlier(operations, order, probe, put)]
        if len(earlier) > max(nodes - int(owed[put]), 0):
            yield phase, put


def _shows_earlier(operations: Operations, order: Versions, probe: int, put: int) -> bool:
    """Return whether a probe shows nothing, a value that is certainly older, or one whose put had ended before this put began."""
    version = operations.version[probe]
    if order.high[version] < order.low[operations.version[put]]:
        return True
    origin = operations.put[version]  # of nothing, which is older than any put, there is none
    return bool(origin >= 0 and operations.completed[origin] < operations.invoked[put])


def _describe_unseen(operations: Operations, lost: Sequence[tuple[str, int]]) -> Iterator[Doubt]:
    if lost:
        phase, put = lost[0]
        keys = tuple(dict.fromkeys(operations.keys[operations.key[put]] for _, put in lost))
        text = (
            f"{phase_text(phase)} too many nodes show a value from before op {operations.index[put]}, an acknowledged put whose writetime is "
            "not known, so either the clocks hide it or too few replicas have it"
        )
        yield Doubt("undecided", text, keys)


def _kinds(operations: Operations) -> Iterator[tuple[str, Moment]]:
    """Yield the level and the moment of every kind of request, by `Operations.level`."""
    names = {int(kind): operations.levels[at] for at, kind in enumerate(operations.level)}
    yield from ((names[kind], moment) for kind, moment in enumerate(operations.moments))


def _find_latest(
    operations: Operations,
    groups: Sequence[_Group],
    puts: npt.NDArray[np.int64],
    owed: npt.NDArray[np.int64],
    weight: npt.NDArray[np.int64],
) -> Iterator[tuple[str, int, Mapping[str, int]]]:
    """Yield (phase, put, node → probe) with the latest of these puts, by `weight`, of each key and level that had ended before the probes."""
    key = np.array([key for _, key, _ in groups], np.int64)
    begun = np.array([operations.invoked[list(probes.values())].min() for _, _, probes in groups], np.int64)
    for copies in np.unique(owed[puts]).tolist():
        is_level = owed[puts] == copies
        level_puts = puts[is_level]
        latest = Latest(operations.key[level_puts], operations.completed[level_puts], weight[is_level])
        for (phase, _, probes), at in zip(groups, latest.before(key, begun).tolist(), strict=True):
            if at >= 0:
                yield phase, int(level_puts[at]), probes


def _group_probes(operations: Operations, notes: Notes) -> Iterator[_Group]:
    """Yield (phase, key, node → its last answered probe) for every probed key, in order of the phases.

    Probes before any final phase, and those of a history without notes of phases, count as the first phase.
    """
    begins = [began for phase in PHASES if (began := notes.began(f"final-{phase}")) is not None]
    probes = np.flatnonzero(operations.f == 2)  # an unanswered probe still begins a phase
    phases = np.maximum(np.searchsorted(np.array(begins, np.int64), operations.invoked[probes], side="right") - 1, 0)
    groups: dict[tuple[int, int], dict[str, int]] = {}
    for probe, phase in zip(probes.tolist(), phases.tolist(), strict=True):
        answers = groups.setdefault((phase, int(operations.key[probe])), {})
        if operations.acknowledged[probe]:
            answers[operations.nodes[operations.node[probe]]] = probe
    for (phase, key), answers in sorted(groups.items()):
        if answers:
            yield PHASES[phase], key, dict(sorted(answers.items()))


def _describe_undecided(undecided: Mapping[str, Sequence[str]]) -> Iterator[Doubt]:
    for phase, keys in undecided.items():
        yield Doubt("unread", f"{phase_text(phase)} too few probes were answered to count the replicas", tuple(keys))
