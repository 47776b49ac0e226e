"""Lean reading: a long history of transactions is read in half the memory, and is the same history."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from schemaquake.harness.errors import PlanError
from schemaquake.harness.history.lean_mops import narrow, widen
from schemaquake.harness.model.records import HISTORY, LEAN_MOPS, MOPS, Records
from schemaquake.results.formats import ahead, fast_reading, reading
from schemaquake.results.formats.op_maps import LEAN_RAW, RAW
from schemaquake.results.formats.reading import read_history
from schemaquake.results.judging import judge as judging
from schemaquake.results.runs import checking
from schemaquake.results.runs.checking import check_path
from schemaquake.results.store import store
from schemaquake.results.store.store import read_table, write_table

FITS = (1 << 31) - 1
PLACE = HISTORY.get_field_index("mops")


def lines(transactions: int, *, wide: int | None = None, named: int | None = None, process: bool = True) -> str:
    """EDN of appends and reads; one transaction of number `wide` appends what does not fit, that of `named` a name."""
    random = Random(7)
    text = []
    for number in range(transactions):
        value: Any = FITS + 1 if number == wide else ":x" if number == named else number
        known = " ".join(str(random.choice([0, FITS, -FITS - 1])) for _ in range(number % 4))
        asked = f"[[:append 1 {value}] [:r {number % 3} nil]]"
        answer = f"[[:append 1 {value}] [:r {number % 3} [{known}]]]"
        who = ":process 0, " if process else ""
        for kind, mops in (("invoke", asked), ("ok", answer)):
            text.append(f"{{:type :{kind}, :f :txn, {who}:value {mops}}}")
    return "\n".join(text)


@pytest.fixture
def in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have short files scanned, in several stretches of several pieces."""
    monkeypatch.setattr(reading, "_SCANNED_FROM", 0)
    monkeypatch.setattr(fast_reading, "_STRETCH", 1 << 13)
    monkeypatch.setattr(ahead, "_PIECE", 1 << 10)


def without_mops(table: pa.Table) -> pa.Table:
    return table.remove_column(PLACE)


@pytest.mark.usefixtures("in_pieces")
@pytest.mark.parametrize(
    ("odd", "kind"),
    [
        ({}, LEAN_MOPS),
        *(({"wide": number}, MOPS) for number in (0, 150, 299)),
        *(({"named": number}, MOPS) for number in (0, 150, 299)),
        ({"process": False}, MOPS),
    ],
    ids=str,
)
def test_what_is_read_lean_is_the_same(tmp_path: Path, odd: dict[str, Any], kind: pa.DataType) -> None:
    path = tmp_path / "history.edn"
    path.write_text(lines(300, **odd), encoding="ascii")
    expected = read_history(path)
    assert expected["mops"].type == MOPS
    found = read_history(path, lean=True)
    assert found["mops"].type == kind
    assert found.schema.metadata == expected.schema.metadata
    assert without_mops(found).equals(without_mops(expected))
    found.validate(full=True)
    mops = widen(found["mops"]) if kind == LEAN_MOPS else found["mops"]
    assert mops.to_pylist() == expected["mops"].to_pylist()


@pytest.mark.usefixtures("in_pieces")
def test_json_is_read_lean(tmp_path: Path) -> None:
    rows = ['{"type": "invoke", "f": "txn", "process": 0, "value": [["append", 1, 5]]}',
            '{"type": "ok", "f": "txn", "process": 0, "value": [["append", 1, 5]]}']  # fmt: skip
    path = tmp_path / "history.json"
    path.write_text("\n".join(rows * 100), encoding="ascii")
    found = read_history(path, lean=True)
    assert found["mops"].type == LEAN_MOPS
    assert widen(found["mops"]).to_pylist() == read_history(path)["mops"].to_pylist()


def test_a_short_history_is_read_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "history.edn"
    path.write_text(lines(3), encoding="ascii")
    assert read_history(path, lean=True).schema.equals(HISTORY)


