"""Lanes: the assignment of races to workers, and their timing, while the cluster is cut in two.

On the minority side of a system with consensus a statement takes ten seconds to fail, so several races are in flight at
once, each in a lane of its own: one worker pinned to side A's coordinator and up to two to the other side's. The crew
goes in rounds, one race a lane; inside a round no worker waits for another's outcome:

    lane 0   A ├──                     A: the first statement, at 0.3 s × lane
             B   ├──                   B: the second, 0.2 s later, by the clock alone
    lane 1   A    ├──
             B      ├──

Up to 5.0 the later wall clock wins, so 0.2 s apart is an order of timestamps, while the starts of lanes are 0.3 s apart
so that one coordinator is not asked for two changes in the same instant.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from schemaquake.harness.errors import PlanError
from schemaquake.harness.model.protocols import Context, Worker
from schemaquake.workloads.races.cut import isolated_nodes
from schemaquake.workloads.races.options import racing_options

__all__ = ["OFFSET_S", "RACERS_MAX", "STAGGER_S", "Place", "Seat", "rounds", "seats"]

OFFSET_S: Final = 0.2
STAGGER_S: Final = 0.3

_LANES_MIN: Final = 4
_LANES_MAX: Final = 16
_RACES_A_LANE: Final = 8

RACERS_MAX: Final = 3
"""The number of coordinators that race each other in a lane: one of side A, the others of the other side."""

Race = TypeVar("Race")


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a worker in a lane: `racer` 0 is side A's coordinator, 1 and 2 are its opponents."""

    lane: int
    racer: int

    @property
    def start_s(self) -> float:
        """The moment at which the statement leaves, in seconds after the round began."""
        return STAGGER_S * self.lane + (OFFSET_S if self.racer else 0)


@dataclass(frozen=True, slots=True)
class Seat:
    """A worker's part in the rounds; without a place (its node races in other lanes, or not at all) it writes rows."""

    worker: Worker
    place: Place | None = None


def seats(context: Context, races: int) -> tuple[Seat, ...]:
    """Return every worker's part: the first workers are one a node in the order of `context.nodes`.

    Raises PlanError if no node is cut off, or all are, or the option `lanes` is no positive number.
    """
    coordinator, others = _sides(context)
    lanes = _lane_count(context, races)
    racers = [
        [coordinator, *(others[(lane + step) % len(others)] for step in range(min(RACERS_MAX - 1, len(others))))]
        for lane in range(lanes)
    ]
    first = {node: Place(0, racer) for racer, node in enumerate(racers[0])}
    base = [Seat(Worker(index, node), first.get(node)) for index, node in enumerate(context.nodes)]
    added = [(node, Place(lane, racer)) for lane in range(1, lanes) for racer, node in enumerate(racers[lane])]
    return (*base, *(Seat(Worker(len(base) + n, node), place) for n, (node, place) in enumerate(added)))


def rounds(races: Sequence[Race], table: Sequence[Seat]) -> Iterator[Sequence[Race]]:
    """Yield the races in order, as many at a time as there are lanes: the n-th of a round belongs to lane n."""
    lanes = 1 + max(seat.place.lane for seat in table if seat.place is not None)
    for begin in range(0, len(races), lanes):
        yield races[begin : begin + lanes]


def _sides(context: Context) -> tuple[str, list[str]]:
    """Return side A's coordinator, and the nodes of the other side in an order that the seed fixes."""
    isolated = isolated_nodes(racing_options(context.options), context)
    others = [node for node in context.nodes if node not in isolated]
    if not isolated or not others:
        raise PlanError(
            f"mode partition needs nodes on both sides of the cut; isolated: {', '.join(isolated) or 'none'}, "
            f"of {', '.join(context.nodes)}"
        )
    context.random("lanes").shuffle(others)
    return isolated[0], others


def _lane_count(context: Context, races: int) -> int:
    """Return the number of lanes: four for a few races, more for many, so that ten-second failures fit the time limit."""
    lanes = racing_options(context.options).lanes
    if lanes is None:
        lanes = max(_LANES_MIN, min(_LANES_MAX, -(-races // _RACES_A_LANE)))
    return max(1, min(races, lanes))
