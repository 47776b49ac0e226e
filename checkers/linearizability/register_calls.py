"""Calls on registers as arrays: what was read, written or swapped, when, under which key.

| f | argument | value when ok |
|---|---|---|
| read | – | what was read; null: nothing was there |
| write | the value | |
| cas | `[old, new]` | |
| acquire, release | – | | (a mutex is a register that is swapped between free and held)

Kept are calls that may have taken effect and constrain something: a read of unknown outcome says nothing, a failed
write changed nothing, and a failed `cas` counts only where it is said to mean that the value was another one: by the model,
or by the error of our own clients.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.harness.errors import HistoryError
from schemaquake.harness.history.gather import gather_in_order
from schemaquake.harness.history.pairing import ends, positions_among
from schemaquake.harness.model.operation import CONDITION_FALSE

__all__ = ["CAS", "FAILED_CAS", "NEVER", "NIL", "READ", "WRITE", "Calls", "Values", "counted", "register_calls"]

Numbers: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]

READ: Final = 0
WRITE: Final = 1
CAS: Final = 2
FAILED_CAS: Final = 3

NEVER: Final = np.iinfo(np.int64).max
"""When a call ends that never answered."""
NIL: Final = np.iinfo(np.int64).min
"""The value null."""

_KINDS: Final = ("read", "write", "cas", "acquire", "release")
_OUTCOMES: Final = ("ok", "fail", "info")
_OK, _FAIL, _INFO = 0, 1, 2
_FREE, _HELD = 0, 1
_FIRST_NAME: Final = -(1 << 62)


class Values:
    """Values as integers: integers of JSON as they are, null is `NIL`, anything else a number from −2⁶² downwards."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}
        self._texts: dict[int, str] = {}

    def number(self, value: Any) -> int:
        """Look up the number of one value."""
        if value is None:
            return NIL
        if type(value) is int and _FIRST_NAME < value < 1 << 63:
            return value
        text = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
        number = self._numbers.setdefault(text, _FIRST_NAME - len(self._numbers))
        self._texts[number] = text.decode()
        return number

    def text(self, number: int) -> str:
        """Get the JSON of the value that has this number."""
        return "null" if number == NIL else self._texts.get(number, str(number))

    def of_column(self, column: pa.ChunkedArray) -> Numbers:
        """Number the JSON texts of a column; null is the value null."""
        try:
            found = column.cast(pa.int64())
        except pa.ArrowInvalid:
            return self._of_texts(column)
        if found.null_count:
            found = pc.fill_null(found, NIL)
        numbers: Numbers = found.to_numpy()
        if len(numbers) and (np.min(numbers[numbers != NIL], initial=0) <= _FIRST_NAME):
            return self._of_texts(column)
        return numbers

    def _of_texts(self, column: pa.ChunkedArray) -> Numbers:
        """Number a column where not every text is an integer; each text is read once."""
        encoded = pc.fill_null(column, "null").combine_chunks().dictionary_encode()
        known = np.array([self.number(orjson.loads(text)) for text in encoded.dictionary.to_pylist()], np.int64)
        numbers: Numbers = known[encoded.indices.to_numpy()]
        return numbers

    def of_pairs(self, column: pa.ChunkedArray) -> tuple[Numbers, Numbers]:
        """Number the JSON pairs of a column. Raises ValueError for what is no pair."""
        flat = _integer_pairs(column)
        if flat is None or np.min(flat, initial=0) <= _FIRST_NAME:
            pairs: list[Any] = [None if text is None else orjson.loads(text) for text in column.to_pylist()]
            if any(type(pair) is not list or len(pair) != 2 for pair in pairs):
                raise ValueError("a cas wants [old, new]")
            flat = np.array([self.number(value) for pair in pairs for value in pair], np.int64)
        return flat[0::2].copy(), flat[1::2].copy()


def _integer_pairs(column: pa.ChunkedArray) -> Numbers | None:
    """`[1,2]`, `[3,4]` … as 1, 2, 3, 4 …; None if some text is anything else. No text becomes a Python object."""
    if column.null_count or not pc.all(pc.starts_with(column, "[")).as_py():
        return None
    parts = pc.split_pattern(pc.utf8_slice_codeunits(column, 1, -1), ",").combine_chunks()
    if not pc.all(pc.equal(pc.list_value_length(parts), 2)).as_py():
        return None
    try:
        numbers: Numbers = parts.flatten().cast(pa.int64()).to_numpy()
    except pa.ArrowInvalid:
        return None
    return numbers


@dataclass(frozen=True, slots=True)
class Calls:
    """One element a call, in order of invocation. `key` is a position in `keys`; times are ns.

    `old` is what a `CAS` or `FAILED_CAS` compared with, `value` what was read or written. `required` calls took effect;
    the others may have, at any time after `begins`, and have `ends` = `NEVER`.
    """

    index: Numbers
    key: npt.NDArray[np.int32]
    kind: npt.NDArray[np.int8]
    old: Numbers
    value: Numbers
    begins: Numbers
    ends: Numbers
    required: Mask
    keys: tuple[str | None, ...]
    values: Values

    def __len__(self) -> int:
        return len(self.index)

    def select(self, which: Mask | Numbers) -> Calls:
        """Select some of the calls; keys keep their numbers."""
        return Calls(
            index=self.index[which],
            key=self.key[which],
            kind=self.kind[which],
            old=self.old[which],
            value=self.value[which],
            begins=self.begins[which],
            ends=self.ends[which],
            required=self.required[which],
            keys=self.keys,
            values=self.values,
        )


