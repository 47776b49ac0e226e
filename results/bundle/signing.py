"""Signing: OpenSSH's signatures of a bundle's manifest, by keys that people have and forges publish.

`ssh-keygen -Y sign` writes a detached signature, `-Y verify` compares it with a list of allowed signers (`man ssh-keygen`, ALLOWED SIGNERS),
offline. The signature is of the manifest, so it holds for every archive of the same id.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from schemaquake.harness.atomic import write_bytes
from schemaquake.harness.errors import EnvironmentLacks, PlanError

__all__ = ["SIGNATURE", "Signature", "check_signature", "sign"]

SIGNATURE: Final = ".sig"
"""Suffix of the signature beside a bundle."""
_NAMESPACE: Final = "schemaquake"
_SECONDS: Final = 60
_KEY: Final = re.compile(r"key (SHA256:\S+)")


@dataclass(frozen=True, slots=True)
class Signature:
    """The result of checking a signature."""

    is_good: bool
    signer: str | None
    """The allowed signer whose key it is; None if no list of signers was given."""
    key: str | None
    """Fingerprint of the key."""
    reason: str = ""


def sign(manifest: bytes, key: Path, signature: Path) -> None:
    """Sign a manifest with a private or agent's key, into `signature`. Raises PlanError, EnvironmentLacks."""
    with tempfile.TemporaryDirectory(prefix="schemaquake-") as folder:
        message = Path(folder) / "manifest"
        message.write_bytes(manifest)
        done = _ssh_keygen(["-Y", "sign", "-f", str(key), "-n", _NAMESPACE, str(message)], b"")
        if done.returncode:
            raise PlanError(f"{key} does not sign: {_last_line(done.stderr)}")
        write_bytes(signature, message.with_suffix(SIGNATURE).read_bytes())


def check_signature(manifest: bytes, signature: Path, signers: Path | None) -> Signature:
    """Check a signature: against a list of allowed signers, or else only that it is of this manifest. Raises EnvironmentLacks."""
    if signers is None:
        done = _ssh_keygen(["-Y", "check-novalidate", "-n", _NAMESPACE, "-s", str(signature)], manifest)
        return Signature(done.returncode == 0, None, _key(done.stdout), _last_line(done.stderr))
    found = _ssh_keygen(["-Y", "find-principals", "-f", str(signers), "-s", str(signature)], manifest)
    names = found.stdout.decode(errors="replace").split("\n")[0].strip()
    if found.returncode or not names:
        return Signature(False, None, None, "its key is not among the allowed signers")
    name = names.split(",")[0]
    argv = ["-Y", "verify", "-f", str(signers), "-I", name, "-n", _NAMESPACE, "-s", str(signature)]
    done = _ssh_keygen(argv, manifest)
    return Signature(done.returncode == 0, name, _key(done.stdout), _last_line(done.stderr or done.stdout))


def _ssh_keygen(arguments: Sequence[str], message: bytes) -> subprocess.CompletedProcess[bytes]:
    program = shutil.which("ssh-keygen")
    if program is None:
        raise EnvironmentLacks("signatures need ssh-keygen, which comes with OpenSSH 8.2 and later")
    try:
        return subprocess.run([program, *arguments], input=message, capture_output=True, check=False, timeout=_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise EnvironmentLacks(
            f"ssh-keygen did not answer within {_SECONDS} s: does the key need a passphrase?"
        ) from error


def _key(output: bytes) -> str | None:
    match = _KEY.search(output.decode(errors="replace"))
    return match[1] if match else None


def _last_line(output: bytes) -> str:
    lines = output.decode(errors="replace").strip().splitlines()
    return lines[-1].strip() if lines else ""
