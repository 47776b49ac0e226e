"""Levels of consistency on a ring that changes: how many replicas a request waits for, and when there are too few of them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from schemaquake.clusters.simulated.data import DataPath
from schemaquake.clusters.simulated.ring import Ring, token_of
from schemaquake.clusters.simulated.said import ServerSaid
from schemaquake.clusters.simulated.schema.definitions import Column, Keyspace, Table
from schemaquake.clusters.simulated.topology import Moving, Topology, even_topology

NAMES = ("n1", "n2", "n3")


class Asking:
    """A coordinator that asks its question, and is told no answer."""

    locations: dict[str, object] = {}  # noqa: RUF012 - empty

    def __init__(self, ring, factor, down=()):
        columns = {"k": Column("int", "partition_key", 0), "v": Column("int", "regular")}
        table = Table("k", "t", "id", columns)
        self.name = "n1"
        self.asked = []
        self.clock = SimpleNamespace(data_stamp_us=lambda: 7)
        self.server = SimpleNamespace(
            ring=ring,
            memory={"k": Keyspace("k", {"replication_factor": factor}, {"t": table})},
            gossip=SimpleNamespace(living=lambda names: [name for name in names if name not in down]),
            ask=lambda names, kind, body, *, need, limit_ns: self.asked.append((len(names), need)),
        )


def joined_by(steps):
    """Return a ring in which a fourth node comes to the range of the row, and of which so many steps were taken."""
    base = even_topology(NAMES, {name: name for name in NAMES})
    move = Moving("join", "n4", base.ring, (token_of((1,)),), done=steps)
    return Topology(9, base.seats, base.ring, (move,))


def begin(node, act, consistency):
    path = DataPath(Ring(NAMES))
    if act == "read":
        next(path.read(node, "k", "t", {"k": 1}, consistency))
    else:
        next(path.write(node, "k", "t", {"k": 1, "v": 2}, consistency))
    return node.asked


@pytest.mark.parametrize("act", ["read", "write"])
@pytest.mark.parametrize("ring", [None, joined_by(1), joined_by(2), joined_by(3)], ids=["at rest", "1", "2", "3"])
@pytest.mark.parametrize(("consistency", "least"), [("TWO", 2), ("THREE", 3)])
@pytest.mark.parametrize("factor", [1, 2, 3])
def test_two_and_three_are_unavailable_where_a_row_has_fewer_replicas(act, ring, consistency, least, factor):
    node = Asking(ring, factor)
    if factor >= least:
        ((_, need),) = begin(node, act, consistency)
        assert need >= least
        return
    with pytest.raises(ServerSaid, match="Cannot achieve") as refused:
        begin(node, act, consistency)
    assert f"Cannot achieve consistency level {consistency}" in str(refused.value)
    assert node.asked == []


@pytest.mark.parametrize(("down", "is_available"), [((), True), (("n3",), True), (("n2", "n3"), False)])
def test_two_need_two_that_live(down, is_available):
    node = Asking(None, 3, down)
    if is_available:
        assert begin(node, "write", "TWO") == [(3 - len(down), 2)]
    else:
        with pytest.raises(ServerSaid, match="'required_replicas': 2, 'alive_replicas': 1"):
            begin(node, "write", "TWO")
