"""Execution: from a plan to a judged and reported run, and from a run's folder to its verdict.

Records are merged, judged and drawn even if the run was not completed: the part that happened is evidence, whatever
interrupted it. But such a run is never valid.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from schemaquake.harness.errors import DamagedFile, ExitCode, HistoryError, SchemaquakeError, StoreError
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.model.runtime import RuntimeProvider
from schemaquake.harness.model.verdict import Doubt, Verdict, combine, describe_doubts
from schemaquake.harness.registry import load
from schemaquake.harness.run.runner import Outcome, execute, read_outcome, refuse_contradictions
from schemaquake.results.findings.description import describe_rate, describe_standing, title_of
from schemaquake.results.findings.finding import Finding
from schemaquake.results.judging.judge import judge
from schemaquake.results.judging.kept_verdicts import KeptVerdicts, basis_of
from schemaquake.results.judging.provisional import ProvisionalAnomaly
from schemaquake.results.report.from_store import write_all
from schemaquake.results.runs.watching import watched
from schemaquake.results.store.store import Store
from schemaquake.results.summary.summarise import write_summary
from schemaquake.results.tables.pipeline import analyse
from schemaquake.results.wording import counted, joined

__all__ = [
    "FinishedRun",
    "RecordedRun",
    "carry_out",
    "conclude",
    "conclude_again",
    "conclude_recorded",
    "print_summary",
    "qualified",
    "record",
    "tell_on",
    "was_recorded",
    "write_reports",
]

log = logging.getLogger(__name__)

_SKIPPED = {
    "fault-skipped": ("planned fault", "planned faults"),
    "operation-skipped": ("planned operation on the topology", "planned operations on the topology"),
}
"""Statistics of what was planned and did not take place, as nouns."""
_TOLD_MOST = 10
_DOUBTS_SHOWN = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRun:
    """A run that is over: its folder, its plan, its verdict, and its outcome."""

    store: Store
    plan: Plan
    verdict: Verdict
    completed: bool
    error: str | None
    exit_code: ExitCode
    findings: tuple[Finding, ...] = ()
    applicable: bool = True
    interrupted: bool = False

    @property
    def report(self) -> Path:
        """The path of the page to open."""
        return self.store.path("report.html")

    def document(self) -> dict[str, Any]:
        """Return the run as `--json` prints it: its findings, the verdict, and the paths of its files."""
        return {
            "findings": [finding.to_json() for finding in self.findings],
            **self.verdict.to_json(),
            "run": str(self.store.folder),
            "report": str(self.report),
            "system": self.plan.system,
            "workloads": list(self.plan.workloads),
            "seed": self.plan.seed,
            "completed": self.completed,
            "error": self.error,
            "command": self.plan.command(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRun:
    """A run that is over and not judged yet."""

    store: Store
    plan: Plan
    outcome: Outcome


def carry_out(
    plan: Plan,
    runs: Path,
    *,
    engine: str = "auto",
    master: str | None = None,
    limit_s: float = 120,
    tell: Callable[[ProvisionalAnomaly], None] | None = None,
) -> FinishedRun:
    """Run the plan in a new folder of `runs`, judge it and report it; see `record` and `conclude`."""
    return conclude_recorded(record(plan, runs, tell=tell), engine=engine, master=master, limit_s=limit_s)


def record(plan: Plan, runs: Path, *, tell: Callable[[ProvisionalAnomaly], None] | None = None) -> RecordedRun:
    """Run the plan in a new folder of `runs`. `tell` is called, in another thread, for what is visibly broken meanwhile.

    Raises PlanError, EnvironmentLacks and FetchError, and leaves no folder behind, if nothing could be started. Nor does
    Ctrl-C before the run's own process was.
    """
    refuse_contradictions(plan)
    store = Store.create(runs, "+".join(plan.workloads), plan.system)
    try:
        with watched(store.folder, tell) if tell is not None and _takes_time(plan) else nullcontext():
            outcome = execute(plan, store.folder)
    except SchemaquakeError:
        store.discard()
        raise
    except KeyboardInterrupt:
        if not (store.folder / "process.json").exists():
            store.discard()
        raise
    if not outcome.completed:
        log.error("the run was not completed", extra={"why": outcome.error})
    return RecordedRun(store=store, plan=plan, outcome=outcome)


def conclude_recorded(
    run: RecordedRun, *, engine: str = "auto", master: str | None = None, limit_s: float = 120
) -> FinishedRun:
    """Judge a run that was just recorded and report it; its cluster is gone, so another may run meanwhile.

    An interrupted run has the exit code of a crash, whatever its verdict. Raises StoreError if a file of its folder cannot be written.
    """
    folder = run.store.folder
    if not was_recorded(folder):
        return _nothing_happened(run.store, run.plan, run.outcome)
    if run.outcome.interrupted:
        log.warning(
            "what was recorded is judged; Ctrl-C leaves that for later",
            extra={"later": f"schemaquake recover {folder}"},
        )
    try:
        finished = conclude(folder, engine=engine, master=master, limit_s=limit_s)
    except OSError as error:
        raise StoreError(
            f"the run was recorded, but not judged: {error.strerror or error}: {error.filename or folder}. Its journals are whole: "
            f'when that is mended, judge it with "schemaquake recover {folder}"'
        ) from error
    return replace(finished, interrupted=True, exit_code=ExitCode.CRASHED) if run.outcome.interrupted else finished


def _takes_time(plan: Plan) -> bool:
    """Return False for runs of another clock than the machine's, whose journals are written when they are over."""
    return not isinstance(load("clusters", plan.cluster), RuntimeProvider)


