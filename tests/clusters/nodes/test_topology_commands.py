"""Topology commands: the words of nodetool, and what its answers prove."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from schemaquake.clusters.nodes.topology_commands import TopologyCommands
from schemaquake.clusters.systems.configuration import token_at, tokens, tokens_between
from schemaquake.clusters.systems.system import parse_system, recipe_for
from schemaquake.harness.errors import ClusterError, NodeUnreachable
from schemaquake.harness.model.protocols import Boot, Executed


class Node:
    def __init__(self, name, answers=()):
        self.name, self.address, self.answers_left, self.ran = name, f"10.77.0.{name[1:]}", list(answers), []
        self.boot = Boot(node=name, served=True, seconds=1.0)
        self.words = ""
        self.tools = {"nodetool"}

    def has(self, tool):
        if isinstance(self.tools, Exception):
            raise self.tools
        return tool in self.tools

    def manage(self, command, *, timeout_s):
        self.ran.append(" ".join(command.arguments))
        answer = self.answers_left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def state(self):
        return "running"

    def answers(self):
        return True

    def log_text(self):
        return self.words

    def start(self):
        self.ran.append("start")

    def await_serving(self, *, deadline_s):
        return self.boot


class Members:
    def identity(self, node):
        return {"n2": ("host-2", ("17",))}.get(node, (None, ()))


def commands(*answers, system="cassandra:5.0.9"):
    nodes = [Node("n1", answers), Node("n2")]
    return TopologyCommands(nodes, parse_system(system), Members()), nodes


FINE = Executed(0, "", "")


@pytest.mark.parametrize(
    ("system", "verb", "about", "words"),
    [
        ("cassandra:5.0.9", "decommission", None, "decommission"),
        ("cassandra:5.0.9", "remove", "n2", "removenode host-2"),
        ("cassandra:5.0.9", "assassinate", "n2", "assassinate 10.77.0.2"),
        ("cassandra:1.1.12", "remove", "n2", "removetoken 17"),
        ("cassandra:6.0-alpha2", "abort-remove", "n2", "abortremovenode --node host-2"),
        ("cassandra:6.0-alpha2", "abort-join", "n2", "abortbootstrap --ip 10.77.0.2"),
    ],
)
def test_a_change_is_asked_in_the_words_of_its_system(system, verb, about, words):
    change, (first, _) = commands(FINE, system=system)
    assert change.ask(verb, on="n1", about=about, argument=None, limit_s=10).outcome == "ok"
    assert first.ran == [words]


def test_a_negative_token_is_no_option():
    change, (first, _) = commands(FINE)
    change.ask("move", on="n1", about=None, argument="-7", limit_s=10)
    assert first.ran == ["move -- -7"]


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (
            Executed(2, "", "nodetool: Unsupported operation: Not enough live nodes to maintain replication factor"),
            "fail",
        ),
        (Executed(1, "", "error: Node /10.0.0.4:7000 is alive and owns this ID. Use decommission"), "fail"),
        (Executed(2, "", "error: Stream failed\n-- StackTrace --\nis alive and owns this ID"), "info"),
        (Executed(2, "", ""), "info"),
    ],
)
def test_only_an_answer_that_proves_it_is_a_fail(answer, outcome):
    change, _ = commands(answer)
    attempt = change.ask("decommission", on="n1", about=None, argument=None, limit_s=10)
    assert (attempt.outcome, attempt.timed_out) == (outcome, False)
    assert "StackTrace" not in attempt.answer


@pytest.mark.parametrize(
    ("limit_s", "took_s", "timed_out"), [(9, 9.5, True), (9, 9, True), (9, 8.9, False), (0, 0.9, False), (0, 1, True)]
)
def test_a_command_without_an_answer_is_unknown_and_ran_into_its_limit_if_it_took_so_long(
    limit_s, took_s, timed_out, monkeypatch
):
    """A node that cannot be reached says so at once; each command has a second at least."""
    times = itertools.chain([0.0, 0.0, 0.0], itertools.repeat(float(took_s)))
    monkeypatch.setattr("time.monotonic", lambda: next(times))
    change, _ = commands(NodeUnreachable("no answer"))
    attempt = change.ask("decommission", on="n1", about=None, argument=None, limit_s=limit_s)
    assert (attempt.outcome, attempt.seconds, attempt.timed_out) == ("info", took_s, timed_out)


def test_a_dead_node_that_nobody_knew_cannot_be_named():
    change, _ = commands(FINE)
    with pytest.raises(ClusterError):
        change.ask("remove", on="n2", about="n1", argument=None, limit_s=1)


def test_a_verb_that_the_system_lacks_is_said_beforehand():
    change, _ = commands(system="cassandra:5.0.9")
    assert change.cannot("decommission") is None
    assert change.cannot("reconfigure") is not None
    assert commands(system="cassandra:6.0-alpha2")[0].cannot("reconfigure") is None
    assert commands(system="cassandra:0.7.10")[0].cannot_replace() is not None
    with pytest.raises(ClusterError):
        change.ask("reconfigure", on="n1", about=None, argument="1", limit_s=1)


def test_a_tool_that_a_node_lacks_is_said_beforehand():
    change, (first, second) = commands(system="cassandra:5.0.9")
    first.tools = {"nodetool", "sstableloader"}
    assert "n2 has no sstableloader" in change.cannot("load")
    assert change.cannot("import") is None
    second.tools = first.tools
    assert change.cannot("load") is None
    second.tools = NodeUnreachable("no answer")
    assert "no answer" in change.cannot("load")


def test_a_node_that_became_a_version_without_the_tool_is_said_beforehand():
    nodes = [Node("n1"), Node("n2")]
    for node in nodes:
        node.tools = {"nodetool", "sstableloader"}
    now = {}
    change = TopologyCommands(nodes, parse_system("cassandra:5.0.9"), Members(), now=now)
    assert change.cannot("load") is None
    now["n2"] = parse_system("cassandra:6.0-alpha2")
    assert "n2" in change.cannot("load")


@pytest.mark.parametrize(
    ("boot", "outcome", "timed_out"),
    [
        ({"served": True}, "ok", False),
        ({"served": False, "ended": True, "exit_code": 3, "first_error": "Cannot replace a live node"}, "fail", False),
        ({"served": False, "ended": True, "exit_code": 3, "first_error": "stream failed"}, "info", False),
        # A node that still runs may yet join, whatever it logged.
        ({"served": False, "ended": False, "first_error": "Cannot replace a live node"}, "info", True),
    ],
)
def test_a_node_has_joined_when_it_serves(boot, outcome, timed_out):
    change, (_, joining) = commands()
    joining.boot = replace(joining.boot, **boot)
    attempt = change.await_joined(joining, {}, limit_s=1)
    assert (attempt.outcome, attempt.timed_out) == (outcome, timed_out)


def test_a_node_is_dead_when_no_log_says_last_that_it_is_up():
    change, (first, _) = commands()
    first.words = "Node /10.77.0.2:7000 is now UP\n"
    assert "n1" in change.await_dead("n2", limit_s=0)
    first.words += "InetAddress /10.77.0.2:7000 is now DOWN\n"
    assert change.await_dead("n2", limit_s=0) is None


@pytest.mark.parametrize("system", ["cassandra:5.0.9", "cassandra:1.1.12"])
def test_the_token_of_a_spare_halves_the_widest_range(system):
    recipe = recipe_for(parse_system(system))
    founders = list(tokens(recipe, 3))
    ring = sorted([*founders, *tokens_between(recipe, founders, 3)])
    halves = [later - earlier for earlier, later in itertools.pairwise(ring)]
    assert len(halves) == 5
    assert {abs(half - (founders[1] - founders[0]) // 2) <= 2 for half in halves} == {True}
    (fourth,) = set(tokens_between(recipe, ring, 1)) - set(ring)
    assert founders[0] <= fourth < founders[0] + 2**127
    assert token_at(recipe, 0.0) == founders[0]
    assert ring[-1] <= token_at(recipe, 1.0)
