"""A shrunk run: from a failing run's folder to the smallest scenario with the same anomaly, and its files."""

from __future__ import annotations

import stat
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final

import orjson
from rich.console import Console

from schemaquake.harness.atomic import write_bytes
from schemaquake.results.shrink.candidate import Candidate, statements_of
from schemaquake.results.shrink.failing_run import FailingRun, failing_run
from schemaquake.results.shrink.reproduction import reproduction
from schemaquake.results.shrink.shrinking import Oracle, Shrinking, Shrunk
from schemaquake.results.shrink.trying import Trying, scenario_of
from schemaquake.results.store.store import Store
from schemaquake.results.wording import counted
from schemaquake.workloads.races.options import racing_options

__all__ = ["SHRUNK_FOLDER", "ShrunkRun", "print_shrunk", "shrunk_run", "write_shrunk"]

SHRUNK_FOLDER: Final = "shrunk"
_ONE: Final = {
    "races": "race",
    "statements": "statement",
    "kinds of row": "kind of row",
    "nodes": "node",
    "faults": "fault",
}
"""The parts of a scenario, one of each."""


@dataclass(frozen=True, slots=True)
class ShrunkRun:
    """The result of shrinking a run; `shrunk` is None if the anomaly did not show again often enough."""

    failing: FailingRun
    folder: Path
    shrunk: Shrunk | None
    spent: bool = False
    """True if the time budget ended first."""
    document: dict[str, object] = field(default_factory=dict)


def shrunk_run(
    run: Path,
    anomaly: str | None,
    *,
    tries: int,
    rate: float,
    ends: float | None,
    oracle: Callable[[FailingRun, Path], Oracle] | None = None,
) -> ShrunkRun:
    """Shrink, until `ends` (of time.monotonic) at most, and write scenario.json, reproduce.sh and shrunk.json.

    `oracle` makes another oracle than `Trying`, of the failing run and the folder of its candidates.
    """
    failing = failing_run(Store(run), anomaly)
    folder = run.resolve() / SHRUNK_FOLDER
    folder.mkdir(exist_ok=True)
    asked = oracle or partial(Trying, tries=tries, rate=rate, ends=ends)
    search = Shrinking(asked(failing, folder), rate=rate)
    shrunk = search.shrink(_start(failing), likely=_likely(failing))
    if shrunk is None:
        return ShrunkRun(failing, folder, None, search.spent)
    return ShrunkRun(failing, folder, shrunk, search.spent, write_shrunk(folder, failing, shrunk, tries=tries))


def _start(failing: FailingRun) -> Candidate:
    plan = failing.plan
    mode = racing_options(plan.options).mode
    return Candidate(races=failing.races, nemeses=plan.nemeses, mode=mode, nodes=plan.nodes, restart=plan.restart)


def _likely(failing: FailingRun) -> list[Candidate]:
    """Return the races that may be enough."""
    return [replace(_start(failing), races=races) for races in failing.guesses]


def write_shrunk(folder: Path, failing: FailingRun, shrunk: Shrunk, *, tries: int) -> dict[str, object]:
    """Write scenario.json, reproduce.sh and shrunk.json, and return the content of the last one."""
    scenario = scenario_of(shrunk.candidate)
    write_bytes(folder / "scenario.json", orjson.dumps(scenario.to_json(), option=orjson.OPT_INDENT_2) + b"\n")
    script = folder / "reproduce.sh"
    write_bytes(script, reproduction(failing, shrunk, tries=tries).encode())
    script.chmod(script.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    document: dict[str, object] = {
        "anomaly": failing.anomaly,
        "broken": shrunk.measured.broken,
        "tried": shrunk.measured.tried,
        "minimal": shrunk.minimal,
        "candidates": shrunk.asked,
        "size": shrunk.candidate.size(),
        "folder": str(folder),
        "scenario": scenario.to_json(),
    }
    write_bytes(folder / "shrunk.json", orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n")
    return document


def print_shrunk(console: Console, found: ShrunkRun, *, statements: bool = True) -> None:
    """Print how often it showed, and the remaining statements, unless they were printed before."""
    shrunk, failing = found.shrunk, found.failing
    assert shrunk is not None
    how = "nothing more can be left out" if shrunk.minimal else "the time budget ended first"
    size = ", ".join(counted(count, _ONE[part], part) for part, count in shrunk.candidate.size().items() if count)
    console.print(f"{failing.title} ({failing.anomaly})", markup=False, style="bold")
    console.print(f"shows in {shrunk.measured.broken} of {shrunk.measured.tried} tries; {size}; {how}", markup=False)
    for race in shrunk.candidate.races if statements else ():
        before, sides = statements_of(race)
        console.print(f"\n-- before, in keyspace {race.keyspace}", style="dim", markup=False)
        for text in before:
            console.print(f"{text};", markup=False)
        for number, side in enumerate(sides, 1):
            console.print(f"-- coordinator {number}", style="dim", markup=False)
            for text in side:
                console.print(f"{text};", markup=False)
    console.print(f"\n{found.folder / 'reproduce.sh'}", markup=False)
