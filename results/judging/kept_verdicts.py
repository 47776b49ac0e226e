"""Kept verdicts: the checkers' verdicts so far, on disk, so that an interrupted analysis can continue.

`analysis/verdicts/` of a run's folder has a file for each unit of the work, one line a verdict on one part:

    {"checker": "divergence", "keyspace": null, "verdict": {…}}

A line is written by one call when the verdict is there, so a SIGKILL leaves whole lines and at most one torn one, which
is not read. `basis` identifies the input of the verdicts (the records, the limit, this version): verdicts of another basis
are discarded. A crash or a deadline leaves no verdict, so that the checker runs again.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson

__all__ = ["KeptVerdicts", "basis_of"]

_BASIS: Final = "basis"
_CHUNK: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptVerdicts:
    """The verdicts of one analysis, and of the interrupted ones that it continues. Picklable."""

    folder: Path
    known: frozenset[tuple[str, str | None]] = frozenset()
    """(checker, keyspace) of every verdict that need not be made again; the keyspace is None for a verdict on the run."""
    session: str = field(default_factory=lambda: secrets.token_hex(4))

    @classmethod
    def open(cls, folder: Path, basis: str, *, resume: bool) -> KeptVerdicts:
        """Begin to keep verdicts in `folder`; with `resume` those already there count, if they are of the same basis."""
        basis_file = folder / _BASIS
        if folder.exists() and not (
            resume and basis_file.is_file() and basis_file.read_text(encoding="utf-8") == basis
        ):
            shutil.rmtree(folder)
        folder.mkdir(parents=True, exist_ok=True)
        basis_file.write_text(basis, encoding="utf-8")
        return cls(folder=folder, known=frozenset(_rows_of(folder)))

    def keep(self, unit: int, checker: str, keyspace: str | None, verdict: str) -> None:
        """Add one verdict (its JSON). Raises OSError, for example for lack of space."""
        line = b'{"checker":%b,"keyspace":%b,"verdict":%b}\n' % (
            orjson.dumps(checker),
            orjson.dumps(keyspace),
            verdict.encode(),
        )
        path = self.folder / f"{self.session}-{unit}.jsonl"
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            _write_whole(descriptor, line)
        finally:
            os.close(descriptor)

    def earlier(self) -> Iterator[tuple[str, str | None, str]]:
        """Yield (checker, keyspace, verdict as JSON) of the `known` verdicts."""
        for (checker, keyspace), verdict in _rows_of(self.folder).items():
            if (checker, keyspace) in self.known:
                yield checker, keyspace, orjson.dumps(verdict).decode()

    def discard(self) -> None:
        """Remove all kept verdicts: the analysis is complete."""
        shutil.rmtree(self.folder)


def basis_of(folder: Path, files: Iterable[Path], **dependencies: object) -> str:
    """Return a digest of the content of these files of a folder, and of the other values on which the verdicts depend."""
    digest = hashlib.blake2b(orjson.dumps(dependencies, option=orjson.OPT_SORT_KEYS, default=str), digest_size=16)
    for path in sorted(files):
        digest.update(b"\n%b\n" % os.fsencode(path.relative_to(folder)))
        with path.open("rb") as content:
            while chunk := content.read(_CHUNK):
                digest.update(chunk)
    return digest.hexdigest()


def _rows_of(folder: Path) -> Mapping[tuple[str, str | None], Any]:
    """Read every whole line; of two on the same part, the later file's counts."""
    found: dict[tuple[str, str | None], Any] = {}
    for path in sorted(folder.glob("*.jsonl"), key=lambda path: (path.stat().st_mtime_ns, path.name)):
        for line in path.read_bytes().splitlines(keepends=True):
            try:
                row = orjson.loads(line)
            except orjson.JSONDecodeError:
                break  # cut short, and the last line
            found[row["checker"], row["keyspace"]] = row["verdict"]
    return found


def _write_whole(descriptor: int, line: bytes) -> None:
    """Write a line, usually at once. A nearly full disk takes a part of it, and raises at the next part."""
    left = memoryview(line)
    while left:
        left = left[os.write(descriptor, left) :]
