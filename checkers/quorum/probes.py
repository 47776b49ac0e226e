"""Quorum probes: which replicas hold what, from reads at ONE through every node after the cluster had settled.

A coordinator that is a replica answers a read at ONE from its own data (the recipes see to that), so where every node
is a replica a probe through it says what it holds. An acknowledged put is on as many replicas as its level speaks of
from the moment it is acknowledged, whatever hints and repairs still do, so there is nothing to wait for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from schemaquake.checkers.evidence.node_schemas import PHASES
from schemaquake.checkers.evidence.notes import Notes
from schemaquake.checkers.findings.explanation import phase_text
from schemaquake.checkers.quorum.latest import Latest
from schemaquake.checkers.quorum.operations import Operations
from schemaquake.checkers.quorum.versions import Versions
from schemaquake.harness.model.verdict import Doubt

__all__ = ["Probed", "UnderReplicated", "under_replicated"]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnderReplicated:
    """An acknowledged put (position in `Operations`), and the last answered probe of its key through each node.

    `holders` have the put or a later one, `older` certainly have not.
    """

    phase: str
    put: int
    probes: Mapping[str, int]
    holders: Sequence[str]
    older: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """What the probes tell: what is on too few replicas, what could not be told, and how many values were asked about."""

    found: Sequence[UnderReplicated]
    doubts: Sequence[Doubt]
    judged: int


def under_replicated(of: Operations, order: Versions, notes: Notes, *, copies: int) -> Probed:
    """Judge every key that was probed. With more nodes than copies nothing can be said: a coordinator may be no replica."""
    nodes = sorted({start.node for start in notes.starts if start.phase == "boot"} or set(of.nodes))
    if len(nodes) != copies or not len(of.probes):
        return Probed(found=(), doubts=(), judged=0)
    found: list[UnderReplicated] = []
    undecided: dict[str, list[str]] = {}
    judged = 0
    for phase, put, probes in _owed(of, order, notes):
        judged += 1
        older = [node for node in probes if order.high[of.version[probes[node]]] < order.low[of.version[put]]]
        may_lack = copies - int(of.copies[put])
        if len(older) > may_lack:
            holders = [node for node in probes if node not in older]
            found.append(UnderReplicated(phase=phase, put=put, probes=probes, holders=holders, older=older))
        elif len(older) + copies - len(probes) > may_lack and len(probes) < copies:
            undecided.setdefault(phase, []).append(of.keys[of.key[put]])
    return Probed(found=found, doubts=list(_told(undecided)), judged=judged)


def _owed(of: Operations, order: Versions, notes: Notes) -> Iterator[tuple[str, int, Mapping[str, int]]]:
    """(phase, put, node → probe): of each key, phase and level of its puts the latest put that was due by then."""
    groups = list(_groups(of, notes))
    key = np.array([key for _, key, _ in groups], np.int64)
    begun = np.array([of.invoked[list(probes.values())].min() for _, _, probes in groups], np.int64)
    puts = of.acknowledged_puts
    for copies in np.unique(of.copies[puts]).tolist():
        mine = puts[of.copies[puts] == copies]
        latest = Latest(of.key[mine], of.completed[mine], order.low[of.version[mine]]).before(key, begun)
        for (phase, _, probes), at in zip(groups, latest.tolist(), strict=True):
            if at >= 0:
                yield phase, int(mine[at]), probes


def _groups(of: Operations, notes: Notes) -> Iterator[tuple[str, int, Mapping[str, int]]]:
    """(phase, key, node → its last answered probe), of every key that was asked about; phases in their order.

    Probes before any final phase, and those of a history that knows no phases, are taken for the first one.
    """
    begins = [began for phase in PHASES if (began := notes.began(f"final-{phase}")) is not None]
    asked = np.flatnonzero(of.f == 2)  # one that was not answered shows that there was something to ask about
    phases = np.maximum(np.searchsorted(np.array(begins, np.int64), of.invoked[asked], side="right") - 1, 0)
    groups: dict[tuple[int, int], dict[str, int]] = {}
    for probe, phase in zip(asked.tolist(), phases.tolist(), strict=True):
        answers = groups.setdefault((phase, int(of.key[probe])), {})
        if of.acknowledged[probe]:
            answers[of.nodes[of.node[probe]]] = probe
    for (phase, key), answers in sorted(groups.items()):
        if answers:
            yield PHASES[phase], key, dict(sorted(answers.items()))


def _told(undecided: Mapping[str, Sequence[str]]) -> Iterator[Doubt]:
    for phase, keys in undecided.items():
        yield Doubt("unread", f"{phase_text(phase)} too few probes were answered to count the replicas", tuple(keys))
