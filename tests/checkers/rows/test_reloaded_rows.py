"""Reloaded rows: a reload puts back what its own DROP removed, and nothing else; each plant has a twin that is legal."""

from __future__ import annotations

import json

import pytest
from histories import judged

from schemaquake.checkers.rows.acked_rows import AckedRows

SETUP = (
    "@1 p90 n1 invoke create-keyspace k",
    "@2 p90 n1 ok",
    "@3 p91 n1 invoke create-table k.t k:int* v:int",
    "@4 p91 n1 ok",
)
EVERYWHERE = ("@1 settled n1,n2,n3 keyspace k", "@1 settled n1,n2,n3 table k.t id=bb k:int* v:int")
_PARAMETERS = {"reloads": True, "keyspace": "k", "table": "t"}


def insert(at, key, outcome="ok", consistency="QUORUM"):
    row = {"row": {"k": key, "v": key}, "consistency": consistency}
    return [f"@{at} p{at} n1 invoke insert k.t {json.dumps(row)}", f"@{at + 1} p{at} n1 {outcome}"]


def delete(at, key, outcome="ok"):
    where = {"where": {"k": key}, "consistency": "QUORUM"}
    return [f"@{at} p{at} n1 invoke delete-row k.t {json.dumps(where)}", f"@{at + 1} p{at} n1 {outcome}"]


def exchange(at=50):
    """The DROP and the CREATE that the reload asks for."""
    return [
        f"@{at} p{at} n1 invoke drop-table k.t",
        f"@{at + 1} p{at} n1 ok",
        f"@{at + 2} p{at + 2} n1 invoke create-table k.t k:int* v:int",
        f"@{at + 3} p{at + 2} n1 ok",
    ]


def reload(outcome="ok", *, begins=40, ends=60, **parameters):
    value = {"operation": 1, "parameters": {**_PARAMETERS, **parameters}}
    begin = f"@{begins} -- invoke reload-table {json.dumps(value)}"
    return [begin] if outcome is None else [begin, f"@{ends} -- {outcome} reload-table {json.dumps(value)}"]


def read(at, *keys, consistency="ALL"):
    rows = ", ".join(json.dumps({"k": key, "v": key}) for key in keys)
    value = f'{{"consistency": "{consistency}", "phase": "settled", "columns": null}}'
    return [f"@{at} p{at} n1 invoke read-rows k.t {value}", f'@{at + 1} p{at} n1 ok {{"rows": [{rows}]}}']


def found(*lines):
    history = [*SETUP, *(text for line in lines for text in line)]
    verdict = AckedRows().check(judged(history, EVERYWHERE), limit_s=5)
    return [(one.type, one.evidence["kind"]) for one in verdict.anomalies]


LOST, BACK = [("lost-rows", "missing")], [("resurrected-rows", "removed")]


@pytest.mark.parametrize(
    ("written", "outcome", "shown", "expected"),
    [
        pytest.param(insert(10, 1), "ok", [1], [], id="put back"),
        pytest.param(insert(10, 1), "ok", [], LOST, id="not put back"),
        pytest.param(insert(10, 1), "info", [], [], id="nobody knows whether it was loaded"),
        pytest.param(insert(10, 1), "info", [1], [], id="loaded, though nobody was told"),
        pytest.param(insert(10, 1), None, [], [], id="no end was noted"),
        pytest.param(insert(10, 1), None, [1], [], id="no end was noted, and it is there"),
        pytest.param(insert(10, 1, "info"), "ok", [], [], id="a write that nobody vouched for"),
        pytest.param(insert(10, 1, consistency="ANY"), "ok", [], [], id="a write that may be a hint"),
        pytest.param(insert(39, 1), "ok", [], [], id="acknowledged as it began"),
        pytest.param(insert(45, 1), "ok", [], [], id="written beside it, before the drop"),
        pytest.param(insert(45, 1), "ok", [1], [], id="written beside it, and in a snapshot"),
        pytest.param(insert(55, 1), "ok", [], LOST, id="written to the new table"),
        pytest.param([*insert(10, 1), *delete(20, 1)], "ok", [], [], id="deleted before it"),
        pytest.param([*insert(10, 1), *delete(20, 1)], "ok", [1], BACK, id="deleted before it, and back"),
        pytest.param([*insert(10, 1), *delete(45, 1)], "ok", [1], [], id="deleted between snapshot and drop"),
        pytest.param([*insert(10, 1), *delete(39, 1)], "ok", [1], [], id="deleted as it began"),
        pytest.param([*insert(10, 1), *delete(55, 1)], "ok", [1], [], id="deleted before it was loaded"),
        pytest.param([*insert(10, 1), *delete(62, 1)], "ok", [1], BACK, id="deleted after it"),
        pytest.param([*insert(10, 1), *delete(62, 1)], "ok", [], [], id="deleted after it, and gone"),
    ],
)
def test_a_reload_puts_back_what_its_own_drop_removed(written, outcome, shown, expected):
    assert found(written, reload(outcome), exchange(), read(80, *shown)) == expected


def test_a_drop_that_is_not_the_reloads_own_removes_for_good():
    earlier = exchange(20)
    assert found(insert(10, 1), earlier, reload(), exchange(), read(80)) == []
    assert found(insert(10, 1), earlier, reload(), exchange(), read(80, 1)) == BACK
    assert found(insert(10, 1), reload(), exchange(), exchange(64), read(80)) == []
    assert found(insert(10, 1), reload(), exchange(), exchange(64), read(80, 1)) == BACK


def test_two_reloads_put_everything_back_twice():
    second = [line.replace('"operation": 1', '"operation": 2') for line in reload(begins=62, ends=74)]
    both = (reload(), exchange(), second, exchange(64))
    assert found(insert(10, 1), *both, read(80, 1)) == []
    assert found(insert(10, 1), *both, read(80)) == LOST


@pytest.mark.parametrize("parameters", [{"table": "u"}, {"keyspace": "j"}, {"reloads": False}])
def test_an_operation_on_another_table_puts_nothing_back(parameters):
    assert found(insert(10, 1), reload(**parameters), exchange(), read(80)) == []
    assert found(insert(10, 1), reload(**parameters), exchange(), read(80, 1)) == BACK


def test_a_reload_that_was_refused_dropped_nothing():
    assert found(insert(10, 1), reload("fail"), read(80)) == LOST
    assert found(insert(10, 1), reload("fail"), exchange(64), read(80, 1)) == BACK
