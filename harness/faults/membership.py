"""Membership under faults: who belongs to the cluster by now, and the operations that change it.

`Roster` knows the states of all nodes: as planned, as the operations of this run were acknowledged, and as the cluster
shows them. `TopologyOperations` carries out what topology nemeses planned: an entry in the ledger, a pair of events of
process −1 in the history (`invoke`, then `ok`, `fail` or `info`, both with the entry's `operation` number), and the
roster read again. Nothing of this is ever healed.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Literal, Protocol

from schemaquake.harness.errors import ClusterError
from schemaquake.harness.faults.aiming import Strike, watched
from schemaquake.harness.faults.ledger import Ledger
from schemaquake.harness.model.membership import (
    GONE,
    Member,
    MemberState,
    TopologyChange,
    expected_states,
    serving,
)
from schemaquake.harness.model.operation import JSON, Completion
from schemaquake.harness.model.protocols import Cluster, Fault, MemberListing, TopologyNemesis
from schemaquake.harness.model.topology import AsksAsClient, Requests

__all__ = ["OperationNote", "Roster", "TopologyOperations", "members_of"]

log = logging.getLogger(__name__)


class OperationNote(Protocol):
    """Writes one end of an operation of process −1 into the history."""

    def __call__(
        self,
        type: Literal["invoke", "ok", "fail", "info"],  # noqa: A002 - the column's name
        f: str,
        value: JSON,
        *,
        node: str | None,
        error: str | None = None,
    ) -> None:
        """Record the event now."""
        ...


def members_of(cluster: Cluster) -> Mapping[str, Member]:
    """Read the members; of a cluster that cannot list them every node is a normal one. Raises ClusterError."""
    if isinstance(cluster, MemberListing):
        return cluster.members()
    return {node.name: Member(node=node.name, address=node.address, state="normal") for node in cluster.nodes}


class Roster:
    """The states of a cluster's nodes, for everyone in the harness who asks, starts or spares them. Safe in threads."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._lock = threading.RLock()
        self._shown = members_of(cluster)
        self._initial: Mapping[str, MemberState] = {name: member.state for name, member in self._shown.items()}
        self._changes: dict[int, TopologyChange] = {}

    def refresh(self) -> Mapping[str, Member]:
        """Read the members anew; where the cluster cannot be asked, what it showed last stands."""
        try:
            shown = members_of(self._cluster)
        except (ClusterError, OSError) as error:
            log.warning("the members could not be read", extra={"error": str(error)})
            shown = self._shown
        with self._lock:
            self._shown = shown
        return shown

    def note(self, number: int, change: TopologyChange) -> None:
        """Take note of where an operation stands."""
        with self._lock:
            self._changes[number] = change

    @property
    def states(self) -> Mapping[str, MemberState]:
        """The state that each node should have now."""
        with self._lock:
            shown: dict[str, MemberState] = {name: member.state for name, member in self._shown.items()}
            return expected_states(self._initial, self._changes.values(), shown)

    @property
    def serving(self) -> tuple[str, ...]:
        """The nodes that should serve now, in the order of the cluster's nodes."""
        return serving(self.states)

    @property
    def spares(self) -> tuple[str, ...]:
        """The nodes that were prepared, and were no members when the run began."""
        return tuple(name for name, member in self._shown.items() if member.spare)

    def is_gone(self, node: str) -> bool:
        """Return whether the node is no member: nothing may start it."""
        return self.states.get(node, "normal") in GONE

    def to_json(self) -> dict[str, JSON]:
        """Return the value of a `membership` note: by node what the cluster shows, and the state that is `expected`."""
        states = self.states
        with self._lock:
            return {name: {**member.to_json(), "expected": states[name]} for name, member in self._shown.items()}


@contextmanager
def _held(turn: threading.Lock) -> Iterator[None]:
    """Give the turn back at the end."""
    try:
        yield
    finally:
        turn.release()


def _unnoticed() -> None:
    """Do nothing after a change."""


