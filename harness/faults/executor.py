"""Executor: the injection of single faults, and the healing of all of them in any case.

A fault goes through the ledger (`planned`, synced, before anything is touched), is injected, noted in the history with
the effect that was read back, and healed in time or at the end. Notes: `fault-begins`, `fault-ends`, `fault-failed`
(injecting or healing raised: the run may be unknown) and `fault-skipped`, each with
`{"id", "nemesis", "nodes", "parameters"}` and `effect`, `error` (with `stage`) or `reason`.

On a cluster whose nodes outlive the run (`schemaquake.harness.model.protocols.Guarded`) every fault is armed between ledger and injection
and disarmed after its healing was read back. Stages of a failure there are also `arm` (nothing was injected), `hold` (a
guard undid the fault before it was healed; its healing's effect has `expired`) and `disarm`.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias

from schemaquake.harness.errors import (
    ClusterError,
    FaultNotAllowed,
    HealError,
    JournalError,
    NodeDied,
    StartTimeout,
)
from schemaquake.harness.faults.ledger import Ledger
from schemaquake.harness.faults.membership import Roster
from schemaquake.harness.faults.owners_limits import nodes_down
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.protocols import (
    Cluster,
    Fault,
    Fencing,
    Guarded,
    Nemesis,
    Node,
    OwnersLimits,
    TopologyNemesis,
    Undoable,
)
from schemaquake.harness.model.traits import nemesis_traits
from schemaquake.harness.registry import load
from schemaquake.harness.wait import is_simulated, pause_for

__all__ = [
    "FaultExecutor",
    "FaultFailed",
    "FaultSkipped",
    "Note",
    "nothing_is_left",
    "refuse_unguardable",
]

log = logging.getLogger(__name__)

Note: TypeAlias = Callable[[str, JSON], None]
"""A function that writes one event of the nemesis' process: `f` and `value`. Called by one thread at a time."""

_PROCESS: Final = "process"
_LOOKS_AGAIN_S: Final = 0.05

_Stage: TypeAlias = Literal["arm", "inject", "hold", "heal", "disarm"]


class FaultSkipped(ClusterError):
    """A fault was not injected, because of another fault or because its node is already down; noted in the ledger."""


class FaultFailed(ClusterError):
    """A fault could not be injected; it was noted and undone at once. Its cause is the nemesis' error."""


@dataclass(slots=True)
class _Open:
    nemesis: Nemesis
    fault: Fault
    entry: int
    begun: bool = False
    expired_noted: bool = False
    healing: threading.RLock = field(default_factory=threading.RLock)
    """Held by the thread that heals it: the end of the main phase may come while an aimed fault ends by itself."""


