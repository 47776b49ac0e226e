"""Run summary: what pages of many runs read, of runs of today and of 0.1."""

from __future__ import annotations

import shutil
from dataclasses import replace

import orjson
import pytest
from recorded import laid_out

from schemaquake.harness.errors import ExitCode, HistoryError
from schemaquake.harness.model.verdict import Doubt, Verdict
from schemaquake.harness.run.runner import Outcome
from schemaquake.harness.sealed_json import load_sealed
from schemaquake.results.runs.execution import conclude
from schemaquake.results.store.store import Store
from schemaquake.results.summary.run_summary import CheckerSummary, FoundAnomaly, KindSummary, RunSummary
from schemaquake.results.summary.summarise import read_summary, summarise, write_summary


@pytest.fixture(scope="module")
def judged(tmp_path_factory) -> Store:
    run = laid_out(tmp_path_factory.mktemp("summary"))
    return conclude(run, engine="local").store


@pytest.fixture
def store(judged, tmp_path) -> Store:
    """A copy that a test may damage."""
    return Store(shutil.copytree(judged.folder, tmp_path / judged.folder.name))


def test_a_judged_run_has_a_summary(judged):
    document = load_sealed(judged.path("summary.json").read_bytes())
    assert document["schema"] == 2
    summary = read_summary(judged)
    assert RunSummary.from_json(document) == summary
    assert (summary.run, summary.system, summary.mode) == (judged.folder.name, "cassandra:5.0.9", "barrier")
    assert summary.valid is False
    assert summary.completed
    assert {one.checker: one.valid for one in summary.checkers}["references"] is False
    assert summary.operations == {"ok": 29, "fail": 5, "info": 0}
    (race,) = summary.races
    assert "dangling-type" in race.anomalies
    assert summary.kinds == (
        KindSummary(workload="drop-type", tried=1, broken=1, anomalies=dict.fromkeys(race.anomalies, 1), ok=race.ok),
    )
    assert document["kinds"][0]["broken"] == 1
    assert {phase.name for phase in summary.phases} >= {"boot", "main"}
    assert 0 < summary.phases[-1].begins_s <= summary.seconds


def test_all_anomalies_of_the_verdict_are_counted(judged):
    verdict = judged.read_verdict()
    summary = read_summary(judged)
    assert sum(found.count for found in summary.anomalies) == len(verdict.anomalies)
    assert {found.type for found in summary.anomalies} == {one.type for one in verdict.anomalies}


def test_what_differs_in_type_keyspace_or_node_is_counted_apart(judged):
    verdict = judged.read_verdict()
    one = replace(verdict.anomalies[0], type="lost-column", title="t", objects=("k.a",), nodes=("n1",))
    several = (one, replace(one, objects=("k.b",)), replace(one, objects=("l.a",)), replace(one, nodes=("n2",)))
    found = summarise(judged, replace(verdict, anomalies=several), _completed()).anomalies
    assert found == (
        FoundAnomaly(type="lost-column", title="t", keyspaces=("k",), nodes=("n1",), count=2),
        FoundAnomaly(type="lost-column", title="t", keyspaces=("l",), nodes=("n1",), count=1),
        FoundAnomaly(type="lost-column", title="t", keyspaces=("k",), nodes=("n2",), count=1),
    )


def test_doubts_stand_with_their_checker_and_those_of_the_run_without(judged):
    part = Verdict.unknown("divergence", Doubt("unread", "n1 could not be read", ("k",)))
    about_the_run = Doubt("incomplete-run", "the run was not completed")
    verdict = Verdict(
        valid="unknown",
        checker="all",
        doubts=(about_the_run, replace(part.doubts[0], checker="divergence")),
        parts=(part,),
    )
    summary = summarise(judged, verdict, _completed())
    assert summary.doubts == (about_the_run,)
    assert summary.checkers == (CheckerSummary(checker="divergence", valid="unknown", doubts=part.doubts),)
    assert RunSummary.from_json(orjson.loads(orjson.dumps(summary.to_json()))) == summary


def test_doubts_about_other_keyspaces_and_questions_that_did_not_arise_keep_nothing_undecided(judged):
    slow = Doubt("time", "its limit was reached", ("k", "l"))
    parts = (
        Verdict(valid="unknown", checker="objects", doubts=(slow,), undecided=("k", "l")),
        Verdict(valid="unknown", checker="counter", doubts=(Doubt("nothing-to-judge", "no counter"),)),
        Verdict(valid="unknown", checker="divergence", doubts=(Doubt("unread", "n1 could not be read"),)),
        Verdict(valid=False, checker="restart", doubts=(Doubt("unread", "n2 was never seen"),)),
    )
    verdict = Verdict(
        valid=False, checker="all", doubts=(Doubt("unread", "n1 could not be read", (), "divergence"),), parts=parts
    )
    summary = summarise(judged, verdict, _completed())
    unread = Doubt("unread", "n1 could not be read", (), "divergence")
    assert summary.doubts_about({"k"}) == (Doubt("time", "its limit was reached", (), "objects"), unread)
    assert summary.doubts_about({"m"}) == (unread,)
    assert summary.doubts == ()


@pytest.mark.parametrize("before", [None, {"schema": 1}, {"schema": 3, "new": True}], ids=["0.1", "older", "newer"])
def test_a_summary_that_is_missing_or_of_another_version_is_made_anew_and_not_written(store, before):
    path = store.path("summary.json")
    summary = read_summary(store)
    path.unlink()
    if before is not None:
        path.write_bytes(orjson.dumps(before))
    assert read_summary(store) == summary
    assert not path.exists() if before is None else orjson.loads(path.read_bytes()) == before


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": 2}'])
def test_a_damaged_summary_says_how_it_is_made_anew(store, text):
    store.path("summary.json").write_text(text)
    with pytest.raises(HistoryError, match="schemaquake check"):
        read_summary(store)


def test_a_run_that_was_not_judged_has_no_summary(tmp_path):
    with pytest.raises(HistoryError, match="schemaquake check"):
        read_summary(Store(laid_out(tmp_path)))


def test_a_run_that_never_began_has_one(store):
    for name in ("history.parquet", "observations.parquet", "summary.json"):
        store.path(name).unlink()
    shutil.rmtree(store.path("journals"))
    shutil.rmtree(store.path("analysis"))
    verdict = Verdict.unknown("run", Doubt("incomplete-run", "the run never began: no user-defined types"))
    refused = Outcome(
        completed=False, error="no user-defined types", exit_code=ExitCode.BAD_ARGUMENTS, applicable=False
    )
    summary = write_summary(store, verdict, refused)
    assert read_summary(store) == summary
    assert (summary.applicable, summary.completed, summary.valid) == (False, False, "unknown")
    assert (summary.races, summary.phases, summary.started, summary.seconds) == ((), (), None, 0.0)
    assert [doubt.kind for doubt in summary.doubts] == ["incomplete-run"]


def _completed() -> Outcome:
    return Outcome(completed=True, error=None, exit_code=ExitCode.INVALID)
