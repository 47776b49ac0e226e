"""Root transport: a transport that runs every command of another one as root, through sudo.

`sudo -n` never asks for a password: where it would have to, it refuses, and the refusal is raised as an error instead of
being taken for the answer of the command.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from schemaquake.clusters.cluster_file.model import Become
from schemaquake.clusters.nodes.transport import Transport
from schemaquake.clusters.ssh.file_commands import get_by_commands, put_by_commands
from schemaquake.harness.errors import ClusterError
from schemaquake.harness.model.protocols import Executed

__all__ = ["RootTransport", "sudo_refusal"]

_COULD_NOT_EXECUTE: Final = frozenset({126, 127})
_REFUSAL: Final = re.compile(
    r"a password is required|a terminal is required|authentication is required|must have a tty|not in the sudoers file"
    r"|is not allowed to (?:run|execute)|may not run sudo|no new privileges|effective uid is not 0"
    r"|must be owned by uid 0|unable to initialize policy|account validation failure|no valid sudoers sources",
    re.IGNORECASE,
)
_ABSENT: Final = re.compile(
    r"\bsudo: (?:command )?not found|sudo: No such file|sudo.*executable file not found", re.IGNORECASE
)
_COMMAND_ABSENT: Final = re.compile(r"^sudo(?:-rs)?: .*: command not found\s*$")
_AS_A_SHELL_SAYS_IT: Final = 127


class RootTransport:
    """A `Transport` over one of a user who may become root."""

    def __init__(self, user_transport: Transport, become: Become) -> None:
        self._user_transport = user_transport
        self._become = become

    def run(self, argv: Sequence[str], *, timeout_s: float = 30, stdin: bytes | None = None) -> Executed:
        """Run a command as root. Raises ClusterError if sudo refuses, NodeUnreachable."""
        done = self._user_transport.run(self._become.argv(argv), timeout_s=timeout_s, stdin=stdin)
        refusal = sudo_refusal(done)
        if refusal is not None:
            raise ClusterError(
                f"{self.described()}: sudo refused `{argv[0]}`: {refusal}. Allow it there without a password (a line "
                "`USER ALL=(ALL) NOPASSWD: ALL` in a file below /etc/sudoers.d), or log in as root and set "
                '[become] method = "none".'
            )
        if done.exit_code == 1 and _COMMAND_ABSENT.match(done.stderr):
            return replace(done, exit_code=_AS_A_SHELL_SAYS_IT)
        return done

    def put(self, content: bytes, target: str, *, mode: int = 0o644) -> None:
        """Write a file that root owns."""
        put_by_commands(self.run, content, target, mode=mode, where=self.described)

    def get(self, source: str) -> bytes:
        """Read a file that root may read."""
        return get_by_commands(self.run, source, where=self.described)

    def close(self) -> None:
        """Close the user's transport."""
        self._user_transport.close()

    def described(self) -> str:
        """Name the other end as the user's transport does."""
        return self._user_transport.described()


def sudo_refusal(done: Executed) -> str | None:
    """Find sudo's refusal in a result; None if the result is the command's own."""
    if done.exit_code == 1 and not done.stdout and _REFUSAL.search(done.stderr):
        return done.stderr.strip().splitlines()[-1].rstrip(".")
    if done.exit_code in _COULD_NOT_EXECUTE and _ABSENT.search(done.stderr):
        return "there is no sudo on that host"
    return None
