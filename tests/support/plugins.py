"""Plugins as a stranger ships them: a distribution with entry points, in a folder on the import path.

Processes that a test starts find it, too, whether spawned (they are handed `sys.path`) or executed (`PYTHONPATH`).
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from schemaquake.checkers.findings import catalogue
from schemaquake.harness import registry


def distribution(folder: Path, entry_points: Mapping[str, Mapping[str, str]], *, name: str = "stranger") -> Path:
    """Write an installed distribution into `folder`: `{"workloads": {"my-workload": "module:Class"}}`."""
    metadata = folder / f"{name}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = []
    for kind, entries in entry_points.items():
        lines += [f"[schemaquake.{kind}]", *(f"{key} = {target}" for key, target in entries.items())]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return folder


@contextmanager
def on_path(*folders: Path) -> Iterator[None]:
    """Let this process, and those it starts, import from `folders` and find the plugins there."""
    before, environment = list(sys.path), os.environ.get("PYTHONPATH")
    loaded = set(sys.modules)
    sys.path[:0] = map(str, folders)
    os.environ["PYTHONPATH"] = os.pathsep.join([*map(str, folders), *([environment] if environment else [])])
    _forget()
    try:
        yield
    finally:
        sys.path[:] = before
        for name in set(sys.modules) - loaded:
            if any(_lies_in(sys.modules[name], folder) for folder in folders):
                del sys.modules[name]
        if environment is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = environment
        _forget()


def _lies_in(module: ModuleType, folder: Path) -> bool:
    return Path(getattr(module, "__file__", None) or "/").is_relative_to(folder)


def _forget() -> None:
    """What is installed is looked up once a process; here it changes."""
    importlib.invalidate_caches()
    registry._installed.cache_clear()
    registry._entries.cache_clear()
    catalogue._read.cache_clear()
    catalogue.finders.cache_clear()
