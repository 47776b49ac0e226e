"""Long fork: no two reads see two writes in opposite orders.

Judges reads of the same group of keys (`[["r", key, value], …]`), each key of which is written once. Under parallel
snapshot isolation one read may see x and not y, and another y and not x: the fork. Within a group the reads must form a
chain by inclusion, so sorting them by how much they saw, and comparing neighbours, decides in O(n log n).
Finds: `long-fork`. Source: Sovran and others, Transactional storage for geo-replicated systems (2011); Cerone and Gotsman.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Literal

import orjson
import pyarrow.compute as pc

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.operation_lines import OperationLines
from schemaquake.checkers.findings.argument import Argument, label
from schemaquake.checkers.findings.catalogue import anomaly
from schemaquake.checkers.findings.limits import LIMITS
from schemaquake.checkers.findings.tally import Tally
from schemaquake.harness.model.records import Records
from schemaquake.harness.model.verdict import Anomaly, Doubt, Verdict

__all__ = ["LongFork"]


@dataclass(frozen=True, slots=True)
class _Read:
    """One read of a group of keys; `seen` are the positions in the group of the keys that had a value."""

    index: int
    node: str | None
    seen: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class LongFork:
    """All reads of a group of keys see its writes in one order."""

    name: str = "long-fork"
    scope: Literal["run", "keyspace"] = "run"
    finds: tuple[str, ...] = ("long-fork",)
    vouches: bool = True

    def check(self, records: Records, *, limit_s: float) -> Verdict:  # noqa: ARG002 - n log n needs no limit
        """Judge every group of two or more keys that was read more than once. Raises HistoryError."""
        groups, rewritten = _group_reads(Evidence.of(records))
        judged = {keys: reads for keys, reads in groups.items() if len(reads) > 1}
        if not judged:
            nothing = Doubt("nothing-to-judge", "no group of keys, each written once, was read twice")
            return Verdict.unknown(self.name, nothing)
        names = orjson.loads((records.history.schema.metadata or {}).get(b"names", b"{}"))
        operations = OperationLines(records.history)
        tally = Tally(self.name, keep=LIMITS.findings)
        forks = 0
        for keys, reads in judged.items():
            for first_read, second_read in _find_forks(reads):
                forks += 1
                tally.find("long-fork", partial(_report, keys, first_read, second_read, operations, names))
        if rewritten:
            tally.doubt(
                Doubt("undecided", "written more than once, which this check cannot judge", (str(rewritten[0]),))
            )
        return tally.verdict(groups=len(judged), reads=sum(map(len, judged.values())), forks=forks)


def _group_reads(evidence: Evidence) -> tuple[Mapping[tuple[int, ...], Sequence[_Read]], Sequence[int]]:
    """Group the reads by their keys; also list the keys that had two values."""
    operations = evidence.paired()  # pairing first: a completion need not repeat the argument of its invocation
    transactions = operations.filter(pc.is_valid(operations["mops"]))
    groups: dict[tuple[int, ...], list[_Read]] = defaultdict(list)
    values: dict[int, int] = {}
    rewritten: list[int] = []
    for row in transactions.to_pylist():
        mops = row["mops"]
        if any(mop["vs"] is not None or mop["f"] == "append" for mop in mops):
            return {}, []
        if row["type"] != "fail":
            _note_values(mops, values, rewritten, only_writes=row["type"] == "info")
        keys = sorted({mop["k"] for mop in mops})
        if row["type"] == "ok" and len(keys) > 1 and all(mop["f"] == "r" for mop in mops):
            positions = {key: position for position, key in enumerate(keys)}
            seen = frozenset(positions[mop["k"]] for mop in mops if mop["v"] is not None)
            groups[tuple(keys)].append(_Read(row["index"], row["node"], seen))
    return groups, rewritten


def _note_values(
    mops: Sequence[Mapping[str, Any]], values: dict[int, int], rewritten: list[int], *, only_writes: bool
) -> None:
    for mop in mops:
        if mop["v"] is None or (only_writes and mop["f"] == "r"):
            continue
        if values.setdefault(mop["k"], mop["v"]) != mop["v"]:
            rewritten.append(mop["k"])


def _find_forks(reads: Sequence[_Read]) -> Iterator[tuple[_Read, _Read]]:
    """Yield neighbours in order of the number of keys seen, of which the first saw a key that the second did not."""
    distinct = list({read.seen: read for read in reads}.values())
    distinct.sort(key=lambda read: len(read.seen))
    for first_read, second_read in pairwise(distinct):
        if not first_read.seen <= second_read.seen:
            yield first_read, second_read


def _report(
    keys: Sequence[int], first_read: _Read, second_read: _Read, operations: OperationLines, names: Mapping[str, str]
) -> Anomaly:
    first, second = operations.lines([first_read.index, second_read.index])
    x, y = (
        names.get(str(keys[min(seen)]), keys[min(seen)])
        for seen in (first_read.seen - second_read.seen, second_read.seen - first_read.seen)
    )
    return anomaly(
        "long-fork",
        objects=[names.get(str(key), str(key)) for key in keys[: LIMITS.members]],
        nodes=[read.node for read in (first_read, second_read) if read.node is not None],
        ops=[first_read.index, second_read.index],
        evidence={
            "keys": list(keys[: LIMITS.members]),
            "one": sorted(keys[position] for position in first_read.seen)[: LIMITS.members],
            "other": sorted(keys[position] for position in second_read.seen)[: LIMITS.members],
        },
        explanation=Argument(
            label([first, second]),
            f"T1 saw the write of {x} and not that of {y}: {x} was written first.",
            f"T2 saw the write of {y} and not that of {x}: {y} was written first.",
        ).render(),
    )
