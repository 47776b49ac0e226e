from __future__ import annotations

from math import ceil

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemaquake.harness.history.pairing import OPERATIONS
from schemaquake.results.report import material
from schemaquake.results.tables.rates import LATENCIES, RATES, count_rates, measure_latencies

S = 1_000_000_000


def operations(*lines: str) -> pa.Table:
    """One operation a line: `f type invoked completed`, times in s; `-` for never."""
    rows = []
    for index, line in enumerate(lines):
        f, kind, invoked, completed = line.split()
        rows.append(
            operation(index, f, kind, int(float(invoked) * S), None if completed == "-" else int(float(completed) * S))
        )
    return pa.Table.from_pylist(rows, schema=OPERATIONS)


def operation(index: int, f: str, kind: str, invoked: int, completed: int | None) -> dict[str, object]:
    row = dict.fromkeys(OPERATIONS.names)
    return row | {"index": index, "process": 0, "type": kind, "f": f, "invoked": invoked, "completed": completed}


def test_a_rate_counts_what_completed_in_a_second():
    table = count_rates(operations("read ok 0.5 1.5", "read ok 1.2 1.9", "read info 0.9 1.1", "insert ok 1.0 2.0"))
    assert table.to_pylist() == [
        {"window": 1, "f": "read", "type": "info", "count": 1},
        {"window": 1, "f": "read", "type": "ok", "count": 2},
        {"window": 2, "f": "insert", "type": "ok", "count": 1},
    ]


def test_a_latency_belongs_to_the_second_of_its_invocation():
    table = measure_latencies(operations("read info 0.5 10.5", "read info 0.6 0.7"))
    assert table.select(["window", "count", "max"]).to_pylist() == [{"window": 0, "count": 2, "max": 10 * S}]


def test_what_never_completed_is_in_no_window():
    never = operations("read info 0.5 -")
    assert count_rates(never).equals(RATES.empty_table())
    assert measure_latencies(never).equals(LATENCIES.empty_table())


@pytest.mark.parametrize(
    ("count", "p50", "p95", "p99", "greatest"),
    [(1, 1, 1, 1, 1), (2, 1, 2, 2, 2), (100, 50, 95, 99, 100), (21, 11, 20, 21, 21)],
)
def test_a_percentile_is_a_measured_latency_by_nearest_rank(count, p50, p95, p99, greatest):
    rows = [operation(n, "read", "ok", 0, n + 1) for n in reversed(range(count))]
    (row,) = measure_latencies(pa.Table.from_pylist(rows, schema=OPERATIONS)).to_pylist()
    assert (row["p50"], row["p95"], row["p99"], row["max"]) == (p50, p95, p99, greatest)


def test_the_tables_are_those_that_reports_are_made_from():
    assert material.RATES.equals(RATES)
    assert material.LATENCIES.equals(LATENCIES)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b", "ab"]),
            st.sampled_from(["ok", "fail", "info"]),
            st.integers(0, 3 * S),
            st.none() | st.integers(0, 2 * S),
        ),
        max_size=40,
    )
)
def test_both_agree_with_counting_one_by_one(drawn):
    rows = [
        operation(index, f, kind, invoked, None if took is None else invoked + took)
        for index, (f, kind, invoked, took) in enumerate(drawn)
    ]
    table = pa.Table.from_pylist(rows, schema=OPERATIONS)
    counted: dict[tuple[int, str, str], int] = {}
    measured: dict[tuple[int, str, str], list[int]] = {}
    for f, kind, invoked, took in drawn:
        if took is not None:
            cell = ((invoked + took) // S, f, kind)
            counted[cell] = counted.get(cell, 0) + 1
            measured.setdefault((invoked // S, f, kind), []).append(took)
    assert [tuple(row.values()) for row in count_rates(table).to_pylist()] == [
        (*cell, n) for cell, n in sorted(counted.items())
    ]
    expected = []
    for cell, took_ns in sorted(measured.items()):
        ordered = sorted(took_ns)
        expected.append((*cell, len(ordered), *(ordered[ceil(p * len(ordered) / 100) - 1] for p in (50, 95, 99, 100))))
    assert [tuple(row.values()) for row in measure_latencies(table).to_pylist()] == expected
