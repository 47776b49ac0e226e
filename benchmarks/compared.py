"""Before and after: figures of another checkout and of this one, in turns, in one table.

`python -m benchmarks.compared CHECKOUT [NAME]... [--turns N] [--transactions N]`: CHECKOUT is a folder with another state of this project
(`git worktree add CHECKOUT COMMIT`), which is run by this interpreter. NAME is `checks` (whole commands of either checkout on the same
files: processor time and memory, which other work on the machine changes little), or a benchmark of `python -m benchmarks`:
`operations`, `simulation`, and `boot` and `races`, which start real nodes. Without any: checks, operations and simulation.

The first turn, in which a checkout compiles its loops, is not counted; figures are medians, and the last column is the median of
the ratios turn by turn, which holds on a machine that is not idle.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TypeAlias

import orjson
from rich.console import Console
from rich.table import Table

from benchmarks.figures import Figure, machine
from benchmarks.whole import CHECK, COMMAND, cost_of, write_files

_HERE = Path(__file__).parents[1]
_DEFAULT = ("checks", "operations", "simulation")
_FORMS = ("edn", "json", "parquet")  # which every state of the project reads

_PROGRAM = """
import json, sys
from benchmarks.__main__ import BENCHMARKS
with open(sys.argv[1], "w") as file:
    for figure in BENCHMARKS[sys.argv[2]]():
        file.write(json.dumps([figure.what, figure.value, figure.unit]) + "\\n")
"""
"""What a checkout is asked to run: its own benchmark, which may say more or less than that of another one."""

Turn: TypeAlias = Mapping[tuple[str, str], float]
"""Figures of one turn of one checkout: (what, unit) → value."""


@dataclass(frozen=True)
class Compared:
    """One figure of both checkouts, turn by turn. Either is empty if that checkout does not measure it."""

    benchmark: str
    what: str
    unit: str
    before: Sequence[float]
    after: Sequence[float]

    @property
    def ratio(self) -> str:
        """The median of after / before, turn by turn."""
        if not self.before or not self.after:
            return ""
        return f"{median(new / old for old, new in zip(self.before, self.after, strict=True)):.2f}"

    def number(self, values: Sequence[float]) -> str:
        """Write the median of some turns, with its digits that mean something."""
        return Figure(self.benchmark, self.what, median(values), self.unit).number if values else "–"


def turn(checkout: Path, name: str, files: Mapping[str, Path]) -> Turn:
    """Measure a checkout once. Raises subprocess.CalledProcessError, RuntimeError."""
    if name == "checks":
        return dict(_checks(checkout, files))
    with tempfile.NamedTemporaryFile() as said:
        command = [sys.executable, "-c", _PROGRAM, said.name, name]
        subprocess.run(command, cwd=checkout, env=_environment(checkout), stdout=subprocess.DEVNULL, check=True)
        lines = Path(said.name).read_bytes().splitlines()
    return {(what, unit): value for what, value, unit in map(orjson.loads, lines)}


def _checks(checkout: Path, files: Mapping[str, Path]) -> Iterator[tuple[tuple[str, str], float]]:
    for form in _FORMS:
        cost = cost_of([*COMMAND, *CHECK, str(files[form])], cwd=checkout, environment=_environment(checkout))
        yield (f"check of {form}", "CPU s"), cost.cpu_s
        yield (f"check of {form}, largest process", "GB"), cost.memory_gb


def _environment(checkout: Path) -> Mapping[str, str]:
    """Return an environment in which Python imports the checkout, and not what is installed."""
    return {**os.environ, "PYTHONPATH": str(checkout)}


def compared(before: Path, names: Sequence[str], *, turns: int, transactions: int) -> Iterator[Compared]:
    """Measure both checkouts in turns, a benchmark at a time."""
    with tempfile.TemporaryDirectory(prefix="schemaquake-") as folder:
        files = write_files(Path(folder), transactions) if "checks" in names else {}
        for name in names:
            old: list[Turn] = []
            new: list[Turn] = []
            for number in range(turns + 1):
                print(f"{name}: turn {number} of {turns}", file=sys.stderr, flush=True)
                old.append(turn(before, name, files))
                new.append(turn(_HERE, name, files))
            for what, unit in dict.fromkeys([*new[0], *old[0]]):
                values = ([found[what, unit] for found in part[1:] if (what, unit) in found] for part in (old, new))
                yield Compared(name, what, unit, *values)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compared", description=__doc__)
    parser.add_argument("checkout", type=Path, help="the state before, as a folder")
    parser.add_argument("names", nargs="*", metavar="NAME", help="checks, or benchmarks of `python -m benchmarks`")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--transactions", type=int, default=250_000, help="of the history that is checked")
    options = parser.parse_args()
    if not (options.checkout / "schemaquake").is_dir():
        parser.error(f"{options.checkout} is no checkout of this project")
    table = Table("benchmark", "what", box=None, pad_edge=False)
    for title in ("before", "after", "after / before"):
        table.add_column(title, justify="right")
    table.add_column("unit")
    facts = machine()
    found = compared(
        options.checkout.absolute(),
        options.names or _DEFAULT,
        turns=options.turns,
        transactions=options.transactions,
    )
    for row in found:
        cells = [row.benchmark, row.what, row.number(row.before), row.number(row.after), row.ratio, row.unit]
        print("; ".join(cells), file=sys.stderr, flush=True)
        table.add_row(*cells)
    Console(width=160, highlight=False).print(facts, table, sep="\n")


if __name__ == "__main__":
    main()
