"""JVM archive: class-data sharing for the JVM that Spark starts on this machine, which takes half of the work off its start.

An archive is made once for a Java and a PySpark, by a context that does a small job and ends, and is kept in the user's cache. Beside
it is kept how Spark's launcher had started that JVM, so that another one can be started without it (`schemaquake.results.engines.jvm_start`).
`make setup` makes it, and so does `python -m schemaquake.results.engines.jvm_archiving`. Without one Spark starts as ever, only slower.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from schemaquake.clusters.distribution.cache import cache_folder, only_one

__all__ = ["SILENT", "Archive", "ensure_archive", "find_archive", "keep_command", "spark_folder"]

log = logging.getLogger(__name__)

SILENT: Final = "-Xlog:disable"
"""The JVM tells on standard output, which is the answer's, what it cannot archive, and that an archive does not fit."""
_LIMIT_S: Final = 600
_FORM: Final = "with its command"
"""What is kept of a JVM: an archive of another form is made anew."""


@dataclass(frozen=True, slots=True)
class Archive:
    """The archive of one Java and one PySpark."""

    path: Path

    @property
    def options(self) -> str:
        """The options with which a JVM of Spark uses it. In quotes, as Spark understands them: a path may have spaces."""
        return f'"-XX:SharedArchiveFile={self.path}" -Xshare:auto {SILENT}'

    @property
    def command(self) -> Sequence[str]:
        """The options that Spark's launcher gave the JVM of its own accord, empty if they were not kept."""
        with suppress(OSError, ValueError):
            kept = json.loads(_command_of(self.path).read_text())
            if isinstance(kept, list) and all(isinstance(option, str) for option in kept):
                return kept
        return ()


def find_archive(java: Path, spark: Path | None = None) -> Archive | None:
    """Find the archive of a Java, if there is one. `spark` is PySpark's folder."""
    found = _find(_stem(java, spark or spark_folder()))
    return None if found is None else Archive(found)


def keep_command(archive: Path, command: Sequence[str]) -> None:
    """Keep the options of the JVM that makes an archive beside it."""
    _command_of(archive).write_text(json.dumps(list(command)))


def _command_of(archive: Path) -> Path:
    return archive.with_suffix(".json")


def ensure_archive(java: Path, spark: Path | None = None) -> Path | None:
    """Make the archive unless it exists, which takes a start of Spark and some ten seconds more. Returns None if that failed."""
    folder, stem = _folder(), _stem(java, spark or spark_folder())
    with only_one(folder / stem, waiting=lambda: log.info("another process makes the same archive: waiting for it")):
        if (found := _find(stem)) is not None:
            return found
        log.info("making a startup archive for Spark, once for this version and Java")
        with tempfile.TemporaryDirectory(prefix="schemaquake-", dir=folder) as scratch:
            made = Path(scratch) / "archive.jsa"
            refusal = _make(java, made)
            if refusal is None and not made.exists():
                refusal = "its JVM ended without one"
            if refusal is not None:
                log.warning("no startup archive could be made; Spark will start slower", extra={"why": refusal})
                return None
            for older in folder.glob(f"{_of_folder(stem)}-*.js*"):
                older.unlink()
            # A JVM ends if its archive is shorter than it should be. So the name says how long it is.
            kept = folder / f"{stem}-{made.stat().st_size}.jsa"
            with suppress(FileNotFoundError):  # Spark's launcher starts the JVM then
                _command_of(made).replace(_command_of(kept))
            return made.replace(kept)


def _folder() -> Path:
    return cache_folder() / "startup-archives"


def spark_folder() -> Path:
    """Return the folder of PySpark, which is not imported for that."""
    if chosen := os.environ.get("SPARK_HOME"):
        return Path(chosen)
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("No module named 'pyspark'", name="pyspark")
    return Path(spec.origin).parent


def _stem(java: Path, spark: Path) -> str:
    """Name the archive of this Java and these jars: the JVM refuses it with others, and with such as were written anew."""
    java = java.resolve()
    about = java.parent.parent / "release"
    release = about.read_bytes() if about.is_file() else b""
    jars = [(jar.name, jar.stat()) for jar in sorted((spark / "jars").glob("*.jar"))]
    of_jars = [f"{name} {status.st_size} {status.st_mtime_ns}" for name, status in jars]
    state = "\n".join([_FORM, str(java), release.hex(), *of_jars])
    return f"spark-{_digest(str(spark.resolve()))[:12]}-{_digest(state)[:24]}"


def _of_folder(stem: str) -> str:
    """Return what the names of all archives of one folder of PySpark begin with."""
    return stem.rpartition("-")[0]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _find(stem: str) -> Path | None:
    """Find the whole archive of that name."""
    for path in _folder().glob(f"{stem}-*.jsa"):
        with suppress(OSError):
            if path.stem == f"{stem}-{path.stat().st_size}":
                return path
    return None


def _make(java: Path, archive: Path) -> str | None:
    """Run the session that leaves an archive behind. Return why it failed, None if it did not."""
    environment = {**os.environ, "JAVA_HOME": str(java.resolve().parent.parent)}
    command = [sys.executable, "-m", "schemaquake.results.engines.jvm_archiving", str(archive)]
    with tempfile.TemporaryFile() as said:
        session = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, env=environment, start_new_session=True
        )
        try:
            code = session.wait(_LIMIT_S)
        except subprocess.TimeoutExpired:
            return f"it took more than {_LIMIT_S} s"
        finally:
            with suppress(ProcessLookupError):  # also its JVM, if that has not ended
                os.killpg(session.pid, signal.SIGKILL)
            session.wait()
        if code == 0:
            return None
        said.seek(0)
        return said.read().decode(errors="replace").strip()[-300:] or f"exit code {code}"
