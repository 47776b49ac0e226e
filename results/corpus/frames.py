"""Frames: the tables of a corpus as DataFrames, with the rows that count.

Files of commits are read by name, never by listing a folder, so what a dead writer left is not seen. If a run is in two commits, its rows
of the earlier one are left out: it was judged again, or two writers had it at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from schemaquake.harness.errors import PlanError
from schemaquake.results.corpus.commits import COMMITS, Commit, Snapshot
from schemaquake.results.corpus.files import HadoopFiles, escaped
from schemaquake.results.corpus.tables import SCHEMAS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["CorpusFrames", "empty_frame", "open_frames", "read_snapshot", "spark_schema"]


def spark_schema(name: str) -> Any:
    """Return the columns of a table as Spark's type."""
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 - slow to import

    return from_arrow_schema(SCHEMAS[name])


def empty_frame(session: SparkSession, name: str) -> DataFrame:
    """Return a table without rows."""
    return session.createDataFrame([], spark_schema(name))


def read_snapshot(files: HadoopFiles, root: str) -> Snapshot:
    """Read the commits of a corpus; none if there is no corpus. Raises HistoryError for a damaged one."""
    found = [entry for entry in files.list(f"{root}/{COMMITS}") if entry.name.endswith(".json")]
    return Snapshot.of(Commit.from_bytes(files.read(entry.path), entry.name) for entry in found)


@dataclass(frozen=True, slots=True)
class CorpusFrames:
    """The tables of one snapshot."""

    session: SparkSession
    root: str
    snapshot: Snapshot
    outdated: DataFrame | None
    """(run, batch) of rows that do not count; None if there are none."""

    def frame(self, name: str, *, with_batch: bool = False) -> DataFrame:
        """Return a table (`SCHEMAS`), with the column `batch` if that is wanted."""
        table = _committed(self.session, self.root, self.snapshot, name)
        if self.outdated is not None:
            table = table.join(self.outdated.hint("broadcast"), ["run", "batch"], "left_anti")
        columns = [*SCHEMAS[name].names, *(["batch"] if with_batch else [])]
        return table.select(*columns)

    def register(self) -> None:
        """Give the tables their names for SQL."""
        for name in SCHEMAS:
            self.frame(name).createOrReplaceTempView(name)


def open_frames(session: SparkSession, root: str) -> CorpusFrames:
    """Open the tables of a corpus as they are now. Raises PlanError if there is none, HistoryError if it is damaged."""
    files = HadoopFiles(session)
    if not files.exists(f"{root}/{COMMITS}"):
        raise PlanError(f"{root} has no tables yet: `schemaquake corpus RUNS --to {root}` makes them")
    snapshot = read_snapshot(files, root)
    return CorpusFrames(session, root, snapshot, _outdated(session, root, snapshot))


def _committed(session: SparkSession, root: str, snapshot: Snapshot, name: str) -> DataFrame:
    """Read the files of all commits, with `batch` from their folders' names."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - everyone's name for it; slow to import

    paths = [escaped(f"{root}/{file}") for file in snapshot.files(name)]
    if not paths:
        return empty_frame(session, name).withColumn("batch", F.lit(""))
    schema = spark_schema(name).add("batch", "string")
    return session.read.schema(schema).option("basePath", f"{root}/{name}").parquet(*paths)


def _outdated(session: SparkSession, root: str, snapshot: Snapshot) -> DataFrame | None:
    """Return the rows of runs that a later commit has as well. A place has one run: the last one that was read there."""
    from pyspark.sql import Window  # noqa: PLC0415 - slow to import
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - as above

    if len(snapshot.commits) < 2:
        return None
    order = session.createDataFrame(
        [(number, commit.batch) for number, commit in enumerate(snapshot.commits)], "place_in_order int, batch string"
    )
    runs = (
        _committed(session, root, snapshot, "runs")
        .select("run", "place", "batch")
        .join(order.hint("broadcast"), "batch")
    )
    for column in ("place", "run"):
        latest = Window.partitionBy(column)
        runs = runs.withColumn(f"last_{column}", F.max("place_in_order").over(latest))
    outdated = runs.where("place_in_order < last_place OR place_in_order < last_run").select("run", "batch").distinct()
    found = outdated.toArrow()  # few: what was judged again since the last compaction
    return session.createDataFrame(found) if len(found) else None
