from __future__ import annotations

import math
from collections.abc import Sequence
from types import SimpleNamespace

import pytest
from histories import judged
from known_bugs import BUGS, CONTROLS, SETUP, TABLE, TYPE, Bug

from schemaquake.checkers.ddl_order import checker
from schemaquake.checkers.ddl_order.checker import SchemaLinearizability
from schemaquake.checkers.ddl_order.components import Component, Decision, decide
from schemaquake.harness.model.records import Records
from schemaquake.harness.model.verdict import Verdict

NAMED = {bug.name: bug for bug in BUGS}
ORDER_CANNOT_TELL = {
    "B1 on 3.11 - the loser keeps its id until it is restarted",
    "B17 - one integer id for two tables while versions agree",
    "B23 on 6.0 - rows of a clock that was ahead hide an ALTER in the copy of one node",
}


def verdict_of(records: Records, **options: int) -> Verdict:
    return SchemaLinearizability(**options).check(records, limit_s=20)


def check(history: Sequence[str], observations: Sequence[str] = (), *, nodes: str = "n1,n2") -> Verdict:
    """With a reading of every node that has nothing but what `observations` say and keyspace k."""
    shown = [f"settled {nodes} keyspace k", *observations]
    return verdict_of(judged(history, shown))


# ── what is found ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("bug", [bug for bug in BUGS if bug.name not in ORDER_CANNOT_TELL], ids=lambda bug: bug.name)
def test_a_known_bug_has_no_order(bug: Bug) -> None:
    verdict = verdict_of(bug.records())
    assert verdict.valid is False
    for anomaly in verdict.anomalies:
        assert anomaly.type == "non-linearizable-ddl"
        assert anomaly.ops
        assert anomaly.nodes
        assert anomaly.explanation.startswith("Let  ")
        assert "\n     But no order does it: " in anomaly.explanation
        assert anomaly.evidence["why"]


@pytest.mark.parametrize("bug", [NAMED[name] for name in sorted(ORDER_CANNOT_TELL)], ids=lambda bug: bug.name)
def test_a_bug_that_only_ids_show_has_an_order(bug: Bug) -> None:
    assert verdict_of(bug.records()).valid is True


@pytest.mark.parametrize("control", CONTROLS, ids=lambda control: control.name)
def test_its_control_has_an_order(control: Bug) -> None:
    assert verdict_of(control.records()).valid is True


def test_the_witness_is_two_creates_whatever_else_happened() -> None:
    verdict = verdict_of(NAMED["B2 - two definitions of one table"].records())
    (anomaly,) = verdict.anomalies
    assert anomaly.objects == ("k.t",)
    assert anomaly.ops == (2, 3)
    assert anomaly.evidence["contradicts"] == "answers"
    assert anomaly.evidence["why"] == [
        "after T1, T2 cannot come: it is legal only if table k.t does not exist, but table k.t exists (by T1)",
        "after T2, T1 cannot come: it is legal only if table k.t does not exist, but table k.t exists (by T2)",
    ]


RACES = {
    "two creates": (
        "create-table k.s a:int*",
        "create-table k.s a:int*",
        ["settled n1,n2 table k.s id=1 a:int*"],
    ),
    "drop type and create table": (
        "drop-type k.u",
        "create-table k.s a:int* c:frozen<u>",
        ["settled n1,n2 table k.s id=1 a:int* c:frozen<u>"],
    ),
    "drop table and alter table": (
        "drop-table k.t",
        "alter-options k.t comment=x",
        ['settled n1,n2 table k.t id=1 {"options": {"comment": "x"}}', "settled n1,n2 type k.u f0:int"],
    ),
    "two drops": ("drop-table k.t", "drop-table k.t", ["settled n1,n2 type k.u f0:int"]),
    "two adds of one column": (
        "add-column k.t d:int",
        "add-column k.t d:int",
        ["settled n1,n2 table k.t id=1 a:int* c:int v:int d:int", "settled n1,n2 type k.u f0:int"],
    ),
}


