from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from here_transport import HereTransport
from places import SUPPORT
from ports import next_port
from scripted_cql import ScriptedCql
from scylla_node import Rest, serving

from schemaquake.clusters.nodes.client_port import ClientPort
from schemaquake.clusters.nodes.cluster import DeployedCluster
from schemaquake.clusters.nodes.guard import Guard, Guards
from schemaquake.clusters.nodes.keyspaces import made_by
from schemaquake.clusters.nodes.lease import Lease, Leases
from schemaquake.clusters.nodes.ledger_healer import heal_by_ledger
from schemaquake.clusters.nodes.node import ServerData, ServerNode, deployed_node
from schemaquake.clusters.nodes.service import process
from schemaquake.clusters.nodes.terms import RunOnNodes
from schemaquake.clusters.systems.scylladb.read_barrier import Group0Barrier
from schemaquake.clusters.systems.system import parse_system
from schemaquake.harness.errors import ClusterError, HealError
from schemaquake.harness.faults.executor import FaultExecutor, FaultFailed
from schemaquake.harness.faults.healing import heal_open
from schemaquake.harness.faults.ledger import FILE_NAME, Ledger
from schemaquake.harness.model.protocols import Fault, Guarded
from schemaquake.harness.wait import until
from schemaquake.nemeses.process.kill import Kill
from schemaquake.nemeses.process.pause import Pause

SERVER = SUPPORT / "stand_in_server.py"
CASSANDRA = parse_system("cassandra:5.0.9")
AGREED = {"_AGREEMENT_LIMIT_S": 0.3, "_WHOLE_LIMIT_S": 0.3}


class Ring:
    """Three servers on three addresses of this machine's, each its own node."""

    def __init__(self, tmp_path: Path, *, max_fault_s: float = 60) -> None:
        self.port = next_port()
        self.folder = tmp_path / "run"
        self.places = {f"n{i}": tmp_path / f"n{i}" for i in (1, 2, 3)}
        self.ways = {name: HereTransport(place) for name, place in self.places.items()}
        addresses = {name: f"127.0.77.{name[1:]}" for name in self.places}
        self.cql = ScriptedCql(addresses)
        self.system = CASSANDRA
        self.max_fault_s = max_fault_s
        (self.folder / "journals").mkdir(parents=True)
        for name in self.places:
            node = self.node(name)
            node.prepare()
            node.start()
        for name in self.places:
            assert self.node(name).await_serving(deadline_s=20).served

    def node(self, name: str) -> ServerNode:
        place = self.places[name]
        state = str(place / "state" / "r1")
        address = self.cql.addresses[name]
        log = str(place / "system.log")
        command = [sys.executable, "-IS", str(SERVER), address, str(self.port), log]
        service = process(command, state, place=str(place / "server"))
        return deployed_node(
            name,
            ClientPort(address=address, port=self.port, protocol_version=4),
            self.ways[name],
            service,
            folder=state,
            logs=[log],
            data=ServerData(folders=[str(place / "data")]),
            keeps=self.folder / "nodes" / name,
        )

    def leases(self, run: str = "r1") -> Leases:
        each = {
            name: Lease(self.ways[name], run=run, state=str(place / "state"), place=str(place / "lease"))
            for name, place in self.places.items()
        }
        return Leases(each, max_fault_s=self.max_fault_s)

    def cluster(self, leases: Leases | None = None, **changes) -> DeployedCluster:
        nodes = [self.node(name) for name in self.places]
        guards = {
            node.name: Guard(node.transport, state=str(self.places[node.name] / "state"), run="r1", verbs=node.undoing)
            for node in nodes
        }
        settings = {"folder": self.folder, "prefix": "sq", "begins": "serving", "start_timeout_s": 20, **changes}
        run = RunOnNodes(**settings)
        guarded = Guards(guards, max_fault_s=self.max_fault_s)
        return DeployedCluster(nodes, self.system, self.cql, guarded, run, leases=leases)

    def made(self, *keyspaces: str) -> None:
        """The run writes down that it asks for these, and they come into being."""
        with (self.folder / "journals" / "events-w0.jsonl").open("ab") as journal:
            for name in keyspaces:
                value = orjson.dumps({"keyspace": name, "replication": {}}).decode()
                event = {
                    "time": 1,
                    "process": 0,
                    "type": "invoke",
                    "f": "create-keyspace",
                    "node": "n1",
                    "value": value,
                }
                journal.write(orjson.dumps(event) + b"\n")
                self.cql.keyspaces.add(name)

    def states(self) -> dict[str, str]:
        return {name: self.node(name).state() for name in self.places}

    def files(self) -> list[str]:
        """What a run has left on the nodes."""
        return sorted(str(path.relative_to(p)) for p in self.places.values() for path in p.glob("state/r1/**/*"))


