"""Logs of servers: one that is a copy of another, or older than that of an earlier start, is a doubt."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest
from histories import events

from schemaquake.checkers.evidence.notes import Notes
from schemaquake.checkers.run.copied_logs import find_copied_logs
from schemaquake.harness.model.records import LOGS

CLOCK = (
    '@5 -- info fault-begins {"id": 1, "nemesis": "clock", "nodes": ["n1"], "parameters": {"offsets": {"n1": -3600}}}'
)
CUT = '@5 -- info fault-begins {"id": 1, "nemesis": "partition", "nodes": ["n1"]}'


def log(node: str, boot: int, *times: str | None, text: str = "line", thread: str | None = "main") -> list[dict]:
    return [
        {"node": node, "boot": boot, "line": number, "timestamp": time, "level": "WARN", "thread": thread}
        | {"message": f"{text} {number}", "stack": None}
        for number, time in enumerate(times, 1)
    ]


def said(rows: Sequence[dict], history: Sequence[str] = ()) -> list[str]:
    return list(find_copied_logs(pa.Table.from_pylist(list(rows), schema=LOGS), Notes(events(*history))))


def day(*seconds: int) -> list[str]:
    return [f"2026-11-29 10:00:{second:02},000" for second in seconds]


OWN = log("n1", 0, *day(1, 2, 3, 4, 5, 6))


def test_logs_of_one_text_and_other_times_are_sound() -> None:
    assert said([]) == []
    assert said([*OWN, *log("n2", 0, *day(2, 3, 4, 5, 6, 7)), *log("n1", 1, *day(11, 12, 13, 14, 15, 16))]) == []


@pytest.mark.parametrize(("node", "boot"), [("n2", 0), ("n2", 3), ("n1", 1)])
def test_a_log_that_is_anothers_is_a_copy(node: str, boot: int) -> None:
    (text,) = said([*OWN, *log(node, boot, *day(1, 2, 3, 4, 5, 6))])
    assert (
        text
        == f"the logs of start 0 of n1 and of start {boot} of {node} have 6 lines in a row of one text and one time"
    )


@pytest.mark.parametrize(
    ("seconds", "is_copy"),
    [
        pytest.param((1, 2, 3, 4, 5), True, id="five lines are the whole log"),
        pytest.param((1, 2, 3, 4, 5, 10, 11, 12, 13, 14), True, id="most of the shorter log"),
        pytest.param((1, 2, 3, 4, 10, 11), False, id="four lines, by chance"),
        pytest.param((1, 2, 3, 4), False, id="four lines that are the whole log"),
    ],
)
def test_half_of_a_log_is_no_chance(seconds: Sequence[int], *, is_copy: bool) -> None:
    assert bool(said([*OWN, *log("n2", 0, *day(*seconds))])) is is_copy


@pytest.mark.parametrize(
    ("shared", "length", "is_copy"),
    [(5, 10, True), (5, 11, False), (5, 13, False), (10, 15, True), (10, 20, True), (10, 21, False)],
)
def test_a_few_lines_of_long_logs_may_meet(shared: int, length: int, *, is_copy: bool) -> None:
    one, other = day(*range(1, length + 1)), day(*range(1, shared + 1), *range(30, 30 + length - shared))
    assert bool(said([*log("n1", 0, *one), *log("n2", 0, *other)])) is is_copy


@pytest.mark.parametrize(
    ("pieces", "is_copy"), [((12,), True), ((7, 5), True), ((6, 6), False), ((5, 4, 3), False), ((1,) * 12, False)]
)
def test_lines_that_meet_here_and_there_are_no_copy(pieces: Sequence[int], *, is_copy: bool) -> None:
    """Servers that refuse the writes of one client do so at one time, again and again, with lines of their own in between."""
    one, other = [], []
    for piece in pieces:
        shared = [{"message": f"refused {len(one) + number}", "thread": "main"} for number in range(piece)]
        one += [*shared, {"message": f"n1 {len(one)}", "thread": "main"}]
        other += [*shared, {"message": f"n2 {len(other)}", "thread": "main"}]
    rows = [
        {"node": node, "boot": 0, "line": number, "timestamp": day(5)[0], "level": "WARN", "stack": None, **line}
        for node, lines in (("n1", one), ("n2", other))
        for number, line in enumerate(lines, 1)
    ]
    assert bool(said(rows)) is is_copy


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(log("n2", 0, *day(1, 2, 3, 4, 5, 6), text="other"), id="other texts"),
        pytest.param(log("n2", 0, *day(1, 2, 3, 4, 5, 6), thread="gossip"), id="other threads"),
        pytest.param(log("n2", 0, *[None] * 6), id="lines without times"),
    ],
)
def test_lines_that_are_others_are_no_copy(other: Sequence[dict]) -> None:
    assert said([*OWN, *other]) == []
    timeless = log("n1", 0, *[None] * 6)
    assert said([*timeless, *other]) == []


@pytest.mark.parametrize(("history", "is_odd"), [((), True), ((CUT,), True), ((CLOCK,), False)])
def test_a_later_start_has_a_later_log_unless_clocks_were_moved(history: Sequence[str], *, is_odd: bool) -> None:
    swapped = [*log("n1", 0, *day(11, 12)), *log("n1", 1, *day(1, 2))]
    assert said(swapped, history) == (["the log of start 1 of n1 is older than that of start 0"] if is_odd else [])


def test_logs_of_two_nodes_and_times_without_a_day_have_no_order() -> None:
    assert said([*log("n1", 0, *day(11, 12)), *log("n2", 1, *day(1, 2))]) == []
    assert said([*log("n1", 0, *day(11, 12)), *log("n1", 1, *day(11, 13))]) == []
    assert said([*log("n1", 0, "23:59:58", "23:59:59"), *log("n1", 1, "00:00:01", "00:00:02")]) == []
    assert len(said([*log("n1", 0, "10:00:00,000", *day(11)), *log("n1", 1, *day(1, 2))])) == 1


UTC = '@1000 -- info run-planned {"restart": "none", "logs": ["n1"], "utc": "2026-11-29T10:00:01+00:00"}'
"""At the begin of the run it was 10:00:00."""
ENDS = '@60000 -- info phase {"phase": "main", "state": "ends"}'
BEGINS = '@2000 -- info phase {"phase": "main", "state": "begins"}'


@pytest.mark.parametrize(
    ("first", "last", "is_odd"),
    [
        ("2026-11-29 10:00:05,000", "2026-11-29 10:01:00,000", False),
        ("2026-11-29 09:55:00,000", "2026-11-29 10:06:00,000", False),
        ("2026-11-29 09:54:59,000", "2026-11-29 10:06:00,000", True),
        ("2026-11-29 09:55:00,000", "2026-11-29 10:06:01,000", True),
        ("2026-11-29 15:45:05,000", "2026-11-29 15:46:00,000", False),
        ("2026-11-29 09:50:00,000", "2026-11-29 10:01:00,000", True),
        ("2026-11-28 10:00:05,000", "2026-11-28 10:01:00,000", True),
        ("2026-11-30 10:00:05,000", "2026-11-30 10:01:00,000", True),
        ("2026-11-28 22:00:05,000", "2026-11-28 22:01:00,000", False),
        ("2026-11-28 21:45:05,000", "2026-11-28 21:46:00,000", True),
        ("2026-11-30 00:00:05,000", "2026-11-30 00:01:00,000", False),
        ("2026-11-30 00:15:05,000", "2026-11-30 00:16:00,000", True),
        ("2026-13-29 10:00:05,000", "2026-13-29 10:01:00,000", True),
        ("10:00:05,000", "10:01:00,000", False),
    ],
)
def test_a_log_is_of_the_time_of_the_run_in_some_time_zone(first: str, last: str, *, is_odd: bool) -> None:
    rows = log("n1", 0, first, None, last)
    expected = [f"the log of start 0 of n1 is of another time than the run: {first} to {last}"] if is_odd else []
    assert said(rows, [UTC, BEGINS, ENDS]) == expected
    assert said(rows, [UTC.replace("utc", "other"), BEGINS, ENDS]) == [], "servers may read another clock"
    assert said(rows, [UTC, CLOCK, BEGINS, ENDS]) == [], "clocks were wrong"


def test_servers_of_a_run_that_was_broken_off_may_have_gone_on() -> None:
    rows = log("n1", 0, "2026-11-29 10:00:05,000", "2026-11-29 16:01:00,000")
    assert len(said(rows, [UTC, BEGINS, ENDS])) == 1
    assert said(rows, [UTC, BEGINS]) == []
