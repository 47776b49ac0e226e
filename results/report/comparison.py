"""Comparison: the same races on several systems, side by side. A row a racing workload, a column a system.

A cell says `broke`, `held`, `unknown` or `not applicable` in a word, a colour and numbers. Only a run that was completed
and decided in every check can have held; what could not be run is never shown as a pass.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from schemaquake.results.report.findings import Standing, WorkloadSummary, findings_of, reasons_of, workloads_of
from schemaquake.results.report.html import render
from schemaquake.results.report.markdown import code_block, code_span, escaped, recipe_sql
from schemaquake.results.report.material import Material, Race
from schemaquake.results.report.recipe import Recipe, recipe_of
from schemaquake.results.report.reproduce import command_line
from schemaquake.results.wording import counted, joined, nemesis_names, system_name, verdict_name

__all__ = [
    "EXPLAINED",
    "Cell",
    "CellState",
    "ComparedRun",
    "Comparison",
    "Row",
    "compare",
    "comparison_html",
    "comparison_markdown",
]

CellState: TypeAlias = Literal["broke", "held", "unknown", "not applicable", "not run"]

MARKS: Final[Mapping[CellState, str]] = {
    "broke": "✕",
    "held": "✓",
    "unknown": "?",
    "not applicable": "–",
    "not run": "·",
}
STYLES: Final[Mapping[CellState, str]] = {
    "broke": "fail",
    "held": "ok",
    "unknown": "info",
    "not applicable": "other",
    "not run": "other",
}
EXPLAINED: Final[frozenset[CellState]] = frozenset({"unknown", "not applicable", "not run"})
"""States whose reason is printed with them."""
_WORST_FIRST: Final[Sequence[CellState]] = ("broke", "unknown", "held", "not applicable", "not run")


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRun:
    """One run of a matrix: what it left, or why there is nothing.

    `report` is the address of its report, relative to the comparison page. Without material, `refusal` says why:
    `applicable` tells a system that lacks the feature from a run that failed.
    """

    plan: Mapping[str, Any]
    material: Material | None = None
    report: str | None = None
    refusal: str | None = None
    applicable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One workload on one system. `tried` and `broken` count races, or runs where the workload has no races."""

    state: CellState
    tried: int = 0
    broken: int = 0
    broke: tuple[tuple[str, int], ...] = ()
    """(anomaly type, how many races or anomalies), the commonest first."""
    reason: str = ""
    reports: tuple[str, ...] = ()
    recipe: Recipe | None = None
    command: str = ""
    unit: str = "race"

    @property
    def mark(self) -> str:
        """The state as a shape."""
        return MARKS[self.state]

    @property
    def style(self) -> str:
        """The state as the page's name of a colour."""
        return STYLES[self.state]

    def words(self) -> str:
        """`5 of 6 broke`, `0 of 6 broke`, `not applicable`."""
        if self.state in {"not applicable", "not run"}:
            return self.state
        tried = f"{self.broken} of {self.tried} broke"
        return f"{tried}, not decided" if self.state == "unknown" else tried


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One workload under one condition (mode and nemeses, where runs differ in them), a cell a system."""

    workload: str
    condition: str
    cells: Mapping[str, Cell]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Rows by workload; `systems` are the columns, in the order in which they were run."""

    systems: tuple[str, ...]
    rows: tuple[Row, ...]
    anomalies: Mapping[str, Mapping[str, int]]
    """Anomaly type → system → how many races (or, without races, anomalies)."""
    titles: Mapping[str, str]

    def sentences(self) -> tuple[str, ...]:
        """One a system: `Cassandra 5.0.9: 7 of 8 kinds of race break`."""
        return tuple(self._of_system(system) for system in self.systems)

    def headline(self) -> str:
        """All of them in one line."""
        return "; ".join(self.sentences()) + "."

    def without(self, system: str) -> CellState:
        """What it means that an anomaly is not among a system's: only where everything was decided it was not there."""
        states = {row.cells[system].state for row in self.rows}
        if "unknown" in states:
            return "unknown"
        return "held" if states & {"broke", "held"} else "not run"

    def _of_system(self, system: str) -> str:
        cells = [row.cells[system] for row in self.rows]
        states = [cell.state for cell in cells]
        judged = [cell for cell in cells if cell.state in {"broke", "held", "unknown"}]
        nouns = ("kind of race", "kinds of race") if all(cell.unit == "race" for cell in judged) else ("workload",)
        said = []
        if "broke" in states:
            broke = states.count("broke")
            said.append(f"{broke} of {counted(len(judged), *nouns)} {'breaks' if broke == 1 else 'break'}")
        elif "held" in states:
            said.append(f"none of {counted(states.count('held'), *nouns)} breaks")
        for state, words in (("unknown", "not decided"), ("not applicable", "not applicable"), ("not run", "not run")):
            if state in states:
                said.append(f"{counted(states.count(state), *nouns)} {words}")
        return f"{system_name(system)}: {', '.join(said) or 'nothing was run'}"

    def to_json(self) -> dict[str, Any]:
        """The comparison for `--json`: one object a cell."""
        return {
            "headline": self.headline(),
            "systems": list(self.systems),
            "cells": [
                {
                    "workload": row.workload,
                    "condition": row.condition,
                    "system": system,
                    "state": cell.state,
                    "tried": cell.tried,
                    "broken": cell.broken,
                    "broke": dict(cell.broke),
                    "reason": cell.reason,
                    "reports": list(cell.reports),
                }
                for row in self.rows
                for system, cell in row.cells.items()
            ],
        }


