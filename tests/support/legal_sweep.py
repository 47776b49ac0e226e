"""Sweeps over the seeds of legal runs: which are accused, of what, and by which of their operations.

    python tests/support/legal_sweep.py --first 250000 --count 100000 --limit-s 600 --state sweep.json

prints how far it came, and with `--state` keeps that in a file after every batch: the same command goes on from there, however it ended.
Exits with 1 if a run was accused.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from legal_runs import legal_run
from sweeping import add_state, prepare, read_state, sweep_parser, write_state

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.harness.model.records import Records
from schemaquake.harness.model.verdict import Verdict
from schemaquake.harness.registry import load

__all__ = ["CHECKERS", "accusations", "accused", "sweep"]

CHECKERS = (
    *("schema-linearizability", "acked-rows", "writability", "divergence", "table-ids", "alterations", "references"),
    *("objects", "merged-definitions", "definitions", "defaults", "change-log", "visibility", "sightings", "restart"),
    *("availability", "faults", "observed"),
)
"""The checkers that legal runs have work for."""
BATCH = 100


@dataclass(frozen=True)
class _State:
    """How far a sweep came: the next seed, and what was accused before it."""

    following: int
    accused: Sequence[str] = ()


@cache
def _checkers() -> tuple[Any, ...]:
    return tuple(load("checkers", name) for name in CHECKERS)


def accusations(records: Records) -> list[tuple[str, str]]:
    """Every (anomaly or crash, explanation) of these records."""
    verdicts: list[Verdict] = [checker.check(records, limit_s=60) for checker in _checkers()]
    found = [(anomaly.type, anomaly.explanation) for verdict in verdicts for anomaly in verdict.anomalies]
    return found + [(v.checker, d.text) for v in verdicts for d in v.doubts if d.kind in {"crashed", "time", "memory"}]


def accused(seed: int, *, rich: bool = False) -> str | None:
    """What a legal run is accused of, and by which of its operations; None: nothing."""
    found = accusations(legal_run(seed, rich=rich))
    if not found:
        return None
    kind = found[0][0]
    without: frozenset[int] = frozenset()
    for number in range(50):
        fewer = without | {number}
        again = [one for one in accusations(legal_run(seed, without=fewer, rich=rich)) if one[0] == kind]
        if again:
            without, found = fewer, again
    lines = [
        f"op {change.index}: {change.text()}"
        for change in Evidence.of(legal_run(seed, without=without, rich=rich)).changes.all
    ]
    return "\n".join([f"{'rich ' * rich}seed {seed} without {sorted(without)}: {kind}", found[0][1], *lines])


def _accused_of(seeds: range, *, rich: bool = False) -> list[str]:
    """What those of these seeds are accused of that are accused."""
    found = [text for seed in seeds if (text := accused(seed, rich=rich)) is not None]
    gc.collect()
    return found


def sweep(
    seeds: range,
    *,
    processes: int,
    limit_s: float = float("inf"),
    note: Callable[[int, int], None] = lambda *_: None,
    keep: Callable[[int, Sequence[str]], None] = lambda *_: None,
    rich: bool = False,
) -> tuple[int, list[str]]:
    """The first seed that was not tried when the time was over, and the accusations.

    Calls `note(next seed, number accused)` and `keep(next seed, accusations)` after every batch.
    """
    ends = time.monotonic() + limit_s
    following, texts = seeds.start, list[str]()
    with ExitStack() as stack:
        # One process is this one: a seed that fails can be looked at in a debugger.
        each = map if processes == 1 else stack.enter_context(ProcessPoolExecutor(processes, initializer=prepare)).map
        while following < seeds.stop and time.monotonic() < ends:
            left = range(following, min(following + BATCH * processes, seeds.stop))
            batches = [left[at : at + BATCH] for at in range(0, len(left), BATCH)]
            texts += [text for found in each(partial(_accused_of, rich=rich), batches) for text in found]
            following = left.stop
            note(following, len(texts))
            keep(following, texts)
    return following, texts


def main() -> int:
    parser = sweep_parser(__doc__, first=0, count=20_000)
    add_state(parser, found="was accused")
    parser.add_argument("--rich", action="store_true", help="the seeds of the richer generator")
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.count)
    before = read_state(options.state, _State(following=seeds.start))
    began = time.monotonic()

    def note(following: int, accused: int) -> None:
        sys.stderr.write(
            f"\rlegal runs: {following - seeds.start} of {len(seeds)}, {len(before.accused) + accused} accused"
        )

    def keep(following: int, texts: Sequence[str]) -> None:
        write_state(options.state, _State(following=following, accused=[*before.accused, *texts]))

    if options.processes == 1:
        prepare()
    following, texts = sweep(
        range(before.following, seeds.stop),
        processes=options.processes,
        limit_s=options.limit_s,
        note=note,
        keep=keep,
        rich=options.rich,
    )
    tried, elapsed = following - before.following, time.monotonic() - began
    everything = [*before.accused, *texts]
    sys.stdout.write("\n\n".join(["", *everything, ""]))
    sys.stdout.write(
        f"{'rich ' * options.rich}legal runs {seeds.start} to {following - 1}: {following - seeds.start} tried, "
        f"{len(everything)} accused ({tried} now, {tried / max(elapsed, 0.001):.1f} a second); go on with --first {following}\n"
    )
    return 1 if everything else 0


if __name__ == "__main__":
    sys.exit(main())
