"""Steps: one function, called for many documents wherever the engine likes; documents say where rows lie, not what they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import orjson
import pyarrow as pa

from schemaquake.results.engines.engine import Engine

__all__ = ["Document", "each"]

Document: TypeAlias = dict[str, Any]
"""JSON: names of files, numbers of their row groups, counts, findings."""

_RESULTS: Final = pa.schema([("unit", pa.int32()), ("result", pa.string())])


def each(engine: Engine, step: Callable[[Document], Document], documents: Sequence[Document]) -> list[Document]:
    """`step` of every document, in their order. A step may be called twice for one document: it must write the same files."""
    if not documents:
        return []
    units = pa.table(
        {
            "unit": pa.array(range(len(documents)), pa.int32()),
            "document": [_text(document) for document in documents],
        }
    )
    carried = engine.carry(_Step(step), units, _RESULTS).sort_by("unit")
    return [orjson.loads(result) for result in carried["result"].to_pylist()]


@dataclass(frozen=True, slots=True)
class _Step:
    """A step as engines carry it."""

    function: Callable[[Document], Document]

    def __call__(self, group: pa.Table) -> pa.Table:
        rows = [
            {"unit": unit["unit"], "result": _text(self.function(orjson.loads(unit["document"])))}
            for unit in group.to_pylist()
        ]
        return pa.Table.from_pylist(rows, schema=_RESULTS)


def _text(document: Document) -> str:
    return orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY).decode()
