"""Ring: which nodes have the replicas of a row."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final

__all__ = ["Ring", "token_of"]

_SPACE: Final = 1 << 64


class Ring:
    """Nodes by token, one each, evenly spaced in the order of their names: SimpleStrategy."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)
        self.tokens = tuple(_SPACE * place // len(names) for place in range(len(names)))
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


@lru_cache(maxsize=1 << 16)
def token_of(key: tuple[Any, ...]) -> int:
    """Return the token of a partition key."""
    return int.from_bytes(blake2b(repr(key).encode(), digest_size=8).digest(), "big")
