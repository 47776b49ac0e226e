"""Scanner: a compiled parser from bytes to columns for op maps of the common shapes, in EDN and in elle-cli's JSON.

It supports what nearly all ops consist of: keywords and plain strings, integers, nil, vectors, maps, and transactions over
integers. At anything else (sets, ratios, tags, escapes, names for keys, letters beyond ASCII, and malformed input) it stops
before the op, and a general reader parses that op. So there is one definition of the notation and of its errors. Values go
to Arrow without ever being Python objects.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from schemaquake.harness.compiled import compiled, phase
from schemaquake.harness.history.lean_mops import shortened
from schemaquake.harness.model.operation import NEMESIS
from schemaquake.harness.model.records import LEAN_MOPS, MOP_NAMES, MOPS
from schemaquake.results.formats.op_maps import LEAN_RAW, RAW

__all__ = ["CLOSED", "ENDED", "FULL", "UNFINISHED", "UNUSUAL", "Scanner", "may_end"]

_Bytes: TypeAlias = npt.NDArray[np.uint8]
_Numbers: TypeAlias = npt.NDArray[np.int64]
_Codes: TypeAlias = npt.NDArray[np.int32]

ENDED: Final = 0
"""Stop reason: only blanks are left."""
UNFINISHED: Final = 1
"""Stop reason: the rest is the beginning of an op."""
UNUSUAL: Final = 2
"""Stop reason: the next op needs the general reader."""
CLOSED: Final = 3
"""Stop reason: the vector around all ops ends here."""
FULL: Final = 4
"""Stop reason: the buffers are full and must be taken."""

_DEPTH_MOST: Final = 32
_KEYS_MOST: Final = 32  # keys of one map that are compared to find duplicates
_KNOWN_MOST: Final = 16  # entries of an op whose keys are compared with those of the op before
_SHORTEST_OP: Final = 16  # bytes

# Bits of `found`: which keys an op has had.
_TYPE, _F, _PROCESS, _TIME, _INDEX, _VALUE, _ERROR, _NODE, _KEY = (1 << bit for bit in range(9))
_TYPES: Final = ("invoke", "ok", "fail", "info")
_TRANSACTION, _OTHER = 1, 2  # sorts of values that are not null
_OF_NEMESIS: Final = 3  # in `_TYPES`: it knows of no outcome
_MICRO: Final = ("append", "r", "w")
_LEAN_MICRO: Final = tuple(MOP_NAMES.index(name) for name in _MICRO)

# Places of `state`: the position, its line, how many ops, micro-operations and elements there are; and places of `_Mops.totals`.
_AT, _LINE, _OPS, _MOPS, _ELEMENTS = range(5)
_MOP, _ELEMENT = range(2)
# Rows of `numbers`, and of `texts`.
_LINE_COLUMN, _INDEX_COLUMN, _TIME_COLUMN, _PROCESS_COLUMN = range(4)
_KINDS: Final = 5
_VALUES, _NAMES, _ERRORS, _NODES, _KEYS = range(_KINDS)


class Scanner:
    """A scanner with buffers for stretches of at most `size` bytes, and the rows that were scanned and not yet taken.

    With `lean`, rows that are taken have micro-operations of the type `LEAN_MOPS` if all their numbers fit.
    """

    def __init__(self, size: int, *, json: bool, independent: bool, lean: bool = False) -> None:
        self.size = size
        self._json = json
        self._independent = independent
        self._lean = lean
        ops = size // _SHORTEST_OP + 1
        mops = size // 4 + 1
        self._ops = _Ops(
            state=np.zeros(5, np.int64),
            numbers=np.zeros((4, ops), np.int64),
            found=np.zeros(ops, np.int32),
            types=np.zeros(ops, np.int32),
        )
        self._texts = _Texts(
            text=np.zeros((5, 2 * size + 64), np.uint8),
            ends=np.zeros((5, ops + 1), np.int32),
            at=np.zeros(5, np.int64),
            present=np.zeros((5, ops), np.bool_),
        )
        self._mops = _Mops(
            totals=np.zeros(2, np.int64),
            present=np.zeros(ops, np.bool_),
            ends=np.zeros(ops + 1, np.int32),
            numbers=np.zeros((2, mops), np.int64),  # key, value
            codes=np.zeros(mops, np.int32),
            kinds=np.zeros(mops, np.int8),  # 0 nothing, 1 one element, 2 many
            element_ends=np.zeros(mops + 1, np.int32),
            elements=np.zeros(size // 2 + 1, np.int64),
        )

    @property
    def ops(self) -> int:
        """Number of rows that were scanned and not yet taken."""
        return int(self._ops.state[_OPS])

    def scan(self, data: _Bytes, begin: int, line: int) -> tuple[int, int, int]:
        """Scan from `begin`. Return (stop reason, place, line of the place)."""
        state = self._ops.state
        state[_AT], state[_LINE] = begin, line
        status = _scan(data, self._json, self._independent, self._ops, self._texts, self._mops)
        return int(status), int(state[_AT]), int(state[_LINE])

    def take(self) -> pa.RecordBatch:
        """Take the rows that were scanned (`schemaquake.results.formats.op_maps.RAW` or `LEAN_RAW`), copied: the buffers are written again."""
        out = self._ops
        count = self.ops
        found = out.found[:count]
        line, index, time, process = (column[:count] for column in out.numbers)
        values, names, errors, nodes, keys = (self._text(kind, count) for kind in range(5))
        mops = self._transactions(count)
        schema = RAW if mops.type == MOPS else LEAN_RAW
        types = pa.DictionaryArray.from_arrays(pa.array(out.types[:count].copy()), pa.array(_TYPES))
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
            "mops": mops,
        }
        out.state[_OPS:] = 0
        return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)

    def _text(self, kind: int, count: int) -> pa.Array:
        """Make a column of texts, from their bytes one after another."""
        out = self._texts
        ends = out.ends[kind, : count + 1]
        present = np.packbits(out.present[kind, :count], bitorder="little")
        text = out.text[kind, : ends[-1]]
        buffers = [pa.py_buffer(present.tobytes()), pa.py_buffer(ends.tobytes()), pa.py_buffer(text.tobytes())]
        return pa.Array.from_buffers(pa.string(), count, buffers)

    def _transactions(self, count: int) -> pa.Array:
        out = self._mops
        mops = int(out.ends[count])
        kinds = out.kinds[:mops]
        key, value = out.numbers[0, :mops], out.numbers[1, :mops]
        elements = out.elements[: out.element_ends[mops]]
        if self._lean:
            value[kinds != 1] = 0  # of which nothing is looked at, and what was there before may not fit
            short = [shortened(numbers) for numbers in (key, value, elements)]
            if all(numbers is not None for numbers in short):
                return self._nested(
                    LEAN_MOPS, pa.array(_LEAN_MICRO, pa.int8()).take(pa.array(out.codes[:mops])), *short
                )
        return self._nested(
            MOPS, pa.array(_MICRO).take(pa.array(out.codes[:mops])), key.copy(), value.copy(), elements.copy()
        )

    def _nested(self, kind: pa.DataType, names: pa.Array, key: Any, value: Any, elements: Any) -> pa.Array:
        """Make a column of a type of micro-operations from its innermost columns."""
        out = self._mops
        mops, count = len(key), self.ops
        kinds = out.kinds[:mops]
        struct = kind.value_type
        many = np.packbits(kinds == 2, bitorder="little")
        lists = pa.Array.from_buffers(
            struct.field("vs").type,
            mops,
            [pa.py_buffer(many.tobytes()), pa.py_buffer(out.element_ends[: mops + 1].tobytes())],
            children=[pa.array(elements)],
        )
        children = [names, pa.array(key), pa.array(value, mask=kinds != 1), lists]
        structs = pa.StructArray.from_arrays(children, fields=list(struct))
        has = np.packbits(out.present[:count], bitorder="little")
        ends = out.ends[: count + 1]
        return pa.Array.from_buffers(
            kind, count, [pa.py_buffer(has.tobytes()), pa.py_buffer(ends.tobytes())], children=[structs]
        )


def may_end(op: bytes) -> bool:
    """Return True if all brackets of an op in EDN are closed."""
    return bool(_may_end(np.frombuffer(op, np.uint8)))


# ── compiled ─────────────────────────────────────────────────────────────────────────────────────────────────────────
#
# Every function takes a place and returns the place after what it read, or one of these. All of it is one pass: linear in the
# bytes, but for the keys of one map, each of which is compared with those before it (at most `_KEYS_MOST`).

_MORE: Final = -1  # the data ends inside
_ODD: Final = -2  # the general reader is needed
_NESTED: Final = -3  # a vector is not flat

_TAB, _NEWLINE, _RETURN, _SPACE, _TILDE = map(ord, "\t\n\r ~")
_QUOTE, _BACKSLASH, _COLON, _COMMA, _SEMICOLON, _HASH, _SLASH = map(ord, '"\\:,;#/')
_MINUS, _UNDERSCORE, _DOT, _ZERO, _NINE = map(ord, "-_.09")
_SMALL_A, _SMALL_N, _SMALL_Z, _CAPITAL_A, _CAPITAL_Z = map(ord, "anzAZ")
_VECTOR, _END_VECTOR, _MAP, _END_MAP, _LIST, _END_LIST = map(ord, "[]{}()")

_DIGITS_MOST: Final = 18
_PROCESSES: Final = 1 << 31
_FNV_OFFSET, _FNV_PRIME = np.uint64(14695981039346656037), np.uint64(1099511628211)


class _Ops(NamedTuple):
    """Columns of ops. `state` has the places `_AT` … `_ELEMENTS`; `found` the bits of the keys that an op has had."""

    state: _Numbers
    numbers: _Numbers
    found: _Codes
    types: _Codes


class _Texts(NamedTuple):
    """Texts of ops, one after another. That of an op begins at `ends[kind, op]`; of the op being scanned it ends at `at[kind]`."""

    text: _Bytes
    ends: _Codes
    at: _Numbers
    present: npt.NDArray[np.bool_]


class _Mops(NamedTuple):
    """Micro-operations and the elements of their lists, one after another; `ends` and `element_ends` are offsets.

    `totals` has how many of either there are, those of the op being scanned included.
    """

    totals: _Numbers
    present: npt.NDArray[np.bool_]
    ends: _Codes
    numbers: _Numbers
    codes: _Codes
    kinds: npt.NDArray[np.int8]
    element_ends: _Codes
    elements: _Numbers


def _bytes_of(word: str) -> _Bytes:
    return np.frombuffer(word.encode(), np.uint8).copy()


_NIL, _NULL, _TRUE, _FALSE = map(_bytes_of, ("nil", "null", "true", "false"))
_APPEND, _R, _READ, _W, _WRITE = map(_bytes_of, ("append", "r", "read", "w", "write"))
_KEY_TYPE, _KEY_F, _KEY_PROCESS, _KEY_TIME = map(_bytes_of, ("type", "f", "process", "time"))
_KEY_INDEX, _KEY_VALUE, _KEY_ERROR, _KEY_NODE, _KEY_KEY = map(_bytes_of, ("index", "value", "error", "node", "key"))
_INVOKE, _OK, _FAIL, _INFO = map(_bytes_of, _TYPES)


# Words, numbers and blanks.


@compiled
def _is_digit(byte: int) -> bool:
    return _ZERO <= byte <= _NINE


@compiled
def _is_small_letter(byte: int) -> bool:
    return _SMALL_A <= byte <= _SMALL_Z


@compiled
def _after_blanks(data: _Bytes, at: int, json: bool) -> int:
    """Skip blanks and, in EDN, commas and comments; but not a comment whose end was not read yet."""
    end = len(data)
    while at < end:
        byte = data[at]
        if byte == _SPACE or _TAB <= byte <= _RETURN or (byte == _COMMA and not json):
            at += 1
        elif byte == _SEMICOLON and not json:
            begin = at
            while at < end and data[at] != _NEWLINE:
                at += 1
            if at >= end:
                return begin
        else:
            break
    return at


@compiled
def _is_name(byte: int) -> bool:
    """Return True if plain names and numbers consist of this byte: letters, digits, and `-`, `_`, `.`."""
    return (
        _is_small_letter(byte)
        or _CAPITAL_A <= byte <= _CAPITAL_Z
        or _is_digit(byte)
        or byte in (_MINUS, _UNDERSCORE, _DOT)
    )


@compiled
def _word(data: _Bytes, at: int, json: bool) -> tuple[int, int, int]:
    """Read a keyword or a string that needs no escape: (begin, end, place after)."""
    end = len(data)
    if at >= end:
        return _MORE, 0, 0
    if data[at] == _QUOTE:
        begin = at + 1
        at = begin
        while at < end and data[at] != _QUOTE:
            if data[at] == _BACKSLASH or data[at] < _SPACE or data[at] > _TILDE:
                return _ODD, 0, 0
            at += 1
        if at >= end:
            return _MORE, 0, 0
        return begin, at, at + 1
    if json or data[at] != _COLON:
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


@compiled
def _ends_word(byte: int) -> bool:
    """Return True if a word before this byte is complete."""
    return (
        byte == _SPACE  # noqa: PLR1714 - compiled
        or byte == _COMMA
        or _TAB <= byte <= _RETURN
        or byte == _END_VECTOR
        or byte == _END_MAP
        or byte == _VECTOR
        or byte == _END_LIST
    )


@compiled
def _integer(data: _Bytes, at: int) -> tuple[int, int]:
    """Read an integer of at most 18 digits: (the integer, the place after it)."""
    end = len(data)
    negative = at < end and data[at] == _MINUS
    if negative:
        at += 1
    begin = at
    value = 0
    while at < end and _ZERO <= data[at] <= _NINE:
        value = 10 * value + int(data[at]) - _ZERO
        at += 1
        if at - begin > _DIGITS_MOST:
            return 0, _ODD
    if at >= end:
        return 0, _MORE
    if at == begin or (at - begin > 1 and data[begin] == _ZERO) or not _ends_word(data[at]):
        return 0, _ODD
    if negative and value == 0:
        return 0, _ODD
    return (-value if negative else value), at


@compiled
def _is(data: _Bytes, begin: int, end: int, word: _Bytes) -> bool:
    if end - begin != len(word):
        return False
    for at in range(len(word)):  # noqa: SIM110 - compiled
        if data[begin + at] != word[at]:
            return False
    return True


@compiled
def _constant(data: _Bytes, at: int, json: bool) -> tuple[int, int]:
    """Read null, true or false: (0, 1 or 2; the place after it)."""
    end = at
    while end < len(data) and _is_small_letter(data[end]):
        end += 1
    if end >= len(data):
        return 0, _MORE
    if not _ends_word(data[end]):
        return 0, _ODD
    if _is(data, at, end, _NULL) if json else _is(data, at, end, _NIL):
        return 0, end
    if _is(data, at, end, _TRUE):
        return 1, end
    if _is(data, at, end, _FALSE):
        return 2, end
    return 0, _ODD


@compiled
def _null(data: _Bytes, at: int, json: bool) -> int:
    """Read null, and nothing else."""
    which, at = _constant(data, at, json)
    return _ODD if at >= 0 and which != 0 else at


@compiled
def _next(data: _Bytes, at: int, json: bool, count: int) -> int:
    """Go where the next element of a collection begins, or the collection ends: in JSON there is one comma before each."""
    at = _after_blanks(data, at, json)
    if json and count > 0 and at < len(data):
        if data[at] == _COMMA:
            at = _after_blanks(data, at + 1, json)
            if at < len(data) and (data[at] == _END_VECTOR or data[at] == _END_MAP):
                return _ODD
        elif data[at] != _END_VECTOR and data[at] != _END_MAP:
            return _ODD
    return at if at < len(data) else _MORE


@compiled
def _after_colon(data: _Bytes, at: int, json: bool) -> int:
    """Go from the end of a key to its value."""
    at = _after_blanks(data, at, json)
    if json:
        if at < len(data) and data[at] != _COLON:
            return _ODD
        at = _after_blanks(data, at + 1, json)
    return at if at < len(data) else _MORE


@compiled
def _write(value: int, out: _Bytes, to: int) -> int:
    """Write the digits of an integer; return the place after them."""
    if value < 0:
        out[to] = _MINUS
        to += 1
        value = -value
    digits = 1
    rest = value
    while rest >= 10:
        rest //= 10
        digits += 1
    for place in range(to + digits - 1, to - 1, -1):
        out[place] = _ZERO + value % 10
        value //= 10
    return to + digits


@compiled
def _copy(data: _Bytes, begin: int, end: int, out: _Bytes, to: int) -> int:
    """Copy bytes; return the place after them."""
    for at in range(begin, end):
        out[to] = data[at]
        to += 1
    return to


# Any value, as JSON.


@compiled
def _emit(data: _Bytes, at: int, json: bool, out: _Bytes, to: int) -> tuple[int, int]:
    """Write the value at `at` as JSON: (the place after it, the end of the JSON)."""
    byte = data[at]
    if byte == _VECTOR:
        after, end = _emit_flat(data, at, json, out, to)
        if after != _NESTED:
            return after, end
    elif byte != _MAP and (byte != _LIST or json):
        return _emit_scalar(data, at, json, False, out, to)
    return _emit_nested(data, at, json, out, to)


@compiled
def _emit_flat(data: _Bytes, at: int, json: bool, out: _Bytes, to: int) -> tuple[int, int]:
    """Write a vector of scalars as JSON, as `_emit`; `_NESTED` if it contains a collection."""
    out[to] = _VECTOR
    to += 1
    at += 1
    count = 0
    while True:
        at = _next(data, at, json, count)
        if at < 0:
            return at, 0
        byte = data[at]
        if byte == _END_VECTOR:
            out[to] = _END_VECTOR
            return at + 1, to + 1
        if byte in (_VECTOR, _MAP, _LIST):
            return _NESTED, 0
        if _is_end(byte):
            return _ODD, 0
        if count > 0:
            out[to] = _COMMA
            to += 1
        at, to = _emit_scalar(data, at, json, False, out, to)
        if at < 0:
            return at, 0
        count += 1


@compiled
def _emit_nested(data: _Bytes, at: int, json: bool, out: _Bytes, to: int) -> tuple[int, int]:  # noqa: C901 - one loop
    """Write any value as JSON, as `_emit`, with a stack of the collections that are open."""
    opened = np.empty(_DEPTH_MOST, np.uint8)
    counts = np.empty(_DEPTH_MOST, np.int64)
    keys = np.empty((_DEPTH_MOST, _KEYS_MOST), np.uint64)
    depth = 0
    while True:
        is_key = False
        if depth > 0:
            count = counts[depth - 1]
            in_map = opened[depth - 1] == _MAP
            at = _after_colon(data, at, json) if in_map and count % 2 == 1 else _next(data, at, json, count)
            if at < 0:
                return at, 0
            is_key = in_map and count % 2 == 0
            if _is_end(data[at]):
                if data[at] != _end_of(opened[depth - 1]) or (in_map and not is_key):
                    return _ODD, 0
                out[to] = _END_MAP if in_map else _END_VECTOR
                to += 1
                at += 1
                depth -= 1
                if depth == 0:
                    return at, to
                counts[depth - 1] += 1
                continue
            if count > 0:
                out[to] = _COLON if in_map and not is_key else _COMMA
                to += 1
        byte = data[at]
        if byte in (_VECTOR, _MAP) or (byte == _LIST and not json):
            if depth == _DEPTH_MOST or is_key:
                return _ODD, 0
            opened[depth] = byte
            counts[depth] = 0
            depth += 1
            out[to] = _MAP if byte == _MAP else _VECTOR
            to += 1
            at += 1
            continue
        began = to
        at, to = _emit_scalar(data, at, json, is_key, out, to)
        if at < 0:
            return at, 0
        if depth == 0:
            return at, to
        if is_key and not _is_new(keys[depth - 1], counts[depth - 1] // 2, out, began, to):
            return _ODD, 0
        counts[depth - 1] += 1


@compiled
def _is_end(byte: int) -> bool:
    return byte in (_END_VECTOR, _END_MAP, _END_LIST)


@compiled
def _end_of(byte: int) -> int:
    """Return the closing bracket of this opening bracket."""
    return _END_MAP if byte == _MAP else _END_VECTOR if byte == _VECTOR else _END_LIST


@compiled
def _emit_scalar(data: _Bytes, at: int, json: bool, is_key: bool, out: _Bytes, to: int) -> tuple[int, int]:
    """Write a word, an integer or a constant as JSON: (the place after it, the end of the JSON)."""
    byte = data[at]
    if byte in (_QUOTE, _COLON):
        begin, end, at = _word(data, at, json)
        if begin < 0:
            return begin, 0
        out[to] = _QUOTE
        to = _copy(data, begin, end, out, to + 1)
        out[to] = _QUOTE
        return at, to + 1
    if byte == _MINUS or _is_digit(byte):
        if is_key and json:
            return _ODD, 0
        value, at = _integer(data, at)
        if at < 0:
            return at, 0
        if not is_key:
            return at, _write(value, out, to)
        out[to] = _QUOTE
        to = _write(value, out, to + 1)
        out[to] = _QUOTE
        return at, to + 1
    if _is_small_letter(byte) and not is_key:
        which, at = _constant(data, at, json)
        if at < 0:
            return at, 0
        word = _NULL if which == 0 else _TRUE if which == 1 else _FALSE
        return at, _copy(word, 0, len(word), out, to)
    return _ODD, 0


@compiled
def _is_new(keys: npt.NDArray[np.uint64], count: int, out: _Bytes, begin: int, end: int) -> bool:
    """Record the hash of the key that was just written. Return False if the map may have the key already, or has too many keys."""
    if count >= _KEYS_MOST:
        return False
    mixed = _FNV_OFFSET
    for place in range(begin, end):
        mixed = (mixed ^ np.uint64(out[place])) * _FNV_PRIME
    for other in range(count):
        if keys[other] == mixed:
            return False
    keys[count] = mixed
    return True


# Ops of a file are alike: the same keys in the same order, with the same blanks. Text that was read before is compared, not
# read again.


class _Known(NamedTuple):
    """Stretches of the bytes that were read before: where each begins and stops (equal: not known yet), and what it means.

    A place for every entry of an op, then one for each of `_MICRO`.
    """

    begins: _Numbers
    stops: _Numbers
    meanings: _Numbers


@compiled
def _nothing_known() -> _Known:
    most = _KNOWN_MOST + len(_MICRO)
    return _Known(np.zeros(most, np.int64), np.zeros(most, np.int64), np.zeros(most, np.int64))


@compiled
def _again(data: _Bytes, at: int, known: _Known, place: int) -> int:
    """Return the place after a known stretch if the same bytes are at `at` and reading would end there, too; else −1."""
    begin, stop = known.begins[place], known.stops[place]
    after = at + stop - begin
    if stop == begin or after >= len(data) or data[after - 1] != data[stop - 1]:
        return -1
    for offset in range(stop - begin - 1):
        if data[begin + offset] != data[at + offset]:
            return -1
    following = data[after]
    return after if following > _SPACE and following != _COMMA and following != _SEMICOLON else -1  # noqa: PLR1714 - compiled


@compiled
def _learn(data: _Bytes, begin: int, stop: int, json: bool, meaning: int, known: _Known, place: int) -> None:
    """Note a stretch of keys and blanks. One that ends in a name is left out: the same bytes may begin a longer name."""
    if stop <= begin:
        return
    last = data[stop - 1]
    if last <= _SPACE or last == _COMMA or (last == _COLON and json):
        known.begins[place], known.stops[place], known.meanings[place] = begin, stop, meaning


# Transactions.


@phase
def _begins_transaction(data: _Bytes, at: int, json: bool) -> int:
    """Return 1 if a vector (from behind its bracket on) begins with a vector that begins with a word, 0 if not, or a negative stop reason."""
    at = _next(data, at, json, 0)
    if at < 0:
        return at
    if data[at] != _VECTOR:
        return 0
    at = _next(data, at + 1, json, 0)
    if at < 0:
        return at
    return 1 if data[at] == _COLON or data[at] == _QUOTE else 0


@phase
def _transaction(data: _Bytes, at: int, json: bool, known: _Known, out: _Mops) -> int:  # noqa: C901, PLR0912 - after each part it may end
    """Scan the micro-operations of a transaction, from behind its bracket on: what each does, its key, a value or a list."""
    total, _, _, numbers, codes, kinds, element_ends, elements = out
    mop, element = total[_MOP], total[_ELEMENT]
    count = 0
    while True:
        at = _next(data, at, json, count)
        if at < 0:
            return at
        if data[at] == _END_VECTOR:
            break
        if data[at] != _VECTOR:
            return _ODD
        count += 1
        code, key, at = _micro_head(data, at + 1, json, known)
        if at < 0:
            return at
        kind, value = 0, 0
        if data[at] == _END_VECTOR and code == 1:  # a read without a result
            at += 1
        else:
            if data[at] == _VECTOR:
                kind = 2
                at, inner = _whole_numbers(data, at + 1, json, elements, element)
                element += inner
                while True:
                    at = _next(data, at, json, inner)
                    if at < 0:
                        return at
                    if data[at] == _END_VECTOR:
                        at += 1
                        break
                    elements[element], at = _integer(data, at)
                    if at < 0:
                        return at
                    element += 1
                    inner += 1
            elif data[at] == _SMALL_N:
                at = _null(data, at, json)
            else:
                kind = 1
                value, at = _integer(data, at)
            if at >= 0:
                at = _close(data, at, json)
            if at < 0:
                return at
        codes[mop] = code
        numbers[0, mop] = key
        numbers[1, mop] = value
        kinds[mop] = kind
        mop += 1
        element_ends[mop] = element
    total[_MOP], total[_ELEMENT] = mop, element
    return at + 1


@compiled
def _whole_numbers(data: _Bytes, at: int, json: bool, elements: _Numbers, element: int) -> tuple[int, int]:
    """Read the integers that a vector begins with and that one separator divides: (the place after them, how many).

    It stops before anything else, negative numbers among it.
    """
    separator = _COMMA if json else _SPACE
    last = len(data) - _DIGITS_MOST - 3
    count = 0
    while at < last:
        begin = at
        if count > 0:
            if data[at] != separator:
                break
            begin += 1
        stop = begin
        value = 0
        digit = int(data[stop]) - _ZERO
        while 0 <= digit <= 9 and stop - begin <= _DIGITS_MOST:
            value = 10 * value + digit
            stop += 1
            digit = int(data[stop]) - _ZERO
        length = stop - begin
        if length == 0 or length > _DIGITS_MOST or (length > 1 and data[begin] == _ZERO):
            break
        if data[stop] != separator and data[stop] != _END_VECTOR:
            break
        elements[element + count] = value
        count += 1
        at = stop
    return at, count


@phase
def _micro_head(data: _Bytes, at: int, json: bool, known: _Known) -> tuple[int, int, int]:
    """Read what a micro-operation does and its key: (code, key, the place where its value begins, or its end)."""
    begin_of_head = at
    code = -1
    for other in range(len(_MICRO)):
        after = _again(data, begin_of_head, known, _KNOWN_MOST + other)
        if after >= 0:
            code, at = other, after
            break
    if code < 0:
        at = _next(data, at, json, 0)
        if at < 0:
            return 0, 0, at
        begin, end, at = _word(data, at, json)
        if begin < 0:
            return 0, 0, begin
        code = _micro_code(data, begin, end)
        if code < 0:
            return 0, 0, _ODD
        at = _next(data, at, json, 1)
        if at < 0:
            return 0, 0, at
        _learn(data, begin_of_head, at, json, code, known, _KNOWN_MOST + code)
    key, at = _integer(data, at)
    if at < 0:
        return 0, 0, at
    return code, key, _next(data, at, json, 1)


@phase
def _micro_code(data: _Bytes, begin: int, end: int) -> int:
    """Find the place in `_MICRO` of what a micro-operation does; −1 for anything else."""
    if _is(data, begin, end, _APPEND):
        return 0
    if _is(data, begin, end, _R) or _is(data, begin, end, _READ):
        return 1
    return 2 if _is(data, begin, end, _W) or _is(data, begin, end, _WRITE) else -1


@phase
def _close(data: _Bytes, at: int, json: bool) -> int:
    """Read the end of a non-empty vector."""
    at = _next(data, at, json, 1)
    if at < 0:
        return at
    return at + 1 if data[at] == _END_VECTOR else _ODD


@compiled
def _may_end(data: _Bytes) -> bool:  # noqa: C901 - one loop
    """Count brackets, except those in strings, in comments and as characters."""
    end = len(data)
    depth = 0
    at = 0
    while at < end:
        byte = data[at]
        if byte == _QUOTE:
            at += 1
            while at < end and data[at] != _QUOTE:
                at += 2 if data[at] == _BACKSLASH else 1
            if at >= end:
                return False
        elif byte == _BACKSLASH:
            at += 1
        elif byte == _SEMICOLON:
            while at < end and data[at] != _NEWLINE:
                at += 1
        elif byte in (_VECTOR, _MAP, _LIST):
            depth += 1
        elif _is_end(byte):
            depth -= 1
            if depth <= 0:
                return True
        at += 1
    return depth == 0


# Ops: entry by entry.


@compiled
def _scan(  # noqa: C901, PLR0912, PLR0915 - a branch a key
    data: _Bytes, json: bool, independent: bool, ops: _Ops, texts: _Texts, mops: _Mops
) -> int:
    """Scan ops from `state[_AT]` on, store the place where it stopped there, and return the stop reason."""
    state, numbers, found, types = ops
    known = _nothing_known()
    while True:
        begin_of_op, line = _between_ops(data, state[_AT], state[_LINE], json)
        state[_AT], state[_LINE] = begin_of_op, line
        if begin_of_op >= len(data):
            return ENDED
        if data[begin_of_op] == _END_VECTOR or (data[begin_of_op] == _END_LIST and not json):
            return CLOSED
        op = state[_OPS]
        if op >= len(found):
            return FULL
        at = _after_tag(data, begin_of_op, json)
        for kind in range(_KINDS):
            texts.at[kind] = texts.ends[kind, op]
            texts.present[kind, op] = False
        mops.totals[_MOP], mops.totals[_ELEMENT] = state[_MOPS], state[_ELEMENTS]
        mops.present[op] = False
        had, count = 0, 0
        while at >= 0:
            place = min(count, _KNOWN_MOST - 1)
            after = _again(data, at, known, place)
            if after >= 0:
                bit = known.meanings[place]
            else:
                begin_of_entry = at
                at = _next(data, at, json, count)
                if at < 0 or data[at] == _END_MAP:
                    break
                bit, after = _entry(data, at, json)
                if after >= 0:
                    _learn(data, begin_of_entry, after, json, bit, known, place)
            at = after
            count += 1
            if at < 0:
                break
            again, given = had & bit, bit
            if bit == _VALUE:
                if independent:
                    at = _independent_key(data, at, json, texts, op)
                sort, at = _sort_of_value(data, at, json)
                if sort == _TRANSACTION:
                    mops.present[op] = True
                    at = _transaction(data, at + 1, json, known, mops)
                elif sort == _OTHER:
                    texts.at[_VALUES], at = _json_value(data, at, json, texts.text[_VALUES], texts.ends[_VALUES, op])
                    texts.present[_VALUES, op] = True
                if independent and at >= 0:
                    at = _close(data, at, json)
            elif bit == _F:
                texts.at[_NAMES], at = _copied_word(data, at, json, texts.text[_NAMES], texts.ends[_NAMES, op])
                texts.present[_NAMES, op] = True
            elif bit == _TYPE:
                types[op], at = _type(data, at, json)
            elif bit == _TIME:
                numbers[_TIME_COLUMN, op], given, at = _number(data, at, json, bit)
            elif bit == _INDEX:
                numbers[_INDEX_COLUMN, op], given, at = _number(data, at, json, bit)
            elif bit == _PROCESS:
                numbers[_PROCESS_COLUMN, op], given, at = _process(data, at, json, independent)
            elif bit == _NODE:
                at = _null(data, at, json) if data[at] == _SMALL_N else _text(data, at, json, texts, op, _NODES)
            elif bit == _ERROR:
                at = _error(data, at, json, texts, op)
            elif bit == _KEY:
                at = _ODD
            else:
                # Unused output; the space behind the values is free.
                at, _ = _emit(data, at, json, texts.text[_VALUES], texts.at[_VALUES])
            if at >= 0 and again:
                at = _ODD
            had |= given
        if at == _MORE:
            return UNFINISHED
        if at < 0 or had & (_TYPE | _F) != _TYPE | _F:
            return UNUSUAL
        at += 1
        if had & _PROCESS and numbers[_PROCESS_COLUMN, op] == NEMESIS:
            types[op] = _OF_NEMESIS
        numbers[_LINE_COLUMN, op] = line
        found[op] = had
        for kind in range(_KINDS):
            texts.ends[kind, op + 1] = texts.at[kind]
        mops.ends[op + 1] = mops.totals[_MOP]
        state[_AT], state[_LINE], state[_OPS] = at, line + _newlines(data, begin_of_op, at), op + 1
        state[_MOPS], state[_ELEMENTS] = mops.totals[_MOP], mops.totals[_ELEMENT]


@phase
def _between_ops(data: _Bytes, at: int, line: int, json: bool) -> tuple[int, int]:
    """Skip what stands between ops, commas in both notations: (the place after it, the line there)."""
    while at < len(data):
        after = _after_blanks(data, at, json)
        if after < len(data) and data[after] == _COMMA:
            after += 1
        if after == at:
            break
        line += _newlines(data, at, after)
        at = after
    return at, line


@compiled
def _newlines(data: _Bytes, begin: int, end: int) -> int:
    count = 0
    for byte in data[begin:end]:  # of a slice: one instruction looks at many bytes
        count += byte == _NEWLINE
    return count


@phase
def _after_tag(data: _Bytes, at: int, json: bool) -> int:
    """Go behind the bracket of an op's map, which in EDN may have the tag of a record."""
    if data[at] == _HASH and not json:
        at += 1
        if at < len(data) and not _is_small_letter(data[at]):
            return _ODD
        while at < len(data) and (_is_name(data[at]) or data[at] == _SLASH):
            at += 1
        at = _after_blanks(data, at, json)
        if at >= len(data):
            return _MORE
    return at + 1 if data[at] == _MAP else _ODD


