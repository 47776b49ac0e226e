"""File commands: files are copied to a node and back by commands alone, for transports that carry no files.

SFTP does not write as root where root needs sudo; `cat` behind sudo does.
"""

from __future__ import annotations

import base64
import errno
import os
from collections.abc import Callable, Sequence
from typing import Final, Protocol
from uuid import uuid4

from schemaquake.harness.errors import ClusterError
from schemaquake.harness.model.protocols import Executed

__all__ = ["Run", "get_by_commands", "put_by_commands"]

_NOT_THERE: Final = 44
_TRANSFER_LIMIT_S: Final = 60.0

# Beside its target, so that the renaming is one step; what could not be written whole is taken away again.
_PUT: Final = """
umask 077
cat > "$1" && chmod "$3" "$1" && mv -f "$1" "$2" && exit 0
rm -f "$1"
exit 1
"""
# The output of a command comes back as text, which a file need not be.
_GET: Final = f"""
[ -e "$1" ] || exit {_NOT_THERE}
exec base64 < "$1"
"""


class Run(Protocol):
    """The type of `Transport.run`."""

    def __call__(self, argv: Sequence[str], *, timeout_s: float = 30, stdin: bytes | None = None) -> Executed:
        """Run a command; see `Transport.run`."""
        ...


def put_by_commands(run: Run, content: bytes, target: str, *, mode: int, where: Callable[[], str]) -> None:
    """Write a file as `Transport.put` does. Raises ClusterError with the node's own message, for example of a full disk."""
    argv = ["sh", "-c", _PUT, "sh", f"{target}.{uuid4().hex[:8]}", target, f"{mode:o}"]
    done = run(argv, timeout_s=_TRANSFER_LIMIT_S, stdin=content)
    if done.exit_code != 0:
        raise ClusterError(f"{where()}: {target} could not be written: {done.stderr.strip()}")


def get_by_commands(run: Run, source: str, *, where: Callable[[], str]) -> bytes:
    """Read a file as `Transport.get` does. Raises FileNotFoundError, and ClusterError with the node's own message."""
    done = run(["sh", "-c", _GET, "sh", source], timeout_s=_TRANSFER_LIMIT_S)
    if done.exit_code == _NOT_THERE:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), f"{where()}: {source}")
    if done.exit_code != 0:
        raise ClusterError(f"{where()}: {source} could not be read: {done.stderr.strip()}")
    return base64.b64decode(done.stdout)
