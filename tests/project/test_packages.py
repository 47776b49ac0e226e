"""The repository itself: everything registered can be imported, is described, and is tested."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pages
import pytest

from schemaquake.harness.registry import load, names

PACKAGES = ("harness", "clusters", "workloads", "nemeses", "checkers", "results")
PROJECT = tomllib.loads((pages.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ENTRY_POINTS = {
    f"{group}: {name}": target for group, entries in PROJECT["entry-points"].items() for name, target in entries.items()
} | PROJECT["scripts"]
MODULES = [path for package in PACKAGES for path in sorted((pages.ROOT / package).rglob("*.py"))]


@cache
def said_and_known(path: Path) -> tuple[str, set[str]]:
    """A module's docstring, and the systems that its code knows by name."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return ast.get_docstring(tree) or "", systems_known_in(tree)


def place_of(path: Path) -> str:
    return str(path.relative_to(pages.ROOT))


@pytest.mark.parametrize("target", ENTRY_POINTS.values(), ids=list(ENTRY_POINTS))
def test_every_entry_point_leads_to_something(target: str) -> None:
    module, _, attribute = target.partition(":")
    found: Any = import_module(module)
    assert not attribute or hasattr(found, attribute)


@pytest.mark.parametrize("kind", ["workloads", "nemeses", "checkers"])
def test_what_is_registered_bears_the_name_it_is_registered_under(kind: str) -> None:
    assert {name: load(kind, name).name for name in names(kind)} == {name: name for name in names(kind)}


def test_every_module_says_what_it_is() -> None:
    assert len(MODULES) > 700
    said = {place_of(path): said_and_known(path)[0] for path in MODULES}
    ends = (".", "?", ")", "`")
    assert [place for place, text in said.items() if not text.partition("\n")[0].rstrip().endswith(ends)] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_is_typed(package: str) -> None:
    assert (pages.ROOT / package / "py.typed").exists()


def test_every_room_is_on_the_page_of_what_is_here() -> None:
    page = pages.text_of("whats-here.md")
    for package in PACKAGES:
        rooms = [path.parent.name for path in (pages.ROOT / package).glob("*/__init__.py")]
        assert rooms
        assert [room for room in rooms if f"{package}/{room}" not in page] == []


def test_the_page_of_what_is_here_names_no_file_that_is_gone() -> None:
    named = re.findall(
        r"`((?:harness|clusters|workloads|nemeses|checkers|results|tests|docs)/[\w/.-]+)`",
        pages.text_of("whats-here.md"),
    )
    assert len(named) > 40
    assert [path for path in named if not (pages.ROOT / path).exists()] == []


@pytest.mark.parametrize("kind", ["workloads", "nemeses", "checkers"])
def test_whatever_is_registered_is_mentioned_by_a_test_of_its_package(kind: str) -> None:
    tests = "\n".join(path.read_text(encoding="utf-8") for path in (pages.ROOT / "tests" / kind).rglob("test_*.py"))
    targets = PROJECT["entry-points"][f"schemaquake.{kind}"]
    for name in names(kind):
        attribute = targets[name].partition(":")[2]
        assert f'"{name}"' in tests or attribute in tests, f"no test in tests/{kind} mentions {name}"


ERAS_OF_SYSTEMS = frozenset({"migrations", "merged-rows", "schema-tables", "system_schema", "tcm", "group0"})
RECORDED_WORDS = {
    ("checkers/evidence/node_schemas.py", "group0"),  # a key of a version row
    ("clusters/simulated/models/group0.py", "group0"),  # a logger
}
A_SERVER_S_OWN_TABLE = "system.scylla_local"


def test_no_system_is_known_by_name_outside_its_room() -> None:
    """Docstrings may cite sources; code asks `System` instead of comparing what a system or its era is called."""
    outside = [path for path in MODULES if not place_of(path).startswith("clusters/systems/")]
    assert len(outside) > 700
    assert {(place_of(path), name) for path in outside for name in said_and_known(path)[1]} <= RECORDED_WORDS


def systems_known_in(tree: ast.Module) -> set[str]:
    """Names of systems and eras in the code: in what it is written with, and in its texts but docstrings."""
    cited, texts, identifiers = set(), set(), set()
    for node in ast.walk(tree):
        match node:
            case ast.Expr():
                cited.add(id(node.value))
            case ast.Constant(value=str(text)) if id(node) not in cited:  # a statement is walked before its value
                texts.add(text)
            case ast.Name():
                identifiers.add(node.id)
    systems = {text for text in texts | identifiers if "scylla" in text.lower()} - {A_SERVER_S_OWN_TABLE}
    return systems | (texts & ERAS_OF_SYSTEMS)


def test_what_a_module_knows_of_systems_is_seen() -> None:
    source = '"""ScyllaDB: cited."""\nif era == "tcm" or scylla_is_there(f"{x} of scylla"):\n    "group0"\n'
    assert systems_known_in(ast.parse(source)) == {"tcm", "scylla_is_there", " of scylla"}
