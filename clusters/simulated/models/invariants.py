"""Invariants: what holds of all nodes at once, at every moment, in a design without a flaw (`-O invariants=checked`).

No server knows these; an observer that sees every disk does. A breach stands in the log of the node at which it was seen, as an assertion
that failed (`unexpected-log-error`), once for each invariant. Most of them are broken long before a client can tell, or without that one
ever does: two votes in one term are harmless unless two leaders come of them.

**Raft** (Ongaro, Ousterhout 2014, figure 3): a node votes once in a term; a leader has the votes of a majority, is the only one of its term,
and has all that was committed; what is committed is on a majority, and is the same entry everywhere. A change begins on all that was committed
when it was asked for.

**Metadata log**: an epoch has one entry, and one outcome; a node enacts every epoch; a majority of the members decides, and none takes a
ballot below one that it promised. Sequences have no range in common, and a majority of the replicas of each range knows the last step
before the next one.

**Rows**: when a write is acknowledged at QUORUM, so many of those who are read from have it that every quorum of them does; what a read at
QUORUM returns likewise, where the ring is at rest. Not looked at across data centres, and for tables that a node does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from schemaquake.clusters.simulated.data import RowWrite
from schemaquake.clusters.simulated.disk import Cells, RowKey
from schemaquake.clusters.simulated.faces import Node
from schemaquake.clusters.simulated.ring import Copies, RingView, token_of
from schemaquake.clusters.simulated.topology import Moving, Topology

__all__ = ["Breaches", "GroupInvariants", "LogInvariants", "RingInvariants", "RowInvariants"]

_ANY_QUORUM: Final = frozenset({"QUORUM", "ALL"})


class Breaches:
    """The breaches of one run, each invariant's first one."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def report(self, node: Node, invariant: str, text: str) -> None:
        """Have a node log that an invariant is broken, unless that was logged before."""
        if invariant not in self._seen:
            self._seen.add(invariant)
            where = ("Invariants", "Invariants.java:1")
            node.console.error(*where, f"Broken: {invariant}", f"java.lang.AssertionError: {invariant}: {text}")


# ── Raft ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


