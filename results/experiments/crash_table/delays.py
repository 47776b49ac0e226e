"""Delays: the moments of the kills, so that every step is met about as often as the others.

Steps of a migration take from a fraction of a millisecond to tens of them, so evenly spread delays would meet the long
ones only. After a first sweep each delay is aimed at the step that was met least, near delays that met it, or
between the latest delay before it and the earliest after it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Final

__all__ = ["next_delay"]

_SWEEP: Final = 8
_RECENT: Final = 20
"""The number of tries that a delay is computed from: on a machine that is sometimes busy, older ones mislead."""
_SPREAD: Final = 0.03
"""The standard deviation of a delay from its aim, as a share of the whole change."""


def next_delay(past: Sequence[tuple[float, str]], steps: Sequence[str], *, horizon_s: float, random: Random) -> float:
    """Return the delay of the next try, 0 to `horizon_s`. `past` are (delay, step met); `steps` in the order of time."""
    if len(past) < _SWEEP:
        return horizon_s * (len(past) + random.random()) / _SWEEP
    met = Counter(step for _, step in past)
    fewest = min(met[step] for step in steps)
    target = steps.index(random.choice([step for step in steps if met[step] == fewest]))
    places = [(delay, steps.index(step)) for delay, step in past[-_RECENT:] if step in steps]
    hits = [delay for delay, place in places if place == target]
    if hits:
        aim = random.choice(hits)
    else:
        short = max((delay for delay, place in places if place < target), default=0.0)
        past_it = min((delay for delay, place in places if place > target), default=horizon_s)
        aim = random.uniform(min(short, past_it), max(short, past_it))
    return min(horizon_s, max(0.0, random.gauss(aim, _SPREAD * horizon_s)))
