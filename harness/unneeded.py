"""Unneeded: packages that others import if they are installed, for nothing that is wanted here."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

__all__ = ["without"]


class _Absent(MetaPathFinder):
    """An import finder that reports one package as not installed."""

    def __init__(self, package: str) -> None:
        self._package = package

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002 - as the protocol has it
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        if fullname == self._package:
            raise ModuleNotFoundError(f"{fullname} is not needed", name=fullname)
        return None


@contextmanager
def without(package: str) -> Iterator[None]:
    """Have imports of a package fail meanwhile, unless it is imported already. Afterwards it can be imported as ever."""
    absent = _Absent(package)
    sys.meta_path.insert(0, absent)
    try:
        yield
    finally:
        sys.meta_path.remove(absent)
