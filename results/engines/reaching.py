"""Reaching: which transactions can lie on a cycle at all, found by ranges, without any task that knows the whole graph.

`schemaquake.checkers.elle.reach` has the proof. Each range relaxes its own edges to the end (`reach`), says what it hands on
along edges into other ranges, and is asked again while what it is handed changes. Then (`gather`) it drops every edge
between different A. What is left falls into small groups of equal A: those that lie within one range are searched for
components there; the few others, joined by edges that cross ranges, are searched by `close`, group by group. Spans of
real time are joined by whoever asks. In the end (`leave_nodes`, `leave_edges`) only what may lie on a cycle is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from schemaquake.checkers.elle.graphs import ORDER, PASS, RW, WR, WW, bit, components, graph, traverse
from schemaquake.checkers.elle.projection import NODES
from schemaquake.checkers.elle.reach import relaxed, stretches
from schemaquake.checkers.elle.transactions import FAIL
from schemaquake.results.engines.dependencies import EDGES, JUNCTIONS
from schemaquake.results.engines.parts import read_parts, read_whole, write_whole
from schemaquake.results.engines.ranges import JUNCTION, owner
from schemaquake.results.engines.steps import Document

__all__ = ["close", "gather", "joined_spans", "leave_edges", "leave_nodes", "reach"]

_Numbers = npt.NDArray[np.int64]
_Mask = npt.NDArray[np.bool_]

_HANDED: Final = pa.schema([("id", pa.int64()), ("latest", pa.int64()), ("clipped", pa.bool_())])
_GROUPED: Final = pa.schema([*EDGES, pa.field("latest", pa.int64())])
_IDS: Final = pa.schema([("id", pa.int64())])
_NEVER: Final = np.iinfo(np.int64).max
_ANY: Final = bit(WW, WR, RW, ORDER, PASS)


@dataclass(frozen=True, slots=True)
class _Range:
    """The part of the graph whose edges lead into one range. `ids` are its nodes, and the sources that lie elsewhere."""

    ids: _Numbers
    elsewhere: _Mask
    latest: _Numbers
    handed: _Numbers
    clipped: _Mask
    source: _Numbers
    target: _Numbers
    kind: npt.NDArray[np.int8]
    nodes: pa.Table


def _range(document: Document) -> _Range:
    """A of a range, from what it was handed last."""
    edges = read_parts(document["edges"], EDGES)
    nodes = read_parts(document["nodes"], NODES)
    one, other = edges["source"].to_numpy(), edges["target"].to_numpy()
    ids = np.unique(np.concatenate([one, other]))
    elsewhere = owner(ids, document["ranges"]) != document["range"]
    begins, ends = np.full(len(ids), -1), np.full(len(ids), _NEVER)
    own, at = _found(ids, nodes["id"].to_numpy())
    begins[own] = nodes["invoked"].to_numpy()[at]
    if document["clip"]:
        ends[own] = nodes["completed"].fill_null(_NEVER).to_numpy()[at]
    handed = read_whole(document["handed"], _HANDED)
    clipped_there = np.zeros(len(ids), np.bool_)
    place, at = _found(ids, handed["id"].to_numpy())
    begins[place] = handed["latest"].to_numpy()[at]
    clipped_there[place] = handed["clipped"].to_numpy()[at]
    source, target = np.searchsorted(ids, one), np.searchsorted(ids, other)
    found = relaxed(begins, ends, source, target)
    return _Range(
        ids=ids,
        elsewhere=elsewhere,
        latest=found.latest,
        handed=found.handed,
        clipped=found.clipped | clipped_there,
        source=source,
        target=target,
        kind=edges["kind"].to_numpy(),
        nodes=nodes,
    )


def _found(ids: _Numbers, wanted: _Numbers) -> tuple[_Numbers, _Numbers]:
    """(where in the sorted `ids` they are, which of the wanted ones), of those that are there."""
    if not len(ids):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    place = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
    there = np.flatnonzero(ids[place] == wanted)
    return place[there], there


def reach(document: Document) -> Document:
    """Relax a range; hand on A of the nodes from which edges lead into other ranges."""
    part = _range(document)
    leaving = np.unique(read_parts(document["crossings"], _IDS)["id"].to_numpy())
    begins, clipped = np.full(len(leaving), -1), np.zeros(len(leaving), np.bool_)
    own, at = _found(leaving, part.nodes["id"].to_numpy())
    begins[own] = part.nodes["invoked"].to_numpy()[at]  # of those that no edge leads to
    place, at = _found(leaving, part.ids)
    begins[place] = part.handed[at]
    clipped[place] = part.clipped[at]
    table = pa.table([leaving, begins, clipped], schema=_HANDED)
    before = read_whole([document["before"]], _HANDED) if document["before"] else None
    file = Path(document["folder"]) / f"handed-{document['range']}-{document['round']}.parquet"
    return {
        "handed": write_whole(file, table),
        "changed": before is None or not before.equals(table),
        "asks": np.unique(owner(part.ids[part.elsewhere], document["ranges"])).tolist(),
    }


def gather(document: Document) -> Document:
    """What of a range may lie on a cycle: members of components, edges of groups that cross ranges, and spans."""
    part = _range(document)
    same = (part.latest[part.source] == part.latest[part.target]) & ~part.clipped[part.source]
    group = part.latest[part.target]
    crossing = np.isin(group, group[same & part.elsewhere[part.source]])
    within, across = np.flatnonzero(same & ~crossing), np.flatnonzero(same & crossing)
    members = _members(part.ids[part.source[within]], part.ids[part.target[within]])
    folder, number = Path(document["folder"]), document["range"]
    columns = [part.ids[part.source[across]], part.ids[part.target[across]], part.kind[across], group[across]]
    begins, ends = _spans(part) if document["clip"] else (np.zeros(0, np.int64),) * 2
    return {
        "members": _written(folder / f"members-{number}.parquet", members),
        "across": write_whole(folder / f"across-{number}.parquet", pa.table(columns, schema=_GROUPED)),
        "crossing": len(across),
        "spans": [begins.tolist(), ends.tolist()],
    }


def _spans(part: _Range) -> tuple[_Numbers, _Numbers]:
    """From the completion of each late transaction to A of it, joined."""
    place, at = _found(part.ids, part.nodes["id"].to_numpy())
    completed = part.nodes["completed"].fill_null(_NEVER).to_numpy()[at]
    late = part.latest[place] > completed
    return stretches(completed[late], part.latest[place][late])


def close(document: Document) -> Document:
    """The members of components in the groups of equal A that cross ranges; of one share of the groups."""
    edges = read_whole(document["across"], _GROUPED)
    mine = edges.filter(pa.array(edges["latest"].to_numpy() % document["shares"] == document["share"]))
    members = _members(mine["source"].to_numpy(), mine["target"].to_numpy())
    file = Path(document["folder"]) / f"members-across-{document['share']}.parquet"
    return {"members": _written(file, members)}


def _written(file: Path, members: _Numbers) -> str | None:
    """The file that has them, if there are any."""
    return write_whole(file, pa.table([members], schema=_IDS)) if len(members) else None


def _members(source: _Numbers, target: _Numbers) -> _Numbers:
    """The nodes of components with two transactions or more."""
    ids = np.unique(np.concatenate([source, target]))
    real = int(np.searchsorted(ids, JUNCTION))
    one, other = np.searchsorted(ids, source).astype(np.int32), np.searchsorted(ids, target).astype(np.int32)
    numbers = components(graph(real, len(ids), one, other, np.zeros(len(one), np.int8)), _ANY)
    found: _Numbers = ids[numbers >= 0]
    return found


# ── what is left ─────────────────────────────────────────────────────────────────────────────────────────────────────


def leave_nodes(document: Document) -> Document:
    """The transactions of a range that are members of components, or under way in one of the spans."""
    nodes = read_parts(document["nodes"], NODES)
    kept = nodes.filter(pa.array(_left(nodes, document)))
    file = Path(document["folder"]) / f"left-nodes-{document['range']}.parquet"
    return {"nodes": write_whole(file, kept)}


def leave_edges(document: Document) -> Document:
    """The edges of a share of the keys between what is left, and the junctions on the way."""
    nodes = read_whole([document["nodes"]], NODES)
    left = np.sort(nodes["id"].to_numpy()[_left(nodes, document)])
    edges = read_parts(document["edges"], EDGES)
    source, target = edges["source"].to_numpy(), edges["target"].to_numpy()
    kept = (np.isin(source, left) | (source >= JUNCTION)) & (np.isin(target, left) | (target >= JUNCTION))
    edges = edges.filter(pa.array(kept))
    source, target = source[kept], target[kept]
    on_the_way = _between(source, target)
    edges = edges.filter(pa.array(np.isin(source, on_the_way) & np.isin(target, on_the_way)))
    junctions = read_whole([document["junctions"]], JUNCTIONS)
    junctions = junctions.filter(pa.array(np.isin(junctions["id"].to_numpy(), on_the_way)))
    folder, share = Path(document["folder"]), document["share"]
    return {
        "edges": write_whole(folder / f"left-edges-{share}.parquet", edges),
        "junctions": write_whole(folder / f"left-junctions-{share}.parquet", junctions),
    }


def _left(nodes: pa.Table, document: Document) -> _Mask:
    """Which transactions may lie on a cycle. One that was aborted depends on nothing."""
    members = read_whole(document["members"], _IDS)["id"].to_numpy()
    kept = np.isin(nodes["id"].to_numpy(), members)
    begins, ends = (np.array(limits, np.int64) for limits in document["spans"])
    if len(begins):
        invoked, completed = nodes["invoked"].to_numpy(), nodes["completed"].fill_null(_NEVER).to_numpy()
        span = np.searchsorted(begins, completed, side="right") - 1  # the last one that begins before it completed
        kept |= (span >= 0) & (invoked <= ends[span])
    found: _Mask = kept & (nodes["status"].to_numpy() != FAIL)
    return found


def _between(source: _Numbers, target: _Numbers) -> _Numbers:
    """The transactions, and the junctions on a way from one to another one."""
    ids = np.unique(np.concatenate([source, target]))
    one, other = np.searchsorted(ids, source).astype(np.int32), np.searchsorted(ids, target).astype(np.int32)
    real = np.arange(int(np.searchsorted(ids, JUNCTION)), dtype=np.int32)
    passes = np.ones(len(ids), np.bool_)
    for begin, end in ((one, other), (other, one)):
        way = graph(len(real), len(ids), begin, end, np.zeros(len(begin), np.int8))
        numbers, _ = traverse(way.start, way.target, way.kind, _ANY, real)
        passes &= numbers >= 0
    found: _Numbers = ids[passes]
    return found


def joined_spans(found: Sequence[Document]) -> tuple[list[int], list[int]]:
    """The spans of all ranges, those that overlap or touch as one."""
    begins = np.array([begin for part in found for begin in part["spans"][0]], np.int64)
    ends = np.array([end for part in found for end in part["spans"][1]], np.int64)
    joined: tuple[Any, Any] = stretches(begins, ends)
    return joined[0].tolist(), joined[1].tolist()
