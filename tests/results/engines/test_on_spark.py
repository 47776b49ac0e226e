"""The engines agree: whatever is judged or analysed on Spark is what this process would have said."""

from __future__ import annotations

import pyarrow as pa
import pytest
from questioners import Counts, Crashes, Endless, FailedInserts, Says
from small_runs import small_run

from schemaquake.harness.errors import HistoryError, PlanError
from schemaquake.harness.model.records import OBSERVATIONS
from schemaquake.harness.model.verdict import Doubt, Verdict
from schemaquake.results.engines.engine import Local, Spark, choose
from schemaquake.results.judging.judge import judge
from schemaquake.results.store.store import Store
from schemaquake.results.tables.pipeline import TABLES, analyse

pytestmark = [
    pytest.mark.spark,
    pytest.mark.usefixtures("spark"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

CHECKERS = [
    FailedInserts(),
    FailedInserts("run", name="failed-inserts-at-once"),
    Counts(),
    Crashes(on="ks2"),
    Says("unknown", doubts=(Doubt("nothing-to-judge", "no table"),), scope="keyspace"),
]


def stored(folder, seed: int) -> Store:
    run = small_run(seed)
    store = Store.create(folder, "w", "s:1")
    store.write_history(run.history)
    store.write_observations(run.observations)
    log = store.path("nodes") / "n1" / "system-0.log"
    log.parent.mkdir(parents=True)
    log.write_text("WARN  [main] 2026-11-21 09:00:00,000 A.java:1 - slow\n")
    return store


def test_both_engines_give_the_same_verdict_on_a_store(tmp_path):
    store = stored(tmp_path, 11)
    local = judge(store, checkers=CHECKERS, engine="local")
    assert judge(store, checkers=CHECKERS, engine="spark").to_json() == local.to_json()
    assert local.valid is False
    assert len(local.anomalies) > 3


def test_both_engines_give_the_same_verdict_on_records():
    run = small_run(12)
    local = judge(run, checkers=CHECKERS, engine="local")
    assert judge(run, checkers=CHECKERS, engine="spark").to_json() == local.to_json()


def test_both_engines_make_the_same_tables(tmp_path):
    tables = {}
    for engine in ("local", "spark"):
        store = stored(tmp_path, 13)
        analyse(store, Verdict(valid=True, checker="all"), engine=engine)
        tables[engine] = {name: store.read_analysis(name) for name in TABLES}
        assert sorted(path.stem for path in store.path("analysis").iterdir()) == sorted(TABLES)
    for name in TABLES:
        assert tables["spark"][name].equals(tables["local"][name]), name
        assert len(tables["local"][name]) or name == "meetings"  # only churn notes them


def test_a_checker_that_does_not_end_is_ended_there_too():
    verdict = judge(small_run(1), checkers=[Endless(), Says()], engine="spark", limit_s=0.3)
    assert "did not end by itself within twice its limit of 0.3 s" in (verdict.parts[0].reason or "")
    assert verdict.parts[1].valid is True


def test_an_error_of_a_step_is_told_in_its_own_words(tmp_path):
    store = stored(tmp_path, 13)
    history = store.read_history()
    store.write_history(history.filter(pa.array([index != 20 for index in range(len(history))])))
    store.write_observations(OBSERVATIONS.empty_table())
    with pytest.raises(HistoryError, match=r"^process \d+ "):
        analyse(store, Verdict(valid=True, checker="all"), engine="spark")


def test_records_in_memory_are_not_sent_to_a_cluster():
    with pytest.raises(PlanError, match="put them into a store"):
        judge(small_run(1), checkers=[Says()], engine="spark", master="spark://elsewhere:7077")


def test_a_session_that_is_there_is_used_and_left_running(spark):
    with choose("spark", events=0) as engine:
        assert isinstance(engine, Spark)
        assert engine.session.sparkContext is spark.sparkContext
        assert engine.width == 2
    assert spark.range(3).count() == 3


def test_a_master_means_spark_and_a_large_history_does_where_there_is_java():
    with choose("auto", events=0, master="local[2]") as engine:
        assert isinstance(engine, Spark)
    with choose("auto", events=200_000) as engine:
        assert isinstance(engine, Spark)
    with choose("auto", events=199_999) as engine:
        assert isinstance(engine, Local)


def test_no_groups_make_no_rows(spark):
    schema = pa.schema([("n", pa.int64())])
    assert (
        Spark(spark, 2)
        .carry(lambda group: group, pa.table({"unit": pa.array([], pa.int32())}), schema)
        .equals(schema.empty_table())
    )
