"""Swarms: plans of seeds, runs that are repeated exactly, sweeps that go on where they ended, and findings made smaller."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import orjson
import pyarrow.parquet as pq
import pytest

from schemaquake.harness.console import stdout
from schemaquake.harness.errors import ExitCode, HistoryError, PlanError
from schemaquake.harness.installed_options import refuse_undeclared
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.model.verdict import Doubt, Verdict
from schemaquake.results.engines.engine import Local
from schemaquake.results.runs.execution import FinishedRun
from schemaquake.results.store.store import Store
from schemaquake.results.swarm import commands, one_seed, smallest
from schemaquake.results.swarm.drawing import CHANGES, NEMESES, plan_of_seed, workloads_of
from schemaquake.results.swarm.one_seed import row_of
from schemaquake.results.swarm.reducing import reduced
from schemaquake.results.swarm.smallest import find_smallest
from schemaquake.results.swarm.sweep import Order, Swarm
from schemaquake.results.swarm.table import coverage_of, doubts_of, findings_of, never_met

FIVE, SIX = "simulated:cassandra-5.0", "simulated:cassandra-6.0"
RACE = Plan(
    system=FIVE, workloads=("create-table",), cluster="simulated", time_limit_s=5.0, restart="none",
    options={"races": "1", "mode": "barrier"},
)  # fmt: skip
ORDER = Order(first=3, last=7, systems=(SIX,), wave=2)


def without_time(row):
    return {name: value for name, value in row.items() if name != "ms"}


# ── drawing ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_each_seed_has_a_plan_of_its_own_and_all_features_come_up():
    plans = [plan_of_seed(seed, (FIVE, SIX)) for seed in range(400)]
    assert plans == [plan_of_seed(seed, (FIVE, SIX)) for seed in range(400)]
    drawn = {name for plan in plans for name in plan.workloads}
    assert drawn == {*workloads_of(FIVE), *workloads_of(SIX), "reloaded-rows"}  # the last in storms alone
    drawn = {name for plan in plans for name in plan.nemeses}
    assert drawn == {*NEMESES, *CHANGES, "rf-change", "cancel-sequence"} - {"lost-majority"}  # group 0's alone
    assert {plan.nodes for plan in plans} - {14} == {3, 4, 5, 6, 7}
    assert {plan.system for plan in plans} == {FIVE, SIX}
    assert all(any(f"{verb}.at" in plan.options for plan in plans) for verb in ("kill", "pause", "cut"))
    assert all(
        plan.nodes > 3 and {*plan.workloads} & {"register", "set", "quorum", "reloaded-rows"}
        for plan in plans
        if {*plan.nemeses} & {*CHANGES}
    )
    assert any(not plan.nemeses for plan in plans)
    together = [plan for plan in plans if len({*plan.nemeses} & {*CHANGES}) > 1]
    assert together
    assert all(plan.options["overlap"] == "true" for plan in together)
    for plan in plans:
        plan.check_options()
        refuse_undeclared(plan.options, workloads=plan.workloads, nemeses=plan.nemeses, cluster=plan.cluster)


SCYLLA = "simulated:scylladb-6.2"


@pytest.mark.parametrize("system", [FIVE, SIX, SCYLLA])
def test_where_a_replication_factor_changes_rows_are_read_and_nothing_breaks_a_repair_off(system):
    plans = [plan_of_seed(seed, (system,)) for seed in range(200)]
    resized = [plan for plan in plans if plan.nemeses == ("rf-change",)]
    assert {plan.replication_factor for plan in resized} == {1, 2, 3}
    assert {plan.options["keys"] for plan in resized} == {"8", "60", "200"}
    for plan in resized:
        assert plan.data_centers == 1
        assert plan.nodes > 3
        assert "quorum" in plan.workloads
        assert not any(name.endswith(".at") for name in plan.options)


@pytest.mark.parametrize("system", [FIVE, SIX, SCYLLA])
def test_a_replication_factor_changes_beside_a_dead_node_that_goes_and_rows_keep_a_replica(system):
    plans = [plan_of_seed(seed, (system,)) for seed in range(800)]
    both = [plan for plan in plans if "rf-change" in plan.nemeses and len(plan.nemeses) > 1]
    assert {plan.nemeses for plan in both} == {("removenode", "rf-change"), ("replace", "rf-change")}
    for plan in both:
        # Three replicas at first, and one change by one.
        assert (plan.replication_factor, "rf-change.count" in plan.options, plan.data_centers) == (None, False, 1)
        assert "quorum" in plan.workloads
        assert plan.nodes > 3
        assert not any(name.endswith(".at") for name in plan.options)


def test_a_node_is_called_back_where_a_system_has_a_command_for_it():
    for system, is_drawn in ((SIX, True), (FIVE, False), (SCYLLA, False)):
        plans = [plan_of_seed(seed, (system,)) for seed in range(300)]
        called_back = [plan for plan in plans if "cancel-sequence" in plan.nemeses]
        assert bool(called_back) == is_drawn
        for plan in called_back:
            assert plan.options["cancel-sequence.kind"] in {"decommission", "move"}
            assert not any(name.startswith(("decommission.", "move.")) for name in plan.options)


def test_two_changes_of_the_ring_meet_where_nodes_move_and_where_they_do_not():
    for system, pair in ((SIX, {"bootstrap", "move"}), ("simulated:scylladb-6.2", {"bootstrap", "decommission"})):
        plans = [plan_of_seed(seed, (system,)) for seed in range(300)]
        together = [plan for plan in plans if {*plan.nemeses} >= pair]
        assert together
        assert all(plan.options["overlap"] == "true" and plan.spares == 1 for plan in together)


def test_on_a_wide_ring_a_join_and_a_leave_begin_together():
    plans = [plan_of_seed(seed, (SIX,)) for seed in range(1500)]
    wide = [plan for plan in plans if plan.nodes == 14]
    assert 0 < len(wide) < 30
    for plan in wide:
        assert plan.nemeses[:2] == ("bootstrap", "decommission")
        joins_s, leaves_s = (float(plan.options[f"{name}.begins-s"]) for name in ("bootstrap", "decommission"))
        assert joins_s <= leaves_s < joins_s + 3
        plan.check_options()


def test_races_of_some_seeds_begin_with_any_variant_and_others_stay_the_runs_that_they_were():
    others = [plan_of_seed(seed, (FIVE,)) for seed in (*range(6300, 6400), *range(10_000, 10_100))]
    plans = [plan_of_seed(seed, (FIVE,)) for seed in (*range(6400, 6600), *range(80_000, 80_100))]
    assert not any("first-race" in plan.options for plan in others)
    assert {plan.options.get("first-race", "0") for plan in plans if "races" in plan.options} == {*"012345"}
    assert not any("first-race" in plan.options for plan in plans if "races" not in plan.options)


def test_later_seeds_read_through_indexes_and_views_and_others_stay_the_runs_that_they_were():
    for system in (FIVE, "simulated:cassandra-2.2", SCYLLA):
        assert not any("cells" in plan_of_seed(seed, (system,)).options for seed in range(119_800, 120_000))
        plans = [plan_of_seed(seed, (system,)) for seed in range(120_000, 120_200)]
        looking_up = [plan for plan in plans if "grid" in plan.workloads]
        assert len(looking_up) > 5
        for plan in looking_up:
            plan.check_options()
            refuse_undeclared(plan.options, workloads=plan.workloads, nemeses=plan.nemeses, cluster=plan.cluster)
            assert len(plan.options["cells"].split(",")) in {2, 4}
            assert "first-race" not in plan.options


def test_no_thrift_client_looks_rows_up():
    plans = [plan_of_seed(seed, ("simulated:cassandra-0.7",)) for seed in range(120_000, 120_200)]
    assert not any("grid" in plan.workloads for plan in plans)


def test_later_storms_delete_rows_twice_and_others_stay_the_runs_that_they_were():
    assert not any("delete-again" in plan_of_seed(seed, (FIVE,)).options for seed in range(119_700, 120_000))
    plans = [plan_of_seed(seed, (FIVE,)) for seed in range(120_000, 120_300)]
    twice = [plan for plan in plans if "delete-again" in plan.options]
    assert twice
    assert {plan.workloads for plan in twice} == {("reloaded-rows",)}
    assert any(plan.workloads == ("reloaded-rows",) for plan in plans if plan not in twice)


def test_a_replication_factor_is_to_change_while_the_ring_of_6_0_does():
    def meanwhile(system, seeds):
        plans = [plan_of_seed(seed, (system,)) for seed in seeds]
        return [plan for plan in plans if "overlap" in plan.options and "rf-change" in plan.nemeses]

    found = meanwhile(SIX, range(120_000, 121_000))
    assert len({plan.nemeses for plan in found}) > 1
    for plan in found:
        plan.check_options()
        (change, _) = plan.nemeses
        assert plan.options["pause.at"].startswith("6.0/sequence/")
        begins_s = [float(plan.options[f"{name}.begins-s"]) for name in (change, "rf-change")]
        assert begins_s[0] <= begins_s[1] < plan.time_limit_s
    assert not meanwhile(SIX, range(119_500, 120_000))
    assert not meanwhile(SCYLLA, range(120_000, 120_500))


def test_later_storms_of_rows_have_other_levels_that_meet():
    assert not any("read-consistency" in plan_of_seed(seed, (FIVE,)).options for seed in range(119_700, 120_000))
    plans = [plan_of_seed(seed, (FIVE,)) for seed in range(120_000, 120_500)]
    drawn = {
        (plan.options["consistency"], plan.options["read-consistency"])
        for plan in plans
        if "read-consistency" in plan.options
    }
    assert drawn
    assert all("ALL" in levels for levels in drawn)


def test_later_repairs_are_broken_off_half_of_the_time():
    def resized(seeds):
        return [plan for seed in seeds if (plan := plan_of_seed(seed, (SCYLLA,))).nemeses == ("rf-change",)]

    assert not any("fault.seconds" in plan.options for plan in resized(range(119_700, 120_000)))
    plans = resized(range(120_000, 120_400))
    broken_off = [plan for plan in plans if "fault.seconds" in plan.options]
    assert 0 < len(broken_off) < len(plans)
    for plan in broken_off:
        plan.check_options()
        (place,) = (text for name, text in plan.options.items() if name.endswith(".at"))
        assert place.startswith("group0/stream/")


def test_still_later_repairs_fail_because_a_node_that_is_named_is_silent_for_too_long():
    plans = [plan_of_seed(seed, (SIX,)) for seed in range(200_000, 200_300)]
    broken_off = [plan for plan in plans if plan.nemeses == ("rf-change",) and "fault.seconds" in plan.options]
    assert broken_off
    for plan in broken_off:
        plan.check_options()
        assert float(plan.options["fault.seconds"]) > 10
        (place,) = (text for name, text in plan.options.items() if name.endswith(".at"))
        step, _, passage = place.partition("@")
        assert step == "6.0/stream/s1"
        assert passage.partition(":")[2] in plan.node_names


def test_a_ring_that_does_not_change_is_not_asked_to():
    assert not any({*plan_of_seed(seed, ("simulated:cassandra-1.1",)).nemeses} & {*CHANGES} for seed in range(100))


def test_the_system_of_a_seed_changes_none_of_its_sizes():
    one, other = plan_of_seed(5, (FIVE,)), plan_of_seed(5, (SIX,))
    assert replace(one, system="", workloads=("-",), options={}) == replace(
        other, system="", workloads=("-",), options={}
    )


def test_each_simulated_system_has_a_plan_for_every_seed():
    for version in ("cassandra-0.7", "cassandra-1.0", "cassandra-1.1", "cassandra-3.11", "scylladb-6.2"):
        for seed in range(300):
            plan = plan_of_seed(seed, (f"simulated:{version}",))
            plan.check_options()
            assert set(plan.workloads) <= {*workloads_of(plan.system), "reloaded-rows"}


# ── one seed ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_race_that_broke_is_a_row_with_its_finding_and_its_twin_is_silent():
    row = row_of(RACE)
    assert row["outcome"] == "invalid"
    assert "lost-rows" in row["anomalies"]
    assert [finding["about"] for finding in row["findings"]] == ["Two coordinators create one table"]
    assert row["events"] > row["operations"] > 10
    assert {each["step"] for each in row["passages"]} >= {"4.0/apply/e5", "4.0/merge/p4"}
    twin = row_of(replace(RACE, options={**RACE.options, "bugs": "none"}))
    assert (twin["outcome"], twin["anomalies"], twin["findings"]) == ("valid", [], [])
    assert twin["digest"] != row["digest"]


def test_a_plan_that_cannot_be_is_refused_in_its_row():
    row = row_of(replace(RACE, options={"kill.at": "5.0/nowhere"}))
    assert row["outcome"] == "refused"
    assert "no such step" in row["doubt"]


def test_seeds_are_repeated_exactly_in_another_process_with_other_hashes():
    seeds = [3, 16]
    code = (
        "import sys, orjson\n"
        "from schemaquake.results.swarm.drawing import plan_of_seed\n"
        "from schemaquake.results.swarm.one_seed import row_of\n"
        f"rows = [row_of(plan_of_seed(seed, {(FIVE, SIX)!r})) for seed in {seeds}]\n"
        "sys.stdout.buffer.write(orjson.dumps(rows))"
    )
    env = {**os.environ, "PYTHONHASHSEED": "7"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=True)
    theirs = [without_time(row) for row in orjson.loads(done.stdout)]
    assert theirs == [without_time(row_of(plan_of_seed(seed, (FIVE, SIX)))) for seed in seeds]
    assert all(len(row["digest"]) == 64 for row in theirs)


@pytest.mark.long
def test_a_hundred_seeds_are_equal_in_two_processes_with_other_hashes(tmp_path):
    rows = []
    for hashes in ("0", "1"):
        folder = tmp_path / hashes
        subprocess.run(
            [sys.executable, "-m", "schemaquake.harness.cli.command_line", "swarm", "--seeds", "0:100", "--engine", "local",
             "--reduce", "0", "--shrink", "0", "--folder", str(folder)],
            env={**os.environ, "PYTHONHASHSEED": hashes}, check=False, capture_output=True,
        )  # fmt: skip
        rows.append(
            [without_time(row) for row in pq.read_table(folder / "seeds-00000000-00000100.parquet").to_pylist()]
        )
    assert len(rows[0]) == 100
    assert rows[0] == rows[1]


# ── a sweep ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class Counting:
    """An engine that counts the seeds it was given; rows that it makes up have the finding of their seed."""

    width, elsewhere, memory_bytes = 1, False, None

    def __init__(self):
        self.seeds = []

    def carry(self, step, groups, schema):
        self.seeds += groups["seed"].to_pylist()
        rows = [
            {**dict.fromkeys(schema.names), "seed": seed, "outcome": "invalid", "command": f"run {seed}", "ms": 1.0,
             "findings": [{"id": f"SQ-{seed // 2}", "anomaly": "lost-column", "about": "-"}],
             "passages": [{"step": "a/1", "handling": "push", "faults": "cut" * (seed % 2), "count": seed}],
             "crashes": [{"step": "a/2", "how": "kill", "count": 1}]}
            for seed in reversed(groups["seed"].to_pylist())
        ]  # fmt: skip
        return schema.empty_table().from_pylist(rows, schema=schema)


def test_a_sweep_goes_on_where_it_ended(tmp_path):
    engine = Counting()
    assert len(next(Swarm.begin(tmp_path / "a", ORDER).run(engine))) == 2
    assert engine.seeds == [3, 4]
    (*_, rows) = Swarm.begin(tmp_path / "a", replace(ORDER, last=8)).run(engine)
    assert engine.seeds == [3, 4, 5, 6, 7]
    assert [row["seed"] for row in rows] == [3, 4, 5, 6, 7]


def test_a_sweep_of_something_else_is_not_gone_on_with(tmp_path):
    Swarm.begin(tmp_path / "a", ORDER)
    for other in (replace(ORDER, first=0), replace(ORDER, options={"bugs": "none"}), replace(ORDER, systems=(FIVE,))):
        with pytest.raises(PlanError, match="other seeds"):
            Swarm.begin(tmp_path / "a", other)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").touch()
    with pytest.raises(PlanError, match="is not empty"):
        Swarm.begin(tmp_path / "full", ORDER)


def test_two_processes_do_not_work_on_one_sweep(tmp_path):
    first, second = Swarm.begin(tmp_path / "a", ORDER), Swarm.begin(tmp_path / "a", ORDER)
    with first.alone(), pytest.raises(PlanError, match="another process is working on"), second.alone():
        raise AssertionError("both work")
    with second.alone():
        assert next(second.run(Counting()))


@pytest.mark.parametrize("content", [b"", b"PAR1", None], ids=["empty", "no table", "cut"])
def test_a_wave_whose_table_is_damaged_is_named_with_what_to_do(tmp_path, content):
    next(Swarm.begin(tmp_path / "a", ORDER).run(Counting()))
    (path,) = (tmp_path / "a").glob("seeds-*")
    path.write_bytes(path.read_bytes()[:-9] if content is None else content)
    with pytest.raises(HistoryError, match=rf"{path.name}.*Delete the file"):
        next(Swarm.begin(tmp_path / "a", ORDER).run(Counting()))
    path.unlink()
    assert next(Swarm.begin(tmp_path / "a", ORDER).run(Counting()))


@pytest.mark.parametrize("content", [b"null", b"[7]", b"{"])
def test_an_order_that_is_damaged_is_refused(tmp_path, content):
    Swarm.begin(tmp_path / "a", ORDER)
    (tmp_path / "a" / "swarm.json").write_bytes(content)
    with pytest.raises(HistoryError, match=r"swarm\.json is damaged"):
        Swarm.begin(tmp_path / "a", ORDER)


def test_a_sweep_ends_after_so_many_findings_and_counts_each_once(tmp_path):
    engine = Counting()
    swarm = Swarm.begin(tmp_path / "a", replace(ORDER, first=0, last=100))
    (*_, rows) = swarm.run(engine, stop_after=3)
    assert engine.seeds == [0, 1, 2, 3, 4, 5]
    findings = swarm.finish(rows, reduce=0, shrink=0)
    assert [(each["id"], each["seeds"], each["first"], each["command"]) for each in findings] == [
        ("SQ-0", 2, 0, "run 0"), ("SQ-1", 2, 2, "run 2"), ("SQ-2", 2, 4, "run 4"),
    ]  # fmt: skip
    assert pq.read_table(tmp_path / "a" / "findings.parquet")["id"].to_pylist() == ["SQ-0", "SQ-1", "SQ-2"]
    coverage = pq.read_table(tmp_path / "a" / "coverage.parquet").to_pylist()
    assert [tuple(row.values()) for row in coverage] == [
        ("a/1", "push", "", 6, 3, 0), ("a/1", "push", "cut", 9, 3, 1), ("a/2", "", "kill", 6, 6, 0),
    ]  # fmt: skip
    assert never_met(coverage, ["a/1", "a/2", "a/3"]) == {"passed": ["a/2", "a/3"], "killed": ["a/1", "a/3"]}


def test_a_sweep_of_real_seeds_finds_and_reduces(tmp_path):
    swarm = Swarm.begin(tmp_path / "a", Order(first=16, last=17, systems=(FIVE,)))
    (*_, rows) = swarm.run(Local())
    findings = swarm.finish(rows, reduce=2, shrink=0)
    assert findings
    assert findings[0]["reduced"].startswith("schemaquake run --system simulated:cassandra-5.0")
    (tmp_path / "a" / "findings" / findings[0]["id"] / "smallest.json").stat()
    assert findings_of(rows).keys() == {each["id"] for each in findings}
    assert len(coverage_of(rows)) > 20


# ── reducing ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_a_finding_does_not_need_is_left_out():
    plan = replace(
        RACE, nemeses=("kill", "clock"), nodes=5, replication_factor=5, restart="rolling", time_limit_s=20.0,
        workloads=("create-table", "set"), options={"races": "2", "mode": "partition", "kill.at": "4.0/apply/e5"},
    )  # fmt: skip
    small = reduced(plan, lambda each: "clock" in each.nemeses and each.nodes >= 3, most=100)
    assert small == replace(RACE, nemeses=("clock",), workloads=("set",))
    asked = []
    assert reduced(plan, lambda each: asked.append(each) or False, most=7) == plan
    assert len(asked) == 7


# ── the smallest scenario ────────────────────────────────────────────────────────────────────────────────────────────


FOUND = {"id": "SQ-1", "anomaly": "lost-rows"}


def test_what_is_known_of_a_finding_is_not_looked_for_again(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(smallest, "findings_in", lambda plan: asked.append(plan) or {"SQ-1"})
    plan = replace(RACE, nodes=5)
    found = find_smallest(FOUND, plan, tmp_path / "SQ-1", reduce=3, shrink=0)
    assert "--nodes 2" in found["reduced"]
    count = len(asked)
    assert 0 < count <= 3
    assert find_smallest(FOUND, plan, tmp_path / "SQ-1", reduce=3, shrink=0) == found
    assert len(asked) == count
    find_smallest(FOUND, plan, tmp_path / "SQ-1", reduce=2, shrink=0)
    assert len(asked) > count
    (tmp_path / "SQ-1" / "smallest.json").write_text("{")
    with pytest.raises(HistoryError, match="is damaged"):
        find_smallest(FOUND, plan, tmp_path / "SQ-1", reduce=3, shrink=0)


def test_a_search_that_was_interrupted_leaves_no_note_that_nothing_was_found(tmp_path, monkeypatch):
    def interrupted(plan, runs, **_):
        doubt = Doubt("incomplete-run", "interrupted")
        return FinishedRun(
            store=Store(runs), plan=plan, verdict=Verdict.unknown("run", doubt), completed=False, error="interrupted",
            exit_code=ExitCode.CRASHED, interrupted=True,
        )  # fmt: skip

    monkeypatch.setattr(smallest, "carry_out", interrupted)
    with pytest.raises(KeyboardInterrupt):
        find_smallest(FOUND, RACE, tmp_path / "SQ-1", reduce=0, shrink=30)
    assert list((tmp_path / "SQ-1").iterdir()) == []


@pytest.mark.long
def test_the_statements_of_a_finding_are_shrunk_to_a_script_that_repeats_it(tmp_path):
    found = find_smallest({"id": "SQ-1", "anomaly": "lost-rows"}, RACE, tmp_path / "SQ-1", reduce=0, shrink=30)
    assert found["statements"] <= 4
    script = tmp_path / found["script"]
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(["sh", str(script)], cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr


def test_what_was_not_decided_is_told_once_for_each_reason():
    row = {
        "outcome": "failed",
        "command": "schemaquake run",
        "doubt": "ClusterError: sq_set_001.t was not made in 20 s; more",
    }
    rows = [
        {**row, "seed": 9},
        {**row, "seed": 4, "doubt": "ClusterError: sq_quorum_000.t was not made in 7 s"},
        {**row, "seed": 1, "outcome": "valid", "doubt": None},
        {**row, "seed": 2, "outcome": "unknown", "doubt": "faults: partition (fault 3) had no visible effect"},
    ]
    assert [(each["outcome"], each["seeds"], each["seed"]) for each in doubts_of(rows)] == [
        ("failed", 2, 4),
        ("unknown", 1, 2),
    ]


def test_a_defect_of_a_model_costs_one_seed(monkeypatch):
    def break_down(*_):
        raise KeyError("t")

    monkeypatch.setattr(one_seed, "_carry_out", break_down)
    row = one_seed.row_of(plan_of_seed(1, (FIVE,)))
    assert (row["outcome"], row["findings"]) == ("failed", [])
    assert row["doubt"].startswith("KeyError: 't' (test_swarm.py:")


@pytest.mark.parametrize(
    ("free", "chosen", "in_memory"),
    [
        pytest.param(1 << 30, None, True, id="room in memory"),
        pytest.param(64 << 20, None, False, id="a container's few megabytes"),
        pytest.param(1 << 30, "elsewhere", False, id="a folder of the user's choice"),
    ],
)
def test_files_of_a_seed_are_in_memory_where_there_is_room_and_no_other_wish(
    tmp_path, monkeypatch, free, chosen, in_memory
):
    usual, memory = tmp_path / "usual", tmp_path / "memory"
    usual.mkdir()
    memory.mkdir()
    for name in ("TMPDIR", "TEMP", "TMP"):
        monkeypatch.delenv(name, raising=False)
    if chosen is not None:
        monkeypatch.setenv("TMPDIR", str(usual))
    monkeypatch.setattr(tempfile, "tempdir", str(usual))
    monkeypatch.setattr(one_seed, "_IN_MEMORY", memory)
    monkeypatch.setattr(one_seed.shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    seen = []
    monkeypatch.setattr(one_seed, "_carry_out", lambda _, folder: seen.append(folder.parent))
    row_of(RACE)
    assert seen == [memory if in_memory else usual]
    assert not list(memory.iterdir())


def test_a_model_that_goes_round_in_a_circle_costs_one_seed(monkeypatch):
    def go_round(*_):
        while True:
            pass

    monkeypatch.setattr(one_seed, "_CPU_LIMIT_S", 0.2)
    with monkeypatch.context() as broken:
        broken.setattr("schemaquake.clusters.simulated.models.rows.Rows.boot", go_round)
        row = one_seed.row_of(plan_of_seed(1, (FIVE,)))
    assert (row["outcome"], row["findings"], row["doubt"]) == ("failed", [], "Endless: not done within 0 s of CPU time")
    monkeypatch.undo()
    assert one_seed.row_of(plan_of_seed(1, (FIVE,)))["outcome"] != "failed"


# ── printed ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_one_seed_is_printed_as_one(tmp_path, capsys):
    finding = {"id": "SQ-1", "anomaly": "lost-rows", "about": "Two clients", "seeds": 1, "statements": 1}
    commands._print(
        {
            "seeds": 1,
            "findings": [{**finding, "reduced": None, "command": "schemaquake run", "script": "a/reproduce.sh"}],
            "doubts": [{"outcome": "unknown", "doubt": "late", "seeds": 1, "seed": 7, "command": "schemaquake run"}],
            "outcomes": {"invalid": 1},
            "coverage": {"passages": 2, "never": {}},
            "cpu_seconds": 1.5,
        },
        tmp_path,
        stdout(),
    )
    printed = capsys.readouterr().out
    assert "lost-rows: Two clients (1 seed)" in printed
    assert "a/reproduce.sh (1 statement)" in printed
    assert "unknown: late (1 seed, the first 7)" in printed
    assert "1 seed: 1 invalid; 1.5 s of CPU" in printed
    assert "2 kinds of passages" in printed
