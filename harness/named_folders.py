"""Named folders: why a folder that a user named is none, or cannot be made, in words that say which part of its path is to blame."""

from __future__ import annotations

import errno
import stat
from pathlib import Path

from schemaquake.harness.errors import PlanError

__all__ = ["kind_of_file", "make_wanted_folder", "why_no_folder", "why_not_made"]


def make_wanted_folder(path: Path) -> None:
    """Make a folder that the user named, with those above it, unless it is there. Raises PlanError if that fails."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PlanError(f"cannot make the folder {path}: {why_not_made(path, error)}") from error


def why_no_folder(path: Path) -> str | None:
    """Say why there is no folder at a path, as the end of a sentence. None for a folder."""
    return None if path.is_dir() else _obstacle(path) or "there is no such folder"


def why_not_made(path: Path, error: OSError) -> str:
    """Say why making a folder ended in an error, as the end of a sentence: what is in its way, or what the system says."""
    return _obstacle(path) or error.strerror or str(error)


def kind_of_file(mode: int) -> str:
    """Name what a path leads to by the mode of its status: `a file`, `a folder`, `a pipe`, `a device` or `a socket`."""
    if stat.S_ISDIR(mode):
        return "a folder"
    if stat.S_ISFIFO(mode):
        return "a pipe"
    if stat.S_ISSOCK(mode):
        return "a socket"
    return "a device" if stat.S_ISCHR(mode) or stat.S_ISBLK(mode) else "a file"


def _obstacle(path: Path) -> str | None:
    """Return what is in the way of a folder: the path itself or one above it is something else. None if nothing is."""
    for part in (*reversed(path.parents), path):
        what = _what_else(part)
        if what is not None:
            return f"it is {what}" if part == path else f"{part} is {what}"
    return None


def _what_else(path: Path) -> str | None:
    """Name what a path is if it is there, and no folder."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        if not path.is_symlink():
            return None
        if error.errno == errno.ELOOP:
            return "a link that leads back to itself"
        return f"a link to {path.readlink()}, which is not there" if error.errno == errno.ENOENT else None
    return None if stat.S_ISDIR(mode) else kind_of_file(mode)
