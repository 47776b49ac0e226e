from __future__ import annotations

import dataclasses
import subprocess

import pytest
from namespace_network import NamespaceNetwork, why_not

from schemaquake.harness.errors import ClusterError, HealError
from schemaquake.harness.model.protocols import Executed, Fault
from schemaquake.nemeses.network.partition import Partition

IPTABLES = {"iptables", "ip6tables"}
APART = {"n1": ["n2", "n3"], "n2": ["n1"], "n3": ["n1"]}
MEANS = {"iptables": set(), "nft": IPTABLES, "neighbour": IPTABLES | {"nft"}}


def partition(grudge, *, ports="storage", fault_id=3):
    return Fault(
        id=fault_id,
        nemesis="partition",
        begins_s=0,
        ends_s=9,
        nodes=tuple(grudge),
        parameters={"grudge": grudge, "ports": ports},
    )


def links(network, port):
    """Which nodes get an echo from which over this port."""
    return {f"{a.name}-{b.name}" for a in network.nodes for b in network.nodes if a.name < b.name and a.hears(b, port)}


def without(network, means):
    for node in network.nodes:
        tools = {"nft": node.exec(["nft", "--version"]), "iptables": node.exec(["iptables", "--version"])}
        if means in tools and tools[means].exit_code != 0:
            pytest.skip(f"{means} is not installed")
        node.lacks = MEANS[means]


def leftovers(network):
    """Whatever any means may have left on any node."""
    return [
        line
        for node in network.nodes
        for argv in (
            ["iptables", "-S"],
            ["ip6tables", "-S"],
            ["nft", "list", "tables"],
            ["ip", "neigh", "show", "nud", "permanent"],
        )
        for line in dataclasses.replace(node, lacks=set()).exec(argv).stdout.splitlines()
        if "schemaquake" in line or "02:73:71" in line
    ]


@pytest.mark.parametrize("means", ["iptables", "nft"])
def test_a_partition_of_the_storage_port_leaves_clients_and_cql_alone(network, means):
    without(network, means)
    assert links(network, 7000) == {"n1-n2", "n1-n3", "n2-n3"}

    effect = Partition().inject(network, partition(APART))
    assert effect["observed"] is True
    assert {name: node["means"] for name, node in effect["nodes"].items()} == dict.fromkeys(APART, means)
    assert all("7000" in rule for node in effect["nodes"].values() for rule in node["rules"])
    assert links(network, 7000) == {"n2-n3"}
    assert links(network, 9042) == {"n1-n2", "n1-n3", "n2-n3"}
    assert all(network.client.hears(node, port) for node in network.nodes for port in (7000, 9042))

    healed = Partition().heal(network, partition(APART))
    assert healed["observed"] is True
    assert healed["packets"] == sum(piece["packets"] for pieces in healed["nodes"].values() for piece in pieces) > 0
    assert links(network, 7000) == {"n1-n2", "n1-n3", "n2-n3"}
    assert leftovers(network) == []


def test_a_neighbour_entry_cuts_every_port_between_two_nodes_and_nothing_else(network):
    without(network, "neighbour")
    effect = Partition().inject(network, partition(APART))
    assert {node["means"] for node in effect["nodes"].values()} == {"neighbour"}
    assert {node["cuts"] for node in effect["nodes"].values()} == {"everything"}
    assert links(network, 7000) == links(network, 9042) == {"n2-n3"}
    assert all(network.client.hears(node, 9042) for node in network.nodes)
    assert Partition().heal(network, partition(APART))["observed"] is True
    assert links(network, 7000) == {"n1-n2", "n1-n3", "n2-n3"}
    assert leftovers(network) == []


def test_one_node_without_a_filter_is_cut_off_by_its_senders(network):
    network.nodes[0].lacks = MEANS["neighbour"]
    effect = Partition().inject(network, partition(APART))
    assert {name: node["means"] for name, node in effect["nodes"].items()} == {
        "n2": "iptables", "n3": "iptables", "n2 (sending)": "neighbour", "n3 (sending)": "neighbour"
    }  # fmt: skip
    assert links(network, 7000) == {"n2-n3"}
    Partition().heal(network, partition(APART))
    assert leftovers(network) == []


