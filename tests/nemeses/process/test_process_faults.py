from __future__ import annotations

import threading
import time

import pytest
from process_node import ProcessCluster

from schemaquake.harness.errors import ClusterError, HealError, NodeDied, PlanError, StartTimeout
from schemaquake.harness.model.protocols import Context
from schemaquake.harness.model.traits import lack
from schemaquake.harness.wait import until
from schemaquake.nemeses.process import rolling_restart
from schemaquake.nemeses.process.kill import Kill
from schemaquake.nemeses.process.pause import Pause
from schemaquake.nemeses.process.restart import Restart
from schemaquake.nemeses.process.rolling_restart import RollingRestart
from schemaquake.nemeses.process.stop import Stop

RUNNING = {"n1": "running", "n2": "running", "n3": "running"}


@pytest.fixture
def cluster(tmp_path):
    cluster = ProcessCluster(tmp_path)
    yield cluster
    cluster.end()


def fault(nemesis, *nodes, **options):
    """The first fault that the nemesis itself plans, moved to these nodes."""
    context = Context(
        seed=1,
        nodes=("n1", "n2", "n3"),
        options={f"{nemesis.name}.{name}": str(value) for name, value in options.items()},
    )
    planned = nemesis.schedule(context, random=context.random("test"))[0]
    return type(planned)(
        id=planned.id,
        nemesis=planned.nemesis,
        begins_s=planned.begins_s,
        ends_s=planned.ends_s,
        nodes=nodes or ("n2",),
        parameters=planned.parameters,
    )


@pytest.mark.parametrize("nemesis", [Kill(), Stop()], ids=["kill", "stop"])
def test_servers_go_down_and_come_back_as_other_processes(cluster, nemesis):
    before = cluster.pids()
    effect = nemesis.inject(cluster, fault(nemesis, "n2", "n3"))
    down = {"before": "running", "after": "stopped"}
    assert effect == {"observed": True, "nodes": {"n2": down, "n3": down}}
    assert cluster.states() == {"n1": "running", "n2": "stopped", "n3": "stopped"}
    assert cluster.nodes[1].ended_cleanly is (nemesis.name == "stop")

    healed = nemesis.heal(cluster, fault(nemesis, "n2", "n3"))
    assert {name: node["after"] for name, node in healed["nodes"].items()} == {"n2": "running", "n3": "running"}
    assert cluster.states() == RUNNING
    assert {name for name, pid in cluster.pids().items() if pid != before[name]} == {"n2", "n3"}


def test_a_frozen_server_is_the_same_process_afterwards(cluster):
    before = cluster.pids()
    frozen = Pause().inject(cluster, fault(Pause()))
    assert frozen == {"observed": True, "nodes": {"n2": {"before": "running", "after": "paused"}}}
    assert cluster.states() == RUNNING | {"n2": "paused"}
    thawed = Pause().heal(cluster, fault(Pause()))
    assert thawed == {"observed": True, "nodes": {"n2": {"before": "paused", "after": "running"}}}
    assert cluster.states() == RUNNING
    assert cluster.pids() == before


def test_a_server_that_was_woken_by_something_else_was_not_paused_for_all_that_time(cluster):
    Pause().inject(cluster, fault(Pause()))
    cluster.nodes[1].resume()
    until(lambda: cluster.nodes[1].state() == "running", deadline_s=120, what="waking")
    assert Pause().heal(cluster, fault(Pause()))["observed"] is False


def test_a_killed_server_needs_no_thawing(cluster):
    Pause().inject(cluster, fault(Pause()))
    cluster.nodes[1].kill()
    assert Pause().heal(cluster, fault(Pause()))["nodes"] == {"n2": {"before": "stopped", "after": "stopped"}}


def test_a_server_that_cannot_be_frozen_is_told(cluster, monkeypatch):
    monkeypatch.setattr("schemaquake.nemeses.process.serving._STATE_LIMIT_S", 0.1)
    cluster.nodes[1].kill()
    with pytest.raises(ClusterError, match=r"pausing servers: n2: state paused of n2 did not come about"):
        Pause().inject(cluster, fault(Pause()))


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_restart_is_another_process_that_serves_when_healed(cluster, how):
    before = cluster.pids()
    planned = fault(Restart(), "n1", how=how)
    effect = Restart().inject(cluster, planned)
    assert effect == {"observed": True, "nodes": {"n1": {"before": "running", "after": "stopped"}}}
    assert cluster.nodes[0].starts == 2
    healed = Restart().heal(cluster, planned)
    assert healed["nodes"]["n1"]["after"] == "running"
    assert cluster.nodes[0].starts == 2
    assert {name for name, pid in cluster.pids().items() if pid != before[name]} == {"n1"}


@pytest.mark.parametrize(
    "nemesis", [Kill(), Stop(), Pause(), Restart(), RollingRestart()], ids=lambda nemesis: nemesis.name
)
def test_healing_what_never_happened_disturbs_no_server(cluster, nemesis):
    before = cluster.pids()
    nemesis.heal(cluster, fault(nemesis, "n1", "n2", "n3"))
    assert cluster.pids() == before
    assert cluster.states() == RUNNING


