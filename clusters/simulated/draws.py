"""Draws: random numbers by purpose, from one seed.

Every purpose has a stream of its own, so one more draw for one purpose moves nothing elsewhere: two runs that differ in
one switch stay aligned, and a shrunk run repeats what is left of it. The generator is SplitMix64 (Steele, Lea, Flood:
Fast Splittable Pseudorandom Number Generators, OOPSLA 2014), in integers alone.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final, TypeVar

__all__ = ["Draws", "Stream"]

T = TypeVar("T")

_MASK: Final = (1 << 64) - 1
_GOLDEN: Final = 0x9E3779B97F4A7C15
_LANE_BITS: Final = 128


class _Lanes:
    """Several successive numbers of SplitMix64 at once, each in a lane of 128 bits of one long integer.

    Three multiplications of long integers take a quarter of the time of three for every number. A product of a lane stays in it.
    """

    __slots__ = ("_each", "_form", "_low", "_steps", "count")

    def __init__(self, count: int) -> None:
        self.count = count
        self._form = struct.Struct(f"<{2 * count}Q")
        lanes = range(0, count * _LANE_BITS, _LANE_BITS)
        self._each = sum(1 << lane for lane in lanes)
        self._low = _MASK * self._each
        self._steps = sum((number * _GOLDEN & _MASK) << lane for number, lane in enumerate(lanes, 1))

    def after(self, state: int) -> list[int]:
        """Return the numbers that follow a state, the last one first."""
        low = self._low
        mixed = (state * self._each + self._steps) & low
        mixed = ((mixed ^ ((mixed >> 30) & low)) * 0xBF58476D1CE4E5B9) & low
        mixed = ((mixed ^ ((mixed >> 27) & low)) * 0x94D049BB133111EB) & low
        mixed ^= (mixed >> 31) & low
        return list(self._form.unpack(mixed.to_bytes(self._form.size, "little"))[-2::-2])


_FEW: Final = _Lanes(8)
_MANY: Final = _Lanes(64)


class Stream:
    """The draws of one purpose: few are made at first, as many purposes need no more, and then more at a time."""

    __slots__ = ("_ahead", "_lanes", "_state")

    def __init__(self, key: int) -> None:
        self._state = key & _MASK
        self._lanes = _FEW
        self._ahead: list[int] = []
        """Numbers that are made already, the next one last."""

    def bits(self) -> int:
        """Return 64 random bits as a number."""
        if not self._ahead:
            self._go_ahead()
        return self._ahead.pop()

    def _go_ahead(self) -> None:
        lanes, self._lanes = self._lanes, _MANY
        self._ahead = lanes.after(self._state)
        self._state = (self._state + lanes.count * _GOLDEN) & _MASK

    def below(self, limit: int) -> int:
        """Return a number from 0 to `limit` - 1."""
        return (self.bits() * limit) >> 64

    def between(self, least: int, most: int) -> int:
        """Return a number from `least` to `most`, both included."""
        if not self._ahead:  # as `bits`, which a call would make slower: there are several draws for every message
            self._go_ahead()
        return least + ((self._ahead.pop() * (most - least + 1)) >> 64)

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
