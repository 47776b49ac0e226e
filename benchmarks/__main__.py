"""Every benchmark, and one table of what they measured, all in one go: `python -m benchmarks [NAME]...`.

`operations`, `linearizability`, `elle`, `weak`, `whole`, `pipeline` and `simulation` need nothing but this project; `boot` and `races` start real nodes, and
are left out, with the reason, where that cannot be done. Measured one after another: nothing else should be at work on the machine.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from benchmarks import boot, elle, linearizability, operations, pipeline, races, simulation, weak, whole
from benchmarks.figures import Figure, machine, print_table
from schemaquake.harness.errors import EnvironmentLacks


def figures_of_races() -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="schemaquake-") as name:
        return list(races.figures(races.run_of_every_race(Path(name))))


BENCHMARKS: Mapping[str, Callable[[], Iterable[Figure]]] = {
    "operations": operations.figures,
    "linearizability": linearizability.figures,
    "elle": elle.figures,
    "weak": weak.figures,
    "whole": whole.figures,
    "pipeline": pipeline.figures,
    "simulation": simulation.figures,
    "boot": boot.figures,
    "races": figures_of_races,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(BENCHMARKS)}; else all of them")
    chosen = parser.parse_args().names or list(BENCHMARKS)
    if unknown := sorted(set(chosen) - set(BENCHMARKS)):
        parser.error(f"no such benchmark: {', '.join(unknown)}")
    facts = machine()
    measured: list[Figure] = []
    for name in chosen:
        try:
            for figure in BENCHMARKS[name]():
                print(f"{figure.benchmark}: {figure.what}: {figure.number} {figure.unit}", file=sys.stderr, flush=True)
                measured.append(figure)
        except EnvironmentLacks as lack:
            print(f"{name} is left out: {lack}", file=sys.stderr)
    print_table(measured, facts)


if __name__ == "__main__":
    main()