@pytest.mark.parametrize("name", RACES)
def test_a_race_that_both_sides_won_has_no_order_and_its_twin_has(name: str) -> None:
    one, other, shown = RACES[name]
    setup = [*SETUP, *TABLE, *TYPE, f"@10 p0 n1 invoke {one}", f"@10 p1 n2 invoke {other}", "@12 p0 n1 ok"]
    base = [] if "k.t " in shown[0] or "drop-table" in one else ["settled n1,n2 table k.t id=0 a:int* c:int v:int"]
    kept = [] if one.startswith("drop-type") or "k.u" in shown[-1] else ["settled n1,n2 type k.u f0:int"]
    both_won = check([*setup, "@12 p1 n2 ok"], [*base, *kept, *shown])
    assert both_won.valid is False
    # One event away: the second side was refused, and the reading shows the first side's outcome.
    outcome = {
        "two creates": shown,
        "drop type and create table": [],
        "drop table and alter table": shown[1:],
        "two drops": shown,
        "two adds of one column": shown,
    }[name]
    assert check([*setup, "@12 p1 n2 fail refused"], [*base, *kept, *outcome]).valid is True


def test_a_change_that_no_reading_shows_has_no_order_unless_it_may_not_have_happened() -> None:
    history = [*SETUP, *TABLE, "@10 p0 n1 invoke add-column k.t d:int"]
    shown = ["settled n1,n2 table k.t id=1 a:int* c:int v:int"]
    lost = check([*history, "@12 p0 n1 ok"], shown, nodes="n1,n2")
    assert lost.valid is False
    assert lost.anomalies[0].evidence["contradicts"] == "readings"
    assert check([*history, "@12 p0 n1 info timed out"], shown).valid is True


def test_nodes_that_show_different_schemas_cannot_both_be_the_end() -> None:
    history = [*SETUP, *TABLE, "@10 p0 n1 invoke add-column k.t d:int", "@12 p0 n1 info timed out"]
    shown = ["settled n1 table k.t id=1 a:int* c:int v:int", "settled n2 table k.t id=1 a:int* c:int v:int d:int"]
    # The change may take effect after the one reading and before the other, as far as anybody knows.
    assert check(history, shown).valid is True
    assert check([*history[:-1], "@12 p0 n1 ok"], shown).valid is False


def test_readings_of_one_phase_overlap_from_its_beginning() -> None:
    history = [*SETUP, *TABLE, "@10 p0 n1 invoke add-column k.t d:int", "@12 p0 n1 info timed out"]
    shown = [
        "@10000 settled n1,n2 keyspace k",
        "@10000 settled n1 table k.t id=1 a:int* c:int v:int d:int",
        "@10005 settled n2 table k.t id=1 a:int* c:int v:int",
    ]
    began = '@9990 -- info phase {"phase": "final-settled", "state": "begins"}'
    # n2 may have answered from before the change, n1 from after it; once the phase is over, that is no excuse.
    assert verdict_of(judged([*history, began], shown)).valid is True
    restarted = ["restarted n1,n2 keyspace k", "restarted n1,n2 table k.t id=1 a:int* c:int v:int"]
    assert verdict_of(judged([*history, began], [*shown, *restarted])).valid is False


def test_real_time_binds_an_order() -> None:
    history = [*SETUP, "@10 p0 n1 invoke create-table k.s a:int*", "@12 p1 n2 invoke drop-table k.s"]
    shown = ["settled n1,n2 table k.s id=1 a:int*"]
    assert check([*history, "@14 p0 n1 ok", "@14 p1 n2 ok"]).valid is True
    later = [*SETUP, "@10 p0 n1 invoke create-table k.s a:int*", "@12 p0 n1 ok"]
    dropped = [*later, "@14 p1 n2 invoke drop-table k.s", "@16 p1 n2 ok"]
    assert check(dropped).valid is True
    assert check(dropped, shown).valid is False


# ── what is left open on purpose ─────────────────────────────────────────────────────────────────────────────────────


def test_a_refusal_proves_nothing() -> None:
    history = [*SETUP, "@10 p0 n1 invoke create-table k.s a:int*", "@12 p0 n1 fail AlreadyExists: k.s"]
    assert check(history).valid is True


DROP_OLD = ("@10 p0 n1 invoke drop-table k.old", "@12 p0 n1 ok")


