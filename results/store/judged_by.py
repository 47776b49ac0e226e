"""Judged by: the identity of the code that makes a verdict of records, as it stands in verdict.json.

A verdict that differs from the one that the same code makes was edited; one of other code may be older or newer. The digest covers what
decides about a verdict: the checkers and their catalogues, the model, the outcomes of systems, and how findings are made; of installed
packages the modules of their checkers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import schemaquake

__all__ = ["judged_by"]

_ROOMS: Final = (
    *("checkers", "clusters/systems", "harness/ddl", "harness/history", "harness/model", "harness/placements"),
    *("results/engines", "results/findings", "results/judging", "results/tables"),
)
_GROUP: Final = "schemaquake.checkers"


@cache
def judged_by() -> dict[str, Any]:
    """Return the version and the digest of the judging code of this process. Takes some tens of milliseconds, once."""
    digest = hashlib.sha256()
    for name, path in _files():
        digest.update(name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return {"schemaquake": schemaquake.__version__, "checkers": digest.hexdigest()[:32]}


def _files() -> Iterator[tuple[str, Path]]:
    """Yield the files that decide, by names that are the same on every machine."""
    root = Path(schemaquake.__file__).parent
    for room in _ROOMS:
        for path in sorted((root / room).rglob("*")):
            if path.suffix in {".py", ".toml"}:
                yield path.relative_to(root).as_posix(), path
    others = {point.module for point in entry_points(group=_GROUP)}
    for module in sorted(name for name in others if not name.startswith("schemaquake.")):
        spec = find_spec(module)
        if spec is not None and spec.origin is not None and Path(spec.origin).is_file():
            yield module, Path(spec.origin)
