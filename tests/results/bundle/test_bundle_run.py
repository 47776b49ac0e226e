"""Bundles of runs: the same run gives the same bytes, its verdict is found again, and what was edited is named."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import orjson
import pytest
from bundles import RUN, contents_of, forged, judged_run, repacked

from schemaquake.clusters.systems.checksums import published
from schemaquake.harness.errors import ExitCode, FetchError, HistoryError, PlanError
from schemaquake.harness.model.verdict import Doubt, Verdict
from schemaquake.harness.sealed_json import dump_sealed, load_sealed
from schemaquake.results.bundle.bundling import bundle_run
from schemaquake.results.bundle.manifest import MANIFEST, Manifest
from schemaquake.results.bundle.repeating import plan_to_repeat
from schemaquake.results.bundle.signing import sign
from schemaquake.results.bundle.verification import _jars, _judges, open_bundle, verify_bundle
from schemaquake.results.store.judged_by import judged_by
from schemaquake.results.store.store import Store


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    return judged_run(tmp_path_factory.mktemp("runs") / RUN)


@pytest.fixture(scope="module")
def bundle(run, tmp_path_factory) -> Path:
    return bundle_run(run, to=tmp_path_factory.mktemp("bundles") / "one.sqz.zip").path


def check_of(verified, name):
    return next(check for check in verified.checks if check.name == name)


def test_the_same_run_gives_the_same_bytes(run, bundle, tmp_path):
    shutil.copytree(run, tmp_path / "elsewhere" / RUN)
    again = bundle_run(tmp_path / "elsewhere" / RUN)
    assert again.path == tmp_path / "elsewhere" / f"{RUN}.sqz.zip"
    assert again.path.read_bytes() == bundle.read_bytes()


def test_nothing_drawn_and_no_journal_is_in_it(run, bundle):
    (run / "report.html").write_text("<script>")
    names = set(contents_of(bundle))
    assert {"plan.json", "history.parquet", "observations.parquet", "verdict.json", "nodes/n1/system-0.log"} <= names
    assert not [name for name in names if name.startswith(("analysis", "report")) or "events" in name]


def test_a_bundle_is_verified_and_an_edited_one_is_not(bundle, tmp_path):
    verified = verify_bundle(bundle)
    assert {check.name: check.state for check in verified.checks} == {
        "archive": "ok", "manifest": "ok", "hashes": "ok", "signature": "not checked", "records": "ok",
        "verdict": "ok", "summary": "ok", "claims": "ok",
    }  # fmt: skip
    assert verified.exit_code == ExitCode.VALID
    assert verified.run == RUN

    gone = {}

    def edit(contents):
        document = load_sealed(contents["verdict.json"])
        gone["anomaly"] = document["anomalies"].pop(0)
        document["valid"] = True
        document["findings"][0]["rate"]["tried"] += 1
        document["note"] = "by hand"
        contents["verdict.json"] = orjson.dumps(document)
        summary = load_sealed(contents["summary.json"])
        summary["races"][0]["broken"] = 0
        summary["seconds"] += 1
        contents["summary.json"] = orjson.dumps(summary)

    edited = verify_bundle(forged(bundle, tmp_path / "edited", edit))
    assert edited.exit_code == ExitCode.INVALID
    assert check_of(edited, "hashes").state == "ok", "whoever forges a bundle forges its hashes, too"
    lines = check_of(edited, "verdict").details
    assert any(gone["anomaly"]["type"] in line and gone["anomaly"]["objects"][0] in line for line in lines)
    for path in ("valid:", "rate.tried", "note:"):
        assert any(path in line for line in lines), path
    assert any("seconds" in line for line in check_of(edited, "summary").details)
    assert "the checkers of this installation made it" in lines[0]


def test_a_verdict_of_other_checkers_is_told_apart_from_an_edited_one():
    recorded = {"valid": True, "judged_by": {"schemaquake": "0.0.9", "checkers": "f" * 32}}
    manifest = Manifest(files={}, predicate={"bundled_by": {"schemaquake": "0.0.9"}})
    assert "Schemaquake 0.0.9 (ffffffffffff) then" in _judges(recorded, manifest)
    assert "Schemaquake 0.0.9 (not noted) then" in _judges({"valid": True}, manifest)
    assert "made it, and they make another one" in _judges(recorded | {"judged_by": judged_by()}, manifest)


def test_an_edited_history_is_another_verdict_or_none(bundle, tmp_path):
    def cut(contents):
        contents["history.parquet"] = contents["history.parquet"][:-9]

    verified = verify_bundle(forged(bundle, tmp_path / "cut", cut))
    assert check_of(verified, "records").state == "differs"
    assert check_of(verified, "verdict").state == "not checked"

    def swap(contents):
        contents["history.parquet"] = contents["observations.parquet"]

    assert check_of(verify_bundle(forged(bundle, tmp_path / "swap", swap)), "records").state == "differs"


def test_a_manifest_that_says_what_no_file_says_differs(bundle, tmp_path):
    contents = contents_of(bundle)
    forged_names = {"command": "another", "environment": {"java": "99"}, "digest_of_jars": "0" * 64, "image": "another"}
    repacked(tmp_path / "b", contents, {**Manifest.parse(contents[MANIFEST]).predicate, **forged_names})
    lines = check_of(verify_bundle(tmp_path / "b"), "claims").details
    assert {name for name in forged_names if any(name in line for line in lines)} == {*forged_names}


def test_the_jars_of_a_run_with_servers_are_in_its_bundle_and_verified(run, tmp_path):
    """Until now a bundle had no list of jars, so that of every run on servers of this machine was said to differ."""
    folder = tmp_path / RUN
    shutil.copytree(run, folder)
    facts = {
        "jars": {},
        "digest": "d" * 64,
        "others": {"cassandra:6.0-alpha2": {"jars": {}, "class_path": ["/home/someone/a.jar"]}},
    }
    own = {
        "java": "/home/someone/java",
        "java_version": "17",
        "class_path": ["/home/someone/lib/a.jar"],
        "source": "Maven",
    }
    (folder / "local.json").write_text(json.dumps(own | facts))
    (folder / "docker.json").write_text(
        json.dumps({"image_id": "sha256:1", "engine": "unix:///home/someone/docker.sock"})
    )
    bundle = bundle_run(folder, to=tmp_path / "b.sqz.zip").path
    contents = contents_of(bundle)
    assert not [name for name, content in contents.items() if b"someone" in content]
    assert json.loads(contents["docker.json"]) == {"image_id": "sha256:1"}
    verified = verify_bundle(bundle)
    assert check_of(verified, "claims").details == ()
    assert check_of(verified, "jars").state == "not checked", "it has a list of none"
    predicate = Manifest.parse(contents[MANIFEST]).predicate
    assert (predicate["digest_of_jars"], predicate["image"]) == ("d" * 64, "sha256:1")

    def without(contents):
        del contents["local.json"]

    assert "digest_of_jars" in str(
        check_of(verify_bundle(forged(bundle, tmp_path / "forged", without)), "claims").details
    )


OWN_JAR = "cassandra-all-5.0.9.jar"
PUBLISHED = {OWN_JAR: published()[OWN_JAR]}
UNKNOWN = {"cassandra-all-5.0.3.jar": "3" * 64, "library-1.jar": "1" * 64}


@pytest.fixture
def judged_jars(run, tmp_path):
    """Judge lists of jars, as `local.json` has them: of a run's system, and of those that it was upgraded to."""

    def judge(jars, *, others=None, checksums=None, system="cassandra:5.0.9", **changed):
        folder = shutil.copytree(run, tmp_path / "run", dirs_exist_ok=True)
        document = load_sealed((run / "plan.json").read_bytes()) | {"system": system} | changed
        (folder / "plan.json").write_bytes(dump_sealed(document))
        further = {name: {"jars": found} for name, found in (others or {}).items()}
        (folder / "local.json").write_text(json.dumps({"jars": jars, "others": further}))
        return _jars(Store(folder), checksums)

    return judge


