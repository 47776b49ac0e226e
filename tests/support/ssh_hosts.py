"""Hosts with a real sshd: network namespaces on one bridge, each with its own OpenSSH server, its own /run and users.

    with SshHosts(folder, 3) as hosts:
        transport = SshTransport(hosts.access("n1"))

The harness's machine is 10.78.N.254, with an N that nobody uses yet, joined to them by one veth pair; the bridge has a namespace of its own, so no packet
filter of the machine's comes between the hosts. Host keys, users and everything else lie in `folder`; a host's /run is its
own, its other files are the machine's. Ended by pid. Needs root, iproute2 and openssh-server.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import re
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import gettempdir

from schemaquake.clusters.cluster_file.model import SshAccess
from schemaquake.harness.wait import until

_NUMBERS = itertools.count()
_SSHD = "/usr/sbin/sshd"
_LISTENS = "Server listening"

# As root, in a mount namespace of its own below the network namespace. The folder is mounted where every user may go.
_HOST = """
mount -t tmpfs -o mode=755,size=64m tmpfs /run && mkdir -m 755 /run/sshd /run/lock /run/fixture
mount --bind "$1" /run/fixture && mount --bind "$1/passwd" /etc/passwd
exec "$2" -D -e -f "$1/$3/sshd_config"
"""

# Stands where the real one would where it is not installed: carries out, or says what the real one says.
_SUDO = """#!/bin/sh
[ "$1" = -n ] || { echo "sudo: a terminal is required to read the password" >&2; exit 1; }
shift
[ "$1" != -- ] || shift
if [ "$(id -u)" -ne 0 ]; then echo "sudo: a password is required" >&2; exit 1; fi
exec "$@"
"""


@cache
def why_not() -> str | None:
    """Why there cannot be such hosts on this machine, or None."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if not Path(_SSHD).exists():
        return "there is no sshd (Debian: apt-get install openssh-server)"
    probe = subprocess.run(
        ["unshare", "--net", "ip", "link", "add", "type", "bridge"], capture_output=True, text=True, check=False
    )
    return None if probe.returncode == 0 else f"no network namespaces here: {probe.stderr.strip()}"


@dataclass
class SshHost:
    """One of them."""

    name: str
    address: str
    namespace: str
    folder: Path
    sshd: subprocess.Popen | None = None

    @property
    def harness(self) -> str:
        """The address at which this host sees the harness's machine."""
        return f"{self.address.rsplit('.', 1)[0]}.254"

    @property
    def fingerprint(self) -> str:
        done = _must("ssh-keygen", "-lf", str(self.folder / "host_key.pub"))
        return done.split()[1]

    @property
    def log(self) -> str:
        path = self.folder / "sshd.log"
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def exec(self, *argv: str) -> subprocess.CompletedProcess[str]:
        """Beside sshd, in the host's network; for what a test does behind the harness's back."""
        return subprocess.run(
            ["ip", "netns", "exec", self.namespace, *argv], capture_output=True, text=True, check=False
        )

    def files(self, folder: str) -> str:
        """What lies below a folder of the host's own, behind the harness's back; nothing if it is not there."""
        assert self.sshd is not None
        argv = ["nsenter", "--target", str(self.sshd.pid), "--mount", "find", folder]
        return subprocess.run(argv, capture_output=True, text=True, check=False).stdout

    def cut(self) -> None:
        """Drop whatever comes from the harness's machine: as if the cable were out."""
        done = self.exec("iptables", "-w", "5", "-I", "INPUT", "-s", self.harness, "-j", "DROP")
        assert done.returncode == 0, done.stderr

    def mend(self) -> None:
        self.exec("iptables", "-w", "5", "-D", "INPUT", "-s", self.harness, "-j", "DROP")

    def drop_sessions(self) -> int:
        """End every session that stands, as an sshd's host does that reboots; returns how many processes that were."""
        assert self.sshd is not None
        sessions = _children(self.sshd.pid)
        for pid in sessions:
            os.kill(pid, signal.SIGKILL)
        return len(sessions)

    def end_sshd(self) -> None:
        """End the server; sessions that stand go on."""
        if self.sshd is not None:
            self.sshd.terminate()
            self.sshd.wait(10)
            self.sshd = None


