"""Quorum violations: pairs of operations that contradict one another, as positions.

Each operation is compared with the latest version among all puts (or gets) of its key that had ended before it began:
a contradiction, if the operation shows an earlier version. `schemaquake.checkers.quorum.latest` finds these for all
operations at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from schemaquake.checkers.evidence.notes import Notes
from schemaquake.checkers.quorum.factors import FactorSeries
from schemaquake.checkers.quorum.latest import Latest
from schemaquake.checkers.quorum.operations import NOTHING, Operations
from schemaquake.checkers.quorum.probes import UnderReplicated, find_under_replicated
from schemaquake.checkers.quorum.versions import Versions, bound_versions
from schemaquake.harness.counts import counted
from schemaquake.harness.model.verdict import Doubt

__all__ = ["Violations", "count_lost", "find_violations"]

Longs: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]
Pairs: TypeAlias = Sequence[tuple[int, int]]
"""(position of the earlier operation, position of the later one that contradicts it)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Violations:
    """The violations of one keyspace, as positions in `Operations`. `shadowed` are (hiding put, hidden put)."""

    series: FactorSeries
    """The replication factors that the keyspace had."""
    versions: Versions
    missed: Pairs
    non_monotonic: Pairs
    shadowed: Pairs
    shown: Mapping[int, int]
    """Shadowed put → the first later read that shows a version from before it, where there is one."""
    under_replicated: Sequence[UnderReplicated]
    unwritten: Sequence[int]
    doubts: Sequence[Doubt]
    counts: Mapping[str, int]


def find_violations(operations: Operations, notes: Notes, *, series: FactorSeries) -> Violations:
    """Find every violation in a keyspace that had these replication factors."""
    order = bound_versions(operations, notes)
    missed, stale_by_right = _find_missed(operations, order)
    late = {get for _, get in missed}
    non_monotonic = [pair for pair in _find_non_monotonic(operations, order) if pair[1] not in late]
    shadowed = _find_shadowed(operations, order)
    undecided = _find_undecided(operations, late, [hidden for _, hidden in shadowed])
    probed = find_under_replicated(operations, order, notes, series=series)
    possible = _find_possible(operations, order)
    return Violations(
        series=series,
        versions=order,
        missed=missed,
        non_monotonic=non_monotonic,
        shadowed=shadowed,
        shown=_find_sightings(operations, shadowed),
        under_replicated=probed.found,
        unwritten=_find_unwritten(operations),
        doubts=[
            *_describe_undecided(operations, undecided),
            *_describe_possible(operations, series, [pair for pair in possible if pair[1] not in late]),
            *probed.doubts,
            *_list_strange_writetimes(operations),
        ],
        counts={
            "missed": len(missed),
            "non_monotonic": len(non_monotonic),
            "shadowed": len(shadowed),
            "undecided": len(undecided),
            "stale_by_right": stale_by_right,
            "probed_values": probed.judged,
        },
    )


def _list_strange_writetimes(operations: Operations) -> Iterator[Doubt]:
    """Yield a doubt for a value that two reads show with two writetimes, for reads without one where others have it, and for a writetime of no value.

    A value is put once, with one timestamp.
    """
    reads = np.concatenate([operations.gets, operations.probes])
    has_value = operations.version[reads] != NOTHING
    empty = reads[~has_value & (operations.writetime[reads] >= 0)]
    if len(empty):
        text = f"{counted(len(empty), 'read shows', 'reads show')} a writetime without a value, the first of them op {operations.index[empty[0]]}"
        yield Doubt("undecided", text, (operations.keys[operations.key[empty[0]]],))
    reads = reads[has_value]
    known = operations.writetime[reads] >= 0
    if known.any() and not known.all():
        at = reads[~known][0]
        yield Doubt(
            "undecided",
            f"{counted(int((~known).sum()), 'read shows', 'reads show')} a value without a writetime, the first of them op {operations.index[at]}",
            (operations.keys[operations.key[at]],),
        )
    dated = reads[known][np.lexsort((operations.writetime[reads[known]], operations.version[reads[known]]))]
    version, writetime = operations.version[dated], operations.writetime[dated]
    other = np.flatnonzero((np.diff(version) == 0) & (np.diff(writetime) != 0))
    if len(other):
        first, second = (int(operations.index[dated[at]]) for at in (other[0], other[0] + 1))
        yield Doubt(
            "undecided",
            f"{counted(len(other), 'value was', 'values were')} read with two writetimes; the first by op {first} and op {second}",
            (operations.keys[operations.key[dated[other[0]]]],),
        )