@phase
def _entry(data: _Bytes, at: int, json: bool) -> tuple[int, int]:
    """Read the key of an entry: (its bit, the place where its value begins)."""
    begin, stop, at = _word(data, at, json)
    if begin < 0:
        return 0, begin
    return _entry_bit(data, begin, stop), _after_colon(data, at, json)


@phase
def _entry_bit(data: _Bytes, begin: int, stop: int) -> int:
    """Find the bit of an entry's key; 0 for any that an op does not have."""
    bit = 0
    if _is(data, begin, stop, _KEY_TYPE):
        bit = _TYPE
    elif _is(data, begin, stop, _KEY_F):
        bit = _F
    elif _is(data, begin, stop, _KEY_NODE):
        bit = _NODE
    elif _is(data, begin, stop, _KEY_PROCESS):
        bit = _PROCESS
    elif _is(data, begin, stop, _KEY_TIME):
        bit = _TIME
    elif _is(data, begin, stop, _KEY_INDEX):
        bit = _INDEX
    elif _is(data, begin, stop, _KEY_VALUE):
        bit = _VALUE
    elif _is(data, begin, stop, _KEY_ERROR):
        bit = _ERROR
    elif _is(data, begin, stop, _KEY_KEY):
        bit = _KEY
    return bit


@phase
def _type(data: _Bytes, at: int, json: bool) -> tuple[int, int]:
    """Read one of `_TYPES`: (its place there, the place after it)."""
    begin, stop, at = _word(data, at, json)
    if begin < 0:
        return 0, begin
    if _is(data, begin, stop, _INVOKE):
        return 0, at
    if _is(data, begin, stop, _OK):
        return 1, at
    if _is(data, begin, stop, _FAIL):
        return 2, at
    return (3, at) if _is(data, begin, stop, _INFO) else (0, _ODD)


