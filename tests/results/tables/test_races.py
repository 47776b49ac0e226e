from __future__ import annotations

from typing import Any

import orjson
import pyarrow as pa
import pytest

from schemaquake.harness.history.pairing import OPERATIONS
from schemaquake.harness.model.records import HISTORY
from schemaquake.harness.model.verdict import Anomaly
from schemaquake.results.report import material
from schemaquake.results.tables.races import RACES, tabulate_races

SIDES = [["DROP TYPE ks.u"], ["CREATE TABLE ks.x (k int PRIMARY KEY, c frozen<u>)"]]


def note(
    keyspace: str, number: int, *, f: str = "race", in_value: bool = False, canary: str | None = None
) -> dict[str, Any]:
    value: dict[str, Any] = {
        "workload": "drop-type",
        "variant": "x",
        "number": number,
        "mode": "barrier",
        "sides": SIDES,
    }
    if canary is not None:
        value["canary"] = canary
    if in_value:
        value["keyspace"] = keyspace
    row = {"time": number, "process": -1, "type": "info", "f": f, "key": None if in_value else keyspace}
    return row | {"value": orjson.dumps(value).decode()}


def history(*rows: dict[str, Any]) -> pa.Table:
    complete = [dict.fromkeys(HISTORY.names) | {"index": index} | row for index, row in enumerate(rows)]
    return pa.Table.from_pylist(complete, schema=HISTORY)


def operations(*lines: str) -> pa.Table:
    rows = []
    for line in lines:
        index, key, kind = line.split()
        row = {"index": int(index), "completion": int(index) + 1, "process": 0, "type": kind, "f": "f", "invoked": 0}
        rows.append(dict.fromkeys(OPERATIONS.names) | row | {"key": None if key == "-" else key})
    return pa.Table.from_pylist(rows, schema=OPERATIONS)


def anomaly(kind: str, *objects: str, ops: tuple[int, ...] = ()) -> Anomaly:
    return Anomaly(type=kind, title="", objects=objects, ops=ops)


def broken(table: pa.Table) -> dict[str, list[str]]:
    rows = table.to_pylist()
    assert all(row["broken"] == bool(row["anomalies"]) for row in rows)
    return {row["keyspace"]: row["anomalies"] for row in rows}


def test_a_race_is_what_its_note_says_with_the_outcomes_of_its_keyspace():
    table = tabulate_races(
        history(note("ks", 0)), operations("10 ks ok", "12 ks.t ok", "14 ks.u info", "16 other.t fail", "18 - ok"), []
    )
    assert table.to_pylist() == [
        {
            "keyspace": "ks",
            "workload": "drop-type",
            "variant": "x",
            "number": 0,
            "mode": "barrier",
            "sides": SIDES,
            "broken": False,
            "anomalies": [],
            "ok": 2,
            "fail": 0,
            "info": 1,
        }
    ]


def test_an_anomaly_breaks_the_race_whose_object_it_names_and_no_other():
    table = tabulate_races(
        history(note("ks", 0), note("ks_1", 1), note("ks_2", 2)),
        operations(),
        [
            anomaly("lost-rows", "ks.t"),
            anomaly("dangling-type", "ks"),
            anomaly("lost-rows", "ks.t2"),
            anomaly("x", "ks_2.u"),
        ],
    )
    assert broken(table) == {"ks": ["dangling-type", "lost-rows"], "ks_1": [], "ks_2": ["x"]}


@pytest.mark.parametrize("index", [10, 11])
def test_an_anomaly_that_names_operations_alone_breaks_their_race(index):
    table = tabulate_races(
        history(note("a", 0), note("b", 1)), operations("10 a.t ok", "12 b.t ok"), [anomaly("x", ops=(index,))]
    )
    assert broken(table) == {"a": ["x"], "b": []}


def test_what_is_wrong_with_a_canary_is_the_damage_of_the_last_race_that_began():
    table = tabulate_races(
        history(note("ks_0", 0, canary="sq_canary.t_0"), note("ks_1", 1, canary="sq_canary.t_1")),
        operations("10 sq_canary.t_1 ok"),
        [anomaly("lost-rows", "sq_canary.t_0"), anomaly("x", ops=(10,)), anomaly("y", "elsewhere.t")],
    )
    assert broken(table) == {"ks_0": [], "ks_1": ["lost-rows", "x"]}


def test_so_is_what_is_wrong_where_no_race_was_begun_any_more():
    early = {"time": 9, "process": -1, "type": "info", "f": "phase-ended-early", "key": "sq_canary.t_1"}
    for phase, expected in (("main", ["x"]), ("final", [])):
        said = {"value": orjson.dumps({"phase": phase, "because": "no"}).decode()}
        table = tabulate_races(history(note("ks_0", 0), early | said), operations(), [anomaly("x", "ks_1.t")])
        assert broken(table) == {"ks_0": expected}


def test_an_anomaly_of_nodes_breaks_no_race():
    assert broken(tabulate_races(history(note("a", 0)), operations("10 a.t ok"), [anomaly("node-will-not-start")])) == {
        "a": []
    }


def test_races_come_in_the_order_in_which_they_were_run_each_once():
    table = tabulate_races(history(note("b", 0), note("a", 1), note("b", 0)), operations(), [])
    assert table["keyspace"].to_pylist() == ["b", "a"]


def test_a_note_may_name_its_keyspace_in_its_value():
    assert tabulate_races(history(note("ks", 0, in_value=True)), operations(), [])["keyspace"].to_pylist() == ["ks"]


def test_other_notes_and_operations_of_that_name_are_no_races():
    operation = {"time": 1, "process": 0, "type": "invoke", "f": "race", "key": "ks"}
    assert tabulate_races(history(note("ks", 0, f="settle"), operation), operations(), []).equals(RACES.empty_table())


def test_the_table_is_the_one_that_reports_are_made_from():
    assert material.RACES.equals(RACES)
