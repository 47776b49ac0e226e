"""Local transport: commands in a network namespace of this machine, and plain files."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from schemaquake.clusters.local import namespaces
from schemaquake.harness.child_environment import JAVA, child_environment
from schemaquake.harness.errors import NodeUnreachable
from schemaquake.harness.model.protocols import Executed

__all__ = ["LocalTransport"]


class LocalTransport:
    """A `schemaquake.clusters.nodes.transport.Transport` to the namespace of one node."""

    def __init__(self, name: str, folder: Path) -> None:
        """`folder` is where commands run."""
        self._name = name
        self._folder = folder

    def run(self, argv: Sequence[str], *, timeout_s: float = 30, stdin: bytes | None = None) -> Executed:
        """Run a command; see `Transport.run`."""
        try:
            done = subprocess.run(
                [*namespaces.in_namespace(self._name), *argv],
                input=stdin,
                capture_output=True,
                timeout=timeout_s,
                check=False,
                cwd=self._folder,
                env=child_environment(*JAVA),
            )
        except subprocess.TimeoutExpired as error:
            command = " ".join(argv)
            raise NodeUnreachable(f"{self.described()}: `{command}` did not end within {timeout_s:g} s") from error
        return Executed(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))

    def put(self, content: bytes, target: str, *, mode: int = 0o644) -> None:
        """Copy a file to its place; see `Transport.put`."""
        path = Path(target)
        temporary = path.with_name(f"{path.name}.new")
        temporary.write_bytes(content)
        temporary.chmod(mode)
        temporary.replace(path)

    def get(self, source: str) -> bytes:
        """Copy a file from its place; see `Transport.get`."""
        return Path(source).read_bytes()

    def close(self) -> None:
        """Do nothing: no session is open between commands."""

    def described(self) -> str:
        """Name the node: `node n1`."""
        return f"node {self._name}"
