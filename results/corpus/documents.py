"""Documents: a run's summary → its rows in every table. A summary that cannot be read is a row with the reason.

Pure functions of bytes: on Spark they are called with what its readers brought, wherever the file lies.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import orjson
import pyarrow as pa

from schemaquake.harness.history.journal import VIRTUAL_EPOCH
from schemaquake.harness.sealed_json import load_sealed
from schemaquake.results.corpus.tables import DOCUMENT, FROM_SUMMARIES, RUNS
from schemaquake.results.findings.description import title_of
from schemaquake.results.findings.finding import Finding
from schemaquake.results.summary.run_summary import SUMMARY_SCHEMA, RunSummary
from schemaquake.results.summary.summarise import FILE_NAME
from schemaquake.results.wording import is_simulated, verdict_name

__all__ = ["cause_key", "identity_of", "parse_documents", "rows_of", "unread_rows"]

_BROKEN: Final = (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError, OverflowError)
_BUNDLE: Final = ".sqz.zip"
_SUMMARY_MOST: Final = 64 << 20  # bytes
_REASON_MOST: Final = 500  # characters
_REASONS_MOST: Final = 5


def parse_documents(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Parse summaries and bundles (`place`, `content`) into rows of `DOCUMENT`, one for each: the step of a Spark job."""
    for batch in batches:
        for given in batch.to_pylist():
            place, content = given["place"], given["content"]
            rows = rows_of(place, content)
            try:
                table = pa.Table.from_pylist([rows], schema=DOCUMENT)
            except (pa.ArrowException, *_BROKEN) as error:  # a number that is too large
                table = pa.Table.from_pylist([_damaged(place, content, error)], schema=DOCUMENT)
            yield from table.to_batches()


def rows_of(place: str, content: bytes) -> dict[str, Any]:
    """Return the rows of the run with this summary, or of this bundle (`DOCUMENT`). `place` names where it was read."""
    try:
        if place.endswith(_BUNDLE):
            content = _summary_in(content)
        document = load_sealed(content)
        if not isinstance(document, dict) or document.get("schema") != SUMMARY_SCHEMA:
            return _unread(place, content, "not judged", "its summary is of another version")
        return _rows(RunSummary.from_json(document), place, content)
    except _BROKEN as error:
        return _damaged(place, content, error)


def unread_rows(place: str) -> dict[str, Any]:
    """Return the rows of a run that has a plan and no summary."""
    return _unread(place, b"", "not judged", "it has no summary: `schemaquake check` makes one")


def _summary_in(bundle: bytes) -> bytes:
    """Return the summary in a bundle. Raises KeyError, ValueError for anything else."""
    try:
        with zipfile.ZipFile(io.BytesIO(bundle)) as archive, archive.open(FILE_NAME) as file:
            content = file.read(_SUMMARY_MOST + 1)
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError) as error:
        raise ValueError(f"it is no bundle: {error}") from error
    if len(content) > _SUMMARY_MOST:
        raise ValueError("its summary is larger than any")
    return content


def cause_key(finding: Finding) -> str:
    """Return what a finding has in common on all designs of a product, as JSON."""
    cause = {name: value for name, value in finding.cause.to_json().items() if name != "era"}
    return orjson.dumps(cause, option=orjson.OPT_SORT_KEYS).decode()


def _damaged(place: str, content: bytes, error: Exception) -> dict[str, Any]:
    return _unread(place, content, "damaged", str(error) or type(error).__name__)


def _unread(place: str, content: bytes, state: str, reason: str) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(RUNS.names)
    row |= dict.fromkeys(("races", "broken", *FROM_SUMMARIES, "operations", "notes"), 0)
    row |= {
        "run": _hash(place),
        "name": place.rpartition("/")[2],
        "place": place,
        "digest": hashlib.sha256(content).hexdigest(),
        "state": state,
        "reason": reason[:_REASON_MOST],
    }
    return {"row": row, **dict.fromkeys(FROM_SUMMARIES, ())}


