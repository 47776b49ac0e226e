"""Every fact, once: no single lie in a clean run's records passes as valid.

A run of a perfect cluster and runs of three real ones are valid. Then one fact after another is falsified (`lies`), and the run
is judged as any run is. It must not be valid, but for classes of lies that may stay so, each with its reason, and classes
that are known to slip through (`classes.toml`). The latter list can only shrink: a class that is caught must leave it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from functools import cache
from random import Random

import orjson
import pytest
from lies import Lie
from soundness import RUNS, Judge, clean_run
from soundness_page import CLASSES, PAGE, SCORE, entry, every_fact, one_of_each, page, scored, verdict_on

from schemaquake.results.judging.judge import judge

SAMPLE = 12
"""Lies that every suite tells of a run."""

COUNTED: Sequence[str] = sorted(orjson.loads(SCORE.read_bytes()))
"""The runs of which every class was tried, and whose lists are complete."""

each_run = pytest.mark.parametrize("name", RUNS)
each_counted_run = pytest.mark.parametrize("name", COUNTED)
lies = cache(one_of_each)


def sample(name: str) -> Iterator[Lie]:
    """Lies of as many classes; half of them told by all nodes in both phases, where nothing but the history contradicts.

    Some are of the rest, and some about questions.
    """
    random = Random(f"{name} {CLASSES['seed']}")
    told = [lie for lie in lies(name) if entry("may-stay-valid", lie, name) is None]
    questions = [lie for lie in told if lie.kind.startswith("question")]
    others = [lie for lie in told if not lie.kind.startswith("question")]
    yield from random.sample([lie for lie in others if lie.place == "all, both"], SAMPLE // 2)
    yield from random.sample([lie for lie in others if lie.place != "all, both"], SAMPLE // 4)
    yield from random.sample(questions, SAMPLE // 4)


@each_run
def test_the_run_without_a_lie_is_valid(name: str) -> None:
    verdict = judge(clean_run(name).records, engine="local")
    assert (verdict.valid, verdict.anomalies, verdict.doubts) == (True, (), ())


@each_counted_run
def test_no_falsified_fact_passes_as_valid(name: str) -> None:
    decide = Judge()
    slipped, mended = [], []
    for lie in sample(name):
        column = verdict_on(lie, name, decide)
        listed = entry("known-to-slip", lie, name) is not None
        if column == "slipped" and not listed:
            slipped.append(f"{lie.kind} ({lie.place}): {lie.text}")
        if column in {"invalid", "unknown"} and listed:
            mended.append(f"{lie.kind} ({lie.place}): {lie.text}")
    assert slipped == []
    assert mended == [], "these are caught now: take them off the list"


@pytest.mark.long
@each_counted_run
def test_no_class_of_falsified_facts_passes_as_valid_anywhere(name: str) -> None:
    decide = Judge()
    slipped = [
        f"{lie.kind} ({lie.place}): {lie.text}"
        for lie in lies(name)
        if verdict_on(lie, name, decide) == "slipped" and entry("known-to-slip", lie, name) is None
    ]
    assert slipped == []


@pytest.mark.long
@each_counted_run
def test_no_fact_at_all_passes_as_valid_when_it_is_falsified(name: str) -> None:
    decide = Judge()
    slipped = []
    for places in every_fact(name):
        told = ((lie, column) for lie in places if (column := verdict_on(lie, name, decide)) is not None)
        lie, column = next(told, (places[0], None))
        if column == "slipped" and entry("known-to-slip", lie, name) is None:
            slipped.append(f"{lie.kind} ({lie.place}): {lie.text}")
    assert slipped == []


@pytest.mark.long
@each_counted_run
def test_the_score_of_all_classes_is_that_of_the_page(name: str) -> None:
    assert scored(name, lies(name)) == orjson.loads(SCORE.read_bytes())[name]


def test_the_page_has_the_score_and_the_lists() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()


def test_every_listed_class_says_why_and_exists() -> None:
    kinds: Sequence[str] = sorted({lie.kind for name in RUNS for lie in lies(name)})
    for of in ("may-stay-valid", "known-to-slip"):
        for listed in CLASSES[of]:
            assert len(listed["reason"].split()) > 3
            for pattern in listed["classes"]:
                assert any(fnmatchcase(kind, pattern) for kind in kinds), pattern
