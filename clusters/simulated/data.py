"""Data path: how clients' rows are written and read, alike in all models.

A coordinator sends a write to all replicas that it takes for alive and waits for as many as the consistency level says; a
read asks that many, merges what they have (`TableFiles.write`), and repairs those that were behind before it answers.
Whole tables are read range by range. Where there are several data centres, LOCAL_QUORUM and LOCAL_ONE wait for replicas of the
coordinator's alone, EACH_QUORUM for a quorum of each, and a read asks the coordinator's own before others. Replicas know tables by id: one that has no such table, or not such a column, says
so (`INCOMPATIBLE_SCHEMA`, 4.0 and later), and the coordinator counts a failure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol, TypeAlias

from schemaquake.clusters.simulated.disk import RowKey, rank_of
from schemaquake.clusters.simulated.faces import Answers, Node, Steps
from schemaquake.clusters.simulated.messages import Failure, Message
from schemaquake.clusters.simulated.ring import Copies, Ring, RingView, token_of
from schemaquake.clusters.simulated.said import ServerSaid
from schemaquake.clusters.simulated.schema.definitions import Table
from schemaquake.harness.units import US, S

__all__ = ["DataPath", "RowRead", "RowWrite"]

_WRITE_LIMIT_NS: Final = 2 * S
_READ_LIMIT_NS: Final = 5 * S
_INCOMPATIBLE: Final = "INCOMPATIBLE_SCHEMA"
_LOCAL: Final = frozenset({"LOCAL_ONE", "LOCAL_QUORUM", "LOCAL_SERIAL"})
_EACH: Final = "EACH_QUORUM"

_Cells: TypeAlias = dict[str, tuple[int, Any]]
_Rows: TypeAlias = dict[RowKey, tuple[int, _Cells]]
"""By key the time of the row's deletion (0: none) and its cells."""


@dataclass(slots=True)  # not frozen, for the reason of `Message`
class RowWrite:
    """Cells for one row of one table, or its deletion."""

    table_id: str
    key: RowKey
    cells: Mapping[str, tuple[int, Any]]
    deleted_us: int = 0
    version: int = 0
    """The version of the topology by which its coordinator chose replicas; 0 in designs without."""


@dataclass(slots=True)
class RowRead:
    """A question for rows of one table: one partition, or all of them (None)."""

    table_id: str
    partition: tuple[Any, ...] | None
    version: int = 0


MissesDrop: TypeAlias = Callable[[Node, Table], bool]
"""Whether another node has dropped a table that this one serves still."""


class RowObserver(Protocol):
    """An observer of what clients are answered, who sees the disks of all nodes."""

    def sends(self, node: Node, key: RowKey, ring: RingView, factor: Copies, names: Sequence[str]) -> None:
        """Take note of the nodes that a coordinator has sent a write of a row to; `ring` is its own."""
        ...

    def written(self, node: Node, write: RowWrite, ring: RingView, factor: Copies, consistency: str) -> None:
        """Take note of a write that is acknowledged; `ring` is its coordinator's."""
        ...

    def counts(
        self, node: Node, places: Iterable[int], answered: Collection[str], ring: RingView, factor: Copies, consistency: str
    ) -> None:  # fmt: skip
        """Take note of the nodes that have answered a read of rows in these ranges, which goes on with what they have."""
        ...

    def returned(
        self, node: Node, table_id: str, rows: Mapping[RowKey, tuple[int, Mapping[str, tuple[int, Any]]]], ring: RingView,
        factor: Copies, consistency: str, floor: Any,
    ) -> None:  # fmt: skip
        """Take note of the rows that a read of one partition found, with all of their cells; `floor` is what `asked` returned."""
        ...

    def mended(self, node: Node, found: RowWrite, names: Sequence[str]) -> None:
        """Take note of replicas that a read has brought up to what it found of a row."""
        ...

    def shows(
        self, node: Node, table: Table, key: RowKey, deleted_us: int, cells: Mapping[str, tuple[int, Any]]
    ) -> None:
        """Take note of the cells of a row that a client is about to be shown; `deleted_us` is the time of its deletion (0: none)."""
        ...

    def lists(
        self, node: Node, through: Table, sought: Mapping[str, Any], found: Sequence[Any], listed: Sequence[Any]
    ) -> None:
        """Take note of the rows that a view, or an index of a table, lists of those that were found in the table; `sought` are values by column."""
        ...

    def asks(self, node: Node, ring: RingView, questions: Sequence[Answers]) -> None:
        """Take note of questions that a coordinator waits for, whose replicas it chose by a ring."""
        ...

    def stored(self, node: Node, write: RowWrite, deleted_us: int) -> None:
        """Take note of a replica that has carried a write out; `deleted_us` is the time of the row's deletion that it had before (0: none)."""
        ...

    def asked(self, table_id: str, partition: tuple[Any, ...]) -> Any:
        """Return what the observer remembers of a partition when a read of it begins."""
        ...


