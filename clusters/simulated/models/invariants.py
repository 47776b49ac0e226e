"""Invariants: what holds of all nodes at once, at every moment, in a design without a flaw (`-O invariants=checked`).

No server knows these; an observer that sees every disk does. A breach stands in the log of the node at which it was seen, as an assertion
that failed (`unexpected-log-error`), once for each invariant. Most of them are broken long before a client can tell, or without that one
ever does: two votes in one term are harmless unless two leaders come of them.

**Raft** (Ongaro, Ousterhout 2014, figure 3): a node votes once in a term; a leader has the votes of a majority, is the only one of its term,
and has all that was committed; what is committed is on a majority, and is the same entry everywhere. A change begins on all that was committed
when it was asked for.

**Metadata log**: an epoch has one entry, and one outcome; a node enacts every epoch; a majority of the members decides, and none takes a
ballot below one that it promised. Sequences have no range in common, a topology remembers whose placement it changes, and a majority of
the replicas of each range knows the last step before the next one.

**Rows**: when a write is acknowledged at QUORUM, so many of those who are read from have it that every quorum of them does; what a read at
QUORUM returns likewise, where the ring is at rest. Not looked at across data centres, and for tables that a node does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from schemaquake.clusters.simulated.faces import Node
from schemaquake.clusters.simulated.processes import Died
from schemaquake.clusters.simulated.ring import Copies
from schemaquake.clusters.simulated.said import ServerSaid
from schemaquake.clusters.simulated.schema.loading import load_keyspaces
from schemaquake.clusters.simulated.topology import Moving, Topology, former_of, present_of
from schemaquake.harness.units import S

__all__ = ["Breaches", "GroupInvariants", "LogInvariants", "RingInvariants", "has_centers"]

_SERVING: Final = frozenset({"normal", "leaving", "moving"})
"""Places in the ring of nodes that can be members of the metadata service."""
_COMPARED_WITH: Final = 4
"""Earlier topologies with which a new one is compared: a coordinator is seldom further behind."""
_LAST_BUT_ONE: Final = 3
"""Steps of a change of the ring that come before its last one."""
_SENT_MOST: Final = 1000
"""Times that a leader sends a member entries in one second: some fifty where clients ask for many changes."""
_ASKED_NS: Final = 3 * S
"""The time for which a node of 6.0 that starts waits for an answer of one that it asks."""


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
    @property
    def number(self) -> int: ...
    @property
    def members(self) -> _Members | None: ...


class _Log(Protocol):
    @property
    def group(self) -> str: ...
    @property
    def index(self) -> int: ...
    @property
    def last(self) -> int: ...
    @property
    def term(self) -> int: ...
    @property
    def vote(self) -> str: ...
    @property
    def members(self) -> _Members: ...
    @property
    def entries(self) -> Sequence[_Entry]: ...
    def term_at(self, index: int) -> int: ...
    def entry(self, index: int) -> _Entry: ...


def has_centers(node: Node) -> bool:
    """Return whether there are several data centres."""
    return len({place.data_center for place in node.locations.values()}) > 1


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
        self._committed_in: dict[str, dict[int, int]] = {}
        """By group and entry the term in which a leader committed it."""
        self._terms: dict[tuple[str, str], int] = {}
        """By group and node the highest term that it was in."""
        self._before: dict[tuple[str, int, int], tuple[_Entry, int]] = {}
        """By group, term and number an entry, and the term of the one before."""
        self._carried_out: dict[str, tuple[str, Any]] = {}
        """By state its node, and what its tables were."""
        self._founders: list[str] = []
        self._sent: dict[tuple[str, str], tuple[int, int]] = {}
        """By leader and member the last second in which entries were sent, and how often."""
        self._named: dict[str, dict[int, _Members]] = {}
        """By group the members that committed entries named, by their numbers."""
        self._agreed: dict[str, int] = {}
        """By node the last entry that was found to be its leader's."""
        self._passed_ns: dict[str, int] = {}
        """By node the moment at which it last got through a read barrier."""
        self._waited: dict[str, Any] = {}
        """By node its last server that has what was committed when it started, or has waited for it."""

    def sends(self, node: Node, name: str) -> None:
        """Take note of entries, or a snapshot, that a leader sends a member. One that does nothing else ends: no run would."""
        second = node.kernel.heap.now_ns // S
        begun, count = self._sent.get((node.name, name), (second, 0))
        self._sent[node.name, name] = (second, count + 1 if begun == second else 1)
        if begun == second and count == _SENT_MOST and node.server is not None:
            text = f"{node.name} has sent {name} entries {count} times in a second"
            self._report(node, "a leader and a member come to agree", text)
            node.kernel.after(0, partial(node.die, f"java.lang.AssertionError: {text}"))

    def founded(self, node: Node, *, anew: bool) -> None:
        """Take note of a node that founds a group; `anew`: in the place of one that is given up."""
        self._founders += [] if anew else [node.name]
        if len(self._founders) > 1 and not anew:
            self._report(node, "a cluster has one group", f"{' and '.join(self._founders)} found one each")

    def booted(self, node: Node, log: _Log, term: int, vote: str) -> None:
        """Take note of what a node reads from its disk, and of the term and the vote that it goes by; one that is in no group yet begins anew."""
        if (term, vote) != (log.term, log.vote):
            text = f"{node.name} begins in term {term} with a vote for {vote or 'none'}, and kept {log.term}, {log.vote or 'none'}"
            self._report(node, "a start goes by what was kept", text)
        if not log.group:
            self._begins_anew(node.name)
        known = self._terms.get((log.group, node.name), 0)
        if log.term < known:
            self._report(
                node, "a term outlives a restart", f"{node.name} begins in term {log.term}, and was in {known}"
            )
        voted = self._votes.get((log.group, log.term), {}).get(node.name)
        if voted is not None and log.vote != voted:
            text = f"{node.name} has voted for {voted} in term {log.term}, and begins with {log.vote or 'none'}"
            self._report(node, "a vote outlives a restart", text)
        self.begins_after(node, log)

    def _begins_anew(self, name: str) -> None:
        """Tell what a node is from what the one was that had its name before."""
        for place in [place for place in self._terms if place[1] == name]:
            del self._terms[place]
        for votes in self._votes.values():
            if name in votes:
                votes[former_of(name)] = votes.pop(name)

    def begins_after(self, node: Node, log: _Log) -> None:
        """Take note of the entry that a node's log begins after, which a snapshot has: what follows it, and the members at it."""
        self.kept(node, log, log.index + 1)
        named = self._named.get(log.group, {})
        latest = max((number for number in named if number <= log.index), default=None)
        if latest is not None and log.members != named[latest]:
            text = f"that of {node.name} at entry {log.index} has other members than entry {latest} named"
            self._report(node, "a snapshot knows the members", text)

    def goes_by(self, node: Node, log: _Log, members: _Members) -> None:
        """Take note of the members that a node goes by from now on: the latest ones that its log names."""
        latest = next((each.members for each in reversed(log.entries) if each.members is not None), log.members)
        if members != latest:
            self._report(node, "a node goes by the latest members", f"{node.name} goes by others than its log names")

    def names(self, node: Node, members: _Members, before: _Members, *, is_settled: bool) -> None:
        """Take note of members that a leader puts into its log; `is_settled`: those of before are committed."""
        is_next = (
            members.before == before.now if not before.before else (members.now, members.before) == (before.now, ())
        )
        if not is_next or not is_settled:
            text = f"{node.name} names members that do not follow the ones of before, or before these are committed"
            self._report(node, "members change in two steps", text)

    def confirms(self, node: Node, log: _Log, term: int) -> None:
        """Take note of a node that confirms the leader of a term."""
        if term < self._terms.get((log.group, node.name), 0):
            self._report(node, "who confirms a leader is in its term", f"{node.name} confirms that of term {term}")

    def tried(self, node: Node, candidate: str, leader: str, *, hears_leader: bool) -> None:
        """Report a vote on trial that is about to be given by a node that hears a leader.

        `leader` is whom the node follows: itself if it leads, empty for nobody.
        """
        if leader and hears_leader:
            text = f"{node.name} votes for {candidate} on trial, and hears {leader}, which leads"
            self._report(node, "nobody who hears a leader votes on trial", text)

    def pleads(self, node: Node, log: _Log, last: tuple[int, int]) -> None:
        """Take note of a candidate that asks for votes with this last entry (term, number)."""
        own = (log.term_at(log.last), log.last)
        if last != own:
            self._report(node, "a candidate names its last entry", f"{node.name} names {last}, and has {own}")

    def asked_for(self, node: Node, log: _Log, term: int, candidate_last: tuple[int, int]) -> None:
        """Take note of a vote that a node is about to give, for a candidate whose last entry is this one (term, number)."""
        own = (log.term_at(log.last), log.last)
        if candidate_last < own:
            text = f"{node.name} votes in term {term} for one whose log ends at {candidate_last}, and its own at {own}"
            self._report(node, "a vote is for as long a log", text)

    def refused(self, node: Node, log: _Log, term: int, candidate: str, candidate_last: tuple[int, int]) -> None:
        """Take note of a vote that a node refuses a candidate of that term, whose last entry is this one (term, number)."""
        is_present = term == self._terms.get((log.group, node.name), 0)
        voted = self._votes.get((log.group, term), {}).get(node.name, candidate)
        if is_present and voted == candidate and candidate_last >= (log.term_at(log.last), log.last):
            self._report(node, "who may have a vote has it", f"{node.name} refuses {candidate} its vote in term {term}")

    def taken(self, node: Node, log: _Log, term: int, sender: str, last: int) -> None:
        """Take note of entries that a node has taken from a leader of that term, whose log is its own up to the entry `last`."""
        self._agreed[node.name] = last
        if term < self._terms.get((log.group, node.name), 0):
            self._report(node, "entries are of the present term", f"{node.name} takes some of {sender}, term {term}")
        if self._leaders.get((log.group, term), sender) != sender:
            self._report(node, "entries are the leader's", f"{node.name} takes some of {sender} in term {term}")
        self.in_term(node, log, term)

    def in_term(self, node: Node, log: _Log, term: int) -> None:
        """Take note of the term that a node is in."""
        place = log.group, node.name
        self._terms[place] = max(term, self._terms.get(place, 0))

    def kept(self, node: Node, log: _Log, first: int) -> None:
        """Take note of entries from that number on that were written to disk: those of one term and number are one, and so is what is before.

        Raises Died where entries are not in their order.
        """
        for number in range(max(first, log.index + 1), log.last + 1):
            entry, term_before = log.entry(number), log.term_at(number - 1)
            if entry.number != number or entry.term < term_before:
                text = f"entry {entry.number} of {node.name} is in place {number}"
                self._report(node, "a log is in order", text)
                # A leader and this node would go on in circles, and no judge would see the end of the run.
                raise Died(f"java.lang.AssertionError: a log is in order: {text}")
            known = self._before.setdefault((log.group, entry.term, number), (entry, term_before))
            if known[0] is not entry and known[0] != entry:
                text = f"entry {number} of term {entry.term} is another one on {node.name}"
                self._report(node, "an entry of a term is one", text)
            if known[1] != term_before:
                text = f"before entry {number} of term {entry.term} is one of {term_before} on {node.name}, and of {known[1]}"
                self._report(node, "logs that have an entry agree before it", text)

    def confirmed(self, node: Node, voters: Collection[str], answered: Collection[str]) -> None:
        """Take note of a leader that takes it that so many follow it still."""
        if 2 * sum(name in answered for name in voters) <= len(voters):
            text = f"{node.name} takes {', '.join(answered) or 'none'} for a majority of {', '.join(voters)}"
            self._report(node, "a majority confirms a leader", text)

    def answered(self, node: Node, index: int, floor: int, members: _Members, confirmed: Collection[str]) -> None:
        """Take note of a leader that answers a read barrier with an entry, as these have confirmed it.

        `floor` is the last entry that was committed when it was asked, `members` are those by whom it went then.
        """
        if not _is_majority(members, confirmed):
            text = f"{node.name} answers a read barrier by {', '.join(confirmed) or 'none'}"
            self._report(node, "a majority confirms a leader", text)
        if index < floor:
            text = f"{node.name} answers with entry {index}, and {floor} was committed before"
            self._report(node, "a read barrier has all that was committed", text)

    def serves(self, node: Node, names: Collection[str]) -> None:
        """Take note of a node that has changed the rows of these keyspaces, and serves them."""
        try:
            loaded = load_keyspaces(node.disk.schema, sorted(names), {}, lambda _text: None)
        except ServerSaid as said:
            self._report(node, "tables can be loaded", f"{node.name}: {said}")
            return
        memory = node.server.memory if node.server is not None else {}
        for name in names:
            if loaded.get(name) != memory.get(name):
                self._report(node, "a node serves what its tables have", f"{name} is another one on {node.name}")

    def follows(self, node: Node, before_us: int, state_us: int) -> None:
        """Take note of the time of a state that a node has after one of the time `before_us`."""
        if state_us <= before_us:
            text = f"{node.name} has one of {state_us} µs after one of {before_us} µs"
            self._report(node, "a state is later than the one before", text)

    def acknowledged(self, node: Node, change: str, carried_out: Collection[str]) -> None:
        """Take note of a change that a node acknowledges; `carried_out` are those that it has carried out since it was asked."""
        if change not in carried_out:
            text = f"{node.name} acknowledges {change}, and has not carried it out"
            self._report(node, "who acknowledges a change has carried it out", text)

    def asks(self, node: Node, coordinator: str, theirs_us: int, own_us: int) -> None:
        """Take note of a replica that asks a coordinator for a definition that it lacks, and of the times of the states of both."""
        if theirs_us <= own_us:
            text = f"{node.name} is at state {own_us}, and asks {coordinator}, which is at {theirs_us}"
            self._report(node, "a replica asks nobody who is behind", text)

    def lacks(self, node: Node, coordinator: str, table_id: str) -> None:
        """Take note of a replica that does not know the table, or a column, of a request, and does not ask its coordinator, which does."""
        text = f"{node.name} does not ask {coordinator} about {table_id}"
        self._report(node, "a replica asks a coordinator that is ahead", text)

    def carried_out(self, node: Node, state: str, tables: Any) -> None:
        """Take note of the tables of a node that has carried out the command of that state."""
        first, known = self._carried_out.setdefault(state, (node.name, tables))
        if known != tables:
            self._report(node, "a state is the same everywhere", f"{node.name} and {first} differ at state {state}")

    def voted(self, node: Node, log: _Log, term: int, candidate: str) -> None:
        """Take note of a vote, not one on trial."""
        self.in_term(node, log, term)
        first = self._votes.setdefault((log.group, term), {}).setdefault(node.name, candidate)
        if first != candidate:
            self._report(node, "one vote a term", f"{node.name} voted for {first} and {candidate} in term {term}")

    def counts(self, node: Node, log: _Log, term: int, voter: str) -> None:
        """Take note of a vote, not one on trial, that a candidate counts for a term; `voter` is who gave it."""
        votes = self._votes.get((log.group, term), {})
        voted = votes.get(voter, votes.get(former_of(voter)))
        if voted != node.name:
            text = f"{node.name} counts one of {voter} in term {term}, which voted for {voted or 'none'}"
            self._report(node, "a candidate counts votes that were given", text)

    def heard_answer(self, node: Node, term: int, answered: int) -> None:
        """Take note of an answer of a member in term `answered` by which the leader of a term goes."""
        if answered != term:
            text = f"{node.name} leads in term {term}, and counts an answer of term {answered}"
            self._report(node, "a leader counts answers to its own term", text)

    def led(self, node: Node, log: _Log, term: int, members: _Members) -> None:
        """Take note of a node that becomes the leader of a term."""
        first = self._leaders.setdefault((log.group, term), node.name)
        if first != node.name:
            self._report(node, "one leader a term", f"{first} and {node.name} lead in term {term}")
        voters = [
            present_of(name) for name, voted in self._votes.get((log.group, term), {}).items() if voted == node.name
        ]
        if not _is_majority(members, voters):
            self._report(node, "a leader has a majority", f"{node.name} leads in term {term} with votes of {voters}")
        terms = self._committed_in.get(log.group, {})
        for number, entry in self._committed.get(log.group, {}).items():
            # One that was elected, and paused before it led, may come behind a leader of a later term, and what that one has committed.
            is_due = terms.get(number, entry.term) < term
            if is_due and number > log.index and log.term_at(number) != entry.term:
                self._report(node, "a leader has what was committed", f"{node.name} leads without entry {number}")
                break

    def committed(self, node: Node, log: _Log, first: int, last: int, members: _Members | None) -> None:
        """Take note of entries that a node takes for committed; `members` are the leader's, None on a follower."""
        known = self._committed.setdefault(log.group, {})
        if members is None and last > max(known, default=last):
            text = f"{node.name} takes entry {last} for committed, and {max(known)} is the last one of a leader"
            self._report(node, "a follower commits what a leader has", text)
        if members is None and last > self._agreed.get(node.name, last):
            text = f"{node.name} takes entry {last} for committed, and its log is its leader's up to {self._agreed[node.name]}"
            self._report(node, "a follower commits what it has of its leader", text)
        if members is not None and self._leaders.get((log.group, log.term_at(last)), node.name) != node.name:
            text = f"{node.name} commits entry {last} of term {log.term_at(last)}, which it does not lead"
            self._report(node, "a leader counts entries of its own term", text)
        for number in range(max(first, log.index + 1), min(last, log.last) + 1):
            entry = log.entry(number)
            other = known.setdefault(number, entry)
            if members is not None:
                self._committed_in.setdefault(log.group, {}).setdefault(number, log.term)
            if entry.members is not None:
                self._named.setdefault(log.group, {})[number] = entry.members
            if other is not entry and other != entry:
                self._report(node, "one entry a place", f"entry {number} is another one on {node.name}")
        if members is not None and last > log.index:
            term = log.term_at(last)
            having = [each.name for each in self._nodes if _has(self._log_of(each), log.group, last, term)]
            if not _is_majority(members, having):
                self._report(node, "a majority has what is committed", f"entry {last} is on {', '.join(having)}")

    def applies(self, node: Node, log: _Log, number: int) -> None:
        """Take note of an entry that a node is about to carry out."""
        if number > self.floor(log):
            text = f"{node.name} carries entry {number} out, and {self.floor(log)} is the last one that is committed"
            self._report(node, "what is carried out is committed", text)

    def floor(self, log: _Log) -> int:
        """Return the number of the last entry that anybody takes for committed."""
        return max(self._committed.get(log.group, ()), default=0)

    def passed(self, node: Node, applied: int, index: int) -> None:
        """Take note of a node that has got through a read barrier, which was answered with an entry; `applied` is the last one that it has carried out."""
        self._passed_ns[node.name] = node.kernel.heap.now_ns
        if applied < index:
            text = f"{node.name} goes on at entry {applied}, and was answered with {index}"
            self._report(node, "a read barrier waits for what was committed", text)

    def begun(self, node: Node, log: _Log, applied: int, floor: tuple[str, int], since_ns: int) -> None:
        """Take note of a change that begins on what a node has carried out, behind a read barrier since that moment.

        `floor` is the group, and what was committed when the change was asked for.
        """
        if self._passed_ns.get(node.name, -1) < since_ns:
            text = f"{node.name} begins, and no leader that a majority confirms has answered"
            self._report(node, "a change begins behind a read barrier", text)
        group, number = floor
        if group == log.group and applied < number:
            text = f"{node.name} begins on entry {applied}, and {number} was committed before"
            self._report(node, "a change begins on what was committed", text)

    def started(self, node: Node, log: _Log, applied: int, floor: tuple[str, int], waits_until_ns: int) -> None:
        """Take note of a node that is about to serve with what it has carried out; `floor` is the group, and what was committed when it asked for that.

        Without a majority it waits until that moment.
        """
        group, number = floor
        self._waited[node.name] = node.server
        if group == log.group and applied < number and node.kernel.heap.now_ns < waits_until_ns:
            text = f"{node.name} is at entry {applied}, and {number} was committed before"
            self._report(node, "who starts has what was committed, or has waited for it", text)

    def goes_up(self, node: Node) -> None:
        """Take note of a node whose start has come to its end: it has waited for what was committed (`started`)."""
        if self._waited.get(node.name) is not node.server:
            text = f"{node.name} has not waited for what was committed before"
            self._report(node, "who starts has what was committed, or has waited for it", text)


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
    @property
    def cms(self) -> Sequence[str]: ...
    @property
    def members_most(self) -> int: ...


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
        self._accepted: dict[tuple[str, int, tuple[int, str]], tuple[tuple[int, str], tuple[str, int]]] = {}
        """By member, epoch and ballot that it promised the ballot and the entry that it had accepted by then."""
        self._decided: dict[int, tuple[str, int]] = {}
        self._topologies: dict[int, Topology] = {}
        """By version."""
        self._served: dict[str, tuple[Any, int]] = {}
        """By node its server and the epoch that this one serves."""
        self._reached_ns: dict[str, int] = {}
        """By node the moment at which it last reached a majority of the members."""
        self._turned_to: dict[tuple[str, int], list[tuple[str, Collection[str]]]] = {}
        """By entry the members that its node has turned to, and all that it knew then."""
        self._read_ns: dict[str, int] = {}
        """By node the moment at which it last began to read the log with a majority."""
        self._without_log: dict[str, int] = {}
        """By node that has lost its log, and has not read it again, the highest epoch that anybody had enacted by then."""
        self._asked: dict[str, Any] = {}
        """By node its last server that has asked for what it missed."""

    def enacted(self, node: Node, epoch: int, entry_id: tuple[str, int], before: int) -> None:
        """Take note of an entry that a node carries out on top of epoch `before`."""
        first = self._entries.setdefault(epoch, entry_id)
        if first != entry_id:
            self._report(node, "one entry an epoch", f"epoch {epoch} is {first}, and {entry_id} on {node.name}")
        if epoch != before + 1:
            self._report(node, "no epoch is left out", f"{node.name} goes from epoch {before} to {epoch}")

    def booted(self, node: Node, epoch: int) -> None:
        """Take note of the epoch that a node has on its disk when it starts."""
        if epoch < self._enacted.get(node.name, 0) and node.joins is None:
            text = f"{node.name} begins at epoch {epoch}, and was at {self._enacted[node.name]}"
            self._report(node, "an epoch outlives a restart", text)

    def asked(self, node: Node, epoch: int, others: Mapping[str, int], since_ns: int) -> None:
        """Take note of a node that has asked for what it missed, which it began to at the moment `since_ns`.

        `others` are the epochs that those had then whom it takes for alive. Who does not answer is waited for.
        """
        least = min(others.values(), default=0)
        self._asked[node.name] = node.server
        if epoch < least and node.kernel.heap.now_ns < since_ns + _ASKED_NS:
            text = f"{node.name} goes on at epoch {epoch}, and {', '.join(others)} had {least} or more"
            self._report(node, "who starts has asked for what it missed", text)

    def goes_up(self, node: Node) -> None:
        """Take note of a node whose start has come to its end: it has asked for what it missed, or has read the log."""
        if self._asked.get(node.name) is not node.server:
            text = f"{node.name} has asked nobody for what it missed"
            self._report(node, "who starts has asked for what it missed", text)

    def begins_anew(self, node: Node) -> None:
        """Take note of a node that has lost its log, with all that it had promised and accepted."""
        self._without_log[node.name] = max(self._entries, default=0)
        self._promised = {key: ballot for key, ballot in self._promised.items() if key[0] != node.name}

    def has_read(self, node: Node, epoch: int) -> None:
        """Take note of a node that had lost its log, and has read it up to an epoch."""
        least = self._without_log.pop(node.name, 0)
        self._asked[node.name] = node.server
        if epoch < least:
            text = f"{node.name} has read the log up to epoch {epoch}, and {least} was enacted before"
            self._report(node, "who has lost its log reads all of it", text)

    def kept(self, node: Node, base: int, epochs: Sequence[int], enacted: int) -> None:
        """Take note of the log on a node's disk: the epoch of its snapshot, those of the entries after it, and the one that was enacted last."""
        if base + len(epochs) != enacted or (epochs and (epochs[0], epochs[-1]) != (base + 1, enacted)):
            text = f"{node.name} has {len(epochs)} entries on top of epoch {base}, and is at epoch {enacted}"
            self._report(node, "a disk has every epoch after its snapshot", text)

    def copied(self, node: Node, metadata: _Metadata, names: Sequence[str]) -> None:
        """Take note of the copies of these keyspaces that a node has made for clients."""
        try:
            loaded = load_keyspaces(node.disk.schema, names, {}, lambda _text: None)
        except ServerSaid as said:
            self._report(node, "a copy is what was enacted", f"epoch {metadata.epoch} on {node.name}: {said}")
            return
        for name in names:
            if loaded.get(name) != metadata.schema[name]:
                self._report(node, "a copy is what was enacted", f"{name} at epoch {metadata.epoch} on {node.name}")

    def acknowledged(self, node: Node, entry_id: tuple[str, int], epoch: int) -> None:
        """Take note of a change that a node acknowledges, at the epoch that it serves."""
        at = next((number for number, each in self._entries.items() if each == entry_id), None)
        if at is None or at > epoch:
            where = "in no epoch that was enacted" if at is None else f"in epoch {at}"
            text = f"{node.name} acknowledges at epoch {epoch} what is {where}"
            self._report(node, "a coordinator has enacted what it acknowledges", text)

    def passes(self, node: Node, epoch: int, enacted: int) -> None:
        """Take note of a node that says that it knows an epoch."""
        if enacted < epoch:
            self._report(node, "who confirms an epoch has enacted it", f"{node.name} confirms {epoch} at {enacted}")

    def defined(self, node: Node, table_id: str, epoch: int, enacted: int) -> None:
        """Take note of a replica that carries a request out whose coordinator knew an earlier epoch than this node."""
        then, now = self._outcomes.get(epoch), self._outcomes.get(enacted)
        if then is None or now is None or epoch >= enacted or then.schema is now.schema:
            return
        known, present = _definition(then.schema, table_id), _definition(now.schema, table_id)
        if known is not None and present is not None and known != present:
            text = f"{node.name} at epoch {enacted} serves one of epoch {epoch}"
            self._report(node, "a replica serves nobody who knows another definition", text)

    def behind(self, node: Node, table_id: str, epoch: int, enacted: int) -> None:
        """Take note of a replica that carries a request out, and has not asked its coordinator, which knew a later epoch, for what it lacks."""
        then, now = self._outcomes.get(epoch), self._outcomes.get(enacted)
        if then is None or now is None or epoch <= enacted or then.schema is now.schema:
            return
        if _definition(then.schema, table_id) != _definition(now.schema, table_id):
            text = f"{node.name} at epoch {enacted} serves one of epoch {epoch}, which knows another definition"
            self._report(node, "a replica catches up with its coordinator first", text)

    def caught_up(self, node: Node, sender: str, epoch: int, enacted: tuple[int, int], since_ns: int) -> None:
        """Take note of a replica that carries a request out after it has asked its coordinator, at the moment `since_ns`, for what it lacks.

        `epoch` is what that one knew, `enacted` what the replica had before and has now. If the coordinator does not answer, it is waited for.
        """
        before, now = enacted
        if before == now < epoch and node.kernel.heap.now_ns < since_ns + _ASKED_NS:
            text = f"{node.name} at epoch {now} serves {sender}, which knows {epoch}"
            self._report(node, "a replica catches up with its coordinator first", text)

    def refused(self, node: Node, table_id: str, epoch: int, enacted: int) -> None:
        """Take note of a replica that refuses a request because its coordinator knew an earlier epoch, and the table has changed since."""
        outcomes = [self._outcomes.get(each) for each in range(epoch, enacted + 1)]
        known = [None if each is None else _definition(each.schema, table_id) for each in outcomes]
        if known and None not in known and all(each == known[0] for each in known):
            text = f"{node.name} at epoch {enacted} refuses one of epoch {epoch}, since which the table is the same"
            self._report(node, "a replica refuses nobody who knows its definition", text)

    def turns_to(self, entry_id: tuple[str, int], member: str, members: Collection[str]) -> None:
        """Take note of the member, of these, that a node is about to turn to with an entry."""
        self._turned_to.setdefault(entry_id, []).append((member, members))

    def gives_up(self, node: Node, entry_id: tuple[str, int]) -> None:
        """Take note of a node that gives an entry up: if it is no member, it has turned to all of them, one after another."""
        turns = self._turned_to.get(entry_id, ())
        members = turns[0][1] if turns else ()
        if node.name in members or len(turns) < len(members) or any(each != members for _, each in turns):
            return
        left = [name for name in members if name not in {each for each, _ in turns}]
        if left:
            text = f"{node.name} gives up after {len(turns)} attempts, and has not turned to {', '.join(left)}"
            self._report(node, "who gives up has turned to all members", text)

    def serves(self, node: Node, metadata: _Metadata) -> None:
        """Take note of a node that serves from now on what it has enacted."""
        if node.server is not None and node.server.memory != metadata.schema:
            text = f"{node.name} serves other definitions than those of epoch {metadata.epoch}"
            self._report(node, "a node serves what it has enacted", text)

    def decides(self, node: Node, *, is_outside: bool) -> None:
        """Take note of a node whose start has come to its end.

        `is_outside`: it answers nobody who asks for its vote.
        """
        if is_outside:
            self._report(node, "who serves has a part in what is decided", f"{node.name} has none")

    def reads(self, node: Node) -> None:
        """Take note of a member that asks a majority of the others for what the log has."""
        self._read_ns[node.name] = node.kernel.heap.now_ns

    def refuses(self, node: Node, epoch: int, judged_at: int, since_ns: int, *, is_due: bool) -> None:
        """Take note of a member that refuses a change at the epoch that it has enacted.

        It came to that at the epoch `judged_at` and the moment `since_ns`, and has to have asked for the rest of the log since. `is_due`: the
        change is refused by the present epoch, too, and not by an earlier one alone.
        """
        if not is_due or judged_at < epoch:
            text = f"{node.name} refuses by epoch {judged_at}, and is at {epoch}"
            self._report(node, "who refuses goes by what it has enacted", text)
        if self._read_ns.get(node.name, -1) < since_ns:
            text = f"{node.name} refuses by epoch {judged_at}, and has not asked a majority for what it lacks"
            self._report(node, "who refuses has read the log", text)

    def published(self, node: Node, metadata: _Metadata) -> None:
        """Take note of the metadata that a node serves from now on."""
        epoch, topology = metadata.epoch, metadata.topology
        if epoch < self._served.get(node.name, (None, 0))[1] and self._served[node.name][0] is node.server:
            self._report(node, "no epoch goes back", f"{node.name} goes back to {epoch}")
        self._served[node.name] = node.server, epoch
        self._enacted[node.name] = max(epoch, self._enacted.get(node.name, 0))
        first = self._outcomes.setdefault(epoch, metadata)
        self._topologies.setdefault(topology.version, topology)
        if first is metadata:
            gone = [name for name in metadata.cms if topology.seats[name].state in {"left", "replaced"}]
            if gone:
                text = f"{', '.join(gone)} is a member of the service at epoch {epoch}"
                self._report(node, "who has left decides no more", text)
            # A topology lists nodes in the order in which they registered.
            there = [name for name, seat in topology.seats.items() if seat.state in _SERVING][: metadata.members_most]
            if not gone and [*metadata.cms] != there:
                text = f"{', '.join(metadata.cms) or 'nobody'} at epoch {epoch}, and not {', '.join(there)}"
                self._report(node, "the first who registered decide", text)
            for move in topology.moves:
                self._steps.setdefault((move.node, move.done), _Step(epoch, metadata))
            self._compare_steps(node, metadata)
            self._compare_locks(node, topology)
            self._compare_history(node, metadata)
            self._compare_factors(node, metadata)
        elif first.schema != metadata.schema or _placements(first.topology) != _placements(topology):
            self._report(node, "one outcome an epoch", f"{node.name} has other metadata at epoch {epoch}")

    def _compare_steps(self, node: Node, metadata: _Metadata) -> None:
        then = self._outcomes.get(metadata.epoch - 1)
        leap = None if then is None else _leap(then.topology, metadata.topology, first=1)
        if leap is not None:
            text = f"{leap} at epoch {metadata.epoch}"
            self._report(node, "a change of the ring takes one step after the other", text)

    def _compare_locks(self, node: Node, topology: Topology) -> None:
        for place, move in enumerate(topology.moves):
            for other in topology.moves[:place]:
                spans = other.locked()
                if any(one.has(span.end) or span.has(one.end) for one in move.locked() for span in spans):
                    text = f"{other.node} and {move.node} change the same ranges"
                    self._report(node, "a range is locked once", text)

    def _compare_history(self, node: Node, metadata: _Metadata) -> None:
        """Compare what a topology remembers with where its replicas are others than by the last ones; founders take their tokens at once."""
        now = metadata.topology
        earlier = sorted(version for version in self._topologies if version < now.version)[-_COMPARED_WITH:]
        # Founders take their tokens at once: before the first change a ring is compared with the next one alone.
        earlier = [
            each
            for each in earlier
            if each == earlier[-1] or self._topologies[each].moves or self._topologies[each].history
        ]
        if has_centers(node) or not earlier or self._topologies[earlier[-1]].moves == now.moves:
            return
        for factor in dict.fromkeys(keyspace.replication_factor for keyspace in metadata.schema.values()):
            for then in (self._topologies[version] for version in earlier):
                for token in (*then.tokens, *now.tokens):
                    if _replicas_of(then, token, factor) != _replicas_of(now, token, factor) and not now.changed_since(
                        then.version, token
                    ):
                        text = f"{node.name} at version {now.version} does not know that replicas of {token} were others at {then.version}"
                        self._report(node, "a topology remembers whose placement it changes", text)
                        return

    def _compare_factors(self, node: Node, metadata: _Metadata) -> None:
        """Compare replications with those of the epoch before, at which the ring was changing: its barriers and streams go by the ones there were."""
        then = self._outcomes.get(metadata.epoch - 1)
        if then is None or not then.topology.moves:
            return
        for name, keyspace in metadata.schema.items():
            before = then.schema.get(name)
            if before is not None and before.replication_factor != keyspace.replication_factor:
                text = (
                    f"{name} has another one at epoch {metadata.epoch}, while {then.topology.moves[0].node} is changing"
                )
                self._report(node, "a replication changes while the ring is at rest", text)

    def advances(self, node: Node, move: Moving, topology: Topology) -> None:
        """Take note of a node that is about to take the next step of a sequence.

        Of the readers and writers of each of its ranges, in each data centre, a majority has to know the last step, without the node that
        is removed or replaced. Only keyspaces that there were at that step, and are still, count.
        """
        step = self._steps.get((move.node, move.done))
        if step is None or (move.done == 1 and move.change != "leave"):
            return
        there = node.server.memory if node.server is not None else {}
        schema = step.metadata.schema
        factors = dict.fromkeys(keyspace.replication_factor for name, keyspace in schema.items() if name in there)
        for group in _replicas_in(node, move, topology, factors):
            know = [name for name in group if self._enacted.get(name, 0) >= step.epoch]
            if 2 * len(know) <= len(group):
                text = f"{move.step} of {move.node} (epoch {step.epoch}) is known to {len(know)} of {', '.join(sorted(group))}"
                self._report(node, "a majority knows a step before the next one", text)
                return

    def ended(self, node: Node, move: Moving, topology: Topology) -> None:
        """Take note of a node that says of a change of the ring that it has come to its end."""
        if topology.move_of(move.node) is not None or not _has_its_place(move, topology):
            text = f"{node.name} says so of the {move.change} of {move.node}, which was given up"
            self._report(node, "a change that has ended was made", text)

    def served(self, node: Node, request: str, token: int, version: int, factor: Copies, now: Topology) -> None:
        """Take note of a replica that carries a write or a read out whose coordinator chose the replicas by an earlier version of the topology."""
        then = self._topologies.get(version)
        if then is None or not then.tokens or version >= now.version or has_centers(node):
            return
        readers, writers = (then, now) if request == "read" else (now, then)
        reads = readers.replicas(readers.place(token), factor)
        left = writers.replicas(writers.place(token), factor)
        written = writers.writes(writers.place(token), factor)
        quorum = len(left) // 2 + 1 + len(written) - len(left)
        # Quorums one step apart always meet, but for a row that comes when it was streamed already: who is to come has to be written to.
        wanted = now.writes(now.place(token), factor) if request == "write" else reads
        if not {*wanted} <= {*written} or len(reads) // 2 + 1 + quorum <= len({*reads, *written}):
            text = f"{node.name} takes a {request} of version {version} at {now.version}: {reads} are read, {written} written"
            self._report(node, "a replica serves nobody whose quorums need not meet its own", text)

    def reached(self, node: Node, members: Collection[str], answered: Collection[str]) -> None:
        """Take note of a majority of members that a node has reached."""
        if 2 * sum(name in answered for name in members) <= len(members):
            self._report(node, "a majority decides", f"{len(answered)} of {len(members)} members answered {node.name}")
        without = [name for name in answered if name in self._without_log]
        if without:
            text = f"{', '.join(without)} answered {node.name}, and has lost the log"
            self._report(node, "who has lost its log decides nothing", text)
        self._reached_ns[node.name] = node.kernel.heap.now_ns

    def appends(self, node: Node, epoch: int) -> None:
        """Take note of a member that is about to append an entry, which needs the answers of a majority at this moment."""
        if self._reached_ns.get(node.name) != node.kernel.heap.now_ns:
            self._report(
                node, "a majority decides", f"{node.name} appends epoch {epoch}, and has asked for no majority"
            )

    def promised(
        self, node: Node, epoch: int, ballot: tuple[int, str], accepted: tuple[tuple[int, str], Any] | None = None
    ) -> None:
        """Take note of a ballot that a member promises or accepts; `accepted` are the ballot and the entry on the disk of one that promises."""
        if accepted is not None:
            self._accepted[node.name, epoch, ballot] = accepted[0], accepted[1].id
        highest = self._promised.get((node.name, epoch), ballot)
        if ballot < highest:
            self._report(
                node, "no ballot below a promise", f"{node.name} takes {ballot} after {highest}, epoch {epoch}"
            )
        self._promised[node.name, epoch] = max(ballot, highest)

    def accepted(self, node: Node, epoch: int, ballot: tuple[int, str], kept: tuple[int, str]) -> None:
        """Take note of a member that says that it has accepted a proposal of that ballot; `kept` is the ballot of what its disk has."""
        if kept != ballot:
            text = f"{node.name} has that of {kept}, and says that it has accepted {ballot}, epoch {epoch}"
            self._report(node, "a member has what it has accepted", text)

    def proposes(
        self, node: Node, epoch: int, ballot: tuple[int, str], promised: Collection[str], entry_id: tuple[str, int],
        members: Collection[str],
    ) -> None:  # fmt: skip
        """Take note of an entry that a node is about to propose, to which these of the members have promised the ballot."""
        if 2 * sum(name in promised for name in members) <= len(members):
            text = f"{node.name} proposes {entry_id} for epoch {epoch}, and {len(promised)} of {len(members)} have promised"
            self._report(node, "a majority promises before an entry is proposed", text)
        accepted = [self._accepted[name, epoch, ballot] for name in promised if (name, epoch, ballot) in self._accepted]
        if accepted and max(accepted)[1] != entry_id:
            text = f"{node.name} proposes {entry_id} for epoch {epoch}, and {max(accepted)[1]} was accepted last"
            self._report(node, "what was accepted last is proposed", text)

    def decided(self, node: Node, epoch: int, entry_id: tuple[str, int]) -> None:
        """Take note of an entry that a proposer takes for decided."""
        first = self._decided.setdefault(epoch, entry_id)
        if first != entry_id:
            self._report(node, "an epoch is decided once", f"epoch {epoch} is {first}, and {entry_id} for {node.name}")


