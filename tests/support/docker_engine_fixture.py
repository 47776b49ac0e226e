"""A docker engine of the tests' own: `dockerd` in a temporary folder, with its own socket, images and state.

It lays no packet filter rules of its own on this machine and is ended by its pid, after everything it ran was removed.

`engine_host` is its DOCKER_HOST; `small_image` the name of an image of a few megabytes that holds what a node needs
beside a server, made of this machine's own programs.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import socket
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import docker
import pytest

from schemaquake.clusters.docker.carried_tools import _libraries
from schemaquake.clusters.docker.engine import DockerEngine
from schemaquake.harness.wait import until

SMALL_IMAGE = "schemaquake-test/small:1"
BARE_IMAGE = "schemaquake-test/bare:1"
_DRIVERS = ("overlay2", "vfs")
_BARE = (
    *(
        "sh",
        "sleep",
        "cat",
        "mv",
        "rm",
        "mkdir",
        "ls",
        "test",
        "env",
        "printenv",
        "date",
        "id",
        "setsid",
        "chmod",
        "sed",
        "flock",
        "ln",
    ),
    *("wc", "tail", "stat", "rmdir", "mktemp", "uname", "kill", "setpriv", "sync", "cut", "tr"),
    *("true", "false", "readlink", "find", "printf", "touch", "dd", "head", "seq", "cp"),
)
_SHARES = Path("/sys/fs/cgroup/cpu/docker/cpu.shares")
"""What all containers together weigh beside a single thread outside of them (cgroup v1), which is 1024 by default."""
_HEAVY = "8192"
_SMALL = (*_BARE, "iptables", "ip6tables", "ip")


def why_not() -> str | None:
    """Why there cannot be an engine here, or None."""
    if os.geteuid() != 0:
        return "a docker engine needs root"
    for tool in ("dockerd", "containerd", "runc", "docker-init"):
        if shutil.which(tool) is None:
            return f"there is no {tool} (Debian: apt-get install docker.io)"
    return None


@contextmanager
def docker_engine() -> Iterator[str]:
    """The DOCKER_HOST of an engine that lasts as long as the block."""
    folder = Path(tempfile.mkdtemp(prefix="sqd-"))  # a socket's path has at most 107 characters
    try:
        with _heavier(), _running(folder) as host:
            yield host
    finally:
        _unmount_below(folder)
        shutil.rmtree(folder)


@contextmanager
def _heavier() -> Iterator[None]:
    """Let containers have as much of the machine as several threads: three servers in them start beside the rest of the suite."""
    before = None
    with suppress(OSError):  # another version of control groups, or one that cannot be written
        _SHARES.parent.mkdir(exist_ok=True)
        if (found := _SHARES.read_text().strip()) != _HEAVY:  # else another process of the suite will set it back
            _SHARES.write_text(_HEAVY)
            before = found
    try:
        yield
    finally:
        if before is not None:
            with suppress(OSError):
                _SHARES.write_text(before)


@contextmanager
def _running(folder: Path) -> Iterator[str]:
    host = f"unix://{folder / 'sock'}"
    for driver in _DRIVERS:
        log = folder / f"{driver}.log"
        process = _start(folder, host, driver, log)
        if process is not None:
            break
    else:
        pytest.skip(f"dockerd does not start here:\n{log.read_text()[-2000:]}")
    try:
        yield host
    finally:
        client = docker.DockerClient(host, timeout=60)
        for container in client.containers.list(all=True):
            container.remove(force=True, v=True)
        client.networks.prune()
        client.close()
        _end(process)


def _start(folder: Path, host: str, driver: str, log: Path) -> subprocess.Popen[bytes] | None:
    (folder / "daemon.json").write_text("{}")
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                "dockerd",
                *(f"--data-root={folder / 'data'}", f"--exec-root={folder / 'exec'}", f"--pidfile={folder / 'pid'}"),
                *(f"--config-file={folder / 'daemon.json'}", f"--host={host}", f"--storage-driver={driver}"),
                *("--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false"),
                "--userland-proxy=false",
            ],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def answers() -> bool:
        return process.poll() is not None or _answers(host)

    until(answers, deadline_s=60, what="a docker engine", every_s=0.2)
    return process if process.poll() is None else None


def _answers(host: str) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(host.removeprefix("unix://")) == 0


def _end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(10)


def _unmount_below(folder: Path) -> None:
    """What the engine may have left mounted: nothing mounted is deleted."""
    mounted = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    for place in sorted((each for each in mounted if each.startswith(f"{folder}/")), reverse=True):
        subprocess.run(["umount", "-l", place], check=True)


def _import(engine: DockerEngine, name: str, programs: tuple[str, ...], changes: tuple[str, ...] = ()) -> None:
    """An image of this machine's programs, each where it is here, with its libraries where they are here."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", dereference=True) as archive:
        for folder in ("tmp", "run", "var", "etc", "proc"):
            member = tarfile.TarInfo(folder)
            member.type, member.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
            archive.addfile(member)
        plugins = [*Path("/usr/lib").glob("*/xtables/*.so")] if "iptables" in programs else []
        found = [Path(shutil.which(program) or pytest.fail(f"no {program} here")) for program in programs]
        libraries = {library for program in (*found, *plugins) for library in _libraries(program)}
        for path in {*plugins, *libraries}:
            archive.add(path, str(path))
        for path in found:
            archive.add(path, f"bin/{path.name}")
    packed.seek(0)
    engine.import_image(packed, name, changes=["ENV PATH=/usr/local/bin:/bin", *changes])


@pytest.fixture(scope="session")
def engine_host() -> Iterator[str]:
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    with docker_engine() as host:
        yield host


@pytest.fixture(scope="session")
def small_image(engine_host: str) -> str:
    """Shell, coreutils, a packet filter and `ip`; its server says that it started, and sleeps."""
    engine = DockerEngine.connect(engine_host)
    server = ("sh", "-c", "echo INFO started as $CASSANDRA_LISTEN_ADDRESS; exec sleep 1000")
    _import(engine, SMALL_IMAGE, _SMALL, (f"ENTRYPOINT {json.dumps(server)}", "VOLUME /var/lib/cassandra"))
    engine.close()
    return SMALL_IMAGE


@pytest.fixture(scope="session")
def bare_image(engine_host: str) -> str:
    """Shell and coreutils: no packet filter, no libfaketime."""
    engine = DockerEngine.connect(engine_host)
    _import(engine, BARE_IMAGE, _BARE)
    engine.close()
    return BARE_IMAGE
