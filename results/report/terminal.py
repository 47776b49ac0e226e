"""Terminal: a comparison as a table on standard error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from schemaquake.harness.ddl.schema_changes import SCHEMA_CHANGES
from schemaquake.results.findings.description import describe_standing, title_of
from schemaquake.results.findings.tracking import TrackedFinding
from schemaquake.results.report.comparison import EXPLAINED, ComparedCell, Comparison, Example
from schemaquake.results.report.tracked import describe_sighting
from schemaquake.results.summary.cell import COLOURS
from schemaquake.results.wording import system_name

__all__ = ["print_comparison", "render_comparison_table", "render_findings_table"]

_KINDS_MOST: Final = 3


def print_comparison(comparison: Comparison, console: Console) -> None:
    """Print the findings, the table, the shortest recipe of every cell that broke, and the headline."""
    if comparison.findings:
        console.print(render_findings_table(comparison.findings, comparison.systems))
    console.print(render_comparison_table(comparison))
    for row in comparison.rows:
        for system, compared in row.cells.items():
            if compared.cell.state == "broke" and compared.example is not None:
                console.print(_statements(f"{row.workload} on {system_name(system)}", compared, compared.example))
    console.print(Text(comparison.headline(), style="bold"))


def render_findings_table(findings: Sequence[TrackedFinding], systems: Sequence[str]) -> Table:
    """Build a table with one row per finding and one column per system."""
    table = Table(show_lines=True)
    table.add_column("finding")
    for system in systems:
        table.add_column(Text(system_name(system)))
    for tracked in findings:
        name = Text(title_of(tracked.example), style="bold")
        name.append(f"\n{tracked.example.id}, {describe_standing(tracked.example)}", style="not bold dim")
        table.add_row(name, *(Text(describe_sighting(tracked, one)) for one in tracked.sightings))
    return table


def render_comparison_table(comparison: Comparison) -> Table:
    """Build a table with one row per racing workload and one column per system. Every colour has a word and a shape beside it."""
    table = Table(show_lines=True)
    table.add_column("race")
    for system in comparison.systems:
        table.add_column(Text(system_name(system)))
    for row in comparison.rows:
        name = Text(row.workload, style="bold")
        if row.condition:
            name.append(f"\n{row.condition}", style="dim")
        table.add_row(name, *(_cell(row.cells[system]) for system in comparison.systems))
    return table


def _statements(title: str, compared: ComparedCell, example: Example) -> Text:
    """Render the title `drop-type on Cassandra 5.0.9 (dangling-type):`, then the statements of each coordinator with their outcomes."""
    text = Text(f"{title} ({', '.join(kind for kind, _ in compared.broke[:_KINDS_MOST])}):", style="bold")
    for statement in example.recipe.before:
        text.append(f"\n  first  {_one_line(statement.text)};", style="dim")
    for side in example.recipe.sides:
        writes = [statement for statement in side.statements if statement.f not in SCHEMA_CHANGES]
        for statement in side.statements:
            if statement not in writes[1:]:  # the first write shows what was written during the race
                text.append(f"\n  {side.node:<5}  {_one_line(statement.text)};", style="default")
                text.append(f"  -- {statement.outcome()}", style="dim")
    text.append("\n")
    return text


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _cell(compared: ComparedCell) -> Text:
    cell = compared.cell
    text = Text(f"{cell.mark} {compared.words()}", style=COLOURS[cell.state])
    for kind, count in compared.broke:
        text.append(f"\n  {kind} {count}", style="default")
    if cell.state in EXPLAINED and cell.reason:
        text.append(f"\n  {cell.reason}", style="dim")
    return text