def test_jars_are_those_that_were_published_or_somebodys_own(judged_jars):
    wrong = {OWN_JAR: published()[OWN_JAR].replace("0", "1")}
    assert judged_jars(PUBLISHED).state == "ok"
    (line,) = judged_jars(wrong).details
    assert OWN_JAR in line
    assert published()[OWN_JAR] in line
    assert judged_jars(PUBLISHED | {"unheard-of-1.0.jar": "0" * 64}).state == "differs"
    assert judged_jars({}).state == "not checked"
    assert judged_jars({"guava-1.jar": "0" * 64}).state == "differs"
    assert judged_jars("rubbish").state == "differs"
    assert judged_jars(wrong, distribution="/own").state == "not checked"


def test_jars_of_an_upgrade_are_compared_for_each_version(judged_jars):
    later = "cassandra-all-6.0-alpha2.jar"
    right = {"cassandra:6.0-alpha2": {later: published()[later]}}
    assert judged_jars(PUBLISHED, others=right).state == "ok"
    assert judged_jars(PUBLISHED, others={"cassandra:6.0-alpha2": {later: "0" * 64}}).state == "differs"
    assert judged_jars(PUBLISHED, others={"cassandra:6.0-alpha2": PUBLISHED}).state == "differs"
    assert judged_jars(PUBLISHED, others=right, distribution="/own").state == "not checked"


