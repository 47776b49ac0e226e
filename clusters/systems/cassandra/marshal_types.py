"""Marshal types: the server's class names for types, in CQL's words.

Up to 2.2 schema tables hold `org.apache.cassandra.db.marshal.ListType(org.apache.cassandra.db.marshal.Int32Type)`,
with the names of user-defined types and their fields in hexadecimal: `UserType(ks,75,78:…Int32Type)` is `ks.u`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

__all__ = ["components", "cql_type"]

# fmt: off
_NATIVE: Final = {
    "AsciiType": "ascii", "BooleanType": "boolean", "BytesType": "blob", "ByteType": "tinyint",
    "CounterColumnType": "counter", "DateType": "timestamp", "DecimalType": "decimal", "DoubleType": "double",
    "FloatType": "float", "InetAddressType": "inet", "Int32Type": "int", "IntegerType": "varint", "LongType": "bigint",
    "ShortType": "smallint", "SimpleDateType": "date", "TimeType": "time", "TimestampType": "timestamp",
    "TimeUUIDType": "timeuuid", "UTF8Type": "text", "UUIDType": "uuid",
}
# fmt: on
_CONTAINERS: Final = {"ListType": "list", "SetType": "set", "MapType": "map"}
_PLAIN_NAME: Final = re.compile(r"[a-z]\w*", re.ASCII)


def cql_type(text: str) -> str:
    """The type as CQL spells it, `frozen<…>` where it is; a class that CQL has no word for stays as it is, in quotes.

    A user-defined type is told by its name alone, as 3.0 and later do: it belongs to its table's keyspace.
    """
    name, arguments = _taken_apart(text)
    if name in _NATIVE and not arguments:
        return _NATIVE[name]
    if name == "ReversedType" and len(arguments) == 1:
        return cql_type(arguments[0])  # how rows are ordered is told apart from what they hold
    if name in _CONTAINERS:
        return f"{_CONTAINERS[name]}<{', '.join(map(cql_type, arguments))}>"
    if name == "FrozenType" and len(arguments) == 1:
        return _frozen(cql_type(arguments[0]))
    if name == "TupleType":
        return _frozen(f"tuple<{', '.join(map(cql_type, arguments))}>")
    if name == "UserType" and len(arguments) > 1:
        return _frozen(_identifier(bytes.fromhex(arguments[1]).decode("utf-8", "replace")))
    return f"'{text}'"


def components(text: str) -> Sequence[str]:
    """The types that a comparator or a key's validator is composed of, as class names: itself, if it is simple."""
    name, arguments = _taken_apart(text)
    return arguments if name == "CompositeType" else [text]


def _frozen(text: str) -> str:
    return text if text.startswith("frozen<") else f"frozen<{text}>"


def _identifier(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else '"' + name.replace('"', '""') + '"'


def _taken_apart(text: str) -> tuple[str, Sequence[str]]:
    """(class without its package, arguments), of `package.Class(argument,argument)`."""
    head, bracket, rest = text.strip().partition("(")
    return head.rsplit(".", 1)[-1], _top_level(rest.removesuffix(")")) if bracket else []


def _top_level(text: str) -> Sequence[str]:
    """The parts between the commas outside all brackets."""
    parts, depth, start = [], 0, 0
    for position, letter in enumerate(text):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append(text[start:position])
            start = position + 1
    return [*parts, text[start:]] if text else []
