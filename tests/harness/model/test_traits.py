"""Traits: a plugin declares what it likes of itself, and the rest has its default."""

from __future__ import annotations

import pytest

from schemaquake.harness.errors import PlanError
from schemaquake.harness.faults.needs import means_needed
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.model.traits import (
    ClusterTraits,
    NemesisTraits,
    WorkloadTraits,
    cluster_traits,
    lack,
    nemesis_traits,
    workload_traits,
)


class Plain:
    name = "plain"


class Declaring:
    name = "declaring"
    endless = True
    needs = frozenset({"clock", "packets"})
    allowed_by = "clock"
    disturbs = "clock"
    pull_delay_s = 60
    run_name = "run-1"

    def missing(self, cluster):
        return f"{len(cluster.nodes)} nodes have no tide table"


class Cluster:
    nodes = ("n1", "n2")

    def __init__(self, *means):
        self._means = means

    def missing(self, means):
        return None if means in self._means else f"no {means}"


def test_what_is_not_declared_has_its_default():
    assert workload_traits(Plain()) == WorkloadTraits(endless=False, samples_setup=True)
    assert nemesis_traits(Plain()) == NemesisTraits(needs=frozenset(), allowed_by=None, disturbs=None)
    assert cluster_traits(Plain()) == ClusterTraits(pull_delay_s=0, run_name=None)


def test_what_is_declared_counts():
    assert workload_traits(Declaring()).endless
    declared = NemesisTraits(needs=frozenset({"clock", "packets"}), allowed_by="clock", disturbs="clock")
    assert nemesis_traits(Declaring()) == declared
    assert cluster_traits(Declaring()) == ClusterTraits(pull_delay_s=60, run_name="run-1")


@pytest.mark.parametrize(
    ("field", "value"), [("needs", "clock"), ("needs", ["clock"]), ("allowed_by", 3), ("disturbs", b"clock")]
)
def test_a_declaration_of_another_type_is_refused_by_name(field, value):
    nemesis = Plain()
    setattr(nemesis, field, value)
    with pytest.raises(PlanError, match=rf"Plain\.{field} is .*; it must be of type"):
        nemesis_traits(nemesis)


def test_a_nemesis_lacks_the_means_it_needs_before_it_is_asked_itself():
    assert lack(Plain(), Cluster()) is None
    assert lack(Declaring(), Cluster("packets")) == "no clock"
    assert lack(Declaring(), Cluster("packets", "clock")) == "2 nodes have no tide table"


def test_a_plan_needs_the_means_of_all_its_nemeses():
    plan = Plan(system="cassandra:5.0.9", workloads=("register",), nemeses=("clock", "kill", "error-injection"))
    assert means_needed(plan) == {"clock", "signals"}
