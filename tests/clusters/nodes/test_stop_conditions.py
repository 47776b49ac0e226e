"""Stop conditions: what says stop, what says go on, and what says nothing."""

from __future__ import annotations

import pytest
from here_transport import HereTransport
from pydantic import ValidationError

from schemaquake.clusters.cluster_file.allowance import check_plan
from schemaquake.clusters.cluster_file.model import ClusterFile, StopIf
from schemaquake.clusters.nodes.stop_conditions import (
    CommandCondition,
    ConsentCondition,
    CqlCondition,
    beyond,
    conditions_of,
    consent_lack,
)
from schemaquake.harness.errors import FaultNotAllowed, NodeUnreachable, PlanError
from schemaquake.harness.model.plan import Plan


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("exit 1", None),
        ("echo p99 is 900 ms; exit 0", "exit code 0, p99 is 900 ms"),
        ("exit 2", "exit code 2"),
        ("kill -9 $$", "exit code -9"),
        ("sleep 60", "it did not end within 0.5 s"),
    ],
)
def test_a_command_says_stop_unless_it_says_go_on(script, said):
    assert CommandCondition(["sh", "-c", script], every_s=1, timeout_s=0.5 if "sleep" in script else 30).ask() == said


def test_a_command_that_is_not_there_says_stop():
    assert (
        CommandCondition(["/no/such/watch"], every_s=1, timeout_s=5).ask()
        == "it could not be run: No such file or directory"
    )


@pytest.mark.parametrize(
    ("bound", "cell", "said"),
    [
        ({"above": 10}, 10, None),
        ({"above": 10}, 10.5, "it is 10.5"),
        ({"above": 10}, "11", "it is 11"),
        ({"below": 1}, 1, None),
        ({"below": 1}, 0, "it is 0"),
        ({"below": 0}, -1, "it is -1"),
        ({"above": 10}, float("nan"), "it is nan"),
        ({"above": 10}, None, None),
        ({"above": 10}, "many", "'many' is no number"),
    ],
)
def test_a_number_beyond_its_bound_says_stop(bound, cell, said):
    condition = StopIf(cql="SELECT v FROM sq_a.t", **bound)
    assert beyond(condition, [{"v": cell, "w": 99}, {"v": 99}]) == said
    assert beyond(condition, []) is None


class Connector:
    def __init__(self, answers):
        self.answers = answers
        self.open = 0

    def connect(self, _node, *, request_timeout_s):
        self.open += 1
        return self

    def read(self, _text):
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return [{"v": answer}]

    def close(self):
        self.open -= 1


def test_a_node_that_does_not_answer_says_nothing_and_is_asked_again_in_a_new_session():
    connector = Connector([1, NodeUnreachable("cut off"), 2, 99])
    condition = CqlCondition(StopIf(cql="SELECT v FROM system_views.x", above=10), "n1", connector)
    assert [condition.ask() for _ in range(3)] == [None, None, None]
    assert condition.ask() == "it is 99"
    condition.close()
    condition.close()
    assert connector.open == 0


@pytest.mark.parametrize(
    "text", ["DROP KEYSPACE prod", "SELECT 1; DROP KEYSPACE prod", "-- x\rDROP KEYSPACE prod", "USE x"]
)
def test_a_condition_in_cql_only_reads(text):
    with pytest.raises(PlanError, match="stop_if cql"):
        conditions_of([StopIf(cql=text, above=1)], connector=Connector([]), nodes=["n1"])


def test_cql_is_asked_of_every_node_and_a_command_once():
    stated = [StopIf(cql="SELECT v FROM a.t", above=1), StopIf(command=("true",))]
    names = [each.name for each in conditions_of(stated, connector=Connector([]), nodes=["n1", "n2"])]
    assert names == ["SELECT v FROM a.t above 1 on n1", "SELECT v FROM a.t above 1 on n2", "true"]


@pytest.mark.parametrize(
    "table",
    [
        {},
        {"command": ("x",), "cql": "SELECT v FROM a.t", "above": 1},
        {"cql": "SELECT v FROM a.t"},
        {"cql": "SELECT v FROM a.t", "above": 1, "below": 0},
        {"command": ("x",), "above": 1},
        {"command": ()},
        {"command": ("x",), "every_seconds": 0},
    ],
)
def test_half_a_condition_is_none(table):
    with pytest.raises(ValidationError):
        StopIf(**table)


# ── consent ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def way(tmp_path):
    way = HereTransport(tmp_path)
    way.tool("stat", "echo 0 644")
    return way


@pytest.mark.parametrize(
    ("content", "words", "lack"),
    [
        ("", {"kill", "clock"}, None),
        ("# all of them\n", {"kill"}, None),
        ("kill, clock\n", {"kill", "clock"}, None),
        ("kill\n# clock\n", {"kill", "clock"}, "does not hold clock"),
        ("none\n", {"kill"}, "does not hold kill"),
    ],
)
def test_a_node_consents_by_its_owners_file(way, tmp_path, content, words, lack):
    path = tmp_path / "consent"
    path.write_text(content)
    found = consent_lack(way, str(path), words)
    assert (found is None) if lack is None else (lack in found)


@pytest.mark.parametrize(("mode", "said"), [("0 666", "may be written by others"), ("0 664", "may be written"), ("1000 644", "does not belong to root"), ("0 600", None)])  # fmt: skip
def test_a_file_that_others_can_write_is_nobodys_word(way, tmp_path, mode, said):
    (tmp_path / "consent").touch()
    way.tool("stat", f"echo {mode}")
    found = consent_lack(way, str(tmp_path / "consent"), {"kill"})
    assert (found is None) if said is None else (said in found)


def test_a_file_that_is_taken_away_says_stop(way, tmp_path):
    path = tmp_path / "consent"
    path.touch()
    condition = ConsentCondition("n1", way, str(path), {"kill"})
    assert condition.ask() is None
    path.unlink()
    assert condition.ask() == f"there is no {path}"


def test_a_node_that_does_not_answer_does_not_take_its_consent_back(tmp_path):
    class Cut(HereTransport):
        def run(self, *_, **__):
            raise NodeUnreachable("cut off")

    assert ConsentCondition("n1", Cut(tmp_path), "/consent", {"kill"}).ask() is None


# ── the plan beforehand ──────────────────────────────────────────────────────────────────────────────────────────────

NODES = tuple({"address": f"10.0.0.{number}"} for number in range(1, 6))


@pytest.mark.parametrize(
    ("nemeses", "restart", "limit", "said"),
    [
        (("kill",), "none", 5, None),
        (("kill",), "none", 0, "takes down"),
        (("clock",), "none", 0, None),
        ((), "rolling", 1, None),
        ((), "rolling", 0, "say --restart none"),
        ((), "together", 4, "say --restart rolling"),
        ((), "together", 5, None),
        (("partition",), "none", 0, "takes down"),
    ],
)
def test_a_plan_that_takes_down_too_many_is_refused_beforehand(nemeses, restart, limit, said):
    words = ("kill", "clock", "partition", "restart", "pause")
    file = ClusterFile(provider="ssh", nodes=NODES, allow=words, max_nodes_down=limit, max_fault_seconds=600)
    plan = Plan(
        system="cassandra:5.0.9", workloads=("register",), cluster="ssh", nodes=5, nemeses=nemeses, restart=restart
    )
    if said is None:
        check_plan(plan, file)
        return
    with pytest.raises(FaultNotAllowed, match=said):
        check_plan(plan, file)
