"""What nodes carry out by themselves when nobody heals: it undoes exactly the fault, before it, after it and twice."""

from __future__ import annotations

import os
import stat
import subprocess
from dataclasses import replace

import pytest
from test_partition import APART, MEANS, leftovers, links, partition, without

from schemaquake.harness.errors import ClusterError
from schemaquake.harness.model.protocols import Fault, Guarded, TopologyNemesis, Undo, Undoable
from schemaquake.harness.model.traits import nemesis_traits
from schemaquake.harness.registry import load_all
from schemaquake.nemeses.clock.clock_skew import ClockSkew
from schemaquake.nemeses.network import netem, packet_filter
from schemaquake.nemeses.network.drops import Drop
from schemaquake.nemeses.network.netem import Impairment
from schemaquake.nemeses.network.packet_loss import PacketLoss
from schemaquake.nemeses.network.partition import Partition
from schemaquake.nemeses.process.kill import Kill
from schemaquake.nemeses.process.pause import Pause
from schemaquake.nemeses.process.restart import Restart
from schemaquake.nemeses.process.rolling_restart import RollingRestart
from schemaquake.nemeses.process.stop import Stop

WHOLE = {"n1-n2", "n1-n3", "n2-n3"}


def tagged(fault, tag):
    return replace(fault, parameters={**fault.parameters, "tag": tag})


def loss(share=1.0):
    parameters = {"grudge": APART, "ports": "storage", "loss": share, "delay_ms": 0.0, "jitter_ms": 0.0}
    return Fault(id=3, nemesis="packet-loss", begins_s=0, ends_s=9, nodes=tuple(APART), parameters=parameters)


def carry_out(network, undo):
    """As a guard does it: every command, whether or not the one before failed."""
    for node in network.nodes:
        for step in undo.get(node.name, ()):
            assert step.verb is None
            node.exec(step.argv)


def is_whole(network, undo):
    """As a guard reads it back, which changes nothing."""
    steps = [(node, step) for node in network.nodes for step in undo.get(node.name, ())]
    assert all(step.whole for _, step in steps)
    return all(node.exec(step.whole).exit_code == 0 for node, step in steps)


@pytest.mark.parametrize("means", sorted(MEANS))
def test_nodes_rid_themselves_of_a_partition(network, means):
    without(network, means)
    fault = tagged(partition(APART, ports="all"), "0b1e")
    undo = Partition().undo(network, fault)
    assert set(undo) == {"n1", "n2", "n3"}
    carry_out(network, undo)
    assert is_whole(network, undo)
    Partition().inject(network, fault)
    assert not is_whole(network, undo)
    assert links(network, 7000) == {"n2-n3"}
    assert all("0b1e" in line or "02:73:0b:1e:00:03" in line for line in leftovers(network))
    carry_out(network, undo)
    assert links(network, 7000) == WHOLE
    assert leftovers(network) == []
    carry_out(network, undo)
    assert is_whole(network, undo)
    assert Partition().heal(network, fault) == {"observed": False, "packets": 0, "nodes": {}}


@pytest.mark.parametrize("means", ["iptables", "nft"])
def test_nodes_rid_themselves_of_packet_loss(network, means):
    without(network, means)
    fault = tagged(loss(), "ffff")
    PacketLoss().inject(network, fault)
    assert links(network, 7000) == {"n2-n3"}
    carry_out(network, PacketLoss().undo(network, fault))
    assert links(network, 7000) == WHOLE
    assert leftovers(network) == []


@pytest.mark.parametrize("means", sorted(MEANS))
def test_the_same_fault_of_another_run_stays(network, means):
    without(network, means)
    ours = tagged(partition({"n1": ["n2"]}, ports="all"), "aaaa")
    theirs = tagged(partition({"n1": ["n3"]}, ports="all"), "bbbb")
    Partition().inject(network, ours)
    Partition().inject(network, theirs)
    assert links(network, 7000) == {"n2-n3"}
    carry_out(network, Partition().undo(network, ours))
    assert links(network, 7000) == {"n1-n2", "n2-n3"}
    Partition().heal(network, theirs)
    assert links(network, 7000) == WHOLE
    assert leftovers(network) == []


@pytest.mark.parametrize("means", ["iptables", "nft"])
def test_an_injection_that_a_guard_overtakes_fails_and_leaves_nothing(network, means):
    """A guard that fires in the middle: what the harness sends after that must fail, not cut."""
    without(network, means)
    node = network.nodes[0]
    fault = partition({"n1": ["n2"]})
    undo = Partition().undo(network, fault)

    class Interrupted:
        name, address = node.name, node.address

        def exec(self, argv, **options):
            if "-I" in argv or argv[-3:-1] == ("table", "inet"):
                for step in undo["n1"]:
                    node.exec(step.argv)
            return node.exec(argv, **options)

    network.nodes[0] = Interrupted()
    with pytest.raises(ClusterError, match="failed on n1"):
        Partition().inject(network, fault)
    network.nodes[0] = node
    carry_out(network, undo)
    assert leftovers(network) == []


def test_the_longest_name_that_a_run_gives_is_one_that_iptables_takes(network):
    what = Drop(fault_id=99_999, tag="ffff")
    assert packet_filter.missing(network, what) is None
    fault = replace(tagged(partition({"n1": ["n2"]}), "ffff"), id=99_999)
    Partition().inject(network, fault)
    assert "n1-n2" not in links(network, 7000)
    Partition().heal(network, fault)
    assert leftovers(network) == []