def test_an_object_that_no_change_created_may_have_been_there_before_but_only_once() -> None:
    assert check(DROP_OLD).valid is True
    assert check([*DROP_OLD, "@14 p1 n2 invoke drop-table k.old", "@16 p1 n2 ok"]).valid is False


def test_in_a_keyspace_that_the_history_created_no_object_is_older() -> None:
    verdict = check([*SETUP, *DROP_OLD])
    assert verdict.valid is False
    assert verdict.anomalies[0].objects == ("k.old",)
    assert check([*SETUP, *DROP_OLD[:1], "@12 p0 n1 info timed out"]).valid is True
    assert check([*SETUP, *DROP_OLD[:1], "@12 p0 n1 fail InvalidRequest: no such table"]).valid is True


@pytest.mark.parametrize(
    "before",
    [
        ["@0 p8 n1 invoke drop-keyspace k", "@3 p8 n1 info timed out"],
        ['@3 p8 n1 invoke cql k {"statement": "CREATE TABLE k.old (a int PRIMARY KEY)"}', "@4 p8 n1 ok"],
    ],
    ids=["perhaps dropped before", "free text"],
)
def test_a_keyspace_that_may_be_older_has_objects_that_are(before: list[str]) -> None:
    history = sorted([*SETUP, *before], key=lambda event: int(event[1:].partition(" ")[0]))
    assert check([*history, *DROP_OLD]).valid is not False


def test_a_keyspace_that_may_have_been_there_makes_nothing_new() -> None:
    guarded = ['@1 p9 n1 invoke create-keyspace k {"if_not_exists": true}', "@2 p9 n1 ok"]
    assert check([*guarded, *DROP_OLD]).valid is True


def test_an_object_that_a_change_needed_was_there() -> None:
    history = ["@10 p0 n1 invoke add-column k.old d:int", "@12 p0 n1 ok"]
    assert check(history, ["settled n1,n2 keyspace k", "settled n1,n2 table k.old id=1 a:int* d:int"]).valid is True
    assert check(history, ["settled n1,n2 keyspace k"]).valid is False


NO_OP = '{"if_not_exists": true}'


@pytest.mark.parametrize(("existed", "valid"), [(True, True), (False, False)], ids=["dropped before", "never there"])
def test_a_no_op_may_be_stale_but_not_made_up(existed: bool, valid: bool) -> None:
    history = list(SETUP)
    if existed:
        history += ["@3 p5 n1 invoke create-table k.s a:int*", "@4 p5 n1 ok"]
        history += ["@5 p5 n1 invoke drop-table k.s", "@6 p5 n1 ok"]
    history += [f"@10 p0 n1 invoke create-table k.s a:int* {NO_OP}", '@12 p0 n1 ok {"applied": false}']
    assert check(history).valid is valid


@pytest.mark.parametrize(
    ("there", "dropped", "valid"),
    [
        ('create-view k.m {"base": "b", "primary_key": ["c", "a"]}', "drop-table k.m", True),
        ('create-view k.m {"base": "b", "primary_key": ["c", "a"]}', "drop-view k.m", False),
        ("create-table k.m a:int*", "drop-view k.m", True),
        ("create-table k.m a:int*", "drop-table k.m", False),
    ],
)
def test_a_drop_if_exists_of_one_kind_says_nothing_of_the_other(there: str, dropped: str, valid: bool) -> None:
    history = [
        *SETUP,
        "@10 p5 n1 invoke create-table k.b a:int* c:int",
        "@11 p5 n1 ok",
        f"@20 p5 n1 invoke {there}",
        "@21 p5 n1 ok",
    ]
    history += [f'@30 p0 n1 invoke {dropped} {{"if_exists": true}}', '@32 p0 n1 ok {"applied": false}']
    history += ["@40 p5 n1 invoke drop-keyspace k", "@41 p5 n1 ok"]
    reading = 'settled n1,n2 version v9 {"authority": "group0"}'
    assert check(history, [reading]).valid is valid


REFUSED = "fail AlreadyExists: Table 'k.s' already exists"


