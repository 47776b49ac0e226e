"""Aims: what `-O aim=` means, and what the seed draws of it."""

from __future__ import annotations

from random import Random

import pytest

from schemaquake.harness.errors import PlanError
from schemaquake.harness.model.aim import STEPS, Aim
from schemaquake.harness.model.context import Context
from schemaquake.harness.model.protocols import Fault
from schemaquake.harness.registry import load
from schemaquake.nemeses.topology.aims import aim_at

CONTEXT = Context(seed=7, nodes=("n1", "n2", "n3", "n4"), spares=("n5",), time_limit_s=100)


def aimed(text, *, nodes=("n3",), seed=1):
    return aim_at(text, nodes, CONTEXT, Random(seed), hold_s=4)


def test_a_fault_hits_the_operation_s_own_node_another_member_or_the_one_that_is_named():
    assert aimed("kill@START") == Aim(nemesis="kill", step="START", nodes=("n3",), hold_s=4)
    assert aimed("pause@stream:n5").nodes == ("n5",)
    assert {aimed("kill@MID:peer", seed=seed).nodes for seed in range(50)} == {("n1",), ("n2",), ("n4",)}
    # Of a replacement the node that takes the place, and not the dead one; of no node in particular any member.
    assert aimed("kill@START", nodes=("n3", "n5")).nodes == ("n5",)
    assert aimed("kill@START", nodes=()).nodes[0] in CONTEXT.nodes


def test_a_partition_cuts_the_node_off_from_all_others_also_one_that_joins():
    aim = aimed("partition@START", nodes=("n5",))
    assert aim.nodes == ("n1", "n2", "n3", "n4", "n5")
    assert aim.parameters["grudge"]["n5"] == ["n1", "n2", "n3", "n4"]
    assert all(aim.parameters["grudge"][node] == ["n5"] for node in CONTEXT.nodes)


@pytest.mark.parametrize(
    "text", ["kill", "kill@", "@START", "clock@START", "kill@BEGIN", "kill@START:n9", "kill@START:"]
)
def test_what_cannot_be_aimed_is_refused(text):
    with pytest.raises(PlanError, match="aim="):
        aimed(text)


def test_the_seed_draws_every_part_of_any():
    drawn = [aimed("any", seed=seed) for seed in range(200)]
    assert {aim.step for aim in drawn} == set(STEPS)
    assert {aim.nemesis for aim in drawn} == {"kill", "pause", "partition"}
    assert {"n3" in aim.nodes for aim in drawn} == {True, False}
    assert aimed("any", seed=3) == aimed("any", seed=3)


def test_an_operation_is_planned_with_its_aim_and_without_one_as_before():
    nemesis = load("nemeses", "decommission")

    def planned(**options):
        context = Context(seed=7, nodes=CONTEXT.nodes, time_limit_s=100, options=options)
        (operation,) = nemesis.schedule(context, random=context.random("nemesis", "decommission"))
        return operation

    plain, aiming = planned(), planned(**{"aim": "kill@START", "aim-s": "3"})
    assert Aim.of(plain) is None
    assert Aim.of(aiming) == Aim(nemesis="kill", step="START", nodes=plain.nodes, hold_s=3.0)
    assert (aiming.nodes, aiming.begins_s) == (plain.nodes, plain.begins_s)
    assert Aim.of(Fault(id=0, nemesis="x", begins_s=0, ends_s=1, nodes=())) is None
