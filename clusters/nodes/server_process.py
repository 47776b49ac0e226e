"""Server process: the server of one node as a process that can be started, signalled and ended, whatever starts it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, Protocol, TypeAlias

from schemaquake.clusters.nodes.transport import Transport
from schemaquake.harness.model.protocols import Undo

__all__ = ["ServerProcess", "State", "read_state"]

State: TypeAlias = Literal["running", "paused", "stopped"]

_STOPPED_BY_A_SIGNAL: Final = frozenset({"T", "t"})
_ENDED: Final = frozenset({"Z", "X"})


class ServerProcess(Protocol):
    """The server of one node. Each change is carried out once and never repeated; `state` shows what came of it."""

    appears_within_s: float
    """The longest time between `start` and the moment at which the server's process exists."""

    def start(self) -> None:
        """Start the server and return before it serves. Raises ClusterError, NodeUnreachable."""
        ...

    def terminate(self, *, limit_s: float) -> None:
        """Ask for a clean shutdown, within `limit_s`. May return before the end. Raises ClusterError, NodeUnreachable."""
        ...

    def kill(self) -> None:
        """Send SIGKILL. May return before the end. Raises ClusterError, NodeUnreachable."""
        ...

    def signal(self, name: Literal["STOP", "CONT"]) -> None:
        """Send this signal if the server runs. Raises NodeUnreachable."""
        ...

    def pid(self) -> int | None:
        """Return the server's process id, None if it does not run. Raises NodeUnreachable."""
        ...

    def state(self) -> State:
        """Read the state from the node's /proc. Raises NodeUnreachable."""
        ...

    def exit_code(self) -> int | None:
        """Return the exit code of the latest server, which has ended; None if it is not known."""
        ...

    def is_ending(self) -> bool:
        """Return True if the server was asked to end and is still there. Raises NodeUnreachable."""
        ...

    def through(self, transport: Transport) -> ServerProcess:
        """Return the same server, acted on through another transport to its node."""
        ...

    def undo_commands(self, verb: Literal["start", "resume"]) -> Sequence[Undo]:
        """List the commands by which root starts or resumes the server on the node without the harness.

        Each is harmless if the server runs.
        """
        ...


def read_state(stat: str) -> State:
    """Read the state from the text of /proc/PID/stat; an empty text is a process that is gone."""
    if not stat:
        return "stopped"
    # The process's name stands in parentheses and may hold parentheses and spaces itself.
    letter = stat.rsplit(")", 1)[1].split(maxsplit=1)[0]
    if letter in _STOPPED_BY_A_SIGNAL:
        return "paused"
    return "stopped" if letter in _ENDED else "running"