@pytest.fixture
def ring(tmp_path, monkeypatch):
    for name, seconds in AGREED.items():
        monkeypatch.setattr(f"schemaquake.clusters.nodes.cluster.{name}", seconds)
    ring = Ring(tmp_path)
    for name in ring.places:
        ring.node(name).folder.remove()
    yield ring
    for name, way in ring.ways.items():
        way.cut = False
        ring.node(name).kill()


# ── before and after ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_whole_cluster_is_taken_as_it_is_and_left_as_it_was(ring):
    cluster = ring.cluster()
    pids = {name: ring.node(name).process.pid() for name in ring.places}
    boots = cluster.start()
    assert [(boot.node, boot.served) for boot in boots] == [("n1", True), ("n2", True), ("n3", True)]
    cluster.stop()
    cluster.stop()
    assert ring.files() == []
    assert ring.cql.sent == []
    assert {name: ring.node(name).process.pid() for name in ring.places} == pids
    assert all(way.closed for way in ring.ways.values())


def refusal(ring, **changes):
    cluster = ring.cluster(**changes)
    with pytest.raises(ClusterError) as caught:
        cluster.start()
    cluster.stop()  # nothing was whole before, so nothing is asked of the end
    assert ring.files() == []
    assert ring.cql.sent == []
    return str(caught.value)


def test_a_server_that_does_not_run_is_named(ring):
    ring.node("n2").kill()
    assert "the server of n2 is stopped" in refusal(ring)


def test_a_frozen_server_is_named(ring):
    ring.node("n3").pause()
    until(lambda: ring.states()["n3"] == "paused", deadline_s=120, what="a pause")
    assert "the server of n3 is paused" in refusal(ring)


def test_nodes_that_disagree_on_the_schema_are_named_with_their_versions(ring):
    ring.cql.versions["n2"] = "v2"
    assert "n1 has v1, n2 has v2, n3 has v1" in refusal(ring)


def test_a_node_that_does_not_know_another_is_named(ring):
    ring.cql.unknown.add(("n3", "n1"))
    assert "n3 does not know n1" in refusal(ring)


def test_a_node_that_takes_another_for_dead_is_named(ring):
    cluster = ring.cluster()
    cluster.start()
    says = "INFO  [GossipStage:1] 2026-01-01 09:00:00,1 Gossiper.java:1 - Node /127.0.77.2:7000 is now {}\n"
    with (ring.places["n1"] / "system.log").open("a") as log:
        log.write(says.format("DOWN"))
    assert cluster.await_whole(["n1", "n2", "n3"], deadline_s=0.1) == "n1 does not take n2 for alive"
    assert cluster.await_whole(["n1", "n3"], deadline_s=0.1) is None
    with (ring.places["n1"] / "system.log").open("a") as log:
        log.write(says.format("UP"))
    assert cluster.await_whole(["n1", "n2", "n3"], deadline_s=0.1) is None
    cluster.stop()


def test_a_server_that_was_started_here_must_have_heard_of_all_the_others(ring):
    cluster = ring.cluster()
    cluster.start()
    node = cluster.nodes[0]
    node.kill()
    node.start()
    assert node.await_serving(deadline_s=20).served
    with (ring.places["n1"] / "system.log").open("a") as log:
        log.write("INFO  [x] 2026-01-01 09:00:00,1 Gossiper.java:1 - InetAddress /127.0.77.2:7000 is now UP\n")
    assert cluster.await_whole(["n1", "n2", "n3"], deadline_s=0.1) == "n1 does not take n3 for alive"
    with pytest.raises(ExceptionGroup):
        cluster.stop()


