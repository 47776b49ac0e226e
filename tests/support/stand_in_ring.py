"""A ring of servers that stand in for Cassandra (`cql_stand_in.py`), on hosts behind SSH, running before any run as an owner's would.

The hosts end the servers when they end themselves. A whole run on it takes seconds, and no Java.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from ssh_hosts import SshHost, SshHosts

from schemaquake.clusters.cql.protocol import answers_cql
from schemaquake.clusters.nodes.scripts import read_script
from schemaquake.clusters.nodes.service import process
from schemaquake.harness.wait import until

STATE = "/run/schemaquake"
_PORT = 9042
_SCRIPT = Path(__file__).with_name("cql_stand_in.py")
_COMMAND = ["sh", "-c", f"exec {sys.executable} -IS {_SCRIPT} /run/ring/system.log {_PORT} $(cat /run/ring/addresses)"]
_FILE = """provider = "ssh"
system = "cassandra:5.0.9"
allow = [{allow}]
max_fault_seconds = 60
{limits}
[ssh]
user = "root"
key = "{key}"
known_hosts = "{known_hosts}"

[service]
kind = "process"
command = [{command}]

[paths]
logs = ["/run/ring/system.log"]
data = ["/run/ring/data"]
state = "{state}"

[clock]
method = "none"

{stop_if}
"""


class StandInRing:
    """The servers; a context manager around hosts that stand."""

    def __init__(self, hosts: SshHosts) -> None:
        self.hosts = hosts

    def __enter__(self):
        for host in self.hosts.hosts.values():
            others = [other.address for other in self.hosts.hosts.values() if other is not host]
            (self.folder(host) / "data").mkdir(parents=True)
            (self.folder(host) / "addresses").write_text(" ".join([host.address, *others]))
            self.on(host, "sh", "-c", f"mkdir -p /run/ring && mount --bind {self.folder(host)} /run/ring")
            runner = host.folder / "process_runner.sh"
            runner.write_bytes(read_script("process_runner.sh"))
            start = process(_COMMAND, "/", place=f"{STATE}/server").start
            self.on(host, "sh", str(runner), *start[2:])
        for host in self.hosts.hosts.values():
            until(lambda address=host.address: answers_cql(address, _PORT), deadline_s=60, what="CQL", every_s=0.2)
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing: whoever ends the hosts ends what runs on them."""

    def folder(self, host: SshHost) -> Path:
        """Where the host's server has its files on this machine; on the host it is /run/ring."""
        return host.folder / "ring"

    def on(self, host: SshHost, *argv: str) -> str:
        """Run a command on the host, behind the harness's back."""
        assert host.sshd is not None
        inside = ["nsenter", "--target", str(host.sshd.pid), "--mount", "--uts", "--net"]
        done = subprocess.run([*inside, *argv], capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{' '.join(argv)}: {done.stderr}"
        return done.stdout

    def left(self) -> dict[str, list[str]]:
        """What is on the hosts of a run: rules, files beside the server's own, the lease."""
        found = {}
        for name, host in self.hosts.hosts.items():
            rules = [line for line in self.on(host, "iptables-save").splitlines() if "schemaquake" in line]
            files = [line for line in host.files(STATE).splitlines()[1:] if not line.startswith(f"{STATE}/server")]
            if rules or files or host.files("/run/schemaquake.lease"):
                found[name] = [*rules, *files, host.files("/run/schemaquake.lease")]
        return found

    def cluster_file(self, path: Path, *, allow: tuple[str, ...], limits: str = "", stop_if: str = "") -> Path:
        """Write the cluster file of this ring to `path`."""
        text = _FILE.format(
            allow=", ".join(f'"{word}"' for word in allow),
            limits=limits,
            key=self.hosts.key,
            known_hosts=self.hosts.known_hosts,
            command=", ".join(f"'{word}'" for word in _COMMAND),
            state=STATE,
            stop_if=stop_if,
        )
        nodes = "".join(f'\n[[nodes]]\naddress = "{host.address}"\n' for host in self.hosts.hosts.values())
        path.write_text(text + nodes, encoding="utf-8")
        return path
