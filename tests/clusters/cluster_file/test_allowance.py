"""Allowance: nothing is asked of a cluster that its owner's file does not list, nor for longer than it says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from schemaquake.clusters.cluster_file.allowance import WORDS, asked, check_plan
from schemaquake.clusters.cluster_file.model import ClusterFile
from schemaquake.harness.errors import ExitCode, FaultNotAllowed, PlanError
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.registry import names

PLAN = Plan(system="cassandra:5.0.9", workloads=("register",), cluster="ssh", restart="none")
FILE = ClusterFile.model_validate(
    {"provider": "ssh", "nodes": tuple({"address": f"10.0.0.{number}"} for number in (1, 2, 3))}
)
EVERYTHING = ("partition", "packets", "kill", "stop", "pause", "restart", "clock", "errors")


def allowing(*words, **more):
    return FILE.model_copy(update={"allow": words, **more})


def refusals(plan, file, error=FaultNotAllowed):
    with pytest.raises(error) as refused:
        check_plan(plan, file)
    assert refused.value.exit_code == ExitCode.BAD_ARGUMENTS
    return str(refused.value).splitlines()


def test_every_nemesis_there_is_has_its_word():
    assert set(WORDS) == set(names("nemeses"))


def test_a_run_without_faults_needs_no_word():
    check_plan(PLAN, FILE)
    assert asked(PLAN) == []


@pytest.mark.parametrize(("nemesis", "word"), WORDS.items())
def test_a_nemesis_needs_its_word_and_no_other(nemesis, word):
    plan = replace(PLAN, nemeses=(nemesis,), options={"injection": "x"} if nemesis == "error-injection" else {})
    longest = {"max_fault_seconds": 3600}
    check_plan(plan, allowing(word, **longest))
    (said,) = refusals(plan, allowing(*(other for other in EVERYTHING if other != word), **longest))
    assert said == (
        f'--nemesis {nemesis} needs "{word}", which the cluster file does not allow: add it to allow, '
        f"or leave out --nemesis {nemesis}"
    )


@pytest.mark.parametrize(
    ("changes", "word", "said"),
    [
        ({"mode": "partition", "time_limit_s": 10}, "partition", "--mode partition needs"),
        ({"restart": "rolling"}, "restart", "--restart rolling (of every node, at the end) needs"),
        ({"restart": "together"}, "restart", "say --restart none"),
    ],
)
def test_what_a_run_does_without_a_nemesis_needs_its_word_too(changes, word, said):
    plan = replace(PLAN, **changes)
    check_plan(plan, allowing(word))
    assert said in refusals(plan, allowing(*(other for other in EVERYTHING if other != word)))[0]


@pytest.mark.parametrize("nemesis", ["restart", "rolling-restart"])
def test_restarts_that_kill_need_both_words(nemesis):
    plan = replace(PLAN, nemeses=(nemesis,), options={f"{nemesis}.how": "kill"})
    check_plan(plan, allowing("restart", "kill", max_fault_seconds=3600))
    (said,) = refusals(plan, allowing("restart", max_fault_seconds=3600))
    assert said.startswith(f'-O {nemesis}.how=kill needs "kill"')


def test_everything_is_refused_at_once():
    plan = replace(PLAN, nemeses=("kill", "earthquake", "rolling-restart"), restart="rolling", time_limit_s=200)
    told = refusals(plan, allowing("stop"))
    assert [line.split(" ")[0] for line in told] == ["nemesis", "--nemesis", "--nemesis", "--restart", "--nemesis"]
    assert told[0].startswith('nemesis "earthquake" is not known to be safe')


# ── how long ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_rolling_restart_lasts_as_long_as_its_nodes_take():
    plan = replace(PLAN, nemeses=("rolling-restart",), time_limit_s=200)
    (said,) = refusals(plan, allowing("restart"))
    assert "plans a fault of 75 s, and max_fault_seconds is 60" in said
    assert "-O rolling-restart.seconds_a_node=20 or less" in said
    check_plan(replace(plan, options={"rolling-restart.seconds_a_node": "20"}), allowing("restart"))


def test_a_fault_longer_than_allowed_is_refused_and_the_longest_that_is_planned_is_the_least_to_allow():
    plan = replace(PLAN, nemeses=("pause",), time_limit_s=120)
    (said,) = refusals(plan, allowing("pause", max_fault_seconds=5))
    longest = float(said.split("plans a fault of ")[1].split(" s")[0])
    assert 5 < longest <= 15
    check_plan(plan, allowing("pause", max_fault_seconds=round(longest + 0.01, 2)))


@pytest.mark.parametrize(
    ("workload", "held_s", "advice"), [("register", 120, "--time-limit 60"), ("create-table", 480, "--time-limit 15")]
)
def test_a_cut_lasts_as_long_as_the_main_phase_may(workload, held_s, advice):
    plan = replace(PLAN, workloads=(workload,), mode="partition", time_limit_s=120)
    (said,) = refusals(plan, allowing("partition"))
    assert f"may last {held_s} s, and max_fault_seconds is 60" in said
    assert said.endswith(f"say {advice}")
    check_plan(replace(plan, time_limit_s=float(advice.split(" ")[1])), allowing("partition"))


# ── whose plan ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_plan_for_another_cluster_is_refused_with_every_difference():
    plan = replace(PLAN, cluster="docker", nodes=5, keyspace_prefix="mine", system="cassandra:4.1.7")
    told = refusals(plan, allowing(system="cassandra:5.0.9"), PlanError)
    assert [line.split(" of the plan")[0] for line in told] == [
        "the cluster",
        "the system",
        "the number of nodes",
        "the keyspace prefix",
    ]


def test_what_only_a_server_of_our_own_can_be_told_is_refused():
    plan = replace(PLAN, options={"yaml.num_tokens": "1", "property.cassandra.x": "y"}, distribution=Path("x.tar.gz"))
    told = refusals(plan, FILE, PlanError)
    assert [line.split(" is ")[0] for line in told] == [
        "-O yaml.num_tokens",
        "-O property.cassandra.x",
        "--distribution",
    ]
    containers = ClusterFile.model_validate({"provider": "docker"})
    check_plan(replace(plan, cluster="docker"), containers)
