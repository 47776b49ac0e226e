"""Sweep: the seeds of a range in waves, each on an engine, each wave a table in a folder, so that it goes on where it ended.

A wave is a DataFrame of seeds whose tasks return rows (`table.SEEDS`). Between waves the findings are counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import orjson
import pyarrow as pa

from schemaquake.harness.atomic import write_bytes
from schemaquake.harness.errors import HistoryError, PlanError
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.named_folders import make_wanted_folder
from schemaquake.results.engines.engine import Engine
from schemaquake.results.store.progress import working_alone
from schemaquake.results.store.store import read_table, write_table
from schemaquake.results.swarm.drawing import plan_of_seed
from schemaquake.results.swarm.one_seed import row_of
from schemaquake.results.swarm.smallest import find_smallest
from schemaquake.results.swarm.table import COVERAGE, FINDINGS, SEEDS, coverage_of, findings_of

__all__ = ["Order", "Swarm"]

_HEAD: Final = "swarm.json"
_LOCK: Final = ".lock"
_UNIT: Final = 5
"""Seeds of one task: a task is lost as a whole, and Spark has some milliseconds of work with each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The seeds of a sweep, and what they run on."""

    first: int
    last: int
    """The first seed that does not belong to it."""
    systems: tuple[str, ...]
    options: Mapping[str, str] = field(default_factory=dict)
    wave: int = 100

    def plan(self, seed: int) -> Plan:
        """Return the plan of a seed."""
        return plan_of_seed(seed, self.systems, self.options)

    def waves(self) -> Iterator[range]:
        """Yield the seeds of each wave."""
        for first in range(self.first, self.last, self.wave):
            yield range(first, min(first + self.wave, self.last))

    def rows(self, group: pa.Table) -> pa.Table:
        """Carry out the seeds of a group: the step of an engine."""
        return pa.Table.from_pylist([row_of(self.plan(seed)) for seed in group["seed"].to_pylist()], schema=SEEDS)


class Swarm:
    """A sweep in a folder: its order, a table for each wave that is over, findings and coverage."""

    def __init__(self, folder: Path, order: Order) -> None:
        self.folder = folder
        self.order = order

    @classmethod
    def begin(cls, folder: Path, order: Order) -> Swarm:
        """Begin a sweep, or go on with that of the folder. Raises PlanError if the folder has another one, HistoryError if that is damaged."""
        document = {**asdict(order), "options": dict(order.options)}
        head = folder / _HEAD
        if head.exists():
            try:
                known = orjson.loads(head.read_bytes())
            except orjson.JSONDecodeError as error:
                raise HistoryError(f"{head} is damaged: {error}") from error
            if not isinstance(known, dict):
                raise HistoryError(f"{head} is damaged: it holds no object")
            same = ("first", "systems", "options", "wave")
            if any(known.get(name) != orjson.loads(orjson.dumps(document[name])) for name in same):
                raise PlanError(
                    f"{folder} has a sweep of other seeds, systems or options: {orjson.dumps(known).decode()}"
                )
        elif folder.exists() and any(folder.iterdir()):
            raise PlanError(f"{folder} is not empty, and has no sweep")
        make_wanted_folder(folder)
        write_bytes(head, orjson.dumps(document, option=orjson.OPT_INDENT_2))
        return cls(folder, order)

    def alone(self) -> AbstractContextManager[None]:
        """Lock the sweep against other processes. Raises PlanError if another process works on it."""
        return working_alone(self.folder / _LOCK)

    def run(self, engine: Engine, *, stop_after: int | None = None) -> Iterator[Sequence[Mapping[str, Any]]]:
        """Carry out the waves that are not there yet, and yield the rows of all so far after each.

        Ends when `stop_after` findings are known. Raises HistoryError for a wave whose table is damaged.
        """
        rows: list[dict[str, Any]] = []
        for seeds in self.order.waves():
            path = self.folder / f"seeds-{seeds.start:08d}-{seeds.stop:08d}.parquet"
            if path.exists():
                table = _read_wave(path)
            else:
                groups = pa.table(
                    {
                        "unit": pa.array([(seed - seeds.start) // _UNIT for seed in seeds], pa.int32()),
                        "seed": pa.array(seeds, pa.int64()),
                    }
                )
                table = engine.carry(partial(_rows, self.order), groups, SEEDS).sort_by("seed")
                write_table(path, table)
            rows += table.drop_columns(["summary"]).to_pylist()  # thousands of summaries stay in the file
            yield rows
            if stop_after is not None and len(findings_of(rows)) >= stop_after:
                return

    def finish(self, rows: Sequence[Mapping[str, Any]], *, reduce: int, shrink: int) -> list[dict[str, Any]]:
        """Write findings and coverage, each finding with the smallest scenario that so many runs find. Returns the findings."""
        found = findings_of(rows)
        for finding in found.values():
            folder = self.folder / "findings" / finding["id"]
            plan = self.order.plan(finding["first"])
            finding.update(find_smallest(finding, plan, folder, reduce=reduce, shrink=shrink))
        write_table(self.folder / "findings.parquet", pa.Table.from_pylist(list(found.values()), schema=FINDINGS))
        write_table(self.folder / "coverage.parquet", pa.Table.from_pylist(coverage_of(rows), schema=COVERAGE))
        return list(found.values())


def _read_wave(path: Path) -> pa.Table:
    try:
        return read_table(path, SEEDS)
    except HistoryError as error:
        raise HistoryError(f"{error} Delete the file: the same command then judges its seeds again") from error


def _rows(order: Order, group: pa.Table) -> pa.Table:
    return order.rows(group)
