"""Legal runs, of both generators, are never invalid: hundreds in `make test`, thousands in `make test-long`.

`SCHEMAQUAKE_LEGAL_COUNT=1000000` and `SCHEMAQUAKE_LEGAL_FIRST=3250000` choose the seeds of the long test, which prints how far it
is: one that was ended goes on from there. A seed that is accused is printed with the fewest of its operations that still are.
"""

from __future__ import annotations

import os
import sys
from collections import Counter

import pytest
from legal_runs import legal_run
from legal_sweep import accused, sweep

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.harness.registry import load
from schemaquake.results.judging.judge import judge

BATCH = 20
BATCHES = 4


@pytest.mark.parametrize("rich", [False, True], ids=["plain", "rich"])
@pytest.mark.parametrize("batch", range(BATCHES))
def test_a_legal_run_is_not_invalid(batch: int, *, rich: bool) -> None:
    seeds = range(batch * BATCH, (batch + 1) * BATCH)
    assert [text for seed in seeds if (text := accused(seed, rich=rich)) is not None] == []


def test_a_legal_run_is_not_invalid_to_all_checkers_together() -> None:
    seeds = range(10)
    assert [seed for seed in seeds if judge(legal_run(seed), engine="local").valid is False] == []


ACCUSED_ONCE = {
    "a view on a table of which one node's copy was read in the middle of a change": 2_004_381,
    "a view that only memory shows, on a table that the disk has": 3_004_166,
    "a dropped column of a table whose copy was read after the next change": 4_008_714,
}


@pytest.mark.parametrize("seed", ACCUSED_ONCE.values(), ids=ACCUSED_ONCE)
def test_a_legal_run_that_was_accused_once_is_not_any_more(seed: int) -> None:
    assert accused(seed) is None


RICH_ACCUSED_ONCE = {
    "a rename of a clustering column, which its order follows": 329,
    "options of a table that the copy on disk lacks": 774,
    "an index of a table, beside one of its name that may have been on a table that was dropped": 20_144,
    "an index whose kind no final reading says": 30_257,
    "a column that was dropped and added again, and a reading torn by another one": 31_353,
    "a view on a table to which a column was added between the readings of memory and tables": 37_568,
}


@pytest.mark.parametrize("seed", RICH_ACCUSED_ONCE.values(), ids=RICH_ACCUSED_ONCE)
def test_a_rich_legal_run_that_was_accused_once_is_not_any_more(seed: int) -> None:
    assert accused(seed, rich=True) is None


def test_rich_legal_runs_have_two_keyspaces_static_columns_and_drops_by_wrong_clocks() -> None:
    seen: Counter[str] = Counter()
    for seed in range(30):
        records = legal_run(seed, rich=True)
        evidence = Evidence.of(records)
        seen["changes of l"] += sum(
            change.acknowledged and str(change.key).startswith("l.") for change in evidence.changes.all
        )
        skewed = any(fault.offsets for fault in evidence.notes.faults)
        for schema in evidence.readings.schemas:
            for table in schema.tables.values():
                seen["static"] += any(column.kind == "static" for column in table.columns.values())
                seen["dropped beside a wrong clock"] += skewed and bool(table.dropped_columns)
    assert min(seen.values()) >= 10, seen


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


@pytest.mark.long
def test_many_legal_runs_are_not_invalid(capsys: pytest.CaptureFixture[str]) -> None:
    first = int(os.environ.get("SCHEMAQUAKE_LEGAL_FIRST", "1000"))
    seeds = range(first, first + int(os.environ.get("SCHEMAQUAKE_LEGAL_COUNT", "10000")))

    def note(following: int, count: int) -> None:
        with capsys.disabled():
            sys.stderr.write(f"\rlegal runs: {following - first} of {len(seeds)}, {count} accused")

    following, texts = sweep(seeds, processes=os.cpu_count() or 1, note=note)
    assert texts == [], f"the next sweep goes on with SCHEMAQUAKE_LEGAL_FIRST={following}"
