"""Delta debugging: the smallest part of a list that still fails.

Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input" (IEEE TSE 28, 2002): try each of n parts, then
each complement; continue with a part that fails; if none does, cut finer, until single elements are left. The result is
1-minimal: without any one of its elements it does not fail any more (as far as the test can be trusted).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeVar

__all__ = ["ddmin"]

T = TypeVar("T")


def ddmin(items: Sequence[T], fails: Callable[[Sequence[T]], bool]) -> list[T]:
    """Return a 1-minimal part of `items`, in their order, for which `fails` holds, as it does for all of them.

    `fails` is never called for all of them. It is called for the empty list first: if that fails, no element is needed.
    """
    kept = list(items)
    if kept and fails([]):
        return []
    parts = 2
    while len(kept) > 1:
        smaller = _smaller(kept, parts, fails)
        if smaller is not None:
            kept, parts = smaller
        elif parts >= len(kept):
            return kept
        else:
            parts = min(len(kept), 2 * parts)
    return kept


def _smaller(kept: list[T], parts: int, fails: Callable[[Sequence[T]], bool]) -> tuple[list[T], int] | None:
    """Return a failing part of `kept` cut into `parts`, and the next number of parts; None if no part fails."""
    cuts = [len(kept) * n // parts for n in range(parts + 1)]
    chunks = [kept[begin:end] for begin, end in pairwise(cuts)]
    for chunk in chunks:
        if fails(chunk):
            return chunk, 2
    if parts == 2:
        return None  # each part was the other's complement
    for number in range(parts):
        complement = [item for other, chunk in enumerate(chunks) if other != number for item in chunk]
        if fails(complement):
            return complement, max(2, parts - 1)
    return None
