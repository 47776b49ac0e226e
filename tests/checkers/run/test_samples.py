"""The numbered readings of nodes: one that is left out, late or there twice is a doubt; whole ones are none."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from histories import events, observed

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.run.samples import find_strange_samples
from schemaquake.harness.model.records import OBSERVATIONS

PLANNED = '@0 -- info run-planned {"restart": "none", "logs": [], "pull_delay_s": 0}'
BOOTS = [f'@0 -- {node} info node-start {{"phase": "boot", "served": true}}' for node in ("n1", "n2")]
LATER = [line.replace("boot", "restart") for line in BOOTS]
UNSERVED = [line.replace("true", "false") for line in BOOTS]


def reading(number: int, *nodes: str, at: int | None = None, phase: str = "running") -> list[str]:
    """The readings of these nodes with this number, all answered at one time."""
    return [f"@{10 * number if at is None else at} {phase}#{number} {node} version v" for node in nodes]


WHOLE = [line for number in (1, 2, 3, 4) for line in reading(number, "n1", "n2")]


def said(observations: Sequence[str], history: Sequence[str] = (PLANNED, *BOOTS)) -> list[str]:
    rows = [row for line in observations for row in accounts(line)]
    return list(find_strange_samples(Evidence(events(*history), pa.Table.from_pylist(rows, schema=OBSERVATIONS))))


def accounts(line: str) -> list[dict[str, Any]]:
    """The row of one line; readings on the way have the numbers that they are given, too."""
    _, phase, kind, *_ = re.split(r" (?=\w+#)|#\d+ \S+ | ", line)
    rows = observed(re.sub(r" \w+#", " settled#", line)).to_pylist()
    return [{**row, "phase": phase} for row in rows if row["kind"] == kind]


def test_whole_readings_are_sound() -> None:
    assert said(WHOLE) == []
    assert said([*WHOLE, *reading(5, "n1", "n2", phase="settled")]) == []
    assert said([]) == []


@pytest.mark.parametrize("gone", [1, 2, 3])
def test_a_number_that_no_reading_has_is_missing(gone: int) -> None:
    left = [line for line in WHOLE if f"#{gone} " not in line]
    assert said(left) == [f"there is no reading number {gone}, and there is one number 4"]
    assert said(left, BOOTS) == [], "a run of 0.1 has no plan"


def test_readings_without_a_number_are_in_no_order() -> None:
    unnumbered = [line for at in (5, 45) for line in reading(0, "n1", at=at, phase="fault")]
    assert said([unnumbered[0], *WHOLE]) == []
    assert said([*WHOLE, unnumbered[1]]) == []
    left = [line for line in WHOLE if "#1 " not in line]
    assert said([unnumbered[0], *left]) == ["there is no reading number 1, and there is one number 4"]


def test_the_last_readings_may_be_the_last_ones() -> None:
    assert said([line for line in WHOLE if "#4 " not in line]) == []


@pytest.mark.parametrize(
    ("number", "at", "late"), [(3, 19, (3, 2)), (3, 20, None), (3, 40, None), (3, 41, (4, 3)), (1, 21, (2, 1))]
)
def test_readings_are_answered_in_the_order_of_their_numbers(
    number: int, at: int, late: tuple[int, int] | None
) -> None:
    moved = [line for line in WHOLE if f"#{number} n2" not in line]
    expected = [] if late is None else [f"reading number {late[0]} was answered before number {late[1]}"]
    assert said([*moved, *reading(number, "n2", at=at)]) == expected


@pytest.mark.parametrize(
    ("gone", "history", "is_missed"),
    [
        pytest.param((2,), (PLANNED, *BOOTS), True, id="one between others"),
        pytest.param((2, 3), (PLANNED, *BOOTS), True, id="two between others"),
        pytest.param((2,), (PLANNED, BOOTS[0]), True, id="one between others, of a node that joined"),
        pytest.param((1,), (PLANNED, *BOOTS), True, id="the first one of a node that served from the start"),
        pytest.param((1,), (PLANNED, BOOTS[0]), False, id="the first one of a node that joined"),
        pytest.param(
            (1,), (PLANNED, BOOTS[0], LATER[1]), False, id="the first one of a node that joined and restarted"
        ),
        pytest.param((1,), (PLANNED, BOOTS[0], UNSERVED[1]), False, id="the first one of a node that did not come up"),
        pytest.param((4,), (PLANNED, *BOOTS), False, id="the last one"),
        pytest.param((1, 2, 3, 4), (PLANNED, *BOOTS), False, id="all of them: it was never followed"),
    ],
)
def test_a_node_is_in_every_reading_while_it_is_followed(
    gone: Sequence[int], history: Sequence[str], *, is_missed: bool
) -> None:
    left = [line for line in WHOLE if not any(f"#{number} n2" in line for number in gone)]
    expected = [f"n2 is not in reading number {gone[0]}, and was followed then"] if is_missed else []
    assert said(left, history) == expected


@pytest.mark.parametrize(
    ("node", "time", "is_missed"),
    [("n2", 5, False), ("n1", 5, True), ("n2", 20, False), ("n2", 21, True), ("n1", 21, True)],
)
def test_a_node_that_an_operation_concerned_may_be_away(node: str, time: int, *, is_missed: bool) -> None:
    value = f'{{"operation": 1, "nodes": ["{node}"], "becomes": {{"{node}": "normal"}}}}'
    operation = [f"@{time} -- {node} invoke move {value}", f"@{time + 1} -- {node} ok move {value}"]
    left = [line for line in WHOLE if "#2 n2" not in line]
    assert bool(said(left, (PLANNED, *BOOTS, *operation))) is is_missed


@pytest.mark.parametrize(("time", "missed"), [(5, None), (25, None), (30, None), (31, 3), (41, 3)])
def test_a_node_is_followed_until_an_operation_concerns_it(time: int, missed: int | None) -> None:
    value = '{"operation": 1, "nodes": ["n2"], "becomes": {"n2": "left"}}'
    operation = [f"@{time} -- n2 invoke decommission {value}", f"@{time + 1} -- n2 ok decommission {value}"]
    left = [line for line in WHOLE if "#3 n2" not in line and "#4 n2" not in line]
    expected = [] if missed is None else [f"n2 is not in reading number {missed}, and was followed then"]
    assert said(left, (PLANNED, *BOOTS, *operation)) == expected


@pytest.mark.parametrize(
    ("account", "name"),
    [
        ("version v", "version"),
        ("keyspace k", "keyspace k"),
        ("table k.t id=a a:int*", "table k.t"),
        ("type k.u a:int", "type k.u"),
        ("function k.f", "function k.f"),
        ("live k.t CREATE TABLE k.t (a int PRIMARY KEY)", "live k.t"),
        ("data-directory k.t id=a {}", "data-directory k.t"),
    ],
)
def test_an_account_that_a_reading_has_twice_is_odd(account: str, name: str) -> None:
    one, again = f"@45 settled#5 n1 {account}", f"@46 settled#5 n1 {account}"
    assert said([*WHOLE, one]) == []
    assert said([*WHOLE, one, again]) == [f"n1 shows {name} twice in one reading of phase settled"]
    assert said([*WHOLE, one, again], BOOTS) == []
    for other in (again.replace("n1", "n2"), again.replace("#5", "#6"), again.replace("settled", "restarted")):
        assert said([*WHOLE, one, other]) == []


def test_two_objects_of_one_name_may_be_gone_in_one_reading() -> None:
    """A type and a view may have one name, and be dropped between two readings."""
    gone = ["@25 running#3 n1 live k.x gone type", "@26 running#3 n1 live k.x gone view"]
    assert said([*WHOLE, *gone]) == []
    assert said([*WHOLE, *gone, gone[0]]) == ["n1 shows live k.x twice in one reading of phase running"]


def test_of_several_accounts_that_are_there_twice_the_first_is_named() -> None:
    twice = [f"@{at} settled#5 n1 {account}" for account in ("keyspace k", "type k.u a:int") for at in (45, 46)]
    assert said([*WHOLE, *twice]) == ["n1 shows keyspace k twice in one reading of phase settled"]


@pytest.mark.parametrize(
    ("one", "other", "is_odd"),
    [
        pytest.param("table k.t id=a a:int*", "table k.t id=b a:text*", True, id="two tables of one name"),
        pytest.param("table k.t id=a a:int*", "table k.u id=a a:int*", False, id="two tables"),
        pytest.param("table k.t id=a a:int*", "table l.t id=a a:int*", False, id="tables of two keyspaces"),
        pytest.param("table k.t id=a a:int*", "view k.t id=a a:int*", False, id="two kinds"),
        pytest.param("data-directory k.t id=a {}", "data-directory k.t id=b {}", False, id="lives of a table"),
        pytest.param("data-directory k.t {}", "data-directory k.t {}", False, id="lives without ids"),
        pytest.param(
            'function k.f {"arguments": ["int"]}', 'function k.f {"arguments": ["text"]}', False, id="functions"
        ),
        pytest.param(
            'aggregate k.f {"arguments": ["int"]}', 'aggregate k.f {"arguments": ["text"]}', False, id="aggregates"
        ),
        pytest.param("live k.f CREATE FUNCTION a", "live k.f CREATE FUNCTION b", False, id="functions in memory"),
    ],
)
def test_two_accounts_that_differ(one: str, other: str, *, is_odd: bool) -> None:
    assert bool(said([*WHOLE, f"@45 settled#5 n1 {one}", f"@46 settled#5 n1 {other}"])) is is_odd
