"""Verification: the comparison of a bundle with what it says of itself, and of its verdict with its records.

Each check is `ok`, `differs` or `not checked`, with what exactly differs. Nothing in a bundle is run, and no path in it is followed: its
files are read in place, and those of a fixed list of names are written into a new folder to be judged there.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import orjson
import pyarrow as pa

import schemaquake
from schemaquake.harness.errors import ExitCode, HistoryError, SchemaquakeError
from schemaquake.harness.faults.ledger import FILE_NAME as LEDGER
from schemaquake.harness.faults.ledger import read_ledger
from schemaquake.harness.history.pairing import pair
from schemaquake.harness.model.verdict import Verdict, combine
from schemaquake.harness.run.runner import read_outcome
from schemaquake.harness.sealed_json import load_sealed
from schemaquake.results.bundle.archive import Limits, open_archive
from schemaquake.results.bundle.bundling import TABLES, is_file_of_a_bundle
from schemaquake.results.bundle.differences import differences, verdict_differences
from schemaquake.results.bundle.jars import Checksums, compare_jars, jars_of
from schemaquake.results.bundle.manifest import MANIFEST, SUMS, Manifest, sha256_of
from schemaquake.results.bundle.provenance import claims_of, derived_provenance_of
from schemaquake.results.bundle.rejudging import judge_again
from schemaquake.results.bundle.signing import SIGNATURE, check_signature
from schemaquake.results.store.examination import examine
from schemaquake.results.store.judged_by import judged_by
from schemaquake.results.store.store import Store, read_table
from schemaquake.results.summary.summarise import FILE_NAME as SUMMARY
from schemaquake.results.summary.summarise import read_summary

__all__ = ["Check", "CheckState", "Verified", "open_bundle", "verify_bundle"]

CheckState: TypeAlias = Literal["ok", "differs", "not checked"]
_NAMED_MOST: Final = 50
"""Differences that one check names; the last line says how many more there are."""
_FOLLOWING_MOST: Final = 10
"""The same for what is derived from a verdict that differs itself."""
_MAY_LACK: Final = ("signature", "jars")
"""Checks without which a bundle can agree all the same: nobody signed it, or its servers were somebody's own build."""
_REQUIRED: Final = ("plan.json", "verdict.json", SUMMARY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The result of one check."""

    name: str
    state: CheckState
    details: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the check as `--json` prints it."""
        return {"check": self.name, "state": self.state, "details": list(self.details)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """The results of all checks of a bundle."""

    bundle: Path
    id: str | None
    """The bundle's id; None if it has no readable manifest."""
    run: str | None
    checks: tuple[Check, ...]

    @property
    def exit_code(self) -> ExitCode:
        """VALID if everything was checked and agrees, INVALID if anything differs, else UNKNOWN."""
        valid: Mapping[CheckState, Any] = {"ok": True, "differs": False, "not checked": "unknown"}
        counted = [check for check in self.checks if check.name not in _MAY_LACK or check.state != "not checked"]
        return ExitCode.of(combine(valid[check.state] for check in counted))

    def to_json(self) -> dict[str, Any]:
        """Return the document of `--json`."""
        agrees = {ExitCode.VALID: True, ExitCode.INVALID: False}.get(self.exit_code, "unknown")
        return {
            "bundle": str(self.bundle),
            "id": self.id,
            "run": self.run,
            "agrees": agrees,
            "checks": [check.to_json() for check in self.checks],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenBundle:
    """The content of an archive that was read whole, and what is wrong with it."""

    contents: Mapping[str, bytes]
    manifest: Manifest | None
    """None if it is missing or damaged, or was never reached."""
    checks: tuple[Check, ...]
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Files that the manifest lists and a bundle may hold."""


def open_bundle(path: Path, limits: Limits | None = None) -> OpenBundle:
    """Read a bundle and check its archive, its manifest and its hashes. Raises PlanError if there is no such file."""
    try:
        archive = open_archive(path, limits)
        contents, broken = archive.read_all()
    except HistoryError as error:
        return OpenBundle(contents={}, manifest=None, checks=(_differs("archive", [str(error)]),))
    whole = [] if archive.is_sealed else ["the archive is not the one that was written: its own SHA-256 differs"]
    whole += [f"{name} cannot be read: {reason}" for name, reason in sorted(broken.items())]
    checks = [_differs("archive", whole)]
    if MANIFEST not in contents:
        reason = "it is damaged" if MANIFEST in broken else "there is none"
        return OpenBundle(contents=contents, manifest=None, checks=(*checks, _differs("manifest", [reason])))
    try:
        manifest = Manifest.parse(contents[MANIFEST])
    except HistoryError as error:
        sums = contents.get(SUMS, b"")
        damaged = [str(error)]
        if sha256_of(contents[MANIFEST]).encode() not in sums:
            damaged.append(f"{MANIFEST} has another SHA-256 than {SUMS} says")
        return OpenBundle(contents=contents, manifest=None, checks=(*checks, _differs("manifest", damaged)))
    wrong = [] if contents.get(SUMS) == manifest.sums() else list(_wrong_sums(contents.get(SUMS), manifest))
    checks.append(_differs("manifest", wrong))
    checks.append(_differs("hashes", _wrong_files(manifest, contents)))
    files = {name: contents[name] for name in manifest.files if name in contents and is_file_of_a_bundle(name)}
    return OpenBundle(contents=contents, manifest=manifest, checks=tuple(checks), files=files)


def verify_bundle(
    path: Path,
    *,
    signature: Path | None = None,
    signers: Path | None = None,
    limit_s: float = 120,
    checksums: Checksums | None = None,
    repeat: Callable[[Store], Check] | None = None,
    keep: Path | None = None,
) -> Verified:
    """Check a bundle, judge its records again, and name each difference. With `repeat`, check with that what its plan does here.

    `checksums` returns those of jars that are not known here; None: such jars are not checked.

    The run, as it was judged here, stays in the new folder `keep`; None: nothing stays.
    Raises PlanError if there is no such file, EnvironmentLacks if a signature cannot be checked.
    """
    opened = open_bundle(path)
    manifest = opened.manifest
    if manifest is None:
        return Verified(bundle=path, id=None, run=None, checks=opened.checks)
    checks = [*opened.checks, _signature(path, manifest, signature, signers)]
    missing = [name for name in _REQUIRED if name not in opened.files]
    run = str(manifest.predicate.get("run"))
    if missing:
        checks.append(_differs("records", [f"there is no {name}" for name in missing]))
        return Verified(bundle=path, id=manifest.id, run=run, checks=tuple(checks))
    with tempfile.TemporaryDirectory(prefix="schemaquake-verify-") as temporary:
        store = Store(keep or Path(temporary) / "run")
        for name, content in opened.files.items():
            store.path(name).parent.mkdir(parents=True, exist_ok=True)
            store.path(name).write_bytes(content)
        records = _differs("records", _failures(store, _readings(store)))
        claimed = _failures(store, [store.read_verdict, lambda: read_summary(store)])
        checks.append(_differs("records", [*records.details, *claimed]))
        if records.state == "ok":
            checks += _judged_again(store, opened.files, manifest, run, limit_s, checksums)
            if repeat is not None:
                checks.append(repeat(store))
        else:
            checks.append(Check(name="verdict", state="not checked", details=("the records cannot be read",)))
    return Verified(bundle=path, id=manifest.id, run=run, checks=tuple(checks))


# ── archive, hashes, signature ───────────────────────────────────────────────────────────────────────────────────────


def _differs(name: str, details: Iterable[str], *, most: int = _NAMED_MOST) -> Check:
    """Make a check that is `ok` without details. Many details are cut short, and counted."""
    every = list(details)
    shown = every[:most]
    if len(every) > len(shown):
        shown.append(f"… and {len(every) - len(shown):,} more")
    return Check(name=name, state="differs" if every else "ok", details=tuple(shown))


def _wrong_sums(sums: bytes | None, manifest: Manifest) -> Iterator[str]:
    """Name the lines of SHA256SUMS that the manifest does not have."""
    if sums is None:
        yield f"there is no {SUMS}"
        return
    known = set(manifest.sums().splitlines())
    for line in sums.splitlines():
        if line not in known:
            yield f"{SUMS} says something else than the manifest: {line.decode(errors='replace')[:200]}"
    missing = known - set(sums.splitlines())
    if missing or sums != manifest.sums():
        yield f"{SUMS} is not the list of the manifest's hashes ({MANIFEST} or {SUMS} was changed)"


def _wrong_files(manifest: Manifest, contents: Mapping[str, bytes]) -> Iterator[str]:
    for name, digest in sorted(manifest.files.items()):
        if not is_file_of_a_bundle(name):
            yield f"{name} is listed, and no bundle has such a file"
        elif name not in contents:
            yield f"{name} is missing or cannot be read"
        elif sha256_of(contents[name]) != digest:
            yield f"{name} was changed: its SHA-256 is not the manifest's"
    for name in sorted(contents.keys() - manifest.files.keys() - {MANIFEST, SUMS}):
        yield f"{name} is not listed in the manifest"


def _signature(path: Path, manifest: Manifest, signature: Path | None, signers: Path | None) -> Check:
    """Check the signature beside the bundle. No signature is said, and is wrong only if one was asked for."""
    beside = signature or path.with_name(path.name + SIGNATURE)
    if not beside.is_file():
        if signature is not None or signers is not None:
            return _differs("signature", [f"there is no signature {beside.name}"])
        return Check(name="signature", state="not checked", details=("the bundle is not signed",))
    result = check_signature(manifest.to_bytes(), beside, signers)
    key = f"key {result.key}" if result.key else "an unknown key"
    if not result.is_good:
        return _differs("signature", [f"it is not a signature of this manifest: {result.reason}"])
    if result.signer is None:
        return Check(
            name="signature",
            state="not checked",
            details=(f"it is a signature of this manifest by {key}; --signers FILE says whose keys are trusted",),
        )
    return Check(name="signature", state="ok", details=(f"by {result.signer}, {key}",))


# ── records ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _failures(store: Store, steps: Iterable[Callable[[], object]]) -> list[str]:
    """Read records, and return why each that cannot be read cannot. Files have their names in the bundle."""
    return [reason.replace(f"{store.folder}/", "") for step in steps if (reason := _failure(step))]


def _readings(store: Store) -> Iterator[Callable[[], object]]:
    """Yield a reader of each record: plan, outcome, facts of the servers, tables, logs, ledger. Each Parquet file is read in a process of its own first."""
    yield store.read_plan
    yield lambda: read_outcome(store.folder)
    yield lambda: derived_provenance_of(store)
    for name, schema in TABLES.items():
        if store.path(name).exists():
            yield lambda name=name, schema=schema: _read_table(store.path(name), schema)  # type: ignore[misc]  # a default binds it
    if store.path("history.parquet").exists():
        yield lambda: pair(store.read_history())
        yield store.read_observations
        yield store.read_logs
    if store.path(LEDGER).exists():
        yield lambda: read_ledger(store.path(LEDGER))


def _read_table(path: Path, schema: pa.Schema) -> pa.Table:
    examine(path)
    return read_table(path, schema)


def _failure(step: Callable[[], object]) -> str | None:
    try:
        step()
    except (SchemaquakeError, ValueError, KeyError, TypeError, OSError) as error:
        return str(error) or type(error).__name__
    return None


# ── the verdict, anew ────────────────────────────────────────────────────────────────────────────────────────────────


def _judged_again(
    store: Store,
    files: Mapping[str, bytes],
    manifest: Manifest,
    run: str,
    limit_s: float,
    checksums: Checksums | None,
) -> Iterator[Check]:
    reason = judge_again(store.folder, limit_s=limit_s)
    if reason is not None:
        yield Check(name="verdict", state="not checked", details=(reason,))
        return
    verdict = _compare("verdict", files["verdict.json"], store.path("verdict.json"), _verdict_lines, manifest)
    yield verdict
    most = _NAMED_MOST if verdict.state == "ok" else _FOLLOWING_MOST
    summary = replace(read_summary(store), run=run)
    yield _differs("summary", _summary_lines(files[SUMMARY], orjson.loads(orjson.dumps(summary.to_json()))), most=most)
    expected = {**derived_provenance_of(store), **claims_of(summary)}
    if (manifest.predicate.get("bundled_by") or {}).get("schemaquake") != schemaquake.__version__:
        del expected["command"]  # another version may have had other options; the plan is judged all the same
    claims = {name: manifest.predicate.get(name) for name in expected}
    yield _differs("claims", differences(claims, orjson.loads(orjson.dumps(expected))), most=most)
    jars = _jars(store, checksums)
    if jars is not None:
        yield jars


def _jars(store: Store, checksums: Checksums | None) -> Check | None:
    """Compare the jars of every version that the run had with the published ones. None if it had no servers of this machine's."""
    plan, local = store.read_plan(), store.path("local.json")
    if not local.is_file():
        return None
    try:
        systems = jars_of(_object(local.read_bytes()), plan.system)
    except HistoryError as error:
        return _differs("jars", [str(error)])
    wrong, uncompared = list[str](), list[str]()
    for system, jars in systems.items():
        if system == plan.system and plan.distribution is not None:
            uncompared.append("the servers were of a distribution of its author's own, which nothing here knows")
            continue
        compared = compare_jars(system, jars, checksums)
        wrong += compared.differences
        uncompared += compared.uncompared
    if wrong or not uncompared:
        return _differs("jars", wrong)
    return Check(name="jars", state="not checked", details=tuple(uncompared))


def _compare(
    name: str,
    recorded: bytes,
    found: Path,
    lines: Callable[[Mapping[str, Any], Mapping[str, Any]], Iterator[str]],
    manifest: Manifest,
) -> Check:
    document = _object(recorded)
    check = _differs(name, islice(lines(document, _object(found.read_bytes())), 10_000))
    return check if check.state == "ok" else replace(check, details=(_judges(document, manifest), *check.details))


def _judges(recorded: Mapping[str, Any], manifest: Manifest) -> str:
    """Say if the verdict can be that of another judge. What it says of its judge is a claim like everything else in it."""
    then, now = recorded.get("judged_by"), judged_by()
    if then == now:
        return "it says that the checkers of this installation made it, and they make another one: it, or the records, were changed"
    version = then.get("schemaquake") if isinstance(then, dict) else None
    version = version or (manifest.predicate.get("bundled_by") or {}).get("schemaquake")
    digest = str(then.get("checkers"))[:12] if isinstance(then, dict) else "not noted"
    return (
        f"it says that other checkers made it: Schemaquake {version} ({digest}) then, {now['schemaquake']} "
        f"({now['checkers'][:12]}) now; verify it with those to tell an older judge from a changed verdict"
    )


def _verdict_lines(recorded: Mapping[str, Any], found: Mapping[str, Any]) -> Iterator[str]:
    """Yield the differences. A verdict of an older format is compared as it is read today."""
    recorded, found = ({name: value for name, value in one.items() if name != "judged_by"} for one in (recorded, found))
    if recorded.get("schema") != found.get("schema"):
        try:
            recorded = orjson.loads(orjson.dumps(Verdict.from_json(recorded).to_json()))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            yield f"the document is no verdict: {error}"
            return
        found = {name: value for name, value in found.items() if name != "findings"}
    yield from verdict_differences(recorded, found)


def _summary_lines(recorded: bytes, found: Mapping[str, Any]) -> Iterator[str]:
    document = _object(recorded)
    if document.get("schema") != found.get("schema"):
        return  # of another version: everything in it is derived from the verdict, which is compared
    yield from differences(document, found)


def _object(content: bytes) -> Mapping[str, Any]:
    """Parse a document, without its checksum. Anything but an object is an empty one, which differs everywhere."""
    try:
        document = load_sealed(content, keep_going=True)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}
