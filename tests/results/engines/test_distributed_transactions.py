"""A check of transactions that is carried piece by piece says what the check of the whole history says, to the letter."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from damage import damaged
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_verdicts import plainly
from serial_store import executed
from shared_histories import conformance, from_json
from small_histories import history, table

from schemaquake.checkers.elle.list_append import ListAppend
from schemaquake.checkers.elle.rw_register import RwRegister
from schemaquake.checkers.exchange.exchange import Exchange, Rows
from schemaquake.harness.errors import HistoryError
from schemaquake.harness.model.records import HISTORY, Records
from schemaquake.harness.model.verdict import Verdict, make_stats
from schemaquake.results.engines.checks import carried, check_file
from schemaquake.results.engines.engine import Local
from schemaquake.results.engines.exchange import EngineExchange, FileRows
from schemaquake.results.engines.ranges import Ranges

SEEDS = st.integers(0, 1 << 32)
LEVELS = st.sampled_from(["strict-serializable", "strong-session-serializable", "serializable", "snapshot-isolation"])


def whole(checker: Any, events: pa.Table) -> Any:
    return plainly(checker.check(Records.of(events), limit_s=60))


def in_pieces(checker: Any, events: pa.Table, *, rows: int = 7, width: int = 2) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "history.parquet"
        pq.write_table(events, file, row_group_size=rows)
        return plainly(check_file(checker, file, Local(width), limit_s=60, scratch=Path(folder)))


@settings(max_examples=examples(25), deadline=None)
@given(seed=SEEDS, level=LEVELS, rows=st.integers(2, 30), width=st.integers(1, 4), share=st.sampled_from([0, 0.1, 0.5]))
def test_lists(seed: int, level: str, rows: int, width: int, share: float) -> None:
    events = table(damaged(seed, "list-append", share=share))
    checker = ListAppend(models=(level,))
    assert in_pieces(checker, events, rows=rows, width=width) == whole(checker, events)


@settings(max_examples=examples(25), deadline=None)
@given(
    seed=SEEDS,
    level=LEVELS,
    rows=st.integers(2, 30),
    share=st.sampled_from([0, 0.05, 0.1, 0.5]),
    promises=st.fixed_dictionaries({"linearizable_keys": st.booleans(), "wfr_keys": st.booleans()}),
)
def test_registers(seed: int, level: str, rows: int, share: float, promises: Any) -> None:
    events = table(damaged(seed, "rw-register", share=share))
    checker = RwRegister(models=(level,), **promises)
    assert in_pieces(checker, events, rows=rows) == whole(checker, events)


def test_histories_with_known_verdicts() -> None:
    for kind, checkers in (
        ("list-append", [ListAppend(), ListAppend(models=("snapshot-isolation",))]),
        ("rw-register", [RwRegister(), RwRegister(models=("serializable",))]),
    ):
        chosen = [entry for number, entry in enumerate(conformance(kind)) if number % 9 == 0]
        assert len(chosen) > 25
        for number, entry in enumerate(chosen):
            events = from_json(entry["ops"])
            checker = checkers[number % 2]
            assert in_pieces(checker, events, rows=5 + number % 20) == whole(checker, events), entry["id"]


def test_a_stale_read_makes_one_span_over_ranges() -> None:
    # What happens in between belongs to the cycle, though it depends on nothing: it was under way all along.
    early, late = "p0 1..4 ok a1=1", "p9 90..91 ok r1= a2=1"
    between = [f"p1 {10 * n}..{10 * n + 5} ok a{n + 10}=1" for n in range(1, 8)]
    events = history(early, *between, late, "p3 95..96 ok r1=[1]")
    verdict = in_pieces(ListAppend(), events, rows=3, width=3)
    assert verdict == whole(ListAppend(), events)
    assert verdict["anomalies"][0]["evidence"]["component"] == 9


def test_tables_are_judged_apart() -> None:
    one, other = (table(damaged(seed, "list-append", share=0.3)) for seed in (1, 2))
    both = pa.concat_tables(
        [
            part.set_column(6, "key", pa.array([name] * len(part)))
            .set_column(0, "index", pa.array([2 * n + at for n in range(len(part))]))
            .set_column(2, "process", pa.array([2 * p + at for p in part["process"].to_pylist()], pa.int32()))
            for at, (part, name) in enumerate([(one, "ks.a"), (other, "ks.b")])
        ]
    ).sort_by("index")
    events = both.cast(HISTORY)
    verdict = in_pieces(ListAppend(), events, rows=11)
    assert verdict == whole(ListAppend(), events)
    assert set(verdict["stats"]) == {"ks.a", "ks.b"}


def test_a_file_in_any_order_is_put_in_order_first() -> None:
    events = table(damaged(3, "list-append", share=0.3))
    turned = events.take(pa.array(range(len(events) - 1, -1, -1)))
    assert in_pieces(ListAppend(), turned, rows=7) == whole(ListAppend(), events)


def test_what_was_never_completed_is_of_the_last_range() -> None:
    lines_of = ["p0 1.. info a1=1", "p1 2.. info a1=2", "p2 3..4 ok r1=[2]", "p3 5..6 ok r1=[2,1]", "p4 7..8 ok r1=[2]"]
    events = history(*lines_of)
    verdict = in_pieces(ListAppend(), events, rows=2, width=2)
    assert verdict == whole(ListAppend(), events)
    assert verdict["valid"] is False


@pytest.mark.parametrize("kind", ["list-append", "rw-register"])
def test_what_is_serial_is_valid(kind: Any) -> None:
    events = table(executed(7, kind=kind, count=80))
    checker = ListAppend() if kind == "list-append" else RwRegister(linearizable_keys=True, wfr_keys=True)
    verdict = in_pieces(checker, events, rows=9)
    assert verdict == whole(checker, events)
    assert verdict["valid"] is True


def test_an_element_appended_twice_is_refused_in_pieces_too() -> None:
    events = history("p0 1..2 ok a1=1", "p1 3..4 ok a1=1", "p2 5..6 ok r1=[1]")
    with pytest.raises(HistoryError, match="element 1 is appended to key 1 twice"):
        whole(ListAppend(), events)
    with pytest.raises(HistoryError, match="element 1 is appended to key 1 twice"):
        in_pieces(ListAppend(), events, rows=2)


def test_nothing_of_the_kind_is_nothing_to_judge() -> None:
    events = history("p0 1..2 ok w1=1", "p1 3..4 ok r1=1")
    verdict = in_pieces(ListAppend(), events, rows=2)
    assert verdict == whole(ListAppend(), events)
    assert verdict["reason"] == "nothing to judge: no transaction appends to lists or reads them"


class Counted:
    """A checker of nobody here: it declares that it can judge pieces, and counts the events of each range."""

    name = "counted"
    scope = "run"
    finds = ()
    vouches = True
    ranges_least = 3

    def check(self, records: Records, *, limit_s: float) -> Verdict:
        raise NotImplementedError(records, limit_s)

    def check_pieces(self, exchange: Exchange, *, limit_s: float) -> Verdict:
        counts = exchange.each_within(limit_s, _count, range(len(exchange.first) - 1))
        return Verdict(valid=True, checker=self.name, stats=make_stats({"events": sum(count or 0 for count in counts)}))


def _count(rows: Rows, number: int) -> int:
    return len(rows.events(number))


def test_any_checker_that_declares_it_is_carried_if_there_are_pieces_enough(tmp_path: Path) -> None:
    file = tmp_path / "history.parquet"
    events = table(damaged(3, "list-append"))
    pq.write_table(events, file, row_group_size=len(events) // 2 + 1)
    assert carried(Counted(), Local(2), file, tmp_path) is None
    pq.write_table(events, file, row_group_size=len(events) // 3)
    checker = carried(Counted(), Local(2), file, tmp_path)
    assert checker is not None
    assert checker.check(Records.of(events), limit_s=60).figures == {"events": len(events)}


def _sleep(_rows: Rows, seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def test_a_step_is_ended_when_its_time_is_over(tmp_path: Path) -> None:
    file = tmp_path / "history.parquet"
    pq.write_table(table(damaged(3, "list-append")), file)
    exchange = EngineExchange(Local(2), FileRows(Ranges.of(file, 1, tmp_path), tmp_path))
    assert exchange.each_within(0.2, _sleep, [0.0, 60.0]) == [0.0, None]
