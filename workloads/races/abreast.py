"""Abreast: several races released at once on a healthy cluster, each in a keyspace and a lane of its own.

A schema change waits most of its time for other nodes, and so does the canary after it. With `-O lanes=8` eight races share one
barrier and one canary. Lane n has one worker a node, and the first lane's workers are the only ones that do what is needed once
through every coordinator (`schemaquake.workloads.one_a_node`).

Races of one round are released before any of them can do damage, but what they show may be another's doing: a reader of the results
has to treat them as one moment (`schemaquake.results.grid.facts`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from schemaquake.harness.model.protocols import Context, Worker
from schemaquake.workloads.races.one_by_one import one_at_a_time
from schemaquake.workloads.races.options import racing_options

__all__ = ["lane_of", "lanes_abreast", "rounds_abreast"]

Race = TypeVar("Race")


def lanes_abreast(context: Context, races: int) -> int:
    """Return the number of races that are released at once: one, unless the option `lanes` says more.

    One in modes `partition`, which has lanes of another kind, and `single`, and where only one schema change may be active at a time.
    """
    options = racing_options(context.options)
    if options.mode != "barrier" or one_at_a_time(context):
        return 1
    return max(1, min(options.lanes or 1, races))


def lane_of(worker: Worker, context: Context) -> int:
    """Return the lane of a worker; those of the first lane stand for their nodes."""
    return worker.index // len(context.nodes)


def rounds_abreast(races: Sequence[Race], lanes: int) -> Iterator[Sequence[Race]]:
    """Yield the races in order, as many at a time as there are lanes: the n-th of a round belongs to lane n."""
    for begin in range(0, len(races), lanes):
        yield races[begin : begin + lanes]
