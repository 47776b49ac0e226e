"""Delays: when to kill, so that every step is met about as often as the others.

Steps of a migration take from a fraction of a millisecond to tens of them, so delays that are spread evenly would find
the long ones only. After a first sweep each delay is aimed at the step that was met least, near delays that met it, or
between the latest that fell short of it and the earliest that went past it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Final

__all__ = ["next_delay"]

_SWEEP: Final = 8
_RECENT: Final = 20
"""How many tries are aimed by: on a machine that is busy one minute and idle the next, older ones mislead."""
_SPREAD: Final = 0.03
"""Of the whole change: how far from its aim a delay may fall (one standard deviation)."""


def next_delay(past: Sequence[tuple[float, str]], steps: Sequence[str], *, horizon_s: float, random: Random) -> float:
    """The delay of the next try, 0 to `horizon_s`. `past` are (delay, step met); `steps` in the order of time."""
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
