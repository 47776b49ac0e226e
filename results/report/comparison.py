"""Comparison: the same races on several systems, side by side: one row per racing workload, one column per system.

A cell shows `broke`, `held`, `unknown` or `not applicable` as a word, a colour and counts. A cell holds only if its runs
were completed and every check decided. A run that could not be carried out is never shown as a pass.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from schemaquake.checkers.findings.catalogue import CATALOGUE, prominence_of
from schemaquake.results.findings.tracking import TrackedFinding, track_findings
from schemaquake.results.mode import mode_of
from schemaquake.results.report.findings import report_findings, summarise_workloads
from schemaquake.results.report.html import render
from schemaquake.results.report.markdown import code_block, code_span, escaped, render_recipe
from schemaquake.results.report.material import Material, Race
from schemaquake.results.report.recipe import Recipe, recipe_of
from schemaquake.results.report.reproduce import command_line
from schemaquake.results.report.tracked import render_tracked_markdown, tracked_view
from schemaquake.results.summary.cell import WORST_FIRST, Cell, CellState, describe_standing, standing_of, wilson
from schemaquake.results.summary.run_summary import KindSummary, RunSummary
from schemaquake.results.wording import counted, joined, nemesis_names, shortened, system_name, verdict_name

__all__ = [
    "EXPLAINED",
    "ComparedCell",
    "ComparedRun",
    "Comparison",
    "Example",
    "Row",
    "compare",
    "recipes_of",
    "render_comparison_html",
    "render_comparison_markdown",
]

EXPLAINED: Final[frozenset[CellState]] = frozenset({"unknown", "not applicable", "not run"})
"""States that are printed with their reason."""
_DOUBT_MOST: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRun:
    """One run of a comparison: its summary, or the reason why there is none.

    `report` is the address of its report, relative to the comparison page. If `summary` is None, `refusal` is the reason, and
    `applicable` is False if the system lacks the feature and True if the run failed.
    """

    plan: Mapping[str, Any]
    summary: RunSummary | None = None
    recipes: Mapping[str, Recipe] = field(default_factory=dict)
    """Workload → recipe of its first broken race (`recipes_of`)."""
    report: str | None = None
    refusal: str | None = None
    applicable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """The recipe and the command that repeat the first broken race of a cell."""

    recipe: Recipe
    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedCell:
    """One workload on one system, with the details shown beside the counts."""

    cell: Cell
    broke: tuple[tuple[str, int], ...] = ()
    """(anomaly type, number of races or anomalies), the most frequent first."""
    reports: tuple[str, ...] = ()
    """Addresses of the runs' reports, relative to the page."""
    example: Example | None = None

    def words(self) -> str:
        """Describe the counts: `5 of 6 broke`, `0 of 6 broke`, `not applicable`."""
        if self.cell.state in {"not applicable", "not run"}:
            return self.cell.state
        tried = f"{self.cell.broken} of {self.cell.tried} broke"
        return f"{tried}, not decided" if self.cell.state == "unknown" else tried


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One workload under one condition (mode and nemeses, where runs differ in them), with one cell per system."""

    workload: str
    condition: str
    cells: Mapping[str, ComparedCell]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Rows by workload; `systems` are the columns, in the order in which they were run."""

    systems: tuple[str, ...]
    rows: tuple[Row, ...]
    anomalies: Mapping[str, Mapping[str, int]]
    """Anomaly type → system → number of races (or anomalies, if the run has no races)."""
    titles: Mapping[str, str]
    findings: tuple[TrackedFinding, ...] = ()

    def sentences(self) -> tuple[str, ...]:
        """Return one sentence per system: `Cassandra 5.0.9: 7 of 8 kinds of race break`."""
        return tuple(self._of_system(system) for system in self.systems)

    def headline(self) -> str:
        """Join the sentences of all systems into one line."""
        return "; ".join(self.sentences()) + "."

    def without(self, system: str) -> CellState:
        """Return what the absence of an anomaly means for a system: `held` only if every check of that system decided."""
        states = {row.cells[system].cell.state for row in self.rows}
        if "unknown" in states:
            return "unknown"
        return "held" if states & {"broke", "held"} else "not run"

    def _of_system(self, system: str) -> str:
        cells = [row.cells[system].cell for row in self.rows]
        states = [cell.state for cell in cells]
        judged = [cell for cell in cells if cell.state in {"broke", "held", "unknown"}]
        nouns = ("kind of race", "kinds of race") if all(cell.unit == "race" for cell in judged) else ("workload",)
        parts = []
        if "broke" in states:
            broke = states.count("broke")
            parts.append(f"{broke} of {counted(len(judged), *nouns)} {'breaks' if broke == 1 else 'break'}")
        elif "held" in states:
            parts.append(f"none of {counted(states.count('held'), *nouns)} breaks")
        for state, words in (("unknown", "not decided"), ("not applicable", "not applicable"), ("not run", "not run")):
            if state in states:
                parts.append(f"{counted(states.count(state), *nouns)} {words}")
        return f"{system_name(system)}: {', '.join(parts) or 'nothing was run'}"

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as the document of `--json`, with one object per cell."""
        return {
            "findings": [finding.to_json() for finding in self.findings],
            "headline": self.headline(),
            "systems": list(self.systems),
            "cells": [
                {
                    "workload": row.workload,
                    "condition": row.condition,
                    "system": system,
                    "state": compared.cell.state,
                    "tried": compared.cell.tried,
                    "broken": compared.cell.broken,
                    "broke": dict(compared.broke),
                    "reason": compared.cell.reason,
                    "reports": list(compared.reports),
                }
                for row in self.rows
                for system, compared in row.cells.items()
            ],
        }


# ── from runs to cells ───────────────────────────────────────────────────────────────────────────────────────────────


def compare(runs: Sequence[ComparedRun]) -> Comparison:
    """Build a comparison from runs. Runs of the same workload, condition and system are added up.

    A run of several workloads (racing-ddl) has one row for each workload that raced. A run that could not be carried out has
    no races of its own, so it is counted in every row of its condition that another system has filled.
    """
    systems = tuple(dict.fromkeys(str(run.plan["system"]) for run in runs))
    differ = len({_condition(run.plan) for run in runs}) > 1
    found: dict[tuple[str, str], dict[str, list[ComparedCell]]] = {}
    for run in runs:
        condition = _condition(run.plan) if differ else ""
        for compared in _cells(run, _raced(run, runs)):
            by_system = found.setdefault((compared.cell.workload, condition), {})
            by_system.setdefault(compared.cell.system, []).append(compared)
    rows = []
    for (workload, condition), by_system in sorted(found.items()):
        some = next(iter(by_system.values()))[0].cell
        cells = {system: _added(replace(some, system=system), by_system.get(system, ())) for system in systems}
        rows.append(Row(workload=workload, condition=condition, cells=cells))
    return Comparison(
        systems=systems,
        rows=tuple(rows),
        anomalies=_by_anomaly(rows, systems),
        titles=_titles(runs),
        findings=track_findings([run.summary.judged() for run in runs if run.summary is not None], systems),
    )


def _condition(plan: Mapping[str, Any]) -> str:
    nemeses = nemesis_names(plan)
    return mode_of(plan) + ("" if nemeses == "none" else f", {nemeses}")


def _raced(run: ComparedRun, runs: Sequence[ComparedRun]) -> list[str]:
    """Return the race workloads that runs of the same plan on other systems have shown."""
    key = (tuple(run.plan.get("workloads", ())), _condition(run.plan))
    same = [one for one in runs if (tuple(one.plan.get("workloads", ())), _condition(one.plan)) == key]
    return sorted({kind.workload for one in same if one.summary is not None for kind in one.summary.kinds})


def _cells(run: ComparedRun, raced: Sequence[str]) -> list[ComparedCell]:
    """Build the cells of one run. A workload that raced elsewhere but not in this run gets a cell too."""
    if run.summary is None:
        state: CellState = "unknown" if run.applicable else "not applicable"
        names = list(raced) or list(run.plan.get("workloads", ()))
        refused = run.refusal or "no reason given"
        return [_compared(run, _blank(run, name, state, reason=refused)) for name in names]
    kinds = run.summary.kinds
    if not kinds and not raced:
        return [_cell_without_races(run, run.summary)]
    here = {kind.workload for kind in kinds}
    absent = "no race of this kind in this run: the system lacks a feature it needs, or the run ended before it began"
    return [_cell(run, run.summary, kind) for kind in kinds] + [
        ComparedCell(cell=_blank(run, name, "not run", reason=absent)) for name in raced if name not in here
    ]


def _blank(run: ComparedRun, workload: str, state: CellState, *, reason: str = "") -> Cell:
    """Build a cell without counts."""
    return Cell(
        system=str(run.plan["system"]),
        workload=workload,
        mode=mode_of(run.plan),
        nemeses=tuple(run.plan.get("nemeses") or ()),
        state=state,
        reason=reason,
        runs=() if run.summary is None else (run.summary.run,),
    )


def _compared(run: ComparedRun, cell: Cell, broke: Mapping[str, int] | None = None) -> ComparedCell:
    recipe = run.recipes.get(cell.workload)
    example = None if recipe is None else Example(recipe=recipe, command=shlex.join(command_line(run.plan)))
    reports = (run.report,) if run.report else ()
    return ComparedCell(cell=cell, broke=tuple((broke or {}).items()), reports=reports, example=example)


def _cell(run: ComparedRun, summary: RunSummary, kind: KindSummary) -> ComparedCell:
    keyspaces = {race.keyspace for race in summary.races if race.workload == kind.workload}
    undecided = [
        replace(doubt, text=shortened(doubt.text, _DOUBT_MOST)).sentence for doubt in summary.doubts_about(keyspaces)
    ]
    reason = describe_standing(
        tried=kind.tried, broke=kind.anomalies, broken=kind.broken, ok=kind.ok, undecided=undecided
    )
    state = standing_of(broken=kind.broken, ok=kind.ok, undecided=undecided)
    cell = _counted(_blank(run, kind.workload, state, reason=reason), broken=kind.broken, tried=kind.tried)
    return _compared(run, cell, kind.anomalies)


def _cell_without_races(run: ComparedRun, summary: RunSummary) -> ComparedCell:
    states: Mapping[str, CellState] = {"invalid": "broke", "valid": "held", "unknown": "unknown"}
    name = _without_races(run.plan)
    blank = _blank(run, name, states[verdict_name(summary.valid)], reason="; ".join(summary.reasons()))
    cell = _counted(replace(blank, unit="run"), broken=int(summary.valid is False), tried=1)
    broke: dict[str, int] = {}
    for found in summary.anomalies:
        broke[found.type] = broke.get(found.type, 0) + found.count
    order = sorted(broke, key=lambda kind: (-prominence_of(kind), -broke[kind], kind))
    return _compared(run, cell, {kind: broke[kind] for kind in order})


def _without_races(plan: Mapping[str, Any]) -> str:
    """Return the row name of a run that has no races."""
    return joined(plan.get("workloads", ()))


def recipes_of(material: Material) -> Mapping[str, Recipe]:
    """Map each broken workload to the recipe of its first broken race, from the run's history."""
    summaries = summarise_workloads(material)
    if summaries:
        found = {summary.workload: _first_recipe(material, summary.broken) for summary in summaries}
    else:
        recipes = (finding.recipe for finding in report_findings(material) if finding.recipe)
        found = {_without_races(material.plan): next(recipes, None)}
    return {workload: recipe for workload, recipe in found.items() if recipe is not None}


