"""Group 0 reading: which group, who belongs to it, its log of changes; and what only ScyllaDB knows of a table."""

from __future__ import annotations

import uuid

import pytest
from cassandra import InvalidRequest
from scylla_node import GROUP, SERVERS, TABLE_ID, VERSION, ScyllaNode, ddl, state_id

from schemaquake.clusters.cql.schema import read_schema
from schemaquake.clusters.systems.scylladb.group0 import CHANGES_MOST, Group0, group0_log, group0_state, last_change

CREATE = ddl("CREATE TABLE ks.t (k int PRIMARY KEY)")
HISTORY = [(30, CREATE), (10, "Starting new topology coordinator c0ffee00"), (20, ddl("CREATE KEYSPACE ks"))]


def reading(node, *, barrier=None):
    return list(
        read_schema(node, Group0(), phase="settled", node="n1", sample=4, complete=barrier is not None, barrier=barrier)
    )


def test_states_made_for_these_tests_are_time_based_and_in_order():
    ids = [state_id(tick) for tick in (1, 2, 5000)]
    assert all(one.version == 1 and one.variant == uuid.RFC_4122 for one in ids)
    assert [one.time for one in ids] == sorted(one.time for one in ids)


# ── the state of the group ───────────────────────────────────────────────────────────────────────────────────────────


def test_the_group_its_members_and_its_topology_are_told():
    assert group0_state(ScyllaNode()) == {
        "id": GROUP,
        "upgrade_state": "use_post_raft_procedures",
        "schema_version": str(VERSION),
        "members": [str(server) for server in SERVERS],
        "voters": [str(server) for server in SERVERS[:2]],
        "topology": {"version": 17, "fence_version": 16, "transition_state": None, "upgrade_state": "done"},
        "nodes": {str(server): "normal" for server in SERVERS},
    }


def test_a_release_that_keeps_no_topology_in_group_0_tells_none():
    state = group0_state(ScyllaNode(topology=False))
    assert {"topology", "nodes"}.isdisjoint(state)
    assert state["id"] == GROUP


def test_a_node_without_a_group_has_no_members():
    state = group0_state(ScyllaNode(group=None))
    assert state["id"] is None
    assert {"members", "voters"}.isdisjoint(state)


def refusing(*tables):
    """A node whose release has these tables otherwise."""
    node = ScyllaNode(history=HISTORY)

    def query(text):
        if any(f".{table}" in text for table in tables):
            raise InvalidRequest(f"unconfigured table {tables[0]}")
        return node(text)

    return query


def test_what_a_release_has_otherwise_is_told_in_its_place_and_the_rest_is_read():
    told = reading(refusing("group0_history", "raft_state", "scylla_tables"), barrier={"passed": True, "seconds": 0})
    assert told[0].definition["epoch"] is None
    assert told[0].definition["group0"] == {"error": "InvalidRequest: unconfigured table group0_history"}
    assert told[1].definition == {"error": "InvalidRequest: unconfigured table group0_history"}
    assert not [one for one in told if one.error is not None]


def test_a_group_id_that_is_none_is_never_put_into_a_statement():
    node = ScyllaNode(group="x; DROP KEYSPACE ks")
    with pytest.raises(ValueError, match="badly formed"):
        group0_state(node)
    assert not any("DROP" in text for text in node.asked)


# ── the log of changes ───────────────────────────────────────────────────────────────────────────────────────────────


def test_the_log_is_told_oldest_first_with_its_epochs():
    changes = group0_log(ScyllaNode(history=HISTORY))["changes"]
    assert [description for _, _, description in changes] == [HISTORY[1][1], HISTORY[2][1], CREATE]
    assert [(one, epoch) for one, epoch, _ in changes] == [
        (str(state_id(tick)), state_id(tick).time) for tick in (10, 20, 30)
    ]


def test_of_a_long_log_the_newest_changes_are_told():
    log = group0_log(ScyllaNode(history=[(tick, "") for tick in range(CHANGES_MOST + 100)]))
    assert len(log["changes"]) == CHANGES_MOST
    assert log["changes"][0][0] == str(state_id(100))
    assert log["cut"] is True
    assert group0_log(ScyllaNode(history=HISTORY))["cut"] is False


