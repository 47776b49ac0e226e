"""Ring: nodes with their tokens, racks and data centres, and the ranges between their tokens.

A range ends at a token and begins after the one before; the range of the lowest token begins after the highest one.
Cassandra cuts that one in two at its minimum token, where the replicas of both halves are the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

__all__ = ["Location", "Ring", "TokenRange"]


class Location(NamedTuple):
    """The place of a node."""

    data_center: str = "datacenter1"
    rack: str = "rack1"


class TokenRange(NamedTuple):
    """The tokens after `start` up to and including `end`; it wraps around if `start` is not below `end`."""

    start: int
    end: int

    def has(self, token: int) -> bool:
        """Return whether a token lies in the range."""
        if self.start < self.end:
            return self.start < token <= self.end
        return token > self.start or token <= self.end


@dataclass(frozen=True)
class Ring:
    """Tokens with the nodes that have them, in ascending order, and the location of each node."""

    tokens: tuple[int, ...]
    owners: tuple[str, ...]
    """The node of each token."""
    locations: Mapping[str, Location]
    """Every node with a token, in any order."""

    @classmethod
    def of(cls, tokens: Mapping[str, Iterable[int]], locations: Mapping[str, Location] | None = None) -> Ring:
        """Make a ring of each node's tokens; without locations all are in one rack. Raises ValueError for a token of two nodes."""
        pairs = sorted((token, node) for node, mine in tokens.items() for token in mine)
        for (token, node), (other, twin) in pairwise(pairs):
            if token == other:
                raise ValueError(f"the token {token} belongs to {node} and to {twin}")
        ends, owners = tuple(token for token, _ in pairs), tuple(node for _, node in pairs)
        known = locations or {}
        return cls(ends, owners, {node: known.get(node, Location()) for node in dict.fromkeys(owners)})

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes, in the order of their first tokens."""
        return tuple(self.locations)

    def tokens_of(self, node: str) -> tuple[int, ...]:
        """Return a node's tokens, in ascending order."""
        return tuple(token for token, owner in zip(self.tokens, self.owners, strict=True) if owner == node)

    @cached_property
    def racks(self) -> Mapping[str, Mapping[str, int]]:
        """The number of nodes, by data centre and rack."""
        found: dict[str, dict[str, int]] = {}
        for location in self.locations.values():
            racks = found.setdefault(location.data_center, {})
            racks[location.rack] = racks.get(location.rack, 0) + 1
        return found

    def ranges(self) -> Iterator[TokenRange]:
        """Yield the ranges between the tokens, in the order of their ends."""
        for place, token in enumerate(self.tokens):
            yield TokenRange(self.tokens[place - 1], token)

    def walk(self, place: int) -> Iterator[str]:
        """Yield the owner of each token, from the place-th token on and once around; a node with several tokens comes again."""
        yield from self.owners[place:]
        yield from self.owners[:place]

    def with_node(self, node: str, tokens: Sequence[int], location: Location) -> Ring:
        """Return the ring with a further node. Raises ValueError if a token is taken."""
        return Ring.of({**self._by_node(), node: tokens}, {**self.locations, node: location})

    def without_node(self, node: str) -> Ring:
        """Return the ring without a node."""
        return Ring.of({each: mine for each, mine in self._by_node().items() if each != node}, self.locations)

    def with_tokens(self, node: str, tokens: Sequence[int]) -> Ring:
        """Return the ring with other tokens of a node. Raises ValueError if one is another node's."""
        return Ring.of({**self._by_node(), node: tokens}, self.locations)

    def with_replacement(self, node: str, replacement: str) -> Ring:
        """Return the ring with another node in the place of one."""
        owners = tuple(replacement if owner == node else owner for owner in self.owners)
        locations = {(replacement if each == node else each): place for each, place in self.locations.items()}
        return Ring(self.tokens, owners, locations)

    def _by_node(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for token, owner in zip(self.tokens, self.owners, strict=True):
            found.setdefault(owner, []).append(token)
        return found
