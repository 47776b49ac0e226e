"""Reaching: which transactions can lie on a cycle at all, found by ranges, without any step that knows the whole graph.

`schemaquake.checkers.elle.reach` has the theorem about A. Each range relaxes its own edges to the end (`reach`), hands on A
along edges into other ranges, and is asked again while what it is handed changes; its numbered graph is kept for that. Then (`gather`) it drops every edge
between different A. What is left falls into small groups of equal A: those that lie within one range are searched for
components there; the few others, joined by edges that cross ranges, are searched by `close`, group by group. Spans of
real time are joined by the caller. In the end (`leave_nodes`, `leave_edges`) only what may lie on a cycle is left.

Each sweep of a range is linear in its edges; the number of sweeps grows with how often a longest path of dependencies goes
from one range to another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from schemaquake.checkers.elle.arrays import Longs, Mask
from schemaquake.checkers.elle.graphs import ORDER, PASS, RW, WR, WW, bit, components, graph, traverse
from schemaquake.checkers.elle.pieces.ids import JUNCTION, range_of
from schemaquake.checkers.elle.pieces.layout import EDGES
from schemaquake.checkers.elle.pieces.projection import NODES
from schemaquake.checkers.elle.pieces.shares import JUNCTIONS, JudgedShare
from schemaquake.checkers.elle.reach import along_the_edges, relaxed, stretches
from schemaquake.checkers.elle.transactions import FAIL
from schemaquake.checkers.exchange.exchange import Part, Rows
from schemaquake.harness.history.distinct import distinct

__all__ = [
    "Gathered",
    "Group",
    "Handed",
    "Left",
    "Range",
    "Spans",
    "close",
    "gather",
    "joined_spans",
    "leave_edges",
    "leave_nodes",
    "reach",
]

_HANDED: Final = pa.schema([("id", pa.int64()), ("latest", pa.int64()), ("clipped", pa.bool_())])
_GROUPED: Final = pa.schema([*EDGES, pa.field("latest", pa.int64())])
_IDS: Final = pa.schema([("id", pa.int64())])
_NUMBERED: Final = pa.schema([("source", pa.int32()), ("target", pa.int32()), ("kind", pa.int8())])
_ENDS: Final = pa.schema([("id", pa.int64()), ("begins", pa.int64()), ("ends", pa.int64()), ("elsewhere", pa.bool_())])
_LEAVING: Final = pa.schema([("id", pa.int64()), ("begins", pa.int64()), ("place", pa.int32())])
_NEVER: Final = np.iinfo(np.int64).max
_ANY: Final = bit(WW, WR, RW, ORDER, PASS)


@dataclass(frozen=True, slots=True)
class Prepared:
    """The graph of one range, its nodes numbered: edges, its nodes and the sources elsewhere, and those whose edges lead elsewhere."""

    edges: Part
    nodes: Part
    leaving: Part


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """One range of the graph: its nodes, the edges that lead into it, and the sources in it whose edges lead elsewhere.

    `clip`: real time counts. `handed` is what other ranges handed on last, `before` what this one did, `prepared` what it kept.
    """

    number: int
    ranges: Sequence[int]
    nodes: Sequence[Part]
    edges: Sequence[Part]
    crossings: Sequence[Part]
    clip: bool
    handed: Sequence[Part] = ()
    before: Part | None = None
    prepared: Prepared | None = None
    turn: int = 0


@dataclass(frozen=True, slots=True)
class Handed:
    """The flags that a range hands on, a mark for changed ones, the ranges from which edges lead into it, and what it kept."""

    handed: Part
    changed: bool
    asks: frozenset[int]
    prepared: Prepared


@dataclass(frozen=True, slots=True)
class Spans:
    """Stretches in which real time is broken: rows of the history, the first of each and the last."""

    begins: Longs
    ends: Longs


@dataclass(frozen=True, slots=True)
class Gathered:
    """Members of components within a range; `across`: edges of groups that cross ranges; None where there are none."""

    members: Part | None
    across: Part | None
    spans: Spans


@dataclass(frozen=True, slots=True)
class Group:
    """One of several shares of the groups of equal A that cross ranges."""

    across: Sequence[Part]
    number: int
    shares: int


@dataclass(frozen=True, slots=True)
class Left:
    """The transactions that may lie on a cycle: members of components, and all that were under way in the spans."""

    members: Sequence[Part]
    spans: Spans


@dataclass(frozen=True, slots=True)
class _Relaxed:
    """A of a range. `ids` are its nodes, and the sources of its edges that lie `elsewhere`; `ends` are those of its transactions."""

    prepared: Prepared
    ids: Longs
    elsewhere: Mask
    ends: Longs
    latest: Longs
    handed: Longs
    clipped: Mask
    source: Longs
    target: Longs
    kind: npt.NDArray[np.int8]


def _prepare(rows: Rows, part: Range) -> Prepared:
    """Number the nodes of a range, and keep its graph for all turns."""
    edges = rows.read(part.edges, EDGES)
    nodes = rows.read(part.nodes, NODES)
    one, other = edges["source"].to_numpy(), edges["target"].to_numpy()
    ids = distinct(np.concatenate([one, other]))
    begins, ends = np.full(len(ids), -1), np.full(len(ids), _NEVER)
    own, at = _found(ids, nodes["id"].to_numpy())
    begins[own] = nodes["invoked"].to_numpy()[at]
    if part.clip:
        ends[own] = nodes["completed"].fill_null(_NEVER).to_numpy()[at]
    leaving = distinct(rows.read(part.crossings, _IDS)["id"].to_numpy())
    first, place = np.full(len(leaving), -1), np.full(len(leaving), -1)
    own, at = _found(leaving, nodes["id"].to_numpy())
    first[own] = nodes["invoked"].to_numpy()[at]
    own, at = _found(leaving, ids)
    place[own] = at
    source, target = np.searchsorted(ids, one), np.searchsorted(ids, other)
    order = along_the_edges(len(ids), source, target)  # once for all turns
    kind = edges["kind"].to_numpy()[order]
    numbered = [source[order].astype(np.int32), target[order].astype(np.int32), kind]
    elsewhere = range_of(ids, part.ranges) != part.number
    return Prepared(
        edges=rows.keep(f"numbered-{part.number}", pa.table(numbered, schema=_NUMBERED)),
        nodes=rows.keep(f"ends-{part.number}", pa.table([ids, begins, ends, elsewhere], schema=_ENDS)),
        leaving=rows.keep(
            f"leaving-{part.number}", pa.table([leaving, first, place.astype(np.int32)], schema=_LEAVING)
        ),
    )


def _relax(rows: Rows, part: Range) -> _Relaxed:
    """Find A of a range, from what it was handed last."""
    prepared = _prepare(rows, part) if part.prepared is None else part.prepared
    edges, nodes = rows.read([prepared.edges], _NUMBERED), rows.read([prepared.nodes], _ENDS)
    ids, begins, ends = (
        nodes[name].to_numpy().copy() for name in ("id", "begins", "ends")
    )  # what is compiled takes no others
    handed = rows.read(part.handed, _HANDED)
    clipped_there = np.zeros(len(ids), np.bool_)
    place, at = _found(ids, handed["id"].to_numpy())
    begins[place] = handed["latest"].to_numpy()[at]
    clipped_there[place] = handed["clipped"].to_numpy()[at]
    source, target = edges["source"].to_numpy().astype(np.int64), edges["target"].to_numpy().astype(np.int64)
    found = relaxed(begins, ends, source, target)
    return _Relaxed(
        prepared=prepared,
        ids=ids,
        elsewhere=nodes["elsewhere"].to_numpy(),
        ends=ends,
        latest=found.latest,
        handed=found.handed,
        clipped=found.clipped | clipped_there,
        source=source,
        target=target,
        kind=edges["kind"].to_numpy(),
    )


def _found(ids: Longs, wanted: Longs) -> tuple[Longs, Longs]:
    """Look ids up in sorted ones: (where those stand that are there, which of the wanted they are)."""
    if not len(ids):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    place = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
    there = np.flatnonzero(ids[place] == wanted)
    return place[there], there


def reach(rows: Rows, part: Range) -> Handed:
    """Relax a range; hand on A of the nodes from which edges lead into other ranges."""
    found = _relax(rows, part)
    leaving = rows.read([found.prepared.leaving], _LEAVING)
    place = leaving["place"].to_numpy()
    led_to = place >= 0  # the others are only left: A of them is when they began
    begins, clipped = leaving["begins"].to_numpy().copy(), np.zeros(len(leaving), np.bool_)
    begins[led_to] = found.handed[place[led_to]]
    clipped[led_to] = found.clipped[place[led_to]]
    table = pa.table([leaving["id"], begins, clipped], schema=_HANDED)
    return Handed(
        handed=rows.keep(f"handed-{part.number}-{part.turn}", table),
        changed=part.before is None or not rows.read([part.before], _HANDED).equals(table),
        asks=frozenset(distinct(range_of(found.ids[found.elsewhere], part.ranges)).tolist()),
        prepared=found.prepared,
    )


def gather(rows: Rows, part: Range) -> Gathered:
    """Find what of a range may lie on a cycle: members of components, edges of groups that cross ranges, and spans."""
    found = _relax(rows, part)
    same = (found.latest[found.source] == found.latest[found.target]) & ~found.clipped[found.source]
    group = found.latest[found.target]
    crossing = np.isin(group, group[same & found.elsewhere[found.source]])
    within, across = np.flatnonzero(same & ~crossing), np.flatnonzero(same & crossing)
    members = _members(found.ids[found.source[within]], found.ids[found.target[within]])
    columns = [found.ids[found.source[across]], found.ids[found.target[across]], found.kind[across], group[across]]
    table = pa.table(columns, schema=_GROUPED)
    none = np.zeros(0, np.int64)
    return Gathered(
        members=_kept(rows, f"members-{part.number}", members),
        across=rows.keep(f"across-{part.number}", table) if len(across) else None,
        spans=_spans(found) if part.clip else Spans(none, none),
    )


def _spans(found: _Relaxed) -> Spans:
    """Span the time from the completion of each late transaction to A of it, and join what overlaps."""
    late = ~found.elsewhere & (found.latest > found.ends)
    return Spans(*stretches(found.ends[late], found.latest[late]))


def close(rows: Rows, group: Group) -> Part | None:
    """Find the members of components in a share of the groups that cross ranges."""
    edges = rows.read(group.across, _GROUPED)
    mine = edges.filter(pa.array(edges["latest"].to_numpy() % group.shares == group.number))
    members = _members(mine["source"].to_numpy(), mine["target"].to_numpy())
    return _kept(rows, f"members-across-{group.number}", members)


def _kept(rows: Rows, name: str, members: Longs) -> Part | None:
    return rows.keep(name, pa.table([members], schema=_IDS)) if len(members) else None


def _members(source: Longs, target: Longs) -> Longs:
    """Find the nodes of components with two transactions or more."""
    ids = distinct(np.concatenate([source, target]))
    real = int(np.searchsorted(ids, JUNCTION))
    one, other = np.searchsorted(ids, source).astype(np.int32), np.searchsorted(ids, target).astype(np.int32)
    numbers = components(graph(real, len(ids), one, other, np.zeros(len(one), np.int8)), _ANY)
    found: Longs = ids[numbers >= 0]
    return found


def joined_spans(found: Sequence[Gathered]) -> Spans:
    """Join the spans of all ranges that overlap or touch."""
    none = np.zeros(0, np.int64)
    begins = np.concatenate([none, *(part.spans.begins for part in found)])
    ends = np.concatenate([none, *(part.spans.ends for part in found)])
    return Spans(*stretches(begins, ends))


# ── what is left ─────────────────────────────────────────────────────────────────────────────────────────────────────


def leave_nodes(rows: Rows, message: tuple[int, Sequence[Part], Left]) -> Part:
    """Keep the transactions of a range that may lie on a cycle."""
    number, parts, left = message
    nodes = rows.read(parts, NODES)
    return rows.keep(f"left-nodes-{number}", nodes.filter(pa.array(_may_lie_on_a_cycle(rows, nodes, left))))


def leave_edges(rows: Rows, message: tuple[int, JudgedShare, Left]) -> tuple[Part, Part]:
    """Keep the edges of a share of the keys between transactions that are left, and the junctions on the way."""
    number, share, left = message
    nodes = rows.read([share.nodes], NODES)
    ids = np.sort(nodes["id"].to_numpy()[_may_lie_on_a_cycle(rows, nodes, left)])
    edges = rows.read(share.edges.edges, EDGES)
    source, target = edges["source"].to_numpy(), edges["target"].to_numpy()
    kept = (np.isin(source, ids) | (source >= JUNCTION)) & (np.isin(target, ids) | (target >= JUNCTION))
    edges = edges.filter(pa.array(kept))
    source, target = source[kept], target[kept]
    on_the_way = _between(source, target)
    edges = edges.filter(pa.array(np.isin(source, on_the_way) & np.isin(target, on_the_way)))
    junctions = rows.read([share.junctions], JUNCTIONS)
    junctions = junctions.filter(pa.array(np.isin(junctions["id"].to_numpy(), on_the_way)))
    return rows.keep(f"left-edges-{number}", edges), rows.keep(f"left-junctions-{number}", junctions)


def _may_lie_on_a_cycle(rows: Rows, nodes: pa.Table, left: Left) -> Mask:
    """Choose the transactions that are left. One that was aborted depends on nothing."""
    members = rows.read(left.members, _IDS)["id"].to_numpy()
    kept = np.isin(nodes["id"].to_numpy(), members)
    begins, ends = left.spans.begins, left.spans.ends
    if len(begins):
        invoked, completed = nodes["invoked"].to_numpy(), nodes["completed"].fill_null(_NEVER).to_numpy()
        span = np.searchsorted(begins, completed, side="right") - 1  # the last one that begins before it completed
        kept |= (span >= 0) & (invoked <= ends[span])
    found: Mask = kept & (nodes["status"].to_numpy() != FAIL)
    return found


def _between(source: Longs, target: Longs) -> Longs:
    """Find the transactions, and the junctions on a way from one to another one."""
    ids = distinct(np.concatenate([source, target]))
    one, other = np.searchsorted(ids, source).astype(np.int32), np.searchsorted(ids, target).astype(np.int32)
    real = np.arange(int(np.searchsorted(ids, JUNCTION)), dtype=np.int32)
    passes = np.ones(len(ids), np.bool_)
    for begin, end in ((one, other), (other, one)):
        way = graph(len(real), len(ids), begin, end, np.zeros(len(begin), np.int8))
        numbers, _ = traverse(way.start, way.target, way.kind, _ANY, real)
        passes &= numbers >= 0
    found: Longs = ids[passes]
    return found
