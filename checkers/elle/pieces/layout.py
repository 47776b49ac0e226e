"""Layout: the transactions of each range of the history, their micro-operations shared out by key, and edges by range.

`lay_out_range` reads a range of the history once. Transactions that begin in one range and end in another are put together
where the check is made (`lay_out`), as is the order of a process from one range to the next (`order_processes`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.checkers.elle.arrays import Longs, Mask
from schemaquake.checkers.elle.graphs import ORDER
from schemaquake.checkers.elle.models import Order
from schemaquake.checkers.elle.pieces.ids import range_of
from schemaquake.checkers.elle.pieces.projection import lay_out_micro_operations, nodes_of
from schemaquake.checkers.elle.transactions import FAIL, OK, Kind, read_transactions
from schemaquake.checkers.exchange.exchange import Part, Parts, Rows
from schemaquake.checkers.exchange.frontier import FRONTIER, apart, joined
from schemaquake.harness.history.distinct import distinct
from schemaquake.harness.history.pairing import ends
from schemaquake.harness.model.operation import NEMESIS

__all__ = [
    "EDGES",
    "Edges",
    "Laid",
    "Plan",
    "Table",
    "lay_out",
    "lay_out_range",
    "order_processes",
    "share_edges",
    "share_of",
]

EDGES: Final = pa.schema([("source", pa.int64()), ("target", pa.int64()), ("kind", pa.int8())])
_SEGMENTS: Final = pa.schema(
    [
        ("process", pa.int32()),
        ("invoked", pa.int64()),
        ("first", pa.int64()),
        ("first_ok", pa.bool_()),
        ("last", pa.int64()),
        ("last_ok", pa.bool_()),
    ]
)
"""Stretches of one process without a gap: when each began, and the ids of its first and its last transaction."""

_ACROSS: Final = "across"
_MIX: Final = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class Table:
    """The table whose transactions are judged; None: those without a key."""

    key: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The facts that every step of one check knows. `table` None: the history has only one."""

    kind: Kind
    table: Table | None
    order: Order | None
    ranges: Sequence[int]
    shares: int

    @property
    def rows(self) -> int:
        """The number of events of the history."""
        return self.ranges[-1]


@dataclass(frozen=True, slots=True)
class Edges:
    """Edges by the range of their target, and the ids of sources whose edges lead elsewhere by their own range."""

    edges: Parts
    crossings: Parts


@dataclass(frozen=True, slots=True)
class Steps:
    """The order of processes within a range: edges, `_SEGMENTS`, and whether any edge joins two committed transactions."""

    edges: Edges
    segments: Part
    committed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Laid:
    """The transactions of one range. `nodes` by the range of their id, `operations` by the share of their key.

    `low` and `high` bound the keys; `first_end` is the row of the first completion of a committed transaction, `last_begin`
    that of the last invocation of one that may have happened. `frontier` are the events that the range cannot pair.
    """

    transactions: int
    micro_operations: int
    low: int
    high: int
    first_end: int
    last_begin: int
    nodes: Parts
    operations: Parts
    steps: Steps | None
    frontier: Part | None = None


def lay_out_range(rows: Rows, message: tuple[Plan, int]) -> Laid:
    """Lay out the transactions that begin and end in one range."""
    plan, number = message
    events = rows.events(number)
    places = rows.first[number] + np.arange(len(events))
    if plan.table is not None:
        chosen = _of_table(events, plan.table)
        events, places = events.filter(pa.array(chosen)), places[chosen]
    whole, frontier = apart(events, places, number)
    kept = rows.keep(f"frontier-{number}", frontier)
    # Open events are given to the nemesis, which has no transactions: to leave few rows out is to copy all others.
    process = np.where(whole, events["process"].to_numpy(), NEMESIS).astype(np.int32)
    paired = events.set_column(events.schema.get_field_index("process"), "process", pa.array(process))
    return _lay_out(rows, paired, places, plan, str(number), frontier=kept)


def lay_out(rows: Rows, plan: Plan, laid: Sequence[Laid]) -> Laid:
    """Lay out the transactions that begin in one range and end in another."""
    events, places = joined(rows.read([part.frontier for part in laid], FRONTIER))
    return _lay_out(rows, events, places, plan, _ACROSS, frontier=None)


def _of_table(events: pa.Table, table: Table) -> Mask:
    keys = events["key"]
    chosen = keys.is_null() if table.key is None else pc.fill_null(pc.equal(keys, table.key), fill_value=False)
    found: Mask = chosen.to_numpy()
    return found


