"""Intervals of rates, and whether two rates differ: how far the true rate may be from the one that was observed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Final

__all__ = ["CONFIDENCE", "fisher", "holm", "wilson"]

CONFIDENCE: Final = 0.95
"""Probability that an interval of `wilson` contains the true rate."""

_Z: Final = 1.959963984540054  # number of standard deviations that contain 95 % of the normal distribution


def wilson(broken: int, tried: int) -> tuple[float, float]:
    """Compute the 95 % interval, within [0, 1], of a rate observed `broken` times in `tried`; [0, 1] without tries.

    Wilson's score interval (1927). Unlike the normal approximation it is valid at 0 of m and m of m, as in most cells.
    """
    assert 0 <= broken <= tried
    if not tried:
        return 0.0, 1.0
    rate, spread = broken / tried, _Z * _Z / tried
    centre = (rate + spread / 2) / (1 + spread)
    half = math.sqrt(rate * (1 - rate) * spread + spread * spread / 4) / (1 + spread)
    # At the ends the two terms are equal, and rounding must not give 0 of m a lower bound above 0.
    return (0.0 if not broken else max(0.0, centre - half)), (1.0 if broken == tried else min(1.0, centre + half))


def fisher(one: tuple[int, int], other: tuple[int, int]) -> float:
    """Compute the probability that two rates, each broken and tried, differ by chance as much as these do or more.

    Fisher's exact test (1922), two-sided: the tables with the same sums that are no more probable than the observed one. 1 without tries.
    """
    (broken, tried), (others, others_tried) = one, other
    assert 0 <= broken <= tried
    assert 0 <= others <= others_tried
    every = broken + others
    ways = [
        math.comb(tried, here) * math.comb(others_tried, every - here)
        for here in range(max(0, every - others_tried), min(tried, every) + 1)
    ]
    observed = math.comb(tried, broken) * math.comb(others_tried, others)
    return float(Fraction(sum(each for each in ways if each <= observed), sum(ways)))


def holm(chances: Sequence[float]) -> list[float]:
    """Correct probabilities of several tests, so that one of them is below 0.05 by chance with 5 % at most (Holm 1979)."""
    corrected, highest = [0.0] * len(chances), 0.0
    for rank, place in enumerate(sorted(range(len(chances)), key=lambda place: chances[place])):
        highest = max(highest, min(1.0, chances[place] * (len(chances) - rank)))
        corrected[place] = highest
    return corrected
