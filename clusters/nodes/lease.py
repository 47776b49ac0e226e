"""Leases: one run a host. The file on the host says which run may disturb it, whose run that is, and until when.

Two runs on one host would anchor on each other's skewed clocks and start each other's servers. A run takes the leases of all
its hosts before it touches anything, renews them while it lives, and gives them back; a healing takes them, too. A lease
outlasts every guard that was armed under it, so one that has expired is taken over when its guards have undone everything.
"""

from __future__ import annotations

import getpass
import logging
import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from threading import Event, Lock, Thread
from typing import Final
from weakref import ref

from schemaquake.clusters.nodes.every_node import on_every
from schemaquake.clusters.nodes.scripts import read_script
from schemaquake.clusters.nodes.transport import Transport
from schemaquake.harness.errors import ClusterError
from schemaquake.harness.model.protocols import Executed

__all__ = ["PLACE", "Holder", "Lease", "LeaseHeld", "Leases", "owner_here"]

log = logging.getLogger(__name__)

PLACE: Final = "/run/schemaquake.lease"
"""The file of the lease, the same whatever folder the runs keep their state in."""

_SCRIPT: Final = "lease.sh"
_HELD: Final = 77
_STANDS: Final = 78
_ANSWERS_WITHIN_S: Final = 180.0
_OUTLASTS_GUARDS_S: Final = 60.0
_RENEWALS: Final = 3
"""The renewals in the length of a lease: one or two may fail."""


@dataclass(frozen=True, slots=True)
class Holder:
    """The run that holds a lease, its owner, and the seconds until it expires unless it is renewed."""

    run: str
    owner: str
    expires_in_s: float


class LeaseHeld(ClusterError):
    """Another run holds the lease of a host; `holder` says which."""

    def __init__(self, message: str, holder: Holder) -> None:
        super().__init__(message)
        self.holder = holder


def owner_here() -> str:
    """Name the user and the machine that a run is started by."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "unknown"
    return f"{user}@{socket.gethostname()}"


class Lease:
    """The lease of one host, for one run. Safe to use from several threads."""

    def __init__(
        self, transport: Transport, *, run: str, state: str, owner: str | None = None, place: str = PLACE
    ) -> None:
        """Bind the lease to a host. `transport` acts as root; `state` is the folder of all runs' guards there; `owner` names the user, None: this one."""
        self._transport = transport
        self._run = run
        self._state = state
        self._owner = " ".join((owner_here() if owner is None else owner).split())
        self._place = place

    def take(self, *, length_s: float, healing: bool = False) -> None:
        """Take the lease, renew it, or take over one that has expired; `healing` disregards faults that other runs left.

        Raises LeaseHeld with the run that holds it, ClusterError if a fault of another run may stand on the host.
        """
        verb = "heal" if healing else "take"
        self._ask(verb, str(round(100 * length_s)), self._run, self._owner, self._state)

    def renew(self, *, length_s: float) -> None:
        """Renew the lease. Raises LeaseHeld, or ClusterError if it is free, because it was given back or swept away."""
        self._ask("renew", str(round(100 * length_s)), self._run)

    def release(self) -> None:
        """Give the lease back; one of another run stays. Idempotent."""
        self._ask("release", self._run)

    def holder(self) -> Holder | None:
        """Return the run that holds the lease now, None if it is free or has expired."""
        return _holder(self._ask("show"))

    def _ask(self, verb: str, *arguments: str) -> Executed:
        argv = ["sh", "-s", "--", verb, self._place, *arguments]
        done = self._transport.run(argv, timeout_s=_ANSWERS_WITHIN_S, stdin=read_script(_SCRIPT))
        where = self._transport.described()
        if done.exit_code == _HELD:
            holder = _holder(done)
            if holder is None:
                raise ClusterError(f"{where}: run {self._run} does not hold the lease of this host any more")
            raise LeaseHeld(
                f"{where}: run {holder.run} of {holder.owner} holds this host for another {holder.expires_in_s:g} s, "
                "longer while it goes on. Wait for its end; if it is dead, heal it (schemaquake heal RUN)",
                holder,
            )
        if done.exit_code == _STANDS:
            fault = done.stdout.strip()
            raise ClusterError(
                f"{where}: a fault of another run may stand on this host ({fault}): heal that run (schemaquake heal RUN), "
                f"or undo it there with `sh {fault.rpartition('/')[0]}/guard.sh fire {fault}` and remove that folder"
            )
        if done.exit_code != 0:
            raise ClusterError(f"{where}: {done.stderr.strip() or f'lease.sh {verb}: exit code {done.exit_code}'}")
        return done


