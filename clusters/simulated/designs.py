"""Designs explored: a few schema changes on a simulated cluster, whose messages arrive in every order.

The cluster boots and has its first objects before; then every message but gossip is held until it is chosen, and what a node does
with it takes its time, the least that there is, before the next one is. So an event is a whole handler, as in the protocols' stages: a crash falls
between two of them, not within, and loses no message. Gossip stands still (a restarted node knows who is alive), timers fire only when nothing else is left to happen, and the clocks of the
coordinators are a fixed time apart, in each order of them. When all has arrived, gossip and time go on until the cluster has
settled, and the end is judged.

A scope may have a node move along the ring, while rows are written and read: then a write that was acknowledged has to be read by all
that ask after it, whoever coordinates. The steps of such a change are commits, barriers and streams, each of them messages.
"""

from __future__ import annotations

import tempfile
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from itertools import permutations
from pathlib import Path
from typing import Any, Final

from schemaquake.clusters.simulated.draws import Draws, Stream
from schemaquake.clusters.simulated.exploration import Event, EventId, Explored, Pick, Unrepeatable, explore, sample
from schemaquake.clusters.simulated.faces import ChangingRing
from schemaquake.clusters.simulated.messages import Message
from schemaquake.clusters.simulated.node import SimulatedNode
from schemaquake.clusters.simulated.provider import SimulatedProvider
from schemaquake.clusters.simulated.ring import SPACE
from schemaquake.clusters.simulated.said import ServerSaid
from schemaquake.clusters.simulated.schema.changes import Making, carry_out
from schemaquake.clusters.simulated.schema.definitions import Schema
from schemaquake.clusters.simulated.topology import Topology
from schemaquake.clusters.systems.simulated.family import blueprint_of, flaws_of
from schemaquake.harness.ddl import rows
from schemaquake.harness.ddl import schema_changes as ddl
from schemaquake.harness.errors import PlanError, SchemaquakeError
from schemaquake.harness.model.operation import Completion
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.model.steps import Invoke
from schemaquake.harness.units import MS, S

__all__ = ["SCOPES", "Design", "Scope", "explore_design"]

_HANDLED_NS: Final = 4 * MS
"""The time in which a handler comes to its end: a dozen steps, and a sync or two."""
_STREAMED_NS: Final = 8 * MS
"""The same where the ring changes: with the reading of a range."""
_QUIET_NS: Final = 1_200 * MS
"""The time for timers, when nothing is left to be chosen."""
_SETTLES_NS: Final = 12 * S
_BOOTS_NS: Final = 2 * S
_APART_S: Final = 1_000.0
_SHARED: Final = "shared"
_DEEPEST: Final = 80
_EXPLORED: Final = frozenset({"rows", "metadata-log"})
"""Models all of whose messages follow from a request."""
_EXPLORED_RINGS: Final = frozenset({"metadata-log"})
"""Those whose ring changes in that way, too."""


class _Least:
    """Durations that depend on nothing."""

    def between(self, least: int, most: int) -> int:  # noqa: ARG002 - the draws of a run have both
        """Return the least."""
        return least


@dataclass(frozen=True, slots=True)
class Scope:
    """The changes whose orders are explored."""

    name: str
    before: tuple[Invoke, ...]
    """Carried out one after another, and known to every node, when it begins."""
    changes: tuple[tuple[str, Invoke], ...]
    """Each with its coordinator; those of one coordinator are sent one after the other. Reads are sent when all writes are acknowledged."""
    moves: tuple[str, int] | None = None
    """The node that moves along the ring, and its new token; None: the ring stays as it is."""


def _table(*columns: str, name: str = "t") -> Invoke:
    rows = [("id", "int", "partition_key"), *((column, "int", "regular") for column in columns)]
    return ddl.create_table("k", name, columns=rows)


_KEYSPACE: Final = ddl.create_keyspace("k", replication_factor=3)
_TYPE: Final = ddl.create_type("k", "u", fields=[("a", "int")])
_OF_TYPE: Final = ddl.create_table("k", "v", columns=[("id", "int", "partition_key"), ("u", "frozen<u>", "regular")])

_ROW: Final = rows.insert("k", "t", {"id": 4, "a": 7}, consistency="QUORUM")
"""A row of n3, which is n2's when n2 has moved."""
_LOOK: Final = rows.read_rows("k", "t", consistency="QUORUM", phase="main", where={"id": 4})