def register_calls(
    history: pa.Table,
    *,
    model: Literal["register", "cas-register", "mutex"],
    failed_cas: Literal["ignored", "informative"],
    read_only: bool,
) -> Calls:
    """Extract the calls of a history (`schemaquake.harness.model.records.HISTORY`) that a register, or a mutex, is judged by.

    Other operations are left out, and unless `read_only` so is a key without writes and swaps: it is no register of
    ours, because other workloads read, too. Raises HistoryError for a history that cannot be paired, and for a `cas` that is no pair.
    """
    invocation, completion = ends(history)
    kinds = positions_among(history["f"], _KINDS)[invocation]
    outcome = positions_among(history["type"], _OUTCOMES)[completion]
    outcome[completion < 0] = _INFO
    if model == "mutex":
        kept = (kinds >= 3) & (outcome != _FAIL)
    else:
        kept = (kinds == READ) & (outcome == _OK)
        kept |= (kinds == WRITE) & (outcome != _FAIL)
        if model == "cas-register":
            kept |= (kinds == CAS) & ((outcome != _FAIL) | (failed_cas == "informative"))
            kept |= _finds_another_value(history, completion, (kinds == CAS) & (outcome == _FAIL))
    invocation, completion, kinds, outcome = (column[kept] for column in (invocation, completion, kinds, outcome))
    key, keys = _keys(history["key"], invocation)
    if model != "mutex" and not read_only:
        register = np.zeros(len(keys), bool)
        register[key[kinds != READ]] = True
        kept = register[key]
        invocation, completion, kinds, outcome = (column[kept] for column in (invocation, completion, kinds, outcome))
        key = key[kept]
    values = Values()
    old, value = _values(history, invocation, completion, kinds, values)
    required = outcome != _INFO
    times = history["time"].to_numpy()
    kind = np.where(kinds >= 3, CAS, np.where((kinds == CAS) & (outcome == _FAIL), FAILED_CAS, kinds)).astype(np.int8)
    return Calls(
        index=_at(history["index"], invocation),
        key=key,
        kind=kind,
        old=old,
        value=value,
        begins=times[invocation],
        ends=np.where(required, times[completion], NEVER),
        required=required,
        keys=keys,
        values=values,
    )


def _finds_another_value(history: pa.Table, completion: Numbers, failed: Mask) -> Mask:
    """Mark the failed swaps of which the answer says that the value was another one."""
    at = np.flatnonzero(failed)
    found = np.zeros(len(failed), bool)
    if len(at):
        errors = history["error"].take(pa.array(completion[at]))
        found[at] = pc.fill_null(pc.starts_with(errors, CONDITION_FALSE), fill_value=False).to_numpy()
    return found


def _values(
    history: pa.Table, invocation: Numbers, completion: Numbers, kinds: npt.NDArray[np.int8], values: Values
) -> tuple[Numbers, Numbers]:
    """Parse the values of each call: (what was compared with, what was read or written)."""
    old = np.zeros(len(kinds), np.int64)
    value = np.zeros(len(kinds), np.int64)
    simple = np.flatnonzero(kinds <= WRITE)
    if len(simple):
        at = np.where(kinds[simple] == READ, completion[simple], invocation[simple])
        there = np.zeros(len(history), bool)
        there[at] = True
        # Texts are looked up from the first row to the last, which is how they lie in memory.
        found = values.of_column(gather_in_order(history["value"], np.flatnonzero(there)))
        value[simple] = found[np.cumsum(there, dtype=np.int32)[at] - 1]
    swaps = np.flatnonzero(kinds == CAS)
    if len(swaps):
        try:
            old[swaps], value[swaps] = values.of_pairs(gather_in_order(history["value"], invocation[swaps]))
        except (ValueError, TypeError):
            raise HistoryError(_no_pair(history, invocation[swaps])) from None
    acquires = kinds == 3
    old[acquires], value[acquires] = _FREE, _HELD
    releases = kinds == 4
    old[releases], value[releases] = _HELD, _FREE
    return old, value


def _no_pair(history: pa.Table, positions: Numbers) -> str:
    for position in positions:
        text = history["value"][int(position)].as_py()
        found = None if text is None else orjson.loads(text)
        if not isinstance(found, list) or len(found) != 2:
            return f"the cas of index {history['index'][int(position)]} wants [old, new], and has {text or 'nothing'}"
    return "a cas wants [old, new]"


def counted(key: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Convert numbers to 16 bits where those suffice: a stable sort then counts, and is ten times faster."""
    return key.astype(np.uint16) if len(key) and key.min() >= 0 and key.max() < 1 << 16 else key


def _keys(column: pa.ChunkedArray, positions: Numbers) -> tuple[npt.NDArray[np.int32], tuple[str | None, ...]]:
    if column.null_count == len(column):
        return np.zeros(len(positions), np.int32), (None,)
    found = gather_in_order(column, positions).dictionary_encode(null_encoding="encode").unify_dictionaries()
    codes = np.concatenate([np.zeros(0, np.int32), *(chunk.indices.to_numpy() for chunk in found.chunks)])
    return codes, tuple(found.chunk(0).dictionary.to_pylist()) if found.num_chunks else ()


def _at(column: pa.ChunkedArray, positions: Numbers) -> Numbers:
    found: Numbers = gather_in_order(column, positions).to_numpy()
    return found