def tell_on(console: Console) -> Callable[[ProvisionalAnomaly], None]:
    """Return a function that prints a provisional anomaly; of many, the first few."""
    told = 0

    def tell(one: ProvisionalAnomaly) -> None:
        nonlocal told
        told += 1
        if told <= _TOLD_MOST:
            console.print(Text(f"✕ {one}", style="red").append("  provisional", style="dim not bold"))
        elif told == _TOLD_MOST + 1:
            console.print("✕ and more; the verdict has them all", style="dim", markup=False)

    return tell


def conclude(
    folder: Path, *, engine: str = "auto", master: str | None = None, limit_s: float = 120, resume: bool = False
) -> FinishedRun:
    """Merge a run's journals, judge its records and draw its reports.

    With `resume` the verdicts of an earlier, interrupted analysis of the same records are kept.
    Raises HistoryError if the folder is not a run's or its records are damaged.
    """
    store = Store(folder)
    plan = store.read_plan(keep_going=True)
    began = time.monotonic()
    recovered = store.recover()
    if recovered.torn:
        log.warning("journals ended in torn lines, which were left out", extra={"journals": recovered.torn})
    outcome = _outcome_of(folder)
    kept = _kept_verdicts(store, limit_s, resume=resume)
    if kept.known:
        log.info("analysis continues", extra={"verdicts kept": len(kept.known)})
    verdict = qualified(judge(store, engine=engine, master=master, limit_s=limit_s, kept=kept), outcome)
    store.write_verdict(verdict)
    damage = store.damage()
    if damage:
        log.error("the records are damaged: no tables or reports are made of them", extra={"places": damage})
    else:
        analyse(store, verdict, engine=engine, master=master)
    summary = write_summary(store, verdict, outcome)
    store.write_verdict(verdict, [finding.to_json() for finding in summary.findings])
    if not damage:
        write_all(store)
    kept.discard()
    log.info(
        "judged",
        extra={
            "valid": verdict.valid,
            "findings": len(summary.findings),
            "anomalies": len(verdict.anomalies),
            "events": recovered.events,
            "seconds": round(time.monotonic() - began, 1),
        },
    )
    return FinishedRun(
        store=store,
        plan=plan,
        verdict=verdict,
        findings=summary.findings,
        completed=outcome.completed,
        error=outcome.error,
        exit_code=ExitCode.of(verdict.valid) if outcome.completed else outcome.exit_code,
        interrupted=outcome.interrupted,
    )


def was_recorded(run: Path) -> bool:
    """Tell if the folder of a run has what was written ahead while it went on, so that it can be judged again."""
    return (run / "journals").is_dir()


def conclude_again(run: Path, *, limit_s: float) -> FinishedRun:
    """Judge a recorded run by the current checkers. Raises HistoryError if its folder is missing or damaged."""
    if not was_recorded(run):
        raise HistoryError(f"{run} is missing, so the run cannot be judged again")
    # Starting Spark takes longer than judging one small run.
    return conclude(run, engine="local", limit_s=limit_s)


def _outcome_of(folder: Path) -> Outcome:
    """Read how the run ended; a damaged note of it leaves that open."""
    try:
        return read_outcome(folder)
    except DamagedFile as error:
        return Outcome(completed=False, error=str(error), exit_code=ExitCode.UNKNOWN)


