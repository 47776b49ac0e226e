"""What is read once on the cluster is read by those who take part, also when some nodes have left."""

from __future__ import annotations

from dataclasses import replace

import pytest
from test_steps_stay_the_same import DIGESTS, FEATURES

from schemaquake.harness.model.context import Context
from schemaquake.harness.model.protocols import Worker
from schemaquake.harness.model.steps import Invoke
from schemaquake.harness.registry import load
from schemaquake.workloads.one_a_node import share

NODES = ("n1", "n2", "n3", "n4")
CONTEXT = Context(seed=3, nodes=NODES, crew=8, features=FEATURES, options={"races": "5", "partitions": "40"}, rate=1)


def final_reads(name, taking_part, *, alone):
    """What the workers on these nodes read; `alone`: without what every node reads for itself."""
    workload, context = load("workloads", name), replace(CONTEXT, taking_part=taking_part)
    asked = {}
    for worker in workload.crew(context):
        if taking_part is None or worker.node in taking_part:
            for step in workload.steps("final", worker, context, phase_label="restarted"):
                if isinstance(step, Invoke):
                    asked.setdefault((step.f, step.key, repr(step.value)), set()).add(worker.node)
    return {what for what, nodes in asked.items() if not alone or len(nodes) == 1}


@pytest.mark.parametrize("name", DIGESTS)
@pytest.mark.parametrize("left", [{"n1"}, {"n2", "n4"}, {"n1", "n2"}])
def test_nothing_is_left_unread_because_its_reader_has_left(name, left):
    everything = final_reads(name, None, alone=False)
    assert final_reads(name, frozenset(NODES) - left, alone=False) == everything
    assert final_reads(name, frozenset(NODES), alone=False) == everything


@pytest.mark.parametrize("name", ["create-table", "schema-churn", "register", "batch", "descriptors"])
def test_there_are_workloads_that_share_their_reads(name):
    assert final_reads(name, None, alone=True)


def test_shares_are_dealt_in_turn_and_are_everything_together():
    context = replace(CONTEXT, taking_part=frozenset({"n1", "n3", "n4", "n5"}))
    shares = [list(share(range(7), Worker(index, node), context)) for index, node in enumerate(NODES)]
    assert shares == [[0, 3, 6], [], [1, 4], [2, 5]]
    assert list(share(range(7), Worker(4, "n1"), context)) == [], "a second worker on a node has none"
    assert list(share(range(7), Worker(1, "n2"), replace(context, taking_part=None))) == [1, 5]
