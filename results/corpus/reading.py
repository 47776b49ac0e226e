"""Reading: the runs of a corpus on this machine, without Spark: summaries rebuilt from the tables, as far as these have them.

What no table has is left out: the text of every doubt but the first, and phases' notes. A commit's small tables are in memory one at a time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from schemaquake.checkers.findings.catalogue import CATALOGUE
from schemaquake.harness.errors import HistoryError
from schemaquake.harness.model.verdict import Doubt, Validity
from schemaquake.results.corpus.commits import COMMITS, Commit, Snapshot
from schemaquake.results.corpus.tables import FROM_SUMMARIES, SCHEMAS
from schemaquake.results.findings.finding import Finding
from schemaquake.results.summary.run_summary import (
    CheckerSummary,
    FoundAnomaly,
    PhaseSummary,
    RaceSummary,
    RunSummary,
)

__all__ = ["StoredRun", "is_corpus", "read_runs", "read_summaries"]

_VALID: Final[Mapping[str, Validity]] = {"valid": True, "invalid": False, "unknown": "unknown"}
_NEEDED: Final = ("run", "name", "place", "digest", "state", "reason")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun:
    """One run that counts."""

    run: str
    name: str
    place: str
    digest: str
    state: str
    reason: str | None
    commit: Commit


def is_corpus(folder: Path) -> bool:
    """Return True for a folder with the tables of a corpus."""
    return (folder / COMMITS).is_dir()


def read_runs(folder: Path) -> list[StoredRun]:
    """List the runs that count, by name. Raises HistoryError for a damaged corpus."""
    commits = [
        Commit.from_bytes(path.read_bytes(), path.name) for path in sorted((folder / COMMITS).glob("[!_.]*.json"))
    ]
    by_place: dict[str, StoredRun] = {}
    for commit in Snapshot.of(commits).commits:
        for row in _rows(folder, commit, "runs", _NEEDED):
            by_place[row["place"]] = StoredRun(**row, commit=commit)
    by_run = {one.run: one for one in sorted(by_place.values(), key=lambda one: one.commit.order)}
    return sorted(by_run.values(), key=lambda one: (one.name, one.run))


def read_summaries(folder: Path, runs: Iterable[StoredRun]) -> Iterator[tuple[StoredRun, RunSummary]]:
    """Yield the summary of each of these runs that was judged. Raises HistoryError for a damaged corpus."""
    by_commit: dict[str, list[StoredRun]] = defaultdict(list)
    for one in runs:
        if one.state in {"judged", "incomplete"}:
            by_commit[one.commit.batch].append(one)
    for some in by_commit.values():
        commit, wanted = some[0].commit, {one.run for one in some}
        rows = {row["run"]: row for row in _rows(folder, commit, "runs", SCHEMAS["runs"].names)}
        tables = {name: _by_run(folder, commit, name, wanted) for name in FROM_SUMMARIES}
        for one in some:
            yield one, _summary(rows[one.run], {name: table.get(one.run, []) for name, table in tables.items()})


def _rows(folder: Path, commit: Commit, table: str, columns: Iterable[str]) -> Iterator[dict[str, Any]]:
    schema = pa.schema([SCHEMAS[table].field(name) for name in columns])
    for file in commit.files.get(table, ()):
        path = folder / file
        try:
            with pq.ParquetFile(path) as opened:
                for batch in opened.iter_batches(columns=schema.names):
                    yield from batch.to_pylist()
        except (pa.ArrowException, OSError) as error:
            raise HistoryError(f"{path} is damaged: {error}") from error


def _by_run(folder: Path, commit: Commit, table: str, wanted: set[str]) -> dict[str, list[dict[str, Any]]]:
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in _rows(folder, commit, table, SCHEMAS[table].names):
        if row["run"] in wanted:
            rows[row["run"]].append(row)
    return rows


def _summary(row: Mapping[str, Any], tables: Mapping[str, list[dict[str, Any]]]) -> RunSummary:
    return RunSummary(
        run=row["name"],
        schemaquake_version=row["harness"],
        system=row["system"],
        cluster=row["cluster"],
        nodes=row["nodes"],
        workloads=tuple(row["workloads"]),
        mode=row["mode"],
        nemeses=tuple(row["nemeses"]),
        seed=row["seed"],
        started=row["started"],
        seconds=row["seconds"],
        completed=row["completed"],
        applicable=True,
        error=row["error"],
        valid=_VALID[row["valid"]],
        phases=tuple(
            PhaseSummary(name=one["phase"], begins_s=one["begins_s"], seconds=one["seconds"])
            for one in tables["phases"]
        ),
        operations={kind: row[kind] for kind in ("ok", "fail", "info")},
        races=tuple(map(_race, tables["races"])),
        findings=tuple(Finding.from_json(orjson.loads(one["document"])) for one in tables["findings"]),
        anomalies=tuple(map(_anomaly, tables["anomalies"])),
        checkers=tuple(
            CheckerSummary(
                checker=one["checker"],
                valid=_VALID[one["valid"]],
                doubts=tuple(Doubt(kind, one["reason"] or kind) for kind in one["doubts"]),
            )
            for one in tables["checkers"]
        ),
    )


def _race(row: Mapping[str, Any]) -> RaceSummary:
    plain = ("keyspace", "workload", "variant", "number", "mode", "ok", "fail", "info", "decided")
    values: dict[str, Any] = {name: row[name] for name in plain}
    return RaceSummary(**values, anomalies=tuple(row["anomalies"]), statements=tuple(row["statements"]))


def _anomaly(row: Mapping[str, Any]) -> FoundAnomaly:
    known = CATALOGUE.get(row["type"])
    return FoundAnomaly(
        type=row["type"],
        title=known.title if known else row["type"],
        keyspaces=tuple(row["keyspaces"]),
        nodes=tuple(row["nodes"]),
        count=row["count"],
    )
