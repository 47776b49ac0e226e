"""Files: where a server keeps what faults of files and disks act on, for clusters whose files are the run's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

__all__ = ["ServerFiles", "ShowsFiles"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFiles:
    """The folders of one server, as paths on its node."""

    folder: str
    """The harness's own folder on the node, in which the server keeps nothing."""
    data: tuple[str, ...]
    commit_log: str
    volume: str | None = None
    """Where the small file system is mounted that holds all of these; None: they lie on a disk that others use, too."""


@runtime_checkable
class ShowsFiles(Protocol):
    """A cluster whose servers' files were made by the run and go with it, so that faults may damage them."""

    def server_files(self, node: str) -> ServerFiles:
        """Return the folders of this node's server."""
        ...