@phase
def _number(data: _Bytes, at: int, json: bool, bit: int) -> tuple[int, int, int]:
    """Read an integer or null: (the integer, `bit` if it is one, the place after it)."""
    if data[at] == _SMALL_N:
        return 0, 0, _null(data, at, json)
    number, at = _integer(data, at)
    return number, bit, at


@phase
def _process(data: _Bytes, at: int, json: bool, independent: bool) -> tuple[int, int, int]:
    """Read a process, as `_number`: a number, or the name of the nemesis, which independent keys leave to the general reader."""
    if data[at] == _COLON or data[at] == _QUOTE:
        begin, _, at = _word(data, at, json)
        if begin < 0:
            return 0, 0, begin
        return NEMESIS, _PROCESS, _ODD if independent else at
    number, given, at = _number(data, at, json, _PROCESS)
    if at >= 0 and (number < 0 or number >= _PROCESSES):
        return 0, 0, _ODD
    return number, given, at


@phase
def _copied_word(data: _Bytes, at: int, json: bool, out: _Bytes, to: int) -> tuple[int, int]:
    """Copy a word: (the end of the copy, the place after the word)."""
    begin, stop, at = _word(data, at, json)
    if begin < 0:
        return 0, begin
    return _copy(data, begin, stop, out, to), at


