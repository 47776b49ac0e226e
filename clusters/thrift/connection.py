"""Thrift connection: one framed TCP connection to one coordinator, and one call at a time on it.

Nothing is sent twice. A call whose answer did not come leaves the connection unusable, for the late answer would be
taken for the next one's: it is closed, and opened again before the next operation begins.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Any, Final

from thriftpy2.protocol import TBinaryProtocolFactory
from thriftpy2.thrift import TApplicationException, TClient, TException
from thriftpy2.transport import TFramedTransportFactory, TSocket, TTransportException

from schemaquake.clusters.thrift.dialects import DIALECTS, Dialect, dialect_of
from schemaquake.harness.errors import ClusterError
from schemaquake.harness.wait import until

__all__ = ["CallFailed", "Connection", "NotConnected", "words"]

_ATTEMPT_S: Final = 5.0


class NotConnected(Exception):
    """There is no connection to the coordinator, so nothing was sent."""


class CallFailed(Exception):
    """A call did not end well: which, and what was raised. Its text is the call's name, then what the server said."""

    def __init__(self, call: str, error: BaseException) -> None:
        super().__init__(": ".join(filter(None, (call, words(error)))))
        self.call = call
        self.error = error


def words(error: BaseException) -> str:
    """What an error says, on one line: a server's own words where it sent any."""
    told = getattr(error, "why", None) or getattr(error, "message", None)
    text = told if told is not None else ("" if isinstance(error, TException) else str(error))
    return " ".join(str(text).split())


class Connection:
    """Lazily opened; the server says which interface it speaks when it is first reached. Not thread-safe."""

    def __init__(self, address: str, port: int, *, timeout_s: float) -> None:
        """`timeout_s` is how long one call may wait for its answer."""
        self.address = address
        self._port = port
        self._timeout_s = timeout_s
        self._socket: TSocket | None = None
        self._client: TClient | None = None
        self._dialect: Dialect | None = None

    @property
    def dialect(self) -> Dialect:
        """What the server speaks; known once it was reached."""
        if self._dialect is None:
            raise NotConnected(f"{self.address}:{self._port} was never reached")
        return self._dialect

    def ensure(self, *, deadline_s: float) -> None:
        """Open the connection if it is not, or no longer; nothing of an operation was sent yet, so this is no retry.

        Raises NotConnected with the last refusal when the deadline passes, ClusterError if the server speaks another
        interface.
        """
        refusal: BaseException | None = None

        def attempt() -> bool:
            nonlocal refusal
            if self._stands():
                return True
            self.close()
            try:
                self._open()
            except (OSError, TException, EOFError) as error:
                self.close()
                refusal = error
                return False
            except ClusterError:
                self.close()
                raise
            return True

        try:
            until(attempt, deadline_s=deadline_s, what="a connection", every_s=0.1)
        except TimeoutError:
            text = "no answer" if refusal is None else words(refusal) or type(refusal).__name__
            raise NotConnected(f"no connection to {self.address}:{self._port}: {text}") from refusal

    def _open(self) -> None:
        self._socket = TSocket(
            self.address,
            self._port,
            socket_timeout=self._timeout_s * 1000,
            connect_timeout=min(self._timeout_s, _ATTEMPT_S) * 1000,
        )
        transport = TFramedTransportFactory().get_transport(self._socket)
        transport.open()
        protocol = TBinaryProtocolFactory(strict_read=False).get_protocol(transport)
        if self._dialect is None:
            # Of what every interface has in common, any of them will do to ask.
            self._dialect = dialect_of(TClient(DIALECTS[0].idl.Cassandra, protocol).describe_version())
        self._client = TClient(self._dialect.idl.Cassandra, protocol)

    def _stands(self) -> bool:
        """Whether the connection is open, and the server has not closed its end meanwhile."""
        if self._client is None or self._socket is None or self._socket.sock is None:
            return False
        try:
            self._socket.sock.setblocking(False)
            # An answer that nobody waits for would be as bad as the end of the stream.
            self._socket.sock.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        finally:
            with suppress(OSError):
                self._socket.sock.settimeout(self._timeout_s)
        return False

    def call(self, name: str, *arguments: Any) -> Any:
        """Make one call and wait for its answer. Raises CallFailed; NotConnected if there is no connection."""
        if self._client is None:
            raise NotConnected(f"the connection to {self.address}:{self._port} broke")
        try:
            return getattr(self._client, name)(*arguments)
        except TTransportException as error:
            self.close()
            raise CallFailed(name, error) from error
        except (TApplicationException, *self.dialect.declared) as error:
            raise CallFailed(name, error) from error
        except Exception as error:
            self.close()
            raise CallFailed(name, error) from error

    def close(self) -> None:
        """End the connection; it may be opened again."""
        if self._socket is not None:
            self._socket.close()
        self._socket = self._client = None
