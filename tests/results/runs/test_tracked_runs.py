"""The findings of a folder of runs: each run once, and what cannot be read is said."""

from __future__ import annotations

import io
import shutil

import pytest
from recorded import laid_out
from rich.console import Console

from schemaquake.harness.errors import PlanError
from schemaquake.results.findings.finding import Rate
from schemaquake.results.runs.execution import conclude
from schemaquake.results.runs.tracking import print_tracked, track_runs
from schemaquake.results.store.run_folders import find_runs


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    run = laid_out(tmp_path_factory.mktemp("tracked"))
    conclude(run, engine="local")
    folder = run.parent
    shutil.copytree(run, folder / "20261122T101054Z-drop-type-cassandra-5.0.9")
    unjudged = folder / "20261123T101054Z-drop-type-cassandra-5.0.9"
    shutil.copytree(run, unjudged)
    for name in ("summary.json", "verdict.json"):
        (unjudged / name).unlink()
    (folder / "latest").unlink(missing_ok=True)
    (folder / "latest").symlink_to(run.name)
    (folder / "no-run").mkdir()
    return folder


def test_runs_are_counted_once_and_what_has_no_verdict_is_named(runs):
    tracked = track_runs([runs, runs / "latest"])
    assert len(tracked.runs) == 2
    assert [name for name, _ in tracked.unread] == ["20261123T101054Z-drop-type-cassandra-5.0.9"]
    found = {finding.id: finding.tracked for finding in tracked.findings}["SQ-E3ZATWYL"]
    assert found.on("cassandra:5.0.9").rate == Rate(2, 2, "race")
    assert len(found.on("cassandra:5.0.9").runs) == 2
    document = tracked.to_json()
    assert next(iter(document)) == "findings"
    assert document["findings"][0]["sightings"][0]["rate"]["broken"] == 2


def test_the_table_names_versions_and_what_was_not_read(runs):
    output = io.StringIO()
    print_tracked(track_runs([runs]), Console(file=output, width=200))
    assert "Cassandra 5.0.9 (2 of 2)" in output.getvalue()
    assert "not read: 20261123T101054Z" in output.getvalue()


def test_findings_and_sites_are_of_the_same_runs_at_any_depth(runs, tmp_path):
    deep = tmp_path / "2026" / "november" / "runs"
    deep.parent.mkdir(parents=True)
    shutil.copytree(runs, deep, symlinks=True)
    inner = next(folder for folder in find_runs([deep]) if (folder / "summary.json").exists())
    shutil.copytree(inner, deep / inner.name / "shrunk" / "runs" / "20261124T101054Z-scenario-cassandra-5.0.9")
    tracked = track_runs([tmp_path])
    assert len(tracked.runs) == 2, "a run that is part of another one is not counted"
    assert {*tracked.runs, *(name for name, _ in tracked.unread)} == {run.name for run in find_runs([tmp_path])}


def test_a_folder_without_runs_is_refused(tmp_path):
    with pytest.raises(PlanError, match="there is no run"):
        track_runs([tmp_path])


def test_a_path_that_is_not_there_is_named(runs, tmp_path):
    with pytest.raises(PlanError, match="absent is not there"):
        track_runs([runs, tmp_path / "absent"])
