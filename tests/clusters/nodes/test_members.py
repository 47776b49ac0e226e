"""Members: what the nodes that answer know of each other."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from schemaquake.clusters.nodes.members import MemberReader
from schemaquake.clusters.systems.gossip import Gossip
from schemaquake.harness.errors import ClusterError


@dataclass
class Node:
    name: str
    address: str
    now: str = "running"
    serves: bool = True

    def state(self):
        return self.now

    def answers(self):
        return self.serves and self.now == "running"


@dataclass
class Ring:
    """Nodes, and the addresses that each lists as its peers."""

    nodes: list[Node] = field(default_factory=lambda: [Node(f"n{number}", f"192.0.2.{number}") for number in (1, 2, 3)])
    peers: dict[str, set[str]] = field(default_factory=dict)
    closed: int = 0

    def __post_init__(self):
        for node in self.nodes:
            self.peers[node.name] = {other.address for other in self.nodes if other is not node}

    def connect(self, name, *, request_timeout_s):
        return Session(self, name)

    def states(self, reader):
        return {name: member.state for name, member in reader.read().items()}


@dataclass
class Session:
    ring: Ring
    name: str

    def read(self, text):
        if "system.local" in text:
            return [{"host_id": f"id of {self.name}", "tokens": {"5", "-7"}}]
        return [{"peer": address, "rpc_address": address} for address in sorted(self.ring.peers[self.name])]

    def close(self):
        self.ring.closed += 1


def reader(ring, **options):
    return MemberReader(ring.nodes, ring, Gossip(), **options)


def test_nodes_that_list_each_other_are_normal_and_tell_who_they_are():
    ring = Ring()
    members = reader(ring).read()
    assert {member.state for member in members.values()} == {"normal"}
    assert (members["n2"].host_id, members["n2"].tokens) == ("id of n2", ("-7", "5"))
    assert ring.closed == 3


def test_a_founder_that_the_others_have_not_heard_of_yet_has_not_left():
    ring = Ring()
    read = reader(ring)
    whole = dict(ring.peers)
    ring.peers |= {"n1": {"192.0.2.2"}, "n2": {"192.0.2.1"}}
    assert ring.states(read) == {"n1": "normal", "n2": "normal", "n3": "joining"}
    ring.peers = whole
    assert set(ring.states(read).values()) == {"normal"}
    ring.peers |= {"n1": {"192.0.2.2"}, "n2": {"192.0.2.1"}}
    assert ring.states(read)["n3"] == "left", "it was listed in between"


def test_a_founder_that_does_not_serve_and_is_not_listed_has_left():
    ring = Ring()
    ring.peers |= {"n1": {"192.0.2.2"}, "n2": {"192.0.2.1"}}
    ring.nodes[2].now = "stopped"
    assert ring.states(reader(ring))["n3"] == "left"


def test_a_node_that_no_other_lists_any_more_has_left_although_it_runs():
    ring = Ring()
    read = reader(ring)
    ring.nodes[2].serves = False
    for name in ("n1", "n2"):
        ring.peers[name].discard("192.0.2.3")
    assert ring.states(read) == {"n1": "normal", "n2": "normal", "n3": "left"}


def test_a_node_that_is_down_is_still_a_member():
    ring = Ring()
    ring.nodes[2].now = "stopped"
    assert ring.states(reader(ring))["n3"] == "normal"


def test_the_only_node_that_answers_is_a_member():
    ring = Ring()
    ring.nodes[0].now = ring.nodes[2].now = "paused"
    assert set(ring.states(reader(ring)).values()) == {"normal"}


def test_a_spare_joins_and_is_normal_when_others_list_it():
    ring = Ring()
    read = reader(ring, spares=frozenset({"n3"}))
    spare = ring.nodes[2]
    spare.now = "stopped"
    for name in ("n1", "n2"):
        ring.peers[name].discard(spare.address)
    assert {name: one.state for name, one in read.planned().items()}["n3"] == "absent"
    assert ring.states(read)["n3"] == "absent"
    spare.now, spare.serves = "running", False
    assert ring.states(read)["n3"] == "joining"
    for name in ("n1", "n2"):
        ring.peers[name].add(spare.address)
    assert ring.states(read)["n3"] == "normal"
    for name in ("n1", "n2"):
        ring.peers[name].discard(spare.address)
    assert ring.states(read)["n3"] == "left"


def test_where_no_node_answers_nothing_is_known():
    ring = Ring()
    for node in ring.nodes:
        node.now = "stopped"
    with pytest.raises(ClusterError):
        reader(ring).read()


def test_a_system_without_cql_has_the_members_of_the_plan():
    ring = Ring()
    assert set(ring.states(MemberReader(ring.nodes, None, Gossip())).values()) == {"normal"}
