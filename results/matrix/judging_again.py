"""Judging again: the facts of a matrix' runs by the current checkers (`schemaquake.results.runs.judging_again`)."""

from __future__ import annotations

from schemaquake.results.matrix.facts import JUDGE_LIMIT_S, facts_of
from schemaquake.results.matrix.matrix_folder import MatrixFolder
from schemaquake.results.runs import judging_again

__all__ = ["judge_again"]


def judge_again(folder: MatrixFolder) -> int:
    """Judge every recorded run, and store the results. Return the number of runs whose results changed. Raises HistoryError."""
    return judging_again.judge_again(folder, facts_of, limit_s=JUDGE_LIMIT_S)
