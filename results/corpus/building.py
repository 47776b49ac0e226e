"""Building: runs → files of a batch → its commit. Summaries cross into Python to be parsed, tables stay in the JVM.

A batch is written into folders that nobody has used before (`attempt`), read back, counted, and only then committed. A task that dies
is Spark's to repeat; whoever dies as a whole leaves folders without a commit, and the next call begins that batch anew. A batch whose
rows are not those that its runs announce is not committed; a run whose own tables have fewer is marked `incomplete`.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from schemaquake.harness.errors import HistoryError, PlanError
from schemaquake.results.corpus.commits import COMMITS, Commit, Snapshot, batch_name
from schemaquake.results.corpus.documents import parse_documents, unread_rows
from schemaquake.results.corpus.files import HadoopFiles, escaped
from schemaquake.results.corpus.frames import CorpusFrames, empty_frame, open_frames, read_snapshot, spark_schema
from schemaquake.results.corpus.sources import Source, divided, find_sources, plain_path
from schemaquake.results.corpus.tables import DOCUMENT, FROM_SUMMARIES, RUNS, SCHEMAS
from schemaquake.results.engines.spark_session import pandas_unused

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["BATCH", "Added", "Corpus"]

log = logging.getLogger(__name__)

BATCH: Final = 10_000  # runs
_DOCUMENTS_AT_ONCE: Final = 64
"""Summaries that cross into Python together: each has up to some hundred kilobytes."""
_ROWS_OF_A_FILE: Final = 8_000_000
"""Operations in a file of 128 to 256 MB."""
_ORDER: Final[Mapping[str, Sequence[str]]] = {
    "runs": ("system", "run"),
    "races": ("system", "run", "number", "keyspace"),
    "anomalies": ("system", "run", "type", "keyspaces", "nodes"),
    "findings": ("system", "run", "finding"),
    "checkers": ("system", "run", "checker"),
    "phases": ("system", "run", "begins_s", "phase"),
    "operations": ("system", "run", "index"),
    "notes": ("system", "run", "index"),
}
_PARTITIONED: Final = ("operations",)
"""Tables with a folder for each system: most questions are about few."""
_READ: Final[Mapping[str, tuple[str, str, str]]] = {
    "operations": (
        "operations",
        "index long, process int, type string, f string, node string, key string, invoked long, completed long, error string",
        "true",
    ),
    "notes": (
        "history",
        "index long, time long, process int, f string, node string, value string",
        "process = -1 AND f <> 'race'",
    ),
}
"""Table → the source's file, its columns, and the rows that are kept."""


