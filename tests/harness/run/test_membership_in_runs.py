"""Membership in a run: operations are recorded, nothing of them is healed, and workers and observer follow."""

from __future__ import annotations

import pytest
from scripted_cluster import calls

from schemaquake.checkers.run.restart import Restart
from schemaquake.harness.faults.healing import close_operations
from schemaquake.harness.faults.ledger import Ledger, read_ledger
from schemaquake.harness.history.journal import read_clock
from schemaquake.harness.history.merge import merge_history, merge_observations
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.model.protocols import Fault
from schemaquake.harness.model.records import Records
from schemaquake.harness.run.conductor import Conductor

PLAN = {"system": "words:1.0", "workloads": ("endless",), "nodes": 3, "settle_limit_s": 10, "time_limit_s": 3}
SCRIPT = {"main": "forever take 0.05", "probe": "ok", "final": "read", "moves takes": "0.2"}
S = 1_000_000_000


def conduct(folder, script, *, cluster="simulated-scripted", nemeses=("moves",), **changes):
    folder.mkdir()
    plan = Plan(**(PLAN | {"cluster": cluster, "options": SCRIPT | script, "nemeses": nemeses} | changes))
    Conductor(plan, folder).run()


def ends_of(events):
    return [(e["type"], e["node"], e["value"].get("effect")) for e in events if e["f"] == "moves"]


def main_phase(events):
    begins, ends = [e["time"] for e in events if e["f"] == "phase" and e["value"]["phase"] == "main"]
    return begins, ends


def memberships(events):
    return [
        (e["value"]["at"], {name: member["expected"] for name, member in e["value"]["members"].items()})
        for e in events
        if e["f"] == "membership"
    ]


def operations_of(events, node):
    return [e for e in events if e["process"] >= 0 and e["node"] == node]


def observations(folder):
    journals = folder / "journals"
    return merge_observations(sorted(journals.glob("observations-*.jsonl")), read_clock(journals))


def restart_verdict(folder):
    journals = folder / "journals"
    events = merge_history(sorted(journals.glob("events-*.jsonl")), read_clock(journals))
    return Restart().check(Records.of(events, observations(folder)), limit_s=5)


def states(folder):
    return [(entry.kind, entry.state) for entry in read_ledger(folder / "ledger.jsonl")]


