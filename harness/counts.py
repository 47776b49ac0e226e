"""Counts in words, for all that a person reads."""

from __future__ import annotations

__all__ = ["counted"]


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """Return a count with its noun: `1 race`, `2 races`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"
