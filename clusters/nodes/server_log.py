"""Server log: what a server has logged since its latest start, and where a copy of it stays with the run."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

from schemaquake.clusters.nodes.transport import Transport, read_by
from schemaquake.harness.errors import ClusterError

__all__ = ["FollowedLog", "ServerLog", "log_name"]

log = logging.getLogger(__name__)

_BYTES_MAX: Final = 8 * 2**20
_NOT_THERE: Final = 44

# What of a log is later than a given byte, and at most so much of it. One that is shorter now was begun anew.
_TAIL: Final = f"""
[ -e "$1" ] || exit {_NOT_THERE}
size=$(wc -c < "$1") || exit 1
from=$2
[ "$size" -ge "$from" ] || from=0
[ "$((size - from))" -le "$3" ] || from=$((size - $3))
exec tail -c +"$((from + 1))" "$1"
"""
_SIZE: Final = '[ ! -e "$1" ] || wc -c < "$1"'


def log_name(start: int) -> str:
    """Name the file in the run's folder that holds the log of this start, counted from 0."""
    return f"system-{start}.log"


class ServerLog(Protocol):
    """The log of one node's server."""

    @property
    def location(self) -> str:
        """The file, or the folder, of this machine in which a reader finds the log."""
        ...

    def begin(self) -> None:
        """Leave out what was logged before now."""
        ...

    def begin_start(self) -> None:
        """Begin the log of a start that is about to happen. Raises NodeUnreachable."""
        ...

    def text(self) -> str:
        """Read the log since it was begun. Raises ClusterError, NodeUnreachable."""
        ...

    def keep(self) -> None:
        """Copy the log to this machine. A copy that fails is logged as a warning."""
        ...


class FollowedLog:
    """A `ServerLog` in files of the node that are older than the run and outlive it."""

    def __init__(
        self, transport: Transport, paths: Sequence[str], *, node: str, console: str | None, copies: Path | None
    ) -> None:
        """`console` is the file that takes what the server prints, read where the logs at `paths` are empty.

        `copies` is the folder of this machine that takes a copy for each start; None keeps none.
        """
        self._transport = transport
        self._paths = paths
        self._node = node
        self._console = console
        self._copies = copies
        self._begins: dict[str, int] | None = None
        self._start = 0
        self._is_kept = False

    @property
    def location(self) -> str:
        """The folder of the copies; without one, the node's own files."""
        return ", ".join(self._paths) if self._copies is None else str(self._copies)

    def begin(self) -> None:
        """Leave out what the files hold now."""
        printed = [] if self._console is None else [self._console]
        self._begins = {path: self._size(path) for path in (*self._paths, *printed)}

    def begin_start(self) -> None:
        """Keep the log of the start before; the next one's copy is another file if that one holds anything."""
        self.keep()
        if self._is_kept:
            self._start += 1
            self._is_kept = False
        self._begins = {path: self._size(path) for path in self._paths}  # the console is begun anew by each start

    def text(self) -> str:
        """Read the last 8 MB of each file since `begin`; if they hold nothing, what the server printed."""
        text = "".join(map(self._tail, self._paths))
        return text if text or self._console is None else self._tail(self._console)

    def keep(self) -> None:
        """Copy the log, if it holds anything, to the file of the present start, which it replaces."""
        if self._copies is None or self._begins is None:
            return
        try:
            text = self.text()
            if text:
                self._copies.mkdir(parents=True, exist_ok=True)
                (self._copies / log_name(self._start)).write_text(text, encoding="utf-8")
                self._is_kept = True
        except (ClusterError, OSError) as error:  # a full disk here is no reason to leave a server down there
            log.warning("a log could not be kept", extra={"node": self._node, "error": str(error)})

    def _tail(self, path: str) -> str:
        begins = (self._begins or {}).get(path, 0)
        done = read_by(self._transport, ["sh", "-c", _TAIL, "sh", path, str(begins), str(_BYTES_MAX)], timeout_s=60)
        if done.exit_code == _NOT_THERE:
            return ""
        if done.exit_code != 0:
            raise ClusterError(f"{self._transport.described()}: cannot read {path}: {done.stderr.strip()}")
        return done.stdout

    def _size(self, path: str) -> int:
        return int(read_by(self._transport, ["sh", "-c", _SIZE, "sh", path]).stdout.strip() or 0)
