"""Judging again: the facts of a matrix' runs by the current checkers.

A matrix takes an hour and the fix of a checker a minute. The runs' folders contain everything that a verdict needs, so the
page can be redrawn without starting a server, and readers can verify a published matrix in the same way.
"""

from __future__ import annotations

import logging
import time

from schemaquake.results.matrix.facts import JUDGE_LIMIT_S, RunFacts, facts_of
from schemaquake.results.matrix.matrix_folder import Done, MatrixFolder
from schemaquake.results.runs.execution import conclude_again

__all__ = ["judge_again"]

log = logging.getLogger(__name__)


def judge_again(folder: MatrixFolder) -> int:
    """Judge every recorded run, and store the results in the folder. Return the number of runs whose results changed.

    A unit that was refused before its run recorded anything is left unchanged. Raises HistoryError if a run's folder is
    missing or damaged; the matrix is then unchanged.
    """
    began = time.monotonic()
    done = folder.done()
    judged = [Done(one.unit, _facts(folder, one.facts)) for one in done]
    changed = sum(before.facts != after.facts for before, after in zip(done, judged, strict=True))
    folder.replace(judged)
    log.info(
        "judged again",
        extra={"runs": len(judged), "otherwise": changed, "seconds": round(time.monotonic() - began, 1)},
    )
    return changed


def _facts(folder: MatrixFolder, before: RunFacts) -> RunFacts:
    if before.run is None or not before.races:
        return before
    finished = conclude_again(folder.path / before.run, limit_s=JUDGE_LIMIT_S)
    return facts_of(finished, folder=before.run, seconds=before.seconds)
