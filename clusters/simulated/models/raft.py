"""Raft: one log on all nodes, kept by a majority; the state machine that carries its entries out is another module's.

Ongaro, Ousterhout: In Search of an Understandable Consensus Algorithm (USENIX ATC 2014), with what ScyllaDB adds (`raft/`,
`docs/dev/raft-in-scylla.md`): votes are tried before they are held (prevote), members who do not vote, changes of members
in two steps, a detector of failures that all groups of a node share instead of heartbeats, snapshots that are sent.

An **election** on a node that has heard of no living leader for 10 ticks and a few more, which it draws:

- v1 asks for votes on trial: nobody who hears a leader, or has more of the log, gives one
- v2 a majority did: the next term and its own vote to disk, then asks for votes
- v3 a majority voted: leads, and appends an empty entry, because only entries of its own term are committed by counting

a **vote** of a node:

- w1 the term, the votes it gave, and whose log is longer are looked at
- w2 the term and the vote to disk, then the answer

**Replication** from the leader:

- r1 the entry to its disk
- r2 sent to all members who lack it, some (with `-O append=single` one) at a time; those far behind are sent a snapshot

on a member:

- f1 the entry before the first one must be the leader's, else the leader tries with an earlier one
- f2 the entries to disk, where they replace others; then the answer
- f3 a snapshot: the state machine takes it over, and the log begins after it

A member without a vote that hears no leader asks all for a sign of one, which sends it what it lacks again.

Messages name the server id of the member that they are for, or from: an address may be another node's by now.

An entry is committed when a majority of the voters has it, of the old and of the new ones while the members change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import dropwhile
from typing import Any, Final, Literal, NamedTuple

from schemaquake.clusters.simulated.faces import Answers, Node, Steps
from schemaquake.clusters.simulated.messages import Failure, Message
from schemaquake.clusters.simulated.models.invariants import GroupInvariants
from schemaquake.clusters.simulated.models.serving import server_of
from schemaquake.clusters.simulated.models.steps import numbered
from schemaquake.clusters.simulated.models.waiting import Signal
from schemaquake.clusters.simulated.processes import Sync
from schemaquake.harness.units import MS

__all__ = ["ENTRIES_MOST", "Configuration", "Entry", "Log", "Machine", "Member", "Raft", "Role"]

_TICK_NS: Final = 100 * MS
_ELECTION_TICKS: Final = 10
_PING_EVERY: Final = 3
_SILENT_NS: Final = 1_000 * MS
"""A node that was not heard of for so long is taken for dead (`raft-group-registry-fd-threshold-in-ms`)."""
_AGAIN_TICKS: Final = 3
_CONFIRM_NS: Final = 1_000 * MS
ENTRIES_MOST: Final = 50

V1, V2, V3 = numbered("raft/election", "v1", "v2", "v3")
W1, W2 = numbered("raft/vote", "w1", "w2")
R1, R2 = numbered("raft/replicate", "r1", "r2")
F1, F2, F3 = numbered("raft/replicate", "f1", "f2", "f3")


class Member(NamedTuple):
    """A member of the group."""

    name: str
    id: str
    """Its server id, 32 hex digits."""
    votes: bool


class Configuration(NamedTuple):
    """The members; while they change, those of before, too."""

    now: tuple[Member, ...]
    before: tuple[Member, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All members, old and new."""
        return tuple(dict.fromkeys(member.name for member in (*self.now, *self.before)))

    def id_of(self, name: str) -> str:
        """Return the server id of a member; empty: there is none of that name."""
        return next((member.id for member in (*self.now, *self.before) if member.name == name), "")

    @property
    def majorities(self) -> Sequence[Sequence[str]]:
        """The groups of voters of each of which a majority is needed."""
        return [[member.name for member in part if member.votes] for part in (self.now, self.before) if part]

    def votes(self, name: str) -> bool:
        """Return whether a node votes."""
        return any(name in voters for voters in self.majorities)

    def agreed(self, names: Iterable[str]) -> bool:
        """Return whether these are enough to decide."""
        there = set(names)
        return all(sum(name in there for name in voters) > len(voters) // 2 for voters in self.majorities)


_NOBODY: Final = Configuration(())


class Entry(NamedTuple):
    """One entry of the log."""

    term: int
    number: int
    """Its place in the log, from 1."""
    command: Any
    """A Configuration, a command of the state machine, or None: nothing, of a leader that begins."""

    @property
    def members(self) -> Configuration | None:
        """The members that it names; None: it names none."""
        return self.command if isinstance(self.command, Configuration) else None


@dataclass(slots=True)
class Log:
    """One node's part of the group, on its disk."""

    group: str = ""
    """The group's id; empty: the node is in none yet."""
    term: int = 0
    vote: str = ""
    index: int = 0
    """The entry that the log begins after, which is in the snapshot."""
    index_term: int = 0
    members: Configuration = _NOBODY
    """The members at that entry."""
    entries: list[Entry] = field(default_factory=list)

    @property
    def last(self) -> int:
        """The index of the last entry."""
        return self.index + len(self.entries)

    def term_at(self, index: int) -> int:
        """Return the term of an entry; -1 for one that is not there."""
        if index == self.index:
            return self.index_term
        return self.entries[index - self.index - 1].term if self.index < index <= self.last else -1

    def entry(self, index: int) -> Entry:
        """Return an entry that is there."""
        return self.entries[index - self.index - 1]

    def configuration(self) -> tuple[Configuration, int]:
        """Return the latest members, and the index of the entry that named them."""
        for entry in reversed(self.entries):
            if isinstance(entry.command, Configuration):
                return entry.command, entry.number
        return self.members, self.index

    def forget(self, index: int) -> None:
        """Begin after an entry that a snapshot has now."""
        kept = self.entries[index - self.index :]
        for entry in self.entries[: index - self.index]:
            if isinstance(entry.command, Configuration):
                self.members = entry.command
        self.index_term = self.term_at(index)
        self.index, self.entries = index, kept


@dataclass(slots=True)
class _Progress:
    """A leader's knowledge of a member's log."""

    match: int = 0
    next: int = 1
    commit: int = 0
    waited: int = 0
    """Ticks since the last answer."""
    id: str = ""
    """The member's server id."""


@dataclass(slots=True)
class Role:
    """One node's part of the group, in its memory."""

    log: Log
    members: Configuration
    named_at: int
    """The index of the entry that named the members."""
    term: int
    vote: str
    moved: Signal = field(default_factory=Signal)
    """Tells of a new leader, and of entries that were committed or carried out."""
    is_leader: bool = False
    leader: str = ""
    commit: int = 0
    applied: int = 0
    granted: dict[str, None] | None = None
    """The votes of the election under way."""
    on_trial: bool = False
    progress: dict[str, _Progress] = field(default_factory=dict)
    heard_ns: dict[str, int] = field(default_factory=dict)
    quiet_ticks: int = 0
    """Ticks without a living leader or, on a leader, without a living majority."""
    patience: int = _ELECTION_TICKS
    ticks: int = 0


class _Append(NamedTuple):
    group: str
    term: int
    before: tuple[int, int]
    """The index and the term of the entry before the first one."""
    entries: tuple[Entry, ...]
    commit: int
    to: str
    """The server id of the member that it is for."""


class _Snapshot(NamedTuple):
    group: str
    term: int
    at: tuple[int, int]
    members: Configuration
    image: Any
    to: str


class _Answer(NamedTuple):
    group: str
    term: int
    accepted: bool
    last: int
    """The last entry that is the leader's; if refused, the last one there is."""
    commit: int
    by: str
    """The server id of the member that it is from."""


class _Plea(NamedTuple):
    group: str
    term: int
    on_trial: bool
    last: tuple[int, int]
    """Term and index of the candidate's last entry."""
    to: str


class _Vote(NamedTuple):
    group: str
    term: int
    on_trial: bool
    granted: bool
    by: str


class _Lost(NamedTuple):
    """Asks for a sign of the leader: a member that does not vote cannot ask for votes."""

    group: str
    term: int
    by: str


class _Confirm(NamedTuple):
    group: str
    term: int
    to: Mapping[str, str]
    """Server ids by name."""


class Machine(NamedTuple):
    """The state machine's side: what it does for the log."""

    role: Callable[[Node], Role]
    server_id: Callable[[Node], str]
    committed: Callable[[Node], None]
    """Told that there are entries to carry out."""
    image: Callable[[Node], Any]
    """Returns what a node that is far behind is sent instead of entries."""
    take_over: Callable[[Node, Any, int], None]
    """Takes such an image over, as of an index."""


class Raft:
    """The log of all nodes of a cluster; each node's part is its `Role`."""

    steps: Final = tuple(step.name for step in (V1, V2, V3, W1, W2, R1, R2, F1, F2, F3))
    kinds: Final = frozenset({"raft-ping", "append", "snapshot", "append-answer", "plea", "vote", "lost", "confirm"})

    def __init__(self, machine: Machine, flaws: frozenset[str], *, entries_most: int = ENTRIES_MOST) -> None:
        """`entries_most` is the number of entries that a leader sends at a time."""
        self._machine = machine
        self._entries_most = entries_most
        self._role = machine.role
        self.flaws = flaws
        self.invariants: GroupInvariants | None = None
        """The observer of this log; None: nobody looks."""

    def begin(self, node: Node) -> None:
        """Begin to tick."""
        if self.invariants is not None:
            role = self._role(node)
            self.invariants.booted(node, role.log, role.term, role.vote)
            self.invariants.goes_by(node, role.log, role.members)
        self._rest(node)
        self._tick(node)

    def found(self, node: Node, group: str, server_id: str, *, after: int = 0) -> None:
        """Found a group of this node alone, and stand for election in it.

        `after` is the entry that its log begins after: others have to take over what the state machine has by then.
        """
        role = self._role(node)
        if self.invariants is not None:
            self.invariants.founded(node, anew=after > 0)
        role.log.group = group
        role.log.index = role.commit = role.applied = after
        role.log.members = role.members = Configuration((Member(node.name, server_id, votes=True),))
        server_of(node).begin("election", server_of(node).staged("raft", self._stand(node, on_trial=False)))

    @staticmethod
    def new_role(log: Log) -> Role:
        """Return the part of a server that has just read its disk."""
        members, named_at = log.configuration()
        role = Role(log, members, named_at, log.term, log.vote)
        role.commit = role.applied = log.index
        return role

    # ── time ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _tick(self, node: Node) -> None:
        server_of(node).after(_TICK_NS, lambda: self._tick(node))
        role = self._role(node)
        role.ticks += 1
        if role.ticks % _PING_EVERY == 0 and server_of(node).phase != "left" and not self._is_stranger(node, role):
            # One that has left is alive for nobody: if it was the leader, the others have to elect one.
            for name in node.peers:
                server_of(node).send(name, "raft-ping")
        if role.is_leader:
            self._tick_leader(node, role)
        elif role.leader and self.hears(node, role.leader):
            role.quiet_ticks = 0
        else:
            role.quiet_ticks += 1
            is_member = role.members.id_of(node.name) == self._machine.server_id(node)
            if role.quiet_ticks < role.patience or not is_member or server_of(node).phase == "left":
                return
            if not role.members.votes(node.name):
                self._rest(node)
                for name in role.members.names:
                    if name != node.name:
                        lost = _Lost(role.log.group, role.term, self._machine.server_id(node))
                        server_of(node).send(name, "lost", lost)
            else:
                self._rest(node)
                server_of(node).begin("election", server_of(node).staged("raft", self._stand(node, on_trial=True)))

    def _is_stranger(self, node: Node, role: Role) -> bool:
        """Return whether a node that takes its own place is not a member yet: to the others the one that had its address is dead."""
        takes_own_place = node.joins is not None and node.joins.replaces == node.name
        return takes_own_place and role.members.id_of(node.name) != self._machine.server_id(node)

    def _rest(self, node: Node) -> None:
        """Draw anew how long this node waits for a leader."""
        role = self._role(node)
        role.quiet_ticks = 0
        spread = max(_ELECTION_TICKS, len(role.members.names))
        role.patience = _ELECTION_TICKS + node.kernel.draws.stream("election", node.name).between(1, spread)

    def _tick_leader(self, node: Node, role: Role) -> None:
        """Send again what was not answered; step down without a living majority."""
        alive = role.members.agreed([name for name in role.members.names if self.hears(node, name)])
        role.quiet_ticks = 0 if alive else role.quiet_ticks + 1
        if role.quiet_ticks >= _ELECTION_TICKS:
            self._follow(node, role, "")
            return
        for name, progress in role.progress.items():
            progress.waited += 1
            behind = progress.match < role.log.last or progress.commit < role.commit
            if behind and progress.waited >= _AGAIN_TICKS and self.hears(node, name):
                progress.next = progress.match + 1
                self._send(node, role, name, progress)

    def hears(self, node: Node, name: str) -> bool:
        """Return whether a node takes another (or itself) for alive."""
        if name == node.name:
            return True
        heard_ns = self._role(node).heard_ns.get(name)
        return heard_ns is not None and node.kernel.heap.now_ns - heard_ns < _SILENT_NS

    # ── elections ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _stand(self, node: Node, *, on_trial: bool) -> Steps:
        """Ask for votes, first on trial, then in earnest."""
        role = self._role(node)
        if role.is_leader or (role.leader and self.hears(node, role.leader)):
            return
        if on_trial:
            yield V1
        else:
            yield V2
            role.term, role.vote = role.term + 1, node.name
            own_term = role.term
            yield from self._keep(role)
            if role.term != own_term:
                return  # it has heard of a later term meanwhile, in which it has not voted
            if self.invariants is not None:
                self.invariants.voted(node, role.log, role.term, node.name)
        role.leader = ""
        role.granted, role.on_trial = {node.name: None}, on_trial
        term = role.term + on_trial
        last = role.log.term_at(role.log.last), role.log.last
        if self.invariants is not None:
            self.invariants.pleads(node, role.log, last)
        for name in role.members.names:
            if name != node.name and role.members.votes(name):
                plea = _Plea(role.log.group, term, on_trial, last, role.members.id_of(name))
                server_of(node).send(name, "plea", plea)
        self._count_votes(node, role)

    def _count_votes(self, node: Node, role: Role) -> None:
        if role.granted is None or not role.members.agreed(role.granted):
            return
        role.granted = None
        steps = self._stand(node, on_trial=False) if role.on_trial else self._lead(node, role.term)
        server_of(node).begin("election", server_of(node).staged("raft", steps))

    def _lead(self, node: Node, term: int) -> Steps:
        """Become the leader of a term."""
        role = self._role(node)
        yield V3
        if role.term != term or role.leader:
            return
        role.is_leader, role.leader, role.quiet_ticks = True, node.name, 0
        role.progress = {}
        self._look_at_members(node, role)
        if self.invariants is not None:
            self.invariants.led(node, role.log, role.term, role.members)
        yield from self._append(node, None)
        role.moved.notify()

    def _weigh(self, node: Node, message: Message) -> Steps:
        """Answer a plea for a vote."""
        role, plea = self._role(node), message.body
        yield W1
        if role.leader == message.sender:
            # A leader that asks for votes leads no more: it was started again, or gave up without a majority.
            self._follow(node, role, "")
        if role.is_leader and message.sender in role.progress:
            self._tell_again(node, role, message.sender)
        longer = plea.last >= (role.log.term_at(role.log.last), role.log.last)
        if plea.on_trial:
            hears_one = role.is_leader or (role.leader != "" and self.hears(node, role.leader))
            granted = longer and not hears_one and plea.term > role.term
            if granted and self.invariants is not None:
                self.invariants.tried(node, message.sender, role.leader, hears_leader=self.hears(node, role.leader))
        else:
            if plea.term > role.term:
                self._adopt(node, role, plea.term)
            granted = longer and plea.term == role.term and role.vote in {"", message.sender}
            if granted:
                yield W2
                granted = role.term == plea.term  # it may have heard of a later term meanwhile
            if granted:
                role.vote = message.sender
                yield from self._keep(role)
                if self.invariants is not None:
                    self.invariants.asked_for(node, role.log, plea.term, plea.last)
                    self.invariants.voted(node, role.log, plea.term, message.sender)
                self._rest(node)
            elif self.invariants is not None:
                self.invariants.refused(node, role.log, plea.term, message.sender, plea.last)
        vote = _Vote(plea.group, plea.term if granted else role.term, plea.on_trial, granted, plea.to)
        server_of(node).send(message.sender, "vote", vote)

    def _tell_again(self, node: Node, role: Role, name: str) -> None:
        """Tell a member that does not know its leader of this one, and what is committed: it was started again, and has forgotten that."""
        progress = role.progress[name]
        progress.next, progress.commit = progress.match + 1, 0
        self._send(node, role, name, progress)

    def _hear_vote(self, node: Node, message: Message) -> None:
        role, vote = self._role(node), message.body
        if not vote.granted and vote.term > role.term:
            self._adopt(node, role, vote.term)
        wanted = role.term + vote.on_trial
        if vote.granted and role.granted is not None and (vote.on_trial, vote.term) == (role.on_trial, wanted):
            role.granted[message.sender] = None
            if self.invariants is not None and not role.on_trial:
                self.invariants.counts(node, role.log, role.term, message.sender)
            self._count_votes(node, role)

    def _adopt(self, node: Node, role: Role, term: int) -> None:
        """Adopt a later term, without a leader yet."""
        role.term, role.vote = term, ""
        if "vote-not-kept" not in self.flaws:
            role.log.term, role.log.vote = term, ""
        if self.invariants is not None:
            self.invariants.in_term(node, role.log, term)
        self._follow(node, role, "")

    def _follow(self, node: Node, role: Role, leader: str) -> None:
        """Follow a leader, or wait for one."""
        changed = role.leader != leader
        role.is_leader, role.leader, role.granted = False, leader, None
        role.quiet_ticks = 0
        if changed:
            self._rest(node)
            role.moved.notify()

    def _keep(self, role: Role) -> Steps:
        """Write the term and the vote to disk."""
        yield Sync()
        if "vote-not-kept" not in self.flaws:
            role.log.term, role.log.vote = role.term, role.vote

    # ── the leader's log ─────────────────────────────────────────────────────────────────────────────────────────────

    def propose(self, node: Node, command: Any) -> Steps:
        """Append a command to the log, if this node leads; returns its (term, index), or None."""
        return server_of(node).staged("raft", self._propose(node, command))

    def _propose(self, node: Node, command: Any) -> Steps:
        role = self._role(node)
        if not role.is_leader:
            return None
        if isinstance(command, Configuration) and (role.members.before or role.named_at > role.commit):
            return None  # one change of members at a time
        return (yield from self._append(node, command))

    def _append(self, node: Node, command: Any) -> Steps:
        role = self._role(node)
        term = role.term
        yield R1
        yield Sync()
        if self.invariants is not None and isinstance(command, Configuration):
            self.invariants.names(node, command, role.members, is_settled=role.named_at <= role.commit)
        entry = Entry(term, role.log.last + 1, command)
        role.log.entries.append(entry)
        if self.invariants is not None:
            self.invariants.kept(node, role.log, role.log.last)
        if isinstance(command, Configuration):
            self._look_at_members(node, role)
        yield R2
        if role.is_leader:
            for name, progress in role.progress.items():
                self._send(node, role, name, progress)
            self._count_copies(node, role)
        return term, entry.number

    def _look_at_members(self, node: Node, role: Role) -> None:
        """Go by the latest members that the log names, committed or not."""
        role.members, role.named_at = role.log.configuration()
        if self.invariants is not None:
            self.invariants.goes_by(node, role.log, role.members)
        if role.is_leader:
            known = role.progress
            ids = {member.name: member.id for member in (*role.members.before, *role.members.now)}
            # A node that comes back with an empty disk has another id: it lacks what it had confirmed.
            role.progress = {
                name: known[name]
                if name in known and known[name].id == ids[name]
                else _Progress(next=role.log.last + 1, id=ids[name])
                for name in role.members.names
                if name != node.name
            }

    def _send(self, node: Node, role: Role, name: str, progress: _Progress) -> None:
        """Send a member the entries that it lacks, or a snapshot if they are no more in the log."""
        log = role.log
        progress.waited = 0
        if self.invariants is not None:
            self.invariants.sends(node, name)
        if progress.next <= log.index:
            at = (log.index, log.index_term)
            snapshot = _Snapshot(log.group, role.term, at, log.members, self._machine.image(node), progress.id)
            progress.next = log.index + 1
            server_of(node).send(name, "snapshot", snapshot)
            return
        first = progress.next - log.index - 1
        entries = tuple(log.entries[first : first + self._entries_most])
        before = (progress.next - 1, log.term_at(progress.next - 1))
        progress.next += len(entries)
        append = _Append(log.group, role.term, before, entries, role.commit, progress.id)
        server_of(node).send(name, "append", append)

    def _hear_answer(self, node: Node, message: Message) -> None:
        role, answer = self._role(node), message.body
        if answer.term > role.term:
            self._adopt(node, role, answer.term)
        progress = role.progress.get(message.sender)
        if not role.is_leader or progress is None or answer.term < role.term:
            return
        if self.invariants is not None:
            self.invariants.heard_answer(node, role.term, answer.term)
        progress.waited = 0
        progress.commit = answer.commit
        if not answer.accepted:
            progress.next = max(progress.match + 1, min(progress.next - 1, answer.last + 1))
            self._send(node, role, message.sender, progress)
            return
        progress.match = max(progress.match, answer.last)
        progress.next = max(progress.next, progress.match + 1)
        self._count_copies(node, role)
        if progress.next <= role.log.last and node.server is not None:
            self._send(node, role, message.sender, progress)

    def _count_copies(self, node: Node, role: Role) -> None:
        """Commit what a majority has; of earlier terms only together with an entry of this one (figure 8 of the paper)."""
        index = role.log.last
        while index > role.commit:
            names = [name for name, progress in role.progress.items() if progress.match >= index]
            if role.log.term_at(index) == role.term and role.members.agreed([node.name, *names]):
                break
            index -= 1
        if index > role.commit:
            self._commit(node, role, index)
            if node.server is None:  # it was killed as it began to carry an entry out
                return
            for name, progress in role.progress.items():
                self._send(node, role, name, progress)

    def _commit(self, node: Node, role: Role, index: int) -> None:
        if self.invariants is not None:
            self.invariants.committed(node, role.log, role.commit + 1, index, role.members if role.is_leader else None)
        role.commit = index
        role.moved.notify()
        self._machine.committed(node)
        if node.server is not None and role.is_leader and role.members.before and role.named_at <= index:
            # The second step of a change of members: from now on the new ones decide alone.
            steps = self.propose_members(node, role.members.now)
            server_of(node).begin("members", steps)

    def resign(self, node: Node) -> None:
        """Lead no more, as a node that has left the group."""
        self._follow(node, self._role(node), "")

    def propose_members(self, node: Node, members: tuple[Member, ...]) -> Steps:
        """Append the first or, while the members change, the second step of a change; returns its (term, index) or None."""
        return server_of(node).staged("raft", self._change_members(node, members))

    def _change_members(self, node: Node, members: tuple[Member, ...]) -> Steps:
        role = self._role(node)
        if not role.is_leader or role.named_at > role.commit:
            return None
        if role.members.before:
            return (yield from self._append(node, Configuration(role.members.now)))
        return (yield from self._append(node, Configuration(members, role.members.now)))

    def confirm(self, node: Node) -> Steps:
        """Have a majority confirm that this node leads; returns an index that is committed, None if it does not lead."""
        role = self._role(node)
        if not role.is_leader or role.log.term_at(role.commit) != role.term:
            return None
        index, term = role.commit, role.term
        floor = 0 if self.invariants is None else self.invariants.floor(role.log)
        members = role.members
        confirmed: dict[str, None] = {}
        ids = {name: role.members.id_of(name) for name in role.members.names}
        for voters in role.members.majorities:
            answers: Answers = yield server_of(node).ask(
                voters, "confirm", _Confirm(role.log.group, term, ids), need=len(voters) // 2 + 1, limit_ns=_CONFIRM_NS
            )
            if not answers.enough:
                return None
            if self.invariants is not None:
                self.invariants.confirmed(node, voters, answers.answers)
            confirmed |= dict.fromkeys(answers.answers)
        if role.term != term or not role.is_leader:
            return None
        if self.invariants is not None:
            self.invariants.answered(node, index, floor, members, confirmed)
        return index

    # ── members ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def receive(self, node: Node, message: Message) -> Steps | None:
        """Handle a message of the log; one of another group is dropped."""
        role = self._role(node)
        if message.sender != node.name:
            role.heard_ns[message.sender] = node.kernel.heap.now_ns
        if message.kind == "raft-ping" or message.body[0] != role.log.group or self._is_anothers(node, message):
            return None
        match message.kind:
            case "append":
                return server_of(node).staged("raft", self._take(node, message))
            case "snapshot":
                return server_of(node).staged("raft", self._take_snapshot(node, message))
            case "plea":
                return server_of(node).staged("raft", self._weigh(node, message))
            case "vote":
                self._hear_vote(node, message)
            case "append-answer":
                self._hear_answer(node, message)
            case "lost" if role.is_leader and message.sender in role.progress:
                self._tell_again(node, role, message.sender)
            case "confirm":
                self._answer_leader(node, message)
        return None

    def _answer_leader(self, node: Node, message: Message) -> None:
        role = self._role(node)
        is_same = message.body.term == role.term
        if is_same and self.invariants is not None:
            self.invariants.confirms(node, role.log, message.body.term)
        server_of(node).answer(message, True if is_same else Failure("another term"))

    def _is_anothers(self, node: Node, message: Message) -> bool:
        """Return whether a message is for, or from, the node that had an address before: one with another server id."""
        match message.body:
            case _Confirm(to=ids):
                return ids[node.name] != self._machine.server_id(node)
            case _Append(to=to) | _Snapshot(to=to) | _Plea(to=to):
                return bool(to != self._machine.server_id(node))
        return self._role(node).members.id_of(message.sender) not in {"", message.body.by}

    def _heed(self, node: Node, message: Message, *, last: int) -> Literal["heeded", "refused"]:
        """Follow the sender of entries, unless its term is over."""
        role = self._role(node)
        if message.body.term < role.term:
            answer = _Answer(
                role.log.group, role.term, accepted=False, last=last, commit=role.commit, by=message.body.to
            )
            server_of(node).send(message.sender, "append-answer", answer)
            return "refused"
        if message.body.term > role.term:
            self._adopt(node, role, message.body.term)
        if role.leader != message.sender:
            self._follow(node, role, message.sender)
        role.quiet_ticks = 0
        return "heeded"

    def _take(self, node: Node, message: Message) -> Steps:
        """Take entries from the leader."""
        role, body = self._role(node), message.body
        log = role.log
        if self._heed(node, message, last=log.last) == "refused":
            return
        own_term = role.term
        yield F1
        index, term = body.before
        accepted = index <= log.last and (index < log.index or log.term_at(index) == term)
        if accepted:
            unknown = (entry for entry in body.entries if entry.number > log.index)
            new = list(dropwhile(lambda entry: log.term_at(entry.number) == entry.term, unknown))
            if new:
                yield F2
                yield Sync()
            # It may have heard of a later term meanwhile, though there was nothing to write.
            if role.term != own_term:
                return
            if new:
                del log.entries[new[0].number - log.index - 1 :]
                log.entries += new
                if self.invariants is not None:
                    self.invariants.kept(node, log, new[0].number)
                self._look_at_members(node, role)
            known = index + len(body.entries)
            if self.invariants is not None:
                self.invariants.taken(node, log, body.term, message.sender, known)
            if min(body.commit, known) > role.commit:
                self._commit(node, role, min(body.commit, known))
                if node.server is None:
                    return
        answer = _Answer(
            log.group,
            role.term,
            accepted=accepted,
            last=index + len(body.entries) if accepted else min(log.last, index - 1),
            commit=role.commit,
            by=body.to,
        )
        server_of(node).send(message.sender, "append-answer", answer)

    def _take_snapshot(self, node: Node, message: Message) -> Steps:
        """Take a snapshot from the leader instead of the entries that it has no more."""
        role, body = self._role(node), message.body
        log = role.log
        if self._heed(node, message, last=log.last) == "refused":
            return
        index, term = body.at
        if index > role.commit:
            yield F3
            yield Sync()
            log.index, log.index_term, log.members, log.entries = index, term, body.members, []
            self._look_at_members(node, role)
            role.commit = role.applied = index
            if self.invariants is not None:
                self.invariants.begins_after(node, log)
            self._machine.take_over(node, body.image, index)
            role.moved.notify()
        answer = _Answer(log.group, role.term, accepted=True, last=index, commit=role.commit, by=body.to)
        server_of(node).send(message.sender, "append-answer", answer)
