"""Judging again: the facts of a grid's runs by the current checkers (`schemaquake.results.runs.judging_again`)."""

from __future__ import annotations

from typing import Final

from schemaquake.results.grid.facts import facts_of
from schemaquake.results.grid.folder import GridFolder
from schemaquake.results.runs import judging_again

__all__ = ["JUDGE_LIMIT_S", "judge_again"]

JUDGE_LIMIT_S: Final = 180.0
"""Seconds in which one batch is judged."""


def judge_again(folder: GridFolder) -> int:
    """Judge every recorded run, and store the results. Return the number of batches whose results changed. Raises HistoryError."""
    return judging_again.judge_again(folder, facts_of, limit_s=JUDGE_LIMIT_S)
