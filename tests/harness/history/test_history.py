from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemaquake.harness.errors import HistoryError
from schemaquake.harness.history.pairing import OPERATIONS, pair
from schemaquake.harness.model.operation import NEMESIS
from schemaquake.harness.model.records import HISTORY, plain


def history(*lines: str) -> pa.Table:
    """One event a line, `process type f value`; the n-th has index n - 1 and happens at 10 n ns."""
    rows = []
    for index, line in enumerate(lines):
        process, kind, f, *value = line.split()
        rows.append(event(index, int(process), kind, f, value=value[0] if value else None))
    return pa.Table.from_pylist(rows, schema=HISTORY)


def event(index: int, process: int, kind: str, f: str, **rest: Any) -> dict[str, Any]:
    row = {"index": index, "time": 10 * (index + 1), "process": process, "type": kind, "f": f, "node": f"n{process}"}
    return {**dict.fromkeys(("key", "value", "error", "mops")), **row, **rest}


def pair_one_by_one(events: pa.Table) -> list[dict[str, Any]]:
    """The rules as one would write them down: what `pair` must agree with."""
    open_operations: dict[int, dict[str, Any]] = {}
    retired: set[int] = set()
    paired = []
    for row in plain(events).to_pylist():
        process = row["process"]
        if process == NEMESIS:
            continue
        if row["type"] == "invoke":
            if process in open_operations:
                raise HistoryError(f"process {process} invokes at index {row['index']}")
            if process in retired:
                raise HistoryError(f"process {process} invokes at index {row['index']}")
            operation = {
                **{name: row[name] for name in ("index", "process", "f", "node", "key", "mops")},
                **dict.fromkeys(("completion", "completed", "value", "error")),
                "type": "info",
                "invoked": row["time"],
                "argument": row["value"],
            }
            open_operations[process] = operation
            paired.append(operation)
            continue
        operation = open_operations.pop(process, {})
        if not operation:
            raise HistoryError(f"process {process} completes at index {row['index']}")
        if operation["f"] != row["f"]:
            raise HistoryError(f"process {process} completes '{row['f']}' at index {row['index']}")
        if row["type"] == "info":
            retired.add(process)
        operation |= {
            "completion": row["index"],
            "completed": row["time"],
            "mops": operation["mops"] if row["mops"] is None else row["mops"],
            **{name: row[name] for name in ("type", "value", "error")},
        }
    return pa.Table.from_pylist(paired, schema=OPERATIONS).to_pylist()


def test_an_invocation_and_its_completion_are_one_operation():
    (operation,) = pair(history("0 invoke read asked", "0 ok read seen")).to_pylist()
    assert operation == {
        "index": 0,
        "completion": 1,
        "process": 0,
        "type": "ok",
        "f": "read",
        "node": "n0",
        "key": None,
        "invoked": 10,
        "completed": 20,
        "argument": "asked",
        "value": "seen",
        "error": None,
        "mops": None,
    }


def test_operations_come_in_the_order_of_their_invocations():
    events = history("7 invoke a", "3 invoke b", "3 ok b", "3 invoke c", "7 fail a", "3 ok c")
    assert pair(events).select(["index", "completion", "type"]).to_pydict() == {
        "index": [0, 1, 3],
        "completion": [4, 2, 5],
        "type": ["fail", "ok", "ok"],
    }


def test_only_an_operation_that_never_completed_has_no_end():
    events = history("0 invoke a", "1 invoke a", "0 info a")
    assert pair(events).select(["type", "completed"]).to_pylist() == [
        {"type": "info", "completed": 30},
        {"type": "info", "completed": None},
    ]


def test_the_nemesis_makes_no_operations():
    assert not len(pair(history("-1 info partition", "-1 info heal")))


def test_no_events_make_no_operations():
    assert pair(HISTORY.empty_table()).equals(OPERATIONS.empty_table())


