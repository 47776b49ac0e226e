"""Image context: the archive from which the engine builds the image of one Cassandra version.

The launch recipe that starts nodes on this machine also fills the image: the same options of the virtual machine, the
same settings, the same jars. What differs from node to node comes from the environment (`image/docker-entrypoint.sh`).
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import IO, Any, Final

from schemaquake.clusters.distribution.distribution import Distribution
from schemaquake.clusters.systems.configuration import Place, command, loader_command, tool_command, yaml
from schemaquake.clusters.systems.recipe import Recipe
from schemaquake.clusters.systems.system import System, recipe_for

__all__ = ["settings_of", "write_context"]

_HOME: Final = Path("/var/lib/cassandra")
_JARS: Final = Path("/opt/cassandra/lib")
_JAVA: Final = Path("java")
_BY_ENVIRONMENT: Final = frozenset({"listen_address", "rpc_address", "initial_token"})
_TOOLS: Final = {"nodetool": tool_command, "sstableloader": loader_command}
_LOGGING: Final = {"log4j": "log4j.properties", "logback": "logback.xml"}
_SEEDS: Final = {"provider": "@SEEDS@", "list": "@EACH_SEED@"}
"""The placeholders that the entrypoint replaces by the seeds: in one string, or as strings of a list."""


def write_context(target: IO[bytes], system: System, distribution: Distribution) -> None:
    """Write the archive for `docker build`: a Dockerfile, and below `root/` the files of the image."""
    with tarfile.open(fileobj=target, mode="w") as archive:
        for name, content, mode in _files(system, distribution):
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), mode
            archive.addfile(member, io.BytesIO(content))
        for jar in distribution.class_path:
            archive.add(jar, f"root{_JARS / jar.name}", filter=_plain)


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Make a file root's, readable by all and without a date, so that the same jars give the same layer."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mode, member.mtime = 0o644, 0
    return member


def _files(system: System, distribution: Distribution) -> Iterator[tuple[str, bytes, int]]:
    """List (name, content, mode) of every file but the jars."""
    ours = files(__package__) / "image"
    recipe, tools = recipe_for(system), {"nodetool", *system.topology.tools.values()}
    yield "Dockerfile", (ours / "Dockerfile").read_bytes(), 0o644
    yield "root/usr/local/bin/docker-entrypoint.sh", (ours / "docker-entrypoint.sh").read_bytes(), 0o755
    for tool in sorted(tools):
        yield f"root/opt/cassandra/bin/{tool}", (ours / tool).read_bytes(), 0o755
    for name, options in _options(recipe, distribution, tools).items():
        yield f"root/opt/cassandra/{name}", "".join(f"{_quoted(word)}\n" for word in options).encode(), 0o644
    logging = _LOGGING[recipe.logging]
    yield f"root/etc/cassandra/{logging}", (files("schemaquake.clusters.systems") / logging).read_bytes(), 0o644
    yield "root/etc/cassandra/cassandra.yaml", _settings(recipe).encode(), 0o644


def _place(recipe: Recipe) -> Place:
    return Place(address="", token=0, seeds=[_SEEDS[recipe.seeds]], folder=_HOME)


def _options(recipe: Recipe, distribution: Distribution, tools: Collection[str]) -> Mapping[str, Sequence[str]]:
    """Make argument files for `java @FILE`: the server's, before and after what the environment adds, and each tool's."""
    jars = [_JARS / jar.name for jar in distribution.class_path]
    server = command(recipe, _place(recipe), java=_JAVA, class_path=jars, java_options=[])
    classes = server.index("-cp")
    of_tools = {
        f"{tool}.options": made(recipe, _place(recipe), java=_JAVA, class_path=jars)[1:]
        for tool, made in _TOOLS.items()
        if tool in tools
    }
    return {"server.options": server[1:classes], "server.main": server[classes:], **of_tools}


def settings_of(recipe: Recipe) -> Mapping[str, Any]:
    """List the entries of `cassandra.yaml` in an image of that recipe."""
    document = yaml(recipe, _place(recipe))
    return {name: entry for name, entry in document.items() if name not in _BY_ENVIRONMENT}


def _settings(recipe: Recipe) -> str:
    """Write `cassandra.yaml`, one setting a line, as JSON, which is YAML."""
    return "".join(f"{name}: {json.dumps(entry)}\n" for name, entry in settings_of(recipe).items())


def _quoted(word: str) -> str:
    """Quote a word for an argument file: quotes keep blanks together, and a backslash escapes."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