# ── from runs to cells ───────────────────────────────────────────────────────────────────────────────────────────────


def compare(runs: Sequence[ComparedRun]) -> Comparison:
    """Lay runs side by side. Runs of one workload, condition and system are added up.

    A run of many workloads (racing-ddl) has a row for each that raced; so one that could not be run stands under the
    workload of its plan, and is counted in every row of that condition which another system filled in its stead.
    """
    systems = tuple(dict.fromkeys(str(run.plan["system"]) for run in runs))
    differ = len({_condition(run.plan) for run in runs}) > 1
    found: dict[tuple[str, str], dict[str, list[Cell]]] = {}
    for run in runs:
        condition = _condition(run.plan) if differ else ""
        for workload, cell in _cells(run, _raced(run, runs)):
            found.setdefault((workload, condition), {}).setdefault(str(run.plan["system"]), []).append(cell)
    rows = tuple(
        Row(
            workload=workload,
            condition=condition,
            cells={system: _added(by_system.get(system, ())) for system in systems},
        )
        for (workload, condition), by_system in sorted(found.items())
    )
    return Comparison(systems=systems, rows=rows, anomalies=_by_anomaly(rows, systems), titles=_titles(runs))


def _condition(plan: Mapping[str, Any]) -> str:
    nemeses = nemesis_names(plan)
    return str(plan.get("mode", "barrier")) + ("" if nemeses == "none" else f", {nemeses}")


def _raced(run: ComparedRun, runs: Sequence[ComparedRun]) -> list[str]:
    """The race workloads that other runs of the same plan, on other systems, have shown."""
    key = (tuple(run.plan.get("workloads", ())), _condition(run.plan))
    same = [one for one in runs if (tuple(one.plan.get("workloads", ())), _condition(one.plan)) == key]
    found = {summary.workload for one in same if one.material is not None for summary in workloads_of(one.material)}
    return sorted(found)


def _cells(run: ComparedRun, raced: Sequence[str]) -> Iterable[tuple[str, Cell]]:
    """(workload, cell) of one run; a workload that raced elsewhere and not here is named too."""
    material = run.material
    if material is None:
        state: CellState = "unknown" if run.applicable else "not applicable"
        refused = Cell(state=state, reason=run.refusal or "no reason given", reports=_reports(run))
        names = list(raced) or list(run.plan.get("workloads", ()))
        return [(name, refused) for name in names]
    summaries = {summary.workload: summary for summary in workloads_of(material)}
    if not summaries and not raced:
        return [(joined(run.plan.get("workloads", ())), _cell_without_races(run, material))]
    cells = [(name, _cell(run, material, summary)) for name, summary in summaries.items()]
    absent = Cell(
        state="not run", reason="no such race in this run: it needs a feature that the system lacks, or came too late"
    )
    return cells + [(name, absent) for name in raced if name not in summaries]


def _cell(run: ComparedRun, material: Material, summary: WorkloadSummary) -> Cell:
    states: Mapping[Standing, CellState] = {"broke": "broke", "held": "held", "unknown": "unknown"}
    return Cell(
        state=states[summary.standing],
        tried=len(summary.races),
        broken=len(summary.broken),
        broke=tuple(summary.broke.items()),
        reason=summary.reason(),
        reports=_reports(run),
        recipe=_first_recipe(material, summary.broken),
        command=shlex.join(command_line(run.plan)),
    )


