"""A small judged run for bundles, sites and servers, and bundles whose files were changed after they were written."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

from simulated_runs import carry_out, plan_of

from schemaquake.harness.run.runner import read_outcome
from schemaquake.results.bundle.archive import write_archive
from schemaquake.results.bundle.manifest import MANIFEST, SUMS, Manifest, sha256_of
from schemaquake.results.judging.judge import judge
from schemaquake.results.store.store import Store
from schemaquake.results.summary.summarise import write_summary
from schemaquake.results.tables.pipeline import analyse

RUN = "20261122T101500Z-create-table-simulated-cassandra-5.0"


def judged_run(folder: Path, workload: str = "create-table", nemeses: tuple[str, ...] = (), **named) -> Path:
    """A simulated run with its verdict, its tables and its summary, without reports."""
    named.setdefault("options", {"races": "1"})
    store = Store(carry_out(plan_of(workload, *nemeses, **named), folder))
    store.recover()
    verdict = judge(store, engine="local")
    store.write_verdict(verdict)
    analyse(store, verdict, engine="local")
    summary = write_summary(store, verdict, read_outcome(folder))
    store.write_verdict(verdict, [finding.to_json() for finding in summary.findings])
    return folder


def contents_of(bundle: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(bundle) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def forged(bundle: Path, to: Path, change: Callable[[dict[str, bytes]], None]) -> Path:
    """The bundle with changed files, and with a manifest that fits them: only judging again can tell."""
    contents = contents_of(bundle)
    predicate = Manifest.parse(contents[MANIFEST]).predicate
    change(contents)
    repacked(to, contents, predicate)
    return to


def repacked(to: Path, contents: Mapping[str, bytes], predicate: Mapping[str, object]) -> None:
    files = {name: content for name, content in contents.items() if name not in {MANIFEST, SUMS}}
    manifest = Manifest(files={name: sha256_of(content) for name, content in files.items()}, predicate=predicate)
    write_archive(to, {**files, MANIFEST: manifest.to_bytes(), SUMS: manifest.sums()})
