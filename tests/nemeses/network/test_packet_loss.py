from __future__ import annotations

import subprocess

import pytest

from schemaquake.harness.errors import ClusterError
from schemaquake.harness.model.protocols import Context, Fault
from schemaquake.nemeses.network import netem
from schemaquake.nemeses.network.packet_loss import PacketLoss

MESH = {"n1": ["n2", "n3"], "n2": ["n1"], "n3": ["n1"]}
FILTERS = {"iptables", "ip6tables", "nft"}


def loss(share=0.25, *, ports="storage", delay_ms=0.0, jitter_ms=0.0):
    parameters = {"grudge": MESH, "ports": ports, "loss": share, "delay_ms": delay_ms, "jitter_ms": jitter_ms}
    return Fault(id=6, nemesis="packet-loss", begins_s=0, ends_s=9, nodes=("n1", "n2", "n3"), parameters=parameters)


def emulated(network):
    """The same network without packet filters; skips where the kernel has no network emulator."""
    for node in network.nodes:
        node.lacks = set(FILTERS)
    made = subprocess.run(
        ["unshare", "--net", "tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms"],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode != 0:
        pytest.skip(f"no network emulator here: {made.stderr.strip()}")
    assert netem.refusal(network.nodes[0]) is None
    return network


def emulators(network):
    shown = [node.exec(["tc", "qdisc", "show"]).stdout for node in network.nodes]
    return [line for text in shown for line in text.splitlines() if "netem" in line or "7371:" in line]


@pytest.mark.parametrize("means", ["iptables", "nft"])
def test_some_packets_of_the_storage_port_are_lost_and_no_others(network, means):
    for node in network.nodes:
        if node.exec([means, "--version"]).exit_code != 0:
            pytest.skip(f"{means} is not installed")
        node.lacks = {"iptables", "ip6tables"} if means == "nft" else set()
    n1, n2, n3 = network.nodes
    assert PacketLoss().missing(network) is None
    effect = PacketLoss().inject(network, loss())
    assert {node["means"] for node in effect["nodes"].values()} == {means}
    assert {node["cuts"] for node in effect["nodes"].values()} == {"25.0% of tcp ports 7000, 7001"}
    # An echo takes four packets and more; that all or none of forty come through has a chance below 1e-9.
    assert 0 < n1.echoes_from(n2, 7000, tries=40, limit_s=0.1) < 40
    assert n2.echoes_from(n3, 7000, tries=20) == 20
    assert n1.echoes_from(n2, 9042, tries=20) == 20
    healed = PacketLoss().heal(network, loss())
    assert healed["observed"] is True
    assert healed["packets"] > 0
    assert n1.echoes_from(n2, 7000, tries=20) == 20
    assert PacketLoss().heal(network, loss()) == {"observed": False, "packets": 0, "nodes": {}}


def test_losing_everything_is_a_partition(network):
    n1, n2, _ = network.nodes
    PacketLoss().inject(network, loss(1.0))
    assert n1.echoes_from(n2, 7000) == 0
    PacketLoss().heal(network, loss(1.0))
    assert n1.echoes_from(n2, 7000) == 1


def test_without_filter_and_emulator_it_is_said_what_to_install(network):
    network.nodes[0].lacks = {*FILTERS, "tc", "unshare"}
    reason = PacketLoss().missing(network)
    assert reason.startswith("node n1 has no means to drop packets: iptables:")
    assert "or: node n1 cannot delay or lose packets: netem: unshare: No such file or directory" in reason
    assert "sch_netem" in reason
    with pytest.raises(ClusterError, match=r"losing or delaying packets: .*n1: tc failed on n1, device eth0"):
        PacketLoss().inject(network, loss())


def test_a_neighbour_entry_does_not_pass_for_losing_some(network):
    for node in network.nodes:
        node.lacks = {*FILTERS, "tc", "unshare"}
    assert "no means to drop packets" in PacketLoss().missing(network)


def test_a_delay_is_asked_of_the_emulator_even_where_filters_work(network):
    network.nodes[0].lacks = {"unshare"}
    reason = PacketLoss(delay_ms=100).missing(network)
    assert reason.startswith("node n1 cannot delay or lose packets: netem: unshare: No such file")


def test_the_emulator_loses_some_packets_of_the_storage_port_and_no_others(network):
    n1, n2, n3 = emulated(network).nodes
    effect = PacketLoss().inject(network, loss())
    assert {node["means"] for node in effect["nodes"].values()} == {"netem"}
    assert 0 < n1.echoes_from(n2, 7000, tries=40, limit_s=0.1) < 40
    assert n2.echoes_from(n3, 7000, tries=20) == 20
    assert n1.echoes_from(n2, 9042, tries=20) == 20
    healed = PacketLoss().heal(network, loss())
    assert healed["observed"] is True
    assert n1.echoes_from(n2, 7000, tries=20) == 20
    assert emulators(network) == []
    assert PacketLoss().heal(network, loss()) == {"observed": False, "packets": 0, "nodes": {}}


def test_the_emulator_delays_packets_of_the_storage_port_and_no_others(network):
    n1, n2, _ = emulated(network).nodes
    late = loss(0.0, delay_ms=300, jitter_ms=20)
    PacketLoss().inject(network, late)
    # SYN and SYN-ACK, 300 ms each.
    assert n1.echoes_from(n2, 7000, limit_s=0.4) == 0
    assert n1.echoes_from(n2, 7000, limit_s=2) == 1
    assert n1.echoes_from(n2, 9042, limit_s=0.4) == 1
    assert PacketLoss().heal(network, late)["observed"] is True
    assert n1.echoes_from(n2, 7000, limit_s=0.4) == 1
    assert emulators(network) == []


def test_the_emulator_spares_a_device_that_somebody_has_shaped(network):
    emulated(network)
    n1 = network.nodes[0]
    assert n1.exec(["tc", "qdisc", "add", "dev", "eth0", "root", "handle", "1:", "prio"]).exit_code == 0
    with pytest.raises(ClusterError, match="tc failed on n1, device eth0"):
        PacketLoss().inject(network, loss())
    PacketLoss().heal(network, loss())
    assert emulators(network) == []
    assert "prio 1:" in n1.exec(["tc", "qdisc", "show"]).stdout


def test_what_is_planned_is_what_is_injected(network):
    context = Context(seed=3, nodes=("n1", "n2", "n3"), options={"packet-loss.loss": "0.5"})
    planned = PacketLoss().schedule(context, random=context.random("x"))[0]
    effect = PacketLoss().inject(network, planned)
    assert {node["cuts"] for node in effect["nodes"].values()} == {"50.0% of tcp ports 7000, 7001"}
    PacketLoss().heal(network, planned)
