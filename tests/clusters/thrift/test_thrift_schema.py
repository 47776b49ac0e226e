"""1.1's schema tables as the column families that they are: what a node has on disk beside what it remembers."""

from __future__ import annotations

import struct

import pytest
from thrift_node import OWN, ThriftNode, served

from schemaquake.clusters.thrift.client import ThriftConnector
from schemaquake.clusters.thrift.dialects import DIALECTS
from schemaquake.harness.ddl import schema_changes as ddl

MARSHAL = b"org.apache.cassandra.db.marshal."
KEYSPACE = {
    b"name": b"ks",
    b"durable_writes": b"\x01",
    b"strategy_class": b"org.apache.cassandra.locator.SimpleStrategy",
    b"strategy_options": b'{"replication_factor":"3"}',
}
TABLE = {
    b"id": struct.pack(">i", 1003),
    b"key_alias": b"k",
    b"key_validator": MARSHAL + b"Int32Type",
    b"comment": b"",
    b"comparator": MARSHAL + b"UTF8Type",
    b"compression_parameters": b'{"sstable_compression":"x.SnappyCompressor"}',
    b"gc_grace_seconds": struct.pack(">i", 864000),
    b"local_read_repair_chance": struct.pack(">d", 0.0),
    b"read_repair_chance": struct.pack(">d", 0.1),
    b"replicate_on_write": b"\x01",
}
V = {b"validator": MARSHAL + b"UTF8Type"}


def composite(*parts):
    return b"".join(struct.pack(">H", len(part)) + part + b"\x00" for part in parts)


@pytest.fixture
def node():
    node = ThriftNode(DIALECTS[-1])
    node.rows["system", "schema_keyspaces"] = {b"ks": KEYSPACE, b"system": {b"name": b"system"}, b"gone": {}}
    return node


@pytest.fixture
def client(node):
    with served(node) as port:
        client = ThriftConnector(addresses={"n1": OWN}, port=port, authority="disk").connect("n1", request_timeout_s=5)
        yield client
        client.close()


def store(node, tables, columns=None):
    """Schema rows of keyspace ks: attributes by table, and by (table, column)."""
    cells = {composite(t, a): content for t, some in tables.items() for a, content in some.items()}
    node.rows["system", "schema_columnfamilies"] = {b"ks": cells}
    cells = {composite(t, c, a): content for (t, c), some in (columns or {}).items() for a, content in some.items()}
    node.rows["system", "schema_columns"] = {b"ks": cells}


def read(client):
    observed = client.observe(phase="settled", sample=1, complete=True)
    assert observed[0].error is None, observed[0].error
    return {(o.kind, o.keyspace, o.name): o for o in observed}


def test_a_keyspace_is_read_from_its_row(client):
    told = read(client)
    assert set(told) == {("version", None, None), ("keyspace", "ks", None)}
    assert told["keyspace", "ks", None].definition == {
        "replication": {"class": "org.apache.cassandra.locator.SimpleStrategy", "replication_factor": "3"},
        "durable_writes": True,
    }
    assert "told_from" not in told["version", None, None].definition


def test_a_table_is_put_together_from_its_rows(client, node):
    index = {b"index_type": b"KEYS", b"index_name": b"i", b"index_options": b"null"}
    store(node, {b"t": TABLE}, {(b"t", b"v"): {**V, **index}, (b"t", b"w"): V})
    told = read(client)["table", "ks", "t"]
    assert told.id == f"{1003:032x}"
    assert told.definition == {
        "columns": {
            "k": {"type": "int", "kind": "partition_key", "position": 0},
            "v": {"type": "text", "kind": "regular", "position": -1},
            "w": {"type": "text", "kind": "regular", "position": -1},
        },
        "dropped_columns": {},
        "indexes": {"i": {"kind": "KEYS", "target": "v"}},
        "options": {
            "comment": "",
            "comparator_type": "org.apache.cassandra.db.marshal.UTF8Type",
            "compression_options": {"sstable_compression": "x.SnappyCompressor"},
            "dclocal_read_repair_chance": 0.0,
            "gc_grace_seconds": 864000,
            "read_repair_chance": 0.1,
            "replicate_on_write": True,
        },
    }


def test_halves_are_told_as_they_are(client, node):
    options = {name: content for name, content in TABLE.items() if not name.startswith((b"id", b"key_"))}
    store(node, {b"attributes": options}, {(b"columns", b"v"): V})
    told = read(client)
    attributes, columns = told["table", "ks", "attributes"], told["table", "ks", "columns"]
    assert (attributes.id, attributes.definition["columns"]) == (None, {})
    assert (columns.id, set(columns.definition["columns"]), columns.definition["options"]) == (None, {"v"}, {})


def test_a_key_that_has_no_name_is_not_told(client, node):
    store(node, {b"t": {name: content for name, content in TABLE.items() if name != b"key_alias"}}, {(b"t", b"v"): V})
    columns = read(client)["table", "ks", "t"].definition["columns"]
    assert columns == {"v": {"type": "text", "kind": "untold", "position": -1}}


def test_memory_is_told_beside_the_disk(client, node):
    store(node, {b"t": TABLE})
    client.invoke(ddl.create_keyspace("ks", replication_factor=3))
    client.invoke(ddl.create_table("ks", "u", columns=[("k", "int", "partition_key"), ("v", "text", "regular")]))
    client.invoke(ddl.create_index("ks", "i", table="u", column="v"))
    told = read(client)
    assert {key for key in told if key[0] in {"table", "live"}} == {
        ("table", "ks", "t"),
        ("live", "ks", None),
        ("live", "ks", "u"),
        ("live", "ks", "i"),
    }
    live = told["live", "ks", "u"].definition
    assert live["kind"] == "table"
    assert live["statement"].startswith("CREATE TABLE ks.u (k int, v text, PRIMARY KEY (k)) WITH id = 1000 AND ")
    assert told["live", "ks", "i"].definition["statement"] == "CREATE INDEX i ON ks.u (v)"
