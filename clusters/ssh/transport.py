"""SSH transport: commands and files to a host over one authenticated connection, which is opened again if it breaks.

SSH itself has only strings for commands: an argument vector is quoted word by word for the far shell. Host keys and
logins are handled by `schemaquake.clusters.ssh.login`.
"""

from __future__ import annotations

import logging
import shlex
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

import paramiko

from schemaquake.clusters.cluster_file.model import SshAccess
from schemaquake.clusters.ssh.file_commands import get_by_commands, put_by_commands
from schemaquake.clusters.ssh.login import CONNECT_LIMIT_S, log_in, named
from schemaquake.harness.errors import NodeUnreachable
from schemaquake.harness.model.protocols import Executed

__all__ = ["SshTransport"]

log = logging.getLogger(__name__)

_OPEN_LIMIT_S: Final = 10.0
_SESSIONS_MAX: Final = 8
"""The commands at the same time over one connection; sshd's MaxSessions is 10 by default."""
_LEAST_S: Final = 0.2
_CHUNK: Final = 65536
_ENDED_BY_A_SIGNAL: Final = 128
_LAST_WORDS_S: Final = 0.5
_SILENT_S: Final = 5.0


class SshTransport:
    """A `Transport` to one host. After a connection that broke the next command opens another."""

    def __init__(self, host: SshAccess, *, sessions_max: int = _SESSIONS_MAX) -> None:
        """`sessions_max`: commands at the same time over one connection, which the first command opens."""
        # What it would say of connections that end is our subject, not its news.
        logging.getLogger("paramiko").setLevel(logging.CRITICAL)
        self._host = host
        self._lock = threading.Lock()
        self._connection: _Connection | None = None
        self._sessions = _Sessions(sessions_max)

    def run(self, argv: Sequence[str], *, timeout_s: float = 30, stdin: bytes | None = None) -> Executed:
        """Raises NodeUnreachable: whether a command that was sent was carried out is then unknown, unless it says so."""
        command = shlex.join(argv)
        ends = time.monotonic() + timeout_s
        with self._sessions.held(timeout_s, self.described):
            connection, channel = self._open(ends)
            try:
                return self._converse(connection, channel, command, stdin, ends, timeout_s)
            finally:
                channel.close()
                connection.leave()

    def put(self, content: bytes, target: str, *, mode: int = 0o644) -> None:
        """Write a file by commands: a host need not have SFTP."""
        put_by_commands(self.run, content, target, mode=mode, where=self.described)

    def get(self, source: str) -> bytes:
        """Read a file by commands."""
        return get_by_commands(self.run, source, where=self.described)

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.end()

    def described(self) -> str:
        """Name the other end: `ssh user@host:port`."""
        return named(self._host)

    # ── one command ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _open(self, ends: float) -> tuple[_Connection, paramiko.Channel]:
        """Open a session for one command. No command was sent yet, so a broken connection is replaced once."""
        try:
            return self._open_over(self._enter(ends), ends)
        except _Broken:
            log.debug("ssh session was found broken", extra={"host": named(self._host)})
        try:
            return self._open_over(self._enter(ends), ends)
        except _Broken as error:
            raise NodeUnreachable(f"{self.described()}: no session: {error}; the command was not sent") from error

    def _open_over(self, connection: _Connection, ends: float) -> tuple[_Connection, paramiko.Channel]:
        try:
            return connection, self._session(connection, ends)
        except BaseException as error:
            connection.leave()
            if isinstance(error, _Broken):
                connection.retire()
            raise

    def _session(self, connection: _Connection, ends: float) -> paramiko.Channel:
        while True:
            try:
                return connection.session(ends)
            except paramiko.ChannelException as error:
                # The server has fewer sessions than we thought. One of our own commands has to end first.
                if not self._sessions.lower(max(0.0, ends - time.monotonic())):
                    raise NodeUnreachable(
                        f"{self.described()}: the server opens no session: {error.text}. Its sshd allows fewer than it "
                        "is said to (MaxSessions in sshd_config); the command was not sent"
                    ) from error
            except (paramiko.SSHException, EOFError, OSError) as error:
                raise _Broken(str(error) or type(error).__name__) from error

    def _converse(
        self,
        connection: _Connection,
        channel: paramiko.Channel,
        command: str,
        stdin: bytes | None,
        ends: float,
        timeout_s: float,
    ) -> Executed:
        """Send the command and read both of its output streams at once, as a full one would block the other."""
        expired = threading.Event()

        def expire() -> None:
            expired.set()
            channel.close()

        watch = threading.Timer(max(0.0, ends - time.monotonic()), expire)
        watch.start()
        errors: list[bytes] = []
        listener = threading.Thread(target=_listen, args=(channel, errors), daemon=True)
        feeder = threading.Thread(target=_feed, args=(channel, stdin or b""), daemon=True)
        try:
            channel.exec_command(command)
            channel.settimeout(_LAST_WORDS_S)
            listener.start()
            feeder.start()
            output = b"".join(_heard(channel, channel.recv))
            listener.join()
            exit_code = channel.recv_exit_status()
        except (paramiko.SSHException, EOFError, OSError) as error:
            raise self._lost(connection, command, expired, timeout_s, error) from error
        finally:
            watch.cancel()
        complaint = b"".join(errors).decode("utf-8", "replace")
        # The server tells the exit code before it has sent the last of the output: without its end, that may be cut short.
        doubtful = exit_code < 0 or not channel.eof_received
        if expired.is_set() or (doubtful and connection.is_ending()):
            raise self._lost(connection, command, expired, timeout_s, None)
        if exit_code < 0:
            complaint += "(ended by a signal)"
            exit_code = _ENDED_BY_A_SIGNAL
        return Executed(exit_code, output.decode("utf-8", "replace"), complaint)

    def _lost(
        self,
        connection: _Connection,
        command: str,
        expired: threading.Event,
        timeout_s: float,
        error: BaseException | None,
    ) -> NodeUnreachable:
        # A command that goes on over there keeps its session; and a connection that says nothing may be dead. The next
        # command gets another one, and this one ends when the last command that it still carries does.
        connection.retire()
        shown = command if len(command) <= 120 else f"{command[:117]}…"
        why = f"did not end within {timeout_s:g} s" if expired.is_set() else f"lost its session ({error or 'it ended'})"
        return NodeUnreachable(
            f"{self.described()}: `{shown}` {why}; it is not known whether it ran, and it is not repeated"
        )

    # ── the connection ───────────────────────────────────────────────────────────────────────────────────────────────

    def _enter(self, ends: float) -> _Connection:
        """Return the connection, a new one if the last has ended, with one more command counted."""
        left_s = max(_LEAST_S, ends - time.monotonic())
        if not self._lock.acquire(timeout=left_s):
            raise NodeUnreachable(f"{self.described()}: no login within {left_s:g} s; the command was not sent")
        try:
            if self._connection is None or not self._connection.is_usable():
                if self._connection is not None:
                    log.info("ssh session was lost: connecting again", extra={"host": named(self._host)})
                    self._connection.retire()
                self._connection = None
                limit_s = max(_LEAST_S, min(CONNECT_LIMIT_S, ends - time.monotonic()))
                self._connection = _Connection(log_in(self._host, limit_s=limit_s))
            self._connection.enter()
            return self._connection
        finally:
            self._lock.release()


