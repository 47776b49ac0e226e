"""The simulated runtime: the same bytes from the same seed, and the same history as from processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import orjson
import pytest
from scripted_cluster import calls, set_state
from simulated_scripts import SimulatedConnector

from schemaquake.harness.errors import ClusterError, NodeUnreachable
from schemaquake.harness.faults.ledger import read_ledger
from schemaquake.harness.history.journal import start_clock
from schemaquake.harness.model.operation import NEMESIS
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.model.protocols import Context
from schemaquake.harness.model.runtime import Sleep
from schemaquake.harness.run.conductor import Conductor
from schemaquake.harness.run.event_heap import EventHeap
from schemaquake.harness.run.interpreter import WorkerFailed
from schemaquake.harness.run.simulated_runtime import SimulatedRuntime
from schemaquake.harness.wait import pause_for, until

NODES = ("n1", "n2", "n3")
S = 1_000_000_000

PLAN = {
    "system": "words:1.0",
    "workloads": ("scripted",),
    "nodes": 3,
    "settle_limit_s": 10,
    "time_limit_s": 3,
}

EVERYTHING = {
    "setup 0": "require 5 later 2; ok",
    "prepare": "note prepared; ok",
    "main 0": "ok; meet go; take 0.2; info; ok; wait 0.1; fail",
    "main": "take 0.05; meet go; info; info; ok",
    "probe": "ok",
    "final": "meet all; read",
    "shows n2": "a b a",
    "tremor": "0.1-0.5 n1, 0.6-0.8 n2",
    "tremor takes": "0.05",
}


def conduct(folder, script, *, cluster="simulated-scripted", **changes):
    folder.mkdir()
    plan = Plan(**(PLAN | {"cluster": cluster, "options": script, "nemeses": ("tremor",)} | changes))
    Conductor(plan, folder).run()


def contents(folder):
    """What a run left behind, by file name."""
    files = [*sorted((folder / "journals").iterdir()), folder / "ledger.jsonl", folder / "calls.txt"]
    return {path.name: path.read_bytes() for path in files}


# ── the same bytes ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_one_plan_gives_the_same_bytes_twice(tmp_path, scripted):
    for name in ("first", "second"):
        conduct(tmp_path / name, EVERYTHING)
    first = contents(tmp_path / "first")
    assert first == contents(tmp_path / "second")
    assert {"started.json", "events-0002.jsonl", "events-conductor.jsonl", "observations-observer.jsonl"} <= set(first)
    assert all(first.values())


@pytest.mark.parametrize("workload", ["scripted", "schema-churn"])
def test_one_plan_gives_the_same_bytes_in_processes_that_hash_differently(tmp_path, scripted, workload):
    for seed in ("0", "1"):
        folder = tmp_path / seed
        folder.mkdir()
        changes = {"cluster": "simulated-scripted", "options": EVERYTHING, "nemeses": ("tremor",), "rate": 300}
        plan = Plan(**(PLAN | changes | {"workloads": (workload,)}))
        (folder / "plan.json").write_bytes(orjson.dumps(plan.to_json()))
        argv = [sys.executable, "-m", "schemaquake.harness.run.conductor", str(folder)]
        ended = subprocess.run(argv, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=False)
        assert ended.returncode == 0, ended.stderr
    first = contents(tmp_path / "0")
    assert first == contents(tmp_path / "1")
    assert first["events-0001.jsonl"].count(b'"ok"') > 3


def test_another_script_gives_other_bytes(tmp_path, scripted):
    conduct(tmp_path / "first", EVERYTHING)
    conduct(tmp_path / "second", EVERYTHING | {"main 0": "ok; meet go; take 0.2; info; ok; wait 0.1; ok"})
    first, second = contents(tmp_path / "first"), contents(tmp_path / "second")
    assert {name for name in first if first[name] != second[name]} >= {"events-0000.jsonl"}


def test_virtual_time_costs_nothing(tmp_path, scripted, history):
    began = time.monotonic()
    conduct(
        tmp_path / "run",
        {"main": "forever take 1", "tremor": "1000-2000 n1"},
        workloads=("endless",),
        time_limit_s=3600,
    )
    assert time.monotonic() - began < 60
    events = history(tmp_path / "run" / "journals")
    assert sum(e["f"] == "take" and e["type"] == "ok" for e in events) == 3 * 3597
    begins = {e["value"]["phase"]: e["time"] for e in events if e["f"] == "phase" and e["value"]["state"] == "begins"}
    ends = {e["value"]["phase"]: e["time"] for e in events if e["f"] == "phase" and e["value"]["state"] == "ends"}
    assert 3600 * S <= ends["main"] - begins["main"] < 3602 * S
    faults = {
        e["f"]: e["time"] - begins["main"] for e in events if e["f"].startswith("fault-b") or e["f"] == "fault-ends"
    }
    assert 1000 * S <= faults["fault-begins"] < 1001 * S
    assert 2000 * S <= faults["fault-ends"] < 2001 * S
    (entry,) = {entry.id for entry in read_ledger(tmp_path / "run" / "ledger.jsonl")}
    healed = [one for one in read_ledger(tmp_path / "run" / "ledger.jsonl") if one.id == entry][-1]
    assert (healed.state, healed.at[:10]) == ("healed", "2000-01-01")


def test_no_two_events_have_one_time_and_later_ones_have_later_times(tmp_path, scripted, history):
    conduct(tmp_path / "run", EVERYTHING)
    times = [e["time"] for e in history(tmp_path / "run" / "journals")]
    assert len(set(times)) == len(times)


# ── the same history ─────────────────────────────────────────────────────────────────────────────────────────────────


def timeless(events, process):
    """The events of one worker, without what time does to them."""
    return [
        (e["process"], e["type"], e["f"], e["node"], e["key"], e["value"], e["error"], e["mops"])
        for e in events
        if e["process"] % 3 == process and e["process"] != NEMESIS
    ]


def notes(events):
    """What the harness noted, in order, without seconds."""
    vague = {"seconds", "versions"}
    return [
        (e["f"], e["node"], {name: value for name, value in (e["value"] or {}).items() if name not in vague})
        for e in events
        if e["process"] == NEMESIS and e["f"] != "prepared"
    ]


def test_processes_and_simulation_give_one_history(tmp_path, scripted, history, observations):
    """For a scripted client, whose answers do not depend on time; what two workers do at one time has no order."""
    script = {name: text for name, text in EVERYTHING.items() if name != "shows n2"}
    found = {}
    for cluster in ("scripted", "simulated-scripted"):
        conduct(tmp_path / cluster, script, cluster=cluster)
        found[cluster] = history(tmp_path / cluster / "journals")
    real, simulated = found.values()
    for process in range(3):
        assert timeless(real, process) == timeless(simulated, process)
        assert len(timeless(real, process)) > 10
    assert notes(real) == notes(simulated)
    assert calls(tmp_path / "scripted") == calls(tmp_path / "simulated-scripted")
    final = [
        [
            (o["phase"], o["node"], o["kind"], o["id"])
            for o in observations(tmp_path / c / "journals")
            if o["phase"] != "running"
        ]
        for c in found
    ]
    assert sorted(map(str, final[0])) == sorted(map(str, final[1]))
    assert final[0]


# ── the crew ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def runtime():
    return SimulatedRuntime(EventHeap())


@pytest.fixture
def crew_of(tmp_path, scripted, runtime):
    crews = []

    def make(script, *, workloads=("scripted",), nodes=NODES, rate=None):
        journals = tmp_path / "journals"
        connector = SimulatedConnector(runtime, tmp_path)
        crew = runtime.crew(
            workloads,
            Context(seed=1, nodes=nodes, rate=rate, options=script),
            connector,
            journals=journals,
            started_ns=start_clock(journals, runtime.clock),
            request_timeout_s=5,
        )
        crews.append(crew)
        crew.journals, crew.nodes, crew.connector = journals, nodes, connector
        crew.connect(nodes)
        return crew

    yield make
    for crew in crews:
        crew.stop()


def test_a_barrier_releases_all_workers_in_one_moment(crew_of, history):
    crew = crew_of({"main 0": "take 5; meet go; ok", "main": "ok; meet go; ok"})
    assert crew.run("main", nodes=NODES) is True
    last = [e["time"] for e in history(crew.journals) if e["f"] == "ok" and e["type"] == "invoke"][-3:]
    assert last[-1] - last[0] < 100
    assert last[0] > 5 * S


def test_a_phase_ends_at_its_time_limit_and_lets_operations_finish(crew_of, history, runtime):
    crew = crew_of({"main 0": "forever take 0.4", "main 1": "ok; meet never", "main 2": "wait 500"})
    assert crew.run("main", nodes=NODES, time_limit_s=1) is False
    assert 1.2 * S <= runtime.clock.now_ns() < 1.3 * S
    assert [e["type"] for e in history(crew.journals) if e["process"] == 0] == ["invoke", "ok"] * 3


@pytest.mark.parametrize("before", [True, False])
def test_a_main_phase_is_finished_even_before_it_began_and_no_other_one(crew_of, history, runtime, before):
    crew = crew_of({"main": "forever take 0.4", "final": "read"})
    if before:
        crew.finish_main()
    else:
        runtime.spawn("finish", _finish_at(crew, S))
    assert crew.run("main", nodes=NODES, time_limit_s=60) is True
    assert runtime.clock.now_ns() < 2 * S
    assert crew.run("final", label="settled", nodes=NODES) is True
    assert [e["f"] for e in history(crew.journals) if e["type"] == "ok"].count("read") == 3
    assert any(e["f"] == "take" for e in history(crew.journals)) is not before


def _finish_at(crew, second):
    yield Sleep(second)
    crew.finish_main()


def test_a_rate_is_that_of_the_whole_crew(crew_of, history):
    crew = crew_of({"main": "forever ok"}, workloads=("endless",), rate=30)
    crew.run("main", nodes=NODES, time_limit_s=2)
    assert sum(e["type"] == "ok" for e in history(crew.journals)) == 60


def test_only_the_nodes_asked_for_do_a_phase_and_leave_meetings_out(crew_of, history):
    crew = crew_of({"final": "read; meet done; read"})
    crew.run("final", label="restarted", nodes=("n1", "n3"))
    assert [e["node"] for e in history(crew.journals) if e["type"] == "ok"] == ["n1", "n3"] * 2


def test_workers_that_do_not_meet_equally_often_are_reported(crew_of):
    crew = crew_of({"main 0": "meet go", "main": "meet go; meet again"}, nodes=("n1", "n2"))
    with pytest.raises(WorkerFailed, match="same number of Meet steps"):
        crew.run("main", nodes=crew.nodes)


def test_a_meeting_waits_three_minutes_for_a_worker_that_is_busy(crew_of, runtime):
    crew = crew_of({"main 0": "hang", "main": "meet go"}, nodes=("n1", "n2"))
    with pytest.raises(WorkerFailed, match="did not meet within 180 s"):
        crew.run("main", nodes=crew.nodes)
    assert runtime.clock.now_ns() < 190 * S


def test_an_unmet_requirement_ends_the_phase_for_all_and_the_next_begins_anew(crew_of, history):
    crew = crew_of({"main 0": "require 0.5 fail", "main 1": "meet go", "main 2": "wait 100", "final": "meet all; read"})
    assert crew.run("main", nodes=NODES) is True
    assert crew.ended_early == "fail of ks.t through n1 was not done within 0.5 s: Scripted: fail"
    assert crew.run("final", label="settled", nodes=NODES) is True
    assert crew.ended_early is None
    assert sum(e["f"] == "read" and e["type"] == "ok" for e in history(crew.journals)) == 3


@pytest.mark.parametrize(
    ("script", "words"), [("explode", "RuntimeError: the client burst"), ("stumble", "LookupError: the workload lost")]
)
def test_a_defect_ends_the_phase_with_its_traceback(crew_of, history, script, words):
    crew = crew_of({"main 0": f"ok; {script}", "main 1": "meet never", "main": "hang", "final": "read"})
    with pytest.raises(WorkerFailed, match="a worker of n1 failed:") as failed:
        crew.run("main", nodes=NODES)
    assert words in str(failed.value)
    crew.run("final", label="settled", nodes=("n1", "n2"))
    assert sum(e["f"] == "read" and e["type"] == "ok" for e in history(crew.journals)) == 2


def test_a_client_that_never_answers_is_a_defect_and_no_hang(crew_of):
    crew = crew_of({"main 0": "silence", "main": "ok"})
    with pytest.raises(WorkerFailed, match="1 workers wait, and nothing is left to happen"):
        crew.run("main", nodes=NODES)


def test_sessions_can_be_opened_anew_while_a_phase_goes_on(crew_of, history, runtime):
    crew = crew_of({"main": "forever take 0.1"}, workloads=("endless",), nodes=("n1", "n2"))
    runtime.heap.at(int(0.25 * S), lambda: crew.connect(("n1",)))
    crew.run("main", nodes=crew.nodes, time_limit_s=1)
    assert {e["type"] for e in history(crew.journals)} == {"invoke", "ok"}
    former, _, present = crew.connector.clients
    assert (former.scripted.closed, present.scripted.closed) == (True, False)


def test_a_session_that_cannot_be_opened_anew_makes_operations_fail(crew_of, history, runtime, tmp_path):
    crew = crew_of({"main": "forever take 0.1"}, workloads=("endless",), nodes=("n1", "n2"))

    def renew():
        set_state(tmp_path, "n1", "stopped")
        with pytest.raises(NodeUnreachable):
            crew.connect(("n1",))

    runtime.heap.at(int(0.25 * S), renew)
    crew.run("main", nodes=crew.nodes, time_limit_s=2)
    failed = [e for e in history(crew.journals) if e["type"] == "fail"]
    assert {(e["node"], e["error"].split(":")[0]) for e in failed} == {("n1", "NodeUnreachable")}
    assert len(failed) == 7


# ── the observer ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def observer_of(tmp_path, scripted, runtime):
    def make(**shows):
        observer = runtime.observer(
            SimulatedConnector(runtime, tmp_path, shows),
            journal=tmp_path / "observations-observer.jsonl",
            started_ns=start_clock(tmp_path, runtime.clock),
            request_timeout_s=5,
        )
        observer.connect(list(shows))
        return observer

    return make


def test_nodes_have_to_agree_twice_in_a_row(observer_of):
    settled = observer_of(n1="a b c", n2="a x b c").settle(limit_s=10)
    assert settled.agreed
    assert settled.versions == {"n1": "c", "n2": "c"}
    assert 0.8 <= settled.seconds < 0.9


def test_nodes_that_never_agree_are_given_up_at_the_limit(observer_of):
    settled = observer_of(n1="a", n2="b").settle(limit_s=30)
    assert not settled.agreed
    assert 30 <= settled.seconds < 30.3


def test_waiting_ends_once_nothing_has_changed_for_as_long_as_anything_can_be_under_way(observer_of):
    settled = observer_of(n1="a", n2="b c").settle(limit_s=30, quiet_s=5)
    assert not settled.agreed
    assert settled.versions == {"n1": "a", "n2": "c"}
    assert 5 <= settled.quiet_s < settled.seconds < 5.8


def looks(version, seconds):
    """What a node shows for so long: there are five looks a second."""
    return f"{version} " * round(5 * seconds)


def test_a_late_pull_just_before_that_begins_the_waiting_anew(observer_of):
    """Each change comes in the fifth second of five; the last one brings the nodes together."""
    settled = observer_of(n1="a", n2=f"{looks('b', 4.4)} {looks('c', 4.4)} a").settle(limit_s=30, quiet_s=5)
    assert settled.agreed
    assert settled.quiet_s is None
    assert 8.8 <= settled.seconds < 11


def test_what_comes_after_that_is_not_waited_for(observer_of):
    settled = observer_of(n1="a", n2=f"{looks('b', 7)} a").settle(limit_s=30, quiet_s=5)
    assert not settled.agreed
    assert settled.versions == {"n1": "a", "n2": "b"}


@pytest.mark.parametrize("shows", ["!", f"{looks('b', 3)} ! " * 20], ids=["never", "now and then"])
def test_a_node_that_cannot_be_read_is_waited_for_to_the_limit(observer_of, shows):
    """It may be at work, and what it will show then is not known."""
    settled = observer_of(n1="a", n2=shows).settle(limit_s=20, quiet_s=5)
    assert not settled.agreed
    assert settled.quiet_s is None
    assert 20 <= settled.seconds < 20.5


def test_a_moment_of_agreement_is_no_quiet(observer_of):
    settled = observer_of(n1=f"a {looks('b', 5.5)}", n2=f"a {looks('c', 5.5)}").settle(limit_s=30, quiet_s=5)
    assert not settled.agreed
    assert settled.quiet_s >= 5


def test_sampling_goes_on_beside_a_phase_and_can_be_stopped(observer_of, observations, runtime, tmp_path):
    observer = observer_of(n1="a", n2="a")
    observer.sample("running")
    runtime.sleep(5)
    observer.sample(None)
    runtime.sleep(5)
    observer.read("settled")
    observer.stop()
    seen = observations(tmp_path)
    assert sum(o["phase"] == "running" for o in seen) == 2 * 10
    assert [(o["node"], o["kind"]) for o in seen if o["phase"] == "settled"] == [
        *[("n1", "version"), ("n1", "keyspace")],
        *[("n2", "version"), ("n2", "keyspace")],
    ]


def test_an_observer_whose_client_does_not_answer_says_so(observer_of, monkeypatch):
    observer = observer_of(n1="a")
    monkeypatch.setattr(observer._clients["n1"], "look", lambda **_: None)
    with pytest.raises(ClusterError, match="nothing is left to happen"):
        observer.read("settled")


# ── tasks, and waiting ───────────────────────────────────────────────────────────────────────────────────────────────


def sleeper(moments, log, clock):
    for moment in moments:
        log.append(((yield Sleep(moment)), clock.now_ns()))


def test_a_task_sleeps_by_virtual_time_and_is_joined(runtime):
    log = []
    task = runtime.spawn("sleeper", sleeper([3 * S, 2 * S, 7 * S], log, runtime.clock))
    task.join()
    assert log == [(True, 3 * S), (True, 3 * S), (True, 7 * S)]


def test_a_task_that_is_stopped_is_woken_and_sleeps_no_more(runtime):
    log = []
    task = runtime.spawn("sleeper", sleeper([3 * S, 20 * S, 70 * S], log, runtime.clock))
    runtime.sleep(5)
    task.stop()
    task.join()
    assert log == [(True, 3 * S), (False, 5 * S), (False, 5 * S)]


def test_waiting_is_by_virtual_time_while_the_block_runs(runtime):
    began = time.monotonic()
    with runtime.waiting():
        pause_for(1000)
        assert until(lambda: runtime.clock.now_ns() >= 2000 * S, deadline_s=5000, what="a moment", every_s=7)
        with pytest.raises(TimeoutError, match=r"1000\.3 s"):
            until(lambda: None, deadline_s=1000.3, what="nothing", every_s=0.7)
    assert 3000 * S < runtime.clock.now_ns() < 3020 * S
    assert time.monotonic() - began < 10
