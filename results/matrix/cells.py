"""Cells: computation of the matrix' cells from the facts of runs.

A try of an anomaly is:

- for an anomaly of one race (a lost column): every race in which it was found, or in which every checker that could have
  found it decided;
- for an anomaly of a node or of the whole cluster (by its scope in the catalogue): every run, by the same rule;
- for the row "any anomaly": every race in which an anomaly was found, or in which every check decided and at least one
  operation was acknowledged. If a run has anomalies at large and none in its races, one of its races counts as broken.

A run shared by several kinds of race counts for none of them if it has an anomaly at large.
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
    "the cluster was damaged while several kinds of race shared it, and the damage cannot be attributed to one of them"
)


def usable(runs: Iterable[RunFacts]) -> list[RunFacts]:
    """Select the runs whose facts can be attributed to each kind of race in them."""
    return [run for run in runs if not run.ambiguous]


def own_races(run: RunFacts, workload: str) -> list[RaceFacts]:
    """Return the run's races of that workload."""
    return [race for race in run.races if race.workload == workload]


def any_cell(
    system: str, workload: str, condition: Condition, runs: Sequence[RunFacts], *, racing: bool = True
) -> Cell:
    """Compute the cell of the row "any anomaly" from all runs of this workload, system and condition.

    A workload without races (`racing` false) is counted by runs.
    """
    counts = [_any_counts(run, workload, racing=racing) for run in usable(runs)]
    unit: Unit = "race" if racing else "run"
    return _cell(system, workload, condition, None, runs, counts, unit)


def cell_of(
    system: str, workload: str, condition: Condition, anomaly: str, runs: Sequence[RunFacts], *, racing: bool = True
) -> Cell:
    """Compute the cell of one type of anomaly."""
    unit: Unit = "run" if counted_by_runs(anomaly) or not racing else "race"
    count = _count_runs if unit == "run" else _count_races
    counts = [count(run, workload, anomaly, racing=racing) for run in usable(runs)]
    return _cell(system, workload, condition, anomaly, runs, counts, unit)


def rows_of(workload: str, condition: Condition, runs: Iterable[RunFacts]) -> tuple[Row, ...]:
    """List the rows of one workload in one condition, from its runs on every system: any, then by prominence and frequency."""
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
    """Count (broken, tried) of the row "any anomaly"."""
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
    """Count at least one race as broken if the run has an anomaly at large."""
    return (1, max(1, tried)) if at_large and not broken else (broken, tried)


def _count_races(run: RunFacts, workload: str, anomaly: str, *, racing: bool) -> tuple[int, int]:  # noqa: ARG001 - as _count_runs
    races = own_races(run, workload)
    broken = sum(anomaly in race.anomalies for race in races)
    tried = broken
    if not _doubtful(run.doubts, anomaly):
        tried += sum(
            anomaly not in race.anomalies
            and race.acknowledged > 0  # a race without an acknowledged operation proves nothing
            and not _doubtful(race.doubts, anomaly)
            for race in races
        )
    return _with_at_large(broken, tried, at_large=bool(races) and anomaly in run.at_large)


def _count_runs(run: RunFacts, workload: str, anomaly: str, *, racing: bool) -> tuple[int, int]:
    races = own_races(run, workload)
    if racing and not races:
        return 0, 0
    if anomaly in run.at_large or any(anomaly in race.anomalies for race in races):
        return 1, 1
    doubtful = _doubtful(run.doubts, anomaly) or any(_doubtful(race.doubts, anomaly) for race in races)
    acknowledged = not racing or any(race.acknowledged for race in races)
    return 0, int(run.completed and acknowledged and not doubtful)


def _doubtful(doubts: Iterable[Doubt], anomaly: str) -> bool:
    """Return True if a checker that could have found this anomaly did not decide. For an anomaly without a known checker, any checker counts."""
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
    """Join the reasons why tries were not decided, each once, with the number of runs concerned."""
    if state == "not run":
        return "the matrix ended before it was run"
    if state == "not applicable":
        return next(run.error for run in runs if not run.applicable)
    reasons: dict[str, int] = {}
    for run in runs:
        for reason in dict.fromkeys(_reasons(run, workload, anomaly)):
            reasons[reason] = reasons.get(reason, 0) + 1
    counted_reasons = [
        reason if count == 1 else f"{reason} ({counted(count, 'run')})" for reason, count in reasons.items()
    ]
    return shortened("; ".join(counted_reasons), _REASON_MOST)


def _reasons(run: RunFacts, workload: str, anomaly: str | None) -> Iterable[str]:
    if run.ambiguous:
        yield _SHARED
        return
    if not run.races and run.error:
        yield run.error
        return
    races = own_races(run, workload)
    if run.races and not races:
        yield "no race of this kind began before the cluster stopped accepting changes"
    for doubt in (*run.doubts, *(doubt for race in races for doubt in race.doubts)):
        if doubt.weighs if anomaly is None else _doubtful([doubt], anomaly):
            yield doubt.sentence
    silent = sum(not race.acknowledged for race in races)
    if silent:
        yield f"no operation was acknowledged in {counted(silent, 'race')}"


def _evidence(runs: Sequence[RunFacts], workload: str, anomaly: str | None) -> Evidence | None:
    """Return the evidence of the anomaly; for the row "any anomaly", of its most prominent anomaly."""
    found: list[Finding] = [
        finding for run in usable(runs) for finding in run.findings if finding.workload in {workload, None}
    ]
    mine = [finding for finding in found if anomaly in {finding.anomaly, None}]
    # Evidence from a race is more specific than evidence at large.
    mine.sort(key=lambda finding: (-prominence_of(finding.anomaly), finding.workload is None))
    return mine[0].evidence if mine else None


Runs = Mapping[tuple[str, str, str], Sequence[RunFacts]]
"""(system, workload, mode) → its runs, in order."""
