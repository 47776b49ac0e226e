"""Table: a row for each seed, the findings of a sweep, and its coverage."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

__all__ = ["COVERAGE", "FINDINGS", "SEEDS", "coverage_of", "doubts_of", "findings_of", "never_met"]

_PASSAGE: Final = pa.struct(
    [("step", pa.string()), ("handling", pa.string()), ("faults", pa.string()), ("count", pa.int64())]
)
_FOUND: Final = pa.struct([("id", pa.string()), ("anomaly", pa.string()), ("about", pa.string())])

SEEDS: Final = pa.schema(
    [
        ("seed", pa.int64()),
        ("system", pa.string()),
        ("workloads", pa.list_(pa.string())),
        ("nemeses", pa.list_(pa.string())),
        ("nodes", pa.int32()),
        ("options", pa.string()),  # JSON
        ("command", pa.string()),  # repeats the run
        ("outcome", pa.string()),  # valid, invalid, unknown, refused or failed
        ("doubt", pa.string()),  # why it is unknown, refused or failed; else null
        ("anomalies", pa.list_(pa.string())),  # types, sorted
        ("findings", pa.list_(_FOUND)),
        ("operations", pa.int64()),
        ("events", pa.int64()),  # of the simulation
        ("digest", pa.string()),  # SHA-256 of journals, logs, books and verdict
        ("ms", pa.float64()),  # CPU time
        ("passages", pa.list_(_PASSAGE)),
        ("crashes", pa.list_(pa.struct([("step", pa.string()), ("how", pa.string()), ("count", pa.int64())]))),
        (
            "summary",
            pa.string(),
        ),  # JSON, as summary.json of a run's folder: `schemaquake corpus` reads it; null: not judged
    ]
)
"""One row a seed. All columns but `ms` depend on the seed alone."""

FINDINGS: Final = pa.schema(
    [
        ("id", pa.string()),
        ("anomaly", pa.string()),
        ("about", pa.string()),
        ("seeds", pa.int64()),  # that showed it
        ("first", pa.int64()),
        ("command", pa.string()),  # of the first seed
        ("reduced", pa.string()),  # the command with the fewest features that still shows it; null: not reduced
        ("statements", pa.int64()),  # of the smallest scenario; null: not shrunk, or no races to leave out
        ("script", pa.string()),  # repeats the smallest scenario, in the folder `findings`; null: as above
    ]
)

COVERAGE: Final = pa.schema(
    [
        ("step", pa.string()),
        ("handling", pa.string()),  # the kind of the message or request that was handled; empty: a crash at the step
        ("faults", pa.string()),  # in place on the node, or what the crash was
        ("count", pa.int64()),
        ("seeds", pa.int64()),
        ("first", pa.int64()),
    ]
)


def findings_of(rows: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the findings by id, in the order of the first seed that showed each."""
    found: dict[str, dict[str, Any]] = {}
    for row in sorted(rows, key=lambda row: int(row["seed"])):
        for finding in row["findings"]:
            known = found.setdefault(
                finding["id"],
                {
                    **dict.fromkeys(FINDINGS.names),
                    **finding,
                    "seeds": 0,
                    "first": row["seed"],
                    "command": row["command"],
                },
            )
            known["seeds"] += 1
    return found


def doubts_of(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Group the seeds that were not decided by outcome and words, numbers aside: how many, and the first with its command."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for row in sorted(rows, key=lambda row: int(row["seed"])):
        if row["doubt"] is not None:
            kind = row["outcome"], re.sub(r"\d+|sq_\w+(\.\w+)?", "…", row["doubt"].partition("; ")[0])
            known = found.setdefault(
                kind, {**{name: row[name] for name in ("outcome", "doubt", "seed", "command")}, "seeds": 0}
            )
            known["seeds"] += 1
    return sorted(found.values(), key=lambda each: (each["outcome"], -each["seeds"], each["seed"]))


def coverage_of(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Count the passages and crashes of all rows: what was met, how often, in how many seeds, and in which first."""
    met: dict[tuple[str, str, str], dict[str, Any]] = {}
    for row in sorted(rows, key=lambda row: int(row["seed"])):
        keys = [((each["step"], each["handling"], each["faults"]), each["count"]) for each in row["passages"]]
        keys += [((each["step"], "", each["how"]), each["count"]) for each in row["crashes"]]
        for key, count in keys:
            known = met.setdefault(key, dict(zip(COVERAGE.names, (*key, 0, 0, row["seed"]), strict=True)))
            known["count"] += count
            known["seeds"] += 1
    return [met[key] for key in sorted(met)]


def never_met(coverage: Sequence[Mapping[str, Any]], steps: Iterable[str]) -> dict[str, list[str]]:
    """Return the steps that no process came to, and those at which no server was killed."""
    passed = {row["step"] for row in coverage if row["handling"]}
    killed = {row["step"] for row in coverage if not row["handling"] and row["faults"] == "kill"}
    names = list(steps)
    return {
        "passed": [name for name in names if name not in passed],
        "killed": [name for name in names if name not in killed],
    }
