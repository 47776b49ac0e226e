"""Reproduction: the script that runs the smallest scenario again, from the scenario file beside it."""

from __future__ import annotations

import shlex
from pathlib import Path

from schemaquake.results.report.reproduce import one_option_per_line, script
from schemaquake.results.shrink.candidate import statements_of
from schemaquake.results.shrink.failing_run import FailingRun
from schemaquake.results.shrink.shrinking import Shrunk
from schemaquake.results.shrink.trying import plan_of

__all__ = ["reproduction"]

_PLACE = "SCENARIO-FILE"


def reproduction(failing: FailingRun, shrunk: Shrunk, *, tries: int) -> str:
    """Return a POSIX shell script beside scenario.json. Its exit code is that of `schemaquake run`: 1 if anything breaks."""
    plan = plan_of(failing.plan, shrunk.candidate, Path(_PLACE), repeats=1 if failing.of_the_run else tries)
    command = one_option_per_line(map(_quote, plan.command_line()))
    beside = """here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)"""
    return script(_describe(failing, shrunk), version=plan.schemaquake_version, commands=f"{beside}\nexec {command}")


def _describe(failing: FailingRun, shrunk: Shrunk) -> list[str]:
    how_often = f"It showed in {shrunk.measured.broken} of {shrunk.measured.tried} tries"
    lines = [
        f"{failing.title} ({failing.anomaly}) on {failing.plan.system}.",
        f"{how_often}; the outcome of the same statements may differ from run to run.",
    ]
    for race in shrunk.candidate.races:
        before, sides = statements_of(race)
        lines += ["", "Before:", *(f"  {text};" for text in before)]
        for number, side in enumerate(sides, 1):
            lines += [f"Through coordinator {number}:", *(f"  {text};" for text in side)]
    return lines


def _quote(word: str) -> str:
    """Quote a word for a shell; the scenario's file is the one beside the script."""
    if word == f"scenario={_PLACE}":
        return '"scenario=$here/scenario.json"'
    return shlex.quote(word)
