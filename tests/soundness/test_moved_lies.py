"""No record of a clean run can be moved, copied, repeated or exchanged so that it passes as valid, where that is a lie.

Many such records are none: an operation that took longer promises less, a client may ask twice, and what two operations that have nothing to do
with each other were asked for has no order. Docs: `docs/soundness.md`, "Moved records".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from random import Random

import pytest
from lies import Lie
from moved_lies import MovedRun
from soundness import RUNS, Judge, clean_run

MUST_BE_CAUGHT: Sequence[str] = (
    *("rows exchanged *", "outcomes exchanged: create-*", "outcomes exchanged: add-column", "account twice: *"),
    *("moved to boot: *", "moved to heal: *", "moved to settle-*", "moved to restart: *"),
    *("note moved to *: settle", "note moved to *: phase", "note moved to *: run-planned", "note moved to *: faults-planned"),
    *("event twice: invoke *", "event twice: ok *", "event twice: note phase", "event twice: note node-start"),
    *("accounts of two objects exchanged: table", "another account beside: table"),
    *("account an hour later: *", "account when the run began: *", "account copied from the first reading: table"),
    *("sample gone", "all samples *gone", "sample 20 s *", "samples of two times exchanged", "numbers of two samples exchanged"),
    *("sample on the way called *", "* reading called running", "reading copied from another node"),
    *("log copied from another *", "logs of two starts *"),
)  # fmt: skip
"""Classes of lies, all of which are caught; of the others some are."""
EXCEPT = "note moved to boot: run-planned"
"""The plan is noted between the phases boot and setup, and no node does anything meanwhile."""
SINGLE_LINES: Sequence[str] = ("cassandra-1.1.12",)
"""Runs whose logs have a line each, which two of them may share by chance."""
WITHOUT_IDS: Sequence[str] = ("cassandra-1.1.12",)
"""Runs whose data directories bear no ids, so that several lives of a table may have one each."""
SAMPLE = 24


def lies(name: str) -> Iterator[Lie]:
    """One lie of each class that must be caught."""
    found: dict[tuple[str, str], Lie] = {}
    for lie in MovedRun(clean_run(name).records).lies():
        is_by_chance = name in SINGLE_LINES and lie.kind.startswith("log copied")
        is_of_another_life = name in WITHOUT_IDS and lie.kind == "account twice: data-directory"
        if is_by_chance or is_of_another_life or lie.kind == EXCEPT:
            continue
        if any(fnmatchcase(lie.kind, pattern) for pattern in MUST_BE_CAUGHT):
            found.setdefault((lie.kind, lie.place), lie)
    yield from found.values()


@pytest.mark.parametrize("name", ["cassandra-5.0.9", "cassandra-1.1.12"])
def test_no_record_passes_as_valid_in_another_place(name: str) -> None:
    decide = Judge()
    sample = Random(f"moved {name}").sample(list(lies(name)), SAMPLE)
    assert [f"{lie.kind} ({lie.place}): {lie.text}" for lie in sample if decide.valid(lie) is True] == []


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in RUNS if name != "perfect"])
def test_no_class_of_moved_records_passes_as_valid(name: str) -> None:
    decide = Judge()
    assert [f"{lie.kind} ({lie.place}): {lie.text}" for lie in lies(name) if decide.valid(lie) is True] == []


def test_every_class_is_one_that_a_run_has() -> None:
    kinds = {lie.kind for lie in MovedRun(clean_run("cassandra-5.0.9").records).lies()}
    for pattern in (*MUST_BE_CAUGHT, EXCEPT):
        assert any(fnmatchcase(kind, pattern) for kind in kinds), pattern
