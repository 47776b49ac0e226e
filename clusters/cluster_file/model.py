"""Cluster file: the tables in which an owner describes a deployed cluster, access to it, and the faults it allows.

TOML, checked as a whole: all errors are reported at once, with their lines and remedies. It holds no secret, only
references, so it may be copied into a run's folder. Faults that `allow` does not list are never injected.
"""

from __future__ import annotations

import getpass
import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from schemaquake.clusters.cluster_file.credentials import Credentials
from schemaquake.clusters.cluster_file.local_path import LocalPath
from schemaquake.clusters.cluster_file.tls import Tls
from schemaquake.harness.model.traits import nemesis_traits
from schemaquake.harness.registry import load_all

__all__ = [
    "WORDS",
    "Become",
    "Clock",
    "ClusterFile",
    "Commands",
    "Docker",
    "Joining",
    "Jump",
    "NodeTable",
    "Paths",
    "Process",
    "Service",
    "Ssh",
    "SshAccess",
    "StopIf",
    "Systemd",
    "Tls",
    "Word",
]

WORDS: Final = ("partition", "packets", "kill", "stop", "pause", "restart", "clock", "errors", "topology")
"""The words of `allow` that every installation knows. An installed nemesis may bring a word of its own (`allowed_by`)."""

_EMPTIED_PARTS: Final = 3
"""The least parts of a path whose folder may be emptied, the root included."""
_SECRET_NAME: Final = re.compile(r"passw|secret|token|credential|api_?key", re.IGNORECASE)


# ── values ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _address(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise ValueError(
            "a packet filter knows nodes by number, not by name; write the IP address that the other nodes use for it"
        ) from None


def _path_on_node(text: str) -> str:
    if not PurePosixPath(text).is_absolute() or ".." in PurePosixPath(text).parts:
        raise ValueError("a path on a node begins at the root and goes down; write it from /")
    return text


def _emptied_path(text: str) -> str:
    if len(PurePosixPath(_path_on_node(text)).parts) < _EMPTIED_PARTS:
        raise ValueError(
            "all that lies in this folder is deleted; write the server's own, for example /var/lib/cassandra/data"
        )
    return text


def _plain_environment(environment: Mapping[str, str]) -> Mapping[str, str]:
    for name in environment:
        if _SECRET_NAME.search(name):
            raise ValueError(
                f"{name} looks like a secret, which has no place in this file; let the service set it itself"
            )
    return environment


def _word(text: str) -> str:
    if text in WORDS:
        return text
    # Only for other words, because this imports every installed nemesis.
    brought = {nemesis_traits(nemesis).allowed_by for nemesis in load_all("nemeses").values()}
    if text in brought:
        return text
    known = [repr(word) for word in (*WORDS, *sorted(filter(None, brought - {*WORDS})))]
    raise PydanticCustomError("literal_error", "no word", {"expected": f"{', '.join(known[:-1])} or {known[-1]}"})


Address: TypeAlias = Annotated[str, AfterValidator(_address)]
EmptiedPath: TypeAlias = Annotated[str, AfterValidator(_emptied_path)]
NodePath: TypeAlias = Annotated[str, AfterValidator(_path_on_node)]
Port: TypeAlias = Annotated[int, Field(ge=1, le=65535)]
Text: TypeAlias = Annotated[str, Field(min_length=1)]
Word: TypeAlias = Annotated[str, AfterValidator(_word)]
"""A word of `allow`: permits the faults of the nemeses that name it in `allowed_by`."""
Argv: TypeAlias = Annotated[tuple[Text, ...], Field(min_length=1)]
Fingerprint: TypeAlias = Annotated[str, Field(pattern=r"^SHA256:[A-Za-z0-9+/]{43}=?$")]


class _Table(BaseModel):
    # An input in an error may be a secret written in the wrong place.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True, allow_inf_nan=False)


# ── tables ───────────────────────────────────────────────────────────────────────────────────────────────────────────


class Jump(_Table):
    """A host through which the nodes are reached. Keys other than host, port and fingerprint default to the nodes'."""

    host: Text
    port: Port = 22
    user: Text | None = None
    key: LocalPath | None = None
    known_hosts: LocalPath | None = None
    fingerprint: Fingerprint | None = None


