"""Joining: how the server of a spare host joins a cluster of its owner's.

The owner has installed and configured it like the others, and not started it. Its folders are empty when a run begins, and
the run empties them again before it has the host join anew. What only this one start is to know, whose place it takes, is
written as arguments of Java into a file of the owner's choice, which the server's start reads (`java @FILE`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from schemaquake.clusters.cluster_file.model import Joining
from schemaquake.clusters.nodes.node import ServerNode
from schemaquake.clusters.nodes.transport import read_by
from schemaquake.harness.errors import ClusterError, NodeUnreachable

__all__ = ["HostJoining"]

# -H: a folder that an owner named may be a link; links below it are not followed.
_FILLED: Final = 'for folder; do [ ! -d "$folder" ] || find -H "$folder" -mindepth 1 -maxdepth 1; done | head -n 1'
_EMPTY: Final = 'for folder; do [ ! -d "$folder" ] || find -H "$folder" -xdev -mindepth 1 -delete || exit 1; done'
_LIMIT_S: Final = 120.0


class HostJoining:
    """The `schemaquake.clusters.nodes.reshaping.PrepareToJoin` of hosts."""

    def __init__(self, joining: Joining) -> None:
        """`joining` is the owner's table."""
        self._joining = joining
        self._written: dict[str, ServerNode] = {}

    def cannot_replace(self) -> str | None:
        """Return why no host can take another's place; None if one can."""
        if self._joining.options_file is None:
            return "the cluster file does not say where a server's start finds whose place it takes: [joining] options_file"
        return None

    def __call__(
        self, node: ServerNode, *, seeds: Sequence[str], takes_place: bool, properties: Mapping[str, str]
    ) -> None:
        """Empty the folders of a server that does not run, and write the properties of its next start. Raises ClusterError.

        The owner's configuration has the seeds, and the token where it is not drawn.
        """
        del seeds, takes_place
        if node.state() != "stopped":
            raise ClusterError(f"node {node.name}: its server runs, so its folders are not emptied")
        done = node.transport.run(["sh", "-c", _EMPTY, "sh", *self._joining.empties], timeout_s=_LIMIT_S)
        if done.exit_code != 0:
            raise ClusterError(f"node {node.name}: its folders could not be emptied: {done.stderr.strip()[-300:]}")
        self._write(node, properties)

    def unfit(self, spares: Sequence[ServerNode]) -> Sequence[str]:
        """Describe the spares that are in use: a server that runs, or folders that hold something."""
        found = []
        for node in spares:
            try:
                if node.state() != "stopped":
                    found.append(f"the server of spare {node.name} runs: stop it, or list the host in [[nodes]]")
                    continue
                left = read_by(node.transport, ["sh", "-c", _FILLED, "sh", *self._joining.empties]).stdout.strip()
            except NodeUnreachable as error:
                found.append(str(error))
                continue
            if left:
                found.append(
                    f"spare {node.name} is not empty, there is {left}: what is in the way is its owner's to delete"
                )
        return found

    def end(self) -> None:
        """Empty the files of properties, so that no later start reads them. Raises ClusterError."""
        for node in list(self._written.values()):
            self._write(node, {})
            del self._written[node.name]

    def _write(self, node: ServerNode, properties: Mapping[str, str]) -> None:
        path = self._joining.options_file
        if path is None:
            if properties:
                raise ClusterError(f"node {node.name}: {self.cannot_replace()}")
            return
        text = "".join(f"-D{name}={text}\n" for name, text in properties.items())
        node.transport.put(text.encode(), path, mode=0o644)
        if properties:
            self._written[node.name] = node
