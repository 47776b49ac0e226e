"""Addresses of local nodes: all servers go down, and come back under others, with the data they have."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from schemaquake.clusters.local import namespaces
from schemaquake.clusters.local.cluster import InstalledVersion, LocalCluster, ServerSetup
from schemaquake.clusters.nodes.client_port import ClientPort
from schemaquake.clusters.systems.system import parse_system, recipe_for
from schemaquake.harness.model.topology import ChangesAddresses

SYSTEM = "cassandra:5.0.9"
JAVA = '#!/bin/bash\necho "$@"; exec sleep 120\n'


@pytest.fixture
def moved(monkeypatch):
    """The changes of addresses that networks were asked for."""
    asked = []
    monkeypatch.setattr(namespaces, "in_namespace", lambda _name: [])
    monkeypatch.setattr(namespaces, "change_address", lambda *change: asked.append(change))
    monkeypatch.setattr(ClientPort, "answers", lambda self: self.address.rpartition(".")[2] not in DEAF)
    return asked


DEAF: set[str] = set()


@pytest.fixture
def cluster(tmp_path, moved):
    DEAF.clear()
    java = tmp_path / "java"
    java.write_text(JAVA)
    java.chmod(0o755)
    made = made_of(tmp_path, java)
    for node in made.nodes:
        node.prepare()
        node.start()
    yield made
    made.stop()


def made_of(tmp_path, java, system=SYSTEM):
    found = parse_system(system)
    return LocalCluster(
        InstalledVersion(system=found, recipe=recipe_for(found), java=java, class_path=[Path("/jars/a.jar")]),
        folder=tmp_path / "run",
        names=["n1", "n2"],
        start_timeout_s=5,
        setup=ServerSetup(java_options=[]),
    )


def configuration(node):
    return json.loads((Path(node.folder.path) / "cassandra.yaml").read_text())


def test_all_servers_come_back_under_other_addresses_with_their_data(cluster, moved):
    assert isinstance(cluster, ChangesAddresses)
    first, second = cluster.nodes
    pids = [node.process.pid() for node in cluster.nodes]
    (Path(first.folder.path) / "data" / "rows").write_text("kept")
    token = configuration(second)["initial_token"]
    attempt = cluster.readdress(["n1", "n2"], limit_s=30)
    assert attempt.outcome == "ok"
    assert moved == [("n1", "10.77.0.1", "10.77.0.121"), ("n2", "10.77.0.2", "10.77.0.122")]
    assert [node.address for node in cluster.nodes] == ["10.77.0.121", "10.77.0.122"]
    assert not set(pids) & {node.process.pid() for node in cluster.nodes}
    assert (Path(first.folder.path) / "data" / "rows").read_text() == "kept"
    told = configuration(second)
    assert (told["listen_address"], told["broadcast_rpc_address"], told["rpc_address"]) == (
        "10.77.0.122",
        "10.77.0.122",
        "0.0.0.0",  # noqa: S104 - only read
    )
    assert told["seed_provider"][0]["parameters"] == [{"seeds": "10.77.0.121,10.77.0.122"}]
    assert told["initial_token"] == token


def test_sessions_of_the_harness_find_nodes_where_they_were(cluster):
    before = cluster.connector()
    cluster.readdress(["n1", "n2"], limit_s=30)
    assert cluster.connector() == before


def test_a_second_try_starts_what_is_down_and_changes_no_address_again(cluster, moved):
    DEAF.add("122")
    first = cluster.readdress(["n1", "n2"], limit_s=1)
    assert (first.outcome, first.timed_out) == ("info", True)
    assert "n2" in first.answer
    one, two = cluster.nodes
    pids = one.process.pid(), two.process.pid()
    assert cluster.readdress(["n1", "n2"], limit_s=1).outcome == "info"
    assert len(moved) == 2
    assert one.process.pid() == pids[0]
    assert two.process.pid() not in {None, pids[1]}, "it ran and served nobody"
    DEAF.clear()
    two.kill()
    assert cluster.readdress(["n1", "n2"], limit_s=30).outcome == "ok"
    assert two.state() == "running"


def test_servers_that_listen_for_clients_at_one_address_only_keep_theirs(tmp_path):
    assert made_of(tmp_path, tmp_path / "java", "cassandra:2.0.17").cannot_readdress() is not None
    assert made_of(tmp_path, tmp_path / "java").cannot_readdress() is None
