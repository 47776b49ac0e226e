"""Trail: the operations that findings cite, one row each, so that a page leads from a finding to its operations, their moment and their node's log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.harness.model.records import keyspace_of, plain
from schemaquake.results.report.material import Material
from schemaquake.results.tables.statements import as_cql
from schemaquake.results.wording import shortened

__all__ = ["Cited", "cite_operations"]

_OPERATIONS_MOST: Final = 300
_TEXT_MOST: Final = 240


@dataclass(frozen=True, slots=True, kw_only=True)
class Cited:
    """One operation."""

    index: int
    began: str
    took: str
    process: int
    node: str
    cql: str
    """What was asked as a statement; empty if it is none, and then `f` and `text` say it."""
    f: str
    text: str
    error: str
    outcome: str
    keyspace: str | None
    by: Mapping[str, Sequence[str]]
    """Names of the symptoms that cite it, each with the anchors of those of that name."""


def cite_operations(material: Material, cited: Mapping[int, Iterable[tuple[str, str]]]) -> tuple[Sequence[Cited], int]:
    """Describe the cited operations, in the order in which they began. Also return the number that is left out."""
    wanted = sorted(cited)[:_OPERATIONS_MOST]
    columns = ["index", "process", "node", "f", "key", "type", "invoked", "completed", "argument", "error"]
    rows = material.operations.select(columns)
    found = plain(rows.filter(pc.is_in(rows["index"], value_set=pa.array(wanted, rows["index"].type)))).to_pylist()
    described = [_describe(row, cited[row["index"]]) for row in found]
    return sorted(described, key=lambda one: one.index), len(cited) - len(wanted)


def _describe(row: Mapping[str, Any], citing: Iterable[tuple[str, str]]) -> Cited:
    by: dict[str, list[str]] = {}
    for anchor, name in dict.fromkeys(citing):
        by.setdefault(name, []).append(anchor)
    took = "never ended" if row["completed"] is None else f"{(row['completed'] - row['invoked']) / 1e6:,.1f} ms"
    argument = None if row["argument"] is None else orjson.loads(row["argument"])
    asked = " ".join(part for part in (row["key"], row["argument"]) if part)
    return Cited(
        index=row["index"],
        began=f"{row['invoked'] / 1e9:.3f} s",
        took=took,
        process=row["process"],
        node=row["node"] or "",
        cql=shortened(as_cql(row["f"], argument) or "", _TEXT_MOST),
        f=row["f"],
        text=shortened(asked, _TEXT_MOST),
        error=shortened(row["error"] or "", _TEXT_MOST),
        outcome=row["type"],
        keyspace=keyspace_of(row["key"]) if row["key"] else None,
        by=by,
    )
