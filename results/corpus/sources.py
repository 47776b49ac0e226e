"""Sources: the runs at and below some paths of any file system, from one listing, without opening a file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from schemaquake.harness.errors import PlanError
from schemaquake.results.corpus.files import address_of, escaped
from schemaquake.results.engines.spark_session import pandas_unused

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

__all__ = ["Source", "divided", "find_sources", "plain_path"]

_NAMES: Final = "{plan.json,summary.json,history.parquet,operations.parquet,seeds-*.parquet,*.sqz.zip}"
_SWEEP: Final = re.compile(r"seeds-\d+-\d+\.parquet")
_FILE: Final = re.compile(r"^file:/+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A run's folder, a bundle, or a file of a sweep with many runs."""

    place: str
    """The folder, or the file of a bundle or a sweep."""
    file: str | None
    """The file that is parsed; None if a run has no summary."""
    stamp: str
    operations: str | None = None
    history: str | None = None

    @property
    def is_sweep(self) -> bool:
        """True for a file with a run in each row."""
        return self.file is not None and _SWEEP.fullmatch(self.file.rpartition("/")[2]) is not None


def plain_path(path: Column) -> Column:
    """Return `_metadata.file_path` as listings have it: not percent-encoded, and with one slash after `file:`."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - everyone's name for it; slow to import

    return F.regexp_replace(F.url_decode(F.replace(path, F.lit("+"), F.lit("%2B"))), "^file:/+", "file:/")


@pandas_unused()
def find_sources(session: SparkSession, paths: Iterable[str]) -> list[Source]:
    """List the sources at and below some paths, which may be globs, each once, in order. Raises PlanError if a path is not there."""
    from pyspark.errors import AnalysisException  # noqa: PLC0415 - slow to import
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - as above

    addresses = [_address(path) for path in paths]
    if not addresses:
        return []
    reader = session.read.format("binaryFile").option("recursiveFileLookup", "true").option("pathGlobFilter", _NAMES)
    try:
        listed = reader.load(addresses).select("path", "length", F.unix_micros("modificationTime").alias("modified"))
        found = listed.toArrow().to_pylist()
    except AnalysisException as error:
        if "PATH_NOT_FOUND" not in str(error):
            raise
        raise PlanError(f"one of these is not there: {', '.join(addresses)}") from error
    files = {_FILE.sub("file:/", row["path"]): f"{row['length']} {row['modified']}" for row in found}
    return sorted(_sources(files), key=lambda source: source.place)


def _address(path: str) -> str:
    """Return the address of a path of the command line: one that is there as it is written is no glob."""
    return escaped(address_of(path)) if os.path.exists(path) else address_of(path)  # noqa: PTH110 - it may be no path here


def _sources(files: dict[str, str]) -> Iterator[Source]:
    folders = {path.rpartition("/")[0] for path in files if path.rpartition("/")[2] in {"plan.json", "summary.json"}}
    seen: set[str] = set()
    for folder in sorted(folders):
        if _is_below(folder, folders) or (real := _real(folder)) in seen:
            continue
        seen.add(real)
        summary = f"{folder}/summary.json"
        has = summary in files
        tables = [f"{folder}/analysis/operations.parquet", f"{folder}/history.parquet"]
        operations, history = (path if path in files else None for path in tables)
        stamp = files[summary] if has else files[f"{folder}/plan.json"]
        yield Source(
            place=folder,
            file=summary if has else None,
            stamp=" ".join([stamp, *(files[path] for path in (operations, history) if path)]),
            operations=operations if has else None,
            history=history if has else None,
        )
    for path, stamp in sorted(files.items()):
        if path.endswith(".sqz.zip") or _SWEEP.fullmatch(path.rpartition("/")[2]):
            yield Source(place=path, file=path, stamp=stamp)


def _is_below(folder: str, folders: set[str]) -> bool:
    """Return True for a folder within a run's folder: it is a part of that run."""
    parts = folder.split("/")
    return any("/".join(parts[:count]) in folders for count in range(1, len(parts)))


def _real(folder: str) -> str:
    """Return where a folder really is: `latest` is a link to a run that is listed anyway."""
    return os.path.realpath(folder.removeprefix("file:")) if folder.startswith("file:") else folder


def divided(sources: Sequence[Source], most: int) -> Iterator[Sequence[Source]]:
    """Divide sources into batches of at most so many."""
    for start in range(0, len(sources), most):
        yield sources[start : start + most]
