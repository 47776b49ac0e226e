"""Rows: the schema is last-write-wins rows on every node, spread by push, pull and merge; its version is their digest.

Cassandra 4.0 to 5.0 (`schema/DefaultSchemaUpdateHandler.java`, `schema/MigrationCoordinator.java`). A coordinator checks a
change against its own memory alone, writes rows for the difference, and installs what it *computed*; every other node
installs what it *loads* from the rows that it merged. Nothing but the clocks orders two changes of two coordinators.

**Change** on its coordinator, one at a time:

- e1 after = the change, carried out on the definitions in memory; refusals end here
- e2 the difference to before; none: done
- e3 rows for the difference, stamped with the wall clock
- e4 the rows to disk
- e5 memory = after
- e6 version = digest of the disk
- e7 gossip tells the version
- e8 the rows are pushed to all who live, and not waited for

**Merge** of rows that were pushed or pulled, one at a time:

- p1 the rows to disk
- p2 the keyspaces that they touch are loaded from disk; a load that fails leaves memory and version as they were
- p3 tables whose id changed or is gone are dropped: a snapshot, then their files
- p4 memory = what was loaded
- p5 version = digest of the disk
- p6 gossip tells the version

Without the flaw `no-order` a free sequencer decides each change after all before it, and applies it on every node before it is
answered; a node that was down catches up before it serves. Without another flaw what would break is mended where it would
happen: ids are the same for all who create one table, ALTER writes only what it changes, and a merge refuses rows after which a
keyspace could not be loaded.

A **pull** asks a node whose version differs for all rows: after a delay, at once if this server is young or has no schema.
A **start** loads all keyspaces from disk, or dies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from schemaquake.clusters.simulated.data import DataPath
from schemaquake.clusters.simulated.faces import Node, Steps
from schemaquake.clusters.simulated.messages import Message
from schemaquake.clusters.simulated.models.gossiped_ring import GossipedRing
from schemaquake.clusters.simulated.models.invariants import Breaches
from schemaquake.clusters.simulated.models.merging import Order, Pulls, id_of_its_past, log_failed_merge, recheck
from schemaquake.clusters.simulated.models.requests import Requests
from schemaquake.clusters.simulated.models.row_invariants import RowInvariants, looked_at
from schemaquake.clusters.simulated.models.schema_invariants import MergeInvariants
from schemaquake.clusters.simulated.models.serving import drop_files, misses_drop, serve_schema, time_id
from schemaquake.clusters.simulated.models.steps import numbered
from schemaquake.clusters.simulated.models.tables import answer_from_tables
from schemaquake.clusters.simulated.models.turns import Turns
from schemaquake.clusters.simulated.processes import Died, Sleep, Sync
from schemaquake.clusters.simulated.ring import Ring
from schemaquake.clusters.simulated.said import ServerSaid
from schemaquake.clusters.simulated.schema.changes import Making, carry_out
from schemaquake.clusters.simulated.schema.loading import load_keyspaces
from schemaquake.clusters.simulated.schema.mutations import Writing, difference
from schemaquake.clusters.simulated.schema.rows import RowChange
from schemaquake.clusters.simulated.topology import Topology
from schemaquake.harness.units import MS, S

if TYPE_CHECKING:
    from schemaquake.harness.model.steps import Invoke
    from schemaquake.harness.model.topology import TopologyVerb

__all__ = ["Rows"]

_PULLS_AT_ONCE: Final = 3
_PULL_LIMIT_NS: Final = 10 * S

E1, E2, E3, E4, E5, E6, E7, E8 = numbered("4.0/apply", "e1", "e2", "e3", "e4", "e5", "e6", "e7", "e8")
P1, P2, P3, P4, P5, P6 = numbered("4.0/merge", "p1", "p2", "p3", "p4", "p5", "p6")
B1, B2, B3 = numbered("4.0/boot", "b1", "b2", "b3")


class Rows:
    """The design of 4.0 to 5.0."""

    describes_memory: bool = True
    steps = (
        tuple(step.name for step in (E1, E2, E3, E4, E5, E6, E7, E8, P1, P2, P3, P4, P5, P6, B1, B2, B3))
        + GossipedRing.steps
    )
    verbs = GossipedRing.verbs
    takes_own_place = True
    keeps_host_id = True
    steps_shown = ("under-way",)

    def __init__(self, ring: Ring, flaws: frozenset[str], *, pull_delay_s: float = 1.0, by_turns: bool = False) -> None:
        """`by_turns`: without the flaw `no-order` changes come one after another, each by the protocol."""
        self.flaws = flaws
        data = DataPath(
            ring,
            late_cells_break="write-meets-drop" in flaws,
            rechecks="gossip-pending" not in flaws,
            writes_pending="old-replica-only" not in flaws,
            misses_drop=misses_drop if flaws.isdisjoint({"unordered-rows", "no-order"}) else None,
        )
        self._requests = Requests(data, self.change)
        self._ring = GossipedRing(flaws)
        self._order = None if "no-order" in flaws or by_turns else Order()
        self._turns = Turns(gives_up_with="OperationTimedOut") if by_turns and "no-order" not in flaws else None
        self._writing = Writing(
            keyspace_row="keyspace-row" in flaws, whole_row="whole-row" in flaws, rows_unite="row-union" in flaws
        )
        self._invariants: MergeInvariants | None = None
        self._pull_delay_ns = round(pull_delay_s * S)

    def watch(self, nodes: Sequence[Node]) -> None:
        """Have what must hold of all nodes at once be looked at (`schemaquake.clusters.simulated.models.invariants`)."""
        breaches = Breaches()
        self._requests.data.invariants = self._ring.rows = self._ring.streams.invariants = RowInvariants(
            nodes, breaches
        )
        self._invariants = None if self.flaws else MergeInvariants(breaches)
        if self._order is not None:
            self._order.invariants = self._invariants

    # ── a change ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def serve(self, node: Node, request: Invoke) -> Steps:
        """Carry out a client's request."""
        return self._requests.serve(node, request)

    def change(self, node: Node, f: str, value: Mapping[str, Any]) -> Steps:
        """Carry out one schema change; returns whether there was anything to change. Raises ServerSaid."""
        assert node.server is not None
        carried_out = self._apply if self._order is None else self._apply_in_order
        steps = node.server.staged("migration", carried_out(node, f, value))
        return steps if self._turns is None else self._turns.in_turn(node, steps)

    def _apply_in_order(self, node: Node, f: str, value: Mapping[str, Any]) -> Steps:
        """Carry out one change on every node at once, after all changes before it."""
        assert self._order is not None
        yield E1
        changed = self._order.change(node, f, value, partial(self._new_id, node), self._writing)
        yield E8
        return changed

    def _apply(self, node: Node, f: str, value: Mapping[str, Any]) -> Steps:
        server = node.server
        assert server is not None
        yield E1
        before = server.memory
        making = Making(partial(self._new_id, node), node.clock.schema_stamp_us())
        after = carry_out(before, f, value, making)
        yield E2
        if after is before:
            return False
        yield E3
        rows = difference(before, after, self._stamp_us(node), self._writing)
        yield E4
        yield Sync()
        node.disk.schema.merge(rows)
        wanted = after
        yield E5
        if "computed-memory" not in self.flaws:
            after = load_keyspaces(
                node.disk.schema, sorted({row.keyspace for row in rows}), before, partial(_warn, node)
            )
        serve_schema(node, after)
        yield E6
        server.version = node.disk.schema.version()
        if self._invariants is not None:
            self._invariants.merged(node, rows)
            self._invariants.changed(node, wanted, rows)
        yield E7
        server.gossip.tell()
        yield E8
        for name in server.gossip.peers_alive():
            server.send(name, "push", rows)
        return True

    # ── a merge ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def receive(self, node: Node, message: Message) -> Steps | None:
        """Handle a message: rows that were pushed, a pull, or one of the data path."""
        server = node.server
        assert server is not None
        if message.kind in DataPath.kinds:
            self._requests.data.receive(node, message)
            return None
        match message.kind:
            case "push":
                return self._merge(node, message.body)
            case "pull":
                server.answer(message, node.disk.schema.changes())
                return None
        return self._ring.receive(node, message)

    def _merge(self, node: Node, rows: Iterable[RowChange]) -> Steps:
        """Merge rows; a load that fails is logged, and the sender gets no answer."""
        assert node.server is not None
        try:
            yield from node.server.staged("migration", self._merge_rows(node, list(rows)))
        except ServerSaid as said:
            log_failed_merge(node, said)

    def _merge_rows(self, node: Node, rows: Sequence[RowChange]) -> Steps:
        server = node.server
        assert server is not None
        yield P1
        yield Sync()
        recheck(node, rows, self.flaws)
        node.disk.schema.merge(rows)
        yield P2
        touched = sorted({row.keyspace for row in rows})
        loaded = load_keyspaces(node.disk.schema, touched, server.memory, partial(_warn, node))
        yield P3
        drop_files(node, loaded)
        yield P4
        serve_schema(node, loaded)
        yield P5
        server.version = node.disk.schema.version()
        if self._invariants is not None:
            self._invariants.merged(node, rows)
        yield P6
        server.gossip.tell()

    def _stamp_us(self, node: Node) -> int:
        """Return the timestamp of rows: whole milliseconds; where CREATEs must not unite, different on every node."""
        own = 0 if self._writing.rows_unite else 2 * sorted((node.name, *node.peers)).index(node.name)
        return node.clock.schema_stamp_us() + own

    def _new_id(self, node: Node, keyspace: str, name: str) -> str:
        """Make a table's id: a time UUID of this node; without that flaw, one that depends on the table's past alone."""
        if "time-id" in self.flaws:
            return time_id(node)
        return id_of_its_past(node, keyspace, name)

    # ── gossip, pulls ────────────────────────────────────────────────────────────────────────────────────────────────

    def gossip(self, node: Node) -> Mapping[str, Any]:
        """Return the node's schema version, and the members that it knows."""
        assert node.server is not None
        return {"version": str(node.server.version), "ring": self._ring.told(node)}

    def heard(self, node: Node, name: str, state: Mapping[str, Any]) -> None:
        """Take over members, and pull from a node whose version differs."""
        server = node.server
        assert server is not None
        self._ring.heard(node, state["ring"])
        version = state["version"]
        is_starting = server.phase == "booting" and node.joins is None  # one that joins needs the schema before rows
        if self._order is not None or is_starting or version == str(server.version):
            return
        pulls: Pulls = server.state
        pulls.consider(node, name, version)

    def answer(self, node: Node, text: str) -> Iterable[Mapping[str, Any]]:
        """Answer a statement by which the node's schema is read."""
        ring = None if node.server is None else node.server.ring
        return answer_from_tables(node, text, ring if isinstance(ring, Topology) else None)

    def reshape(self, node: Node, verb: TopologyVerb, *, about: str | None, argument: str | None) -> Steps:
        """Carry out a change of the ring that an operator asked this node for. Raises ServerSaid."""
        steps = self._ring.reshape(node, verb, about=about, argument=argument)
        return looked_at(self._ring.rows, node, verb, steps)

    # ── a start ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def boot(self, node: Node) -> Steps:
        """Load all keyspaces from disk, join gossip, and wait for the others' state."""
        server = node.server
        assert server is not None
        server.state = Pulls(self._pull_delay_ns, self._merge, repeats=self._turns is not None)
        node.clock.is_trusted = "wall-clock" in self.flaws
        if self._order is not None:
            self._order.meet(node)
        if self._turns is not None:
            self._turns.meet(node)
        yield B1
        yield Sleep(node.kernel.cost_ns(400 * MS, 800 * MS))
        try:
            schema = load_keyspaces(node.disk.schema, sorted(node.disk.schema.keyspaces), {}, partial(_warn, node))
        except ServerSaid as said:
            raise Died(said.stack) from None
        yield B2
        serve_schema(node, schema)
        server.version = node.disk.schema.version()
        if self._order is not None:
            self._order.catch_up(node)
        if self._invariants is not None:
            self._invariants.started(node)
        self._ring.begin(node)
        yield B3
        takes_own_place = node.joins is not None and node.joins.replaces == node.name
        is_silent = takes_own_place and "own-place-at-once" not in self.flaws
        if is_silent:
            # To others it is dead until it has its rows; it has to hear them before it can ask.
            server.gossip.listen()
        else:
            server.gossip.begin()
        yield Sleep(node.kernel.cost_ns(200 * MS, 400 * MS))
        yield from self._ring.join(node)
        if is_silent:
            server.gossip.begin()


def _warn(node: Node, text: str) -> None:
    node.console.warn("MigrationStage:1", "ViewManager.java:122", text)
