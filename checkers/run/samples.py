"""Samples: the readings of nodes are numbered, and each of them is whole and there once.

The observer reads all nodes that it follows at once, numbers these readings from 1, and begins the next when all have answered. So none is
left out, no answer of one comes before the last one of an earlier number, and each node that is in a reading before and one after is in each
between; one that an operation on the topology concerns is in each up to that. A node lists an object once; only of functions and aggregates several may have one
name. What contradicts that is a doubt: a reading that is gone may have shown what should not be. Directories have no numbers, and
where they bear no ids (up to 2.0) several lives of a table may have one each.
For runs with a note of their plan alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.checkers.evidence.evidence import Evidence

__all__ = ["find_strange_samples"]

_SIGNED: Final = ("function", "aggregate", "live")
"""Kinds of accounts of which several may have one name; a memory has functions, too."""
_IDENTIFIED: Final = ("data-directory", "live")
"""Kinds of accounts whose id tells those of one name apart: directories of tables, and the kinds of what is gone from a memory."""


def find_strange_samples(evidence: Evidence) -> Iterator[str]:
    """Yield the readings that are missing or out of their order, and the accounts that are there twice."""
    if evidence.notes.planned:
        numbered = evidence.observations.filter(pc.greater(evidence.observations["sample"], 0))
        yield from _find_disorder(numbered)
        yield from _find_gaps(evidence, numbered)
        yield from _find_repeated(evidence.observations)


def _find_disorder(numbered: pa.Table) -> Iterator[str]:
    """Yield the first number that no reading has, and the first reading that was answered before one of a smaller number."""
    spans = numbered.group_by("sample", use_threads=False).aggregate([("time", "min"), ("time", "max")])
    rows = spans.sort_by("sample").to_pylist()
    lacking = next((at for at, row in enumerate(rows, 1) if row["sample"] != at), None)
    if lacking is not None:
        yield f"there is no reading number {lacking}, and there is one number {rows[-1]['sample']}"
    for one, other in pairwise(rows):
        if other["time_min"] < one["time_max"]:
            yield f"reading number {other['sample']} was answered before number {one['sample']}"
            return


def _find_gaps(evidence: Evidence, numbered: pa.Table) -> Iterator[str]:
    """Yield the nodes that are not in a reading, and are in one before and in one after it."""
    moved: dict[str, int] = {}
    for operation in evidence.notes.operations:
        moved |= {node: min(operation.invoked, moved.get(node, operation.invoked)) for node in operation.nodes}
    spans = numbered.group_by("sample", use_threads=False).aggregate([("time", "max")])
    ends = {row["sample"]: row["time_max"] for row in spans.to_pylist()}
    numbers: dict[str, set[int]] = defaultdict(set)
    for row in numbered.group_by(["node", "sample"], use_threads=False).aggregate([]).to_pylist():
        numbers[row["node"]].add(row["sample"])
    everything = sorted(set().union(*numbers.values()))
    booted = {start.node for start in evidence.notes.starts if start.phase == "boot" and start.served}
    for node, own in sorted(numbers.items()):
        first = everything[0] if node in booted else min(own)
        until = [number for number in everything if ends[number] < moved[node]] if node in moved else [max(own)]
        lacking = [number for number in everything if first <= number <= max(until, default=0) and number not in own]
        if lacking:
            yield f"{node} is not in reading number {lacking[0]}, and was followed then"


def _find_repeated(observations: pa.Table) -> Iterator[str]:
    """Yield the first account that one reading of a node has twice."""
    is_told_apart = pc.or_(pc.not_equal(observations["kind"], "data-directory"), pc.is_valid(observations["id"]))
    observations = observations.filter(is_told_apart)
    kind = observations["kind"]
    is_signed = pc.is_in(kind, value_set=pa.array(_SIGNED))
    bare = pa.scalar(None, pa.string())
    places = observations.select(["phase", "node", "sample", "kind", "keyspace", "name"])
    places = places.append_column("told", pc.if_else(is_signed, observations["definition"], bare))
    is_identified = pc.is_in(kind, value_set=pa.array(_IDENTIFIED))
    places = places.append_column("id", pc.if_else(is_identified, observations["id"], bare))
    counts = places.group_by(places.column_names, use_threads=False).aggregate([([], "count_all")])
    for row in counts.filter(pc.greater(counts["count_all"], 1)).slice(0, 1).to_pylist():
        key = ".".join(part for part in (row["keyspace"], row["name"]) if part is not None)
        account = f"{row['kind']} {key}" if key else row["kind"]
        yield f"{row['node']} shows {account} twice in one reading of phase {row['phase']}"