# ── reads ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _find_missed(operations: Operations, order: Versions) -> tuple[Pairs, int]:
    """Find (put, get) where the get had to show the put or a later one; count the stale gets at weaker levels."""
    puts = operations.acknowledged_puts
    missed: list[tuple[int, int]] = []
    stale: set[int] = set()
    for level, gets in _group_by_level(operations, operations.gets):
        owed = operations.shares[operations.level[puts], level]
        missed += _find_contradictions(operations, order, puts[owed], gets)
        stale |= {get for _, get in _find_contradictions(operations, order, puts[~owed], gets)}
    return sorted(missed, key=lambda pair: pair[1]), len(stale - {get for _, get in missed})


def _find_non_monotonic(operations: Operations, order: Versions) -> Pairs:
    """Find (get, later get) where the later get had to show the version of the first, or a later one."""
    found: list[tuple[int, int]] = []
    for level, gets in _group_by_level(operations, operations.gets):
        owing = operations.gets[operations.shares[operations.level[operations.gets], level]]
        found += _find_contradictions(operations, order, owing, gets)
    return sorted(found, key=lambda pair: pair[1])


def _find_possible(operations: Operations, order: Versions) -> Pairs:
    """Find (put or get, later get) that contradict one another only by some of the factors that they may have gone by, or if no disk was lost."""
    if not (operations.may_share & ~operations.shares).any():
        return []
    earlier = np.concatenate([operations.acknowledged_puts, operations.gets])
    found: list[tuple[int, int]] = []
    for level, gets in _group_by_level(operations, operations.gets):
        of_earlier = operations.level[earlier]
        open_ones = earlier[operations.may_share[of_earlier, level] & ~operations.shares[of_earlier, level]]
        found += _find_contradictions(operations, order, open_ones, gets)
    return sorted(found, key=lambda pair: pair[1])


def _describe_possible(operations: Operations, series: FactorSeries, found: Pairs) -> Iterator[Doubt]:
    """Yield a doubt about gets that a lost disk may explain, and one about those that some of the factors explain."""
    losses = {pair: count_lost(operations, *pair) for pair in found}
    by_loss = [pair for pair, lost in losses.items() if lost]
    if by_loss:
        first, other = by_loss[0]
        yield Doubt(
            "undecided",
            f"{len({get for _, get in by_loss})} gets show an older value than they had to if no disk had been lost, and operations took disks "
            f"away; the first: op {operations.index[other]} after op {operations.index[first]} ({losses[first, other]} of them)",
            (operations.keys[operations.key[other]],),
        )
    by_factor = [pair for pair, lost in losses.items() if not lost]
    if by_factor:
        first, other = by_factor[0]
        by = [series.describe(operations.moments[operations.level[at]]) for at in (first, other)]
        yield Doubt(
            "undecided",
            f"{len({get for _, get in by_factor})} gets show an older value than they had to by some of the replication factors that were in use, "
            f"and not by others; the first: op {operations.index[other]} (factor {by[1]}) after op {operations.index[first]} "
            f"(factor {by[0]}), of {series.describe_all()}",
            (operations.keys[operations.key[other]],),
        )


def count_lost(operations: Operations, earlier: int, later: int) -> int:
    """Count the disks that operations may have lost between two requests."""
    before, after = (operations.losses[int(operations.level[at])] for at in (earlier, later))
    return before.lost_until(after)


