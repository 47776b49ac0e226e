"""Paxos log: each epoch of the metadata log is decided by its members, by Paxos with its state on their disks (`-O log=paxos`).

Lamport, Paxos Made Simple (2001), one instance an epoch; `tcm/log/` of 6.0 appends by a conditional write, which is Paxos, too. The
members that decide an epoch are those of the epoch before. A ballot is a moment and the name of its proposer.

On a proposer:

- p1 asks the members to promise a ballot; one that knows the epoch's entry says so, and one that has accepted a proposal tells which
- p2 proposes the accepted entry of the highest ballot, or else its own
- p3 a majority has accepted: all are told that it is decided

On a member, each before it is written to disk and answered:

- a1 a promise to accept no ballot below
- a2 an accepted proposal

A read of the log asks for promises, and completes what it finds accepted: an entry whose proposer died, or was not answered, comes about
then or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from schemaquake.clusters.simulated.faces import Answers, Node, Steps
from schemaquake.clusters.simulated.messages import Failure, Message
from schemaquake.clusters.simulated.models.invariants import LogInvariants
from schemaquake.clusters.simulated.models.serving import server_of
from schemaquake.clusters.simulated.models.steps import numbered
from schemaquake.clusters.simulated.processes import Sleep, Sync
from schemaquake.harness.units import MS, S

__all__ = ["PaxosLog", "Slot"]

_LIMIT_NS: Final = 2 * S
_BALLOTS_MOST: Final = 10

P1, P2, P3 = numbered("6.0/paxos", "p1", "p2", "p3")
A1, A2 = numbered("6.0/paxos", "a1", "a2")

Ballot: TypeAlias = tuple[int, str]
_LOWEST: Final[Ballot] = (-1, "")


class Numbered(Protocol):
    """An entry of the log."""

    @property
    def epoch(self) -> int:
        """Its number."""
        ...

    @property
    def id(self) -> tuple[str, int]:
        """Its own id, whatever its number."""
        ...


@dataclass(slots=True)
class Slot:
    """One epoch on one member's disk."""

    promised: Ballot = _LOWEST
    accepted: tuple[Ballot, Numbered] | None = None
    decided: Numbered | None = None


class _Promise(NamedTuple):
    accepted: tuple[Ballot, Numbered] | None
    decided: Numbered | None


class PaxosLog:
    """The log as its members decide it."""

    steps: Final = tuple(step.name for step in (P1, P2, P3, A1, A2))
    kinds: Final = frozenset({"prepare", "accept", "decide"})

    def __init__(self, slots: Callable[[Node], dict[int, Slot]], flaws: frozenset[str]) -> None:
        """`slots` are the epochs on a node's disk."""
        self._slots = slots
        self._flaws = flaws
        self.invariants: LogInvariants | None = None
        """The observer of the log; None: nobody looks."""

    # ── proposers ────────────────────────────────────────────────────────────────────────────────────────────────────

    def append(self, node: Node, members: Sequence[str], entry: Numbered) -> Steps:
        """Append an entry if its epoch is the next one; False: the epoch is taken, None: not known, too few answered."""
        is_known, decided = yield from self._decide(node, members, entry.epoch, entry)
        if not is_known:
            return None
        return decided is not None and decided.id == entry.id

    def read(self, node: Node, members: Sequence[str], epoch: int) -> Steps:
        """Return the entries after an epoch that these members have decided, as far as they can be asked, and whether those are all."""
        found: list[Any] = []
        while True:
            is_known, decided = yield from self._decide(node, members, epoch + len(found) + 1, None)
            if decided is None:
                return found, is_known
            found.append(decided)

    def _decide(self, node: Node, members: Sequence[str], epoch: int, candidate: Numbered | None) -> Steps:  # noqa: C901 - the steps p1 to p3, in their order
        """Have an epoch decided; returns whether enough answered, and its entry: None if there is none, not even a candidate."""
        server = server_of(node)
        need = len(members) // 2 + 1
        for _ in range(_BALLOTS_MOST):
            yield P1
            ballot = node.kernel.heap.now_ns, node.name
            promises: Answers = yield server.ask(members, "prepare", (epoch, ballot), need=need, limit_ns=_LIMIT_NS)
            if promises.enough:
                promised = dict(promises.answers)  # later ones have no part in what is proposed
                known: list[_Promise] = list(promised.values())
                decided = next((each.decided for each in known if each.decided is not None), None)
                if decided is not None:
                    return True, decided
                accepted = [each.accepted for each in known if each.accepted is not None]
                entry = max(accepted)[1] if accepted else candidate
                if candidate is not None and "own-value" in self._flaws:
                    entry = candidate
                if entry is None:
                    return True, None
                yield P2
                if self.invariants is not None:
                    self.invariants.proposes(node, epoch, ballot, promised, entry.id, members)
                taken: Answers = yield server.ask(
                    members, "accept", (epoch, ballot, entry), need=need, limit_ns=_LIMIT_NS
                )
                if taken.enough:
                    yield P3
                    if self.invariants is not None:
                        self.invariants.reached(node, members, taken.answers)
                        self.invariants.decided(node, epoch, entry.id)
                    self._tell(node, members, entry)
                    return True, entry
                if entry is candidate and taken.answers and "repeated-commit" in self._flaws:
                    return True, None  # the server calls it a timeout, and its caller an epoch that is taken
                promises = taken
            if not promises.failures:
                return False, None
            yield Sleep(node.kernel.cost_ns(1 * MS, 200 * MS))  # another proposer's ballot is higher
        return False, None

    def _tell(self, node: Node, members: Sequence[str], entry: Numbered) -> None:
        for name in members:
            if name == node.name:
                self._learn(node, entry)
            else:
                server_of(node).send(name, "decide", entry)

    # ── members ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def receive(self, node: Node, message: Message) -> Steps | None:
        """Promise, accept or learn."""
        match message.kind:
            case "prepare":
                return self._promise(node, message)
            case "accept":
                return self._accept(node, message)
        self._learn(node, message.body)
        return None

    def _promise(self, node: Node, message: Message) -> Steps:
        epoch, ballot = message.body
        yield A1
        yield Sync()
        slot = self._slot(node, epoch)
        if ballot <= slot.promised:
            server_of(node).answer(message, Failure("a higher ballot was promised"))
            return
        slot.promised = ballot
        if self.invariants is not None:
            self.invariants.promised(node, epoch, ballot, slot.accepted)
        server_of(node).answer(message, _Promise(slot.accepted, slot.decided))

    def _accept(self, node: Node, message: Message) -> Steps:
        epoch, ballot, entry = message.body
        yield A2
        yield Sync()
        slot = self._slot(node, epoch)
        if ballot < slot.promised and "old-ballot" not in self._flaws:
            server_of(node).answer(message, Failure("a higher ballot was promised"))
            return
        slot.promised = max(slot.promised, ballot)
        if self.invariants is not None:
            self.invariants.promised(node, epoch, ballot)
        slot.accepted = ballot, entry
        if self.invariants is not None:
            self.invariants.accepted(node, epoch, ballot, slot.accepted[0])
        server_of(node).answer(message, True)

    def _learn(self, node: Node, entry: Numbered) -> None:
        slot = self._slot(node, entry.epoch)
        if slot.decided is None:
            slot.decided = entry

    def _slot(self, node: Node, epoch: int) -> Slot:
        return self._slots(node).setdefault(epoch, Slot())