@pytest.mark.parametrize("answer", ['ok {"applied": false}', REFUSED], ids=["no-op", "refused"])
@pytest.mark.parametrize(
    ("dropped", "authority", "valid"),
    [
        ("@6", "group0", False),
        ("@6", "log", True),
        ("@11", "group0", True),
        ("info", "group0", True),
        ("", "group0", True),
    ],
    ids=["dropped before", "where a log does not ask", "dropped meanwhile", "perhaps dropped", "still there"],
)
def test_where_coordinators_ask_first_an_answer_is_of_its_own_time(answer, dropped, authority, valid) -> None:
    history = [*SETUP, "@3 p5 n1 invoke create-table k.s a:int*", "@4 p5 n1 ok"]
    history += [
        f"@10 p0 n2 invoke create-table k.s a:int* {NO_OP if answer[:2] == 'ok' else ''}".rstrip(),
        f"@12 p0 n2 {answer}",
    ]
    if dropped:
        history += [
            "@5 p7 n1 invoke drop-table k.s",
            "@15 p7 n1 info OperationTimedOut" if dropped == "info" else f"{dropped} p7 n1 ok",
        ]
    history.sort(key=lambda event: int(event[1:].partition(" ")[0]))
    history += ["@20 p5 n1 invoke drop-keyspace k", "@21 p5 n1 ok"]
    reading = f'settled n1,n2 version v9 {{"authority": "{authority}"}}'
    assert check(history, [reading]).valid is valid


@pytest.mark.parametrize("error", ["Unauthorized: no permission", "InvalidRequest: Table 'k.s' doesn't exist"])
def test_other_refusals_prove_nothing(error) -> None:
    history = [
        *SETUP,
        "@3 p5 n1 invoke create-table k.s a:int*",
        "@4 p5 n1 ok",
        "@5 p5 n1 invoke drop-table k.s",
        "@6 p5 n1 ok",
    ]
    history += ["@10 p0 n2 invoke create-table k.s a:int*", f"@12 p0 n2 fail {error}"]
    gone = ["@20 p5 n1 invoke drop-keyspace k", "@21 p5 n1 ok"]
    assert check([*history, *gone], ['settled n1,n2 version v9 {"authority": "group0"}']).valid is True
    there = [*history[:-1], f"@12 p0 n2 {REFUSED}", *gone]
    assert check(there, ['settled n1,n2 version v9 {"authority": "group0"}']).valid is False


def test_a_conditional_create_whose_effect_is_not_told_may_have_been_a_no_op() -> None:
    history = [*SETUP, f"@10 p0 n1 invoke create-table k.s a:int* {NO_OP}", "@12 p0 n1 ok"]
    assert check(history).valid is True
    assert check(history, ["settled n1,n2 table k.s id=1 a:int*"]).valid is True


@pytest.mark.parametrize(("authority", "valid"), [("log", True), ("disk", False)])
def test_two_conditional_creates_are_both_told_of_as_changes_where_a_log_decides(authority: str, valid: bool) -> None:
    history = [*SETUP, f"@10 p0 n1 invoke create-table k.s a:int* {NO_OP}"]
    history += ["@11 p1 n2 invoke create-table k.s a:int*", "@12 p1 n2 ok", '@13 p0 n1 ok {"applied": true}']
    history += ["@20 p5 n1 invoke drop-keyspace k", "@21 p5 n1 ok"]
    reading = f'settled n1,n2 version v9 {{"epoch": 9, "authority": "{authority}"}}'
    assert check(history, [reading]).valid is valid


def test_dropping_an_indexed_column_takes_the_index_along() -> None:
    history = [*SETUP, *TABLE, "@10 p0 n1 invoke create-index k.i t c", "@12 p0 n1 ok"]
    history += ["@14 p0 n1 invoke drop-column k.t c", "@16 p0 n1 ok"]
    assert check(history, ["settled n1,n2 table k.t id=1 a:int* v:int"]).valid is True


