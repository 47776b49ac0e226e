"""Workers: real processes, each with threads and sessions of its own, that do what the script of a scripted cluster says."""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from contextlib import contextmanager

import pytest
from scripted_cluster import ScriptedConnector, set_state

from schemaquake.harness.errors import NodeUnreachable
from schemaquake.harness.history.journal import start_clock
from schemaquake.harness.model.operation import NEMESIS
from schemaquake.harness.model.protocols import Context
from schemaquake.harness.run.interpreter import WorkerFailed
from schemaquake.harness.run.workers import ProcessCrew

NODES = ("n1", "n2", "n3")


@pytest.fixture
def crew_of(tmp_path, scripted):
    """`crew_of({"main": "ok"})`: a connected crew of the workload `scripted`, and its journals in `crew.journals`."""
    crews = []

    def make(script, *, workloads=("scripted",), nodes=NODES, rate=None, connect=True):
        journals = tmp_path / "journals"
        crew = ProcessCrew(
            workloads,
            Context(seed=1, nodes=nodes, rate=rate, options=script),
            ScriptedConnector(tmp_path),
            journals=journals,
            started_ns=start_clock(journals),
            request_timeout_s=5,
        )
        crews.append(crew)
        crew.journals = journals
        crew.folder = tmp_path
        crew.nodes = nodes
        if connect:
            crew.connect(nodes)
        return crew

    yield make
    for crew in crews:
        crew.stop()


def short(events):
    """`p0 n1 invoke ok`, an event a line."""
    return [f"p{e['process']} {e['node']} {e['type']} {e['f']}" for e in events]


def of_process(events, process):
    return [text for text in short(events) if text.startswith(f"p{process} ")]


# ── what is written ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_worker_writes_both_ends_of_every_operation_in_its_own_journal(crew_of, history):
    crew = crew_of({"main": "ok; fail; ok"})
    crew.run("main", nodes=NODES)
    events = history(crew.journals)
    for process, node in enumerate(NODES):
        assert of_process(events, process) == [
            f"p{process} {node} invoke ok",
            f"p{process} {node} ok ok",
            f"p{process} {node} invoke fail",
            f"p{process} {node} fail fail",
            f"p{process} {node} invoke ok",
            f"p{process} {node} ok ok",
        ]
    assert [path.name for path in sorted(crew.journals.glob("events-*"))] == [f"events-000{n}.jsonl" for n in range(3)]


def test_an_event_says_what_was_asked_and_what_came_back(crew_of, history):
    crew = crew_of({"main": "ok a b; info"}, nodes=("n1",))
    crew.run("main", nodes=("n1",))
    asked, answered, _, unknown = history(crew.journals)
    assert (asked["key"], asked["value"]) == ("ks.t", {"words": ["a", "b"]})
    assert answered["value"] == {"words": ["a", "b"], "node": "n1"}
    assert (unknown["type"], unknown["error"], unknown["value"]) == ("info", "Scripted: info", None)


def test_whoever_does_not_know_the_outcome_goes_on_as_somebody_else(crew_of, history):
    crew = crew_of({"main 0": "ok; info; ok; info; fail", "main": "ok"})
    crew.run("main", nodes=NODES)
    events = history(crew.journals)
    assert [of_process(events, process) for process in (0, 3, 6)] == [
        ["p0 n1 invoke ok", "p0 n1 ok ok", "p0 n1 invoke info", "p0 n1 info info"],
        ["p3 n1 invoke ok", "p3 n1 ok ok", "p3 n1 invoke info", "p3 n1 info info"],
        ["p6 n1 invoke fail", "p6 n1 fail fail"],
    ]
    assert {e["process"] for e in events} == {0, 1, 2, 3, 6}


def test_a_retired_number_stays_retired_in_later_phases(crew_of, history):
    crew = crew_of({"main": "info", "final": "read"}, nodes=("n1", "n2"))
    crew.run("main", nodes=crew.nodes)
    crew.connect(crew.nodes)
    crew.run("final", label="settled", nodes=crew.nodes)
    reads = [e for e in history(crew.journals) if e["f"] == "read" and e["type"] == "ok"]
    assert {(e["process"], e["node"]) for e in reads} == {(2, "n1"), (3, "n2")}
    assert {e["value"]["label"] for e in reads} == {"settled"}


