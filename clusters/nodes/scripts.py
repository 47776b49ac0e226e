"""Scripts: the shell scripts that run on nodes, each made whole from its own file and the functions it shares.

A node gets one file a script: a guard that has to read a second one could fail for want of it.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Final

__all__ = ["read_script"]

_INCLUDE: Final = "# include "


@cache
def read_script(name: str) -> bytes:
    """Read a script of this package, with every line `# include FILE` replaced by that file's functions."""
    lines = files(__package__).joinpath(name).read_text(encoding="utf-8").splitlines(keepends=True)
    return "".join(_included(line) if line.startswith(_INCLUDE) else line for line in lines).encode()


def _included(line: str) -> str:
    return read_script(line.removeprefix(_INCLUDE).strip()).decode()
