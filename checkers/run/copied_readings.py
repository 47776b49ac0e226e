"""Copied readings: each node was read by itself.

The nodes of a cluster that agrees show the same schema, and before 3.0 nothing in a reading says which node it is of. But every answer is
stamped when it comes (ns), so that no two nodes' readings have the same stamps: such a reading was not of its node, and is a doubt.
Single stamps may meet by chance, and so may those of a recording that stamps a whole phase at once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations
from typing import TypeAlias

import pyarrow.compute as pc

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.findings.explanation import listing

__all__ = ["find_copied_readings"]

_Reading: TypeAlias = tuple[str, str, int]
"""Phase, node, and number of the sample."""


def find_copied_readings(evidence: Evidence) -> Iterator[str]:
    """Yield the nodes that have each other's stamps: two or more in one reading, or the only one of a final reading that others lack."""
    stamps = evidence.observations.select(["phase", "node", "sample", "time"]).group_by(
        ["phase", "node", "sample", "time"], use_threads=False
    )
    distinct = stamps.aggregate([])
    counts = distinct.group_by(["phase", "time"], use_threads=False).aggregate([("node", "count_distinct")])
    if not pc.any(pc.greater(counts["node_count_distinct"], 1)).as_py():
        return
    times: dict[_Reading, set[int]] = defaultdict(set)
    for row in distinct.to_pylist():
        times[row["phase"], row["node"], row["sample"]].add(row["time"])
    nodes = {(phase, node) for phase, node, _ in times}
    holders: dict[tuple[str, int], list[_Reading]] = defaultdict(list)
    for reading, stamped in times.items():
        for time in stamped:
            holders[reading[0], time].append(reading)
    shared: dict[tuple[_Reading, _Reading], int] = defaultdict(int)
    for (phase, _), readings in holders.items():
        everybody = {reading[1] for reading in readings} == {node for other, node in nodes if other == phase}
        for one, other in combinations(sorted(readings), 2):
            alone = min(len(times[one]), len(times[other])) == 1 and phase != "running" and not everybody
            shared[one, other] += 2 if alone else 1
    copies = {(one[0], one[1], other[1]) for (one, other), count in shared.items() if count > 1 and one[1] != other[1]}
    for phase, *both in sorted(copies):
        yield f"readings of {listing(both)} of phase {phase} were answered at the same instants: one is not of its node"