def _find_contradictions(operations: Operations, order: Versions, earlier: Longs, later: Longs) -> Pairs:
    """Find (earlier, later) operations where the later one shows a version that is certainly the older one.

    Each later operation is paired with the earlier operation that has the latest version. The pairs are in the order of `later`.
    """
    latest = Latest(operations.key[earlier], operations.completed[earlier], order.low[operations.version[earlier]])
    at = latest.before(operations.key[later], operations.invoked[later])
    matched = np.flatnonzero(at >= 0)
    earlier_match, later_match = earlier[at[matched]], later[matched]
    wrong = order.high[operations.version[later_match]] < order.low[operations.version[earlier_match]]
    return list(zip(earlier_match[wrong].tolist(), later_match[wrong].tolist(), strict=True))


def _group_by_level(operations: Operations, reads: Longs) -> Iterator[tuple[int, Longs]]:
    for level in np.unique(operations.level[reads]).tolist():
        yield level, reads[operations.level[reads] == level]


def _find_unwritten(operations: Operations) -> Sequence[int]:
    """Find the reads of values that were never put, whose put was refused, or whose put began after the read was answered."""
    reads = np.concatenate([operations.gets, operations.probes])
    reads = reads[operations.version[reads] != NOTHING]
    put = operations.put[operations.version[reads]]
    wrong = (put < 0) | operations.refused[put] | (operations.invoked[put] > operations.completed[reads])
    return sorted(reads[wrong].tolist())


# ── clocks ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _find_shadowed(operations: Operations, order: Versions) -> Pairs:
    """Find (put, later put), both acknowledged, where the later put began after the first ended and has the older version."""
    puts = operations.acknowledged_puts
    return _find_contradictions(operations, replace(order, high=order.under), puts, puts)


def _find_sightings(operations: Operations, shadowed: Pairs) -> Mapping[int, int]:
    """Map hidden puts to the first later read that shows a version whose put had ended before the hidden put began."""
    hidden = {
        key: [put for _, put in shadowed if operations.key[put] == key]
        for key in {operations.key[put] for _, put in shadowed}
    }
    found: dict[int, int] = {}
    reads, origins = _find_origins(operations, np.concatenate([operations.gets, operations.probes]))
    for read, origin in zip(reads.tolist(), origins.tolist(), strict=True):
        for put in hidden.get(operations.key[read], ()):
            if (
                put not in found
                and operations.completed[origin] < operations.invoked[put]
                and operations.completed[put] < operations.invoked[read]
            ):
                found[put] = read
    return found


def _find_origins(operations: Operations, reads: Longs) -> tuple[Longs, Longs]:
    """Return the reads that show a value that was put, and the put of each."""
    shown = reads[operations.version[reads] != NOTHING]
    put = operations.put[operations.version[shown]]
    return shown[put >= 0], put[put >= 0]


def _find_undecided(operations: Operations, late: set[int], hidden: Sequence[int]) -> Pairs:
    """Find (put, get) where the get shows an earlier value, either by clock skew or by a missed write."""
    gets, origin = _find_origins(operations, np.setdiff1d(operations.gets, np.array(sorted(late), np.int64)))
    open_puts = np.setdiff1d(operations.acknowledged_puts, np.array(hidden, np.int64))
    found: list[tuple[int, int]] = []
    for level in np.unique(operations.level[gets]).tolist():
        puts = open_puts[operations.shares[operations.level[open_puts], level]]
        is_level = operations.level[gets] == level
        last = Latest(operations.key[puts], operations.completed[puts], operations.invoked[puts]).before(
            operations.key[gets[is_level]], operations.invoked[gets[is_level]]
        )
        matched = np.flatnonzero(last >= 0)
        put, get = puts[last[matched]], gets[is_level][matched]
        wrong = operations.completed[origin[is_level][matched]] < operations.invoked[put]
        found += zip(put[wrong].tolist(), get[wrong].tolist(), strict=True)
    return sorted(found, key=lambda pair: pair[1])


def _describe_undecided(operations: Operations, undecided: Pairs) -> Iterator[Doubt]:
    if undecided:
        put, get = undecided[0]
        yield Doubt(
            "undecided",
            f"{len(undecided)} gets show a value from before an acknowledged put whose writetime is not known, so either "
            f"the clocks hide the put or the get missed it; the first: op {operations.index[get]} after "
            f"op {operations.index[put]} through {operations.nodes[operations.node[put]]}",
        )
