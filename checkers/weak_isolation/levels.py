"""Levels: read committed, read atomic and causal consistency, weakest first; each implies the ones before it.

As Biswas and Enea define them: every transaction commits after the ones before it in its session, at all levels. (Adya's
read committed knows no sessions: `schemaquake.checkers.elle.models` has that one.)
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from typing import Final, Literal, TypeAlias, get_args

from schemaquake.harness.errors import PlanError

__all__ = ["CYCLES", "LEVELS", "Level", "level", "ruled_out", "strongest"]

Level: TypeAlias = Literal["read-committed", "read-atomic", "causal"]

LEVELS: Final[tuple[Level, ...]] = get_args(Level)

CYCLES: Final[Mapping[Level, str]] = {
    "read-committed": "non-monotonic-read",
    "read-atomic": "fractured-read",
    "causal": "causality-violation",
}
"""What is found where the axiom of a level, and not that of a weaker one, is broken."""


def level(name: str) -> Level:
    """Look up the level of that name. Raises PlanError, with the nearest one."""
    if name not in LEVELS:
        near = difflib.get_close_matches(name, LEVELS, n=1)
        hint = f' Did you mean "{near[0]}"?' if near else ""
        raise PlanError(f'weak-isolation does not decide "{name}".{hint} It decides {", ".join(LEVELS)}.')
    return name


def strongest(names: Collection[str]) -> Level:
    """Find the level that implies all others. Raises PlanError for an unknown one, or for none."""
    if not names:
        raise PlanError(f"weak-isolation wants one level at least of {', '.join(LEVELS)}")
    return max((level(name) for name in names), key=LEVELS.index)


def ruled_out(weakest: Level | None) -> tuple[list[Level], list[Level]]:
    """Find (the weakest level that does not hold, the stronger ones)."""
    if weakest is None:
        return [], []
    return [weakest], list(LEVELS[LEVELS.index(weakest) + 1 :])