def _rows(summary: RunSummary, place: str, content: bytes) -> dict[str, Any]:
    run = identity_of(summary)
    own = {"run": run, "system": summary.system}
    tables: dict[str, list[dict[str, Any]]] = {
        "races": [
            {
                **own,
                "keyspace": race.keyspace,
                "workload": race.workload,
                "variant": race.variant,
                "number": race.number,
                "mode": race.mode,
                "nemeses": list(summary.nemeses),
                "statements": list(race.statements),
                "anomalies": list(race.anomalies),
                "broken": bool(race.anomalies),
                "decided": race.decided,
                "ok": race.ok,
                "fail": race.fail,
                "info": race.info,
            }
            for race in summary.races
        ],
        "anomalies": [
            {
                **own,
                "type": one.type,
                "keyspaces": list(one.keyspaces),
                "nodes": list(one.nodes),
                "count": one.count,
            }
            for one in summary.anomalies
        ],
        "findings": [{**own, **_finding(finding)} for finding in summary.findings],
        "checkers": [
            {
                **own,
                "checker": one.checker,
                "valid": verdict_name(one.valid),
                "doubts": sorted({doubt.kind for doubt in one.doubts}),
                "reason": "; ".join(doubt.sentence for doubt in one.doubts[:_REASONS_MOST])[:_REASON_MOST] or None,
            }
            for one in summary.checkers
        ],
        "phases": [
            {**own, "phase": phase.name, "begins_s": phase.begins_s, "seconds": phase.seconds}
            for phase in summary.phases
        ],
    }
    row = _run_row(summary, {name: len(rows) for name, rows in tables.items()})
    row |= {"run": run, "place": place, "digest": hashlib.sha256(content).hexdigest()}
    return {"row": row, **tables}


def _run_row(summary: RunSummary, counts: Mapping[str, int]) -> dict[str, Any]:
    product, _, version = summary.system.partition(":")
    return {
        "name": summary.run,
        "state": "judged",
        "reason": None,
        "system": summary.system,
        "product": product,
        "version": version,
        "cluster": summary.cluster,
        "nodes": summary.nodes,
        "workloads": list(summary.workloads),
        "nemeses": list(summary.nemeses),
        "mode": summary.mode,
        "seed": summary.seed,
        "started": summary.started,
        "seconds": float(summary.seconds),
        "completed": summary.completed,
        "error": summary.error,
        "valid": verdict_name(summary.valid),
        "harness": summary.schemaquake_version,
        **{kind: summary.operations.get(kind, 0) for kind in ("ok", "fail", "info")},
        **counts,
        "broken": sum(bool(race.anomalies) for race in summary.races),
        "operations": 0,
        "notes": 0,
    }


def identity_of(summary: RunSummary) -> str:
    """Return the identity of a run: the same for its copies, and after it was judged again.

    Summaries of simulated runs once had the moment at which virtual time begins, and have none now.
    """
    started = VIRTUAL_EPOCH.isoformat() if summary.started is None and is_simulated(summary.system) else summary.started
    return _hash(
        [
            summary.run,
            started,
            summary.system,
            summary.cluster,
            summary.nodes,
            list(summary.workloads),
            list(summary.nemeses),
            summary.mode,
            summary.seed,
        ]
    )


def _finding(finding: Finding) -> dict[str, Any]:
    low, high = finding.rate.interval
    known = finding.known
    slim = replace(
        finding,
        races=(),
        statements=(),
        symptoms=tuple(replace(one, anomalies=(), races=(), nodes=(), follows_from=()) for one in finding.symptoms),
    )
    return {
        "finding": finding.id,
        "cause": cause_key(finding),
        "title": title_of(finding),
        "symptoms": list(dict.fromkeys(symptom.type for symptom in finding.symptoms)),
        "fault": finding.cause.fault,
        "tickets": list(known.tickets) if known is not None else [],
        "unit": finding.rate.unit,
        "broken": finding.rate.broken,
        "tried": finding.rate.tried,
        "low": low,
        "high": high,
        "sides": [[str(shape) for shape in side] for side in finding.sides],
        "first_seen": finding.first_seen,
        "last_seen": finding.last_seen,
        "document": orjson.dumps(slim.to_json(), option=orjson.OPT_SORT_KEYS).decode(),
    }


def _hash(value: Sequence[Any] | str) -> str:
    return hashlib.blake2b(orjson.dumps(value), digest_size=10).hexdigest()
