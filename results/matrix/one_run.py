"""One run of a matrix, in a process of its own: `python -m schemaquake.results.matrix.one_run PLAN RUNS ANSWER`.

PLAN is a file with a plan, RUNS the folder that takes the run's, ANSWER the file that takes its facts. It judges while
the next cluster boots, and dies with its matrix. Exit code 0 whenever there is an answer.
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

__all__ = ["main"]

_DIE_WITH_PARENT: Final = 1  # PR_SET_PDEATHSIG


def main() -> int:
    """Carry the plan out, judge it, and leave its facts."""
    plan_file, runs, answer = map(Path, sys.argv[1:4])
    _die_with(os.getppid())
    configure_logging()
    facts = _facts(Plan.from_json(orjson.loads(plan_file.read_bytes())), runs)
    write_bytes(answer, orjson.dumps(facts.to_json()))
    return 0


def _facts(plan: Plan, runs: Path) -> RunFacts:
    began = time.monotonic()
    try:
        # Spark takes longer to start than one small run takes to judge.
        finished = carry_out(plan, runs, engine="local", limit_s=JUDGE_LIMIT_S)
    except SchemaquakeError as error:
        applicable = not isinstance(error, NotApplicable)
        return refused(str(error), applicable=applicable, seconds=time.monotonic() - began)
    folder = f"{runs.name}/{finished.store.folder.name}"
    return facts_of(finished, folder=folder, seconds=time.monotonic() - began)


def _die_with(parent: int) -> None:
    """If the matrix is killed, this process is told to end, and heals and tears down as after Ctrl-C."""
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
