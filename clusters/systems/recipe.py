"""Recipes: what a line of Cassandra's releases needs to start, and what is to be known of it, read from `recipes.toml`.

A new line of releases is a new table in that file, not a branch here: whatever differs from line to line (names of
classes, properties and settings, how seeds and tokens are written, which log there is, where tables lie) is a field.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, Final, Literal, TypeAlias

from schemaquake.harness.errors import PlanError

__all__ = ["JavaOptions", "Layout", "Recipe", "launch_recipe"]

Layout: TypeAlias = Literal["files", "folders", "folders-with-ids"]
"""Where a table's files lie: beside those of other tables, in a folder of its name, in one that also bears its id."""

_JOINED: Final = frozenset({"features", "folders", "jmx"})
_MERGED: Final = frozenset({"properties", "yaml", "when_busy"})


@dataclass(frozen=True, slots=True)
class JavaOptions:
    """Options of the virtual machine, before the server's own properties."""

    heap: Sequence[str]
    flags: Sequence[str]
    exports: Sequence[str]
    opens: Sequence[str]

    def arguments(self, *, heap: Sequence[str] | None = None) -> list[str]:
        """Make the argument vector; a tool may have another heap than the server."""
        return [
            *(self.heap if heap is None else heap),
            *self.flags,
            *(f"--add-exports={package}=ALL-UNNAMED" for package in self.exports),
            *(f"--add-opens={package}=ALL-UNNAMED" for package in self.opens),
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """The settings with which one line of releases is started here, and read. The fields are explained at the head of `recipes.toml`."""

    name: str
    era: str
    client: Literal["thrift", "cql"]
    protocol_version: int | None
    features: frozenset[str]
    start: Literal["together", "first-alone"]
    memory_mb: int
    layout: Layout
    pull_delay_s: float
    java: tuple[int, int]
    main: str
    tools: str
    ring: Literal["random", "murmur3"]
    seeds: Literal["list", "provider"]
    logging: Literal["log4j", "logback"]
    folders: Sequence[str]
    agent: str | None
    properties: Mapping[str, int | bool]
    jmx: Sequence[str]
    yaml: Mapping[str, Any]
    jvm: JavaOptions
    late_nodes_take_over: bool = False
    gossip_and_retry_s: float | None = None
    remote_jmx: Sequence[str] = ()
    """Properties that open the same port to other machines; () where nobody needs that."""
    when_busy: Mapping[str, str] = field(default_factory=dict)
    """Options of a run (`-O`) of many schema changes on a busy machine."""
    pull_delay_properties: Sequence[str] = ()
    """Properties, in milliseconds, that `pull_delay_s` is at least the sum of."""
    joining_properties: Mapping[str, int | bool] = field(default_factory=dict)
    """System properties, over those above, of a node that joins a cluster which serves."""
    joining_yaml: Mapping[str, Any] = field(default_factory=dict)
    """Entries of its `cassandra.yaml`, over those above."""

    def pull_delay(self, properties: Mapping[str, str]) -> float:
        """Return how long a node looks at another's schema version before it asks for it, s, with these properties over its own.

        Raises PlanError for one that is no number.
        """
        milliseconds = 0.0
        for name in self.pull_delay_properties:
            text = properties.get(name, self.properties[name])
            try:
                milliseconds += float(text)
            except ValueError as error:
                raise PlanError(f"-O property.{name}={text} is no number of milliseconds") from error
        return max(self.pull_delay_s, milliseconds / 1000)

    def quiet(self, properties: Mapping[str, str], settings: Mapping[str, Any]) -> float:
        """Return how long after the last change no node has any more to hear from another, s; 0 if that is not known.

        A version must be heard of, the wait for a pull must pass, its answer must come or be dropped as too late, and a pull
        that failed is repeated after a while. `settings` are entries over those of `cassandra.yaml`. Raises PlanError as
        `pull_delay` does.
        """
        yaml = {**self.yaml, **settings}
        answer_s = _seconds(yaml.get("request_timeout", yaml.get("request_timeout_in_ms")))
        if self.gossip_and_retry_s is None or answer_s is None:
            return 0.0
        return self.gossip_and_retry_s + self.pull_delay(properties) + answer_s


def _seconds(duration: Any) -> float | None:
    """Parse a duration of `cassandra.yaml`: "5s", "1500ms", or a number of milliseconds. None for any other."""
    found = re.fullmatch(r"(\d+) *(ms|s|m|)", str(duration))
    return None if found is None else float(found[1]) * {"m": 60.0, "s": 1.0, "ms": 0.001, "": 0.001}[found[2]]


@cache
def _document() -> Mapping[str, Any]:
    return tomllib.loads(files(__package__).joinpath("recipes.toml").read_text(encoding="utf-8"))


def launch_recipe(text: str, line: tuple[int, int], wanted: Collection[str] = ()) -> Recipe:
    """Make the recipe of the line (major, minor) of `text`, "cassandra:5.0.9". Raises PlanError if there is none.

    `wanted` are features that a workload requires: what the line has only on demand is switched on for them.
    """
    document = _document()
    for table in document["recipe"]:
        first, below = table["versions"].split("..")
        if _line(first) <= line < _line(below):
            return _recipe(table, document, wanted)
    ranges = ", ".join(table["versions"].replace("..", " to below ") for table in document["recipe"])
    raise PlanError(f"no launch recipe for {text}; there are recipes for Cassandra {ranges}")


def _recipe(table: Mapping[str, Any], document: Mapping[str, Any], wanted: Collection[str]) -> Recipe:
    """Mix a recipe from its ingredients, in order, and then its own table: some lists grow, other values are replaced."""
    on_demand: Mapping[str, str] = table.get("on_demand", {})
    mixed: dict[str, Any] = {"features": [*on_demand], "folders": [], "jmx": []}
    mixed |= {name: {} for name in _MERGED}
    ingredients = [*table["of"], *(name for feature, name in on_demand.items() if feature in wanted)]
    for part in (*(document["ingredient"][name] for name in ingredients), table):
        for key, value in part.items():
            if key in _JOINED:
                mixed[key] = mixed[key] + value
            elif key in _MERGED:
                mixed[key] = mixed[key] | value
            else:
                mixed[key] = value
    first, last = mixed["java"]
    return Recipe(
        name=mixed["name"],
        era=mixed["era"],
        client=mixed["client"],
        protocol_version=mixed.get("protocol_version"),
        java=(first, last),
        main=mixed["main"],
        tools=mixed["tools"],
        features=frozenset(mixed["features"]),
        start=mixed["start"],
        memory_mb=mixed["memory_mb"],
        ring=mixed["ring"],
        seeds=mixed["seeds"],
        logging=mixed["logging"],
        layout=mixed["layout"],
        pull_delay_s=mixed["pull_delay_s"],
        late_nodes_take_over=mixed.get("late_nodes_take_over", False),
        gossip_and_retry_s=mixed.get("gossip_and_retry_s"),
        folders=tuple(mixed["folders"]),
        agent=mixed.get("agent"),
        properties=mixed["properties"],
        jmx=tuple(mixed["jmx"]),
        yaml=mixed["yaml"],
        remote_jmx=tuple(mixed.get("remote_jmx", ())),
        when_busy=mixed["when_busy"],
        pull_delay_properties=tuple(mixed.get("pull_delay_properties", ())),
        jvm=JavaOptions(**{**document["jvm"], **({"heap": mixed["heap"]} if "heap" in mixed else {})}),
        joining_properties=document["joining"]["properties"],
        joining_yaml=document["joining"]["yaml"],
    )


def _line(text: str) -> tuple[int, int]:
    major, minor = text.split(".")
    return int(major), int(minor)
