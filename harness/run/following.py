"""Following: workers, observer and notes go with the cluster's membership.

At the boundaries of phases, after every operation on the topology, and when a node was found to have ended by itself, the roster is
read, and noted in the history:

    membership  {"at": "boot" | "operation" | "heal" | "restart" | "death",
                 "members": {"n1": {"state", "address", "host_id", "spare", "expected"}}}

`state` is what the cluster shows, `expected` what follows from the run's operations (`harness.model.membership`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Literal

from schemaquake.harness.errors import NodeUnreachable
from schemaquake.harness.faults.membership import Roster
from schemaquake.harness.model.runtime import Crew, Observer
from schemaquake.harness.run.notes import Notes

__all__ = ["Following"]

log = logging.getLogger("schemaquake.harness.run.conductor")


class Following:
    """Keeps crew and observer with the nodes that should serve."""

    def __init__(self, roster: Roster, notes: Notes) -> None:
        self._roster = roster
        self._notes = notes
        self._crew: Crew | None = None
        self._observer: Observer | None = None
        self._known: tuple[str, ...] = roster.serving

    @property
    def spares(self) -> Sequence[str]:
        """The spares that have not joined."""
        return [name for name in self._roster.spares if name not in self._known]

    @property
    def serving(self) -> Sequence[str]:
        """The nodes that should serve, as the members were read last."""
        return self._known

    def begin(self, crew: Crew, observer: Observer) -> None:
        """Follow with these from now on."""
        self._crew, self._observer = crew, observer

    def look(self, at: Literal["boot", "heal", "restart", "death"]) -> list[str]:
        """Read and note the members; return the nodes that should serve. Their sessions are the caller's to open."""
        self._roster.refresh()
        self._write(at)
        self._known = self._roster.serving
        return list(self._known)

    def changed(self) -> None:
        """Note the members after an operation; dismiss the workers of nodes that left, and admit those that joined."""
        self._write("operation")
        serving = self._roster.serving
        left = [name for name in self._known if name not in serving]
        joined = [name for name in serving if name not in self._known]
        self._known = serving
        if self._crew is None or self._observer is None:
            return
        self._crew.dismiss(left)
        if left or joined:
            try:
                self._observer.follow(serving)
                self._crew.admit(joined)
            except NodeUnreachable as error:
                # It is asked again before the final readings, and then it must answer.
                log.warning("a node could not be followed", extra={"error": str(error)})

    def _write(self, at: Literal["boot", "operation", "heal", "restart", "death"]) -> None:
        self._notes.write("membership", {"at": at, "members": self._roster.to_json()})
