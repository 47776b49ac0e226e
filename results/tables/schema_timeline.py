"""Schema timeline: the changes of each node's schema, by the node's own account.

One row whenever a node shows a new schema version or epoch, or an object in a new form: appeared, altered, another id,
gone. Pure function of `schemaquake.harness.model.records.OBSERVATIONS`; the observations of one node give the same rows as the run's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any, Final

import orjson
import pyarrow as pa

from schemaquake.harness.model.records import plain

__all__ = ["SCHEMA_TIMELINE", "tabulate_schema_timeline"]

SCHEMA_TIMELINE: Final = pa.schema(
    [
        ("node", pa.string()),
        ("time", pa.int64()),  # ns since the run started
        ("phase", pa.string()),  # running, settled, restarted
        ("kind", pa.string()),  # version, or the kind of the object
        ("keyspace", pa.string()),
        ("name", pa.string()),
        ("id", pa.string()),  # table id
        ("version", pa.string()),  # schema version of the node at that time
        ("epoch", pa.int64()),
        ("present", pa.bool_()),  # false: the object is gone
    ]
)

_APART: Final = frozenset({"version", "live", "log", "data-directory"})
_WANTED: Final = ["node", "time", "phase", "sample", "kind", "keyspace", "name", "id", "definition", "error"]

_Row = Mapping[str, Any]
_Object = tuple[str, str | None, str | None]


def tabulate_schema_timeline(observations: pa.Table) -> pa.Table:
    """List the changes (`SCHEMA_TIMELINE`), by node and time.

    A reading while the run goes on contains changes only; a final one is complete, so an object that it lacks is gone. A
    failed reading changes nothing.
    """
    rows = plain(observations.select(_WANTED)).sort_by([("node", "ascending"), ("time", "ascending")]).to_pylist()
    changes = [
        row for _, of_node in groupby(rows, key=lambda row: row["node"]) for row in _Node().changes(list(of_node))
    ]
    return pa.Table.from_pylist(changes, schema=SCHEMA_TIMELINE)


class _Node:
    """The last known schema of one node."""

    def __init__(self) -> None:
        self._version: tuple[str | None, int | None] = (None, None)
        self._objects: dict[_Object, tuple[str | None, str]] = {}

    def changes(self, rows: list[_Row]) -> Iterator[_Row]:
        """Yield the changes in `rows`, a node's observations in order of time; its readings do not overlap."""
        for _, grouped in groupby(rows, key=lambda row: (row["phase"], row["sample"], row["kind"] == "data-directory")):
            reading = list(grouped)
            if any(row["error"] is not None for row in reading):
                continue
            yield from self._reading(reading)

    def _reading(self, reading: list[_Row]) -> Iterator[_Row]:
        versions = [row for row in reading if row["kind"] == "version"]
        for row in versions:
            version = (row["id"], orjson.loads(row["definition"] or "{}").get("epoch"))
            if version != self._version:
                self._version = version
                yield self._row(row, present=True, id=None)
        shown = [row for row in reading if row["kind"] not in _APART]
        for row in shown:
            yield from self._shown(row)
        if versions and versions[0]["phase"] != "running":
            present = {_object(row) for row in shown}
            for kind, keyspace, name in [object_ for object_ in self._objects if object_ not in present]:
                del self._objects[kind, keyspace, name]
                gone = {**versions[0], "kind": kind, "keyspace": keyspace, "name": name}
                yield self._row(gone, present=False, id=None)

    def _shown(self, row: _Row) -> Iterator[_Row]:
        object_ = _object(row)
        if row["definition"] is None:
            if self._objects.pop(object_, None) is not None:
                yield self._row(row, present=False, id=row["id"])
            return
        form = (row["id"], row["definition"])
        if self._objects.get(object_) != form:
            self._objects[object_] = form
            yield self._row(row, present=True, id=row["id"])

    def _row(self, row: _Row, *, present: bool, id: str | None) -> _Row:  # noqa: A002 - the column's name
        version, epoch = self._version
        return {**row, "id": id, "version": version, "epoch": epoch, "present": present}


def _object(row: _Row) -> _Object:
    return row["kind"], row["keyspace"], row["name"]
