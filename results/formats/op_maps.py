"""Op maps: conversion of one map per event, as Jepsen writes them, to rows of a history.

`type` and `f` are required; a missing `f` is `txn` if the value is a transaction. A value that is a list of micro-operations
goes to `mops`, any other value becomes JSON. Keys and elements of transactions that are not integers are numbered (`Names`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import orjson
import pyarrow as pa

from schemaquake.harness.model.operation import NEMESIS
from schemaquake.harness.model.records import HISTORY, LEAN_MOPS

__all__ = ["LEAN_RAW", "RAW", "Malformed", "Names", "Rows", "key_text", "micro_operations", "row_of", "to_json"]

RAW: Final = pa.schema(
    [
        pa.field("line", pa.int64(), nullable=False),
        pa.field("index", pa.int64()),
        pa.field("time", pa.int64()),
        pa.field("process", pa.int64()),  # null if the file has no line numbers
        *(HISTORY.field(name) for name in ("type", "f", "node", "key", "value", "error", "mops")),
    ]
)
"""Events as they are in a file, before index, time and process are filled in."""
LEAN_RAW: Final = RAW.set(RAW.get_field_index("mops"), pa.field("mops", LEAN_MOPS))
"""The same with micro-operations that take half the memory."""

_TYPES: Final = frozenset({"invoke", "ok", "fail", "info"})
_MICRO: Final = {"append": "append", "r": "r", "w": "w", "read": "r", "write": "w"}
_INT64: Final = range(-(1 << 63), 1 << 63)
_FIRST_NAME: Final = -(1 << 62)
_TOO_DEEP: Final = "a value that is nested too deeply, more than some 250 levels"
_LIKE_JSON: Final = re.compile(r'[-\d\[{"]|(?:true|false|null)\Z')
_ROWS: Final = 1 << 16
_WEIGHT_MOST: Final = (
    1 << 20
)  # maximum size of a batch: elements of transactions plus an eighth of the characters of values


class Malformed(Exception):
    """The reason why an op is invalid. The caller adds the line."""


class Names:
    """Numbers for keys and elements that are not integers, from −2⁶² downwards, below any integer of a history."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, value: Any) -> int:
        """Return the integer itself, or the number of an equal name. Raises Malformed for an integer in the reserved range."""
        if type(value) is int:
            if value <= _FIRST_NAME or value not in _INT64:
                raise Malformed(f"a transaction with the number {shortened(value)}, which is too large")
            return value
        text = to_json(value, options=orjson.OPT_SORT_KEYS)
        return self._numbers.setdefault(text, _FIRST_NAME - len(self._numbers))

    def metadata(self) -> dict[bytes, bytes]:
        """Return the number and JSON text of every name, for the metadata `names` of the table's schema."""
        if not self._numbers:
            return {}
        return {b"names": orjson.dumps({str(number): text for text, number in self._numbers.items()})}


class Rows:
    """A builder of batches of `RAW`, of at most 65,536 rows, or fewer if the rows are large."""

    def __init__(self, *, independent: bool, names: Names) -> None:
        self.independent = independent
        self._names = names
        self._columns: dict[str, list[Any]] = {name: [] for name in RAW.names}
        self._weight = 0

    @property
    def full(self) -> bool:
        """True if the batch should be taken."""
        return len(self._columns["line"]) >= _ROWS or self._weight >= _WEIGHT_MOST

    def add(self, op: Any, line: int) -> None:
        """Add an op. Raises Malformed."""
        row = row_of(op, self._names, independent=self.independent)
        row["line"] = line
        for name, column in self._columns.items():
            column.append(row.get(name))
        self._weight += sum(1 + len(mop["vs"] or ()) for mop in row["mops"] or ()) + len(row["value"] or "") // 8

    def take(self) -> pa.RecordBatch:
        """Return the rows added since the last call."""
        arrays = [
            pa.array(column, field.type if not pa.types.is_dictionary(field.type) else pa.string())
            for field, column in zip(RAW, self._columns.values(), strict=True)
        ]
        arrays = [
            array.dictionary_encode() if pa.types.is_dictionary(field.type) else array
            for field, array in zip(RAW, arrays, strict=True)
        ]
        for column in self._columns.values():
            column.clear()
        self._weight = 0
        return pa.RecordBatch.from_arrays(arrays, schema=RAW)


