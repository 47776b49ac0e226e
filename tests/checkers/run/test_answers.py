"""Answers of clients that contradict their questions, the phases, or the keyspaces of their run; and their legal twins."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from histories import judged

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.run.answers import find_misplaced_answers
from schemaquake.harness.model.records import HISTORY, Records

NOTES = [
    f'@{at} -- info phase {{"phase": "{phase}", "state": "{state}"}}'
    for phase, begins, ends in (("main", 10, 90), ("final-settled", 100, 190), ("final-restarted", 200, 290))
    for at, state in ((begins, "begins"), (ends, "ends"))
]
PLAN = '@1 -- info run-planned {"restart": "rolling"}'
LEVEL = '{"consistency": "QUORUM"}'
SETUP = ["@2 p0 n1 invoke create-keyspace k", "@3 p0 n1 ok"]


def asked(at: int, f: str = "get", answer: str = "ok", *, level: str = "QUORUM") -> list[str]:
    value = f'{{"consistency": "{level}"}}'
    return [f"@{at} p{at} n1 invoke {f} k.t {value}", f"@{at + 1} p{at} n1 {answer}"]


WHOLE = [PLAN, *NOTES, *SETUP, *asked(20), *asked(120), *asked(220)]


def strange(lines: list[str], **changed: Any) -> list[str]:
    """What is strange in these events; `changed` are other fields of the answer of the first get."""
    records = judged(lines)
    rows = records.history.to_pylist()
    number = next((at for at, row in enumerate(rows) if (row["f"], row["type"]) == ("get", "ok")), None)
    if number is not None:
        rows[number] |= changed
    history = pa.Table.from_pylist(rows, schema=HISTORY)
    return list(find_misplaced_answers(Evidence.of(Records.of(history, records.observations))))


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(WHOLE, id="a whole run"),
        pytest.param([PLAN, *NOTES, *SETUP, *asked(20)], id="a workload that asks nothing in the end"),
        pytest.param([*NOTES, *asked(20), *asked(120)], id="a run of before there were plans"),
        pytest.param([*WHOLE, *asked(30, answer="info OperationTimedOut")], id="an answer that did not come"),
        pytest.param([*WHOLE, "@30 p30 n1 invoke get k.t"], id="an operation that was cut off"),
        pytest.param(
            [*WHOLE, *(line for at in range(30, 60, 2) for line in asked(at, "insert", "fail E"))], id="races"
        ),
        pytest.param(
            [*WHOLE, *(line for at in range(30, 38, 2) for line in asked(at, "cas", "fail E"))], id="four tries"
        ),
        pytest.param(
            [*WHOLE, *(line for at in range(30, 60, 2) for line in asked(at, "cas", "fail not applied"))],
            id="not applied",
        ),
        pytest.param([PLAN, *NOTES, *SETUP, *asked(10), *asked(190), *asked(200)], id="asked as phases begin and end"),
        pytest.param([PLAN, *NOTES, *SETUP, *asked(90), *asked(120), *asked(220)], id="asked as the first phase ends"),
        pytest.param(
            [line for line in [PLAN, *NOTES, *SETUP, *asked(120), *asked(220)] if "@90" not in line],
            id="a phase that did not end, which is for others to tell",
        ),
        pytest.param(
            [PLAN, *NOTES, '@2 p0 n1 invoke cql k {"statement": "x"}', "@3 p0 n1 ok", *asked(20)], id="free text"
        ),
    ],
)
def test_what_a_run_may_have_is_not_strange(lines: list[str]) -> None:
    assert strange(lines) == []


@pytest.mark.parametrize(
    "changed",
    [
        {"node": "n2"},
        {"node": None},
        {"key": "k.s"},
        {"key": None},
        {"value": '{"consistency": "ONE"}'},
        {"value": "{}"},
        {"value": None},
    ],
)
def test_an_answer_of_another_question_is_strange(changed: dict[str, Any]) -> None:
    assert len(strange(WHOLE, **changed)) == 1


def test_the_first_of_several_answers_at_another_level_is_named() -> None:
    odd = [*WHOLE, *asked(30, answer='ok {"consistency": "ONE"}'), *asked(40, answer='ok {"consistency": "ONE"}')]
    (said,) = strange(odd)
    asked_at = [row["index"] for row in judged(odd).history.to_pylist() if row["time"] == 30_000_000]
    assert said == f"op {asked_at[0]} was asked at one level and answered at another"


@pytest.mark.parametrize("column", ["node", "key"])
def test_the_first_of_several_answers_about_something_else_is_named(column: str) -> None:
    records = judged(WHOLE)
    rows = records.history.to_pylist()
    ends = [row for row in rows if (row["f"], row["type"]) == ("get", "ok")]
    for row in ends:
        row[column] = "k.other"
    history = pa.Table.from_pylist(rows, schema=HISTORY)
    (said,) = find_misplaced_answers(Evidence.of(Records.of(history, records.observations)))
    assert said == f"op {ends[0]['index'] - 1} was asked and answered with two values of {column}"


def test_where_nothing_was_answered_nothing_was_answered_otherwise() -> None:
    assert strange([*NOTES, "@30 p30 n1 invoke get k.t"]) == []
    assert strange(list(NOTES)) == []


@pytest.mark.parametrize("at", [20, 120, 220])
def test_a_phase_in_which_nothing_was_asked_is_strange(at: int) -> None:
    gone = set(asked(at))
    assert len(strange([line for line in WHOLE if line not in gone])) == 1


def test_rows_of_a_keyspace_that_nothing_created_are_strange() -> None:
    assert len(strange([line for line in WHOLE if line not in SETUP])) == 1
    refused = [line.replace("p0 n1 ok", "p0 n1 fail AlreadyExists") for line in WHOLE]
    assert len(strange(refused)) == 1
    assert strange([line.replace("p0 n1 ok", "p0 n1 info timed out") for line in WHOLE]) == []


def test_a_keyspace_in_which_a_table_may_have_been_made_is_made_by_none_of_that() -> None:
    lines = [line for line in WHOLE if line not in SETUP]
    assert len(strange([*lines, *made("create-table k.t a:int*", "info no")])) == 1
    assert strange([*lines, *made("create-table k.t a:int*", "ok")]) == [], "it was there"


def test_a_drop_that_finds_nothing_in_a_keyspace_that_is_not_there_uses_none() -> None:
    value = '{"keyspace": "l", "name": "t", "if_exists": true, "applied": false}'
    dropped = [f"@40 p40 n1 invoke drop-table l.t {value}", "@41 p40 n1 ok"]
    refused = ["@30 p30 n1 invoke create-keyspace l", "@31 p30 n1 fail NoHostAvailable"]
    assert strange([*WHOLE, *refused, *dropped]) == []
    assert len(strange([*WHOLE, *refused, *(line.replace("k.t", "l.t") for line in asked(50))])) == 1


def test_a_keyspace_that_nobody_uses_need_not_be_there() -> None:
    assert strange([*WHOLE, *made("create-keyspace l", "info no")]) == []


def test_operations_of_which_none_was_ever_acknowledged_are_strange() -> None:
    tried = [line for at in range(30, 40, 2) for line in asked(at, "batch", "fail WriteTimeout: 1 of 2")]
    assert strange([*WHOLE, *tried]) == ["none of 5 operations batch was acknowledged"]
    assert strange([*WHOLE, *tried, *asked(50, "batch")]) == []
    more = asked(60, "batch", "fail WriteTimeout: 1 of 2")
    assert strange([*WHOLE, *tried, *more]) == ["none of 6 operations batch was acknowledged"]


REFUSED = "fail InvalidRequest: it cannot be done"


def test_an_operation_that_was_refused_as_wrong_beside_others_that_were_not_is_strange() -> None:
    for at in (50, 150, 250):
        assert len(strange([*WHOLE, *asked(at, answer=REFUSED)])) == 1
    for other in ("a", "l"):  # what goes on in other keyspaces is no reason
        assert len(strange([*WHOLE, *asked(50, answer=REFUSED), f"@15 p9 n1 invoke create-keyspace {other}"])) == 1


def test_a_refusal_without_words_is_told_once() -> None:
    assert len(strange([*WHOLE, *asked(50, answer="fail")])) == 1


@pytest.mark.parametrize(("ends", "explained"), [(19_999, False), (20_001, True), (29_000, True)])
def test_a_fault_explains_refusals_for_ten_seconds(ends: int, *, explained: bool) -> None:
    lines = [*WHOLE, *asked(30_000, answer=REFUSED), *fault(1000, ends)]
    assert (strange(lines) == []) is explained


OTHER_KEY = [line.replace("k.t", "k.s") for line in asked(50, answer=REFUSED)]


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([*WHOLE, *OTHER_KEY], id="nothing of its key was ever accepted"),
        pytest.param([*WHOLE, "@30 p30 n1 invoke get k.s", *OTHER_KEY], id="of its key something was never answered"),
        pytest.param(
            [*WHOLE, *asked(50, answer=REFUSED), "@45 p9 n1 invoke alter-options k.t comment=x", "@50 p9 n1 ok"],
            id="just after its table changed",
        ),
        pytest.param([*WHOLE, *asked(50, answer="fail ReadTimeout: 1 of 2")], id="no answer"),
        pytest.param([*WHOLE, *asked(50, answer="fail not applied")], id="its condition did not hold"),
        pytest.param([*WHOLE, *asked(12, answer=REFUSED)], id="nothing of its key was accepted before it"),
        pytest.param([*WHOLE, *asked(50, f="put", answer=REFUSED)], id="none of its kind was accepted"),
        pytest.param(
            [*WHOLE, *asked(50, f="insert", answer=REFUSED), *asked(40, f="insert"), *asked(60, f="insert")],
            id="a race",
        ),
        pytest.param(
            [*WHOLE, *asked(50, answer=REFUSED), '@40 -- info fault-begins {"id": 1, "nemesis": "x", "nodes": ["n1"]}'],
            id="beside a fault",
        ),
        pytest.param(
            [*WHOLE, *asked(50, answer=REFUSED), "@45 p9 n1 invoke alter-options k.t comment=x", "@55 p9 n1 ok"],
            id="while its table changes",
        ),
        pytest.param(
            [*WHOLE, *asked(50, answer=REFUSED), "@15 p9 n1 invoke drop-table k.t", "@16 p9 n1 info"],
            id="perhaps dropped",
        ),
    ],
)
def test_its_twins_are_not_strange(lines: list[str]) -> None:
    assert strange(lines) == []


SETTLED = '@5 -- info settle {"phase": "setup", "agreed": true, "versions": {}}'
ROW = [line.replace("k.t", "k.t/3") for line in asked(12, answer=REFUSED)]


@pytest.mark.parametrize(
    ("lines", "count"),
    [
        ([SETTLED, *ROW], 1),
        ([SETTLED.replace("true", "false"), *ROW], 0),
        ([SETTLED.replace("@5", "@15"), *ROW], 0),
        ([SETTLED, *(line.replace("k.t", "k.s") for line in ROW)], 0),
        ([SETTLED, *ROW, "@6 p9 n1 invoke create-table k.t a:int*", "@7 p9 n1 ok"], 0),
        ([SETTLED, *ROW, "@6 p9 n1 invoke create-table j.t a:int*", "@7 p9 n1 ok"], 1),
        ([SETTLED, *ROW, "@6 p9 n1 invoke create-table l.t a:int*", "@7 p9 n1 ok"], 1),
    ],
)
def test_a_table_that_all_nodes_know_is_refused_for_no_row_of_it(lines: list[str], count: int) -> None:
    assert len(strange([*WHOLE, *lines])) == count


def made(what: str, answer: str, *, at: int = 30) -> list[str]:
    return [f"@{at} p{at} n1 invoke {what}", f"@{at + 1} p{at} n1 {answer}"]


THERE = "fail AlreadyExists: 'k.x' already exists"
FRESH = made("create-table k.x a:int*", THERE)


def test_a_refusal_without_an_error_is_strange() -> None:
    assert len(strange([*WHOLE, *made("add-column k.t c:int", "fail")])) == 1


@pytest.mark.parametrize("what", ["create-table k.x a:int*", "create-type k.x a:int"])
def test_a_create_that_is_refused_for_an_object_that_nothing_made_is_strange(what: str) -> None:
    assert len(strange([*WHOLE, *made(what, THERE)])) == 1
    beside = [*made("create-table k.y a:int*", "ok", at=23), *made("create-table k.v a:int*", "ok", at=24)]
    refused = made("create-table k.w a:int*", "fail InvalidRequest: no", at=26)
    assert len(strange([*WHOLE, *beside, *refused, *made(what, THERE)])) == 1, "others are not it"


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([*made("create-table k.x a:int*", "ok", at=25), *FRESH], id="made before"),
        pytest.param(made("create-table k.t a:int*", "fail", at=40)[:1], id="never answered"),
        pytest.param(["@29 p1 n1 invoke create-table k.x a:int*", *FRESH], id="made at once"),
        pytest.param([*FRESH, "@31 p1 n1 invoke create-table k.x a:int*"], id="perhaps made in its last moment"),
        pytest.param(["@29 p1 n1 invoke create-type k.x a:int", *FRESH], id="another kind of that name"),
        pytest.param([*made("create-table other.x a:int*", THERE)], id="an older keyspace"),
        pytest.param(made("create-index k.i t c", THERE), id="an index: its column may have another one"),
        pytest.param(made("add-column k.x c:int", THERE), id="a column"),
        pytest.param(made("create-table k.x a:int*", "fail InvalidRequest: no"), id="another reason"),
        pytest.param(
            ['@28 p1 n1 invoke cql k {"statement": "CREATE TABLE k.x"}', "@29 p1 n1 ok", *FRESH], id="free text"
        ),
    ],
)
def test_what_may_have_been_there_is_not_strange(lines: list[str]) -> None:
    assert strange([*WHOLE, *lines]) == []


@pytest.mark.parametrize(
    ("create", "answered", "strange_too"),
    [
        ("@2 p0 n1 invoke create-keyspace k", "@3 p0 n1 ok", True),
        ('@2 p0 n1 invoke create-keyspace k {"if_not_exists": true}', '@3 p0 n1 ok {"applied": true}', True),
        ('@2 p0 n1 invoke create-keyspace k {"if_not_exists": true}', '@3 p0 n1 ok {"applied": false}', False),
        ('@2 p0 n1 invoke create-keyspace k {"if_not_exists": true}', "@3 p0 n1 ok", False),
        ("@2 p0 n1 invoke create-keyspace k", "@3 p0 n1 info timed out", False),
        ("@2 p0 n1 invoke create-keyspace k", "@31 p0 n1 ok", True),
        ("@40 p0 n1 invoke create-keyspace k", "@41 p0 n1 ok", True),
    ],
)
def test_only_in_a_keyspace_that_was_certainly_made_nothing_is_older(
    create: str, answered: str, *, strange_too: bool
) -> None:
    lines = [line for line in WHOLE if line not in SETUP]
    assert bool(strange([*lines, create, answered, *FRESH])) is strange_too


@pytest.mark.parametrize(
    ("lines", "is_odd"),
    [
        pytest.param(made("create-keyspace x", "ok", at=40), True, id="made later"),
        pytest.param(made("create-keyspace x", "ok", at=31), False, id="made in its last moment"),
        pytest.param(made("create-keyspace x", "ok", at=25), False, id="made before"),
        pytest.param(made("create-keyspace x", "info timed out", at=25), False, id="perhaps made before"),
        pytest.param(made("create-keyspace x", "info timed out", at=40), False, id="perhaps made later"),
        pytest.param([], False, id="older than the run"),
        pytest.param(
            [*made("create-keyspace x", "ok", at=40), *made("drop-keyspace x", "ok", at=35)],
            False,
            id="older than the run, and dropped",
        ),
        pytest.param(
            [*made("create-keyspace x", "ok", at=40), *made("drop-keyspace x", "ok", at=45)], True, id="dropped later"
        ),
        pytest.param(
            [
                *made("create-keyspace x", "ok", at=40),
                *('@28 p1 n1 invoke cql x {"statement": "CREATE KEYSPACE x"}', "@29 p1 n1 ok"),
            ],
            False,
            id="free text",
        ),
    ],
)
def test_a_keyspace_that_is_there_before_anything_made_it_is_strange(lines: list[str], *, is_odd: bool) -> None:
    refused = made("create-keyspace x", "fail AlreadyExists: Keyspace 'x' already exists")
    assert any("nothing can have made it" in text for text in strange([*WHOLE, *refused, *lines])) is is_odd


def test_what_was_made_later_was_not_there() -> None:
    assert len(strange([*WHOLE, *made("create-table k.x a:int*", "ok", at=40), *FRESH])) == 1


TABLE_LONG_AGO = [*WHOLE, *made("create-table k.t a:int*", "ok", at=15)]
FAULT = ['@{0} -- info fault-begins {{"id": 1, "nemesis": "x", "nodes": ["n1"]}}', '@{1} -- info fault-ends {{"id": 1, "nemesis": "x", "nodes": ["n1"]}}']  # fmt: skip


def fault(begins: int, ends: int) -> list[str]:
    return [line.format(begins, ends) for line in FAULT]


@pytest.mark.parametrize(("beside", "count"), [(25_000, 0), (25_001, 0), (24_000, 1), (26_000, 1)])
@pytest.mark.parametrize("words", ["concurrent modification", "concurrent group 0 modification"])
def test_a_change_that_others_were_before_at_each_attempt_is_refused_with_reason(
    words: str, beside: int, count: int
) -> None:
    lost = made("add-column k.t c:int", f"fail ServerError: Failed to apply group 0 change due to {words}", at=25_000)
    other = [line.replace(f" p{beside} ", " p9 ") for line in made("create-table k.y a:int*", "ok", at=beside)]
    assert len(strange([*TABLE_LONG_AGO, *lost, *other])) == count


@pytest.mark.parametrize("what", ["add-column k.t c:int", "create-table k.x a:int*", "alter-options k.t comment=x"])
@pytest.mark.parametrize("answer", [REFUSED, "fail ServerError: no", "fail InvalidRequest: unconfigured table t"])
def test_a_lone_refusal_of_a_change_that_the_schema_certainly_admits_is_strange(what: str, answer: str) -> None:
    lone = made(what, answer, at=25_000)
    for beside in ([], fault(1000, 14_000)):  # a fault long before explains nothing
        (said,) = strange([*TABLE_LONG_AGO, *lone, *beside])
        assert said.startswith("1 schema changes were refused although")
    for answered in ("ok", "info OperationTimedOut: no answer"):
        assert strange([*TABLE_LONG_AGO, *made(what, answered, at=25_000)]) == []


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(made("add-column k.t c:int", REFUSED, at=4000), id="not every node need know the table"),
        pytest.param(made("add-column k.t a:int", REFUSED, at=25_000), id="the column is there"),
        pytest.param(made("add-column k.t c:int", "fail Unavailable: 1 of 2", at=25_000), id="no answer"),
        pytest.param(made("add-column k.t c:int", "fail InvalidRequest: not supported", at=25_000), id="not offered"),
        pytest.param(made("add-column k.t c:int", "fail RefusedHere: no", at=25_000), id="a client that did not ask"),
        pytest.param(
            made("add-column k.t c:int", "fail SchemaDisagreementException: no", at=25_000), id="changes that met"
        ),
        pytest.param(
            made("add-column k.t c:int", "fail InvalidRequestException: Cluster schema does not yet agree", at=25_000),
            id="changes that met on 0.7",
        ),
        pytest.param([*made("add-column k.t c:int", REFUSED, at=25_000), *fault(1000, 24_000)], id="after a fault"),
        pytest.param([*made("add-column k.t c:int", REFUSED, at=25_000), *fault(24_990, 26_000)], id="beside a fault"),
    ],
)
def test_a_lone_refusal_for_which_there_may_be_a_reason_is_not_strange(lines: list[str]) -> None:
    assert strange([*TABLE_LONG_AGO, *lines]) == []


BOOTSTRAP = (
    '@{} -- invoke bootstrap {{{{"operation": 0, "nodes": ["n4"], "becomes": {{{{"n4": "normal"}}}}}}}}',
    '@{} -- {} bootstrap {{{{"operation": 0, "nodes": ["n4"], "becomes": {{{{"n4": "normal"}}}}}}}}',
)


def joined(begins: int, ends: int, outcome: str = "ok") -> list[str]:
    return [BOOTSTRAP[0].format(begins).format(), BOOTSTRAP[1].format(ends, outcome).format()]


def refusals(lines: list[str]) -> list[str]:
    return [text for text in strange(lines) if "refused" in text]


@pytest.mark.parametrize(
    ("beside", "is_strange"),
    [
        pytest.param(joined(1000, 14_000), True, id="long after a node joined"),
        pytest.param(joined(1000, 20_000), False, id="after a node joined"),
        pytest.param(joined(1000, 40_000), False, id="while a node joins"),
        pytest.param(joined(1000, 14_000, "info"), False, id="a node may go on joining"),
        pytest.param(joined(1000, 14_000)[:1], False, id="a node that joins without end"),
        pytest.param(joined(30_000, 40_000), True, id="before a node joins"),
    ],
)
def test_an_operation_on_the_ring_explains_refusals_while_it_goes_on_and_just_after(
    beside: list[str], *, is_strange: bool
) -> None:
    change = [*TABLE_LONG_AGO, *made("add-column k.t c:int", REFUSED, at=25_000), *beside]
    row = [*TABLE_LONG_AGO, *asked(12_000), *asked(25_000, answer=REFUSED), *asked(26_000), *beside]
    assert [bool(refusals(lines)) for lines in (change, row)] == [is_strange, is_strange]


def without_keyspace(error: str = "Keyspace 'k' doesn't exist", *, node: str = "n1", at: int = 30) -> list[str]:
    lines = made("create-table k.x a:int*", f"fail InvalidRequest: {error}", at=at)
    return [line.replace(" n1 ", f" {node} ") for line in lines]


UNKNOWN_KEYSPACES = (
    "Keyspace 'k' doesn't exist",
    "Keyspace k does not exist",
    "Cannot add table 'x' to non existing keyspace 'k'.",
    "Can't find a keyspace k",
)


@pytest.mark.parametrize("error", UNKNOWN_KEYSPACES)
def test_a_coordinator_knows_the_keyspace_that_it_acknowledged(error: str) -> None:
    (said,) = strange([*WHOLE, *without_keyspace(error)])
    assert "which their coordinator knew" in said
    before = [*made("drop-keyspace k", "ok", at=4), *made("create-keyspace k", "ok", at=6)]
    assert len(strange([*WHOLE, *before, *without_keyspace(error)])) == 1, "dropped, and made again"
    refused = made("drop-keyspace k", "fail InvalidRequest: no", at=25)
    assert len(strange([*WHOLE, *refused, *without_keyspace(error)])) == 1, "its DROP was refused"


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(without_keyspace(node="n2"), id="another coordinator"),
        pytest.param(
            [
                *("@4 p4 n2 invoke create-keyspace l", "@5 p4 n2 ok"),
                *made("create-table l.x a:int*", "fail InvalidRequest: Keyspace 'l' doesn't exist"),
            ],
            id="another coordinator with a lesser name",
        ),
        pytest.param(without_keyspace("Keyspace 'l' doesn't exist"), id="another keyspace"),
        pytest.param(without_keyspace("Table 'k.x' doesn't exist"), id="a table"),
        pytest.param(
            without_keyspace("Cannot drop non existing column family 'x' in keyspace 'k'."), id="as 1.1 has it"
        ),
        pytest.param(without_keyspace("Keyspace k2 does not exist"), id="one whose name begins so"),
        pytest.param(without_keyspace("Keyspace k already exists"), id="it is there"),
        pytest.param([*made("drop-keyspace k", "ok", at=25), *without_keyspace()], id="dropped"),
        pytest.param([*made("drop-keyspace k", "info Timeout", at=25), *without_keyspace()], id="perhaps dropped"),
        pytest.param(["@30 p1 n2 invoke drop-keyspace k", *without_keyspace(), "@40 p1 n2 ok"], id="dropped meanwhile"),
        pytest.param(
            ["@31 p1 n2 invoke drop-keyspace k", *without_keyspace(), "@40 p1 n2 ok"], id="dropped as it was answered"
        ),
        pytest.param([*fault(20, 35), *without_keyspace()], id="beside a fault"),
        pytest.param(
            ['@28 p1 n1 invoke cql k {"statement": "DROP KEYSPACE k"}', "@29 p1 n1 ok", *without_keyspace()],
            id="free text",
        ),
    ],
)
def test_a_coordinator_that_need_not_know_the_keyspace_is_not_strange(lines: list[str]) -> None:
    assert [text for text in strange([*WHOLE, *lines]) if "knew" in text] == []


@pytest.mark.parametrize(
    ("setup", "is_strange"),
    [
        (SETUP, True),
        (["@2 p0 n1 invoke create-keyspace k", "@3 p0 n1 info OperationTimedOut"], False),
        (["@2 p0 n1 invoke create-keyspace k", "@31 p0 n1 ok"], False),
        (['@2 p0 n1 invoke create-keyspace k {"if_not_exists": true}', '@3 p0 n1 ok {"applied": false}'], False),
    ],
    ids=["acknowledged", "of unknown outcome", "not acknowledged yet", "a no-op"],
)
def test_where_coordinators_ask_first_all_of_them_know_what_was_acknowledged(
    setup: list[str], *, is_strange: bool
) -> None:
    lines = [*(line for line in WHOLE if line not in SETUP), *setup, *without_keyspace(node="n2")]
    for authority, expected in (("group0", is_strange), ("log", False), ("disk", False)):
        reading = f'settled n1,n2 version v9 {{"authority": "{authority}"}}'
        records = judged(lines, [reading])
        assert bool(list(find_misplaced_answers(Evidence.of(records)))) is expected


@pytest.mark.parametrize(
    ("authority", "at", "strange_then"), [("log", 2002, False), ("log", 2003, True), ("disk", 9000, False)]
)
def test_a_coordinator_that_follows_a_log_has_heard_of_a_keyspace_two_seconds_later(
    authority: str, at: int, *, strange_then: bool
) -> None:
    reading = f'settled n1,n2 version v9 {{"authority": "{authority}"}}'
    refused = without_keyspace(node="n2", at=at)

    def found(*more: str) -> list[str]:
        evidence = Evidence.of(judged([*WHOLE, *refused, *more], [reading]))
        return [text for text in find_misplaced_answers(evidence) if "which their coordinator knew" in text]

    assert bool(found()) is strange_then
    assert found(*made("drop-keyspace k", "info Timeout", at=1900)) == []
    assert found(*fault(1000, 1500)) == []


def test_an_operation_on_the_ring_that_begins_long_after_a_change_was_asked_for_explains_its_refusal() -> None:
    slow = ["@25000 p25 n1 invoke add-column k.t c:int", f"@60000 p25 n1 {REFUSED}"]
    assert refusals([*TABLE_LONG_AGO, *slow])
    assert not refusals([*TABLE_LONG_AGO, *slow, *joined(50_000, 55_000)])


def replicas_missed(lines: list[str]) -> list[str]:
    return [text for text in strange(lines) if "for want of replicas" in text]


MISSED = "fail Unavailable: Cannot achieve consistency level QUORUM"


@pytest.mark.parametrize(
    "answer", [MISSED, "fail UnavailableException: ", "info Unavailable: 1 of 2"], ids=["CQL", "Thrift", "unknown"]
)
def test_a_lone_refusal_for_want_of_replicas_is_strange_while_every_node_is_whole(answer: str) -> None:
    lone = asked(25_000, answer=answer)
    (said,) = replicas_missed([*WHOLE, *lone])
    number = next(row["index"] for row in judged([*WHOLE, *lone]).history.to_pylist() if row["time"] == 25_000_000_000)
    assert said.startswith("1 operation was refused")
    assert f"op {number}," in said
    (said,) = replicas_missed([*WHOLE, *lone, *asked(26_000, answer=answer)])
    assert said.startswith("2 operations were refused")
    assert replicas_missed([*WHOLE, *lone, *fault(1000, 30_000 - 5001)]) == []
    long_after = asked(45_000, answer=answer)
    assert len(replicas_missed([*WHOLE, *long_after, *fault(1000, 14_999)])) == 1, (
        "a fault long before explains nothing"
    )
    assert len(replicas_missed([*WHOLE, *lone, *fault(26_000, 27_000)])) == 1, "nor does one that came later"


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(asked(25_000, answer="ok"), id="answered"),
        pytest.param(asked(25_000, answer="fail WriteTimeout: Unavailable"), id="a timeout"),
        pytest.param(asked(25_000, answer=MISSED, level="ALL"), id="a level that was never reached"),
        pytest.param(asked(25_000, "batch", MISSED), id="a kind of operation that never succeeded"),
        pytest.param([line.replace("k.t", "l.t") for line in asked(25_000, answer=MISSED)], id="another keyspace"),
        pytest.param([*asked(45_000, answer=MISSED), *fault(1000, 15_001)], id="nodes may take each other for dead"),
        pytest.param([*asked(25_000, answer=MISSED), *fault(1000, 10_000)], id="less than half a minute after one"),
        pytest.param([*asked(25_000, answer=MISSED), *fault(24_000, 26_000)], id="beside a fault"),
        pytest.param(
            [f"@25000 p9 n1 invoke get k.t {LEVEL}", f"@26000 p9 n1 {MISSED}", *fault(25_500, 25_600)],
            id="a fault meanwhile",
        ),
        pytest.param(
            [*asked(25_000, answer=MISSED), '@16000 -- n2 info node-start {"phase": "fault", "served": true}'],
            id="just after a start",
        ),
        pytest.param(
            [*asked(25_000, answer=MISSED), '@9000 -- n2 info node-died {"exit_code": 1}'], id="a node that is down"
        ),
        pytest.param(
            [
                *("@40 p40 n3 invoke get k.t", "@41 p40 n3 ok"),
                *(*asked(25_000, answer=MISSED), '@9000 -- n2 info node-died {"exit_code": 1}'),
            ],
            id="one node of three is down",
        ),
        pytest.param([*asked(25_000, answer=MISSED), *made("alter-keyspace k", "ok", at=40)], id="other replicas"),
        pytest.param([*asked(25_000, answer=MISSED), *made("alter-keyspace k", "info no", at=40)], id="perhaps others"),
        pytest.param(
            ['@28 p1 n1 invoke cql k {"statement": "ALTER …"}', "@29 p1 n1 ok", *asked(25_000, answer=MISSED)],
            id="free text",
        ),
        pytest.param([*asked(25_000, answer=MISSED), *joined(1000, 5000)], id="another ring"),
        pytest.param(
            [
                *(f"@20 p9 n1 invoke get {LEVEL}", "@21 p9 n1 ok"),
                *(f"@25000 p9 n1 invoke get {LEVEL}", f"@25001 p9 n1 {MISSED}"),
            ],
            id="no keyspace",
        ),
    ],
)
def test_a_refusal_for_want_of_replicas_for_which_there_may_be_a_reason_is_not_strange(lines: list[str]) -> None:
    assert replicas_missed([*WHOLE, *lines]) == []


GONE = "fail NoHostAvailable: Unable to complete the operation"


def unreached(*nodes: str, at: int = 20_000, answer: str = GONE) -> list[str]:
    """Events of clients that find no server on these nodes."""
    return [
        line
        for number, node in enumerate(nodes, 70)
        for line in (f"@{at} p{number} {node} invoke get k.t {LEVEL}", f"@{at + 500} p{number} {node} {answer}")
    ]


@pytest.mark.parametrize(
    ("gone", "said"),
    [
        pytest.param(unreached("n1", at=14_500), 0, id="ten seconds before"),
        pytest.param(unreached("n1", at=14_499), 1, id="longer ago"),
        pytest.param(unreached("n1", at=25_001), 0, id="meanwhile"),
        pytest.param(unreached("n1", at=25_002), 1, id="later"),
        pytest.param(unreached("n1", answer="info TTransportException"), 0, id="by Thrift"),
        pytest.param(unreached("n1", answer="info WriteTimeout: 1 of 2"), 0, id="replicas did not answer it in time"),
        pytest.param(unreached("n1", answer="fail ReadTimeout: 1 of 2"), 0, id="nor a read"),
        pytest.param(unreached("n1", answer="info OperationTimedOut: no"), 0, id="it did not answer in time"),
        pytest.param(unreached("n1", answer="info TimedOutException"), 0, id="nor by Thrift"),
        pytest.param(unreached("n1", at=14_499, answer="info WriteTimeout: 1 of 2"), 1, id="in time ever since"),
        pytest.param(unreached("n2", answer="info WriteTimeout: 1 of 2"), 1, id="another node alone"),
        pytest.param(unreached("n1", answer="fail InvalidRequest: NoHostAvailable"), 1, id="another answer"),
    ],
)
def test_a_node_without_a_server_for_its_client_was_not_whole(gone: list[str], said: int) -> None:
    # As where a server is killed (swarm seed 20015) or cut off (40009) at a step of a simulated protocol, of which no note tells.
    assert len(replicas_missed([*WHOLE, *asked(25_000, answer=MISSED), *gone])) == said


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        pytest.param("@15000 running n1 error NoHostAvailable: no answer", 0, id="ten seconds before"),
        pytest.param("@14999 running n1 error NoHostAvailable: no answer", 1, id="longer ago"),
        pytest.param("@25001 running n1 error NoHostAvailable: no answer", 0, id="meanwhile"),
        pytest.param("@25002 running n1 error NoHostAvailable: no answer", 1, id="later"),
        pytest.param("@20000 running n2 error NoHostAvailable: no answer", 1, id="one of the others"),
        pytest.param("@20000 running n1 error OperationTimedOut: no answer", 0, id="none in time"),
        pytest.param("@20000 running n1 error InvalidRequest: no answer", 1, id="another answer"),
        pytest.param("@20000 running n1 version v1", 1, id="an answer"),
        pytest.param("@20000 running n1 log NoHostAvailable: no answer", 1, id="another question"),
    ],
)
def test_a_node_without_a_server_for_the_observer_was_not_whole(seen: str, said: int) -> None:
    # No client asked it while it was away (swarm seed 23471).
    records = judged([*WHOLE, *asked(25_000, answer=MISSED)], [seen])
    found = find_misplaced_answers(Evidence.of(records))
    assert len([text for text in found if "for want of replicas" in text]) == said


BY_CENTER = '{"replication": {"class": "NetworkTopologyStrategy", "dc1": 2, "dc2": 2}}'


@pytest.mark.parametrize(
    ("level", "gone", "copies", "said"),
    [
        ("QUORUM", ("n2",), 3, 1),
        ("QUORUM", ("n2", "n2"), 3, 1),
        ("QUORUM", ("n2", "n3"), 3, 0),
        ("QUORUM", ("n2",), 2, 0),
        ("QUORUM", ("n2", "n3"), 5, 1),
        ("ONE", ("n2", "n3"), 3, 1),
        ("ONE", ("n2", "n3", "n4"), 3, 0),
        ("ALL", ("n2",), 3, 0),
        ("LOCAL_QUORUM", ("n2",), 3, 0),
    ],
)
def test_nodes_without_servers_explain_a_refusal_by_another_one_if_too_few_replicas_are_left(
    level: str, gone: tuple[str, ...], copies: int, said: int
) -> None:
    lines = [*WHOLE, *asked(30, level=level), *asked(25_000, answer=MISSED, level=level), *unreached(*gone)]
    replication = f'{{"replication": {{"class": "SimpleStrategy", "replication_factor": {copies}}}}}'
    made_so = [line.replace("create-keyspace k", f"create-keyspace k {replication}") for line in lines]
    assert len(replicas_missed(made_so)) == said


def test_one_node_without_a_server_explains_a_refusal_where_replicas_are_not_known_or_in_several_data_centers() -> None:
    lines = [*WHOLE, *asked(25_000, answer=MISSED)]
    several = [line.replace("create-keyspace k", f"create-keyspace k {BY_CENTER}") for line in lines]
    for history in (several, [line for line in lines if line not in SETUP]):
        assert len(replicas_missed(history)) == 1
        assert replicas_missed([*history, *unreached("n2")]) == []


def test_a_keyspace_was_made_once_and_a_start_long_ago_explains_nothing() -> None:
    lone = asked(25_000, answer=MISSED)
    assert len(replicas_missed([*WHOLE, *lone, '@14000 -- n2 info node-start {"phase": "fault", "served": true}'])) == 1
    again = made("create-keyspace k", "info no", at=40)
    assert replicas_missed([*WHOLE, *lone, *again]) == []
    other = [line.replace("k.t", "l.t") for line in (*asked(40), *lone)]
    assert len(replicas_missed([*WHOLE, *other])) == 1, "a keyspace of before the run"
    assert len(replicas_missed([*WHOLE, *lone, *made("create-keyspace k", "fail AlreadyExists", at=40)])) == 1


@pytest.mark.parametrize(
    ("own", "strange_then"),
    [
        pytest.param(made("create-table k.y a:int*", "ok", at=40), True, id="an entry of its own"),
        pytest.param(made("create-type l.u a:int", "ok", at=40), True, id="of another keyspace"),
        pytest.param(made("create-table k.y a:int*", "info no", at=40), False, id="of unknown outcome"),
        pytest.param(made("create-table k.y a:int*", "ok", at=60), False, id="later"),
        pytest.param(["@40 p40 n1 invoke create-table k.y a:int*", "@55 p40 n1 ok"], False, id="not acknowledged yet"),
        pytest.param(["@2 p40 n1 invoke create-table k.y a:int*", "@40 p40 n1 ok"], False, id="perhaps an older entry"),
        pytest.param(
            ['@40 p40 n1 invoke drop-table k.y {"if_exists": true}', '@41 p40 n1 ok {"applied": true}'],
            False,
            id="perhaps a no-op",
        ),
    ],
)
def test_a_coordinator_that_wrote_a_later_entry_of_the_log_has_heard_of_a_keyspace_before(
    own: list[str], *, strange_then: bool
) -> None:
    refused = without_keyspace(node="n2", at=50)

    def found(authority: str, node: str) -> list[str]:
        reading = f'settled n1,n2 version v9 {{"authority": "{authority}"}}'
        lines = [*WHOLE, *refused, *(line.replace(" n1 ", f" {node} ") for line in own)]
        evidence = Evidence.of(judged(lines, [reading]))
        return [text for text in find_misplaced_answers(evidence) if "which their coordinator knew" in text]

    assert bool(found("log", "n2")) is strange_then
    assert found("log", "n3") == found("log", "n1") == [], "another coordinator's entry"
    assert found("disk", "n2") == [], "there is no log"