def test_the_epoch_is_the_time_of_the_newest_state():
    node = ScyllaNode(history=HISTORY)
    assert last_change(node) == state_id(30)
    assert Group0().read_version(node) == (str(VERSION), state_id(30).time)
    assert Group0().read_version(ScyllaNode()) == (str(VERSION), None)


# ── the whole reading ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_reading_that_judges_tells_the_barrier_the_group_and_the_log():
    version, log, *_ = reading(ScyllaNode(history=HISTORY), barrier={"passed": True, "seconds": 0.01})
    assert version.kind == "version"
    assert version.definition["barrier"] == {"passed": True, "seconds": 0.01}
    assert version.definition["group0"]["id"] == GROUP
    assert version.definition["epoch"] == state_id(30).time
    assert (log.kind, log.keyspace, log.name, len(log.definition["changes"])) == ("log", None, None, 3)


def test_a_reading_under_way_tells_neither_log_nor_barrier():
    told = reading(ScyllaNode(history=HISTORY))
    assert [one.kind for one in told] == ["version"]
    assert "barrier" not in told[0].definition


def table(node_tables):
    (found,) = [one for one in reading(ScyllaNode(**node_tables)) if one.kind == "table"]
    return found


def tables(**own):
    row = {"keyspace_name": "ks", "table_name": "t"}
    return {
        "tables": [{**row, "id": TABLE_ID, "comment": "c", "extensions": {}}],
        "columns": [{**row, "column_name": "k", "type": "int", "kind": "partition_key", "position": 0}],
        "scylla_tables": [{**row, "partitioner": None, **own}],
    }


def test_a_table_is_read_as_from_3_0_on_and_bears_what_only_scylladb_knows():
    found = table(tables(version=VERSION, committed_by_group0=True, cdc=None))
    assert found.id == TABLE_ID.hex
    assert found.definition["columns"] == {"k": {"type": "int", "kind": "partition_key", "position": 0}}
    assert found.definition["options"] == {"comment": "c", "extensions": {}}
    assert found.definition["scylla"] == {"version": str(VERSION), "committed_by_group0": True}


@pytest.mark.parametrize("committed", [None, False])
def test_a_version_that_no_change_of_group_0_wrote_is_left_out(committed):
    found = table(tables(version=VERSION, committed_by_group0=committed))
    assert "version" not in found.definition.get("scylla", {})


def test_what_is_the_servers_own_is_left_out():
    own = [
        {"keyspace_name": keyspace, "replication": {}, "durable_writes": True}
        for keyspace in ("system", "system_auth", "system_distributed_everywhere", "system_replicated_keys", "ks")
    ]
    assert [one.keyspace for one in reading(ScyllaNode(keyspaces=own)) if one.kind == "keyspace"] == ["ks"]


def test_memory_is_described_as_from_4_0_on():
    described = [
        {"keyspace_name": "ks", "type": "view", "name": "v", "create_statement": "CREATE MATERIALIZED VIEW ks.v …"}
    ]
    (live,) = [one for one in reading(ScyllaNode(describe=described)) if one.kind == "live"]
    assert (live.keyspace, live.name, live.definition["kind"]) == ("ks", "v", "view")


def test_what_the_server_keeps_for_its_own_ends_names_what_it_is_kept_for():
    def table(name, **more):
        return {"keyspace_name": "ks", "table_name": name, "id": TABLE_ID, "comment": "", **more}

    node = ScyllaNode(
        tables=[table("t"), table("t_scylla_cdc_log"), table("alone_scylla_cdc_log")],
        views=[
            {"keyspace_name": "ks", "view_name": name, "id": TABLE_ID, "base_table_id": None, "base_table_name": "t"}
            for name in ("i_index", "j_index")
        ],
        indexes=[
            {
                "keyspace_name": "ks",
                "table_name": "t",
                "index_name": "i",
                "kind": "COMPOSITES",
                "options": {"target": "c"},
            }
        ],
    )
    origins = {one.name: one.definition.get("derived_from") for one in reading(node) if one.kind in {"table", "view"}}
    assert origins == {
        "t": None,
        "t_scylla_cdc_log": "t",
        "alone_scylla_cdc_log": None,
        "i_index": "i",
        "j_index": None,
    }
