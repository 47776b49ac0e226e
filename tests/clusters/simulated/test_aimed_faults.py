"""A kill or a pause between any two steps of a protocol leaves a sound design sound."""

from __future__ import annotations

import pytest
from simulated_runs import FIVE, SCYLLA, SIX, plan_of, simulate

from schemaquake.clusters.simulated.models.gossiped_ring import GossipedRing
from schemaquake.clusters.simulated.models.group0 import Group0
from schemaquake.clusters.simulated.models.metadata_log import MetadataLog
from schemaquake.clusters.simulated.models.migrations import Migrations
from schemaquake.clusters.simulated.models.rows import Rows
from schemaquake.clusters.simulated.models.sequences import Sequences
from schemaquake.clusters.simulated.models.topology_coordinator import Coordinator
from schemaquake.clusters.simulated.provider import SimulatedProvider, list_steps
from schemaquake.harness.errors import PlanError

QUICK = {"6.0/commit/k4", "4.0/apply/e1", "group0/apply/g7b"}
RING = {*Sequences.steps, *GossipedRing.steps, *Coordinator.steps}
"""Steps that a change of the ring comes to (`test_ring_changes`)."""
CASES = [
    pytest.param(system, step, id=step, marks=() if step in QUICK else pytest.mark.long)
    for system, model in ((FIVE, Rows), (SIX, MetadataLog), (SCYLLA, Group0), ("simulated:cassandra-0.7", Migrations))
    for step in model.steps
    if step not in RING
]


@pytest.mark.parametrize(("system", "step"), CASES)
@pytest.mark.parametrize("fault", ["kill.at", "pause.at"])
def test_a_fault_at_a_step_breaks_nothing(tmp_path, system, step, fault):
    options = {"bugs": "none", fault: f"{step}@7"}
    run = simulate(tmp_path, "schema-churn", system=system, seed=3, options=options, rate=20, time_limit_s=15)
    assert dict(run.types) == {}


def test_the_server_at_the_step_is_the_one_that_falls(tmp_path):
    run = simulate(
        tmp_path, "schema-churn", seed=3, options={"kill.at": "4.0/apply/e5"}, rate=20, time_limit_s=15, restart="none"
    )
    assert ["4.0/apply/e5", "kill", 1] in run.books["crashes"]


def test_an_unknown_step_is_refused(tmp_path):
    plan = plan_of("schema-churn", options={"kill.at": "4.0/apply/e99"})
    provider = SimulatedProvider()
    provider.runtime(plan)
    with pytest.raises(PlanError, match="no such step"):
        provider.create(plan, tmp_path)


def test_steps_are_listed_with_their_model():
    steps = list_steps()
    assert steps["4.0/apply/e5"] == "rows"
    assert steps["group0/apply/g7b"] == "group0"
    assert steps["6.0/commit/k5"] == "metadata_log"
