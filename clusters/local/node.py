"""Local node: the shared node over a network namespace of this machine, with a server that is a child process.

The node's folder holds its configuration, its data and one log for each start.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from schemaquake.clusters.local import namespaces
from schemaquake.clusters.local.child_process import RECORD, ChildProcess, PrintedLog
from schemaquake.clusters.local.transport import LocalTransport
from schemaquake.clusters.nodes.client_port import ClientPort
from schemaquake.clusters.nodes.clock import FaketimeClock
from schemaquake.clusters.nodes.management import Management
from schemaquake.clusters.nodes.node import ServerData, ServerNode, ServerTools
from schemaquake.clusters.systems.configuration import (
    CLIENT_PORTS,
    JMX_PORT,
    Place,
    command,
    loader_command,
    tool_command,
    write_configuration,
)
from schemaquake.clusters.systems.recipe import Recipe

__all__ = ["Launch", "drop_data", "local_node", "prepare_to_join", "take_over", "use_tools"]

_POLL_S: Final = 0.1
_SERVER_FOLDERS: Final = ("data", "commitlog", "hints", "saved_caches", "cdc_raw", "accord.journal", "tmp")
"""The folders that hold what only a server needs, of every release line: `heal` does not know which line ran."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """The Java, the class path and the settings with which the servers of one cluster are started."""

    recipe: Recipe
    java: Path
    class_path: Sequence[Path]
    java_options: Sequence[str] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Entries of every cassandra.yaml, over those of the recipe."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """System properties of every server, over those of the recipe."""
    faketime: Path | None = None
    """The library that gives each server a clock of its own; None leaves them the machine's."""


@dataclass(frozen=True, slots=True)
class _ServerFolder:
    """A `schemaquake.clusters.nodes.run_folder.NodeFolder` with a server's configuration and its data."""

    path: str
    place: Place
    launch: Launch

    def make(self) -> None:
        """Write the configuration."""
        write_configuration(self.launch.recipe, self.place, self.launch.settings)

    def remove(self) -> bool:
        """Delete what only the server needed; logs and configuration stay with the run."""
        (self.place.folder / RECORD).unlink(missing_ok=True)
        return drop_data(self.place.folder)


def local_node(name: str, place: Place, launch: Launch, *, management: Management | None = None) -> ServerNode:
    """Make the node `name`, whose namespace has the address of `place`."""
    recipe = launch.recipe
    transport = LocalTransport(name, place.folder)
    clock = None
    environment: Mapping[str, str] = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LANG": "C.UTF-8"}
    if launch.faketime is not None:
        clock = FaketimeClock(transport, folder=str(place.folder), library=str(launch.faketime), guarded=False)
        environment = {**environment, **clock.environment()}
    printed = PrintedLog(place.folder)
    return ServerNode(
        name,
        _port(place, recipe),
        transport,
        ChildProcess(_server(name, place, launch), folder=place.folder, environment=environment, log=printed),
        log=printed,
        folder=_ServerFolder(str(place.folder), place, launch),
        data=ServerData(folders=[str(place.folder / "data")], layout=recipe.layout),
        clock=clock,
        tools=_tools(place, launch),
        management=management,
        poll_s=_POLL_S,
    )


def prepare_to_join(node: ServerNode, place: Place, launch: Launch, *, properties: Mapping[str, str]) -> None:
    """Empty the disk of a node that does not run, and have it join the cluster of `place.seeds` when it is started.

    `properties` are those of its first start, with which it takes another node's place. They stay in its arguments, where
    the server ignores them once it has joined.
    """
    recipe = launch.recipe
    joining = replace(
        launch,
        settings={**recipe.joining_yaml, **launch.settings},
        properties={
            **{name: json.dumps(value) for name, value in recipe.joining_properties.items()},
            **properties,
            **launch.properties,
        },
    )
    drop_data(place.folder)
    node.folder = _ServerFolder(str(place.folder), place, joining)
    node.folder.make()
    assert isinstance(node.process, ChildProcess)
    node.process.relaunch_as(_server(node.name, place, joining))


def take_over(node: ServerNode, place: Place, launch: Launch) -> None:
    """Have the node start as another version when it is started next, with the data it has; a running server goes on."""
    node.folder = _ServerFolder(str(place.folder), place, launch)
    node.folder.make()
    assert isinstance(node.process, ChildProcess)
    node.process.relaunch_as(_server(node.name, place, launch))
    use_tools(node, place, launch, launch)


def use_tools(node: ServerNode, place: Place, server: Launch, tools: Launch) -> None:
    """Speak to the server of one version, from now on, with nodetool and sstableloader of another."""
    node.become(_port(place, server.recipe), tools=_tools(place, tools), layout=server.recipe.layout)


def _port(place: Place, recipe: Recipe) -> ClientPort:
    return ClientPort(address=place.address, port=CLIENT_PORTS[recipe.client], protocol_version=recipe.protocol_version)


def _tools(place: Place, launch: Launch) -> ServerTools:
    return ServerTools(
        nodetool=tool_command(launch.recipe, place, java=launch.java, class_path=launch.class_path),
        loader=loader_command(launch.recipe, place, java=launch.java, class_path=launch.class_path),
    )


def _server(name: str, place: Place, launch: Launch) -> list[str]:
    remote = [entry.format(port=JMX_PORT, address=place.address).split("=") for entry in launch.recipe.remote_jmx]
    server = command(
        launch.recipe,
        place,
        java=launch.java,
        class_path=launch.class_path,
        java_options=launch.java_options,
        properties={**dict(remote), **launch.properties},
    )
    return [*namespaces.in_namespace(name), *server]


def drop_data(folder: Path) -> bool:
    """Delete what only a server needs from a node's folder, and return True if there was any. No link is followed."""
    if folder.is_symlink():
        return False
    found = [path for name in _SERVER_FOLDERS if (path := folder / name).exists() and not path.is_symlink()]
    for path in found:
        shutil.rmtree(path, ignore_errors=True)
    return bool(found)
