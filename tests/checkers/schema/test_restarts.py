"""Restarts: an object on which all nodes agreed is the same after they were restarted."""

from __future__ import annotations

from collections.abc import Sequence

import orjson
import pytest
from histories import judged

from schemaquake.checkers.findings.limits import LIMITS
from schemaquake.checkers.schema.divergence import Divergence
from schemaquake.harness.model.verdict import Verdict

HISTORY = (
    *("@1 p90 n1 invoke create-keyspace k", "@2 p90 n1 ok"),
    *("@3 p91 n1 invoke create-table k.t a:int* c:int", "@4 p91 n1 ok"),
)
BEFORE = ("settled,restarted n1,n2,n3 keyspace k", "settled n1,n2,n3 table k.t id=1 a:int* c:int")


def verdict(observations: Sequence[str], history: Sequence[str] = ()) -> Verdict:
    return Divergence().check(judged([*HISTORY, *history], [*BEFORE, *observations]), limit_s=5)


def test_the_same_schema_after_a_restart_is_sound() -> None:
    assert verdict(["restarted n1,n2,n3 table k.t id=1 a:int* c:int"]).valid is True


@pytest.mark.parametrize(
    "shown", ["table k.t id=1 a:int* c:text", "table k.t id=2 a:int* c:int", "table k.s id=1 a:int*"]
)
def test_a_schema_that_a_restart_changed_alike_on_all_nodes_is_found(shown: str) -> None:
    found = verdict([f"restarted n1,n2,n3 {shown}"])
    assert {one.type for one in found.anomalies} == {"changed-by-restart"}
    assert "k.t" in {key for one in found.anomalies for key in one.objects}


@pytest.mark.parametrize(
    "change",
    [
        ("@9 p1 n2 invoke add-column k.t d:int", "@10 p1 n2 info Timeout"),
        ("@10500 p1 n2 invoke add-column k.t d:int", "@10600 p1 n2 ok"),
    ],
)
def test_a_change_that_may_have_come_in_between_leaves_it_undecided(change: Sequence[str]) -> None:
    found = verdict(["restarted n1,n2,n3 table k.t id=1 a:int* c:int d:int"], change)
    assert found.valid == "unknown"
    assert {doubt.objects for doubt in found.doubts} == {("k.t",)}


@pytest.mark.parametrize("asked", ["add-column k.s d:int", "add-column k.t e:int", "drop-keyspace k"])
def test_a_change_without_an_answer_that_leads_elsewhere_is_no_excuse(asked: str) -> None:
    change = (f"@9 p1 n2 invoke {asked}", "@10 p1 n2 info Timeout")
    assert verdict(["restarted n1,n2,n3 table k.t id=1 a:int* c:int d:int"], change).valid is False


def upgraded(node: str) -> list[str]:
    value = {
        "operation": 1,
        "nodes": [node],
        "parameters": {"stage": "node", "to": "b"},
        "becomes": {node: "normal"},
    }
    effect = {"attempts": [], "system": "b", "promises": {"source": "x", "until": "nodes"}}
    told = [orjson.dumps(one).decode() for one in (value, {**value, "effect": effect})]
    return [f"@100 -- {node} invoke rolling-upgrade {told[0]}", f"@200 -- {node} ok rolling-upgrade {told[1]}"]


def row(phase: str, *, column: str = "int", **options: object) -> str:
    return f"{phase} n1,n2,n3 table k.s id=2 a:int* c:{column} {orjson.dumps({'options': options}).decode()}"


ASKED = (
    *("@5 p91 n1 invoke create-table k.s a:int* c:int", "@6 p91 n1 ok"),
    *('@7 p91 n1 invoke alter-options k.s {"options": {"retry": "99PERCENTILE"}}', "@8 p91 n1 ok"),
)


