"""The local cluster without Java: how nodes are configured, what is said of one that dies, and what healing sweeps up.

In place of Java stands a script, and nobody is put into a namespace; the real thing is in tests/cluster.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from schemaquake.clusters.local import child_process, namespaces
from schemaquake.clusters.local import provider as local_provider
from schemaquake.clusters.local.cluster import InstalledVersion, LocalCluster, ServerSetup
from schemaquake.clusters.local.provider import LocalProvider
from schemaquake.clusters.nodes import client_port, libfaketime
from schemaquake.clusters.systems.system import parse_system, recipe_for
from schemaquake.harness.errors import ClusterError, EnvironmentLacks, NodeDied, NodeUnreachable, StartTimeout
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.run_process import process_start_time
from schemaquake.harness.wait import until

DIES = """\
echo 'INFO  [main] 1 A.java:1 - starting'
echo 'ERROR [main] 2 B.java:1 - Exception encountered during startup'
echo 'java.lang.IllegalStateException: no'
exit 3"""
STAYS = "echo 'INFO  [main] 1 A.java:1 - still thinking'; exec sleep 60"


@pytest.fixture
def cluster_of(tmp_path, monkeypatch):
    """`cluster_of("exit 3", nodes=3)`: nodes whose Java is that script."""
    monkeypatch.setattr(namespaces, "in_namespace", lambda _name: [])
    clusters = []

    def make(
        script="exit 0",
        *,
        nodes=1,
        spares=0,
        system="cassandra:5.0.9",
        keep_data=False,
        skewable_clocks=False,
        limit_s=1.0,
    ):
        java = tmp_path / "java"
        java.write_text(f"#!/bin/sh\n{script}\n")
        java.chmod(0o755)
        parsed = parse_system(system)
        jars = [Path("/jars/a.jar"), Path("/jars/b.jar")]
        cluster = LocalCluster(
            InstalledVersion(system=parsed, recipe=recipe_for(parsed), java=java, class_path=jars),
            folder=tmp_path / "run",
            names=[f"n{number}" for number in range(1, nodes + 1)],
            spares=[f"n{number}" for number in range(nodes + 1, nodes + spares + 1)],
            start_timeout_s=limit_s,
            keep_data=keep_data,
            setup=ServerSetup(java_options=["-XX:Some"], own_clock=skewable_clocks),
        )
        clusters.append(cluster)
        for node in cluster.nodes:
            node.prepare()
        return cluster

    yield make
    for cluster in clusters:
        cluster.stop()


def folder_of(node):
    return Path(node.folder.path)


def ended(node):
    until(lambda: node.state() == "stopped", deadline_s=120, what="the end of the script")


# ── configuration ────────────────────────────────────────────────────────────────────────────────────────────────────


def configuration(node):
    return json.loads((folder_of(node) / "cassandra.yaml").read_text())


@pytest.mark.parametrize(
    ("system", "seeds"), [("cassandra:5.0.9", "10.77.0.1,10.77.0.2,10.77.0.3"), ("cassandra:6.0-alpha2", "10.77.0.1")]
)
def test_everybody_is_a_seed_where_all_start_together_and_the_first_where_they_do_not(cluster_of, system, seeds):
    cluster = cluster_of(nodes=3, system=system)
    for node in cluster.nodes:
        node.start()
        assert configuration(node)["seed_provider"][0]["parameters"] == [{"seeds": seeds}]


def test_nodes_divide_the_ring_evenly_and_stand_at_their_own_addresses(cluster_of):
    cluster = cluster_of(nodes=4)
    for node in cluster.nodes:
        node.start()
    tokens = [int(configuration(node)["initial_token"]) for node in cluster.nodes]
    assert [after - before for before, after in itertools.pairwise(tokens)] == [2**62] * 3
    assert all(abs(token) < 2**63 for token in tokens)
    for number, node in enumerate(cluster.nodes, 1):
        assert configuration(node)["listen_address"] == configuration(node)["rpc_address"] == f"10.77.0.{number}"
        assert configuration(node)["data_file_directories"] == [str(folder_of(node) / "data")]


def test_server_is_started_with_jars_only_and_the_options_it_was_given(cluster_of):
    cluster = cluster_of('echo "$@"')
    (node,) = cluster.nodes
    node.start()
    ended(node)
    words = node.log_text().split()
    assert words[words.index("-cp") + 1] == "/jars/a.jar:/jars/b.jar", "no folder, or no startup archive"
    assert words[-1] == "org.apache.cassandra.service.CassandraDaemon"
    assert "-XX:Some" in words
    assert f"-Dcassandra.config=file://{folder_of(node)}/cassandra.yaml" in words


def test_server_inherits_nothing_that_could_change_it(cluster_of, monkeypatch):
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-javaagent:spy.jar")
    monkeypatch.setenv("CLASSPATH", "/elsewhere")
    (node,) = cluster_of("env").nodes
    node.start()
    ended(node)
    assert {line.split("=")[0] for line in node.log_text().splitlines()} <= {
        "PATH",
        "LANG",
        "PWD",
        "OLDPWD",
        "SHLVL",
        "_",
    }


# ── nodes that join ──────────────────────────────────────────────────────────────────────────────────────────────────

TELLS = 'echo "$@"; exec sleep 60'


def seeds_of(node):
    return configuration(node)["seed_provider"][0]["parameters"][0]["seeds"].split(",")


def test_a_spare_is_prepared_and_is_no_founder(cluster_of):
    cluster = cluster_of(nodes=2, spares=1)
    spare = cluster.nodes[-1]
    assert {name: (one.state, one.spare) for name, one in cluster.members().items()} == {
        "n1": ("normal", False),
        "n2": ("normal", False),
        "n3": ("absent", True),
    }
    assert spare.address == "10.77.0.3"
    assert seeds_of(cluster.nodes[0]) == ["10.77.0.1", "10.77.0.2"]
    tokens = sorted(int(configuration(node)["initial_token"]) for node in cluster.nodes)
    assert len(set(tokens)) == 3


def test_a_spare_that_joins_bootstraps_as_an_operators_node_does(cluster_of):
    cluster = cluster_of(TELLS, nodes=2, spares=1)
    first, second, spare = cluster.nodes
    first.start()
    (folder_of(spare) / "data" / "old").mkdir()
    attempt = cluster.join("n3", limit_s=0.5)
    assert (attempt.outcome, attempt.timed_out) == ("info", True)
    assert seeds_of(spare) == ["10.77.0.1"], "who does not run cannot be asked"
    assert configuration(spare)["auto_bootstrap"] is True
    assert configuration(first)["auto_bootstrap"] is False
    words = until(lambda: spare.log_text().split(), deadline_s=120, what="the script's words")
    assert "-Dcassandra.consistent.rangemovement=true" in words
    assert not (folder_of(spare) / "data" / "old").exists()
    assert second.state() == "stopped"
    with pytest.raises(ClusterError):
        cluster.join("n3", limit_s=0.5)


def test_a_node_that_takes_a_dead_one_s_place_takes_its_token_too(cluster_of):
    cluster = cluster_of(TELLS, nodes=2, spares=1)
    first, dead, spare = cluster.nodes
    first.start()
    attempt = cluster.join("n3", replacing="n2", limit_s=0.5)
    assert attempt.command == "start -Dcassandra.replace_address_first_boot=10.77.0.2"
    assert "initial_token" not in configuration(spare)
    assert cluster.join("n2", replacing="n2", limit_s=0.5).outcome == "info"
    assert seeds_of(dead) == ["10.77.0.1"], "a node that is its own seed does not join"


# ── life ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_node_that_dies_is_told_with_its_exit_code_and_first_error(cluster_of):
    (node,) = cluster_of(DIES).nodes
    node.start()
    boot = node.await_serving(deadline_s=20)
    assert (boot.served, boot.exit_code) == (False, 3)
    assert boot.first_error.splitlines()[-1] == "java.lang.IllegalStateException: no"


def test_a_cluster_whose_node_dies_says_why(cluster_of, monkeypatch):
    monkeypatch.setattr(namespaces, "open_enclosure", lambda: None)
    monkeypatch.setattr(namespaces, "lay_network", lambda _names: None)
    cluster = cluster_of(DIES, nodes=2, limit_s=20)
    with pytest.raises(NodeDied) as died:
        cluster.start()
    assert died.value.node == "n1"
    assert "node n1 (cassandra:5.0.9) ended while starting, exit code 3" in str(died.value)
    assert "java.lang.IllegalStateException: no" in str(died.value)
    assert str(cluster.nodes[0].log.location) in str(died.value)


def test_a_cluster_whose_node_does_not_serve_in_time_quotes_its_last_words(cluster_of, monkeypatch):
    monkeypatch.setattr(namespaces, "open_enclosure", lambda: None)
    monkeypatch.setattr(namespaces, "lay_network", lambda _names: None)
    monkeypatch.setattr(client_port, "answers_cql", lambda *_, **__: False)
    with pytest.raises(StartTimeout) as late:
        cluster_of(STAYS, limit_s=0.5).start()
    assert "node n1 (cassandra:5.0.9) did not answer CQL at 10.77.0.1:9042 within 0.5 s" in str(late.value)
    assert "INFO  [main] 1 A.java:1 - still thinking" in str(late.value)
    assert "--start-timeout" in str(late.value)


def test_state_is_read_from_the_system_and_not_remembered(cluster_of):
    (node,) = cluster_of(STAYS).nodes
    assert node.state() == "stopped"
    node.start()
    assert node.state() == "running"
    node.pause()
    until(lambda: node.state() == "paused", deadline_s=120, what="the pause")
    node.resume()
    until(lambda: node.state() == "running", deadline_s=120, what="the resumption")
    os.kill(node.process.pid(), signal.SIGKILL)
    until(lambda: node.state() == "stopped", deadline_s=120, what="the end")


def test_verbs_may_be_said_in_any_state(cluster_of):
    (node,) = cluster_of(STAYS).nodes
    for verb in (node.kill, node.stop, node.pause, node.resume):
        verb()
    node.start()
    first = node.process.pid()
    node.start()
    assert node.process.pid() == first, "a running node is left alone"
    node.pause()
    until(lambda: node.state() == "paused", deadline_s=120, what="the pause")
    node.start()
    assert node.state() == "paused", "a paused one, too"
    node.kill()
    node.kill()
    assert node.state() == "stopped"


def test_a_paused_node_can_be_stopped_cleanly(cluster_of):
    (node,) = cluster_of("trap 'echo goodbye; exit 0' TERM; echo ready; while true; do sleep 0.05; done").nodes
    node.start()
    until(lambda: "ready" in node.log_text(), deadline_s=120, what="the trap")
    node.pause()
    node.stop(deadline_s=20)
    assert node.state() == "stopped"
    assert "goodbye" in node.log_text()


def test_a_node_that_does_not_stop_is_killed(cluster_of):
    (node,) = cluster_of("trap '' TERM; echo ready; while true; do sleep 0.05; done").nodes
    node.start()
    until(lambda: "ready" in node.log_text(), deadline_s=120, what="the trap")
    node.stop(deadline_s=0.3)
    assert node.state() == "stopped"


def test_every_start_has_a_log_of_its_own(cluster_of):
    (node,) = cluster_of("echo $$").nodes
    assert node.log_text() == ""
    seen = []
    for _ in range(3):
        node.start()
        ended(node)
        seen.append(node.log_text())
    assert [path.name for path in sorted(folder_of(node).glob("*.log"))] == [
        "system-0.log",
        "system-1.log",
        "system-2.log",
    ]
    assert len(set(seen)) == 3


def test_a_command_that_does_not_end_is_given_up(cluster_of):
    (node,) = cluster_of().nodes
    node.start()
    assert node.exec(["cat"], stdin="hello").stdout == "hello"
    assert node.exec(["sh", "-c", "echo no >&2; exit 5"]).exit_code == 5
    with pytest.raises(NodeUnreachable, match=r"node n1: `sleep 30` did not end within 0\.2 s"):
        node.exec(["sleep", "30"], timeout_s=0.2)


def test_files_go_into_the_node_s_folder_and_out_of_it(cluster_of, tmp_path):
    (node,) = cluster_of().nodes
    node.start()
    (tmp_path / "here").write_text("x")
    node.upload(tmp_path / "here", "there")
    node.download("there", tmp_path / "back")
    assert (tmp_path / "back").read_text() == "x"
    with pytest.raises(FileNotFoundError):
        node.download("nowhere", tmp_path / "back")


@pytest.mark.parametrize(
    ("system", "up", "down"),
    [
        ("cassandra:0.7.10", "Node /{} has restarted, now UP again", "InetAddress /{} is now dead."),
        ("cassandra:1.1.12", "InetAddress /{} is now UP", "InetAddress /{} is now dead."),
        ("cassandra:1.2.19", "InetAddress /{} is now UP", "InetAddress /{} is now DOWN"),
        ("cassandra:4.1.10", "InetAddress /{}:7000 is now UP", "InetAddress /{}:7000 is now DOWN"),
    ],
)
def test_a_ring_is_whole_when_every_node_s_last_word_on_the_others_is_up(cluster_of, tmp_path, system, up, down):
    said = tmp_path / "said"
    cluster = cluster_of(f"cat {said}-$(basename $PWD); exec sleep 60", nodes=2, system=system)
    first, second = cluster.nodes

    def start(first_says, second_says):
        for node, words in ((first, first_says), (second, second_says)):
            (tmp_path / f"said-{node.name}").write_text("".join(f" INFO [Gossip] {word}\n" for word in words))
            node.kill()
            node.start()

    start([up.format(second.address)], [up.format(first.address)])
    assert cluster.await_whole(["n1", "n2"], deadline_s=10) is None
    start([up.format(second.address), down.format(second.address)], [up.format(first.address)])
    assert cluster.await_whole(["n1", "n2"], deadline_s=0.5) == "n1 does not take n2 for alive"
    start(
        [down.format(second.address), up.format(second.address)], [f"Node /{first.address} is now part of the cluster"]
    )
    assert cluster.await_whole(["n1", "n2"], deadline_s=0.5) == "n2 does not take n1 for alive"


def test_an_old_node_is_asked_by_thrift_and_a_new_one_by_cql_of_its_version(cluster_of, monkeypatch):
    asked = []
    monkeypatch.setattr(
        client_port, "answers_cql", lambda *where, version, tls: asked.append((*where, version)) or True
    )
    monkeypatch.setattr(client_port, "answers_thrift", lambda *where: asked.append(where) or True)
    for system in ("cassandra:1.0.12", "cassandra:1.2.19", "cassandra:5.0.9"):
        (node,) = cluster_of(STAYS, system=system).nodes
        node.start()
        assert node.await_serving(deadline_s=5).served
        node.kill()
    assert set(asked) == {("10.77.0.1", 9160), ("10.77.0.1", 9042, 1), ("10.77.0.1", 9042, 4)}


def test_clients_of_every_line_are_connected_by_its_protocol(cluster_of):
    thrift, cql = (cluster_of(system=f"cassandra:{version}").connector() for version in ("0.8.10", "2.0.17"))
    assert (type(thrift).__name__, thrift.port, thrift.authority) == ("ThriftConnector", 9160, "memory")
    assert (type(cql).__name__, cql.port, cql.dialect.protocol_version) == ("CqlConnector", 9042, 2)
    assert type(cql.dialect.schema).__name__ == "SchemaTables"
    assert thrift.addresses == cql.addresses == {"n1": "10.77.0.1"}


# ── means ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_a_local_cluster_can_and_cannot_do(cluster_of, monkeypatch):
    cluster = cluster_of()
    assert cluster.missing("signals") is cluster.missing("packets") is cluster.missing("topology") is None
    assert cluster.missing("wings") == 'the local cluster has no means for "wings"'
    monkeypatch.setattr(libfaketime, "find_library", lambda: None)
    assert cluster.missing("clock") == "clock skew needs libfaketime (Debian: apt-get install faketime)"
    monkeypatch.setattr(libfaketime, "find_library", lambda: Path("/usr/lib/libfaketime.so.1"))
    assert cluster.missing("clock") is None


def test_a_clock_is_only_skewed_where_the_run_was_planned_for_it(cluster_of):
    (node,) = cluster_of().nodes
    assert node.clock_offset() == 0
    with pytest.raises(EnvironmentLacks, match="its clock cannot be skewed"):
        node.skew_clock(10)


@pytest.mark.skipif(libfaketime.find_library() is None, reason="libfaketime is not installed")
def test_a_server_lives_by_the_clock_of_its_node(cluster_of):
    (node,) = cluster_of("date +%s", skewable_clocks=True).nodes
    node.start()
    ended(node)
    true = int(node.log_text())
    node.skew_clock(1000)
    assert node.clock_offset() == pytest.approx(1000, abs=1)
    node.start()
    ended(node)
    assert 990 < int(node.log_text()) - true < 1100
    node.skew_clock(0)
    assert node.clock_offset() == pytest.approx(0, abs=1)


# ── teardown and healing ─────────────────────────────────────────────────────────────────────────────────────────────


def a_run(folder, *, keep_data=False):
    """The folder of a run that was killed, with a node whose data lies there."""
    plan = Plan(system="cassandra:5.0.9", workloads=("create-table",), keep_data=keep_data)
    (folder / "plan.json").write_bytes(orjson.dumps(plan.to_json()))
    node = folder / "nodes" / "n1"
    (node / "data" / "ks").mkdir(parents=True)
    (node / "data" / "ks" / "rows").write_text("x")
    (node / "commitlog").mkdir()
    (node / "system-0.log").write_text("INFO")
    return node


def test_teardown_ends_nodes_and_drops_their_data_but_not_their_logs(cluster_of):
    cluster = cluster_of(STAYS)
    (node,) = cluster.nodes
    node.start()
    (folder_of(node) / "data" / "rows").write_text("x")
    cluster.stop()
    cluster.stop()
    assert node.state() == "stopped"
    assert {path.name for path in folder_of(node).iterdir()} == {"cassandra.yaml", "logback.xml", "system-0.log"}


def test_teardown_keeps_the_data_if_it_was_asked_to(cluster_of):
    cluster = cluster_of(STAYS, keep_data=True)
    (node,) = cluster.nodes
    node.start()
    (folder_of(node) / "data" / "rows").write_text("x")
    cluster.stop()
    assert (folder_of(node) / "data" / "rows").read_text() == "x"


def test_healing_ends_what_still_runs_and_drops_the_data(tmp_path):
    node = a_run(tmp_path)
    with subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"]) as left:
        identity = {"pid": 2, "start_time": process_start_time(left.pid), "host_pid": left.pid}
        (node / "process.json").write_text(json.dumps(identity))
        assert LocalProvider().heal(tmp_path) == [
            f"node n1: process {left.pid} was still running and was ended",
            "node n1: its data was deleted",
        ]
        assert left.wait(10) == -signal.SIGKILL
    assert [path.name for path in node.iterdir()] == ["system-0.log"]
    assert LocalProvider().heal(tmp_path) == []


def test_healing_ends_nobody_else_who_has_that_pid_now(tmp_path):
    node = a_run(tmp_path)
    (node / "process.json").write_text(json.dumps({"pid": 1, "start_time": "1", "host_pid": os.getpid()}))
    assert LocalProvider().heal(tmp_path) == ["node n1: its data was deleted"]


def test_healing_believes_a_process_namespace(tmp_path):
    """Pids of a process namespace mean nothing outside, and nothing of it can be left."""
    node = a_run(tmp_path)
    identity = {"pid": os.getpid(), "start_time": process_start_time(os.getpid()), "host_pid": None}
    (node / "process.json").write_text(json.dumps(identity))
    assert LocalProvider().heal(tmp_path) == ["node n1: its data was deleted"]


def test_healing_is_not_stopped_by_half_a_record(tmp_path):
    """SIGKILL may have come while it was written: then the process had just begun, and its pid is not known."""
    node = a_run(tmp_path)
    (node / "process.json").write_text('{"pid": 12')
    assert LocalProvider().heal(tmp_path) == ["node n1: its data was deleted"]
    assert not (node / "process.json").exists()


def test_healing_keeps_the_data_that_the_run_was_to_keep(tmp_path):
    node = a_run(tmp_path, keep_data=True)
    assert LocalProvider().heal(tmp_path) == []
    assert (node / "data" / "ks" / "rows").read_text() == "x"


@pytest.mark.parametrize("keep_data", [False, True])
def test_healing_takes_away_where_a_node_s_own_file_system_was_mounted(tmp_path, keep_data):
    node = a_run(tmp_path, keep_data=keep_data)
    (node / "volume").mkdir()
    LocalProvider().heal(tmp_path)
    assert not (node / "volume").exists()


def test_healing_a_run_that_never_started_a_node_does_nothing(tmp_path):
    a_run(tmp_path)
    (tmp_path / "nodes").rename(tmp_path / "elsewhere")
    assert LocalProvider().heal(tmp_path) == []


# ── what the machine lacks ───────────────────────────────────────────────────────────────────────────────────────────


def test_too_little_memory_is_told_before_anything_is_fetched(tmp_path, monkeypatch):
    def fetched(*_, **__):
        raise AssertionError("fetched although there is no memory")

    monkeypatch.setattr(local_provider, "fetch", fetched)
    monkeypatch.setattr(local_provider, "find_java", fetched)
    with pytest.raises(EnvironmentLacks, match="these nodes need about 200000 MB"):
        LocalProvider().prepare(Plan(system="cassandra:5.0.9", workloads=("w",), nodes=250), tmp_path)


def test_a_server_that_ends_between_two_looks_is_reaped(cluster_of, monkeypatch):
    (node,) = cluster_of("exit 0").nodes
    node.start()
    child = node.process._child
    with monkeypatch.context() as looks:
        looks.setattr(child, "poll", lambda: None)  # the first look, before it ended
        looks.setattr(child_process, "_state_of", lambda _pid: "stopped")  # the second
        assert node.state() == "stopped"
    assert child.returncode == 0
