"""Denials: refusals that say that something is not there which their coordinator must know, and those that something explains."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from histories import judged

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.run.denials import find_denials

MADE = ("@10 p0 n1 invoke create-table k.t a:int* c:int", "@12 p0 n1 ok")
AGREED = '@30 -- info settle {"phase": "setup", "agreed": true, "seconds": 0.01, "versions": {"n1": "v", "n2": "v"}}'
NO_COLUMN = "InvalidRequest: Column c was not found in table 'k.t'"
NO_TABLE = "InvalidRequest: Table 'k.t' doesn't exist"
DENIED = ("@50 p1 n2 invoke drop-column k.t c", f"@52 p1 n2 fail {NO_COLUMN}")
DROPPED = ("@60 p0 n1 invoke drop-column k.t c", "@62 p0 n1 ok")


def denials(*lines: str, observations: Sequence[str] = ()) -> Sequence[str]:
    return list(find_denials(Evidence.of(judged(lines, observations))))


def test_a_coordinator_that_agreed_with_all_nodes_knows_the_column() -> None:
    (said,) = denials(*MADE, AGREED, *DENIED, *DROPPED)
    assert said.startswith("op 3 was refused because column c of k.t is not there")
    assert "n2 had agreed with all nodes on one schema after op 0" in said


def test_one_that_need_not_know_it_yet_may_refuse() -> None:
    assert denials(*MADE, *DENIED, *DROPPED) == []
    for odd in (AGREED.replace("true", "false"), AGREED.replace("0.01", "0.02"), AGREED.replace('"n2"', '"n3"')):
        assert denials(*MADE, odd, *DENIED, *DROPPED) == []
    assert denials(*MADE, AGREED.replace("@30", "@51"), *DENIED, *DROPPED) == []
    other = [line.replace("n1", "n2") for line in MADE]
    assert denials(*other, *(line.replace("n2", "n1") for line in DENIED), *DROPPED) == []


@pytest.mark.parametrize("agreed", [AGREED.replace("0.01", "0.018"), AGREED.replace("@30", "@50")])
def test_a_wait_for_agreement_may_begin_with_the_answer_and_end_with_the_question(agreed: str) -> None:
    assert len(denials(*MADE, agreed, *DENIED, *DROPPED)) == 1


def test_an_agreement_that_was_there_at_once_says_nothing_of_later_changes() -> None:
    at_once = AGREED.replace("0.01", "0")
    assert len(denials(*MADE, at_once, *DENIED, *DROPPED)) == 1
    late = [line.replace("@10", "@33").replace("@12", "@35") for line in MADE]
    assert denials(*late, at_once, *DENIED, *DROPPED) == []


@pytest.mark.parametrize(("answered", "count"), [(49, 1), (51, 0)])
def test_what_was_answered_after_the_question_need_not_be_known(answered: int, count: int) -> None:
    made = [line.replace("n2", "n1") for line in DENIED]
    assert len(denials(MADE[0], f"@{answered} p0 n1 ok", *made, *DROPPED)) == count


def test_each_refusal_is_judged_by_itself() -> None:
    unknown = [line.replace("p1", "p3").replace("t c", "t z").replace(" c ", " z ") for line in DENIED]
    (said,) = denials(*MADE, AGREED, *unknown, *DENIED, *DROPPED)
    assert "column c of k.t" in said


ADDED = ("@10 p8 n1 invoke add-column k.t c:int", "@12 p8 n1 ok")


@pytest.mark.parametrize(
    "lines",
    [
        (),  # the table is older than the history
        ("@5 p0 n1 invoke create-table k.t a:int* b:int d:int", "@6 p0 n1 ok"),
        (
            *("@13 p0 n1 invoke add-column k.t b:int", "@14 p0 n1 ok"),
            *("@15 p0 n1 invoke add-column k.t d:int", "@16 p0 n1 ok"),
        ),
    ],
)
def test_a_column_that_was_added_is_known_whatever_else_the_table_has(lines: Sequence[str]) -> None:
    assert len(denials(*lines, *ADDED, AGREED, *DENIED, *DROPPED)) == 1
    assert denials(*lines, ADDED[0], "@12 p8 n1 info timed out", AGREED, *DENIED, *DROPPED) == []


def test_one_that_made_it_knows_it() -> None:
    (said,) = denials(*MADE, *(line.replace("n2", "n1") for line in DENIED), *DROPPED)
    assert "n1 had acknowledged op 0" in said


LIVE = "@40 running n2 live k.t CREATE TABLE k.t (a int PRIMARY KEY, c int)"


def test_one_that_showed_it_knows_it() -> None:
    (said,) = denials(*MADE, *DENIED, *DROPPED, observations=[LIVE])
    assert "n2 had shown it at 0.040 s" in said
    assert len(denials(*MADE, *DENIED, *DROPPED, observations=[LIVE.replace("@40", "@50")])) == 1
    others = [LIVE.replace(f" {place} ", f" {other} ") for place, other in (("n2", "n1"), ("n2", "n3"))]
    others += [LIVE.replace("k.t", f"k.{other}") for other in ("s", "u")]
    for odd in (*others, LIVE.replace("@40", "@51"), LIVE.replace(", c int", "")):
        assert denials(*MADE, *DENIED, *DROPPED, observations=[odd]) == []


@pytest.mark.parametrize(
    ("shown", "count"),
    [
        ([LIVE], 1),
        ([LIVE.replace("TABLE k.t", "TABLE k.s")], 0),  # its statement is that of another table
        ([LIVE.replace("CREATE TABLE", "HERE IS")], 0),
        ([LIVE, "@45 running n2 live k.t gone table"], 0),
    ],
)
def test_one_that_showed_an_object_knows_it(shown: Sequence[str], count: int) -> None:
    denied = ("@50 p1 n2 invoke drop-table k.t", f"@52 p1 n2 fail {NO_TABLE}")
    assert len(denials(*MADE, *denied, observations=shown)) == count


FAULT = '@{} -- info fault-{} {{"id": 1, "nemesis": "partition", "nodes": ["n2"]}}'


@pytest.mark.parametrize(
    "lines",
    [
        ("@45 p2 n3 invoke drop-column k.t c", "@70 p2 n3 info timed out"),
        ("@51 p2 n3 invoke drop-column k.t c", "@70 p2 n3 ok"),
        ("@52 p2 n3 invoke drop-column k.t c", "@70 p2 n3 ok"),
        ("@45 p2 n3 invoke rename-column k.t c>d", "@46 p2 n3 ok"),
        ("@45 p2 n3 invoke drop-table k.t", "@46 p2 n3 info timed out"),
        ("@45 p2 n3 invoke drop-keyspace k", "@46 p2 n3 ok"),
        ('@45 p2 n3 invoke cql k {"statement": "ALTER TABLE t DROP c"}', "@46 p2 n3 ok"),
        ("@45 p2 n3 invoke create-table k.t a:int*", "@46 p2 n3 info timed out"),  # the table may be that one's
        ("@11 p2 n3 invoke add-column k.t c:int", "@13 p2 n3 info timed out"),
        *((f'@{at} -- n2 info node-start {{"phase": "fault", "served": true}}',) for at in (30, 40, 52)),
        (FAULT.format(40, "begins"),),
        ('@40 -- invoke repair {"operation": 1, "nodes": ["n2"], "becomes": {}}',),
        ('@1 -- info run-planned {"kills": true}',),
    ],
)
def test_what_may_have_removed_or_hidden_it_explains_the_refusal(lines: Sequence[str]) -> None:
    assert denials(*MADE, AGREED, *DENIED, *DROPPED, *lines) == []


@pytest.mark.parametrize(
    "lines",
    [
        ("@45 p2 n3 invoke drop-column k.t c", "@46 p2 n3 fail InvalidRequest: no"),
        ("@45 p2 n3 invoke drop-table k.s", "@46 p2 n3 ok"),
        ('@40 -- n1 info node-start {"phase": "fault", "served": true}',),
        ('@40 -- n3 info node-start {"phase": "fault", "served": true}',),
        ('@20 -- n2 info node-start {"phase": "fault", "served": true}',),
        ('@53 -- n2 info node-start {"phase": "fault", "served": true}',),
        (FAULT.format(15, "begins"), FAULT.format(20, "ends")),
    ],
)
def test_what_concerns_another_thing_node_or_time_explains_nothing(lines: Sequence[str]) -> None:
    assert len(denials(*MADE, AGREED, *DENIED, *DROPPED, *lines)) == 1


@pytest.mark.parametrize(
    "error",
    ["WriteTimeout: c", "InvalidRequest: Cannot drop column c: it is indexed", "NoHostAvailable: k.t not found"],
)
def test_another_error_denies_nothing(error: str) -> None:
    assert denials(*MADE, AGREED, DENIED[0], f"@52 p1 n2 fail {error}", *DROPPED) == []


@pytest.mark.parametrize(
    ("made", "dropped", "error"),
    [
        ("create-table k.t a:int*", "drop-table k.t", NO_TABLE),
        ("create-type k.u f0:int", "drop-type k.u", "InvalidRequest: Type 'k.u' doesn't exist"),
        (
            "create-index k.i t c",
            "drop-index k.i",
            "InvalidRequest: Index 'k.i' doesn't exist",
        ),
        (
            'create-view k.m {"base": "t"}',
            "drop-view k.m",
            "InvalidRequest: Cannot drop non existing materialized view 'm'",
        ),
        ("create-keyspace k", "drop-keyspace k", "InvalidRequest: Keyspace 'k' doesn't exist"),
    ],
)
def test_every_kind_of_object_may_be_denied(made: str, dropped: str, error: str) -> None:
    lines = [f"@10 p0 n1 invoke {made}", "@12 p0 n1 ok", AGREED]
    refused = [f"@50 p1 n2 invoke {dropped}", f"@52 p1 n2 fail {error}"]
    assert len(denials(*lines, *refused)) == 1
    assert denials(*lines, f"@45 p2 n1 invoke {dropped}", "@53 p2 n1 ok", *refused) == []


def test_a_function_of_other_arguments_is_another_one() -> None:
    def asked(*arguments: str, agreed: str = AGREED, observations: Sequence[str] = ()) -> Sequence[str]:
        made = {"name": "f", "arguments": [["x", "int"]], "returns": "int", "language": "java", "body": "return x;"}
        lines = [f"@10 p0 n1 invoke create-function k.f {json.dumps(made)}", "@12 p0 n1 ok", agreed]
        dropped = f"@50 p1 n2 invoke drop-function k.f {json.dumps({'arguments': [['x', each] for each in arguments]})}"
        refused = "@52 p1 n2 fail InvalidRequest: Function 'k.f' doesn't exist"
        return denials(*lines, dropped, refused, observations=observations)

    assert len(asked("int")) == 1
    assert asked("text") == []
    assert asked("ascii") == []
    statement = "CREATE FUNCTION k.f(x int) CALLED ON NULL INPUT RETURNS int LANGUAGE java AS 'return x;'"
    shown = f"@40 running n2 live k.f(int) {json.dumps({'kind': 'function', 'statement': statement})}"
    assert asked("int", agreed=AGREED.replace("true", "false"), observations=[shown]) == []
