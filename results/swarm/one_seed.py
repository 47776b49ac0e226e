"""One seed: its plan carried out and judged in memory. Nothing of it stays but a row.

The same plan in a folder of its own, by the command in the row, gives the same journals, byte for byte.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import signal
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.clusters.simulated.cluster import BOOKS
from schemaquake.harness.errors import ExitCode, SchemaquakeError
from schemaquake.harness.model.operation import NEMESIS
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.model.traits import checker_traits
from schemaquake.harness.model.verdict import Validity, Verdict
from schemaquake.harness.registry import load_all
from schemaquake.harness.run.conductor import Conductor
from schemaquake.harness.run.runner import Outcome
from schemaquake.harness.sealed_json import dump_sealed
from schemaquake.results.findings.description import title_of
from schemaquake.results.judging.judge import judge
from schemaquake.results.store.store import Store
from schemaquake.results.summary.run_summary import RunSummary
from schemaquake.results.summary.summarise import summary_of
from schemaquake.results.tables.races import tabulate_races

__all__ = ["findings_in", "row_of"]

_LIMIT_S: Final = 60.0
_CPU_LIMIT_S: Final = 120.0
"""CPU time of a seed, some hundred times what one takes: a broken model may go round in a circle, and must not end a sweep."""
_IN_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - a folder of its own is made there, with the rights of tempfile
_ROOM: Final = 256 << 20
"""Bytes that have to be free in memory: some hundred times the files of one seed, as others write theirs at the same time."""
_AGAIN_S: Final = 10.0
"""CPU time that what such a seed interrupts has to clean up."""
_OUTCOMES: Final[Mapping[Validity, str]] = {True: "valid", False: "invalid", "unknown": "unknown"}


def row_of(plan: Plan) -> dict[str, Any]:
    """Carry a plan out on a simulated cluster, judge it, and return its row (`table.SEEDS`)."""
    began = time.process_time()
    row: dict[str, Any] = {
        "seed": plan.seed,
        "system": plan.system,
        "workloads": list(plan.workloads),
        "nemeses": list(plan.nemeses),
        "nodes": plan.nodes,
        "options": orjson.dumps(plan.options, option=orjson.OPT_SORT_KEYS).decode(),
        "command": plan.command(),
        "outcome": "refused",
        "doubt": None,
        "anomalies": [],
        "findings": [],
        "operations": 0,
        "events": 0,
        "digest": "",
        "passages": [],
        "crashes": [],
        "summary": None,
    }
    with tempfile.TemporaryDirectory(prefix="schemaquake-", dir=_memory()) as name:
        folder = Path(name)
        try:
            plan.check_options()
            with _bounded(_CPU_LIMIT_S):
                _carry_out(plan, folder)
                row |= _judged(plan, Store(folder))
        except SchemaquakeError as error:
            row["doubt"] = f"{type(error).__name__}: {error}"
            row["outcome"] = "refused" if error.exit_code == ExitCode.BAD_ARGUMENTS else "failed"
        except Exception as error:  # noqa: BLE001 - a defect of a model or of a checker costs one seed, and not the sweep
            where = traceback.extract_tb(error.__traceback__)[-1]
            row["doubt"] = f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"
            row["outcome"] = "failed"
        except _Endless:
            row["doubt"] = f"Endless: not done within {_CPU_LIMIT_S:.0f} s of CPU time"
            row["outcome"] = "failed"
    return {**row, "ms": (time.process_time() - began) * 1000}


def _memory() -> Path | None:
    """Return a folder whose files are in memory, if there is one with room; None, for the usual one, also where the user chose that.

    A seed writes some thirty small files: on a disk they took a fifth of its time.
    """
    if any(os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP")) or not os.access(_IN_MEMORY, os.W_OK):
        return None
    return _IN_MEMORY if shutil.disk_usage(_IN_MEMORY).free >= _ROOM else None


class _Endless(BaseException):
    """A seed that takes more CPU time than any should. What a run does about errors of its own is not done about it."""


@contextmanager
def _bounded(limit_s: float) -> Iterator[None]:
    """Raise _Endless in what takes more CPU time than that, and again where it goes on; outside the main thread nothing is bounded."""

    def end(_number: int, _frame: object) -> None:
        raise _Endless

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, limit_s, _AGAIN_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def findings_in(plan: Plan) -> frozenset[str]:
    """Return the ids of the findings that a plan shows."""
    return frozenset(finding["id"] for finding in row_of(plan)["findings"])


def _carry_out(plan: Plan, folder: Path) -> None:
    (folder / "plan.json").write_bytes(dump_sealed(plan.to_json()))
    with _quiet():
        Conductor(plan, folder).run()


def _judged(plan: Plan, store: Store) -> dict[str, Any]:
    """Judge what a run left, and count what it met."""
    checkers = list(load_all("checkers").values())
    records = store.merge(noted=[pattern for checker in checkers for pattern in checker_traits(checker).noted])
    with _quiet():
        verdict = judge(records, engine="local", limit_s=_LIMIT_S)
    books = orjson.loads(store.path(BOOKS).read_bytes())
    operations = Evidence.of(records).paired()
    summary = _summary(plan, verdict, records.history, operations, store)
    return {
        "outcome": _OUTCOMES[verdict.valid],
        "doubt": verdict.reason if verdict.valid == "unknown" else None,
        "anomalies": sorted({anomaly.type for anomaly in verdict.anomalies}),
        "findings": [
            {"id": finding.id, "anomaly": finding.symptoms[0].type, "about": title_of(finding)}
            for finding in summary.findings
        ],
        "operations": len(operations),
        "events": books["events"],
        "digest": _digest(store.folder, verdict),
        "passages": [dict(zip(("step", "handling", "faults", "count"), each, strict=True)) for each in books["passages"]],
        "crashes": [dict(zip(("step", "how", "count"), each, strict=True)) for each in books["crashes"]],
        "summary": orjson.dumps(summary.to_json(), option=orjson.OPT_SORT_KEYS).decode(),
    }  # fmt: skip


def _summary(plan: Plan, verdict: Verdict, history: pa.Table, operations: pa.Table, store: Store) -> RunSummary:
    """Summarise the run as if it had a folder: a corpus reads the same of both."""
    notes = history.filter(pc.equal(history["process"], NEMESIS))
    return summary_of(
        f"seed-{plan.seed}",
        plan.to_json(),
        verdict,
        Outcome(completed=True, error=None, exit_code=ExitCode.of(verdict.valid)),
        notes=notes,
        operations=operations,
        races=tabulate_races(notes, operations, verdict.anomalies),
        started=store.started(),
        seconds=(pc.max(history["time"]).as_py() or 0) / 1e9,
    )


def _digest(folder: Path, verdict: Verdict) -> str:
    """Return a checksum of everything that a run left and that a seed decides."""
    digest = hashlib.sha256()
    parts = ("journals", "nodes")
    files = sorted(path for part in parts for path in (folder / part).rglob("*") if path.is_file())
    for path in (*files, folder / BOOKS):
        digest.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes() + b"\0")
    digest.update(orjson.dumps(_timeless(verdict.to_json()), option=orjson.OPT_SORT_KEYS))
    return digest.hexdigest()


def _timeless(document: Any) -> Any:
    """Return a verdict's document without the time that its checks took."""
    kind = type(document)
    if kind is dict:
        return {name: _timeless(each) for name, each in document.items() if name != "seconds"}
    return [_timeless(each) for each in document] if kind is list else document


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep warnings of single runs from the output: there are thousands."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