def test_a_note_is_an_event_of_nobody(crew_of, history):
    crew = crew_of({"main": "note race; ok"}, nodes=("n1",))
    crew.run("main", nodes=("n1",))
    note = history(crew.journals)[0]
    assert (note["process"], note["type"], note["f"], note["key"]) == (NEMESIS, "info", "race", "ks")
    assert (note["node"], note["value"]) == (None, {"said": True})


def test_workers_of_several_workloads_have_numbers_of_their_own(crew_of, history):
    crew = crew_of({"main": "ok", "crew": "n2 n1"}, workloads=("scripted", "endless"))
    crew.run("main", nodes=NODES)
    oks = [e for e in history(crew.journals) if e["type"] == "ok"]
    assert {(e["process"], e["node"]) for e in oks} == {(0, "n2"), (1, "n1"), (2, "n2"), (3, "n1")}


def test_only_the_nodes_asked_for_do_a_phase(crew_of, history):
    crew = crew_of({"final": "read"})
    crew.run("final", label="restarted", nodes=("n1", "n3"))
    assert {e["node"] for e in history(crew.journals)} == {"n1", "n3"}


# ── meeting ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_barrier_releases_everybody_together(crew_of, history):
    crew = crew_of({"main 0": "take 0.5; meet go; ok", "main": "ok; meet go; ok"})
    crew.run("main", nodes=NODES)
    events = history(crew.journals)
    last_came = next(e["time"] for e in events if e["f"] == "take" and e["type"] == "ok")
    left = {e["node"]: e["time"] for e in events if e["f"] == "ok" and e["type"] == "invoke" and e["time"] > last_came}
    assert set(left) == set(NODES), "nobody went before the last one came"
    assert max(left.values()) - min(left.values()) < 0.25e9


def test_meetings_follow_one_another_without_anybody_lost(crew_of, history):
    rounds = 40
    crew = crew_of({"main": "ok; meet again; " * rounds, "crew": "n1 n1 n2"}, nodes=("n1", "n2"))
    crew.run("main", nodes=crew.nodes)
    invoked = {process: [] for process in range(3)}
    completed = {process: [] for process in range(3)}
    for e in history(crew.journals):
        (invoked if e["type"] == "invoke" else completed)[e["process"]].append(e["time"])
    assert [len(times) for times in invoked.values()] == [rounds] * 3
    for before, after in itertools.pairwise(range(rounds)):
        assert max(times[before] for times in completed.values()) < min(times[after] for times in invoked.values())


def test_crews_of_two_workloads_meet_only_among_themselves(crew_of, history):
    crew = crew_of(
        {"main": "ok; meet go; ok; meet go; ok", "crew": "n1 n2"},
        workloads=("scripted", "demanding"),
        nodes=("n1", "n2"),
    )
    crew.run("main", nodes=crew.nodes)
    assert sum(e["type"] == "ok" for e in history(crew.journals)) == 4 * 3


def test_meetings_are_left_out_when_not_everybody_is_there(crew_of, history):
    """After a restart that a node did not survive, the others read alone."""
    crew = crew_of({"final": "read; meet done; read"})
    crew.run("final", label="restarted", nodes=("n1", "n2"))
    assert sum(e["type"] == "ok" for e in history(crew.journals)) == 4


def test_workers_that_meet_unequally_often_are_told_so_and_not_waited_for(crew_of):
    crew = crew_of({"main 0": "ok; meet go; ok", "main": "ok; meet go; ok; meet again"}, nodes=("n1", "n2"))
    began = time.monotonic()
    with pytest.raises(WorkerFailed) as failed:
        crew.run("main", nodes=crew.nodes)
    assert time.monotonic() - began < 20
    assert "do all of them yield the same number of Meet steps?" in str(failed.value)
    assert "scripted" in str(failed.value)


def test_workers_of_one_process_that_meet_unequally_often_are_told_so_too(crew_of):
    crew = crew_of({"crew": "n1 n1", "main 0": "meet go", "main 1": "ok"}, nodes=("n1",))
    with pytest.raises(WorkerFailed, match="same number of Meet steps"):
        crew.run("main", nodes=("n1",))


def test_a_crew_can_go_on_after_a_phase_that_failed(crew_of, history):
    crew = crew_of({"main 0": "stumble", "main": "meet go", "final": "meet all; read"}, nodes=("n1", "n2"))
    with pytest.raises(WorkerFailed, match="lost its way"):
        crew.run("main", nodes=crew.nodes)
    crew.run("final", label="settled", nodes=crew.nodes)
    assert sum(e["f"] == "read" and e["type"] == "ok" for e in history(crew.journals)) == 2


