"""Meetings of a run of churn, by the faults under way and the phase of a restart."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from schemaquake.harness.model.records import HISTORY
from schemaquake.results.tables.meetings import cover, tabulate_meetings

S = 1_000_000_000


def history(*notes: tuple[float, str, dict[str, Any]]) -> pa.Table:
    rows = [
        {
            "index": index,
            "time": int(time * S),
            "process": -1,
            "type": "info",
            "f": f,
            "node": None,
            "key": "k",
            "value": json.dumps(value),
            "error": None,
            "mops": None,
        }
        for index, (time, f, value) in enumerate(notes)
    ]
    return pa.Table.from_pylist(rows, schema=HISTORY)


def meeting(time: float, *cells: str) -> tuple[float, str, dict[str, Any]]:
    return time, "meeting", {"round": int(time), "sides": [["A"], ["B"]], "cells": list(cells)}


def fault(number: int, nemesis: str, begins: float, ends: float) -> list[tuple[float, str, dict[str, Any]]]:
    return [
        (begins, "fault-begins", {"id": number, "nemesis": nemesis, "nodes": ["n1"]}),
        (ends, "fault-ends", {"id": number, "nemesis": nemesis}),
    ]


def test_a_meeting_counts_for_the_condition_under_which_it_was() -> None:
    notes = [
        *fault(0, "kill", 10, 20),
        *fault(1, "partition", 15, 40),
        *(meeting(time, "a/b/same-table") for time in (5, 12, 16, 21, 30, 31, 41)),
    ]
    table = tabulate_meetings(history(*sorted(notes, key=lambda note: note[0])))
    assert [(row["faults"], row["restart"], row["count"]) for row in table.to_pylist()] == [
        ("", "", 2),
        ("kill", "down", 1),
        ("kill+partition", "down", 1),
        ("partition", "back", 1),
        ("partition", "", 2),
    ]
    assert table["first"].to_pylist()[0] == 5 * S


def test_coverage_counts_a_pair_once_however_often_it_met() -> None:
    planned = (0.0, "meetings-planned", {"cells": 9})
    covered = cover(history(planned, meeting(1, "a/b/same-table", "a/b/keyspace"), meeting(2, "a/b/keyspace")))
    assert covered is not None
    assert (covered.rounds, covered.statements, covered.cells, covered.possible) == (2, 4, 2, 9)
    assert covered.by_relation == [("same", 1), ("keyspace", 1)]
    assert covered.by_condition == [("", "", 2, 3)]


def test_a_run_without_meetings_has_no_coverage() -> None:
    assert cover(history((1.0, "phase", {"phase": "main"}))) is None
    assert tabulate_meetings(history()).num_rows == 0
