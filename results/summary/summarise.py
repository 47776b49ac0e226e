"""Summarise: build a run's summary from its folder, write it beside the verdict, and read it back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.harness.atomic import write_bytes
from schemaquake.harness.errors import DamagedFile
from schemaquake.harness.history.journal import STARTED
from schemaquake.harness.history.pairing import OPERATIONS
from schemaquake.harness.model.operation import NEMESIS
from schemaquake.harness.model.records import HISTORY, OBSERVATIONS, keyspace_of, plain
from schemaquake.harness.model.verdict import Anomaly, Verdict
from schemaquake.harness.run.runner import Outcome, read_outcome
from schemaquake.harness.sealed_json import dump_sealed, load_sealed_object
from schemaquake.results.engines.combination import doubts_of
from schemaquake.results.findings.grouping import Grouped, group_anomalies
from schemaquake.results.mode import mode_of
from schemaquake.results.store.store import Store, read_table
from schemaquake.results.summary.run_summary import (
    SUMMARY_SCHEMA,
    CheckerSummary,
    FoundAnomaly,
    PhaseSummary,
    RaceSummary,
    RunSummary,
)
from schemaquake.results.tables.chronicle import chronicle_of
from schemaquake.results.tables.races import RACES

__all__ = ["FILE_NAME", "read_summary", "store_summary", "summarise", "summary_of", "write_summary"]

FILE_NAME: Final = "summary.json"


def write_summary(store: Store, verdict: Verdict, outcome: Outcome) -> RunSummary:
    """Summarise a judged run and write `summary.json` beside its verdict. Raises HistoryError."""
    summary = summarise(store, verdict, outcome)
    store_summary(store, summary)
    return summary


def store_summary(store: Store, summary: RunSummary) -> None:
    """Write a summary as `summary.json`."""
    text = dump_sealed(summary.to_json(), option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)
    write_bytes(store.path(FILE_NAME), text)


def read_summary(store: Store) -> RunSummary:
    """Read a judged run's summary. A summary that is missing or of another version is rebuilt, and not written.

    Raises HistoryError for a run that was not judged, and DamagedFile for a file that is not what was written.
    """
    path = store.path(FILE_NAME)
    try:
        document = load_sealed_object(path.read_bytes()) if path.exists() else {"schema": 0}
        if document["schema"] == SUMMARY_SCHEMA:
            return RunSummary.from_json(document)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedFile(
            f'{path} is damaged ({error}). "schemaquake check {store.folder}" writes it again.', path
        ) from error
    return summarise(store, store.read_verdict(), read_outcome(store.folder))


def summarise(store: Store, verdict: Verdict, outcome: Outcome) -> RunSummary:
    """Build the summary of a run from its plan, its verdict, its tables and the notes of its history.

    A run that never began has no history, and no races; of damaged records the verdict says so, and nothing else is said.
    Raises HistoryError for tables that are missing.
    """
    began = store.path("history.parquet").exists() and not store.damage()
    analysed = (store.path("analysis") / "races.parquet").exists()
    notes = _read_notes(store) if began else HISTORY.empty_table()
    operations = store.read_analysis("operations") if began else OPERATIONS.empty_table()
    races = store.read_analysis("races") if began or analysed else RACES.empty_table()
    started = _started(store)
    return summary_of(
        store.folder.resolve().name,
        store.read_plan(keep_going=True).to_json(),  # its damage is in the verdict
        verdict,
        outcome,
        notes=notes,
        operations=operations,
        races=races,
        started=started,
        seconds=_seconds(store) if began else 0.0,
    )


def summary_of(
    run: str,
    plan: Mapping[str, Any],
    verdict: Verdict,
    outcome: Outcome,
    *,
    notes: pa.Table,
    operations: pa.Table,
    races: pa.Table,
    started: datetime | None,
    seconds: float,
) -> RunSummary:
    """Build the summary of the run of that name from values.

    `notes` are the events of process −1 in its history; the other tables are those of `analysis/`.
    """
    chronicle = chronicle_of(notes)
    grouped = group_anomalies(
        verdict, system=plan["system"], history=notes, operations=operations, races=races, started=started
    )
    own = verdict.doubts if verdict.parts else doubts_of(verdict)
    return RunSummary(
        run=run,
        schemaquake_version=plan["schemaquake_version"],
        system=plan["system"],
        cluster=plan["cluster"],
        nodes=plan["nodes"],
        workloads=tuple(plan["workloads"]),
        mode=mode_of(plan),
        nemeses=tuple(plan["nemeses"]),
        seed=plan["seed"],
        started=None if started is None else started.isoformat(),
        seconds=seconds,
        completed=outcome.completed,
        applicable=outcome.applicable,
        error=outcome.error,
        valid=verdict.valid,
        phases=tuple(
            PhaseSummary(name=phase.name, begins_s=phase.begins / 1e9, seconds=phase.seconds)
            for phase in chronicle.phases
        ),
        operations=_outcomes(operations),
        races=tuple(_race(row, grouped) for row in plain(races).to_pylist()),
        findings=grouped.findings,
        anomalies=_anomalies(verdict.anomalies),
        checkers=tuple(map(_checker, verdict.parts)),
        doubts=tuple(doubt for doubt in own if doubt.checker is None),
        nodes_not_started=tuple(sorted(chronicle.never_back())),
    )


def _checker(part: Verdict) -> CheckerSummary:
    return CheckerSummary(checker=part.checker, valid=part.valid, doubts=doubts_of(part), undecided=part.undecided)


def _started(store: Store) -> datetime | None:
    """Read when the run began; None where that is not known."""
    if not (store.path("journals") / STARTED).exists():
        return None
    try:
        return store.started()
    except DamagedFile:
        return None


def _read_notes(store: Store) -> pa.Table:
    return read_table(
        store.path("history.parquet"),
        HISTORY,
        order="index",
        keep=lambda events: events.filter(pc.equal(events["process"], NEMESIS)),
    )


def _seconds(store: Store) -> float:
    latest = [
        pc.max(read_table(store.path(f"{name}.parquet"), pa.schema([schema.field("time")]))["time"]).as_py()
        for name, schema in (("history", HISTORY), ("observations", OBSERVATIONS))
    ]
    return max((time for time in latest if time is not None), default=0) / 1e9


def _outcomes(operations: pa.Table) -> dict[str, int]:
    counted = pc.value_counts(plain(operations.select(["type"]))["type"]).to_pylist()
    return {"ok": 0, "fail": 0, "info": 0} | {entry["values"]: entry["counts"] for entry in counted}


def _race(row: Mapping[str, Any], grouped: Grouped) -> RaceSummary:
    return RaceSummary(
        keyspace=row["keyspace"],
        workload=row["workload"] or "race",  # external histories may lack a workload
        variant=row["variant"],
        number=row["number"] or 0,
        mode=row["mode"] or "",
        anomalies=tuple(row["anomalies"] or ()),
        ok=row["ok"],
        fail=row["fail"],
        info=row["info"],
        statements=tuple(map(str, grouped.contested.get(row["keyspace"], ()))),
        decided=row["keyspace"] in grouped.decided,
    )


def _anomalies(anomalies: Iterable[Anomaly]) -> tuple[FoundAnomaly, ...]:
    """Count anomalies with equal type, keyspaces and nodes, in order of first appearance."""
    counts: dict[tuple[str, tuple[str, ...], tuple[str, ...]], int] = {}
    titles: dict[str, str] = {}
    for one in anomalies:
        keyspaces = tuple(dict.fromkeys(keyspace_of(name) or name for name in one.objects))
        key = (one.type, keyspaces, one.nodes)
        counts[key] = counts.get(key, 0) + 1
        titles.setdefault(one.type, one.title)
    return tuple(
        FoundAnomaly(type=kind, title=titles[kind], keyspaces=keyspaces, nodes=nodes, count=count)
        for (kind, keyspaces, nodes), count in counts.items()
    )