@dataclass(frozen=True, slots=True)
class TopologyOperations:
    """Carries out operations on the topology, one call an operation; safe to call from several threads."""

    cluster: Cluster
    roster: Roster
    ledger: Ledger
    note: OperationNote
    changed: Callable[[], None] = _unnoticed
    """Called after each operation, when the roster was read again."""
    requests: Requests | None = None
    """The requests of clients that operations may make; None: nothing can record them."""
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def take_turn(self, operation: Fault) -> AbstractContextManager[None] | None:
        """Return what is held while the operation goes on, or None while another one has the turn.

        Operations have their turn one at a time, but for those whose parameter `overlaps` is true. Nobody is made to wait here: in a
        simulation the one that has the turn goes on only when the other has paused.
        """
        if operation.parameters.get("overlaps") is True:
            return nullcontext()
        return _held(self._turn) if self._turn.acquire(blocking=False) else None

    def obstacle(self, nemesis: TopologyNemesis, operation: Fault) -> str | None:
        """Return why this operation should not begin now, or None: a node cannot leave twice, nor do anything once it has left."""
        states = self.roster.states
        gone = [
            name
            for name, state in nemesis.becomes(operation).items()
            if (now := states.get(name, "normal")) in GONE and (now != "absent" or state in GONE)
        ]
        return f"{', '.join(gone)} is no member of the cluster" if gone else None

    def carry_out(self, nemesis: TopologyNemesis, operation: Fault, *, strike: Strike | None = None) -> Completion:
        """Begin the operation, wait for its outcome, and record both. What the nemesis raises is an unknown outcome.

        `strike` injects the fault that is aimed at one of its steps.
        """
        becomes = dict(nemesis.becomes(operation))
        number = self.ledger.plan_operation(operation)
        node = operation.nodes[0] if operation.nodes else None
        value = {
            "operation": number,
            "nodes": list(operation.nodes),
            "parameters": dict(operation.parameters),
            "becomes": becomes,
        }
        self.ledger.begun(number)
        self.roster.note(number, TopologyChange(becomes=becomes, outcome=None))
        self.note("invoke", nemesis.name, value, node=node)
        log.info("operation begins", extra={"operation": nemesis.name, "nodes": ",".join(operation.nodes)})
        interrupted: BaseException | None = None
        try:
            with watched(self.cluster, operation, number, note=self._note_step, strike=strike):
                completion = self._operate(nemesis, operation)
        except BaseException as error:  # noqa: BLE001 - its outcome is recorded, and what is no Exception is raised below
            completion = Completion(type="info", error=f"{type(error).__name__}: {error}")
            interrupted = None if isinstance(error, Exception) else error
        effect = completion.value if completion.error is None else {"error": completion.error}
        self.roster.note(number, TopologyChange(becomes=becomes, outcome=completion.type))
        self.ledger.concluded(number, completion.type, effect)
        ended = {**value, "effect": completion.value}
        self.note(completion.type, nemesis.name, ended, node=node, error=completion.error)
        log.info("operation ends", extra={"operation": nemesis.name, "outcome": completion.type})
        if interrupted is not None:
            raise interrupted
        self.roster.refresh()
        self.changed()
        return completion

    def _operate(self, nemesis: TopologyNemesis, operation: Fault) -> Completion:
        if self.requests is not None and isinstance(nemesis, AsksAsClient):
            return nemesis.operate_as_client(self.cluster, operation, self.requests)
        return nemesis.operate(self.cluster, operation)

    def _note_step(self, f: str, value: JSON) -> None:
        self.note("info", f, value, node=None)

    def skip(self, operation: Fault, reason: str) -> None:
        """Record in ledger and history that this operation will not begin."""
        self.ledger.skipped(self.ledger.plan_operation(operation), reason)
        node = operation.nodes[0] if operation.nodes else None
        value = {"nemesis": operation.nemesis, "nodes": list(operation.nodes), "reason": reason}
        self.note("info", "operation-skipped", value, node=node)
        log.info("operation skipped", extra={"operation": operation.nemesis, "reason": reason})