def test_a_node_that_accepts_no_session_is_named(ring):
    ring.cql.deaf.add("n2")
    assert "node n2 did not accept a session" in refusal(ring)


def test_keyspaces_of_an_earlier_run_are_refused_with_the_statements_that_drop_them(ring):
    ring.cql.keyspaces |= {"sq_old", "sq_older", "squirrel", "system"}
    words = refusal(ring)
    assert "sq_old, sq_older." in words
    assert "DROP KEYSPACE sq_old; DROP KEYSPACE sq_older;" in words
    assert "squirrel" not in words


def test_what_is_wrong_at_the_end_is_told_and_the_files_are_removed_nevertheless(ring):
    cluster = ring.cluster()
    cluster.start()
    ring.cql.versions["n1"] = "v9"
    with pytest.raises(ExceptionGroup) as caught:
        cluster.stop()
    assert "n1 has v9" in str(caught.value.exceptions[0])
    assert ring.files() == []


# ── keyspaces ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_run_s_keyspaces_are_dropped_and_no_others(ring):
    cluster = ring.cluster()
    cluster.start()
    ring.cql.keyspaces.add("theirs")
    ring.made("sq_a", "sq_b")
    cluster.stop()
    assert ring.cql.keyspaces == {"theirs"}
    assert ring.cql.sent == ["DROP KEYSPACE IF EXISTS sq_a", "DROP KEYSPACE IF EXISTS sq_b"]


def test_a_keyspace_under_the_prefix_that_the_run_did_not_make_is_left_and_told(ring):
    cluster = ring.cluster()
    cluster.start()
    ring.made("sq_a")
    ring.cql.keyspaces.add("sq_of_somebody_s")
    with pytest.raises(ExceptionGroup) as caught:
        cluster.stop()
    assert "sq_of_somebody_s" in str(caught.value.exceptions[0])
    assert ring.cql.keyspaces == {"sq_of_somebody_s"}


def test_keyspaces_that_cannot_be_dropped_are_told_by_name_and_why(ring):
    cluster = ring.cluster()
    cluster.start()
    ring.made("sq_a")
    ring.cql.refuses = "OperationTimedOut"
    with pytest.raises(ExceptionGroup) as caught:
        cluster.stop()
    assert "sq_a (OperationTimedOut)" in str(caught.value.exceptions[0])


def test_data_that_is_to_be_kept_is_kept(ring):
    cluster = ring.cluster(keep_data=True)
    cluster.start()
    ring.made("sq_a")
    cluster.stop()
    assert ring.cql.keyspaces == {"sq_a"}


def test_keyspaces_are_known_from_journals_that_end_in_a_torn_line(ring):
    ring.made("sq_a")
    with (ring.folder / "journals" / "events-w0.jsonl").open("ab") as journal:
        journal.write(b'{"type":"invoke","f":"create-keyspace","value":"{\\"keys')
    assert made_by(ring.folder) == {"sq_a"}


# ── logs ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_logs_of_the_run_are_brought_here_and_what_was_said_before_it_is_not(ring):
    cluster = ring.cluster()
    cluster.start()
    with (ring.places["n2"] / "system.log").open("a") as log:
        log.write("WARN  [x] 2026-01-01 09:00:00,1 Y.java:1 - during the run\n")
    cluster.stop()
    kept = (ring.folder / "nodes" / "n2" / "system-0.log").read_text()
    assert "during the run" in kept
    assert "listening" not in kept


# ── guards, and mending after a death ────────────────────────────────────────────────────────────────────────────────


def a_fault(nemesis, *nodes):
    parameters = {"serving_limit_s": 20}
    return Fault(id=0, nemesis=nemesis.name, begins_s=0, ends_s=5, nodes=nodes, parameters=parameters)