class DataPath:
    """Reads and writes on the replicas that the coordinator's view of the ring names (`Server.ring`, else the founders' ring)."""

    kinds: Final = frozenset({"write", "read"})

    def __init__(
        self,
        ring: Ring,
        *,
        late_cells_break: bool = False,
        knows_columns: bool = True,
        says_why: bool = True,
        rechecks: bool = True,
        writes_pending: bool = True,
        misses_drop: MissesDrop | None = None,
    ) -> None:
        """Set the habits of a design.

        With `late_cells_break` a cell newer than the drop of its column makes its row unreadable. Without `knows_columns`
        rows take any column, declared or not (Thrift). Without `says_why` a replica that does not know a table or a column
        does not answer (up to 3.11). With `rechecks` a coordinator whose ring has changed meanwhile counts answers by the new one.
        With `writes_pending` rows are written to replicas that are to come, too. With `misses_drop` no replica takes rows of a table
        that another node has dropped, though it may not have heard of that.
        """
        self.ring = ring
        self.knows_columns = knows_columns
        self._says_why = says_why
        self._rechecks = rechecks
        self._writes_pending = writes_pending
        self._late_cells_break = late_cells_break
        self._misses_drop = misses_drop
        self.invariants: RowObserver | None = None
        """The observer of what clients are answered; None: nobody looks."""

    # ── coordinators ─────────────────────────────────────────────────────────────────────────────────────────────────

    def find(self, node: Node, keyspace: str, name: str) -> tuple[Table, Copies]:
        """Return a table in the node's memory, and its keyspace's replication factor. Raises ServerSaid."""
        assert node.server is not None
        found = node.server.memory.get(keyspace)
        if found is None:
            raise ServerSaid("InvalidRequest", f"Keyspace {keyspace} does not exist")
        table = found.relation(name)
        if table is None:
            raise ServerSaid("InvalidRequest", f"table {name} does not exist")
        return table, found.replication_factor

    def write(self, node: Node, keyspace: str, name: str, row: Mapping[str, Any], consistency: str) -> Steps:
        """Begin to write the cells of one row. Raises ServerSaid, as the steps do."""
        table, factor = self.find(node, keyspace, name)
        key = _key_of(table, row)
        stamp_us = node.clock.data_stamp_us()
        cells: _Cells = {"": (stamp_us, True)}
        for column, value in row.items():
            definition = table.columns.get(column)
            if definition is None and not self.knows_columns:
                cells[column] = (stamp_us, value)
                continue
            if definition is None:
                raise ServerSaid("InvalidRequest", f"Undefined column name {column} in table {keyspace}.{name}")
            if definition.position < 0:
                cells[column] = (stamp_us, value)
        return self.mutate(node, RowWrite(table.id, key, cells), factor, consistency)

    def delete(self, node: Node, keyspace: str, name: str, where: Mapping[str, Any], consistency: str) -> Steps:
        """Begin to delete one row. Raises ServerSaid, as the steps do."""
        table, factor = self.find(node, keyspace, name)
        write = RowWrite(table.id, _key_of(table, where), {}, node.clock.data_stamp_us())
        return self.mutate(node, write, factor, consistency)

    def mutate(self, node: Node, write: RowWrite, factor: Copies, consistency: str) -> Steps:
        """Send one write to its replicas and wait for them. Raises ServerSaid."""
        server = node.server
        assert server is not None
        if node.locations and (consistency in _LOCAL or consistency == _EACH):
            yield from self._mutate_by_center(node, write, factor, consistency)
            return
        ring = self.ring if server.ring is None else server.ring
        token = token_of(write.key[0])
        place = ring.place(token)
        readers = ring.replicas(place, factor)
        replicas = ring.writes(place, factor) if self._writes_pending else readers
        need = _block_for(consistency, len(readers))
        if replicas is not readers:
            need += sum(name not in readers for name in replicas)
        if ring.version:
            write = RowWrite(write.table_id, write.key, write.cells, write.deleted_us, ring.version)
        alive = server.gossip.living(replicas)
        if len(alive) < need:
            raise _unavailable(consistency, need, len(alive))
        question = server.ask(alive, "write", write, need=need, limit_ns=_WRITE_LIMIT_NS)
        self._look_at_sent(node, write, ring, factor, [question])
        answers: Answers = yield question
        if not answers.enough:
            raise _short(answers, "Write", consistency)
        now = server.ring
        if self._rechecks and now is not None and now is not ring:
            place = now.place(token)
            replicas, readers = now.writes(place, factor), now.replicas(place, factor)
            need = _block_for(consistency, len(readers)) + sum(name not in readers for name in replicas)
            if sum(name in replicas for name in answers.answers) < need:
                raise _changed_meanwhile(answers.answers)
        if self.invariants is not None:
            self.invariants.written(node, write, ring, factor, consistency)

    def _mutate_by_center(self, node: Node, write: RowWrite, factor: Copies, consistency: str) -> Steps:
        """Send one write to its replicas and wait for those of this data centre, or of each. Raises ServerSaid."""
        server = node.server
        assert server is not None
        ring = server.ring or self.ring
        token = token_of(write.key[0])
        quorums = self._quorums(node, ring, token, factor, consistency)
        if ring.version:
            write = RowWrite(write.table_id, write.key, write.cells, write.deleted_us, ring.version)
        replicas = (
            ring.writes(ring.place(token), factor) if self._writes_pending else ring.replicas(ring.place(token), factor)
        )
        waited_for = {name for names, _ in quorums for name in names}
        alive = server.gossip.living(replicas)
        for names, need in quorums:
            there = sum(name in alive for name in names)
            if there < need:
                raise _unavailable(consistency, need, there)
        reached = [([name for name in names if name in alive], need) for names, need in quorums]
        asked = [server.ask(names, "write", write, need=need, limit_ns=_WRITE_LIMIT_NS) for names, need in reached]
        rest = [name for name in alive if name not in waited_for]
        not_waited_for = server.ask(rest, "write", write, need=0, limit_ns=_WRITE_LIMIT_NS)
        self._look_at_sent(node, write, ring, factor, [*asked, not_waited_for])
        answered: list[str] = []
        for question in asked:
            answers: Answers = yield question
            if not answers.enough:
                raise _short(answers, "Write", consistency)
            answered += answers.answers
        now = server.ring
        if self._rechecks and now is not None and now is not ring:
            for names, need in self._quorums(node, now, token, factor, consistency):
                if sum(name in answered for name in names) < need:
                    raise _changed_meanwhile(answered)
        if self.invariants is not None:
            self.invariants.written(node, write, ring, factor, consistency)

    def _look_at_sent(
        self, node: Node, write: RowWrite, ring: RingView, factor: Copies, questions: Sequence[Answers]
    ) -> None:
        if self.invariants is not None:
            self.invariants.asks(node, ring, questions)
            names = [name for question in questions for name in question.receivers]
            self.invariants.sends(node, write.key, ring, factor, names)

    def _quorums(
        self, node: Node, ring: RingView, token: int, factor: Copies, consistency: str
    ) -> Sequence[tuple[Sequence[str], int]]:
        """Return the replicas that a write waits for, by data centre, each with how many of them."""
        place = ring.place(token)
        readers = ring.replicas(place, factor)
        replicas = ring.writes(place, factor) if self._writes_pending else readers
        quorums = []
        for center, names in sorted(node.by_data_center(replicas).items()):
            if consistency == _EACH or center == node.location.data_center:
                reading = sum(name in readers for name in names)
                quorums.append((names, min(_block_for(consistency, reading) + len(names) - reading, len(names))))
        if not quorums:  # LOCAL_QUORUM where no replica is
            raise _unavailable(consistency, 1, 0)
        return quorums

    def read(self, node: Node, keyspace: str, name: str, where: Mapping[str, Any] | None, consistency: str) -> Steps:
        """Return the rows of a partition or of the whole table as (table, key, cells that live). Raises ServerSaid."""
        table, factor = self.find(node, keyspace, name)
        partition = None if where is None else _key_of(table, where, partial_key=True)[0]
        server = node.server
        assert server is not None
        floor = None if self.invariants is None or partition is None else self.invariants.asked(table.id, partition)
        ring = self.ring if server.ring is None else server.ring
        places = range(len(ring.tokens)) if partition is None else (ring.place(token_of(partition)),)
        chosen: dict[int, list[str]] = {}
        contacts: list[str] = []
        for place in places:
            replicas = ring.replicas(place, factor)
            names = self._closest(node, replicas, _block_for(consistency, len(replicas)), consistency)
            chosen[place] = names
            contacts += [name for name in names if name not in contacts] if contacts else names
        question = server.ask(
            contacts, "read", RowRead(table.id, partition, ring.version), need=len(contacts), limit_ns=_READ_LIMIT_NS
        )
        self._look_at_questions(node, ring, [question])
        answers: Answers = yield question
        if not answers.enough:
            raise _short(answers, "Read", consistency)
        now = server.ring
        if self._rechecks and now is not None and now is not ring:
            ends = (*now.tokens, *ring.tokens) if partition is None else (token_of(partition),)
            if not _still_reads(ring, now, chosen, factor, ends):
                raise _changed_meanwhile(answers.answers)
        self._look_at_answers(node, chosen, answers, ring, factor, consistency)
        merged = None if partition is None else _agreed(table, answers.answers.values())
        if merged is None:
            merged = self._merge(ring, table, answers.answers, chosen)
            if len(contacts) > 1:
                yield from self._repair(node, ring, table, merged, answers.answers, chosen)
        if self.invariants is not None and partition is not None:
            self.invariants.returned(node, table.id, merged, ring, factor, consistency, floor)
        found = []
        for key, (deleted_us, cells) in merged.items() if len(merged) < 2 else sorted(merged.items(), key=repr):
            living = _living(table, deleted_us, cells, undeclared=not self.knows_columns)
            if living:
                self._look_at_shown(node, table, key, deleted_us, living)
                found.append((table, key, living))
        return found

    def _look_at_questions(self, node: Node, ring: RingView, questions: Sequence[Answers]) -> None:
        if self.invariants is not None:
            self.invariants.asks(node, ring, questions)

    def _look_at_answers(
        self, node: Node, places: Iterable[int], answers: Answers, ring: RingView, factor: Copies, consistency: str
    ) -> None:
        if self.invariants is not None:
            self.invariants.counts(node, places, answers.answers, ring, factor, consistency)

    def _look_at_shown(self, node: Node, table: Table, key: RowKey, deleted_us: int, cells: _Cells) -> None:
        if self.invariants is not None and (deleted_us or table.dropped):
            self.invariants.shows(node, table, key, deleted_us, cells)

    def _closest(self, node: Node, replicas: Sequence[str], need: int, consistency: str) -> list[str]:
        """Return the replicas to ask: this node if it is one, then in the order of the ring. Raises ServerSaid.

        Where there are several data centres, the coordinator's comes before the others, or is the only one.
        """
        assert node.server is not None
        if node.locations:
            own = node.location.data_center
            by_center = dict(node.by_data_center(replicas))
            local = by_center.pop(own, ())
            if consistency in _LOCAL:
                replicas, need = local, _block_for(consistency, len(local))
            elif consistency == _EACH and by_center:
                parts = [part for part in (local, *by_center.values()) if part]
                return [
                    name
                    for part in parts
                    for name in self._closest(node, part, _block_for("QUORUM", len(part)), "QUORUM")
                ]
            else:
                replicas = (*local, *(name for part in by_center.values() for name in part))
        alive = node.server.gossip.living(replicas)
        if len(alive) < need:
            raise _unavailable(consistency, need, len(alive))
        if node.name in alive and alive[0] != node.name:
            alive.remove(node.name)
            alive.insert(0, node.name)
        return alive[:need]

    def _merge(
        self, ring: RingView, table: Table, answers: Mapping[str, _Rows], chosen: Mapping[int, Sequence[str]]
    ) -> _Rows:
        merged: _Rows = {}
        for name, rows in answers.items():
            for key, (deleted_us, cells) in rows.items():
                _refuse_other_arity(table, key)
                if name not in chosen.get(ring.place(token_of(key[0])), ()):
                    continue
                held = merged.get(key)
                if held is None:
                    merged[key] = (deleted_us, dict(cells))
                elif held != (deleted_us, cells):
                    merged[key] = _reconcile(held, (deleted_us, cells))
        return merged

    def _repair(
        self,
        node: Node,
        ring: RingView,
        table: Table,
        merged: _Rows,
        answers: Mapping[str, _Rows],
        chosen: Mapping[int, Sequence[str]],
    ) -> Steps:
        """Bring the replicas that were behind up to what was merged, all rows at once, and wait for them."""
        server = node.server
        assert server is not None
        asked = []
        mended: list[tuple[RowWrite, list[str]]] = []
        for key, (deleted_us, cells) in merged.items():
            names = chosen[ring.place(token_of(key[0]))]
            behind = [name for name in names if answers[name].get(key) != (deleted_us, cells)]
            if behind:
                write = RowWrite(table.id, key, cells, deleted_us, ring.version)
                asked.append(server.ask(behind, "write", write, need=len(behind), limit_ns=_WRITE_LIMIT_NS))
                mended.append((RowWrite(table.id, key, cells, deleted_us), behind))
        self._look_at_questions(node, ring, asked)
        for question in asked:
            repaired: Answers = yield question
            if not repaired.enough:
                raise _short(repaired, "Read", "repair")
        if self.invariants is not None:
            for found, names in mended:
                self.invariants.mended(node, found, names)

    # ── replicas ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def receive(self, node: Node, message: Message) -> None:
        """Carry out a write or a read of a coordinator, and answer it after the time that it takes."""
        server = node.server
        assert server is not None
        costs = node.kernel.costs
        if message.kind == "write":
            server.after(costs.between(100 * US, 400 * US), partial(self._write, node, message))
        else:
            server.after(costs.between(20 * US, 60 * US), partial(self._read, node, message))

    def _write(self, node: Node, message: Message) -> None:
        server = node.server
        assert server is not None
        write: RowWrite = message.body
        table = server.table(write.table_id)
        if table is None or (self.knows_columns and _has_unknown_column(table, write.cells)):
            node.console.warn(
                "MutationStage-1",
                "InboundMessageHandler.java:300",
                f"Couldn't find table with id {write.table_id}" if table is None else f"Unknown column in {table.name}",
            )
            return self._refuse(node, message)
        if self._misses_drop is not None and self._misses_drop(node, table):
            return self._refuse(node, message)
        disk = node.disk
        files = disk.tables.get(table.id) or disk.files(table.keyspace, table.name, table.id)
        held_us = 0 if self.invariants is None else files.deleted_us.get(write.key, 0)
        files.write(write.key, write.cells, write.deleted_us)
        if self.invariants is not None:
            self.invariants.stored(node, write, held_us)
        return server.answer(message, True)

    def _read(self, node: Node, message: Message) -> None:
        server = node.server
        assert server is not None
        read: RowRead = message.body
        table = server.table(read.table_id)
        if table is None:
            return self._refuse(node, message)
        files = node.disk.tables.get(read.table_id)
        rows: _Rows = {}
        if files is not None:
            partitions = files.partitions
            wanted = partitions.values() if read.partition is None else (partitions.get(read.partition, {}),)
            for partition in wanted:
                for key, cells in partition.items():
                    if self._late_cells_break and table.dropped and (late := _late_cell(table, cells)):
                        stack = 'java.lang.NullPointerException: Cannot invoke "ColumnMetadata.isComplex()" because "column" is null'
                        node.console.error(
                            "ReadStage-1", "JVMStabilityInspector.java:70", f"Failed to read {late}", stack
                        )
                        return server.answer(message, Failure("UNKNOWN"))
                    rows[key] = (files.deleted_us.get(key, 0), dict(cells))
        return server.answer(message, rows)

    def _refuse(self, node: Node, message: Message) -> None:
        """Say that the table or a column is not known here, where the design has words for it."""
        if self._says_why and node.server is not None:
            node.server.answer(message, Failure(_INCOMPATIBLE))


