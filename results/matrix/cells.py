"""Cells: from the facts of runs to the cells of the matrix.

What counts as a try of an anomaly:

- an anomaly of one race (a lost column): every race that began in which it was found, or in which every checker that
  could have found it decided;
- an anomaly of a node or of the whole cluster (by its scope in the catalogue): every run, likewise;
- the row "any anomaly": every race in which something was found, or in which every check decided and some operation
  was acknowledged. What is at large, while no race of that run shows anything, was brought about by one of them at least.

A run that several kinds of race shared counts for none of them if something befell the cluster at large.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from schemaquake.checkers.findings.catalogue import CATALOGUE, counted_by_runs, finders, prominence_of
from schemaquake.harness.model.verdict import Doubt
from schemaquake.results.matrix.facts import Finding, RaceFacts, RunFacts
from schemaquake.results.matrix.matrix_plan import Condition
from schemaquake.results.matrix.tally import Row
from schemaquake.results.summary.cell import Cell, CellState, Evidence, Unit, wilson
from schemaquake.results.wording import counted, shortened

__all__ = ["any_cell", "cell_of", "own_races", "rows_of", "usable"]

_REASON_MOST: Final = 600
_SHARED: Final = (
    "something befell the cluster while several kinds of race shared it, and nobody can say which brought it about"
)


def usable(runs: Iterable[RunFacts]) -> list[RunFacts]:
    """Those that say something of each kind of race in them."""
    return [run for run in runs if not run.ambiguous]


def own_races(run: RunFacts, workload: str) -> list[RaceFacts]:
    """The run's races of that workload."""
    return [race for race in run.races if race.workload == workload]


def any_cell(
    system: str, workload: str, condition: Condition, runs: Sequence[RunFacts], *, racing: bool = True
) -> Cell:
    """The cell of the row "any anomaly", from all runs of this workload, system and condition.

    A workload without races (`racing` false) is counted by runs.
    """
    counts = [_any_counts(run, workload, racing=racing) for run in usable(runs)]
    unit: Unit = "race" if racing else "run"
    return _cell(system, workload, condition, None, runs, counts, unit)


def cell_of(
    system: str, workload: str, condition: Condition, anomaly: str, runs: Sequence[RunFacts], *, racing: bool = True
) -> Cell:
    """The cell of one type of anomaly."""
    unit: Unit = "run" if counted_by_runs(anomaly) or not racing else "race"
    count = _of_runs if unit == "run" else _of_races
    counts = [count(run, workload, anomaly, racing=racing) for run in usable(runs)]
    return _cell(system, workload, condition, anomaly, runs, counts, unit)


def rows_of(workload: str, condition: Condition, runs: Iterable[RunFacts]) -> tuple[Row, ...]:
    """The rows of one workload in one condition, from its runs on every system: any, the most prominent, the commonest."""
    found: dict[str, int] = {}
    for run in usable(runs):
        for race in own_races(run, workload):
            for kind in race.anomalies:
                found[kind] = found.get(kind, 0) + 1
        if not run.races or workload in run.kinds:
            for kind in run.at_large:
                found[kind] = found.get(kind, 0) + 1
    return (
        Row(workload=workload, mode=condition.mode, nemeses=condition.nemeses),
        *(
            Row(
                workload=workload,
                mode=condition.mode,
                nemeses=condition.nemeses,
                anomaly=kind,
                title=CATALOGUE[kind].title if kind in CATALOGUE else kind,
            )
            for kind in sorted(found, key=lambda kind: (-prominence_of(kind), -found[kind], kind))
        ),
    )


# ── counting one run ─────────────────────────────────────────────────────────────────────────────────────────────────


def _any_counts(run: RunFacts, workload: str, *, racing: bool) -> tuple[int, int]:
    """(broken, tried)."""
    if not racing:
        anything = bool(run.at_large) or any(race.anomalies for race in run.races)
        return int(anything), int(anything or (run.completed and not _weighing(run.doubts)))
    races = own_races(run, workload)
    broken = sum(bool(race.anomalies) for race in races)
    cleared = 0 if _weighing(run.doubts) else sum(_cleared(race) for race in races)
    return _with_at_large(broken, broken + cleared, at_large=bool(races and run.at_large))


def _cleared(race: RaceFacts) -> bool:
    return not race.anomalies and not race.doubts and race.acknowledged > 0


def _weighing(doubts: Iterable[Doubt]) -> list[Doubt]:
    return [doubt for doubt in doubts if doubt.weighs]


def _with_at_large(broken: int, tried: int, *, at_large: bool) -> tuple[int, int]:
    """One race at least has brought about what is at large."""
    return (1, max(1, tried)) if at_large and not broken else (broken, tried)