def test_jars_of_a_version_without_known_checksums_are_fetched_or_not_checked(judged_jars):
    asked = []

    def checksums(version):
        asked.append(version)
        return UNKNOWN

    def refused(version):
        raise FetchError(f"{version}: no network")

    assert judged_jars(UNKNOWN, system="cassandra:5.0.3").state == "not checked"
    assert judged_jars(UNKNOWN, system="cassandra:5.0.3", checksums=refused).details == ("5.0.3: no network",)
    assert judged_jars(UNKNOWN, system="cassandra:5.0.3", checksums=checksums).state == "ok"
    assert asked == ["5.0.3"]
    for changed, state in (("2" * 64, "differs"), ("1" * 64, "ok")):
        other = UNKNOWN | {"library-1.jar": changed}
        assert judged_jars(other, system="cassandra:5.0.3", checksums=checksums).state == state
    further = UNKNOWN | {"library-2.jar": "2" * 64}
    assert judged_jars(further, system="cassandra:5.0.3", checksums=checksums).state == "not checked"


@pytest.mark.parametrize("missing", ["plan.json", "verdict.json", "summary.json"])
def test_a_bundle_without_a_claim_differs(bundle, tmp_path, missing):
    verified = verify_bundle(forged(bundle, tmp_path / "b", lambda contents: contents.pop(missing)))
    assert verified.exit_code == ExitCode.INVALID
    assert missing in check_of(verified, "records").details[0]


def test_documents_of_another_kind_differ(bundle, tmp_path):
    for rubbish in (b"[]", b'{"system": 1}'):

        def change(contents, rubbish=rubbish):
            contents["plan.json"] = rubbish

        verified = verify_bundle(forged(bundle, tmp_path / "b", change))
        assert check_of(verified, "records").state == "differs"


# ── signatures ───────────────────────────────────────────────────────────────────────────────────────────────────────


def new_key(folder: Path, name: str) -> Path:
    key = folder / name
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(key)], check=True)
    return key


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="OpenSSH is not installed")
def test_a_signature_is_of_one_manifest_and_one_key(bundle, tmp_path, monkeypatch):
    for step in ("_judged_again", "_readings"):
        monkeypatch.setattr(f"schemaquake.results.bundle.verification.{step}", lambda *_: iter(()))
    mine, other = new_key(tmp_path, "mine"), new_key(tmp_path, "other")
    signers = tmp_path / "signers"
    signers.write_text(f"me@example.org {(tmp_path / 'mine.pub').read_text()}")
    copy = tmp_path / "copy.sqz.zip"
    shutil.copy(bundle, copy)
    manifest = open_bundle(copy).manifest
    assert manifest is not None

    def state(**named):
        return check_of(verify_bundle(copy, **named), "signature")

    assert state().state == "not checked"
    assert state(signers=signers).state == "differs", "a signature was asked for, and there is none"
    signature = tmp_path / "copy.sqz.zip.sig"
    sign(manifest.to_bytes(), mine, signature)
    assert state(signers=signers).state == "ok"
    assert "me@example.org" in state(signers=signers).details[0]
    assert state().state == "not checked", "the signature of a key that nobody vouches for"
    sign(manifest.to_bytes(), other, signature)
    assert state(signers=signers).state == "differs"
    sign(manifest.to_bytes() + b" ", mine, signature)
    assert state(signers=signers).state == "differs"
    assert state().state == "differs"
    signature.write_text("rubbish")
    assert state(signers=signers).state == "differs"
    with pytest.raises(PlanError):
        sign(b"", tmp_path / "no-key", signature)


# ── what is not bundled, and not repeated ────────────────────────────────────────────────────────────────────────────


