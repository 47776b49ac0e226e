"""The table of changed protocol steps (`tests/changed_steps.toml`) fits the models, and the tool finds what a change breaks."""

from __future__ import annotations

import ast

import pytest
from changed_steps import changes, fails_on, seeds_until_found
from places import ROOT

NAMES = list(changes())
QUICK = "newer-is-older"
QUICK_BY_TEST = "tc-step-twice"


@pytest.mark.parametrize("name", NAMES)
def test_each_change_is_of_a_line_that_stands_there_and_leaves_python(name):
    change = changes()[name]
    source = ROOT / "clusters" / "simulated" / (change.module.replace(".", "/") + ".py")
    lines = source.read_text().splitlines()
    places = [number for number, line in enumerate(lines) if line.strip() == change.before]
    assert len(places) >= change.place
    number = places[change.place - 1]
    indent = lines[number][: -len(change.before)]
    ast.parse("\n".join([*lines[:number], indent + change.after, *lines[number + 1 :]]))
    assert change.after != change.before


def test_each_change_has_a_seed_or_a_test_or_does_no_harm():
    shown = {
        name: [change.seed is not None, change.test != "", change.harmless != ""] for name, change in changes().items()
    }
    assert [name for name, ways in shown.items() if sum(ways) != 1] == []


def test_a_change_is_found_by_a_seed_of_the_swarm():
    found = seeds_until_found(changes()[QUICK], range(5), limit_s=30)
    assert found.seed is not None
    assert found.anomalies


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name == QUICK_BY_TEST else pytest.mark.long)
        for name, change in changes().items()
        if change.test
    ],
)
def test_the_test_of_a_change_fails_on_it(name):
    assert fails_on(changes()[name])


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name, change in changes().items() if change.seed is not None])
def test_the_seed_of_a_change_shows_it(name):
    change = changes()[name]
    assert change.seed is not None
    found = seeds_until_found(change, range(change.seed, change.seed + 1), limit_s=60)
    assert set(change.gives) <= set(found.anomalies)
    assert found.seed == change.seed
