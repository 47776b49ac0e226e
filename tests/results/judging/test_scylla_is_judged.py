"""A run on ScyllaDB, from what its nodes tell to the verdict: every checker reads it, and what is planted is found."""

from __future__ import annotations

import time
from dataclasses import asdict

import orjson
import pyarrow as pa
import pytest
from histories import events
from scylla_node import VERSION, ScyllaNode, ddl, state_id

from schemaquake.clusters.cql.schema import read_schema
from schemaquake.clusters.systems.scylladb.group0 import Group0
from schemaquake.harness.ddl.cql import statement
from schemaquake.harness.model.records import OBSERVATIONS, Records
from schemaquake.results.judging.judge import judge

NODES = ("n1", "n2", "n3")
TABLE, VIEW, BACKING = state_id(1), state_id(2), state_id(3)
CHANGES = (
    ("create-keyspace", "k", ""),
    ("create-table", "k.t", "a:int* v:int"),
    ("create-index", "k.i", "t v"),
    ("add-column", "k.t", "w:text"),
)
PASSED, REFUSED = {"passed": True, "seconds": 0.01}, {"passed": False, "seconds": 8.0, "why": "no answer"}


def history():
    lines = ['-- n1 info node-start {"phase": "boot", "served": true, "seconds": 1}'.replace("n1", n) for n in NODES]
    for number, (f, key, words) in enumerate(CHANGES):
        lines += [f"@{100 + 20 * number} p{number} n{1 + number % 3} invoke {f} {key} {words}".rstrip(),
                  f"@{110 + 20 * number} p{number} n{1 + number % 3} ok"]  # fmt: skip
    versions = orjson.dumps(dict.fromkeys(NODES, str(VERSION))).decode()
    lines += [f'@500 -- info settle {{"phase": "settled", "agreed": true, "seconds": 0.1, "versions": {versions}}}',
              '@600 -- info phase {"phase": "final-settled", "state": "begins"}',
              '@800 -- info phase {"phase": "final-settled", "state": "ends"}']  # fmt: skip
    return events(*lines)


def logged_statements():
    table = history().to_pylist()
    return [statement(row["f"], orjson.loads(row["value"])) for row in table if row["type"] == "invoke"]


def node(*, columns=("a", "v", "w"), log=None, **more):
    """A node with table k.t, its index, and the view that ScyllaDB keeps behind an index."""
    told = {"a": ("int", "partition_key", 0), "v": ("int", "regular", -1), "w": ("text", "regular", -1)}
    of_table = {"keyspace_name": "k", "table_name": "t"}
    of_view = {"keyspace_name": "k", "table_name": "i_index"}
    rows = [
        {**of_table, "column_name": name, "type": told[name][0], "kind": told[name][1], "position": told[name][2]}
        for name in columns
    ]
    rows += [
        {**of_view, "column_name": "v", "type": "int", "kind": "partition_key", "position": 0},
        {**of_view, "column_name": "idx_token", "type": "bigint", "kind": "clustering", "position": 0},
        {**of_view, "column_name": "a", "type": "int", "kind": "clustering", "position": 1},
    ]
    statements = logged_statements() if log is None else log
    history = [(10, "Starting new topology coordinator"), *((20 + n, ddl(text)) for n, text in enumerate(statements))]
    replication = {"class": "org.apache.cassandra.locator.SimpleStrategy", "replication_factor": "3"}
    tables = {
        "keyspaces": [{"keyspace_name": "k", "replication": replication, "durable_writes": True}],
        "tables": [{**of_table, "id": TABLE, "comment": "", "extensions": {}}],
        "views": [{"keyspace_name": "k", "view_name": "i_index", "id": BACKING, "base_table_id": TABLE,
                   "base_table_name": "t", "comment": ""}],
        "columns": rows,
        "indexes": [{**of_table, "index_name": "i", "kind": "COMPOSITES", "options": {"target": "v"}}],
        "scylla_tables": [{**of_table, "version": state_id(23), "committed_by_group0": True}],
        "describe": [
            {"keyspace_name": "k", "type": "keyspace", "name": "k", "create_statement": "CREATE KEYSPACE k WITH replication = {'class': 'org.apache.cassandra.locator.SimpleStrategy', 'replication_factor': '3'} AND durable_writes = true AND tablets = {'enabled': false};"},
            {"keyspace_name": "k", "type": "table", "name": "t",
             "create_statement": f"CREATE TABLE k.t ({', '.join(f'{n} {told[n][0]}' for n in columns)}, PRIMARY KEY (a));"},
            {"keyspace_name": "k", "type": "index", "name": "i", "create_statement": "CREATE INDEX i ON k.t(v);"},
        ],
    }  # fmt: skip
    return ScyllaNode(history=history, **{**tables, **more})


def records(*nodes, barrier=PASSED):
    rows = []
    for name, one in zip(NODES, nodes, strict=True):
        began = time.monotonic_ns()
        for observation in read_schema(
            one, Group0(), phase="settled", node=name, sample=1, complete=barrier is not None, barrier=barrier
        ):
            row = asdict(observation) | {"time": 700_000_000 + observation.time - began}
            row["definition"] = None if row["definition"] is None else orjson.dumps(row["definition"]).decode()
            rows.append(row)
    return Records.of(history(), pa.Table.from_pylist(rows, schema=OBSERVATIONS))


STRUCTURE = [
    *("table-ids", "merged-definitions", "references", "divergence", "objects", "alterations"),
    *("schema-linearizability", "change-log", "observed"),
]


def found(told):
    verdict = judge(told, checkers=STRUCTURE)
    assert not [part for part in verdict.parts if "crashed" in str(part.reason)]
    return verdict.valid, {one.type for one in verdict.anomalies}


@pytest.mark.parametrize("barrier", [PASSED, REFUSED], ids=["after barriers", "without"])
def test_nodes_that_agree_are_valid(barrier):
    assert found(records(node(), node(), node(), barrier=barrier)) == (True, set())


def test_a_column_that_one_node_lacks_is_found():
    valid, types = found(records(node(), node(), node(columns=("a", "v"))))
    assert valid is False
    assert {"hidden-divergence", "lost-column"} <= types


def test_a_table_s_own_version_that_differs_is_a_stale_copy():
    """Its memory is as on the other nodes, and group 0 decides: only the copy in the schema tables differs."""
    own = [{"keyspace_name": "k", "table_name": "t", "version": state_id(99), "committed_by_group0": True}]
    assert found(records(node(), node(), node(scylla_tables=own))) == (False, {"stale-schema-copy"})


def test_an_acknowledged_change_that_a_node_never_logged_is_found():
    assert found(records(node(), node(), node(log=logged_statements()[:-1]))) == (False, {"unlogged-change"})
