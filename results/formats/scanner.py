"""The scanner: op maps of the common shapes from bytes to columns, compiled; EDN and elle-cli's JSON alike.

It reads what nearly all ops of nearly all histories consist of: keywords and plain strings, integers, nil, vectors, maps, and
transactions over integers. At anything else (sets, ratios, tags, escapes, names for keys, letters beyond ASCII, and
whatever is malformed) it stops before the op, and the general readers take that op: so there is one meaning, and one
way to refuse. Values go to Arrow as they are, without ever being Python objects.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numba
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from schemaquake.harness.model.operation import NEMESIS
from schemaquake.harness.model.records import MOPS
from schemaquake.results.formats.op_maps import RAW

__all__ = ["CLOSED", "ENDED", "FULL", "UNFINISHED", "UNUSUAL", "Scanner", "may_end"]

_Bytes: TypeAlias = npt.NDArray[np.uint8]
_Numbers: TypeAlias = npt.NDArray[np.int64]

ENDED: Final = 0
"""Nothing but blanks is left."""
UNFINISHED: Final = 1
"""What is left is the beginning of an op."""
UNUSUAL: Final = 2
"""The next op is for the general reader."""
CLOSED: Final = 3
"""The vector around all ops ends here."""
FULL: Final = 4
"""There is no room for more ops: take what there is."""

_DEPTH_MOST: Final = 32
_KEYS_MOST: Final = 32  # of a map, to look for one that stands there twice
_SHORTEST_OP: Final = 16  # bytes

# Bits of `found`: which keys an op has had.
_TYPE, _F, _PROCESS, _TIME, _INDEX, _VALUE, _ERROR, _NODE = (1 << bit for bit in range(8))
_TYPES: Final = ("invoke", "ok", "fail", "info")
_MICRO: Final = ("append", "r", "w")

# Places of `at`, the scanner's position and counts.
_AT, _LINE, _OPS, _MOPS, _ELEMENTS = range(5)


class Scanner:
    """Buffers for stretches of at most `size` bytes, and the rows that were scanned and not yet taken."""

    def __init__(self, size: int, *, json: bool, independent: bool) -> None:
        self.size = size
        self._json = json
        self._independent = independent
        ops = size // _SHORTEST_OP + 1
        self._at = np.zeros(5, np.int64)
        self._numbers = np.zeros((4, ops), np.int64)  # line, index, time, process
        self._found = np.zeros(ops, np.int32)
        self._types = np.zeros(ops, np.int32)
        self._texts = np.zeros((5, 2 * size + 64), np.uint8)  # values, names, errors, nodes, keys
        self._text_ends = np.zeros((5, ops + 1), np.int32)
        self._present = np.zeros((5, ops), np.bool_)
        self._mop_ends = np.zeros(ops + 1, np.int32)
        self._has_mops = np.zeros(ops, np.bool_)
        mops = size // 4 + 1
        self._mops = np.zeros((2, mops), np.int64)  # key, value
        self._mop_codes = np.zeros(mops, np.int32)
        self._mop_kinds = np.zeros(mops, np.int8)  # 0 nothing, 1 one element, 2 many
        self._element_ends = np.zeros(mops + 1, np.int32)
        self._elements = np.zeros(size // 2 + 1, np.int64)

    @property
    def ops(self) -> int:
        """How many rows wait to be taken."""
        return int(self._at[_OPS])

    def scan(self, data: _Bytes, begin: int, line: int) -> tuple[int, int, int]:
        """Go on from `begin`: (why it stopped, where, the line there)."""
        self._at[_AT], self._at[_LINE] = begin, line
        status = _scan(
            data,
            self._json,
            self._independent,
            self._at,
            self._numbers,
            self._found,
            self._types,
            self._texts,
            self._text_ends,
            self._present,
            self._mop_ends,
            self._has_mops,
            self._mops,
            self._mop_codes,
            self._mop_kinds,
            self._element_ends,
            self._elements,
        )
        return int(status), int(self._at[_AT]), int(self._at[_LINE])

    def take(self) -> pa.RecordBatch:
        """The rows that were scanned (`schemaquake.results.formats.op_maps.RAW`), copied: the buffers are written again."""
        count = self.ops
        found = self._found[:count]
        line, index, time, process = (column[:count] for column in self._numbers)
        values, names, errors, nodes, keys = (self._text(kind, count) for kind in range(5))
        types = pa.DictionaryArray.from_arrays(pa.array(self._types[:count].copy()), pa.array(_TYPES))
        columns = {
            "line": pa.array(line.copy()),
            "index": pa.array(index.copy(), mask=(found & _INDEX) == 0),
            "time": pa.array(time.copy(), mask=(found & _TIME) == 0),
            "process": pa.array(process.copy(), mask=(found & _PROCESS) == 0),
            "type": types,
            "f": names.dictionary_encode(),
            "node": nodes.dictionary_encode(),
            "key": keys,
            "value": values,
            "error": errors,
            "mops": self._transactions(count),
        }
        self._at[_OPS:] = 0
        return pa.RecordBatch.from_arrays([columns[field.name] for field in RAW], schema=RAW)

    def _text(self, kind: int, count: int) -> pa.Array:
        """A column of texts, from their bytes one after another."""
        ends = self._text_ends[kind, : count + 1]
        present = np.packbits(self._present[kind, :count], bitorder="little")
        text = self._texts[kind, : ends[-1]]
        buffers = [pa.py_buffer(present.tobytes()), pa.py_buffer(ends.tobytes()), pa.py_buffer(text.tobytes())]
        return pa.Array.from_buffers(pa.string(), count, buffers)

    def _transactions(self, count: int) -> pa.Array:
        mops = int(self._mop_ends[count])
        kinds = self._mop_kinds[:mops]
        struct = MOPS.value_type
        elements = pa.array(self._elements[: self._element_ends[mops]].copy())
        many = np.packbits(kinds == 2, bitorder="little")
        lists = pa.Array.from_buffers(
            struct.field("vs").type,
            mops,
            [pa.py_buffer(many.tobytes()), pa.py_buffer(self._element_ends[: mops + 1].tobytes())],
            children=[elements],
        )
        children = [
            pa.array(_MICRO).take(pa.array(self._mop_codes[:mops])),
            pa.array(self._mops[0, :mops].copy()),
            pa.array(self._mops[1, :mops].copy(), mask=kinds != 1),
            lists,
        ]
        structs = pa.StructArray.from_arrays(children, fields=list(struct))
        has = np.packbits(self._has_mops[:count], bitorder="little")
        ends = self._mop_ends[: count + 1]
        return pa.Array.from_buffers(
            MOPS, count, [pa.py_buffer(has.tobytes()), pa.py_buffer(ends.tobytes())], children=[structs]
        )


def may_end(op: bytes) -> bool:
    """Whether an op in EDN that begins here may end here; if not, what opened it is still open."""
    return bool(_may_end(np.frombuffer(op, np.uint8)))


# ── compiled ─────────────────────────────────────────────────────────────────────────────────────────────────────────
#
# Every function takes a place and gives the place after it, or one of these:

_MORE: Final = -1  # the data ends inside
_ODD: Final = -2  # it is not for this scanner


def _compiled(function: Any) -> Any:
    return numba.njit(cache=True, nogil=True)(function)


@_compiled
def _after_blanks(data: _Bytes, at: int, json: bool) -> int:
    """Blanks and, in EDN, commas and comments; but not a comment of which the end is not there yet."""
    end = len(data)
    while at < end:
        byte = data[at]
        if byte == 32 or (9 <= byte <= 13) or (byte == 44 and not json):
            at += 1
        elif byte == 59 and not json:
            begin = at
            while at < end and data[at] != 10:
                at += 1
            if at >= end:
                return begin
        else:
            break
    return at


@_compiled
def _is_name(byte: int) -> bool:
    """Letters, digits and what else a plain name or number consists of."""
    return (
        (97 <= byte <= 122) or (65 <= byte <= 90) or (48 <= byte <= 57) or byte == 45 or byte == 95 or byte == 46  # noqa: PLR1714
    )


@_compiled
def _word(data: _Bytes, at: int, json: bool) -> tuple[int, int, int]:
    """(begin, end, place after) of a keyword or a string that needs no escape."""
    end = len(data)
    if at >= end:
        return _MORE, 0, 0
    if data[at] == 34:
        begin = at + 1
        at = begin
        while at < end and data[at] != 34:
            if data[at] == 92 or data[at] < 32 or data[at] > 126:
                return _ODD, 0, 0
            at += 1
        if at >= end:
            return _MORE, 0, 0
        return begin, at, at + 1
    if json or data[at] != 58:
        return _ODD, 0, 0
    begin = at + 1
    at = begin
    while at < end and _is_name(data[at]):
        at += 1
    if at >= end:
        return _MORE, 0, 0
    if at == begin or not _ends_word(data[at]):
        return _ODD, 0, 0
    return begin, at, at


@_compiled
def _ends_word(byte: int) -> bool:
    """Whether a word that stands before this byte is whole."""
    return (
        byte == 32 or byte == 44 or (9 <= byte <= 13) or byte == 93 or byte == 125 or byte == 91 or byte == 41  # noqa: PLR1714
    )


@_compiled
def _integer(data: _Bytes, at: int) -> tuple[int, int]:
    """(the integer, the place after it), of at most 18 digits."""
    end = len(data)
    negative = at < end and data[at] == 45
    if negative:
        at += 1
    begin = at
    value = 0
    while at < end and 48 <= data[at] <= 57:
        value = 10 * value + int(data[at]) - 48
        at += 1
        if at - begin > 18:
            return 0, _ODD
    if at >= end:
        return 0, _MORE
    if at == begin or (at - begin > 1 and data[begin] == 48) or not _ends_word(data[at]):
        return 0, _ODD
    if negative and value == 0:
        return 0, _ODD
    return (-value if negative else value), at


@_compiled
def _is(data: _Bytes, begin: int, end: int, word: _Bytes) -> bool:
    if end - begin != len(word):
        return False
    for at in range(len(word)):  # noqa: SIM110 - compiled
        if data[begin + at] != word[at]:
            return False
    return True


@_compiled
def _constant(data: _Bytes, at: int, json: bool) -> tuple[int, int]:
    """(0 null, 1 true, 2 false; the place after it)."""
    end = at
    while end < len(data) and 97 <= data[end] <= 122:
        end += 1
    if end >= len(data):
        return 0, _MORE
    if end - at > 5 or not _ends_word(data[end]):
        return 0, _ODD
    if end - at == 3 and not json and data[at] == 110 and data[at + 1] == 105 and data[at + 2] == 108:
        return 0, end
    if (
        end - at == 4
        and json
        and data[at] == 110
        and data[at + 1] == 117
        and data[at + 2] == 108
        and data[at + 3] == 108
    ):
        return 0, end
    if end - at == 4 and data[at] == 116 and data[at + 1] == 114 and data[at + 2] == 117 and data[at + 3] == 101:
        return 1, end
    if (
        end - at == 5
        and data[at] == 102
        and data[at + 1] == 97
        and data[at + 2] == 108
        and data[at + 3] == 115
        and data[at + 4] == 101
    ):
        return 2, end
    return 0, _ODD


@_compiled
def _next(data: _Bytes, at: int, json: bool, count: int) -> int:
    """Where the next element of a collection begins, or the collection ends: in JSON there is one comma before each."""
    at = _after_blanks(data, at, json)
    if json and count > 0 and at < len(data):
        if data[at] == 44:
            at = _after_blanks(data, at + 1, json)
            if at < len(data) and (data[at] == 93 or data[at] == 125):
                return _ODD
        elif data[at] != 93 and data[at] != 125:
            return _ODD
    return at if at < len(data) else _MORE


@_compiled
def _after_colon(data: _Bytes, at: int, json: bool) -> int:
    """From the end of a key to its value."""
    at = _after_blanks(data, at, json)
    if json:
        if at < len(data) and data[at] != 58:
            return _ODD
        at = _after_blanks(data, at + 1, json)
    return at if at < len(data) else _MORE


@_compiled
def _write(value: int, out: _Bytes, to: int) -> int:
    """The digits of an integer; the place after them."""
    if value < 0:
        out[to] = 45
        to += 1
        value = -value
    digits = 1
    rest = value
    while rest >= 10:
        rest //= 10
        digits += 1
    for place in range(to + digits - 1, to - 1, -1):
        out[place] = 48 + value % 10
        value //= 10
    return to + digits


@_compiled
def _copy(data: _Bytes, begin: int, end: int, out: _Bytes, to: int) -> int:
    for at in range(begin, end):
        out[to] = data[at]
        to += 1
    return to


@_compiled
def _emit(data: _Bytes, at: int, json: bool, out: _Bytes, to: int) -> tuple[int, int]:  # noqa: C901, PLR0912, PLR0915 - one loop
    """The value at `at` as JSON: (the place after it, the end of the JSON)."""
    opened = np.zeros(_DEPTH_MOST, np.uint8)
    counts = np.zeros(_DEPTH_MOST, np.int64)
    keys = np.zeros((_DEPTH_MOST, _KEYS_MOST), np.uint64)
    depth = 0
    while True:
        is_key = False
        in_map = depth > 0 and opened[depth - 1] == 123
        if depth > 0:
            count = counts[depth - 1]
            at = _after_colon(data, at, json) if in_map and count % 2 == 1 else _next(data, at, json, count)
            if at < 0:
                return at, 0
            byte = data[at]
            if byte == 93 or byte == 125 or byte == 41:  # noqa: PLR1714
                closes = 125 if in_map else 93 if opened[depth - 1] == 91 else 41
                if byte != closes or (in_map and count % 2 == 1):
                    return _ODD, 0
                out[to] = 125 if in_map else 93
                to += 1
                at += 1
                depth -= 1
                if depth == 0:
                    return at, to
                counts[depth - 1] += 1
                continue
            is_key = in_map and count % 2 == 0
            if count > 0:
                out[to] = 58 if in_map and not is_key else 44
                to += 1
        byte = data[at]
        if byte == 91 or byte == 123 or (byte == 40 and not json):  # noqa: PLR1714
            if depth == _DEPTH_MOST or is_key:
                return _ODD, 0
            opened[depth] = byte
            counts[depth] = 0
            depth += 1
            out[to] = 123 if byte == 123 else 91
            to += 1
            at += 1
            continue
        began = to
        if byte == 34 or byte == 58:  # noqa: PLR1714
            begin, end, at = _word(data, at, json)
            if begin < 0:
                return begin, 0
            out[to] = 34
            to = _copy(data, begin, end, out, to + 1)
            out[to] = 34
            to += 1
        elif byte == 45 or 48 <= byte <= 57:
            if is_key and json:
                return _ODD, 0
            value, at = _integer(data, at)
            if at < 0:
                return at, 0
            if is_key:
                out[to] = 34
                to = _write(value, out, to + 1)
                out[to] = 34
                to += 1
            else:
                to = _write(value, out, to)
        elif 97 <= byte <= 122 and not is_key:
            which, at = _constant(data, at, json)
            if at < 0:
                return at, 0
            word = _NULL if which == 0 else _TRUE if which == 1 else _FALSE
            to = _copy(word, 0, len(word), out, to)
        else:
            return _ODD, 0
        if depth == 0:
            return at, to
        if is_key:
            number = counts[depth - 1] // 2
            if number >= _KEYS_MOST:
                return _ODD, 0
            mixed = np.uint64(14695981039346656037)
            for place in range(began, to):
                mixed = (mixed ^ np.uint64(out[place])) * np.uint64(1099511628211)
            for other in range(number):
                if keys[depth - 1, other] == mixed:
                    return _ODD, 0
            keys[depth - 1, number] = mixed
        counts[depth - 1] += 1


@_compiled
def _transaction(  # noqa: PLR0912, PLR0915, C901 - one loop
    data: _Bytes,
    at: int,
    json: bool,
    mop: int,
    element: int,
    mops: _Numbers,
    codes: npt.NDArray[np.int32],
    kinds: npt.NDArray[np.int8],
    ends: npt.NDArray[np.int32],
    elements: _Numbers,
) -> tuple[int, int, int]:
    """The micro-operations from behind the bracket on: (the place after them, how many there are then, elements)."""
    count = 0
    while True:
        at = _next(data, at, json, count)
        if at < 0:
            return at, 0, 0
        if data[at] == 93:
            return at + 1, mop, element
        if data[at] != 91:
            return _ODD, 0, 0
        count += 1
        at = _next(data, at + 1, json, 0)
        if at < 0:
            return at, 0, 0
        begin, end, at = _word(data, at, json)
        if begin < 0:
            return begin, 0, 0
        if _is(data, begin, end, _APPEND):
            codes[mop] = 0
        elif _is(data, begin, end, _R) or _is(data, begin, end, _READ):
            codes[mop] = 1
        elif _is(data, begin, end, _W) or _is(data, begin, end, _WRITE):
            codes[mop] = 2
        else:
            return _ODD, 0, 0
        at = _next(data, at, json, 1)
        if at < 0:
            return at, 0, 0
        mops[0, mop], at = _integer(data, at)
        if at < 0:
            return at, 0, 0
        at = _next(data, at, json, 1)
        if at < 0:
            return at, 0, 0
        kinds[mop] = 0
        mops[1, mop] = 0
        if data[at] == 93 and codes[mop] == 1:  # a read that says only what it reads
            at += 1
            mop += 1
            ends[mop] = element
            continue
        if data[at] == 91:
            kinds[mop] = 2
            inner = 0
            at += 1
            while True:
                at = _next(data, at, json, inner)
                if at < 0:
                    return at, 0, 0
                if data[at] == 93:
                    at += 1
                    break
                elements[element], at = _integer(data, at)
                if at < 0:
                    return at, 0, 0
                element += 1
                inner += 1
        elif data[at] == 110:
            which, at = _constant(data, at, json)
            if at < 0 or which != 0:
                return min(at, _ODD), 0, 0
        else:
            kinds[mop] = 1
            mops[1, mop], at = _integer(data, at)
            if at < 0:
                return at, 0, 0
        at = _next(data, at, json, 1)
        if at < 0:
            return at, 0, 0
        if data[at] != 93:
            return _ODD, 0, 0
        at += 1
        mop += 1
        ends[mop] = element


@_compiled
def _begins_transaction(data: _Bytes, at: int, json: bool) -> int:
    """Whether a vector (from behind its bracket on) begins with a vector that begins with a word: 1, 0, or negative."""
    at = _next(data, at, json, 0)
    if at < 0:
        return at
    if data[at] != 91:
        return 0
    at = _next(data, at + 1, json, 0)
    if at < 0:
        return at
    return 1 if data[at] == 58 or data[at] == 34 else 0


@_compiled
def _may_end(data: _Bytes) -> bool:  # noqa: C901 - one loop
    """Brackets are counted, but for those in strings, in comments and as characters."""
    end = len(data)
    depth = 0
    at = 0
    while at < end:
        byte = data[at]
        if byte == 34:
            at += 1
            while at < end and data[at] != 34:
                at += 2 if data[at] == 92 else 1
            if at >= end:
                return False
        elif byte == 92:
            at += 1
        elif byte == 59:
            while at < end and data[at] != 10:
                at += 1
        elif byte == 91 or byte == 123 or byte == 40:  # noqa: PLR1714
            depth += 1
        elif byte == 93 or byte == 125 or byte == 41:  # noqa: PLR1714
            depth -= 1
            if depth <= 0:
                return True
        at += 1
    return depth == 0


def _bytes_of(word: str) -> _Bytes:
    return np.frombuffer(word.encode(), np.uint8).copy()


_NULL, _TRUE, _FALSE = map(_bytes_of, ("null", "true", "false"))
_APPEND, _R, _READ, _W, _WRITE = map(_bytes_of, ("append", "r", "read", "w", "write"))
_KEY_TYPE, _KEY_F, _KEY_PROCESS, _KEY_TIME = map(_bytes_of, ("type", "f", "process", "time"))
_KEY_INDEX, _KEY_VALUE, _KEY_ERROR, _KEY_NODE, _KEY_KEY = map(_bytes_of, ("index", "value", "error", "node", "key"))
_INVOKE, _OK, _FAIL, _INFO = map(_bytes_of, _TYPES)


@_compiled
def _scan(  # noqa: C901, PLR0912, PLR0915 - parts of a compiled loop would have to hand all of its arrays on
    data: _Bytes,
    json: bool,
    independent: bool,
    state: _Numbers,
    numbers: npt.NDArray[np.int64],
    found: npt.NDArray[np.int32],
    types: npt.NDArray[np.int32],
    texts: npt.NDArray[np.uint8],
    text_ends: npt.NDArray[np.int32],
    present: npt.NDArray[np.bool_],
    mop_ends: npt.NDArray[np.int32],
    has_mops: npt.NDArray[np.bool_],
    mops: _Numbers,
    codes: npt.NDArray[np.int32],
    kinds: npt.NDArray[np.int8],
    element_ends: npt.NDArray[np.int32],
    elements: _Numbers,
) -> int:
    """Scan ops from `state[_AT]` on, and leave there where it stopped."""
    end = len(data)
    room = len(found)
    while True:
        at = state[_AT]
        line = state[_LINE]
        # Between ops, commas are blanks in both notations.
        while at < end:
            after = _after_blanks(data, at, json)
            if after < end and data[after] == 44:
                after += 1
            for place in range(at, after):
                if data[place] == 10:
                    line += 1
            if after == at:
                break
            at = after
        state[_AT] = at
        state[_LINE] = line
        if at >= end:
            return ENDED
        if data[at] == 93 or (data[at] == 41 and not json):
            return CLOSED
        op = state[_OPS]
        if op >= room:
            return FULL
        begin_of_op = at
        if data[at] == 35 and not json:  # the tag of a record
            at += 1
            if at < end and not (97 <= data[at] <= 122):
                return UNUSUAL
            while at < end and (_is_name(data[at]) or data[at] == 47):
                at += 1
            at = _after_blanks(data, at, json)
            if at >= end:
                return UNFINISHED
        if data[at] != 123:
            return UNUSUAL
        at += 1
        had = 0
        count = 0
        mop, element = state[_MOPS], state[_ELEMENTS]
        text_at = np.zeros(5, np.int64)
        for kind in range(5):
            text_at[kind] = text_ends[kind, op]
            present[kind, op] = False
        has_mops[op] = False
        while True:
            at = _next(data, at, json, count)
            if at < 0 or data[at] == 125:
                break
            count += 1
            begin, stop, at = _word(data, at, json)
            if begin < 0:
                at = begin
                break
            at = _after_colon(data, at, json)
            if at < 0:
                break
            byte = data[at]
            bit = 0
            if _is(data, begin, stop, _KEY_TYPE):
                bit = _TYPE
                begin, stop, at = _word(data, at, json)
                if begin < 0:
                    at = begin
                    break
                if _is(data, begin, stop, _INVOKE):
                    types[op] = 0
                elif _is(data, begin, stop, _OK):
                    types[op] = 1
                elif _is(data, begin, stop, _FAIL):
                    types[op] = 2
                elif _is(data, begin, stop, _INFO):
                    types[op] = 3
                else:
                    at = _ODD
                    break
            elif _is(data, begin, stop, _KEY_F) or _is(data, begin, stop, _KEY_NODE):
                bit = _F if _is(data, begin, stop, _KEY_F) else _NODE
                kind = 1 if bit == _F else 3
                if byte == 110 and bit == _NODE:
                    which, at = _constant(data, at, json)
                    if at < 0:
                        break
                else:
                    begin, stop, at = _word(data, at, json)
                    if begin < 0:
                        at = begin
                        break
                    text_at[kind] = _copy(data, begin, stop, texts[kind], text_ends[kind, op])
                    present[kind, op] = True
            elif (
                _is(data, begin, stop, _KEY_PROCESS)
                or _is(data, begin, stop, _KEY_TIME)
                or _is(data, begin, stop, _KEY_INDEX)
            ):
                if _is(data, begin, stop, _KEY_PROCESS):
                    bit, column = _PROCESS, 3
                elif _is(data, begin, stop, _KEY_TIME):
                    bit, column = _TIME, 2
                else:
                    bit, column = _INDEX, 1
                if had & bit:
                    at = _ODD
                    break
                if byte == 110:
                    which, at = _constant(data, at, json)
                    if at >= 0 and which != 0:
                        at = _ODD
                    if at < 0:
                        break
                    continue
                if bit == _PROCESS and (byte == 58 or byte == 34):  # noqa: PLR1714
                    begin, stop, at = _word(data, at, json)
                    if begin < 0 or independent:
                        at = begin if begin < 0 else _ODD
                        break
                    numbers[column, op] = NEMESIS
                else:
                    number, at = _integer(data, at)
                    if at >= 0 and bit == _PROCESS and (number < 0 or number >= 1 << 31):
                        at = _ODD
                    if at < 0:
                        break
                    numbers[column, op] = number
            elif _is(data, begin, stop, _KEY_VALUE):
                bit = _VALUE
                if byte == 110 and not independent:
                    which, at = _constant(data, at, json)
                    if at >= 0 and which != 0:
                        at = _ODD
                    if at < 0:
                        break
                else:
                    if independent:
                        if byte != 91:
                            at = _ODD
                            break
                        at = _next(data, at + 1, json, 0)
                        if at < 0:
                            break
                        if data[at] == 58 or data[at] == 34:
                            begin, stop, at = _word(data, at, json)
                            if begin < 0:
                                at = begin
                                break
                            # What could be the JSON of another key, and true, false and null, are for the other reader.
                            if (
                                begin == stop
                                or data[begin] == 45
                                or 48 <= data[begin] <= 57
                                or data[begin] == 91
                                or data[begin] == 123
                            ):
                                at = _ODD
                                break
                            if (
                                _is(data, begin, stop, _TRUE)
                                or _is(data, begin, stop, _FALSE)
                                or _is(data, begin, stop, _NULL)
                            ):
                                at = _ODD
                                break
                            text_at[4] = _copy(data, begin, stop, texts[4], text_ends[4, op])
                        else:
                            number, at = _integer(data, at)
                            if at < 0:
                                break
                            text_at[4] = _write(number, texts[4], text_ends[4, op])
                        present[4, op] = True
                        at = _next(data, at, json, 1)
                        if at < 0:
                            break
                        if data[at] == 93:
                            at = _ODD
                            break
                        byte = data[at]
                    is_transaction = 0
                    if byte == 40:  # a list may be a transaction, too
                        at = _ODD
                        break
                    if byte == 91:
                        is_transaction = _begins_transaction(data, at + 1, json)
                        if is_transaction < 0:
                            at = is_transaction
                            break
                    if is_transaction == 1:
                        at, mop, element = _transaction(
                            data, at + 1, json, mop, element, mops, codes, kinds, element_ends, elements
                        )
                        if at < 0:
                            break
                        has_mops[op] = True
                    elif byte == 110:
                        which, at = _constant(data, at, json)
                        if at >= 0 and which != 0:
                            at = _ODD
                        if at < 0:
                            break
                    else:
                        at, stop = _emit(data, at, json, texts[0], text_ends[0, op])
                        if at < 0:
                            break
                        if stop - text_ends[0, op] == 2 and texts[0, stop - 1] == 93:
                            at = _ODD  # an empty vector may be an empty transaction
                            break
                        text_at[0] = stop
                        present[0, op] = True
                    if independent:
                        at = _next(data, at, json, 1)
                        if at >= 0 and data[at] != 93:
                            at = _ODD
                        if at < 0:
                            break
                        at += 1
            elif _is(data, begin, stop, _KEY_ERROR):
                bit = _ERROR
                if byte == 58 or byte == 34:  # noqa: PLR1714
                    begin, stop, at = _word(data, at, json)
                    if begin < 0:
                        at = begin
                        break
                    text_at[2] = _copy(data, begin, stop, texts[2], text_ends[2, op])
                    present[2, op] = True
                elif byte == 110:
                    which, at = _constant(data, at, json)
                    if at < 0:
                        break
                else:
                    at, stop = _emit(data, at, json, texts[2], text_ends[2, op])
                    if at < 0:
                        break
                    text_at[2] = stop
                    present[2, op] = True
            elif _is(data, begin, stop, _KEY_KEY):
                at = _ODD
                break
            else:
                # Nobody asks what it is; the room behind the values is free.
                at, stop = _emit(data, at, json, texts[0], text_at[0])
                if at < 0:
                    break
            if had & bit:
                at = _ODD
                break
            had |= bit
        if at == _MORE:
            return UNFINISHED
        if at < 0 or had & (_TYPE | _F) != _TYPE | _F:
            return UNUSUAL
        if had & _PROCESS and numbers[3, op] == NEMESIS:
            types[op] = 3
        at += 1
        numbers[0, op] = line
        for place in range(begin_of_op, at):
            if data[place] == 10:
                line += 1
        found[op] = had
        for kind in range(5):
            text_ends[kind, op + 1] = text_at[kind]
        mop_ends[op + 1] = mop
        state[_MOPS] = mop
        state[_ELEMENTS] = element
        state[_OPS] = op + 1
        state[_AT] = at
        state[_LINE] = line
