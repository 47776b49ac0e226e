"""Engines: who calls a step for every group. The step is the same function and gives the same rows, wherever it runs.

A *group* is the rows of one `unit`; they say what the step is to work on (files, keyspaces, processes) and do not carry
it. The JVM would move the rows themselves at some 50 MB/s, while a task reads them from Parquet at ten times that.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.clusters.distribution.java import find_java
from schemaquake.harness.errors import EnvironmentLacks, HistoryError, PlanError
from schemaquake.results.engines.spark_session import JAVA_LEAST, pandas_unused, spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["ENGINES", "Engine", "Local", "Spark", "Step", "choose", "shares"]

log = logging.getLogger(__name__)

Step: TypeAlias = Callable[[pa.Table], pa.Table]

ENGINES: Final = ("auto", "local", "spark")

_LOCAL_BELOW: Final = 200_000  # events: until then Spark takes longer to start than the work takes


class Engine(Protocol):
    """Calls a step once for every group."""

    @property
    def width(self) -> int:
        """How many groups it works on at once."""
        ...

    @property
    def elsewhere(self) -> bool:
        """Whether tasks run on other machines, and see only files that all machines see."""
        ...

    @property
    def memory_bytes(self) -> int | None:
        """How much memory a step may take; null: nobody says."""
        ...

    def carry(self, step: Step, groups: pa.Table, schema: pa.Schema) -> pa.Table:
        """All rows of `step(group)`, as `schema`, for the groups of equal `unit` (int32) in `groups`; in any order."""
        ...


@dataclass(frozen=True, slots=True)
class Local:
    """One group after another, in this process. `memory_bytes`: what a step may take of its memory; null: all there is."""

    width: int = 1
    memory_bytes: int | None = None

    @property
    def elsewhere(self) -> bool:
        """Never: all of it is here."""
        return False

    def carry(self, step: Step, groups: pa.Table, schema: pa.Schema) -> pa.Table:
        """See `Engine`."""
        units = sorted(pc.unique(groups["unit"]).to_pylist())
        parts = [step(groups.filter(pc.equal(groups["unit"], unit))).cast(schema) for unit in units]
        return pa.concat_tables([schema.empty_table(), *parts])


@dataclass(frozen=True, slots=True)
class Spark:
    """The groups shared out among the tasks of a Spark session; the step must be picklable."""

    session: SparkSession
    width: int

    @property
    def memory_bytes(self) -> int | None:
        """Spark's own settings say what an executor has."""
        return None

    @property
    def elsewhere(self) -> bool:
        """Whether tasks run on other machines, and see only files that all machines see."""
        return not str(self.session.sparkContext.master).startswith("local")

    def carry(self, step: Step, groups: pa.Table, schema: pa.Schema) -> pa.Table:
        """See `Engine`."""
        with pandas_unused():
            from pyspark.errors import PythonException  # noqa: PLC0415 - only where there is a session
            from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415

            if not len(groups):
                return schema.empty_table()

            units = sorted(pc.unique(groups["unit"]).to_pylist())
            parts = [groups.filter(pc.equal(groups["unit"], unit)) for unit in units]

            def called(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
                for batch in numbers:
                    for number in batch.column(0).to_pylist():
                        yield from step(parts[number]).cast(schema).to_batches()

            # A task a group, and no shuffle: rows that only say what to work on travel with the step.
            numbers = self.session.range(0, len(parts), numPartitions=len(parts))
            try:
                carried = numbers.mapInArrow(called, from_arrow_schema(schema)).toArrow()
            except PythonException as error:
                raise _as_raised(error) from error
        return carried.cast(schema)


def _as_raised(error: Exception) -> Exception:
    """The HistoryError that a step raised, out of the traceback that Spark makes of it; else Spark's own error."""
    raised = re.findall(r"^harness\.errors\.HistoryError: (.*)", str(error), re.MULTILINE)
    return HistoryError(raised[-1]) if raised else error


@contextmanager
def choose(name: str, *, events: int, master: str | None = None) -> Iterator[Engine]:
    """The engine of that name; `auto` is Spark where a master is named or the history is large, else local.

    Raises PlanError for a name there is not or a master without Spark, EnvironmentLacks if Spark is asked for and
    there is no Java for it.
    """
    if name not in ENGINES:
        raise PlanError(f'--engine is one of {", ".join(ENGINES)}, not "{name}"')
    if name == "local" and master is not None:
        raise PlanError("--master names a Spark cluster, and --engine local does without one: give one of them")
    if name == "local" or (name == "auto" and master is None and not _pays(events)):
        yield Local()
        return
    with spark_session(master) as session:
        yield Spark(session, session.sparkContext.defaultParallelism)


def shares(weights: Mapping[str, int], most: int) -> list[list[str]]:
    """Names in at most so many shares of about equal weight: the heaviest first, each to the lightest share."""
    parts: list[list[str]] = [[] for _ in range(min(most, len(weights)))]
    loads = [0] * len(parts)
    for name in sorted(weights, key=lambda name: (-weights[name], name)):
        lightest = min(range(len(parts)), key=lambda part: (loads[part], len(parts[part])))
        parts[lightest].append(name)
        loads[lightest] += weights[name]
    return [sorted(part) for part in parts]


def _pays(events: int) -> bool:
    """Whether Spark is worth its start, and could be started."""
    if events < _LOCAL_BELOW:
        return False
    try:
        find_java(JAVA_LEAST)
    except EnvironmentLacks as lack:
        log.warning("judged in this process, although the history is large", extra={"events": events, "why": str(lack)})
        return False
    return True