def test_micro_operations_of_the_completion_win_and_those_of_the_invocation_stand_in():
    asked = [{"f": "r", "k": 1, "v": None, "vs": None}]
    seen = [{"f": "r", "k": 1, "v": None, "vs": [4, 5]}]
    rows = [
        event(0, 0, "invoke", "txn", mops=asked),
        event(1, 0, "ok", "txn", mops=seen),
        event(2, 0, "invoke", "txn", mops=asked),
        event(3, 0, "fail", "txn"),
        event(4, 0, "invoke", "txn", mops=asked),
    ]
    assert pair(pa.Table.from_pylist(rows, schema=HISTORY))["mops"].to_pylist() == [seen, asked, asked]


def test_columns_may_be_plain_strings_in_many_chunks():
    events = history("0 invoke a x", "1 invoke b y", "1 ok b z", "0 fail a w")
    scattered = pa.concat_tables([plain(events).slice(n, 1) for n in range(len(events))])
    assert pair(scattered).equals(pair(events))


def test_dictionaries_that_differ_between_chunks_do_not_mix_up_names():
    first, second = history("0 invoke a", "1 invoke b"), history("1 ok b", "0 ok a")
    second = second.set_column(0, HISTORY.field("index"), pa.array([2, 3]))
    operations = pair(pa.concat_tables([first, second]))
    assert operations["f"].to_pylist() == ["a", "b"]
    assert operations["completion"].to_pylist() == [3, 2]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        pytest.param(["4 ok read"], r"process 4 completes at index 0 what it did not invoke", id="out of nothing"),
        pytest.param(
            ["4 invoke a", "4 ok a", "4 ok a"], r"process 4 completes at index 2 what it did not invoke", id="twice"
        ),
        pytest.param(
            ["4 invoke a", "5 invoke a", "4 invoke b"],
            r"process 4 invokes at index 2 while its operation of index 0 is still open",
            id="two at once",
        ),
        pytest.param(
            ["4 invoke a", "4 info a", "4 invoke a"],
            r"process 4 invokes at index 2 although its operation ended in info at index 1: such a process is retired",
            id="after an info",
        ),
        pytest.param(
            ["4 invoke a", "5 invoke b", "4 ok b"],
            r"process 4 completes 'b' at index 2, but invoked 'a' at index 0",
            id="another operation",
        ),
        pytest.param(
            ["9 invoke a", "2 invoke a", "9 invoke a", "2 invoke b"],
            r"process 9 invokes at index 2",
            id="the first by index, not by process",
        ),
    ],
)
def test_what_no_process_can_have_done_is_refused(lines: list[str], message: str):
    with pytest.raises(HistoryError, match=message):
        pair(history(*lines))


@st.composite
def histories(draw: st.DrawFn) -> pa.Table:
    """Histories of a few processes; some are such as no harness writes."""
    careless = draw(st.booleans())
    open_f: dict[int, str] = {}
    retired: set[int] = set()
    rows = []
    numbers = draw(st.sampled_from([(0, 1, 2, 3, 4), (7, 1 << 16, 1 << 17, (1 << 16) + 7, (1 << 31) - 1)]))
    for index in range(draw(st.integers(0, 24))):
        process = draw(st.sampled_from([NEMESIS, *numbers]))
        f = draw(st.sampled_from(["a", "b"]))
        kind = draw(st.sampled_from(["invoke", "ok", "fail", "info"]))
        if not careless and process != NEMESIS:
            if process in retired:
                continue
            kind = draw(st.sampled_from(["ok", "fail", "info"])) if process in open_f else "invoke"
            f = open_f.pop(process, f)
            if kind == "invoke":
                open_f[process] = f
            retired |= {process} if kind == "info" else set()
        mops = draw(st.none() | st.just([]) | st.just([{"f": "w", "k": index, "v": 1, "vs": None}]))
        value = draw(st.none() | st.sampled_from(["1", "2"]))
        rows.append(event(index, process, kind, f, value=value, mops=mops))
    return pa.Table.from_pylist(rows, schema=HISTORY)


def outcome(pairing: Callable[[pa.Table], list[dict[str, Any]]], events: pa.Table) -> list[dict[str, Any]] | str:
    """Its rows, or the beginning of what it objects to."""
    try:
        return pairing(events)
    except HistoryError as error:
        return " ".join(str(error).split()[:6])


@given(histories())
def test_pairing_agrees_with_the_rules_as_written_down(events: pa.Table):
    assert outcome(lambda some: pair(some).to_pylist(), events) == outcome(pair_one_by_one, events)