class FaultExecutor:
    """The injection and healing of single faults of one run; safe to call from several threads."""

    def __init__(self, cluster: Cluster, ledger: Ledger, *, note: Note, roster: Roster | None = None) -> None:
        """`roster` says which nodes are members; None: all of them, for ever."""
        self._cluster = cluster
        self._roster = roster
        self._ledger = ledger
        self._note = note
        self._guarded = cluster if isinstance(cluster, Guarded) else None
        self._fencing = cluster if isinstance(cluster, Fencing) else None
        # Names of rules on hosts that outlive the run: those of a second run, or left by an earlier one, are others.
        self._tag = {} if self._guarded is None else {"tag": secrets.token_hex(2)}
        self._lock = threading.RLock()
        self._open: dict[int, _Open] = {}
        self._failures: list[str] = []
        self._halted: str | None = None

    def halt(self, reason: str) -> None:
        """Inject nothing from now on: the owner's condition says stop. Idempotent; what is in place stays to be healed."""
        with self._lock:
            if self._halted is not None:
                return
            self._halted = reason
            self._failures.append(f"stop_if {reason}: every fault was undone")
            with suppress(JournalError, OSError):  # healing does not wait for room on the disk
                self._note("faults-halted", {"condition": reason})

    @property
    def halted(self) -> str | None:
        """The owner's condition that ended injection; None: none did."""
        return self._halted

    @property
    def failures(self) -> Sequence[str]:
        """The failures of faults so far, a sentence each: reasons why the run may be unknown."""
        with self._lock:
            return tuple(self._failures)

    def inject(self, nemesis: Nemesis, fault: Fault) -> JSON:
        """Inject one fault now and return its effect as read back.

        Raises FaultNotAllowed (nothing is noted) as `refuse_unguardable` does; FaultSkipped if it would collide with
        another fault or with the state of its nodes; FaultFailed if the nemesis raised: that is noted and remembered,
        and the fault is healed at once (HealError if that fails too), or if it could not be armed and so was not injected.
        """
        refuse_unguardable(self._cluster, nemesis, [fault])
        fault = replace(fault, parameters={**fault.parameters, **self._tag})
        with self._lock:
            if fault.id in self._open:
                raise ValueError(f"fault {fault.id} is already in place: {self._open[fault.id].fault}")
            reason = self._obstacle(nemesis, fault) if self._halted is None else f"stop_if {self._halted}"
            entry = self._ledger.plan(fault)
            if reason is not None:
                self._skip(entry, fault, reason)
            opened = self._open[fault.id] = _Open(nemesis, fault, entry)
        self._arm(opened)
        try:
            effect = nemesis.inject(self._fenced(fault), fault)
            self._refuse_expired(fault)
        except BaseException as error:
            self._fail(opened, "inject", error)
            self.heal(fault.id)
            if isinstance(error, Exception):
                raise FaultFailed(f"{_called(fault)} could not be injected: {error}") from error
            raise
        with self._lock:
            opened.begun = True
            self._ledger.injected(entry, effect)
            self._note_fault("fault-begins", fault, effect=effect)
        return effect

    def heal(self, fault_id: int) -> JSON:
        """Undo one fault and return the state read back; a fault that is not in place is left alone (null).

        Raises HealError: the fault then stays open, here and in the ledger, unless what failed is the node and not the
        healing (the HealError's cause is a NodeDied or a StartTimeout): a server that was started and does not serve is
        a finding, and nothing is left that a second attempt would undo.
        """
        with self._lock:
            opened = self._open.get(fault_id)
        if opened is None:
            return None
        while not opened.healing.acquire(blocking=not is_simulated()):
            pause_for(_LOOKS_AGAIN_S)  # whoever heals it there goes on only while others wait by the simulation's clock
        try:
            return self._heal(opened)
        finally:
            opened.healing.release()

    def _heal(self, opened: _Open) -> JSON:
        """Undo one fault, unless another thread has done so meanwhile; see `heal`."""
        with self._lock:
            if self._open.get(opened.fault.id) is not opened:
                return None
            self._ledger.healing(opened.entry)
        try:
            if self._fencing is not None:
                self._fencing.refuse_if_taken(opened.fault)
            expired = self._expired_before(opened)
            effect = self._undo(opened)
            if expired is None:
                expired = self._expired(opened)
        except BaseException as error:
            self._fail(opened, "heal", error)
            if nothing_is_left(error):
                self._close(opened, {"error": str(error)}, whole=False)
            if isinstance(error, Exception) and not isinstance(error, HealError):
                raise HealError(f"{_called(opened.fault)} could not be undone: {error}") from error
            raise
        if expired:
            effect = {**(effect if isinstance(effect, dict) else {"healed": effect}), "expired": dict(expired)}
        self._close(opened, effect)
        return effect

    @contextmanager
    def hold(self, nemesis: Nemesis, fault: Fault) -> Iterator[JSON]:
        """Keep one fault in place for the length of a `with` block; yields its effect."""
        effect = self.inject(nemesis, fault)
        try:
            yield effect
        finally:
            self.heal(fault.id)

    def heal_all(self) -> None:
        """Undo every fault still in place, the latest first.

        All are tried; raises an ExceptionGroup of the errors of those that are still in place afterwards, and of what
        kept ledger and history from being written.
        """
        errors: list[Exception] = []
        with self._lock:
            latest_first = list(reversed(self._open))
        for fault_id in latest_first:
            try:
                self.heal(fault_id)
            except Exception as error:  # noqa: BLE001 - the others must be healed too; raised together below
                if fault_id in self._open or not isinstance(error, HealError):
                    errors.append(error)
        if errors:
            raise ExceptionGroup("some faults could not be undone", errors)

    @contextmanager
    def guarded_restart(self, fault: Fault) -> Iterator[Cluster]:
        """Guard nodes that outlive the run while the harness itself takes servers down and starts them again.

        Yields the cluster on which servers are to be taken down. `fault` is the same as a nemesis would make of it, for the ledger, the guards and later healing. A block that
        raises leaves all of them in place. Raises ClusterError if the guards cannot stand; on other clusters nothing
        happens.
        """
        if self._guarded is None:
            yield self._cluster
            return
        nemesis = load("nemeses", fault.nemesis)
        entry = self._ledger.plan(fault)
        opened = self._open[fault.id] = _Open(nemesis, fault, entry)
        self._arm(opened)
        yield self._fenced(fault)
        # A server that did not come back is a finding of the restart, and no guard brings it back either.
        self._disarm(opened, whole=False)
        self._ledger.healed(entry)
        del self._open[fault.id]

    def skip(self, fault: Fault, reason: str) -> None:
        """Record in ledger and history that this fault will not be injected. Raises FaultSkipped with the reason."""
        with self._lock:
            self._skip(self._ledger.plan(fault), fault, reason)

    def _skip(self, entry: int, fault: Fault, reason: str) -> None:
        self._ledger.skipped(entry, reason)
        self._note_fault("fault-skipped", fault, reason=reason)
        log.info("fault skipped", extra={"fault": fault.id, "nemesis": fault.nemesis, "reason": reason})
        raise FaultSkipped(f"{_called(fault)} was skipped: {reason}")

    def _undo(self, opened: _Open) -> JSON:
        """Have the nemesis undo the fault, but start no server of a node that has left since; such a one is woken only."""
        fault = opened.fault
        gone = self._gone_of(opened)
        if not gone:
            try:
                return opened.nemesis.heal(self._cluster, fault)
            except HealError:
                # An operation that a node was started in the middle of may have been ended meanwhile, and the node have left.
                if self._roster is not None:
                    self._roster.refresh()
                if not (gone := self._gone_of(opened)):
                    raise
        for node in self._cluster.nodes:
            if node.name in gone:
                node.resume()
        left = tuple(name for name in fault.nodes if name not in gone)
        effect = opened.nemesis.heal(self._cluster, replace(fault, nodes=left)) if left else None
        return {**(effect if isinstance(effect, dict) else {"healed": effect}), "gone": gone}

    def _gone_of(self, opened: _Open) -> Sequence[str]:
        """List the nodes of a fault of processes that are no members any more."""
        is_of_processes = _disturbs(opened.nemesis) == _PROCESS
        return [name for name in opened.fault.nodes if is_of_processes and self._is_gone(name)]

    def _is_gone(self, name: str) -> bool:
        return self._roster is not None and self._roster.is_gone(name)

    def _arm(self, opened: _Open) -> None:
        """Set the guards of a fault that is about to be injected. Raises FaultFailed: then it is not."""
        if self._guarded is None:
            return
        assert isinstance(opened.nemesis, Undoable)
        try:
            self._guarded.arm(opened.fault, opened.nemesis.undo(self._cluster, opened.fault))
        except BaseException as error:
            self._fail(opened, "arm", error)
            # Guards that are set already have nothing to undo, but must not start or resume a server either.
            self._disarm(opened, whole=False)
            with self._lock:
                self._ledger.skipped(opened.entry, f"it could not be armed: {error}")
                del self._open[opened.fault.id]
            if isinstance(error, Exception):
                raise FaultFailed(
                    f"{_called(opened.fault)} was not injected: it could not be armed: {error}"
                ) from error
            raise

    def _fenced(self, fault: Fault) -> Cluster:
        """Return the cluster as the fault may act on it: only while it is guarded, where nodes can refuse."""
        return self._cluster if self._fencing is None else self._fencing.fenced(fault)

    def _disarm(self, opened: _Open, *, whole: bool = True) -> None:
        """End the guards of a fault; `whole`: only if the nodes find that nothing of it is left.

        Raises HealError: it then stays open, here and in the ledger.
        """
        if self._guarded is None:
            return
        try:
            if whole or self._fencing is None:
                self._guarded.disarm(opened.fault)
            else:
                self._fencing.abandon(opened.fault)
        except BaseException as error:
            self._fail(opened, "disarm", error)
            if isinstance(error, Exception):
                raise HealError(f"{_called(opened.fault)} could not be disarmed: {error}") from error
            raise

    def _expired(self, opened: _Open) -> Mapping[str, JSON]:
        """Return the actions of guards before this fault was healed, and record that it ended earlier than planned."""
        expired = self._guarded.expired(opened.fault) if self._guarded is not None else {}
        if expired and opened.begun and not opened.expired_noted:
            opened.expired_noted = True
            self._fail(opened, "hold", ClusterError(_undone_by_guards(expired)))
        return expired

    def _expired_before(self, opened: _Open) -> Mapping[str, JSON] | None:
        """Return the actions of guards, or None if a node does not answer, so that the other nodes are still healed."""
        try:
            return self._expired(opened)
        except (ClusterError, OSError) as error:
            log.warning("a guard could not be asked", extra={"fault": opened.fault.id, "error": str(error)})
            return None

    def _refuse_expired(self, fault: Fault) -> None:
        """Raise ClusterError if a guard acted during the injection: the rest of the injection would remain."""
        if self._guarded is not None and (expired := self._guarded.expired(fault)):
            raise ClusterError(f"{_undone_by_guards(expired)}, while it was still being injected")

    def _close(self, opened: _Open, effect: JSON, *, whole: bool = True) -> None:
        self._disarm(opened, whole=whole)
        with self._lock:
            self._ledger.healed(opened.entry, effect)
            del self._open[opened.fault.id]
            if opened.begun:
                self._note_fault("fault-ends", opened.fault, effect=effect)

    def _fail(self, opened: _Open, stage: _Stage, error: BaseException) -> None:
        text = f"{type(error).__name__}: {error}"
        fault = opened.fault
        with self._lock:
            self._failures.append(f"{_called(fault)} on {', '.join(fault.nodes)}: {stage}: {text}")
            self._ledger.failed(opened.entry, text)
            # What is still to be undone does not wait for room on the disk; the run ends at its next note.
            with suppress(JournalError, OSError):
                self._note_fault("fault-failed", fault, stage=stage, error=text)
        log.warning("fault failed", extra={"fault": fault.id, "nemesis": fault.nemesis, "stage": stage, "error": text})

    def _note_fault(self, f: str, fault: Fault, **more: JSON) -> None:
        value = {
            "id": fault.id,
            "nemesis": fault.nemesis,
            "nodes": list(fault.nodes),
            "parameters": dict(fault.parameters),
        }
        self._note(f, value | more)

    def _obstacle(self, nemesis: Nemesis, fault: Fault) -> str | None:
        """Return why this fault should not be injected now, or None.

        Two faults that disturb the same thing on the same node would each undo half of the other's work. And faults
        that each spare a majority must not take one down together, so that what a run does to its cluster is what was
        asked of it.
        """
        if reason := self._aims_at_the_gone(nemesis, fault):
            return reason
        if (limit := self._over_limit(nemesis, fault)) is not None:
            return limit
        disturbed = _disturbs(nemesis)
        rivals = [opened.fault for opened in self._open.values() if _disturbs(opened.nemesis) == disturbed]
        for rival in rivals:
            if shared := sorted(set(rival.nodes) & set(fault.nodes)):
                return f"{', '.join(shared)} is still under {_called(rival)}"
        if disturbed != _PROCESS:
            return None
        together = {name for rival in rivals for name in rival.nodes} | set(fault.nodes)
        members = [node for node in self._cluster.nodes if not self._is_gone(node.name)]
        if rivals and len(together) > len(members) // 2:
            return f"with fault {rivals[0].id} it would take down {', '.join(sorted(together))}, a majority, at once"
        for node in self._cluster.nodes:
            if node.name in fault.nodes and (reason := _not_running(node)) is not None:
                return reason
        return None

    def _aims_at_the_gone(self, nemesis: Nemesis, fault: Fault) -> str | None:
        """Return why nothing can be injected into nodes that have left, or None.

        A fault of processes must not touch a server that is to stay down; one of the network or of clocks does no harm
        there, and is wanted for the sake of the others.
        """
        gone = [name for name in fault.nodes if self._is_gone(name)]
        if not gone or (_disturbs(nemesis) != _PROCESS and len(gone) < len(fault.nodes)):
            return None
        return f"{', '.join(gone)} is no member of the cluster"

    def _over_limit(self, nemesis: Nemesis, fault: Fault) -> str | None:
        """Return why the owner's limit of nodes that are down at once keeps this fault from being injected now, or None."""
        limit = self._cluster.max_nodes_down if isinstance(self._cluster, OwnersLimits) else None
        own = nodes_down(nemesis, fault)
        if limit is None or not own:
            return None
        down = own.union(*(nodes_down(opened.nemesis, opened.fault) for opened in self._open.values()))
        if len(down) <= limit:
            return None
        return f"{', '.join(sorted(down))} would be down at once, and max_nodes_down is {limit}"


