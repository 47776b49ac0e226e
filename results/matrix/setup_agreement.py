"""Setup agreement: whether the schema versions agreed before the races, and what it means if they did not.

Races of a cluster whose nodes still differed after the setup raced with the setup, too: what they show decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

__all__ = ["BEGUN_APART", "setup_agreed"]

BEGUN_APART: Final = "the schema versions still differed after the setup, when the races began"


def setup_agreed(settles: Iterable[Mapping[str, Any]]) -> bool:
    """Tell if the schema versions agreed before the races, as far as the run's notes (`Notes.settles`) say."""
    return all(one.get("agreed") is not False for one in settles if one.get("phase") == "setup")
