"""Bundling: from a run's folder to one deterministic archive. The same run gives the same bytes.

Only files of a fixed list are taken: the records, what the run noted of itself, the nodes' logs, the verdict. Everything drawn
or derived from these is left out, because a reader derives it again.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from schemaquake.harness.checked_lines import CHECKSUM, checked_line, without_checksum
from schemaquake.harness.errors import HistoryError, PlanError
from schemaquake.harness.faults.ledger import FILE_NAME as LEDGER
from schemaquake.harness.history.journal import STARTED
from schemaquake.harness.model.records import HISTORY, OBSERVATIONS
from schemaquake.harness.run_folder import refuse_links
from schemaquake.harness.run_process import still_running
from schemaquake.harness.sealed_json import dump_sealed
from schemaquake.results.bundle.archive import SUFFIX, write_archive
from schemaquake.results.bundle.manifest import MANIFEST, SUMS, Manifest, sha256_of
from schemaquake.results.bundle.provenance import provenance_of, read_object
from schemaquake.results.bundle.redaction import Redactor, redactor_of, secrets_in
from schemaquake.results.bundle.signing import SIGNATURE, sign
from schemaquake.results.store.store import Store, read_table, write_table
from schemaquake.results.summary.run_summary import RunSummary
from schemaquake.results.summary.summarise import FILE_NAME as SUMMARY
from schemaquake.results.summary.summarise import read_summary, store_summary

__all__ = ["FILES_OF_A_BUNDLE", "TABLES", "Bundled", "bundle_run", "is_file_of_a_bundle"]

TABLES: Final = {"history.parquet": HISTORY, "observations.parquet": OBSERVATIONS}
_DOCUMENTS: Final = (
    *("plan.json", "verdict.json", SUMMARY, "outcome.json", "environment.json", "simulation.json"),
    *("shrunk/scenario.json", "shrunk/shrunk.json"),
)
_FACTS: Final[Mapping[str, tuple[str, ...]]] = {
    "local.json": ("java_version", "source", "digest", "jars", "others"),
    "docker.json": ("image_id",),
}
"""Files of providers, and their members that a bundle keeps: the others are paths of this machine."""
FILES_OF_A_BUNDLE: Final = frozenset({*TABLES, *_DOCUMENTS, *_FACTS, LEDGER, f"journals/{STARTED}"})
"""Names of the files that a bundle may hold beside the nodes' logs."""
_LOG: Final = re.compile(r"nodes/[A-Za-z0-9_.-]{1,64}/(?:system|stdout)(?:-\d{1,6})?\.log")
_NOT_A_LETTER: Final = re.compile(r"[^A-Za-z0-9._+-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundled:
    """A bundle that was written."""

    path: Path
    id: str
    size: int
    files: int
    redactions: dict[str, int]
    """Kind → number of texts that were replaced."""
    signature: Path | None


def is_file_of_a_bundle(name: str) -> bool:
    """Return True for a name that a bundle may hold, beside its manifest and its sums."""
    return name in FILES_OF_A_BUNDLE or _LOG.fullmatch(name) is not None


def bundle_run(run: Path, *, to: Path | None = None, key: Path | None = None) -> Bundled:
    """Bundle a judged run into `to` (None: beside its folder), and sign the manifest with `key`.

    Raises PlanError while the run is going on and for a text that still looks like a secret, HistoryError for a run that was not
    judged or is damaged.
    """
    folder = run.resolve()
    refuse_links(folder)
    if still_running(folder) is not None:
        raise PlanError(f"{run} is still being written: bundle it when the run has ended")
    store = Store(folder)
    plan = store.read_plan()
    if damage := store.damage():
        raise HistoryError(f"{run} is damaged, so nobody could check it: {'; '.join(damage)}")
    redactor = redactor_of(folder, plan)
    name = _NOT_A_LETTER.sub("-", redactor.text(folder.name)).strip("-.") or "run"
    with tempfile.TemporaryDirectory(prefix="schemaquake-bundle-") as temporary:
        draft = Store(Path(temporary) / name)
        summary = _stage(store, draft, redactor)
        _stage_facts(store, draft, redactor)
        contents = {path.relative_to(draft.folder).as_posix(): path.read_bytes() for path in _files_in(draft.folder)}
        predicate = redactor.value(provenance_of(draft, summary, redactor.counts))
    for file, content in contents.items():
        _refuse_secrets(file, content)
    manifest = Manifest(files={file: sha256_of(content) for file, content in contents.items()}, predicate=predicate)
    contents |= {MANIFEST: manifest.to_bytes(), SUMS: manifest.sums()}
    target = to or folder.with_name(f"{name}{SUFFIX}")
    write_archive(target, contents)
    signature = None
    if key is not None:
        signature = target.with_name(target.name + SIGNATURE)
        sign(manifest.to_bytes(), key, signature)
    return Bundled(
        path=target,
        id=manifest.id,
        size=target.stat().st_size,
        files=len(contents),
        redactions=dict(sorted(redactor.counts.items())),
        signature=signature,
    )


# ── redacted copies ──────────────────────────────────────────────────────────────────────────────────────────────────


def _stage(store: Store, draft: Store, redactor: Redactor) -> RunSummary:
    """Write redacted copies of the run's files into the draft's folder. Files without anything to redact are copied as they are."""
    draft.folder.mkdir(parents=True)
    for file, schema in TABLES.items():
        path = store.path(file)
        if path.exists():
            redacted = redactor.table(read_table(path, schema))
            if redacted is None:
                shutil.copyfile(path, draft.path(file))
            else:
                write_table(draft.path(file), redacted)
    for file in (*_DOCUMENTS, f"journals/{STARTED}"):
        if store.path(file).is_file():
            _stage_document(store, draft, file, redactor)
    if store.path(LEDGER).is_file():
        draft.path(LEDGER).write_bytes(b"".join(_redacted_lines(store.path(LEDGER).read_bytes(), redactor)))
    for log in sorted(store.path("nodes").glob("*/*.log")):
        file = log.relative_to(store.folder).as_posix()
        if is_file_of_a_bundle(file):
            draft.path(file).parent.mkdir(parents=True, exist_ok=True)
            text = log.read_bytes().decode("utf-8", "surrogateescape")
            draft.path(file).write_bytes(redactor.text(text).encode("utf-8", "surrogateescape"))
    store.read_verdict()  # a run that was not judged has nothing to check
    summary = read_summary(store)
    redacted_summary = RunSummary.from_json(redactor.value(orjson.loads(orjson.dumps(summary.to_json()))))
    if redacted_summary.to_json() != summary.to_json() or not draft.path(SUMMARY).exists():
        store_summary(draft, redacted_summary)
    return redacted_summary


def _stage_document(store: Store, draft: Store, file: str, redactor: Redactor) -> None:
    """Copy a JSON file; a redacted one is sealed again if it was sealed."""
    content = store.path(file).read_bytes()
    document = read_object(store, file, sealed=not file.startswith("journals/"))
    redacted = _without_places(redactor.value(document)) if file == "plan.json" else redactor.value(document)
    path = draft.path(file)
    path.parent.mkdir(parents=True, exist_ok=True)
    if redacted != document:
        is_sealed = "crc" in orjson.loads(content)
        content = dump_sealed(redacted) if is_sealed else orjson.dumps(redacted, option=orjson.OPT_INDENT_2) + b"\n"
    path.write_bytes(content)


def _without_places(plan: dict[str, Any]) -> dict[str, Any]:
    """Return a plan whose files are names without the folders in which they lay."""
    return plan | {name: Path(plan[name]).name for name in ("cluster_file", "distribution") if plan.get(name)}


def _redacted_lines(ledger: bytes, redactor: Redactor) -> Iterator[bytes]:
    """Yield the lines of a ledger, each that changes with a checksum of its own."""
    for line in ledger.splitlines(keepends=True):
        try:
            document = orjson.loads(line)
        except orjson.JSONDecodeError:
            yield redactor.text(line.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
            continue
        redacted = redactor.value(document)
        if redacted == document:
            yield line
        elif CHECKSUM in line:
            whole = orjson.loads(without_checksum(line))
            yield checked_line(orjson.dumps(redactor.value(whole)))
        else:
            yield orjson.dumps(redacted) + b"\n"


def _stage_facts(store: Store, draft: Store, redactor: Redactor) -> None:
    """Write what the provider's own files say of the servers, and nothing of this machine: hashes of jars, the image."""
    for file, names in _FACTS.items():
        if not store.path(file).is_file():
            continue
        facts = _only(read_object(store, file), names)
        if isinstance(others := facts.get("others"), dict):
            facts["others"] = {system: _only(each, names) for system, each in others.items()}
        draft.path(file).write_bytes(orjson.dumps(redactor.value(facts), option=orjson.OPT_INDENT_2) + b"\n")


def _only(document: Any, names: Collection[str]) -> dict[str, Any]:
    """Return these members of an object; none of anything else."""
    return {name: document[name] for name in names if name in document} if isinstance(document, dict) else {}


def _files_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _refuse_secrets(file: str, content: bytes) -> None:
    """Raise PlanError for a file that still seems to hold a secret."""
    if file.endswith(".parquet"):
        return  # its texts were redacted one by one
    kind = next(secrets_in(content.decode("utf-8", "replace")), None)
    if kind is not None:
        raise PlanError(f"{file} still seems to hold a secret after {kind!r}, and no bundle was written")
