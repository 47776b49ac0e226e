"""Sweeps over lying clusters: seeds of runs with faults, in each of which some changes are falsified, and the run judged.

    python tests/support/lying_sweep.py --first 100 --count 50 --plants 6 --limit-s 600

A lie that no order of the changes explains must not end `valid`, and what is within an unknown outcome not `invalid`: such runs are
printed with their seed, system and plant, and the exit code is 1. Runs that end `invalid` though the last schema is lawful are
counted apart: what nodes showed and answered on the way may contradict them.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lying_clusters import LAWFUL, Plant, drawn_plan, plants_of, told
from sweeping import in_time, prepare, sweep_parser

from schemaquake.harness.model.verdict import Validity
from schemaquake.results.judging.judge import judge

__all__ = ["SYSTEMS", "Judged", "judged"]

SYSTEMS = ("simulated:cassandra-5.0", "simulated:cassandra-6.0", "simulated:scylladb-6.2")


@dataclass(frozen=True)
class Judged:
    """One run on a lying cluster, and the verdict on it; `plant` None: on a cluster that does not lie."""

    seed: int
    system: str
    plant: Plant | None
    lawful: bool | None
    valid: Validity
    anomalies: Sequence[str]
    about: str

    @property
    def wrong(self) -> str | None:
        """What is wrong with the verdict, if that is certain."""
        if self.valid is True and self.lawful is False:
            return "slipped"
        if self.valid is False and (self.plant is None or self.plant.kind in LAWFUL):
            return "accused"
        if self.lawful is False and (self.plant is None or self.plant.kind in LAWFUL):
            return "model"  # the model of this test and the simulated cluster differ
        return None


def judged(seed: int, system: str, plants: int) -> Iterator[Judged]:
    """Judge a run, and the same run with so many lies; no lies about a run that is not valid without."""
    plan = drawn_plan(seed, system)
    clean = told(plan)
    verdict = judge(clean.records, engine="local")
    yield Judged(seed, system, None, clean.lawful, verdict.valid, [a.type for a in verdict.anomalies], "")
    if verdict.valid is not True:
        return
    for plant in plants_of(clean.asked, seed, plants):
        lie = told(plan, plant)
        if plant.number >= len(lie.asked):
            continue  # with other outcomes before it, that change was never asked for
        verdict = judge(lie.records, engine="local")
        change = lie.asked[plant.number]
        about = f"{change.f} {dict(change.value)} through {change.node}"
        yield Judged(seed, system, plant, lie.lawful, verdict.valid, [a.type for a in verdict.anomalies], about)


def main() -> int:
    parser = sweep_parser(__doc__, first=1, count=20)
    parser.add_argument("--plants", type=int, default=6, help="lies a run")
    parser.add_argument("--system", action="append", choices=SYSTEMS)
    options = parser.parse_args()
    prepare()
    counts = Counter[str]()
    wrong = 0
    following = options.first
    for seed in in_time(range(options.first, options.first + options.count), options.limit_s):
        for system in options.system or SYSTEMS:
            for one in judged(seed, system, options.plants):
                kind = "no lie" if one.plant is None else one.plant.kind
                counts[
                    f"{kind}, {'lawful' if one.lawful else 'unlawful' if one.lawful is False else 'not decided'}: {one.valid}"
                ] += 1
                if one.wrong is not None:
                    wrong += 1
                    sys.stdout.write(f"{one}\n")
        following = seed + 1
        sys.stderr.write(f"\r{following - options.first} seeds, {sum(counts.values())} runs, {wrong} wrong")
    sys.stdout.write("\n" + "\n".join(f"{count:5} {name}" for name, count in sorted(counts.items())))
    sys.stdout.write(f"\n{sum(counts.values())} runs, {wrong} wrong; go on with --first {following}\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
