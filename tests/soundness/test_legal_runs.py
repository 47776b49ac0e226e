"""Legal runs are never invalid: hundreds in `make test`, a million in `make test-long`.

`SCHEMAQUAKE_LEGAL_SEEDS=250000:1000000` chooses the seeds of the long test, which prints how far it is: one that was ended
goes on from there. A seed that is accused is printed with the fewest of its operations that still are.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
from legal_runs import legal_run

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.harness.model.records import Records
from schemaquake.harness.model.verdict import Verdict
from schemaquake.harness.registry import load
from schemaquake.results.judging.judge import judge

CHECKERS = (
    *("schema-linearizability", "acked-rows", "writability", "divergence", "table-ids", "alterations", "references"),
    *(
        "objects",
        "merged-definitions",
        "data-directories",
        "change-log",
        "restart",
        "availability",
        "faults",
        "observed",
    ),
)
"""The checkers that legal runs have work for."""
BATCH = 40
BATCHES = 5
LONG_BATCH = 2_000


def accusations(records: Records) -> list[tuple[str, str]]:
    """Every (anomaly or crash, explanation) of these records."""
    verdicts: list[Verdict] = [load("checkers", name).check(records, limit_s=60) for name in CHECKERS]
    found = [(anomaly.type, anomaly.explanation) for verdict in verdicts for anomaly in verdict.anomalies]
    return found + [(v.checker, d.text) for v in verdicts for d in v.doubts if d.kind in {"crashed", "time", "memory"}]


def accused(seed: int) -> str | None:
    """What a legal run is accused of, and by which of its operations; None: nothing."""
    found = accusations(legal_run(seed))
    if not found:
        return None
    kind = found[0][0]
    without: frozenset[int] = frozenset()
    for number in range(20):
        fewer = without | {number}
        again = [one for one in accusations(legal_run(seed, without=fewer)) if one[0] == kind]
        if again:
            without, found = fewer, again
    lines = [
        f"op {change.index}: {change.text()}" for change in Evidence.of(legal_run(seed, without=without)).changes.all
    ]
    return "\n".join([f"seed {seed} without {sorted(without)}: {kind}", found[0][1], *lines])


def accused_of(seeds: range) -> list[str]:
    return [text for seed in seeds if (text := accused(seed)) is not None]


@pytest.mark.parametrize("batch", range(BATCHES))
def test_a_legal_run_is_not_invalid(batch: int) -> None:
    assert accused_of(range(batch * BATCH, (batch + 1) * BATCH)) == []


def test_a_legal_run_is_not_invalid_to_all_checkers_together() -> None:
    assert [seed for seed in range(10) if judge(legal_run(seed), engine="local").valid is False] == []


SEED_OF_A_STALE_BASE = 2_004_381
"""A run whose view is on a table of which one node's copy was read in the middle of a change."""


@pytest.mark.parametrize("seed", [SEED_OF_A_STALE_BASE])
def test_a_legal_run_that_was_accused_once_is_not_any_more(seed: int) -> None:
    assert accused(seed) is None


def test_a_seed_always_makes_the_same_run() -> None:
    one, other = legal_run(7), legal_run(7)
    assert one.history.equals(other.history)
    assert one.observations.equals(other.observations)
    assert not one.history.equals(legal_run(8).history)


def test_legal_runs_have_what_tempts_to_accuse() -> None:
    seen: Counter[str] = Counter()
    for seed in range(300, 420):
        records = legal_run(seed)
        evidence = Evidence.of(records)
        seen["decided by a log"] += any(schema.follows_log for schema in evidence.shown.schemas)
        seen["clocks apart"] += any(fault.offsets for fault in evidence.notes.faults)
        seen["a node was down"] += any(start.phase == "fault" for start in evidence.notes.starts)
        seen["a no-op"] += any(c.type == "ok" and not c.acknowledged for c in evidence.changes.all)
        for phase in ("settled", "restarted"):
            versions = {schema.version for schema in evidence.shown.of(phase)}
            seen[f"versions apart when {phase}"] += len(versions) > 1
        doubts = load("checkers", "divergence").check(records, limit_s=60).doubts
        seen["a torn reading"] += any(doubt.kind == "undecided" for doubt in doubts)
        seen["an unanswered change"] += any(change.type == "info" for change in evidence.changes.all)
    assert seen.pop("versions apart when restarted") == 0, "every process that knew of a change had ended"
    assert set(seen) >= {"decided by a log", "clocks apart", "a node was down", "a torn reading", "a no-op"}
    assert min(seen.values()) >= 3, seen


def seeds() -> range:
    first, _, last = os.environ.get("SCHEMAQUAKE_LEGAL_SEEDS", "0:1000000").partition(":")
    return range(int(first), int(last))


@pytest.mark.long
def test_a_million_legal_runs_are_not_invalid(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    wanted = seeds()
    batches = [range(at, min(at + LONG_BATCH, wanted.stop)) for at in range(wanted.start, wanted.stop, LONG_BATCH)]
    found: list[str] = []
    with ProcessPoolExecutor() as pool:
        for batch, texts in zip(batches, pool.map(accused_of, batches), strict=True):
            found += texts
            (tmp_path / "accused.txt").write_text("\n\n".join(found), encoding="utf-8")
            with capsys.disabled():
                sys.stderr.write(f"\rlegal runs: {batch.stop - wanted.start} of {len(wanted)}, {len(found)} accused")
    assert found == []
