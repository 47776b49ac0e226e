"""The lightest line that speaks CQL, 1.2, on real nodes: its races break, and the same statements one by one do not.

What is read of it comes from `system.schema_*`, over version 1 of the protocol, its memory asked table by table.
"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from test_racing_ddl_on_real_clusters import schemaquake

pytestmark = [pytest.mark.cluster, pytest.mark.long]

SYSTEM = "cassandra:1.2.19"
RACES = ("--workload", "drop-alter", "--races", "3", "--seed", "1")


def test_a_race_on_1_2_leaves_a_table_that_was_dropped(tmp_path: Path) -> None:
    document = schemaquake("run", "--system", SYSTEM, *RACES, runs=tmp_path, expected=1)
    assert "resurrected-object" in {anomaly["type"] for anomaly in document["anomalies"]}
    observations = pq.read_table(Path(document["run"]) / "observations.parquet")
    told = observations.filter(pc.equal(observations["phase"].cast("string"), "settled")).to_pylist()
    versions = [row for row in told if row["kind"] == "version"]
    assert len(versions) == 3
    assert all(row["error"] is None for row in versions)
    tables = {(row["node"], row["keyspace"], row["name"]): row for row in told if row["kind"] == "table"}
    assert tables
    assert {row["id"] for row in tables.values()} == {None}
    memory = [row for row in told if row["kind"] == "live"]
    assert {(row["node"], row["keyspace"], row["name"]) for row in memory} == tables.keys(), "each table was asked for"
    bystanders = [json.loads(row["definition"]) for row in memory if row["name"] == "bystander"]
    assert bystanders
    assert all(told == {"kind": "table", "columns": {"k": "int", "v": "varchar"}} for told in bystanders)


def test_the_same_statements_through_one_coordinator_break_nothing(tmp_path: Path) -> None:
    """A busy machine may leave a read unanswered, and the verdict undecided; but nobody is accused."""
    document = schemaquake("run", "--system", SYSTEM, *RACES, "--mode", "single", runs=tmp_path, expected=None)
    assert document["anomalies"] == []
    assert document["valid"] is not False