DESCRIBES = 'settled n1,n2 version v9 {"epoch": null, "memory": "statements"}'
WITHOUT_IT = "settled n1,n2 table k.t id=1 a:int* v:int"
DEPENDENTS = {
    "an index on it": ("create-index k.i t c", []),
    "a view of its table": (
        'create-view k.m {"base": "t", "primary_key": ["v", "a"]}',
        ["settled n1,n2 view k.m id=2 v:int* a:int+"],
    ),
}


@pytest.mark.parametrize(("made", "shown"), DEPENDENTS.values(), ids=DEPENDENTS)
def test_a_server_that_describes_its_memory_drops_no_column_beside(made: str, shown: Sequence[str]) -> None:
    history = [*SETUP, *TABLE, f"@10 p0 n1 invoke {made}", "@12 p0 n1 ok"]
    dropped = [*history, "@14 p1 n2 invoke drop-column k.t c", "@16 p1 n2 ok"]
    assert check(dropped, [DESCRIBES, *shown, WITHOUT_IT]).valid is False
    assert check(dropped, [*shown, WITHOUT_IT]).valid is True, "up to 2.2 the index goes, too"
    perhaps = [*history[:-1], *dropped[-2:]]
    assert check(perhaps, [DESCRIBES, *shown, WITHOUT_IT]).valid is True, "it was asked for, and may have come later"


def test_an_index_that_went_with_its_column_was_not_there_where_a_server_describes_its_memory() -> None:
    """A CREATE INDEX and the DROP of its column at the same time: one of them is refused."""
    race = ["@14 p1 n2 invoke drop-column k.t c", "@15 p0 n1 invoke create-index k.i t c"]
    both = [*SETUP, *TABLE, *race, "@16 p0 n1 ok", "@17 p1 n2 ok"]
    assert check(both, [DESCRIBES, WITHOUT_IT]).valid is False
    assert (
        check([*both[:-2], "@16 p0 n1 fail InvalidRequest: no", "@17 p1 n2 ok"], [DESCRIBES, WITHOUT_IT]).valid is True
    )
    with_both = (
        'settled n1,n2 table k.t id=1 a:int* c:int v:int {"indexes": {"i": {"kind": "COMPOSITES", "target": "c"}}}'
    )
    kept = [*both[:-2], "@16 p0 n1 ok", "@17 p1 n2 fail InvalidRequest: no"]
    assert check(kept, [DESCRIBES, with_both]).valid is True


INDEXED = (
    'settled n1,n2 table k.t id=1 a:int* c:int v:int {{"indexes": {{"i": {{"kind": "COMPOSITES", "target": "{}"}}}}}}'
)


@pytest.mark.parametrize(
    ("first", "second", "target", "valid"),
    [
        ("info OperationTimedOut", "ok", "c", False),
        ("info OperationTimedOut", "ok", "v", True),
        ("ok", "info OperationTimedOut", "c", True),
        ("info OperationTimedOut", "info OperationTimedOut", "c", True),
        ("info OperationTimedOut", "info OperationTimedOut", "values(c)", True),
        ("info OperationTimedOut", "fail AlreadyExists: i", "c", True),
    ],
)
def test_an_index_is_on_the_column_of_the_one_create_that_came_first(
    first: str, second: str, target: str, *, valid: bool
) -> None:
    history = [*SETUP, *TABLE, "@10 p0 n1 invoke create-index k.i t c", "@11 p1 n2 invoke create-index k.i t v"]
    history += [f"@12 p1 n2 {second}", f"@13 p0 n1 {first}"]
    assert check(history, [INDEXED.format(target)]).valid is valid


def test_an_index_follows_its_column_through_renames() -> None:
    history = [*SETUP, "@5 p5 n1 invoke create-table k.t a:int* b:int+", "@6 p5 n1 ok"]
    history += ["@10 p0 n1 invoke create-index k.i t b", "@11 p0 n1 ok"]
    history += ["@12 p0 n1 invoke rename-column k.t b>c", "@13 p0 n1 ok", "@14 p0 n1 invoke rename-column k.t c>d"]
    shown = (
        'settled n1,n2 table k.t id=1 a:int* d:int+ {{"indexes": {{"i": {{"kind": "COMPOSITES", "target": "{}"}}}}}}'
    )
    for target, valid in (("d", True), ("c", True), ("b", True), ("a", False)):
        assert check([*history, "@15 p0 n1 ok"], [shown.format(target)]).valid is valid


