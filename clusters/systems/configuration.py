"""Configuration: from a recipe and a node's place in the cluster to its files and its command lines.

Pure but for the writing of the files: what is here decides nothing by version; the recipe has decided.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from schemaquake.clusters.systems.recipe import Recipe

__all__ = [
    "CLIENT_PORTS",
    "Place",
    "command",
    "loader_command",
    "server_folders",
    "token_at",
    "tokens",
    "tokens_between",
    "tool_command",
    "write_configuration",
    "yaml",
]

CLIENT_PORTS: Final = {"cql": 9042, "thrift": 9160}
_STORAGE_PORT: Final = 7000
JMX_PORT: Final = 7199
_LOADER: Final = "org.apache.cassandra.tools.BulkLoader"
_CQL: Final = "cql"
# A random partitioner's ring begins at 0 and is as long as an MD5 is wide; Murmur3's is all 64-bit integers.
_RINGS: Final = {"random": (0, 2**127), "murmur3": (-(2**63) + 1, 2**64)}
_LOGGING: Final = {"log4j": "log4j.properties", "logback": "logback.xml"}
_LOGGING_PROPERTY: Final = {"log4j": "log4j.configuration=file://{}", "logback": "logback.configurationFile={}"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A node's place in the cluster: its address and token in the ring, whom it asks for others, and its folder."""

    address: str
    token: int | None
    """None: the server finds one, as a node does that takes another's place."""
    seeds: Sequence[str]
    folder: Path


