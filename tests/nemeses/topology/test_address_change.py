"""Changed addresses: all members at once, tried again until all serve, and only where nodes can have others."""

from __future__ import annotations

from dataclasses import replace

import pytest
from changing_cluster import ChangingCluster

from schemaquake.harness.model.context import Context
from schemaquake.harness.model.protocols import TopologyNemesis
from schemaquake.harness.model.topology import ChangesAddresses
from schemaquake.harness.registry import load
from schemaquake.nemeses.topology import attempts

CONTEXT = Context(seed=7, nodes=("n1", "n2", "n3"), spares=("n4",), time_limit_s=100)


class Movable(ChangingCluster):
    def __init__(self, *arguments, reason=None, **named):
        super().__init__(*arguments, **named)
        self.reason = reason

    def cannot_readdress(self):
        return self.reason

    def readdress(self, names, *, limit_s):
        self.asked.append(("readdress", tuple(names), limit_s))
        for name in names:
            self.by_name[name].address = f"10.0.1.{name[1:]}"
        return self._attempt("readdress", names[0])


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    monkeypatch.setattr(attempts, "pause_for", lambda _seconds: None)


def carried_out(cluster, **given):
    nemesis = load("nemeses", "address-change")
    context = replace(CONTEXT, options={f"address-change.{name}": text for name, text in given.items()})
    (operation,) = nemesis.schedule(context, random=context.random("nemesis", "address-change"))
    return nemesis.operate(cluster, operation), operation, nemesis


def test_every_member_gets_another_address_and_no_spare_that_has_not_joined():
    cluster = Movable(CONTEXT.nodes, CONTEXT.spares)
    done, operation, nemesis = carried_out(cluster, limit_s="60")
    assert isinstance(nemesis, TopologyNemesis)
    assert isinstance(cluster, ChangesAddresses)
    assert (done.type, done.error) == ("ok", None)
    assert cluster.asked == [("readdress", CONTEXT.nodes, 60.0)]
    assert done.value["addresses"] == {name: [f"10.0.0.{name[1:]}", f"10.0.1.{name[1:]}"] for name in CONTEXT.nodes}
    assert operation.parameters["takes_down"] is True
    assert set(operation.nodes) == {*CONTEXT.nodes, *CONTEXT.spares}


def test_a_spare_that_has_joined_moves_with_the_others():
    cluster = Movable((*CONTEXT.nodes, "n4"))
    carried_out(cluster)
    assert cluster.asked[0][1] == ("n1", "n2", "n3", "n4")


@pytest.mark.parametrize(("answers", "outcome", "asked"), [(["info", "ok"], "ok", 2), (["info"] * 9, "info", 4)])
def test_nodes_that_do_not_serve_are_started_again(answers, outcome, asked):
    cluster = Movable(CONTEXT.nodes, answers=answers)
    done, *_ = carried_out(cluster)
    assert (done.type, len(cluster.asked)) == (outcome, asked)


def test_where_addresses_cannot_change_nothing_is_planned():
    nemesis = load("nemeses", "address-change")
    assert nemesis.missing(Movable(CONTEXT.nodes)) is None
    assert nemesis.missing(Movable(CONTEXT.nodes, reason="too old")) == "too old"
    assert nemesis.missing(ChangingCluster(CONTEXT.nodes)) is not None
    none_runs = Movable((), CONTEXT.nodes)
    assert (carried_out(none_runs)[0].type, none_runs.asked) == ("fail", [])
