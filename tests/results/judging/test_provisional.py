"""Provisional: a conflict is told once, when nothing happens in its keyspace any more, and nothing is told that a fault explains."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from simulated_runs import carry_out, plan_of

from schemaquake.harness.history.journal import read_clock
from schemaquake.harness.run.runner import Outcome
from schemaquake.harness.sealed_json import dump_sealed
from schemaquake.results.judging.judge import judge
from schemaquake.results.judging.provisional import EarlyJudge, read_provisional, write_provisional
from schemaquake.results.runs import execution
from schemaquake.results.runs.watching import watched
from schemaquake.results.store.store import Store

S = 1_000_000_000


@pytest.fixture(scope="module")
def broken(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("broken") / "run"
    carry_out(plan_of("drop-type", options={"races": "1"}), folder)
    Store(folder).recover()
    return folder


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "run"
    return carry_out(plan_of("drop-type", system="simulated:cassandra-6.0", options={"races": "1"}), folder)


def ends_of(run: Path, phase: str, state: str = "ends") -> float:
    for note in Store(run).merge().history.to_pylist():
        if note["f"] == "phase" and json.loads(note["value"]) | {"phase": phase, "state": state} == json.loads(
            note["value"]
        ):
            return note["time"] / S
    raise AssertionError(phase)


def until(run: Path, to: Path, seconds: float, change: Callable[[dict[str, Any]], dict[str, Any]] = dict) -> Path:
    """The run as its journals had it at that time, without checksums."""
    shutil.copytree(run / "journals", to / "journals")
    started = read_clock(run / "journals")
    for path in (to / "journals").glob("*.jsonl"):
        events = map(orjson.loads, path.read_bytes().splitlines())
        kept = [change(event) for event in events if event["time"] - started <= seconds * S]
        for event in kept:
            event.pop("crc", None)
        path.write_bytes(b"".join(orjson.dumps(event) + b"\n" for event in kept))
    return to


def going_on(
    run: Path, to: Path, seconds: float = 5.0, change: Callable[[dict[str, Any]], dict[str, Any]] = dict
) -> Path:
    """The run when it has raced, with samples taken so long after that which show what the final readings did."""
    started, main = read_clock(run / "journals"), ends_of(run, "main")

    def sampled(event: dict[str, Any]) -> dict[str, Any]:
        if event.get("phase") == "settled":
            later = seconds if event["kind"] == "version" else 0.1
            event |= {"phase": "running", "time": started + int((main + later) * S)}
        return change(event)

    until(run, to, ends_of(run, "final-settled"), sampled)
    sampled_at = {started + int((main + later) * S) for later in (0.1, seconds)}
    for path in (to / "journals").glob("*-*.jsonl"):
        lines = [(orjson.loads(line)["time"], line) for line in path.read_bytes().splitlines(keepends=True)]
        is_event = path.name.startswith("events")
        path.write_bytes(
            b"".join(line for time, line in lines if (time <= started + main * S if is_event else time in sampled_at))
        )
    return to


def test_a_conflict_is_told_while_the_run_goes_on(broken, tmp_path):
    (early,) = EarlyJudge(going_on(broken, tmp_path / "early")).look()
    (final,) = EarlyJudge(until(broken, tmp_path / "final", ends_of(broken, "final-settled"))).look()
    assert (early.type, early.objects, early.nodes) == (final.type, final.objects, final.nodes)
    assert early.seconds == pytest.approx(ends_of(broken, "main") + 5.0)
    assert [*EarlyJudge(going_on(broken, tmp_path / "sooner", 1.9)).look()] == []


def test_a_conflict_that_is_seen_twice_is_told_before_its_keyspace_is_quiet(broken, tmp_path):
    watching = EarlyJudge(tmp_path / "run")
    told = []
    for seconds in (0.2, 0.7, 1.4, 1.9):
        shutil.rmtree(tmp_path / "run", ignore_errors=True)
        going_on(broken, tmp_path / "run", seconds)
        watching._size = -1  # journals grow; these are written anew
        told.append(watching.look())
    assert [len(found) for found in told] == [0, 0, 1, 0]
    ((one,),) = [found for found in told if found]
    assert one.seconds == pytest.approx(ends_of(broken, "main") + 0.2)
    final = {(anomaly.type, anomaly.objects) for anomaly in judge(Store(broken), engine="local", limit_s=60).anomalies}
    assert (one.type, one.objects) in final


def test_a_conflict_that_passes_is_not_told(broken, tmp_path):
    watching = EarlyJudge(tmp_path / "run")
    assert not watching.look()
    for seconds, gone in ((0.2, False), (0.9, True), (1.5, False), (1.9, False)):
        shutil.rmtree(tmp_path / "run", ignore_errors=True)

        def passing(event: dict[str, Any], gone: bool = gone) -> dict[str, Any]:
            return event | {"definition": None} if gone and event.get("kind") in {"table", "live", "type"} else event

        going_on(broken, tmp_path / "run", seconds, passing)
        watching._size = -1
        assert not watching.look()


def test_a_conflict_is_told_before_the_run_is_settled_and_is_in_the_verdict(broken, tmp_path):
    found = EarlyJudge(until(broken, tmp_path / "run", ends_of(broken, "final-settled"))).look()
    assert len(found) == 1, "the foremost of each keyspace"
    (one,) = found
    final = {(anomaly.type, anomaly.objects) for anomaly in judge(Store(broken), engine="local", limit_s=60).anomalies}
    assert (one.type, one.objects) in final
    assert one.seconds <= ends_of(broken, "final-settled")


def test_nothing_is_told_of_a_run_that_holds(whole, tmp_path):
    assert [*EarlyJudge(until(whole, tmp_path / "run", ends_of(whole, "final-settled"))).look()] == []
    assert [*EarlyJudge(going_on(whole, tmp_path / "early")).look()] == []


def test_a_final_reading_that_lacks_a_node_still_is_waited_for(broken, tmp_path):
    def without(event: dict[str, Any]) -> dict[str, Any]:
        return event | {"phase": "elsewhere"} if (event.get("phase"), event.get("node")) == ("settled", "n3") else event

    ends = ends_of(broken, "final-settled")
    assert [*EarlyJudge(until(broken, tmp_path / "run", ends, without)).look()] == []
    assert len(EarlyJudge(until(broken, tmp_path / "whole", ends)).look()) == 1


def test_nothing_is_told_of_objects_of_two_kinds_with_one_name(tmp_path):
    plan = plan_of("schema-churn", system="simulated:cassandra-6.0", seed=1, options={"bugs": "none"})
    run = carry_out(plan, tmp_path / "run")
    live = [
        row for row in Store(run).merge().observations.to_pylist() if (row["phase"], row["kind"]) == ("settled", "live")
    ]
    alike = Counter((row["node"], row["keyspace"], row["name"]) for row in live)
    assert max(alike.values()) == 2, "the seed is of no use any more"
    assert [*EarlyJudge(until(run, tmp_path / "early", ends_of(run, "final-settled"))).look()] == []


def test_nothing_is_told_twice_or_before_a_reading_that_is_new(broken, tmp_path):
    watching = EarlyJudge(tmp_path / "run")
    at = ends_of(broken, "final-settled")
    told = []
    for seconds in (at, at + 0.3, at + 0.6):
        shutil.rmtree(tmp_path / "run", ignore_errors=True)
        until(broken, tmp_path / "run", seconds)
        told += watching.look()
        assert watching.look() == ()
    assert len(told) == 1


@pytest.mark.parametrize("seconds", ["before the main phase", "while statements race"])
def test_a_keyspace_in_which_something_happens_is_not_looked_at(broken, tmp_path, seconds):
    at = ends_of(broken, "main") if seconds == "while statements race" else ends_of(broken, "main", "begins") - 0.1
    assert [*EarlyJudge(until(broken, tmp_path / "run", at)).look()] == []


def test_a_pending_operation_keeps_its_keyspace_from_being_looked_at(broken, tmp_path):
    run = going_on(broken, tmp_path / "run")
    path = next(path for path in (run / "journals").glob("events-*.jsonl") if b'"key":"sq_' in path.read_bytes())
    event = orjson.loads(path.read_bytes().splitlines()[-1])
    path.write_bytes(path.read_bytes() + orjson.dumps(event | {"type": "invoke", "process": 77}) + b"\n")
    assert [*EarlyJudge(run).look()] == []


def add(run: Path, f: str, value: Any, seconds: float) -> None:
    path = run / "journals" / "events-conductor.jsonl"
    event = orjson.loads(path.read_bytes().splitlines()[-1])
    event |= {"f": f, "value": json.dumps(value), "type": "info", "process": -1, "node": None, "key": None}
    event["time"] = max(event["time"], read_clock(run / "journals") + int(seconds * S))
    path.write_bytes(path.read_bytes() + orjson.dumps(event) + b"\n")


def test_nothing_is_told_under_a_fault_or_just_after_one_or_during_restarts(broken, tmp_path):
    main = ends_of(broken, "main")

    def told(*notes: tuple[str, Any, float]) -> int:
        run = going_on(broken, tmp_path / "run")
        for f, value, seconds in notes:
            add(run, f, value, main + seconds)
        found = len(EarlyJudge(run).look())
        shutil.rmtree(run)
        return found

    fault = {"id": 7, "nemesis": "partition", "nodes": ["n1"]}
    assert told(("fault-begins", fault, 0)) == 0
    assert told(("fault-begins", fault, 0), ("fault-ends", {"id": 8}, 0)) == 0, "another one"
    assert told(("fault-begins", fault, 0), ("fault-ends", {"id": 7}, 4)) == 0, "nodes may not have met since"
    assert told(("fault-begins", fault, 0), ("fault-ends", {"id": 7}, 1)) == 1
    assert told(("phase", {"phase": "restart", "state": "begins"}, 0)) == 0


def test_nodes_that_cannot_be_read_or_pull_late_are_waited_for(broken, tmp_path):
    def slower(event):
        if event.get("f") == "run-planned":
            event["value"] = json.dumps(json.loads(event["value"]) | {"pull_delay_s": 60.0})
        return event

    assert [*EarlyJudge(going_on(broken, tmp_path / "slow", 5.0, slower)).look()] == []
    assert len(EarlyJudge(going_on(broken, tmp_path / "late", 63.0, slower)).look()) == 1

    def unread(event):
        if event.get("kind") == "version" and event["node"] == "n2":
            event["error"] = "OperationTimedOut"
        return event

    assert [*EarlyJudge(going_on(broken, tmp_path / "unread", 5.0, unread)).look()] == []


def test_a_folder_of_something_else_is_no_run_yet(tmp_path):
    assert EarlyJudge(tmp_path).look() == ()
    assert EarlyJudge(tmp_path / "nothing").look() == ()


def test_what_was_told_is_read_again_and_rubbish_is_nothing(broken, tmp_path):
    found = EarlyJudge(until(broken, tmp_path / "run", ends_of(broken, "final-settled"))).look()
    write_provisional(tmp_path, found)
    (again,) = read_provisional(tmp_path)
    assert again.to_json() == found[0].to_json()
    for rubbish in (b"", b"{}", b"[1]", dump_sealed({"anomalies": 1}), dump_sealed({"anomalies": [{"type": "x"}]})):
        (tmp_path / "provisional.json").write_bytes(rubbish)
        assert read_provisional(tmp_path) == []


def test_a_watch_tells_and_writes_and_a_defect_in_it_ends_it_alone(broken, tmp_path, monkeypatch):
    run = until(broken, tmp_path / "run", ends_of(broken, "final-settled"))
    told = []
    monkeypatch.setattr("schemaquake.results.runs.watching._LOOK_EVERY_S", 0.01)

    def execute(plan, folder):
        from schemaquake.harness.wait import until as wait_until  # noqa: PLC0415 - the name is taken

        shutil.copytree(run / "journals", folder / "journals")
        wait_until(lambda: bool(told), deadline_s=120, what="the conflict is told")
        return Outcome(completed=True, error=None, exit_code=0)

    monkeypatch.setattr(execution, "execute", execute)
    monkeypatch.setattr(execution, "conclude", lambda folder, **_: folder)
    folder = execution.carry_out(
        replace(plan_of("drop-type"), system="cassandra:5.0.9", cluster="local"), tmp_path / "runs", tell=told.append
    )
    assert [one.to_json() for one in read_provisional(folder)] == [one.to_json() for one in told]

    def breaks(_one):
        raise RuntimeError

    again = until(broken, tmp_path / "again", ends_of(broken, "final-settled"))
    with watched(again, breaks):
        from schemaquake.harness.wait import until as wait_until  # noqa: PLC0415 - as above

        wait_until((again / "provisional.json").exists, deadline_s=120, what="it was written")
    assert read_provisional(again)
