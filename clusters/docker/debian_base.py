"""Debian base: an image to put a server on, made on this machine by debootstrap where no registry can be reached.

The suite is this machine's own unless another is asked for, and so is the mirror: apt's own sources name it. The base
has a Java, the packet filter, `ip` and `tc`, procps, and libfaketime; it is imported once and then reused.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from schemaquake.clusters.docker.engine import DockerEngine
from schemaquake.harness.child_environment import FETCHING, child_environment
from schemaquake.harness.errors import EnvironmentLacks, FetchError
from schemaquake.harness.limited_command import run_limited

__all__ = [
    "JAVA_LABEL",
    "base_name",
    "ensure_base",
    "import_base",
    "java_of",
    "own_mirror",
    "own_suite",
    "packed_base",
]

JAVA_LABEL: Final = "io.schemaquake.java"

_PACKAGES: Final = ("iptables", "iproute2", "procps", "libfaketime")
_JAVAS: Final[Mapping[str, int]] = {"trixie": 21, "forky": 21}
"""The Java of suites that no longer have the one that suits every version of Cassandra."""
_USUAL_JAVA: Final = 17
_COMPONENTS: Final[Mapping[str, str]] = {"ubuntu": "main,universe"}
_LEFT_OUT: Final = (
    "./proc/*",
    "./sys/*",
    "./dev/*",
    "./tmp/*",
    "./var/cache/apt/*",
    "./var/lib/apt/lists/*",
    "./usr/share/doc/*",
    "./usr/share/man/*",
    "./usr/share/locale/*",
)
_TELL_EVERY_S: Final = 5
_BOOTSTRAP_WITHIN_S: Final = 3600.0
"""The limit of debootstrap, which takes some minutes from a mirror that is near."""
_APT_WITHIN_S: Final = 60.0
"""The limit of a question to apt, which only reads its configuration and lists."""
# In namespaces of its own: its mounts end with it and never keep its folder from being deleted.
_ALONE: Final = ("unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child=SIGKILL")


def java_of(suite: str) -> int:
    """Return the major version of the Java in the base of that suite."""
    return _JAVAS.get(suite, _USUAL_JAVA)


def ensure_base(
    engine: DockerEngine, *, suite: str | None, mirror: str | None, progress: Callable[[str], None]
) -> tuple[str, int]:
    """Make the base image of `suite` (None: this machine's) unless the engine has it; return its name and its Java.

    Raises EnvironmentLacks if it cannot be made here, FetchError with debootstrap's own words if it fails.
    """
    chosen = suite or own_suite()
    name = base_name(chosen)
    if engine.has_image(name):
        return name, java_of(chosen)
    with packed_base(chosen, mirror=mirror, progress=progress) as archive:
        progress(f"{name}: importing it")
        import_base(engine, archive, chosen)
    return name, java_of(chosen)


@contextmanager
def packed_base(suite: str, *, mirror: str | None, progress: Callable[[str], None]) -> Iterator[IO[bytes]]:
    """Make the base of `suite` by debootstrap and provide it as one tar archive, which is packed while it is read.

    Raises EnvironmentLacks if it cannot be made here, FetchError with debootstrap's own words if it fails.
    """
    _require_tools()
    source = mirror or own_mirror(suite)
    with tempfile.TemporaryDirectory(prefix="schemaquake-base-") as folder:
        root = Path(folder) / "root"
        progress(f"{base_name(suite)}: making a Debian base with debootstrap")
        _bootstrap(root, suite, source, progress)
        with _packed(root) as archive:
            yield archive


def import_base(engine: DockerEngine, archive: IO[bytes], suite: str) -> None:
    """Import the archive of a base under the name that images of that suite are built upon."""
    engine.import_image(archive, base_name(suite), changes=[f"LABEL {JAVA_LABEL}={java_of(suite)}"])


def base_name(suite: str) -> str:
    """Name the base of a suite: `schemaquake/base:bookworm`."""
    return f"schemaquake/base:{suite}"


def own_suite() -> str:
    """Read the codename of this machine's distribution. Raises EnvironmentLacks if it has none."""
    codename = _os_release().get("VERSION_CODENAME")
    if not codename:
        raise EnvironmentLacks(
            "this machine is no Debian: name the suite to make the base of, for example --suite bookworm"
        )
    return codename


def own_mirror(suite: str) -> str:
    """Find the mirror from which apt gets packages of that suite, else of any other. Raises EnvironmentLacks without one."""
    template = "$(RELEASE) $(SITE)"
    listed = _said("apt-get", "indextargets", "--format", template, "Created-By: Packages").splitlines()
    sources = [(release, site) for release, _, site in (line.partition(" ") for line in listed) if site]
    of_suite = [site for release, site in sources if release == suite]
    others = [site for release, site in sources if "-" not in release]
    if found := [*of_suite, *others]:
        return found[0]
    raise EnvironmentLacks("apt names no mirror on this machine: give one with --mirror")


def _require_tools() -> None:
    if os.geteuid() != 0:
        raise EnvironmentLacks(
            "making the base needs root, for debootstrap: run this command once with sudo, or name an image with a Java "
            "in it to build upon with --base"
        )
    for tool, package in (("debootstrap", "debootstrap"), ("unshare", "util-linux"), ("tar", "tar")):
        if shutil.which(tool) is None:
            raise EnvironmentLacks(
                f'making the base needs "{tool}": install it (Debian: apt-get install {package}), or name an image with a '
                "Java in it to build upon with --base"
            )


def _bootstrap(root: Path, suite: str, mirror: str, progress: Callable[[str], None]) -> None:
    packages = [f"openjdk-{java_of(suite)}-jre-headless", *_PACKAGES]
    components = _COMPONENTS.get(_os_release().get("ID", ""), "main")
    argv = [
        *_ALONE,
        "debootstrap",
        "--variant=minbase",
        "--force-check-gpg",
        f"--components={components}",
        f"--include={','.join(packages)}",
        suite,
        str(root),
        mirror,
    ]
    last: list[str] = []
    logged_at = time.monotonic()
    overdue = threading.Event()
    with subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=_environment()
    ) as process:
        assert process.stdout is not None

        def end() -> None:
            overdue.set()
            process.kill()  # and with it all that runs in its namespace

        limit = threading.Timer(_BOOTSTRAP_WITHIN_S, end)
        limit.start()
        try:
            for line in process.stdout:
                last = [*last[-4:], line.strip()]
                if time.monotonic() - logged_at >= _TELL_EVERY_S:
                    logged_at = time.monotonic()
                    progress(line.strip())
            process.wait()
        finally:
            limit.cancel()
    if overdue.is_set():
        raise FetchError(
            f"debootstrap of {suite} from {mirror}, run on this machine, did not end within {_BOOTSTRAP_WITHIN_S:g} s; it "
            f"printed last: {' / '.join(last) or 'nothing'}. Try again, or name another mirror with --mirror."
        )
    if process.returncode != 0:
        raise FetchError(f"debootstrap of {suite} failed: {' / '.join(last)}")


