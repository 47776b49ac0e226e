"""Service: the commands by which root starts and ends a server on its node.

Three kinds: a systemd unit, commands of the owner's, and a command that the harness starts by itself. Each is a script of
ours on the node with a verb, so that a guard that outlives the harness can do what the harness does, and that a server
that was told to end is known to whoever starts it next.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from schemaquake.clusters.cluster_file.model import ClusterFile, Commands, Process, Systemd
from schemaquake.clusters.nodes.scripts import read_script
from schemaquake.harness.errors import PlanError

__all__ = ["Service", "commands", "process", "service_of", "systemd"]

_RUNNER: Final = "process_runner.sh"
_UNIT: Final = "systemd_unit.sh"
_OWNER: Final = "owner_service.sh"


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """The argument vector for each verb."""

    start: Sequence[str]
    """Starts the server and returns before it serves; harmless if it runs."""
    stop: Sequence[str]
    """Asks for a clean end; may return before it."""
    kill: Sequence[str]
    status: Sequence[str]
    """Prints the server's pid; prints nothing, or fails, if it does not run."""
    ending: Sequence[str] = ()
    """Prints the server's pid if it was told to end and still runs; () where that is not known."""
    up: Sequence[str] = ()
    """Exits with 0 if the server runs, was not told to end, and stays; () where that is not known."""
    awake: Sequence[str] = ()
    """Exits with 0 unless the server is frozen; () where that is not known."""
    ended: Sequence[str] = ()
    """Prints the exit code of the latest server, once it has ended; () where it is not known."""
    console: str | None = None
    """The file on the node that takes what the server prints; None where the service keeps it elsewhere."""
    scripts: Mapping[str, bytes] = field(default_factory=dict)
    """The files that these commands need on the node, by path."""


def service_of(file: ClusterFile, folder: str, *, environment: Mapping[str, str] | None = None) -> Service:
    """Make the service that a cluster file names, of servers that outlive runs. `folder` is the run's own on the node.

    `environment` is added to that of a server that the harness starts itself. Raises PlanError for a process without a
    command.
    """
    match file.service:
        case Systemd(unit=unit):
            return systemd(unit, folder)
        case Commands() as own:
            return commands(own, folder)
        case Process() as own_command:
            return process(
                own_command.command,
                folder,
                place=f"{file.paths.state}/server",
                environment={**own_command.environment, **(environment or {})},
                user=own_command.user,
            )


def systemd(unit: str, folder: str) -> Service:
    """Make the service of a systemd unit."""
    script = f"{folder}/{_UNIT}"
    service = _verbs_of(script, read_script(_UNIT), unit)
    return replace(service, ended=("sh", script, "ended", unit))


def commands(owner: Commands, folder: str) -> Service:
    """Make the service of the owner's commands; `folder` is the run's own on the node."""
    script = f"{folder}/{_OWNER}"
    functions = "".join(
        f"owner_{name}() {{\n  {shlex.join(argv)}\n}}\n"
        for name, argv in (
            ("start", owner.start),
            ("stop", owner.stop),
            ("kill", owner.kill),
            ("status", owner.status),
        )
    )
    return _verbs_of(script, b"#!/bin/sh\n" + functions.encode() + read_script(_OWNER))


def process(
    command: Sequence[str],
    folder: str,
    *,
    place: str | None = None,
    environment: Mapping[str, str] | None = None,
    user: str | None = None,
) -> Service:
    """Make the service of a command that is started detached. Raises PlanError for an empty command.

    `place` is the folder by which the server is found later, also by another run; by default it is in this run's folder.
    """
    if not command:
        raise PlanError('[service] kind = "process" needs the command that starts the server: command = ["…"]')
    script, known_by = f"{folder}/{_RUNNER}", place or f"{folder}/server"
    console = f"{known_by}/console.log"
    named = [f"{name}={value}" for name, value in (environment or {}).items()]
    argv = ["env", *named, *command] if named else [*command]

    service = _verbs_of(script, read_script(_RUNNER), known_by)
    return replace(
        service,
        start=(*service.start, console, user or "-", *argv),
        ended=("sh", script, "ended", known_by),
        console=console,
    )


def _verbs_of(script: str, text: bytes, *arguments: str) -> Service:
    """Make the service whose script, at that path on the node, takes each verb before these arguments."""

    def verb(name: str) -> Sequence[str]:
        return ("sh", script, name, *arguments)

    return Service(
        start=verb("start"),
        stop=verb("stop"),
        kill=verb("kill"),
        status=verb("status"),
        ending=verb("ending"),
        up=verb("up"),
        awake=verb("awake"),
        scripts={script: text},
    )