SCOPES: Final[Mapping[str, Scope]] = {
    scope.name: scope
    for scope in (
        Scope("create-create", (_KEYSPACE,), (("n1", _table("a")), ("n2", _table("b")))),
        Scope(
            "add-add",
            (_KEYSPACE, _table()),
            (("n1", ddl.add_column("k", "t", "a", "int")), ("n2", ddl.add_column("k", "t", "b", "int"))),
        ),
        Scope(
            "drop-alter",
            (_KEYSPACE, _table()),
            (("n1", ddl.drop_table("k", "t")), ("n2", ddl.add_column("k", "t", "a", "int"))),
        ),
        Scope("drop-type", (_KEYSPACE, _TYPE), (("n1", ddl.drop_type("k", "u")), ("n2", _OF_TYPE))),
        Scope(
            "move-write",
            (ddl.create_keyspace("k", replication_factor=1), _table("a")),
            (("n1", _ROW), ("n3", _LOOK)),
            moves=("n2", 5 << 61),
        ),
        Scope(
            "create-drop", (_KEYSPACE,), (("n1", _table("a")), ("n1", ddl.drop_table("k", "t")), ("n2", _table("b")))
        ),
    )
}


class Design:
    """A simulated cluster of three nodes as a world whose events are requests, messages and perhaps one crash."""

    def __init__(
        self, system: str, scope: Scope, *, ahead: Sequence[str], crash: str | None = None, options: Mapping[str, str]
    ) -> None:
        """Raise PlanError for a design whose messages have no end, or that has none.

        `ahead` are the coordinators in the order of their clocks; `crash` is the node that is killed and started once.
        """
        blueprint = blueprint_of(system)
        if scope.moves is not None and blueprint.model not in _EXPLORED_RINGS:
            raise PlanError(f"{system}: its ring changes by the clock, and not by messages that follow from each other")
        if blueprint.model not in _EXPLORED:
            raise PlanError(f"{system} cannot be explored: what it sends by the clock has no end")
        if blueprint.model == "rows" and "no-order" not in flaws_of(blueprint, options):
            raise PlanError(
                f"{system} without no-order has a sequencer that sends no message: there is nothing to order"
            )
        self._plan = Plan(system=system, workloads=("schema-churn",), cluster="simulated", options=dict(options))
        self._scope = scope
        self._ahead = ahead
        self._crash = crash
        self._handled_ns = _HANDLED_NS if scope.moves is None else _STREAMED_NS
        self._folder = Path(tempfile.gettempdir())  # nothing is written: the cluster is never stopped

    # ── a world ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def begin(self) -> None:
        """Boot a cluster, and carry out what comes before."""
        provider = SimulatedProvider()
        runtime = provider.runtime(self._plan)
        self._heap = runtime.heap
        self._outcomes: dict[int, Completion] = {}
        self._held: dict[EventId, tuple[Event, Message | None]] = {}
        self._last: dict[str, EventId] = {}
        self._sent: dict[tuple[EventId, str, str], int] = {}
        self._channel: dict[tuple[str, str], EventId] = {}
        with runtime.waiting():
            cluster = provider.create(self._plan, self._folder)
            cluster.start()
            connector = cluster.connector()
            self._clients = {node.name: connector.connect(node.name, request_timeout_s=20) for node in cluster.nodes}
            self.nodes: dict[str, SimulatedNode] = {node.name: node for node in cluster.nodes}
            for number, change in enumerate(self._scope.before, start=-len(self._scope.before)):
                self._request(number, "n1", change)
                self._run(2 * S)
                if self._outcomes[number].type != "ok":
                    raise SchemaquakeError(f"the scope {self._scope.name} cannot begin: {self._outcomes[number].error}")
        self.schema = self.nodes["n1"].serving.memory if self.nodes["n1"].serving else {}
        for place, name in enumerate(self._ahead):
            self.nodes[name].skew_clock(_APART_S * place)
        self.timers = 0
        self.nodes["n1"].kernel.costs = _Least()
        self._network.takes = self._take
        before: dict[str, EventId] = {}
        for number, (node, _) in enumerate(self._scope.changes):
            own: EventId = ("request", number)
            self._hold(Event(own, node, (before[node],) if node in before else ()), None)
            before[node] = own
        if self._scope.moves is not None:
            self._hold(Event(("move", self._scope.moves[0]), self._scope.moves[0], ()), None)
        if self._crash is not None:
            self._hold(Event(("crash", self._crash), self._crash, ()), None)
        self._done: set[EventId] = set()

    def pending(self) -> Sequence[Event]:
        """Return what may happen next; if nothing is left, timers may bring something."""
        found = self._enabled()
        if not found:
            self._run(_QUIET_NS)
            found = self._enabled()
            self.timers += bool(found)
        return found

    def take(self, event: Event) -> frozenset[str]:
        """Let a request arrive, a message, or a node be killed and started again."""
        if event.id not in self._held:
            raise Unrepeatable(str(event.id))
        _, message = self._held.pop(event.id)
        self._done.add(event.id)
        self._last[event.node] = event.id
        uses = self._shared_uses()
        node = self.nodes[event.node]
        if event.id[0] == "crash":
            node.kill()
            node.start()
            self._run(_BOOTS_NS)
            if node.server is not None:
                # Gossip stands still, and a node that was just started would take all others for dead.
                gossip = node.server.gossip
                gossip.up = dict.fromkeys(node.peers, True)
                gossip.heard_ns = dict.fromkeys(node.peers, self._heap.now_ns)
        elif event.id[0] == "move":
            self._move(node)
            self._run(self._handled_ns)
        elif message is None:
            number = event.id[1]
            assert isinstance(number, int)
            self._request(number, event.node, self._scope.changes[number][1])
            self._run(self._handled_ns)
        else:
            # What is under way when a node is killed reaches its next life, as if sent again; answers find nobody who asked.
            node.arrive(message)
            self._run(self._handled_ns)
        return frozenset({event.node, _SHARED} if self._shared_uses() != uses else {event.node})

    def _shared_uses(self) -> int:
        """Return how often nodes used what a model has for all of them: a log that is not made of messages."""
        uses: int = getattr(self.nodes["n1"].model, "shared_uses", 0)
        return uses

    def state(self) -> Hashable:
        """Return what each node has, and what is held."""
        memories = [repr(node.serving.memory) if node.serving else "" for node in self.nodes.values()]
        held = sorted(map(repr, self._held))
        return blake2b("\n".join((*memories, *held)).encode(), digest_size=16).digest()

    # ── the end ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def judge(self) -> tuple[str, ...]:
        """Let the cluster settle, start all nodes again, and return what is wrong, as types of anomalies."""
        self._network.takes = None
        self._run(_SETTLES_NS)
        wrong = []
        settled = {name: node.serving.memory if node.serving else None for name, node in self.nodes.items()}
        if any(memory is None or memory != settled["n1"] for memory in settled.values()):
            wrong.append("schema-disagreement")
        elif (final := settled["n1"]) is not None and _names(final) not in self._lawful():
            wrong.append("non-linearizable-ddl")
        if self._scope.moves is not None:
            wrong += self._judge_rows()
        for node in self.nodes.values():
            node.kill()
        for node in self.nodes.values():
            node.start()
        self._run(_BOOTS_NS)
        if any(node.serving is None for node in self.nodes.values()):
            wrong.append("node-will-not-start")
        elif any(node.serving.memory != settled[name] for name, node in self.nodes.items() if node.serving):
            wrong.append("memory-disk-divergence")
        return tuple(wrong)

    def _judge_rows(self) -> list[str]:
        """Return what is wrong with rows and ring: an acknowledged row that a read did not find, or nodes that place rows differently."""
        written = [number for number, (_, each) in enumerate(self._scope.changes) if each.f == "insert"]
        looks = [number for number, (_, each) in enumerate(self._scope.changes) if each.f == "read-rows"]
        for number, name in enumerate(self.nodes, start=len(self._scope.changes)):
            self._request(number, name, self._scope.changes[looks[0]][1])
            looks.append(number)
        self._run(2 * S)
        answers = [answer for number in looks if (answer := self._outcomes.get(number)) is not None]
        wrong = []
        if all(self._type(number) == "ok" for number in written) and any(
            answer.type == "ok" and not answer.value["rows"] for answer in answers
        ):
            wrong.append("missed-quorum-write")
        rings = [node.serving.ring for node in self.nodes.values() if node.serving]
        if any(not isinstance(ring, Topology) or ring.ring != rings[0].ring for ring in rings):  # type: ignore[union-attr]
            wrong.append("divided-placements")
        return wrong

    def _lawful(self) -> frozenset[Hashable]:
        """Return the names that some order of the changes leaves, each at once: acknowledged ones in it, refused ones not."""
        found: set[Hashable] = set()
        numbers = [number for number, (_, each) in enumerate(self._scope.changes) if each.f in ddl.SCHEMA_CHANGES]
        sure = [number for number in numbers if self._type(number) == "ok"]
        open_ = [number for number in numbers if self._type(number) == "info"]
        for size in range(len(open_) + 1):
            for some in permutations(open_, size):
                for order in permutations([*sure, *some]):
                    schema = self._after(order)
                    if schema is not None:
                        found.add(_names(schema))
        return frozenset(found)

    def _type(self, number: int) -> str:
        completion = self._outcomes.get(number)
        return "info" if completion is None else completion.type

    def _after(self, order: Sequence[int]) -> Schema | None:
        """Return the schema after the changes in this order; None if one is refused, or overtakes one of its own client."""
        schema = self.schema
        for place, number in enumerate(order):
            node, change = self._scope.changes[number]
            if any(later < number and self._scope.changes[later][0] == node for later in order[place + 1 :]):
                return None
            try:
                schema = carry_out(schema, change.f, change.value, Making(lambda *_: "0" * 32, 0))
            except ServerSaid:
                return None
        return schema

    # ── means ────────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def _network(self) -> Any:
        return self.nodes["n1"].network

    def _enabled(self) -> list[Event]:
        return [
            event for event, _ in self._held.values() if self._done.issuperset(event.causes) and self._may_begin(event)
        ]

    def _may_begin(self, event: Event) -> bool:
        """Return False for a read that has to wait for the writes before it."""
        number = event.id[1]
        if event.id[0] != "request" or not isinstance(number, int) or self._scope.changes[number][1].f != "read-rows":
            return True
        return all(self._type(each) == "ok" for each in range(number))

    def _move(self, node: SimulatedNode) -> None:
        """Have a node begin to move."""
        model, server = node.model, node.server
        assert isinstance(model, ChangingRing)
        assert server is not None
        assert self._scope.moves is not None
        token = str(self._scope.moves[1] - (SPACE >> 1))
        server.begin("move", model.reshape(node, "move", about=None, argument=token), lambda _result, _said: None)

    def _hold(self, event: Event, message: Message | None) -> None:
        self._held[event.id] = event, message

    def _take(self, sender: str, receiver: str, message: Message) -> bool:
        """Hold a message: it is known by what its sender did last, its receiver and a number."""
        if message.kind == "gossip":
            return True
        cause = self._last.get(sender, ("begin",))
        place = (cause, sender, receiver)
        self._sent[place] = number = self._sent.get(place, 0) + 1
        own: EventId = (message.kind, sender, receiver, number, cause)
        before = self._channel.get((sender, receiver))
        self._channel[sender, receiver] = own
        causes = [each for each in (cause, before) if each is not None and each != ("begin",)]
        self._hold(Event(own, receiver, tuple(causes)), message)
        return True

    def _request(self, number: int, node: str, change: Invoke) -> None:
        self._clients[node].submit(change, partial(self._outcomes.__setitem__, number))

    def _run(self, length_ns: int) -> None:
        self._heap.run(lambda: False, until_ns=self._heap.now_ns + length_ns)


