"""A ring of servers that stand in for Cassandra (`cql_stand_in.py`), on hosts behind SSH, running before any run as an owner's would.

The hosts end the servers when they end themselves. A whole run on it takes seconds, and no Java.
"""

from __future__ import annotations

import shutil
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
{tables}
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

[joining]
empties = ["/run/ring/data"]
options_file = "/run/ring/joining.options"

[clock]
method = "none"

{stop_if}
"""


# Stands where a package puts the real one: what it is asked takes a server out of the members.
_NODETOOL = """#!/bin/sh
read -r own members options < /run/ring/addresses
case $1 in
  decommission) gone=$own ;;
  removenode) gone=$(printf '%d.%d.%d.%d' $(echo "$2" | sed 's/.*-....\\(..\\)\\(..\\)\\(..\\)\\(..\\)$/0x\\1 0x\\2 0x\\3 0x\\4/')) ;;
  *) echo "nodetool: no $1 here" >&2; exit 1 ;;
esac
grep -vxF "$gone" "${members#@}" > "${members#@}.new"; cat "${members#@}.new" > "${members#@}"
"""


class StandInRing:
    """The servers; a context manager around hosts that stand. The last `spares` of the hosts have none running."""

    def __init__(self, hosts: SshHosts, *, spares: int = 0) -> None:
        self.hosts = hosts
        everybody = list(hosts.hosts.values())
        self.founders, self.spares = everybody[: len(everybody) - spares], everybody[len(everybody) - spares :]
        self.members = hosts.folder / "members"
        """The file with the addresses of all servers that are members."""
        self.foreign = hosts.folder / "members.keyspaces"
        """The file with the names of keyspaces that were there before any run."""

    def __enter__(self):
        self.members.write_text("")
        tools = self.hosts.folder / "bin"
        tools.mkdir(mode=0o755, exist_ok=True)
        (tools / "nodetool").write_text(_NODETOOL, encoding="utf-8")
        (tools / "nodetool").chmod(0o755)
        for host in self.hosts.hosts.values():
            (self.folder(host) / "data").mkdir(parents=True)
            (self.folder(host) / "addresses").write_text(f"{host.address} @{self.members} /run/ring/joining.options\n")
            self.on(host, "sh", "-c", f"mkdir -p /run/ring && mount --bind {self.folder(host)} /run/ring")
        for host in self.founders:
            self.start(host)
        return self

    def start(self, host: SshHost) -> None:
        """Start a server as its owner does, and wait until it serves."""
        runner = host.folder / "process_runner.sh"
        runner.write_bytes(read_script("process_runner.sh"))
        start = process(_COMMAND, "/", place=f"{STATE}/server").start
        self.on(host, "sh", str(runner), *start[2:])
        until(lambda: answers_cql(host.address, _PORT), deadline_s=60, what="CQL", every_s=0.2)

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
            tables="" if shutil.which("sudo") is None else '[become]\nmethod = "none"\n',  # sudo has a PATH of its own
        )
        nodes = "".join(
            f'\n[[{table}]]\naddress = "{host.address}"\n'
            for table, hosts in (("nodes", self.founders), ("spares", self.spares))
            for host in hosts
        )
        path.write_text(text + nodes, encoding="utf-8")
        return path
