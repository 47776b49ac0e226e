"""Bulk writes: the writes, deletions and checks of rows that are described by seed and position, partition by partition.

f = `write-rows`, `delete-rows`, `delete-partition` and `check-rows` of `schemaquake.harness.model.queries`. A write is known
by its write time (`lts`): two requests with the same one are one write, which was asked for again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.findings.explanation import seconds
from schemaquake.harness.descriptors.runs import STRANGE_MOST

__all__ = ["BulkWrite", "Check", "Partition", "read_checks", "read_partitions"]

_WRITES = ("write-rows", "delete-rows", "delete-partition")


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkWrite:
    """One write or deletion of neighbouring rows of one partition. Times in ns."""

    index: int
    """The index of its first invocation."""
    partition: int
    rows: slice
    """The numbers of its rows; `slice(None)`: all of the partition."""
    lts: int
    """Its write time in µs."""
    deletes: bool
    level: str
    node: str | None
    invoked: int
    acknowledged: int | None
    """When it was acknowledged first; None: it was not."""
    refused: bool
    """True if it certainly did nothing."""

    def text(self) -> str:
        """Render it as a line of an argument."""
        rows = "all rows" if self.rows.start is None else f"rows {self.rows.start} to {self.rows.stop - 1}"
        what = f"{'delete' if self.deletes else 'write'} {rows} of partition {self.partition} at {self.level}"
        end = "without an acknowledgement" if self.acknowledged is None else f"ok at {seconds(self.acknowledged)}"
        return f"op {self.index}: {self.node or '-'} {what}, write time {self.lts} µs -> {end}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """The writes of one partition, by their write times.

    `contradictory` if two of them say different partition keys, or one of them none, or if two that differ have one write time.
    """

    number: int
    key: int | None
    """Its partition key; None: no write names it."""
    rows: int
    """One more than the highest number of a row that a write covers."""
    writes: Sequence[BulkWrite]
    contradictory: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One answered check of neighbouring partitions. Times in ns."""

    index: int
    node: str
    level: str
    first: int
    runs: Sequence[Sequence[int]]
    """For each partition from `first` on its rows, as `schemaquake.harness.descriptors.runs` has them."""
    strange: Sequence[Sequence[int]]
    """(partition, clustering, value, µs) of rows that no write can have made."""
    partitions: int | None
    """How many partitions it asked for; None: it does not say."""
    rows: int | None
    """How many rows it counted; None: it does not say."""
    invoked: int
    completed: int

    @property
    def contradicts_itself(self) -> bool:
        """True if its runs are not ascending, not of the partitions that it asked for, or not of as many rows as it counted."""
        if self.rows is None or self.partitions != len(self.runs):
            return True
        for runs in self.runs:
            ends = 0
            for first, count, lts in zip(runs[::3], runs[1::3], runs[2::3], strict=True):
                if first < ends or count < 1 or lts < 1:
                    return True
                ends = first + count
        unnamed = self.rows - sum(sum(runs[1::3]) for runs in self.runs) - len(self.strange)
        return unnamed < 0 or (unnamed > 0 and len(self.strange) < STRANGE_MOST)

    def text(self) -> str:
        """Render it as a line of an argument."""
        last = self.first + len(self.runs) - 1
        return f"op {self.index}: {self.node} check partitions {self.first} to {last} at {self.level} -> ok at {seconds(self.completed)}"


def read_partitions(evidence: Evidence) -> Mapping[int, Partition]:
    """Read the writes of every partition, by its number. Raises HistoryError."""
    found: dict[int, dict[int, BulkWrite]] = {}
    keys: dict[int, int] = {}
    contradictory: set[int] = set()
    for operation in evidence.operations(_WRITES):
        write = _write(operation)
        key = operation.argument.get("pd")
        if (key is None and not write.deletes) or (
            key is not None and keys.setdefault(write.partition, int(key)) != int(key)
        ):
            contradictory.add(write.partition)
        writes = found.setdefault(write.partition, {})
        earlier = writes.get(write.lts)
        if earlier is not None and (earlier.rows, earlier.deletes, earlier.level) != (
            write.rows,
            write.deletes,
            write.level,
        ):
            contradictory.add(write.partition)
        writes[write.lts] = write if earlier is None else _again(earlier, write)
    return {
        number: _partition(number, keys.get(number), writes, contradictory=number in contradictory)
        for number, writes in sorted(found.items())
    }


def read_checks(evidence: Evidence) -> Iterator[Check]:
    """Yield the answered checks, in order of invocation. Raises HistoryError."""
    for operation in evidence.operations(("check-rows",)):
        if operation.type == "ok" and operation.completed is not None:
            yield Check(
                index=operation.index,
                node=operation.node or "",
                level=operation.argument["consistency"],
                first=operation.argument["first"],
                runs=operation.value["runs"],
                strange=operation.value.get("strange") or (),
                partitions=operation.argument.get("count"),
                rows=operation.value.get("rows"),
                invoked=operation.invoked,
                completed=operation.completed,
            )


def _write(operation: PairedOperation) -> BulkWrite:
    value = operation.argument
    covers = slice(None)
    if operation.f != "delete-partition":
        covers = slice(value["first"], value["first"] + value["count"])
    return BulkWrite(
        index=operation.index,
        partition=value["partition"],
        rows=covers,
        lts=value["lts"],
        deletes=operation.f != "write-rows",
        level=value["consistency"],
        node=operation.node,
        invoked=operation.invoked,
        acknowledged=operation.completed if operation.type == "ok" else None,
        refused=operation.type == "fail",
    )


def _again(one: BulkWrite, other: BulkWrite) -> BulkWrite:
    """Join two requests of one write, the earlier one first."""
    ends = [end for end in (one.acknowledged, other.acknowledged) if end is not None]
    return BulkWrite(
        index=one.index,
        partition=one.partition,
        rows=one.rows,
        lts=one.lts,
        deletes=one.deletes,
        level=one.level,
        node=one.node,
        invoked=one.invoked,
        acknowledged=min(ends, default=None),
        refused=one.refused and other.refused,
    )


def _partition(number: int, key: int | None, writes: Mapping[int, BulkWrite], *, contradictory: bool) -> Partition:
    return Partition(
        contradictory=contradictory,
        number=number,
        key=key,
        rows=max((write.rows.stop for write in writes.values() if write.rows.stop is not None), default=0),
        writes=[writes[lts] for lts in sorted(writes)],
    )
