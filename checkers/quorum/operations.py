"""Quorum operations: puts, gets and probes of a history as arrays, with the number of replicas of their levels.

f = `put`, `get` and `probe` of `schemaquake.harness.model.queries`. A *version* is one value of one key; values are unique,
so a version has one put. A value that was read and never put is a version without a put. A key without a value has the
version `NOTHING`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.quorum.centers import LOCAL, Asked, count_at, meet
from schemaquake.harness.errors import HistoryError
from schemaquake.harness.history.pairing import pair
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.records import plain

__all__ = [
    "NEVER",
    "NOTHING",
    "Operations",
    "count_copies",
    "count_replicas",
    "find_replication_factors",
    "list_replication_factors",
    "read_quorum_operations",
    "share_a_replica",
]

Longs: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]

NEVER: Final = np.iinfo(np.int64).max
"""The completion time of an operation without a known end: it may take effect at any later time."""
NOTHING: Final = -1
"""The version of a key without a value."""

_QUORUM_OPERATIONS: Final = ("put", "get", "probe")


@dataclass(frozen=True, slots=True, kw_only=True)
class Operations:
    """The quorum operations of a history, answered or not, one element per operation, in order of invocation.

    `key` and `node` are positions in `keys` and `nodes`. `completed` of a put is `NEVER` unless it was acknowledged.
    `levels` are the levels of consistency, `level` their positions among the distinct ones (of local ones, those of each data centre are
    distinct), `copies` their numbers of replicas;
    `shares[w, r]` says whether answers at levels w and r have a replica in common. `version` of a read that found nothing is
    `NOTHING`; `writetime` is µs, −1 if unknown. `value` and `put` have one element per version: its value, and the
    position of its put, −1 without one.
    """

    rows: pa.Table
    """`schemaquake.harness.history.pairing.OPERATIONS` of these operations, for explanations."""
    keys: Sequence[str]
    nodes: Sequence[str]
    index: Longs
    f: npt.NDArray[np.int8]  # position in ("put", "get", "probe")
    acknowledged: Mask
    refused: Mask
    key: Longs
    node: Longs
    levels: Sequence[str]
    level: Longs
    shares: Mask
    copies: Longs
    invoked: Longs
    completed: Longs
    version: Longs
    writetime: Longs
    value: Longs
    put: Longs

    @property
    def puts(self) -> Longs:
        """Positions of all puts."""
        return np.flatnonzero(self.f == 0)

    @property
    def acknowledged_puts(self) -> Longs:
        """Positions of the puts that were acknowledged."""
        return np.flatnonzero((self.f == 0) & self.acknowledged)

    @property
    def gets(self) -> Longs:
        """Positions of the gets that were answered."""
        return np.flatnonzero((self.f == 1) & self.acknowledged)

    @property
    def probes(self) -> Longs:
        """Positions of the probes that were answered."""
        return np.flatnonzero((self.f == 2) & self.acknowledged)


def read_quorum_operations(
    evidence: Evidence,
    *,
    factors: Collection[int],
    centers: Mapping[str, int] = {},
    locations: Mapping[str, str] = {},
) -> Operations:
    """Read the puts, gets and probes of a history.

    `factors` are the replication factors that requests may have gone by; `copies` are those of the greatest. If there are several data
    centres, `centers` has the replicas of each, and `locations` the data centre of each node that is known.

    Raises HistoryError for a value that is no integer, for a value that was put twice into one key, and for a level of
    consistency that reads and writes do not both have.
    """
    rows = plain(evidence.pair_functions(_QUORUM_OPERATIONS))
    f = pc.index_in(rows["f"], value_set=pa.array(_QUORUM_OPERATIONS)).to_numpy().astype(np.int8)
    acknowledged = pc.equal(rows["type"], "ok").to_numpy(zero_copy_only=False)
    refused = pc.equal(rows["type"], "fail").to_numpy(zero_copy_only=False)
    index = rows["index"].to_numpy()
    requests, answers = _parse_objects(rows["argument"]), _parse_objects(rows["value"])
    key, keys = _encode(rows["key"])
    node, nodes = _encode(rows["node"])
    completed = pc.fill_null(rows["completed"], NEVER).to_numpy().copy()
    completed[(f == 0) & ~acknowledged] = NEVER
    levels = [str(document.get("consistency")) for document in requests]
    asked = [
        Asked(level, locations.get(nodes[at]) if centers and level in LOCAL else None)
        for level, at in zip(levels, node.tolist(), strict=True)
    ]
    kinds = sorted(set(asked), key=lambda each: (each.level, each.center or ""))
    if centers:
        copies_by_kind = {each: count_at(each, centers) for each in kinds}
        shares = [[meet(one, other, centers) for other in kinds] for one in kinds]
    else:
        copies_by_kind = {each: count_replicas(each.level, max(factors)) for each in kinds}
        shares = [[share_a_replica(one.level, other.level, factors) for other in kinds] for one in kinds]
    # A put has its value in its invocation, a read in its completion; an unanswered read has none.
    raw_values = [
        (document if kind == 0 else answer).get("value")
        for kind, document, answer in zip(f, requests, answers, strict=True)
    ]
    present, values = _parse_integers(raw_values, index, is_put=f == 0)
    has_writetime, writetimes = _parse_integers(
        [document.get("writetime") for document in answers], index, is_put=np.zeros(len(f), bool)
    )
    version, value, put = _number_versions(key, present, values, np.flatnonzero(f == 0), index)
    return Operations(
        rows=rows,
        keys=keys,
        nodes=nodes,
        index=index,
        f=f,
        acknowledged=acknowledged,
        refused=refused,
        key=key,
        node=node,
        levels=levels,
        level=np.array([kinds.index(each) for each in asked], np.int64),
        shares=np.array(shares, np.bool_).reshape(len(kinds), len(kinds)),
        copies=np.array([copies_by_kind[each] for each in asked], np.int64),
        invoked=rows["invoked"].to_numpy(),
        completed=completed,
        version=version,
        writetime=np.where(has_writetime, writetimes, -1),
        value=value,
        put=put,
    )


def find_replication_factors(history: pa.Table) -> frozenset[int]:
    """Find every replication factor that a possible CREATE or ALTER KEYSPACE may have set."""
    return frozenset(list_replication_factors(history))


def list_replication_factors(history: pa.Table) -> Sequence[int]:
    """List the replication factors that possible CREATEs and ALTERs may have set, as they were asked for; none twice in a row.

    Of more than two a node may have been a replica, ceased to be one, dropped its rows and become one again: then answers at
    two levels owe each other nothing (`share_a_replica`).
    """
    keyspace_changes = history.filter(
        pc.and_(
            pc.is_in(plain(history.select(["f"]))["f"], value_set=pa.array(["create-keyspace", "alter-keyspace"])),
            pc.greater_equal(history["process"], 0),
        )
    )
    changes = plain(pair(keyspace_changes))
    possible = changes.filter(pc.not_equal(changes["type"], "fail"))
    factors = [_sum_copies(document.get("replication") or {}) for document in _parse_objects(possible["argument"])]
    return [factor for factor, _ in groupby(factors)]


def count_replicas(level: str, replication_factor: int) -> int:
    """Count the replicas that an answer at this level stands for. Raises HistoryError for an unknown level."""
    majority = replication_factor // 2 + 1
    known = {"ONE": 1, "LOCAL_ONE": 1, "TWO": 2, "THREE": 3, "ALL": replication_factor}
    known |= dict.fromkeys(("QUORUM", "LOCAL_QUORUM", "EACH_QUORUM"), majority)
    if level not in known:
        raise HistoryError(f"a put, get or probe at the level {level!r}: known are {', '.join(sorted(known))}")
    return known[level]


def share_a_replica(write: str, read: str, factors: Collection[int], *, lost: int = 0) -> bool:
    """Return whether answers at these two levels have a replica in common, whichever of these factors each went by.

    `lost` replicas lost their disk in between. Raises HistoryError for an unknown level.
    """
    return all(
        (copies := count_copies(write, written, read_by) - lost) > 0
        and copies + count_replicas(read, read_by) > read_by
        for written in factors
        for read_by in factors
    )


def count_copies(level: str, written: int, placed: int) -> int:
    """Count the replicas of factor `placed` that hold, at least, what was acknowledged at this level by factor `written`.

    The replicas of a lower factor are among those of a higher one, as SimpleStrategy places them. Raises HistoryError for an unknown
    level.
    """
    return count_replicas(level, written) - max(0, written - placed)


def _sum_copies(replication: Mapping[str, JSON]) -> int:
    """Sum the replication factors of all data centres."""
    return sum(int(copies) for option, copies in replication.items() if option != "class")


def _parse_objects(column: pa.ChunkedArray) -> list[dict[str, Any]]:
    """Parse a column of JSON objects in one go; null and any other value become empty objects."""
    texts = pc.fill_null(column, "null").to_pylist()
    return [document if isinstance(document, dict) else {} for document in orjson.loads(f"[{','.join(texts)}]")]


def _encode(column: pa.ChunkedArray) -> tuple[Longs, Sequence[str]]:
    encoded = pc.fill_null(column, "").combine_chunks().dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary.to_pylist()


def _parse_integers(numbers: Sequence[Any], index: Longs, *, is_put: Mask) -> tuple[Mask, Longs]:
    """Return a mask of the integers that are present, and the integers, 0 where absent; a put must have one."""
    for number, operation, is_required in zip(numbers, index, is_put, strict=True):
        if type(number) is not int and (is_required or number is not None):
            raise HistoryError(
                f"op {operation}: {number!r} is not a value that a put, get or probe can have; they are integers"
            )
    return (
        np.array([number is not None for number in numbers], np.bool_),
        np.array([0 if number is None else number for number in numbers], np.int64),
    )


def _number_versions(key: Longs, present: Mask, values: Longs, puts: Longs, index: Longs) -> tuple[Longs, Longs, Longs]:
    """Return the version of each operation, and the value and the put of each version."""
    positions = np.flatnonzero(present)
    order = positions[np.lexsort((values[positions], key[positions]))]
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = (np.diff(key[order]) != 0) | (np.diff(values[order]) != 0)
    version = np.full(len(key), NOTHING, np.int64)
    version[order] = np.cumsum(is_first) - 1
    put = np.full(int(is_first.sum()), -1, np.int64)
    put[version[puts]] = puts
    duplicates = puts[put[version[puts]] != puts]
    if len(duplicates):
        first, other = int(duplicates[0]), int(put[version[duplicates[0]]])
        raise HistoryError(
            f"op {index[first]} and op {index[other]} put the same value {values[first]} into one key: "
            "a read of this value could show either"
        )
    return version, values[order[is_first]], put