@contextmanager
def _packed(root: Path) -> Iterator[IO[bytes]]:
    argv = ["tar", "--create", f"--directory={root}", "--numeric-owner"]
    argv += [f"--exclude={pattern}" for pattern in _LEFT_OUT]
    with subprocess.Popen([*argv, "."], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as packing:
        assert packing.stdout is not None
        yield packing.stdout
        _, complaint = packing.communicate()
    if packing.returncode != 0:
        raise FetchError(f"the base could not be packed: {complaint.decode(errors='replace').strip()}")


def _environment() -> Mapping[str, str]:
    """Return this process's environment with the proxy that apt uses, if any."""
    proxy = _said("apt-config", "--format", "%v", "dump", "Acquire::http::Proxy").strip()
    return {
        **child_environment(*FETCHING, "DEBOOTSTRAP_DIR"),
        "LC_ALL": "C",
        **({"http_proxy": proxy} if proxy else {}),
    }


def _said(*argv: str) -> str:
    """Return what a command of apt prints; empty if it does not exist or fails. Raises EnvironmentLacks if it hangs."""
    if shutil.which(argv[0]) is None:
        return ""
    advice = "Run it by hand to see what holds it up, or name an image with a Java in it to build upon with --base"
    return run_limited(argv, limit_s=_APT_WITHIN_S, advice=advice).stdout


def _os_release() -> Mapping[str, str]:
    path = Path("/etc/os-release")
    lines: Sequence[str] = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {name: text.strip('"') for name, separator, text in (line.partition("=") for line in lines) if separator}
