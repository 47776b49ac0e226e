"""Docker transport: commands and files to a container by its engine's exec and archive calls.

An exec is an argument vector, without a shell. Its streams come as frames on one socket, which is read and written at
once: a command that prints before it has read all its input would otherwise wait for ever.
"""

from __future__ import annotations

import io
import posixpath
import re
import selectors
import socket
import struct
import tarfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final
from uuid import uuid4

import requests
from docker.errors import APIError, NotFound

from schemaquake.harness.errors import ClusterError, NodeUnreachable
from schemaquake.harness.model.protocols import Executed
from schemaquake.harness.wait import until

__all__ = ["DockerTransport"]

_HEADER: Final = struct.Struct(">BxxxL")
"""The header of each piece of output: its stream and its length."""
_STDERR: Final = 2
_CHUNK: Final = 65536
_NOT_FOUND: Final = re.compile(
    r"OCI runtime exec failed:.*(?:executable file not found|no such file or directory)", re.DOTALL
)
_COMMAND_NOT_FOUND: Final = 127
_LINKS_MAX: Final = 8
_CONFLICT: Final = 409


class DockerTransport:
    """A `schemaquake.clusters.nodes.transport.Transport` to one container; commands run as its root."""

    def __init__(self, client: Any, container: str, *, name: str) -> None:
        """`client` is a `docker.DockerClient`, which may be shared; `container` an id, `name` the container's name."""
        self._api = client.api
        self._container = container
        self._name = name

    def described(self) -> str:
        """Name the other end: `container schemaquake-…-n1`."""
        return f"container {self._name}"

    def close(self) -> None:
        """Do nothing: no session is open between commands."""

    def run(self, argv: Sequence[str], *, timeout_s: float = 30, stdin: bytes | None = None) -> Executed:
        """Run a command; see `Transport.run`. A command that the image does not have ends with 127, whatever the engine's version says."""
        ends = time.monotonic() + timeout_s
        with self._reaching(f"`{' '.join(argv)}`"):
            identity = self._api.exec_create(self._container, list(argv), stdin=stdin is not None, user="0")["Id"]
            with _opened(self._api.exec_start(identity, socket=True)) as (wire, early):
                stdout, stderr = _converse(wire, early, stdin, ends)
            # The end of the streams comes a moment before the engine knows of the end of the process, or long before it.
            code = until(partial(self._ended, identity), deadline_s=max(0.0, ends - time.monotonic()), what="its end")[
                0
            ]
        output = stdout.decode(errors="replace"), stderr.decode(errors="replace")
        if code and _NOT_FOUND.search(output[0] + output[1]):
            return Executed(_COMMAND_NOT_FOUND, "", (output[0] + output[1]).strip())
        return Executed(code, *output)

    def put(self, content: bytes, target: str, *, mode: int = 0o644) -> None:
        """Put a file on the node; see `Transport.put`. It is unpacked beside its place, then renamed."""
        folder, name = posixpath.split(target)
        temporary = f".{name}.{uuid4().hex[:8]}"
        with self._reaching(f"writing {target}"):
            try:
                self._api.put_archive(self._container, folder or "/", _archive(temporary, content, mode))
            except NotFound as error:
                raise ClusterError(f"{self.described()} has no folder {folder} to write {name} into") from error
        there = posixpath.join(folder, temporary)
        moved = self.run(["mv", "-f", "--", there, target])
        if moved.exit_code != 0:
            self.run(["rm", "-f", "--", there])
            raise ClusterError(f"{self.described()}: {target} could not be written: {moved.stderr.strip()}")

    def get(self, source: str) -> bytes:
        """Get a file of the node; see `Transport.get`. Links are followed, wherever in the container they lead."""
        path = source
        for _ in range(_LINKS_MAX):
            with self._reaching(f"reading {source}"):
                try:
                    chunks, _ = self._api.get_archive(self._container, path)
                    packed = b"".join(chunks)
                except NotFound:
                    raise FileNotFoundError(f"{self.described()} has no {source}") from None
            with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
                member = archive.next()
                assert member is not None
                if not member.issym():
                    content = archive.extractfile(member)
                    if content is None:
                        raise ClusterError(f"{self.described()}: {source} is no file")
                    return content.read()
                path = posixpath.normpath(posixpath.join(posixpath.dirname(path), member.linkname))
        raise ClusterError(f"{self.described()}: {source} is a link to a link, {_LINKS_MAX} times over")

    def _ended(self, identity: str) -> tuple[int] | None:
        inspected = self._api.exec_inspect(identity)
        return None if inspected["Running"] or inspected["ExitCode"] is None else (int(inspected["ExitCode"]),)

    @contextmanager
    def _reaching(self, what: str) -> Iterator[None]:
        """Turn the engine's failures to answer into NodeUnreachable."""
        try:
            yield
        except TimeoutError as error:
            raise NodeUnreachable(f"{self.described()}: {what} did not end in time ({error})") from error
        except APIError as error:
            words = str(error.explanation or error).strip()
            if error.status_code == _CONFLICT or isinstance(error, NotFound):
                raise NodeUnreachable(f"{self.described()} is not running: {words}") from error
            raise ClusterError(f"{self.described()}: {what}: the docker engine says: {words}") from error
        except (requests.RequestException, ConnectionError) as error:
            raise NodeUnreachable(f"{self.described()}: the docker engine does not answer: {error}") from error


