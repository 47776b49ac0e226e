"""Sweeps over the single facts of a recorded run: each is falsified once, in one place, and the run judged.

    python tests/support/fact_sweep.py cassandra-6.0-alpha2 --first 500 --state facts.json --processes 2

The order of facts and the place of each are those of the long test (`soundness_page.every_fact`). With `--spread` the order is
that of a sample: first one fact of each class, then a second one of each, so that a sweep that ends early has met them all;
`--classes 'disk ring*'` leaves out other classes. With `--state` a file keeps how far it came after every batch: the same command goes on from there, however it ended. Exits with 1 if a fact slipped through.
"""

from __future__ import annotations

import gc
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache, partial
from operator import itemgetter
from random import Random

from lies import Lie
from soundness import RUNS, Judge
from soundness_page import entry, every_fact, verdict_on
from sweeping import add_state, prepare, read_state, sweep_parser, write_state

__all__ = ["fact_verdicts"]

BATCH = 25


@dataclass(frozen=True)
class _State:
    """How far a sweep came: the next fact, the verdicts on those before it, and what slipped."""

    following: int
    verdicts: Mapping[str, int] = field(default_factory=dict)
    slipped: Sequence[str] = ()


@cache
def _facts(name: str, classes: str, *, spread: bool) -> Sequence[Sequence[Lie]]:
    """The facts of a run in the order of the sweep."""
    facts = [places for places in every_fact(name) if fnmatchcase(places[0].kind, classes)]
    met = Counter[str]()
    ranks = []
    for places in Random(f"spread {name}").sample(facts, len(facts)) if spread else facts:
        ranks.append((met[places[0].kind], places[0].kind, places[0].text, places))
        met[places[0].kind] += 1
    return [places for *_, places in (sorted(ranks, key=itemgetter(0, 1, 2)) if spread else ranks)]


_judge = cache(lambda _name: Judge())


def fact_verdicts(numbers: range, *, name: str, classes: str, spread: bool) -> Sequence[tuple[str, str]]:
    """The verdict on each of these facts of a run, as (column of the score, the lie)."""
    found = []
    for places in _facts(name, classes, spread=spread)[numbers.start : numbers.stop]:
        lie, column = _first_told(places, name)
        if column == "slipped" and entry("known-to-slip", lie, name) is not None:
            column = "known to slip"
        found.append((column, f"{lie.kind} ({lie.place}): {lie.text}"))
    gc.collect()
    return found


def _first_told(places: Sequence[Lie], name: str) -> tuple[Lie, str]:
    for lie in places:
        column = verdict_on(lie, name, _judge(name))
        if column is not None:
            return lie, column
    return places[0], "cannot be told"


def main() -> int:
    parser = sweep_parser(__doc__, first=0, count=1_000_000)
    parser.add_argument("run", choices=RUNS)
    parser.add_argument("--classes", default="*", help="a pattern: facts of other classes are left out")
    parser.add_argument("--spread", action="store_true", help="one fact of each class, then a second one, and so on")
    add_state(parser, found="slipped")
    options = parser.parse_args()
    state = read_state(options.state, _State(following=options.first))
    total = len(_facts(options.run, options.classes, spread=options.spread))
    until = min(total, options.first + options.count)
    ends = time.monotonic() + options.limit_s
    judged = partial(fact_verdicts, name=options.run, classes=options.classes, spread=options.spread)
    with ProcessPoolExecutor(options.processes, initializer=prepare) as pool:
        while state.following < until and time.monotonic() < ends:
            left = range(state.following, min(state.following + BATCH * options.processes, until))
            batches = [left[at : at + BATCH] for at in range(0, len(left), BATCH)]
            found = [one for some in pool.map(judged, batches) for one in some]
            state = _State(
                following=left.stop,
                verdicts=dict(Counter(state.verdicts) + Counter(column for column, _ in found)),
                slipped=[*state.slipped, *(text for column, text in found if column == "slipped")],
            )
            write_state(options.state, state)
            sys.stderr.write(f"\r{options.run}: {state.following} of {total} facts, {len(state.slipped)} slipped")
    counts = ", ".join(f"{count} {column}" for column, count in sorted(state.verdicts.items()))
    sys.stdout.write("\n".join(["", *state.slipped, ""]))
    sys.stdout.write(
        f"{options.run}: facts {options.first} to {state.following - 1} of {total}: {counts or 'none'}; "
        f"go on with --first {state.following}\n"
    )
    return 1 if state.slipped else 0


if __name__ == "__main__":
    sys.exit(main())
