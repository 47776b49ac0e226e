"""Processes are followed from range to range: what begins in one and ends in another is paired between them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from schemaquake.checkers.exchange.frontier import FRONTIER, apart, joined
from schemaquake.harness.errors import HistoryError
from schemaquake.harness.history.pairing import ends
from schemaquake.harness.model.records import HISTORY


def events(*lines: str) -> pa.Table:
    """`1 invoke`, `1 ok read`: process, type, and f unless it is `write`."""
    rows = []
    for index, line in enumerate(lines):
        process, of_type, *f = line.split()
        rows.append({"index": index, "time": index, "process": int(process), "type": of_type, "f": (f or ["write"])[0]})
    return pa.Table.from_pylist(rows, schema=HISTORY)


def cut(table: pa.Table, at: int) -> tuple[list[int], list[int]]:
    """Rows that are paired in the two ranges, and those that are paired when these are joined."""
    parts = [(table.slice(0, at), 0), (table.slice(at), at)]
    paired: list[int] = []
    frontiers = [FRONTIER.empty_table()]
    for number, (part, first) in enumerate(parts):
        rows = pa.array(range(first, first + len(part))).to_numpy()
        whole, frontier = apart(part, rows, number)
        ends(part.filter(pa.array(whole)))
        paired += rows[whole].tolist()
        frontiers.append(frontier)
    left, rows = joined(pa.concat_tables(frontiers))
    ends(left)
    return paired, rows.tolist()


def test_what_begins_in_one_range_and_ends_in_the_next_is_paired_between_them() -> None:
    table = events("0 invoke", "1 invoke", "0 ok", "0 invoke", "1 ok", "0 ok", "1 invoke", "-1 invoke")
    assert cut(table, 4) == ([0, 2, 7], [1, 3, 4, 5, 6])


@pytest.mark.parametrize("at", range(1, 9))
def test_wherever_it_is_cut_every_event_is_in_one_place(at: int) -> None:
    table = events("0 invoke", "1 invoke", "0 ok", "0 invoke", "1 info", "2 invoke", "0 ok", "2 fail", "-1 info")
    paired, between = cut(table, at)
    assert sorted([*paired, *between]) == list(range(9))


@pytest.mark.parametrize(
    ("lines", "at", "message"),
    [
        (("0 invoke", "0 invoke", "0 ok"), 1, "process 0 invokes at index 1 while its operation of index 0 is still open"),
        (("0 invoke", "0 info", "0 invoke", "0 ok"), 2, "process 0 invokes at index 2 although its operation ended in info"),
        (("0 invoke", "0 ok", "0 ok"), 2, "process 0 completes at index 2 what it did not invoke"),
        (("0 invoke", "1 invoke", "0 ok read"), 2, "process 0 completes 'read' at index 2, but invoked 'write' at index 0"),
        (("0 invoke", "0 invoke", "1 invoke"), 1, "process 0 invokes at index 1 while its operation of index 0 is still open"),
        (("0 invoke", "0 info", "0 invoke", "1 invoke"), 2, "although its operation ended in info"),
    ],
    ids=["two open", "after info", "twice completed", "another f", "two left open", "open after info"],
)  # fmt: skip
def test_what_no_process_can_do_is_seen_across_ranges(lines: tuple[str, ...], at: int, message: str) -> None:
    table = events(*lines)
    with pytest.raises(HistoryError, match=message):
        ends(table)
    with pytest.raises(HistoryError, match=message):
        cut(table, at)


def test_only_an_open_event_brings_what_it_said() -> None:
    table = events("0 invoke", "0 ok", "1 invoke", "0 invoke", "1 ok", "2 invoke", "2 ok", "3 ok")
    said = [f"value {row}" for row in range(len(table))]
    table = table.set_column(table.schema.get_field_index("value"), "value", pa.array(said))
    chunked = pa.concat_tables([table.slice(0, 3), table.slice(3, 1), table.slice(4)])
    whole, frontier = apart(chunked, pa.array(range(len(table))).to_numpy(), 0)
    assert whole.tolist() == [True, True, True, False, True, True, True, False]
    assert dict(zip(frontier["row"].to_pylist(), frontier["value"].to_pylist(), strict=True)) == {
        0: None, 1: None, 2: None, 3: "value 3", 4: None, 5: None, 6: None, 7: "value 7",
    }  # fmt: skip