def _first_recipe(material: Material, broken: Sequence[Race]) -> Recipe | None:
    recipes = (recipe_of(material, race.keyspace) for race in broken)
    return next((recipe for recipe in recipes if recipe is not None), None)


def _counted(cell: Cell, *, broken: int, tried: int) -> Cell:
    low, high = wilson(broken, tried)
    return replace(cell, broken=broken, tried=tried, low=low, high=high)


def _added(place: Cell, several: Sequence[ComparedCell]) -> ComparedCell:
    """Add up several runs of one cell: the worst state and the sum of the counts. `place` carries the cell's coordinates."""
    blank = Cell(system=place.system, workload=place.workload, mode=place.mode, nemeses=place.nemeses, state="not run")
    if not several:
        return ComparedCell(cell=blank)
    worst = min(several, key=lambda one: WORST_FIRST.index(one.cell.state))
    broke: dict[str, int] = {}
    for one in several:
        for kind, count in one.broke:
            broke[kind] = broke.get(kind, 0) + count
    cell = _counted(
        replace(
            worst.cell,
            reason="; ".join(dict.fromkeys(one.cell.reason for one in several if one.cell.reason)),
            runs=tuple(run for one in several for run in one.cell.runs),
        ),
        broken=sum(one.cell.broken for one in several),
        tried=sum(one.cell.tried for one in several),
    )
    return ComparedCell(
        cell=cell,
        broke=tuple(sorted(broke.items(), key=lambda entry: (-entry[1], entry[0]))),
        reports=tuple(report for one in several for report in one.reports),
        example=worst.example,
    )


