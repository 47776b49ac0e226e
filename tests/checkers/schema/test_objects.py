"""Objects: resurrected, vanished, unexplained; and the orders of events that allow what is seen."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from histories import judged

from schemaquake.checkers.schema.objects import Objects
from schemaquake.harness.model.verdict import Anomaly, Verdict

KEYSPACE = ("@1 p90 n1 invoke create-keyspace k", "@2 p90 n1 ok")
CREATE = ("@3 p91 n1 invoke create-table k.t a:int*", "@4 p91 n1 ok")
DROP = ("@10 p0 n1 invoke drop-table k.t", "@12 p0 n1 ok")
THERE = ("settled n1,n2 keyspace k", "settled n1,n2 table k.t id=1 a:int*")
GONE = ("settled n1,n2 keyspace k",)


def verdict(history: Sequence[str], observations: Sequence[str]) -> Verdict:
    return Objects().check(judged([*KEYSPACE, *history], observations), limit_s=5)


def finding(history: Sequence[str], observations: Sequence[str]) -> Anomaly:
    (found,) = verdict(history, observations).anomalies
    return found


# ── dropped, and there ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_table_that_exists_after_its_last_drop_is_resurrected() -> None:
    found = finding([*CREATE, *DROP], THERE)
    assert found.type == "resurrected-object"
    assert found.objects == ("k.t",)
    assert found.nodes == ("n1", "n2")
    assert found.ops == (4,)


def test_a_table_that_is_gone_after_its_drop_is_valid() -> None:
    assert verdict([*CREATE, *DROP], GONE).valid is True


def test_one_node_that_still_has_it_is_enough() -> None:
    found = finding([*CREATE, *DROP], [*GONE, "settled n2 table k.t id=1 a:int*"])
    assert found.nodes == ("n2",)


@pytest.mark.parametrize(
    "again",
    [
        pytest.param(["@11 p1 n2 invoke create-table k.t a:int*", "@13 p1 n2 ok"], id="concurrent"),
        pytest.param(["@14 p1 n2 invoke create-table k.t a:int*", "@15 p1 n2 ok"], id="later"),
        pytest.param(["@5 p1 n2 invoke create-table k.t a:int*", "@6 p1 n2 info timed out"], id="of unknown outcome"),
        pytest.param(["@5 p1 n2 invoke create-table k.t a:int*", "@10 p1 n2 ok"], id="in the same instant"),
    ],
)
def test_a_possible_create_beside_or_after_the_drop_explains_it(again: Sequence[str]) -> None:
    assert verdict([*CREATE, *DROP, *again], THERE).valid is True


def test_free_text_leaves_a_doubt() -> None:
    create = ['@5 p1 n2 invoke cql k {"statement": "CREATE TABLE k.t …"}', "@20 p1 n2 ok"]
    assert verdict([*CREATE, *DROP, *create], THERE).valid == "unknown"
    for key in ("k ", "", "x "):
        drop = [f'@10 p1 n2 invoke cql {key}{{"statement": "DROP TABLE k.t"}}', "@12 p1 n2 ok"]
        assert verdict([*CREATE, *drop], GONE).valid == "unknown"


@pytest.mark.parametrize(
    "again",
    [
        pytest.param(["@5 p1 n2 invoke create-table k.t a:int*", "@9 p1 n2 ok"], id="before"),
        pytest.param(["@14 p1 n2 invoke create-table k.t a:int*", "@15 p1 n2 fail AlreadyExists"], id="failed"),
        pytest.param(
            ['@14 p1 n2 invoke create-table k.t a:int* {"if_not_exists": true}', '@15 p1 n2 ok {"applied": false}'],
            id="no-op of IF NOT EXISTS",
        ),
        pytest.param(["@14 p1 n2 invoke create-table k.s a:int*", "@15 p1 n2 fail Unavailable"], id="other table"),
    ],
)
def test_a_create_that_cannot_have_come_after_the_drop_does_not(again: Sequence[str]) -> None:
    assert finding([*CREATE, *DROP, *again], THERE).type == "resurrected-object"


@pytest.mark.parametrize(
    "answer", ["@12 p0 n1 fail InvalidRequest", "@12 p0 n1 info timed out"], ids=["failed", "unknown"]
)
def test_a_drop_that_was_not_acknowledged_demands_nothing(answer: str) -> None:
    assert verdict([*CREATE, DROP[0], answer], THERE).valid is True


@pytest.mark.parametrize(
    ("kind", "create", "shown"),
    [
        ("type", "create-type k.u f0:int", "type k.u f0:int"),
        ("function", 'create-function k.u {"arguments": [], "returns": "int", "body": ""}', "function k.u"),
        (
            "aggregate",
            'create-aggregate k.u {"arguments": [], "state_function": "f", "state_type": "int"}',
            "aggregate k.u",
        ),
        ("view", 'create-view k.u {"base": "t", "primary_key": ["a"]}', "view k.u id=7 a:int*"),
        ("index", "create-index k.u t a", 'table k.t id=1 a:int* {"indexes": {"u": {"target": "a"}}}'),
    ],
)
def test_every_kind_of_object_can_be_resurrected_and_vanish(kind: str, create: str, shown: str) -> None:
    made = [*CREATE, f"@5 p1 n1 invoke {create}", "@6 p1 n1 ok"]
    dropped = [f"@10 p0 n1 invoke drop-{kind} k.u", "@12 p0 n1 ok"]
    seen = [*THERE[:1], f"settled n1,n2 {shown}", *([] if kind == "index" else THERE[1:])]
    assert finding([*made, *dropped], seen).type == "resurrected-object"
    assert verdict(made, seen).valid is True
    assert finding(made, THERE).type == "vanished-object"
    assert verdict([*made, *dropped], THERE).valid is True


LOG = 'settled n1,n2 version v7 {"epoch": 7}'
INDEXED = 'table k.t id=1 a:int* x:int y:int {"indexes": {"i": {"kind": "COMPOSITES", "target": "x"}}}'


def index(at: int, name: str, column: str, answer: str = 'ok {"applied": true}') -> list[str]:
    guarded = ' {"if_not_exists": true}' if answer != "ok" else ""
    return [f"@{at} p{at} n2 invoke create-index k.{name} t {column}{guarded}", f"@{at + 1} p{at} n2 {answer}"]


@pytest.mark.parametrize(
    ("name", "column", "begins", "answer", "log", "vanished"),
    [
        pytest.param("j", "x", 19, 'ok {"applied": true}', [LOG], False, id="its coordinator was behind the log"),
        pytest.param("j", "values(x)", 19, 'ok {"applied": true}', [LOG], False, id="on the values of that column"),
        pytest.param("j", "x", 19, 'ok {"applied": null}', [], False, id="what came of it was not told"),
        pytest.param("j", "x", 16, 'ok {"applied": true}', [LOG], False, id="begun as the other ended"),
        pytest.param("j", "y", 19, 'ok {"applied": true}', [LOG], True, id="on another column"),
        pytest.param("j", "x", 10, 'ok {"applied": true}', [LOG], True, id="before the other"),
        pytest.param("j", "x", 19, "ok", [LOG], True, id="without IF NOT EXISTS"),
        pytest.param("j", "x", 19, 'ok {"applied": true}', [], True, id="no log decides"),
        pytest.param("i", "y", 19, 'ok {"applied": true}', [LOG], False, id="another of its name"),
    ],
)
def test_an_index_that_found_another_on_its_column_need_not_be_there(
    name: str, column: str, begins: int, answer: str, log: Sequence[str], *, vanished: bool
) -> None:
    history = [*CREATE, "@15 p5 n1 invoke create-index k.i t x", "@16 p5 n1 ok"]
    lines = sorted([*history, *index(begins, name, column, answer)], key=lambda line: int(line[1:].split()[0]))
    shown = [*log, THERE[0], f"settled n1,n2 {INDEXED}"]
    assert [one.type for one in verdict(lines, shown).anomalies] == (["vanished-object"] if vanished else [])


NONE = [LOG, THERE[0], "settled n1,n2 table k.t id=1 a:int* x:int y:int"]


@pytest.mark.parametrize(
    ("more", "vanished"),
    [
        pytest.param([], ["k.i", "k.j"], id="nothing removed either"),
        pytest.param(["@30 p30 n1 invoke drop-index k.i", "@31 p30 n1 ok"], [], id="one was found and dropped"),
        pytest.param(["@30 p30 n1 invoke drop-index k.i", "@31 p30 n1 info"], [], id="one may have been dropped"),
        pytest.param(["@30 p30 n1 invoke drop-index k.i", "@31 p30 n1 fail"], ["k.i", "k.j"], id="no DROP was made"),
        pytest.param(["@13 p30 n1 invoke drop-index k.i", "@14 p30 n1 ok"], ["k.i", "k.j"], id="dropped before"),
    ],
)
def test_one_of_two_indexes_that_may_have_found_each_other_is_there(
    more: Sequence[str], vanished: Sequence[str]
) -> None:
    lines = sorted(
        [*CREATE, *index(15, "i", "x"), *index(16, "j", "x"), *more], key=lambda line: int(line[1:].split()[0])
    )
    assert [one.objects for one in verdict(lines, NONE).anomalies] == [(each,) for each in vanished]
    beside = [LOG, THERE[0], f"settled n2 {INDEXED}", "settled n1 table k.t id=1 a:int* x:int y:int"]
    if vanished:
        assert [(one.objects, one.nodes) for one in verdict(lines, beside).anomalies] == [(("k.i",), ("n1",))]


def test_a_table_and_a_view_that_may_have_found_each_other_are_not_both_gone() -> None:
    base = ["@5 p5 n1 invoke create-table k.b a:int*", "@6 p5 n1 ok"]
    table = ['@10 p1 n1 invoke create-table k.t a:int* {"if_not_exists": true}', '@12 p1 n1 ok {"applied": true}']
    view = [
        '@11 p2 n2 invoke create-view k.t {"base": "b", "primary_key": ["a"], "if_not_exists": true}',
        '@13 p2 n2 ok {"applied": true}',
    ]
    lines = [*base, table[0], view[0], table[1], view[1]]
    shown = [LOG, THERE[0], "settled n1,n2 table k.b id=1 a:int*"]
    assert [one.objects for one in verdict(lines, shown).anomalies] == [("k.t",), ("k.t",)]
    for there in ("table k.t id=2 a:int*", "view k.t id=2 a:int*"):
        assert verdict(lines, [*shown, f"settled n1,n2 {there}"]).valid is True


def test_an_index_on_a_table_of_another_keyspace_is_another_one() -> None:
    other = ["@5 p5 n1 invoke create-index j.i t x", "@6 p5 n1 info"]
    shown = [LOG, *THERE]
    for answer in ('ok {"applied": true}', 'ok {"applied": null}'):
        assert finding([*CREATE, *other, *index(9, "j", "x", answer)], shown).objects == ("k.j",)


# ── keyspaces ────────────────────────────────────────────────────────────────────────────────────────────────────────

DROP_KEYSPACE = ("@10 p0 n1 invoke drop-keyspace k", "@12 p0 n1 ok")
RACING_CREATE = ("@10 p1 n2 invoke create-table k.t1 a:int*", "@12 p1 n2 ok")


def test_a_keyspace_that_a_racing_create_table_brings_back_is_resurrected() -> None:
    found = finding(
        [*CREATE, *DROP_KEYSPACE, *RACING_CREATE], ["settled n1 keyspace k", "settled n1 table k.t1 id=2 a:int*"]
    )
    assert found.type == "resurrected-object"
    assert found.objects == ("k",)
    assert found.evidence["contents"] == {"settled": {"n1": ["table k.t1"]}}
    assert "T2 may have, but creates no keyspace k" in found.explanation


def test_that_the_racing_create_table_vanished_with_the_keyspace_is_legal() -> None:
    assert verdict([*CREATE, *DROP_KEYSPACE, *RACING_CREATE], ["settled n1,n2 version"]).valid is True


def test_a_keyspace_created_anew_is_valid_but_its_former_tables_are_not() -> None:
    anew = ("@14 p2 n1 invoke create-keyspace k", "@15 p2 n1 ok")
    assert verdict([*CREATE, *DROP_KEYSPACE, *anew], ["settled n1 keyspace k"]).valid is True
    found = finding([*CREATE, *DROP_KEYSPACE, *anew], ["settled n1 keyspace k", "settled n1 table k.t id=1 a:int*"])
    assert found.objects == ("k.t",)


def test_what_is_in_a_resurrected_keyspace_is_told_with_it() -> None:
    found = finding([*CREATE, *DROP_KEYSPACE], THERE)
    assert found.objects == ("k",)


def test_a_table_with_a_drop_of_its_own_is_told_apart() -> None:
    assert len(verdict([*CREATE, *DROP, *DROP_KEYSPACE_LATER], THERE).anomalies) == 2


DROP_KEYSPACE_LATER = ("@20 p3 n1 invoke drop-keyspace k", "@22 p3 n1 ok")


def test_a_vanished_keyspace_is_told_once_and_not_for_everything_in_it() -> None:
    found = finding(CREATE, ["settled n1,n2 version"])
    assert found.type == "vanished-object"
    assert found.objects == ("k",)


# ── created, and not there ───────────────────────────────────────────────────────────────────────────────────────────


def test_an_acknowledged_table_that_is_not_there_has_vanished() -> None:
    found = finding(CREATE, GONE)
    assert found.type == "vanished-object"
    assert found.objects == ("k.t",)
    assert found.ops == (2,)


def test_a_table_missing_on_one_node_has_vanished_there() -> None:
    found = finding(CREATE, [*GONE, "settled n2 table k.t id=1 a:int*"])
    assert found.nodes == ("n1",)


@pytest.mark.parametrize("answer", ["@4 p91 n1 info timed out", "@4 p91 n1 fail Unavailable"])
def test_a_create_that_was_not_acknowledged_may_be_missing(answer: str) -> None:
    assert verdict([CREATE[0], answer], GONE).valid is True


@pytest.mark.parametrize(
    "removal",
    [
        pytest.param(["@10 p1 n2 invoke drop-table k.t", "@12 p1 n2 info timed out"], id="drop of unknown outcome"),
        pytest.param(["@1 p1 n2 invoke drop-table k.t", "@3 p1 n2 ok"], id="concurrent drop"),
    ],
)
def test_a_possible_drop_beside_or_after_the_create_explains_it(removal: Sequence[str]) -> None:
    assert verdict([*CREATE, *removal], GONE).valid is True


@pytest.mark.parametrize(
    "removal",
    [
        pytest.param(["@10 p1 n2 invoke drop-table k.t", "@12 p1 n2 fail InvalidRequest"], id="failed"),
        pytest.param(["@1 p1 n2 invoke drop-table k.t", "@2 p1 n2 ok"], id="before"),
        pytest.param(["@10 p1 n2 invoke drop-column k.t c", "@12 p1 n2 ok"], id="only a column"),
        pytest.param(['@10 p1 n2 invoke cql x {"statement": "DROP TABLE l.t"}', "@12 p1 n2 ok"], id="elsewhere"),
        pytest.param(['@10 p1 n2 invoke cql k {"statement": "UPDATE k.t SET c = 1"}', "@12 p1 n2 ok"], id="a write"),
    ],
)
def test_what_cannot_have_dropped_it_does_not(removal: Sequence[str]) -> None:
    assert finding([*CREATE, *removal], GONE).type == "vanished-object"


def test_an_index_goes_with_its_table_and_with_its_column() -> None:
    made = [*CREATE, "@5 p1 n1 invoke create-index k.i t c", "@6 p1 n1 ok"]
    assert finding(made, THERE).objects == ("k.i",)
    assert verdict([*made, *DROP], GONE).valid is True
    assert verdict([*made, "@7 p2 n1 invoke drop-column k.t c", "@8 p2 n1 ok"], THERE).valid is True
    assert verdict([*made, "@7 p2 n1 invoke drop-column k.t d", "@8 p2 n1 ok"], THERE).valid is False


def test_an_index_that_outlives_its_table_is_resurrected() -> None:
    made = [*CREATE, "@5 p1 n1 invoke create-index k.i t c", "@6 p1 n1 ok"]
    again = ("@14 p2 n2 invoke create-table k.t a:int*", "@15 p2 n2 ok")
    seen = ["settled n1 keyspace k", 'settled n1 table k.t id=2 a:int* {"indexes": {"i": {"target": "c"}}}']
    assert finding([*made, *DROP, *again], seen).objects == ("k.i",)


# ── there, and never created ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_table_whose_every_create_failed_is_unexplained() -> None:
    found = finding([CREATE[0], "@4 p91 n1 fail AlreadyExists"], THERE)
    assert found.type == "unexplained-object"
    assert found.ops == (0, 2)
    assert "T2 failed" in found.explanation


def test_a_table_that_nobody_asked_for_is_unexplained() -> None:
    assert finding((), THERE).type == "unexplained-object"


@pytest.mark.parametrize(
    "keyspace",
    [
        pytest.param(["@1 p90 n1 invoke create-keyspace k", "@2 p90 n1 info timed out"], id="perhaps not created"),
        pytest.param(
            ['@1 p90 n1 invoke create-keyspace k {"if_not_exists": true}', "@2 p90 n1 ok"], id="perhaps a no-op"
        ),
        pytest.param([], id="not created"),
    ],
)
def test_in_a_keyspace_that_may_be_older_than_the_run_nothing_is_unexplained(keyspace: Sequence[str]) -> None:
    assert Objects().check(judged(keyspace, THERE), limit_s=5).valid is True


def test_what_a_server_keeps_behind_an_index_or_a_log_needs_no_create() -> None:
    made = [*CREATE, "@5 p1 n1 invoke create-index k.i t c", "@6 p1 n1 ok"]
    seen = [
        "settled n1 keyspace k",
        'settled n1 table k.t id=1 a:int* {"indexes": {"i": {"target": "c"}}}',
        'settled n1 view k.i_index id=2 c:int* {"derived_from": "i"}',
        'settled n1 table k.t_log id=3 a:int* {"derived_from": "t"}',
    ]
    assert verdict(made, seen).valid is True


@pytest.mark.parametrize("seen", ["view k.i_index id=2 c:int*", "table k.t_log id=3 a:int*"])
def test_what_only_looks_like_that_needs_one(seen: str) -> None:
    made = [*CREATE, "@5 p1 n1 invoke create-index k.i t c", "@6 p1 n1 ok"]
    table = 'settled n1 table k.t id=1 a:int* {"indexes": {"i": {"target": "c"}}}'
    (found,) = verdict(made, ["settled n1 keyspace k", table, f"settled n1 {seen}"]).anomalies
    assert found.type == "unexplained-object"
