"""Ring: which nodes have the replicas of a row. This one never changes; `topology` has those that do.

How many replicas a row has (`Copies`) is a number with SimpleStrategy, and a number for each data centre with NetworkTopologyStrategy.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from schemaquake.harness.placements.ring import Location
from schemaquake.harness.placements.ring import Ring as Tokens
from schemaquake.harness.placements.strategies import Factor, NetworkTopology, Simple, Strategy

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["SPACE", "Copies", "Ring", "RingView", "even_tokens", "order_of", "strategy_of", "token_of", "total_of"]

Copies: TypeAlias = int | tuple[tuple[str, int], ...]
"""The number of replicas of every row; or of each data centre, in the order of their names."""

SPACE: Final = 1 << 64
"""Tokens are numbers from 0 to below this."""


class RingView(Protocol):
    """One node's view of the ring."""

    @property
    def version(self) -> int:
        """The version of the topology that it is of; 0 where there is no such thing."""
        ...

    @property
    def tokens(self) -> tuple[int, ...]:
        """The ends of the ranges, in ascending order."""
        ...

    def place(self, token: int) -> int:
        """Return the number of the range that a token lies in."""
        ...

    def replicas(self, place: int, factor: Copies) -> tuple[str, ...]:
        """Return the replicas of a range that are read from, the first one first."""
        ...

    def writes(self, place: int, factor: Copies) -> tuple[str, ...]:
        """Return the replicas of a range that are written to."""
        ...


def even_tokens(count: int) -> tuple[int, ...]:
    """Return the tokens of so many nodes that divide the ring evenly."""
    return tuple(SPACE * place // count for place in range(count))


def strategy_of(copies: Copies) -> Strategy:
    """Return the strategy that places so many replicas."""
    if isinstance(copies, int):
        return Simple(Factor(copies))
    return NetworkTopology({center: Factor(count) for center, count in copies})


def total_of(copies: Copies) -> int:
    """Return the number of replicas of a row, of all data centres together."""
    return copies if isinstance(copies, int) else sum(count for _, count in copies)


def order_of(copies: Copies) -> tuple[int, Copies]:
    """Return what numbers of replicas are sorted by: those of one kind by their number."""
    return (0, copies) if isinstance(copies, int) else (1, copies)


class Ring:
    """Nodes by token, one each, evenly spaced in the order of their names."""

    version = 0

    def __init__(self, names: Sequence[str], locations: Mapping[str, Location] | None = None) -> None:
        self._names = tuple(names)
        self.tokens = even_tokens(len(names))
        self._locations = dict(locations or {})
        self._replicas: dict[tuple[int, Copies], tuple[str, ...]] = {}

    def place(self, token: int) -> int:
        """Return the number of the range that a token lies in: that which ends at the node of that number."""
        return bisect_left(self.tokens, token) % len(self.tokens)

    def replicas(self, place: int, factor: Copies) -> tuple[str, ...]:
        """Return the replicas of a range, the first one first."""
        found = self._replicas.get((place, factor))
        if found is None and not isinstance(factor, int):
            tokens = {name: (token,) for name, token in zip(self._names, self.tokens, strict=True)}
            group = strategy_of(factor).replicate(Tokens.of(tokens, self._locations)).groups[place]
            found = self._replicas[place, factor] = tuple(replica.node for replica in group)
        elif found is None:
            assert isinstance(factor, int)
            count = len(self._names)
            found = tuple(self._names[(place + step) % count] for step in range(min(factor, count)))
            self._replicas[place, factor] = found
        return found

    writes = replicas


@lru_cache(maxsize=1 << 16)
def token_of(key: tuple[Any, ...]) -> int:
    """Return the token of a partition key."""
    return int.from_bytes(blake2b(repr(key).encode(), digest_size=8).digest(), "big")
