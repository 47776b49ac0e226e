"""Damaged records: the verdict is unknown and names the place, whatever a checker would find in what is left."""

from __future__ import annotations

import pytest
from recorded_0_1 import lay_out_old_run

from schemaquake.harness.errors import ExitCode
from schemaquake.results.judging.judge import judge
from schemaquake.results.judging.sources import HistoryFile
from schemaquake.results.runs.execution import conclude
from schemaquake.results.store.store import Store


@pytest.fixture
def store(tmp_path):
    """A run of which something is known to be broken."""
    store = Store(lay_out_old_run("broken", tmp_path))
    assert conclude(store.folder, engine="local").verdict.valid is False
    return store


def damage(path, at):
    content = bytearray(path.read_bytes())
    content[at] ^= 4
    path.write_bytes(content)


@pytest.mark.parametrize("name", ["history.parquet", "observations.parquet"])
@pytest.mark.parametrize("at", [30, -40], ids=["data", "footer"])
def test_a_run_with_a_damaged_table_is_unknown_at_its_place(store, name, at):
    damage(store.path(name), at)
    verdict = judge(store, engine="local")
    assert verdict.valid == "unknown"
    assert not verdict.anomalies
    assert all(part.valid == "unknown" for part in verdict.parts)
    (doubt,) = verdict.doubts
    assert doubt.kind == "unread"
    assert [name in place for place in doubt.objects] == [True]


def test_a_table_is_made_anew_from_its_journals(store):
    if not list(store.path("journals").glob("events-*")):
        pytest.skip("this run was stored without its journals")
    damage(store.path("history.parquet"), 30)
    assert conclude(store.folder, engine="local").verdict.valid is False


def test_a_run_of_damaged_tables_alone_is_concluded_as_unknown(store):
    for journal in store.path("journals").glob("*"):
        journal.unlink()
    damage(store.path("history.parquet"), 30)
    store.read_observations()
    finished = conclude(store.folder, engine="local")
    assert finished.exit_code == ExitCode.UNKNOWN
    assert store.read_verdict().valid == "unknown"


def test_a_damaged_history_file_of_ours_is_unknown(store):
    path = store.path("history.parquet")
    damage(path, 30)
    verdict = judge(HistoryFile(path), engine="local")
    assert verdict.valid == "unknown"
    assert "its data" in verdict.doubts[0].objects[0]