def test_a_run_without_a_verdict_and_a_damaged_one_are_refused(run, tmp_path):
    bare = tmp_path / "bare"
    shutil.copytree(run, bare)
    (bare / "verdict.json").unlink()
    with pytest.raises(HistoryError):
        bundle_run(bare)
    broken = tmp_path / "broken"
    shutil.copytree(run, broken)
    history = bytearray((broken / "history.parquet").read_bytes())
    history[len(history) // 2] ^= 1
    (broken / "history.parquet").write_bytes(history)
    with pytest.raises(HistoryError):
        bundle_run(broken)
    (broken / "plan.json").unlink()
    (broken / "plan.json").symlink_to("/etc/hostname")
    with pytest.raises(HistoryError):
        bundle_run(broken)


@pytest.mark.parametrize("content", [b"[]", b"3", b'"text"', b"{", b""])
@pytest.mark.parametrize("file", ["environment.json", "local.json", "outcome.json", "journals/started.json"])
def test_a_document_that_is_no_object_is_named_by_its_place_in_the_run(run, tmp_path, file, content):
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    (copy / file).parent.mkdir(exist_ok=True)
    (copy / file).write_bytes(content)
    with pytest.raises(HistoryError, match=re.escape(f"{copy / file} is damaged")):
        bundle_run(copy)


def test_a_bundle_whose_facts_are_no_objects_differs(bundle, tmp_path):
    for name, file in enumerate(("environment.json", "local.json", "docker.json")):

        def change(contents, file=file):
            contents[file] = b"[]"

        verified = verify_bundle(forged(bundle, tmp_path / str(name), change))
        assert check_of(verified, "records").state == "differs"
        assert check_of(verified, "records").details == (f"{file} is damaged: it holds no object",)


def test_a_file_is_not_a_run_to_bundle(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(HistoryError, match="file is not a run's folder: it is a file"):
        bundle_run(tmp_path / "file")


def test_an_unpacked_bundle_is_a_run_that_keeps_its_tables(bundle, tmp_path):
    for name, content in contents_of(bundle).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    before = Store(tmp_path).read_history()
    assert len(before)
    Store(tmp_path).recover()
    assert Store(tmp_path).read_history().equals(before)


@pytest.mark.parametrize(
    "change",
    [
        {"cluster": "ssh"},
        {"cluster": "docker"},
        {"cluster_file": "cluster.toml"},
        {"cluster": "local", "distribution": "mine.tar.gz"},
        {"cluster": "local", "system": "cassandra:5.0.9", "options": {"jvm.x": "1"}},
        {"cluster": "local", "system": "cassandra:5.0.9", "options": {"yaml.data_file_directories": "x"}},
        {"options": {"races": "../../up"}},
        {"options": {"no-such-option": "1"}},
    ],
    ids=str,
)
def test_a_strangers_plan_is_repeated_only_on_clusters_of_our_own(run, tmp_path, change):
    plan = load_sealed((run / "plan.json").read_bytes())
    (tmp_path / "plan.json").write_bytes(orjson.dumps(plan))
    assert plan_to_repeat(Store(tmp_path)).cluster == "simulated"
    (tmp_path / "plan.json").write_bytes(orjson.dumps(plan | change))
    with pytest.raises(PlanError):
        plan_to_repeat(Store(tmp_path))


def test_repeating_ends_with_the_run_that_was_interrupted(run, monkeypatch):
    from schemaquake.results.bundle import repeating  # noqa: PLC0415 - the reports take a second
    from schemaquake.results.runs.execution import FinishedRun  # noqa: PLC0415 - as above

    begun = []

    def interrupted(plan, _runs, **_):
        begun.append(plan)
        return FinishedRun(
            store=Store(run), plan=plan, verdict=Verdict.unknown("run", Doubt("incomplete-run", "interrupted")),
            completed=False, error="interrupted", exit_code=ExitCode.CRASHED, interrupted=True,
        )  # fmt: skip

    monkeypatch.setattr(repeating, "carry_out", interrupted)
    with pytest.raises(KeyboardInterrupt):
        repeating.repeat_run(Store(run), 3, limit_s=60)
    assert len(begun) == 1


@pytest.mark.long
def test_a_simulated_run_is_repeated_byte_for_byte_and_a_forged_one_is_not(bundle, tmp_path):
    from schemaquake.results.bundle.repeating import repeat_run  # noqa: PLC0415 - the reports take a second

    whole = verify_bundle(bundle, repeat=lambda store: repeat_run(store, 2, limit_s=60))
    assert check_of(whole, "repeat").state == "ok"

    def other_seed(contents):
        plan = load_sealed(contents["plan.json"])
        contents["plan.json"] = orjson.dumps(plan | {"seed": plan["seed"] + 1})

    forgery = forged(bundle, tmp_path / "b", other_seed)
    verified = verify_bundle(forgery, repeat=lambda store: repeat_run(store, 1, limit_s=60))
    assert check_of(verified, "repeat").state == "differs"
    assert check_of(verified, "claims").state == "differs", "the manifest has the seed, too"
