"""Sweeps over pairs of lies: a run with a fault on a simulated cluster, two facts of its records falsified at once, and the run judged.

    python tests/support/pair_sweep.py --first 1 --count 50 --pairs 10 --limit-s 600

The seed draws the run, two classes of lies, and a fact of each. The second fact is falsified in the records that have the first lie; pairs that cannot be told together are left out. The
run must not end `valid`, unless each lie may stay so (its class is in `classes.toml`, or in `BESIDE_FAULTS` here, or nothing in the records shows what it is about), or the two lies tell one lawful story: they
are about answers of schema changes alone, and an order of the changes as they are then recorded leads to what the nodes have
(`lying_clusters.is_lawful`, which shares nothing with the checkers). Such pairs are printed with the verdict on each lie alone, and the exit code is 1.
"""

from __future__ import annotations

import re
import sys
from ast import literal_eval
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from random import Random

import orjson
from lies import CleanRun, Lie, NotThereError
from lying_clusters import Told, drawn_plan, is_lawful, told
from soundness_page import entry
from sweeping import in_time, prepare, sweep_parser

from schemaquake.harness.ddl.schema_changes import SCHEMA_CHANGES
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.model.records import Records
from schemaquake.results.judging.judge import judge

__all__ = ["BESIDE_FAULTS", "SYSTEMS", "Pair", "judged_pairs", "may_stay_valid"]

SYSTEMS: Mapping[str, str] = {
    "simulated:cassandra-5.0": "cassandra-5.0.9",
    "simulated:cassandra-6.0": "cassandra-6.0-alpha2",
    "simulated:scylladb-6.2": "cassandra-6.0-alpha2",
}
"""System → the recorded run whose list of classes is that of its records."""
_FAULTS = ("kill", "partition", "pause", "clock")
_OF_CHANGES = ("ack was a refusal: ", "refusal was an ack: ", "operation gone: ", "question and answer ")
"""Beginnings of classes of lies about a schema change as it was asked and answered."""
_TRIES = 20
_OF_AN_EVENT = re.compile(r"(?:op|note) (?P<index>\d+) [^(]*(?P<path>\(.*\))?")
_OF_CLOCKS = ("*.nodes.*.after changed",)
"""What is within the tolerance of a clock."""
_OF_STROBES = ("*.toggles *", "*.broke_off *", "*.nodes.*.before *", *_OF_CLOCKS)
"""What may be anything while clocks are switched to and fro."""

BESIDE_FAULTS: Mapping[str, Sequence[str]] = {
    "Changes of group 0 are told by their ids and times, in whatever order they are recorded, as the epochs of 6.0 are.": (
        "disk log: changes.… out of order",
    ),
    "A note of a meeting tells a reader of the report which statements met; no verdict follows from it.": (
        *("note meeting: *", "note gone: meeting", "note meetings-planned: *", "note gone: meetings-planned"),
    ),
    "The nemesis itself writes these keys: one more, or one less that is null, says nothing of the fault.": (
        *("note fault-ends: effect.toggles gone", "note fault-ends: effect.broke_off gone"),
        *("note fault-*: effect.… nobody asked", "note fault-*: effect.nodes.*.… nobody asked"),
        "note fault-*: effect.nodes.*.*.… nobody asked",
    ),
    "The texts of rules that drop packets, and how many bytes they dropped, are told to a reader.": (
        *("note fault-*: effect.nodes.*.rules.*", "note fault-*: effect.nodes.*.*.rules.*"),
        *("note fault-*: effect.nodes.*.cuts *", "note fault-*: effect.nodes.*.*.bytes *"),
    ),
    "How long a node took to stop, start or wait for a barrier is told to a reader.": (
        *("note fault-ends: effect.nodes.[*].seconds *", "disk version: barrier.seconds *"),
    ),
    "Why a fault or an operation was skipped is told to a reader.": (
        *("note fault-skipped: reason *", "note operation-skipped: reason *"),
    ),
    "Which faults are planned is said by their ids, in whatever order.": ("note faults-planned: ids.… out of order",),
}
"""Reason → classes that may stay valid beside a fault, and that none of the recorded runs has."""


@dataclass(frozen=True)
class Pair:
    """A run with two lies (class, place and fact of each), and the verdict on it: invalid, unknown, may stay valid, lawful, slipped.

    `alone` has the verdict on each lie alone, of a pair that slipped.
    """

    seed: int
    system: str
    lies: Sequence[str]
    verdict: str
    alone: Sequence[object] = ()


def judged_pairs(seed: int, system: str, count: int) -> Iterator[Pair]:
    """Judge so many pairs of lies about a run with faults; none about a run that is not valid without."""
    clean = told(_with_fault(drawn_plan(seed, system), seed))
    if judge(clean.records, engine="local").valid is not True:
        return
    by_class: dict[str, list[Lie]] = {}
    for lie in CleanRun(clean.records).facts():
        by_class.setdefault(lie.kind, []).append(lie)
    draw = Random(f"pairs {seed} {system}")
    for _ in range(count):
        pair = _drawn(by_class, clean.records, draw)
        if pair is not None:
            yield _judged(seed, system, clean, *pair)


def _with_fault(plan: Plan, seed: int) -> Plan:
    """Return the plan, with a fault if it has none."""
    return plan if plan.nemeses else replace(plan, nemeses=(Random(f"fault {seed}").choice(_FAULTS),))


