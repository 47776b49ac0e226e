"""Terminal: a comparison as a table for standard error."""

from __future__ import annotations

from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from results.report.comparison import EXPLAINED, Cell, CellState, Comparison
from results.report.wording import system_name

__all__ = ["comparison_table", "print_comparison"]

_COLOURS: Final[dict[CellState, str]] = {
    "broke": "bold magenta",
    "held": "blue",
    "unknown": "yellow",
    "not applicable": "dim",
    "not run": "dim",
}


def print_comparison(comparison: Comparison, console: Console) -> None:
    """The table and the sentence below it."""
    console.print(comparison_table(comparison))
    console.print(Text(comparison.headline(), style="bold"))


def comparison_table(comparison: Comparison) -> Table:
    """A row a racing workload, a column a system; words and shapes beside every colour."""
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


def _cell(cell: Cell) -> Text:
    text = Text(f"{cell.mark} {cell.words()}", style=_COLOURS[cell.state])
    for kind, count in cell.broke:
        text.append(f"\n  {kind} {count}", style="default")
    if cell.state in EXPLAINED and cell.reason:
        text.append(f"\n  {cell.reason}", style="dim")
    return text
