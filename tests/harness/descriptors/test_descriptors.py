"""Descriptors: everything about a row follows from seed and position, and what was read folds into runs and back."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from schemaquake.harness.descriptors.functions import cds, pd, rows_of, vds
from schemaquake.harness.descriptors.runs import fold_rows, spread_runs

SEEDS = st.integers(-(2**63), 2**64)
NUMBERS = st.integers(0, 2**30)


@given(SEEDS, NUMBERS, NUMBERS)
def test_clusterings_ascend_and_say_which_row_it_is(seed, partition, first):
    clusterings = cds(seed, partition, first, 50)
    assert (np.diff(clusterings) > 0).all()
    assert (rows_of(seed, partition, clusterings) == np.arange(first, first + 50)).all()
    assert (rows_of(seed, partition + 1, clusterings) == -1).sum() > 45


def test_keys_and_values_differ_and_stay_the_same():
    assert (
        len({pd(1, partition) for partition in range(1000)} | {pd(2, partition) for partition in range(1000)}) == 2000
    )
    rows = np.arange(1000)
    assert len({*vds(1, 0, rows, 5).tolist(), *vds(1, 0, rows, 6).tolist(), *vds(1, 1, rows, 5).tolist()}) == 3000
    assert (vds(1, 0, rows, 5)[7:9] == vds(1, 0, rows[7:9], np.array([5, 5]))).all()
    assert (pd(1, 0), vds(1, 0, rows, 5)[0], cds(1, 0, 1, 1)[0]) == (
        pd(1, 0),
        vds(1, 0, rows[:1], 5)[0],
        cds(1, 0, 0, 2)[1],
    )


@given(st.lists(st.integers(0, 3), max_size=40))
def test_rows_fold_into_runs_and_back(times):
    """Time 0: the row is absent."""
    stamped = np.array(times, np.int64)
    rows = np.flatnonzero(stamped)
    clusterings = cds(7, 3, 0, len(times))[rows]
    found = fold_rows(7, 3, clusterings, vds(7, 3, rows, stamped[rows]), stamped[rows])
    assert (found.rows, found.strange) == (len(rows), ())
    assert (spread_runs(found.runs, len(times)) == stamped).all()
    neighbours = list(zip(found.runs[::3], found.runs[1::3], found.runs[2::3], strict=True))
    for (first, count, lts), (after, _, later) in pairwise(neighbours):
        assert first + count < after or lts != later


def test_a_wrong_value_time_clustering_or_order_is_strange():
    rows, times = np.arange(5), np.full(5, 9)
    clusterings, values = cds(7, 3, 0, 5), vds(7, 3, rows, times)
    for wrong in (
        fold_rows(7, 3, clusterings, np.where(rows == 2, values + 1, values), times),
        fold_rows(7, 3, clusterings, values, np.where(rows == 2, 8, times)),
        fold_rows(7, 3, np.where(rows == 2, clusterings + 1, clusterings), values, times),
        fold_rows(7, 3, clusterings[[0, 1, 1, 3, 4]], values[[0, 1, 1, 3, 4]], times),
    ):
        assert (wrong.rows, len(wrong.strange)) == (5, 1)
        assert 2 not in [row for first, count in zip(wrong.runs[::3], wrong.runs[1::3], strict=True) for row in range(first, first + count)]  # fmt: skip
    other = fold_rows(7, 4, clusterings, values, times)
    assert (len(other.strange), other.runs) == (5, ())