def batch(number: int, *, lean: bool) -> pa.RecordBatch:
    mops = [[{"f": "append", "k": 1, "v": number, "vs": None}], None]
    event = {"line": 1, "type": "ok", "f": "txn"}
    wide = pa.RecordBatch.from_pylist([event | {"mops": found} for found in mops], schema=RAW)
    found = reading._with_mops(wide, narrow) if lean else wide
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("given", "lean"),
    [
        ("", False),
        ("ll", True),
        ("ss", False),  # nothing is lean, and nothing is made so
        ("sll", True),
        ("lsl", True),
        ("wll", False),
        ("swll", False),
        ("lwl", False),
        ("llsw", False),
        ("lwsl", False),
    ],
)
def test_batches_become_one_table_of_one_type(given: str, lean: bool) -> None:
    """Lean ones, small ones and wide ones, the last of which cannot be lean."""
    numbers = [FITS + 1 if letter == "w" else place for place, letter in enumerate(given)]
    batches = [batch(number, lean=letter == "l") for number, letter in zip(numbers, given, strict=True)]
    table = reading._of_one_type(iter(batches))
    assert table.schema == (LEAN_RAW if lean else RAW)
    table.validate(full=True)
    mops = widen(table["mops"]) if lean else table["mops"]
    assert [row[0]["v"] for row in mops.to_pylist() if row is not None] == numbers


@pytest.mark.parametrize("wide", [None, 0, 55, 99])
def test_a_sealed_file_is_read_lean_if_all_of_it_can_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wide: int | None
) -> None:
    monkeypatch.setattr(store, "_ROW_GROUP", 10)
    (tmp_path / "history.edn").write_text(lines(100, wide=wide), encoding="ascii")
    expected = read_history(tmp_path / "history.edn")
    path = tmp_path / "history.parquet"
    write_table(path, expected)
    assert pq.ParquetFile(path).num_row_groups == 20
    found = read_table(path, HISTORY, order="index", lean=True)
    assert found["mops"].type == (LEAN_MOPS if wide is None else MOPS)
    assert without_mops(found).equals(without_mops(expected))
    mops = widen(found["mops"]) if wide is None else found["mops"]
    assert mops.to_pylist() == expected["mops"].to_pylist()
    assert read_table(path, HISTORY, order="index").schema.equals(HISTORY)


@pytest.mark.parametrize(
    ("checkers", "engine", "lean"),
    [
        (["list-append"], "auto", True),
        (["rw-register"], "local", True),
        (["list-append"], "spark", False),
        (["linearizable"], "local", False),
        (["list-append", "rw-register"], "local", False),
        (None, "local", False),
    ],
)
def test_who_is_given_a_lean_history(checkers: list[str] | None, engine: str, lean: bool) -> None:
    assert judging.reads_lean(checkers, engine=engine) is lean


def test_an_unknown_checker_is_refused() -> None:
    with pytest.raises(PlanError, match="nothing-of-the-kind"):
        judging.reads_lean(["nothing-of-the-kind"], engine="local")


@pytest.mark.usefixtures("in_pieces")
def test_a_file_in_edn_is_checked_lean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    judged = checking.judge

    def noted(subject: Records, **options: Any) -> Any:
        seen.append(subject.history["mops"].type)
        return judged(subject, **options)

    monkeypatch.setattr(checking, "judge", noted)
    text = "\n".join(
        f"{{:type :{kind}, :f :txn, :process 0, :value [[:append 1 {number}]]}}"
        for number in range(50)
        for kind in ("invoke", "ok")
    )
    text += "\n{:type :invoke, :f :txn, :process 0, :value [[:r 1 nil]]}"
    path = tmp_path / "history.edn"
    options: dict[str, Any] = {"file_format": None, "engine": "local", "master": None, "limit_s": 60}
    for last, valid in ((50, True), (49, False)):
        found = " ".join(map(str, range(last)))
        path.write_text(f"{text}\n{{:type :ok, :f :txn, :process 0, :value [[:r 1 [{found}]]]}}", encoding="ascii")
        assert check_path(path, checkers=["list-append"], **options).valid is valid
    assert seen == [LEAN_MOPS, LEAN_MOPS]


@dataclass(frozen=True)
class Elsewhere:
    """An engine whose steps read files."""

    width: int = 2
    elsewhere: bool = False

    def carry(self, step: Any, groups: pa.Table, schema: pa.Schema) -> pa.Table:
        raise NotImplementedError


def test_files_for_tasks_are_never_lean(tmp_path: Path) -> None:
    (tmp_path / "history.edn").write_text(lines(5), encoding="ascii")
    wide = read_history(tmp_path / "history.edn")
    lean = wide.set_column(PLACE, "mops", narrow(wide["mops"]))
    with ExitStack() as stack:
        source = judging._source(Records.of(lean), (), Elsewhere(), None, stack)
        assert source.read(None).history.equals(wide)
        # What a task reads of them is, if its checker reads it.
        assert source.read(None, lean=True).history["mops"].type == LEAN_MOPS
        assert source.read([], lean=True).history["mops"].type == MOPS
