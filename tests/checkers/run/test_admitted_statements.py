"""Admission: the least that makes a change or a statement certainly admissible, and its twins in which one thing is missing."""

from __future__ import annotations

import pytest
from histories import judged

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.run.admission import Admission

KEYSPACE = ["@1 p90 n1 invoke create-keyspace k", "@2 p90 n1 ok"]
TABLE = ["@3 p91 n1 invoke create-table k.t a:int* b:text+ c:int", "@4 p91 n1 ok"]
LATE = 5005
"""The first ms at which every node knows a table that was there after 4 ms."""


def is_certain(what: str, *more: str, at: int = LATE, before: list[str] | None = None, answered: bool = True) -> bool:
    """Is this change, refused 100 ms after it began at `at` ms, certainly admissible?"""
    answer = [f"@{at + 100} p80 n1 fail InvalidRequest: no"] if answered else []
    lines = [*(KEYSPACE + TABLE if before is None else before), f"@{at} p80 n1 invoke {what}", *answer, *more]
    evidence = Evidence.of(judged(lines))
    (index,) = [change.index for change in evidence.changes.all if change.process == 80]
    return Admission(evidence).is_certain(index)


CERTAIN = ["create-table k.x a:int*", "add-column k.t d:int", "alter-options k.t comment=x"]


@pytest.mark.parametrize("what", CERTAIN)
def test_a_change_is_certain_once_every_node_knows_what_it_needs(what: str) -> None:
    assert is_certain(what)
    edge = LATE - 1 if "k.t" in what else LATE - 3
    assert not any(is_certain(what, at=at) for at in (edge - 10, edge)), "just created"
    assert is_certain(what, at=edge + 1)
    pulled = ['@1 -- info run-planned {"pull_delay_s": 0.5}', *KEYSPACE, *TABLE]
    assert not is_certain(what, at=edge + 500, before=pulled), "a node may pull it later"
    assert is_certain(what, at=edge + 501, before=pulled)


@pytest.mark.parametrize("what", CERTAIN)
def test_a_change_is_not_certain_if_what_it_needs_may_have_gone_by_its_end(what: str) -> None:
    removals = [
        "drop-keyspace k",
        'cql k {"statement": "DROP KEYSPACE k"}',
        *(["drop-table k.t"] if "k.t" in what else []),
    ]
    for removal in removals:
        for time in (4, LATE, LATE + 100):
            assert not is_certain(what, f"@{time} p70 n1 invoke {removal}"), (removal, time)
        assert is_certain(what, f"@{LATE + 101} p70 n1 invoke {removal}"), removal
        assert is_certain(what, f"@4 p70 n1 invoke {removal}", "@5 p70 n1 fail Unauthorized: no"), removal


@pytest.mark.parametrize("what", CERTAIN)
def test_a_change_is_not_certain_without_an_answer_or_before_its_object_was_acknowledged(what: str) -> None:
    assert not is_certain(what, answered=False)
    for answer in ("info OperationTimedOut: no", "fail AlreadyExists: there"):
        assert not is_certain(what, before=[line.replace(" ok", f" {answer}") for line in [*KEYSPACE, *TABLE]])
    assert not is_certain(what, before=[])


def test_of_two_creates_one_that_is_old_enough_suffices() -> None:
    twice = ["@5003 p92 n1 invoke create-table k.t a:int*", "@5004 p92 n1 ok"]
    for create in (twice, twice[:1]):
        assert is_certain("add-column k.t d:int", before=[*KEYSPACE, *TABLE, *create])
    odd = [line.replace("a:int*", "a:u*") for line in twice]
    assert not is_certain("add-column k.t d:int", before=[*KEYSPACE, *TABLE, *odd]), "the table may be this one"