def _cell_without_races(run: ComparedRun, material: Material) -> Cell:
    findings = findings_of(material)
    states: Mapping[str, CellState] = {"invalid": "broke", "valid": "held", "unknown": "unknown"}
    return Cell(
        state=states[verdict_name(material.verdict.valid)],
        tried=1,
        broken=int(material.verdict.valid is False),
        broke=tuple((finding.type, len(finding.anomalies)) for finding in findings),
        reason="; ".join(reasons_of(material)),
        reports=_reports(run),
        recipe=next((finding.recipe for finding in findings if finding.recipe), None),
        command=shlex.join(command_line(run.plan)),
        unit="run",
    )


def _first_recipe(material: Material, broken: Sequence[Race]) -> Recipe | None:
    recipes = (recipe_of(material, race.keyspace) for race in broken)
    return next((recipe for recipe in recipes if recipe is not None), None)


def _reports(run: ComparedRun) -> tuple[str, ...]:
    return (run.report,) if run.report else ()


def _added(cells: Sequence[Cell]) -> Cell:
    """Several runs of one cell as one: the worst state, the sum of the counts."""
    if not cells:
        return Cell(state="not run")
    worst = min(cells, key=lambda cell: _WORST_FIRST.index(cell.state))
    broke: dict[str, int] = {}
    for cell in cells:
        for kind, count in cell.broke:
            broke[kind] = broke.get(kind, 0) + count
    return Cell(
        state=worst.state,
        tried=sum(cell.tried for cell in cells),
        broken=sum(cell.broken for cell in cells),
        broke=tuple(sorted(broke.items(), key=lambda entry: (-entry[1], entry[0]))),
        reason="; ".join(dict.fromkeys(cell.reason for cell in cells if cell.reason)),
        reports=tuple(report for cell in cells for report in cell.reports),
        recipe=worst.recipe,
        command=worst.command,
        unit=worst.unit,
    )


def _by_anomaly(rows: Sequence[Row], systems: Sequence[str]) -> Mapping[str, Mapping[str, int]]:
    kinds = sorted({kind for row in rows for cell in row.cells.values() for kind, _ in cell.broke})
    return {
        kind: {system: sum(dict(row.cells[system].broke).get(kind, 0) for row in rows) for system in systems}
        for kind in kinds
    }


def _titles(runs: Sequence[ComparedRun]) -> Mapping[str, str]:
    materials = [run.material for run in runs if run.material is not None]
    return {finding.type: finding.title for material in materials for finding in findings_of(material)}


# ── pages ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def comparison_html(comparison: Comparison, *, title: str = "Comparison") -> str:
    """One page that stands alone but for links to each run's report beside it."""
    return render(
        "comparison.html.j2",
        charts=False,
        comparison=comparison,
        title=title,
        system_name=system_name,
        explained=EXPLAINED,
    )


def comparison_markdown(comparison: Comparison, *, title: str = "Comparison") -> str:
    """The same for an issue or a job summary."""
    head = ["Race", *(escaped(system_name(system)) for system in comparison.systems)]
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    for row in comparison.rows:
        condition = f" ({escaped(row.condition)})" if row.condition else ""
        cells = [_markdown_cell(row.cells[system]) for system in comparison.systems]
        lines.append(f"| {code_span(row.workload)}{condition} | {' | '.join(cells)} |")
    parts = [f"# {escaped(title)}", escaped(comparison.headline()), "\n".join(lines)]
    for row in comparison.rows:
        for system, cell in row.cells.items():
            if cell.state == "broke" and cell.recipe:
                parts += [
                    f"## {code_span(row.workload)} on {escaped(system_name(system))}: {escaped(cell.words())}",
                    code_block(recipe_sql(cell.recipe), "sql"),
                    code_block(cell.command, "sh"),
                ]
    return "\n\n".join(parts) + "\n"


def _markdown_cell(cell: Cell) -> str:
    words = f"{cell.mark} {escaped(cell.words())}"
    linked = f"[{words}](<{cell.reports[0]}>)" if cell.reports else words
    what = ", ".join(f"{code_span(kind)} {count}" for kind, count in cell.broke)
    reason = escaped(cell.reason) if cell.state in EXPLAINED else ""
    return "<br>".join(part for part in (linked, what, reason) if part)
