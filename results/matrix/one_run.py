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
from collections.abc import Callable
from pathlib import Path
from typing import Final

import orjson

from schemaquake.harness.atomic import write_bytes
from schemaquake.harness.console import configure_logging
from schemaquake.harness.errors import NotApplicable, SchemaquakeError
from schemaquake.harness.model.plan import Plan
from schemaquake.results.matrix.facts import JUDGE_LIMIT_S, facts_of, refused
from schemaquake.results.runs.execution import carry_out
from schemaquake.results.runs.placeless_facts import StoredFacts, without_folder

__all__ = ["answer", "main"]

_DIE_WITH_PARENT: Final = 1  # PR_SET_PDEATHSIG


def main() -> int:
    """Carry out the plan, judge the run, and write its facts."""
    return answer(facts_of, refused, limit_s=JUDGE_LIMIT_S)


def answer(extract: Callable[..., StoredFacts], refuse: Callable[..., StoredFacts], *, limit_s: float) -> int:
    """Carry out the plan that the command line names, and write what `extract` finds in the judged run.

    `refuse` makes the facts of a run that could not begin. `limit_s` is the time of each checker. Returns the exit code.
    """
    plan_file, runs, place = map(Path, sys.argv[1:4])
    _die_with(os.getppid())
    configure_logging()
    plan = Plan.from_json(orjson.loads(plan_file.read_bytes()))
    began = time.monotonic()
    try:
        # Starting Spark takes longer than judging one small run.
        finished = carry_out(plan, runs, engine="local", limit_s=limit_s)
    except SchemaquakeError as error:
        applicable = not isinstance(error, NotApplicable)
        facts = refuse(str(error), applicable=applicable, seconds=time.monotonic() - began)
    else:
        folder = f"{runs.name}/{finished.store.folder.name}"
        facts = extract(finished, folder=folder, seconds=time.monotonic() - began)
    write_bytes(place, orjson.dumps(without_folder(facts, runs.parent).to_json()))
    return 0


def _die_with(parent: int) -> None:
    """Ask the kernel to signal this process when its matrix or grid dies, so that it heals and tears down as after Ctrl-C."""
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
