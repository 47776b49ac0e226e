"""Long fork: did two reads see two writes in opposite orders?

Judges reads of the same group of keys (`[["r", key, value], …]`), each key of which is written once. Under parallel
snapshot isolation one read may see x and not y, and another y and not x: the fork. Within a group the reads must form a
chain by inclusion, so sorting them by how much they saw, and comparing neighbours, decides in O(n log n).
Finds: `long-fork`. Source: Sovran and others, Transactional storage for geo-replicated systems (2011); Cerone and Gotsman.
"""  # noqa: D400 - the question it answers

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, Literal

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.checkers.evidence.operation_lines import OperationLines
from schemaquake.checkers.findings.catalogue import anomaly
from schemaquake.harness.history.pairing import pair
from schemaquake.harness.model.records import Records
from schemaquake.harness.model.verdict import Anomaly, Doubt, Verdict, make_stats

__all__ = ["LongFork"]

_TOLD_MOST: Final = 10
_KEYS_MOST: Final = 100


@dataclass(frozen=True, slots=True)
class _Read:
    """One read of a group: which of its keys had a value, as positions in the group."""

    index: int
    node: str | None
    seen: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class LongFork:
    """Reads of one group of keys saw its writes in one order."""

    name: str = "long-fork"
    scope: Literal["run", "keyspace"] = "run"
    finds: tuple[str, ...] = ("long-fork",)
    vouches: bool = True

    def check(self, records: Records, *, limit_s: float) -> Verdict:  # noqa: ARG002 - n log n needs no limit
        """Judge every group of two or more keys that was read more than once. Raises HistoryError."""
        groups, rewritten = _groups(records.history)
        judged = {keys: reads for keys, reads in groups.items() if len(reads) > 1}
        if not judged:
            nothing = Doubt("nothing-to-judge", "no group of keys, each written once, was read twice")
            return Verdict.unknown(self.name, nothing)
        names = orjson.loads((records.history.schema.metadata or {}).get(b"names", b"{}"))
        operations = OperationLines(records.history)
        anomalies: list[Anomaly] = []
        forks = 0
        for keys, reads in judged.items():
            for one, other in _forks(reads):
                forks += 1
                if len(anomalies) < _TOLD_MOST:
                    anomalies.append(_told(keys, one, other, operations, names))
        text = "written more than once, which is not for this check"
        return Verdict(
            valid=False if anomalies else "unknown" if rewritten else True,
            checker=self.name,
            anomalies=tuple(anomalies),
            stats=make_stats({"groups": len(judged), "reads": sum(map(len, judged.values())), "forks": forks}),
            doubts=(Doubt("undecided", text, (str(rewritten[0]),)),) if rewritten else (),
        )


def _groups(history: pa.Table) -> tuple[Mapping[tuple[int, ...], Sequence[_Read]], Sequence[int]]:
    """(the reads of each group, keys that had two values). Transactions that write more than one key are not this test's."""
    operations = pair(history)  # first, for a completion need not repeat what its invocation said
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
            place = {key: at for at, key in enumerate(keys)}
            seen = frozenset(place[mop["k"]] for mop in mops if mop["v"] is not None)
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


def _forks(reads: Sequence[_Read]) -> Iterator[tuple[_Read, _Read]]:
    """Neighbours, by how much they saw, of which neither saw all that the other did."""
    distinct = list({read.seen: read for read in reads}.values())
    distinct.sort(key=lambda read: len(read.seen))
    for one, other in pairwise(distinct):
        if not one.seen <= other.seen:
            yield one, other


def _told(
    keys: Sequence[int], one: _Read, other: _Read, operations: OperationLines, names: Mapping[str, str]
) -> Anomaly:
    first, second = operations.lines([one.index, other.index])
    x, y = (names.get(str(keys[min(seen)]), keys[min(seen)]) for seen in (one.seen - other.seen, other.seen - one.seen))
    return anomaly(
        "long-fork",
        objects=[names.get(str(key), str(key)) for key in keys[:_KEYS_MOST]],
        nodes=[read.node for read in (one, other) if read.node is not None],
        ops=[one.index, other.index],
        evidence={
            "keys": list(keys[:_KEYS_MOST]),
            "one": sorted(keys[at] for at in one.seen)[:_KEYS_MOST],
            "other": sorted(keys[at] for at in other.seen)[:_KEYS_MOST],
        },
        explanation=f"Let  T1 = {first}\n     T2 = {second}\nThen T1 saw the write of {x} and not that of {y}: {x} was written first."
        f"\n     But T2 saw the write of {y} and not that of {x}: {y} was written first.",
    )
