"""Dependencies, key by key: transactions laid out by key, each key's order and what is wrong with it, and edges between them.

`scatter` reads a range of the history once and shares its micro-operations out by key. `judge_keys` makes of one
share of the keys the transactions again, as far as they touch these keys, and has the checker of all keys judge them.
Both say where they put what they found; a finding that one key shows is small, and handed back in words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.checkers.elle import append_order, version_order
from schemaquake.checkers.elle.append_evidence import AppendEvidence
from schemaquake.checkers.elle.explain import Contradiction, Reason
from schemaquake.checkers.elle.graphs import ORDER, Graph
from schemaquake.checkers.elle.projection import MICRO_OPERATIONS, Projection, laid_out, nodes_of, restored
from schemaquake.checkers.elle.register_evidence import RegisterEvidence
from schemaquake.checkers.elle.transactions import FAIL, OK, transactions
from schemaquake.checkers.elle.verdicts import SHOWN_MOST, dependent
from schemaquake.harness.history.pairing import ends
from schemaquake.results.engines.frontier import apart
from schemaquake.results.engines.parts import read_parts, write_parts, write_whole
from schemaquake.results.engines.ranges import JUNCTION, owner, read_range
from schemaquake.results.engines.steps import Document

__all__ = ["EDGES", "JUNCTIONS", "SEGMENTS", "judge_keys", "lay_out", "reasons", "scatter", "share_of", "write_edges"]

_Numbers = npt.NDArray[np.int64]

EDGES: Final = pa.schema([("source", pa.int64()), ("target", pa.int64()), ("kind", pa.int8())])
JUNCTIONS: Final = pa.schema(
    [("id", pa.int64()), ("sort", pa.int64()), ("rank", pa.int64()), ("rank_at", pa.int64()), ("number", pa.int64())]
)
"""Junctions, with what they are sorted by in the history as a whole: their sort, their key, their number among its own."""
SEGMENTS: Final = pa.schema(
    [
        ("process", pa.int32()),
        ("invoked", pa.int64()),
        ("first", pa.int64()),
        ("first_ok", pa.bool_()),
        ("last", pa.int64()),
        ("last_ok", pa.bool_()),
    ]
)
"""What one process did without a gap: when it began, and the ids of its first and its last transaction."""

_MIX: Final = np.uint64(0x9E3779B97F4A7C15)


# ── by ranges ────────────────────────────────────────────────────────────────────────────────────────────────────────


def scatter(document: Document) -> Document:
    """The transactions of a range: their nodes, their micro-operations shared out by key, and what the range cannot pair."""
    events = read_range(document)
    rows = document["first"] + np.arange(len(events))
    if document["table"] is not None:
        mine = _of_table(events, document["table"]["key"])
        events, rows = events.filter(pa.array(mine)), rows[mine]
    whole, frontier = apart(events, rows, document["range"])
    found = lay_out(events.filter(pa.array(whole)), rows[whole], document, consecutive=True)
    file = Path(document["folder"]) / f"frontier-{document['range']}.parquet"
    return {**found, "frontier": write_whole(file, frontier)}


def _of_table(events: pa.Table, table: str | None) -> npt.NDArray[np.bool_]:
    keys = events["key"]
    mine = keys.is_null() if table is None else pc.fill_null(pc.equal(keys, table), fill_value=False)
    found: npt.NDArray[np.bool_] = mine.to_numpy()
    return found


def lay_out(events: pa.Table, rows: _Numbers, document: Document, *, consecutive: bool) -> Document:
    """The transactions of events that can be paired among themselves; `rows` says where these stand in the history.

    `consecutive`: no process did anything between two of them that is not among them.
    """
    of = transactions(events, document["kind"])
    invocation, completion = ends(events)
    at = completion[np.searchsorted(invocation, of.invoked)]
    ids = np.where(at >= 0, rows[at], document["rows"] + rows[of.invoked])
    nodes = nodes_of(of, rows, ids)
    folder, name = Path(document["folder"]), document["range"]
    keys = of.keys[of.key]
    shares = document["shares"]
    operations = laid_out(of, nodes, np.ones(len(of.f), np.bool_))
    owners = owner(ids, document["ranges"])
    counted = of.status != FAIL
    committed = of.status == OK
    found: Document = {
        "count": of.count,
        "micro_operations": len(keys),
        "low": int(keys.min(initial=np.iinfo(np.int64).max)),
        "high": int(keys.max(initial=np.iinfo(np.int64).min)),
        "first_end": int(rows[of.completed[committed]].min(initial=np.iinfo(np.int64).max)),
        "last_begin": int(rows[of.invoked[counted]].max(initial=-1)),
        "nodes": write_parts(folder / f"nodes-{name}.parquet", nodes, owners, len(document["ranges"]) - 1),
        "operations": write_parts(folder / f"operations-{name}.parquet", operations, share_of(keys, shares), shares),
    }
    if document["order"] == "process":
        found |= _in_processes(nodes, document, consecutive=consecutive)
    return found


def share_of(keys: _Numbers, shares: int) -> npt.NDArray[Any]:
    """The share in which each key is; neighbours are spread."""
    mixed: npt.NDArray[Any] = ((keys.astype(np.uint64) * _MIX) >> np.uint64(40)) % np.uint64(shares)
    return mixed


def _in_processes(nodes: pa.Table, document: Document, *, consecutive: bool) -> Document:
    """The steps from each transaction of a process to its next one, and the segments they make."""
    chosen = np.flatnonzero(nodes["status"].to_numpy() != FAIL)
    process, invoked = nodes["process"].to_numpy()[chosen], nodes["invoked"].to_numpy()[chosen]
    order = np.lexsort((invoked, process))
    process, invoked, chosen = process[order], invoked[order], chosen[order]
    ids, committed = nodes["id"].to_numpy()[chosen], nodes["status"].to_numpy()[chosen] == OK
    new = np.ones(len(chosen), np.bool_)
    if consecutive:
        new[1:] = process[1:] != process[:-1]
    source, target = np.flatnonzero(~new) - 1, np.flatnonzero(~new)
    last = np.append(np.flatnonzero(new)[1:], len(chosen))[: int(new.sum())] - 1
    columns = [process[new], invoked[new], ids[new], committed[new], ids[last], committed[last]]
    folder, name = Path(document["folder"]), document["range"]
    kinds = np.full(len(source), ORDER, np.int8)
    return {
        "ordered": bool((committed[source] & committed[target]).any()),
        "segments": write_whole(folder / f"segments-{name}.parquet", pa.table(columns, schema=SEGMENTS)),
        "dependencies": write_edges(folder, f"process-{name}", (ids[source], ids[target], kinds), document["ranges"]),
    }


def write_edges(folder: Path, name: str, edges: tuple[Any, Any, Any], ranges: Sequence[int]) -> Document:
    """Edges by the range of their target, and by the range of their source those sources whose edges lead elsewhere."""
    table = pa.table(list(edges), schema=EDGES)
    leaves, arrives = owner(edges[0], ranges), owner(edges[1], ranges)
    crossing = np.unique(edges[0][leaves != arrives])
    crossings = pa.table({"id": pa.array(crossing, pa.int64())})
    return {
        "edges": write_parts(folder / f"edges-{name}.parquet", table, arrives, len(ranges) - 1),
        "crossings": write_parts(
            folder / f"crossings-{name}.parquet", crossings, owner(crossing, ranges), len(ranges) - 1
        ),
    }


# ── by keys ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class _Evidence(Protocol):
    def reason(self, before: int, after: int, kind: int) -> Reason | None: ...

    def contradiction(self, name: str, place: int) -> Contradiction | None: ...


@dataclass(frozen=True, slots=True)
class _Keys:
    """What is known of a share of the keys. `places`: anomaly → places to be told of and what they are sorted by."""

    projection: Projection
    graph: Graph
    counts: Mapping[str, int]
    places: Mapping[str, Sequence[tuple[int, Sequence[int]]]]
    junctions: tuple[_Numbers, _Numbers]
    evidence: _Evidence
    stats: Mapping[str, Any]


def judge_keys(document: Document) -> Document:
    """Judge a share of the keys: what each key alone shows, and the dependencies between transactions."""
    keys = _keys(document)
    of, ids = keys.projection.of, keys.projection.id
    told: dict[str, list[Document]] = {}
    for name in sorted(set(keys.places) & set(document["told"])):
        told[name] = [_told(keys, name, place, order) for place, order in keys.places[name]]
    folder, share = Path(document["folder"]), document["share"]
    source = keys.graph.source()
    node_ids = np.concatenate([ids, _junction_ids(keys, source, share, document["ranges"])])
    edges = (node_ids[source], node_ids[keys.graph.target], keys.graph.kind)
    key, sort = keys.junctions
    rank, rank_at = _ranks(keys.projection, by_appearance=document["by_appearance"])
    columns = [node_ids[of.count :], sort, rank[key], rank_at[key], np.arange(len(key))]
    junctions = pa.table(columns, schema=JUNCTIONS)
    return {
        "counts": dict(keys.counts),
        "told": told,
        "dependent": dependent(of, keys.graph, unknown=document["kind"] == "list-append"),
        "dependencies": write_edges(folder, f"keys-{share}", edges, document["ranges"]),
        "nodes": write_whole(folder / f"touching-{share}.parquet", keys.projection.nodes),
        "junctions": write_whole(folder / f"junctions-{share}.parquet", junctions),
        **keys.stats,
    }


def reasons(document: Document) -> Document:
    """Why transactions come before others, as far as keys of this share show it: `[before, after, kind]` → text and facts."""
    keys = _keys(document)
    number = {int(at): node for node, at in enumerate(keys.projection.id)}
    found: list[Document | None] = []
    for before, after, kind in document["questions"]:
        reason = None
        if before in number and after in number:
            reason = keys.evidence.reason(number[before], number[after], kind)
        found.append(None if reason is None else {"text": reason.text, "facts": reason.facts})
    return {"reasons": found}


def _told(keys: _Keys, name: str, place: int, order: Sequence[int]) -> Document:
    """One contradiction. Raises AssertionError for one that the operations do not show."""
    found = keys.evidence.contradiction(name, place)
    if found is None:
        raise AssertionError(f"{name} at {place}: the operations do not show it")
    ids = [int(keys.projection.id[node]) for node in found.transactions]
    return {"order": list(order), "transactions": ids, "then": found.then, "but": found.but, "facts": found.facts}


def _keys(document: Document) -> _Keys:
    rows = read_parts(document["operations"], MICRO_OPERATIONS)
    projection = restored(rows, by_appearance=document["by_appearance"])
    return _of_kind[document["kind"]](projection, document)


def _of_lists(projection: Projection, document: Document) -> _Keys:
    of = projection.of
    appends = append_order.analyse(of)
    key = append_order.junction_keys(of, appends)
    places = {
        name: _in_operations(projection, found) for name, found in appends.found.items() if name != "dirty-update"
    }
    if "dirty-update" in appends.found:
        places["dirty-update"] = _in_orders(projection, appends.found["dirty-update"], appends.orders.start, document)
    return _Keys(
        projection=projection,
        graph=append_order.graph_of(of, appends),
        counts={name: len(found) for name, found in appends.found.items()},
        places=places,
        junctions=(key, np.zeros(len(key), np.int64)),
        evidence=AppendEvidence(of, appends),
        stats={},
    )


def _of_registers(projection: Projection, document: Document) -> _Keys:
    of = projection.of
    registers = version_order.analyse(of, document["promises"], document["doubted"])
    counts = {name: len(found) for name, found in registers.found.items()}
    places = {name: _in_operations(projection, found) for name, found in registers.found.items()}
    circles = [(broken.promise, versions) for broken in registers.broken for versions in broken.versions]
    if circles:
        counts["cyclic-versions"] = len(circles)
        places["cyclic-versions"] = _in_circles(projection, circles, registers, document)
    return _Keys(
        projection=projection,
        graph=version_order.graph_of(of, registers),
        counts=counts,
        places=places,
        junctions=version_order.junction_keys(of, registers),
        evidence=RegisterEvidence(of, registers),
        stats={
            "broken": [broken.promise for broken in registers.broken],
            "unordered": version_order.unordered_keys(of, registers),
        },
    )


_of_kind: Final[Mapping[str, Callable[[Projection, Document], _Keys]]] = {
    "list-append": _of_lists,
    "rw-register": _of_registers,
}


def _in_operations(projection: Projection, found: _Numbers) -> list[tuple[int, Sequence[int]]]:
    """Places that are micro-operations, the first ones, by transaction and place within it."""
    places = found[:SHOWN_MOST].tolist()
    return [(at, (int(projection.id[projection.of.transaction(at)]), int(projection.at[at]))) for at in places]


def _in_orders(
    projection: Projection, found: _Numbers, start: _Numbers, document: Document
) -> list[tuple[int, Sequence[int]]]:
    """Places that are positions in the orders of keys, by key."""
    rank, rank_at = _ranks(projection, by_appearance=document["by_appearance"])
    places: list[tuple[int, Sequence[int]]] = []
    for position in found[:SHOWN_MOST].tolist():
        key = int(np.searchsorted(start, position, side="right")) - 1
        places.append((position, (int(rank[key]), int(rank_at[key]), position - int(start[key]))))
    return places


def _in_circles(
    projection: Projection, circles: Sequence[tuple[str, _Numbers]], registers: Any, document: Document
) -> list[tuple[int, Sequence[int]]]:
    """Places that are circles of versions, by promise and key."""
    rank, rank_at = _ranks(projection, by_appearance=document["by_appearance"])
    order = [broken.promise for broken in registers.broken]
    of_promise = dict.fromkeys(order, 0)
    places: list[tuple[int, Sequence[int]]] = []
    for number, (promise, versions) in enumerate(circles):
        of_promise[promise] += 1
        if of_promise[promise] > SHOWN_MOST:
            continue
        version = int(versions[-1])
        key = (
            version - registers.initial
            if version >= registers.initial
            else int(np.searchsorted(registers.slots.base, int(versions[0]), side="right")) - 1
        )
        taken = version_order.TAKEN.index(promise)
        places.append((number, (taken, int(rank[key]), int(rank_at[key]), number)))
    return places


def _ranks(projection: Projection, *, by_appearance: bool) -> tuple[_Numbers, _Numbers]:
    """What each key is sorted by in the history as a whole: where it appears first, or itself."""
    of = projection.of
    if not by_appearance:
        return of.keys, np.zeros(len(of.keys), np.int64)
    _, first = np.unique(of.key, return_index=True)
    transaction = np.searchsorted(of.first, first, side="right") - 1
    return projection.id[transaction], projection.at[first].astype(np.int64)


def _junction_ids(keys: _Keys, source: Any, share: int, ranges: Sequence[int]) -> _Numbers:
    """An id for every junction; each is put into the range in which the first transaction before it ends, or after it."""
    of, target = keys.projection.of, keys.graph.target
    count = keys.graph.count - of.count
    assert count == len(keys.junctions[0])
    never = np.iinfo(np.int64).max
    place = np.full(count, never)
    after = (source >= of.count) & (target < of.count)
    np.minimum.at(place, source[after] - of.count, keys.projection.id[target[after]])
    into = (source < of.count) & (target >= of.count)
    before = np.full(count, never)
    np.minimum.at(before, target[into] - of.count, keys.projection.id[source[into]])
    place = np.where(before < never, before, np.where(place < never, place, 0))
    return JUNCTION + (owner(place, ranges) << 48) + (share << 32) + np.arange(count)