class Ssh(_Table):
    """The SSH access to all nodes (`[ssh]`), or to one (its `ssh`)."""

    host: Text | None = None
    """The host to connect to; None: the node's address."""
    port: Port | None = None
    user: Text | None = None
    key: LocalPath | None = None
    agent: bool | None = None
    """True if the keys of an SSH agent may be used; None: only if no key is named."""
    known_hosts: LocalPath | None = None
    fingerprint: Fingerprint | None = None
    """The fingerprint of the host's key, which replaces known_hosts."""
    jump: Jump | None = None


class Become(_Table):
    """The way in which commands run as root."""

    method: Literal["sudo", "none"] = "sudo"
    """The method; `none` is for connections that log in as root."""

    def argv(self, command: Sequence[str]) -> list[str]:
        """Prefix the command so that it runs as root, without asking for a password."""
        return [*(["sudo", "-n", "--"] if self.method == "sudo" else []), *command]


class Systemd(_Table):
    """A server that is a systemd unit."""

    kind: Literal["systemd"] = "systemd"
    unit: Text = "cassandra"


class Commands(_Table):
    """A server that is started, stopped, killed and found by the owner's commands, each an argument vector."""

    kind: Literal["commands"]
    start: Argv
    stop: Argv
    kill: Argv
    status: Argv
    """The command that prints the server's process id, and fails if the server does not run."""


class Process(_Table):
    """A server that the harness starts itself; in a container the command defaults to the image's own."""

    kind: Literal["process"] = "process"
    command: tuple[Text, ...] = ()
    environment: Annotated[Mapping[str, str], AfterValidator(_plain_environment)] = Field(default_factory=dict)
    user: Text | None = None
    """The user of the server; None: root, or the image's user."""


Service: TypeAlias = Systemd | Commands | Process


class Paths(_Table):
    """The paths on every node."""

    logs: Annotated[tuple[NodePath, ...], Field(min_length=1)] = ("/var/log/cassandra/system.log",)
    data: Annotated[tuple[NodePath, ...], Field(min_length=1)] = ("/var/lib/cassandra/data",)
    state: NodePath = "/run/schemaquake"
    """The folder for the harness's own files during a run; on a file system that a reboot empties."""


class Clock(_Table):
    """The method by which a node's wall clock is skewed."""

    method: Literal["settime", "libfaketime", "none"] = "none"
    library: NodePath | None = None
    """The path of libfaketime.so.1 on the nodes; None: the distributions' usual paths."""
    offset_file: NodePath | None = None
    """The file with the offset; None: in `paths.state`, for servers that the harness starts itself."""


class Docker(_Table):
    """The settings of containers."""

    image: Text | None = None
    nodes: Annotated[int, Field(ge=1, le=250)] | None = None
    """The number of containers; None: --nodes."""
    memory: Annotated[str, Field(pattern=r"^[1-9][0-9]*[bkmg]$")] | None = None
    cpus: Annotated[float, Field(gt=0)] | None = None
    network: Text | None = None
    """An existing network that the containers join; None: one of the run's own."""
    host: Text | None = None
    """The engine's socket, for example unix:///run/docker.sock; None: the docker command's default."""


class StopIf(_Table):
    """A condition under which every fault is undone at once, and the run ends: a command, or a number read in CQL."""

    command: Argv | None = None
    """Run on this machine: exit code 0 says stop, 1 says go on, anything else says stop."""
    cql: Text | None = None
    """A SELECT whose first cell is a number, asked of every node."""
    above: float | None = None
    below: float | None = None
    every_seconds: Annotated[float, Field(ge=0.1, le=60)] = 1.0
    timeout_seconds: Annotated[float, Field(gt=0, le=60)] = 5.0

    @model_validator(mode="after")
    def _check_form(self) -> StopIf:
        if (self.command is None) == (self.cql is None):
            raise ValueError('a condition is either command = ["…"] or cql = "SELECT …"; write one of them')
        if self.cql is not None and (self.above is None) == (self.below is None):
            raise ValueError("a number needs one bound; write above = 1000 or below = 1")
        if self.command is not None and (self.above, self.below) != (None, None):
            raise ValueError("a command says by its exit code whether to stop; leave out above and below")
        return self


class NodeTable(_Table):
    """One node of a cluster that exists already."""

    address: Address
    """The IP address for the other nodes and for clients."""
    ssh: Ssh = Ssh()


