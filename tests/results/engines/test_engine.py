from __future__ import annotations

import traceback

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import schemaquake.results.engines.engine
from schemaquake.harness.errors import EnvironmentLacks, HistoryError, PlanError
from schemaquake.results.engines.engine import Local, choose, shares

ROWS = pa.schema([("unit", pa.int32()), ("rows", pa.int64())])


def count(group: pa.Table) -> pa.Table:
    return pa.table({"unit": group["unit"].slice(0, 1), "rows": [len(group)]})


def test_the_local_engine_calls_a_step_once_a_unit():
    groups = pa.table({"unit": pa.array([2, 0, 2, 1, 2], pa.int32())})
    assert Local().carry(count, groups, ROWS).to_pydict() == {"unit": [0, 1, 2], "rows": [1, 1, 3]}


def test_no_groups_make_no_rows():
    assert Local().carry(count, pa.table({"unit": pa.array([], pa.int32())}), ROWS).equals(ROWS.empty_table())


@given(st.dictionaries(st.text(max_size=3), st.integers(0, 100), max_size=12), st.integers(1, 5))
def test_every_name_is_in_one_share_and_no_share_is_much_heavier(weights, most):
    parts = shares(weights, most)
    assert sorted(name for part in parts for name in part) == sorted(weights)
    assert all(parts)
    assert len(parts) == min(most, len(weights))
    loads = [sum(weights[name] for name in part) for part in parts]
    if loads:
        assert max(loads) - min(loads) <= max(weights.values())


def test_small_histories_are_judged_in_this_process():
    with choose("auto", events=199_999) as engine:
        assert isinstance(engine, Local)


def test_a_large_history_is_judged_in_this_process_where_there_is_no_java(monkeypatch, caplog):
    def lacking(_least: int) -> None:
        raise EnvironmentLacks("no Java")

    monkeypatch.setattr(schemaquake.results.engines.engine, "find_java", lacking)
    with choose("auto", events=10**9) as engine:
        assert isinstance(engine, Local)
    assert "in this process" in caplog.text


def test_options_that_exclude_each_other_are_refused():
    with pytest.raises(PlanError, match="give one of them"), choose("local", events=0, master="spark://x"):
        pass
    with (
        pytest.raises(PlanError, match='--engine must be one of auto, local, spark, not "dask"'),
        choose("dask", events=0),
    ):
        pass


def test_the_refusal_of_a_step_is_found_in_the_traceback_that_spark_makes_of_it():
    refusal = HistoryError("h.edn, line 3: the operation has no f.")
    error = RuntimeError(
        "An exception was thrown from the Python worker:\n" + "".join(traceback.format_exception(refusal))
    )
    raised = schemaquake.results.engines.engine._as_raised(error)
    assert isinstance(raised, HistoryError)
    assert str(raised) == "h.edn, line 3: the operation has no f."
    assert schemaquake.results.engines.engine._as_raised(other := RuntimeError("lost executor")) is other