def _by_anomaly(rows: Sequence[Row], systems: Sequence[str]) -> Mapping[str, Mapping[str, int]]:
    kinds = sorted({kind for row in rows for cell in row.cells.values() for kind, _ in cell.broke})
    return {
        kind: {system: sum(dict(row.cells[system].broke).get(kind, 0) for row in rows) for system in systems}
        for kind in kinds
    }


def _titles(runs: Sequence[ComparedRun]) -> Mapping[str, str]:
    found = [one for run in runs if run.summary is not None for one in run.summary.anomalies]
    return {one.type: CATALOGUE[one.type].title if one.type in CATALOGUE else one.title or one.type for one in found}


# ── pages ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def render_comparison_html(comparison: Comparison, *, title: str = "Comparison") -> str:
    """Render a self-contained page with links to each run's report beside it."""
    return render(
        "comparison.html.j2",
        charts=False,
        comparison=comparison,
        title=title,
        system_name=system_name,
        explained=EXPLAINED,
        findings=[tracked_view(finding) for finding in comparison.findings],
    )


def render_comparison_markdown(comparison: Comparison, *, title: str = "Comparison") -> str:
    """Render the comparison as Markdown for an issue or a job summary."""
    head = ["Race", *(escaped(system_name(system)) for system in comparison.systems)]
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    for row in comparison.rows:
        condition = f" ({escaped(row.condition)})" if row.condition else ""
        cells = [_markdown_cell(row.cells[system]) for system in comparison.systems]
        lines.append(f"| {code_span(row.workload)}{condition} | {' | '.join(cells)} |")
    parts = [
        f"# {escaped(title)}",
        escaped(comparison.headline()),
        *render_tracked_markdown(comparison.findings, comparison.systems),
        "## Race by race",
        "\n".join(lines),
    ]
    for row in comparison.rows:
        for system, compared in row.cells.items():
            if compared.cell.state == "broke" and compared.example:
                parts += [
                    f"## {code_span(row.workload)} on {escaped(system_name(system))}: {escaped(compared.words())}",
                    code_block(render_recipe(compared.example.recipe), "sql"),
                    code_block(compared.example.command, "sh"),
                ]
    return "\n\n".join(parts) + "\n"


def _markdown_cell(compared: ComparedCell) -> str:
    words = f"{compared.cell.mark} {escaped(compared.words())}"
    linked = f"[{words}](<{compared.reports[0]}>)" if compared.reports else words
    what = ", ".join(f"{code_span(kind)} {count}" for kind, count in compared.broke)
    reason = escaped(compared.cell.reason) if compared.cell.state in EXPLAINED else ""
    return "<br>".join(part for part in (linked, what, reason) if part)
