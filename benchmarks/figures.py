"""Figures: what a benchmark measured, with its unit, and the one table in which all of them are printed."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Figure:
    """One number: `value` in `unit`; `goal` is what it should reach, in the same unit."""

    benchmark: str
    what: str
    value: float
    unit: str
    goal: str = ""

    @property
    def number(self) -> str:
        """With as many digits as mean something."""
        return f"{self.value:,.0f}" if abs(self.value) >= 100 else f"{self.value:.3g}"


def machine() -> str:
    """Describe the machine: processor, cores, memory, system, Python, and its load before the measurement."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    model = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    load = os.getloadavg()[0]
    return (
        f"{model[1] if model else platform.machine()}, {os.cpu_count()} cores, {memory:.0f} GiB, "
        f"{platform.system()} {platform.release()}, Python {platform.python_version()}, load {load:.1f} before"
    )


def print_table(figures: Iterable[Figure], facts: str) -> None:
    """Every figure a row, in the order in which they were measured."""
    table = Table("benchmark", "what", box=None, pad_edge=False)
    table.add_column("figure", justify="right")
    table.add_column("unit")
    table.add_column("goal")
    for figure in figures:
        table.add_row(figure.benchmark, figure.what, figure.number, figure.unit, figure.goal)
    console = Console(width=160, highlight=False)
    console.print(facts + "\n")
    console.print(table)
