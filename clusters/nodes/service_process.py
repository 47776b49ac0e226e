"""Service process: a server that a service of its node starts and ends, behind a transport.

Nothing is remembered here: what only reads may be asked twice, and what changes something is sent once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from schemaquake.clusters.nodes.run_folder import RunFolder
from schemaquake.clusters.nodes.server_process import State, read_state
from schemaquake.clusters.nodes.service import Service
from schemaquake.clusters.nodes.transport import Transport, read_by
from schemaquake.harness.errors import ClusterError, NodeUnreachable
from schemaquake.harness.model.protocols import Executed, Undo
from schemaquake.harness.wait import until

__all__ = ["ServiceProcess"]

_COMMAND_LIMIT_S: Final = 30.0
_EXIT_CODE_WITHIN_S: Final = 2.0
_EVERY_S: Final = 0.25
_NO_SCRIPT: Final = 45

_SIGNAL: Final = 'kill "-$1" "$2"'
_SIGNAL_SERVER: Final = 'signal=$1; shift; pid=$("$@") && [ -n "$pid" ] && kill "-$signal" "$pid"'
_SCRIPTED: Final = f'[ -r "$2" ] || exit {_NO_SCRIPT}; exec "$@"'


class ServiceProcess:
    """A `ServerProcess` that the commands of a `Service` act on, which `transport` runs as root."""

    appears_within_s = 5.0
    """A service manager starts servers in its own time."""

    def __init__(self, transport: Transport, service: Service, folder: RunFolder) -> None:
        """`folder` holds the scripts that the service's commands need."""
        self._transport = transport
        self._service = service
        self._folder = folder

    def start(self) -> None:
        """Start the server; see `ServerProcess.start`. The error quotes the service."""
        self._change(self._service.start, "start")

    def terminate(self, *, limit_s: float) -> None:
        """Stop the server cleanly; see `ServerProcess.terminate`. The error quotes the service."""
        self._change(self._service.stop, "stop", limit_s=limit_s)

    def kill(self) -> None:
        """End the server at once; see `ServerProcess.kill`. The error quotes the service."""
        self._change(self._service.kill, "kill")

    def signal(self, name: Literal["STOP", "CONT"]) -> None:
        """Send the server a signal; see `ServerProcess.signal`."""
        pid = self.pid()
        if pid is not None:
            read_by(self._transport, ["sh", "-c", _SIGNAL, "sh", name, str(pid)])

    def pid(self) -> int | None:
        """Return the pid that the service names."""
        done = self._ask(self._service.status)
        words = done.stdout.split()
        return int(words[0]) if done.exit_code == 0 and words and words[0].isdigit() and int(words[0]) > 0 else None

    def state(self) -> State:
        """Read the state of the process that the service names."""
        pid = self.pid()
        if pid is None:
            return "stopped"
        stat = read_by(self._transport, ["cat", f"/proc/{pid}/stat"])
        return read_state(stat.stdout if stat.exit_code == 0 else "")

    def exit_code(self) -> int | None:
        """Read the exit code where the service writes it down, which takes it a moment."""
        if not self._service.ended:
            return None

        def written() -> str:
            return self._ask(self._service.ended).stdout.strip()

        try:
            return int(until(written, deadline_s=_EXIT_CODE_WITHIN_S, what="an exit code", every_s=_EVERY_S))
        except (TimeoutError, ValueError, NodeUnreachable):
            return None

    def is_ending(self) -> bool:
        """Ask the service; one that cannot say has no server that is on its way out."""
        return bool(self._service.ending) and bool(self._ask(self._service.ending).stdout.strip())

    def undo_commands(self, verb: Literal["start", "resume"]) -> Sequence[Undo]:
        """Name the commands that undo a fault; see `ServerProcess.undo_commands`."""
        if verb == "start":
            return [Undo(tuple(self._service.start), whole=tuple(self._service.up))]
        return [
            Undo(
                ("sh", "-c", _SIGNAL_SERVER, "sh", "CONT", *self._service.status),
                whole=tuple(self._service.awake),
            )
        ]

    def through(self, transport: Transport) -> ServiceProcess:
        """Return the same server, acted on through another transport to its node."""
        return ServiceProcess(transport, self._service, self._folder)

    def relaunch_as(self, service: Service) -> None:
        """Start the server by this service from now on; what its guards on the node start is the same. It does not run now."""
        self._service = service

    def _ask(self, argv: Sequence[str]) -> Executed:
        """Run a command that only reads. Scripts that a reboot of the node has removed are put there again."""
        if not self._service.scripts:
            return read_by(self._transport, argv)
        scripted = ["sh", "-c", _SCRIPTED, "sh", *argv]
        done = read_by(self._transport, scripted)
        if done.exit_code == _NO_SCRIPT:
            self._folder.make()
            done = read_by(self._transport, scripted)
        return done

    def _change(self, argv: Sequence[str], what: str, *, limit_s: float = 0) -> None:
        done = self._transport.run(argv, timeout_s=max(_COMMAND_LIMIT_S, limit_s))
        if done.exit_code != 0:
            answer = (done.stderr.strip() or done.stdout.strip())[-500:] or f"exit code {done.exit_code}"
            raise ClusterError(f"{self._transport.described()}: the service could not {what} the server: {answer}")
