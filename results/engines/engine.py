"""Engines: execution of a step for every group. The step is the same function and gives the same rows on every engine.

A *group* is the rows of one `unit`. They name the input of the step (files, keyspaces, processes) and do not contain it:
the JVM would move the rows themselves at some 50 MB/s, while a task reads them from Parquet at ten times that.
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
from schemaquake.harness.history.lean_arrow import lean_arrow
from schemaquake.results.engines.masters import is_local
from schemaquake.results.engines.spark_session import JAVA_LEAST, light_context, pandas_unused

if TYPE_CHECKING:
    from pyspark import SparkContext

__all__ = ["ENGINES", "Engine", "Local", "Spark", "Step", "choose", "shares"]

log = logging.getLogger(__name__)

Step: TypeAlias = Callable[[pa.Table], pa.Table]

ENGINES: Final = ("auto", "local", "spark")

_LOCAL_BELOW: Final = 200_000  # events; below it, starting Spark takes longer than the work


class Engine(Protocol):
    """Calls a step once for every group."""

    @property
    def width(self) -> int:
        """Number of groups processed at the same time."""
        ...

    @property
    def elsewhere(self) -> bool:
        """True if tasks run on other machines and see only files that all machines see."""
        ...

    @property
    def memory_bytes(self) -> int | None:
        """Memory available to a step, bytes; None if unknown."""
        ...

    def carry(self, step: Step, groups: pa.Table, schema: pa.Schema) -> pa.Table:
        """Return all rows of `step(group)`, as `schema`, for the groups of equal `unit` (int32) in `groups`, in any order."""
        ...


@dataclass(frozen=True, slots=True)
class Local:
    """An engine that processes the groups one after another in this process. `memory_bytes` limits a step; None for no limit."""

    width: int = 1
    memory_bytes: int | None = None

    @property
    def elsewhere(self) -> bool:
        """Always False: every step runs in this process."""
        return False

    def carry(self, step: Step, groups: pa.Table, schema: pa.Schema) -> pa.Table:
        """Implement `Engine.carry`."""
        ordered = groups.sort_by("unit")
        units = ordered["unit"].to_pylist()
        begins = [at for at, unit in enumerate(units) if at == 0 or unit != units[at - 1]]
        ends = [*begins[1:], len(units)] if begins else []
        parts = [step(ordered.slice(begin, end - begin)) for begin, end in zip(begins, ends, strict=True)]
        return pa.concat_tables([schema.empty_table(), *(_cast(part, schema) for part in parts)])


def _cast(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return a table with this schema, itself if it has it: a small run has a hundred of them."""
    return table if table.schema.equals(schema) else table.cast(schema)


@dataclass(frozen=True, slots=True)
class Spark:
    """An engine that distributes the groups among the tasks of a Spark context. The step must be picklable."""

    context: SparkContext
    width: int
    memory_bytes: int | None = None
    """Memory of a step, bytes; None where tasks run elsewhere, with memory that is not known here."""

    @property
    def elsewhere(self) -> bool:
        """True if tasks run on other machines and see only files that all machines see."""
        return not is_local(self.context.master)

    def carry(self, step: Step, groups: pa.Table, schema: pa.Schema) -> pa.Table:
        """Implement `Engine.carry`."""
        if not len(groups):
            return schema.empty_table()
        units = sorted(pc.unique(groups["unit"]).to_pylist())
        parts = [_written(groups.filter(pc.equal(groups["unit"], unit))) for unit in units]

        # Spark tells the workers that a task has one core. Where tasks run on this machine, few have them all, and a
        # worker is used for several steps.
        cores = None if self.elsewhere else max(1, self.width // len(parts))

        def called(written: Iterator[bytes]) -> Iterator[bytes]:
            lean_arrow()
            if cores is not None:
                pa.set_cpu_count(cores)
            for part in written:
                yield _written(step(_read(part)).cast(schema))

        # One task per group, no shuffle, and no query: of a DataFrame, Spark would plan, compile and convert to rows and back
        # what is a few bytes, which took longer than the work, once for each step.
        with pandas_unused():
            try:
                carried = self.context.parallelize(parts, len(parts)).mapPartitions(called).collect()
            except Exception as error:
                raised = _as_raised(error)
                if raised is error:
                    raise
                raise raised from error
        return pa.concat_tables([schema.empty_table(), *map(_read, carried)])


def _written(table: pa.Table) -> bytes:
    """Write a table as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def _read(written: bytes) -> pa.Table:
    """Read a table from an Arrow stream."""
    with pa.ipc.open_stream(written) as stream:
        return stream.read_all()


def _as_raised(error: Exception) -> Exception:
    """Extract the HistoryError that a step raised from the traceback in Spark's error; otherwise return Spark's error."""
    name = re.escape(f"{HistoryError.__module__}.{HistoryError.__qualname__}")
    raised = re.findall(rf"^{name}: (.*)", str(error), re.MULTILINE)
    return HistoryError(raised[-1]) if raised else error


@contextmanager
def choose(name: str, *, events: int, master: str | None = None) -> Iterator[Engine]:
    """Provide the engine of that name. `auto` is Spark if a master is given or the history is large, otherwise local.

    Raises PlanError for an unknown name or a master without Spark, and EnvironmentLacks if Spark is requested and Java is
    missing.
    """
    if name not in ENGINES:
        raise PlanError(f'--engine must be one of {", ".join(ENGINES)}, not "{name}"')
    if name == "local" and master is not None:
        raise PlanError("--master names a Spark cluster, and --engine local does not use one: give one of them")
    if name == "local" or (name == "auto" and master is None and not _pays(events)):
        yield Local()
        return
    with light_context(master) as context:
        yield Spark(context, context.defaultParallelism)


def shares(weights: Mapping[str, int], most: int) -> list[list[str]]:
    """Distribute names over at most `most` shares of about equal weight: the heaviest first, each to the lightest share."""
    parts: list[list[str]] = [[] for _ in range(min(most, len(weights)))]
    loads = [0] * len(parts)
    for name in sorted(weights, key=lambda name: (-weights[name], name)):
        lightest = min(range(len(parts)), key=lambda part: (loads[part], len(parts[part])))
        parts[lightest].append(name)
        loads[lightest] += weights[name]
    return [sorted(part) for part in parts]


def _pays(events: int) -> bool:
    """Return True if the history is large enough for Spark and Spark can be started."""
    if events < _LOCAL_BELOW:
        return False
    try:
        find_java(JAVA_LEAST)
    except EnvironmentLacks as lack:
        log.warning(
            "judging a large history in this process, because Spark cannot be started",
            extra={"events": events, "why": str(lack)},
        )
        return False
    return True
