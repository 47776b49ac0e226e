"""Draws: random numbers by purpose, from one seed.

Every purpose has a stream of its own, so one more draw for one purpose moves nothing elsewhere: two runs that differ in
one switch stay aligned, and a shrunk run repeats what is left of it. The generator is SplitMix64 (Steele, Lea, Flood:
Fast Splittable Pseudorandom Number Generators, OOPSLA 2014), in integers alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final, TypeVar

__all__ = ["Draws", "Stream"]

T = TypeVar("T")

_MASK: Final = (1 << 64) - 1
_GOLDEN: Final = 0x9E3779B97F4A7C15


class Stream:
    """The draws of one purpose."""

    __slots__ = ("_state",)

    def __init__(self, key: int) -> None:
        self._state = key & _MASK

    def bits(self) -> int:
        """Return 64 random bits as a number."""
        self._state = mixed = (self._state + _GOLDEN) & _MASK
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        return mixed ^ (mixed >> 31)

    def below(self, limit: int) -> int:
        """Return a number from 0 to `limit` - 1."""
        return (self.bits() * limit) >> 64

    def between(self, least: int, most: int) -> int:
        """Return a number from `least` to `most`, both included."""
        # As `bits`, which a call would make a third slower: there are several draws for every message.
        self._state = mixed = (self._state + _GOLDEN) & _MASK
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        return least + (((mixed ^ (mixed >> 31)) * (most - least + 1)) >> 64)

    def chance(self, probability: float) -> bool:
        """Return True with that probability."""
        return self.bits() < int(probability * (1 << 64))

    def pick(self, choices: Sequence[T]) -> T:
        """Return one of `choices`."""
        return choices[self.below(len(choices))]


class Draws:
    """All streams of one run."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._streams: dict[tuple[object, ...], Stream] = {}

    def stream(self, *names: object) -> Stream:
        """Return the stream of a purpose, which goes on where it was left."""
        stream = self._streams.get(names)
        if stream is None:
            text = "/".join(map(str, (self._seed, *names)))
            key = int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")
            stream = self._streams[names] = Stream(key)
        return stream
