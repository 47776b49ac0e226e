"""The number of examples that a property is tried with."""

from __future__ import annotations

from hypothesis import settings

__all__ = ["REPEATABLE", "SEARCHING", "examples"]

REPEATABLE = "repeatable"
"""The profile of `make test`: the same examples everywhere, each time."""
SEARCHING = "searching"
"""The profile of `make test-long`: new examples each time."""


def examples(count: int) -> int:
    """Return `count` where new examples are looked for, and a quarter where the same ones are tried again."""
    return count if settings.get_current_profile_name() == SEARCHING else max(10, count // 4)