# ── time ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def seconds_of(run):
    began = time.monotonic()
    run()
    return time.monotonic() - began


def test_work_without_end_stops_at_the_time_limit(crew_of, history):
    crew = crew_of({"main": "forever take 0.01"}, workloads=("endless",))
    assert 0.5 <= seconds_of(lambda: crew.run("main", nodes=NODES, time_limit_s=0.5)) < 10
    events = history(crew.journals)
    for process in range(3):
        mine = of_process(events, process)
        assert len(mine) >= 4
        assert mine[-1].endswith("ok take"), "the operation under way was let finish"


def test_a_phase_tells_whether_its_steps_or_its_time_came_to_an_end(crew_of):
    crew = crew_of({"main": "ok", "probe": "forever take 0.01", "final": "take 0.6; ok"}, nodes=("n1", "n2"))
    assert crew.run("main", nodes=crew.nodes) is True
    assert crew.run("main", nodes=crew.nodes, time_limit_s=30) is True
    assert crew.run("probe", nodes=crew.nodes, time_limit_s=0.2) is False
    assert crew.run("final", nodes=crew.nodes, time_limit_s=0.2) is False


@pytest.mark.parametrize("before", [True, False])
def test_a_main_phase_is_finished_even_before_it_began_and_no_other_one(crew_of, history, before):
    crew = crew_of({"main": "forever take 0.05", "final": "ok"}, nodes=("n1",))
    finishing = threading.Timer(0 if before else 0.5, crew.finish_main)
    finishing.start()
    if before:
        finishing.join()
    assert crew.run("main", nodes=crew.nodes, time_limit_s=600) is True
    finishing.join()
    assert crew.run("final", nodes=crew.nodes) is True
    ended = [e["f"] for e in history(crew.journals) if e["type"] == "ok"]
    assert ended[-1] == "ok"
    assert ("take" in ended) is not before


def test_work_that_ends_does_not_wait_for_the_time_limit(crew_of):
    crew = crew_of({"main": "ok"}, nodes=("n1",))
    assert seconds_of(lambda: crew.run("main", nodes=("n1",), time_limit_s=60)) < 20


def test_the_time_limit_sends_home_whoever_waits_at_a_barrier(crew_of, history):
    crew = crew_of({"main 0": "forever take 0.05", "main": "ok; meet never; ok"}, nodes=("n1", "n2"))
    assert seconds_of(lambda: crew.run("main", nodes=crew.nodes, time_limit_s=0.5)) < 10
    assert of_process(history(crew.journals), 1) == ["p1 n2 invoke ok", "p1 n2 ok ok"]


def test_the_time_limit_ends_a_long_wait_of_the_script(crew_of):
    crew = crew_of({"main": "ok; wait 30; ok"}, nodes=("n1",))
    assert seconds_of(lambda: crew.run("main", nodes=("n1",), time_limit_s=0.5)) < 10


def test_the_time_limit_ends_the_pause_between_rare_operations(crew_of, history):
    crew = crew_of({"main": "forever ok"}, workloads=("endless",), nodes=("n1",), rate=0.03)
    assert seconds_of(lambda: crew.run("main", nodes=("n1",), time_limit_s=0.5)) < 10
    assert short(history(crew.journals)) == ["p0 n1 invoke ok", "p0 n1 ok ok"]


def test_a_phase_after_the_time_limit_begins_anew(crew_of, history):
    crew = crew_of({"main": "forever take 0.01", "final": "meet all; read"}, nodes=("n1", "n2"))
    crew.run("main", nodes=crew.nodes, time_limit_s=0.3)
    crew.run("final", label="settled", nodes=crew.nodes)
    assert sum(e["f"] == "read" and e["type"] == "ok" for e in history(crew.journals)) == 2


def test_a_wait_lasts_as_long_as_the_script_says(crew_of, history):
    crew = crew_of({"main": "ok; wait 0.4; ok"}, nodes=("n1",))
    crew.run("main", nodes=("n1",))
    times = [e["time"] for e in history(crew.journals)]
    assert 0.4e9 <= times[2] - times[1] < 1.5e9