def injected(ring, nemesis, *nodes, **changes):
    """A harness that dies right after it has injected a fault."""
    cluster = ring.cluster(**changes)
    cluster.start()
    assert isinstance(cluster, Guarded)
    ledger = Ledger(ring.folder / FILE_NAME)
    FaultExecutor(cluster, ledger, note=lambda *_: None).inject(nemesis, a_fault(nemesis, *nodes))
    ledger.close()
    return cluster


@pytest.mark.parametrize(("nemesis", "broken"), [(Kill(), "stopped"), (Pause(), "paused")])
def test_nodes_mend_themselves_when_the_harness_is_gone(ring, nemesis, broken):
    ring.max_fault_s = 8
    injected(ring, nemesis, "n2")
    assert ring.states() == {"n1": "running", "n2": broken, "n3": "running"}
    until(lambda: ring.states()["n2"] == "running", deadline_s=120, what="mending")
    assert heal_by_ledger(ring.cluster(), ring.folder / FILE_NAME, keep_data=False)
    assert ring.files() == []


@pytest.mark.parametrize("nemesis", [Kill(), Pause()])
def test_a_healing_from_elsewhere_mends_at_once_and_twice_is_harmless(ring, nemesis):
    injected(ring, nemesis, "n2")
    ring.made("sq_a")
    done = heal_by_ledger(ring.cluster(), ring.folder / FILE_NAME, keep_data=False)
    assert any("marked as healed" in sentence for sentence in done)
    assert "keyspace sq_a: dropped" in done
    assert ring.files() == []
    assert heal_by_ledger(ring.cluster(), ring.folder / FILE_NAME, keep_data=False) == []
    assert ring.states() == dict.fromkeys(ring.places, "running")


def test_what_cannot_be_reached_is_told_stays_open_and_is_mended_the_next_time(ring):
    injected(ring, Kill(), "n1", "n2")
    ring.ways["n2"].cut = True
    with pytest.raises(HealError, match="n2"):
        heal_by_ledger(ring.cluster(), ring.folder / FILE_NAME, keep_data=False)
    assert ring.node("n1").state() == "running"
    ledger = Ledger(ring.folder / FILE_NAME)
    assert [entry.state for entry in ledger.open_faults()] == ["failed"]
    ledger.close()
    ring.ways["n2"].cut = False
    heal_by_ledger(ring.cluster(), ring.folder / FILE_NAME, keep_data=False)
    assert ring.files() == []
    assert ring.states() == dict.fromkeys(ring.places, "running")


def test_a_cluster_that_stops_with_a_fault_in_place_leaves_its_guards(ring):
    cluster = injected(ring, Pause(), "n3")
    with pytest.raises(ExceptionGroup) as caught:
        cluster.stop()
    assert any("schemaquake heal" in str(error) for error in caught.value.exceptions)
    assert any("guard" in name for name in ring.files())
    heal_by_ledger(ring.cluster(), ring.folder / FILE_NAME, keep_data=False)


def test_servers_that_the_harness_restarts_are_started_by_the_nodes_if_it_dies(ring):
    ring.max_fault_s = 6
    cluster = ring.cluster()
    cluster.start()
    ledger = Ledger(ring.folder / FILE_NAME)
    executor = FaultExecutor(cluster, ledger, note=lambda *_: None)
    restart = Fault(
        id=1,
        nemesis="restart",
        begins_s=0,
        ends_s=20,
        nodes=("n1",),
        parameters={"how": "kill", "stop_limit_s": 20, "serving_limit_s": 20},
    )
    died = ExitStack()
    died.enter_context(executor.guarded_restart(restart))
    cluster.nodes[0].kill()
    died.pop_all()  # nobody comes to leave the block
    assert ring.states()["n1"] == "stopped"
    until(lambda: ring.states()["n1"] == "running", deadline_s=120, what="the guard's start")
    assert len(heal_open(ring.cluster(), ledger).done) == 1
    ledger.close()


# ── one run a host ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_of_two_runs_on_one_host_the_second_does_not_begin(ring):
    first = ring.cluster(leases=ring.leases("r1"))
    first.start()
    second = ring.cluster(leases=ring.leases("r2"))
    with pytest.raises(ClusterError, match=r"run r1 of .* holds this host for another \d+ s"):
        second.start()
    second.stop()
    first.stop()
    third = ring.cluster(leases=ring.leases("r3"))
    third.start()
    third.stop()
    assert ring.files() == []
    assert [place for place in ring.places.values() if (place / "lease").exists()] == []


