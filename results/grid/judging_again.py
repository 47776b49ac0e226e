"""Judging again: the facts of a grid's runs by the current checkers.

A grid takes hours and the fix of a checker a minute. The runs' folders contain everything that a verdict needs, so the page can be
redrawn without starting a server. Batches that came from another grid, and have no run here, stay as they are.
"""

from __future__ import annotations

import logging
import time
from typing import Final

from schemaquake.results.grid.facts import BatchFacts, facts_of
from schemaquake.results.grid.folder import DoneBatch, GridFolder
from schemaquake.results.runs.execution import conclude_again

__all__ = ["JUDGE_LIMIT_S", "judge_again"]

log = logging.getLogger(__name__)

JUDGE_LIMIT_S: Final = 180.0
"""Seconds in which one batch is judged."""


def judge_again(folder: GridFolder) -> int:
    """Judge every recorded run, and store the results in the folder. Return the number of batches whose results changed.

    Raises HistoryError if a run's folder is missing or damaged; the grid is then unchanged.
    """
    began = time.monotonic()
    done = folder.done()
    judged = [DoneBatch(one.unit, _facts(folder, one.facts)) for one in done]
    changed = sum(before.facts != after.facts for before, after in zip(done, judged, strict=True))
    folder.replace(judged)
    log.info(
        "judged again",
        extra={"batches": len(judged), "otherwise": changed, "seconds": round(time.monotonic() - began, 1)},
    )
    return changed


def _facts(folder: GridFolder, before: BatchFacts) -> BatchFacts:
    if before.run is None or not before.races:
        return before
    finished = conclude_again(folder.path / before.run, limit_s=JUDGE_LIMIT_S)
    return facts_of(finished, folder=before.run, seconds=before.seconds)