@pytest.mark.parametrize("nemesis", [Kill(), Stop(), Restart(), RollingRestart()], ids=lambda nemesis: nemesis.name)
def test_a_fresh_process_heals_what_a_dead_one_left(cluster, nemesis):
    # A harness that was killed in the middle: the server is down, and nobody remembers an injection.
    cluster.nodes[1].kill()
    type(nemesis)().heal(cluster, fault(nemesis, "n2", "n3"))
    assert cluster.states() == RUNNING


@pytest.mark.parametrize("nemesis", [Kill(), Stop(), Restart(), RollingRestart()], ids=lambda nemesis: nemesis.name)
def test_a_server_that_does_not_come_back_is_told_with_its_first_error(cluster, nemesis):
    (cluster.nodes[1].folder / "broken").write_text("Unknown type k.u")
    nemesis.inject(cluster, fault(nemesis, "n2"))
    with pytest.raises(
        HealError, match=r"n2: it ended while starting, exit code 3; its log says: ERROR Unknown type"
    ) as raised:
        nemesis.heal(cluster, fault(nemesis, "n2"))
    assert isinstance(raised.value.__cause__, NodeDied)
    assert raised.value.__cause__.first_error == "ERROR Unknown type k.u"


def test_a_server_that_hangs_while_starting_is_told(cluster):
    (cluster.nodes[1].folder / "slow").touch()
    planned = fault(Kill(), "n2", serving_limit_s=0.5)
    Kill().inject(cluster, planned)
    with pytest.raises(HealError, match=r"n2: it did not serve within 0.5 s") as raised:
        Kill().heal(cluster, planned)
    assert isinstance(raised.value.__cause__, StartTimeout)


def test_one_dead_server_does_not_keep_the_others_down(cluster):
    (cluster.nodes[0].folder / "broken").write_text("Unknown type k.u")
    Kill().inject(cluster, fault(Kill(), "n1", "n2", "n3"))
    with pytest.raises(HealError, match="n1: it ended"):
        Kill().heal(cluster, fault(Kill(), "n1", "n2", "n3"))
    assert cluster.states() == {"n1": "stopped", "n2": "running", "n3": "running"}


def test_a_rolling_restart_takes_one_server_after_another(cluster):
    before = cluster.pids()
    nemesis = RollingRestart()
    planned = fault(nemesis, "n3", "n1", "n2")
    assert nemesis.inject(cluster, planned)["nodes"] == {"n3": {"before": "running", "after": "stopped"}}
    down_together = 0

    def all_restarted():
        nonlocal down_together
        down_together = max(down_together, sum(state == "stopped" for state in cluster.states().values()))
        return all(node.starts == 2 for node in cluster.nodes)

    until(all_restarted, deadline_s=30, what="three restarts", every_s=0.005)
    healed = nemesis.heal(cluster, planned)
    assert healed["restarted"] == ["n3", "n1", "n2"]
    assert healed["observed"] is True
    assert down_together <= 1
    assert all(pid != before[name] for name, pid in cluster.pids().items())
    assert cluster.states() == RUNNING


def test_a_rolling_restart_that_is_healed_early_finishes_the_server_it_is_at(cluster):
    nemesis = RollingRestart()
    planned = fault(nemesis, "n1", "n2", "n3", how="kill")
    nemesis.inject(cluster, planned)
    began = time.monotonic()
    healed = nemesis.heal(cluster, planned)
    assert healed["restarted"] == ["n1"]
    assert [node.starts for node in cluster.nodes] == [2, 1, 1]
    assert time.monotonic() - began < 20


def test_a_rolling_restart_that_broke_off_is_healed_again_and_says_what_it_restarted(cluster, monkeypatch):
    nemesis = RollingRestart()
    planned = fault(nemesis, "n1", "n2", "n3", how="kill")
    bring_back = rolling_restart.bring_back
    broken = threading.Event()

    def dies(nodes, **limits):
        if nodes[0].name == "n2" and not broken.is_set():
            broken.set()
            raise HealError("n2: it left the ring")
        return bring_back(nodes, **limits)

    monkeypatch.setattr(rolling_restart, "bring_back", dies)
    nemesis.inject(cluster, planned)
    assert broken.wait(30)
    with pytest.raises(HealError, match="the rolling restart broke off: n2: it left the ring"):
        nemesis.heal(cluster, planned)
    healed = nemesis.heal(cluster, planned)
    assert (healed["observed"], healed["restarted"]) == (True, ["n1"])
    assert cluster.states() == RUNNING
    assert RollingRestart().heal(cluster, planned)["observed"] is False  # by another process


def test_a_node_that_the_cluster_does_not_have_is_refused(cluster):
    with pytest.raises(PlanError, match='there is no node "n7" in this cluster'):
        Kill().inject(cluster, fault(Kill(), "n7"))


@pytest.mark.parametrize(
    "nemesis", [Kill(), Stop(), Pause(), Restart(), RollingRestart()], ids=lambda nemesis: nemesis.name
)
def test_a_cluster_without_signals_has_none_of_these(cluster, nemesis):
    assert lack(nemesis, cluster) is None
    cluster.missing = lambda means: f"{means} are not allowed"
    assert lack(nemesis, cluster) == "signals are not allowed"
