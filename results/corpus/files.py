"""Files: the few small files of a corpus on any file system that Spark's Hadoop client reaches (`file:`, `s3a:`, `hdfs:`).

Data goes through DataFrames alone; this is for commits and for folders that are no longer needed.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Entry", "HadoopFiles", "address_of", "escaped"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One file or folder."""

    path: str
    """With its scheme."""
    name: str
    is_folder: bool
    length: int
    modified_ms: int


def address_of(text: str) -> str:
    """Return a path as Hadoop takes it: one without a scheme that is here, or whose folder is, becomes a `file:` path."""
    if "://" in text or text.startswith("file:"):
        return text.rstrip("/")
    return f"file:{Path(text).resolve()}"


def escaped(path: str) -> str:
    """Escape what a glob would take for something else than a name."""
    return "".join(f"\\{letter}" if letter in "{}[]*?\\" else letter for letter in path)


class HadoopFiles:
    """Reads and writes small files through the JVM of a session."""

    def __init__(self, session: SparkSession) -> None:
        """Use the session's settings of file systems."""
        self._jvm: Any = session._jvm  # noqa: SLF001 - PySpark has no public way to its file systems
        self._settings = session._jsc.hadoopConfiguration()  # type: ignore[attr-defined,unused-ignore]  # noqa: SLF001 - as above

    def exists(self, path: str) -> bool:
        """Return True if there is a file or folder."""
        return bool(self._system(path).exists(self._path(path)))

    def list(self, folder: str) -> list[Entry]:
        """List a folder, by name; nothing if it is not there. Hidden names (`_`, `.`) are left out."""
        if not self.exists(folder):
            return []
        found = [self._entry(status) for status in self._system(folder).listStatus(self._path(folder))]
        return sorted((one for one in found if one.name[0] not in "._"), key=lambda one: one.name)

    def walk(self, folder: str) -> Iterator[Entry]:
        """Yield the files below a folder."""
        for entry in self.list(folder):
            if entry.is_folder:
                yield from self.walk(entry.path)
            else:
                yield entry

    def read(self, path: str) -> bytes:
        """Read a small file whole."""
        stream = self._system(path).open(self._path(path))
        try:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()

    def write(self, path: str, content: bytes) -> bool:
        """Write a file, whole or not at all. Returns False if one was there first, and leaves that.

        A file is written under another name and renamed: on an object store that is a copy, which appears whole as well.
        """
        folder, _, name = path.rpartition("/")
        draft = f"{folder}/_{name}.{secrets.token_hex(6)}"
        system = self._system(path)
        stream = system.create(self._path(draft), True)
        stream.write(bytearray(content))
        stream.close()
        if system.exists(self._path(path)) or not system.rename(self._path(draft), self._path(path)):
            system.delete(self._path(draft), False)
            return False
        return True

    def delete(self, path: str) -> None:
        """Delete a file, or a folder with everything in it."""
        self._system(path).delete(self._path(path), True)

    def _path(self, text: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(text)

    def _system(self, text: str) -> Any:
        return self._path(text).getFileSystem(self._settings)

    def _entry(self, status: Any) -> Entry:
        path = status.getPath()
        return Entry(
            path=path.toString(),
            name=path.getName(),
            is_folder=bool(status.isDirectory()),
            length=int(status.getLen()),
            modified_ms=int(status.getModificationTime()),
        )
