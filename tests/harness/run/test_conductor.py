"""The conductor: one run from boot to teardown, on a scripted cluster; whatever happens, what was broken is healed."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from pathlib import Path
from unittest.mock import ANY

import orjson
import pytest
from scripted_cluster import ScriptedCluster, ScriptedNode, calls, phases

from schemaquake.harness.errors import ClusterError, EnvironmentLacks, NodeDied, NodeUnreachable, NotApplicable
from schemaquake.harness.faults.ledger import FILE_NAME, Ledger
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.run.conductor import Conductor
from schemaquake.harness.run.interpreter import WorkerFailed
from schemaquake.harness.wait import until

PLAN = {
    "system": "words:1.0",
    "cluster": "scripted",
    "workloads": ("scripted",),
    "nodes": 2,
    "settle_limit_s": 10,
    "time_limit_s": 3,
}


@pytest.fixture
def folder(tmp_path, scripted):
    run = tmp_path / "run"
    run.mkdir()
    return run


@pytest.fixture
def conduct(folder, history):
    """`conduct({"main": "ok"}, restart="none")`: a whole run in this process; returns its events."""

    def run(script, **changes):
        Conductor(Plan(**(PLAN | {"options": script} | changes)), folder).run()
        return history(folder / "journals")

    return run


def notes(events, f):
    return [(e["node"], e["value"]) for e in events if e["f"] == f]


def done(events, node=None):
    """`f` of every operation that was answered, in order, by whoever worked on that node."""
    return [e["f"] for e in events if e["process"] >= 0 and e["type"] != "invoke" and node in {None, e["node"]}]


# ── the order of things ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_run_goes_through_its_phases_in_order(conduct, folder, observations):
    script = {
        "setup": "ok setup",
        "prepare": "ok prepare",
        "main": "ok main",
        "probe": "ok probe",
        "final": "read",
        "tremor": "0.0-0.3 n1",
    }
    events = conduct(script, nemeses=("tremor",))

    assert phases(events) == [
        "boot",
        "setup",
        "prepare",
        "main",
        "heal",
        "settle-settled",
        "final-settled",
        "restart",
        "settle-restarted",
        "final-restarted",
    ]
    words = [
        " ".join(e["value"]["words"]) for e in events if e["f"] == "ok" and e["type"] == "ok" and e["node"] == "n1"
    ]
    assert words == ["setup", "prepare", "main", "probe", "probe"]
    labels = [e["value"]["label"] for e in events if e["f"] == "read" and e["type"] == "ok" and e["node"] == "n2"]
    assert labels == ["settled", "restarted"]

    assert calls(folder) == [
        "cluster start",
        "n1 start",
        "n2 start",
        "tremor begins on n1",
        "tremor ends on n1",
        "n1 kill",
        "n1 start",
        "n2 kill",
        "n2 start",
        "cluster stop",
    ]
    boots = [(node, value["phase"], value["served"]) for node, value in notes(events, "node-start")]
    assert boots == [("n1", "boot", True), ("n2", "boot", True), ("n1", "restart", True), ("n2", "restart", True)]
    settles = [(value["phase"], value["agreed"], value["versions"]) for _, value in notes(events, "settle")]
    assert settles == [(phase, True, {"n1": "a", "n2": "a"}) for phase in ("setup", "settled", "restarted")]

    seen = {(o["phase"], o["node"], o["kind"]) for o in observations(folder / "journals")}
    for phase in ("settled", "restarted"):
        for node in ("n1", "n2"):
            assert {(phase, node, kind) for kind in ("version", "keyspace", "data-directory")} <= seen
    assert ("running", "n1", "version") in seen


def test_where_the_first_node_takes_the_setup_the_others_are_started_after_it(conduct, folder, observations):
    script = {"setup 0": "note set-up; ok setup", "setup 1": "ok never", "prepare": "ok prepare", "shows n1": "b"}
    script |= {"shows n2": "a b", "main": "ok main"}
    events = conduct(script, workloads=("first",), restart="none")

    assert calls(folder) == ["cluster start first", "n1 start", "cluster start others", "n2 start", "cluster stop"]
    about = ("node-start", "membership", "settle", "set-up")
    told = [(e["f"], e["node"] if e["f"] == "node-start" else None) for e in events if e["f"] in about]
    assert told[:5] == [
        ("node-start", "n1"),
        ("set-up", None),
        ("node-start", "n2"),
        ("membership", None),
        ("settle", None),
    ]
    words = [(e["node"], *e["value"]["words"]) for e in events if e["f"] == "ok" and e["type"] == "ok"]
    assert words[0] == ("n1", "setup")
    assert sorted(words[1:3]) == [("n1", "prepare"), ("n2", "prepare")]
    assert notes(events, "settle")[0][1]["versions"] == {"n1": "b", "n2": "b"}
    assert {o["node"] for o in observations(folder / "journals") if o["phase"] == "settled"} == {"n1", "n2"}


def test_logs_of_nodes_that_start_after_the_setup_belong_to_the_evidence(conduct, folder, monkeypatch):
    """Their files are not there yet when the run is planned; a note without them would say that their logs are missing."""
    monkeypatch.setattr(ScriptedNode, "log_text", lambda node: "a line" if node.starts else "")
    events = conduct({"setup": "ok"}, workloads=("first",), restart="none")
    assert [value["logs"] for _, value in notes(events, "run-planned")] == [["n1", "n2"]]


def test_a_workload_that_says_nothing_of_it_is_set_up_on_all_nodes_beside_one_that_does(conduct, folder):
    conduct({"setup": "ok"}, workloads=("first", "scripted"), restart="none")
    assert calls(folder)[0] == "cluster start"


def test_nodes_that_differ_for_good_are_read_before_the_limit_where_nothing_is_under_way(conduct, folder, observations):
    events = conduct({"shows n2": "b", "quiet": "0.5", "main": "ok main"}, settle_limit_s=1)
    told = {value["phase"]: value for _, value in notes(events, "settle")}
    assert "quiet_s" not in told["setup"]
    for phase in ("settled", "restarted"):
        assert (told[phase]["agreed"], told[phase]["versions"]) == (False, {"n1": "a", "n2": "b"})
        assert 0.5 <= told[phase]["quiet_s"] <= told[phase]["seconds"]
        read = {
            (o["node"], o["id"])
            for o in observations(folder / "journals")
            if (o["phase"], o["kind"]) == (phase, "version")
        }
        assert read == {("n1", "a"), ("n2", "b")}


def test_where_late_nodes_do_not_take_a_schema_over_all_nodes_are_started_at_once(conduct, folder, monkeypatch):
    monkeypatch.setattr(ScriptedCluster, "late_nodes_take_over", False)
    conduct({"setup": "ok"}, workloads=("first",), restart="none")
    assert calls(folder)[0] == "cluster start"


@pytest.mark.parametrize("script", [{"others": "die"}, {"setup": "fail"}], ids=["others-die", "setup-refused"])
def test_a_run_whose_other_nodes_never_start_ends_before_anything_is_raced(conduct, folder, history, script):
    with pytest.raises(ClusterError):
        conduct(
            {"main": "ok", **({"setup": "require 0.1 fail"} if "setup" in script else script)}, workloads=("first",)
        )
    assert calls(folder)[-1] == "cluster stop"
    assert not [e for e in history(folder / "journals") if e["value"] == {"phase": "main", "state": "begins"}]


def test_nodes_that_can_be_had_to_catch_up_are_before_each_final_reading(conduct, folder, observations):
    events = conduct({"main": "ok", "final": "read", "catches up": "yes"})
    told = [(e["time"], e["value"]) for e in events if e["f"] == "barriers"]
    assert [value["phase"] for _, value in told] == ["settled", "restarted"]
    assert {name: how["passed"] for name, how in told[0][1]["nodes"].items()} == {"n1": True, "n2": True}
    begins = {
        value["phase"]: e["time"] for e in events if e["f"] == "phase" and (value := e["value"])["state"] == "begins"
    }
    for time, value in told:
        read = [o["time"] for o in observations(folder / "journals") if o["phase"] == value["phase"]]
        assert begins[f"final-{value['phase']}"] < time < min(read)


def test_where_nothing_can_be_caught_up_with_nothing_is_noted(conduct):
    assert notes(conduct({"main": "ok", "final": "read"}, restart="none"), "barriers") == []


def test_what_belongs_to_a_phase_lies_between_its_ends(conduct):
    events = conduct({"setup": "ok", "prepare": "fail", "main": "info", "final": "read"}, restart="none")
    spans = {}
    for e in events:
        if e["f"] == "phase":
            spans.setdefault(e["value"]["phase"], []).append(e["time"])
    for name, f in (("setup", "ok"), ("prepare", "fail"), ("main", "info"), ("final-settled", "read")):
        begins, ends = spans[name]
        assert all(begins < e["time"] < ends for e in events if e["f"] == f)


def test_a_main_phase_that_a_worker_ends_early_goes_on_to_the_readings(conduct, caplog):
    events = conduct({"main 0": "require 0.1 fail", "main": "meet never", "final": "read"})
    (note,) = notes(events, "phase-ended-early")
    assert note[1]["phase"] == "main"
    assert notes(events, "phase-cut-short") == []
    assert phases(events)[-1] == "final-restarted"
    (line,) = [record for record in caplog.records if record.message == "phase ended early"]
    assert line.because == note[1]["because"]


@pytest.mark.parametrize("phase", ["setup", "prepare"])
def test_a_setup_that_never_gets_done_ends_the_run_before_anything_is_raced(conduct, folder, phase):
    with pytest.raises(ClusterError, match=r"did not take what is to be set up: fail of ks\.t through n1 was not done"):
        conduct({f"{phase} 0": "require 0.1 fail", "main": "ok"})
    assert calls(folder)[-1] == "cluster stop"


def test_the_schema_is_read_before_anything_is_probed(conduct, folder, observations):
    """A probe that fails may make a server load what it had only on disk."""
    events = conduct({"probe": "ok", "final": "read"}, restart="none")
    probed = min(e["time"] for e in events if e["f"] == "ok")
    read = [o["time"] for o in observations(folder / "journals") if o["phase"] == "settled" and o["kind"] == "keyspace"]
    assert len(read) == 2
    assert max(read) < probed


@pytest.mark.parametrize(
    ("restart", "expected"),
    [
        ("none", []),
        ("rolling", ["n1 kill", "n1 start", "n2 kill", "n2 start"]),
        ("together", ["n1 kill", "n2 kill", "n1 start", "n2 start"]),
    ],
)
def test_nodes_are_restarted_as_the_plan_says(conduct, folder, restart, expected):
    events = conduct({}, restart=restart)
    assert calls(folder) == ["cluster start", "n1 start", "n2 start", *expected, "cluster stop"]
    assert ("restart" in phases(events)) == (restart != "none")


def test_versions_that_go_on_differing_are_told_and_end_nothing(conduct):
    events = conduct({"shows n2": "b", "final": "read"}, restart="none", settle_limit_s=1)
    told = {value["phase"]: value for _, value in notes(events, "settle")}
    assert told["settled"]["agreed"] is False
    assert told["settled"]["versions"] == {"n1": "a", "n2": "b"}
    assert told["settled"]["seconds"] >= 1
    assert told["setup"]["seconds"] >= 4  # before anything is at stake there is more time
    assert done(events) == ["read", "read"]


def test_endless_work_lasts_for_the_time_limit_and_other_work_as_long_as_it_takes(conduct):
    def seconds_of_main(events):
        begins, ends = (e["time"] for e in events if e["f"] == "phase" and e["value"]["phase"] == "main")
        return (ends - begins) / 1e9

    endless = conduct({"main": "forever take 0.05"}, workloads=("endless",), restart="none", time_limit_s=1.0)
    assert 1 <= seconds_of_main(endless) < 8


def test_work_that_should_have_ended_by_itself_is_cut_short_and_that_is_told(conduct, caplog):
    with caplog.at_level(logging.WARNING):
        events = conduct({"main": "take 0.2; " * 20 + "fail", "final": "read"}, restart="none", time_limit_s=0.2)
    assert notes(events, "phase-cut-short") == [(None, {"phase": "main"})]
    assert "phase cut short" in caplog.text
    assert "fail" not in done(events)
    assert done(events)[-1] == "read", "what there is is judged"


def test_work_that_ends_by_itself_is_not_called_cut_short(conduct):
    assert notes(conduct({"main": "take 0.3", "final": "read"}, restart="none"), "phase-cut-short") == []


# ── nodes that fall ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_node_that_died_by_itself_is_told_and_started_again(conduct, folder):
    events = conduct({"main 0": "ok; fell n2", "main": "ok", "final": "read"}, restart="none")
    assert notes(events, "node-died") == [("n2", {"exit_code": 3, "first_error": "ERROR n2: Unknown type"})]
    assert [(node, value["phase"]) for node, value in notes(events, "node-start")][2:] == [("n2", "fault")]
    assert calls(folder)[3:] == ["n2 start", "cluster stop"]
    assert {e["node"] for e in events if e["f"] == "read" and e["type"] == "ok"} == {"n1", "n2"}


def test_a_node_that_does_not_come_back_is_told_and_the_others_are_judged(conduct, observations, folder, caplog):
    with caplog.at_level(logging.WARNING):
        events = conduct({"breaks n2": "1", "final": "read"})
    restarts = {node: value for node, value in notes(events, "node-start") if value["phase"] == "restart"}
    assert restarts["n1"]["served"] is True
    assert (restarts["n2"]["served"], restarts["n2"]["exit_code"]) == (False, 3)
    assert restarts["n2"]["first_error"] == "ERROR n2: Unknown type"
    reads = [(e["node"], e["value"]["label"]) for e in events if e["f"] == "read" and e["type"] == "ok"]
    assert sorted(reads) == [("n1", "restarted"), ("n1", "settled"), ("n2", "settled")]
    assert {o["node"] for o in observations(folder / "journals") if o["phase"] == "restarted"} == {"n1"}
    assert "node does not start" in caplog.text


def test_a_node_that_ends_between_its_start_and_its_reading_is_told_and_the_others_are_judged(
    conduct, observations, folder, caplog
):
    with caplog.at_level(logging.WARNING):
        events = conduct({"ends n2": "1", "final": "read"})
    assert notes(events, "node-died") == [("n2", {"exit_code": 3, "first_error": "ERROR n2: Unknown type"})]
    moments = [value["at"] for _, value in notes(events, "membership")]
    assert moments == ["boot", "heal", "restart", "death"]
    assert phases(events)[-1] == "final-restarted"
    assert {o["node"] for o in observations(folder / "journals") if o["phase"] == "restarted"} == {"n1"}
    reads = [(e["node"], e["value"]["label"]) for e in events if e["f"] == "read" and e["type"] == "ok"]
    assert sorted(reads) == [("n1", "restarted"), ("n1", "settled"), ("n2", "settled")]
    assert "nodes have ended by themselves" in caplog.text


def test_a_node_that_ends_while_it_is_read_is_told(conduct):
    events = conduct({"probe 0": "fell n2", "probe": "take 0.1", "final": "read"}, restart="none")
    assert [node for node, _ in notes(events, "node-died")] == ["n2"]
    assert [value["at"] for _, value in notes(events, "membership")][-1] == "death"
    assert phases(events)[-1] == "final-settled"


def test_a_machine_that_does_not_answer_when_all_is_read_loses_nothing(conduct):
    events = conduct({"mute n2": "1", "final": "read"})
    assert notes(events, "node-died") == []
    reads = [(e["node"], e["value"]["label"]) for e in events if e["f"] == "read" and e["type"] == "ok"]
    assert sorted(reads) == [("n1", "restarted"), ("n1", "settled"), ("n2", "restarted"), ("n2", "settled")]


def test_when_all_nodes_end_before_they_are_read_the_run_says_so(conduct):
    with pytest.raises(NodeUnreachable, match="did not accept a session"):
        conduct({"ends n1": "1", "ends n2": "1", "final": "read"})


def test_when_no_node_comes_back_there_is_nothing_to_read_and_that_is_told(conduct, caplog):
    with caplog.at_level(logging.WARNING):
        events = conduct({"breaks n1": "1", "breaks n2": "1", "final": "read"})
    assert phases(events)[-1] == "restart"
    assert "no node serves: nothing to read" in caplog.text
    assert len([e for e in events if e["f"] == "read" and e["type"] == "ok"]) == 2


def test_when_no_node_serves_after_the_faults_the_run_is_over(conduct, folder):
    script = {"main 0": "fell n1; fell n2", "breaks n1": "1", "breaks n2": "1"}
    with pytest.raises(NodeDied, match="no node serves after the faults were healed"):
        conduct(script)
    assert calls(folder)[-1] == "cluster stop"


# ── healing, whatever happens ────────────────────────────────────────────────────────────────────────────────────────


def open_faults(folder):
    ledger = Ledger(folder / FILE_NAME)
    try:
        return ledger.open_faults()
    finally:
        ledger.close()


def test_a_fault_still_in_place_at_the_end_of_the_work_is_healed(conduct, folder):
    events = conduct(
        {"main": "forever take 0.05", "tremor": "0.2-2.9 n1"},
        workloads=("endless",),
        nemeses=("tremor",),
        restart="none",
        time_limit_s=3.0,
    )
    assert [e["f"] for e in events if e["f"].startswith("fault-")] == ["fault-begins", "fault-ends"]
    assert open_faults(folder) == []


def test_a_worker_s_defect_heals_every_fault_and_tears_down(conduct, folder):
    with pytest.raises(WorkerFailed, match="the client burst"):
        conduct({"main 0": "take 1; explode", "main": "ok", "tremor": "0.1-2.5 n2"}, nemeses=("tremor",))
    assert calls(folder)[-3:] == ["tremor begins on n2", "tremor ends on n2", "cluster stop"]
    assert open_faults(folder) == []


def test_a_fault_that_cannot_be_injected_ends_nothing_and_is_undone(conduct, folder):
    events = conduct(
        {"main": "take 0.6", "tremor": "0.1-0.3 n1", "tremor inject": "raises", "final": "read"},
        nemeses=("tremor",),
        restart="none",
    )
    (failed,) = [e["value"] for e in events if e["f"] == "fault-failed"]
    assert (failed["stage"], failed["error"]) == ("inject", "RuntimeError: the ground is too hard")
    assert calls(folder)[3:] == ["tremor begins on n1", "tremor ends on n1", "cluster stop"]
    assert done(events)[-1] == "read"


def test_a_fault_that_cannot_be_undone_ends_the_run_after_the_teardown_and_stays_in_the_ledger(conduct, folder):
    with pytest.raises(ExceptionGroup, match="faults could not be"):
        conduct({"main": "take 0.6", "tremor": "0.1-0.3 n1", "tremor heal": "raises"}, nemeses=("tremor",))
    assert calls(folder)[-1] == "cluster stop"
    (entry,) = open_faults(folder)
    assert entry.fault.nemesis == "tremor"


def test_a_teardown_that_fails_is_told(conduct):
    with pytest.raises(ExceptionGroup, match="could not be torn down"):
        conduct({"teardown": "raises"}, restart="none")


def test_what_cannot_be_done_here_is_refused_before_anything_is_started(conduct, folder):
    with pytest.raises(NotApplicable, match=r'workload "demanding" is not applicable to words:1\.0: it has no wings'):
        conduct({}, workloads=("demanding",))
    assert calls(folder) == ["cluster stop"]


def test_a_nemesis_that_cannot_be_had_is_refused_before_anything_is_started(conduct, folder):
    with pytest.raises(EnvironmentLacks, match='nemesis "tremor" cannot be had here: the ground is concrete'):
        conduct({"missing tremor": "the ground is concrete"}, nemeses=("tremor",))
    assert calls(folder) == ["cluster stop"]


@pytest.mark.parametrize(
    ("lacking", "nemeses", "error", "words"),
    [
        ({}, ("cms-reconfigure",), NotApplicable, 'nemesis "cms-reconfigure" cannot be had here: the membership'),
        ({"missing topology": "its owner forbids it"}, ("cms-reconfigure",), EnvironmentLacks, "its owner forbids it"),
        ({"missing tremor": "concrete"}, ("cms-reconfigure", "tremor"), EnvironmentLacks, "the membership .* concrete"),
    ],
)
def test_a_command_that_a_system_never_had_is_not_applicable(conduct, folder, lacking, nemeses, error, words):
    with pytest.raises(error, match=words) as refusal:
        conduct(lacking, nemeses=nemeses)
    assert isinstance(refusal.value, NotApplicable) == (error is NotApplicable)
    assert calls(folder) == ["cluster stop"]


# ── the run's own process ────────────────────────────────────────────────────────────────────────────────────────────


class Process:
    """`python -m schemaquake.harness.run.conductor FOLDER`."""

    def __init__(self, folder, script, **changes):
        plan = Plan(**(PLAN | {"options": script} | changes))
        (folder / "plan.json").write_bytes(orjson.dumps(plan.to_json()))
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-m", "schemaquake.harness.run.conductor", str(folder)], stderr=subprocess.PIPE
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def until_called(self, text):
        until(lambda: text in calls(self.folder), deadline_s=60, what=text)

    def children(self):
        found, generation = [], [self.process.pid]
        while generation:
            generation = [
                int(child)
                for pid in generation
                for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            ]
            found += generation
        return found

    def outcome(self):
        return orjson.loads((self.folder / "outcome.json").read_bytes())


def lives(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


SHAKEN = {"main": "forever take 0.05", "tremor": "0.1-55 n1", "tremor inject": ""}


def test_sigterm_heals_tears_down_and_leaves_a_whole_history(folder, history):
    with Process(folder, SHAKEN, workloads=("endless",), nemeses=("tremor",), time_limit_s=60) as run:
        run.until_called("tremor begins on n1")
        run.process.send_signal(signal.SIGTERM)
        run.process.send_signal(signal.SIGTERM)  # impatience must not interrupt the healing
        run.process.communicate(timeout=40)
        assert run.process.returncode == 255
    assert run.outcome() == {
        "completed": False,
        "error": "interrupted; every fault was healed and every node ended",
        "exit_code": 255,
        "interrupted": True,
        "crc": ANY,
    }
    assert calls(folder)[-2:] == ["tremor ends on n1", "cluster stop"]
    assert open_faults(folder) == []
    assert [e["f"] for e in history(folder / "journals") if e["f"].startswith("fault-")] == [
        "fault-begins",
        "fault-ends",
    ]


def test_sigkill_leaves_no_worker_behind_and_a_ledger_that_names_the_fault(folder, history):
    with Process(folder, SHAKEN, workloads=("endless",), nemeses=("tremor",), time_limit_s=60) as run:
        run.until_called("tremor begins on n1")
        journal = folder / "journals" / "events-0000.jsonl"
        until(lambda: journal.exists() and journal.stat().st_size > 500, deadline_s=30, what="some work")
        children = run.children()
        assert len(children) >= 3, "two worker processes and the observer"
        run.process.kill()
        run.process.communicate(timeout=30)
    until(lambda: not any(map(lives, children)), deadline_s=30, what="the end of the workers")
    assert not (folder / "outcome.json").exists()
    assert [entry.fault.nemesis for entry in open_faults(folder)] == ["tremor"]
    events = history(folder / "journals")
    assert sum(e["f"] == "take" and e["type"] == "ok" for e in events) >= 2


def test_a_plan_that_is_damaged_is_a_sentence_in_the_outcome(folder):
    (folder / "plan.json").write_text("{")
    ran = subprocess.run(
        [sys.executable, "-m", "schemaquake.harness.run.conductor", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 254
    assert "Traceback" not in ran.stderr
    assert "plan.json is damaged" in orjson.loads((folder / "outcome.json").read_bytes())["error"]


def test_the_harness_log_is_json_and_tells_the_phases(folder):
    with Process(folder, {"main": "ok"}, nodes=1, restart="none") as run:
        run.process.communicate(timeout=60)
        assert run.process.returncode == 0
    lines = [orjson.loads(line) for line in (folder / "harness.jsonl").read_bytes().splitlines()]
    assert [line["phase"] for line in lines if line["event"] == "phase begins"][:4] == [
        "boot",
        "setup",
        "prepare",
        "main",
    ]
    assert {line["logger"].partition(".")[0] for line in lines} == {"schemaquake"}
