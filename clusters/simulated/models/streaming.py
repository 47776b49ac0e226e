"""Streaming: a node takes over the rows of ranges that it is about to be read from, range by range.

- s1 the target asks a source for one range
- s2 what came, to disk; a kill before it leaves the range to be streamed again

A source answers with the rows that it has, last write wins merges them into those of the target. Rows of tables that the target
does not know (any more) are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol

from schemaquake.clusters.simulated.disk import RowKey
from schemaquake.clusters.simulated.faces import Answers, Node, Server, Steps
from schemaquake.clusters.simulated.messages import Failure, Message
from schemaquake.clusters.simulated.models.serving import server_of
from schemaquake.clusters.simulated.processes import Sleep, Step, Sync
from schemaquake.clusters.simulated.ring import Copies, order_of, token_of, total_of
from schemaquake.clusters.simulated.said import ServerSaid
from schemaquake.clusters.simulated.schema.definitions import Schema
from schemaquake.clusters.simulated.topology import Moving, Topology, Transfer, factors_of
from schemaquake.harness.units import MS, S

__all__ = ["Streams"]

_RANGE_LIMIT_NS: Final = 10 * S
_ALL_LIMIT_NS: Final = 60 * S


class _Row(NamedTuple):
    table_id: str
    keyspace: str
    name: str
    key: RowKey
    cells: dict[str, tuple[int, Any]]
    deleted_us: int


class StreamObserver(Protocol):
    """Sees whom rows are streamed from."""

    def streams_from(self, node: Node, transfer: Transfer, sources: Sequence[str]) -> None:
        """Take note of a node to which a range was streamed from these, and not from the node that loses it."""
        ...

    def streamed(self, node: Node, transfer: Transfer, sources: Sequence[str]) -> None:
        """Take note of a node that has a range of these, as far as there are keyspaces with its factor."""
        ...

    def has_taken_over(self, node: Node, target: str, ranges: Sequence[tuple[Copies, int]]) -> None:
        """Take note of a node that is about to be read from; `ranges` are those that it comes to, by factor and end."""
        ...

    def took_own_place(self, node: Node, ring: Topology, factor: Copies) -> None:
        """Take note of a node with an empty disk that has streamed all that it should have of keyspaces with a factor."""
        ...

    def has_own_place(self, node: Node, ring: Topology, schema: Schema) -> None:
        """Take note of a node with an empty disk that is about to be read from; `schema` is what it had to stream rows for when it began."""
        ...


class Streams:
    """The streams of a design."""

    kinds: Final = frozenset({"stream", "take-over"})

    def __init__(
        self,
        flaws: frozenset[str],
        steps: Sequence[Step],
        *,
        heed: Callable[[Node, Message], Steps] | None = None,
        is_open: Callable[[Node, Any], bool] = lambda _node, _session: True,
        is_given_up: Callable[[Node, str], bool] = lambda _node, _name: False,
    ) -> None:
        """`steps` are s1 and s2 of the design. `heed` has a source know what the target knew when it asked; `is_open` says if a session goes on on this node.

        `is_given_up` says if a node is lost for good, so that nothing is streamed to it, and rows which it alone has are not waited for.
        """
        self._flaws = flaws
        self._asks, self._writes = steps
        self._heed = heed
        self._is_open = is_open
        self._is_given_up = is_given_up
        self.invariants: StreamObserver | None = None
        """The observer of streams; None: nobody looks."""

    def move(self, node: Node, topology: Topology, moving: Moving, session: Any, *, again: bool = False) -> Steps:
        """Have all targets of a change take over what they need; returns whether all did. `node` asks them.

        `again`: the change was tried before.
        """
        targets: dict[str, list[Transfer]] = {}
        for factor in factors_of(topology.ring):
            for transfer in topology.transfers(moving, factor):
                targets.setdefault(transfer.target, []).append(transfer)
        for target, transfers in sorted(targets.items()):
            if self._is_given_up(node, target):
                continue
            left = transfers[1::2] if again and "skip-streamed" in self._flaws else transfers
            if target == node.name:
                done = yield from self.take_over(node, left, session)
            else:
                answers: Answers = yield server_of(node).ask(
                    [target], "take-over", (left, session), need=1, limit_ns=_ALL_LIMIT_NS
                )
                done = answers.enough
            if not done:
                return False
        return True

    def look_at_targets(self, node: Node, topology: Topology, moving: Moving) -> None:
        """Have it looked at whether all targets of a change have their ranges, before they are read from."""
        if self.invariants is None or "skip-streamed" in self._flaws:
            return
        targets: dict[str, list[tuple[Copies, int]]] = {}
        for factor in factors_of(topology.ring):
            for transfer in topology.transfers(moving, factor):
                targets.setdefault(transfer.target, []).append((factor, transfer.span.end))
        for target, ranges in targets.items():
            if not self._is_given_up(node, target):
                self.invariants.has_taken_over(node, target, ranges)

    def repair(self, node: Node, topology: Topology) -> Steps:
        """Make all replicas of the node's ranges hold what any of them holds. Raises ServerSaid if one does not answer."""
        server = server_of(node)
        for factor in sorted({keyspace.replication_factor for keyspace in server.memory.values()}, key=order_of):
            for pulled in topology.own_transfers(node.name, factor):
                done = not pulled.sources or (yield from self.take_over(node, [_from_all(pulled)], None))
                for other in pulled.sources:
                    given = Transfer(factor, pulled.span, other, (node.name,), is_strict=True, readers=(node.name,))
                    answers: Answers = yield server.ask(
                        [other], "take-over", ([given], None), need=1, limit_ns=_ALL_LIMIT_NS
                    )
                    done = done and answers.enough
                if not done:
                    raise ServerSaid("ServerError", "Repair session failed: a replica did not answer")

    def take_over(self, node: Node, transfers: Sequence[Transfer], session: Any) -> Steps:
        """Take over rows of these ranges on the node itself; returns whether all were streamed."""
        server = server_of(node)
        for transfer in transfers:
            keyspaces = _keyspaces(server, transfer.factor)
            if not keyspaces:
                self._look_at_range(node, transfer, transfer.sources)
                continue
            sources = self._sources(node, transfer)
            if not sources:
                return False
            taken: list[str] = []
            for source in sources:
                yield self._asks
                answers: Answers = yield server.ask(
                    [source], "stream", (transfer.span, keyspaces), need=1, limit_ns=_RANGE_LIMIT_NS
                )
                if not answers.enough:
                    return False
                yield self._writes
                yield Sync()
                if not self._is_open(node, session):
                    return False
                self._write(node, server, answers.answers[source])
                taken.append(source)
            self._look_at_sources(node, transfer, taken)
            self._look_at_range(node, transfer, taken)
        return True

    def take_own_place(self, node: Node, topology: Topology, factor: Copies) -> Steps:
        """Take over all that a node with an empty disk should have of keyspaces with a factor; tried again until it is done."""
        transfers = list(topology.own_transfers(node.name, factor))
        while not (yield from self.take_over(node, transfers, None)):
            yield Sleep(500 * MS)
        if self.invariants is not None:
            self.invariants.took_own_place(node, topology, factor)

    def look_at_own_place(self, node: Node, topology: Topology, schema: Schema) -> None:
        """Have it looked at whether a node that takes its own place has the rows of all keyspaces that there were when it began."""
        if self.invariants is not None:
            self.invariants.has_own_place(node, topology, schema)

    def _look_at_range(self, node: Node, transfer: Transfer, sources: Sequence[str]) -> None:
        if self.invariants is not None:
            self.invariants.streamed(node, transfer, sources)

    def _look_at_sources(self, node: Node, transfer: Transfer, sources: Sequence[str]) -> None:
        has_flaw = "stream-any" in self._flaws or "replaced-from-one" in self._flaws
        if self.invariants is None or transfer.is_strict or has_flaw:
            return
        if not any(self._is_given_up(node, name) for name in transfer.sources):
            self.invariants.streams_from(node, transfer, sources)

    def _sources(self, node: Node, transfer: Transfer) -> Sequence[str]:
        """Return whom a range is streamed from: its loser, or where that is dead so many readers that one has every quorum's rows.

        Empty: too few of them live.
        """
        alive = server_of(node).gossip.alive
        sources = transfer.sources
        if "stream-any" in self._flaws or ("replaced-from-one" in self._flaws and not transfer.is_strict):
            # The closest replica, whoever loses the range.
            return [name for name in sorted(transfer.readers, reverse=True) if alive(name)][:1] or sources[:1]
        if transfer.is_strict:
            return sources
        living = [name for name in sources if alive(name)]
        if any(self._is_given_up(node, name) for name in sources):
            return living
        replicas = [*sources, transfer.target]
        if len(replicas) < total_of(transfer.factor):
            return living
        # One of them has to have each row that a quorum of all acknowledged, or one of a data centre (LOCAL_QUORUM).
        by_center = {} if isinstance(transfer.factor, int) else node.by_data_center(replicas)
        quorums = [replicas, *by_center.values()]
        return living if all(_reaches(living, quorum) for quorum in quorums) else ()

    def _write(self, node: Node, server: Server, rows: Sequence[_Row]) -> None:
        for row in rows[: -1 if "unstreamed" in self._flaws else None]:
            if server.table(row.table_id) is not None:
                node.disk.files(row.keyspace, row.name, row.table_id).write(row.key, row.cells, row.deleted_us)

    # ── messages ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def receive(self, node: Node, message: Message) -> Steps:
        """Answer a target with rows, or take over what a node that leaves or moves hands over."""
        if message.kind == "stream":
            return self._send(node, message)
        return self._take_over(node, message)

    def _send(self, node: Node, message: Message) -> Steps:
        if self._heed is not None:
            yield from self._heed(node, message)
        yield Sleep(node.kernel.cost_ns(5 * MS, 40 * MS))
        span, keyspaces = message.body
        rows = []
        for table_id, files in sorted(node.disk.tables.items()):
            if files.keyspace not in keyspaces:
                continue
            for partition, found in files.partitions.items():
                if span.has(token_of(partition)):
                    rows += [
                        _Row(table_id, files.keyspace, files.name, key, dict(cells), files.deleted_us.get(key, 0))
                        for key, cells in found.items()
                    ]
        server_of(node).answer(message, rows)

    def _take_over(self, node: Node, message: Message) -> Steps:
        if self._heed is not None:
            yield from self._heed(node, message)
        transfers, session = message.body
        done = yield from self.take_over(node, transfers, session)
        server_of(node).answer(message, True if done else Failure("not streamed"))


def _from_all(transfer: Transfer) -> Transfer:
    """Return a transfer that needs an answer of every source: no replica's rows may be left out of a repair."""
    return transfer._replace(is_strict=True)


def _reaches(living: Sequence[str], replicas: Sequence[str]) -> bool:
    """Return whether those who live meet every majority of these replicas."""
    return sum(name in living for name in replicas) > len(replicas) - (len(replicas) // 2 + 1)


def _keyspaces(server: Server, factor: Copies) -> tuple[str, ...]:
    """Return the keyspaces whose rows are placed by a replication factor."""
    return tuple(name for name, keyspace in server.memory.items() if keyspace.replication_factor == factor)