@pytest.mark.parametrize(
    ("shown", "is_sound"),
    [
        pytest.param({"retry": "99PERCENTILE", "chance": 0.1}, True, id="nothing is another"),
        pytest.param({"retry": "99p", "chance": 0.0, "repair": "BLOCKING"}, True, id="it is written in another way"),
        pytest.param({"retry": "50p", "chance": 0.1}, False, id="it was asked for"),
        pytest.param({"chance": 0.1}, False, id="what was asked for is gone"),
        pytest.param({"column": "text", "retry": "99p"}, False, id="a column is no option"),
    ],
)
def test_upgraded_nodes_may_write_options_anew_that_nobody_asked_for(shown: dict, *, is_sound: bool) -> None:
    whole = "restarted n1,n2,n3 table k.t id=1 a:int* c:int"
    readings = [whole, row("settled", retry="99PERCENTILE", chance=0.1), row("restarted", **shown)]
    found = [one.objects for one in verdict(readings, [*ASKED, *upgraded("n1")]).anomalies]
    assert found == ([] if is_sound else [("k.s",)])
    unchanged = shown == {"retry": "99PERCENTILE", "chance": 0.1}
    assert (verdict(readings, ASKED).anomalies == ()) is unchanged, "no node was upgraded"


def test_what_nodes_did_not_agree_on_is_no_news_after_the_restart() -> None:
    before = ["settled n1 version v1", "settled n2,n3 version v2"]
    observations = [
        *before,
        "settled n1 table k.x id=2 a:int*",
        "settled n2,n3 table k.x id=3 a:int*",
        "restarted n1,n2,n3 table k.t id=1 a:int* c:int",
        "restarted n1,n2,n3 table k.x id=3 a:int*",
    ]
    assert {one.type for one in verdict(observations).anomalies} == {"schema-disagreement"}


def test_the_finding_cites_the_changes_of_its_object_and_says_what_is_shown_instead() -> None:
    others = [
        "@5 p91 n1 invoke create-table k.s a:int*",
        "@6 p91 n1 ok",
        "@7 p91 n1 invoke create-table k.u a:int*",
        "@8 p91 n1 ok",
    ]
    more = [
        line
        for at in range(20, 34, 2)
        for line in (f"@{at} p91 n1 invoke add-column k.t c{at}:int", f"@{at + 1} p91 n1 ok")
    ]
    (gone,) = [
        one for one in verdict(["restarted n1,n2,n3 keyspace k"], [*others, *more]).anomalies if one.objects == ("k.t",)
    ]
    assert gone.nodes == ("n1", "n2", "n3")
    assert max(gone.ops) == 20
    assert len(gone.ops) == LIMITS.suspects
    assert "n1, n2 and n3 show none on disk then." in gone.explanation
    (other,) = verdict(["restarted n1,n2,n3 table k.t id=1 a:int* c:text"]).anomalies
    assert "n1, n2 and n3 show another definition of it on disk then." in other.explanation


def test_memory_is_judged_where_nothing_was_read_of_the_disk() -> None:
    def shown(phase: str, comment: str) -> list[str]:
        return [
            f"{phase} n1,n2 keyspace k",
            f"{phase} n1,n2 live k.t CREATE TABLE k.t (a int PRIMARY KEY, c int) WITH comment = '{comment}'",
        ]

    for comment, is_found in (("x", False), ("y", True)):
        records = judged(HISTORY, [*shown("settled", "x"), *shown("restarted", comment)])
        found = [one for one in Divergence().check(records, limit_s=5).anomalies if one.type == "changed-by-restart"]
        assert [one.evidence["place"] for one in found] == (["in memory"] if is_found else [])


def test_a_change_of_another_keyspace_explains_nothing() -> None:
    elsewhere = [
        "@10 p2 n2 invoke create-keyspace z",
        "@10500 p2 n2 ok",
        "@10510 p2 n2 invoke create-table z.t a:int*",
        "@10600 p2 n2 ok",
    ]
    found = verdict(["restarted n1,n2,n3 table k.t id=1 a:int* c:text"], elsewhere)
    assert [one.objects for one in found.anomalies if one.type == "changed-by-restart"] == [("k.t",)]