def _of_races(run: RunFacts, workload: str, anomaly: str, *, racing: bool) -> tuple[int, int]:  # noqa: ARG001 - as _of_runs
    races = own_races(run, workload)
    broken = sum(anomaly in race.anomalies for race in races)
    tried = broken
    if not _doubtful(run.doubts, anomaly):
        tried += sum(
            anomaly not in race.anomalies
            and race.acknowledged > 0  # of a race in which nothing was done, nothing can be said
            and not _doubtful(race.doubts, anomaly)
            for race in races
        )
    return _with_at_large(broken, tried, at_large=bool(races) and anomaly in run.at_large)


def _of_runs(run: RunFacts, workload: str, anomaly: str, *, racing: bool) -> tuple[int, int]:
    races = own_races(run, workload)
    if racing and not races:
        return 0, 0
    if anomaly in run.at_large or any(anomaly in race.anomalies for race in races):
        return 1, 1
    doubtful = _doubtful(run.doubts, anomaly) or any(_doubtful(race.doubts, anomaly) for race in races)
    acknowledged = not racing or any(race.acknowledged for race in races)
    return 0, int(run.completed and acknowledged and not doubtful)


def _doubtful(doubts: Iterable[Doubt], anomaly: str) -> bool:
    """Whether a checker that could have found this anomaly did not decide; of one that nobody names, any checker."""
    able = finders().get(anomaly)
    return any(able is None or doubt.checker in able or doubt.checker == "run" for doubt in doubts)


# ── from counts to a cell ────────────────────────────────────────────────────────────────────────────────────────────


def _cell(
    system: str,
    workload: str,
    condition: Condition,
    anomaly: str | None,
    runs: Sequence[RunFacts],
    counts: Sequence[tuple[int, int]],
    unit: Unit,
) -> Cell:
    broken, tried = sum(count[0] for count in counts), sum(count[1] for count in counts)
    low, high = wilson(broken, tried)
    state = _state(runs, broken, tried)
    return Cell(
        system=system,
        workload=workload,
        mode=condition.mode,
        nemeses=condition.nemeses,
        anomaly=anomaly,
        state=state,
        broken=broken,
        tried=tried,
        low=low,
        high=high,
        unit=unit,
        reason=_reason(runs, workload, anomaly, state),
        runs=tuple(run.run for run in runs if run.run is not None),
        evidence=_evidence(runs, workload, anomaly) if broken else None,
    )


def _state(runs: Sequence[RunFacts], broken: int, tried: int) -> CellState:
    if broken:
        return "broke"
    if tried:
        return "held"
    if any(not run.applicable for run in runs):
        return "not applicable"
    return "unknown" if runs else "not run"


def _reason(runs: Sequence[RunFacts], workload: str, anomaly: str | None, state: CellState) -> str:
    """What kept tries from being decided, each once; with how many runs it concerns."""
    if state == "not run":
        return "it was not its turn before the matrix ended"
    if state == "not applicable":
        return next(run.error for run in runs if not run.applicable)
    reasons: dict[str, int] = {}
    for run in runs:
        for reason in dict.fromkeys(_reasons(run, workload, anomaly)):
            reasons[reason] = reasons.get(reason, 0) + 1
    told = [reason if count == 1 else f"{reason} ({counted(count, 'run')})" for reason, count in reasons.items()]
    return shortened("; ".join(told), _REASON_MOST)


def _reasons(run: RunFacts, workload: str, anomaly: str | None) -> Iterable[str]:
    if run.ambiguous:
        yield _SHARED
        return
    if not run.races and run.error:
        yield run.error
        return
    races = own_races(run, workload)
    if run.races and not races:
        yield "no race of this kind began before the cluster took no further change"
    for doubt in (*run.doubts, *(doubt for race in races for doubt in race.doubts)):
        if doubt.weighs if anomaly is None else _doubtful([doubt], anomaly):
            yield doubt.sentence
    silent = sum(not race.acknowledged for race in races)
    if silent:
        yield f"no operation was acknowledged in {counted(silent, 'race')}"


def _evidence(runs: Sequence[RunFacts], workload: str, anomaly: str | None) -> Evidence | None:
    """Of the anomaly; for the row "any anomaly", of the one that a reader should see first."""
    found: list[Finding] = [
        finding for run in usable(runs) for finding in run.findings if finding.workload in {workload, None}
    ]
    mine = [finding for finding in found if anomaly in {finding.anomaly, None}]
    # One that names its race tells more than one at large.
    mine.sort(key=lambda finding: (-prominence_of(finding.anomaly), finding.workload is None))
    return mine[0].evidence if mine else None


Runs = Mapping[tuple[str, str, str], Sequence[RunFacts]]
"""(system, workload, mode) → its runs, in the order in which they were run."""
