"""Data workloads: no falsified fact of a clean run passes as valid, but for classes that may, each with its reason."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from itertools import islice
from random import Random

import pytest
from clean_data import DATA_RUNS, data_run
from lies import CleanRun, Lie, NotThereError
from soundness import Judge

from schemaquake.harness.ddl.schema_changes import SCHEMA_CHANGES
from schemaquake.results.judging.judge import judge

MAY_STAY_VALID: Mapping[str, Sequence[str]] = {
    "a question that was not answered, or not asked, says nothing": (
        *("operation gone: get *", "operation gone: probe *", "operation gone: read *", "operation gone: txn *"),
        *("operation gone: generate *", "operation gone: cas *", "operation gone: write *", "operation gone: add *"),
        *(
            "operation gone: transfer *",
            "operation gone: put *",
            "operation gone: check-rows *",
            "operation gone: batch *",
        ),
        *("operation gone: write-rows *", "operation gone: delete-rows *"),
    ),
    "a probe asks a single replica, which need not have the value": ("answer probe: value gone",),
    "the reader itself writes this key, with null where nothing is read": (
        *("answer *: writetime gone", "answer get: value gone"),
    ),
    "a set has no order, and rows are listed by their tokens": (
        *("answer read: … out of order", "answer read-batches: … out of order"),
    ),
    "money that was moved otherwise than was asked leaves the total as it is": (
        *("answer transfer: *", "question and answer transfer: amount changed"),
    ),
    "a value that was overwritten before any read may have been another one": (
        *("question and answer put: value changed", "question and answer txn: w in a transaction: another value"),
    ),
    "a transaction may have asked for less": ("question and answer txn: r in a transaction: gone",),
    "no write lies between the two write times, so that the deletion is what it says": (
        "question and answer delete-rows: lts changed",
    ),
    "a batch writes to the same tables, in whatever order they are named and however often": (
        *("question and answer batch: tables.… out of order", "question and answer batch: tables.… nobody asked"),
    ),
    "no other id is like it": ("answer generate: * changed", "answer generate:  changed"),
}
"""Reason → classes."""
PER_RUN = 3
OF_THE_SCHEMA = ("disk", "memory", "running", "note", "reading", "log", "run cut")
"""Beginnings of the classes that runs of races are full of."""


@cache
def lies(name: str) -> Sequence[Lie]:
    """One lie of each class that is about clients, in a place drawn by a fixed seed."""
    found: dict[str, list[Lie]] = {}
    for lie in CleanRun(data_run(name)).facts():
        is_of_the_schema = lie.kind.startswith("question") and not SCHEMA_CHANGES.isdisjoint(
            re.split(r"[ :]", lie.kind)
        )
        if not lie.kind.startswith(OF_THE_SCHEMA) and not is_of_the_schema:
            found.setdefault(lie.kind, []).append(lie)
    drawn = (filter(can_be_told, Random(f"{name} {kind}").sample(some, len(some))) for kind, some in found.items())
    return [lie for lies_of_class in drawn for lie in islice(lies_of_class, 1)]


def can_be_told(lie: Lie) -> bool:
    """Tell if the answer repeats what is changed, of a lie about both ends."""
    try:
        lie.tell()
    except NotThereError:
        return False
    return True


def is_listed(lie: Lie) -> bool:
    return any(fnmatchcase(lie.kind, pattern) for patterns in MAY_STAY_VALID.values() for pattern in patterns)


def slipped(some: Sequence[Lie]) -> list[str]:
    decide = Judge()
    return [f"{lie.kind}: {lie.text}" for lie in some if not is_listed(lie) and decide.valid(lie) is True]


@pytest.mark.parametrize("name", ["set", "quorum"])
def test_a_sample_of_lies_about_data_does_not_pass(name: str) -> None:
    told = [lie for lie in lies(name) if not is_listed(lie)]
    assert len(told) > 2 * PER_RUN
    assert slipped(Random(name).sample(told, PER_RUN)) == []


@pytest.mark.long
@pytest.mark.parametrize("name", DATA_RUNS)
def test_a_run_of_data_without_a_lie_is_valid(name: str) -> None:
    verdict = judge(data_run(name), engine="local")
    assert (verdict.valid, verdict.anomalies) == (True, ())


@pytest.mark.long
@pytest.mark.parametrize("name", DATA_RUNS)
def test_no_class_of_lies_about_data_passes(name: str) -> None:
    assert slipped(lies(name)) == []
