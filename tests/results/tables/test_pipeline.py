from __future__ import annotations

import pyarrow as pa
import pytest
from small_runs import small_run

from schemaquake.harness.errors import HistoryError
from schemaquake.harness.history.pairing import OPERATIONS, pair
from schemaquake.harness.model.records import HISTORY, OBSERVATIONS
from schemaquake.harness.model.verdict import Anomaly, Verdict
from schemaquake.results.store.store import Store
from schemaquake.results.tables.meetings import MEETINGS, tabulate_meetings
from schemaquake.results.tables.pipeline import TABLES, analyse
from schemaquake.results.tables.races import RACES, tabulate_races
from schemaquake.results.tables.rates import LATENCIES, RATES, count_rates, measure_latencies
from schemaquake.results.tables.schema_timeline import SCHEMA_TIMELINE, tabulate_schema_timeline
from schemaquake.results.tables.timelines import TIMELINES, tabulate_timelines

BROKEN = Verdict(valid=False, checker="all", anomalies=(Anomaly(type="lost-rows", title="", objects=("ks1.t",)),))


@pytest.fixture
def store(tmp_path) -> Store:
    return Store.create(tmp_path, "w", "s:1")


def test_every_table_is_what_its_function_makes_of_the_run(store):
    run = small_run(2)
    store.write_history(run.history)
    store.write_observations(run.observations)
    analyse(store, BROKEN, engine="local")
    operations = pair(run.history)
    expected = {
        "operations": operations,
        "rates": count_rates(operations),
        "latencies": measure_latencies(operations),
        "timelines": tabulate_timelines(operations),
        "races": tabulate_races(run.history, operations, BROKEN.anomalies),
        "meetings": tabulate_meetings(run.history),
        "schema_timeline": tabulate_schema_timeline(run.observations),
    }
    assert set(expected) == set(TABLES)
    for name, table in expected.items():
        assert store.read_analysis(name).equals(table), name
        assert len(table) or name == "meetings"
    assert sum(store.read_analysis("races")["broken"].to_pylist()) == 1


def test_a_run_in_which_nothing_happened_has_empty_tables(store):
    store.write_history(HISTORY.empty_table())
    store.write_observations(OBSERVATIONS.empty_table())
    analyse(store, BROKEN, engine="local")
    schemas = (OPERATIONS, RATES, LATENCIES, TIMELINES, RACES, MEETINGS, SCHEMA_TIMELINE)
    for name, schema in zip(TABLES, schemas, strict=True):
        assert store.read_analysis(name).equals(schema.empty_table()), name


def test_only_the_tables_are_left_behind(store):
    run = small_run(2)
    store.write_history(run.history)
    store.write_observations(run.observations)
    analyse(store, BROKEN, engine="local")
    assert sorted(path.name for path in store.path("analysis").iterdir()) == sorted(
        f"{name}.parquet" for name in TABLES
    )


def test_a_history_no_harness_can_have_written_is_refused(store):
    store.write_history(
        small_run(2).history.filter(pa.array([index != 20 for index in range(len(small_run(2).history))]))
    )
    store.write_observations(OBSERVATIONS.empty_table())
    with pytest.raises(HistoryError, match=r"process \d+ "):
        analyse(store, BROKEN, engine="local")


def test_a_run_without_records_says_what_to_do(store):
    with pytest.raises(HistoryError, match=r"no history\.parquet"):
        analyse(store, BROKEN, engine="local")