def _leap(before: Topology, after: Topology, *, first: int, is_cancelled: bool = False) -> str | None:
    """Return a step of a change of the ring that was left out between two topologies, in words; None if there is none.

    A change has `first` steps behind it when it begins, and three before its last one. `is_cancelled`: one that is gone was given up.
    """
    done = {(move.change, move.node): move.done for move in before.moves}
    for move in after.moves:
        steps = done.pop((move.change, move.node), None)
        if move.done > (first if steps is None else steps + 1):
            return f"{move.node} goes from {steps or 'no'} steps to {move.done}"
    for move in before.moves:
        steps = done.get((move.change, move.node))
        if steps is not None and steps < _LAST_BUT_ONE and not is_cancelled and _has_its_place(move, after):
            return f"{move.node} has its place after {steps} steps"
    return None


def _has_its_place(move: Moving, topology: Topology) -> bool:
    """Return whether a change has come to its end, and was not given up."""
    seat = topology.seats[move.node]
    match move.change:
        case "leave":
            return seat.state == "left"
        case "move":
            return seat.tokens == move.tokens
    return seat.state == "normal"


def _replicas_in(node: Node, move: Moving, topology: Topology, factors: Iterable[Copies]) -> Iterator[Sequence[str]]:
    """Yield the readers and writers of each range that a change has locked, by data centre, without a node that is removed or replaced."""
    dead = move.replaced or (move.node if move.removed else None)
    for factor in factors:
        for span in move.plan(factor).locked:
            place = topology.place(span.end)
            names = (*topology.replicas(place, factor), *topology.writes(place, factor))
            yield from node.by_data_center([name for name in names if name != dead]).values()