class _Member(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def votes(self) -> bool: ...


class _Members(Protocol):
    @property
    def now(self) -> Sequence[_Member]: ...
    @property
    def before(self) -> Sequence[_Member]: ...


class _Entry(Protocol):
    @property
    def term(self) -> int: ...


class _Log(Protocol):
    @property
    def group(self) -> str: ...
    @property
    def index(self) -> int: ...
    @property
    def last(self) -> int: ...
    def term_at(self, index: int) -> int: ...
    def entry(self, index: int) -> _Entry: ...


class GroupInvariants:
    """The invariants of one Raft log, whose part on a node's disk is what `log_of` returns (None: it has none)."""

    def __init__(self, nodes: Sequence[Node], log_of: Callable[[Node], _Log | None], breaches: Breaches) -> None:
        self._nodes = nodes
        self._log_of = log_of
        self._report = breaches.report
        self._leaders: dict[tuple[str, int], str] = {}
        self._votes: dict[tuple[str, int], dict[str, str]] = {}
        """By group and term the candidate that each node voted for."""
        self._committed: dict[str, dict[int, _Entry]] = {}

    def voted(self, node: Node, log: _Log, term: int, candidate: str) -> None:
        """Take note of a vote, not one on trial."""
        first = self._votes.setdefault((log.group, term), {}).setdefault(node.name, candidate)
        if first != candidate:
            self._report(node, "one vote a term", f"{node.name} voted for {first} and {candidate} in term {term}")

    def led(self, node: Node, log: _Log, term: int, members: _Members) -> None:
        """Take note of a node that becomes the leader of a term."""
        first = self._leaders.setdefault((log.group, term), node.name)
        if first != node.name:
            self._report(node, "one leader a term", f"{first} and {node.name} lead in term {term}")
        voters = [name for name, voted in self._votes.get((log.group, term), {}).items() if voted == node.name]
        if not _is_majority(members, voters):
            self._report(node, "a leader has a majority", f"{node.name} leads in term {term} with votes of {voters}")
        for number, entry in self._committed.get(log.group, {}).items():
            if number > log.index and log.term_at(number) != entry.term:
                self._report(node, "a leader has what was committed", f"{node.name} leads without entry {number}")
                break

    def committed(self, node: Node, log: _Log, first: int, last: int, members: _Members | None) -> None:
        """Take note of entries that a node takes for committed; `members` are the leader's, None on a follower."""
        known = self._committed.setdefault(log.group, {})
        for number in range(max(first, log.index + 1), min(last, log.last) + 1):
            entry = log.entry(number)
            other = known.setdefault(number, entry)
            if other is not entry and other != entry:
                self._report(node, "one entry a place", f"entry {number} is another one on {node.name}")
        if members is not None and last > log.index:
            term = log.term_at(last)
            having = [each.name for each in self._nodes if _has(self._log_of(each), log.group, last, term)]
            if not _is_majority(members, having):
                self._report(node, "a majority has what is committed", f"entry {last} is on {', '.join(having)}")

    def floor(self, log: _Log) -> int:
        """Return the number of the last entry that anybody takes for committed."""
        return max(self._committed.get(log.group, ()), default=0)

    def begun(self, node: Node, log: _Log, applied: int, floor: tuple[str, int]) -> None:
        """Take note of a change that begins on what a node has carried out; `floor` is the group, and what was committed when it was asked for."""
        group, number = floor
        if group == log.group and applied < number:
            text = f"{node.name} begins on entry {applied}, and {number} was committed before"
            self._report(node, "a change begins on what was committed", text)


def _has(log: _Log | None, group: str, number: int, term: int) -> bool:
    return log is not None and log.group == group and (number <= log.index or log.term_at(number) == term)


def _is_majority(members: _Members, names: Collection[str]) -> bool:
    """Return whether these are more than half of the voters; while members change, of the new and of the old ones."""
    for part in (members.now, members.before):
        voters = [member.name for member in part if member.votes]
        if voters and 2 * sum(name in names for name in voters) <= len(voters):
            return False
    return True


# ── metadata log ─────────────────────────────────────────────────────────────────────────────────────────────────────


class _Metadata(Protocol):
    @property
    def epoch(self) -> int: ...
    @property
    def schema(self) -> Mapping[str, Any]: ...
    @property
    def topology(self) -> Topology: ...


class _Step(NamedTuple):
    epoch: int
    metadata: _Metadata


class LogInvariants:
    """The invariants of one metadata log."""

    def __init__(self, breaches: Breaches) -> None:
        self._report = breaches.report
        self._entries: dict[int, tuple[str, int]] = {}
        self._outcomes: dict[int, _Metadata] = {}
        self._enacted: dict[str, int] = {}
        """By node the highest epoch that it ever had."""
        self._steps: dict[tuple[str, int], _Step] = {}
        """By node whose place changes, and the number of steps taken, when the last of them was."""
        self._promised: dict[tuple[str, int], tuple[int, str]] = {}
        self._decided: dict[int, tuple[str, int]] = {}
        self._topologies: dict[int, Topology] = {}
        """By version."""

    def enacted(self, node: Node, epoch: int, entry_id: tuple[str, int], before: int) -> None:
        """Take note of an entry that a node carries out on top of epoch `before`."""
        first = self._entries.setdefault(epoch, entry_id)
        if first != entry_id:
            self._report(node, "one entry an epoch", f"epoch {epoch} is {first}, and {entry_id} on {node.name}")
        if epoch != before + 1:
            self._report(node, "no epoch is left out", f"{node.name} goes from epoch {before} to {epoch}")

    def published(self, node: Node, metadata: _Metadata) -> None:
        """Take note of the metadata that a node serves from now on."""
        epoch, topology = metadata.epoch, metadata.topology
        self._enacted[node.name] = max(epoch, self._enacted.get(node.name, 0))
        first = self._outcomes.setdefault(epoch, metadata)
        self._topologies.setdefault(topology.version, topology)
        if first is metadata:
            for move in topology.moves:
                self._steps.setdefault((move.node, move.done), _Step(epoch, metadata))
            self._compare_locks(node, topology)
        elif first.schema != metadata.schema or _placements(first.topology) != _placements(topology):
            self._report(node, "one outcome an epoch", f"{node.name} has other metadata at epoch {epoch}")

    def _compare_locks(self, node: Node, topology: Topology) -> None:
        for place, move in enumerate(topology.moves):
            for other in topology.moves[:place]:
                spans = other.locked()
                if any(one.has(span.end) or span.has(one.end) for one in move.locked() for span in spans):
                    text = f"{other.node} and {move.node} change the same ranges"
                    self._report(node, "a range is locked once", text)

    def advances(
        self, node: Node, move: Moving, groups: Callable[[Collection[Copies]], Iterable[Collection[str]]]
    ) -> None:
        """Take note of a node that is about to take the next step of a sequence.

        `groups` returns the readers and writers of its ranges for keyspaces of these replication factors, a majority of each of which
        has to know the last step. Only keyspaces that there were at that step, and are still, count.
        """
        step = self._steps.get((move.node, move.done))
        if step is None or (move.done == 1 and move.change != "leave"):
            return
        there = node.server.memory if node.server is not None else {}
        factors = {keyspace.replication_factor for name, keyspace in step.metadata.schema.items() if name in there}
        for group in groups(factors):
            know = [name for name in group if self._enacted.get(name, 0) >= step.epoch]
            if 2 * len(know) <= len(group):
                text = f"{move.step} of {move.node} (epoch {step.epoch}) is known to {len(know)} of {', '.join(sorted(group))}"
                self._report(node, "a majority knows a step before the next one", text)
                return

    def served(self, node: Node, request: str, token: int, version: int, factor: Copies, now: Topology) -> None:
        """Take note of a replica that carries a write or a read out whose coordinator chose the replicas by an earlier version of the topology."""
        then = self._topologies.get(version)
        if then is None or version >= now.version or node.locations:
            return
        readers, writers = (then, now) if request == "read" else (now, then)
        reads = readers.replicas(readers.place(token), factor)
        left = writers.replicas(writers.place(token), factor)
        written = writers.writes(writers.place(token), factor)
        quorum = len(left) // 2 + 1 + len(written) - len(left)
        if len(reads) // 2 + 1 + quorum <= len({*reads, *written}):
            text = f"{node.name} takes a {request} of version {version} at {now.version}: {reads} are read, {written} written"
            self._report(node, "a replica serves nobody whose quorums need not meet its own", text)

    def reached(self, node: Node, members: Collection[str], answered: Collection[str]) -> None:
        """Take note of a majority of members that a node has reached."""
        if 2 * sum(name in answered for name in members) <= len(members):
            self._report(node, "a majority decides", f"{len(answered)} of {len(members)} members answered {node.name}")

    def promised(self, node: Node, epoch: int, ballot: tuple[int, str]) -> None:
        """Take note of a ballot that a member promises or accepts."""
        highest = self._promised.get((node.name, epoch), ballot)
        if ballot < highest:
            self._report(
                node, "no ballot below a promise", f"{node.name} takes {ballot} after {highest}, epoch {epoch}"
            )
        self._promised[node.name, epoch] = max(ballot, highest)

    def decided(self, node: Node, epoch: int, entry_id: tuple[str, int]) -> None:
        """Take note of an entry that a proposer takes for decided."""
        first = self._decided.setdefault(epoch, entry_id)
        if first != entry_id:
            self._report(node, "an epoch is decided once", f"epoch {epoch} is {first}, and {entry_id} for {node.name}")


def _placements(topology: Topology) -> Any:
    return topology.version, topology.seats, topology.ring, topology.moves


# ── changes of the ring in group 0 ───────────────────────────────────────────────────────────────────────────────────


class RingInvariants:
    """The facts that a coordinator of the topology has to know before it goes on."""

    def __init__(
        self, nodes: Sequence[Node], version_of: Callable[[Node], int], flights: Callable[[Node], Mapping[int, int]],
        breaches: Breaches,
    ) -> None:  # fmt: skip
        """`version_of` is the version of the topology on a node's disk, `flights` its requests under way by version."""
        self._nodes = nodes
        self._version_of = version_of
        self._flights = flights
        self._report = breaches.report

    def goes_on(self, node: Node, version: int, names: Collection[str]) -> None:
        """Take note of a coordinator that takes it that these members have a version, and no request of an earlier one."""
        for each in self._nodes:
            if each.name not in names:
                continue
            if self._version_of(each) < version:
                self._report(node, "all members know a state before the next one", f"{each.name} is behind {version}")
            elif each.server is not None and any(
                count for earlier, count in self._flights(each).items() if earlier < version
            ):
                self._report(node, "earlier requests have ended", f"{each.name} has some from before {version}")


# ── rows ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


class RowInvariants:
    """The facts that a quorum has to have when a client is answered."""

    def __init__(self, nodes: Sequence[Node], breaches: Breaches) -> None:
        self._nodes = {node.name: node for node in nodes}
        self._report = breaches.report

    def written(self, node: Node, write: RowWrite, ring: RingView, factor: Copies, consistency: str) -> None:
        """Take note of a write that is acknowledged; `ring` is its coordinator's."""
        if consistency in _ANY_QUORUM:
            self._judge(
                node, write.table_id, write.key, write.cells, write.deleted_us, self._latest(ring), factor, "a write"
            )

    def returned(
        self, node: Node, table_id: str, rows: Mapping[RowKey, tuple[int, Mapping[str, tuple[int, Any]]]], ring: RingView,
        factor: Copies, consistency: str,
    ) -> None:  # fmt: skip
        """Take note of the rows that a read of one partition found, with all of their cells."""
        if consistency not in _ANY_QUORUM:
            return
        latest, now = self._latest(ring), node.server and node.server.ring
        if (
            (now is None or now is ring)
            and latest.version == ring.version
            and not (isinstance(latest, Topology) and latest.moves)
        ):
            for key, (deleted_us, cells) in rows.items():
                self._judge(node, table_id, key, cells, deleted_us, latest, factor, "a row that was read")

    def _latest(self, ring: RingView) -> RingView:
        """Return the ring that some node knows, and that is later than any other's."""
        for node in self._nodes.values():
            known = None if node.server is None else node.server.ring
            if known is not None and known.version > ring.version:
                ring = known
        return ring

    def _judge(
        self, node: Node, table_id: str, key: RowKey, cells: Mapping[str, tuple[int, Any]], deleted_us: int,
        ring: RingView, factor: Copies, what: str,
    ) -> None:  # fmt: skip
        if node.locations or any(
            each.server is not None and each.server.table(table_id) is None for each in self._nodes.values()
        ):
            return
        readers = ring.replicas(ring.place(token_of(key[0])), factor)
        having = [name for name in readers if self._has(name, table_id, key, cells, deleted_us)]
        if len(having) + len(readers) // 2 + 1 <= len(readers):
            text = f"{what} at QUORUM through {node.name} is on {', '.join(having) or 'none'} of {', '.join(readers)}"
            self._report(node, f"every quorum has {what}", text)

    def _has(
        self, name: str, table_id: str, key: RowKey, cells: Mapping[str, tuple[int, Any]], deleted_us: int
    ) -> bool:
        files = self._nodes[name].disk.tables.get(table_id)
        if files is None:
            return not cells and not deleted_us
        held: Cells = files.partitions.get(key[0], {}).get(key, {})
        deleted = files.deleted_us.get(key, 0)
        return deleted >= deleted_us and all(
            (column in held and held[column][0] >= us) or deleted >= us for column, (us, _) in cells.items()
        )