def _lay_out(rows: Rows, events: pa.Table, places: Longs, plan: Plan, name: str, *, frontier: Part | None) -> Laid:
    """Lay out events that can be paired among themselves; `places` are their rows in the history."""
    transactions = read_transactions(events, plan.kind)
    invocation, completion = ends(events)
    at = completion[np.searchsorted(invocation, transactions.invoked)]
    ids = np.where(at >= 0, places[at], plan.rows + places[transactions.invoked])
    nodes = nodes_of(transactions, places, ids)
    keys = transactions.keys[transactions.key]
    operations = lay_out_micro_operations(transactions, nodes, np.ones(len(transactions.f), np.bool_))
    committed, possible = transactions.status == OK, transactions.status != FAIL
    ranges = range_of(ids, plan.ranges)
    return Laid(
        transactions=transactions.count,
        micro_operations=len(keys),
        low=int(keys.min(initial=np.iinfo(np.int64).max)),
        high=int(keys.max(initial=np.iinfo(np.int64).min)),
        first_end=int(places[transactions.completed[committed]].min(initial=np.iinfo(np.int64).max)),
        last_begin=int(places[transactions.invoked[possible]].max(initial=-1)),
        nodes=rows.share(f"nodes-{name}", nodes, ranges, len(plan.ranges) - 1),
        operations=rows.share(f"operations-{name}", operations, share_of(keys, plan.shares), plan.shares),
        steps=_order_within(rows, nodes, plan, name) if plan.order == "process" else None,
        frontier=frontier,
    )


def share_of(keys: Longs, shares: int) -> Longs:
    """Compute the share of each key; neighbours are spread."""
    mixed: Longs = (((keys.astype(np.uint64) * _MIX) >> np.uint64(40)) % np.uint64(shares)).astype(np.int64)
    return mixed


# ── the order of processes ───────────────────────────────────────────────────────────────────────────────────────────


def _order_within(rows: Rows, nodes: pa.Table, plan: Plan, name: str) -> Steps:
    """Lead from each transaction of a process to its next one in the same range, and note the segments that this makes.

    Of those across ranges each is a segment of its own: the process may have done something in between.
    """
    chosen = np.flatnonzero(nodes["status"].to_numpy() != FAIL)
    process, invoked = nodes["process"].to_numpy()[chosen], nodes["invoked"].to_numpy()[chosen]
    order = np.lexsort((invoked, process))
    process, invoked, chosen = process[order], invoked[order], chosen[order]
    ids, committed = nodes["id"].to_numpy()[chosen], nodes["status"].to_numpy()[chosen] == OK
    new = np.ones(len(chosen), np.bool_)
    if name != _ACROSS:
        new[1:] = process[1:] != process[:-1]
    source, target = np.flatnonzero(~new) - 1, np.flatnonzero(~new)
    last = np.append(np.flatnonzero(new)[1:], len(chosen))[: int(new.sum())] - 1
    columns = [process[new], invoked[new], ids[new], committed[new], ids[last], committed[last]]
    edges = ids[source], ids[target], np.full(len(source), ORDER, np.int8)
    return Steps(
        edges=share_edges(rows, f"process-{name}", edges, plan.ranges),
        segments=rows.keep(f"segments-{name}", pa.table(columns, schema=_SEGMENTS)),
        committed=bool((committed[source] & committed[target]).any()),
    )


def order_processes(rows: Rows, plan: Plan, laid: Sequence[Laid]) -> tuple[list[Edges], bool]:
    """Join the segments of each process: (all edges of the order, whether any joins two committed transactions)."""
    known = [part.steps for part in laid if part.steps is not None]
    segments = rows.read([steps.segments for steps in known], _SEGMENTS)
    segments = segments.sort_by([("process", "ascending"), ("invoked", "ascending")])
    same = np.flatnonzero(np.diff(segments["process"].to_numpy()) == 0)
    source, target = segments["last"].to_numpy()[same], segments["first"].to_numpy()[same + 1]
    last_ok, first_ok = (segments[name].to_numpy() for name in ("last_ok", "first_ok"))
    edges = source, target, np.full(len(source), ORDER, np.int8)
    between = share_edges(rows, "process-between", edges, plan.ranges)
    committed = any(steps.committed for steps in known) or bool((last_ok[same] & first_ok[same + 1]).any())
    return [*(steps.edges for steps in known), between], committed


def share_edges(rows: Rows, name: str, edges: tuple[Any, Any, Any], ranges: Sequence[int]) -> Edges:
    """Share edges out by the range of their target; say to the range of each source which ones lead elsewhere."""
    table = pa.table(list(edges), schema=EDGES)
    leaves, arrives = range_of(edges[0], ranges), range_of(edges[1], ranges)
    crossing = distinct(edges[0][leaves != arrives])
    crossings = pa.table({"id": pa.array(crossing, pa.int64())})
    count = len(ranges) - 1
    return Edges(
        edges=rows.share(f"edges-{name}", table, arrives, count),
        crossings=rows.share(f"crossings-{name}", crossings, range_of(crossing, ranges), count),
    )
