"""Invariants of rows: what replicas must have when a client is answered, or when others are read from (`-O invariants=checked`).

- A write that is acknowledged is on as many of its coordinator's replicas as its level says, and one at QUORUM on so many of those who
  are read from that every quorum of them has it.
- A write is sent to all of its replicas that its coordinator takes for alive, whomever it waits for, and a read goes on with the answers of as
  many replicas of each range as its level says.
- What a read at QUORUM returns is on every quorum, while the ring is at rest; and nothing that was acknowledged at QUORUM before it began
  is missing in it.
- When the replicas that are read from change, every quorum of the new ones has what was acknowledged at QUORUM.
- A node that begins to join has the version of the schema that it has heard of others, where nodes gossip it.
- The replicas that a read asks have what it found, before it answers.
- A replica that has carried a write out has it, or something later, and no deletion of the row goes back.
- What a client is shown is later than the deletion of its row, and than the drop of its column.
- A node that takes its own place with an empty disk streams all its ranges, of all keyspaces, before it serves; one that comes to ranges by a
  change of the ring those, before it is read from. One that comes, moves or leaves on 5.0 does so until it has its place.
- When a node has repaired its ranges, they were streamed from and to all replicas meanwhile, which have what was acknowledged at QUORUM before.

Where a replication factor changes, what was acknowledged is compared with reads by the same factor or the next one, and with repairs by the same
or a larger one: quorums of others need not meet.

Not looked at: rows of tables that a node does not know; across data centres all but the first one, for the level's own data centres.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from schemaquake.clusters.simulated.data import RowWrite
from schemaquake.clusters.simulated.disk import Cells, RowKey
from schemaquake.clusters.simulated.faces import Answers, Node, Steps
from schemaquake.clusters.simulated.models.invariants import Breaches, has_centers
from schemaquake.clusters.simulated.ring import Copies, RingView, token_of, total_of
from schemaquake.clusters.simulated.schema.definitions import Schema, Table
from schemaquake.clusters.simulated.topology import SeatState, Topology, Transfer, former_of
from schemaquake.harness.model.topology import TopologyVerb
from schemaquake.harness.units import S

__all__ = ["Floor", "RowInvariants", "looked_at"]

_ANY_QUORUM: Final = frozenset({"QUORUM", "ALL"})
_COUNTS: Final[Mapping[str, int]] = {"ONE": 1, "LOCAL_ONE": 1, "TWO": 2, "THREE": 3}
_REMEMBERED_MOST: Final = 4096
_PULLED_WITHIN_NS: Final = 15 * S
"""The time within which a node that joins has the schema of one whose schema stays, and that nothing keeps from it."""
_RING_DELAY_NS: Final = 5 * S
"""The time that a node of 5.0 waits between telling of a change and streams."""
_QUESTIONS_MOST: Final = 32
"""Questions of a coordinator that are kept before those that were answered are forgotten."""


class _Stamps(NamedTuple):
    """The times of what was acknowledged of one row."""

    deleted_us: int
    cells: Mapping[str, int]
    factor: Copies
    """The replication factor by which all of it was written."""


Floor: TypeAlias = Mapping[RowKey, _Stamps]
"""What was acknowledged of the rows of one partition."""


class RowInvariants:
    """The facts that replicas have to have when a client is answered."""

    def __init__(self, nodes: Sequence[Node], breaches: Breaches, *, reuses_ids: bool = False) -> None:
        """`reuses_ids`: a table may have the id of one that was dropped, so that what was acknowledged is not remembered."""
        self._nodes = {node.name: node for node in nodes}
        self._report = breaches.report
        self._remembered_most = 0 if reuses_ids else _REMEMBERED_MOST
        self._acknowledged: dict[tuple[str, tuple[Any, ...]], dict[RowKey, _Stamps]] = {}
        """By table id and partition what was acknowledged at QUORUM."""
        self._remembered = 0
        self._has_moved = False
        """True once the ring has changed after a write was acknowledged: rows are where another factor would not look for them."""
        self._streamed: dict[str, tuple[Any, set[tuple[Copies, int]]]] = {}
        """By node its present server, and factor and end of each range that was streamed to it."""
        self._taken: dict[str, set[tuple[Copies, int]]] = {}
        """By node factor and end of each range that was ever streamed to it."""
        self._passes: Counter[tuple[str, str, Copies, int]] = Counter()
        """By source and target, and factor and end of a range, how often that was streamed from one to the other."""
        self._told: dict[str, tuple[Any, int]] = {}
        """By node the server that has told last that it comes, moves or leaves, and when."""
        self._own_places: dict[str, Any] = {}
        """By node its last server that has looked for all that it should have, after it had lost its disk."""
        self._version = -1
        """The version of the latest ring whose readers were looked at."""
        self._unpulled: dict[tuple[str, str], tuple[Any, int]] = {}
        """By node that joins and another one their servers and the other one's version, and the moment since when it is that."""
        self._asking: dict[str, list[tuple[Any, int, Answers]]] = {}
        """By node the questions that it has asked: its server then, the version of the ring, and the question."""

    def asks(self, node: Node, ring: RingView, questions: Sequence[Answers]) -> None:
        """Take note of questions that a coordinator waits for, whose replicas it chose by a ring."""
        known = self._asking.setdefault(node.name, [])
        if len(known) > _QUESTIONS_MOST:
            known[:] = [each for each in known if each[2].is_awaited]
        known += [(node.server, ring.version, question) for question in questions]

    def under_way(self, node: Node) -> Sequence[int]:
        """Return the versions of the ring by which a node has asked replicas for whose answers it waits now."""
        return [
            version
            for server, version, question in self._asking.get(node.name, ())
            if server is node.server and question.is_awaited
        ]

    def stored(self, node: Node, write: RowWrite, deleted_us: int) -> None:
        """Take note of a replica that has carried a write out; `deleted_us` is the time of the row's deletion that it had before (0: none)."""
        _, now_us = self._held(node.name, write.table_id, write.key)
        if now_us < deleted_us or not self._has(node.name, write.table_id, write.key, write.cells, write.deleted_us):
            text = f"{node.name} lacks a part of {write.key}, which was written, or its deletion at {deleted_us} µs"
            self._report(node, "a replica has what was written to it", text)

    def sends(self, node: Node, key: RowKey, ring: RingView, factor: Copies, names: Sequence[str]) -> None:
        """Take note of the nodes that a coordinator has sent a write of a row to; `ring` is its own."""
        readers = ring.replicas(ring.place(token_of(key[0])), factor)
        left_out = (
            [] if node.server is None else [name for name in node.server.gossip.living(readers) if name not in names]
        )
        if left_out:
            text = f"{node.name} does not send {', '.join(left_out)} a write of {key}"
            self._report(node, "a write is sent to all replicas that live", text)

    def counts(
        self, node: Node, places: Iterable[int], answered: Collection[str], ring: RingView, factor: Copies, consistency: str
    ) -> None:  # fmt: skip
        """Take note of the nodes that have answered a read of rows in these ranges, which goes on with what they have."""
        for place in places:
            for group in _groups(node, ring.replicas(place, factor), consistency):
                having = [name for name in group if name in answered]
                if len(having) < _need(consistency, group):
                    text = f"{consistency} through {node.name}: {', '.join(having) or 'none'} of {', '.join(group)} answered"
                    self._report(node, "a read has answers of as many replicas as its level says", text)
                    return

    def written(self, node: Node, write: RowWrite, ring: RingView, factor: Copies, consistency: str) -> None:
        """Take note of a write that is acknowledged; `ring` is its coordinator's."""
        if not self._is_known_to_all(write.table_id):
            return
        self._count(node, write, ring, factor, consistency)
        if consistency in _ANY_QUORUM:
            self._judge(
                node, write.table_id, write.key, write.cells, write.deleted_us, self._latest(ring), factor, "a write"
            )
            self._remember(write, factor)

    def asked(self, table_id: str, partition: tuple[Any, ...]) -> Floor:
        """Return what was acknowledged of a partition when a read of it begins."""
        return dict(self._acknowledged.get((table_id, partition), ()))

    def returned(
        self, node: Node, table_id: str, rows: Mapping[RowKey, tuple[int, Mapping[str, tuple[int, Any]]]], ring: RingView,
        factor: Copies, consistency: str, floor: Floor,
    ) -> None:  # fmt: skip
        """Take note of the rows that a read of one partition found, with all of their cells; `floor` is what `asked` returned."""
        if consistency not in _ANY_QUORUM or not self._is_known_to_all(table_id):
            return
        for key, stamps in floor.items():
            deleted_us, cells = rows.get(key, (0, {}))
            if _quorums_meet(stamps.factor, factor) and not _reaches(deleted_us, cells, stamps):
                text = f"a read through {node.name} lacks what was acknowledged of {key} before"
                self._report(node, "a read has what was acknowledged before it", text)
        latest, now = self._latest(ring), node.server and node.server.ring
        if (
            (now is None or now is ring)
            and latest.version == ring.version
            and not (isinstance(latest, Topology) and latest.moves)
        ):
            for key, (deleted_us, cells) in rows.items():
                self._judge(node, table_id, key, cells, deleted_us, latest, factor, "a row that was read")

    def mended(self, node: Node, found: RowWrite, names: Sequence[str]) -> None:
        """Take note of replicas that a read has brought up to what it found of a row."""
        if not self._is_known_to_all(found.table_id):
            return
        behind = [
            name for name in names if not self._has(name, found.table_id, found.key, found.cells, found.deleted_us)
        ]
        if behind:
            text = f"{', '.join(behind)} lacks a part of {found.key}, which a read through {node.name} has found"
            self._report(node, "a read leaves no replica behind that it asked", text)

    def lists(
        self, node: Node, through: Table, sought: Mapping[str, Any], found: Sequence[Any], listed: Sequence[Any]
    ) -> None:
        """Take note of the rows that a view, or an index of a table, lists of those that were found in the table; `sought` are values by column.

        It lists those that have these values, and a view those with a value in each column of its key.
        """
        in_key = () if through.base is None else (*through.partition_key, *through.clustering)
        wanted = []
        for table, key, cells in found:
            columns = (*table.partition_key, *table.clustering)
            row = {name: cell[1] for name, cell in cells.items()} | dict(zip(columns, (*key[0], *key[1]), strict=False))
            if all(row.get(name) == value for name, value in sought.items()) and all(
                row.get(name) is not None for name in in_key
            ):
                wanted.append(key)
        if wanted != [key for _, key, _ in listed]:
            text = f"{through.name} through {node.name}: {len(listed)} rows, and {len(wanted)} have the values"
            self._report(node, "an index or a view lists the rows of its table", text)

    def shows(
        self, node: Node, table: Table, key: RowKey, deleted_us: int, cells: Mapping[str, tuple[int, Any]]
    ) -> None:
        """Take note of the cells of a row that a client is about to be shown: later than its deletion, and than the drop of their column."""
        for column, (us, _) in cells.items():
            dropped_us = table.dropped[column][1] if column in table.dropped else 0
            if us <= max(deleted_us, dropped_us):
                text = f"{column} of {key} in {table.name} is of {us} µs, and was removed by {max(deleted_us, dropped_us)} µs"
                self._report(node, "a client is shown nothing that was deleted or dropped", text)

    def forget(self) -> None:
        """Forget what was acknowledged: an operator has given nodes up, and rows with them."""
        self._acknowledged = {}

    def turned(self, node: Node, ring: RingView, version: int) -> None:
        """Take note of the ring that a node knows from now on: who is read from has to have what was acknowledged."""
        if version <= self._version:
            return
        self._version = version
        self._has_moved = self._has_moved or bool(self._acknowledged)
        if any(_begins_anew(each, ring) for each in self._nodes.values()):
            return  # a node is read from that begins anew with an empty disk: it has its rows when it serves
        for (table_id, partition), rows in self._acknowledged.items():
            if not self._is_known_to_all(table_id):
                continue
            for key, stamps in rows.items():
                if self._factor(node, table_id) not in (None, stamps.factor):
                    continue
                readers = ring.replicas(ring.place(token_of(partition)), stamps.factor)
                having = [name for name in readers if self._keeps(name, table_id, key, stamps)]
                if len(readers) // 2 + 1 <= sum(name not in having and self._answers(name, ring) for name in readers):
                    text = f"{key} is on {', '.join(having) or 'none'} of {', '.join(readers)} at version {version}"
                    self._report(node, "who is read from has what was acknowledged", text)
                    return

    def streams_from(self, node: Node, transfer: Transfer, sources: Sequence[str]) -> None:
        """Take note of a node to which a range was streamed from these, and not from the node that loses it: they have to meet every quorum."""
        ring = None if node.server is None else node.server.ring
        if ring is None or has_centers(node):
            return
        readers = ring.replicas(ring.place(transfer.span.end), transfer.factor)
        having = [name for name in sources if name in readers and name != transfer.target]
        if len(readers) == total_of(transfer.factor) and len(having) + len(readers) // 2 + 1 <= len(readers):
            text = f"{node.name} takes rows of {', '.join(having) or 'none'} of {', '.join(readers)}"
            self._report(node, "rows are streamed from enough replicas", text)

    def streamed(self, node: Node, transfer: Transfer, sources: Sequence[str]) -> None:
        """Take note of a range that was streamed to a node from these."""
        server, ranges = self._streamed.get(node.name, (None, set()))
        if server is not node.server:
            ranges = set()
        ranges.add((transfer.factor, transfer.span.end))
        self._taken.setdefault(node.name, set()).add((transfer.factor, transfer.span.end))
        for name in sources:
            self._passes[name, node.name, transfer.factor, transfer.span.end] += 1
        self._streamed[node.name] = node.server, ranges

    def has_taken_over(self, node: Node, target: str, ranges: Sequence[tuple[Copies, int]]) -> None:
        """Take note of a node that is about to be read from; `ranges` are those that it comes to, by factor and end."""
        lacking = [each for each in ranges if each not in self._taken.get(target, ())]
        if lacking:
            text = f"{target} is to be read from, and {len(lacking)} of its {len(ranges)} new ranges were not streamed to it"
            self._report(node, "who is to be read from has its ranges", text)

    def took_own_place(self, node: Node, ring: Topology, factor: Copies) -> None:
        """Take note of a node with an empty disk that has streamed all that it should have of keyspaces with a factor."""
        server, ranges = self._streamed.get(node.name, (None, set()))
        ends = [end for place, end in enumerate(ring.tokens) if node.name in ring.replicas(place, factor)]
        lacking = [end for end in ends if server is not node.server or (factor, end) not in ranges]
        if lacking:
            text = f"{node.name} has not streamed {len(lacking)} of its {len(ends)} ranges"
            self._report(node, "who takes its own place has its ranges", text)

    def has_own_place(self, node: Node, ring: Topology, schema: Schema) -> None:
        """Take note of a node with an empty disk that is about to be read from; `schema` is what it had to stream rows for when it began."""
        self._own_places[node.name] = node.server
        for factor in dict.fromkeys(keyspace.replication_factor for keyspace in schema.values()):
            self.took_own_place(node, ring, factor)

    def comes_back(self, node: Node) -> None:
        """Take note of a node with a disk that was empty, whose start has come to its end: it has its rows (`has_own_place`)."""
        if self._own_places.get(node.name) is not node.server:
            text = f"{node.name} has streamed nothing since it lost its disk"
            self._report(node, "who takes its own place has its ranges", text)

    def changes(self, node: Node, subject: str, others: Sequence[str]) -> None:
        """Take note of a change of the ring that a node begins to tell of, while these other ones are under way."""
        self._told[subject] = node.server, node.kernel.heap.now_ns
        if others:
            text = f"{node.name} begins with {subject}, while {', '.join(others)} is changing"
            self._report(node, "one change of the ring at a time", text)

    def told(self, node: Node, subject: str, behind: Sequence[str]) -> None:
        """Take note of news of `subject` that a node has told.

        `behind` are those who serve, or start, and do not have them.
        """
        if behind:
            text = f"{node.name} has told of {subject}, and {', '.join(behind)} does not know"
            self._report(node, "what is told of a node is known to all at once", text)

    def begins_streams(self, node: Node, subject: str, dead: str | None) -> None:
        """Take note of a node that begins to have rows streamed for a change of `subject`.

        It has told of that so long before that all have heard of it. `dead` is the node whose rows are streamed from others, as it
        is dead.
        """
        if dead == node.name:
            self._report(node, "who lives is asked for its rows", f"{node.name} takes itself for dead")
        told = self._told.get(subject)
        now_ns = node.kernel.heap.now_ns
        if told is None or told[0] is not node.server or now_ns < told[1] + _RING_DELAY_NS:
            text = f"{node.name} begins at {now_ns} ns, and has told of {subject} {'at no time' if told is None else f'at {told[1]} ns'}"
            self._report(node, "rows are streamed when all have heard of a change", text)

    def streams_nothing(self, node: Node, subject: str, *, is_told: bool) -> None:
        """Take note of a change of the ring whose rows are to be streamed, and which the node that asks for it does not know; `is_told`: it knows of the subject."""
        if not is_told:
            self._report(node, "who changes the ring has told so", f"{node.name} knows nothing of {subject}")

    def tells(self, node: Node, subject: str, stamp: int, before: int) -> None:
        """Take note of news of a node with the stamp that others compare, and the stamp of what was known of it before."""
        if stamp <= before:
            text = f"{node.name} tells of {subject} by {stamp}, and {before} is known"
            self._report(node, "news of a node are later than those before", text)

    def settles(self, node: Node, subject: str, *, is_changing: bool) -> None:
        """Take note of a node that is about to have its place; `is_changing`: to the others it comes, moves or leaves until then, so that they write to it."""
        if not is_changing:
            self._report(node, "who was forgotten does not come in", f"{subject} tells that it is one of the ring")

    def takes_place(self, node: Node, tokens: Sequence[int], replaced: Sequence[int]) -> None:
        """Take note of a node that begins to take a dead one's place, with these tokens: it streams the ranges of `replaced`, and no others."""
        if tuple(tokens) != tuple(replaced):
            text = f"{node.name} begins with the tokens {', '.join(map(str, tokens)) or 'none'}"
            self._report(node, "who takes a place has its tokens", text)

    def starts(self, node: Node, state: SeatState) -> None:
        """Take note of the place in the ring that a node has when it starts: what it was about to do before is over."""
        if state in {"leaving", "moving"}:
            self._report(node, "a start ends a change of the ring", f"{node.name} is {state}")

    def forgets(self, node: Node, left: Sequence[str]) -> None:
        """Take note of nodes that died while they joined, and that a node does not forget."""
        if left:
            self._report(node, "who died as it joined is forgotten", f"{node.name} takes {', '.join(left)} for joining")

    def joins(self, node: Node, version: str, others: Mapping[str, str]) -> None:
        """Take note of a node that begins to join with a version of the schema, and of those that it has heard of: it takes no rows of tables that it does not know."""
        differ = [name for name, each in others.items() if each != version]
        if differ or not others:
            text = f"{node.name} begins at {version}, and has heard of another one of {', '.join(differ) or 'nobody'}"
            self._report(node, "who joins has the schema of the others", text)

    def awaits_schema(self, node: Node) -> None:
        """Take note of a node that waits for the schema of the others before it joins: it has all of one that it hears, after a while."""
        now_ns = node.kernel.heap.now_ns
        for name in [] if node.server is None else node.server.gossip.peers_alive():
            other = self._nodes[name]
            version = None if other.server is None else other.server.version
            present = node.server, other.server, version
            known, since_ns = self._unpulled.get((node.name, name), (None, now_ns))
            if known != present or version is None or node.weather or other.weather:
                self._unpulled[node.name, name] = present, now_ns
            elif now_ns - since_ns > _PULLED_WITHIN_NS and not all(
                node.disk.schema.has(row) for row in other.disk.schema.changes()
            ):
                text = f"{node.name} lacks a part of what {name} has, and has heard of it since {since_ns} ns"
                self._report(node, "who joins pulls the schema of the others", text)

    def acknowledged(self) -> Mapping[tuple[str, tuple[Any, ...]], Floor]:
        """Return what was acknowledged of all rows when a repair begins, by table id and partition."""
        return {place: dict(rows) for place, rows in self._acknowledged.items()}

    def look_at_repair(self, node: Node, steps: Steps) -> Steps:
        """Carry the repair of a node out, and look at what replicas have when it says that it is done. Raises ServerSaid, as the steps do."""
        before, ring = self.acknowledged(), None if node.server is None else node.server.ring
        passes, factors = self._passes.copy(), self._factors(node)
        result = yield from steps
        if isinstance(ring, Topology):
            self._compare_passes(node, ring, [each for each in self._factors(node) if each in factors], passes)
            self.repaired(node, ring, before)
        return result

    def _compare_passes(
        self, node: Node, ring: Topology, factors: Sequence[Copies], before: Mapping[tuple[str, str, Copies, int], int]
    ) -> None:
        """Look at whether a node's ranges were streamed from all replicas to it, and from it to them, since its repair began; `before` is how often by then."""
        for factor in factors:
            for place, end in enumerate(ring.tokens):
                replicas = ring.replicas(place, factor)
                others = [name for name in replicas if name != node.name and node.name in replicas]
                for way in [*((name, node.name) for name in others), *((node.name, name) for name in others)]:
                    if self._passes[*way, factor, end] <= before.get((*way, factor, end), 0):
                        text = f"nothing of the range up to {end} was streamed from {way[0]} to {way[1]}"
                        self._report(node, "a repair that is done has streamed from and to all replicas", text)
                        return

    @staticmethod
    def _factors(node: Node) -> Sequence[Copies]:
        """Return the replication factors of the keyspaces that a node knows."""
        spaces = {} if node.server is None else node.server.memory
        return list(dict.fromkeys(keyspace.replication_factor for keyspace in spaces.values()))

    def repaired(self, node: Node, ring: Topology, before: Mapping[tuple[str, tuple[Any, ...]], Floor]) -> None:
        """Take note of a node that has repaired its ranges by a ring; `before` is what `acknowledged` returned when it began."""
        if self._has_moved or node.server is None or node.server.ring is not ring:
            return
        for (table_id, partition), rows in before.items():
            factor = self._factor(node, table_id)
            if not isinstance(factor, int) or not self._is_known_to_all(table_id):
                continue
            replicas = ring.replicas(ring.place(token_of(partition)), factor)
            for key, stamps in rows.items() if node.name in replicas else ():
                if not isinstance(stamps.factor, int) or stamps.factor > factor:
                    continue
                lacking = [name for name in replicas if not self._keeps(name, table_id, key, stamps)]
                if lacking:
                    text = (
                        f"{key} is not on {', '.join(lacking)} of {', '.join(replicas)} after a repair of {node.name}"
                    )
                    self._report(node, "a repair leaves no replica without what was acknowledged", text)
                    return

    # ── what is on disks ─────────────────────────────────────────────────────────────────────────────────────────────

    def _remember(self, write: RowWrite, factor: Copies) -> None:
        rows = self._acknowledged.setdefault((write.table_id, write.key[0]), {})
        held = rows.get(write.key)
        if held is None:
            self._remembered += 1
            if self._remembered > self._remembered_most:
                return
            held = _Stamps(0, {}, factor)
        if held.factor != factor:
            held = _Stamps(0, {}, factor)
        cells = dict(held.cells)
        for column, (us, _) in write.cells.items():
            cells[column] = max(us, cells.get(column, 0))
        rows[write.key] = _Stamps(max(held.deleted_us, write.deleted_us), cells, factor)

    def _factor(self, node: Node, table_id: str) -> Copies | None:
        """Return the replication factor of a table's keyspace as a node knows it; None: it has no such table."""
        table = None if node.server is None else node.server.table(table_id)
        return None if node.server is None or table is None else node.server.memory[table.keyspace].replication_factor

    def _latest(self, ring: RingView) -> RingView:
        """Return the ring that some node knows, and that is later than any other's."""
        for node in self._nodes.values():
            known = None if node.server is None else node.server.ring
            if known is not None and known.version > ring.version:
                ring = known
        return ring

    def _is_known_to_all(self, table_id: str) -> bool:
        """Return whether every server serves a table: rows go with it, from one node after another."""
        return all(each.server is None or each.server.table(table_id) is not None for each in self._nodes.values())

    def _count(self, node: Node, write: RowWrite, ring: RingView, factor: Copies, consistency: str) -> None:
        """Look at whether as many replicas have a write as its level says, of the coordinator's data centre, of each, or of all."""
        place = ring.place(token_of(write.key[0]))
        for group in _groups(node, ring.replicas(place, factor), consistency):
            need = _need(consistency, group)
            # A level that counts replicas takes those for it that are to come, too.
            among = ring.writes(place, factor) if consistency in _COUNTS else group
            having = [
                name for name in among if self._has(name, write.table_id, write.key, write.cells, write.deleted_us)
            ]
            if len(having) < need:
                text = f"{consistency} through {node.name}: on {', '.join(having) or 'none'} of {', '.join(group)}"
                self._report(node, "an acknowledged write is on as many replicas as its level says", text)

    def _judge(
        self, node: Node, table_id: str, key: RowKey, cells: Mapping[str, tuple[int, Any]], deleted_us: int,
        ring: RingView, factor: Copies, what: str,
    ) -> None:  # fmt: skip
        if has_centers(node):
            return
        readers = ring.replicas(ring.place(token_of(key[0])), factor)
        having = [name for name in readers if self._has(name, table_id, key, cells, deleted_us)]
        if len(readers) // 2 + 1 <= sum(name not in having and self._answers(name, ring) for name in readers):
            text = f"{what} at QUORUM through {node.name} is on {', '.join(having) or 'none'} of {', '.join(readers)}"
            self._report(node, f"every quorum has {what}", text)

    def _has(
        self, name: str, table_id: str, key: RowKey, cells: Mapping[str, tuple[int, Any]], deleted_us: int
    ) -> bool:
        held, deleted = self._held(name, table_id, key)
        return deleted >= deleted_us and all(
            (column in held and held[column][0] >= us) or deleted >= us for column, (us, _) in cells.items()
        )

    def _keeps(self, name: str, table_id: str, key: RowKey, stamps: _Stamps) -> bool:
        held, deleted_us = self._held(name, table_id, key)
        return _reaches(deleted_us, held, stamps)

    def _answers(self, name: str, ring: RingView) -> bool:
        """Return whether a node of a ring is there to answer: one whose address another node has now is not."""
        if not isinstance(ring, Topology):
            return True
        return name in self._nodes and ring.seats[name].host_id == self._nodes[name].host_ids[name]

    def _held(self, name: str, table_id: str, key: RowKey) -> tuple[Cells, int]:
        """Return the cells of a row on a node's disk, and the time of its deletion."""
        files = self._nodes[name].disk.tables.get(table_id) if name in self._nodes else None
        if files is None:
            return {}, 0
        return files.partitions.get(key[0], {}).get(key, {}), files.deleted_us.get(key, 0)