class SshHosts:
    """N of them, n1 … nN; a context manager that leaves nothing behind."""

    def __init__(self, folder: Path, count: int, *, max_sessions: int = 10) -> None:
        stem = f"sqh{os.getpid()}x{next(_NUMBERS)}"
        self.folder = folder
        self.subnet = _unused_subnet()
        self._switch = f"{stem}s"
        self._leg = f"sqh{os.getpid() % 100000}x{next(_NUMBERS)}"[:15]
        self._max_sessions = max_sessions
        self.hosts = {
            f"n{i}": SshHost(f"n{i}", f"{self.subnet}.{i}", f"{stem}n{i}", folder / f"n{i}")
            for i in range(1, count + 1)
        }
        self.key = folder / "user_key"
        self.known_hosts = folder / "known_hosts"

    def __getitem__(self, name: str) -> SshHost:
        return self.hosts[name]

    def access(self, name: str, **changes: object) -> SshAccess:
        """How the harness gets to that host as root."""
        usual = SshAccess(
            host=self[name].address,
            port=22,
            user="root",
            key=self.key,
            agent=False,
            known_hosts=self.known_hosts,
            fingerprint=None,
        )
        return replace(usual, **changes)

    def __enter__(self):
        try:
            self._make_keys()
            self._lay()
            for host in self.hosts.values():
                self.start_sshd(host)
        except BaseException:
            self.__exit__()
            raise
        return self

    def _make_keys(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o755)
        _must("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "harness", "-f", str(self.key))
        shutil.copyfile(self.key.with_suffix(".pub"), self.folder / "authorized_keys")
        (self.folder / "home").mkdir(mode=0o755)
        (self.folder / "passwd").write_text(
            # What this machine's root has set up for every new shell is nothing of the host's, and may take a second.
            re.sub(
                r"(?m)^root:.*$", "root:x:0:0:root:/run/fixture/home:/bin/bash", Path("/etc/passwd").read_text("utf-8")
            )
            # May log in and nothing else: a user without sudo.
            + "operator:*:64001:65534:operator:/run/fixture/home:/bin/sh\n",
            encoding="utf-8",
        )
        if shutil.which("sudo") is None:
            (self.folder / "bin").mkdir(mode=0o755)
            (self.folder / "bin" / "sudo").write_text(_SUDO, encoding="utf-8")
            (self.folder / "bin" / "sudo").chmod(0o755)
        for host in self.hosts.values():
            host.folder.mkdir()
            self.new_host_key(host)
            (host.folder / "sshd_config").write_text(self._sshd_config(host), encoding="utf-8")
        self.know_all()

    def new_host_key(self, host: SshHost) -> None:
        """The host is made anew; whoever knows its old key does not know it any more."""
        for path in (host.folder / "host_key", host.folder / "host_key.pub"):
            path.unlink(missing_ok=True)
        _must("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", host.name, "-f", str(host.folder / "host_key"))

    def know_all(self) -> None:
        """Write known_hosts from the keys there are."""
        lines = [
            f"{host.address} {' '.join((host.folder / 'host_key.pub').read_text(encoding='utf-8').split()[:2])}\n"
            for host in self.hosts.values()
        ]
        self.known_hosts.write_text("".join(lines), encoding="utf-8")

    def _sshd_config(self, host: SshHost) -> str:
        path = "/run/fixture/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        return "\n".join(
            [
                f"ListenAddress {host.address}:22",
                f"HostKey {host.folder / 'host_key'}",
                "AuthorizedKeysFile /run/fixture/authorized_keys",
                "PidFile none",
                "StrictModes no",
                "UsePAM no",
                "UseDNS no",
                "PasswordAuthentication no",
                "KbdInteractiveAuthentication no",
                "PermitRootLogin prohibit-password",
                f"MaxSessions {self._max_sessions}",
                "MaxStartups 100",
                "PerSourcePenalties no" if _has_penalties() else "",
                "LogLevel VERBOSE",
                f"SetEnv PATH={path}",
                "",
            ]
        )

    def start_sshd(self, host: SshHost) -> None:
        said = host.log.count(_LISTENS)
        with (host.folder / "sshd.log").open("ab") as log:
            host.sshd = subprocess.Popen(
                [
                    *["ip", "netns", "exec", host.namespace, "unshare", "--mount", "--uts"],
                    *["sh", "-c", _HOST, "sh", str(self.folder), _SSHD, host.name],
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        until(
            lambda: host.log.count(_LISTENS) > said or host.sshd.poll() is not None,
            deadline_s=10,
            what=f"sshd on {host.name}",
        )
        assert host.sshd.poll() is None, host.log

    def _lay(self) -> None:
        _ip("netns", "add", self._switch)
        _ip("-n", self._switch, "link", "add", "sq0", "type", "bridge")
        _ip("-n", self._switch, "link", "set", "sq0", "up")
        _ip("link", "add", self._leg, "type", "veth", "peer", "name", "harness", "netns", self._switch)
        _ip("-n", self._switch, "link", "set", "harness", "master", "sq0", "up")
        _ip("addr", "add", f"{self.subnet}.254/24", "dev", self._leg)
        _ip("link", "set", self._leg, "up")
        for number, host in enumerate(self.hosts.values()):
            _ip("netns", "add", host.namespace)
            port = f"port{number}"
            namespace = ["netns", host.namespace]
            _ip("-n", self._switch, "link", "add", port, "type", "veth", "peer", "name", "eth0", *namespace)
            _ip("-n", self._switch, "link", "set", port, "master", "sq0", "up")
            _ip("-n", host.namespace, "addr", "add", f"{host.address}/24", "dev", "eth0")
            _ip("-n", host.namespace, "link", "set", "eth0", "up")
            _ip("-n", host.namespace, "link", "set", "lo", "up")

    def __exit__(self, *_) -> None:
        for host in self.hosts.values():
            _end_everything(host)
        for namespace in (*(host.namespace for host in self.hosts.values()), self._switch):
            subprocess.run(["ip", "netns", "del", namespace], capture_output=True, check=False)
        subprocess.run(["ip", "link", "del", self._leg], capture_output=True, check=False)


def _unused_subnet() -> str:
    taken = _must("ip", "-4", "-o", "addr")
    # Tests that run beside one another (gw0, gw1, …) look at the same moment, so each begins elsewhere.
    first = 16 * int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    free = (number for number in itertools.count(first) if f" 10.78.{number}." not in taken and _claim(number))
    return f"10.78.{next(free)}"


def _claim(number: int) -> bool:
    """Claim a subnet for as long as this process lives: two that look at the same moment see the same ones free."""
    claim = os.open(Path(gettempdir()) / f"schemaquake-subnet-{number}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(claim)
        return False
    return True


def _end_everything(host: SshHost) -> None:
    """Whatever stands in the host's network, by pid: sshd, its sessions, and what those left running."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        listed = subprocess.run(["ip", "netns", "pids", host.namespace], capture_output=True, text=True, check=False)
        pids = [int(pid) for pid in listed.stdout.split()]
        if not pids:
            break
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        if host.sshd is not None:
            host.sshd.poll()
    if host.sshd is not None:
        host.sshd.wait(10)


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()]


def _has_penalties() -> bool:
    """Since OpenSSH 9.8 a host that was refused a few times is refused altogether for a while."""
    done = subprocess.run([_SSHD, "-T", "-f", "/dev/null"], capture_output=True, text=True, check=False)
    return "persourcepenalties" in done.stdout.lower()


def _ip(*arguments: str) -> None:
    _must("ip", *arguments)


def _must(*argv: str) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(argv)}: {done.stderr}"
    return done.stdout
