"""Quorum operations: puts, gets and probes of a history as arrays, with the number of replicas of their levels.

f = `put`, `get` and `probe` of `schemaquake.harness.model.queries`. A *version* is one value of one key; values are unique,
so a version has one put. A value that was read and never put is a version without a put. A key without a value has the
version `NOTHING`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.topology_operations import Around
from schemaquake.checkers.quorum.centers import LOCAL, Asked, count_at, meet
from schemaquake.checkers.quorum.factors import FactorSeries, Moment
from schemaquake.checkers.quorum.levels import count_replicas, sum_factors
from schemaquake.checkers.quorum.processes import NEVER
from schemaquake.harness.errors import HistoryError
from schemaquake.harness.history.pairing import pair
from schemaquake.harness.model.records import plain

__all__ = [
    "NEVER",
    "NOTHING",
    "Operations",
    "find_replication_factors",
    "read_quorum_operations",
]

Longs: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]

NOTHING: Final = -1
"""The version of a key without a value."""

_QUORUM_OPERATIONS: Final = ("put", "get", "probe")


@dataclass(frozen=True, slots=True, kw_only=True)
class Operations:
    """The quorum operations of a history, answered or not, one element per operation, in order of invocation.

    `key` and `node` are positions in `keys` and `nodes`. `completed` of a put is `NEVER` unless it was acknowledged.
    `levels` are the levels of consistency, `level` their positions among the distinct ones (of local ones, those of each data centre are
    distinct, and where the replication factor changed, those of each moment, `moments`), `copies` their numbers of replicas;
    `shares[w, r]` says whether answers at levels w and r have a replica in common, whatever disks operations took away between them,
    `may_share[w, r]` whether they have by some of the factors that they may have gone by if no disk was lost. `version` of a read that found nothing is
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
    may_share: Mask
    moments: Sequence[Moment]
    """By `level`."""
    losses: Sequence[Around]
    """The operations around a request that took disks away, by `level`."""
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
    series: FactorSeries,
    centers: Mapping[str, int] = {},
    locations: Mapping[str, str] = {},
) -> Operations:
    """Read the puts, gets and probes of a history.

    `series` has the replication factors that requests may have gone by; `copies` are those of the greatest. If there are several data
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
    invoked = rows["invoked"].to_numpy()
    losses = evidence.notes.losses

    def kind(level: str, at: int, began: int, ended: int) -> _Kind:
        asked = Asked(level, locations.get(nodes[at]) if centers and level in LOCAL else None)
        return _Kind(asked, series.moment(nodes[at], began, ended), losses.around(began, ended))

    places = zip(levels, node.tolist(), strict=True)
    if series.is_constant and not losses:  # when it was asked makes no difference
        find = cache(lambda level, at: kind(level, at, 0, 0))
        asked = [find(level, at) for level, at in places]
    else:
        times = zip(invoked.tolist(), completed.tolist(), strict=True)
        asked = [kind(*place, *time) for place, time in zip(places, times, strict=True)]
    kinds = sorted(set(asked), key=lambda each: (each.asked.level, each.asked.center or "", each.by, each.around))
    place_of_kind = {each: place for place, each in enumerate(kinds)}
    highest = max(series.factors, default=1)
    copies_by_kind = [
        count_at(kind.asked, centers) if centers else count_replicas(kind.asked.level, highest) for kind in kinds
    ]
    shares, may_share = (
        [[_is_shared(one, other, series, centers, certain=certain) for other in kinds] for one in kinds]
        for certain in (True, False)
    )
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
        level=(level := np.array([place_of_kind[each] for each in asked], np.int64)),
        shares=np.array(shares, np.bool_).reshape(len(kinds), len(kinds)),
        may_share=np.array(may_share, np.bool_).reshape(len(kinds), len(kinds)),
        moments=[kind.by for kind in kinds],
        losses=[kind.around for kind in kinds],
        copies=np.array(copies_by_kind, np.int64)[level],
        invoked=invoked,
        completed=completed,
        version=version,
        writetime=np.where(has_writetime, writetimes, -1),
        value=value,
        put=put,
    )


class _Kind(NamedTuple):
    """A kind of request: all of one kind are promised the same."""

    asked: Asked
    by: Moment
    around: Around


def _is_shared(one: _Kind, other: _Kind, series: FactorSeries, centers: Mapping[str, int], *, certain: bool) -> bool:
    """Return whether the later request must (not `certain`: may) meet a copy of what the earlier one wrote or saw."""
    lost = one.around.lost_until(other.around)
    if centers:  # which data centre a lost disk was in, and whom it was streamed from, is not followed
        return (not lost or not certain) and meet(one.asked, other.asked, centers)
    if not series.factors:
        return False
    lost = lost if certain else 0
    return series.share(one.asked.level, one.by, other.asked.level, other.by, lost=lost, certain=certain)


def find_replication_factors(history: pa.Table) -> frozenset[int]:
    """Find every replication factor that a possible CREATE or ALTER KEYSPACE may have set."""
    is_change = pc.is_in(plain(history.select(["f"]))["f"], value_set=pa.array(["create-keyspace", "alter-keyspace"]))
    changes = plain(pair(history.filter(is_change)))
    possible = changes.filter(pc.not_equal(changes["type"], "fail"))
    return frozenset(
        sum_factors(document.get("replication") or {}) for document in _parse_objects(possible["argument"])
    )


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
