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


def reload(outcome="ok", *, begins=40, ends=60, snapshots=None, **parameters):
    value = {"operation": 1, "nodes": [], "becomes": {}, "parameters": {**_PARAMETERS, **parameters}}
    if snapshots is not None:
        value["effect"] = {"snapshots": snapshots}
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
        pytest.param(insert(10, 1, consistency="ONE"), "ok", [], LOST, id="of which there was one copy"),
        pytest.param(insert(55, 1), "ok", [], LOST, id="written to the new table"),
        pytest.param([*insert(10, 1), *delete(20, 1)], "ok", [], [], id="deleted before it"),
        pytest.param([*insert(10, 1), *delete(20, 1)], "ok", [1], BACK, id="deleted before it, and back"),
        pytest.param([*insert(10, 1), *delete(45, 1)], "ok", [1], [], id="deleted between snapshot and drop"),
        pytest.param([*insert(10, 1), *delete(39, 1)], "ok", [1], [], id="deleted as it began"),
        pytest.param([*insert(10, 1), *delete(55, 1)], "ok", [1], [], id="deleted before it was loaded"),
        pytest.param([*insert(10, 1), *delete(60, 1)], "ok", [1], [], id="deleted as it ended"),
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


TAKEN = {"n1": 0.002, "n2": 0.004, "n3": 0.006}
"""The snapshots begin at 42, 44 and 46 ms, and the DROP at 50."""


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        pytest.param(insert(40, 1), LOST, id="all began after its answer"),
        pytest.param(insert(41, 1), LOST, id="all but one did, and two have it"),
        pytest.param(insert(42, 1), LOST, id="all but one did, just before the second"),
        pytest.param(insert(43, 1), [], id="two did not, and may be those that have it"),
        pytest.param(insert(47, 1), [], id="none did"),
        pytest.param(insert(43, 1, consistency="ALL"), LOST, id="two did not, and all three have it"),
        pytest.param(insert(45, 1, consistency="ALL"), [], id="none did, and all three have it"),
        pytest.param(insert(40, 1, consistency="ONE"), LOST, id="one has it, whose snapshot began later"),
        pytest.param(insert(41, 1, consistency="ONE"), [], id="one has it, whose snapshot began before"),
        pytest.param(insert(41, 1, consistency="LOCAL_QUORUM"), [], id="how many have it is not known"),
        pytest.param(insert(41, 1, consistency="ANY"), [], id="it may be a hint"),
        pytest.param(insert(41, 1, "info"), [], id="nobody vouched for it"),
        pytest.param([*insert(41, 1), *delete(47, 1)], [], id="deleted between snapshot and drop"),
        pytest.param(insert(49, 1), [], id="written as it was dropped"),
    ],
)
def test_what_was_acknowledged_before_enough_snapshots_began_is_put_back(written, expected):
    assert found(written, reload(snapshots=TAKEN), exchange(), read(80)) == expected
    assert found(written, reload(snapshots=TAKEN), exchange(), read(80, 1)) == []
    assert found(written, reload("info", snapshots=TAKEN), exchange(), read(80)) == []


@pytest.mark.parametrize(
    ("snapshots", "expected"),
    [
        pytest.param(TAKEN, LOST, id="noted"),
        pytest.param(None, [], id="not noted"),
        pytest.param({}, [], id="of no node"),
        pytest.param("n1", [], id="no map"),
        pytest.param({**TAKEN, "n3": None}, [], id="no time"),
        pytest.param({**TAKEN, "n3": True}, [], id="no number"),
        pytest.param({**TAKEN, "n3": -0.001}, [], id="before it began"),
        pytest.param({**TAKEN, "n3": 0.021}, [], id="after it ended"),
    ],
)
def test_times_that_are_not_noted_or_cannot_be_true_explain_as_much_as_before(snapshots, expected):
    assert found(insert(41, 1), reload(snapshots=snapshots), exchange(), read(80)) == expected
    assert found(insert(10, 1), reload(snapshots=snapshots), exchange(), read(80)) == LOST


def test_a_row_that_one_snapshot_may_have_need_not_be_met_by_a_quorum():
    def at(consistency, written):
        return found(written, reload(snapshots=TAKEN), exchange(), read(80, consistency=consistency))

    assert at("QUORUM", insert(10, 1)) == at("QUORUM", insert(40, 1)) == at("ALL", insert(41, 1)) == LOST
    assert at("QUORUM", insert(41, 1)) == []
    assert at("QUORUM", insert(43, 1, consistency="ALL")) == []
    assert at("QUORUM", insert(55, 1)) == LOST, "written to the new table"


def test_a_drop_before_the_last_snapshot_removes_for_good():
    for snapshots in (TAKEN, {**TAKEN, "n3": 0.01}):
        begun = 45 if snapshots is TAKEN else 50
        assert found(insert(41, 1), reload(snapshots=snapshots), exchange(begun), read(80)) == []
    assert found(insert(10, 1), reload(snapshots=TAKEN), exchange(45), read(80)) == []


def test_snapshots_may_begin_and_end_with_the_reload():
    """One from its first moment on misses what went on then; of one as late as its end, no DROP can come after it."""
    assert found(insert(39, 1), reload(snapshots={"n1": 0}), exchange(), read(80)) == LOST
    assert found(insert(39, 1), reload(snapshots={"n1": 0, "n2": 0}), exchange(), read(80)) == []
    assert found(insert(10, 1), reload(snapshots={**TAKEN, "n3": 0.020}), exchange(), read(80)) == []


def test_a_drop_that_ends_with_the_reload_may_have_come_after_the_load():
    assert found(insert(10, 1), reload(), exchange(58), read(80)) == LOST
    assert found(insert(10, 1), reload(), exchange(59), read(80)) == []


def test_steps_of_a_reload_are_not_its_end():
    step = ['@45 -- info operation-step {"operation": 1, "step": "loading"}']
    assert found(insert(10, 1), reload(), step, exchange(), read(80)) == LOST
    assert found(insert(10, 1), reload(), ["@45 -- info operation-step {}"], exchange(), read(80)) == LOST


def test_how_many_replicas_have_a_row_is_not_known_where_their_number_changed():
    moved = [
        '@5 p5 n1 invoke alter-keyspace k {"replication": {"class": "SimpleStrategy", "replication_factor": 1}}',
        "@6 p5 n1 ok",
    ]
    assert found(moved, insert(41, 1), reload(snapshots=TAKEN), exchange(), read(80)) == []
