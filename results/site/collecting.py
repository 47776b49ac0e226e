"""Collecting: runs' folders → records and pages of runs, each made once: what they were made of is remembered.

The work is shared by as many processes as there are cores. A run that cannot be read is listed with the reason.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Final

import orjson

from schemaquake.harness.errors import HistoryError, PlanError
from schemaquake.results.site.records import RecordReader, SiteRecord, file_name, record_of
from schemaquake.results.site.run_page import render_run_page
from schemaquake.results.store.store import Store
from schemaquake.results.summary.summarise import FILE_NAME, read_summary

__all__ = ["Collected", "Source", "collect", "find_runs"]

CACHE: Final = "records.jsonl"
_CHUNK: Final = 50  # runs for one task
_ALONE: Final = 100
"""Runs that one process makes sooner than others start."""


@dataclass(frozen=True, slots=True)
class Source:
    """A run's folder and the state of its summary: size and time of the last change."""

    folder: Path
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """All runs of a site. Paths of `folders` are by run name; `made` are the pages that were written now."""

    records: Sequence[SiteRecord]
    """By start, then by name."""
    folders: Mapping[str, Path]
    unread: Sequence[tuple[str, str]]
    """Folders that have no readable verdict, each with the reason."""
    made: frozenset[str]


def find_runs(paths: Iterable[Path]) -> list[Path]:
    """List the runs' folders at and below some paths, each once. Links such as `latest` name a run that is there anyway.

    Raises PlanError if a path is not there.
    """
    found: dict[Path, None] = {}
    for path in paths:
        if not path.exists():
            raise PlanError(f"{path} is not there: name runs' folders, or folders of runs")
        found |= dict.fromkeys(_runs_below(path))
    return list(found)


def _runs_below(path: Path) -> Iterator[Path]:
    if (path / "plan.json").is_file():
        yield path.resolve()
        return
    for folder, names, _ in os.walk(path):
        names.sort()
        for name in list(names):
            below = Path(folder) / name
            if below.is_symlink():
                names.remove(name)
            elif (below / "plan.json").is_file():
                names.remove(name)
                yield below.resolve()


def collect(folders: Sequence[Path], site: Path, cache: Path, *, version: str) -> Collected:
    """Read the runs, and write the page of each below `site/runs`, but for those that were made of the same before.

    `version` changes when pages would: with it everything is made again.
    """
    known = _read_cache(cache / CACHE, version)
    reader = RecordReader()
    sources = [Source(folder, _state(folder)) for folder in folders]
    new = [
        source
        for source in sources
        if known.get(str(source.folder), ("", b""))[0] != source.state or not _has_page(site, source)
    ]
    made: dict[str, bytes] = {}
    unread: dict[Path, str] = {}
    (site / "runs").mkdir(parents=True, exist_ok=True)
    for folder, line, reason in _make(new, site):
        if reason is None:
            made[str(folder)] = line
        else:
            unread[folder] = reason
    lines = {
        str(source.folder): made.get(str(source.folder)) or known[str(source.folder)][1]
        for source in sources
        if source.folder not in unread
    }
    _write_cache(cache / CACHE, version, sources, lines)
    records, names = {}, {}
    for path, line in lines.items():
        record = reader(line)
        if record.row.run in records:
            unread[Path(path)] = "another run has the same name"
            continue
        records[record.row.run], names[record.row.run] = record, Path(path)
    ordered = sorted(records.values(), key=lambda record: (record.row.started or "", record.row.run))
    return Collected(
        records=ordered,
        folders=names,
        unread=sorted((folder.name, reason) for folder, reason in unread.items()),
        made=frozenset(names[record.row.run].name for record in ordered if str(names[record.row.run]) in made),
    )


def _make(sources: Sequence[Source], site: Path) -> Iterator[tuple[Path, bytes, str | None]]:
    chunks = [(sources[start : start + _CHUNK], site) for start in range(0, len(sources), _CHUNK)]
    if len(sources) <= _ALONE:
        for chunk in chunks:
            yield from _make_chunk(chunk)
        return
    with ProcessPoolExecutor(max_workers=len(os.sched_getaffinity(0)), mp_context=get_context("forkserver")) as pool:
        for made in pool.map(_make_chunk, chunks):
            yield from made


def _make_chunk(work: tuple[Sequence[Source], Path]) -> list[tuple[Path, bytes, str | None]]:
    sources, site = work
    return [_make_one(source, site) for source in sources]


def _make_one(source: Source, site: Path) -> tuple[Path, bytes, str | None]:
    """Read one run, write its page, and return its record as a line, or the reason for having none."""
    store = Store(source.folder)
    try:
        summary = read_summary(store)
        record = record_of(summary, has_report=store.path("report.html").is_file())
        line = record.to_bytes()
    except (HistoryError, PlanError, OSError, ValueError, KeyError, TypeError) as error:
        return source.folder, b"", str(error) or type(error).__name__
    write_if_changed(site / "runs" / f"{record.row.page}.html", render_run_page(summary, record.row).encode())
    return source.folder, line, None


def write_if_changed(path: Path, content: bytes) -> bool:
    """Write a page unless it is there with the same bytes. A reader sees the old page or the new one."""
    try:
        if path.read_bytes() == content:
            return False
    except FileNotFoundError:
        pass
    draft = path.with_name(f".{path.name}.new")
    draft.write_bytes(content)
    draft.replace(path)
    return True


def _state(folder: Path) -> str:
    """Describe the state of what a record is made of."""
    for name in (FILE_NAME, "verdict.json", "plan.json"):
        try:
            status = (folder / name).stat()
        except OSError:
            continue
        return f"{name} {status.st_size} {status.st_mtime_ns} {(folder / 'report.html').exists()}"
    return ""


def _has_page(site: Path, source: Source) -> bool:
    return (site / "runs" / f"{file_name(source.folder.name)}.html").exists()


def _read_cache(path: Path, version: str) -> dict[str, tuple[str, bytes]]:
    """Read the remembered records: folder → state and line. A cache that cannot be read is an empty one."""
    try:
        with path.open("rb") as file:
            if orjson.loads(next(file)) != {"version": version}:
                return {}
            known = {}
            for line in file:
                head, _, record = line.rstrip(b"\n").partition(b"\t")
                folder, state = orjson.loads(head)
                known[folder] = (state, record)
            return known
    except (OSError, ValueError, StopIteration):
        return {}


def _write_cache(path: Path, version: str, sources: Sequence[Source], lines: Mapping[str, bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.new")
    with draft.open("wb") as file:
        file.write(orjson.dumps({"version": version}) + b"\n")
        for source in sources:
            if str(source.folder) in lines:
                file.write(orjson.dumps([str(source.folder), source.state]) + b"\t" + lines[str(source.folder)] + b"\n")
    draft.replace(path)
