"""The raw results as Parquet: the same rows whoever reads them out of the runs."""

import pyarrow.parquet as pq
import pytest
from test_matrix_tally import MATRIX

from schemaquake.harness.model.plan import Plan
from schemaquake.results.matrix.tables import ALL_RACES, CELLS, races_of_runs, write_tables
from schemaquake.results.store.store import Store
from schemaquake.results.tables.races import RACES


def a_run(folder, name, system, count, **plan):
    store = Store(folder / "runs" / name)
    store.folder.mkdir(parents=True)
    store.write_plan(Plan(system=system, workloads=("drop-type",), **plan))
    rows = [
        {
            "keyspace": f"sq_{n}",
            "workload": "drop-type",
            "number": n,
            "mode": "barrier",
            "sides": [["DROP TYPE u"], ["CREATE TABLE t", "ALTER TABLE t"]],
            "broken": n % 2 == 0,
            "anomalies": ["lost-rows"] if n % 2 == 0 else [],
            "ok": n,
            "fail": 1,
            "info": 0,
        }
        for n in reversed(range(count))
    ]
    store.write_analysis("races", RACES.empty_table().from_pylist(rows, schema=RACES))


@pytest.fixture
def matrix_folder(tmp_path):
    a_run(tmp_path, "b", "cassandra:5.0.9", 3, nemeses=("kill",))
    a_run(tmp_path, "a", "cassandra:1.0.12", 2, seed=9)
    a_run(tmp_path, "c", "cassandra:1.0.12", 0)
    (tmp_path / "runs" / "refused").mkdir()
    (tmp_path / "runs" / "latest").symlink_to("b")
    return tmp_path


def test_every_race_of_every_judged_run_is_there_once_in_the_order_it_was_run(matrix_folder):
    table = races_of_runs(matrix_folder / "runs", engine="local")
    assert table.schema == ALL_RACES
    told = table.select(["run", "system", "seed", "nemeses", "number"]).to_pylist()
    assert [tuple(row.values()) for row in told] == [
        ("runs/a", "cassandra:1.0.12", 9, [], 1),
        ("runs/a", "cassandra:1.0.12", 9, [], 0),
        ("runs/b", "cassandra:5.0.9", 1, ["kill"], 2),
        ("runs/b", "cassandra:5.0.9", 1, ["kill"], 1),
        ("runs/b", "cassandra:5.0.9", 1, ["kill"], 0),
    ]


def test_a_matrix_without_any_run_has_empty_tables(tmp_path):
    (tmp_path / "runs").mkdir()
    assert races_of_runs(tmp_path / "runs", engine="local").num_rows == 0


def test_both_tables_are_written_and_cells_tell_what_the_matrix_tells(matrix_folder):
    write_tables(MATRIX, matrix_folder, engine="local")
    assert pq.read_table(matrix_folder / "races.parquet").num_rows == 5
    cells = pq.read_table(matrix_folder / "cells.parquet")
    assert cells.schema.equals(CELLS)
    (row,) = cells.to_pylist()
    assert (row["state"], row["broken"], row["tried"], row["unit"], row["control"]) == ("broke", 2, 3, "run", False)
    assert row["runs"] == ["runs/one", "runs/two"]
    assert row["command"] == "schemaquake run --system cassandra:5.0.9"


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_spark_reads_the_same_rows(matrix_folder):
    local, spark = (races_of_runs(matrix_folder / "runs", engine=engine) for engine in ("local", "spark"))
    assert spark.equals(local)
