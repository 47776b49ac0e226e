"""Session: one stretch of work on a matrix. It starts from the folder and leaves its results in the folder."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

import orjson

from schemaquake.harness.atomic import write_bytes
from schemaquake.harness.model.protocols import Demands
from schemaquake.results.matrix.assembly import matrix_of
from schemaquake.results.matrix.conducting import Ending, conduct
from schemaquake.results.matrix.display import shown
from schemaquake.results.matrix.executor import Executor, Processes
from schemaquake.results.matrix.markdown import render_matrix_markdown
from schemaquake.results.matrix.matrix_folder import Done, MatrixFolder
from schemaquake.results.matrix.matrix_plan import MatrixPlan
from schemaquake.results.matrix.page import render_matrix_html
from schemaquake.results.matrix.recorded import write_runs
from schemaquake.results.matrix.schedule import Schedule
from schemaquake.results.matrix.tables import write_tables
from schemaquake.results.matrix.tally import Matrix

__all__ = ["Session"]

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Session:
    """The work of one process on the matrix in `folder`."""

    plan: MatrixPlan
    folder: MatrixFolder
    demands: Mapping[str, Demands | None]
    page_every_s: float = 20.0
    executor: Executor | None = None
    """Executor of the units; None for processes on this machine."""
    _began: float = field(default_factory=time.monotonic)
    _drawn: float = field(default_factory=time.monotonic)
    _before_s: float = 0.0

    def run(
        self, *, at_once: int, elastic: bool, budget_s: float | None, engine: str
    ) -> tuple[Matrix, Ending | Literal["interrupted"]]:
        """Continue until everything wanted is known or time is up, then write the page and the tables. Raises HistoryError."""
        schedule = Schedule(self.plan, self.demands)
        for done in self.folder.done():
            schedule.done(done.unit, done.facts)
        schedule.begin_sitting()
        self._before_s = self.folder.seconds()
        ends = None if budget_s is None else self._began + budget_s
        ending: Ending | Literal["interrupted"] = "interrupted"
        try:
            with shown(schedule, at_once=at_once, ends=ends) as look:

                def looked(done: Done | None) -> None:
                    look(done)
                    if done is not None and time.monotonic() - self._drawn > self.page_every_s:
                        self._draw(self._matrix(schedule, None))

                ending = conduct(
                    schedule,
                    self.executor or Processes(self.plan, self.folder, at_once=at_once, elastic=elastic),
                    budget_s=budget_s,
                    record=self.folder.append,
                    look=looked,
                )
        except KeyboardInterrupt:
            log.warning("interrupted; every cluster was torn down", extra={"resume": str(self.folder.path)})
        matrix = self._matrix(schedule, ending)
        self.folder.append_session(time.monotonic() - self._began)
        self._draw(matrix)
        write_tables(matrix, self.folder.path, engine=engine)
        write_runs(
            self.folder.path / "runs.parquet", [(one, self.plan.run_plan(one.unit)) for one in self.folder.done()]
        )
        return matrix, ending

    def _matrix(self, schedule: Schedule, ending: str | None) -> Matrix:
        notes = {
            "time is up": "The time budget ended before everything was known.",
            "too little memory": "There was not enough memory for another cluster.",
            "interrupted": "The matrix was interrupted.",
        }
        finished = None if ending in {None, "interrupted"} else datetime.now(UTC).isoformat(timespec="seconds")
        return matrix_of(
            schedule,
            started=self.folder.started(),
            finished=finished,
            seconds=self._before_s + time.monotonic() - self._began,
            machine=self.folder.machine(),
            notes=[notes[ending]] if ending in notes else [],
        )

    def _draw(self, matrix: Matrix) -> None:
        self._drawn = time.monotonic()
        path = self.folder.path
        write_bytes(path / "tally.json", orjson.dumps(matrix.to_json(), option=orjson.OPT_INDENT_2) + b"\n")
        write_bytes(path / "matrix.html", render_matrix_html(matrix).encode())
        write_bytes(path / "matrix.md", render_matrix_markdown(matrix).encode())
