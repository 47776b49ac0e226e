"""The ring as one node tells it: what is read from which table, and what a line without a table tells."""

from __future__ import annotations

from uuid import UUID

import pytest

from schemaquake.clusters.systems.cassandra.ring import DirectoryRing, PeersRing

H1, H2 = UUID(int=1), UUID(int=2)
OWN = {"broadcast_address": "10.0.0.1", "host_id": H1, "tokens": {"5", "3"}, "data_center": "dc1", "rack": "r1"}
PEER = {"peer": "10.0.0.2", "host_id": H2, "tokens": None, "data_center": None, "rack": "r2"}
GOSSIP = [
    {"address": "10.0.0.1", "status": "NORMAL,3", "status_with_port": "NORMAL,3"},
    {"address": "10.0.0.2", "status": "LEFT,7,99", "status_with_port": None},
]
DIRECTORY = {"broadcast_address": "10.0.0.1", "host_id": H1, "state": "JOINED", "tokens": ["3"], "multi_step_operation": None}  # fmt: skip
LOG = [{"epoch": 3, "kind": 4, "entry_id": 9}, {"epoch": 2, "kind": 5, "entry_id": 8}]


def answering(**tables):
    def query(text):
        for name, rows in sorted(tables.items(), reverse=True):
            if f".{name}" in text:
                if isinstance(rows, Exception):
                    raise rows
                return rows
        raise AssertionError(text)

    return query


def test_a_node_tells_itself_its_peers_and_the_first_word_of_each_status():
    told = PeersRing().read_ring(answering(local=[OWN], peers=[PEER], gossip_info=GOSSIP))
    assert told["self"] == {"address": "10.0.0.1", "host_id": str(H1), "tokens": ["3", "5"], "dc": "dc1", "rack": "r1"}
    assert told["peers"] == {
        "10.0.0.2": {"address": "10.0.0.2", "host_id": str(H2), "tokens": [], "dc": None, "rack": "r2"}
    }
    assert told["gossip"] == {"10.0.0.1": "NORMAL", "10.0.0.2": "LEFT"}
    assert told["directory"] is None


def test_a_line_without_the_table_of_gossip_tells_the_rest():
    told = PeersRing().read_ring(answering(local=[OWN], peers=[], gossip_info=ValueError("unconfigured table")))
    assert (told["gossip"], told["peers"]) == (None, {})


def test_a_node_without_a_row_of_its_own_gives_no_account():
    with pytest.raises(ValueError, match="not enough values"):
        PeersRing().read_ring(answering(local=[], peers=[], gossip_info=[]))


def test_the_directory_and_the_log_are_read_where_there_are_some():
    query = answering(
        local=[OWN], peers=[], gossip_info=[], cluster_metadata_directory=[DIRECTORY], local_metadata_log=LOG
    )
    told = DirectoryRing().read_ring(query)
    assert told["directory"] == {"10.0.0.1": {"host_id": str(H1), "state": "JOINED", "tokens": ["3"], "sequence": None}}
    assert DirectoryRing().read_epochs(query) == {"entries": [[2, "5", "8"], [3, "4", "9"]]}
    assert PeersRing().read_epochs(query) is None


def test_what_changes_say_is_read_where_one_is_in_the_log_twice():
    log = [{"epoch": epoch, "kind": 4, "entry_id": entry} for epoch, entry in ((2, 7), (3, 8), (4, 9), (5, 8))]
    texts = {epoch: f"AlterSchema{{schemaTransformation=DropColumns (k, t{epoch})}}" for epoch in (2, 3, 4, 5)}
    text = [{"epoch": epoch, "transformation": each} for epoch, each in texts.items()]
    asked = []

    def query(statement):
        asked.append(statement)
        return answering(local_metadata_log=log, cluster_metadata_log=text)(statement)

    told = DirectoryRing().read_epochs(query)
    assert told["statements"] == {str(epoch): texts[epoch] for epoch in (3, 4, 5)}
    assert len(asked) == 2
    refused = answering(local_metadata_log=log, cluster_metadata_log=ValueError("no majority"))
    assert DirectoryRing().read_epochs(refused) == {"entries": told["entries"]}
