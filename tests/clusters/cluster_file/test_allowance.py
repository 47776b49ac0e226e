"""Allowance: nothing is asked of a cluster that its owner's file does not list, nor for longer than it says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import plugins
import pytest
from pydantic import ValidationError

from schemaquake.clusters.cluster_file.allowance import asked, check_plan
from schemaquake.clusters.cluster_file.model import ClusterFile
from schemaquake.harness.errors import ExitCode, FaultNotAllowed, PlanError
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.model.protocols import Fault, TopologyNemesis
from schemaquake.harness.model.traits import nemesis_traits
from schemaquake.harness.registry import load_all

PLAN = Plan(system="cassandra:5.0.9", workloads=("register",), cluster="ssh", restart="none")
FILE = ClusterFile.model_validate(
    {
        "provider": "ssh",
        "nodes": tuple({"address": f"10.0.0.{number}"} for number in (1, 2, 3)),
        "spares": ({"address": "10.0.0.4"},),
    }
)
NEMESES = load_all("nemeses")
WORDS = {name: word for name, nemesis in NEMESES.items() if (word := nemesis_traits(nemesis).allowed_by) is not None}
TOPOLOGY = {name for name, word in WORDS.items() if word == "topology"}
EVERYTHING = ("partition", "packets", "kill", "stop", "pause", "restart", "clock", "errors", "topology")


def allowing(*words, **more):
    return FILE.model_copy(update={"allow": words, **more})


def refusals(plan, file, error=FaultNotAllowed):
    with pytest.raises(error) as refused:
        check_plan(plan, file)
    assert refused.value.exit_code == ExitCode.BAD_ARGUMENTS
    return str(refused.value).splitlines()


def test_every_fault_of_ours_declares_a_word_of_the_file():
    assert set(WORDS.values()) == {*EVERYTHING}
    of_files = {name for name, nemesis in NEMESES.items() if "files" in nemesis_traits(nemesis).needs}
    assert of_files == {"file-corruption", "fill-disk", "read-only-disk"}, (
        "nobody can allow these: the files are an owner's"
    )
    ours = {name for name, nemesis in NEMESES.items() if not isinstance(nemesis, TopologyNemesis)}
    assert ours - of_files == set(WORDS) - TOPOLOGY


@pytest.mark.parametrize("nemesis", sorted(NEMESES.keys() - WORDS.keys()))
def test_what_no_word_allows_is_done_to_no_cluster_of_an_owner_s(nemesis):
    (said,) = refusals(replace(PLAN, nemeses=(nemesis,)), allowing(*EVERYTHING, max_fault_seconds=3600))
    assert said.startswith(f'nemesis "{nemesis}" declares no word of allow')


def test_the_word_topology_allows_what_a_host_can_do_and_nothing_else():
    assert {
        "bootstrap", "decommission", "removenode", "assassinate", "replace", "move", "rf-change", "cms-reconfigure",
        "pause-commits", "abort-bootstrap", "cancel-sequence",
    } == TOPOLOGY  # fmt: skip


@pytest.mark.parametrize("nemesis", sorted(TOPOLOGY))
def test_an_operation_may_take_longer_than_any_fault(nemesis):
    check_plan(replace(PLAN, nemeses=(nemesis,), spares=1), allowing("topology", max_fault_seconds=1))


def test_a_fault_that_is_aimed_at_a_step_needs_its_own_word_and_ends_in_time():
    plan = replace(PLAN, nemeses=("decommission",), options={"aim": "kill@stream"})
    check_plan(plan, allowing("topology", "kill"))
    (said,) = refusals(plan, allowing("topology"))
    assert '-O aim=kill@stream needs "kill"' in said
    longer = replace(plan, options={"aim": "kill@stream", "aim-s": "90"})
    (said,) = refusals(longer, allowing("topology", "kill"))
    assert "90 s" in said
    assert "aim-s=60" in said
    (said,) = refusals(replace(plan, options={"aim": "any"}), allowing(*EVERYTHING), error=PlanError)
    assert "name the nemesis" in said


@pytest.mark.parametrize(
    ("nemesis", "options", "down"),
    [("removenode", {}, 1), ("decommission", {}, 0), ("move", {"aim": "kill@stream"}, 1)],
)
def test_nodes_that_an_operation_takes_down_count(nemesis, options, down):
    plan = replace(PLAN, nemeses=(nemesis,), options=options)
    check_plan(plan, allowing("topology", "kill", max_nodes_down=1))
    if down:
        (said,) = refusals(plan, allowing("topology", "kill", max_nodes_down=0))
        assert "takes down 1 nodes at once" in said
    else:
        check_plan(plan, allowing("topology", "kill", max_nodes_down=0))


def test_no_more_spares_are_asked_for_than_the_file_names():
    (said,) = refusals(replace(PLAN, spares=2), FILE, error=PlanError)
    assert "--spares 2: the cluster file names 1" in said


def test_a_run_without_faults_needs_no_word():
    check_plan(PLAN, FILE)
    assert asked(PLAN) == []


@pytest.mark.parametrize(("nemesis", "word"), WORDS.items())
def test_a_nemesis_needs_its_word_and_no_other(nemesis, word):
    options = {"injection": "x"} if nemesis == "error-injection" else {}
    plan = replace(PLAN, nemeses=(nemesis,), options=options, spares=1)
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
        (
            {"workloads": ("drop-type",), "options": {"mode": "partition"}, "time_limit_s": 10},
            "partition",
            "--mode partition needs",
        ),
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
    plan = replace(PLAN, nemeses=("kill", "rolling-restart"), restart="rolling", time_limit_s=200)
    told = refusals(plan, allowing("stop"))
    assert [line.split(" ")[0] for line in told] == ["--nemesis", "--nemesis", "--restart", "--nemesis"]


# ── nemeses from outside the tree ────────────────────────────────────────────────────────────────────────────────────


class Tide:
    """A nemesis that shrinks a disk, which none of our words allows."""

    name = "tide"
    allowed_by: str | None = "disk"

    def words_for(self, options):
        return {"tide.depth": "kill"} if options.get("tide.depth") == "all" else {}

    def shortened(self, limit_s, *, node_count):
        return f"-O tide.ebb={limit_s / node_count:g}"

    def schedule(self, context, *, random):
        return [Fault(id=0, nemesis=self.name, begins_s=1, ends_s=1 + context.time_limit_s / 2, nodes=("n1",))]


class Secret(Tide):
    name = "secret"
    allowed_by = None


@pytest.fixture
def from_outside(tmp_path):
    (tmp_path / "tides.py").write_text("from test_allowance import Secret, Tide\n")
    entries = {"nemeses": {"tide": "tides:Tide", "secret": "tides:Secret"}}
    with plugins.on_path(plugins.distribution(tmp_path, entries), Path(__file__).parent):
        yield


@pytest.mark.usefixtures("from_outside")
def test_a_nemesis_from_outside_is_allowed_by_the_word_it_brings():
    plan = replace(PLAN, nemeses=("tide",))
    document = {"provider": "ssh", "nodes": ({"address": "10.0.0.1"}, {"address": "10.0.0.2"}, {"address": "10.0.0.3"})}
    check_plan(plan, ClusterFile.model_validate(document | {"allow": ("disk",)}))
    assert refusals(plan, allowing("kill"))[0].startswith('--nemesis tide needs "disk"')
    deep = replace(plan, options={"tide.depth": "all"})
    assert [(need.word, need.by) for need in asked(deep)] == [
        ("disk", "--nemesis tide"),
        ("kill", "-O tide.depth=all"),
    ]
    assert refusals(replace(plan, time_limit_s=400), allowing("disk"))[0].endswith("or ask for -O tide.ebb=20")


@pytest.mark.usefixtures("from_outside")
def test_a_nemesis_that_declares_no_word_is_refused():
    (said,) = refusals(replace(PLAN, nemeses=("secret",)), allowing(*EVERYTHING))
    assert said.startswith('nemesis "secret" declares no word of allow')


def test_a_word_that_no_installed_nemesis_brings_is_refused():
    with pytest.raises(ValidationError, match="no word"):
        ClusterFile.model_validate({"provider": "docker", "allow": ("disk",)})


def test_an_unknown_nemesis_is_refused_by_name():
    with pytest.raises(PlanError, match='unknown nemesis "earthquake"'):
        asked(replace(PLAN, nemeses=("earthquake",)))


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
    ("workload", "held_s", "advice"),
    [("schema-churn", 120, "--time-limit 60"), ("create-table", 480, "--time-limit 15")],
)
def test_a_cut_lasts_as_long_as_the_main_phase_may(workload, held_s, advice):
    plan = replace(PLAN, workloads=(workload,), options={"mode": "partition"}, time_limit_s=120)
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
