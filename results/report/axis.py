"""Axis: conversion from time to pixels, and round tick values."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["Axis", "Tick"]


@dataclass(frozen=True, slots=True)
class Tick:
    """A tick at a round time."""

    x: float
    label: str


@dataclass(frozen=True, slots=True)
class Axis:
    """A time axis: `begins` and `ends` in ns since the run started, `left` and `right` in px."""

    begins: int
    ends: int
    left: float
    right: float

    def x(self, time: int) -> float:
        """Return the x of a time, px. Times outside the axis are clamped to its edges."""
        share = (time - self.begins) / max(1, self.ends - self.begins)
        return round(self.left + min(1.0, max(0.0, share)) * (self.right - self.left), 1)

    def span(self, begins: int, ends: int | None) -> tuple[float, float]:
        """Return the left edge and the width of an interval, px. An interval without an end extends to the right edge."""
        left = self.x(begins)
        return left, round((self.right if ends is None else self.x(ends)) - left, 1)

    def ticks(self, about: int = 7) -> tuple[Tick, ...]:
        """Return about `about` ticks at round seconds, labelled with as many decimals as they need."""
        span_s = max(1, self.ends - self.begins) / 1e9
        magnitude = 10.0 ** math.floor(math.log10(span_s / about))
        step = min((magnitude * factor for factor in (1, 2, 5, 10)), key=lambda size: abs(span_s / size - about))
        decimals = max(0, -math.floor(math.log10(step) + 1e-9))
        first = math.ceil(self.begins / 1e9 / step - 1e-9)
        last = math.floor(self.ends / 1e9 / step + 1e-9)
        return tuple(
            Tick(self.x(round(number * step * 1e9)), f"{number * step:.{decimals}f} s")
            for number in range(first, last + 1)
            if number * step >= 0
        )
