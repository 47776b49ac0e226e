"""Judging again: what the runs of a matrix show by the checkers of today.

A matrix takes an hour, a checker is mended in a minute. Everything that a verdict needs lies in the runs' folders, so
the page can be drawn anew without starting a server; and whoever doubts a published matrix can do the same.
"""

from __future__ import annotations

import logging
import time

from schemaquake.harness.errors import HistoryError
from schemaquake.results.matrix.facts import JUDGE_LIMIT_S, RunFacts, facts_of
from schemaquake.results.matrix.matrix_folder import Done, MatrixFolder
from schemaquake.results.runs.execution import conclude

__all__ = ["judge_again"]

log = logging.getLogger(__name__)


def judge_again(folder: MatrixFolder) -> int:
    """Judge every run that was recorded, and note what came of it in the folder; returns how many came out otherwise.

    A unit that was refused before anything was recorded stays as it was. Raises HistoryError if a run's folder is gone
    or damaged; the matrix is then as it was before.
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
    run = folder.path / before.run
    if not (run / "journals").is_dir():
        raise HistoryError(f"{run} is gone, so what it showed cannot be judged again")
    # Spark takes longer to start than one small run takes to judge.
    finished = conclude(run, engine="local", limit_s=JUDGE_LIMIT_S)
    return facts_of(finished, folder=before.run, seconds=before.seconds)
