"""Shares: the findings of one share of the keys, and the dependencies that it shows, out of the history's projection on it.

`judge_share` makes of the micro-operations of the share the transactions again, as far as they touch these keys, and asks
what is asked of all keys (`schemaquake.checkers.elle.keys`). Findings in single operations are few, and are handed back whole;
dependencies are shared out by range. `justify` is asked afterwards why a transaction comes before another one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from schemaquake.checkers.elle.arrays import Ints, Longs
from schemaquake.checkers.elle.explain import Contradiction, Reason
from schemaquake.checkers.elle.graphs import Graph
from schemaquake.checkers.elle.keys import Keys, analyse_keys
from schemaquake.checkers.elle.pieces.ids import JUNCTION, range_of
from schemaquake.checkers.elle.pieces.layout import Edges, Plan, share_edges
from schemaquake.checkers.elle.pieces.projection import MICRO_OPERATIONS, Projection, restore
from schemaquake.checkers.elle.verdicts import dependent
from schemaquake.checkers.exchange.exchange import Part, Rows

__all__ = ["JUNCTIONS", "JudgedShare", "Precedence", "Share", "Shown", "judge_share", "justify"]

JUNCTIONS: Final = pa.schema(
    [("id", pa.int64()), ("sort", pa.int64()), ("rank", pa.int64()), ("rank_at", pa.int64()), ("number", pa.int64())]
)
"""Junctions, with what orders them in the history as a whole: their sort, their key, and their number within that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """One share of the keys. `operations` are its parts of the layout.

    `by_appearance`: keys are numbered as they appear. Promises are those of `analyse_keys`. `forbidden` anomalies are shown.
    """

    plan: Plan
    number: int
    operations: Sequence[Part]
    by_appearance: bool
    promises: Collection[str]
    doubted: Collection[str]
    forbidden: Collection[str]


@dataclass(frozen=True, slots=True)
class Shown:
    """A contradiction whose transactions are ids, and its rank among those of its type."""

    rank: tuple[int, ...]
    found: Contradiction


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedShare:
    """The findings of a share. `dependent`: some transaction depends on one that may have happened.

    `nodes` are the transactions that touch it, as `NODES`; `junctions` those of its dependencies, as `JUNCTIONS`.
    """

    counts: Mapping[str, int]
    shown: Mapping[str, Sequence[Shown]]
    broken: Sequence[str]
    unordered: int
    dependent: bool
    edges: Edges
    nodes: Part
    junctions: Part


@dataclass(frozen=True, slots=True)
class Precedence:
    """The claim that one transaction comes before another by a dependency of one kind; both are ids."""

    before: int
    after: int
    kind: int


def judge_share(rows: Rows, share: Share) -> JudgedShare:
    """Judge a share of the keys."""
    projection, keys = _analysed(rows, share)
    plan, ranks = share.plan, _Ranks(projection, by_appearance=share.by_appearance)
    places = {name: found for name, found in keys.places.items() if name in share.forbidden}
    graph = keys.graph()
    source = graph.source()
    key, sort = keys.junctions()
    ids = np.concatenate([projection.id, _junction_ids(projection, graph, source, share)])
    edges = ids[source], ids[graph.target], graph.kind
    columns = [ids[graph.real :], sort, ranks.major[key], ranks.minor[key], np.arange(len(key))]
    return JudgedShare(
        counts=keys.counts,
        shown={name: [_shown(keys, projection, ranks, name, at) for at in places[name]] for name in sorted(places)},
        broken=keys.broken,
        unordered=keys.unordered,
        dependent=dependent(projection.transactions, graph, unknown=plan.kind == "list-append"),
        edges=share_edges(rows, f"keys-{share.number}", edges, plan.ranges),
        nodes=rows.keep(f"touching-{share.number}", projection.nodes),
        junctions=rows.keep(f"junctions-{share.number}", pa.table(columns, schema=JUNCTIONS)),
    )


def justify(rows: Rows, message: tuple[Share, Sequence[Precedence]]) -> list[Reason | None]:
    """Say why transactions come before others, as far as keys of this share show it."""
    share, claims = message
    projection, keys = _analysed(rows, share)
    evidence = keys.evidence
    number = {int(id_): node for node, id_ in enumerate(projection.id)}
    return [
        evidence.reason(number[claim.before], number[claim.after], claim.kind)
        if claim.before in number and claim.after in number
        else None
        for claim in claims
    ]


def _analysed(rows: Rows, share: Share) -> tuple[Projection, Keys]:
    projection = restore(rows.read(share.operations, MICRO_OPERATIONS), by_appearance=share.by_appearance)
    keys = analyse_keys(projection.transactions, share.plan.kind, share.promises, share.doubted)
    return projection, keys


def _shown(keys: Keys, projection: Projection, ranks: _Ranks, name: str, place: int) -> Shown:
    """Show one contradiction. Raises AssertionError for one that the operations do not show."""
    found = keys.evidence.contradiction(name, place)
    if found is None:
        raise AssertionError(f"{name} at {place}: the operations do not show it")
    ids = tuple(int(projection.id[node]) for node in found.transactions)
    return Shown(keys.rank(name, place, ranks), Contradiction(ids, found.then, found.but, found.facts))


class _Ranks:
    """The ranks of a projection's keys, `major` first, and of its micro-operations: by id and place in the transaction."""

    def __init__(self, projection: Projection, *, by_appearance: bool) -> None:
        self._projection = projection
        transactions = projection.transactions
        self.major: Longs = transactions.keys
        self.minor: Longs = np.zeros(len(transactions.keys), np.int64)
        if by_appearance:
            _, first = np.unique(transactions.key, return_index=True)
            transaction = np.searchsorted(transactions.first, first, side="right") - 1
            self.major, self.minor = projection.id[transaction], projection.at[first].astype(np.int64)

    def of_operation(self, at: int) -> tuple[int, ...]:
        """See `KeyRanks`."""
        projection = self._projection
        return int(projection.id[projection.transactions.transaction(at)]), int(projection.at[at])

    def of_key(self, key: int) -> tuple[int, ...]:
        """See `KeyRanks`."""
        return int(self.major[key]), int(self.minor[key])


def _junction_ids(projection: Projection, graph: Graph, source: Ints, share: Share) -> Longs:
    """Give every junction an id, in the range in which the first transaction before it ends; without one, after it."""
    real, target = graph.real, graph.target
    count = graph.count - real
    never = np.iinfo(np.int64).max
    after, before = np.full(count, never), np.full(count, never)
    out_of = (source >= real) & (target < real)
    np.minimum.at(after, source[out_of] - real, projection.id[target[out_of]])
    into = (source < real) & (target >= real)
    np.minimum.at(before, target[into] - real, projection.id[source[into]])
    place = np.where(before < never, before, np.where(after < never, after, 0))
    ids: Longs = JUNCTION + (range_of(place, share.plan.ranges) << 48) + (share.number << 32) + np.arange(count)
    return ids
