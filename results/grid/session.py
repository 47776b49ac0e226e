"""Session: one stretch of work on a grid. It starts from the folder and leaves its results in the folder."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

import orjson

from schemaquake.harness.errors import HistoryError
from schemaquake.harness.wait import pause_for
from schemaquake.results.grid.facts import BatchFacts, refused
from schemaquake.results.grid.folder import DoneBatch, GridFolder
from schemaquake.results.grid.markdown import render_grid_markdown
from schemaquake.results.grid.page import GridState, render_grid_html
from schemaquake.results.grid.plan import Batch, GridPlan
from schemaquake.results.grid.schedule import GridSchedule
from schemaquake.results.grid.tally import GridCell, cells_table, tally
from schemaquake.results.matrix.executor import has_ended, limit_s
from schemaquake.results.matrix.machine import KEPT_FREE_MB, available_mb
from schemaquake.results.store.atomic import write_bytes
from schemaquake.results.store.store import write_table
from schemaquake.workloads.statements.meetings import Meeting

__all__ = ["Ending", "GridSession"]

log = logging.getLogger(__name__)

Ending = Literal["known", "time is up", "interrupted"]

_LOOK_EVERY_S: Final = 0.2
_GRACE_S: Final = 90.0
_DRAWN_EVERY_S: Final = 60.0


@dataclass(slots=True)
class _Process:
    """The process of one batch."""

    batch: Batch
    popen: subprocess.Popen[bytes]
    plan_file: Path
    before: frozenset[str]
    """Names of the runs' folders that were there before it began."""
    answer: Path
    log: Path
    began: float
    limit_s: float
    asked: float | None = None


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
    _processes: list[_Process] = field(default_factory=list)
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
            if not self._processes:
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
        if len(self._processes) > jobs:
            return False
        return sum(not has_ended(self.folder.runs, one.plan_file, one.before) for one in self._processes) < jobs

    def _affordable(self, schedule: GridSchedule) -> Batch | None:
        """Return the next batch if its cluster fits into the memory, or if nothing runs."""
        if self._processes and available_mb() - KEPT_FREE_MB < max(self.memory_mb.values()):
            return None
        return schedule.next()

    def _begin(self, batch: Batch) -> None:
        plan = self.plan.run_plan(batch)
        stem = f"{batch.number:04d}-{os.getpid()}"
        plan_file, answer, said = (self.folder.logs / f"{stem}.{end}" for end in ("plan.json", "answer.json", "log"))
        plan_file.write_bytes(orjson.dumps(plan.to_json()))
        before = frozenset(path.name for path in self.folder.runs.iterdir())
        with said.open("wb") as output:
            # A session of its own: this process forwards Ctrl-C, once.
            popen = subprocess.Popen(
                [*self.argv, str(plan_file), str(self.folder.runs), str(answer)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        begun = time.monotonic()
        self._processes.append(_Process(batch, popen, plan_file, before, answer, said, begun, limit_s(plan)))

    def _ended(self) -> list[DoneBatch]:
        """Return the batches that ended since the last call; end those that hang."""
        now = time.monotonic()
        for one in self._processes:
            if one.asked is None and now - one.began > one.limit_s:
                log.warning("ending a batch that hangs", extra={"batch": one.batch.id})
                self._ask(one)
            elif one.asked is not None and now - one.asked > _GRACE_S:
                one.popen.kill()
        over = [one for one in self._processes if one.popen.poll() is not None]
        self._processes = [one for one in self._processes if one not in over]
        return [DoneBatch(one.batch, _answer(one)) for one in over]

    def _stop(self, schedule: GridSchedule) -> None:
        """End every batch that runs; each is healed and torn down, and raced again another time."""
        for one in self._processes:
            schedule.given_up(one.batch)
            self._ask(one)
        while self._processes:
            pause_for(_LOOK_EVERY_S)
            self._ended()

    def _ask(self, one: _Process) -> None:
        if one.asked is None:
            one.asked = time.monotonic()
            with suppress(ProcessLookupError):
                one.popen.send_signal(signal.SIGTERM)


def _answer(one: _Process) -> BatchFacts:
    """Read the facts that the batch's process wrote. If it wrote none, its log gives the reason."""
    try:
        return BatchFacts.from_json(orjson.loads(one.answer.read_bytes()))
    except (FileNotFoundError, orjson.JSONDecodeError):
        lines = one.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        why = "the run hung and was ended" if one.asked else f"its process ended with exit code {one.popen.returncode}"
        return refused(
            f"{why}; its last output: {lines[-1][:300] if lines else 'nothing'}",
            applicable=True,
            seconds=time.monotonic() - one.began,
        )
