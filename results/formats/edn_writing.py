"""EDN writer: histories in the format that Knossos and other tools read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import orjson
import pyarrow as pa

from schemaquake.harness.model.operation import NEMESIS
from schemaquake.harness.model.records import plain

__all__ = ["edn_lines", "edn_of"]

_BATCH: Final = 1 << 14
_KEYWORD: Final = re.compile(r"[A-Za-z][\w.*+!?-]*")


def edn_lines(history: pa.Table) -> Iterator[str]:
    """Yield one op map per line for every client event (`schemaquake.harness.model.records.HISTORY`), in order. Micro-operations are unchanged."""
    columns = ["index", "time", "process", "type", "f", "value", "mops"]
    for batch in plain(history.select(columns)).to_batches(max_chunksize=_BATCH):
        for row in batch.to_pylist():
            if row["process"] == NEMESIS:
                continue
            if row["mops"] is not None:
                value = "[" + " ".join(map(_micro_operation, row["mops"])) + "]"
            else:
                value = "nil" if row["value"] is None else edn_of(orjson.loads(row["value"]))
            yield (
                f"{{:process {row['process']}, :type :{row['type']}, :f {_name(row['f'])}, :value {value}, "
                f":time {row['time']}, :index {row['index']}}}"
            )


def edn_of(value: Any) -> str:
    """Render a JSON value as EDN. Objects become maps with string keys."""
    if value is None or isinstance(value, bool):
        return {None: "nil", True: "true", False: "false"}[value]
    if isinstance(value, list):
        return "[" + " ".join(map(edn_of, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_text(key)} {edn_of(inner)}" for key, inner in value.items()) + "}"
    return _text(value) if isinstance(value, str) else str(value)


def _text(value: str) -> str:
    escaped = (
        value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    )
    return f'"{escaped}"'


def _name(f: str) -> str:
    """Render a function name as a keyword, or as a string if it is not a valid keyword."""
    return f":{f}" if _KEYWORD.fullmatch(f) else _text(f)


def _micro_operation(mop: dict[str, Any]) -> str:
    value = mop["v"] if mop["vs"] is None else mop["vs"]
    return f"[:{mop['f']} {mop['k']} {edn_of(value)}]"