def test_a_rate_is_that_of_the_whole_crew(crew_of, history):
    crew = crew_of({"main": "forever ok"}, workloads=("endless",), rate=60)
    crew.run("main", nodes=NODES, time_limit_s=1)
    done = sum(e["type"] == "ok" for e in history(crew.journals))
    assert 15 <= done <= 66, "about 60 in a second on an idle machine, and never more"


def test_a_rate_does_not_slow_what_ends_by_itself(crew_of, history):
    crew = crew_of({"main": "ok; " * 50}, nodes=("n1",), rate=1)
    assert seconds_of(lambda: crew.run("main", nodes=("n1",))) < 10
    assert sum(e["type"] == "ok" for e in history(crew.journals)) == 50


# ── what is required ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_is_required_is_asked_for_until_it_is_done(crew_of, history):
    crew = crew_of({"main": "require 5 later 3; ok"}, nodes=("n1",))
    assert crew.run("main", nodes=("n1",)) is True
    assert crew.ended_early is None
    assert [e["type"] for e in history(crew.journals) if e["f"] == "later"] == ["invoke", "fail"] * 3 + ["invoke", "ok"]
    assert short(history(crew.journals))[-1] == "p0 n1 ok ok"


def test_what_is_required_is_done_when_it_is_there_already(crew_of, history):
    crew = crew_of({"main": "require 5 fail the table is already defined; ok"}, nodes=("n1",))
    crew.run("main", nodes=("n1",))
    assert [f"{e['type']} {e['f']}" for e in history(crew.journals)] == [
        "invoke fail",
        "fail fail",
        "invoke ok",
        "ok ok",
    ]


def test_what_is_required_and_never_done_sends_everybody_home_with_a_note(crew_of, history):
    crew = crew_of({"main 0": "meet go; require 0.6 fail; ok", "main": "meet go; meet never; ok"})
    assert 0.6 <= seconds_of(lambda: crew.run("main", nodes=NODES)) < 10
    events = history(crew.journals)
    (note,) = [e for e in events if e["process"] == NEMESIS]
    assert (note["type"], note["f"], note["node"], note["key"]) == ("info", "phase-ended-early", "n1", "ks.t")
    because = "fail of ks.t through n1 was not done within 0.6 s: Scripted: fail"
    assert note["value"] == {"phase": "main", "because": because, "key": "ks.t"}
    assert crew.ended_early == because
    assert not [e for e in events if e["f"] == "ok"]
    assert 4 <= sum(e["type"] == "fail" for e in events) <= 12, "soon at first, then every quarter of a second"


def test_whoever_ends_a_phase_early_is_no_failure_and_the_next_begins_anew(crew_of, history):
    crew = crew_of({"main 0": "require 0.1 info", "main": "forever take 0.01", "final": "meet all; read"})
    assert crew.run("main", nodes=NODES) is True
    assert crew.ended_early is not None
    assert crew.run("final", label="settled", nodes=NODES) is True
    assert crew.ended_early is None
    assert sum(e["f"] == "read" and e["type"] == "ok" for e in history(crew.journals)) == 3


def test_every_attempt_of_unknown_outcome_is_somebody_else_s(crew_of, history):
    crew = crew_of({"main": "require 0.1 info"}, nodes=("n1",))
    crew.run("main", nodes=("n1",))
    attempts = [e["process"] for e in history(crew.journals) if e["type"] == "invoke"]
    assert len(attempts) > 1
    assert attempts == list(range(len(attempts)))


# ── what goes wrong ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_defect_of_the_client_reaches_the_conductor_with_its_traceback(crew_of, history):
    crew = crew_of({"main 1": "ok; explode", "main": "ok"})
    with pytest.raises(WorkerFailed) as failed:
        crew.run("main", nodes=NODES)
    assert "a worker of n2 failed" in str(failed.value)
    assert "RuntimeError: the client burst" in str(failed.value)
    assert of_process(history(crew.journals), 1)[-1] == "p1 n2 invoke explode", "nobody knows what became of it"


def test_a_defect_of_the_workload_does_too(crew_of):
    crew = crew_of({"main": "ok; stumble"}, nodes=("n1",))
    with pytest.raises(WorkerFailed, match="LookupError: the workload lost its way"):
        crew.run("main", nodes=("n1",))


def test_a_failure_stops_the_others_wherever_they_are(crew_of):
    crew = crew_of({"main 0": "take 0.3; explode", "main 1": "forever take 0.01", "main 2": "meet never"})
    assert seconds_of(lambda: _fails(crew, "the client burst")) < 10


