"""Grudges: which node drops packets from which.

A grudge maps each node to the nodes whose packets it drops on arrival. Pure: names and a generator in, a mapping out.
The names are Jepsen's; `bridge`, `one-way` and `random` are for what a clean split does not reach.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from random import Random
from typing import Final, TypeAlias

from schemaquake.harness.errors import PlanError
from schemaquake.harness.model.operation import JSON

__all__ = [
    "BUILDERS",
    "FEWEST_NODES",
    "Grudge",
    "bridge",
    "from_json",
    "is_symmetric",
    "majorities_ring",
    "majority",
    "minority_third",
    "one",
    "one_way",
    "outside_largest_group",
    "random_links",
    "split",
    "to_json",
    "visible",
]

Grudge: TypeAlias = Mapping[str, frozenset[str]]


def split(*sides: Sequence[str]) -> Grudge:
    """Cut every link between different sides. A node that is on no side keeps all its links."""
    return {
        name: frozenset(other for others in sides if others is not side for other in others)
        for side in sides
        for name in side
    }


def one(nodes: Sequence[str], random: Random) -> Grudge:
    """Isolate one node."""
    return _split_off(1, nodes, random)


def majority(nodes: Sequence[str], random: Random) -> Grudge:
    """Split the nodes in two, one side the smallest possible majority; of four nodes, two and two."""
    return _split_off(len(nodes) // 2, nodes, random)


def minority_third(nodes: Sequence[str], random: Random) -> Grudge:
    """Split off the largest number of nodes below a third: as many traitors as a Byzantine system must bear."""
    return _split_off((len(nodes) - 1) // 3, nodes, random)


def majorities_ring(nodes: Sequence[str], random: Random) -> Grudge:
    """Leave every node a majority to hear (itself included), no two the same one; links stay symmetric.

    The nodes stand in a ring in random order, linked to as few others as make a majority: the nearest on both sides, and
    where that number is odd, one across. An odd ring with odd numbers of links cannot exist, so there one node has one
    more; of three nodes, that leaves one in the middle and two that do not hear each other.
    """
    ring = random.sample(nodes, len(nodes))
    size, needed = len(ring), len(ring) // 2
    links = {(i, (i + step) % size) for i in range(size) for step in range(1, needed // 2 + 1)}
    if needed % 2:
        links |= _across(size)
    linked = {frozenset((ring[i], ring[j])) for i, j in links}
    return _cut_links(nodes, [pair for pair in combinations(nodes, 2) if frozenset(pair) not in linked])


def outside_largest_group(grudge: Grudge, nodes: Sequence[str]) -> Sequence[str]:
    """Return the nodes outside the largest group, in which all hear one another both ways, directly or through others."""
    left, groups = set(nodes), []
    while left:
        group, waiting = set(), [min(left)]
        while waiting:
            name = waiting.pop()
            group.add(name)
            left.discard(name)
            waiting += [
                other
                for other in left
                if other not in grudge.get(name, frozenset()) and name not in grudge.get(other, frozenset())
            ]
        groups.append(group)
    largest = max(groups, key=len, default=set())
    return sorted(set(nodes) - largest)


def _across(size: int) -> set[tuple[int, int]]:
    """Return pairs of places as far apart in the ring as can be, such that every place is in a pair."""
    half = size // 2
    if size % 2 == 0:
        return {(i, i + half) for i in range(half)}
    # Steps of half the size visit every place of an odd ring once: pair them off, and the last with the one before.
    visited = [(step * half) % size for step in range(size)]
    return {*zip(visited[:-1:2], visited[1::2], strict=True), (visited[-2], visited[-1])}


def bridge(nodes: Sequence[str], random: Random) -> Grudge:
    """Split the nodes in two sides that share one node, which keeps all its links."""
    middle, *rest = random.sample(nodes, len(nodes))
    half = len(rest) // 2
    return {**split(rest[:half], rest[half:]), middle: frozenset()}


def one_way(nodes: Sequence[str], random: Random) -> Grudge:
    """Mute one node: it hears all others, and no other node hears it."""
    mute, *rest = random.sample(nodes, len(nodes))
    return {mute: frozenset()} | {name: frozenset({mute}) for name in rest}


def random_links(nodes: Sequence[str], random: Random) -> Grudge:
    """Cut a random number of links, at least one."""
    pairs = list(combinations(nodes, 2))
    return _cut_links(nodes, random.sample(pairs, random.randint(1, len(pairs))))


BUILDERS: Final[Mapping[str, Callable[[Sequence[str], Random], Grudge]]] = {
    "one": one,
    "majority": majority,
    "minority-third": minority_third,
    "majorities-ring": majorities_ring,
    "bridge": bridge,
    "one-way": one_way,
    "random": random_links,
}

FEWEST_NODES: Final[Mapping[str, int]] = {"minority-third": 4, "majorities-ring": 3, "bridge": 3}
"""The number of nodes that a builder needs, where two are not enough."""


def visible(grudge: Grudge, name: str, nodes: Sequence[str]) -> frozenset[str]:
    """Return the nodes that `name` still hears, itself included."""
    return frozenset(nodes) - grudge.get(name, frozenset())


def is_symmetric(grudge: Grudge) -> bool:
    """Return True if every pair of nodes drops packets both ways or not at all."""
    return all(name in grudge.get(dropped, frozenset()) for name, others in grudge.items() for dropped in others)


def to_json(grudge: Grudge) -> dict[str, list[str]]:
    """Return the grudge as in a fault's parameters: only nodes that drop something, names sorted."""
    return {name: sorted(dropped) for name, dropped in sorted(grudge.items()) if dropped}


def from_json(document: JSON) -> Grudge:
    """Parse the output of `to_json`."""
    return {str(name): frozenset(map(str, dropped)) for name, dropped in document.items()}


def _split_off(count: int, nodes: Sequence[str], random: Random) -> Grudge:
    if not 0 < count < len(nodes):
        raise PlanError(f"{len(nodes)} nodes cannot be split into {count} and {len(nodes) - count}")
    shuffled = random.sample(nodes, len(nodes))
    return split(shuffled[:count], shuffled[count:])


def _cut_links(nodes: Sequence[str], cut: Sequence[tuple[str, str]]) -> Grudge:
    return {name: frozenset(other for pair in cut if name in pair for other in pair if other != name) for name in nodes}
