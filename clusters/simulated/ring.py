"""Ring: which nodes have the replicas of a row. This one never changes; `topology` has those that do."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final, Protocol

__all__ = ["SPACE", "Ring", "RingView", "even_tokens", "token_of"]

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

    def replicas(self, place: int, factor: int) -> tuple[str, ...]:
        """Return the replicas of a range that are read from, the first one first."""
        ...

    def writes(self, place: int, factor: int) -> tuple[str, ...]:
        """Return the replicas of a range that are written to."""
        ...


def even_tokens(count: int) -> tuple[int, ...]:
    """Return the tokens of so many nodes that divide the ring evenly."""
    return tuple(SPACE * place // count for place in range(count))


class Ring:
    """Nodes by token, one each, evenly spaced in the order of their names: SimpleStrategy."""

    version = 0

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)
        self.tokens = even_tokens(len(names))
        self._replicas: dict[tuple[int, int], tuple[str, ...]] = {}

    def place(self, token: int) -> int:
        """Return the number of the range that a token lies in: that which ends at the node of that number."""
        return bisect_left(self.tokens, token) % len(self.tokens)

    def replicas(self, place: int, factor: int) -> tuple[str, ...]:
        """Return the replicas of a range, the first one first."""
        found = self._replicas.get((place, factor))
        if found is None:
            count = len(self._names)
            found = tuple(self._names[(place + step) % count] for step in range(min(factor, count)))
            self._replicas[place, factor] = found
        return found

    writes = replicas


@lru_cache(maxsize=1 << 16)
def token_of(key: tuple[Any, ...]) -> int:
    """Return the token of a partition key."""
    return int.from_bytes(blake2b(repr(key).encode(), digest_size=8).digest(), "big")
