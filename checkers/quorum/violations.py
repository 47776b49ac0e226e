"""Quorum violations: which operations contradict one another, before anybody tells of it.

Every question is of one form: of all puts (or gets) of a key that had ended before this operation began, is the latest
version later than the one that this operation shows? `schemaquake.checkers.quorum.latest` answers it for all operations at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from schemaquake.checkers.evidence.notes import Notes
from schemaquake.checkers.quorum.latest import Latest
from schemaquake.checkers.quorum.operations import NEVER, NOTHING, Operations
from schemaquake.checkers.quorum.probes import UnderReplicated, under_replicated
from schemaquake.checkers.quorum.versions import Versions, versions
from schemaquake.harness.model.verdict import Doubt

__all__ = ["Violations", "violations"]

Longs: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]
Pairs: TypeAlias = Sequence[tuple[int, int]]
"""(position of the earlier operation, position of the later one that contradicts it)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Violations:
    """What was found, as positions in `Operations`. `shadowed` are (the put that hides, the put that is hidden)."""

    copies: int
    versions: Versions
    missed: Pairs
    non_monotonic: Pairs
    shadowed: Pairs
    shown: Mapping[int, int]
    """Of a shadowed put: the first read begun after it that shows a version from before it, if there is one."""
    under_replicated: Sequence[UnderReplicated]
    unwritten: Sequence[int]
    doubts: Sequence[Doubt]
    counts: Mapping[str, int]


def violations(of: Operations, notes: Notes, *, copies: int) -> Violations:
    """Everything that is wrong in a keyspace that keeps so many copies."""
    order = versions(of, notes)
    missed, stale_by_right = _missed(of, order, copies)
    late = {get for _, get in missed}
    non_monotonic = [pair for pair in _non_monotonic(of, order, copies) if pair[1] not in late]
    shadowed = _shadowed(of, order)
    undecided = _undecided(of, copies, late, [hidden for _, hidden in shadowed])
    probed = under_replicated(of, order, notes, copies=copies)
    return Violations(
        copies=copies,
        versions=order,
        missed=missed,
        non_monotonic=non_monotonic,
        shadowed=shadowed,
        shown=_shown(of, shadowed),
        under_replicated=probed.found,
        unwritten=_unwritten(of),
        doubts=[*_told_undecided(of, undecided), *probed.doubts],
        counts={
            "missed": len(missed),
            "non_monotonic": len(non_monotonic),
            "shadowed": len(shadowed),
            "undecided": len(undecided),
            "stale_by_right": stale_by_right,
            "probed_values": probed.judged,
        },
    )


# ── reads ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _missed(of: Operations, order: Versions, copies: int) -> tuple[Pairs, int]:
    """(put, get) where the get had to show the put or a later one; and how many gets at weak levels showed an older one."""
    puts = of.acknowledged_puts
    missed: list[tuple[int, int]] = []
    stale: set[int] = set()
    for wanted, gets in _by_copies(of, of.gets):
        owed = of.copies[puts] > copies - wanted
        missed += _contradicted(of, order, puts[owed], gets)
        stale |= {get for _, get in _contradicted(of, order, puts[~owed], gets)}
    return sorted(missed, key=lambda pair: pair[1]), len(stale - {get for _, get in missed})


def _non_monotonic(of: Operations, order: Versions, copies: int) -> Pairs:
    """(get, later get) where the later one had to show what the first one did, or a later version."""
    found: list[tuple[int, int]] = []
    for wanted, gets in _by_copies(of, of.gets):
        found += _contradicted(of, order, of.gets[of.copies[of.gets] > copies - wanted], gets)
    return sorted(found, key=lambda pair: pair[1])


def _contradicted(of: Operations, order: Versions, earlier: Longs, later: Longs) -> Pairs:
    """Of each later operation that shows a version certainly older than an earlier one's: both, with the latest such."""
    latest = Latest(of.key[earlier], of.completed[earlier], order.low[of.version[earlier]])
    at = latest.before(of.key[later], of.invoked[later])
    some = np.flatnonzero(at >= 0)
    one, other = earlier[at[some]], later[some]
    wrong = order.high[of.version[other]] < order.low[of.version[one]]
    return list(zip(one[wrong].tolist(), other[wrong].tolist(), strict=True))


def _by_copies(of: Operations, some: Longs) -> Iterator[tuple[int, Longs]]:
    for copies in np.unique(of.copies[some]).tolist():
        yield copies, some[of.copies[some] == copies]


def _unwritten(of: Operations) -> Sequence[int]:
    """Reads of what nobody put, of what was refused, and of what was only put after the read was answered."""
    reads = np.concatenate([of.gets, of.probes])
    reads = reads[of.version[reads] != NOTHING]
    put = of.put[of.version[reads]]
    wrong = (put < 0) | of.refused[put] | (of.invoked[put] > of.completed[reads])
    return sorted(reads[wrong].tolist())


# ── clocks ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _shadowed(of: Operations, order: Versions) -> Pairs:
    """(put, later put): both acknowledged, the first before the second was asked for, and yet the second is the older one."""
    puts = of.acknowledged_puts
    return sorted(_contradicted(of, replace(order, high=order.under), puts, puts), key=lambda pair: pair[1])


def _shown(of: Operations, shadowed: Pairs) -> Mapping[int, int]:
    """For each hidden put a read that shows it is hidden: it began later and has a version whose put had ended before."""
    hidden = {key: [put for _, put in shadowed if of.key[put] == key] for key in {of.key[put] for _, put in shadowed}}
    found: dict[int, int] = {}
    for read in np.concatenate([of.gets, of.probes]).tolist():
        origin = of.put[of.version[read]] if of.version[read] != NOTHING else -1
        if origin >= 0 and of.completed[origin] != NEVER:
            for put in hidden.get(of.key[read], ()):
                if put not in found and of.completed[origin] < of.invoked[put] and of.completed[put] < of.invoked[read]:
                    found[put] = read
    return found


def _undecided(of: Operations, copies: int, late: set[int], hidden: Sequence[int]) -> Pairs:
    """(put, get): the get shows what was put before, and nobody can tell whether by a clock or by a missed write."""
    gets = np.array([get for get in of.gets.tolist() if get not in late], np.int64)
    origin = np.where(of.version[gets] != NOTHING, of.put[of.version[gets]], -1)
    gets, origin = gets[origin >= 0], origin[origin >= 0]
    open_puts = np.setdiff1d(of.acknowledged_puts, np.array(hidden, np.int64))
    found: list[tuple[int, int]] = []
    for wanted in np.unique(of.copies[gets]).tolist():
        puts = open_puts[of.copies[open_puts] > copies - wanted]
        mine = of.copies[gets] == wanted
        last = Latest(of.key[puts], of.completed[puts], of.invoked[puts]).before(
            of.key[gets[mine]], of.invoked[gets[mine]]
        )
        some = np.flatnonzero(last >= 0)
        put, get = puts[last[some]], gets[mine][some]
        wrong = of.completed[origin[mine][some]] < of.invoked[put]
        found += zip(put[wrong].tolist(), get[wrong].tolist(), strict=True)
    return sorted(found, key=lambda pair: pair[1])


def _told_undecided(of: Operations, undecided: Pairs) -> Iterator[Doubt]:
    if undecided:
        put, get = undecided[0]
        yield Doubt(
            "undecided",
            f"{len(undecided)} gets show a value from before a put that was acknowledged, and whether the clocks hide it or "
            f"it was missed cannot be told, for nobody saw its writetime; the first: op {of.index[get]} after "
            f"op {of.index[put]} through {of.nodes[of.node[put]]}",
        )