@phase
def _text(data: _Bytes, at: int, json: bool, out: _Texts, op: int, kind: int) -> int:
    """Scan a word, as a text of that kind."""
    begin, stop, at = _word(data, at, json)
    if begin < 0:
        return int(begin)
    out.at[kind] = _copy(data, begin, stop, out.text[kind], out.ends[kind, op])
    out.present[kind, op] = True
    return at


@phase
def _error(data: _Bytes, at: int, json: bool, out: _Texts, op: int) -> int:
    """Scan an error: a word as it is, anything else as JSON, or null."""
    if data[at] == _COLON or data[at] == _QUOTE:
        return int(_text(data, at, json, out, op, _ERRORS))
    if data[at] == _SMALL_N:
        return int(_null(data, at, json))
    at, stop = _emit(data, at, json, out.text[_ERRORS], out.ends[_ERRORS, op])
    if at >= 0:
        out.at[_ERRORS] = stop
        out.present[_ERRORS, op] = True
    return at


@phase
def _sort_of_value(data: _Bytes, at: int, json: bool) -> tuple[int, int]:
    """Determine the sort of a value, and read it if it is null: (0, `_TRANSACTION` or `_OTHER`; the place after null, or of the value)."""
    if at < 0:
        return 0, at
    if data[at] == _SMALL_N:
        return 0, _null(data, at, json)
    if data[at] == _LIST:  # it may be a transaction, too
        return 0, _ODD
    if data[at] == _VECTOR:
        begins = _begins_transaction(data, at + 1, json)
        if begins != 0:
            return (_TRANSACTION, at) if begins == 1 else (0, begins)
    return _OTHER, at