# ── parts ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _key_of(table: Table, row: Mapping[str, Any], *, partial_key: bool = False) -> RowKey:
    """Return the key of a row. Raises ServerSaid for a missing part."""
    clustering = () if partial_key else table.clustering
    try:
        return tuple([row[name] for name in table.partition_key]), tuple([row[name] for name in clustering])
    except KeyError:
        missing = [name for name in (*table.partition_key, *clustering) if name not in row]
        raise ServerSaid("InvalidRequest", f"Some partition key parts are missing: {', '.join(missing)}") from None


def _block_for(consistency: str, factor: int) -> int:
    match consistency:
        case "QUORUM" | "LOCAL_QUORUM" | "EACH_QUORUM" | "SERIAL" | "LOCAL_SERIAL":
            return factor // 2 + 1
        case "ALL":
            return factor
        case "TWO":
            return 2
        case "THREE":
            return 3
    return 1


def _unavailable(consistency: str, need: int, alive: int) -> ServerSaid:
    return ServerSaid(
        "Unavailable",
        f'Error from server: code=1000 [Unavailable exception] message="Cannot achieve consistency level {consistency}" '
        f"info={{'consistency': '{consistency}', 'required_replicas': {need}, 'alive_replicas': {alive}}}",
    )


def _still_reads(
    ring: RingView, now: RingView, chosen: Mapping[int, Sequence[str]], factor: Copies, tokens: Sequence[int]
) -> bool:
    """Return whether all who were asked for these tokens are readers of them by the ring that is known now, too."""
    for token in tokens:
        readers = now.replicas(now.place(token), factor)
        if not all(name in readers for name in chosen[ring.place(token)]):
            return False
    return True


