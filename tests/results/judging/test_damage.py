"""Damaged records: the verdict is unknown and names the place, whatever a checker would find in what is left."""

from __future__ import annotations

import pytest
from recorded_0_1 import lay_out_old_run

from schemaquake.harness.errors import DamagedFile, ExitCode
from schemaquake.harness.sealed_json import dump_sealed
from schemaquake.results.judging.judge import judge
from schemaquake.results.judging.sources import HistoryFile
from schemaquake.results.runs.execution import conclude
from schemaquake.results.store.store import Store
from schemaquake.results.summary.summarise import read_summary


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
    assert list(store.path("journals").glob("events-*"))
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


def edited(store, name, *, of, to):
    path = store.path(name)
    text = path.read_text()
    assert of in text
    path.write_text(text.replace(of, to, 1))


def test_a_run_whose_plan_was_edited_is_unknown_and_says_so(store):
    store.write_plan(store.read_plan())
    edited(store, "plan.json", of='"nodes": 3', to='"nodes": 5')
    finished = conclude(store.folder, engine="local")
    assert finished.exit_code == ExitCode.UNKNOWN
    (doubt,) = store.read_verdict().doubts
    assert "plan.json is damaged" in doubt.objects[0]
    with pytest.raises(DamagedFile, match="plan"):
        store.read_plan()
    assert store.read_plan(keep_going=True).nodes == 5, "a healing needs it all the same"


def test_an_edited_verdict_or_summary_is_not_believed_and_check_writes_it_again(store):
    edited(store, "verdict.json", of='"valid": false', to='"valid": true')
    edited(store, "summary.json", of='"valid": false', to='"valid": true')
    with pytest.raises(DamagedFile, match=r"verdict\.json is damaged .*check"):
        store.read_verdict()
    with pytest.raises(DamagedFile, match=r"summary\.json is damaged .*check"):
        read_summary(store)
    assert conclude(store.folder, engine="local").verdict.valid is False
    assert read_summary(store).valid is False


def test_a_run_whose_end_was_edited_was_not_completed_as_far_as_is_known(store):
    store.path("outcome.json").write_bytes(dump_sealed({"completed": False, "error": "x", "exit_code": 255}))
    edited(store, "outcome.json", of="false", to="true")
    finished = conclude(store.folder, engine="local")
    assert not finished.completed
    assert "outcome.json is damaged" in finished.error
    assert finished.exit_code == ExitCode.UNKNOWN


def test_a_damaged_history_file_of_ours_is_unknown(store):
    path = store.path("history.parquet")
    damage(path, 30)
    verdict = judge(HistoryFile(path), engine="local")
    assert verdict.valid == "unknown"
    assert "its data" in verdict.doubts[0].objects[0]