@pytest.mark.parametrize("named", ["create-table k.x a:int*", "create-type k.x a:int", 'create-view k.x {"base": "t", "primary_key": ["a"]}'])  # fmt: skip
def test_a_new_table_has_a_name_that_nothing_else_may_have(named: str) -> None:
    what = "create-table k.x a:int*"
    for time in (3, LATE, LATE + 100):
        assert not is_certain(what, f"@{time} p70 n1 invoke {named}"), time
    assert is_certain(what, f"@{LATE + 101} p70 n1 invoke {named}"), "it began later"
    assert is_certain(what, f"@3 p70 n1 invoke {named}", "@4 p70 n1 fail Unauthorized: no")
    assert is_certain(what, f"@3 p70 n1 invoke {named.replace('k.x', 'k.y')}"), "another name"
    assert is_certain(what, f"@3 p70 n1 invoke {named.replace('k.x', 'l.x')}"), "another keyspace"


@pytest.mark.parametrize(
    ("columns", "certain"),
    [
        ("a:int*", True),
        ("a:int* b:text+ c:blob", True),
        ('a:int* {"options": {"comment": "x"}}', True),
        ('a:int* {"options": {}}', True),
        ("a:int", False),
        ("a:int+", False),
        ("a:int* b:int!", False),
        ("a:int* c:u", False),
        ("a:u*", False),
        ("a:int* c:int c:int", False),
        ("a:int* a:int", False),
        ('a:int* {"options": {"comment": "x", "gc_grace_seconds": 5}}', False),
        ('a:int* {"options": {"gc_grace_seconds": 5}}', False),
    ],
)
def test_only_a_plain_table_is_certain(columns: str, *, certain: bool) -> None:
    assert is_certain(f"create-table k.x {columns}") is certain
    made = [*KEYSPACE, f"@3 p91 n1 invoke create-table k.x {columns}", "@4 p91 n1 ok"]
    assert is_certain("add-column k.x d:int", before=made) is certain
    assert is_certain("alter-options k.x comment=x", before=made), "whatever its columns"


@pytest.mark.parametrize(
    ("what", "certain"),
    [
        ("add-column k.t d:ascii", True),
        ("add-column k.t d:counter", False),
        ("add-column k.t d:set<int>", False),
        ('add-column k.t d:int {"static": true}', False),
        ('add-column k.t d:int {"static": false}', True),
        ("add-column k.t c:int", False),
        ("alter-options k.t comment=x gc_grace_seconds=5", False),
        ("alter-options k.t gc_grace_seconds=5", False),
        ("alter-options k.t", False),
        ("drop-column k.t c", False),
        ("rename-column k.t b>d", False),
        ("drop-table k.t", False),
        ("create-type k.y a:int", False),
        ('cql k {"statement": "ALTER TABLE k.t ADD d int"}', False),
    ],
)
def test_only_simple_changes_are_certain(what: str, *, certain: bool) -> None:
    if what == "alter-options k.t":
        what = 'alter-options k.t {"options": {}}'
    assert is_certain(what) is certain


@pytest.mark.parametrize("other", ["add-column k.t d:int", "drop-column k.t d", "rename-column k.t d>e", "rename-column k.t b>d"])  # fmt: skip
def test_a_column_that_another_change_of_its_table_names_is_not_certain(other: str) -> None:
    for time in (LATE - 1, LATE + 200):  # also one that began later: an ADD before it may have been retried
        assert not is_certain("add-column k.t d:int", f"@{time} p70 n1 invoke {other}")
    assert is_certain("add-column k.t d:int", f"@{LATE - 1} p70 n1 invoke {other}", f"@{LATE} p70 n1 fail Invalid: no")
    other_table = [*KEYSPACE, *TABLE, "@3 p93 n1 invoke create-table k.z a:int* d:int", "@4 p93 n1 ok"]
    assert is_certain(
        "add-column k.t d:int", f"@{LATE - 1} p70 n1 invoke {other.replace('k.t', 'k.z')}", before=other_table
    )


def test_an_operation_that_is_no_change_of_the_run_is_not_certain() -> None:
    evidence = Evidence.of(
        judged([*KEYSPACE, *TABLE, "@6000 p80 n1 invoke truncate k.t", "@6100 p80 n1 fail Invalid: no"])
    )
    assert not any(Admission(evidence).is_certain(index) for index in (4, 5, 99))


