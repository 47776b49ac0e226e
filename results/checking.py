"""Checking: judge stored files again, a run's folder or a history that came from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from harness.errors import ExitCode, PlanError
from harness.records import HISTORY, Records
from harness.verdict import Verdict, combine
from results.execution import conclude, exit_code_of_validity
from results.judge import judge
from results.store import Store, read_table

__all__ = ["check_path", "exit_code_of_all"]


def check_path(
    path: Path,
    *,
    checkers: list[str] | None,
    file_format: str | None,
    engine: str,
    master: str | None,
    limit_s: float,
) -> Verdict:
    """The verdict on a run's folder (all of its records) or on a history file (the history alone).

    A run's folder judged by every checker gets its verdict, tables and reports written anew.
    Raises PlanError for what is neither, HistoryError for what is damaged.
    """
    if path.is_dir():
        if checkers is None:
            return conclude(path, engine=engine, master=master, limit_s=limit_s).verdict
        return judge(Store(path), checkers=checkers, engine=engine, master=master, limit_s=limit_s)
    if not path.exists():
        raise PlanError(f"{path} does not exist")
    chosen = file_format or path.suffix.removeprefix(".")
    if chosen != "parquet":
        raise PlanError(f'{path}: format "{chosen}" cannot be read; give a run\'s folder or a history.parquet')
    history = read_table(path, HISTORY, order="index")
    return judge(Records.of(history), checkers=checkers, engine=engine, master=master, limit_s=limit_s)


def exit_code_of_all(verdicts: Iterable[Verdict]) -> ExitCode:
    """The exit code of several verdicts: the worst counts."""
    return exit_code_of_validity(combine(verdict.valid for verdict in verdicts))