class Leases:
    """The leases of all hosts of one run, renewed by a thread until they are given back."""

    def __init__(self, leases: Mapping[str, Lease], *, max_fault_s: float) -> None:
        """`leases` are by the nodes' names."""
        self._leases = leases
        self._length_s = max_fault_s + _OUTLASTS_GUARDS_S
        self._ending = Event()
        self._renewing: Thread | None = None
        self._lock = Lock()

    def take(self) -> None:
        """Take all leases, or none, and renew them from now on. Raises ClusterError naming who holds one."""
        try:
            on_every(self._leases, lambda name: self._leases[name].take(length_s=self._length_s))
        except ClusterError:
            self._give_back()
            raise
        with self._lock:
            if self._renewing is None:
                self._ending.clear()
                # By a weak reference: leases that are given up without an end are renewed no more.
                self._renewing = Thread(
                    target=_renew,
                    args=(ref(self), self._ending, self._length_s / _RENEWALS),
                    name="leases",
                    daemon=True,
                )
                self._renewing.start()

    def take_to_heal(self) -> None:
        """Take the leases of all hosts where that is possible. Raises ClusterError if another run holds one."""

        def take(name: str) -> None:
            try:
                self._leases[name].take(length_s=self._length_s, healing=True)
            except LeaseHeld:
                raise
            except ClusterError as error:
                log.warning("a host cannot be leased", extra={"node": name, "error": str(error)})

        on_every(self._leases, take)

    def require(self, names: Iterable[str]) -> None:
        """Renew the leases of these nodes. Raises ClusterError if one of them was lost: nothing may be injected there."""
        on_every(names, lambda name: self._leases[name].renew(length_s=self._length_s))

    def refuse_if_taken(self, names: Iterable[str]) -> None:
        """Raise ClusterError if another run holds one of these nodes; a host that does not answer, or has no room, is none."""

        def look(name: str) -> None:
            try:
                self._leases[name].renew(length_s=self._length_s)
            except LeaseHeld:
                raise
            except ClusterError as error:
                log.warning("a lease could not be renewed", extra={"node": name, "error": str(error)})

        on_every(names, look)

    def let_expire(self) -> None:
        """Renew no lease any more; idempotent."""
        with self._lock:
            self._ending.set()
            if self._renewing is not None:
                self._renewing.join()
                self._renewing = None

    def release(self, name: str) -> None:
        """Give the lease of one node back; idempotent. Raises ClusterError if the host does not answer: it expires."""
        self._leases[name].release()

    def _give_back(self) -> None:
        try:
            on_every(self._leases, self.release)
        except ClusterError as error:
            log.warning("a lease could not be given back; it expires", extra={"error": str(error)})

    def renew(self) -> None:
        """Renew every lease of the run. The log names one that cannot be renewed; arming a fault then asks again, and is refused."""
        try:
            self.require(self._leases)
        except ClusterError as error:
            log.warning("a lease could not be renewed", extra={"error": str(error)})


def _renew(leases_of: Callable[[], Leases | None], ending: Event, every_s: float) -> None:
    while not ending.wait(every_s):
        leases = leases_of()
        if leases is None:
            return
        leases.renew()
        del leases


def _holder(done: Executed) -> Holder | None:
    lines = done.stdout.splitlines()
    return Holder(lines[0], lines[1], float(lines[2])) if len(lines) >= 3 else None