class _Broken(Exception):
    """A connection turned out to be broken before the command was sent."""


class _Connection:
    """One login with the number of commands that it carries."""

    def __init__(self, clients: Sequence[paramiko.SSHClient]) -> None:
        """`clients` are the host's, then those of the jump hosts before it."""
        self._clients = clients
        transport = clients[0].get_transport()
        assert transport is not None, "a client that has just logged in has one"
        self._transport = transport
        self._lock = threading.Lock()
        self._opening = threading.Lock()
        self._carried = 0
        self._retired = False

    def is_usable(self) -> bool:
        """Return True if another command may be sent over it."""
        return not self._retired and bool(self._transport.is_active())

    def is_ending(self) -> bool:
        """Return True if it has ended or is about to: its channels are closed a moment before."""
        self._transport.join(_LAST_WORDS_S)
        return not self._transport.is_active()

    def session(self, ends: float) -> paramiko.Channel:
        """Open another channel; one at a time, because the library keeps a single reason for refusals."""
        with self._opening:
            if self._retired:
                raise EOFError("the connection was given up meanwhile")
            return self._transport.open_session(timeout=max(_LEAST_S, min(_OPEN_LIMIT_S, ends - time.monotonic())))

    def enter(self) -> None:
        with self._lock:
            self._carried += 1

    def leave(self) -> None:
        with self._lock:
            self._carried -= 1
            over = self._retired and not self._carried
        if over:
            self.end()

    def retire(self) -> None:
        """Close the connection once it carries no command."""
        with self._lock:
            self._retired = True
            over = not self._carried
        if over:
            self.end()

    def end(self) -> None:
        for client in self._clients:
            client.close()


class _Sessions:
    """The limit of commands at once over one connection, lowered when the server refuses one."""

    def __init__(self, limit: int) -> None:
        self._free = threading.Condition()
        self._limit = limit
        self._held = 0

    @contextmanager
    def held(self, timeout_s: float, described: object) -> Iterator[None]:
        """Hold one place for the length of a `with` block. Raises NodeUnreachable if none becomes free in time."""
        with self._free:
            if not self._free.wait_for(lambda: self._held < self._limit, timeout_s):
                where = described() if callable(described) else described
                raise NodeUnreachable(f"{where}: {self._held} commands are still going on; this one was not sent")
            self._held += 1
        try:
            yield
        finally:
            with self._free:
                self._held -= 1
                self._free.notify_all()

    def lower(self, timeout_s: float) -> bool:
        """Lower the limit by one for a holder that was refused, and wait for it. Return False if it held the only place."""
        with self._free:
            if self._held <= 1:
                return False
            self._limit = max(1, min(self._limit, self._held - 1))
            return self._free.wait_for(lambda: self._held <= self._limit, timeout_s)


def _heard(channel: paramiko.Channel, receive: Callable[[int], bytes]) -> Iterator[bytes]:
    """Read one output stream of a command to its end.

    A child that the command leaves behind (a server, for one) may hold the stream open: once the command itself has ended
    and nothing comes for a while, its output is complete. A short while is not enough: a busy sshd reports the end before
    it has sent the output.
    """
    silent_since: float | None = None
    while True:
        try:
            received = receive(_CHUNK)
        except TimeoutError:
            if not channel.exit_status_ready():
                continue
            silent_since = silent_since or time.monotonic()
            if time.monotonic() - silent_since >= _SILENT_S:
                return
            continue
        if not received:
            return
        silent_since = None
        yield received


def _listen(channel: paramiko.Channel, into: list[bytes]) -> None:
    with suppress(OSError, paramiko.SSHException):  # the reader of the other voice meets the same, and tells
        into.extend(_heard(channel, channel.recv_stderr))


def _feed(channel: paramiko.Channel, content: bytes) -> None:
    # A command that ends without having read its input closes the channel under us: that is its right.
    rest = memoryview(content)
    with suppress(OSError, paramiko.SSHException, EOFError):
        while rest and not channel.closed:
            with suppress(TimeoutError):  # it takes its time to read; nothing of this piece was sent
                rest = rest[channel.send(rest[:_CHUNK].tobytes()) :]
        channel.shutdown_write()
