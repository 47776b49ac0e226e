from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemaquake.harness.errors import PlanError
from schemaquake.harness.model.protocols import Context, Nemesis
from schemaquake.harness.registry import load_all
from schemaquake.nemeses.clock.clock_skew import ClockSkew
from schemaquake.nemeses.network.grudges import BUILDERS
from schemaquake.nemeses.network.packet_loss import PacketLoss
from schemaquake.nemeses.network.partition import Partition
from schemaquake.nemeses.process.kill import Kill
from schemaquake.nemeses.process.pause import Pause
from schemaquake.nemeses.process.restart import Restart
from schemaquake.nemeses.process.rolling_restart import RollingRestart
from schemaquake.nemeses.process.stop import Stop
from schemaquake.nemeses.schedule.targets import TARGETS, choose

NEMESES: list[Nemesis] = [
    ClockSkew(), Kill(), PacketLoss(), Partition(), Pause(), Restart(), RollingRestart(), Stop()
]  # fmt: skip
DOWN = [Kill(), Pause(), Restart(), Stop()]

contexts = st.builds(
    Context,
    seed=st.integers(0, 2**32),
    nodes=st.integers(2, 9).map(lambda count: tuple(f"n{i}" for i in range(1, count + 1))),
    time_limit_s=st.floats(2, 900),
)


def plan(nemesis, context):
    return nemesis.schedule(context, random=context.random("nemesis", nemesis.name))


def context(nodes=3, **fields):
    return Context(seed=7, nodes=tuple(f"n{i}" for i in range(1, nodes + 1)), **fields)


def named(nemesis):
    return nemesis.name


def test_every_nemesis_is_registered_under_its_own_name():
    registered = load_all("nemeses")
    assert {nemesis.name: type(nemesis) for nemesis in NEMESES}.items() <= {
        n: type(i) for n, i in registered.items()
    }.items()


@pytest.mark.parametrize("nemesis", NEMESES, ids=named)
@given(context=contexts)
def test_the_same_seed_plans_the_same_faults(nemesis, context):
    assert plan(nemesis, context) == plan(type(nemesis)(), context)


@pytest.mark.parametrize("nemesis", NEMESES, ids=named)
@given(context=contexts)
def test_faults_follow_one_another_with_quiet_between_and_end_before_the_limit(nemesis, context):
    faults = plan(nemesis, context)
    assert [fault.id for fault in faults] == list(range(len(faults)))
    assert faults
    quiet_since = 0.0
    for fault in faults:
        assert quiet_since < fault.begins_s < fault.ends_s < context.time_limit_s
        assert fault.nemesis == nemesis.name
        assert fault.nodes
        assert set(fault.nodes) <= set(context.nodes)
        quiet_since = fault.ends_s


@pytest.mark.parametrize("nemesis", NEMESES, ids=named)
def test_other_seeds_plan_other_faults(nemesis):
    plans = [plan(nemesis, replace(context(5, time_limit_s=300), seed=seed)) for seed in range(5)]
    assert all(plans[0] != other for other in plans[1:])


