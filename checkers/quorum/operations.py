"""Quorum operations: puts, gets and probes of a history as arrays, with how many replicas their levels speak of.

f = `put`, `get` and `probe` of `schemaquake.harness.model.queries`. A *version* is one value of one key; values are unique, so a version
has one put. What nobody put is a version without one. No version at all (a key without a value) is `NOTHING`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.harness.errors import HistoryError
from schemaquake.harness.history.pairing import pair
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.records import plain

__all__ = ["NEVER", "NOTHING", "Operations", "quorum_operations", "replicas_of", "replication_factors"]

Longs: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]

NEVER: Final = np.iinfo(np.int64).max
"""When an operation ends that nobody saw end: it may take effect at any later time."""
NOTHING: Final = -1

_QUORUM_OPERATIONS: Final = ("put", "get", "probe")


@dataclass(frozen=True, slots=True, kw_only=True)
class Operations:
    """One element an operation, in order of invocation, answered or not.

    `key` and `node` are positions in `keys` and `nodes`. `completed` of a put is `NEVER` unless it was acknowledged.
    `levels` are the levels of consistency, `copies` how many replicas they speak of. `version` of a read that found nothing is
    `NOTHING`; `writetime` is µs, null as −1. Of a version: its `value`, and `put`, the position of its put, or −1.
    """

    rows: pa.Table
    """`schemaquake.harness.history.pairing.OPERATIONS` of these operations, for whoever tells of them."""
    keys: Sequence[str]
    nodes: Sequence[str]
    index: Longs
    f: npt.NDArray[np.int8]  # position in ("put", "get", "probe")
    acknowledged: Mask
    refused: Mask
    key: Longs
    node: Longs
    levels: Sequence[str]
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


def quorum_operations(history: pa.Table, *, replication_factor: int) -> Operations:
    """The puts, gets and probes of a history (`schemaquake.harness.model.records.HISTORY`).

    Raises HistoryError for a value that is no integer, for a value that was put twice into one key, and for a level of
    consistency that reads and writes do not both have.
    """
    rows = _rows(history)
    f = pc.index_in(rows["f"], value_set=pa.array(_QUORUM_OPERATIONS)).to_numpy().astype(np.int8)
    acknowledged = pc.equal(rows["type"], "ok").to_numpy(zero_copy_only=False)
    refused = pc.equal(rows["type"], "fail").to_numpy(zero_copy_only=False)
    index = rows["index"].to_numpy()
    asked, told = _documents(rows["argument"]), _documents(rows["value"])
    key, keys = _codes(rows["key"])
    node, nodes = _codes(rows["node"])
    completed = pc.fill_null(rows["completed"], NEVER).to_numpy().copy()
    completed[(f == 0) & ~acknowledged] = NEVER
    levels = [str(document.get("consistency")) for document in asked]
    copies_of = {level: replicas_of(level, replication_factor) for level in set(levels)}
    # A put says its value when it is invoked, a read when it is answered; a read that was not answered found nothing out.
    held = [
        (document if kind == 0 else answer).get("value") for kind, document, answer in zip(f, asked, told, strict=True)
    ]
    there, values = _integers(held, index, is_put=f == 0)
    stamped, stamps = _integers([document.get("writetime") for document in told], index, is_put=np.zeros(len(f), bool))
    version, value, put = _versions(key, there, values, np.flatnonzero(f == 0), index)
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
        copies=np.array([copies_of[level] for level in levels], np.int64),
        invoked=rows["invoked"].to_numpy(),
        completed=completed,
        version=version,
        writetime=np.where(stamped, stamps, -1),
        value=value,
        put=put,
    )


def replication_factors(history: pa.Table) -> frozenset[int]:
    """How many replicas the keyspace may have been told to keep, by every CREATE and ALTER KEYSPACE that may have happened."""
    of_keyspaces = history.filter(
        pc.and_(
            pc.is_in(plain(history.select(["f"]))["f"], value_set=pa.array(["create-keyspace", "alter-keyspace"])),
            pc.greater_equal(history["process"], 0),
        )
    )
    changes = plain(pair(of_keyspaces))
    possible = changes.filter(pc.not_equal(changes["type"], "fail"))
    return frozenset(_copies_of(document.get("replication") or {}) for document in _documents(possible["argument"]))


def replicas_of(level: str, replication_factor: int) -> int:
    """How many replicas an answer at this level stands for. Raises HistoryError for any other level."""
    majority = replication_factor // 2 + 1
    known = {"ONE": 1, "LOCAL_ONE": 1, "TWO": 2, "THREE": 3, "ALL": replication_factor}
    known |= dict.fromkeys(("QUORUM", "LOCAL_QUORUM"), majority)
    if level not in known:
        raise HistoryError(f"a put, get or probe at the level {level!r}: known are {', '.join(sorted(known))}")
    return known[level]


def _copies_of(replication: Mapping[str, JSON]) -> int:
    """All copies that a keyspace keeps, over all its data centres."""
    return sum(int(copies) for option, copies in replication.items() if option != "class")


def _rows(history: pa.Table) -> pa.Table:
    """The paired operations that are judged. They are cut out first: a history may be of much else."""
    mine = history.filter(
        pc.and_(
            pc.is_in(plain(history.select(["f"]))["f"], value_set=pa.array(_QUORUM_OPERATIONS)),
            pc.greater_equal(history["process"], 0),
        )
    )
    return plain(pair(mine))


def _documents(column: pa.ChunkedArray) -> list[dict[str, Any]]:
    """A column of JSON objects, read in one go; null, and what is no object, is an empty one."""
    texts = pc.fill_null(column, "null").to_pylist()
    return [document if isinstance(document, dict) else {} for document in orjson.loads(f"[{','.join(texts)}]")]


def _codes(column: pa.ChunkedArray) -> tuple[Longs, Sequence[str]]:
    encoded = pc.fill_null(column, "").combine_chunks().dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary.to_pylist()


def _integers(told: Sequence[Any], index: Longs, *, is_put: Mask) -> tuple[Mask, Longs]:
    """Where there is a number, and the numbers; of a put there must be one."""
    for number, at, needed in zip(told, index, is_put, strict=True):
        if type(number) is not int and (needed or number is not None):
            raise HistoryError(
                f"op {at}: {number!r} is not a value that a put, get or probe can have; they are integers"
            )
    return (
        np.array([number is not None for number in told], np.bool_),
        np.array([0 if number is None else number for number in told], np.int64),
    )


def _versions(key: Longs, there: Mask, values: Longs, puts: Longs, index: Longs) -> tuple[Longs, Longs, Longs]:
    """The version of each operation, and of each version its value and its put."""
    at = np.flatnonzero(there)
    order = at[np.lexsort((values[at], key[at]))]
    new = np.ones(len(order), np.bool_)
    new[1:] = (np.diff(key[order]) != 0) | (np.diff(values[order]) != 0)
    version = np.full(len(key), NOTHING, np.int64)
    version[order] = np.cumsum(new) - 1
    put = np.full(int(new.sum()), -1, np.int64)
    put[version[puts]] = puts
    twice = puts[put[version[puts]] != puts]
    if len(twice):
        first, other = int(twice[0]), int(put[version[twice[0]]])
        raise HistoryError(
            f"op {index[first]} and op {index[other]} put the same value {values[first]} into one key: "
            "which of them a read shows could not be told"
        )
    return version, values[order[new]], put