def _replicas_of(topology: Topology, token: int, factor: Copies) -> tuple[list[str], list[str]]:
    """Return who is read from and who is written to."""
    place = topology.place(token)
    return sorted(topology.replicas(place, factor)), sorted(topology.writes(place, factor))


def _definition(schema: Mapping[str, Any], table_id: str) -> Any:
    """Return a table's definition; None: there is no such table."""
    return next(
        (each for space in schema.values() for each in (*space.tables.values(), *space.views.values()) if each.id == table_id),
        None,
    )  # fmt: skip


def _placements(topology: Topology) -> Any:
    return topology.version, topology.seats, topology.ring, topology.moves


# ── changes of the ring in group 0 ───────────────────────────────────────────────────────────────────────────────────


class RingInvariants:
    """The facts that a coordinator of the topology has to know before it goes on."""

    def __init__(
        self, nodes: Sequence[Node], version_of: Callable[[Node], int], flights: Callable[[Node], Mapping[int, int]],
        breaches: Breaches, *, under_way: Callable[[Node], Iterable[int]] = lambda _node: (),
    ) -> None:  # fmt: skip
        """`version_of` is the version of the topology on a node's disk, `flights` its requests under way by version, as it counts them.

        `under_way` are the versions by which it has asked replicas for whose answers it waits.
        """
        self._nodes = nodes
        self._under_way = under_way
        self._version_of = version_of
        self._flights = flights
        self._report = breaches.report
        self._last_orders: dict[tuple[str, str], tuple[Any, int]] = {}
        """By node and group its disk, and the number of the last order that was carried out on it."""
        self._orders: dict[str, dict[int, None]] = {}
        """By group the numbers of the entries that were orders about the topology, and were carried out."""

    def ordered(
        self, node: Node, group: str, number: int, before: Topology, after: Topology, step: tuple[str, int] | None
    ) -> None:
        """Take note of an order that a node has carried out; `step` are the node that changes and the steps that it is to have behind it, if the next one is ordered."""
        self._orders.setdefault(group, {})[number] = None
        place = node.name, group
        disk, last = self._last_orders.get(place, (node.disk, 0))
        if disk is node.disk and number <= last:
            text = f"{node.name} carries entry {number} out, and its topology has entry {last}"
            self._report(node, "an order about the ring is carried out once", text)
        self._last_orders[place] = node.disk, max(number, last if disk is node.disk else 0)
        if step is not None and after.version != before.version:
            move = before.move_of(step[0])
            if move is None or move.done != step[1]:
                text = f"{node.name} carries entry {number} out, and {step[0]} has not {step[1]} steps behind it"
                self._report(node, "a step is taken once", text)
        if after.version <= before.version and after != before:
            text = f"{node.name} carries entry {number} out, and goes from version {before.version} to {after.version}"
            self._report(node, "a state of the ring has a later version", text)
        leap = _leap(before, after, first=2, is_cancelled=step is None)
        if leap is not None:
            text = f"{node.name} carries entry {number} out: {leap}"
            self._report(node, "a change of the ring takes one step after the other", text)
        if len(after.moves) > 1:
            text = f"{' and '.join(move.node for move in after.moves)} are changing after entry {number} on {node.name}"
            self._report(node, "one change of the ring at a time", text)
        given_up = [move.node for move in before.moves if move.done > 2 and after.move_of(move.node) is None]
        if step is None and given_up:
            text = f"{node.name} carries entry {number} out, and {given_up[0]} is read from by then"
            self._report(node, "what is read from is not rolled back", text)

    def taken_over(self, node: Node, group: str, index: int, at: int) -> None:
        """Take note of a node that has taken a snapshot over as of an entry; `at` is the last one that its topology has."""
        latest = max((number for number in self._orders.get(group, ()) if number <= index), default=0)
        if at < latest:
            text = f"{node.name} is at entry {index} by a snapshot, and its topology at {at}: {latest} is in it, too"
            self._report(node, "a snapshot has the topology", text)

    def goes_on(
        self, node: Node, topology: Topology, move: Moving, fence: int, is_in_group: Callable[[str], bool]
    ) -> None:
        """Take note of a coordinator that takes it that all members have its topology, and no request of an earlier one.

        All but a node that is dead; `is_in_group` says of a node whether the group has it, which may have been recovered without it. Before
        former replicas are given up, requests of earlier versions are refused, too, however late they come: by the fence.
        """
        version = topology.version
        if move.done > 2 and fence < version:
            text = f"{node.name} is about to end the change of {move.node} at {version}, and the fence is {fence}"
            self._report(node, "late requests are refused before a change ends", text)
        for each in self._nodes:
            if each.name not in topology.members or each.name == move.dead or not is_in_group(each.name):
                continue
            if self._version_of(each) < version:
                self._report(node, "all members know a state before the next one", f"{each.name} is behind {version}")
            elif each.server is not None and (
                any(count for earlier, count in self._flights(each).items() if earlier < version)
                or any(earlier < version for earlier in self._under_way(each))
            ):
                self._report(node, "earlier requests have ended", f"{each.name} has some from before {version}")