@pytest.mark.parametrize("nemesis", DOWN, ids=named)
@given(context=contexts)
def test_no_majority_is_taken_down_at_once_by_default(nemesis, context):
    tolerable = max(1, (len(context.nodes) - 1) // 2)
    assert all(len(fault.nodes) <= tolerable for fault in plan(nemesis, context))


@pytest.mark.parametrize("nemesis", DOWN, ids=named)
def test_a_majority_is_taken_down_when_it_is_asked_for(nemesis):
    faults = plan(nemesis, context(5, time_limit_s=200, options={f"{nemesis.name}.targets": "majority,all"}))
    assert {len(fault.nodes) for fault in faults} == {3, 5}


def test_long_runs_have_faults_of_five_to_fifteen_seconds():
    lengths = [fault.ends_s - fault.begins_s for fault in plan(Kill(), context(time_limit_s=900))]
    assert len(lengths) > 20
    assert all(5 <= length <= 15 for length in lengths)


@pytest.mark.parametrize("kind", sorted([*BUILDERS, "primaries"]))
def test_every_kind_of_partition_can_be_asked_for(kind):
    faults = plan(Partition(), context(5, options={"partition.targets": kind, "partition.ports": "all"}))
    assert {fault.parameters["target"] for fault in faults} == {kind}
    assert {fault.parameters["ports"] for fault in faults} == {"all"}


def test_partitions_that_need_more_nodes_than_there_are_are_left_out():
    faults = plan(Partition(), context(2, time_limit_s=600))
    assert {fault.parameters["target"] for fault in faults} == {"one", "majority"}
    with pytest.raises(PlanError, match="bridge needs 3"):
        plan(Partition(), context(2, options={"partition.targets": "bridge"}))


def test_primaries_are_those_of_the_command_line():
    faults = plan(Partition(), context(5, options={"partition.targets": "primaries", "primaries": "n4"}))
    assert all(fault.parameters["grudge"]["n4"] == ["n1", "n2", "n3", "n5"] for fault in faults)


def test_packets_suffer_between_each_target_and_everybody_else():
    fault = plan(PacketLoss(), context(options={"packet-loss.targets": "one", "primaries": "n1"}))[0]
    grudge = fault.parameters["grudge"]
    victim = max(grudge, key=lambda name: len(grudge[name]))
    assert grudge == {
        name: [other for other in ("n1", "n2", "n3") if other != name] if name == victim else [victim]
        for name in grudge
    }
    everyone = plan(PacketLoss(), context(options={"packet-loss.targets": "all"}))[0]
    assert everyone.parameters["grudge"] == {"n1": ["n2", "n3"], "n2": ["n1", "n3"], "n3": ["n1", "n2"]}


@given(context=contexts)
def test_offsets_are_within_the_greatest_skew_and_far_enough_from_none(context):
    for fault in plan(ClockSkew(max_skew_s=30), context):
        assert set(fault.parameters["offsets"]) == set(fault.nodes)
        assert all(3 <= abs(offset) <= 30 for offset in fault.parameters["offsets"].values())


@pytest.mark.parametrize(
    ("nemesis", "options", "complaint"),
    [
        (Kill(), {"kill.tragets": "one"}, "no such option. It has: serving_limit_s, targets"),
        (Kill(), {"kill.targets": "everyone"}, 'unknown target "everyone"'),
        (Kill(), {"kill.targets": "minority-third"}, "of 3 nodes is empty"),
        (Kill(), {"kill.serving_limit_s": "soon"}, "the limit in seconds"),
        (Kill(), {"kill.targets": "primaries", "primaries": "n9"}, 'there is no node "n9"'),
        (Restart(), {"restart.how": "unplug"}, '"unplug" is not a way to take a server down'),
        (RollingRestart(), {"rolling-restart.how": "unplug"}, '"unplug" is not a way to take a server down'),
        (Partition(), {"partition.targets": "half"}, 'unknown kind of partition "half"'),
        (Partition(), {"partition.ports": "7000+cql"}, 'ports "7000\\+cql"'),
        (PacketLoss(), {"packet-loss.loss": "20"}, "between 0 and 1"),
        (PacketLoss(), {"packet-loss.loss": "0"}, "nothing would happen"),
        (PacketLoss(), {"packet-loss.delay_ms": "-1"}, "cannot be negative"),
        (ClockSkew(), {"clock.kinds": "drift"}, 'unknown kind "drift"'),
        (ClockSkew(), {"clock.max_skew_s": "5"}, "lies within the tolerance"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_by_name(nemesis, options, complaint):
    with pytest.raises(PlanError, match=complaint):
        plan(nemesis, context(options=options))


@pytest.mark.parametrize(
    ("target", "counts"),
    [("one", [1, 1, 1, 1]), ("minority", [1, 1, 2, 3]), ("majority", [2, 3, 3, 4]), ("all", [3, 4, 5, 7])],
)
def test_targets_are_as_many_as_their_word_says(target, counts):
    assert [len(choose(target, context(nodes), Random(1))) for nodes in (3, 4, 5, 7)] == counts


@given(target=st.sampled_from(TARGETS), seed=st.integers())
def test_targets_are_different_nodes(target, seed):
    chosen = choose(target, context(7), Random(seed))
    assert len(set(chosen)) == len(chosen)