@pytest.mark.parametrize(
    ("authority", "answer", "dropped", "valid"),
    [
        ("group0", "true", "ok", False),
        ("group0", "true", "fail InvalidRequest: no", False),
        ("group0", "false", "ok", False),
        ("group0", "true", "info OperationTimedOut", False),
        ("log", "false", "ok", False),
        ("log", "true", "ok", True),
    ],
)
def test_an_index_that_was_made_or_found_there_was_there_at_some_time(
    authority: str, answer: str, dropped: str, *, valid: bool
) -> None:
    """CREATE INDEX IF NOT EXISTS beside the DROP of its column, and no index in the end: a coordinator behind a log may have seen it made."""
    history = [*SETUP, *TABLE, "@10 p1 n2 invoke drop-column k.t c"]
    history += [
        f"@11 p0 n1 invoke create-index k.i t c {NO_OP}",
        f'@12 p0 n1 ok {{"applied": {answer}}}',
        f"@13 p1 n2 {dropped}",
    ]
    columns = ["a int PRIMARY KEY", *(["c int"] if "fail" in dropped else []), "v int"]
    replication = "{'class': 'SimpleStrategy', 'replication_factor': '3'}"
    readings = [
        f'settled n1,n2 version v9 {{"authority": "{authority}"}}',
        WITHOUT_IT if "fail" not in dropped else "settled n1,n2 table k.t id=1 a:int* c:int v:int",
        f"settled n1,n2 live k CREATE KEYSPACE k WITH replication = {replication}",
        f"settled n1,n2 live k.t CREATE TABLE k.t ({', '.join(columns)})",
    ]
    assert check(history, readings).valid is valid


def test_an_option_is_compared_by_what_it_means() -> None:
    wanted = '{"options": {"gc_grace_seconds": "10", "compaction": {"class": "LeveledCompactionStrategy"}}}'
    shown = (
        '{"options": {"gc_grace_seconds": 10, "compaction": '
        '{"class": "org.apache.cassandra.db.compaction.LeveledCompactionStrategy", "min_threshold": "4"}}}'
    )
    history = [*SETUP, *TABLE, f"@10 p0 n1 invoke alter-options k.t {wanted}", "@12 p0 n1 ok"]
    assert check(history, [f"settled n1,n2 table k.t id=1 a:int* c:int v:int {shown}"]).valid is True
    other = shown.replace("Leveled", "SizeTiered")
    assert check(history, [f"settled n1,n2 table k.t id=1 a:int* c:int v:int {other}"]).valid is False


# ── several keyspaces and parts ──────────────────────────────────────────────────────────────────────────────────────


RACE = [
    "@10 p0 n1 invoke create-table k.s a:int*",
    "@10 p1 n2 invoke create-table k.s a:int*",
    "@12 p0 n1 ok",
    "@12 p1 n2 ok",
]
SHOWN = [
    "settled n1,n2 keyspace k",
    "settled n1,n2 table k.t id=1 a:int* c:int v:int",
    "settled n1,n2 table k.s id=2 a:int*",
]


def in_keyspace(name: str, lines: Sequence[str]) -> list[str]:
    """The same lines about that keyspace; about another one than k through other processes."""
    if name == "k":
        return list(lines)
    process = f" p{ord(name)}"
    lines = [line.replace("k.", f"{name}.").replace("keyspace k", f"keyspace {name}") for line in lines]
    return [line.replace(" p", process) for line in lines]


@pytest.mark.parametrize("raced", ["k", "l"])
def test_each_keyspace_is_judged(raced: str) -> None:
    whole = [*SETUP, *TABLE]
    other = "l" if raced == "k" else "k"
    history = [*in_keyspace(other, whole), *in_keyspace(raced, [*whole, *RACE])]
    verdict = verdict_of(judged(history, [*in_keyspace(other, SHOWN[:2]), *in_keyspace(raced, SHOWN)]))
    assert verdict.valid is False
    assert [anomaly.objects for anomaly in verdict.anomalies] == [(f"{raced}.s",)]
    assert verdict.figures == {"keyspaces": 2, "operations": 6}


