"""Row states: what a reading of a partition may show, by the writes before it, and how what it shows differs.

A write is *certain* for a reading if its replicas and those of the reading must have one in common, and it was
acknowledged before the reading began. Each row must show the latest certain write that covers it, or a possible one
with a later write time; a row that is absent shows a deletion, or that it was never written.

Replicas in common: a write that W replicas acknowledged is on W of N, less those that lost their disk since, and the
reading asks R. They must share one if W - lost + R > N. That nodes join, move, or hand their ranges over changes nothing of it: this
is what CEP-21 asks of the quorums of every two epochs that are in use.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from schemaquake.checkers.topology.bulk_writes import BulkWrite, Partition
from schemaquake.harness.descriptors.functions import Longs
from schemaquake.harness.descriptors.runs import spread_runs

__all__ = ["Disowned", "Flaw", "FlawKind", "find_disowned", "find_forgotten", "judge_reading", "owed_copies"]

FlawKind: TypeAlias = Literal["missed", "undeleted", "stale", "unwritten"]
"""A row that must be there and is not; one that was deleted; one that must have been overwritten; one of no write."""

_Mask: TypeAlias = npt.NDArray[np.bool_]


class Flaw(NamedTuple):
    """The rows of one partition that are wrong in one way in one reading, and the first of them in full."""

    kind: FlawKind
    rows: int
    row: int
    found: int
    """The write time that the first one shows, 0 if it is absent."""
    write: BulkWrite | None
    """The write that the first one must show, or a later one; None for a row of no write."""


def judge_reading(
    partition: Partition, runs: list[int], *, completed: int, certain: Callable[[BulkWrite], bool]
) -> Iterator[Flaw]:
    """Yield what is wrong in one reading of one partition, which was answered at `completed` (ns)."""
    rows = max(partition.rows, max((a + b for a, b in zip(runs[::3], runs[1::3], strict=True)), default=0))
    found = spread_runs(runs, rows)
    base, gone = np.zeros(rows, np.int64), np.ones(rows, np.bool_)
    possible: list[BulkWrite] = []
    for write in partition.writes:
        if write.refused or write.invoked >= completed:
            continue
        if certain(write):
            base[write.rows], gone[write.rows] = write.lts, write.deletes
        else:
            possible.append(write)
    legal = np.where(found == 0, gone, (found == base) & ~gone)
    if legal.all():
        return
    for write in possible:
        at = write.rows
        legal[at] |= (base[at] < write.lts) & (found[at] == (0 if write.deletes else write.lts))
    if not legal.all():
        yield from _name_flaws(partition, found, base, gone, ~legal, completed)


def _name_flaws(
    partition: Partition, found: Longs, base: Longs, gone: _Mask, wrong: _Mask, completed: int
) -> Iterator[Flaw]:
    made = found == 0
    for write in partition.writes:
        if not (write.refused or write.deletes or write.invoked >= completed):
            made[write.rows] |= found[write.rows] == write.lts
    by_lts = {write.lts: write for write in partition.writes}
    kinds: tuple[tuple[FlawKind, _Mask], ...] = (
        ("unwritten", wrong & ~made),
        ("missed", wrong & made & (found == 0)),
        ("undeleted", wrong & made & (found > 0) & gone),
        ("stale", wrong & made & (found > 0) & ~gone),
    )
    for kind, rows in kinds:
        if rows.any():
            first = int(np.argmax(rows))
            yield Flaw(kind, int(rows.sum()), first, int(found[first]), by_lts.get(int(base[first])))


class Owed(NamedTuple):
    """Rows that fewer replicas hold than acknowledged; the first of them in full."""

    rows: int
    row: int
    write: BulkWrite
    copies: int
    """How many replicas must hold that write, or a later one."""
    holders: tuple[str, ...]
    """The nodes that do."""


def owed_copies(
    partition: Partition, held: dict[str, list[int]], replicas: frozenset[str], *, copies: Callable[[BulkWrite], int]
) -> Owed | None:
    """Find rows that too few of a partition's replicas hold. None if there are none.

    `held` are the runs that each node holds itself; `copies` tells how many replicas must have a write, 0 for one that
    need not be on any. A replica that was not asked may hold everything.
    """
    states = {node: spread_runs(held[node], partition.rows) for node in sorted(replicas & held.keys())}
    unasked = len(replicas - held.keys())
    deleted = np.zeros(partition.rows, np.int64)
    for write in partition.writes:
        if write.deletes and not write.refused:
            deleted[write.rows] = write.lts
    owed = [(write, copies(write)) for write in partition.writes]
    for most in sorted({count for _, count in owed if count > 0}, reverse=True):
        base = np.zeros(partition.rows, np.int64)
        for write, count in owed:
            if count >= most:
                base[write.rows] = write.lts
        holds = {node: np.where(state > 0, state >= base, deleted >= base) for node, state in states.items()}
        holders = np.sum(list(holds.values()), axis=0) if holds else np.zeros(partition.rows, np.int64)
        short = (base > 0) & (holders + unasked < most)
        if short.any():
            row = int(np.argmax(short))
            write = next(write for write, _ in owed if write.lts == base[row])
            return Owed(int(short.sum()), row, write, most, tuple(node for node, mask in holds.items() if mask[row]))
    return None


class Disowned(NamedTuple):
    """Rows that a node showed as none of their replicas had them any more; the first of them in full."""

    rows: int
    row: int
    shown: int
    """The write time (µs) that the node showed."""
    least: int
    """The earliest write time that a replica had shown before."""


def find_disowned(
    partition: Partition,
    shown: list[int],
    held: dict[str, list[int]],
    replicas: frozenset[str],
    *,
    kept: Collection[int],
) -> Disowned | None:
    """Find rows that a node which is no replica shows with an earlier write time than each replica had shown before. None: none.

    `held` are the runs that each node held itself before. A replica's rows only become newer, so one that the node asked could not have given it these.
    `kept` are the times of writes that were on disk for good. Rows that were absent anywhere accuse nobody: a deletion leaves no write time.
    """
    if not replicas or not replicas <= held.keys():
        return None
    now = spread_runs(shown, partition.rows)
    least = np.min([spread_runs(held[node], partition.rows) for node in sorted(replicas)], axis=0)
    wrong = (now > 0) & (now < least)
    for row in np.flatnonzero(wrong).tolist():
        wrong[row] = int(least[row]) in kept
    if not wrong.any():
        return None
    row = int(np.argmax(wrong))
    return Disowned(int(wrong.sum()), row, int(now[row]), int(least[row]))


def find_forgotten(partition: Partition, shown: list[int], held: list[int]) -> Sequence[int]:
    """Find the rows that a replica shows itself with an earlier write time than it had shown before, or no more.

    A row that is absent was deleted, if any later deletion may have covered it.
    """
    now, before = (spread_runs(runs, partition.rows) for runs in (shown, held))
    deleted_by = np.zeros(partition.rows, np.int64)
    for write in partition.writes:
        if write.deletes and not write.refused:
            deleted_by[write.rows] = np.maximum(deleted_by[write.rows], write.lts)
    gone = np.where(now > 0, now < before, deleted_by < before)
    rows: list[int] = np.flatnonzero(gone & (before > 0)).tolist()
    return rows
