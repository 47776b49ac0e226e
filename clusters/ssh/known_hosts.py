"""Known hosts: the keys and authorities by which a host is known, from files as OpenSSH keeps them (sshd(8), SSH_KNOWN_HOSTS).

Names may be patterns with `*` and `?`, negated, hashed, and have a port (`[host]:2222`); a line may be marked
`@cert-authority` or `@revoked`. A host's certificate is asked for by `ssh-keyscan -c`, and the key in it is then the one
that the host must prove to have: who only repeats another host's certificate has no such key.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import translate
from pathlib import Path
from typing import Final, Literal

import paramiko
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    SSHCertificate,
    SSHCertificateType,
    load_ssh_public_identity,
)

from schemaquake.harness.child_environment import child_environment

__all__ = ["KnownHosts", "as_key", "certified_keys", "read_known_hosts", "scan_certificates"]

_SSH_PORT: Final = 22
_SCANS_WITHIN_S: Final = 20.0
_CERTIFICATE: Final = re.compile(rb"[\w-]+-cert-v01@openssh\.com [A-Za-z0-9+/=]+")
_MARKERS: Final = {"@cert-authority": "authority", "@revoked": "revoked"}


@dataclass(frozen=True, slots=True)
class _Line:
    kind: Literal["key", "authority", "revoked"]
    names: str
    key_type: str
    blob: bytes

    def knows(self, name: str) -> bool:
        """Return True if the line is about that name; one negated pattern that fits is enough for it not to be."""
        if self.names.startswith("|1|"):
            return _is_hash_of(name, self.names)
        fits = False
        for pattern in self.names.split(","):
            if re.fullmatch(_expression(pattern.removeprefix("!")), name, re.IGNORECASE):
                if pattern.startswith("!"):
                    return False
                fits = True
        return fits


@dataclass(frozen=True, slots=True)
class KnownHosts:
    """The entries of the files for one host: blobs of public keys."""

    keys: frozenset[bytes]
    authorities: frozenset[bytes]
    revoked: frozenset[bytes]

    @property
    def trusted(self) -> frozenset[bytes]:
        """The keys that the host may show."""
        return self.keys - self.revoked


def read_known_hosts(paths: Sequence[Path], host: str, port: int) -> KnownHosts:
    """Read what the files say of a host. Raises OSError; lines that are none are left out, as OpenSSH does."""
    lines = [line for path in paths for line in _lines(path.read_text(encoding="utf-8", errors="replace"))]
    name = host if port == _SSH_PORT else f"[{host}]:{port}"
    # An authority vouches for a host at any of its ports, as with OpenSSH.
    either = {"authority": {name, host}, "revoked": {name, host}, "key": {name}}
    found: dict[str, set[bytes]] = {"key": set(), "authority": set(), "revoked": set()}
    for line in lines:
        if any(line.knows(each) for each in either[line.kind]):
            found[line.kind].add(line.blob)
    return KnownHosts(frozenset(found["key"]), frozenset(found["authority"]), frozenset(found["revoked"]))


def certified_keys(
    known: KnownHosts, host: str, *, scanned: Iterable[bytes], now: float | None = None
) -> frozenset[bytes]:
    """Return the keys that these certificates hold which name the host, of authorities that are known for it and not revoked."""
    found = set()
    for line in scanned:
        try:
            identity = load_ssh_public_identity(line)
        except (ValueError, UnsupportedAlgorithm):
            continue
        if isinstance(identity, SSHCertificate) and _is_valid(
            identity, known, host, time.time() if now is None else now
        ):
            key = identity.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
            found.add(base64.b64decode(key.split()[1]))
    return frozenset(found) - known.revoked


def as_key(blob: bytes) -> paramiko.PKey | None:
    """Make the library's key of a blob; None for a type that it does not know."""
    try:
        return paramiko.PKey.from_type_string(_type_of(blob), blob)
    except (paramiko.SSHException, ValueError, KeyError):
        return None


def _is_valid(certificate: SSHCertificate, known: KnownHosts, host: str, now: float) -> bool:
    """Check type, time, principals, critical options, authority and signature of a host's certificate."""
    authority = certificate.signature_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    blob = base64.b64decode(authority.split()[1])
    if blob not in known.authorities - known.revoked or certificate.type is not SSHCertificateType.HOST:
        return False
    if not certificate.valid_after <= now < certificate.valid_before or certificate.critical_options:
        return False
    # A certificate without a name is for every host: OpenSSH takes none of those any more.
    if not any(re.fullmatch(_expression(name.decode()), host, re.IGNORECASE) for name in certificate.valid_principals):
        return False
    try:
        certificate.verify_cert_signature()
    except InvalidSignature:
        return False
    return True


def scan_certificates(host: str, port: int) -> Iterator[bytes]:
    """Yield the certificates that a host shows to anybody, as lines of public keys; none where it does not answer."""
    try:
        done = subprocess.run(
            ["ssh-keyscan", "-c", "-p", str(port), "-T", "10", host],
            capture_output=True, check=False, timeout=_SCANS_WITHIN_S, stdin=subprocess.DEVNULL, env=child_environment(),
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return
    # With or without the host's name before it: versions of OpenSSH differ.
    yield from (found[0] for found in _CERTIFICATE.finditer(done.stdout))


def _lines(text: str) -> Iterator[_Line]:
    for raw in text.splitlines():
        words = raw.split()
        if not words or words[0].startswith("#"):
            continue
        kind = _MARKERS.get(words[0], "key")
        if words[0].startswith("@"):
            if words[0] not in _MARKERS:
                continue
            words = words[1:]
        if len(words) < 3:
            continue
        try:
            blob = base64.b64decode(words[2], validate=True)
        except ValueError:
            continue
        if _type_of(blob) == words[1]:
            yield _Line(kind, words[0], words[1], blob)  # type: ignore[arg-type]  # a value of the table above


def _type_of(blob: bytes) -> str:
    length = int.from_bytes(blob[:4], "big")
    return blob[4 : 4 + length].decode("ascii", errors="replace")


def _is_hash_of(name: str, hashed: str) -> bool:
    try:
        salt, digest = (base64.b64decode(part, validate=True) for part in hashed.split("|")[2:4])
    except ValueError:
        return False
    return hmac.compare_digest(hmac.new(salt, name.encode(), hashlib.sha1).digest(), digest)


def _expression(pattern: str) -> str:
    """Translate a pattern, in which only `*` and `?` are special, and brackets stand for themselves."""
    return translate(pattern.replace("[", "[[]"))