def test_an_owner_s_own_neighbour_entry_is_neither_replaced_nor_deleted(network):
    without(network, "neighbour")
    n1 = network.nodes[0]
    theirs = ["10.99.0.2", "dev", "eth0", "lladdr", "02:00:00:00:00:99", "nud", "permanent"]
    assert n1.exec(["ip", "neigh", "replace", *theirs]).exit_code == 0
    with pytest.raises(ClusterError, match=r"n1 has permanent neighbour entries of its own for 10\.99\.0\.2"):
        Partition().inject(network, partition(APART))
    carry_out(network, Partition().undo(network, partition(APART)))
    Partition().heal(network, partition(APART))
    assert "02:00:00:00:00:99" in n1.exec(["ip", "neigh", "show", "nud", "permanent"]).stdout
    assert leftovers(network) == []


def test_on_a_cluster_that_is_somebody_s_a_cut_of_one_port_is_never_made_a_cut_of_everything(network):
    class Somebody_s(type(network)):  # noqa: N801 - it says whose it is
        max_fault_s = 60.0

        def arm(self, fault, undo):
            raise NotImplementedError

        disarm = expired = arm

    without(network, "neighbour")
    assert Partition().missing(network) is None
    network.__class__ = Somebody_s
    assert isinstance(network, Guarded)
    assert "node n1 has no means to drop packets" in Partition().missing(network)
    with pytest.raises(ClusterError, match="no means to drop packets"):
        Partition().inject(network, partition(APART))
    assert leftovers(network) == []
    everything = partition(APART, ports="all")
    assert Partition(ports="all").missing(network) is None
    Partition().inject(network, everything)
    carry_out(network, Partition().undo(network, everything))
    assert links(network, 7000) == WHOLE


# ── network emulators: not every kernel has them, so `tc` is played ──────────────────────────────────────────────────


@pytest.fixture
def tc(tmp_path, monkeypatch):
    """A `tc` that shows these devices and writes down what it was asked."""
    shown = tmp_path / "shown"
    script = tmp_path / "tc"
    script.write_text(f'#!/bin/sh\necho "$*" >> {tmp_path}/asked\n[ "$*" != "qdisc show" ] || cat {shown}\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    def asked(lines):
        shown.write_text(lines)
        for step in netem.undo(Impairment(fault_id=7, tag="0010")):
            subprocess.run(step.argv, check=True)
        return (tmp_path / "asked").read_text().splitlines()

    return asked


def test_only_the_fault_s_own_emulators_are_taken_away_on_whichever_device(tc):
    assert Impairment(fault_id=7, tag="0010").root == "1017:"
    assert tc(
        "qdisc noqueue 0: dev lo root refcnt 2 \n"
        "qdisc prio 1017: dev eth0 root refcnt 9 bands 4 priomap 1 2 2 2\n"
        "qdisc netem 7371: dev eth0 parent 1017:4 limit 20000 loss 20%\n"
        "qdisc prio 1018: dev eth1 root refcnt 9 bands 4 priomap 1 2 2 2\n"
        "qdisc prio 1017: dev bond0 root refcnt 9 bands 4 priomap 1 2 2 2\n"
        "qdisc pfifo_fast 0: dev eth2 parent 1017:1 bands 3\n"
    ) == ["qdisc show", "qdisc del dev eth0 root handle 1017:", "qdisc del dev bond0 root handle 1017:"]


def test_where_no_emulator_stands_none_is_taken_away(tc):
    assert tc("qdisc fq_codel 8001: dev eth0 root refcnt 2 limit 10240p\n") == ["qdisc show"]


def test_nodes_rid_themselves_of_emulators_as_well_as_of_rules(network):
    undo = PacketLoss().undo(network, loss())
    for name in APART:
        assert undo[name][-1:] == netem.undo(Impairment(fault_id=3))


# ── servers and clocks ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("nemesis", "verbs"),
    [
        (Kill(), ["resume", "start"]),
        (Stop(), ["resume", "start"]),
        (Restart(), ["resume", "start"]),
        (RollingRestart(), ["resume", "start"]),
        (Pause(), ["resume"]),
        (ClockSkew(), ["clock"]),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_servers_and_clocks_are_undone_by_what_each_node_knows(nemesis, verbs):
    fault = Fault(id=1, nemesis=nemesis.name, begins_s=0, ends_s=1, nodes=("n1", "n3"))
    steps = [Undo(verb=verb) for verb in verbs]
    assert nemesis.undo(None, fault) == {"n1": steps, "n3": steps}


def test_every_registered_nemesis_of_ours_can_be_guarded():
    ours = {
        name: nemesis
        for name, nemesis in load_all("nemeses").items()
        if type(nemesis).__module__.startswith("schemaquake.nemeses.") and not isinstance(nemesis, TopologyNemesis)
    }
    assert len(ours) >= 8
    unguarded = [name for name, nemesis in ours.items() if not isinstance(nemesis, Undoable)]
    assert set(unguarded) == {"fill-disk", "read-only-disk"}
    # No word allows these on nodes that outlive the run.
    assert all(nemesis_traits(ours[name]).allowed_by is None for name in unguarded)


def test_the_tools_that_no_rule_needs_are_not_missed(network):
    """A node without nft or ip6tables fails those commands and carries out the others."""
    network.nodes[0].lacks = {"nft", "ip6tables"}
    Partition().inject(network, partition(APART))
    carry_out(network, Partition().undo(network, partition(APART)))
    assert leftovers(network) == []
