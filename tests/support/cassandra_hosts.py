"""Cassandra on hosts behind SSH: a real ring whose servers were there before any run, as an owner's would be.

Each host's server is configured as the local cluster's are, writes `system.log` as a package's does, and is started by
the process runner, so that `[service] kind = "process"` of the cluster file finds it.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from ssh_hosts import SshHost, SshHosts

from schemaquake.clusters.cql.protocol import answers_cql
from schemaquake.clusters.distribution.fetch import fetch
from schemaquake.clusters.distribution.java import find_java
from schemaquake.clusters.local.startup_archive import archive_arguments, ensure_archive
from schemaquake.clusters.nodes import libfaketime
from schemaquake.clusters.nodes.scripts import read_script
from schemaquake.clusters.nodes.service import process
from schemaquake.clusters.systems.configuration import Place, command, tokens, write_configuration
from schemaquake.clusters.systems.gossip import last_words
from schemaquake.clusters.systems.system import parse_system, recipe_for
from schemaquake.harness.wait import until

_STATE = "/run/schemaquake"
_LOGBACK = """<configuration scan="false">
  <appender name="FILE" class="ch.qos.logback.core.FileAppender">
    <file>{log}</file>
    <encoder><pattern>%-5level [%thread] %date{{ISO8601}} %F:%L - %msg%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="FILE"/></root>
</configuration>
"""
_CLUSTER_FILE = """provider = "ssh"
system = "{system}"
keyspace_prefix = "sq"
allow = [{allow}]
max_fault_seconds = {max_fault_s}

[ssh]
user = "root"
key = "{key}"
known_hosts = "{known_hosts}"

[become]
method = "sudo"

[service]
kind = "process"
command = [{command}]

[paths]
logs = ["{logs}/system.log"]
data = ["{logs}/data"]
state = "{state}"

[clock]
{clock}
"""
_OFFSET_FILE = Path("/run/cassandra/clock_offset")


class CassandraHosts:
    """The ring on these hosts; a context manager. The hosts end the servers when they end themselves."""

    def __init__(self, hosts: SshHosts, system: str = "cassandra:5.0.9", *, start_limit_s: float = 240) -> None:
        self.hosts = hosts
        self._system = parse_system(system)
        self._recipe = recipe_for(self._system)
        self._start_limit_s = start_limit_s
        self._clock = libfaketime.find_library()
        self._java = find_java(*self._recipe.java).path
        self._class_path = list(fetch(self._system.version).class_path)
        ensure_archive(system, self._java, self._class_path)

    def __enter__(self):
        hosts = list(self.hosts.hosts.values())
        for host, token in zip(hosts, tokens(self._recipe, len(hosts)), strict=True):
            self._configure(host, token, [other.address for other in hosts])
        first_alone = 1 if self._recipe.start == "first-alone" else 0
        for group in (hosts[:first_alone], hosts[first_alone:]):
            for host in group:
                self._start(host)
            for host in group:
                self._await(host)
        until(self._is_whole, deadline_s=60, what="a whole ring", every_s=0.5)
        return self

    def __exit__(self, *_):
        """Nothing: whoever ends the hosts ends what runs on them."""

    def folder(self, host: SshHost) -> Path:
        """Where the host's server lives on this machine; on the host it is /run/cassandra."""
        return host.folder / "cassandra"

    def cluster_file(self, path: Path, *, allow: tuple[str, ...] = (), max_fault_s: float = 60) -> Path:
        """Write the cluster file of this ring to `path`."""
        text = _CLUSTER_FILE.format(
            system=self._system,
            allow=", ".join(f'"{word}"' for word in allow),
            max_fault_s=max_fault_s,
            key=self.hosts.key,
            known_hosts=self.hosts.known_hosts,
            command=", ".join(f'"{word}"' for word in self._command()),
            logs="/run/cassandra",
            state=_STATE,
            clock='method = "none"'
            if self._clock is None
            else f'method = "libfaketime"\nlibrary = "{self._clock}"\noffset_file = "{_OFFSET_FILE}"',
        )
        nodes = "".join(f'\n[[nodes]]\naddress = "{host.address}"\n' for host in self.hosts.hosts.values())
        path.write_text(text + nodes, encoding="utf-8")
        return path

    def _configure(self, host: SshHost, token: int, seeds: list[str]) -> None:
        """As the local cluster does; then every path in it is the one that the host sees."""
        place = Place(address=host.address, token=token, seeds=seeds, folder=self.folder(host))
        write_configuration(self._recipe, place, {})
        yaml = place.folder / "cassandra.yaml"
        yaml.write_text(yaml.read_text(encoding="utf-8").replace(str(place.folder), "/run/cassandra"), encoding="utf-8")
        (place.folder / "logback.xml").write_text(_LOGBACK.format(log="/run/cassandra/system.log"), encoding="utf-8")

    def _command(self) -> list[str]:
        place = Place(address="", token=0, seeds=[], folder=Path("/run/cassandra"))
        options = archive_arguments(self._java, self._class_path)
        return command(
            self._recipe, place, java=self._java, class_path=self._class_path, java_options=options, properties={}
        )

    def _start(self, host: SshHost) -> None:
        """By the same runner, in the same folder, as `[service] kind = "process"` names it."""
        inside = ["nsenter", "--target", str(host.sshd.pid), "--mount", "--uts", "--net"]
        mount = f"mkdir -p /run/cassandra && mount --bind {self.folder(host)} /run/cassandra"
        _must(*inside, "sh", "-c", mount)
        runner = host.folder / "process_runner.sh"
        runner.write_bytes(read_script("process_runner.sh"))
        environment = {} if self._clock is None else libfaketime.environment(self._clock, _OFFSET_FILE)
        start = process(self._command(), "/", place=f"{_STATE}/server", environment=environment).start
        _must(*inside, "sh", str(runner), *start[2:])

    def _await(self, host: SshHost) -> None:
        def serves() -> bool:
            return answers_cql(host.address, 9042)

        try:
            until(serves, deadline_s=self._start_limit_s, what=f"CQL of {host.name}", every_s=0.5)
        except TimeoutError as error:
            log = self.folder(host) / "system.log"
            raise AssertionError(log.read_text()[-3000:] if log.exists() else host.files(_STATE)) from error

    def _is_whole(self) -> bool:
        hosts = self.hosts.hosts.values()
        words = {host.address: last_words((self.folder(host) / "system.log").read_text()) for host in hosts}
        return all(said.get(other) == "UP" for own, said in words.items() for other in words if other != own)


def _must(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(argv)}: {done.stderr}"
