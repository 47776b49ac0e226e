"""Event sink: the part of a journal that takes events.

`schemaquake.harness.history.journal.Journal` is the one that writes them ahead; a caller that needs no more than this can be
tried without files.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from schemaquake.harness.model.operation import JSON, MicroOp

__all__ = ["EventSink"]


class EventSink(Protocol):
    """A journal of events that belong to any process."""

    def event(
        self,
        process: int,
        type: str,  # noqa: A002 - the column's name
        f: str,
        node: str | None = None,
        key: str | None = None,
        value: JSON = None,
        error: str | None = None,
        mops: Sequence[MicroOp] | None = None,
    ) -> int:
        """Record one event now and return its time, ns on the run's clock. Raises JournalError."""
        ...

    def sync(self) -> None:
        """Write what was recorded so far. Raises JournalError."""
        ...

    def close(self) -> None:
        """Accept no more events."""
        ...
