"""Cancellation: what is asked in which order, and what the outcome of both answers is."""

from __future__ import annotations

import threading

import pytest
from changing_cluster import ChangingCluster

from schemaquake.harness.errors import ClusterError, PlanError
from schemaquake.harness.model.context import Context
from schemaquake.harness.registry import load

CONTEXT = Context(seed=7, nodes=("n1", "n2", "n3", "n4"), spares=("n5",), time_limit_s=100)


class CancellingCluster(ChangingCluster):
    """What is begun ends only when it is cancelled, unless it is `fast`."""

    def __init__(self, *, shown=("stream",), fast=False, **more):
        super().__init__(CONTEXT.nodes, CONTEXT.spares, **more)
        self.shown = shown
        self.may_end = threading.Event()
        if fast:
            self.may_end.set()

    def steps(self, nodes):
        return self.shown

    def ask(self, verb, *, on, about=None, argument=None, limit_s):
        if verb.startswith("abort"):
            attempt = super().ask(verb, on=on, about=about, argument=argument, limit_s=limit_s)
            self.may_end.set()
            return attempt
        assert self.may_end.wait(20)
        return super().ask(verb, on=on, about=about, argument=argument, limit_s=limit_s)

    def join(self, node, *, replacing=None, limit_s):
        attempt = super().join(node, replacing=replacing, limit_s=limit_s)
        assert self.may_end.wait(20)
        return attempt


def carried_out(nemesis, cluster, **options):
    kind = load("nemeses", nemesis)
    context = Context(
        seed=7,
        nodes=CONTEXT.nodes,
        spares=CONTEXT.spares,
        time_limit_s=100,
        options={f"{nemesis}.{k}": v for k, v in options.items()},
    )
    (operation,) = kind.schedule(context, random=context.random("nemesis", nemesis))
    return kind.operate(cluster, operation), kind.becomes(operation), operation


@pytest.mark.parametrize(("kind", "becomes"), [("decommission", "left"), ("move", "normal")])
def test_a_node_that_is_called_back_has_not_changed(kind, becomes):
    # In the order of the ends: the cancellation is answered first.
    abort = {"decommission": "abort-leave", "move": "abort-move"}[kind]
    cluster = CancellingCluster(answers=("ok", "info"), lacks=(f"{abort}-of-dead",))
    done, to_be, operation = carried_out("cancel-sequence", cluster, kind=kind, step="stream")
    (name,) = operation.nodes
    assert (done.type, to_be, done.value["seen"]) == ("fail", {name: becomes}, "stream")
    assert [(verb, on) for verb, on, _ in cluster.asked] == [(abort, name), (kind, name)]
    assert cluster.by_name[name].started == 0


@pytest.mark.parametrize(("kind", "verb"), [("decommission", "abort-leave-of-dead"), ("move", "abort-move-of-dead")])
@pytest.mark.parametrize(("answer", "outcome"), [("ok", "fail"), ("info", "info"), ("fail", "info")])
def test_a_node_is_killed_and_started_again_where_only_another_one_may_call_it_back(kind, verb, answer, outcome):
    class Watching(CancellingCluster):
        def await_dead(self, node, *, limit_s):
            assert self.by_name[node].state() == "stopped"
            self.waited_for = node
            self.shown = ()  # a dead node shows no step, so its start is not waited for
            return super().await_dead(node, limit_s=limit_s)

    cluster = Watching(answers=(answer, "info"))
    done, _, operation = carried_out("cancel-sequence", cluster, kind=kind, step="START")
    (name,) = operation.nodes
    (asked, on, about), _ = cluster.asked
    assert (asked, about, on != name, cluster.waited_for) == (verb, name, True, name)
    assert (done.type, cluster.by_name[name].state(), cluster.by_name[name].started) == (outcome, "running", 1)
    assert [attempt["command"] for attempt in done.value["attempts"]] == [kind, verb, "restart"]
    assert operation.parameters["takes_down"] is True


def test_an_operation_that_was_faster_is_ok_and_nothing_is_cancelled():
    cluster = CancellingCluster(shown=(), fast=True)
    done, _, _ = carried_out("cancel-sequence", cluster, kind="decommission")
    assert (done.type, done.error) == ("ok", None)
    assert [verb for verb, *_ in cluster.asked] == ["decommission"]


@pytest.mark.parametrize(
    ("answers", "outcome"), [(("info", "info"), "info"), (("info", "ok"), "ok"), (("ok", "ok"), "ok")]
)
def test_the_outcome_is_known_only_if_the_cancellation_or_the_end_was_acknowledged(answers, outcome):
    cluster = CancellingCluster(answers=answers, lacks=("abort-leave-of-dead",))
    done, _, _ = carried_out("cancel-sequence", cluster, kind="decommission")
    assert done.type == outcome


def test_an_error_of_what_was_begun_is_the_operation_s_own():
    class Refusing(CancellingCluster):
        def ask(self, verb, *, on, about=None, argument=None, limit_s):
            if verb == "decommission":
                raise ClusterError("it has no such command")
            return super().ask(verb, on=on, about=about, argument=argument, limit_s=limit_s)

    with pytest.raises(ClusterError, match="no such command"):
        carried_out("cancel-sequence", Refusing(shown=()), kind="decommission")


def test_a_joining_node_is_killed_and_forgotten():
    cluster = CancellingCluster()
    cluster.answers.extend(["info", "ok"])  # the join is answered when it is killed, and asked for first
    done, to_be, _ = carried_out("abort-bootstrap", cluster, step="START")
    assert to_be == {"n5": "normal"}
    assert cluster.by_name["n5"].state() == "stopped"
    assert [verb for verb, *_ in cluster.asked] == ["join", "abort-join"]
    assert done.type == "fail"


@pytest.mark.parametrize(("answer", "outcome"), [("ok", "fail"), ("fail", "info"), ("info", "info")])
def test_a_joining_node_is_dead_for_the_others_before_they_are_told_to_forget_it(answer, outcome):
    class Watching(CancellingCluster):
        def await_dead(self, node, *, limit_s):
            assert self.by_name[node].state() == "stopped"
            self.asked.append(("await-dead", node, None))
            return super().await_dead(node, limit_s=limit_s)

    cluster = Watching(answers=("info", answer))
    done, _, _ = carried_out("abort-bootstrap", cluster, step="START")
    assert [verb for verb, *_ in cluster.asked] == ["join", "await-dead", "abort-join"]
    assert done.type == outcome


def test_a_step_that_there_is_not_is_refused():
    with pytest.raises(PlanError, match="step"):
        carried_out("abort-bootstrap", CancellingCluster(), step="BEGIN")
    with pytest.raises(PlanError):
        carried_out("cancel-sequence", CancellingCluster(), kind="bootstrap")