@pytest.mark.parametrize("means", ["iptables", "nft"])
def test_everything_between_the_nodes_can_be_cut(network, means):
    without(network, means)
    Partition().inject(network, partition(APART, ports="all"))
    assert links(network, 9042) == {"n2-n3"}
    assert all(network.client.hears(node, 9042) for node in network.nodes)
    Partition().heal(network, partition(APART))
    assert links(network, 9042) == {"n1-n2", "n1-n3", "n2-n3"}


@pytest.mark.parametrize("means", ["iptables", "nft"])
def test_one_way_drops_only_what_the_mute_node_sends(network, means):
    without(network, means)
    n1, n2, _ = network.nodes
    received = ["grep", "^Udp:", "/proc/net/snmp"]

    def datagrams_from(sender, receiver):
        before = int(receiver.exec(received).stdout.splitlines()[1].split()[2])
        send = f'import socket; socket.socket(type=socket.SOCK_DGRAM).sendto(b"x", ("{receiver.address}", 7000))'
        assert sender.exec(["python3", "-c", send]).exit_code == 0
        # Nobody listens on UDP 7000: what arrives is counted as "no port".
        return int(receiver.exec(received).stdout.splitlines()[1].split()[2]) - before

    Partition().inject(network, partition({"n2": ["n1"]}, ports="all"))
    assert datagrams_from(n1, n2) == 0
    assert datagrams_from(n2, n1) == 1
    Partition().heal(network, partition({"n2": ["n1"]}))
    assert datagrams_from(n1, n2) == 1


@pytest.mark.parametrize("means", ["iptables", "nft"])
def test_only_longer_packets_can_be_lost(network, means):
    without(network, means)
    n1, n2, _ = network.nodes
    received = ["grep", "^Udp:", "/proc/net/snmp"]

    def arrives(size):
        before = int(n2.exec(received).stdout.splitlines()[1].split()[2])
        send = f'import socket; socket.socket(type=socket.SOCK_DGRAM).sendto(bytes({size}), ("{n2.address}", 7000))'
        assert n1.exec(["python3", "-c", send]).exit_code == 0
        return int(n2.exec(received).stdout.splitlines()[1].split()[2]) > before

    fault = partition({"n2": ["n1"]}, ports="all")
    fault = dataclasses.replace(fault, parameters={**fault.parameters, "above_bytes": 600})
    effect = Partition().inject(network, fault)
    assert effect["nodes"]["n2"]["cuts"] == "packets of more than 600 bytes of everything"
    assert arrives(600 - 28)  # with the headers of IP and UDP as long as may be
    assert not arrives(601 - 28)
    healed = Partition().heal(network, fault)
    assert healed["packets"] == 1
    assert arrives(601 - 28)
    assert leftovers(network) == []


def test_where_no_filter_works_longer_packets_alone_cannot_be_lost(network):
    without(network, "neighbour")
    fault = partition(APART)
    with pytest.raises(ClusterError, match="no means to drop packets"):
        Partition().inject(network, dataclasses.replace(fault, parameters={**fault.parameters, "above_bytes": 600}))
    Partition().heal(network, fault)


def test_an_open_connection_stalls_and_goes_on_after_the_heal(network):
    n1, n2, _ = network.nodes
    with n1.talk_to(n2, 7000) as talk:
        talk.stdin.write("before\n")
        talk.stdin.flush()
        assert talk.stdout.readline() == "before\n"
        Partition().inject(network, partition(APART))
        talk.stdin.write("during\n")
        talk.stdin.close()
        with pytest.raises(subprocess.TimeoutExpired):
            talk.wait(0.5)
        assert Partition().heal(network, partition(APART))["observed"] is True
        assert talk.stdout.read() == "during\n"
        assert talk.wait(10) == 0


@pytest.mark.parametrize("means", sorted(MEANS))
def test_healing_is_idempotent_and_needs_no_injection(network, means):
    without(network, means)
    nothing = {"observed": False, "packets": 0, "nodes": {}}
    assert Partition().heal(network, partition(APART)) == nothing
    Partition().inject(network, partition(APART))
    assert Partition().heal(network, partition(APART))["nodes"]
    assert Partition().heal(network, partition(APART)) == nothing


