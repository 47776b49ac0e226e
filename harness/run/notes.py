"""Notes: the events of process −1, which record the harness' own actions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Literal

from schemaquake.harness.history.journal import Journal
from schemaquake.harness.model.operation import JSON, NEMESIS
from schemaquake.harness.model.protocols import Boot
from schemaquake.harness.model.runtime import Clock
from schemaquake.harness.units import S

__all__ = ["Notes", "Progress"]

log = logging.getLogger("schemaquake.harness.run.conductor")

Progress = Callable[[str, float | None], AbstractContextManager[None]]
"""A display of a phase by its name and time limit (s) while its block runs."""


class Notes:
    """The conductor's journal, written an `info` event at a time."""

    def __init__(self, journal: Journal, clock: Clock, progress: Progress) -> None:
        self._journal = journal
        self._clock = clock
        self._progress = progress

    def write(self, f: str, value: JSON, *, node: str | None = None) -> None:
        """Record one event of process −1."""
        self._journal.event(NEMESIS, "info", f, node, None, value)

    def write_operation(
        self,
        type: Literal["invoke", "ok", "fail", "info"],  # noqa: A002 - the column's name
        f: str,
        value: JSON,
        *,
        node: str | None,
        error: str | None = None,
    ) -> None:
        """Record one end of an operation on the topology."""
        self._journal.event(NEMESIS, type, f, node, None, value, error)

    def write_fault(self, f: str, value: JSON) -> None:
        """Record an event of a fault, and log its begin and end."""
        self.write(f, value)
        if f in {"fault-begins", "fault-ends"}:
            facts = {"nemesis": value["nemesis"], "nodes": ",".join(value["nodes"]), "fault": value["id"]}
            log.info(f.replace("-", " "), extra=facts)

    def write_boot(self, boot: Boot, phase: str) -> None:
        """Record the end of one start of a node."""
        self.write(
            "node-start",
            {
                "phase": phase,
                "served": boot.served,
                "seconds": round(boot.seconds, 3),
                "exit_code": boot.exit_code,
                "first_error": boot.first_error,
                **({} if boot.ended is None else {"ended": boot.ended}),
            },
            node=boot.node,
        )

    @contextmanager
    def phase(self, name: str, *, limit_s: float | None = None) -> Iterator[None]:
        """Record begin and end of the phase that the block carries out; a block that raises leaves it without an end."""
        began_ns = self._clock.now_ns()
        log.debug("phase begins", extra={"phase": name})
        self.write("phase", {"phase": name, "state": "begins"})
        with self._progress(name, limit_s):
            yield
        self.write("phase", {"phase": name, "state": "ends"})
        self._journal.sync()
        log.info("phase done", extra={"phase": name, "seconds": round((self._clock.now_ns() - began_ns) / S, 1)})
