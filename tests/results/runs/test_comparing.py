"""Several plans one after another: each is judged while the next one runs, and none stops the others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest

from schemaquake.harness.errors import ExitCode, HistoryError
from schemaquake.harness.model.plan import Plan
from schemaquake.results.runs import comparing
from schemaquake.results.runs.comparing import compare_runs, run_all

_MOST_S = 120


def plan(line: str) -> Plan:
    return Plan(
        system=f"simulated:cassandra-{line}",
        cluster="simulated",
        workloads=("drop-type",),
        options={"races": "1"},
        seed=7,
    )


def test_attempts_come_in_the_order_of_their_plans_with_those_that_could_not_be_run(tmp_path: Path) -> None:
    attempts = run_all([plan("5.0"), plan("17.0"), plan("6.0")], tmp_path / "runs", engine="local")
    assert [attempt.plan.system for attempt in attempts] == [plan(line).system for line in ("5.0", "17.0", "6.0")]
    first, refused, last = attempts
    assert (first.run.verdict.valid, last.run.verdict.valid) == (False, True)
    assert refused.run is None
    assert "17.0" in refused.refusal
    assert first.run.report.exists()
    assert len([path for path in (tmp_path / "runs").iterdir() if path.is_dir() and not path.is_symlink()]) == 2


def test_a_run_is_judged_while_the_next_one_is_under_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    second_began, waited = Event(), []
    record, conclude = comparing.record, comparing.conclude_recorded

    def recording(one: Plan, *args: object, **options: object) -> object:
        if one.system.endswith("6.0"):
            second_began.set()
        return record(one, *args, **options)

    def concluding(recorded: object, **options: object) -> object:
        waited.append(second_began.wait(_MOST_S))
        return conclude(recorded, **options)

    monkeypatch.setattr(comparing, "record", recording)
    monkeypatch.setattr(comparing, "conclude_recorded", concluding)
    attempts = run_all([plan("5.0"), plan("6.0")], tmp_path / "runs", engine="local")
    assert waited == [True, True]
    assert all(attempt.run.completed for attempt in attempts)


def test_a_run_that_cannot_be_judged_does_not_stop_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    conclude = comparing.conclude_recorded

    def concluding(recorded: comparing.RecordedRun, **options: object) -> object:
        if recorded.plan.system.endswith("5.0"):
            raise HistoryError("the history is torn")
        return conclude(recorded, **options)

    monkeypatch.setattr(comparing, "conclude_recorded", concluding)
    first, second = run_all([plan("5.0"), plan("6.0")], tmp_path / "runs", engine="local")
    assert (first.run, first.refusal) == (None, "the history is torn")
    assert second.run.verdict.valid is True


def test_none_begins_after_one_that_was_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the signal came too late to end that one."""
    interrupt(monkeypatch, "5.0")
    runs = tmp_path / "runs"
    attempts = run_all([plan("5.0"), plan("6.0")], runs, engine="local")
    first, second = attempts
    assert (first.run.completed, first.run.verdict.valid, first.run.exit_code) == (True, False, ExitCode.CRASHED)
    assert (second.run, second.refusal) == (None, "interrupted before it began")
    assert len([path for path in runs.iterdir() if path.is_dir() and not path.is_symlink()]) == 1
    assert compare_runs(attempts, runs).exit_code is ExitCode.CRASHED


def test_nor_is_a_comparison_complete_whose_last_run_was_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt(monkeypatch, "6.0")
    attempts = run_all([plan("5.0"), plan("6.0")], tmp_path / "runs", engine="local")
    assert [attempt.run.verdict.valid for attempt in attempts] == [False, True]
    compared = compare_runs(attempts, tmp_path / "runs")
    assert (compared.completed, compared.exit_code) == (False, ExitCode.CRASHED)


def interrupt(monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    """Let a signal come at the very end of the run of this line."""
    record = comparing.record

    def recording(one: Plan, *args: object, **options: object) -> object:
        recorded = record(one, *args, **options)
        outcome = replace(recorded.outcome, interrupted=one.system.endswith(line))
        return replace(recorded, outcome=outcome)

    monkeypatch.setattr(comparing, "record", recording)