def _changed_meanwhile(answered: Iterable[str]) -> ServerSaid:
    """Return the error of a request whose answers do not count by the ring that its coordinator knows now."""
    return ServerSaid(
        "ServerError",
        "java.lang.IllegalStateException: During operation execution, the ring has changed in a way that would make "
        f"responses violate the consistency level. Received responses from: [{', '.join(answered)}]",
    )


def _short(answers: Answers, act: str, consistency: str) -> ServerSaid:
    """Return the error of a request that too few replicas answered."""
    counts = f"'required_responses': {answers.need}, 'received_responses': {len(answers.answers)}"
    if answers.failures:
        reasons = ", ".join(f"{name}: {reason}" for name, reason in answers.failures.items())
        return ServerSaid(
            f"{act}Failure",
            f'Error from server: code=1500 [Replica(s) failed to execute {act.lower()}] message="Operation failed - '
            f'received {len(answers.answers)} responses and {len(answers.failures)} failures: {reasons}" '
            f"info={{'consistency': '{consistency}', {counts}}}",
        )
    return ServerSaid(
        f"{act}Timeout",
        f"Error from server: code=1100 [Coordinator node timed out waiting for replica nodes' responses] "
        f"info={{'consistency': '{consistency}', {counts}}}",
    )


def _has_unknown_column(table: Table, cells: Mapping[str, tuple[int, Any]]) -> bool:
    """Return True for a cell of a column that the table neither has nor had."""
    columns, dropped = table.columns, table.dropped
    for name in cells:  # noqa: SIM110 - there is one for every write on every replica, and a generator takes twice as long
        if name and name not in columns and name not in dropped:
            return True
    return False