def row_of(op: Any, names: Names, *, independent: bool) -> dict[str, Any]:
    """Convert an op to one event of `RAW`, without its line. Raises Malformed."""
    if not isinstance(op, Mapping):
        raise Malformed(f"an operation must be a map, not {shortened(op)}")
    kind = op.get("type")
    if not isinstance(kind, str) or kind not in _TYPES:
        raise Malformed(f"type must be invoke, ok, fail or info, not {shortened(kind)}")
    process = _process(op)
    value = op.get("value")
    key = op.get("key")
    if independent and process != NEMESIS and "value" in op:
        key, value = _apart(value)
    mops = micro_operations(value, names)
    f = op.get("f")
    if f is None and mops is not None:
        f = "txn"
    if mops is None and value == [] and f == "txn":
        mops = []
    if not isinstance(f, str):
        raise Malformed("the operation has no f" if f is None else f"f must be a name, not {shortened(f)}")
    node, error = op.get("node"), op.get("error")
    return {
        "index": _whole(op, "index"),
        "time": _whole(op, "time"),
        "process": process,
        "type": "info" if process == NEMESIS else kind,
        "f": f,
        "node": node if node is None or isinstance(node, str) else to_json(node),
        "key": None if key is None else key_text(key),
        "value": None if mops is not None or value is None else to_json(value),
        "error": error if error is None or isinstance(error, str) else to_json(error),
        "mops": mops,
    }


def _process(op: Mapping[str, Any]) -> int | None:
    """Return the number of the process. A process that is not a number is the nemesis or another helper, not a client."""
    process = op.get("process")
    if process is None:
        return None
    if type(process) is not int:
        if isinstance(process, str):
            return NEMESIS
        raise Malformed(f"process must be a number or a name, not {shortened(process)}")
    if not NEMESIS <= process < 1 << 31:
        raise Malformed(f"process {shortened(process)} is not a valid process number")
    return process


def _whole(op: Mapping[str, Any], name: str) -> int | None:
    number = op.get(name)
    if number is None or (type(number) is int and number in _INT64):
        return number
    if isinstance(number, float) and number.is_integer() and abs(number) < 1 << 53:
        return int(number)
    raise Malformed(f"{name} must be an integer, not {shortened(number)}")


def _apart(value: Any) -> tuple[Any, Any]:
    if not isinstance(value, list) or len(value) != 2:
        raise Malformed(f"with independent keys a value must be [key value], not {shortened(value)}")
    return value[0], value[1]


def key_text(key: Any) -> str:
    """Render a key for the column `key`: names as they are, unless another key's JSON could look the same."""
    if isinstance(key, str) and not _LIKE_JSON.match(key):
        return key
    return to_json(key, options=orjson.OPT_SORT_KEYS)


def micro_operations(value: Any, names: Names) -> list[dict[str, Any]] | None:
    """Parse the micro-operations of a transaction; None if the value is something else. A read may leave out a null result."""
    if not isinstance(value, list) or not value:
        return None
    for element in value:
        if type(element) is not list or not element or type(element[0]) is not str or element[0] not in _MICRO:
            return None
        if len(element) != 3 and (len(element) != 2 or _MICRO[element[0]] != "r"):
            return None
    found = []
    steps: list[list[Any]] = value
    for f, k, *rest in steps:
        v: Any = rest[0] if rest else None
        many = type(v) is list
        found.append(
            {
                "f": _MICRO[f],
                "k": names.number(k),
                "v": None if many or v is None else names.number(v),
                "vs": [names.number(element) for element in v] if many else None,
            }
        )
    return found


def to_json(value: Any, *, options: int = 0) -> str:
    """Serialise a value as JSON text. Raises Malformed for a value that is nested too deeply."""
    try:
        return orjson.dumps(value, option=options).decode()
    except orjson.JSONEncodeError:
        try:
            return orjson.dumps(_within_64_bits(value), option=options).decode()
        except (orjson.JSONEncodeError, RecursionError) as error:
            if "ecursion" in str(error):
                raise Malformed(_TOO_DEEP) from None
            raise Malformed(f"a value that cannot be stored ({error})") from None


def _within_64_bits(value: Any) -> Any:
    if type(value) is int:
        return value if value in _INT64 else str(value)
    if isinstance(value, list):
        return [_within_64_bits(element) for element in value]
    if isinstance(value, dict):
        return {key: _within_64_bits(element) for key, element in value.items()}
    return value


def shortened(value: Any) -> str:
    """Render a value for an error message."""
    try:
        text = to_json(value)
    except Malformed:
        text = _TOO_DEEP
    return text if len(text) <= 60 else f"{text[:57]}…"
