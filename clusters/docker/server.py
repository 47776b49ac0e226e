"""Docker server: the command of a container's server, and the environment and settings that place it in the cluster.

By the image's own command and by the variables that the official image of Cassandra understands, so that an image of
ours, the official one and one that is made upon it are started alike. A system that says otherwise (`System.container`) is
started by the command that it gives.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from schemaquake.clusters.docker.image import SYSTEM_LABEL
from schemaquake.clusters.systems.configuration import tokens, tokens_between
from schemaquake.clusters.systems.recipe import Recipe
from schemaquake.clusters.systems.system import System, recipe_for
from schemaquake.harness.errors import PlanError

__all__ = ["Image", "Joining", "Server", "edited", "server_of"]

_SWITCHES: Final = frozenset(
    {
        "enable_user_defined_functions",
        "enable_materialized_views",
        "user_defined_functions_enabled",
        "materialized_views_enabled",
    }
)
"""The settings that images leave off although a line's features need them."""


@dataclass(frozen=True, slots=True)
class Image:
    """The facts about an image that a server needs, from `docker image inspect`."""

    name: str
    attributes: Mapping[str, Any]

    @property
    def id(self) -> str:
        """The id `sha256:…`; the name may be given to another image later."""
        return str(self.attributes["Id"])

    @property
    def system(self) -> str | None:
        """The system for which `schemaquake image` built it; None for any other image."""
        labels: Mapping[str, str] = self._config.get("Labels") or {}
        return labels.get(SYSTEM_LABEL)

    @property
    def command(self) -> list[str]:
        """The entrypoint with its command. Raises PlanError for an image with neither."""
        argv = [*(self._config.get("Entrypoint") or []), *(self._config.get("Cmd") or [])]
        if not argv:
            raise PlanError(f"the image {self.name} says of no command that it starts: it is no server's")
        return argv

    @property
    def user(self) -> str | None:
        """The user of its command; None for root."""
        user = str(self._config.get("User") or "").partition(":")[0]
        return None if user in {"", "0", "root"} else user

    @property
    def volumes(self) -> Sequence[str]:
        """The paths of its volumes."""
        return sorted(self._config.get("Volumes") or {})

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment of every process in its containers."""
        pairs = (entry.partition("=") for entry in self._config.get("Env") or [])
        return {name: text for name, _, text in pairs}

    @property
    def settings_file(self) -> str:
        """The path of its `cassandra.yaml`."""
        return f"{self.environment.get('CASSANDRA_CONF', '/etc/cassandra')}/cassandra.yaml"

    @property
    def _config(self) -> Mapping[str, Any]:
        config: Mapping[str, Any] = self.attributes.get("Config") or {}
        return config


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """The server of one container: its command, what is added to its environment, and where its data lies.

    `settings` go into its `cassandra.yaml` before the first start.
    """

    command: Sequence[str]
    environment: Mapping[str, str]
    user: str | None
    data: str
    settings: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Joining:
    """The way a server joins a cluster that serves: whom it asks, and whose place it takes, if any."""

    seeds: Sequence[str]
    takes_place: bool
    """True if its token is that of the node which `properties` name."""
    properties: Mapping[str, str]


def server_of(
    image: Image,
    system: System,
    *,
    number: int,
    addresses: Sequence[str],
    memory_mb: int,
    settings: Mapping[str, Any],
    properties: Mapping[str, str],
    spares: int = 0,
    joining: Joining | None = None,
) -> Server:
    """Make the server of node `number` (from 0) of those at `addresses`, in a container of `memory_mb`.

    The last `spares` of the addresses are no founders'. `settings` and `properties` are the user's own, for `cassandra.yaml`
    and for the virtual machine. Raises PlanError, also for a server that is to join and whose command is not Cassandra's.
    """
    founders = addresses[: len(addresses) - spares]
    seeds = ",".join(joining.seeds if joining else founders if system.start == "together" else founders[:1])
    address = addresses[number]
    if system.container is not None:
        if settings or properties:
            raise PlanError("-O yaml. and -O property. are Cassandra's: leave them out")
        if joining is not None:
            raise PlanError(f"how {system} joins a cluster in a container is not known here")
        command = system.container.command(address, seeds, memory_mb)
        return Server(command=command, environment={}, user=None, data=system.container.data, settings={})
    recipe = recipe_for(system)
    ours = image.system is not None
    founding = tokens(recipe, len(founders))
    token = [*founding, *tokens_between(recipe, founding, spares)][number]
    properties_of_java = {**_properties(recipe.properties), **_place(recipe, token, joining), **properties}
    environment = {
        "CASSANDRA_CLUSTER_NAME": "schemaquake",
        "CASSANDRA_SEEDS": seeds,
        "CASSANDRA_LISTEN_ADDRESS": address,
        "CASSANDRA_RPC_ADDRESS": address,
        "CASSANDRA_NUM_TOKENS": "1",
        "JVM_EXTRA_OPTS": " ".join(f"-D{name}={text}" for name, text in properties_of_java.items()),
    }
    if not ours:
        # By itself it would take its heap from the machine's memory, and be killed for that by the container's limit.
        environment |= {"MAX_HEAP_SIZE": f"{memory_mb // 2}M", "HEAP_NEWSIZE": f"{memory_mb // 8}M"}
    switches = {} if ours else {name: entry for name, entry in recipe.yaml.items() if name in _SWITCHES}
    return Server(
        command=image.command,
        environment=environment,
        user=image.user,
        data="/var/lib/cassandra/data",
        settings={**switches, **({} if joining is None else recipe.joining_yaml), **settings},
    )


def _place(recipe: Recipe, token: int, joining: Joining | None) -> Mapping[str, str]:
    """Make the properties with which a server takes its place in the ring."""
    own = {"cassandra.initial_token": str(token)}
    if joining is None:
        return {**own, "cassandra.auto_bootstrap": "false"}  # no data yet, nothing to stream
    return {
        **({} if joining.takes_place else own),
        **_properties(recipe.joining_properties),
        **joining.properties,
    }


def _properties(entries: Mapping[str, int | bool]) -> Mapping[str, str]:
    return {name: json.dumps(entry) for name, entry in entries.items()}


def edited(text: str, settings: Mapping[str, Any]) -> str:
    """Replace settings at the top level of a `cassandra.yaml`, or add them."""
    for name, entry in settings.items():
        block = re.compile(rf"^{re.escape(name)}:.*\n?(?:(?:[ \t-].*)?\n)*?(?=^[^\s-]|\Z)", re.MULTILINE)
        text = block.sub("", text)
        text = f"{text.rstrip()}\n{name}: {json.dumps(entry)}\n"
    return text
