"""Shapes: the keys that definitions of one kind have in every reading of one system.

The reader writes them, whatever the server answers. So a definition on the way that lacks a key which all final ones have, or that has one
which none of them has, was not read as it stands there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from schemaquake.checkers.evidence.node_schemas import NodeSchema

__all__ = ["Shapes"]

_PAIRS: Final = {"type": "fields", "function": "arguments"}
"""Lists of pairs, by kind."""
_ENTRIES: Final = ("columns", "dropped_columns", "indexes")


class Shapes:
    """The keys of the definitions that nodes showed in the end, by kind and by the entry that they belong to."""

    def __init__(self, schemas: Iterable[NodeSchema]) -> None:
        """Collect the shapes of final readings."""
        self._any: dict[tuple[str, str], frozenset[str]] = {}
        self._all: dict[tuple[str, str], frozenset[str]] = {}
        for schema in schemas:
            for kind, definition in _definitions(schema):
                for owner, keys in _shape(kind, definition):
                    self._any[kind, owner] = self._any.get((kind, owner), frozenset()) | keys
                    self._all[kind, owner] = self._all.get((kind, owner), keys) & keys

    def find_fault(self, kind: str, definition: Mapping[str, Any]) -> str:
        """Return a key that a definition lacks, or that no other has, with the entry it belongs to; "" if it has the others' shape."""
        for owner, keys in _shape(kind, definition):
            if (kind, owner) in self._any:
                odd = (self._all[kind, owner] - keys) | (keys - self._any[kind, owner])
                if odd:
                    return f"{owner} {min(odd)}".strip()
            elif owner.endswith(" None"):
                return owner
        return ""


def _definitions(schema: NodeSchema) -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield from (("keyspace", definition) for definition in schema.keyspaces.values())
    yield from (("table", table.definition) for table in schema.tables.values() if not table.headless)
    yield from (("view", view.definition) for view in schema.views.values())
    yield from (("type", {"fields": fields}) for fields in schema.types.values())
    yield from (("function", function.definition) for function in schema.functions.values())
    yield from (("aggregate", aggregate.definition) for aggregate in schema.aggregates.values())


def _shape(kind: str, definition: Mapping[str, Any]) -> Iterator[tuple[str, frozenset[str]]]:
    """List the entries of a definition with their keys: itself as "", its replication, and its columns by their kind."""
    yield "", frozenset(definition)
    replication = definition.get("replication")
    if isinstance(replication, Mapping) and "NetworkTopology" not in str(replication.get("class")):
        yield "replication", frozenset(replication)
    for name in _ENTRIES:
        for entry in (definition.get(name) or {}).values():
            yield f"{name} {entry.get('kind')}" if name == "columns" else name, frozenset(entry)
    for pair in definition.get(_PAIRS.get(kind, "")) or ():
        yield _PAIRS[kind], frozenset(map(str, range(len(pair))))
