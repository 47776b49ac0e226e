"""Damage: bytes that a fault flipped in a local node's files, and that a run which died left so.

A record `damage-N` in the node's folder has `OFFSET BEFORE AFTER PATH` of fault N, written before the byte was touched
(`schemaquake.nemeses.files.corruption`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

__all__ = ["restore_files"]

_RECORDS: Final = "damage-*"


def restore_files(folder: Path) -> Iterator[str]:
    """Flip back what a node's records name, where it still stands, and remove them; yield a sentence for each byte."""
    for record in sorted(folder.glob(_RECORDS)):
        words = record.read_text(encoding="utf-8", errors="replace").rstrip("\n").split(" ", 3)
        # A record that is not whole was being written, and nothing was flipped yet.
        if len(words) == len(("offset", "before", "after", "path")) and all(word.isdigit() for word in words[:3]):
            offset, before, after = map(int, words[:3])
            if _restore(Path(words[3]), offset, before, after, within=folder):
                yield f"node {folder.name}: byte {offset} of {Path(words[3]).name} was set back to {before}"
        record.unlink()


def _restore(path: Path, offset: int, before: int, after: int, *, within: Path) -> bool:
    """Write the byte that was there before, if the other one still is. No file outside the node's folder is touched."""
    if not path.is_file() or not path.resolve().is_relative_to(within.resolve()) or not 0 <= before < 1 << 8:
        return False
    with path.open("r+b") as file:
        file.seek(offset)
        if file.read(1) != bytes([after & 0xFF]):
            return False
        file.seek(offset)
        file.write(bytes([before]))
    return True
