"""Comparing: several plans one after another, and one page about all of them."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from schemaquake.harness.atomic import write_bytes
from schemaquake.harness.console import stderr
from schemaquake.harness.errors import ExitCode, SchemaquakeError
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.model.verdict import combine
from schemaquake.harness.named_folders import make_wanted_folder
from schemaquake.results.report.comparison import (
    ComparedRun,
    Comparison,
    compare,
    recipes_of,
    render_comparison_html,
    render_comparison_markdown,
)
from schemaquake.results.report.from_store import material_of
from schemaquake.results.report.terminal import print_comparison as print_table
from schemaquake.results.runs.execution import FinishedRun, RecordedRun, conclude_recorded, record, tell_on
from schemaquake.results.summary.summarise import read_summary

__all__ = ["Attempt", "ComparedRuns", "compare_runs", "print_comparison", "run_all"]

log = logging.getLogger(__name__)

_NEVER_BEGAN: Final = "interrupted before it began"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One plan of several: its run, or the reason why there is none."""

    plan: Plan
    run: FinishedRun | None
    refusal: str | None = None

    @property
    def applicable(self) -> bool:
        """False if the system lacks what the workload needs."""
        return self.run is None or self.run.applicable


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRuns:
    """All attempts, the content of the page, and its path."""

    attempts: Sequence[Attempt]
    comparison: Comparison
    page: Path

    @property
    def exit_code(self) -> ExitCode:
        """The worst exit code of all applicable runs; crashed if one of them was not completed, or was interrupted."""
        wanted = [attempt for attempt in self.attempts if attempt.applicable]
        if any(attempt.run is None or not attempt.run.completed or attempt.run.interrupted for attempt in wanted):
            return ExitCode.CRASHED
        return ExitCode.of(combine(attempt.run.verdict.valid for attempt in wanted if attempt.run))

    @property
    def completed(self) -> bool:
        """True if every applicable run was completed, and none interrupted."""
        return self.exit_code is not ExitCode.CRASHED

    def document(self) -> dict[str, Any]:
        """Return the comparison as `--json` prints it."""
        return {
            "findings": [finding.to_json() for finding in self.comparison.findings],
            "headline": self.comparison.headline(),
            "page": str(self.page),
            "runs": [
                {"system": attempt.plan.system, "refusal": attempt.refusal, "applicable": attempt.applicable}
                if attempt.run is None
                else attempt.run.document()
                for attempt in self.attempts
            ],
        }


def run_all(
    plans: Sequence[Plan],
    runs: Path,
    *,
    engine: str,
    limit_s: float = 120,
    begun: Callable[[Plan], None] | None = None,
    ended: Callable[[Attempt], None] | None = None,
) -> list[Attempt]:
    """Carry out every plan; a plan that cannot be run does not stop the others. Each is judged while the next one's cluster boots.

    None begins after one that was interrupted. `begun` is called with each plan before it is run, `ended` with what came of it, from
    another thread.
    Raises PlanError if `runs` cannot be made.
    """
    make_wanted_folder(runs)
    attempts: list[Attempt | Future[Attempt]] = []
    interrupted = False
    with ThreadPoolExecutor(1, thread_name_prefix="judging") as judging:
        for number, plan in enumerate(plans, 1):
            if interrupted:
                attempts.append(Attempt(plan=plan, run=None, refusal=_NEVER_BEGAN))
                continue
            log.info("plan", extra={"number": f"{number} of {len(plans)}", "system": plan.system})
            if begun is not None:
                begun(plan)
            try:
                recorded = record(plan, runs, tell=tell_on(stderr()))
            except SchemaquakeError as error:
                attempts.append(_refused(plan, error))
            else:
                interrupted = recorded.outcome.interrupted
                attempts.append(judging.submit(_concluded, recorded, engine=engine, limit_s=limit_s, ended=ended))
    return [one if isinstance(one, Attempt) else one.result() for one in attempts]


def _concluded(
    recorded: RecordedRun, *, engine: str, limit_s: float, ended: Callable[[Attempt], None] | None
) -> Attempt:
    try:
        run = conclude_recorded(recorded, engine=engine, limit_s=limit_s)
    except SchemaquakeError as error:
        return _refused(recorded.plan, error)
    attempt = Attempt(plan=recorded.plan, run=run, refusal=run.error)
    if ended is not None:
        ended(attempt)
    return attempt


def _refused(plan: Plan, error: SchemaquakeError) -> Attempt:
    log.error("could not be run", extra={"system": plan.system, "why": str(error)})
    return Attempt(plan=plan, run=None, refusal=str(error))


def compare_runs(attempts: Sequence[Attempt], runs: Path) -> ComparedRuns:
    """Write `runs/<UTC time>-comparison.{html,md}`, and point `runs/comparison.html` to it."""
    stem = f"{datetime.now(UTC).strftime('%Y%m%dT%H%M%SZ')}-comparison"
    page = runs / f"{stem}.html"
    comparison = compare([_compared(attempt, runs) for attempt in attempts])
    write_bytes(page, render_comparison_html(comparison).encode())
    write_bytes(page.with_suffix(".md"), render_comparison_markdown(comparison).encode())
    latest = runs / f".{stem}.link"
    latest.symlink_to(page.name)
    latest.replace(runs / "comparison.html")
    return ComparedRuns(attempts=attempts, comparison=comparison, page=page)


def _compared(attempt: Attempt, runs: Path) -> ComparedRun:
    run = attempt.run
    if run is None or not run.report.exists():
        return ComparedRun(
            plan=attempt.plan.to_json(), refusal=attempt.refusal or "it never began", applicable=attempt.applicable
        )
    summary = read_summary(run.store)
    return ComparedRun(
        plan=attempt.plan.to_json(),
        summary=summary,
        recipes=recipes_of(material_of(run.store)) if summary.valid is False else {},
        report=os.path.relpath(run.report, runs),
    )


def print_comparison(compared: ComparedRuns, console: Console) -> None:
    """Print the table, its conclusion in one sentence, and the path of the page."""
    print_table(compared.comparison, console)
    console.print(f"page: {compared.page}", markup=False)
    if any(attempt.run is not None and attempt.run.interrupted for attempt in compared.attempts):
        console.print("interrupted: runs that ended are kept, and on the page; begin again with the same command")
