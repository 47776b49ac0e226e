"""Thrift connection: one framed TCP connection to one coordinator, and one call at a time on it.

Nothing is sent twice. A call without an answer leaves the connection unusable, because the late answer would be taken
for that of the next call: it is closed, and opened again before the next operation begins.
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

__all__ = ["CallFailed", "Connection", "NotConnected", "error_text"]

_ATTEMPT_S: Final = 5.0


class NotConnected(Exception):
    """There is no connection to the coordinator, so nothing was sent."""


class CallFailed(Exception):
    """A call that raised an error. Its text is the call's name, then the server's text."""

    def __init__(self, call: str, error: BaseException) -> None:
        super().__init__(": ".join(filter(None, (call, error_text(error)))))
        self.call = call
        self.error = error


def error_text(error: BaseException) -> str:
    """Render an error's text on one line: the server's own text if it sent one."""
    server_text = getattr(error, "why", None) or getattr(error, "message", None)
    text = server_text if server_text is not None else ("" if isinstance(error, TException) else str(error))
    return " ".join(str(text).split())


class Connection:
    """A connection that is opened on first use, when the server names its interface. Not thread-safe."""

    def __init__(self, address: str, port: int, *, timeout_s: float) -> None:
        """Set the address, and the limit in seconds for one call's answer."""
        self.address = address
        self._port = port
        self._timeout_s = timeout_s
        self._socket: TSocket | None = None
        self._client: TClient | None = None
        self._dialect: Dialect | None = None

    @property
    def dialect(self) -> Dialect:
        """The server's interface. Raises NotConnected before the first connection."""
        if self._dialect is None:
            raise NotConnected(f"{self.address}:{self._port} was never reached")
        return self._dialect

    def ensure(self, *, deadline_s: float) -> None:
        """Open the connection unless it is open. The operation has sent nothing yet, so this is no retry.

        Raises NotConnected with the last refusal when the deadline passes, ClusterError if the server has another
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
            text = "no answer" if refusal is None else error_text(refusal) or type(refusal).__name__
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
            # The first call is common to all interfaces, so any of them can make it.
            self._dialect = dialect_of(TClient(DIALECTS[0].idl.Cassandra, protocol).describe_version())
        self._client = TClient(self._dialect.idl.Cassandra, protocol)

    def _stands(self) -> bool:
        """Return True if the connection is open and the server has not closed its end."""
        if self._client is None or self._socket is None or self._socket.sock is None:
            return False
        try:
            self._socket.sock.setblocking(False)
            # An answer without a call would be as bad as the end of the stream.
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
        """Make one call and return its answer. Raises CallFailed; NotConnected if there is no connection."""
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
        """Close the connection. It may be opened again."""
        if self._socket is not None:
            self._socket.close()
        self._socket = self._client = None