@pytest.mark.parametrize("cluster", ["simulated-scripted", "scripted"])
def test_a_node_that_leaves_is_an_operation_and_is_never_brought_back(tmp_path, scripted, history, cluster):
    run = tmp_path / "run"
    conduct(run, {"moves": "0.5 n3 left ok"}, cluster=cluster)
    events = history(run / "journals")
    assert ends_of(events) == [("invoke", "n3", None), ("ok", "n3", {"moved": "n3"})]
    assert states(run) == [("operation", "planned"), ("operation", "begun"), ("operation", "ok")]
    assert calls(run).count("n3 start") == 1
    assert "n3 kill" not in calls(run)
    assert not [e for e in events if e["f"] in {"node-died", "fault-begins", "fault-ends"}]
    assert memberships(events)[0] == ("boot", {"n1": "normal", "n2": "normal", "n3": "normal"})
    assert memberships(events)[-1] == ("restart", {"n1": "normal", "n2": "normal", "n3": "left"})
    left = next(e["time"] for e in events if e["f"] == "moves" and e["type"] == "ok")
    late = [e for e in operations_of(events, "n3") if e["type"] == "invoke" and e["time"] > left + S // 2]
    assert late == []
    assert any(e["time"] > left + S for e in operations_of(events, "n2"))
    assert restart_verdict(run).valid is True


@pytest.mark.parametrize("cluster", ["simulated-scripted", "scripted"])
def test_the_main_phase_ends_so_long_after_the_last_operation(tmp_path, scripted, history, cluster):
    run = tmp_path / "run"
    conduct(run, {"moves": "0.5 n3 left ok"}, cluster=cluster, time_limit_s=600, ends_after_s=0.5)
    events = history(run / "journals")
    ended = next(e["time"] for e in events if e["f"] == "moves" and e["type"] == "ok")
    _, main = main_phase(events)
    assert ended + S // 2 <= main < ended + 120 * S
    taken = [e["time"] for e in operations_of(events, "n2") if e["type"] == "ok" and e["f"] == "take"]
    assert max(taken) > ended
    assert {e["value"].get("label") for e in operations_of(events, "n2") if e["f"] == "read"} == {
        "settled",
        "restarted",
    }
    assert restart_verdict(run).valid is True


def test_the_main_phase_ends_at_its_limit_if_that_is_earlier(tmp_path, scripted, history):
    run = tmp_path / "run"
    conduct(run, {"moves": "0.5 n3 left ok"}, ends_after_s=60)
    begins, ends = main_phase(history(run / "journals"))
    assert 3 * S <= ends - begins < 4 * S


@pytest.mark.parametrize("cluster", ["simulated-scripted", "scripted"])
def test_a_node_that_joins_is_observed_asked_and_restarted(tmp_path, scripted, history, cluster):
    run = tmp_path / "run"
    conduct(run, {"moves": "0.5 n4 normal ok", "spares": "n4", "crew": "n1 n2 n3 n4"}, cluster=cluster)
    events = history(run / "journals")
    joined = next(e["time"] for e in events if e["f"] == "moves" and e["type"] == "ok")
    mine = operations_of(events, "n4")
    assert {e["type"] for e in mine} == {"invoke", "ok"}
    assert min(e["time"] for e in mine) > joined
    assert sum(e["f"] == "take" for e in mine) > 4
    assert {e["value"].get("label") for e in mine if e["f"] == "read"} == {"settled", "restarted"}
    observed = observations(run).to_pylist()
    assert {row["phase"] for row in observed if row["node"] == "n4"} == {"running", "settled", "restarted"}
    assert "n4 kill" in calls(run)
    assert memberships(events)[-1][1] == dict.fromkeys(("n1", "n2", "n3", "n4"), "normal")
    assert restart_verdict(run).valid is True


def test_a_spare_that_never_joins_holds_nothing_up(tmp_path, scripted, history):
    script = {"main": "take 0.05; meet go; take 0.05", "spares": "n4", "crew": "n1 n2 n3 n4"}
    conduct(tmp_path / "run", script, workloads=("scripted",), cluster="scripted", nemeses=())
    events = history(tmp_path / "run" / "journals")
    assert operations_of(events, "n4") == []
    assert sum(e["f"] == "take" and e["type"] == "ok" for e in events) == 6
    assert not [e for e in events if e["f"] == "phase-cut-short"]


@pytest.mark.parametrize("cluster", ["simulated-scripted", "scripted"])
def test_the_others_meet_without_the_workers_of_a_node_that_left(tmp_path, scripted, history, cluster):
    rounds = "; ".join(f"take 0.1; meet m{number}" for number in range(12))
    conduct(tmp_path / "run", {"main": rounds, "moves": "0.2 n3 left ok"}, workloads=("scripted",), cluster=cluster)
    takes = [e for e in history(tmp_path / "run" / "journals") if e["f"] == "take" and e["type"] == "ok"]
    assert sum(e["node"] == "n1" for e in takes) == sum(e["node"] == "n2" for e in takes) == 12
    assert 0 < sum(e["node"] == "n3" for e in takes) < 12


@pytest.mark.parametrize("outcome", ["falls", "raises"])
def test_a_node_whose_leaving_failed_should_serve(tmp_path, scripted, history, outcome):
    """The twin of the first: the operation is refused, and the node's process ends or goes on."""
    run = tmp_path / "run"
    conduct(run, {"moves": f"0.5 n3 left {outcome}"})
    events = history(run / "journals")
    last = "fail" if outcome == "falls" else "info"
    assert [kind for kind, _, _ in ends_of(events)] == ["invoke", last]
    assert states(run)[-1] == ("operation", last)
    assert memberships(events)[-1][1]["n3"] == "normal"
    died = [e["node"] for e in events if e["f"] == "node-died"]
    verdict = restart_verdict(run)
    if outcome == "falls":
        assert died == ["n3"]
        assert [(found.type, found.nodes) for found in verdict.anomalies] == [("node-died", ("n3",))]
    else:
        assert died == []
        assert verdict.valid is True
    assert "n3 kill" in calls(run)


def test_faults_spare_a_node_that_left(tmp_path, scripted, history):
    run = tmp_path / "run"
    conduct(run, {"moves": "0.2 n3 left ok", "tremor": "1-1.5 n3, 1.6-2 n1"}, nemeses=("moves", "tremor"))
    events = history(run / "journals")
    assert [e["value"]["nodes"] for e in events if e["f"] == "fault-skipped"] == [["n3"]]
    assert [e["value"]["nodes"] for e in events if e["f"] == "fault-begins"] == [["n1"]]


def test_an_operation_that_a_dead_run_left_is_closed_and_not_undone(tmp_path):
    ledger = Ledger(tmp_path / "ledger.jsonl")
    number = ledger.plan_operation(Fault(id=0, nemesis="moves", begins_s=0, ends_s=1, nodes=("n3",)))
    ledger.begun(number)
    assert ledger.open_faults() == []
    assert [entry.id for entry in ledger.open_operations()] == [number]
    assert len(close_operations(ledger)) == 1
    assert close_operations(ledger) == []
    assert [entry.state for entry in read_ledger(tmp_path / "ledger.jsonl")][-1] == "info"
    ledger.close()
