"""Restarts: an object on which all nodes agreed is the same after they were restarted."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from histories import judged

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
