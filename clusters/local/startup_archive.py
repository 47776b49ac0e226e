"""Startup archive: class-data sharing, which takes a fifth off a node's boot.

An archive is made once per Java and class path, by booting one node and letting it end cleanly, and is kept in the
cache. No folder may stand on the class path, which is why configuration is given by properties. Nodes start without an
archive, too, only slower: a failure to make one is logged as a warning and otherwise harmless.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from schemaquake.clusters.distribution.cache import cache_folder
from schemaquake.clusters.local.namespaces import enclosure
from schemaquake.harness.child_environment import JAVA, child_environment

__all__ = ["archive_arguments", "archive_path", "ensure_archive"]

log = logging.getLogger(__name__)

_LIMIT_S: Final = 240


def archive_path(java: Path, class_path: Sequence[Path]) -> Path:
    """Return the path of the archive for this Java and class path, which may not exist; the JVM checks that it fits."""
    text = f"{java.resolve()}\n{os.pathsep.join(map(str, class_path))}"
    return cache_folder() / "startup-archives" / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.jsa"


def archive_arguments(java: Path, class_path: Sequence[Path]) -> list[str]:
    """Return the JVM options that use the archive; none if it does not exist."""
    path = archive_path(java, class_path)
    return [f"-XX:SharedArchiveFile={path}", "-Xshare:auto"] if path.exists() else []


def ensure_archive(system: str, java: Path, class_path: Sequence[Path]) -> None:
    """Make the archive unless it exists, by booting one node in an enclosure of its own, which takes about 20 s."""
    target = archive_path(java, class_path)
    if target.exists():
        return
    log.info("making a startup archive, once for this version and Java", extra={"system": system})
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="schemaquake-", dir=target.parent) as folder:
        made = Path(folder) / "archive.jsa"
        request = {
            "system": system,
            "java": str(java),
            "class_path": [str(jar) for jar in class_path],
            "folder": folder,
            "archive": str(made),
        }
        refusal = _make(request)
        if refusal is None and not made.exists():
            refusal = "the node ended without one"
        if refusal is not None:
            log.warning("no startup archive could be made; nodes will start a little slower", extra={"why": refusal})
            return
        made.replace(target)


def _make(request: Mapping[str, object]) -> str | None:
    """Boot the node that writes the archive. Return why it failed, None if it did not."""
    try:
        finished = subprocess.run(
            [*enclosure(), sys.executable, "-m", "schemaquake.clusters.local.archiving"],
            input=json.dumps(request),
            capture_output=True,
            text=True,
            check=False,
            timeout=_LIMIT_S,
            env=child_environment(*JAVA, "PYTHON*", "VIRTUAL_ENV"),
        )
    except subprocess.TimeoutExpired:
        return f"it took more than {_LIMIT_S} s"
    if finished.returncode != 0:
        return finished.stderr.strip()[-300:] or f"exit code {finished.returncode}"
    return None