def test_of_one_keyspace_its_parts_are_told() -> None:
    assert check([*SETUP, *TABLE], SHOWN[1:2]).figures == {
        "operations": 2,
        "components": 2,
        "largest_component": 2,
        "configurations": 2,
    }


def test_what_no_search_may_remember_is_unknown_in_its_own_part() -> None:
    added = ["@6 p5 n1 invoke add-column k.t d:int", "@7 p5 n1 ok"]
    history, shown = [*SETUP, *TABLE, *added, *RACE], [line.replace("v:int", "d:int v:int") for line in SHOWN]
    verdict = verdict_of(judged(history, shown), configurations_max=3)
    assert verdict.valid == "unknown"
    assert [(doubt.kind, doubt.objects) for doubt in verdict.doubts] == [("memory", ("k.s",))]
    assert verdict.figures["undecided_operations"] == 2
    assert verdict_of(judged(history, shown), configurations_max=4).valid is False


def test_a_time_limit_that_has_passed_is_told_once() -> None:
    verdict = SchemaLinearizability().check(judged([*SETUP, *TABLE, *RACE], SHOWN), limit_s=-1)
    assert [doubt.text for doubt in verdict.doubts] == ["the time limit was reached after 0 of 3 parts"]
    assert verdict.figures["undecided_operations"] == 4


def test_each_keyspace_and_each_part_has_its_share_of_the_time_that_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    deadlines: list[float] = []

    def decide_at(component: Component, *, deadline: float, configurations_max: int) -> Decision:
        deadlines.append(deadline)
        return decide(component, deadline=math.inf, configurations_max=configurations_max)

    monkeypatch.setattr(checker, "time", SimpleNamespace(monotonic=lambda: 100.0))
    monkeypatch.setattr(checker, "decide", decide_at)
    names = ("k", "l", "m", "o")
    history = [line for name in names for line in in_keyspace(name, [*SETUP, *TABLE])]
    shown = [line for name in names for line in in_keyspace(name, SHOWN[:2])]
    verdict = SchemaLinearizability().check(judged(history, shown), limit_s=251)
    assert verdict.valid is True
    shares = [share for left in (4, 3, 2, 1) for share in (251 / left / 2, 251 / left)]
    assert deadlines == pytest.approx([100 + share for share in shares])


def test_it_vouches() -> None:
    assert SchemaLinearizability().vouches


# ── unknown ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_raw_cql_makes_what_it_names_unknown_and_nothing_else() -> None:
    history = [
        *SETUP,
        *TABLE,
        '@8 p2 n1 invoke cql k {"statement": "ALTER TABLE k.t ADD d int"}',
        "@9 p2 n1 ok",
    ]
    shown = ["settled n1,n2 table k.t id=1 a:int* c:int v:int"]
    unclear = check(history, shown)
    assert unclear.valid == "unknown"
    assert "raw cql" in (unclear.reason or "")
    race = ["@10 p0 n1 invoke create-table k.s a:int*", "@10 p1 n2 invoke create-table k.s a:int*"]
    race += ["@12 p0 n1 ok", "@12 p1 n2 ok"]
    assert check([*history, *race], [*shown, "settled n1,n2 table k.s id=2 a:int*"]).valid is False


@pytest.mark.parametrize("named", ["a", "z"])
def test_raw_cql_about_one_object_hides_no_race_for_another_before_it_or_after(named: str) -> None:
    made = [f"@8 p2 n1 invoke create-table k.{named} a:int*", "@9 p2 n1 ok"]
    text = [f'@8 p3 n1 invoke cql k {{"statement": "ALTER TABLE k.{named} ADD d int"}}', "@9 p3 n1 ok"]
    shown = [*SHOWN, f"settled n1,n2 table k.{named} id=3 a:int*"]
    verdict = verdict_of(judged([*SETUP, *TABLE, *made, *text, *RACE], shown))
    assert [anomaly.objects for anomaly in verdict.anomalies] == [("k.s",)]