# ── statements ───────────────────────────────────────────────────────────────────────────────────────────────────────


def fits(
    argument: str, *more: str, part: bool = False, f: str = "insert", at: int = LATE, answered: bool = True
) -> bool:
    """Does a statement with this argument, asked at `at` ms and answered 100 ms later, fit its table?"""
    answer = [f"@{at + 100} p80 n1 fail InvalidRequest: no"] if answered else []
    evidence = Evidence.of(judged([*KEYSPACE, *TABLE, f"@{at} p80 n1 invoke {f} k.t {argument}", *answer, *more]))
    (statement,) = evidence.operations((f,))
    return Admission(evidence).fits(statement, part=part)


@pytest.mark.parametrize(
    ("argument", "fitting"),
    [
        ('{"row": {"a": 1, "b": "x"}}', True),
        ('{"row": {"a": 1, "b": "x", "c": 2}}', True),
        ('{"row": {"a": 1, "c": 2}}', False),
        ('{"row": {"b": "x", "c": 2}}', False),
        ('{"row": {"a": 1, "b": "x", "d": 2}}', False),
        ('{"row": {}}', True),
        ('{"where": {"a": 1}}', True),
        ('{"where": {"d": 1}}', False),
        ('{"where": "a = 1"}', True),
        ('{"key": {"a": 1}}', True),
        ('{"key": {"d": 1}}', False),
        ('{"where": {"a": 1}, "key": {"d": 1}}', True),
        ('{"columns": ["a", "c"]}', True),
        ('{"columns": ["a", "d"]}', False),
        ('{"row": {"a": 1, "b": "x"}, "columns": ["d"]}', False),
        ("", True),
    ],
)
def test_a_statement_fits_if_its_table_has_its_columns_and_its_row_the_whole_key(
    argument: str, *, fitting: bool
) -> None:
    assert fits(argument) is fitting


C, D = '{"columns": ["c"]}', '{"columns": ["d"]}'


@pytest.mark.parametrize(
    ("change", "answer", "argument", "fitting"),
    [
        ("add-column k.t d:int", "ok", D, True),
        ("add-column k.t d:int", "ok", C, True),
        ("add-column k.t d:int", "info no", D, False),
        ("add-column k.t d:int", "info no", C, True),
        ("add-column k.t d:int", "fail no", D, False),
        ("add-column k.t d:u", "ok", D, False),
        ("add-column k.t c:text", "ok", C, False),
        ("add-column k.t c:u", "ok", C, False),
        ("add-column k.t c:int", "ok", C, True),
        ("drop-column k.t c", "ok", C, False),
        ("drop-column k.t c", "info no", C, False),
        ("drop-column k.t c", "fail no", C, True),
        ("drop-column k.t c", "ok", '{"columns": ["a"]}', True),
        ("rename-column k.t b>d", "ok", D, False),
        ("rename-column k.t b>d", "ok", '{"columns": ["b"]}', False),
        ("rename-column k.t b>d", "ok", C, True),
        ("create-table k.t a:int* b:text+", "info no", C, False),
        ("create-table k.t a:int* b:text+ c:int", "info no", C, True),
        ("create-table k.t a:int* b:text+ c:int", "info no", '{"row": {"a": 1, "b": "x"}}', True),
        ("create-table k.t a:int* b:text+ c:int+", "info no", '{"row": {"a": 1, "b": "x"}}', False),
        ("alter-options k.t comment=x", "ok", C, True),
        ("add-column k.z c:text", "ok", C, True),
    ],
)
def test_every_change_of_its_table_that_may_have_happened_counts(
    change: str, answer: str, argument: str, *, fitting: bool
) -> None:
    lines = [f"p70 n1 invoke {change}", f"p70 n1 {answer}"]
    for begun in (5, LATE, LATE + 100):
        shown = [f"@{begun} {lines[0]}", f"@{begun + 200} {lines[1]}"]
        assert fits(argument, *shown) is fitting, begun
    later = [f"@{LATE + 101} {lines[0]}", f"@{LATE + 200} {lines[1]}"]
    assert fits(argument, *later) is fits(argument), "one that began later is none of its"


