"""The cut of mode `partition`: whom it parts, and that a plan asks for it."""

from __future__ import annotations

import pytest

from schemaquake.harness.errors import PlanError
from schemaquake.harness.faults.needs import means_needed
from schemaquake.harness.faults.requests import nemeses_of, requested_faults
from schemaquake.harness.model.plan import Plan
from schemaquake.workloads.races.cut import cut


def test_a_cut_parts_the_isolated_from_the_rest_both_ways() -> None:
    fault = cut(("n2",), ("n1", "n2", "n3"))
    assert fault.nodes == ("n1", "n2", "n3")
    assert fault.parameters == {"grudge": {"n1": ["n2"], "n2": ["n1", "n3"], "n3": ["n2"]}, "ports": "storage"}


@pytest.mark.parametrize("isolated", [(), ("n1", "n2", "n3"), ("n9",)])
def test_a_cut_needs_known_nodes_on_either_side(isolated: tuple[str, ...]) -> None:
    with pytest.raises(PlanError, match=r"a node on either side|no such node"):
        cut(isolated, ("n1", "n2", "n3"))


@pytest.mark.parametrize("workload", ["drop-type", "racing-ddl", "scenario", "schema-churn"])
def test_a_plan_asks_for_the_cut_in_mode_partition_alone(workload: str) -> None:
    def plan(mode: str, *more: str) -> Plan:
        options = {"mode": mode, "isolated": "n3"}
        return Plan(system="cassandra:5.0.9", workloads=(workload, *more), nemeses=("kill",), options=options)

    assert requested_faults(plan("partition", "create-table")) == [cut(("n3",), ("n1", "n2", "n3"))], "once"
    assert nemeses_of(plan("partition")) == ("kill", "partition")
    assert means_needed(plan("partition")) == {"packets", "signals"}
    assert not requested_faults(plan("barrier"))
    assert not requested_faults(plan("single"))


def test_the_seed_alone_says_who_is_cut_off() -> None:
    def isolated(seed: int) -> str:
        plan = Plan(
            system="cassandra:5.0.9", workloads=("drop-type",), nodes=5, seed=seed, options={"mode": "partition"}
        )
        (fault,) = requested_faults(plan)
        (alone,) = (name for name, dropped in fault.parameters["grudge"].items() if len(dropped) == 4)
        return alone

    assert isolated(1) == isolated(1)
    assert {isolated(seed) for seed in range(40)} == {"n1", "n2", "n3", "n4", "n5"}