def _groups(node: Node, replicas: Sequence[str], consistency: str) -> Sequence[Sequence[str]]:
    """Return those of a range's replicas that a level counts: of the coordinator's data centre, of each, or all."""
    centers = node.by_data_center(replicas) if node.locations else {}
    if consistency in {"LOCAL_QUORUM", "LOCAL_ONE"} and node.locations:
        return [centers.get(node.location.data_center, ())]
    if consistency == "EACH_QUORUM" and node.locations:
        return list(centers.values())
    return [replicas]


def _need(consistency: str, group: Sequence[str]) -> int:
    """Return how many replicas of such a group a level needs."""
    return _COUNTS.get(consistency, len(group) if consistency == "ALL" else len(group) // 2 + 1)


def _begins_anew(node: Node, ring: RingView) -> bool:
    """Return whether a node that is read from has an empty disk, and the id of the node that died."""
    if node.joins is None or node.joins.replaces != node.name:
        return False
    if not isinstance(ring, Topology):
        return True
    return ring.seats[node.name].host_id == node.host_ids[node.name] and former_of(node.name) not in ring.seats


def _quorums_meet(written: Copies, read: Copies) -> bool:
    """Return whether a read by one replication factor meets every write at QUORUM by another: by the same, one more or one less."""
    return written == read or (isinstance(written, int) and isinstance(read, int) and abs(written - read) == 1)


def _reaches(deleted_us: int, cells: Mapping[str, tuple[int, Any]], stamps: _Stamps) -> bool:
    """Return whether a row is as late as what was acknowledged of it, or later."""
    return deleted_us >= stamps.deleted_us and all(
        deleted_us >= us or (column in cells and cells[column][0] >= us) for column, us in stamps.cells.items()
    )


def looked_at(rows: RowInvariants | None, node: Node, verb: TopologyVerb, steps: Steps) -> Steps:
    """Return the steps of an operation on a node; those of a repair are looked at, if anybody looks."""
    return steps if rows is None or verb != "repair" else rows.look_at_repair(node, steps)
