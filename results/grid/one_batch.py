"""One batch of a grid, in a process of its own: `python -m schemaquake.results.grid.one_batch PLAN RUNS ANSWER`.

The arguments, the exit code and the end are those of `schemaquake.results.matrix.one_run`.
"""

from __future__ import annotations

import sys

from schemaquake.results.grid.facts import facts_of, refused
from schemaquake.results.grid.judging_again import JUDGE_LIMIT_S
from schemaquake.results.matrix.one_run import answer

__all__ = ["main"]


def main() -> int:
    """Carry out the batch's plan, judge the run, and write its facts."""
    return answer(facts_of, refused, limit_s=JUDGE_LIMIT_S)


if __name__ == "__main__":
    sys.exit(main())
