"""Display: progress of a matrix on standard error: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from schemaquake.harness.console import stderr
from schemaquake.results.matrix.matrix_folder import Done
from schemaquake.results.matrix.matrix_plan import Unit
from schemaquake.results.matrix.schedule import Schedule
from schemaquake.results.matrix.tally import Matrix
from schemaquake.results.summary.cell import COLOURS, Cell, CellState
from schemaquake.results.wording import counted, length_of_time, short_name

__all__ = ["Shown", "describe_undecided", "overview", "shown"]

log = logging.getLogger(__name__)

_LINE_EVERY_S: Final = 30.0


class Shown(Protocol):
    """A progress callback, called with every finished unit and at every poll."""

    def __call__(self, done: Done | None) -> None:
        """Show progress. `done` is None if only time has passed."""
        ...


@contextmanager
def shown(schedule: Schedule, *, at_once: int, ends: float | None) -> Iterator[Shown]:
    """Show progress while the block runs. `ends` is the end of the budget on time.monotonic, s."""

    def left() -> float:
        seconds = schedule.seconds_left(at_once=at_once)
        return seconds if ends is None else min(seconds, max(0.0, ends - time.monotonic()))

    if not stderr().is_terminal:
        yield _Lines(schedule, left)
        return
    columns = (
        SpinnerColumn(),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("cells known"),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=stderr(), transient=True, refresh_per_second=2) as bars:
        yield _Bar(schedule, left, bars)


class _Lines:
    def __init__(self, schedule: Schedule, left: _Left) -> None:
        self._schedule = schedule
        self._left = left
        self._said_at = time.monotonic()

    def __call__(self, done: Done | None) -> None:
        now = time.monotonic()
        if done is not None:
            log_done(done)
        elif now - self._said_at < _LINE_EVERY_S:
            return
        self._said_at = now
        known, cells = self._schedule.counts()
        facts = {"known": f"{known} of {cells}", "left": f"about {length_of_time(self._left())}"}
        running = ", ".join(short(unit) for unit in self._schedule.running.values())
        log.info("cells", extra={**facts, "running": running or "nothing"})


class _Bar:
    def __init__(self, schedule: Schedule, left: _Left, bars: Progress) -> None:
        self._schedule = schedule
        self._left = left
        self._bars = bars
        self._task = bars.add_task("", total=schedule.counts()[1])
        self._known = schedule.counts()[0]

    def __call__(self, done: Done | None) -> None:
        if done is not None:
            log_done(done)
            self._known = self._schedule.counts()[0]
        running = "; ".join(short(unit) for unit in self._schedule.running.values())
        description = f"about {length_of_time(self._left())} left  {running}"
        self._bars.update(self._task, completed=self._known, description=description)


class _Left(Protocol):
    def __call__(self) -> float: ...


def log_done(done: Done) -> None:
    """Log one line about a finished unit."""
    facts = done.facts
    if not facts.completed:
        log.warning("run not completed", extra={"run": short(done.unit), "why": facts.error[:300]})
        return
    broken = sum(bool(race.anomalies) for race in facts.races)
    log.info(
        "run done",
        extra={
            "run": short(done.unit),
            "broke": f"{broken} of {len(facts.races)} races",
            **({"at_large": ", ".join(facts.at_large)} if facts.at_large else {}),
            **({"shared": "not attributable to one kind of race"} if facts.ambiguous else {}),
            "seconds": round(facts.seconds),
        },
    )


def short(unit: Unit) -> str:
    """Describe a unit: `5.0.9 drop-type`, or `5.0.9 add-columns +4 (single)`."""
    more = f" +{len(unit.workloads) - 1}" if len(unit.workloads) > 1 else ""
    mode = "" if unit.condition.name == "barrier" else f" ({unit.condition.name})"
    return f"{unit.system.partition(':')[2]} {unit.workloads[0]}{more}{mode}"


def overview(matrix: Matrix) -> Table:
    """Build a table with one row per workload and one column per system: n of m races of the row "any anomaly", then the controls."""
    table = Table(show_lines=False, pad_edge=False)
    table.add_column("workload")
    for system in matrix.systems:
        table.add_column(short_name(system, matrix.systems), justify="right")
    modes = {row.condition for row in matrix.rows}
    for row in (*matrix.rows, *matrix.control_rows):
        if row.anomaly is None:
            mode = f" ({row.condition})" if len(modes) > 1 or row in matrix.control_rows else ""
            table.add_row(row.workload + mode, *(_cell_text(matrix.cell(row, system)) for system in matrix.systems))
    return table


def describe_undecided(matrix: Matrix) -> Iterator[str]:
    """Yield why cells without a rate have none: each reason once, with its mark, the system and the number of cells."""
    reasons: dict[tuple[str, str, CellState, str], int] = {}
    for row in (*matrix.rows, *matrix.control_rows):
        for system in matrix.systems if row.anomaly is None else ():
            cell = matrix.cell(row, system)
            if cell.state not in {"broke", "held"}:
                key = cell.mark, short_name(system, matrix.systems), cell.state, cell.reason
                reasons[key] = reasons.get(key, 0) + 1
    for (mark, system, state, reason), count in reasons.items():
        yield f"{mark} {system}: {counted(count, 'cell')} {state}{f': {reason}' if reason else ''}"


def _cell_text(cell: Cell) -> Text:
    text = f"{cell.mark} {cell.broken}/{cell.tried}" if cell.tried else cell.mark
    return Text(text, style=COLOURS[cell.state])
