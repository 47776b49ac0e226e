"""Recipes: what a version of Cassandra needs to start, and what is to be known of any, read from `recipes.toml`.

A new line of releases is a new table in that file, not a branch here: whatever differs from line to line (names of
classes, properties and settings, how seeds and tokens are written, which log there is, where tables lie) is a field.
What clients, workloads and readers need to know of a line is a `Line`; a `Recipe` is a line that is also started here.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final, Literal, TypeAlias

from schemaquake.harness.errors import PlanError

__all__ = [
    "Era",
    "JavaOptions",
    "Layout",
    "Line",
    "Recipe",
    "System",
    "line_for",
    "parse_system",
    "recipe_for",
]

Era: TypeAlias = Literal["migrations", "merged-rows", "schema-tables", "system_schema", "tcm", "group0"]
"""How schema changes spread: ordered migrations (0.7–1.0), merged rows by Thrift (1.1), by CQL (1.2–2.2), in a keyspace
of their own (3.0–5.0), one log of epochs (6.0), and one log of states (ScyllaDB)."""

Layout: TypeAlias = Literal["files", "folders", "folders-with-ids"]
"""Where a table's files lie: beside those of other tables, in a folder of its name, in one that also bears its id."""

_JOINED: Final = frozenset({"features", "folders", "jmx"})
_MERGED: Final = frozenset({"properties", "yaml"})
_PRODUCTS: Final = {"cassandra": "Cassandra", "scylladb": "ScyllaDB"}


@dataclass(frozen=True, slots=True)
class System:
    """`cassandra:5.0.9`, taken apart. `line` is (major, minor)."""

    product: str
    version: str
    line: tuple[int, int]

    def __str__(self) -> str:
        return f"{self.product}:{self.version}"


@dataclass(frozen=True, slots=True)
class JavaOptions:
    """What the virtual machine is told before the server's own properties."""

    heap: Sequence[str]
    flags: Sequence[str]
    exports: Sequence[str]
    opens: Sequence[str]

    def arguments(self, *, heap: Sequence[str] | None = None) -> list[str]:
        """As an argument vector; a tool may have another heap than the server."""
        return [
            *(self.heap if heap is None else heap),
            *self.flags,
            *(f"--add-exports={package}=ALL-UNNAMED" for package in self.exports),
            *(f"--add-opens={package}=ALL-UNNAMED" for package in self.opens),
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What clients, workloads and readers need to know of one line of releases, wherever it runs.

    The fields are explained at the head of `recipes.toml`. `image`: of a line that is not started here, the container
    image that it can be had as, without its tag.
    """

    name: str
    era: Era
    client: Literal["thrift", "cql"]
    protocol_version: int | None
    features: frozenset[str]
    start: Literal["together", "first-alone"]
    memory_mb: int
    layout: Layout
    pull_delay_s: float
    image: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe(Line):
    """How one line of releases is started here, and read. The fields are explained at the head of `recipes.toml`."""

    java: tuple[int, int]
    main: str
    tools: str
    cms: int | None
    ring: Literal["random", "murmur3"]
    seeds: Literal["list", "provider"]
    logging: Literal["log4j", "logback"]
    folders: Sequence[str]
    agent: str | None
    properties: Mapping[str, int | bool]
    jmx: Sequence[str]
    yaml: Mapping[str, Any]
    jvm: JavaOptions


def parse_system(text: str) -> System:
    """`product:version`; raises PlanError naming what is wrong with it."""
    match = re.fullmatch(r"(?P<product>[a-z]+):(?P<version>(?P<major>\d+)\.(?P<minor>\d+)[\w.+-]*)", text)
    if match is None:
        raise PlanError(f'"{text}" is not a system; write product:version, for example cassandra:5.0.9')
    if match["product"] not in _PRODUCTS:
        raise PlanError(f'Schemaquake knows the products {" and ".join(_PRODUCTS)}, not "{match["product"]}"')
    return System(match["product"], match["version"], (int(match["major"]), int(match["minor"])))


@cache
def _document() -> Mapping[str, Any]:
    return tomllib.loads(files(__package__).joinpath("recipes.toml").read_text(encoding="utf-8"))


def recipe_for(system: System, *, wanted: Collection[str] = ()) -> Recipe:
    """The recipe of that version's line; raises PlanError if there is none, naming the lines there are.

    `wanted` are features that a workload requires: what the line has only on demand is switched on for them.
    """
    if system.product != "cassandra":
        image = line_for(system).image
        raise PlanError(
            f"{system} is not started here: it runs on deployed clusters (--cluster FILE.toml) and in containers with "
            f"the image {image}:{system.version} (--cluster docker)"
        )
    document = _document()
    table = _table(system, document["recipe"])
    if table is None:
        raise PlanError(
            f"no launch recipe for {system}; there are recipes for Cassandra {_spelled(document['recipe'])}"
        )
    return _recipe(table, document, wanted)


def line_for(system: System, *, wanted: Collection[str] = ()) -> Line:
    """What is to be known of that version's line, whether it can be started here or not; raises PlanError if nothing is."""
    if system.product == "cassandra":
        return recipe_for(system, wanted=wanted)
    lines = [table for table in _document()["line"] if table["product"] == system.product]
    table = _table(system, lines)
    if table is None:
        raise PlanError(f"nothing is known of {system}; known is {_PRODUCTS[system.product]} {_spelled(lines)}")
    return Line(
        **{name: entry for name, entry in table.items() if name not in {"product", "versions", "features"}},
        features=frozenset(table["features"]),
    )


def _table(system: System, tables: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The first of these tables whose `versions` hold that system's."""
    for table in tables:
        first, below = table["versions"].split("..")
        if _line(first) <= system.line and (not below or system.line < _line(below)):
            return table
    return None


def _spelled(tables: Sequence[Mapping[str, Any]]) -> str:
    ranges = [table["versions"].split("..") for table in tables]
    return ", ".join(f"{first} to below {below}" if below else f"{first} and later" for first, below in ranges)


def _recipe(table: Mapping[str, Any], document: Mapping[str, Any], wanted: Collection[str]) -> Recipe:
    """A recipe is its ingredients, in order, and then itself: some lists grow, whatever else is said again is replaced."""
    on_demand: Mapping[str, str] = table.get("on_demand", {})
    mixed: dict[str, Any] = {"features": [*on_demand], "folders": [], "jmx": [], "properties": {}, "yaml": {}}
    ingredients = [*table["of"], *(name for feature, name in on_demand.items() if feature in wanted)]
    for part in (*(document["ingredient"][name] for name in ingredients), table):
        for field, value in part.items():
            if field in _JOINED:
                mixed[field] = mixed[field] + value
            elif field in _MERGED:
                mixed[field] = mixed[field] | value
            else:
                mixed[field] = value
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
        cms=mixed.get("cms"),
        memory_mb=mixed["memory_mb"],
        ring=mixed["ring"],
        seeds=mixed["seeds"],
        logging=mixed["logging"],
        layout=mixed["layout"],
        pull_delay_s=mixed["pull_delay_s"],
        folders=tuple(mixed["folders"]),
        agent=mixed.get("agent"),
        properties=mixed["properties"],
        jmx=tuple(mixed["jmx"]),
        yaml=mixed["yaml"],
        jvm=JavaOptions(**{**document["jvm"], **({"heap": mixed["heap"]} if "heap" in mixed else {})}),
    )


def _line(text: str) -> tuple[int, int]:
    major, minor = text.split(".")
    return int(major), int(minor)
