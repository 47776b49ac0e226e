"""Run folder: the one folder of a node in which a run keeps its files, removed when the run is over."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Final, Protocol

from schemaquake.clusters.nodes.transport import Transport, read_by
from schemaquake.harness.errors import ClusterError

__all__ = ["NodeFolder", "RunFolder"]

# The parent belongs to all runs and goes with the last of them.
# A process that is ending may write a last file while the folder is being emptied.
_REMOVE: Final = (
    '[ ! -e "$1" ] || echo there; for _ in 1 2 3 4 5 6 7 8 9; do rm -rf "$1" 2> /dev/null && break; sleep 0.2; done; '
    'rm -rf "$1" && { rmdir "$2" 2> /dev/null || true; }'
)


class NodeFolder(Protocol):
    """A folder on a node with what the harness needs there."""

    @property
    def path(self) -> str:
        """The absolute path on the node."""
        ...

    def make(self) -> None:
        """Make the folder and its files. Raises ClusterError, NodeUnreachable."""
        ...

    def remove(self) -> bool:
        """Remove what the harness put there, and return True if there was any. Raises ClusterError, NodeUnreachable."""
        ...


class RunFolder:
    """The run's own `NodeFolder` behind a transport, with the scripts of the node's service."""

    def __init__(self, transport: Transport, path: str, scripts: Mapping[str, bytes]) -> None:
        """`scripts` are the files to put there, by path."""
        self.path = path
        self._transport = transport
        self._scripts = scripts

    def make(self) -> None:
        """Make the folder for root alone and put the scripts there."""
        done = read_by(self._transport, ["mkdir", "-p", "-m", "700", self.path])
        if done.exit_code != 0:
            raise ClusterError(f"{self._transport.described()}: cannot make {self.path}: {done.stderr.strip()}")
        for path, content in self._scripts.items():
            self._transport.put(content, path, mode=0o700)

    def remove(self) -> bool:
        """Remove the folder, and its parent if nothing else is in it."""
        parent = str(PurePosixPath(self.path).parent)
        done = read_by(self._transport, ["sh", "-c", _REMOVE, "sh", self.path, parent])
        if done.exit_code != 0:
            raise ClusterError(f"{self._transport.described()}: cannot remove {self.path}: {done.stderr.strip()}")
        return bool(done.stdout)
