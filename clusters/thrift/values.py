"""Thrift values: cells as the bytes that were sent and stored before there was a protocol with types.

Values are those that workloads use: JSON scalars. The cell of a column without a declared type is read as a number
where its four bytes can be a small one, as text where they can be text, and as hexadecimal digits otherwise.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Final
from uuid import UUID

from schemaquake.harness.model.operation import JSON

__all__ = ["decode", "encode"]


def encode(value: JSON, class_name: str | None) -> bytes:
    """Encode a JSON scalar as bytes of that class (without package). None: the column is not declared, and any value fits.

    Raises ValueError if the value is none of that class.
    """
    codec = _CODECS.get(class_name or "") or _undeclared(value)
    try:
        return codec[0](value)
    except (struct.error, OverflowError, TypeError, AttributeError, UnicodeError) as error:
        raise ValueError(f"{value!r} is no value of {class_name or 'a column without a type'}: {error}") from error


def decode(content: bytes, class_name: str | None) -> JSON:
    """Decode bytes as the JSON scalar that they stand for; bytes that are none of that class as hexadecimal digits."""
    codec = _CODECS.get(class_name or "")
    try:
        return _guess(content) if codec is None else codec[1](content)
    except (struct.error, ValueError):
        return content.hex()


Codec = tuple[Callable[[JSON], bytes], Callable[[bytes], JSON]]


def _packed(layout: str) -> Codec:
    return lambda value: struct.pack(layout, value), lambda content: struct.unpack(layout, content)[0]


def _integer(value: int) -> bytes:
    """Encode four bytes where they suffice, so that an `int` is the same in every era; an IntegerType takes any length."""
    return int(value).to_bytes(max(4, value.bit_length() // 8 + 1), "big", signed=True)


_INT: Final[Codec] = _packed(">i")
_LONG: Final[Codec] = _packed(">q")
_DOUBLE: Final[Codec] = _packed(">d")
_TEXT: Final[Codec] = (str.encode, lambda content: content.decode())
_INTEGER: Final[Codec] = (_integer, lambda content: int.from_bytes(content, "big", signed=True))
_UUID: Final[Codec] = (lambda value: UUID(value).bytes, lambda content: str(UUID(bytes=content)))
_BLOB: Final[Codec] = (bytes.fromhex, lambda content: content.hex())
_BOOLEAN: Final[Codec] = (lambda value: b"\x01" if value else b"\x00", lambda content: content != b"\x00")

_CODECS: Final[Mapping[str, Codec]] = {
    "AsciiType": (lambda value: str.encode(value, "ascii"), lambda content: content.decode("ascii")),
    "BooleanType": _BOOLEAN,
    "BytesType": _BLOB,
    "DateType": _LONG,
    "DoubleType": _DOUBLE,
    "FloatType": _packed(">f"),
    "Int32Type": _INT,
    "IntegerType": _INTEGER,
    "LexicalUUIDType": _UUID,
    "LongType": _LONG,
    "TimeUUIDType": _UUID,
    "UTF8Type": _TEXT,
    "UUIDType": _UUID,
}


def _undeclared(value: JSON) -> Codec:
    """Return the codec for the value's own type, as a client with serialisers of its own would have chosen."""
    match value:
        case bool():
            return _BOOLEAN
        case int():
            return _INTEGER
        case float():
            return _DOUBLE
    return _TEXT


def _guess(content: bytes) -> JSON:
    if len(content) == 4 and content[0] in (0x00, 0xFF):
        return _INT[1](content)
    text = content.decode()
    return text if text.isprintable() else content.hex()
