"""Parquet footer: the size of each row group of a file, read without Arrow.

Arrow raises for nearly every damage to a file, but its answers on single columns (`RowGroupMetaData.column`)
end the whole process if a damaged footer contradicts itself. So the footer is checked here first.
Source: the Parquet format (parquet.thrift) in Thrift's compact protocol.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from schemaquake.harness.errors import HistoryError

__all__ = ["RowGroup", "not_whole", "row_groups"]

_VALUE: Final = 8  # bytes of a value in memory; texts are mostly shorter, and have an offset besides
_DEPTH_MOST: Final = 32
_PAGE_BYTES_LEAST: Final = 8
_PAGE_VALUES_MOST: Final = 1 << 31
_MAGIC: Final = b"PAR1"

# Field numbers: of the file, of a row group, of a column's chunk, of its metadata, and of the sizes of its texts and lists.
_ROW_GROUPS: Final = 4
_COLUMNS, _GROUP_BYTES, _ROWS = 1, 2, 3
_METADATA: Final = 3
_VALUES, _STORED_BYTES, _DATA_AT, _DICTIONARY_AT, _SIZES = 5, 7, 9, 11, 16
_TEXT_BYTES, _REPETITIONS, _DEFINITIONS = 1, 2, 3


@dataclass(frozen=True, slots=True)
class RowGroup:
    """One row group: its number of rows, and an upper estimate of its bytes in memory; more for often repeated texts."""

    rows: int
    size: int


def row_groups(file: Path) -> list[RowGroup]:
    """Return the row groups of a file, in order. Raises HistoryError for a missing or impossible footer."""
    try:
        metadata = pq.read_metadata(file)
        columns = [metadata.schema.column(number) for number in range(metadata.num_columns)]
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise not_whole(file, error) from error
    try:
        size = file.stat().st_size
        footer = _Thrift(_footer(file, size)).struct()
        return [_row_group(group, columns, size) for group in footer.get(_ROW_GROUPS, [])]
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise not_whole(file, "its footer contradicts itself") from error


def not_whole(file: Path, why: object) -> HistoryError:
    """Build the error for a file that is no Parquet, or a damaged one."""
    return HistoryError(f"{file} is not a whole Parquet file ({str(why).strip()}).")


def _footer(file: Path, size: int) -> bytes:
    with file.open("rb") as source:
        source.seek(size - 8)
        end = source.read(8)
        length = int.from_bytes(end[:4], "little")
        if end[4:] != _MAGIC or length + 8 > size:
            raise ValueError(f"a footer of {length} bytes")
        source.seek(size - 8 - length)
        return source.read(length)


def _row_group(group: dict[int, Any], columns: list[Any], file_size: int) -> RowGroup:
    chunks = [chunk[_METADATA] for chunk in group[_COLUMNS]]
    if len(chunks) != len(columns):
        raise ValueError(f"{len(chunks)} columns, not {len(columns)}")
    for chunk, column in zip(chunks, columns, strict=True):
        _check_size_statistics(chunk.get(_SIZES, {}), column)
        _check_extent(chunk, file_size)
    rows, values, size = group[_ROWS], sum(chunk[_VALUES] for chunk in chunks), group[_GROUP_BYTES]
    if min(rows, values, size) < 0:
        raise ValueError("a negative number of rows")
    return RowGroup(rows, max(_VALUE * values, size))


def _check_extent(chunk: dict[int, Any], file_size: int) -> None:
    """Raise ValueError for a column beyond the end of the file, or with more values than its bytes can hold."""
    stored, begin = chunk[_STORED_BYTES], min(chunk[_DATA_AT], chunk.get(_DICTIONARY_AT) or chunk[_DATA_AT])
    if stored < 0 or not 0 <= begin <= file_size - stored:
        raise ValueError(f"{stored} bytes at {begin} of {file_size}")
    if chunk[_VALUES] > (stored // _PAGE_BYTES_LEAST + 1) * _PAGE_VALUES_MOST:
        raise ValueError(f"{chunk[_VALUES]} values in {stored} bytes")


def _check_size_statistics(sizes: dict[int, Any], column: Any) -> None:
    """Raise ValueError where Arrow's own check would end the process, because it cannot raise there."""
    if _TEXT_BYTES in sizes and column.physical_type != "BYTE_ARRAY":
        raise ValueError(f"bytes of text in a column of {column.physical_type}")
    for field, level in ((_REPETITIONS, column.max_repetition_level), (_DEFINITIONS, column.max_definition_level)):
        if sizes.get(field) and len(sizes[field]) != level + 1:
            raise ValueError("levels that the schema does not have")


# ── Thrift's compact protocol ────────────────────────────────────────────────────────────────────────────────────────

_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)


class _Thrift:
    """A structure as number of field → value. Raises LookupError and ValueError for malformed bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._depth = 0

    def struct(self) -> dict[int, Any]:
        self._depth += 1
        if self._depth > _DEPTH_MOST:
            raise ValueError("structures nested too deep")
        found: dict[int, Any] = {}
        field = 0
        while header := self._byte():
            field = field + (header >> 4) if header >> 4 else self._signed()
            found[field] = self._value(header & 15)
        self._depth -= 1
        return found

    def _value(self, kind: int) -> Any:
        if kind in {_TRUE, _FALSE}:
            return kind == _TRUE
        if kind == _BYTE:
            return self._byte()
        if kind in {_I16, _I32, _I64}:
            return self._signed()
        if kind == _DOUBLE:
            return self._bytes(8)
        if kind == _BINARY:
            return self._bytes(self._unsigned())
        if kind in {_LIST, _SET}:
            return self._list()
        if kind == _STRUCT:
            return self.struct()
        raise ValueError(f"a value of kind {kind}")  # maps, which Parquet does not use

    def _list(self) -> list[Any]:
        header = self._byte()
        count = header >> 4 if header >> 4 < 15 else self._unsigned()
        kind = header & 15
        if count > len(self._data) - self._at:
            raise ValueError(f"{count} elements")
        if kind in {_TRUE, _FALSE}:
            return [self._byte() == _TRUE for _ in range(count)]
        return [self._value(kind) for _ in range(count)]

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _bytes(self, count: int) -> bytes:
        if count > len(self._data) - self._at:
            raise ValueError(f"{count} bytes")
        self._at += count
        return self._data[self._at - count : self._at]

    def _unsigned(self) -> int:
        number = shift = 0
        while True:
            byte = self._byte()
            number |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return number
            if shift > 63:
                raise ValueError("a number of too many bytes")

    def _signed(self) -> int:
        number = self._unsigned()
        return (number >> 1) ^ -(number & 1)
