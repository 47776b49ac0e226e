"""Statements that fit their table and were refused while the run went on: a doubt, unless something explains it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from histories import judged

from schemaquake.checkers.rows.visibility import Visibility

KEYSPACE = ("@1 p90 n1 invoke create-keyspace k", "@2 p90 n1 ok")
CREATED = ("@3 p91 n1 invoke create-table k.t a:int* v:int", "@4 p91 n1 ok")
INSERT = 'insert k.t {"row": {"a": 1, "v": 2}, "consistency": "ONE", "phase": "racing"}'
READ = 'read-rows k.t {"columns": ["a", "v"], "consistency": "ONE", "phase": "prepared"}'
KEYED = READ.replace('"phase"', '"where": {"a": 1}, "phase"')
KNOW = 'know-table k.t {"table": "t", "key": "a"}'
REFUSED = "fail InvalidRequest: it cannot be done"
FAILED = "fail ServerError: java.lang.NullPointerException"


def asked(call: str, answer: str = REFUSED, *, at: int = 20_000) -> list[str]:
    return [f"@{at} p1 n2 invoke {call}", f"@{at + 10} p1 n2 {answer}"]


def doubtful(*lines: Sequence[str], setup: Sequence[str] = (*KEYSPACE, *CREATED)) -> list[tuple[str, ...]]:
    verdict = Visibility().check(judged([*setup, *(line for group in lines for line in group)]), limit_s=5)
    assert verdict.anomalies == ()
    return [doubt.objects for doubt in verdict.doubts]


@pytest.mark.parametrize("call", [INSERT, READ, KEYED, KNOW])
@pytest.mark.parametrize("answer", [REFUSED, FAILED])
def test_a_refusal_that_nothing_explains_is_a_doubt(call: str, answer: str) -> None:
    assert doubtful(asked(call, answer)) == [("k.t",)]
    assert doubtful(asked(call, "ok")) == []


@pytest.mark.parametrize(
    "answer",
    [
        "fail Unavailable: one",
        "fail OperationTimedOut: late",
        "info OperationTimedOut: late",
        "fail NoHostAvailable: n2",
    ],
)
def test_what_is_no_refusal_is_none(answer: str) -> None:
    assert doubtful(asked(INSERT, answer)) == []


@pytest.mark.parametrize(
    "call",
    [
        INSERT.replace('"a": 1, ', ""),
        INSERT.replace('"v": 2', '"w": 2'),
        KEYED.replace('"where": {"a": 1}', '"where": {"v": 1}'),
        INSERT.replace("racing", "settled"),
        INSERT.replace('"v": 2', '"v": "two"'),
        INSERT.replace('"v": 2', '"v": [2]'),
        INSERT.replace('"v": 2', '"v": {"a": 2}'),
        KEYED.replace('"where": {"a": 1}', '"where": {"a": "one"}'),
    ],
    ids=[
        *("no key", "a column that is not there", "not by the key", "a final phase"),
        *("a text for a number", "a list for a number", "a value of a type for a number", "a text for the key"),
    ],
)
def test_a_statement_that_does_not_fit_may_be_refused(call: str) -> None:
    assert doubtful(asked(call)) == []


@pytest.mark.parametrize(
    "change",
    [
        ["@9000 p7 n1 invoke drop-table k.t", "@9001 p7 n1 info timed out"],
        ["@20005 p7 n1 invoke drop-table k.t", "@30001 p7 n1 ok"],
        ["@9000 p7 n1 invoke drop-column k.t v", "@9001 p7 n1 ok"],
        ["@9000 p7 n1 invoke rename-column k.t v w", "@9001 p7 n1 info timed out"],
        ["@9000 p7 n1 invoke create-table k.t a:int* v:text", "@9001 p7 n1 info timed out"],
        ['@9000 p7 n1 invoke cql k {"statement": "DROP TABLE k.t"}', "@9001 p7 n1 ok"],
    ],
)
def test_a_change_that_may_have_taken_what_it_names_explains_it(change: list[str]) -> None:
    assert doubtful(change, asked(INSERT)) == []


def test_a_table_that_may_not_have_been_there_yet_may_be_unknown() -> None:
    assert doubtful(asked(INSERT), setup=KEYSPACE) == []
    late = ("@19999 p91 n1 invoke create-table k.t a:int* v:int", "@20005 p91 n1 ok")
    assert doubtful(asked(INSERT), setup=(*KEYSPACE, *late)) == []


@pytest.mark.parametrize(("at", "explained"), [(12_000, True), (9_000, False)])
def test_a_failure_beside_a_change_of_the_keyspace_is_explained(at: int, explained: bool) -> None:
    other = [f"@{at} p7 n1 invoke create-table k.s a:int*", f"@{at + 1} p7 n1 ok"]
    assert bool(doubtful(other, asked(INSERT, FAILED))) is not explained
    assert doubtful(other, asked(INSERT)) == [("k.t",)], "a coordinator that knows the table does not refuse it"


def test_a_failure_under_a_fault_is_explained() -> None:
    fault = ['@15000 -- info fault-begins {"id": 1, "nemesis": "partition", "nodes": ["n1"]}']
    assert doubtful(fault, asked(INSERT, FAILED)) == []
    ended = [*fault, '@16000 -- info fault-ends {"id": 1, "nemesis": "partition"}']
    assert doubtful(ended, asked(INSERT, FAILED)) == [("k.t",)]


@pytest.mark.parametrize(
    ("begins", "ends", "explained"),
    [
        (15_000, "@16000 -- ok", True),
        (15_000, "@25000 -- info", True),
        (2_000, "@9000 -- ok", False),
        (2_000, "@9000 -- fail", False),
        (2_000, "@9000 -- info", True),
        (20_500, "@21000 -- ok", False),
    ],
)
def test_a_failure_beside_a_change_of_the_ring_is_explained(begins: int, ends: str, explained: bool) -> None:
    """Replicas refuse a coordinator that goes by another ring; the statement is sent at 20,000 and failed at 20,010."""
    value = '{"operation": 0, "nodes": ["n3"], "becomes": {"n3": "left"}}'
    ring = [f"@{begins} -- invoke decommission {value}", f"{ends} decommission {value}"]
    lines = sorted([*ring, *asked(INSERT, FAILED)], key=_time)
    setup = [*KEYSPACE, *CREATED]
    assert bool(doubtful(lines, setup=setup)) is not explained
    refused = sorted([*ring, *asked(INSERT)], key=_time)
    assert doubtful(refused, setup=setup) == [("k.t",)], "a change of the ring leaves the table what it is"


@pytest.mark.parametrize(("added", "doubts"), [(19_000, [("k.t",)]), (19_995, []), (20_005, [])])
def test_a_column_that_is_just_being_added_may_be_unknown(added: int, doubts: list[tuple[str, ...]]) -> None:
    """The statement is sent at 20,000; the column is there before only where its change had ended by then."""
    add = [f"@{added} p3 n3 invoke add-column k.t w:int", f"@{added + 10} p3 n3 ok"]
    assert doubtful(sorted([*add, *asked(INSERT.replace('"v": 2', '"w": 2'))], key=_time)) == doubts


@pytest.mark.parametrize(
    ("added", "refused", "written", "doubts"),
    [
        pytest.param("frozen<u0>", "text", '"seven"', [], id="a text for a user-defined type"),
        pytest.param("frozen<u0>", "int", "7", [], id="a number for a user-defined type"),
        pytest.param("frozen<u0>", "text", '{"f": 7}', [], id="its fields belong to the type"),
        pytest.param("frozen<list<int>>", "int", "7", [], id="a number for a list"),
        pytest.param("text", "frozen<u0>", '{"f": 7}', [], id="a value of a type for a text"),
        pytest.param("text", "int", "7", [], id="a number for a text"),
        pytest.param("text", "frozen<u0>", '"seven"', [("k.t",)], id="a text for a text"),
        pytest.param("int", "frozen<u0>", "7", [("k.t",)], id="a number for a number"),
    ],
)
def test_who_added_a_column_in_vain_may_write_no_value_of_its_type(
    added: str, refused: str, written: str, doubts: list[tuple[str, ...]]
) -> None:
    """Two sides add one column with two types; the one that was told that it exists goes on as if it were its own."""
    lines = [
        *("@19000 p3 n3 invoke add-column k.t w:" + added, "@19000 p4 n2 invoke add-column k.t w:" + refused),
        *("@19010 p3 n3 ok", "@19011 p4 n2 fail InvalidRequest: w exists"),
        *asked(INSERT.replace('"v": 2', f'"w": {written}')),
    ]
    assert doubtful(lines) == doubts


def _time(line: str) -> int:
    return int(line[1:].split(maxsplit=1)[0])


def test_a_doubt_is_about_its_table() -> None:
    verdict = Visibility().check(judged([*KEYSPACE, *CREATED, *asked(INSERT)]), limit_s=5)
    assert (verdict.valid, [doubt.objects for doubt in verdict.doubts]) == ("unknown", [("k.t",)])
    assert Visibility().check(judged([*KEYSPACE, *CREATED, *asked(INSERT, "ok")]), limit_s=5).valid is True


LATER = ("@40000 p92 n1 invoke drop-table k.t", "@40010 p92 n1 ok")


@pytest.mark.parametrize(
    ("lines", "is_doubt"),
    [
        pytest.param([*asked(INSERT), *LATER], True, id="the table is dropped later"),
        pytest.param([*asked(KEYED), *LATER], True, id="a read of it"),
        pytest.param([*asked(INSERT, at=40_005), *LATER], False, id="while it is dropped"),
        pytest.param([*asked(INSERT, at=3_000), *LATER], False, id="not every node need know it yet"),
        pytest.param([*asked(INSERT, FAILED), *LATER], False, id="an error of the execution"),
        pytest.param([*asked(INSERT.replace('"v": 2', '"w": 2')), *LATER], False, id="a column that it has not"),
        pytest.param([*asked(INSERT.replace('"v": 2', '"v": "two"')), *LATER], False, id="a text for a number"),
        pytest.param([*asked(KEYED.replace('{"a": 1}', '{"a": "one"}')), *LATER], False, id="a text for the key"),
        pytest.param(
            [*asked(INSERT), *LATER, "@19000 p93 n1 invoke alter-options k.t comment=x", "@19010 p93 n1 ok"],
            False,
            id="it has just changed",
        ),
    ],
)
def test_a_table_that_is_dropped_later_excuses_no_refusal_before(lines: Sequence[str], *, is_doubt: bool) -> None:
    assert doubtful(lines) == [("k.t",)] * is_doubt


def test_a_coordinator_that_has_not_heard_of_the_create_goes_by_the_former_table() -> None:
    former = ["@3 p91 n1 invoke create-table k.t b:int* v:int", "@4 p91 n1 ok"]
    dropped = ["@19000 p91 n1 invoke drop-table k.t", "@19001 p91 n1 ok"]

    def refused(node: str, at: int = 20_000) -> list[tuple[str, ...]]:
        again = [f"@19500 p92 {node} invoke create-table k.t a:int* v:int", f"@19990 p92 {node} ok"]
        return doubtful(dropped, again, asked(INSERT, at=at), setup=(*KEYSPACE, *former))

    assert refused("n1") == []
    assert refused("n2") == [("k.t",)], "it has made the table itself"
    assert refused("n1", at=31_000) == [("k.t",)], "every node has heard of it"