def _agreed(table: Table, answers: Iterable[_Rows]) -> _Rows | None:
    """Return what all replicas of one partition have, as nearly always: nothing is to be merged or repaired. None if they differ.

    Raises ServerSaid as a merge does.
    """
    left = iter(answers)
    first = next(left, {})
    for rows in left:
        if rows != first:
            return None
    for key in first:
        _refuse_other_arity(table, key)
    return first


def _refuse_other_arity(table: Table, key: RowKey) -> None:
    """Raise ServerSaid for a row whose key was made for another definition of the table."""
    if len(key[0]) != len(table.partition_key):
        raise ServerSaid("ServerError", "java.nio.BufferUnderflowException")


def _reconcile(one: tuple[int, _Cells], other: tuple[int, Mapping[str, tuple[int, Any]]]) -> tuple[int, _Cells]:
    cells = one[1]
    for name, cell in other[1].items():
        held = cells.get(name)
        if held is None or _rank(cell) > _rank(held):
            cells[name] = cell
    return max(one[0], other[0]), cells


def _rank(cell: tuple[int, Any]) -> tuple[int, tuple[bool, int, str]]:
    return cell[0], rank_of(cell[1])


def _late_cell(table: Table, cells: _Cells) -> str | None:
    """Return the name of a cell that is newer than the drop of its column."""
    for name, (us, _) in cells.items():
        dropped = table.dropped.get(name)
        if dropped is not None and name not in table.columns and us > dropped[1]:
            return name
    return None


def _living(table: Table, deleted_us: int, cells: _Cells, *, undeclared: bool) -> _Cells:
    """Return the cells that neither a deletion nor the drop of their column hides; empty for a row that is gone."""
    columns, drops = table.columns, table.dropped
    living = {}
    for name, cell in cells.items():
        dropped = drops.get(name)
        hidden_us = deleted_us if dropped is None else max(deleted_us, dropped[1])
        if cell[0] > hidden_us and cell[1] is not None and (undeclared or not name or name in columns):
            living[name] = cell
    return living