@pytest.mark.parametrize("means", sorted(MEANS))
def test_an_injection_that_broke_off_is_undone(network, means):
    without(network, means)
    broken = partition({"n2": ["n1"], "n3": ["n1"]})
    network.nodes[2].address = "storage.example"  # a rule for n3 itself cannot be made from a name
    with pytest.raises(ClusterError):
        Partition().inject(network, broken)
    network.nodes[2].address = "10.99.0.3"
    Partition().heal(network, broken)
    assert leftovers(network) == []
    assert links(network, 7000) == {"n1-n2", "n1-n3", "n2-n3"}


def test_healing_one_fault_spares_another_and_the_rules_of_others(network):
    n1 = network.nodes[0]
    theirs = ["-A", "INPUT", "-s", "10.99.0.77", "-j", "DROP"]
    assert n1.exec(["iptables", *theirs]).exit_code == 0
    Partition().inject(network, partition({"n1": ["n2"]}, fault_id=1))
    Partition().inject(network, partition({"n1": ["n3"]}, fault_id=12))
    Partition().heal(network, partition({"n1": ["n2"]}, fault_id=1))
    assert links(network, 7000) == {"n1-n2", "n2-n3"}
    Partition().heal(network, partition({"n1": ["n3"]}, fault_id=12))
    assert leftovers(network) == []
    assert "-A INPUT -s 10.99.0.77/32 -j DROP" in n1.exec(["iptables", "-S"]).stdout


def test_rules_that_stay_are_a_heal_error(network):
    class Stubborn:
        """A node on which nothing can be unhooked."""

        def __init__(self, node):
            self.name, self.address, self._node = node.name, node.address, node

        def exec(self, argv, **options):
            return Executed(0, "", "") if "-D" in argv else self._node.exec(argv, **options)

    Partition().inject(network, partition(APART))
    real, network.nodes[1] = network.nodes[1], Stubborn(network.nodes[1])
    with pytest.raises(HealError, match=r"n2: the chain schemaquake_3 is still there on n2"):
        Partition().heal(network, partition(APART))
    network.nodes[1] = real
    assert leftovers(network) == ["-N schemaquake_3", "-A INPUT -j schemaquake_3"]  # the others were healed
    Partition().heal(network, partition(APART))
    assert leftovers(network) == []


def test_a_node_that_may_not_look_is_a_heal_error_and_not_healed(network):
    class Denied:
        name, address = "n1", "10.99.0.1"

        def exec(self, argv, **_):
            return Executed(4, "", f"{argv[0]}: Permission denied (you must be root)")

    network.nodes[0] = Denied()
    with pytest.raises(HealError, match="iptables does not say whether there are rules on n1"):
        Partition().heal(network, partition(APART))


def test_a_node_with_no_means_is_refused_by_name_with_what_to_install(network):
    assert Partition().missing(network) is None
    assert leftovers(network) == []
    network.nodes[1].lacks = {*IPTABLES, "nft"}
    assert Partition().missing(network) is None  # its peers can stand in
    network.nodes[2].lacks = {"ip"}
    reason = Partition().missing(network)
    assert reason.startswith(
        "node n2 has no means to drop packets: iptables: iptables: No such file or directory; nft:"
    )
    assert "failed on n3: ip: No such file" in reason
    assert "apt-get install iptables" in reason
    with pytest.raises(ClusterError, match=r"failed on n3: ip: No such file"):
        Partition().inject(network, partition({"n3": ["n2"], "n2": ["n3"]}))
    Partition().heal(network, partition({"n3": ["n2"], "n2": ["n3"]}))
    assert leftovers(network) == []


def test_nodes_that_are_not_there_yet_are_not_asked(network):
    for node in network.nodes:
        node.namespace = "nowhere"
    assert Partition().missing(network) is None


@pytest.mark.parametrize("means", sorted(MEANS))
def test_ipv6_is_cut_as_well(means):
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    with NamespaceNetwork(2, version=6) as network:
        without(network, means)
        Partition().inject(network, partition({"n1": ["n2"], "n2": ["n1"]}))
        assert links(network, 7000) == set()
        assert links(network, 9042) == (set() if means == "neighbour" else {"n1-n2"})
        assert network.client.hears(network.nodes[0], 7000)
        assert Partition().heal(network, partition({}))["observed"] is True
        assert links(network, 7000) == {"n1-n2"}
        assert leftovers(network) == []
