"""Strategies: the replicas of each range of a ring (`locator/SimpleStrategy.java`, `locator/NetworkTopologyStrategy.java`).

Both walk the ring from the end of a range. SimpleStrategy takes the first distinct nodes. NetworkTopologyStrategy takes, in each
data centre, a node of every rack before a second one of any. Where some replicas are transient (`3/1`, CASSANDRA-14404), the first ones
of a range are full and the last ones transient.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import NamedTuple, Protocol, TypeAlias

from schemaquake.harness.placements.ring import Ring, TokenRange

__all__ = ["Factor", "Group", "NetworkTopology", "Placement", "Replica", "Simple", "Strategy", "parse_strategy"]


class Replica(NamedTuple):
    """A node that has a range; a transient one (not full) has only what is not yet repaired."""

    node: str
    full: bool = True


Group: TypeAlias = tuple[Replica, ...]
"""The replicas of one range, the first one first."""


class Factor(NamedTuple):
    """A replication factor: the number of replicas, and how many of them are transient."""

    total: int
    transient: int = 0

    @classmethod
    def parse(cls, text: str) -> Factor:
        """Parse `3` or `3/1`. Raises ValueError."""
        total, _, transient = text.partition("/")
        factor = cls(int(total), int(transient or 0))
        if not 0 <= factor.transient <= max(factor.total - 1, 0):
            raise ValueError(f"of {factor.total} replicas {factor.transient} cannot be transient")
        return factor


@dataclass(frozen=True, slots=True)
class Placement:
    """The replicas of every range: `groups[i]` has the tokens after `ends[i - 1]` up to and including `ends[i]`."""

    ends: tuple[int, ...]
    groups: tuple[Group, ...]

    def at(self, token: int) -> Group:
        """Return the replicas of a token; empty if there is no range."""
        return self.groups[bisect_left(self.ends, token) % len(self.ends)] if self.ends else ()

    def items(self) -> Iterator[tuple[TokenRange, Group]]:
        """Yield every range with its replicas, in the order of their ends."""
        for place, end in enumerate(self.ends):
            yield TokenRange(self.ends[place - 1], end), self.groups[place]

    def split(self, ends: Sequence[int]) -> Placement:
        """Return the same placement over these ranges, whose ends have all those of this one among them. Raises ValueError."""
        if missing := sorted(set(self.ends) - set(ends)):
            raise ValueError(f"the ranges that end at {missing} would be merged")
        return Placement(tuple(ends), tuple(self.at(end) for end in ends))


class Strategy(Protocol):
    """A way to place replicas."""

    def replicate(self, ring: Ring) -> Placement:
        """Return the replicas of every range of the ring."""
        ...

    def factor(self, data_center: str) -> Factor:
        """Return the replication factor in a data centre; one that does not know data centres has one for all of them."""
        ...


@dataclass(frozen=True, slots=True)
class Simple:
    """The next distinct nodes on the ring, wherever they are."""

    replication: Factor

    def factor(self, data_center: str) -> Factor:  # noqa: ARG002 - there is one
        """Return the replication factor of the cluster."""
        return self.replication

    def replicate(self, ring: Ring) -> Placement:
        """Return the replicas of every range of the ring."""
        count = min(self.replication.total, len(ring.locations))
        full = _full(self.replication, count)
        groups = []
        for place in range(len(ring.tokens)):
            nodes: dict[str, None] = {}
            for node in ring.walk(place):
                if len(nodes) == count:
                    break
                nodes[node] = None
            groups.append(tuple(Replica(node, number < full) for number, node in enumerate(nodes)))
        return Placement(ring.tokens, tuple(groups))


@dataclass(frozen=True)
class NetworkTopology:
    """So many replicas in each data centre, in as many racks as there are."""

    factors: Mapping[str, Factor]
    """By data centre; one that is not named has no replica."""

    def factor(self, data_center: str) -> Factor:
        """Return the replication factor in a data centre."""
        return self.factors.get(data_center, Factor(0))

    def replicate(self, ring: Ring) -> Placement:
        """Return the replicas of every range of the ring, one data centre's after the other's."""
        parts = [
            _part(_center(ring, name), factor)
            for name, factor in self.factors.items()
            if name in ring.racks and factor.total
        ]
        groups = [tuple(chain.from_iterable(part.at(token) for part in parts)) for token in ring.tokens]
        return Placement(ring.tokens, tuple(groups))


class _Center(NamedTuple):
    """The part of a ring that is in one data centre, by token."""

    tokens: tuple[int, ...]
    owners: tuple[str, ...]
    racks: tuple[str, ...]


def _center(ring: Ring, name: str) -> _Center:
    mine = [
        (token, owner, ring.locations[owner].rack)
        for token, owner in zip(ring.tokens, ring.owners, strict=True)
        if ring.locations[owner].data_center == name
    ]
    return _Center(*zip(*mine, strict=True))


@lru_cache(maxsize=64)  # a change is in one data centre, and the parts of the others stay as they are
def _part(center: _Center, factor: Factor) -> Placement:
    """Return the replicas of the ranges between the tokens of one data centre."""
    nodes = set(center.owners)
    repeats = factor.total - len(set(center.racks))
    count = min(factor.total, len(nodes))
    full = _full(factor, count)
    seats = list(zip(center.owners, center.racks, strict=True))
    groups = []
    for place in range(len(seats)):
        group: dict[str, Replica] = {}
        met: set[str] = set()
        again = repeats
        for owner, rack in chain(seats[place:], seats[:place]):
            if owner in group:
                continue
            if rack in met:
                if again <= 0:
                    continue
                again -= 1
            met.add(rack)
            group[owner] = Replica(owner, len(group) < full)
            if len(group) == count:
                break
        groups.append(tuple(group.values()))
    return Placement(center.tokens, tuple(groups))


def _full(factor: Factor, count: int) -> int:
    """Return how many of `count` replicas are full: where nodes are missing, transient replicas are."""
    return count - max(factor.transient - (factor.total - count), 0)


def parse_strategy(replication: Mapping[str, str]) -> Strategy:
    """Make the strategy of a keyspace's `replication`. Raises ValueError for a class that is not modelled.

    `{"class": "SimpleStrategy", "replication_factor": "3"}`, `{"class": "NetworkTopologyStrategy", "dc1": "3/1"}`; the class may have
    its package before it.
    """
    match replication["class"].rpartition(".")[2]:
        case "SimpleStrategy":
            return Simple(Factor.parse(replication["replication_factor"]))
        case "NetworkTopologyStrategy":
            return NetworkTopology({name: Factor.parse(text) for name, text in replication.items() if name != "class"})
    raise ValueError(f"the replicas of {replication['class']} are not modelled")
