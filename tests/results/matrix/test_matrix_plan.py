"""What a matrix is planned to be, and what the command makes of its options."""

from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from schemaquake.harness.errors import HistoryError, PlanError
from schemaquake.harness.model.options import configured
from schemaquake.results.matrix.commands import _resumed, exit_code, planned
from schemaquake.results.matrix.matrix_folder import MatrixFolder
from schemaquake.results.matrix.matrix_plan import Condition, MatrixPlan, Unit, expanded, preset
from schemaquake.results.matrix.tally import Matrix
from schemaquake.results.summary.cell import Cell
from schemaquake.workloads.races.options import racing_options
from schemaquake.workloads.races.racing_ddl import RacingDdl


def unit(plan, *workloads, first_race=4, turn=1):
    return Unit(
        system=plan.systems[0],
        workloads=workloads,
        condition=Condition("barrier"),
        first_race=first_race,
        races=plan.races,
        turn=turn,
    )


PLAN = MatrixPlan(
    systems=("cassandra:5.0.9",), workloads=("drop-type", "add-columns", "schema-churn"), options={"yaml.a": "b"}
)


def test_a_plan_is_read_back_from_its_json_as_it_was():
    assert MatrixPlan.from_json(orjson.loads(orjson.dumps(PLAN.to_json()))) == PLAN


def test_a_plan_of_another_version_is_refused_with_what_differs():
    with pytest.raises(HistoryError, match="moons"):
        MatrixPlan.from_json(PLAN.to_json() | {"moons": 2})


def test_a_run_of_one_kind_goes_on_where_the_last_one_ended_until_the_cluster_is_poisoned():
    run = PLAN.run_plan(unit(PLAN, "drop-type"))
    options = racing_options(run.options)
    assert (run.workloads, run.seed) == (("drop-type",), 1)
    assert (options.first_race, options.races, options.until_poisoned) == (4, 6, True)
    assert run.options["yaml.a"] == "b"


def test_kinds_that_share_a_cluster_take_turns_on_it():
    run = PLAN.run_plan(unit(PLAN, "drop-type", "add-columns"))
    assert run.workloads == ("racing-ddl",)
    assert configured(RacingDdl.options, run.options).only == ("drop-type", "add-columns")
    assert run.options["yaml.a"] == "b"


def test_a_workload_without_races_gets_another_seed_each_time():
    run = PLAN.run_plan(unit(PLAN, "schema-churn", turn=2))
    assert (run.seed, run.options) == (3, {"yaml.a": "b"})


def test_a_workload_that_knows_no_cut_is_refused_across_one():
    with pytest.raises(PlanError, match="--mode is no option of register"):
        MatrixPlan(systems=("cassandra:5.0.9",), workloads=("register",), conditions=(Condition("partition"),))


def test_options_of_races_that_were_given_are_kept_beside_the_matrix_own():
    run = replace(PLAN, options={"patience": "0.5"}).run_plan(unit(PLAN, "drop-type"))
    assert (racing_options(run.options).patience, racing_options(run.options).races) == (0.5, 6)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"systems": ()}, "no system"),
        ({"workloads": ()}, "no workload"),
        ({"confidence": 0}, "--confidence"),
        ({"tries_max": 0}, "--tries-max"),
        ({"systems": ("a:1", "a:1")}, "twice"),
        ({"conditions": (Condition("single"),)}, "control"),
        ({"nodes": 0}, "--nodes"),
        ({"workloads": ("drop-tpye",)}, 'Did you mean "drop-type"'),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_no_matrix_could_mean_is_refused_by_name(changes, said):
    with pytest.raises(PlanError, match=said):
        MatrixPlan(**{"systems": ("cassandra:5.0.9",), "workloads": ("drop-type",), **changes})


def test_the_presets_can_be_planned_and_the_quick_one_is_part_of_the_full_one():
    full, quick = planned("full", {}), planned("quick", {})
    assert len(full.systems) == 15
    assert len(quick.systems) == 5
    assert len(quick.workloads) == 4
    assert set(quick.systems) < set(full.systems)
    assert set(quick.workloads) < set(full.workloads)
    assert preset("full")["time_budget_min"] < 60
    assert preset("quick")["time_budget_min"] < 10


def test_options_outweigh_the_preset():
    plan = planned("quick", {"systems": ("cassandra:5.0.9",), "races": 2, "controls": False})
    assert (plan.systems, plan.races, plan.controls) == (("cassandra:5.0.9",), 2, False)


def test_systems_that_are_named_are_run_once_a_cell_unless_a_confidence_is_asked_for():
    named = {"systems": ("cassandra:5.0.9",), "workloads": ("drop-type",)}
    assert (planned(None, named).tries_max, planned(None, named).controls) == (1, False)
    assert planned(None, {**named, "confidence": 0.2}).tries_max > 1
    with pytest.raises(PlanError, match="no workload"):
        planned(None, {"systems": ("cassandra:5.0.9",)})


def test_racing_ddl_means_every_kind_of_race_and_nothing_else():
    kinds = expanded(["racing-ddl", "drop-type"])
    assert {"drop-type", "create-table", "add-columns"} < set(kinds)
    assert not {"racing-ddl", "schema-churn", "scenario"} & set(kinds)
    assert len(set(kinds)) == len(kinds)