@phase
def _independent_key(data: _Bytes, at: int, json: bool, out: _Texts, op: int) -> int:
    """Scan the bracket and the key of a value of independent keys; return where the value begins."""
    if data[at] != _VECTOR:
        return _ODD
    at = _next(data, at + 1, json, 0)
    if at < 0:
        return at
    if data[at] == _COLON or data[at] == _QUOTE:
        begin, stop, at = _word(data, at, json)
        if begin < 0:
            return int(begin)
        if _may_be_json(data, begin, stop):
            return _ODD
        out.at[_KEYS] = _copy(data, begin, stop, out.text[_KEYS], out.ends[_KEYS, op])
    else:
        number, at = _integer(data, at)
        if at < 0:
            return at
        out.at[_KEYS] = _write(number, out.text[_KEYS], out.ends[_KEYS, op])
    out.present[_KEYS, op] = True
    at = _next(data, at, json, 1)
    return _ODD if at >= 0 and data[at] == _END_VECTOR else at


@compiled
def _may_be_json(data: _Bytes, begin: int, stop: int) -> bool:
    """Return True if a word could be the JSON of another key; such words need the general reader."""
    if begin == stop:
        return True
    first = data[begin]
    return bool(
        first == _MINUS  # noqa: PLR1714 - compiled
        or _is_digit(first)
        or first == _VECTOR
        or first == _MAP
        or _is(data, begin, stop, _TRUE)
        or _is(data, begin, stop, _FALSE)
        or _is(data, begin, stop, _NULL)
    )


@phase
def _json_value(data: _Bytes, at: int, json: bool, out: _Bytes, to: int) -> tuple[int, int]:
    """Write a value that is not a transaction as JSON: (the end of the JSON, the place after the value)."""
    at, end = _emit(data, at, json, out, to)
    if at >= 0 and end - to == 2 and out[end - 1] == _END_VECTOR:
        return 0, _ODD  # an empty vector may be an empty transaction
    return end, at
