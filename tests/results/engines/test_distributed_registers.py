"""Registers judged key by key, in pieces, are judged as they are together."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_verdicts import plainly
from register_histories import registers

from schemaquake.checkers.linearizability.linearizable import Linearizable
from schemaquake.checkers.linearizability.models import Mutex, Register
from schemaquake.harness.model.records import Records
from schemaquake.results.engines.checks import carried, check_file
from schemaquake.results.engines.engine import Local

SEEDS = st.integers(0, 1 << 32)


def in_pieces(checker: Linearizable, events: pa.Table, *, rows: int, width: int) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "history.parquet"
        pq.write_table(events, file, row_group_size=rows)
        assert carried(checker, Local(width), file, Path(folder)) is not None
        return plainly(check_file(checker, file, Local(width), limit_s=60, scratch=Path(folder)))


@settings(max_examples=examples(30), deadline=None)
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
    assert whole["stats"]["refuted"]["value"] > 20
    assert len(whole["anomalies"]) == 20
    assert in_pieces(Linearizable(), events, rows=101, width=3) == whole


def test_what_is_no_register_is_nothing_to_judge() -> None:
    checker = Linearizable(model=Mutex())
    history = registers(1, count=10)
    verdict = in_pieces(checker, history, rows=5, width=2)
    assert verdict == plainly(checker.check(Records.of(history), limit_s=60))
    assert verdict["reason"].startswith("nothing to judge")
