"""Checking: judge stored files again, a run's folder or a history file of any tool."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from schemaquake.harness.errors import ExitCode, PlanError
from schemaquake.harness.history.pairing import OPERATIONS
from schemaquake.harness.model.protocols import Checker
from schemaquake.harness.model.records import HISTORY, Records
from schemaquake.harness.model.verdict import Doubt, Verdict, combine
from schemaquake.harness.registry import load
from schemaquake.results.engines.masters import is_local
from schemaquake.results.formats.reading import format_of, read_history, spill_history
from schemaquake.results.judging.history_models import ModelOptions, checker_of
from schemaquake.results.judging.judge import judge, reads_lean
from schemaquake.results.judging.memory import allowed_bytes, history_bytes, pieces
from schemaquake.results.judging.sources import HistoryFile
from schemaquake.results.store.store import Store

__all__ = ["check_document", "check_path", "exit_code_of_all", "write_page"]


def check_path(
    path: Path,
    *,
    checkers: list[str] | None,
    file_format: str | None,
    engine: str,
    master: str | None,
    limit_s: float,
    model: str | None = None,
    options: ModelOptions | None = None,
    independent: bool = False,
    knossos: Path | None = None,
    memory_bytes: int | None = None,
    resume: bool = False,
) -> Verdict:
    """Return the verdict on a run's folder (all of its records) or on a history file (the history alone).

    A run's folder judged by every checker gets its verdict, tables and reports written anew. With a `model`, only its
    checker is used, and `checkers` may name it; `knossos` (its jar) judges as well. A history file of transactions or
    registers that does not fit into `memory_bytes` (None: most of the machine's) is judged in pieces. With `resume` an
    interrupted analysis of a run's folder continues. Raises PlanError for other paths, HistoryError for damaged files.
    """
    is_run = path.is_dir()
    if resume and (checkers is not None or model is not None or not is_run):
        raise PlanError(
            "--resume-analysis continues the whole analysis of a run's folder: leave out --checker and --model"
        )
    if knossos is not None and (model is None or is_run):
        raise PlanError("--knossos is for a history file and a --model that knossos knows")
    if model is None and options is not None and options.given:
        raise PlanError(f"{' and '.join(options.given)} say how a model is judged: name it with --model")
    if is_run and (file_format is not None or independent):
        raise PlanError(f"--format and --independent are for a history file, and {path} is a run's folder")
    chosen = _chosen(checkers, model, options)
    if is_run:
        if chosen is None:
            from schemaquake.results.runs.execution import conclude  # noqa: PLC0415 - reports, which no history file needs

            return conclude(path, engine=engine, master=master, limit_s=limit_s, resume=resume).verdict
        return judge(Store(path), checkers=chosen, engine=engine, master=master, limit_s=limit_s)
    memory = allowed_bytes() if memory_bytes is None else memory_bytes
    elsewhere = _elsewhere(engine, master)
    lean = knossos is None and master is None and reads_lean(chosen, engine=engine)
    opened = _subject(path, file_format, independent=independent, elsewhere=elsewhere, memory_bytes=memory, lean=lean)
    with opened as subject:
        verdict = judge(subject, checkers=chosen, engine=engine, master=master, limit_s=limit_s, memory_bytes=memory)
        if knossos is None or model is None:
            return verdict if chosen is not None else _as_of_a_file(verdict)
        history = subject.history if isinstance(subject, Records) else subject.read_history()
    from schemaquake.results.judging.knossos import with_second_opinion  # noqa: PLC0415 - as it is asked for

    initial = None if options is None else options.initial
    return with_second_opinion(verdict, history, model=model, knossos=knossos, limit_s=limit_s, initial=initial)


def _as_of_a_file(verdict: Verdict) -> Verdict:
    """Say what a file lacks of which no checker can say anything: that a run was not observed is no news of it."""
    if verdict.valid != "unknown" or any(not part.judged_nothing and _vouches(part.checker) for part in verdict.parts):
        return verdict
    if verdict.stats["events"].value == 0:
        text = "the file holds no operation"
    else:
        text = "no checker knows its operations by itself; say what they are, for example --model cas-register"
    return replace(verdict, doubts=(Doubt("nothing-to-judge", text),))


def _vouches(checker: str) -> bool:
    return bool(load("checkers", checker).vouches)


def _chosen(names: list[str] | None, model: str | None, options: ModelOptions | None) -> list[str | Checker] | None:
    """Return the checkers to ask, None for all: with a `model` its own, which `names` may name. Raises PlanError."""
    if model is None:
        return None if names is None else list(names)
    if names is not None and len(names) > 1:
        raise PlanError(f"--model {model} is for one checker, not for {len(names)}")
    return [checker_of(model, checker=names[0] if names else None, options=options or ModelOptions())]


def _elsewhere(engine: str, master: str | None) -> bool:
    """Return True if tasks run on other machines."""
    return engine != "local" and not is_local(master)


@contextmanager
def _subject(
    path: Path, file_format: str | None, *, independent: bool, elsewhere: bool, memory_bytes: int, lean: bool
) -> Iterator[HistoryFile | Records]:
    """Open the history to judge: Parquet as a file; other formats as records.

    With `lean`, the records' micro-operations may be `LEAN_MOPS`. For tasks `elsewhere`, and if it does not fit into memory, it is converted to Parquet: beside it, or in a temporary folder.
    """
    if path.is_file() and format_of(path, file_format) == "parquet" and not independent:
        yield HistoryFile(path.resolve())
        return
    fits = not path.is_file() or pieces(history_bytes(path, parquet=False), memory_bytes) == 1
    if not elsewhere and fits:
        yield Records.of(read_history(path, file_format=file_format, independent=independent, lean=lean))
        return
    with TemporaryDirectory(prefix=".schemaquake-", dir=path.resolve().parent if elsewhere else None) as folder:
        converted = Path(folder) / "history.parquet"
        spill_history(path, converted, file_format=file_format, independent=independent)
        yield HistoryFile(converted)


def check_document(path: Path, verdict: Verdict, *, whole: bool) -> dict[str, Any]:
    """Return what `check --json` prints of one path: its findings and the verdict. `whole`: every checker judged the run."""
    if whole and path.is_dir():
        from schemaquake.results.summary.summarise import read_summary  # noqa: PLC0415 - which no history file needs

        findings = read_summary(Store(path)).findings
    else:
        from schemaquake.results.findings.grouping import group_anomalies  # noqa: PLC0415 - after the file was read
        from schemaquake.results.tables.races import RACES  # noqa: PLC0415

        findings = group_anomalies(
            verdict,
            system="",
            history=HISTORY.empty_table(),
            operations=OPERATIONS.empty_table(),
            races=RACES.empty_table(),
        ).findings
    return {"path": str(path), "findings": [finding.to_json() for finding in findings], **verdict.to_json()}


def write_page(page: Path, file: Path, verdict: Verdict) -> None:
    """Write the page on a history file that was judged. Raises PlanError if it cannot be written there."""
    from schemaquake.results.report.checked_page import render_checked_html  # noqa: PLC0415 - templates, which most checks do without

    text = render_checked_html(verdict, file, version=version("schemaquake"), command=["schemaquake", *sys.argv[1:]])
    try:
        page.write_text(text, encoding="utf-8")
    except OSError as error:
        raise PlanError(f"the page cannot be written to {page}: {error.strerror or error}") from error


def exit_code_of_all(verdicts: Iterable[Verdict]) -> ExitCode:
    """Return the exit code of several verdicts: the worst counts."""
    return ExitCode.of(combine(verdict.valid for verdict in verdicts))