def refuse_unguardable(cluster: Cluster, nemesis: Nemesis | TopologyNemesis, faults: Sequence[Fault]) -> None:
    """Raise FaultNotAllowed on a cluster whose nodes outlive the run, unless guards can undo all faults.

    A nemesis that does not say how each node undoes its faults has none there, nor has a fault that would still be
    wanted when its guards undo it. An operation on the topology needs no guard: nothing of it is ever undone.
    """
    if not isinstance(cluster, Guarded) or isinstance(nemesis, TopologyNemesis):
        return
    if not isinstance(nemesis, Undoable):
        raise FaultNotAllowed(
            f'nemesis "{nemesis.name}" cannot be used on this cluster: it has no `undo`, so its nodes could not undo its '
            "faults by themselves if the harness were gone"
        )
    for fault in faults:
        length_s = fault.ends_s - fault.begins_s
        if length_s > cluster.max_fault_s:
            raise FaultNotAllowed(
                f"{_called(fault)} would last {length_s:g} s, but no fault may last longer than {cluster.max_fault_s:g} s on "
                "this cluster (max_fault_seconds)"
            )


def _undone_by_guards(expired: Mapping[str, JSON]) -> str:
    return "; ".join(f"its guard on {name} undid it after {done['after_s']:g} s" for name, done in expired.items())


def _not_running(node: Node) -> str | None:
    try:
        state = node.state()
    except (ClusterError, OSError) as error:
        return f"the state of {node.name} could not be read: {error}"
    return f"{node.name} is not running, and no fault that goes on stopped it" if state == "stopped" else None


def _called(fault: Fault) -> str:
    return f"{fault.nemesis} (fault {fault.id})"


def nothing_is_left(error: BaseException) -> bool:
    """Return True if healing failed because a restarted server does not serve."""
    return isinstance(error, NodeDied | StartTimeout) or isinstance(error.__cause__, NodeDied | StartTimeout)


def _disturbs(nemesis: Nemesis) -> str:
    """Name the part of a node that the nemesis takes hold of (`process`, `packets`, `clock`, or its own name)."""
    return nemesis_traits(nemesis).disturbs or nemesis.name
