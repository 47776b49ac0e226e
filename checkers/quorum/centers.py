"""Data centres: what levels of consistency promise where a keyspace has replicas in several.

An answer at LOCAL_QUORUM or LOCAL_ONE stands for replicas of its coordinator's data centre alone, one at EACH_QUORUM for a majority in
each. Two answers have a replica in common if no two sets of replicas that give them can be apart. Where a node stands is what it
says of itself in the final readings (`system.local`); a node that says nothing, or two things, is nowhere, and its local answers
promise nothing to others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.node_schemas import PHASES
from schemaquake.checkers.evidence.operations import operations
from schemaquake.checkers.quorum.levels import read_factor
from schemaquake.harness.errors import HistoryError
from schemaquake.harness.model.records import plain

__all__ = ["LOCAL", "Asked", "count_at", "find_centers", "list_placements", "meet", "read_locations"]

LOCAL: Final = frozenset({"LOCAL_ONE", "LOCAL_QUORUM"})
"""Levels of which only replicas of the coordinator's data centre count."""

_ANYWHERE: Final[Mapping[str, int]] = {"ONE": 1, "TWO": 2, "THREE": 3}


class Asked(NamedTuple):
    """A level, and where it was asked for."""

    level: str
    center: str | None
    """The data centre of the coordinator; None: not known."""


class _Floor(NamedTuple):
    """The replicas that an answer stands for, at least."""

    everywhere: int
    within: Mapping[str, int]


def find_centers(history: pa.Table) -> Mapping[str, int] | None:
    """Find how many replicas each data centre has, of the keyspaces that this history makes; empty: there are not several.

    None: they differ from one possible CREATE or ALTER KEYSPACE to another. Raises HistoryError for a factor that is no number.
    """
    found = list_placements(history)
    if not any(len(centers) > 1 for centers in found):
        return {}
    return found[0] if len(found) == 1 else None


def list_placements(history: pa.Table) -> Sequence[Mapping[str, int]]:
    """List the different replicas by data centre that possible CREATEs and ALTERs of keyspaces ask for; empty where they name no data centre.

    Raises HistoryError for a factor that is no number.
    """
    named = pc.is_in(plain(history.select(["f"]))["f"], value_set=pa.array(["create-keyspace", "alter-keyspace"]))
    of_clients = pc.greater_equal(history["process"], 0)
    changes = [change for change in operations(history.filter(pc.and_(named, of_clients))) if change.possible]
    found: list[Mapping[str, int]] = []
    for change in changes:
        replication = change.argument.get("replication") or {}
        is_by_center = str(replication.get("class")).endswith("NetworkTopologyStrategy")
        counts = {name: read_factor(count) for name, count in sorted(replication.items()) if name != "class"}
        centers = counts if is_by_center else {}
        if centers not in found:
            found.append(centers)
    return found


def read_locations(evidence: Evidence) -> Mapping[str, str]:
    """Read the data centre that each node says it is in, in the final phases."""
    table = evidence.observations
    told: dict[str, set[str]] = {}
    for row in table.filter(pc.equal(table["kind"], "ring")).to_pylist():
        center = None if row["definition"] is None else orjson.loads(row["definition"])["self"].get("dc")
        if row["phase"] in PHASES and center:
            told.setdefault(row["node"], set()).add(str(center))
    return {node: next(iter(centers)) for node, centers in told.items() if len(centers) == 1}


def count_at(asked: Asked, centers: Mapping[str, int]) -> int:
    """Count the replicas that an answer stands for. Raises HistoryError for an unknown level."""
    floor = _floor(asked, centers)
    return max(floor.everywhere, sum(floor.within.values()))


def meet(one: Asked, other: Asked, centers: Mapping[str, int]) -> bool:
    """Return whether answers at these two levels have a replica in common. Raises HistoryError for an unknown level."""
    first, second = _floor(one, centers), _floor(other, centers)
    total = sum(centers.values())
    if any(first.within.get(name, 0) + second.within.get(name, 0) > count for name, count in centers.items()):
        return True
    # Apart from each other, one has at most what the other leaves it.
    left_to_first = total - sum(second.within.values())
    left_to_second = total - sum(first.within.values())
    return (
        first.everywhere > left_to_first
        or second.everywhere > left_to_second
        or first.everywhere + second.everywhere > total
    )


def _floor(asked: Asked, centers: Mapping[str, int]) -> _Floor:
    total = sum(centers.values())
    level, center = asked
    match level:
        case "ALL":
            return _Floor(total, centers)
        case "QUORUM":
            return _Floor(total // 2 + 1, {})
        case "EACH_QUORUM":
            return _Floor(0, {name: count // 2 + 1 for name, count in centers.items() if count})
        case "LOCAL_ONE" | "LOCAL_QUORUM":
            copies = centers.get(center or "")
            if center is None or copies is None:
                return _Floor(1, {})
            return _Floor(0, {center: copies // 2 + 1 if level == "LOCAL_QUORUM" else 1})
    if level not in _ANYWHERE:
        raise HistoryError(f"a put, get or probe at the level {level!r}, which reads and writes do not both have")
    return _Floor(_ANYWHERE[level], {})