def _archive(name: str, content: bytes, mode: int) -> bytes:
    """Pack one file, owned by root, into a tar archive."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        member = tarfile.TarInfo(name)
        member.size, member.mode, member.mtime = len(content), mode, int(time.time())
        archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


@contextmanager
def _opened(hijacked: Any) -> Iterator[tuple[socket.socket, bytes]]:
    """Find the socket under the SDK's object, made non-blocking, and the bytes that were already received from it.

    Both are closed in the end: closing the file alone leaves the socket open.
    """
    wire: socket.socket = getattr(hijacked, "_sock", hijacked)
    try:
        wire.setblocking(False)
        yield wire, _received_with_the_head(hijacked)
    finally:
        hijacked.close()
        wire.close()


def _received_with_the_head(hijacked: Any) -> bytes:
    """The first output of a quick command may come in one piece with the head of the engine's answer.

    Then the reader of that head has it in its buffer, and the socket, which is all that the SDK hands out, does not.
    """
    reader = hijacked
    for name in ("_response", "raw", "_fp", "fp"):
        reader = getattr(reader, name, None)
    return reader.peek() if isinstance(reader, io.BufferedReader) else b""


def _converse(wire: socket.socket, early: bytes, stdin: bytes | None, ends: float) -> tuple[bytes, bytes]:
    """Send `stdin` and its end to the command, and read its output to the end. Raises TimeoutError at `ends`."""
    received = bytearray(early)
    pending = memoryview(stdin or b"")
    with selectors.DefaultSelector() as selector:
        selector.register(wire, selectors.EVENT_READ | (selectors.EVENT_WRITE if stdin is not None else 0))
        while True:
            ready = selector.select(max(0.0, ends - time.monotonic()))
            if not ready:
                raise TimeoutError("no more output, and no end")
            events = ready[0][1]
            if events & selectors.EVENT_WRITE:
                pending = _tell(wire, pending)
                if not pending:
                    selector.modify(wire, selectors.EVENT_READ)
            if events & selectors.EVENT_READ:
                piece = _hear(wire, was_told=stdin is not None)
                if not piece:
                    return _parted(bytes(received))
                received += piece


def _hear(wire: socket.socket, *, was_told: bool) -> bytes:
    """Receive a piece of output, empty at its end. Raises ConnectionResetError."""
    try:
        return wire.recv(_CHUNK)
    except ConnectionResetError:
        if not was_told:
            raise
        # The engine has closed while input lay unread, because the command had ended: that is told once, before the end.
        return wire.recv(_CHUNK)


def _tell(wire: socket.socket, pending: memoryview) -> memoryview:
    """Send a piece, and the end of input after the last; return what is left, empty if the command has closed its input."""
    try:
        left = pending[wire.send(pending[:_CHUNK]) :] if pending else pending
        if not left:
            wire.shutdown(socket.SHUT_WR)
    except (BrokenPipeError, ConnectionResetError):
        return pending[:0]  # a command may end without having heard everything
    return left


def _parted(received: bytes) -> tuple[bytes, bytes]:
    """Split the frames into standard output and standard error."""
    streams = {1: bytearray(), _STDERR: bytearray()}
    place = 0
    while place + _HEADER.size <= len(received):
        stream, length = _HEADER.unpack_from(received, place)
        place += _HEADER.size
        streams[_STDERR if stream == _STDERR else 1] += received[place : place + length]
        place += length
    return bytes(streams[1]), bytes(streams[_STDERR])