def tokens(recipe: Recipe, count: int) -> Sequence[int]:
    """The tokens of `count` nodes that divide the ring evenly."""
    first, length = _RINGS[recipe.ring]
    return [first + number * length // count for number in range(count)]


def token_at(recipe: Recipe, fraction: float) -> int:
    """Return the token that lies this far along the ring, from 0 to 1."""
    first, length = _RINGS[recipe.ring]
    return first + int(fraction * (length - 1))


def tokens_between(recipe: Recipe, taken: Sequence[int], count: int) -> Sequence[int]:
    """Choose `count` further tokens, each in the middle of the widest range that is left; the first of equals comes first."""
    _, length = _RINGS[recipe.ring]
    ring, chosen = sorted(taken), []
    for _ in range(count):
        widths = [
            (later - earlier) % length or length for earlier, later in zip(ring, ring[1:] + ring[:1], strict=True)
        ]
        widest = max(widths)
        place = widths.index(widest)
        chosen.append(_wrapped(recipe, ring[place] + widest // 2))
        ring = sorted([*ring, chosen[-1]])
    return chosen


def _wrapped(recipe: Recipe, token: int) -> int:
    first, length = _RINGS[recipe.ring]
    return first + (token - first) % length


def server_folders(recipe: Recipe) -> Sequence[str]:
    """The folders, in the node's own, that hold what only the server needs."""
    return ["data", *recipe.folders, "tmp"]


def write_configuration(recipe: Recipe, place: Place, settings: Mapping[str, Any]) -> None:
    """Make the node's folder: its server's folders, `cassandra.yaml`, and how to log."""
    for folder in server_folders(recipe):
        (place.folder / folder).mkdir(parents=True, exist_ok=True)
    name = _LOGGING[recipe.logging]
    (place.folder / name).write_text(files(__package__).joinpath(name).read_text(encoding="utf-8"), encoding="utf-8")
    # JSON is YAML: no emitter is needed, and nothing is quoted wrongly.
    document = {**yaml(recipe, place), **settings}
    (place.folder / "cassandra.yaml").write_text(json.dumps(document, indent=1), encoding="utf-8")


def yaml(recipe: Recipe, place: Place) -> Mapping[str, Any]:
    """The node's `cassandra.yaml`."""
    seeds: Mapping[str, Any]
    match recipe.seeds:
        case "list":
            seeds = {"seeds": list(place.seeds)}
        case "provider":
            provider = "org.apache.cassandra.locator.SimpleSeedProvider"
            parameters = [{"seeds": ",".join(place.seeds)}]
            seeds = {"seed_provider": [{"class_name": provider, "parameters": parameters}]}
    port = "native_transport_port" if recipe.client == _CQL else "rpc_port"
    document: dict[str, Any] = {
        **recipe.yaml,
        "cluster_name": "schemaquake",
        "listen_address": place.address,
        "rpc_address": place.address,
        port: CLIENT_PORTS[recipe.client],
        "storage_port": _STORAGE_PORT,
        **seeds,
        **({} if place.token is None else {"initial_token": str(place.token)}),
        "data_file_directories": [str(place.folder / "data")],
    }
    for name in recipe.folders:
        section, _, setting = name.rpartition(".")
        told = {f"{setting}_directory": str(place.folder / name)}
        document |= {section: {**document.get(section, {}), **told}} if section else told
    return document


def command(
    recipe: Recipe,
    place: Place,
    *,
    java: Path,
    class_path: Sequence[Path],
    java_options: Sequence[str],
    properties: Mapping[str, str] | None = None,
) -> list[str]:
    """The argument vector that starts the server. `properties` replace those of the recipe, name by name."""
    folder = place.folder
    named = {name: json.dumps(value) for name, value in recipe.properties.items()} | dict(properties or {})
    return [
        str(java),
        *recipe.jvm.arguments(),
        *_agent(recipe, class_path),
        *java_options,
        f"-Dcassandra.config=file://{folder / 'cassandra.yaml'}",
        _logging(recipe, folder),
        f"-Dcassandra.storagedir={folder}",
        *(f"-D{entry.format(port=JMX_PORT)}" for entry in recipe.jmx),
        f"-Djava.io.tmpdir={folder / 'tmp'}",
        f"-Djna.tmpdir={folder / 'tmp'}",
        "-Dcassandra-foreground=yes",
        *(f"-D{name}={value}" for name, value in named.items()),
        "-cp",
        os.pathsep.join(map(str, class_path)),
        recipe.main,
    ]


def tool_command(recipe: Recipe, place: Place, *, java: Path, class_path: Sequence[Path]) -> list[str]:
    """The argument vector that starts the distribution's own nodetool, without its arguments."""
    # The oldest ones take no default for the host.
    where = ["-h", "127.0.0.1", "-p", str(JMX_PORT)]
    return [*_tool(recipe, place, java, class_path), recipe.tools, *where]


def loader_command(recipe: Recipe, place: Place, *, java: Path, class_path: Sequence[Path]) -> list[str]:
    """The argument vector that starts the distribution's own sstableloader with the node's ports, without its arguments."""
    return [*_tool(recipe, place, java, class_path), _LOADER, "-f", str(place.folder / "cassandra.yaml")]


def _tool(recipe: Recipe, place: Place, java: Path, class_path: Sequence[Path]) -> list[str]:
    return [
        str(java),
        *recipe.jvm.arguments(heap=["-Xmx128m"]),
        "-Dcom.sun.jndi.rmiURLParsing=legacy",
        f"-Duser.home={place.folder}",
        f"-Dcassandra.config=file://{place.folder / 'cassandra.yaml'}",  # 1.2 to 2.1 read it before they ask
        _logging(recipe, place.folder),
        "-cp",
        os.pathsep.join(map(str, class_path)),
    ]


def _logging(recipe: Recipe, folder: Path) -> str:
    return f"-D{_LOGGING_PROPERTY[recipe.logging].format(folder / _LOGGING[recipe.logging])}"


def _agent(recipe: Recipe, class_path: Sequence[Path]) -> list[str]:
    """The jar of the class path that is also to be the virtual machine's agent."""
    if recipe.agent is None:
        return []
    jars = [jar for jar in class_path if jar.name.startswith(f"{recipe.agent}-")]
    # Java makes and uses no startup archive beside an agent unless it is told to both times; this one changes no class.
    allowed = ["-XX:+UnlockDiagnosticVMOptions", "-XX:+AllowArchivingWithJavaAgent"]
    return [*allowed, *(f"-javaagent:{jar}" for jar in jars)]