REFUSED_CREATE = ["@1 p0 n1 invoke create-table k.x a:int*", "@2 p0 n1 fail InvalidRequest: no"]
NO_CHANGE = {
    "refused": ([], "nothing-to-judge"),
    "raw cql": (['@3 p1 n1 invoke cql k {"statement": "x"}', "@4 p1 n1 ok"], "undecided"),
    "raw cql that was refused": (['@3 p1 n1 invoke cql k {"statement": "x"}', "@4 p1 n1 fail no"], "nothing-to-judge"),
    "rows": (['@3 p1 n1 invoke insert k.x {"row": {"a": 1}}', "@4 p1 n1 ok"], "nothing-to-judge"),
}


@pytest.mark.parametrize(("lines", "kind"), NO_CHANGE.values(), ids=NO_CHANGE)
def test_without_any_possible_change_there_is_nothing_to_judge(lines: list[str], kind: str) -> None:
    verdict = check([*REFUSED_CREATE, *lines])
    assert (verdict.valid, [doubt.kind for doubt in verdict.doubts]) == ("unknown", [kind])


def test_overloads_of_a_function_are_not_judged() -> None:
    made = [
        line
        for n, argument in enumerate(("int", "text"))
        for line in (
            f'@{10 + n} p{n} n1 invoke create-function k.f {{"arguments": [["x", "{argument}"]]}}',
            f"@{20 + n} p{n} n1 ok",
        )
    ]
    once, twice = check([*SETUP, *made[:2]], ["settled n1,n2 function k.f"]), check([*SETUP, *made])
    assert "overloads" not in (once.reason or "")
    assert [(doubt.kind, doubt.objects) for doubt in twice.doubts] == [("undecided", ("k.f",))]
    assert "overloads" in (twice.reason or "")


def test_raw_cql_that_reads_or_writes_rows_is_no_schema_change() -> None:
    history = [*SETUP, *TABLE, '@8 p2 n1 invoke cql k.t {"statement": "SELECT * FROM k.t"}', "@9 p2 n1 ok"]
    assert check(history, ["settled n1,n2 table k.t id=1 a:int* c:int v:int"]).valid is True


def test_without_a_settled_reading_an_order_of_the_answers_is_not_enough() -> None:
    verdict = verdict_of(judged([*SETUP, *TABLE]))
    assert verdict.valid == "unknown"
    assert "only the answers" in (verdict.reason or "")
    assert (
        verdict_of(judged([*SETUP, *TABLE, "@10 p0 n1 invoke create-table k.t a:int*", "@12 p0 n1 ok"])).valid is False
    )


def test_a_node_that_could_not_be_read_leaves_it_unknown() -> None:
    shown = [
        "settled n1 keyspace k",
        "settled n1 table k.t id=1 a:int* c:int v:int",
        "settled n2 error NoHostAvailable",
    ]
    verdict = verdict_of(judged([*SETUP, *TABLE], shown))
    assert verdict.valid == "unknown"
    assert "n2" in (verdict.reason or "")
    settled = ["settled n1,n2 keyspace k", "settled n1,n2 table k.t id=1 a:int* c:int v:int"]
    restarted = [line.replace("settled n1,n2", "restarted n1") for line in settled]
    late = judged([*SETUP, *TABLE], [*settled, *restarted, "restarted n2 error NoHostAvailable"])
    assert verdict_of(late).valid is True, "what the restart left unread is judged elsewhere"


@pytest.mark.parametrize("bug", [*BUGS, *CONTROLS], ids=lambda bug: bug.name)
def test_other_names_give_the_same_verdict(bug: Bug) -> None:
    lines = [
        [line.replace("k.t", "k.zz").replace(" t ", " zz ").replace("n1", "n0") for line in told]
        for told in ([*bug.setup, *bug.history], bug.observations)
    ]
    lines = [[line.replace('"base": "t"', '"base": "zz"') for line in told] for told in lines]
    named = verdict_of(bug.records())
    renamed = verdict_of(judged(lines[0], ["settled,restarted n0,n2,n3 keyspace k", *lines[1]]))
    assert renamed.valid == named.valid
    assert sorted(anomaly.ops for anomaly in renamed.anomalies) == sorted(anomaly.ops for anomaly in named.anomalies)