def _kept_verdicts(store: Store, limit_s: float, *, resume: bool) -> KeptVerdicts:
    """Open the verdicts on these very records by this version within this limit."""
    records = [store.path(name) for name in ("history.parquet", "observations.parquet")]
    logs = store.path("nodes").glob("*/*.log")
    basis = basis_of(store.folder, [*records, *logs], limit_s=limit_s, version=version("schemaquake"))
    return KeptVerdicts.open(store.path("analysis").resolve() / "verdicts", basis, resume=resume)


def write_reports(folder: Path) -> Path:
    """Draw the reports of a judged run again, and return the page. Raises HistoryError if it has not been judged."""
    store = Store(folder)
    store.read_verdict()
    write_all(store)
    return store.path("report.html")


def print_summary(run: FinishedRun, console: Console) -> None:
    """Print the verdict, the findings with their symptoms, and the path of the page."""
    colour = {True: "green", False: "bold red", "unknown": "yellow"}[run.verdict.valid]
    word = {True: "valid", False: "INVALID", "unknown": "unknown"}[run.verdict.valid]
    plan = run.plan
    asked = f"  {plan.system}  {', '.join(plan.workloads)}  seed {plan.seed}"
    console.print(Text(word, style=colour).append(asked, style="not bold default"))
    if run.findings:
        console.print(_table_of_findings(run.findings))
    doubts = describe_doubts(run.verdict.doubts)
    for doubt in doubts[:_DOUBTS_SHOWN]:
        console.print(f"undecided: {doubt}", markup=False)
    if len(doubts) > _DOUBTS_SHOWN:
        console.print(f"undecided: {len(doubts) - _DOUBTS_SHOWN} more, in the report", markup=False)
    skipped = _describe_skipped(run.verdict)
    if skipped:
        console.print(skipped, style="yellow")
    console.print(f"report: {run.report}", markup=False)
    if run.interrupted:
        console.print(
            f"interrupted: what was recorded until then is judged, and kept in {run.store.folder}; "
            f"the whole run again: {plan.command()}",
            markup=False,
        )


def _describe_skipped(verdict: Verdict) -> str:
    """Describe how much of what nemeses had planned did not take place; empty if all did."""
    counts = Counter[str]()
    for part in verdict.parts:
        for name, value in part.figures.items():
            if name in _SKIPPED and isinstance(value, int):
                counts[name] += value
    found = [counted(counts[name], *nouns) for name, nouns in _SKIPPED.items() if counts[name]]
    return f"skipped: {joined(found)}; harness.jsonl has the reasons" if found else ""


_NAME_WIDTH: Final = 26
"""Characters that most names of anomalies fit into, so that a narrow terminal does not break them."""


def _table_of_findings(findings: Sequence[Finding]) -> Table:
    """Build a table with one row per finding: its title, its symptoms, how often it showed, and whether it is known."""
    table = Table("finding", "what broke it, and how it showed", "how often", "", box=None, header_style="dim")
    table.columns[1].min_width = _NAME_WIDTH
    for finding in findings:
        types = Counter[str]()
        for symptom in finding.symptoms:
            types[symptom.type] += len(symptom.anomalies)
        showed = ", ".join(kind if count == 1 else f"{kind} ×{count}" for kind, count in types.items())
        text = Text(title_of(finding), style="bold").append(f"\n{showed}", style="not bold")
        table.add_row(finding.id, text, Text(describe_rate(finding.rate)), Text(describe_standing(finding)))
    return table


def qualified(verdict: Verdict, outcome: Outcome) -> Verdict:
    """Lower the verdict of an incomplete run: it may show that something broke, but not that nothing did."""
    if outcome.completed:
        return verdict
    doubt = Doubt("incomplete-run", f"the run was not completed: {outcome.error}")
    return replace(verdict, valid=combine([verdict.valid, "unknown"]), doubts=(doubt, *verdict.doubts))


def _nothing_happened(store: Store, plan: Plan, outcome: Outcome) -> FinishedRun:
    verdict = Verdict.unknown("run", Doubt("incomplete-run", f"the run never began: {outcome.error}"))
    store.write_verdict(verdict, [])
    write_summary(store, verdict, outcome)
    return FinishedRun(
        store=store,
        plan=plan,
        verdict=verdict,
        completed=False,
        error=outcome.error,
        exit_code=outcome.exit_code,
        applicable=outcome.applicable,
        interrupted=outcome.interrupted,
    )
