"""Lean micro-operations: the same micro-operations in half the memory, if their numbers fit into 32 bits.

Most of a long history of transactions is the lists that were read, and most of what tools write there are small numbers.
`narrow` and `widen` lead from `schemaquake.harness.model.records.MOPS` to `LEAN_MOPS` and back.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from schemaquake.harness.model.records import LEAN_MOPS, MOP_NAMES, MOPS

__all__ = ["narrow", "shortened", "widen"]

_LEAN: Final = LEAN_MOPS.value_type
_WIDE: Final = MOPS.value_type
_BYTE: Final = 1 << 8  # values of a byte
_BLOCK: Final = 1 << 15  # numbers that fit into a processor's own memory
_LEAST: Final = -(1 << 31)
_GREATEST: Final = (1 << 31) - 1
_CODES: Final = {name: code for code, name in enumerate(MOP_NAMES)}


def narrow(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Convert a column of `MOPS`, whose `f` may be a dictionary, to `LEAN_MOPS`.

    None if that is impossible: a number does not fit, a micro-operation has no key or an unknown name, or a list has a null element.
    """
    if not _is_wide(column.type):
        return None
    chunks = []
    for chunk in column.chunks:
        found = _narrowed(chunk)
        if found is None:
            return None
        chunks.append(found)
    return pa.chunked_array(chunks, type=LEAN_MOPS)


def widen(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert a column of `LEAN_MOPS` to `MOPS`."""
    return pa.chunked_array([_widened(chunk) for chunk in column.chunks], type=MOPS)


def _is_wide(kind: pa.DataType) -> bool:
    """Tell whether a type is that of `MOPS`, but for a dictionary of the names."""
    if not pa.types.is_list(kind) or not pa.types.is_struct(kind.value_type):
        return False
    fields = list(kind.value_type)
    if [field.name for field in fields] != [field.name for field in _WIDE]:
        return False
    named = fields[0].type
    if pa.types.is_dictionary(named):
        named = named.value_type if named.index_type == pa.int32() else None
    return named == pa.string() and all(
        ours.type == theirs.type for ours, theirs in zip(list(_WIDE)[1:], fields[1:], strict=True)
    )


def _narrowed(chunk: pa.ListArray) -> pa.ListArray | None:
    structs = chunk.values
    name, key, value, lists = (structs.field(number) for number in range(4))
    if structs.null_count or name.null_count or key.null_count or lists.values.null_count:
        return None
    codes, keys, values, elements = _coded(name), _short(key), _short(value), _short(lists.values)
    if codes is None or keys is None or values is None or elements is None:
        return None
    columns = [codes, keys, values, _with_values(lists, pa.list_(pa.int32()), elements)]
    return _with_values(chunk, LEAN_MOPS, pa.StructArray.from_arrays(columns, fields=list(_LEAN)))


def _coded(name: pa.Array) -> pa.Array | None:
    """Return the codes of names without nulls; None if one of them is unknown."""
    if not pa.types.is_dictionary(name.type):
        name = name.dictionary_encode()
    known = [_CODES.get(word) for word in name.dictionary.to_pylist()]
    if None in known or len(known) > _BYTE:
        return None
    table = bytes(code or 0 for code in known).ljust(_BYTE, b"\0")
    codes = name.indices.to_numpy().astype(np.uint8).tobytes().translate(table)  # faster than any gathering
    return pa.Array.from_buffers(pa.int8(), len(name), [None, pa.py_buffer(codes)], null_count=0)


def _short(array: pa.Array) -> pa.Array | None:
    """Convert numbers of 64 bits to such of 32; None if one does not fit.

    Arrow's own cast, which takes three times as long, is for nulls in whose places anything may stand.
    """
    valid, content = array.buffers()
    if content is None or not len(array) or (valid is not None and array.offset):
        return _cast(array)
    short = shortened(np.frombuffer(content, np.int64, count=len(array), offset=8 * array.offset))
    if short is None:
        return _cast(array) if array.null_count else None
    return pa.Array.from_buffers(pa.int32(), len(array), [valid, pa.py_buffer(short)], null_count=array.null_count)


def shortened(wide: npt.NDArray[np.int64]) -> npt.NDArray[np.int32] | None:
    """Copy numbers of 64 bits to such of 32; None if one does not fit."""
    short = np.empty(len(wide), np.int32)
    for begin in range(0, len(wide), _BLOCK):
        part = wide[begin : begin + _BLOCK]
        if part.min() < _LEAST or part.max() > _GREATEST:
            return None
        short[begin : begin + _BLOCK] = part
    return short


def _cast(array: pa.Array) -> pa.Array | None:
    try:
        return array.cast(pa.int32())
    except pa.ArrowInvalid:
        return None


def _widened(chunk: pa.ListArray) -> pa.ListArray:
    structs = chunk.values
    code, key, value, lists = (structs.field(number) for number in range(4))
    columns = [
        pa.array(MOP_NAMES).take(code),
        key.cast(pa.int64()),
        value.cast(pa.int64()),
        _with_values(lists, pa.list_(pa.int64()), lists.values.cast(pa.int64())),
    ]
    return _with_values(chunk, MOPS, pa.StructArray.from_arrays(columns, fields=list(_WIDE)))


def _with_values(lists: pa.ListArray, kind: pa.DataType, values: pa.Array) -> pa.ListArray:
    """Return lists of the same lengths and nulls over other values."""
    return pa.Array.from_buffers(
        kind, len(lists), lists.buffers()[:2], null_count=lists.null_count, offset=lists.offset, children=[values]
    )
