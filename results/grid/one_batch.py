"""One batch of a grid, in a process of its own: `python -m schemaquake.results.grid.one_batch PLAN RUNS ANSWER`.

PLAN is a file with a plan, RUNS the folder in which the run's folder is created, ANSWER the file to which the facts are
written. The process ends when its grid ends. The exit code is 0 if an answer was written.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import orjson

from schemaquake.harness.console import configure_logging
from schemaquake.harness.errors import NotApplicable, SchemaquakeError
from schemaquake.harness.model.plan import Plan
from schemaquake.results.grid.facts import BatchFacts, facts_of, refused
from schemaquake.results.matrix.one_run import die_with
from schemaquake.results.runs.execution import carry_out
from schemaquake.results.store.atomic import write_bytes

__all__ = ["main"]

_JUDGE_LIMIT_S = 180.0


def main() -> int:
    """Carry out the plan, judge the run, and write its facts."""
    plan_file, runs, answer = map(Path, sys.argv[1:4])
    die_with(os.getppid())
    configure_logging()
    facts = _facts(Plan.from_json(orjson.loads(plan_file.read_bytes())), runs)
    write_bytes(answer, orjson.dumps(facts.to_json()))
    return 0


def _facts(plan: Plan, runs: Path) -> BatchFacts:
    began = time.monotonic()
    try:
        finished = carry_out(plan, runs, engine="local", limit_s=_JUDGE_LIMIT_S)
    except SchemaquakeError as error:
        applicable = not isinstance(error, NotApplicable)
        return refused(str(error), applicable=applicable, seconds=time.monotonic() - began)
    folder = f"{runs.name}/{finished.store.folder.name}"
    return facts_of(finished, folder=folder, seconds=time.monotonic() - began)


if __name__ == "__main__":
    sys.exit(main())