def _drawn(by_class: Mapping[str, Sequence[Lie]], clean: Records, draw: Random) -> tuple[Lie, Lie, Records] | None:
    """Return two lies of two classes, and the records with both; None: none of those that were drawn can be told together."""
    for _ in range(_TRIES):
        first, second = (draw.choice(by_class[kind]) for kind in draw.sample(sorted(by_class), 2))
        for one, other in ((first, second), (second, first)):
            records = _told_together(one, other, clean)
            if records is not None:
                return one, other, records
    return None


def _told_together(first: Lie, second: Lie, clean: Records) -> Records | None:
    """Return the records with both lies; None if the second one is about what the first one took away, or made unreadable."""
    try:
        records, other = first.tell(), second.tell()
        tables = ("history", "observations", "logs")
        changed = [{name for name in tables if getattr(one, name) != getattr(clean, name)} for one in (records, other)]
        if changed[0].isdisjoint(changed[1]):
            return Records.of(*(getattr(other if name in changed[1] else records, name) for name in tables))
        facts = CleanRun(records).facts()
        wanted = (second.kind, second.place, second.text)
        return next(lie for lie in facts if (lie.kind, lie.place, lie.text) == wanted).tell()
    except (NotThereError, StopIteration, KeyError, TypeError, AttributeError, IndexError):
        return None


def _judged(seed: int, system: str, clean: Told, first: Lie, second: Lie, records: Records) -> Pair:
    lies = [f"{lie.kind} ({lie.place}): {lie.text}" for lie in (first, second)]
    valid = judge(records, engine="local").valid
    if valid is not True:
        return Pair(seed, system, lies, "invalid" if valid is False else "unknown")
    if all(may_stay_valid(lie, system) or _is_unseen(lie, clean.records) for lie in (first, second)):
        return Pair(seed, system, lies, "may stay valid")
    if _is_of_changes(first) and _is_of_changes(second) and _leads_to_the_end(records, clean) is not False:
        return Pair(seed, system, lies, "lawful")
    return Pair(seed, system, lies, "slipped", [judge(lie.tell(), engine="local").valid for lie in (first, second)])


def may_stay_valid(lie: Lie, system: str) -> bool:
    """Tell if a lie alone may stay valid, in a run without faults or beside one."""
    beside = (pattern for patterns in BESIDE_FAULTS.values() for pattern in patterns)
    return entry("may-stay-valid", lie, SYSTEMS[system]) is not None or any(
        fnmatchcase(lie.kind, pattern) for pattern in beside
    )


def _is_unseen(lie: Lie, records: Records) -> bool:
    """Tell if nothing in the records shows what a lie is about: cells that no later read shows, rows that none lists, and clocks while they are switched to and fro."""
    found = _OF_AN_EVENT.fullmatch(lie.text)
    if found is None:
        return False
    history = records.history.to_pylist()
    event = next(event for event in history if event["index"] == int(found["index"]))
    if lie.kind.startswith("note fault-ends: effect."):
        fault = orjson.loads(event["value"])
        kind = (fault.get("parameters") or {}).get("kind") if fault.get("nemesis") == "clock" else None
        loose = {None: (), "strobe": _OF_STROBES}.get(kind, _OF_CLOCKS)
        return any(fnmatchcase(lie.kind, pattern) for pattern in loose)
    path = literal_eval(found["path"] or "()")
    is_gone = lie.kind.startswith("operation gone: insert")
    if not is_gone and (not lie.kind.startswith("question and answer insert: row.") or len(path) < 2):
        return False
    asked_at = max(one["time"] for one in history if one["process"] == event["process"] and one["time"] < event["time"])
    reads = (one for one in history if one["f"] == "read-rows" and one["type"] == "ok" and one["key"] == event["key"])
    return not any(
        is_gone or path[1] in row
        for read in reads
        if read["time"] > asked_at
        for row in orjson.loads(read["value"])["rows"]
    )


def _is_of_changes(lie: Lie) -> bool:
    """Tell if a lie is about a schema change as it was asked and answered."""
    named = {word.rstrip(":") for word in lie.kind.split()}
    return lie.kind.startswith(_OF_CHANGES) and not named.isdisjoint(SCHEMA_CHANGES)


def _leads_to_the_end(records: Records, clean: Told) -> bool | None:
    """Tell if an order of the changes, as they are recorded, leads to what the nodes have; None: not decided."""
    labels = dict.fromkeys(label for label, _ in clean.finals)
    ends = [next(memory for (phase, _), (memory, _) in clean.finals.items() if phase == label) for label in labels]
    return is_lawful(records, ends)


def main() -> int:
    parser = sweep_parser(__doc__, first=1, count=20)
    parser.add_argument("--pairs", type=int, default=10, help="pairs of lies a run")
    parser.add_argument("--system", action="append", choices=sorted(SYSTEMS))
    options = parser.parse_args()
    prepare()
    counts = Counter[str]()
    following = options.first
    for seed in in_time(range(options.first, options.first + options.count), options.limit_s):
        for system in options.system or SYSTEMS:
            for pair in judged_pairs(seed, system, options.pairs):
                counts[pair.verdict] += 1
                if pair.verdict == "slipped":
                    sys.stdout.write(f"{pair}\n")
                    sys.stdout.flush()
        following = seed + 1
        sys.stderr.write(f"\r{following - options.first} seeds, {counts.total()} pairs, {counts['slipped']} slipped")
    found = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
    sys.stdout.write(f"\n{counts.total()} pairs: {found or 'none'}; go on with --first {following}\n")
    return 1 if counts["slipped"] else 0


if __name__ == "__main__":
    sys.exit(main())
