"""The repository itself: everything registered can be imported, is described, and is tested."""

from __future__ import annotations

import ast
import re
import tomllib
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


@pytest.mark.parametrize("target", ENTRY_POINTS.values(), ids=list(ENTRY_POINTS))
def test_every_entry_point_leads_to_something(target: str) -> None:
    module, _, attribute = target.partition(":")
    found: Any = import_module(module)
    assert not attribute or hasattr(found, attribute)


@pytest.mark.parametrize("kind", ["workloads", "nemeses", "checkers"])
def test_what_is_registered_bears_the_name_it_is_registered_under(kind: str) -> None:
    assert {name: load(kind, name).name for name in names(kind)} == {name: name for name in names(kind)}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(pages.ROOT)))
def test_every_module_says_what_it_is(path: Path) -> None:
    said = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    assert said
    assert said.partition("\n")[0].rstrip().endswith((".", "?", ")", "`"))


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


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(pages.ROOT)))
def test_no_system_is_known_by_name_outside_its_room(path: Path) -> None:
    """Docstrings may cite sources; code asks `System` instead of comparing what a system or its era is called."""
    place = str(path.relative_to(pages.ROOT))
    if place.startswith("clusters/systems/"):
        return
    tree = ast.parse(path.read_text(encoding="utf-8"))
    cited = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    constants = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    texts = {node.value for node in constants if id(node) not in cited}
    identifiers = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert not {text for text in texts | identifiers if "scylla" in text.lower()} - {A_SERVER_S_OWN_TABLE}
    assert {(place, text) for text in texts & ERAS_OF_SYSTEMS} <= RECORDED_WORDS
