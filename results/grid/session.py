"""Session: one stretch of work on a grid. It starts from the folder and leaves its results in the folder."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from schemaquake.harness.atomic import write_bytes
from schemaquake.harness.errors import HistoryError
from schemaquake.harness.wait import pause_for
from schemaquake.results.grid.facts import BatchFacts, refused
from schemaquake.results.grid.folder import DoneBatch, GridFolder
from schemaquake.results.grid.markdown import render_grid_markdown
from schemaquake.results.grid.page import GridState, render_grid_html
from schemaquake.results.grid.plan import Batch, GridPlan
from schemaquake.results.grid.schedule import GridSchedule
from schemaquake.results.grid.tally import GridCell, cells_table, tally
from schemaquake.results.matrix.machine import KEPT_FREE_MB, available_mb
from schemaquake.results.runs.separate_run import SeparateRun
from schemaquake.results.store.store import write_table
from schemaquake.workloads.statements.meetings import Meeting

__all__ = ["Ending", "GridSession"]

log = logging.getLogger(__name__)

Ending = Literal["known", "time is up", "interrupted"]

_LOOK_EVERY_S: Final = 0.2
_DRAWN_EVERY_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class _Racing:
    batch: Batch
    run: SeparateRun


@dataclass(slots=True)
class _Servers:
    """The software of each system, so that races of two builds under one name are never counted together."""

    _digests: dict[str, str] = field(default_factory=dict)

    def refuse_another(self, done: DoneBatch) -> None:
        """Remember what a batch ran on. Raises HistoryError if an earlier one of its system ran on something else."""
        system, own = done.unit.system, done.facts.server
        if own and self._digests.setdefault(system, own) != own:
            raise HistoryError(
                f"batch {done.unit.id} ran on another {system} than the races before it: the digest of its jars is {own}, "
                f"and theirs is {self._digests[system]}. Its races are not counted: begin a grid of its own, without --resume and --known"
            )


@dataclass(slots=True)
class GridSession:
    """The work of one process on the grid in `folder`. `memory_mb` is what a cluster of each system takes."""

    plan: GridPlan
    folder: GridFolder
    cells: Mapping[str, Sequence[Meeting]]
    memory_mb: Mapping[str, int]
    argv: Sequence[str] = (sys.executable, "-m", "schemaquake.results.grid.one_batch")
    _racing: list[_Racing] = field(default_factory=list)
    _drawn: float = field(default_factory=time.monotonic)

    def run(
        self, *, jobs: int, budget_s: float | None, look: Callable[[GridSchedule, DoneBatch], None]
    ) -> tuple[list[GridCell], Ending]:
        """Race until everything wanted is known or time is up, then write the page and the table. Raises HistoryError."""
        schedule = GridSchedule(
            self.plan,
            {system: [cell.name for cell in some] for system, some in self.cells.items()},
            risks={cell.name: cell.risk for some in self.cells.values() for cell in some},
        )
        servers = _Servers()
        for done in self.folder.done():
            servers.refuse_another(done)
            schedule.finished(done, earlier=True)
        ends = None if budget_s is None else time.monotonic() + budget_s
        ending: Ending = "interrupted"
        try:
            ending = self._work(schedule, servers, jobs, ends, look)
        except KeyboardInterrupt:
            log.warning("interrupted; every cluster is torn down", extra={"resume": str(self.folder.path)})
        finally:
            self._stop(schedule)
        return self.draw(schedule.done), ending

    def draw(self, done: Sequence[DoneBatch]) -> list[GridCell]:
        """Write page, Markdown and table of what is known."""
        self._drawn = time.monotonic()
        cells = tally(self.plan, done, self.cells)
        state = GridState(
            plan=self.plan,
            cells=cells,
            started=self.folder.started(),
            seconds=sum(one.facts.seconds for one in done),
            batches=len(done),
            machine=self.folder.machine(),
        )
        write_bytes(self.folder.path / "grid.html", render_grid_html(state).encode())
        write_bytes(self.folder.path / "grid.md", render_grid_markdown(state).encode())
        write_table(self.folder.path / "cells.parquet", cells_table(cells))
        return cells

    def _work(
        self,
        schedule: GridSchedule,
        servers: _Servers,
        jobs: int,
        ends: float | None,
        look: Callable[[GridSchedule, DoneBatch], None],
    ) -> Ending:
        while True:
            late = ends is not None and time.monotonic() >= ends
            while not late and self._has_room(jobs) and (batch := self._affordable(schedule)) is not None:
                self._begin(batch)
            if not self._racing:
                return "time is up" if late else "known"
            pause_for(_LOOK_EVERY_S)
            for done in self._ended():
                servers.refuse_another(done)
                self.folder.append(done)
                schedule.finished(done)
                look(schedule, done)
            if time.monotonic() - self._drawn > _DRAWN_EVERY_S:
                self.draw(schedule.done)

    def _has_room(self, jobs: int) -> bool:
        """Return True if one more cluster may be started: a batch that is being judged has none, but needs a core."""
        if len(self._racing) > jobs:
            return False
        return sum(one.run.has_cluster() for one in self._racing) < jobs

    def _affordable(self, schedule: GridSchedule) -> Batch | None:
        """Return the next batch if its cluster fits into the memory, or if nothing runs."""
        if self._racing and available_mb() - KEPT_FREE_MB < max(self.memory_mb.values()):
            return None
        return schedule.next()

    def _begin(self, batch: Batch) -> None:
        name = f"{batch.number:04d}-{os.getpid()}"
        run = SeparateRun(self.argv, self.plan.run_plan(batch), name=name, runs=self.folder.runs, logs=self.folder.logs)
        self._racing.append(_Racing(batch, run))

    def _ended(self) -> list[DoneBatch]:
        """Return the batches that ended since the last call; end those that hang."""
        for one in self._racing:
            one.run.end_if_overdue()
        over = [one for one in self._racing if one.run.has_ended()]
        self._racing = [one for one in self._racing if one not in over]
        return [DoneBatch(one.batch, one.run.read_answer(BatchFacts.from_json, refused)) for one in over]

    def _stop(self, schedule: GridSchedule) -> None:
        """End every batch that runs; each is healed and torn down, and raced again another time."""
        for one in self._racing:
            schedule.given_up(one.batch)
            one.run.ask_to_end()
        while self._racing:
            pause_for(_LOOK_EVERY_S)
            self._ended()