def test_a_run_that_lost_its_hosts_injects_nothing_any_more(ring):
    cluster = ring.cluster(leases=ring.leases("r1"))
    cluster.start()
    for place in ring.places.values():
        (place / "lease").unlink()
    ring.leases("r2").take()
    ledger = Ledger(ring.folder / FILE_NAME)
    executor = FaultExecutor(cluster, ledger, note=lambda *_: None)
    with pytest.raises(FaultFailed, match=r"could not be armed: .*run r2 of"):
        executor.inject(Kill(), a_fault(Kill(), "n2"))
    ledger.close()
    assert ring.states() == dict.fromkeys(ring.places, "running")
    assert not any("fault-" in name for name in ring.files())
    cluster.stop()


def test_a_run_that_slept_until_another_took_its_hosts_does_not_heal_there_what_is_the_other_s(ring):
    cluster = ring.cluster(leases=ring.leases("r1"))
    cluster.start()
    ledger = Ledger(ring.folder / FILE_NAME)
    executor = FaultExecutor(cluster, ledger, note=lambda *_: None)
    executor.inject(Pause(), a_fault(Pause(), "n2"))
    for place in ring.places.values():
        (place / "lease").unlink()
    ring.leases("r2").take_to_heal()
    with pytest.raises(HealError, match=r"run r2 of"):
        executor.heal(0)
    assert ring.states()["n2"] == "paused"
    for name in ring.places:
        ring.leases("r2").release(name)
    executor.heal(0)
    assert ring.states()["n2"] == "running"
    ledger.close()
    cluster.stop()


def test_a_healing_waits_for_no_dead_run_but_disturbs_no_living_one(ring):
    cluster = injected(ring, Pause(), "n2", leases=ring.leases("r1"))
    healer = ring.cluster(leases=ring.leases("r1"))
    assert heal_by_ledger(healer, ring.folder / FILE_NAME, keep_data=False)
    assert [place for place in ring.places.values() if (place / "lease").exists()] == []
    other = ring.cluster(leases=ring.leases("r2"))
    other.start()
    with pytest.raises(HealError, match=r"it would disturb another run: .*run r2 of"):
        heal_by_ledger(ring.cluster(leases=ring.leases("r1")), ring.folder / FILE_NAME, keep_data=False)
    other.stop()
    with pytest.raises(ExceptionGroup):
        cluster.stop()  # it knows nothing of the healing


# ── ScyllaDB ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def scylladb(port):
    """ScyllaDB whose REST interface is at that port."""
    system = parse_system("scylladb:6.2")
    return replace(system, cql=replace(system.cql, barrier=Group0Barrier(port)))


def test_nodes_of_group_0_are_had_to_catch_up_on_the_nodes_themselves(ring):
    rest = Rest()
    with serving(rest) as (_, port):
        ring.system = scylladb(port)
        told = ring.cluster().catch_up(["n1", "n3"])
    assert {name: how["passed"] for name, how in told.items()} == {"n1": True, "n3": True}
    assert rest.asked == [("POST", "/raft/read_barrier?timeout=10")] * 2


def test_who_could_not_catch_up_says_why(ring):
    with serving(Rest(quorum=False)) as (_, port):
        ring.system = scylladb(port)
        told = ring.cluster().catch_up(["n1"])["n1"]
        assert told["passed"] is False
        assert "500" in told["why"]
        ring.ways["n1"].cut = True
        assert "n1" in ring.cluster().catch_up(["n1"])["n1"]["why"]
    ring.ways["n1"].cut = False
    nobody = ring.cluster().catch_up(["n1"])["n1"]
    assert nobody["passed"] is False
    assert "connect" in nobody["why"]


def test_nodes_of_cassandra_have_nothing_to_catch_up_with(ring):
    assert ring.cluster().catch_up(["n1", "n2", "n3"]) == {}
