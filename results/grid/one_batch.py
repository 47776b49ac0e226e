"""One batch of a grid, in a process of its own: `python -m schemaquake.results.grid.one_batch PLAN RUNS ANSWER`.

The arguments, the exit code and the end are those of `schemaquake.results.matrix.one_run`.
"""

from __future__ import annotations

import sys
from typing import Final

from schemaquake.results.grid.facts import facts_of, refused
from schemaquake.results.matrix.one_run import answer

__all__ = ["main"]

_JUDGE_LIMIT_S: Final = 180.0


def main() -> int:
    """Carry out the batch's plan, judge the run, and write its facts."""
    return answer(facts_of, refused, limit_s=_JUDGE_LIMIT_S)


if __name__ == "__main__":
    sys.exit(main())
