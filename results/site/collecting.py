"""Collecting: runs' folders, bundles and corpora → records and pages of runs, each made once: what they were made of is remembered.

The work is shared by as many processes as there are cores. A run that cannot be read is listed with the reason, and so is a bundle whose
records do not say what it says: each is verified once, and unpacked beside the site's other notes.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain
from multiprocessing import get_context
from pathlib import Path
from typing import Final

import orjson

from schemaquake.harness.errors import HistoryError, PlanError
from schemaquake.harness.standard_streams import printable
from schemaquake.results.bundle.archive import SUFFIX
from schemaquake.results.bundle.verification import open_bundle, verify_bundle
from schemaquake.results.corpus.reading import read_runs, read_summaries
from schemaquake.results.site.records import RecordReader, SiteRecord, file_name, record_of
from schemaquake.results.site.run_page import render_run_page
from schemaquake.results.store.store import Store
from schemaquake.results.summary.summarise import FILE_NAME, read_summary

__all__ = ["Collected", "Source", "collect", "find_bundles"]

log = logging.getLogger(__name__)

CACHE: Final = "records.jsonl"
_BUNDLES: Final = "bundles"
_REFUSED: Final = "refused.txt"
"""The reason for which a bundle is not shown: it is judged once."""
_CHUNK: Final = 50  # runs for one task
_ALONE: Final = 100
"""Runs that one process makes sooner than others start."""


@dataclass(frozen=True, slots=True)
class Source:
    """A run's folder, or a bundle, and its state: size and time of the last change of its summary."""

    folder: Path
    state: str
    unpacked: Path | None = None
    """The folder into which a bundle is unpacked; None for a run's own folder."""

    @property
    def key(self) -> str:
        """The name under which it is remembered: its path."""
        return _key(self.folder)

    @property
    def run(self) -> Path | None:
        """The folder with the run's records; None for a bundle that is not unpacked yet."""
        if self.unpacked is None:
            return self.folder
        return next((path for path in self.unpacked.glob("*") if path.is_dir()), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """All runs of a site. Paths of `folders` are by run name; `made` are the runs whose pages were made now."""

    records: Sequence[SiteRecord]
    """By start, then by name."""
    folders: Mapping[str, Path]
    unread: Sequence[tuple[str, str]]
    """Folders that have no readable verdict, each with the reason."""
    made: frozenset[str]


def find_bundles(paths: Iterable[Path]) -> list[Path]:
    """List the bundles at and below some paths. One that lies beside its run's folder is that run."""
    found: dict[Path, None] = {}
    for path in paths:
        for bundle in _bundles_below(path):
            beside = bundle.with_name(bundle.name.removesuffix(SUFFIX))
            if not bundle.is_symlink() and not (beside / "plan.json").is_file():
                found[bundle.resolve()] = None
    return list(found)


def _bundles_below(path: Path) -> Iterator[Path]:
    if path.name.endswith(SUFFIX) and path.is_file():
        yield path
    for folder, names, files in os.walk(path):
        names[:] = sorted(name for name in names if not (Path(folder) / name / "plan.json").is_file())
        if "plan.json" not in files:
            yield from (Path(folder) / name for name in sorted(files) if name.endswith(SUFFIX))


def collect(
    folders: Sequence[Path],
    site: Path,
    cache: Path,
    *,
    version: str,
    bundles: Sequence[Path] = (),
    corpora: Sequence[Path] = (),
) -> Collected:
    """Read the runs, and write the page of each below `site/runs`, but for those that were made of the same before.

    `version` changes when pages would: with it everything is made again. Raises HistoryError for a damaged corpus.
    """
    known = _read_cache(cache / CACHE, version)
    reader = RecordReader()
    sources = [Source(folder, _state(folder)) for folder in folders]
    sources += [_bundle(path, cache) for path in bundles]
    records, new = _recall(sources, known, reader, site)
    if new:
        log.info("runs are read", extra={"runs": len(new), "of": len(sources)})
    places = {source.key: place for place, source in enumerate(sources)}
    pages = _Pages(site)
    for key, record in records.items():
        pages.claim(record, places[key])
    lines = {key: known[key][1] for key in records}
    states = {source.key: source.state for source in sources}
    made: set[str] = set()
    unread: list[tuple[str, str]] = []
    for key, one, reason in chain(_make(new), *(_of_corpus(corpus, known, site) for corpus in corpora)):
        if one is None:
            unread.append((key, reason))
            continue
        place = places.setdefault(key, len(places))
        lines[key], states[key] = one.line, one.state or states[key]
        records[key] = record = reader(one.line)
        if pages.claim(record, place) and one.page is not None:
            pages.write(record, one.page)
            made.add(key)
    shown: dict[str, str] = {}
    for key in sorted(records, key=places.__getitem__):
        if pages.owner(records[key]) == places[key]:
            shown[records[key].row.run] = key
        else:
            unread.append((key, "another run has the same name"))
            del lines[key]  # not remembered, so that its page is made as soon as the other one is gone
    _write_cache(cache / CACHE, version, states, lines)
    _forget_bundles(cache, sources)
    folders_of = {source.key: source.run for source in sources}
    shown_records = (records[key] for key in shown.values())
    ordered = sorted(shown_records, key=lambda record: (record.row.started or "", record.row.run))
    return Collected(
        records=ordered,
        folders={name: folder for name, key in shown.items() if (folder := folders_of.get(key)) is not None},
        unread=sorted((key.rpartition("/")[2], reason) for key, reason in unread),
        made=frozenset(record.row.run for record in ordered if shown[record.row.run] in made),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """A record as a line, and the page of its run; None if it was made before."""

    line: bytes
    page: bytes | None
    state: str = ""
    """What a corpus knows of the run's state; empty for a run of which the source says it."""


class _Pages:
    """Pages of runs: each belongs to the first source with its name, in the order of the sources, not of reading."""

    def __init__(self, site: Path) -> None:
        self._site = site
        self._owners: dict[str, int] = {}

    def claim(self, record: SiteRecord, place: int) -> bool:
        """Return True if the page belongs to the source at that place, as far as is known."""
        owner = self._owners.setdefault(record.row.page, place)
        self._owners[record.row.page] = min(owner, place)
        return place <= owner

    def owner(self, record: SiteRecord) -> int:
        """Return the place of the source to which the record's page belongs."""
        return self._owners[record.row.page]

    def write(self, record: SiteRecord, content: bytes) -> None:
        """Write the page of a run."""
        path = _page(self._site, record)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_if_changed(path, content)


def _recall(
    sources: Sequence[Source], known: Mapping[str, tuple[str, bytes]], reader: RecordReader, site: Path
) -> tuple[dict[str, SiteRecord], list[Source]]:
    """Return the records, by key, that were made of the same before and whose page is there, and the sources to be read."""
    records: dict[str, SiteRecord] = {}
    new = []
    for source in sources:
        state, line = known.get(source.key, ("", b""))
        record = reader(line) if line and state == source.state else None
        if record is not None and _page(site, record).exists() and source.run is not None:
            records[source.key] = record
        else:
            new.append(source)
    return records, new


def _key(path: Path) -> str:
    """Return a path as text that any file can hold; different paths are different texts."""
    return printable(str(path).replace("\\", "\\\\"))


def _page(site: Path, record: SiteRecord) -> Path:
    return site / "runs" / f"{record.row.page}.html"


def _make(sources: Sequence[Source]) -> Iterator[tuple[str, _Made | None, str]]:
    """Yield the key of each source with its record and page, or None and the reason, in order."""
    chunks = [sources[start : start + _CHUNK] for start in range(0, len(sources), _CHUNK)]
    if len(sources) <= _ALONE:
        for chunk in chunks:
            yield from _make_chunk(chunk)
        return
    with ProcessPoolExecutor(max_workers=len(os.sched_getaffinity(0)), mp_context=get_context("forkserver")) as pool:
        for made in pool.map(_make_chunk, chunks):
            yield from made


def _make_chunk(sources: Sequence[Source]) -> list[tuple[str, _Made | None, str]]:
    return [_make_one(source) for source in sources]


def _make_one(source: Source) -> tuple[str, _Made | None, str]:
    """Read one run, and render its record and its page, or return the reason for having none."""
    try:
        run = source.folder if source.unpacked is None else _unpack(source.folder, source.unpacked)
        store = Store(run)
        summary = read_summary(store)
        record = record_of(summary, has_report=store.path("report.html").is_file())
        return source.key, _Made(line=record.to_bytes(), page=render_run_page(summary, record.row).encode()), ""
    except (HistoryError, PlanError, OSError, ValueError, KeyError, TypeError) as error:
        return source.key, None, printable(str(error)) or type(error).__name__


def _bundle(path: Path, cache: Path) -> Source:
    status = path.stat()
    state = f"bundle {status.st_size} {status.st_mtime_ns}"
    digest = blake2b(f"{path} {state}".encode("utf-8", "surrogatepass"), digest_size=10).hexdigest()
    return Source(path, state, cache / _BUNDLES / digest)


def _unpack(bundle: Path, to: Path) -> Path:
    """Verify a bundle, and return the folder of its run. Raises HistoryError if it differs from what it says."""
    refused = to / _REFUSED
    if refused.is_file():
        raise HistoryError(refused.read_text("utf-8"))
    shutil.rmtree(to, ignore_errors=True)
    manifest = open_bundle(bundle).manifest
    run = to / file_name(str(manifest.predicate.get("run")) if manifest else "run")
    verified = verify_bundle(bundle, keep=run)
    for check in verified.checks:
        if check.state == "differs" or (check.name in {"records", "verdict"} and check.state != "ok"):
            shutil.rmtree(to, ignore_errors=True)
            to.mkdir(parents=True)
            reason = f"the bundle does not verify: {check.name}: {'; '.join(check.details[:2])}"
            refused.write_text(reason, "utf-8")
            raise HistoryError(reason)
    return run


def _forget_bundles(cache: Path, sources: Iterable[Source]) -> None:
    """Delete what was unpacked from bundles that are gone."""
    kept = {source.unpacked.name for source in sources if source.unpacked is not None}
    for path in (cache / _BUNDLES).glob("*"):
        if path.name not in kept:
            shutil.rmtree(path, ignore_errors=True)


def _of_corpus(
    corpus: Path, known: Mapping[str, tuple[str, bytes]], site: Path
) -> Iterator[tuple[str, _Made | None, str]]:
    """Yield the key of each run of a corpus with its record, and its page if it is new, or None and the reason."""
    runs = {f"{_key(corpus)}#{one.run}": one for one in read_runs(corpus)}
    new = []
    for key, one in runs.items():
        state, line = known.get(key, ("", b""))
        if one.state not in {"judged", "incomplete"}:
            yield f"{_key(corpus)}/{one.name}", None, f"{one.state}: {one.reason}"
        elif state == one.digest and (site / "runs" / f"{file_name(one.name)}.html").exists():
            yield key, _Made(line=line, page=None, state=state), ""
        else:
            new.append(one)
    for one, summary in read_summaries(corpus, new):
        record = record_of(summary, has_report=False)
        page = render_run_page(summary, record.row).encode()
        yield f"{_key(corpus)}#{one.run}", _Made(line=record.to_bytes(), page=page, state=one.digest), ""


def write_if_changed(path: Path, content: bytes) -> bool:
    """Write a page unless it is there with the same bytes. A reader sees the old page or the new one. Raises PlanError if that fails."""
    try:
        if path.read_bytes() == content:
            return False
    except FileNotFoundError:
        pass
    draft = path.with_name(f".{path.name}.new")
    try:
        draft.write_bytes(content)
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise PlanError(f"cannot write {path}: {error.strerror or error}") from error
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


def _write_cache(path: Path, version: str, states: Mapping[str, str], lines: Mapping[str, bytes]) -> None:
    content = [orjson.dumps({"version": version})]
    content += [orjson.dumps([key, state]) + b"\t" + lines[key] for key, state in states.items() if key in lines]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_if_changed(path, b"\n".join([*content, b""]))
