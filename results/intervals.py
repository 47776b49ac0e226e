"""Intervals of rates: how far the true rate may be from the one that was observed."""

from __future__ import annotations

import math
from typing import Final

__all__ = ["CONFIDENCE", "wilson"]

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