def _names(schema: Schema) -> Hashable:
    """Return what is in a schema by name: objects, and the columns of tables."""
    return tuple(
        (
            name,
            tuple(sorted((table, tuple(sorted(each.columns))) for table, each in keyspace.tables.items())),
            tuple(sorted(keyspace.types)),
        )
        for name, keyspace in sorted(schema.items())
    )


def _draw_picks(draws: Stream, nodes: Sequence[str]) -> Pick:
    """Draw how the events of one execution are chosen: how late requests come, and whether a node hears what it is sent only when all else is done."""
    slow = draws.pick(nodes) if draws.chance(0.5) else ""
    early = draws.pick((0.2, 0.05, 0.01, 0.0))

    def pick(pending: Sequence[Event]) -> Event:
        requests = [event for event in pending if event.id[0] == "request"]
        swift = [event for event in pending if event.id[0] != "request" and event.node != slow]
        if requests and draws.chance(early if swift else 0.5):
            return draws.pick(requests)
        return draws.pick(swift if swift and not draws.chance(0.01) else pending)

    return pick


def explore_design(
    system: str,
    scope: Scope,
    *,
    crash: bool = False,
    most: int = 2_000,
    drawn: int = 0,
    options: Mapping[str, str] | None = None,
    reduces: bool = True,
) -> Iterator[tuple[tuple[str, ...], str | None, Explored]]:
    """Explore a design: yields the order of clocks, the node that crashes, and what was found, for each of both.

    `most` limits the executions of each. With `drawn` so many executions are drawn instead, from the same seed every time. Raises PlanError for a design that cannot be explored.
    """
    coordinators = tuple(dict.fromkeys(node for node, _ in scope.changes))
    for ahead in permutations(coordinators):
        for node in ("n1", "n2", "n3") if crash else (None,):
            design = Design(system, scope, ahead=ahead, crash=node, options=options or {})
            if drawn:
                picks = partial(_draw_picks, Draws(1).stream("explore", *ahead, node), ("n1", "n2", "n3"))
                yield ahead, node, sample(design, design.judge, picks, count=drawn, deepest=_DEEPEST)
                continue
            yield ahead, node, explore(design, design.judge, most=most, deepest=_DEEPEST, reduces=reduces)