def test_a_statement_without_an_answer_meets_what_was_there_when_it_was_asked() -> None:
    drop = "p70 n1 invoke drop-column k.t c"
    assert not fits(C, f"@{LATE} {drop}", answered=False)
    assert fits(C, f"@{LATE + 1} {drop}", answered=False)


def test_columns_of_types_that_are_objects_fit_nothing() -> None:
    odd = ["@5 p70 n1 invoke create-table k.u a:int* c:u", "@6 p70 n1 ok"]
    evidence = Evidence.of(judged([*KEYSPACE, *odd, "@6000 p80 n1 invoke read-rows k.u " + C]))
    (statement,) = evidence.operations(("read-rows",))
    assert not Admission(evidence).fits(statement, part=False)


def test_for_a_part_of_the_operations_no_change_of_the_table_may_be_young_or_open() -> None:
    assert fits(C, part=True)
    assert fits(C, at=LATE - 1, part=True)
    assert not fits(C, at=LATE - 2, part=True)
    assert fits(C, at=LATE - 2)
    change = "p70 n1 invoke alter-options k.t comment=x"
    done = [f"@3900 {change}", "@4000 p70 n1 ok"]
    assert not fits(C, *done, at=8999, part=True)
    assert fits(C, *done, at=9000, part=True)
    assert not fits("", *done, at=8999, part=True, f="truncate"), "it needs the table, if no column"
    assert fits("", *done, at=9000, part=True, f="truncate")
    assert not fits(C, f"@10 {change}", at=60_000, part=True), "its end is not known"
    assert fits(C, f"@10 {change}", at=60_000)


def test_what_names_no_table_fits() -> None:
    evidence = Evidence.of(
        judged([*KEYSPACE, "p80 n1 invoke get", "p80 n1 ok", 'p81 n1 invoke get k {"columns": ["z"]}'])
    )
    statements = list(evidence.operations(("get",)))
    assert [Admission(evidence).fits(one, part=part) for one in statements for part in (False, True)] == [True] * 4


def admits(
    *more: str, at: int = LATE, argument: str = C, f: str = "insert", key: str = "k.t", answered: bool = True
) -> bool:
    """Was this statement, asked at `at` ms and answered 100 ms later, certainly to be admitted?"""
    answer = [f"@{at + 100} p80 n1 fail InvalidRequest: no"] if answered else []
    lines = [*KEYSPACE, *TABLE, f"@{at} p80 n1 invoke {f} {key} {argument}", *answer, *more]
    evidence = Evidence.of(judged([line.rstrip() for line in lines]))
    (statement,) = evidence.operations((f,))
    return Admission(evidence).admits(statement)


def test_a_statement_that_fits_a_table_which_every_node_knows_is_certainly_admitted() -> None:
    assert admits()
    assert not admits(at=LATE - 1), "the table is young"
    assert admits(f="truncate", argument=""), "it names its table alone"
    assert not admits(answered=False)
    assert not admits(argument=D), "another column"
    assert not admits(key="k.z"), "a table that nothing made"
    assert not admits(f="get", key="k", argument='{"columns": ["c"]}'), "no table is named"
    assert not admits(f="get", key="", argument="")
    assert not admits(f"@{LATE} p70 n1 invoke drop-table k.t"), "the table may be gone"
    young = [f"@{LATE - 5000} p70 n1 invoke alter-options k.t comment=x", f"@{LATE - 4999} p70 n1 ok"]
    assert not admits(*young), "a change of it is young"
    assert admits(*young, at=LATE + 1)
    opened = ["@10 p70 n1 invoke alter-options k.t comment=x", "@20 p70 n1 info no"]
    assert not admits(*opened, at=60_000), "one of unknown outcome may come to be at any time"
