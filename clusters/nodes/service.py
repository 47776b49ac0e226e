"""Service: how a server is started and ended on its node, as argument vectors that root carries out there.

Three kinds: a unit of systemd's, commands of the owner's, and a command that the harness starts by itself. Two of them
are a script of ours on the node with a verb, so that a guard that outlives the harness can do what the harness does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from schemaquake.clusters.cluster_file.model import ClusterFile, Commands, Process, Systemd
from schemaquake.clusters.nodes.scripts import read_script
from schemaquake.harness.errors import PlanError

__all__ = ["Service", "commands", "process", "service_of", "systemd"]

_RUNNER: Final = "process_runner.sh"
_UNIT: Final = "systemd_unit.sh"


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """What to carry out on the node for each verb."""

    start: Sequence[str]
    """Returns before the server serves; harmless if it runs."""
    stop: Sequence[str]
    """Asks for a clean end; may return before it."""
    kill: Sequence[str]
    status: Sequence[str]
    """Prints the server's pid; prints nothing, or fails, if it does not run."""
    ended: Sequence[str] = ()
    """Prints the exit code of the latest server, once it has ended; () where nobody knows it."""
    console: str | None = None
    """The file on the node that takes what the server prints; None where somebody else sees to that."""
    scripts: Mapping[str, bytes] = field(default_factory=dict)
    """What must lie on the node for these commands, by path."""


def service_of(file: ClusterFile, folder: str, *, environment: Mapping[str, str] | None = None) -> Service:
    """The service that a cluster file names, of servers that outlive runs. `folder` is the run's own on the node.

    `environment` is added to that of a server which the harness starts itself. Raises PlanError for a process without a
    command.
    """
    match file.service:
        case Systemd(unit=unit):
            return systemd(unit, folder)
        case Commands() as own:
            return commands(own)
        case Process() as told:
            return process(
                told.command,
                folder,
                place=f"{file.paths.state}/server",
                environment={**told.environment, **(environment or {})},
                user=told.user,
            )


def systemd(unit: str, folder: str) -> Service:
    """A unit of systemd's."""
    script = f"{folder}/{_UNIT}"

    def verb(name: str) -> Sequence[str]:
        return ("sh", script, name, unit)

    return Service(
        start=verb("start"),
        stop=verb("stop"),
        kill=verb("kill"),
        status=verb("status"),
        ended=verb("ended"),
        scripts={script: read_script(_UNIT)},
    )


def commands(own: Commands) -> Service:
    """The owner's own."""
    return Service(start=own.start, stop=own.stop, kill=own.kill, status=own.status)


def process(
    command: Sequence[str],
    folder: str,
    *,
    place: str | None = None,
    environment: Mapping[str, str] | None = None,
    user: str | None = None,
) -> Service:
    """A command that is started detached. Raises PlanError for none.

    `place` is the folder by which the server is known, if it is not one of this run's: whoever names the same finds it.
    """
    if not command:
        raise PlanError('[service] kind = "process" needs the command that starts the server: command = ["…"]')
    script, known_by = f"{folder}/{_RUNNER}", place or f"{folder}/server"
    console = f"{known_by}/console.log"
    named = [f"{name}={value}" for name, value in (environment or {}).items()]
    told = ["env", *named, *command] if named else [*command]

    def verb(name: str, *more: str) -> Sequence[str]:
        return ("sh", script, name, known_by, *more)

    return Service(
        start=verb("start", console, user or "-", *told),
        stop=verb("stop"),
        kill=verb("kill"),
        status=verb("status"),
        ended=verb("ended"),
        console=console,
        scripts={script: read_script(_RUNNER)},
    )