def test_a_failure_stops_the_others_of_its_own_process(crew_of):
    script = {"crew": "n1 n1 n1", "main 0": "take 0.3; explode", "main 1": "forever take 0.01", "main 2": "meet never"}
    crew = crew_of(script, nodes=("n1",))
    assert seconds_of(lambda: _fails(crew, "the client burst")) < 10


def test_a_process_that_ends_by_itself_is_told_with_its_exit_code(crew_of):
    crew = crew_of({"main 1": "die", "main": "meet never"}, nodes=("n1", "n2"))
    assert seconds_of(lambda: _fails(crew, "the worker process of n2 ended by itself, exit code 7")) < 15


def test_a_process_killed_while_it_waits_for_the_others_hangs_nobody(crew_of):
    """As the kernel does when memory runs out: whoever it takes must not leave the others waiting for ever."""
    crew = crew_of({"main 0": "take 1.5; meet go", "main": "meet go; ok"})
    victim = crew._processes["n2"].process.pid
    with _after(0.7, lambda: os.kill(victim, signal.SIGKILL)):
        assert seconds_of(lambda: _fails(crew, "the worker process of n2 ended by itself, exit code -9")) < 15
    assert seconds_of(crew.stop) < 15


def test_a_process_that_ended_between_two_phases_is_told_too(crew_of):
    crew = crew_of({"main": "ok"}, nodes=("n1", "n2"))
    victim = crew._processes["n1"].process
    os.kill(victim.pid, signal.SIGTERM)
    victim.join(10)
    _fails(crew, "the worker process of n1 ended by itself, exit code -15")


def test_an_answer_that_never_comes_does_not_hold_up_a_failure_for_ever(crew_of):
    crew = crew_of({"main 0": "take 0.3; explode", "main": "hang"}, nodes=("n1", "n2"))
    assert seconds_of(lambda: _fails(crew, "the client burst")) < 30
    assert seconds_of(crew.stop) < 15


def test_a_node_that_does_not_answer_is_unreachable_for_its_workers(crew_of):
    crew = crew_of({"main": "ok"}, connect=False)
    set_state(crew.folder, "n3", "stopped")
    with pytest.raises(NodeUnreachable, match="node n3 did not accept a session"):
        crew.connect(NODES)
    crew.connect(("n1", "n2"))
    crew.run("main", nodes=("n1", "n2"))


def test_sessions_are_opened_anew_while_a_phase_goes_on(crew_of, history):
    """The scripted client refuses to be used after it was closed: each worker changes over between two operations."""
    crew = crew_of({"main": "forever take 0.02"}, workloads=("endless",), nodes=("n1", "n2"))
    with _after(0.3, lambda: crew.connect(("n1",))):
        assert crew.run("main", nodes=crew.nodes, time_limit_s=1) is False
    assert {e["type"] for e in history(crew.journals)} == {"invoke", "ok"}


def test_a_session_that_cannot_be_opened_anew_makes_operations_fail_and_ends_no_phase(crew_of, history):
    crew = crew_of({"main": "forever take 0.02"}, workloads=("endless",), nodes=("n1", "n2"))
    refused = []

    def renew():
        set_state(crew.folder, "n1", "stopped")
        try:
            crew.connect(("n1",))
        except NodeUnreachable as error:
            refused.append(error)

    with _after(0.3, renew):
        crew.run("main", nodes=crew.nodes, time_limit_s=1)
    assert len(refused) == 1
    events = history(crew.journals)
    assert {e["type"] for e in events if e["node"] == "n2"} == {"invoke", "ok"}
    last = [e for e in events if e["node"] == "n1"][-1]
    assert last["type"] == "fail"
    assert last["error"].startswith("NodeUnreachable: node n1")


def test_a_crew_that_was_stopped_leaves_no_process(crew_of):
    crew = crew_of({"main": "ok"})
    processes = [process.process for process in crew._processes.values()]
    crew.stop()
    crew.stop()
    assert not any(process.is_alive() for process in processes)


def _fails(crew, sentence):
    with pytest.raises(WorkerFailed) as failed:
        crew.run("main", nodes=crew.nodes)
    assert sentence in str(failed.value)


@contextmanager
def _after(seconds, action):
    """Do something in a thread after some seconds, while the block goes on."""
    timer = threading.Timer(seconds, action)
    timer.start()
    yield
    timer.join()
