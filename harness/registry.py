"""The registry: workloads, nemeses, checkers, clusters and commands, found through entry points as pytest finds plugins."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.resources import files
from typing import Any

from schemaquake.harness.errors import PlanError
from schemaquake.harness.extras import lacking_extra

__all__ = ["load", "load_all", "names", "resources"]


@cache
def _installed() -> Any:
    """Return all entry points; cached, because finding them reads a file of every installed distribution."""
    return entry_points()


@cache
def _entries(kind: str) -> Mapping[str, EntryPoint]:
    found = _installed().select(group=f"schemaquake.{kind}")
    return {entry.name: entry for entry in sorted(found, key=lambda e: e.name)}


@cache
def _loaded(entry: EntryPoint) -> Any:
    """Import an entry point's object; cached, because a run asks for a hundred of them. Raises as the import does, every time."""
    return entry.load()


def names(kind: str) -> list[str]:
    """Return the registered names of a kind (`workloads`, `nemeses`, `checkers`, `clusters`, `commands`, …), sorted."""
    return list(_entries(kind))


def load(kind: str, name: str) -> Any:
    """Return the implementation of a name: a class is called without arguments, anything else is returned as it is.

    Raises PlanError for an unknown name, with the nearest known one, and for one whose package is broken;
    EnvironmentLacks for one that needs an extra which is not installed.
    """
    entries = _entries(kind)
    singular = {"nemeses": "nemesis"}.get(kind, kind.removesuffix("s"))
    if name not in entries:
        near = difflib.get_close_matches(name, entries, n=1)
        hint = f' Did you mean "{near[0]}"?' if near else ""
        raise PlanError(f'unknown {singular} "{name}".{hint} Known: {", ".join(entries) or "none"}.')
    try:
        found = _loaded(entries[name])
    except (ImportError, AttributeError) as error:
        lack = lacking_extra(error) if isinstance(error, ModuleNotFoundError) else None
        if lack is not None:
            raise lack from error
        package = entries[name].dist
        raise PlanError(
            f'{singular} "{name}" of the package {package.name if package else "?"} cannot be loaded: '
            f"{type(error).__name__}: {error}"
        ) from error
    return found() if isinstance(found, type) else found


def load_all(kind: str) -> dict[str, Any]:
    """Return every implementation of a kind by name."""
    return {name: load(kind, name) for name in names(kind)}


def resources(kind: str, file: str) -> dict[str, str]:
    """Read `file` in every package that is registered for the kind: package → text.

    The entry points of such a kind name packages, not objects in them. Raises PlanError for a package that cannot be
    imported or lacks the file.
    """
    texts = {}
    for entry in _entries(kind).values():
        try:
            texts[entry.value] = files(entry.value).joinpath(file).read_text(encoding="utf-8")
        except (ImportError, OSError, TypeError) as error:
            raise PlanError(
                f'the package "{entry.value}", registered as schemaquake.{kind}, has no readable {file}: '
                f"{type(error).__name__}: {error}"
            ) from error
    return texts
