"""Makes the project's own site from what it recorded: `python docs/publish_site.py FOLDER`, from site/recorded.zip.

`python docs/publish_site.py --record FOLDER… --whole RUN…` writes that archive: of each run on real servers below the folders the plan and the
summary, of each grid its progress, and of the runs named whole what a bundle has, redacted as there, so that their findings have reports.
"""

from __future__ import annotations

import re
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath

import orjson

from schemaquake.harness.errors import HistoryError
from schemaquake.results.bundle.bundling import bundle_run
from schemaquake.results.bundle.manifest import MANIFEST, SUMS
from schemaquake.results.site.building import Published, publish
from schemaquake.results.store.run_folders import find_runs
from schemaquake.results.store.store import Store
from schemaquake.results.summary.run_summary import SUMMARY_SCHEMA
from schemaquake.results.tables.pipeline import analyse

RECORDED = Path(__file__).parent / "site" / "recorded.zip"
_OF_A_RUN = ("plan.json", "summary.json")
_OF_A_GRID = ("grid.json", "progress.jsonl")
_EVER = (1980, 1, 1, 0, 0, 0)
_PLACE = re.compile(rb"/(?:work|tmp|home|root|Users)/[^\\s\"\\\\]*")


def build(to: Path, recorded: Path = RECORDED) -> Published:
    """Publish what was recorded. Raises HistoryError for an archive that is not ours."""
    with tempfile.TemporaryDirectory(prefix="schemaquake-site-") as name:
        folder = Path(name)
        with zipfile.ZipFile(recorded) as archive:
            for entry in archive.infolist():
                path = PurePosixPath(entry.filename)
                if path.is_absolute() or ".." in path.parts:
                    raise HistoryError(f"{recorded} has the name {entry.filename}")
                archive.extract(entry, folder)
        for run in find_runs([folder]):
            if (run / "verdict.json").is_file():
                analyse(Store(run), Store(run).read_verdict(), engine="local")
        return publish([folder], to)


def record(folders: Sequence[Path], whole: Sequence[Path], to: Path = RECORDED) -> list[str]:
    """Write the archive, and return the names of its runs. Equal runs give equal bytes. Raises HistoryError for a text with a place of one machine."""
    contents: dict[str, bytes] = {}
    for run in whole:
        contents |= {f"runs/{run.name}/{name}": content for name, content in _bundled(run)}
    for run in find_runs(folders):
        if f"runs/{run.name}/plan.json" not in contents and _is_real(run):
            contents |= {f"runs/{run.name}/{name}": (run / name).read_bytes() for name in _OF_A_RUN}
    for grid in _grids(folders):
        contents |= {
            f"grids/{grid.name}/{name}": _PLACE.sub(b"runs", (grid / name).read_bytes()) for name in _OF_A_GRID
        }
    for name, content in contents.items():
        if name.endswith((".json", ".jsonl")) and _PLACE.search(content):
            raise HistoryError(f"{name} has a path of this machine")
    to.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(to, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content in sorted(contents.items()):
            archive.writestr(zipfile.ZipInfo(name, _EVER), content, zipfile.ZIP_DEFLATED)
    return sorted({name.split("/")[1] for name in contents if name.startswith("runs/")})


def _bundled(run: Path) -> Iterator[tuple[str, bytes]]:
    with tempfile.TemporaryDirectory() as name:
        bundled = bundle_run(run, to=Path(name) / "run.sqz.zip")
        with zipfile.ZipFile(bundled.path) as archive:
            yield from ((one, archive.read(one)) for one in archive.namelist() if one not in {MANIFEST, SUMS})


def _is_real(run: Path) -> bool:
    """Return True for a completed run on real servers whose summary can be read without its records."""
    if not (run / "summary.json").is_file():
        return False
    summary = orjson.loads((run / "summary.json").read_bytes())
    return (
        summary.get("schema") == SUMMARY_SCHEMA and summary["cluster"] != "simulated" and summary["completed"] is True
    )


def _grids(folders: Iterable[Path]) -> list[Path]:
    return sorted(
        path.parent
        for folder in folders
        for path in folder.rglob(_OF_A_GRID[0])
        if path.with_name(_OF_A_GRID[1]).is_file()
    )


def main(arguments: Sequence[str]) -> None:
    """Build the site, or record runs."""
    if arguments[:1] == ["--record"]:
        named = [Path(one) for one in arguments[1:] if one != "--whole"]
        first = arguments.index("--whole") - 1 if "--whole" in arguments else len(named)
        sys.stderr.write(f"{len(record(named[:first], named[first:]))} runs in {RECORDED}\n")
        return
    published = build(Path(arguments[0]))
    for run, reason in published.unread:
        sys.stderr.write(f"not read: {run}: {reason}\n")
    sys.stderr.write(f"{published.index}: {published.findings} findings in {published.runs} runs\n")


if __name__ == "__main__":
    main(sys.argv[1:])
