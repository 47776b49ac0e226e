"""Guard watch: the harness looks every few seconds whether the guards of its faults live, and begins those again that do not.

A guard and its twin start each other again, so that one of them may be killed at any time. Whoever kills both at one moment
leaves a fault without a guard; then a harness that lives is the third that looks. One that is gone as well cannot help:
the fault then stays until it is healed from the ledger, or the node is booted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from threading import Event, Lock, Thread
from typing import Final
from weakref import ref

from schemaquake.clusters.nodes.every_node import on_every
from schemaquake.clusters.nodes.guard import Guards
from schemaquake.harness.errors import ClusterError

__all__ = ["GuardWatch"]

log = logging.getLogger(__name__)

_EVERY_S: Final = 5.0


class GuardWatch:
    """A thread that lives while any fault is watched. Safe to use from several threads."""

    def __init__(self, guards: Guards, *, every_s: float = _EVERY_S) -> None:
        self._guards = guards
        self._every_s = every_s
        self._watched: dict[int, tuple[str, ...]] = {}
        self._lock = Lock()
        self._ending: Event | None = None

    def begin(self, fault_id: int, names: Iterable[str]) -> None:
        """Watch the guards of this fault on these nodes, which stand."""
        with self._lock:
            self._watched[fault_id] = tuple(names)
            if self._ending is None:
                self._ending = Event()
                # By a weak reference: a cluster that is given up without an end takes its watch along.
                Thread(
                    target=_watch, args=(ref(self), self._ending, self._every_s), name="guard watch", daemon=True
                ).start()

    def end(self, fault_id: int) -> None:
        """Watch the guards of this fault no more; idempotent. A look under way is not waited for."""
        with self._lock:
            self._watched.pop(fault_id, None)
            if not self._watched:
                self._end_thread()

    def close(self) -> None:
        """Watch nothing any more, whatever stands: the run ends, and its guards go on by themselves. Idempotent."""
        with self._lock:
            self._watched.clear()
            self._end_thread()

    def _end_thread(self) -> None:
        if self._ending is not None:
            self._ending.set()
            self._ending = None

    def look_once(self) -> None:
        """Begin guards again that are gone, and say so in the log."""
        with self._lock:
            watched = dict(self._watched)
        for fault_id, names in watched.items():
            for name, text in on_every(names, lambda name: self._look(name, fault_id)).items():  # noqa: B023 - called at once
                if text is not None:
                    log.warning(text, extra={"node": name, "fault": fault_id})

    def _look(self, name: str, fault_id: int) -> str | None:
        try:
            return "a guard was gone, and was begun again" if self._guards.keep(name, fault_id) else None
        except ClusterError as error:
            log.debug("a guard could not be looked at", extra={"node": name, "error": str(error)})
            return None


def _watch(watch_of: Callable[[], GuardWatch | None], ending: Event, every_s: float) -> None:
    while not ending.wait(every_s):
        watch = watch_of()
        if watch is None:
            return
        watch.look_once()
        del watch
