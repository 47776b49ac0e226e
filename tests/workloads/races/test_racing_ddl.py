"""Many kinds of race in one run: which, how many, and in which order."""

from __future__ import annotations

import pytest
from crew_at_work import FEATURES, carry_out
from racing_context import racing_context, with_racing

from schemaquake.harness.errors import NotApplicable, PlanError
from schemaquake.harness.model.protocols import Context
from schemaquake.harness.model.steps import Invoke, Note
from schemaquake.harness.model.traits import workload_traits
from schemaquake.workloads.races.engine import HARMLESS, POISONS, REFUSES, STALLS
from schemaquake.workloads.races.options import Mode
from schemaquake.workloads.races.racing_ddl import RACING, RacingDdl

CONTEXT = racing_context(seed=5, nodes=("n1", "n2", "n3"), features=FEATURES, races=4)
DISTURBANCE = {
    (race.workload, race.number): race.disturbance for workload in RACING for race in workload.races(CONTEXT)
}


def noted(context: Context) -> list[tuple[str, int]]:
    """The races, in the order in which they are run."""
    done = carry_out(RacingDdl(), "main", context)
    return [(one.step.value["workload"], one.step.value["number"]) for one in done if isinstance(one.step, Note)]


@pytest.mark.parametrize("mode", ["barrier", "partition"])
def test_every_workload_runs_all_its_races(mode: Mode) -> None:
    context = with_racing(CONTEXT, mode=mode, isolated=("n3",) if mode == "partition" else ())
    assert sorted(noted(context)) == sorted((workload.name, number) for workload in RACING for number in range(4))


def test_workloads_take_turns_and_what_disturbs_others_comes_last() -> None:
    order = noted(CONTEXT)
    disturbances = [DISTURBANCE[race] for race in order]
    assert disturbances == sorted(disturbances)
    assert set(disturbances) == {HARMLESS, POISONS, STALLS, REFUSES}
    for disturbance in set(disturbances):
        turns = [number for (name, number), how in zip(order, disturbances, strict=True) if how == disturbance]
        assert turns == sorted(turns)


def test_the_seed_decides_whose_turn_comes_first() -> None:
    assert len({tuple(noted(with_racing(CONTEXT, seed=seed))) for seed in range(4)}) == 4


def test_a_race_is_the_same_race_alone_and_among_others() -> None:
    workload = RACING[0]
    alone = carry_out(workload, "setup", CONTEXT)
    among = carry_out(RacingDdl(), "setup", CONTEXT)
    assert {repr(one.step) for one in alone} <= {repr(one.step) for one in among}


@pytest.mark.parametrize("mode", ["barrier", "partition", "single"])
def test_the_setup_needs_no_node_but_the_first(mode: Mode) -> None:
    """The others are not even started while it goes on, where they take over a schema that is there already."""
    context = with_racing(CONTEXT, mode=mode, isolated=("n3",) if mode == "partition" else ())
    racing = RacingDdl()
    assert workload_traits(racing).sets_up_first
    asked = {
        node: any(
            isinstance(step, Invoke)
            for worker in racing.crew(context)
            if worker.node == node
            for step in racing.steps("setup", worker, context, phase_label="")
        )
        for node in context.nodes
    }
    assert asked == {"n1": True, "n2": False, "n3": False}


def test_some_can_be_picked() -> None:
    context = with_racing(CONTEXT, options={"only": "drop-type,create-table"})
    assert {name for name, _ in noted(context)} == {"drop-type", "create-table"}


def test_an_unknown_pick_is_refused_with_what_is_known() -> None:
    with pytest.raises(PlanError, match=r"drop-tpye.*Known: create-table"):
        RacingDdl().crew(with_racing(CONTEXT, options={"only": "drop-tpye"}))


def test_what_the_system_lacks_is_left_out() -> None:
    old = with_racing(CONTEXT, features=frozenset({"keyspaces", "tables", "columns", "options", "indexes"}))
    left_out = {"drop-type", "drop-function", "drop-table-view", "alter-type"}
    assert {name for name, _ in noted(old)} == {workload.name for workload in RACING} - left_out


@pytest.mark.parametrize("options", [{"only": "drop-type"}, {"only": "drop-type,create-table"}])
def test_a_pick_that_the_system_lacks_is_not_applicable(options: dict[str, str]) -> None:
    old = with_racing(CONTEXT, features=frozenset({"keyspaces", "tables"}), options=options)
    with pytest.raises(NotApplicable, match="drop-type cannot be run here: this system has no columns, types"):
        RacingDdl().crew(old)


def test_a_system_without_anything_to_race_is_not_applicable() -> None:
    with pytest.raises(NotApplicable):
        RacingDdl().crew(with_racing(CONTEXT, features=frozenset()))


def test_a_variant_of_one_workload_is_not_asked_of_the_others() -> None:
    assert len(noted(with_racing(CONTEXT, options={"variant": "same"}))) == 4 * len(RACING)