class Joining(_Table):
    """The way in which a spare joins (`[joining]`): by its own configuration, with folders that are empty."""

    empties: Annotated[tuple[EmptiedPath, ...], Field(min_length=1)] = (
        "/var/lib/cassandra/data",
        "/var/lib/cassandra/commitlog",
        "/var/lib/cassandra/saved_caches",
        "/var/lib/cassandra/hints",
        "/var/lib/cassandra/cdc_raw",
    )
    """The folders of a server that must be empty on a spare when a run begins, and are emptied before a host joins anew."""
    options_file: NodePath | None = None
    """A file of arguments for Java (`java @FILE`) that the server's start reads; None: no host can take another's place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SshAccess:
    """The SSH access to one host: its own settings over those of all hosts."""

    host: str
    port: int
    user: str
    key: Path | None
    agent: bool
    known_hosts: Path | None
    """The known_hosts file; None: the user's and the machine's."""
    fingerprint: str | None
    jump: SshAccess | None = None


def _usual_service(document: Mapping[str, Any]) -> Service:
    return Systemd() if document.get("provider") == "ssh" else Process()


def _usual_clock(document: Mapping[str, Any]) -> Clock:
    return Clock(method="settime" if document.get("provider") == "ssh" else "libfaketime")


class ClusterFile(_Table):
    """The content of a cluster file."""

    provider: Literal["ssh", "docker"]
    system: Annotated[str, Field(pattern=r"^[a-z]+:[0-9]+\.[0-9]+[\w.+-]*$")] | None = None
    keyspace_prefix: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,15}$")] = "sq"
    allow: tuple[Word, ...] = ()
    max_fault_seconds: Annotated[float, Field(gt=0, le=3600)] = 60
    max_nodes_down: Annotated[int, Field(ge=0)] | None = None
    """The most nodes that faults may take down, or cut off from a majority, at once; None: no limit."""
    stop_if: tuple[StopIf, ...] = ()
    consent_file: NodePath | None = None
    """A file of root's on each node, without which it is not disturbed; it may hold words of `allow`. None: none is asked for."""
    cql_port: Port = 9042
    credentials: Credentials | None = None
    tls: Tls | None = None
    ssh: Ssh = Ssh()
    become: Become = Become()
    service: Annotated[Service, Field(discriminator="kind")] = Field(default_factory=_usual_service)
    paths: Paths = Paths()
    clock: Clock = Field(default_factory=_usual_clock)
    docker: Docker = Docker()
    nodes: Annotated[tuple[NodeTable, ...], Field(max_length=250)] = ()
    spares: Annotated[tuple[NodeTable, ...], Field(max_length=250)] = ()
    """Hosts that are no members, and may join during a run (`--spares`)."""
    joining: Joining = Joining()
    shared: bool = False
    """True if the owner knows that operations on the topology concern keyspaces that are not the run's."""

    @property
    def node_count(self) -> int | None:
        """The number of nodes, None if the file does not name one."""
        return len(self.nodes) or self.docker.nodes

    @cached_property
    def addresses(self) -> Mapping[str, str]:
        """The addresses by name (n1, n2, … in the order of the file); empty for containers, which the engine assigns."""
        return {f"n{number}": node.address for number, node in enumerate(self.nodes, 1)}

    @cached_property
    def spare_addresses(self) -> Mapping[str, str]:
        """The addresses of spares by name, counted on from the nodes'."""
        return {f"n{number}": node.address for number, node in enumerate(self.spares, len(self.nodes) + 1)}

    @cached_property
    def all_addresses(self) -> Mapping[str, str]:
        """The addresses of nodes and spares by name."""
        return {**self.addresses, **self.spare_addresses}

    def access(self, name: str) -> SshAccess:
        """Combine a host's own `ssh` with `[ssh]` and the ssh command's defaults. Raises KeyError."""
        node = dict(zip(self.all_addresses, (*self.nodes, *self.spares), strict=True))[name]
        settings = {**self.ssh.model_dump(exclude_none=True), **node.ssh.model_dump(exclude_none=True)}
        jump: Jump | None = node.ssh.jump or self.ssh.jump
        target = _access(settings, host=node.ssh.host or node.address)
        if jump is None:
            return target
        inherited = {key: entry for key, entry in settings.items() if key in {"user", "key", "agent", "known_hosts"}}
        through = _access({**inherited, **jump.model_dump(exclude_none=True)}, host=jump.host)
        return replace(target, jump=through)


def _access(settings: Mapping[str, Any], *, host: str) -> SshAccess:
    key = settings.get("key")
    return SshAccess(
        host=host,
        port=settings.get("port", 22),
        user=settings.get("user") or getpass.getuser(),
        key=key,
        agent=settings.get("agent", key is None),
        known_hosts=settings.get("known_hosts"),
        fingerprint=settings.get("fingerprint"),
    )
