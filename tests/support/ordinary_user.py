"""An ordinary user, for tests that root runs: which prefix makes one, and which Python that user can execute.

An interpreter below root's home is out of others' reach; then the system's of the same version is used, with the
packages of this one.
"""

from __future__ import annotations

import os
import shutil
import site
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]

_NOBODY = 65534
_TRY = """
import subprocess, sys
from schemaquake.clusters.local.namespaces import enclosure
sys.exit(subprocess.run([*enclosure(), sys.executable, "-c", "import schemaquake.harness.errors"]).returncode)
"""


@dataclass(frozen=True)
class User:
    """How to run Python as somebody: `[*prefix, python, …]` in `environment`."""

    name: str
    prefix: Sequence[str]
    python: str
    environment: Mapping[str, str]


class NoUser(Exception):
    """This machine has no such user, or its kernel forbids what is tried; the message is a reason to skip."""


@cache
def user(name: str) -> User:
    """`root` or `ordinary user`, able to run Python in an enclosure; raises NoUser with the reason."""
    if name == "root":
        if os.geteuid() != 0:
            raise NoUser("only root can be root")
        prefix, pythons = [], [sys.executable]
    else:
        nobody = ["setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups"]
        prefix = nobody if os.geteuid() == 0 else []
        system = shutil.which(f"python{sysconfig.get_python_version()}", path="/usr/bin:/usr/local/bin")
        pythons = [sys.executable, *([system] if system else [])]
    if prefix and shutil.which("setpriv") is None:
        raise NoUser("setpriv is not installed")
    refusals = []
    for python in pythons:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *site.getsitepackages()])}
        environment |= {"HOME": "/nonexistent"} if prefix else {}
        tried = subprocess.run(
            [*prefix, python, "-c", _TRY], cwd="/", env=environment, capture_output=True, text=True, check=False
        )
        if tried.returncode == 0:
            return User(name, prefix, python, environment)
        refusals.append(f"{python}: {(tried.stderr.strip().splitlines() or ['ended without a word'])[-1]}")
    raise NoUser(f"no enclosure for an {name} here: " + "; ".join(refusals))
