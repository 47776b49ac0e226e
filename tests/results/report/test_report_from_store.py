"""From a store: what a run's folder holds is what its reports are made from."""

from __future__ import annotations

import os
from pathlib import Path

import orjson
import pytest
from synthetic_run import broken_run

from schemaquake.harness.errors import HistoryError
from schemaquake.harness.model.plan import Plan
from schemaquake.results.report import material_of, write_all
from schemaquake.results.report.from_store import REPORTS
from schemaquake.results.report.material import Material
from schemaquake.results.store.store import Store

TABLES = ("operations", "rates", "latencies", "races")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A judged run's folder."""
    run = broken_run()
    store = Store.create(tmp_path, "drop-type", "cassandra:5.0.9")
    store.write_plan(Plan.from_json(run.plan))
    store.write_history(run.history)
    store.write_observations(run.observations)
    store.write_verdict(run.verdict)
    for name in TABLES:
        store.write_analysis(name, getattr(run, name))
    journals = store.path("journals")
    journals.mkdir()
    (journals / "started.json").write_bytes(orjson.dumps({"started_ns": 1, "started_utc": "2026-11-21T10:02:11+00:00"}))
    log = store.path("nodes") / "n1" / "system.log"
    log.parent.mkdir(parents=True)
    log.write_text(
        "ERROR [main] 2026-11-21 10:03:10,902 CassandraDaemon.java:900 - Exception encountered during startup\n"
    )
    return store


def test_every_report_is_written(store: Store):
    write_all(store, environment={})
    for name in REPORTS:
        assert store.path(name).stat().st_size > 500
    assert os.access(store.path("reproduce.sh"), os.X_OK)
    assert "INVALID" in store.path("report.html").read_text()


def test_the_material_is_what_the_folder_holds(store: Store):
    material, run = material_of(store), broken_run()
    assert material.verdict == run.verdict
    assert material.operations.to_pylist() == run.operations.to_pylist()
    assert material.chronicle == run.chronicle
    assert material.run == store.folder.name
    assert str(material.started) == "2026-11-21 10:02:11+00:00"
    assert [row["message"] for row in material.logs.to_pylist()] == ["Exception encountered during startup"]
    assert {file.path for file in material.files} >= {"plan.json", "history.parquet", "report.html", "reproduce.sh"}


def test_drawing_a_report_again_changes_nothing(store: Store):
    write_all(store, environment={})
    before = {name: store.path(name).read_bytes() for name in REPORTS}
    write_all(store, environment={})
    assert {name: store.path(name).read_bytes() for name in REPORTS} == before


def test_a_run_without_its_journals_has_no_beginning_but_a_report(store: Store):
    (store.path("journals") / "started.json").unlink()
    assert material_of(store).started is None
    assert isinstance(write_all(store, environment={}), Material)


def test_what_it_ran_on_is_read_where_it_was_recorded(store: Store):
    assert material_of(store).environment == {"Schemaquake": "0.1.0", "cluster": "local"}
    store.path("environment.json").write_bytes(orjson.dumps({"Java": "17.0.17"}))
    assert material_of(store).environment["Java"] == "17.0.17"


@pytest.mark.parametrize("damage", [b"[1]", b"{", b'"x"'])
def test_a_damaged_environment_is_named(store: Store, damage: bytes):
    store.path("environment.json").write_bytes(damage)
    with pytest.raises(HistoryError, match=r"environment\.json is damaged"):
        material_of(store)


@pytest.mark.parametrize("name", TABLES)
def test_a_missing_table_is_named(store: Store, name: str):
    (store.path("analysis") / f"{name}.parquet").unlink()
    with pytest.raises(HistoryError, match=f"{name}.parquet is missing"):
        write_all(store, environment={})


def test_github_is_told_when_it_asks(store: Store, capsys: pytest.CaptureFixture[str], tmp_path: Path):
    summary = tmp_path / "summary.md"
    write_all(store, environment={"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(summary)})
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("::error title=") == 3
    assert summary.read_text().startswith("# ✕ INVALID")
