"""Transactions: from a history's events to flat arrays, numbered by completion.

Neighbours in time are neighbours in memory, and every later step is a scan or a gather. Real time is the order of the
history's rows (at equal times invocations stand before completions, so that nothing is ordered that the clock could not
tell apart).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.checkers.elle.arrays import Bits, Bytes, Ints, Longs, Mask, Numbers
from schemaquake.harness.compiled import compiled, in_parts
from schemaquake.harness.errors import HistoryError
from schemaquake.harness.history.pairing import ends, positions_among
from schemaquake.harness.model.records import LEAN_MOPS, MOP_NAMES, MOPS

__all__ = [
    "APPEND",
    "FAIL",
    "INFO",
    "MOST",
    "NEVER",
    "OK",
    "READ",
    "WRITE",
    "Kind",
    "MicroOp",
    "Ops",
    "Transactions",
    "numbered_by_appearance",
    "read_transactions",
]

Kind: TypeAlias = Literal["list-append", "rw-register"]
"""The kind of a transaction: one of lists or one of registers."""

MicroOp: TypeAlias = tuple[str, int, int | Longs | None]
"""`("append", key, element)`, `("w", key, value)`, `("r", key, list or value or None)`."""

OK: Final = 0
FAIL: Final = 1
INFO: Final = 2
READ: Final = 0
APPEND: Final = 1
WRITE: Final = 2
NEVER: Final = (1 << 31) - 1
"""When a transaction of unknown outcome completes: after everything."""

MOST: Final = (1 << 31) - 8
"""Micro-operations, values or elements that are counted with 32 bits, with room for numbers that mean something else."""

_TYPES: Final = ("ok", "fail", "info", "invoke")
_INVOKE: Final = 3
_DENSE: Final = 4  # a table over the range of the keys may be this many times as long as there are micro-operations


class Ops(NamedTuple):
    """The columns of `Transactions` that compiled loops read."""

    first: Longs
    status: Bytes
    f: Bytes
    key: Ints
    value: Numbers  # Longs where they are of registers, as the next ones
    given: Mask
    begin: Numbers
    end: Numbers
    elements: Numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Transactions:
    """n transactions with m micro-operations. Columns of a transaction have n elements, of a micro-operation m.

    `first[t]:first[t + 1]` are the micro-operations of transaction t. What micro-operation i reads of a list is
    `elements[begin[i]:end[i]]`; `given[i]`: its `value` is not null. Keys are dense: `key[i]` counts from 0, `keys` has
    what they are called.
    """

    status: Bytes
    process: Ints
    invoked: Ints  # row of the history
    completed: Ints  # row of the history; NEVER if its outcome is unknown
    index: Longs  # of the invocation
    first: Longs  # n + 1
    f: Bytes
    key: Ints
    value: Numbers  # Longs where they are of registers, as the next ones
    given: Mask
    begin: Numbers
    end: Numbers
    elements: Numbers  # over memory that is not ours, see `_spanned`: only lists may be looked at
    keys: Longs
    time: pa.ChunkedArray  # ns, of every row of the history
    memory: pa.ChunkedArray  # what `elements` lies in

    @property
    def count(self) -> int:
        """The number of transactions."""
        return len(self.status)

    @property
    def ops(self) -> Ops:
        """The arrays that compiled loops read."""
        return Ops(
            self.first,
            self.status,
            self.f,
            self.key,
            self.value,
            self.given,
            self.begin,
            self.end,
            self.elements,
        )

    def transaction(self, at: int) -> int:
        """Find the transaction of a micro-operation."""
        return int(np.searchsorted(self.first, at, side="right")) - 1

    def time_of(self, row: int) -> int:
        """Get the time of a row of the history, in ns."""
        return int(self.time[int(row)].as_py())

    def read(self, at: int) -> Longs:
        """Get the list that was read there."""
        return _unchanging(self.elements[self.begin[at] : self.end[at]].astype(np.int64, copy=False))

    def micro_operation(self, at: int) -> MicroOp:
        """Get one micro-operation as it stands in the history."""
        key = int(self.keys[self.key[at]])
        if self.f[at] != READ:
            return MOP_NAMES[self.f[at]], key, int(self.value[at])
        if self.begin[at] < self.end[at]:
            return "r", key, self.read(at)
        return "r", key, int(self.value[at]) if self.given[at] else None


def read_transactions(history: pa.Table, kind: Kind) -> Transactions:
    """Read the transactions of one kind from a history (`schemaquake.harness.model.records.HISTORY`; `mops` may be `LEAN_MOPS`).

    A transaction that appends or reads a list is of the kind list-append, one that writes or reads a value of the
    other; one that only read nothing is of both. Raises HistoryError for what no process can have done, for a
    transaction of both kinds, and for a micro-operation without its key or value.
    """
    mops = history["mops"] if history["mops"].type in {MOPS, LEAN_MOPS} else history["mops"].cast(MOPS)
    if mops.null_count == len(mops):
        ends(history)
        return _none(history, mops)
    chunks = list(_chunks(mops))
    types = positions_among(history["type"], _TYPES)
    invocation, completion = _ends(history, types)
    valid = np.concatenate([chunk.valid for chunk in chunks])
    own = np.where((completion >= 0) & valid[completion], completion, invocation) if len(valid) else invocation
    kinds = _kinds_of(chunks, own, valid)
    _refuse_the_malformed(history, own, kinds)
    chosen = (kinds >= 0) & (kinds != (2 if kind == "list-append" else 1))
    # Ids follow completion; who never completed comes last, by invocation.
    order = _by_completion(completion, chosen, len(history))
    del chosen, kinds

    invocation, completion, own = invocation[order], completion[order], own[order]
    status = types[completion] if len(types) else np.zeros(0, np.int8)
    status[completion < 0] = INFO
    place = np.full(len(history), -1, np.int32)
    first = _places([chunk.offsets for chunk in chunks], own, place)
    elements, bases = _spanned([chunk.elements for chunk in chunks])
    lean = mops.type == LEAN_MOPS
    # Loops of registers know one type of each column.
    value = np.int32 if lean and kind == "list-append" else np.int64
    at = value if len(elements) <= MOST else np.int64
    columns = _Columns(
        f=np.empty(first[-1], np.int8),
        key=np.empty(first[-1], np.int32 if lean else np.int64),
        value=np.empty(first[-1], value),
        given=np.empty(first[-1], np.bool_),
        begin=np.empty(first[-1], at),
        end=np.empty(first[-1], at),
    )
    _gather_all(chunks, bases, place, columns)
    if kind == "rw-register":
        elements = _unchanging(np.zeros(0, np.int64))  # what registers are read as is no list
    del place, chunks
    dense, keys = _dense(columns.key)
    return Transactions(
        status=status,
        process=history["process"].to_numpy()[invocation].astype(np.int32, copy=False),
        invoked=invocation.astype(np.int32),
        completed=np.where(status == INFO, NEVER, completion).astype(np.int32),
        index=history["index"].to_numpy()[invocation],
        first=first,
        f=columns.f,
        key=dense,
        value=columns.value,
        given=columns.given,
        begin=columns.begin,
        end=columns.end,
        elements=elements,
        keys=keys,
        time=history["time"],
        memory=mops,
    )


def _none(history: pa.Table, mops: pa.ChunkedArray) -> Transactions:
    """Return no transactions: most runs have none, and are judged without a compiled loop, which would load the compiler."""
    codes, ints, longs = np.zeros(0, np.int8), np.zeros(0, np.int32), np.zeros(0, np.int64)
    return Transactions(
        status=codes,
        process=ints,
        invoked=ints,
        completed=ints,
        index=longs,
        first=np.zeros(1, np.int64),
        f=codes,
        key=ints,
        value=longs,
        given=np.zeros(0, np.bool_),
        begin=longs,
        end=longs,
        elements=longs,
        keys=longs,
        time=history["time"],
        memory=mops,
    )


# ── rows of the history ──────────────────────────────────────────────────────────────────────────────────────────────


def _ends(history: pa.Table, types: Bytes) -> tuple[Ints, Ints]:
    """Compute `schemaquake.harness.history.pairing.ends` for one table at once; only used for malformed histories."""
    processes = np.array(history["process"].to_numpy())
    if len(processes) and processes.dtype == np.int32 and int(processes.max()) < 16 * len(processes) + 1024:
        completion = _paired(processes, types, _numbers(history["f"]), int(processes.max()) + 1)
        if len(completion):
            invocation = np.flatnonzero((types == _INVOKE) & (processes >= 0)).astype(np.int32)
            return invocation, completion[invocation]
    invocation, completion = (rows.astype(np.int32) for rows in ends(history))
    return invocation, completion


@compiled
def _paired(processes: Ints, types: Bytes, names: Ints, count: int) -> Ints:
    """Find for every row of an invocation the row that completed it, or −1; empty if some process breaks the rules."""
    completion = np.full(len(processes), -1, np.int32)
    invoked = np.full(count, -1, np.int32)  # −1 idle, −2 retired
    for row in range(len(processes)):
        process = processes[row]
        if process < 0:
            continue
        before = invoked[process]
        if types[row] == _INVOKE:
            if before != -1:
                return completion[:0]
            invoked[process] = row
        else:
            if before < 0 or names[row] != names[before]:
                return completion[:0]
            completion[before] = row
            invoked[process] = -2 if types[row] == INFO else -1
    return completion


@compiled
def _by_completion(completion: Ints, chosen: Mask, rows: int) -> Ints:
    """Sort the positions of those chosen by the row of their completion; those without (−1) last, in their own order."""
    at = np.full(rows, -1, np.int32)
    count = 0
    for n in range(len(completion)):
        if chosen[n]:
            count += 1
            if completion[n] >= 0:
                at[completion[n]] = n
    order = np.empty(count, np.int32)
    done = 0
    for row in range(rows):
        if at[row] >= 0:
            order[done] = at[row]
            done += 1
    for n in range(len(completion)):
        if chosen[n] and completion[n] < 0:
            order[done] = n
            done += 1
    return order


def _numbers(column: pa.ChunkedArray) -> Ints:
    """Number the texts of a column, equal where the texts are."""
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    known: dict[str, int] = {}
    parts = [np.zeros(0, np.int32)]
    for chunk in column.chunks:
        codes = [known.setdefault(name, len(known)) for name in chunk.dictionary.to_pylist()]
        parts.append(np.array(codes, np.int32)[chunk.indices.to_numpy()])
    return np.concatenate(parts)


def _places(offsets: list[Ints], rows: Ints, place: Ints) -> Longs:
    """Find where each transaction's micro-operations begin, which is noted in `place` of its row, too.

    Raises HistoryError if there are more than `MOST`.
    """
    lengths = np.concatenate([np.zeros(0, np.int32), *(np.diff(of_chunk) for of_chunk in offsets)])[rows]
    first = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(lengths, out=first[1:])
    if first[-1] > MOST:
        raise HistoryError(
            f"{first[-1]:,} micro-operations are too many to be judged at once: they are judged in pieces with --memory"
        )
    place[rows] = first[:-1]
    return first


# ── micro-operations ─────────────────────────────────────────────────────────────────────────────────────────────────


class _Chunk(NamedTuple):
    """One chunk of the column as its buffers: rows, micro-operations (from the first row's on), elements of lists.

    Offsets are Arrow's own; the first is that of the first row, or the first list.
    """

    valid: Mask
    offsets: Ints
    f: Bytes
    key: Numbers
    value: Numbers
    given: Mask
    lists: Ints
    elements: Numbers


class _Columns(NamedTuple):
    f: Bytes
    key: Numbers
    value: Numbers  # Longs where they are of registers, as the next ones
    given: Mask
    begin: Numbers
    end: Numbers


def _chunks(column: pa.ChunkedArray) -> Iterator[_Chunk]:
    """List the chunks of a column of `MOPS`. Raises HistoryError for a micro-operation without a key."""
    number = np.int32 if column.type == LEAN_MOPS else np.int64
    for chunk in column.chunks:
        offsets = chunk.offsets.to_numpy()
        parts = chunk.values.slice(offsets[0], offsets[-1] - offsets[0])
        key, value, lists = parts.field("k"), parts.field("v"), parts.field("vs")
        list_offsets = lists.offsets.to_numpy()
        elements = lists.values.slice(list_offsets[0], list_offsets[-1] - list_offsets[0])
        if key.null_count or elements.null_count:
            raise HistoryError("a micro-operation without a key, or a list with an element that is null")
        yield _Chunk(
            valid=_mask(chunk),
            offsets=offsets,
            f=_plain(parts.field("f"), np.int8) if column.type == LEAN_MOPS else _codes(parts.field("f")),
            key=_plain(key, number),
            value=_plain(value, number),
            given=_mask(value),
            lists=list_offsets,
            elements=_plain(elements, number),
        )


def _mask(array: pa.Array) -> Mask:
    found: Mask = array.is_valid().to_numpy(zero_copy_only=False)
    return found


def _plain(array: pa.Array, number: type[np.signedinteger[Any]]) -> npt.NDArray[Any]:
    """Whole numbers as they lie in memory; what a null's place holds is never looked at."""
    buffer = array.buffers()[1]
    if buffer is None or not len(array):  # of no numbers at all, Arrow may keep a buffer of any length
        return _unchanging(np.zeros(len(array), number))
    return np.frombuffer(buffer, number, count=len(array), offset=np.dtype(number).itemsize * array.offset)


def _unchanging(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Make the array read-only, as Arrow's are, so that every loop is compiled once."""
    array.flags.writeable = False
    return array


def _codes(f: pa.Array) -> Bytes:
    """0 read, 1 append, 2 write. Raises HistoryError for anything else."""
    _, offsets, text = f.buffers()
    if not len(f):
        return np.zeros(0, np.int8)
    ends = np.frombuffer(offsets, np.int32, count=len(f) + 1, offset=4 * f.offset)
    codes = _spelled(ends, np.frombuffer(text if text is not None else b"", np.uint8))
    if len(codes):
        return codes
    foreign = pc.filter(f, pc.invert(pc.is_in(f, value_set=pa.array(MOP_NAMES))))
    unknown = foreign[:1].cast(pa.binary())[0].as_py().decode(errors="replace")
    raise HistoryError(f'micro-operation "{unknown}" is unknown; known are r, append and w')


@compiled
def _spelled(ends: Ints, text: Bits) -> Bytes:
    """Encode each word of a column of texts by its code; empty if one of them is unknown."""
    codes = np.empty(len(ends) - 1, np.int8)
    for n in range(len(codes)):
        begin, length = ends[n], ends[n + 1] - ends[n]
        if length == 1 and text[begin] == 114:  # r
            codes[n] = READ
        elif length == 1 and text[begin] == 119:  # w
            codes[n] = WRITE
        elif length == 6 and text[begin] == 97 and text[begin + 1] == 112 and text[begin + 5] == 100:  # ap…d
            codes[n] = APPEND
        else:
            return codes[:0]
    return codes


def _kinds_of(chunks: list[_Chunk], rows: Ints, valid: Mask) -> Bytes:
    """Classify some rows of the history, of which `valid` says whether they have micro-operations; see `_kinds`."""
    asked = np.zeros(len(valid), np.bool_)
    asked[rows] = True  # of an invocation whose completion has micro-operations, its own are looked at by nobody
    asked &= valid
    kinds = np.empty(len(valid), np.int8)
    starts = _starts([len(chunk.valid) for chunk in chunks])

    def classify(begin: int, end: int) -> None:
        for chunk, at, to in zip(chunks[begin:end], starts[begin:], starts[begin + 1 :], strict=False):
            kinds[at:to] = _kinds(asked[at:to], chunk.offsets, chunk.f, chunk.given, chunk.lists)

    in_parts(_starts([len(chunk.f) for chunk in chunks]), classify)
    found: Bytes = kinds[rows]
    return found


def _starts(lengths: list[int]) -> Longs:
    """Return where each of some parts of those lengths begins, and where the last one ends."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(np.array(lengths, np.int64))])


@compiled
def _kinds(valid: Mask, offsets: Ints, f: Bytes, given: Mask, lists: Ints) -> Bytes:
    """Classify each row: 0 of either kind, 1 list-append, 2 rw-register, 3 both, 4 or more lacks a value; −1 nothing."""
    kinds = np.full(len(valid), -1, np.int8)
    for row in range(len(valid)):
        if not valid[row]:
            continue
        kind = 0
        for at in range(offsets[row] - offsets[0], offsets[row + 1] - offsets[0]):
            if f[at] == READ:
                kind |= (1 if lists[at] < lists[at + 1] else 0) | (2 if given[at] else 0)
            else:
                kind |= (1 if f[at] == APPEND else 2) | (0 if given[at] else 4)
        kinds[row] = kind
    return kinds


def _refuse_the_malformed(history: pa.Table, rows: Ints, kinds: Bytes) -> None:
    for wrong, what in ((kinds >= 4, "an append or a write without a value"), (kinds == 3, "both lists and registers")):
        if wrong.any():
            index = history["index"][int(rows[np.argmax(wrong)])].as_py()
            raise HistoryError(f"the transaction at index {index} has {what}: it cannot be judged")


def _gather_all(chunks: list[_Chunk], bases: list[int], place: Ints, columns: _Columns) -> None:
    """Fill the columns, where `place` says for each row (−1: nowhere); lists of a chunk begin at its base."""
    rows = _starts([len(chunk.valid) for chunk in chunks])

    def gather(begin: int, end: int) -> None:
        for n in range(begin, end):
            _gather(*chunks[n][:-1], place[rows[n] : rows[n + 1]], bases[n], *columns)

    in_parts(_starts([len(chunk.f) for chunk in chunks]), gather)


def _spanned(parts: Sequence[Numbers]) -> tuple[Numbers, list[int]]:
    """Lay one array over all parts where they lie in memory: (the array, the index at which each part begins).

    Elements are most of a history; to join them would take more time than all that is done with them, and the memory
    once more. Between the parts the array lies over foreign memory: it must not be read there. The parts must outlive it.
    """
    used = [part for part in parts if len(part)]
    if not used:
        return _unchanging(np.zeros(0, parts[0].dtype if parts else np.int64)), [0 for _ in parts]
    first = min(used, key=lambda part: part.ctypes.data)
    bases = [(part.ctypes.data - first.ctypes.data) // first.itemsize if len(part) else 0 for part in parts]
    assert all(part.ctypes.data % first.itemsize == 0 and part.flags.c_contiguous for part in used)
    span = max(base + len(part) for part, base in zip(parts, bases, strict=True))
    spanning: Any = np.lib.stride_tricks.as_strided(first, shape=(span,), writeable=False)
    return spanning, bases


@compiled
def _gather(
    valid: Mask,
    offsets: Ints,
    f: Bytes,
    key: Numbers,
    value: Numbers,
    given: Mask,
    lists: Ints,
    place: Ints,
    base: int,
    to_f: Bytes,
    to_key: Numbers,
    to_value: Numbers,
    to_given: Mask,
    to_begin: Numbers,
    to_end: Numbers,
) -> None:
    for row in range(len(valid)):
        to = place[row]
        if to < 0:
            continue
        for at in range(offsets[row] - offsets[0], offsets[row + 1] - offsets[0]):
            to_f[to] = f[at]
            to_key[to] = key[at]
            to_value[to] = value[at]
            to_given[to] = given[at]
            to_begin[to] = base + lists[at] - lists[0]
            to_end[to] = base + lists[at + 1] - lists[0]
            to += 1


def _dense(keys: Numbers) -> tuple[Ints, Longs]:
    """Number the keys from 0: (the number of each, what the numbers stand for)."""
    if not len(keys):
        return np.zeros(0, np.int32), np.zeros(0, np.int64)
    low, high = int(keys.min()), int(keys.max())
    if numbered_by_appearance(low, high, len(keys)):
        return _by_table(keys, low, high - low + 1)
    names, inverse = np.unique(keys, return_inverse=True)
    return inverse.astype(np.int32), names.astype(np.int64, copy=False)


def numbered_by_appearance(low: int, high: int, count: int) -> bool:
    """Tell whether so many micro-operations number their keys, from `low` to `high`, as these appear; else in order."""
    return high - low < _DENSE * count + 1024


@compiled
def _by_table(keys: Numbers, low: int, size: int) -> tuple[Ints, Longs]:
    number = np.full(size, -1, np.int32)
    names = np.empty(size, np.int64)
    dense = np.empty(len(keys), np.int32)
    count = 0
    for at in range(len(keys)):
        place = keys[at] - low
        if number[place] < 0:
            number[place] = count
            names[count] = keys[at]
            count += 1
        dense[at] = number[place]
    return dense, names[:count].copy()
