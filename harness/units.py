"""Units of time, in nanoseconds: all times of a run and all lengths between them are whole numbers of them."""

from __future__ import annotations

from typing import Final

__all__ = ["MS", "US", "S"]

US: Final = 1_000
MS: Final = 1_000_000
S: Final = 1_000_000_000