_COUNTED: Final = tuple(name for name in SCHEMAS if name != "runs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """One batch that was committed."""

    commit: Commit
    unread: Sequence[tuple[str, str]]
    """Places of runs that are not whole, each with the reason."""


class Corpus:
    """The tables in a folder of any file system, and a session that reads and writes them."""

    def __init__(self, session: SparkSession, root: str) -> None:
        """Touch nothing. `root` is an address (`schemaquake.results.corpus.files.address_of`)."""
        self.session = session
        self.root = root
        self.files = HadoopFiles(session)
        session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(_DOCUMENTS_AT_ONCE))
        session.conf.set("spark.sql.sources.partitionColumnTypeInference.enabled", "false")
        # Spark's 200 are too many for a laptop and too few for a large cluster.
        session.conf.set("spark.sql.shuffle.partitions", str(max(8, 2 * session.sparkContext.defaultParallelism)))

    @pandas_unused()
    def frames(self) -> CorpusFrames:
        """Open the tables as they are now. Raises PlanError if there are none."""
        return open_frames(self.session, self.root)

    def snapshot(self) -> Snapshot:
        """Read the commits. Raises HistoryError for a damaged one."""
        return read_snapshot(self.files, self.root)

    def add(self, paths: Iterable[str], *, batch: int = BATCH) -> Iterator[Added]:
        """Add the runs at and below some paths that are not there yet, or have changed, and yield each batch that was committed.

        Raises PlanError if a path is not there, no run lies there, or the folder has other files.
        """
        self._refuse_other_folders()
        paths = list(paths)
        found = find_sources(self.session, paths)
        if not found:
            raise PlanError(f"no run, bundle or sweep lies at or below {', '.join(paths)}")
        known, digests = self._known()
        sources = [source for source in found if (source.place, source.stamp) not in known]
        for some in divided(sources, batch):
            added = self._add(some, digests)
            if added is not None:
                yield added

    @pandas_unused()
    def compact(self) -> Commit | None:
        """Write the rows that count into few files, in one commit that replaces the others. None if there is only one."""
        frames = self.frames()
        if len(frames.snapshot.commits) < 2:
            return None
        commits = frames.snapshot.commits
        name = batch_name((commit.batch, commit.attempt) for commit in commits)
        heads = frames.frame("runs").select("run", *_COUNTED).toArrow().to_pylist()
        attempt = _Attempt(self, name)
        for table in SCHEMAS:
            attempt.write(table, frames.frame(table), {row["run"]: row["operations"] for row in heads})
            _refuse_other_count(attempt, table, heads)
        return self._commit(attempt, len(heads), replaces=[commit.batch for commit in commits])

    def vacuum(self, older_than_ms: int, now_ms: int) -> list[str]:
        """Delete folders and commits that do not count, if every file in them is older. Returns their paths."""
        snapshot = self.snapshot()
        live = {commit.batch for commit in snapshot.commits}
        wanted = {
            f"{name}/batch={commit.batch}/attempt={commit.attempt}" for commit in snapshot.commits for name in SCHEMAS
        }
        gone = [
            entry.path
            for entry in self.files.list(f"{self.root}/{COMMITS}")
            if entry.name.removesuffix(".json") not in live and now_ms - entry.modified_ms > older_than_ms
        ]
        for name in SCHEMAS:
            for folder in self.files.list(f"{self.root}/{name}"):
                for attempt in self.files.list(folder.path):
                    newest = max(
                        (one.modified_ms for one in self.files.walk(attempt.path)), default=attempt.modified_ms
                    )
                    is_wanted = f"{name}/{folder.name}/{attempt.name}" in wanted
                    if not is_wanted and now_ms - newest > older_than_ms:
                        gone.append(attempt.path)
        for path in gone:
            self.files.delete(path)
        return gone

    def _refuse_other_folders(self) -> None:
        """Raise PlanError for a folder with other things in it."""
        strange = [entry.name for entry in self.files.list(self.root) if entry.name not in SCHEMAS]
        if strange:
            raise PlanError(
                f"{self.root} has files that are no tables ({strange[0]}): name another folder, or an empty one"
            )

    @pandas_unused()
    def _known(self) -> tuple[set[tuple[str, str]], dict[str, str]]:
        """Return the sources that were read (place, stamp), and the digest of each run."""
        if not self.snapshot().commits:
            return set(), {}
        runs = self.frames().frame("runs").select("source", "stamp", "run", "digest").toArrow().to_pylist()
        return {(row["source"], row["stamp"]) for row in runs}, {row["run"]: row["digest"] for row in runs}

    @pandas_unused()
    def _add(self, sources: Sequence[Source], digests: dict[str, str]) -> Added | None:
        documents = self._documents(sources).persist()
        try:
            rows = _kept(documents.select("row.*").toArrow().to_pylist(), sources, digests)
            if not rows:
                return None
            places = self._frame([{"place": row["place"]} for row in rows], "place string")
            kept = documents.join(places.hint("broadcast"), documents["row.place"] == places["place"], "left_semi")
            attempt = _Attempt(self, batch_name((row["run"], row["digest"]) for row in rows))
            by_place = {source.place: source for source in sources}
            for name in _READ:
                _count(rows, name, self._tables(attempt, name, rows, by_place))
            sizes = {row["run"]: row["operations"] for row in rows}
            attempt.write("runs", self.session.createDataFrame(pa.Table.from_pylist(rows, schema=RUNS)), sizes)
            for name in FROM_SUMMARIES:
                attempt.write(name, kept.selectExpr(f"inline({name})"), sizes)
                _refuse_other_count(attempt, name, rows)
        finally:
            documents.unpersist()
        commit = self._commit(attempt, len(rows))
        digests |= {row["run"]: row["digest"] for row in rows}
        unread = [(row["place"], f"{row['state']}: {row['reason']}") for row in rows if row["state"] != "judged"]
        return Added(commit=commit, unread=unread)

    def _frame(self, rows: Sequence[Mapping[str, Any]], schema: str) -> DataFrame:
        names = [part.split()[0] for part in schema.split(", ")]
        return self.session.createDataFrame([tuple(row[name] for name in names) for row in rows], schema)

    def _documents(self, sources: Sequence[Source]) -> DataFrame:
        """Parse the summaries of some sources."""
        from pyspark.sql import functions as F  # noqa: N812, PLC0415 - everyone's name for it; slow to import
        from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 - as above

        schema = from_arrow_schema(DOCUMENT)
        single = [escaped(source.file) for source in sources if source.file and not source.is_sweep]
        sweeps = [escaped(source.file) for source in sources if source.file and source.is_sweep]
        missing = [unread_rows(source.place) for source in sources if source.file is None]
        frames = []
        if single:
            place = F.regexp_replace(F.regexp_replace("path", "^file:/+", "file:/"), "/summary[.]json$", "")
            files = self.session.read.format("binaryFile").load(single).select(place.alias("place"), "content")
            frames.append(files.mapInArrow(parse_documents, schema))
        if sweeps:
            read = self.session.read.schema("seed long, summary string").parquet(*sweeps).where("summary IS NOT NULL")
            place = F.concat(plain_path(F.col("_metadata.file_path")), F.lit("#"), F.col("seed").cast("string"))
            seeds = read.select(place.alias("place"), F.encode("summary", "UTF-8").alias("content"))
            frames.append(seeds.mapInArrow(parse_documents, schema))
        if missing:
            frames.append(self.session.createDataFrame(pa.Table.from_pylist(missing, schema=DOCUMENT), schema))
        united = frames[0]
        for frame in frames[1:]:
            united = united.union(frame)
        return united

    def _tables(
        self, attempt: _Attempt, name: str, rows: Sequence[Mapping[str, Any]], sources: Mapping[str, Source]
    ) -> Mapping[str, int]:
        """Write a table of the runs' own Parquet files, and return the rows of each run that has such a file.

        A file that cannot be read ends the job; then it is done again, and damaged files are passed over.
        """
        kind, columns, condition = _READ[name]
        judged = [(row, sources[row["source"]]) for row in rows if row["state"] == "judged"]
        paths = {path: row for row, source in judged if (path := getattr(source, kind))}
        frame = self._joined(name, paths, columns, condition) if paths else None
        if frame is None:
            attempt.write(name, empty_frame(self.session, name), {})
            return {}
        sizes = {row["run"]: sum(row[kind] or 0 for kind in ("ok", "fail", "info")) for row in paths.values()}
        try:
            attempt.write(name, frame, sizes)
        except Exception:
            log.warning(
                "a file of a run cannot be read; damaged ones are passed over", extra={"table": name}, exc_info=True
            )
            attempt.discard(name)
            with self._setting("spark.sql.files.ignoreCorruptFiles", "true"):
                attempt.write(name, frame, sizes)
        found = {row["run"]: row["count"] for row in attempt.frame(name).groupBy("run").count().toArrow().to_pylist()}
        return {run: found.get(run, 0) for run in sizes}

    def _joined(self, name: str, paths: Mapping[str, Mapping[str, Any]], columns: str, condition: str) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812, PLC0415 - everyone's name for it; slow to import

        keys = self._frame(
            [{"file": path, "run": row["run"], "system": row["system"]} for path, row in paths.items()],
            "file string, run string, system string",
        )
        read = self.session.read.schema(columns).parquet(*map(escaped, paths)).where(condition)
        return (
            read.withColumn("file", plain_path(F.col("_metadata.file_path")))
            .join(keys.hint("broadcast"), "file")
            .select(*SCHEMAS[name].names)
        )

    @contextmanager
    def _setting(self, name: str, value: str) -> Iterator[None]:
        before = self.session.conf.get(name)
        self.session.conf.set(name, value)
        try:
            yield
        finally:
            self.session.conf.set(name, before)  # type: ignore[arg-type,unused-ignore]

    def _commit(self, attempt: _Attempt, runs: int, *, replaces: Sequence[str] = ()) -> Commit:
        commit = Commit(
            batch=attempt.batch,
            attempt=attempt.name,
            generation=self.snapshot().generation + 1,
            runs=runs,
            rows=attempt.rows,
            files=attempt.files,
            replaces=replaces,
        )
        path = f"{self.root}/{COMMITS}/{commit.batch}.json"
        if not self.files.write(path, commit.to_bytes()):
            log.info("another writer committed the same batch", extra={"batch": commit.batch})
            return Commit.from_bytes(self.files.read(path), commit.batch)
        return commit


class _Attempt:
    """The folders of one try to write a batch."""

    def __init__(self, corpus: Corpus, batch: str) -> None:
        self.batch = batch
        self.name = secrets.token_hex(8)
        self.rows: dict[str, int] = {}
        self.files: dict[str, list[str]] = {}
        self._corpus = corpus

    def write(self, table: str, frame: DataFrame, sizes: Mapping[str, int]) -> None:
        """Write the rows of a table, those of a run together, and count them. `sizes` has the operations of each run."""
        folder = self._folder(table)
        order = _ORDER[table]
        columns = SCHEMAS[table].names
        if table in _PARTITIONED and sizes:
            buckets = _buckets(sizes)
            placed = self._corpus.session.createDataFrame(list(buckets.items()), "run string, bucket int")
            count = max(buckets.values()) + 1
            frame = frame.join(placed.hint("broadcast"), "run").repartition(count, "bucket").select(*columns)
        else:
            frame = frame.select(*columns).repartition(1)
        writer = frame.sortWithinPartitions(*order).write.mode("error").option("compression", "zstd")
        (writer.partitionBy("system") if table in _PARTITIONED else writer).parquet(folder)
        prefix = f"{self._corpus.root}/"
        entries = [entry.path for entry in self._corpus.files.walk(folder) if entry.name.endswith(".parquet")]
        self.files[table] = [_below(path, prefix) for path in entries]
        self.rows[table] = self.frame(table).count()

    def frame(self, table: str) -> DataFrame:
        """Read back what was written."""
        if not self.files[table]:
            return self._corpus.session.createDataFrame([], spark_schema(table))
        paths = [escaped(f"{self._corpus.root}/{file}") for file in self.files[table]]
        reader = self._corpus.session.read.schema(spark_schema(table))
        return reader.option("basePath", f"{self._corpus.root}/{table}").parquet(*paths)

    def discard(self, table: str) -> None:
        """Delete what a failed write left."""
        self._corpus.files.delete(self._folder(table))

    def _folder(self, table: str) -> str:
        return f"{self._corpus.root}/{table}/batch={self.batch}/attempt={self.name}"


def _refuse_other_count(attempt: _Attempt, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Raise HistoryError if a table does not have as many rows as the runs say."""
    announced = len(rows) if table == "runs" else sum(row[table] for row in rows)
    if attempt.rows[table] != announced:
        raise HistoryError(
            f"the table {table} has {attempt.rows[table]} rows, and its runs have {announced}: nothing was committed"
        )


def _kept(
    rows: Iterable[dict[str, Any]], sources: Sequence[Source], digests: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return the rows of `runs` that are new, each run once, with their sources."""
    stamps = {source.place: source.stamp for source in sources}
    kept: dict[str, dict[str, Any]] = {}
    for row in sorted(rows, key=lambda row: str(row["place"])):
        place = row["place"]
        source = place if place in stamps else place.rpartition("#")[0]
        row |= {"source": source, "stamp": stamps[source]}
        if digests.get(row["run"]) != row["digest"]:
            kept.setdefault(row["run"], row)
    return list(kept.values())


def _count(rows: Sequence[dict[str, Any]], name: str, found: Mapping[str, int]) -> None:
    """Note how many rows of a table each run has, and mark those that have fewer than they announce."""
    for row in rows:
        if row["run"] not in found:
            continue
        row[name] = found[row["run"]]
        announced = sum(row[kind] or 0 for kind in ("ok", "fail", "info"))
        if name == "operations" and row[name] != announced:
            row |= {"state": "incomplete", "reason": f"{row[name]} of its {announced} operations could be read"}


def _buckets(sizes: Mapping[str, int]) -> dict[str, int]:
    """Divide runs into buckets of about as many operations as a file shall have."""
    buckets: dict[str, int] = {}
    filled = bucket = 0
    for run in sorted(sizes):
        if filled >= _ROWS_OF_A_FILE:
            bucket, filled = bucket + 1, 0
        buckets[run] = bucket
        filled += sizes[run]
    return buckets


def _below(path: str, prefix: str) -> str:
    """Return a path without the corpus' own; Hadoop may write `file:/` where we write `file:///`."""
    plain, root = path.replace("file:///", "file:/"), prefix.replace("file:///", "file:/")
    if not plain.startswith(root):
        raise HistoryError(f"{path} is not in {prefix}")
    return plain.removeprefix(root)
