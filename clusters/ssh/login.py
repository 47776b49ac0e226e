"""SSH login: an authenticated connection to a host whose key is known, or a refusal with its remedy.

The host's key must be known beforehand, from a known_hosts file or as a pinned fingerprint: an unknown or changed key is
refused, with the command that would make it known. A jump host is logged in to the same way.
"""

from __future__ import annotations

import base64
import hashlib
import shlex
import socket
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

import paramiko

from schemaquake.clusters.cluster_file.model import SshAccess
from schemaquake.clusters.ssh.known_hosts import (
    KnownHosts,
    as_key,
    certified_keys,
    read_known_hosts,
    scan_certificates,
)
from schemaquake.clusters.ssh.relay import relayed
from schemaquake.harness.errors import NodeUnreachable

__all__ = ["CONNECT_LIMIT_S", "HostKeyRefused", "fingerprint", "log_in", "named"]

CONNECT_LIMIT_S: Final = 10.0
_LOGIN_LIMIT_S: Final = 20.0
_OPEN_LIMIT_S: Final = 10.0
_KEEPALIVE_S: Final = 10
# How long data may stay unacknowledged, in ms: a connection that is cut is given up long before TCP itself would.
_UNACKNOWLEDGED_MS: Final = 30_000
_NO_KEY: Final = "No authentication methods available"
"""The message of the library's error when there is no key to try; it has no class of its own."""
_SSH_PORT: Final = 22
_SYSTEM_KNOWN_HOSTS: Final = Path("/etc/ssh/ssh_known_hosts")


class HostKeyRefused(NodeUnreachable):
    """The host showed another key than the known one; no credentials were sent to it."""


def named(host: SshAccess) -> str:
    """Name the connection: `ssh user@host:port`."""
    return f"ssh {host.user}@{host.host}:{host.port}"


def fingerprint(key: paramiko.PKey) -> str:
    """Render the fingerprint of a key in the form that `ssh-keygen -l` prints."""
    digest = hashlib.sha256(key.asbytes()).digest()
    return "SHA256:" + base64.b64encode(digest).decode("ascii").rstrip("=")


def log_in(host: SshAccess, *, limit_s: float = CONNECT_LIMIT_S) -> Sequence[paramiko.SSHClient]:
    """Log in, through the jump hosts, and return the clients, the host's own first. `limit_s` does not include the login.

    Raises NodeUnreachable, HostKeyRefused.
    """
    before: Sequence[paramiko.SSHClient] = ()
    client = paramiko.SSHClient()
    with ExitStack() as on_failure:
        on_failure.callback(client.close)
        connection: socket.socket | paramiko.Channel
        if host.jump is None:
            connection = _socket_to(host, limit_s)
        else:
            before = log_in(host.jump, limit_s=limit_s)
            for jump in reversed(before):
                on_failure.callback(jump.close)
            connection = _channel_to(host, host.jump, before[0], limit_s)
        on_failure.callback(connection.close)  # the client has it only once the keys are known
        _know(client, host, before[0] if before else None, limit_s)
        _authenticate(client, host, connection)
        on_failure.pop_all()
    transport = client.get_transport()
    assert transport is not None, "a client that has just logged in has one"
    transport.set_keepalive(_KEEPALIVE_S)
    return (client, *before)


def _socket_to(host: SshAccess, limit_s: float) -> socket.socket:
    try:
        connection = socket.create_connection((host.host, host.port), timeout=limit_s)
    except OSError as error:
        raise NodeUnreachable(
            f"{named(host)}: cannot be reached: {error.strerror or error}. Check address and port, and that sshd runs there"
        ) from error
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNACKNOWLEDGED_MS)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _channel_to(host: SshAccess, through: SshAccess, jump: paramiko.SSHClient, limit_s: float) -> paramiko.Channel:
    transport = jump.get_transport()
    assert transport is not None, "a client that has just logged in has one"
    try:
        return transport.open_channel("direct-tcpip", (host.host, host.port), ("127.0.0.1", 0), timeout=limit_s)
    except (paramiko.SSHException, OSError, EOFError) as error:
        words = error.text if isinstance(error, paramiko.ChannelException) else str(error)
        raise NodeUnreachable(f"{named(host)}: cannot be reached through {named(through)}: {words}") from error


def _know(client: paramiko.SSHClient, host: SshAccess, jump: paramiko.SSHClient | None, limit_s: float) -> None:
    """Load the keys that the host may show into the client. `jump` is the client of the host's jump host."""
    if host.fingerprint is not None:
        client.set_missing_host_key_policy(_Pinned(host))
        return
    try:
        known = read_known_hosts(_known_hosts(host), host.host, host.port)
    except OSError as error:
        raise HostKeyRefused(f"{named(host)}: {error.filename} cannot be read: {error.strerror}") from error
    trusted = known.trusted
    if not trusted and known.authorities:
        trusted = _certified(known, host, jump, limit_s)
    client.set_missing_host_key_policy(_Unknown(host, known))
    name = host.host if host.port == _SSH_PORT else f"[{host.host}]:{host.port}"
    for key in filter(None, map(as_key, sorted(trusted))):
        client.get_host_keys().add(name, key.get_name(), key)


def _certified(known: KnownHosts, host: SshAccess, jump: paramiko.SSHClient | None, limit_s: float) -> frozenset[bytes]:
    """Return the keys in the certificates of the host, which is asked for them on the way that the login takes."""
    if jump is None or host.jump is None:
        return certified_keys(known, host.host, scanned=scan_certificates(host.host, host.port))
    with relayed(partial(_channel_to, host, host.jump, jump, limit_s)) as port:
        return certified_keys(known, host.host, scanned=list(scan_certificates("127.0.0.1", port)))


