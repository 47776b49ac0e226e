"""Slow links (`-O slow=`), and logs of 6.0 that become snapshots often (`-O snapshots=often`)."""

from __future__ import annotations

import pytest
from simulated_runs import SCYLLA, SIX, plan_of, simulate

from schemaquake.clusters.simulated.draws import Draws
from schemaquake.clusters.simulated.kernel import Kernel
from schemaquake.clusters.simulated.messages import Message
from schemaquake.clusters.simulated.network import Network
from schemaquake.clusters.simulated.provider import SimulatedProvider
from schemaquake.clusters.simulated.shell import Filters
from schemaquake.clusters.simulated.slow_links import parse_slow_links
from schemaquake.harness.errors import PlanError
from schemaquake.harness.run.event_heap import EventHeap

MS = 1_000_000


class Mailbox:
    def __init__(self, name, heap):
        self.name = self.address = name
        self.filters = Filters()
        self.heap = heap
        self.got = []

    def arrive(self, message):
        self.got.append((self.heap.now_ns // MS, message.body))


def test_messages_take_longer_in_one_direction_and_keep_their_order():
    kernel = Kernel(EventHeap(), Draws(1))
    network = Network(kernel)
    one, other = (Mailbox(name, kernel.heap) for name in ("n1", "n2"))
    network.join(one)
    network.join(other)
    network.slow_down(parse_slow_links({"slow": "n1-n2:300"}, ("n1", "n2")))
    for body in ("first", "second"):
        network.send(one, "n2", Message("n1", "push", body))
        network.send(other, "n1", Message("n2", "push", body))
    kernel.heap.run(lambda: False, until_ns=1_000 * MS)
    assert other.got == [(300, "first"), (300, "second")]
    assert one.got == [(0, "first"), (0, "second")]


@pytest.mark.parametrize("text", ["n1", "n1-n2", "n1-n2:0", "n1-n1:5", "n1-n9:5", "n1-n2:5ms", "n1-n2:100000"])
def test_what_is_no_link_is_refused(text):
    with pytest.raises(PlanError):
        parse_slow_links({"slow": text}, ("n1", "n2"))


def test_a_plan_with_an_unknown_habit_is_refused(tmp_path):
    plan = plan_of("schema-churn", system=SIX, options={"snapshots": "never"})
    provider = SimulatedProvider()
    provider.runtime(plan)
    with pytest.raises(PlanError, match="seldom or often"):
        provider.create(plan, tmp_path)


@pytest.mark.parametrize("system", [SIX, SCYLLA])
def test_a_node_that_hears_late_breaks_nothing(tmp_path, system):
    options = {"bugs": "none", "slow": "n1-n3:400,n2-n3:400"}
    run = simulate(tmp_path, "schema-churn", system=system, seed=2, options=options, rate=8, time_limit_s=8)
    assert dict(run.types) == {}


def test_snapshots_are_taken_often_and_break_nothing(tmp_path):
    options = {"bugs": "none", "snapshots": "often"}
    run = simulate(tmp_path, "schema-churn", "kill", system=SIX, seed=2, options=options, rate=8, time_limit_s=8)
    assert dict(run.types) == {}
    assert any(step == "6.0/follow/l7" for step, *_ in run.books["passages"])
