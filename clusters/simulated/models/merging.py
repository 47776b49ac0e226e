"""Merging: what the designs have in common whose schema is last-write-wins rows that every node merges.

The free sequencer of designs without the flaw `no-order`, the check that mends merges, and pulls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final

from schemaquake.clusters.simulated.faces import Answers, Node, Server, Steps
from schemaquake.clusters.simulated.models.schema_invariants import MergeInvariants
from schemaquake.clusters.simulated.models.serving import serve_schema, server_of
from schemaquake.clusters.simulated.processes import Sleep
from schemaquake.clusters.simulated.said import ServerSaid
from schemaquake.clusters.simulated.schema.changes import Making, carry_out
from schemaquake.clusters.simulated.schema.definitions import Schema
from schemaquake.clusters.simulated.schema.loading import load_keyspaces
from schemaquake.clusters.simulated.schema.mutations import Writing, difference
from schemaquake.clusters.simulated.schema.rows import RowChange, SchemaRows
from schemaquake.harness.units import S

__all__ = ["Order", "Pulls", "id_of_its_past", "log_failed_merge", "recheck"]

_AT_ONCE: Final = 3
_LIMIT_NS: Final = 10 * S
_RACES: Final = frozenset({"type-race", "function-race", "base-race", "target-race", "whole-row"})
"""Flaws by which a merge takes rows that cannot be loaded."""


class Order:
    """A free sequencer: the schema after the last change, and all rows so far."""

    def __init__(self) -> None:
        self.schema: Schema = {}
        self._rows: list[RowChange] = []
        self._nodes: dict[str, Node] = {}
        """Every node that was ever started."""
        self._following: dict[str, Server] = {}
        """The servers that have caught up."""
        self._stamp_us = 0
        self.invariants: MergeInvariants | None = None
        """The observer of what nodes have merged; None: nobody looks."""

    def meet(self, node: Node) -> None:
        """Take note of a node, whose timestamps count from now on."""
        self._nodes[node.name] = node

    def stamp_us(self, node: Node) -> int:
        """Return a timestamp above all that any node has given out, for rows or for schema."""
        self._stamp_us = (
            max([self._stamp_us, node.clock.schema_stamp_us(), *(n.clock.last_us for n in self._nodes.values())]) + 1
        )
        return self._stamp_us

    def change(
        self, node: Node, f: str, value: Mapping[str, Any], new_id: Callable[[str, str], str], writing: Writing
    ) -> bool:
        """Carry out one change on every node at once; returns whether there was anything to change. Raises ServerSaid."""
        stamp_us = self.stamp_us(node)
        after = carry_out(self.schema, f, value, Making(new_id, stamp_us))
        if after is self.schema:
            return False
        rows = difference(self.schema, after, stamp_us, writing)
        self.schema = after
        self._rows += rows
        for name, server in self._following.items():
            if self._nodes[name].server is server:
                self._take(self._nodes[name], rows)
        return True

    def catch_up(self, node: Node) -> None:
        """Have a node hold all rows so far, and every change from now on."""
        self._following[node.name] = server_of(node)
        self._take(node, self._rows)

    def _take(self, node: Node, rows: Sequence[RowChange]) -> None:
        node.disk.schema.merge(rows)
        serve_schema(node, self.schema)
        server_of(node).version = node.disk.schema.version()
        if self.invariants is not None:
            self.invariants.merged(node, rows)


def recheck(node: Node, rows: Sequence[RowChange], flaws: frozenset[str]) -> None:
    """Refuse rows after which a keyspace could not be loaded, in designs that check. Raises ServerSaid."""
    if flaws >= _RACES:
        return
    trial = SchemaRows()
    for keyspace in {row.keyspace: None for row in rows}:
        trial.merge(node.disk.schema.changes(keyspace))
    trial.merge(rows)
    unloadable: list[str] = []
    try:
        load_keyspaces(trial, sorted(trial.keyspaces), {}, unloadable.append)
    except ServerSaid as said:
        if said.flaw not in flaws:
            raise
    if unloadable and "base-race" not in flaws:
        raise ServerSaid("InvalidRequest", unloadable[0])


def id_of_its_past(node: Node, keyspace: str, name: str) -> str:
    """Return the id of a new table, which depends on the past of its name alone."""
    past = node.disk.schema.deleted_us(keyspace, ("tables", name))
    return blake2b(f"{keyspace}.{name}/{past}".encode(), digest_size=16).hexdigest()


def log_failed_merge(node: Node, said: ServerSaid) -> None:
    """Log a merge that failed: its sender gets no answer."""
    node.console.error(
        "MigrationStage:1",
        "JVMStabilityInspector.java:70",
        "Exception in thread Thread[MigrationStage:1,5,MigrationStage]",
        said.stack,
    )


@dataclass(slots=True)
class Pulls:
    """One server's pulls: it asks a node whose version differs for all its rows."""

    delay_ns: int
    merge: Callable[[Node, Iterable[RowChange]], Steps]
    repeats: bool = False
    """True if a version that was asked for may be asked for again at once: digests come again, and answers are lost."""
    _under_way: dict[str, int] = field(default_factory=dict)
    """By version."""
    _again_ns: dict[tuple[str, str], int] = field(default_factory=dict)
    """By version and node the moment before which it is not asked again."""

    def consider(self, node: Node, name: str, version: str) -> None:
        """Pull from a node of that version, unless it is under way: after the delay, or at once if this server is young or empty."""
        server = server_of(node)
        now_ns = node.kernel.heap.now_ns
        if self._under_way.get(version, 0) >= _AT_ONCE or now_ns < self._again_ns.get((version, name), 0):
            return
        self._under_way[version] = self._under_way.get(version, 0) + 1
        self._again_ns[version, name] = now_ns + 2 * self.delay_ns
        at_once = not server.memory or server.uptime_ns < self.delay_ns
        server.begin("pull", self._pull(node, name, version, 0 if at_once else self.delay_ns))

    def _pull(self, node: Node, name: str, version: str, delay_ns: int) -> Steps:
        server = server_of(node)
        yield Sleep(delay_ns)
        if version != str(server.version) and server.gossip.alive(name):
            answers: Answers = yield server.ask([name], "pull", None, need=1, limit_ns=_LIMIT_NS)
            if answers.enough:
                yield from self.merge(node, answers.answers[name])
        self._under_way[version] -= 1
        if self.repeats:
            self._again_ns.pop((version, name), None)