def _known_hosts(host: SshAccess) -> Sequence[Path]:
    """List the known_hosts file that was named, else the user's and the machine's."""
    if host.known_hosts is not None:
        return [host.known_hosts] if host.known_hosts.exists() else []
    return [path for path in (_own_known_hosts(), _SYSTEM_KNOWN_HOSTS) if path.exists()]


def _own_known_hosts() -> Path:
    return Path("~/.ssh/known_hosts").expanduser()


class _Pinned(paramiko.MissingHostKeyPolicy):
    """A policy that accepts the key with the pinned fingerprint and no other."""

    def __init__(self, host: SshAccess) -> None:
        self._host = host

    def missing_host_key(self, _client: paramiko.SSHClient, _hostname: str, key: paramiko.PKey) -> None:
        """Raises HostKeyRefused unless it is the pinned one."""
        shown = fingerprint(key)
        if shown != self._host.fingerprint:
            raise HostKeyRefused(
                f"{named(self._host)}: its key ({key.get_name()}) is {shown}, not {self._host.fingerprint} as pinned: it is "
                "another host, or the pin is of another of its keys. All of them: "
                f"`{shlex.join(['ssh-keyscan', '-p', str(self._host.port), self._host.host])} | ssh-keygen -lf -`"
            )


class _Unknown(paramiko.MissingHostKeyPolicy):
    """A policy that accepts no unknown key."""

    def __init__(self, host: SshAccess, known: KnownHosts) -> None:
        self._host = host
        self._known = known

    def missing_host_key(self, _client: paramiko.SSHClient, _hostname: str, key: paramiko.PKey) -> None:
        """Raises HostKeyRefused with the command that makes the key known, or why it is not accepted."""
        _refuse_revoked(self._host, self._known, key)
        if self._known.authorities:
            raise HostKeyRefused(
                f"{named(self._host)}: it shows no certificate of an authority that is known for it, and its key "
                f"{fingerprint(key)} ({key.get_name()}) is not known either: check its HostCertificate, with its names and its time"
            )
        raise HostKeyRefused(
            f"{named(self._host)}: its host key is unknown here. It showed {fingerprint(key)} ({key.get_name()}); if that is "
            f"what `ssh-keygen -lf /etc/ssh/ssh_host_{_short(key)}_key.pub` says on that host, make it known: "
            f"`{_make_known(self._host, key)}`"
        )


def _refuse_revoked(host: SshAccess, known: KnownHosts, key: paramiko.PKey) -> None:
    """Raise HostKeyRefused for a key that known_hosts marks as revoked."""
    if key.asbytes() in known.revoked:
        raise HostKeyRefused(
            f"{named(host)}: its host key {fingerprint(key)} ({key.get_name()}) is marked as @revoked in known_hosts: whoever "
            "answers there has a key that was given up. Do not log in; give the host a new key"
        )


def _make_known(host: SshAccess, key: paramiko.PKey) -> str:
    scan = shlex.join(["ssh-keyscan", "-t", _short(key), "-p", str(host.port), host.host])
    return f"{scan} >> {shlex.quote(str(host.known_hosts or _own_known_hosts()))}"


def _short(key: paramiko.PKey) -> str:
    """Name the kind of a key as OpenSSH does: ed25519, ecdsa, rsa."""
    return key.get_name().removeprefix("ssh-").split("-")[0]


def _authenticate(client: paramiko.SSHClient, host: SshAccess, connection: socket.socket | paramiko.Channel) -> None:
    try:
        client.connect(
            host.host,
            port=host.port,
            username=host.user,
            key_filename=None if host.key is None else str(host.key),
            allow_agent=host.agent,
            look_for_keys=host.key is None,
            sock=connection,
            timeout=CONNECT_LIMIT_S,
            banner_timeout=_LOGIN_LIMIT_S,
            auth_timeout=_LOGIN_LIMIT_S,
            channel_timeout=_OPEN_LIMIT_S,
        )
    except paramiko.BadHostKeyException as error:
        known = shlex.quote(str(host.known_hosts or _own_known_hosts()))
        name = host.host if host.port == _SSH_PORT else f"[{host.host}]:{host.port}"
        raise HostKeyRefused(
            f"{named(host)}: its host key is not the one it is known by: it showed {fingerprint(error.key)}, known is "
            f"{fingerprint(error.expected_key)}. Another host may answer at that address. If the host was made anew: "
            f"`ssh-keygen -f {known} -R {shlex.quote(name)}` and `{_make_known(host, error.key)}`"
        ) from error
    except paramiko.PasswordRequiredException as error:
        raise NodeUnreachable(
            f"{named(host)}: {host.key} is locked by a passphrase. Unlock it in an agent (`ssh-add {host.key}`) and set agent"
        ) from error
    except paramiko.AuthenticationException as error:
        shown = f"the key {host.key}" if host.key else "any key of the agent or of this user"
        offer = f"-i {shlex.quote(str(host.key))} " if host.key else ""
        raise NodeUnreachable(
            f"{named(host)}: the host does not accept {shown} for {host.user} ({error}). Give it the public half: "
            f"`ssh-copy-id {offer}-p {host.port} {host.user}@{host.host}`"
        ) from error
    except FileNotFoundError as error:
        raise NodeUnreachable(f"{named(host)}: there is no private key {error.filename}") from error
    except (paramiko.SSHException, EOFError, OSError) as error:
        if _NO_KEY in str(error):
            raise NodeUnreachable(
                f"{named(host)}: there is no key to log in with: name one ([ssh] key), or give one to an agent (ssh-add)"
            ) from error
        raise NodeUnreachable(f"{named(host)}: no login: {error or type(error).__name__}") from error
