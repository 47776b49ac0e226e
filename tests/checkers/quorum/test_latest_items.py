"""Latest: the heaviest item of a key that had ended before a time, against one item after the other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemaquake.checkers.quorum.latest import Latest

Item = tuple[int, int, int]
"""A key, an end and a weight."""


def find(items: list[Item], asked: list[tuple[int, int]]) -> list[int]:
    key, ends, weight = (np.array([item[at] for item in items], np.int64) for at in range(3))
    keys, times = (np.array([question[at] for question in asked], np.int64) for at in range(2))
    return list(Latest(key, ends, weight).before(keys, times).tolist())


@pytest.mark.parametrize(
    ("items", "question", "found"),
    [
        pytest.param([], (1, 5), -1, id="there are none"),
        pytest.param([(1, 4, 7)], (1, 5), 0, id="it had ended"),
        pytest.param([(1, 5, 7)], (1, 5), -1, id="it ended just then"),
        pytest.param([(1, 6, 7)], (1, 5), -1, id="it ended later"),
        pytest.param([(0, 4, 7)], (1, 5), -1, id="it is of a lesser key"),
        pytest.param([(2, 4, 7)], (1, 5), -1, id="it is of a greater key"),
        pytest.param([(1, 4, 7), (1, 3, 9)], (1, 5), 1, id="the heavier one ended earlier"),
        pytest.param([(1, 3, 9), (1, 4, 7)], (1, 4), 0, id="the lighter one ended just then"),
        pytest.param([(1, 3, 7), (1, 4, 9)], (1, 4), 0, id="the heavier one ended just then"),
        pytest.param([(0, 1, 99), (1, 4, 7)], (1, 5), 1, id="another key has a heavier one"),
        pytest.param([(0, 1, 99), (1, 4, 7)], (0, 5), 0, id="each key has its own"),
        pytest.param([(0, 1, 99), (2, 4, 7)], (1, 5), -1, id="the key between has none"),
        pytest.param([(1, 1, -(2**63)), (1, 2, 2**63 - 1)], (1, 5), 1, id="whatever the weights are"),
        pytest.param([(-(2**63), 1, 99), (2**63 - 1, 4, 7)], (2**63 - 1, 5), 1, id="whatever the keys are"),
        pytest.param([(1, 4, 7), (2, 4, 7)], (2, 4), -1, id="the last of all ended just then"),
        pytest.param([(1, 4, 7)], (1, 4), -1, id="the only one ended just then"),
    ],
)
def test_the_heaviest_item_of_a_key_that_had_ended(items: list[Item], question: tuple[int, int], found: int) -> None:
    assert find(items, [question]) == [found]


SMALL = st.integers(-3, 3)


@given(st.lists(st.tuples(SMALL, SMALL, SMALL), max_size=9), st.lists(st.tuples(SMALL, SMALL), max_size=6))
def test_many_questions_at_once_are_answered_as_one_after_the_other(
    items: list[Item], asked: list[tuple[int, int]]
) -> None:
    for (key, time), at in zip(asked, find(items, asked), strict=True):
        weights = [weight for of_key, ends, weight in items if of_key == key and ends < time]
        if not weights:
            assert at == -1
        else:
            of_key, ends, weight = items[at]
            assert (of_key, weight) == (key, max(weights))
            assert ends < time
