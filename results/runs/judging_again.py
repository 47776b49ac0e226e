"""Judging again: the recorded runs of a matrix or a grid by the current checkers.

Such work takes hours and the fix of a checker a minute. The runs' folders contain everything that a verdict needs, so a page can be
redrawn without starting a server, and readers can verify a published one in the same way.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from schemaquake.results.runs.execution import FinishedRun, conclude_again, was_recorded
from schemaquake.results.runs.placeless_facts import StoredFacts, without_folder
from schemaquake.results.store.progress import Finished

__all__ = ["Extract", "JudgedFolder", "RecordedFacts", "judge_again"]

log = logging.getLogger(__name__)

Unit = TypeVar("Unit")


class RecordedFacts(StoredFacts, Protocol):
    """Facts of a run. `run` is its folder, relative to the folder of the work; None if it has none there."""

    @property
    def run(self) -> str | None: ...  # noqa: D102 - said above
    @property
    def seconds(self) -> float: ...  # noqa: D102 - wall time of the run
    @property
    def races(self) -> Sequence[Any]: ...  # noqa: D102 - the races that began


Facts = TypeVar("Facts", bound=RecordedFacts)
Facts_co = TypeVar("Facts_co", covariant=True)


class Extract(Protocol[Facts_co]):
    """A function that extracts the facts of a judged run; `folder` is the run's, relative to the folder of the work."""

    def __call__(self, finished: FinishedRun, /, *, folder: str, seconds: float) -> Facts_co: ...  # noqa: D102 - said above


class JudgedFolder(Protocol[Unit, Facts]):
    """A folder of work in many runs, whose results can be replaced."""

    @property
    def path(self) -> Path: ...  # noqa: D102 - said above
    def done(self) -> Sequence[Finished[Unit, Facts]]: ...  # noqa: D102 - what is finished, in order
    def replace(self, done: Sequence[Finished[Unit, Facts]], /) -> None: ...  # noqa: D102 - on disk when it returns


def judge_again(folder: JudgedFolder[Unit, Facts], extract: Extract[Facts], *, limit_s: float) -> int:
    """Judge every recorded run, and store the results in the folder. Return the number of parts whose results changed.

    A part that was refused before its run recorded anything, or that came from elsewhere without its run, is left unchanged.
    Raises HistoryError if the folder of a run that raced is missing, or one is damaged; the results are then unchanged.
    """
    began = time.monotonic()
    done = folder.done()
    judged = [Finished(one.unit, _facts(folder.path, one.facts, extract, limit_s)) for one in done]
    changed = sum(before.facts != after.facts for before, after in zip(done, judged, strict=True))
    folder.replace(judged)
    log.info(
        "judged again",
        extra={"runs": len(judged), "otherwise": changed, "seconds": round(time.monotonic() - began, 1)},
    )
    return changed


def _facts(place: Path, before: Facts, extract: Extract[Facts], limit_s: float) -> Facts:
    if before.run is None or (not before.races and not was_recorded(place / before.run)):
        return before
    finished = conclude_again(place / before.run, limit_s=limit_s)
    return without_folder(extract(finished, folder=before.run, seconds=before.seconds), place)
