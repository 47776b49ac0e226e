"""Startup archive: class-data sharing, which takes a fifth off a node's boot.

The archive is made once per Java and class path (`schemaquake fetch` does it) and kept in the cache. No folder may stand
on the class path, which is why configuration is given by properties. Without an archive nodes start all the same.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from clusters.cache import cache_folder

__all__ = ["archive_arguments", "archive_path"]


def archive_path(java: Path, class_path: Sequence[Path]) -> Path:
    """Where the archive of this Java and class path is, or would be; the JVM itself checks that it fits."""
    text = f"{java.resolve()}\n{os.pathsep.join(map(str, class_path))}"
    return cache_folder() / "startup-archives" / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.jsa"


def archive_arguments(java: Path, class_path: Sequence[Path]) -> list[str]:
    """The JVM options that use the archive, none if there is none yet."""
    path = archive_path(java, class_path)
    return [f"-XX:SharedArchiveFile={path}", "-Xshare:auto"] if path.exists() else []
