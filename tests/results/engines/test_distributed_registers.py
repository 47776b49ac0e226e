"""Registers judged key by key, in pieces, are judged as they are together; and processes are followed from range to range."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_verdicts import plainly
from register_histories import registers

from schemaquake.checkers.linearizability.linearizable import Linearizable
from schemaquake.checkers.linearizability.models import Mutex, Register
from schemaquake.harness.errors import HistoryError
from schemaquake.harness.history.pairing import ends
from schemaquake.harness.model.records import HISTORY, Records
from schemaquake.results.engines.checks import check_file, is_distributed
from schemaquake.results.engines.engine import Local
from schemaquake.results.engines.frontier import FRONTIER, apart, joined

SEEDS = st.integers(0, 1 << 32)


def in_pieces(checker: Linearizable, events: pa.Table, *, rows: int, width: int) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "history.parquet"
        pq.write_table(events, file, row_group_size=rows)
        assert is_distributed(checker, file)
        return plainly(check_file(checker, file, Local(width), limit_s=60, scratch=Path(folder)))


@settings(max_examples=30, deadline=None)
@given(
    seed=SEEDS,
    rows=st.integers(3, 100),
    width=st.integers(1, 3),
    values=st.sampled_from([4, 1000]),
    damage=st.sampled_from([0.0, 0.05, 0.5]),
)
def test_key_by_key(seed: int, rows: int, width: int, values: int, damage: float) -> None:
    events = registers(seed, keys=5, count=60, values=values, damage=damage)
    for checker in (Linearizable(), Linearizable(model=Register(swaps=True))):
        whole = plainly(checker.check(Records.of(events), limit_s=60))
        assert in_pieces(checker, events, rows=rows, width=width) == whole


def test_of_many_keys_the_same_ones_are_told() -> None:
    events = registers(1, keys=40, count=900, damage=0.5)
    whole = plainly(Linearizable().check(Records.of(events), limit_s=60))
    assert whole["stats"]["refuted"] > 20
    assert len(whole["anomalies"]) == 20
    assert in_pieces(Linearizable(), events, rows=101, width=3) == whole


def test_what_is_no_register_is_nothing_to_judge() -> None:
    checker = Linearizable(model=Mutex())
    history = registers(1, count=10)
    verdict = in_pieces(checker, history, rows=5, width=2)
    assert verdict == plainly(checker.check(Records.of(history), limit_s=60))
    assert verdict["reason"].startswith("nothing to judge")


# ── frontiers ────────────────────────────────────────────────────────────────────────────────────────────────────────


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