def test_a_matrix_is_resumed_as_it_was_planned_or_not_at_all(tmp_path):
    folder = MatrixFolder.create(tmp_path, PLAN, {}).path
    assert _resumed(folder, None, {}) == PLAN
    assert _resumed(folder, None, {"races": PLAN.races}) == PLAN
    with pytest.raises(PlanError, match="races"):
        _resumed(folder, None, {"races": PLAN.races + 1})
    with pytest.raises(PlanError, match="systems"):
        _resumed(folder, planned("quick", {}), {})
    with pytest.raises(HistoryError):
        _resumed(Path(tmp_path / "nothing"), None, {})


def test_a_session_may_set_another_goal_and_it_is_that_of_the_next_ones(tmp_path):
    command = "schemaquake matrix --system cassandra:5.0.9 --tries-max 4 -O a=b"
    folder = MatrixFolder.create(tmp_path, replace(PLAN, tries_max=4, command=command), {})
    wanted = _resumed(folder.path, None, {"tries_max": 9, "confidence": 0.125})
    assert wanted == replace(
        PLAN,
        tries_max=9,
        confidence=0.125,
        command="schemaquake matrix --system cassandra:5.0.9 --tries-max 9 -O a=b --confidence 0.125",
    )
    assert folder.plan().tries_max == 4, "nothing is written before the folder is locked"
    with folder.alone():
        folder.append_goals(wanted)
        folder.append_goals(wanted)
        with pytest.raises(PlanError, match="another process"), folder.alone():
            pass
    assert (folder.path / "progress.jsonl").read_bytes().count(b"goals") == 1
    folder.replace([])
    assert folder.plan() == _resumed(folder.path, None, {}) == wanted
    with pytest.raises(PlanError, match="--tries-max must be at least 1"):
        _resumed(folder.path, None, {"tries_max": 0})
    with pytest.raises(PlanError, match="seed"):
        _resumed(folder.path, None, {"tries_max": 12, "seed": PLAN.seed + 1})


def cell(state, anomaly=None):
    return Cell(system="a:1", workload="w", mode="barrier", state=state, anomaly=anomaly)


@pytest.mark.parametrize(
    ("states", "controls", "ending", "code"),
    [
        (["held", "not applicable"], [], "known", 0),
        (["held", "broke"], [], "known", 1),
        (["held"], ["broke"], "known", 1),
        (["held", "unknown"], [], "known", 2),
        (["held", "not run"], [], "time is up", 2),
        (["not applicable"], [], "known", 2),
        (["broke"], [], "interrupted", 255),
    ],
    ids=["held", "broke", "a noisy control", "unknown", "not run", "nothing at all", "interrupted"],
)
def test_the_exit_code_is_that_of_the_worst_cell(states, controls, ending, code):
    matrix = Matrix(
        systems=("a:1",),
        rows=(),
        cells=tuple(cell(state) for state in states),
        controls=tuple(cell(state) for state in controls),
        started="",
        command="",
    )
    assert exit_code(matrix, ending) == code


def run_of(plan, condition):
    first = Unit(
        system=plan.systems[0], workloads=plan.workloads[:1], condition=condition, first_race=0, races=1, turn=0
    )
    return plan.run_plan(first)


def test_a_nemesis_may_have_options_of_its_own_behind_colons():
    conditions = (
        Condition("barrier", ("decommission:aim=kill@stream:peer:aim-s=5", "kill")),
        Condition("barrier", ("move",)),
    )
    plan = MatrixPlan(systems=("cassandra:5.0.9",), workloads=("set",), conditions=conditions, nodes=4, spares=1)
    aimed, plain = (run_of(plan, condition) for condition in conditions)
    assert (aimed.nemeses, aimed.options, aimed.spares) == (
        ("decommission", "kill"),
        {"aim": "kill@stream:peer", "aim-s": "5"},
        1,
    )
    assert (plain.nemeses, plain.options) == (("move",), {})
    assert (plan.all_nemeses, plan.all_options) == (("decommission", "kill", "move"), aimed.options)
    assert len({condition.name for condition in conditions}) == 2
    assert MatrixPlan.from_json(plan.to_json()) == plan


@pytest.mark.parametrize("text", ["decommission:kill", "decommission:aim=x,move:aim=y", ":aim=x"])
def test_what_is_no_option_of_a_nemesis_is_refused(text):
    condition = Condition("barrier", tuple(text.split(",")))
    with pytest.raises(PlanError):
        MatrixPlan(systems=("cassandra:5.0.9",), workloads=("set",), conditions=(condition,), nodes=4)


@pytest.mark.parametrize("name", ["topology", "upgrades"])
def test_operations_stand_alone_and_with_a_fault_at_each_of_their_steps(name):
    plan = planned(name, {})
    alone = [one for one in plan.conditions if "aim" not in one.options]
    aimed = [one for one in plan.conditions if "aim" in one.options]
    aims = {one.options["aim"] for one in aimed}
    assert set(preset(name)["aims"]) == aims
    assert len(aimed) == len(preset(name)["nemeses"]) * len(aims)
    assert {one.names for one in aimed} <= {one.names for one in alone}
    assert all(run_of(plan, one).nemeses == one.names for one in plan.conditions)
    assert plan.all_conditions == plan.conditions, "no races, no controls"


def test_operations_on_simulated_systems_alone_are_run_with_a_workload_that_these_have():
    simulated = {"systems": ("simulated:cassandra-5.0", "simulated:cassandra-6.0")}
    assert planned("topology", simulated).workloads == ("quorum",)
    assert planned("topology", {**simulated, "workloads": ("set",)}).workloads == ("set",)
    assert planned("topology", {"systems": ("cassandra:5.0.9",)}).workloads == ("descriptors",)
    assert planned("topology", {}).workloads == ("descriptors",)
