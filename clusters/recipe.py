"""Recipes: what a version of Cassandra needs to start, read from `recipes.toml`.

A new line of releases is a new table in that file, not a branch here.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from harness.errors import PlanError

__all__ = ["JavaOptions", "Recipe", "System", "parse_system", "recipe_for"]


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
    """The part of the command line that every modern line shares."""

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
class Recipe:
    """How one line of releases is started and read."""

    name: str
    era: Literal["system_schema", "tcm"]
    main: str
    features: frozenset[str]
    start: Literal["together", "first-alone"]
    cms: int | None
    memory_mb: int
    properties: Sequence[str]
    yaml: Mapping[str, Any]
    java: JavaOptions


def parse_system(text: str) -> System:
    """`product:version`; raises PlanError naming what is wrong with it."""
    match = re.fullmatch(r"(?P<product>[a-z]+):(?P<version>(?P<major>\d+)\.(?P<minor>\d+)[\w.+-]*)", text)
    if match is None:
        raise PlanError(f'"{text}" is not a system; write product:version, for example cassandra:5.0.9')
    if match["product"] != "cassandra":
        raise PlanError(f'this version of Schemaquake starts "cassandra" locally, not "{match["product"]}"')
    return System(match["product"], match["version"], (int(match["major"]), int(match["minor"])))


@cache
def _document() -> Mapping[str, Any]:
    return tomllib.loads(files("clusters").joinpath("recipes.toml").read_text(encoding="utf-8"))


def recipe_for(system: System) -> Recipe:
    """The recipe of that version's line; raises PlanError if there is none, naming the lines there are."""
    document = _document()
    for table in document["recipe"]:
        first, below = table["versions"].split("..")
        if _line(first) <= system.line < _line(below):
            return Recipe(
                name=table["name"],
                era=table["era"],
                main=table["main"],
                features=frozenset(table["features"]),
                start=table["start"],
                cms=table.get("cms"),
                memory_mb=table["memory_mb"],
                properties=tuple(table["properties"]),
                yaml=table["yaml"],
                java=JavaOptions(**document["java"]),
            )
    lines = ", ".join(table["versions"].replace("..", " to below ") for table in document["recipe"])
    raise PlanError(f"no launch recipe for {system}; there are recipes for Cassandra {lines}")


def _line(text: str) -> tuple[int, int]:
    major, minor = text.split(".")
    return int(major), int(minor)
