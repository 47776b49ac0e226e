"""Server log: the lines that a simulated server writes, in the layout of the real ones, a file a start."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from schemaquake.clusters.simulated.clock import NodeClock

__all__ = ["ServerLog"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class ServerLog:
    """The log of one node, all its starts."""

    def __init__(self, clock: NodeClock) -> None:
        self._clock = clock
        self._starts: list[list[str]] = []

    def begin_start(self) -> None:
        """Begin the log of another start."""
        self._starts.append([])

    def text(self) -> str:
        """Return the log of the latest start."""
        return "".join(self._starts[-1]) if self._starts else ""

    def write(self, folder: Path) -> None:
        """Write `system-0.log`, `system-1.log`, … into the folder."""
        folder.mkdir(parents=True, exist_ok=True)
        for number, lines in enumerate(self._starts):
            (folder / f"system-{number}.log").write_text("".join(lines), encoding="utf-8")

    def info(self, thread: str, place: str, text: str) -> None:
        """Log what an operator may want to know."""
        self._add("INFO ", thread, place, text)

    def warn(self, thread: str, place: str, text: str) -> None:
        """Log a warning."""
        self._add("WARN ", thread, place, text)

    def error(self, thread: str, place: str, text: str, stack: str | None = None) -> None:
        """Log an error, with the first line of its stack trace."""
        self._add("ERROR", thread, place, text if stack is None else f"{text}\n{stack}")

    def _add(self, level: str, thread: str, place: str, text: str) -> None:
        if not self._starts:
            self.begin_start()
        wall = _EPOCH + timedelta(microseconds=self._clock.wall_ns() // 1000)
        stamp = f"{wall:%Y-%m-%d %H:%M:%S},{wall.microsecond // 1000:03d}"
        self._starts[-1].append(f"{level} [{thread}] {stamp} {place} - {text}\n")
