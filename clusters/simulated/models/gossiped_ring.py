"""Gossiped ring: up to 5.0 every node tells its state and its tokens, and each computes the ring from what it has heard.

A **change** of a node, its own or that of a dead one, on the node that is asked for it:

- c1 BOOT, LEAVING or MOVING is told; whoever hears it writes to the replicas to come, too
- c2 the ring delay passes, in which all should have heard it
- c3 rows are streamed to the replicas to come
- c4 NORMAL or LEFT is told; whoever hears it reads from the new replicas, and writes to no others

Nothing waits for those who did not hear (`gossip-pending`). Without that flaw a state that is told is known to all living nodes at
once, and a coordinator whose ring has changed meanwhile counts answers by the new one. A node that joins and is taken for dead is
forgotten by the others. While one node comes, leaves or moves, no other one begins to (`cassandra.consistent.rangemovement`).
Up to 5.0 nothing is cancelled: a node that is started again is what it was before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from schemaquake.clusters.simulated.faces import Node, Server, Steps
from schemaquake.clusters.simulated.messages import Message
from schemaquake.clusters.simulated.models.row_invariants import RowInvariants
from schemaquake.clusters.simulated.models.serving import server_of
from schemaquake.clusters.simulated.models.steps import numbered
from schemaquake.clusters.simulated.models.streaming import Streams
from schemaquake.clusters.simulated.processes import Died, Sleep, Sync
from schemaquake.clusters.simulated.ring import SPACE, Copies, even_tokens, order_of
from schemaquake.clusters.simulated.said import ServerSaid
from schemaquake.clusters.simulated.topology import Moving, Seat, SeatState, Topology, lacking
from schemaquake.harness.model.topology import TopologyVerb
from schemaquake.harness.placements.changes import Change
from schemaquake.harness.placements.ring import Location, Ring
from schemaquake.harness.units import MS, S

__all__ = ["GossipedRing"]

_RING_DELAY_NS: Final = 5 * S
_AGREES_NS: Final = 30 * S
_SYSTEM_FACTOR: Final = 3

C1, C2, C3, C4 = numbered("ring/change", "c1", "c2", "c3", "c4")
STREAM = numbered("ring/stream", "s1", "s2")

_Word: TypeAlias = Literal["BOOT", "NORMAL", "LEAVING", "MOVING", "LEFT", "REPLACED"]
_STATES: Final[Mapping[_Word, SeatState]] = {
    "BOOT": "joining",
    "NORMAL": "normal",
    "LEAVING": "leaving",
    "MOVING": "moving",
    "LEFT": "left",
    "REPLACED": "replaced",
}

_UNDER_WAY: Final[frozenset[_Word]] = frozenset({"BOOT", "LEAVING", "MOVING"})
_NOT_ALONE: Final = (
    "java.lang.UnsupportedOperationException: Other bootstrapping/leaving/moving nodes detected, cannot bootstrap while "
    "cassandra.consistent.rangemovement is true"
)


class Status(NamedTuple):
    """The news of one node."""

    stamp: int
    """The later one counts; equal ones are one."""
    word: _Word
    host_id: str
    tokens: tuple[int, ...] = ()
    """Its tokens; of a node that joins those that it is to have."""
    goal: tuple[int, ...] = ()
    """The tokens that a node moves to."""
    replaces: str = ""
    is_dead: bool = False
    """True for a node that is removed by others."""
    location: Location = Location()


class GossipedRing:
    """The ring of designs up to 5.0."""

    steps: Final = tuple(step.name for step in (C1, C2, C3, C4, *STREAM))
    kinds: Final = Streams.kinds
    verbs: Final[frozenset[TopologyVerb]] = frozenset({"decommission", "remove", "move", "repair"})

    def __init__(self, flaws: frozenset[str]) -> None:
        self.streams = Streams(flaws, STREAM)
        self._at_once: dict[str, Node] | None = None if "gossip-pending" in flaws else {}
        """In designs without that flaw, all nodes, which know at once what is told."""
        self._stamp = 1
        self.rows: RowInvariants | None = None
        """The observer of rows, where all nodes know at once what is told; None: nobody looks."""

    # ── what nodes know ──────────────────────────────────────────────────────────────────────────────────────────────

    def told(self, node: Node) -> Mapping[str, Status]:
        """Return what a node knows of all, which it tells the others."""
        return _known(node)

    def heard(self, node: Node, statuses: Mapping[str, Status]) -> None:
        """Take over what another node knows better, and forget joining nodes that are dead."""
        known = _known(node)
        newer = _newer(statuses, known)
        gossip = server_of(node).gossip
        lost = [
            name
            for name, each in known.items()
            if each.word == "BOOT" and name != node.name and name in gossip.states and not gossip.alive(name)
        ]
        if newer or lost:
            self._learn(node, newer)
            for name in lost:
                self._tell(node, name, known[name]._replace(word="LEFT", tokens=()))
        if lost and self.rows is not None:
            now = _known(node)
            self.rows.forgets(node, [name for name in lost if now[name].word == "BOOT"])

    def _learn(self, node: Node, statuses: Mapping[str, Status]) -> None:
        node.disk.ring = {**_known(node), **statuses}
        server_of(node).ring = _topology(node.disk.ring)

    def _tell(self, node: Node, name: str, status: Status) -> None:
        """Tell of a node, this one or a dead one: to all at once, or by gossip."""
        self._look_at_change(node, name, status)
        self._stamp += 1
        before = _known(node).get(name)
        if self.rows is not None and before is not None:
            self.rows.tells(node, name, self._stamp, before.stamp)
        told = {name: status._replace(stamp=self._stamp)}
        self._learn(node, told)
        for other in (self._at_once or {}).values():
            if other is not node and other.server is not None:
                self._learn(other, told)
        if self.rows is not None and self._at_once is not None:
            behind = [
                each.name
                for each in self._at_once.values()
                if each.server is not None and _known(each).get(name) != told[name]
            ]
            self.rows.told(node, name, behind)
            self.rows.turned(node, _topology(node.disk.ring), self._stamp)
        server_of(node).gossip.tell()

    def _look_at_change(self, node: Node, name: str, status: Status) -> None:
        if self.rows is None or self._at_once is None:
            return
        if status.word in _UNDER_WAY:
            self.rows.changes(node, name, _changing(node, name))
            replaced = _known(node).get(status.replaces)
            if replaced is not None:
                self.rows.takes_place(node, status.tokens, replaced.tokens)
        elif status.word == "NORMAL":
            before = _known(node).get(name)
            self.rows.settles(node, name, is_changing=before is not None and before.word in _UNDER_WAY)

    # ── a start ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def begin(self, node: Node) -> None:
        """Have a booting node know what is on its disk; a founder has its tokens from its first start on. Raises Died."""
        if self._at_once is not None:
            for other in self._at_once.values():
                if other.server is not None and other is not node:
                    known = _known(node)
                    node.disk.ring = {**known, **_newer(_known(other), known)}
            self._at_once[node.name] = node
            self._look_at_news(node)
        known = _known(node)
        own = known.get(node.name)
        if own is not None and own.word in {"LEFT", "REPLACED"} and node.joins is None:
            raise Died(
                "org.apache.cassandra.exceptions.ConfigurationException: This node was decommissioned and will not "
                "rejoin the ring unless cassandra.override_decommission=true has been set"
            )
        if own is None and node.joins is None:
            token = even_tokens(len(node.founders))[node.founders.index(node.name)]
            own = Status(1, "NORMAL", node.host_ids[node.name], (token,), location=node.location)
            self._learn(node, {node.name: own})
        else:
            server_of(node).ring = _topology(known)
        if own is not None and own.word in {"LEAVING", "MOVING"}:
            self._tell(node, node.name, own._replace(word="NORMAL", goal=(), is_dead=False))
        if self.rows is not None:
            self.rows.starts(node, _STATES[_known(node)[node.name].word] if own is not None else "normal")

    def _look_at_news(self, node: Node) -> None:
        """Report the news that the other nodes have and a starting node lacks, where the models are looked at."""
        if self.rows is None:
            return
        others = [each for each in (self._at_once or {}).values() if each.server is not None]
        unknown = {name for other in others for name in _newer(_known(other), _known(node))}
        if unknown:
            self.rows.told(node, ", ".join(sorted(unknown)), [node.name])

    def join(self, node: Node) -> Steps:
        """Have a booting node take the place that it is to have; at once if it has it. Raises Died."""
        joins = node.joins
        own = _known(node).get(node.name)
        if joins is None or (own is not None and own.word == "NORMAL" and joins.replaces != node.name):
            return
        server = server_of(node)
        yield Sleep(2 * S)
        yield from self._await_schema(node)
        self._look_at_schema(node)
        if joins.replaces == node.name:
            yield from self._take_own_place(node)
            if self.rows is not None:
                self.rows.comes_back(node)
            return
        self._refuse_beside_others(node)
        dead = _known(node).get(joins.replaces or "")
        tokens = (joins.token,) if dead is None else dead.tokens
        yield C1
        self._refuse_beside_others(node)  # one may have begun since
        own = Status(0, "BOOT", node.host_ids[node.name], tokens, replaces=joins.replaces or "", location=node.location)
        self._tell(node, node.name, own)
        yield C2
        yield Sleep(_RING_DELAY_NS)
        yield from self._stream(node, node.name)
        yield C4
        yield Sync()
        now = _known(node).get(node.name)
        if self._at_once is not None and (now is None or now.word != "BOOT"):
            raise Died("java.lang.IllegalStateException: the others have forgotten this node while it joined")
        self._tell(node, node.name, own._replace(word="NORMAL", replaces=""))
        if joins.replaces is not None and dead is not None:
            self._tell(node, joins.replaces, dead._replace(word="REPLACED", tokens=()))
        assert server.ring is not None

    def _await_schema(self, node: Node) -> Steps:
        """Wait until the node has the schema of all others that live. Raises Died at the limit (`skip_schema_check` is off)."""
        server = server_of(node)
        ends_ns = node.kernel.heap.now_ns + _AGREES_NS
        while node.kernel.heap.now_ns < ends_ns:
            if self.rows is not None:
                self.rows.awaits_schema(node)
            versions = {
                server.gossip.states[name].get("version")
                for name in server.gossip.peers_alive()
                if name in server.gossip.states
            }
            if versions == {str(server.version)}:
                return
            yield Sleep(500 * MS)
        raise Died("java.lang.RuntimeException: Didn't receive schemas for all known versions within the PT30S.")

    def _look_at_schema(self, node: Node) -> None:
        if self.rows is not None and self._at_once is not None:
            gossip = server_of(node).gossip
            others = {name: gossip.states[name]["version"] for name in gossip.peers_alive() if name in gossip.states}
            self.rows.joins(node, str(server_of(node).version), others)

    def _take_own_place(self, node: Node) -> Steps:
        """Stream all that a node with an empty disk should have; to others it is dead meanwhile."""
        yield C3
        topology, schema = server_of(node).ring, server_of(node).memory
        assert isinstance(topology, Topology)
        for factor in _factors(server_of(node)):
            yield from self.streams.take_own_place(node, topology, factor)
        self.streams.look_at_own_place(node, topology, schema)
        node.joins = None

    # ── changes ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def reshape(self, node: Node, verb: TopologyVerb, *, about: str | None, argument: str | None) -> Steps:
        """Carry out a change that an operator asked this node for. Raises ServerSaid."""
        if verb == "repair":
            topology = server_of(node).ring
            assert isinstance(topology, Topology)
            yield from self.streams.repair(node, topology)
            return
        subject = about or node.name
        server = server_of(node)
        is_again = _known(node)[subject].word in {"LEAVING", "MOVING"}
        self._allow(node, verb, subject, argument)
        yield C1
        status = self._allow(node, verb, subject, argument)  # another change may have begun since, or ended
        self._tell(node, subject, status)
        yield C2
        yield Sleep(_RING_DELAY_NS)
        yield from self._stream(node, subject, again=is_again)
        yield C4
        yield Sync()
        if verb == "move":
            self._tell(node, subject, status._replace(word="NORMAL", tokens=status.goal, goal=()))
            return
        self._tell(node, subject, status._replace(word="LEFT", tokens=()))
        if verb == "decommission":
            yield Sleep(2 * S)  # so that the others hear it from this node
            server.phase = "left"
            server.gossip.end()

    def _allow(self, node: Node, verb: TopologyVerb, subject: str, argument: str | None) -> Status:
        """Return what a node is to tell of a change that it is asked for. Raises ServerSaid if it may not begin now."""
        own = _known(node)[subject]
        if _changing(node, subject):
            raise ServerSaid("ServerError", "Other bootstrapping/leaving/moving nodes detected, cannot begin")
        if verb == "decommission":
            self._refuse_too_few(node)
            return own._replace(word="LEAVING")
        if verb == "remove":
            if server_of(node).gossip.alive(subject):
                raise ServerSaid("ServerError", f"Node {subject} is alive and owns this ID")
            if own.word in {"LEFT", "REPLACED"}:
                raise ServerSaid("ServerError", "Host ID not found.")
            return own._replace(word="LEAVING", is_dead=True)
        token = int(argument or 0) + (SPACE >> 1)
        if any(token in each.tokens for each in _known(node).values()):
            raise ServerSaid("ServerError", "the token is another node's")
        return own._replace(word="MOVING", goal=(token,))

    def _refuse_beside_others(self, node: Node) -> None:
        if _changing(node, node.name):
            raise Died(_NOT_ALONE)

    def _refuse_too_few(self, node: Node) -> None:
        factors = [keyspace.replication_factor for keyspace in server_of(node).memory.values()]
        factor = lacking(_normal(_known(node)), node.name, [_SYSTEM_FACTOR, *factors])
        if factor is not None:
            raise ServerSaid("ServerError", f"Not enough live nodes to maintain replication factor (RF = {factor})")

    def _stream(self, node: Node, subject: str, *, again: bool = False) -> Steps:
        """Have all who come to ranges take over their rows; tried again until it is done. Raises ServerSaid."""
        yield C3
        topology = server_of(node).ring
        assert isinstance(topology, Topology)
        move = topology.move_of(subject)
        if move is None:
            if self.rows is not None:
                self.rows.streams_nothing(node, subject, is_told=subject in _known(node))
            raise ServerSaid("ServerError", f"the change of {subject} is not known any more")
        if self.rows is not None and self._at_once is not None:
            self.rows.begins_streams(node, subject, move.dead)
        while not (yield from self.streams.move(node, topology, move, None, again=again)):
            yield Sleep(500 * MS)
        self.streams.look_at_targets(node, topology, move)

    def receive(self, node: Node, message: Message) -> Steps:
        """Handle a stream."""
        return self.streams.receive(node, message)


def _newer(statuses: Mapping[str, Status], known: Mapping[str, Status]) -> Mapping[str, Status]:
    """Return the statuses that are not known, or known with an older stamp."""
    return {name: each for name, each in statuses.items() if name not in known or each.stamp > known[name].stamp}


def _changing(node: Node, subject: str) -> list[str]:
    """Return the other nodes that come, leave or move, as a node knows."""
    return [name for name, each in _known(node).items() if each.word in _UNDER_WAY and name != subject]


def _known(node: Node) -> dict[str, Status]:
    return node.disk.ring or {}


def _normal(statuses: Mapping[str, Status]) -> Ring:
    """Return the ring of those nodes alone that neither come nor leave nor move."""
    normal = {name: each for name, each in sorted(statuses.items()) if each.word == "NORMAL"}
    return Ring.of(
        {name: (number,) for number, name in enumerate(normal)},
        {name: each.location for name, each in normal.items()},
    )


def _factors(server: Server) -> list[Copies]:
    return sorted({keyspace.replication_factor for keyspace in server.memory.values()}, key=order_of)


def _topology(statuses: Mapping[str, Status]) -> Topology:
    """Compute the ring from what was heard: every change under way is one whose replicas to come are written to."""
    in_order = dict(sorted(statuses.items()))
    seats = {
        name: Seat(_STATES[each.word], each.host_id, each.tokens, each.location) for name, each in in_order.items()
    }
    owners = {name: each.tokens for name, each in in_order.items() if each.word in {"NORMAL", "LEAVING", "MOVING"}}
    taken: dict[int, str] = {}
    for name, tokens in owners.items():
        for token in tokens:
            # Of two who say that they have a token, the one that was told later has it.
            if token not in taken or in_order[taken[token]].stamp < in_order[name].stamp:
                taken[token] = name
    ring = Ring.of(
        {name: [t for t in tokens if taken[t] == name] for name, tokens in owners.items()},
        {name: each.location for name, each in in_order.items()},
    )
    return Topology(0, seats, ring, tuple(_moves(in_order, ring)))


def _moves(statuses: Mapping[str, Status], ring: Ring) -> Iterator[Moving]:
    for name, each in statuses.items():
        change: Change
        values: dict[str, Any] = {}
        match each.word:
            case "BOOT" if each.replaces:
                if each.replaces not in ring.locations or name in ring.locations:
                    continue
                change, values = "replace", {"replaced": each.replaces}
            case "BOOT":
                if set(each.tokens) & set(ring.tokens):
                    continue
                change, values = "join", {"tokens": each.tokens, "location": each.location}
            case "LEAVING":
                if len(ring.locations) < 2:
                    continue
                change, values = "leave", {"removed": each.is_dead}
            case "MOVING":
                if set(each.goal) & set(ring.tokens):
                    continue
                change, values = "move", {"tokens": each.goal}
            case _:
                continue
        yield Moving(change, name, ring, done=2, **values)
