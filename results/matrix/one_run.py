"""One run of a matrix, in a process of its own: `python -m schemaquake.results.matrix.one_run PLAN RUNS ANSWER`.

PLAN is a file with a plan, RUNS the folder in which the run's folder is created, ANSWER the file to which the facts are
written. Judging overlaps with the boot of the next cluster. The process ends when its matrix ends. The exit code is 0 if an
answer was written.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from pathlib import Path
from typing import Final

import orjson

from schemaquake.harness.console import configure_logging
from schemaquake.harness.errors import NotApplicable, SchemaquakeError
from schemaquake.harness.model.plan import Plan
from schemaquake.results.matrix.facts import JUDGE_LIMIT_S, RunFacts, facts_of, refused
from schemaquake.results.runs.execution import carry_out
from schemaquake.results.store.atomic import write_bytes

__all__ = ["die_with", "main"]

_DIE_WITH_PARENT: Final = 1  # PR_SET_PDEATHSIG


def main() -> int:
    """Carry out the plan, judge the run, and write its facts."""
    plan_file, runs, answer = map(Path, sys.argv[1:4])
    die_with(os.getppid())
    configure_logging()
    facts = _facts(Plan.from_json(orjson.loads(plan_file.read_bytes())), runs)
    write_bytes(answer, orjson.dumps(facts.to_json()))
    return 0


def _facts(plan: Plan, runs: Path) -> RunFacts:
    began = time.monotonic()
    try:
        # Starting Spark takes longer than judging one small run.
        finished = carry_out(plan, runs, engine="local", limit_s=JUDGE_LIMIT_S)
    except SchemaquakeError as error:
        applicable = not isinstance(error, NotApplicable)
        return refused(str(error), applicable=applicable, seconds=time.monotonic() - began)
    folder = f"{runs.name}/{finished.store.folder.name}"
    return facts_of(finished, folder=folder, seconds=time.monotonic() - began)


def die_with(parent: int) -> None:
    """Ask the kernel to signal this process when the matrix dies, so that it heals and tears down as after Ctrl-C."""
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
