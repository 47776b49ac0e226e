"""Distinct numbers are what NumPy's `unique` says they are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemaquake.harness.history.distinct import distinct


@given(st.lists(st.integers(-5, 5) | st.integers(-(1 << 63), (1 << 63) - 1)))
def test_each_number_comes_once_and_in_order(values: list[int]) -> None:
    assert distinct(np.array(values, np.int64)).tolist() == sorted(set(values))


@pytest.mark.parametrize("kind", [np.int8, np.int32, np.int64, np.uint64])
def test_the_type_and_the_numbers_given_stay(kind: type[np.integer]) -> None:
    values = np.array([3, 1, 3, 2], kind)
    found = distinct(values)
    assert (found.dtype, found.tolist()) == (np.dtype(kind), [1, 2, 3])
    assert values.tolist() == [3, 1, 3, 2]
