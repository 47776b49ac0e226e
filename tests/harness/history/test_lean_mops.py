"""Lean micro-operations are the same micro-operations, and what cannot be lean is left as it is."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest

from schemaquake.harness.history.lean_mops import narrow, widen
from schemaquake.harness.model.records import LEAN_MOPS, MOPS

GREATEST = (1 << 31) - 1


def drawn(seed: int) -> list[Any]:
    random = Random(seed)

    def mop() -> dict[str, Any]:
        number = random.choice([None, 0, GREATEST, -GREATEST - 1, random.randrange(100)])
        read = random.choice([None, [], random.choices([1, GREATEST, -GREATEST - 1], k=5)])
        return {"f": random.choice(["r", "append", "w"]), "k": random.randrange(-5, 5), "v": number, "vs": read}

    return [random.choice([None, [], [mop() for _ in range(random.randrange(5))]]) for _ in range(50)]


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("coded", [False, True], ids=["names", "a dictionary of names"])
def test_there_and_back(seed, coded):
    rows = drawn(seed)
    column = pa.chunked_array(
        [pa.array(rows[:20], MOPS), pa.array(rows, MOPS).slice(20, 17), pa.array(rows[37:], MOPS)]
    )
    if coded:
        fields = [
            field if field.name != "f" else field.with_type(pa.dictionary(pa.int32(), pa.string()))
            for field in MOPS.value_type
        ]
        given = column.cast(pa.list_(pa.struct(fields)))
    else:
        given = column
    lean = narrow(given)
    assert lean.type == LEAN_MOPS
    lean.validate(full=True)
    assert widen(lean).equals(column)
    widen(lean).validate(full=True)
    assert widen(lean).to_pylist() == rows


GOOD = {"f": "r", "k": 1, "v": 2, "vs": [3]}


@pytest.mark.parametrize(
    "wrong",
    [
        {"k": GREATEST + 1},
        {"k": -GREATEST - 2},
        {"k": None},
        {"v": GREATEST + 1},
        {"vs": [1, GREATEST + 1]},
        {"vs": [1] * 40_000 + [-GREATEST - 2]},
        {"vs": [None]},
        {"f": "x"},
        {"f": "apxxxd"},
        {"f": None},
    ],
    ids=lambda wrong: str(wrong)[:30],
)
def test_what_cannot_be_lean_is_left(wrong):
    assert narrow(pa.chunked_array([pa.array([[GOOD], [GOOD]], MOPS)])) is not None
    assert narrow(pa.chunked_array([pa.array([[GOOD]], MOPS), pa.array([[GOOD, GOOD | wrong]], MOPS)])) is None


def test_a_null_for_a_micro_operation_is_left():
    assert narrow(pa.chunked_array([pa.array([[GOOD, None]], MOPS)])) is None


@pytest.mark.parametrize(
    "kind", [pa.int64(), pa.string(), pa.list_(pa.int64()), pa.list_(pa.struct([("f", pa.string())])), LEAN_MOPS]
)
def test_another_type_is_left(kind):
    assert narrow(pa.chunked_array([pa.nulls(3, kind)])) is None


def test_what_a_null_s_place_holds_does_not_matter():
    """Arrow leaves there what it likes, and it need not fit."""
    value = pa.Array.from_buffers(
        pa.int64(), 2, [pa.py_buffer(b"\x01"), pa.array([5, 1 << 60]).buffers()[1]], null_count=1
    )
    lists = pa.array([None, None], pa.list_(pa.int64()))
    structs = pa.StructArray.from_arrays(
        [pa.array(["w", "r"]), pa.array([1, 1]), value, lists], fields=list(MOPS.value_type)
    )
    column = pa.chunked_array([pa.ListArray.from_arrays(pa.array([0, 2], pa.int32()), structs).cast(MOPS)])
    assert [mop["v"] for mop in narrow(column).to_pylist()[0]] == [5, None]
