"""Requests: what clients ask for, sorted out: schema changes go to the model, rows to the data path."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from schemaquake.clusters.simulated.data import DataPath
from schemaquake.clusters.simulated.faces import Node, Steps
from schemaquake.clusters.simulated.models.statements import Select, Update, parse
from schemaquake.clusters.simulated.said import ServerSaid
from schemaquake.clusters.simulated.schema.definitions import Column, Table
from schemaquake.harness.ddl.schema_changes import SCHEMA_CHANGES
from schemaquake.harness.model.queries import Query

if TYPE_CHECKING:
    from schemaquake.harness.model.steps import Invoke

__all__ = ["Change", "Requests"]

Change: TypeAlias = Callable[[Node, str, Mapping[str, Any]], Steps]
"""Carries out one schema change on its coordinator, and returns whether there was anything to change."""


class Requests:
    """The clients' side of a model."""

    def __init__(self, data: DataPath, change: Change) -> None:
        self.data = data
        self._change = change

    def serve(self, node: Node, request: Invoke) -> Steps:
        """Begin a request, whose steps return the rows of a read, `applied` of a schema change, else None.

        Raises ServerSaid for what is refused before any step, as the steps do.
        """
        if isinstance(request.query, Query):
            return self._query(node, request.query)
        if request.query is not None:
            return _refuse("statements in bulk are not modelled")
        f, value = request.f, request.value
        if f in SCHEMA_CHANGES:
            return self._change(node, f, value)
        match f:
            case "insert":
                return self.data.write(node, value["keyspace"], value["table"], value["row"], value["consistency"])
            case "delete-row":
                return self.data.delete(node, value["keyspace"], value["table"], value["where"], value["consistency"])
            case "read-rows":
                return self._read_rows(node, value)
            case "know-table":
                return self._know_table(node, value)
        return _refuse(f"{f} is not modelled")

    def _know_table(self, node: Node, value: Mapping[str, Any]) -> Steps:
        self.data.find(node, value["keyspace"], value["table"])
        return
        yield

    def _read_rows(self, node: Node, value: Mapping[str, Any]) -> Steps:
        keyspace, name, columns = value["keyspace"], value["table"], value["columns"]
        table, _ = self.data.find(node, keyspace, name)
        shown = table
        for column in columns or ():
            if column not in table.columns and self.data.knows_columns:
                raise ServerSaid("InvalidRequest", f"Undefined column name {column} in table {keyspace}.{name}")
        where = value.get("where")
        if table.base is None and not _is_indexed(table, where):
            found = yield from self.data.read(node, keyspace, name, where, value["consistency"])
        else:
            found = yield from self._look_up(node, table, where, value["consistency"])
        return [
            {column: _value(table, key, cells, column) for column in columns or shown.columns}
            for table, key, cells in found
        ]

    def _look_up(self, node: Node, through: Table, where: Mapping[str, Any] | None, consistency: str) -> Steps:
        """Return the rows that a view, or an index of a table, lists: those of the table itself, in which nothing lags behind."""
        assert node.server is not None
        name = through.name if through.base is None else through.base[1]
        base = node.server.memory[through.keyspace].tables.get(name)
        if base is None or (through.base is not None and base.id != through.base[0]):
            return []  # a view whose table is gone: it keeps no rows of its own
        found = yield from self.data.read(node, through.keyspace, name, None, consistency)
        sought = dict(where or {})
        needed = {*sought, *((*through.partition_key, *through.clustering) if through.base is not None else ())}
        rows = []
        for table, key, cells in found:
            row = {column: _value(table, key, cells, column) for column in needed}
            if None not in row.values() and all(row[column] == wanted for column, wanted in sought.items()):
                rows.append((table, key, cells))
        if self.data.invariants is not None:
            self.data.invariants.lists(node, through, sought, found, rows)
        return rows

    def _query(self, node: Node, query: Query) -> Steps:
        statement = parse(query.text)
        if isinstance(statement, Select):
            return self._select(node, statement, query.consistency)
        if isinstance(statement, Update):
            return self.data.write(node, statement.keyspace, statement.table, statement.row, query.consistency)
        raise ServerSaid("InvalidRequest", f"not modelled: {query.text}")

    def _select(self, node: Node, select: Select, consistency: str) -> Steps:
        keyspace, name, columns, where = select
        found = yield from self.data.read(node, keyspace, name, where, consistency)
        return [{text: _selected(one, text) for text in columns} for one in found]


def _selected(found: tuple[Any, Any, Any], text: str) -> Any:
    table, key, cells = found
    if text.startswith("WRITETIME("):
        cell = cells.get(text[len("WRITETIME(") : -1])
        return None if cell is None else cell[0]
    return _value(table, key, cells, text)


def _value(table: Any, key: Any, cells: Mapping[str, tuple[int, Any]], column: str) -> Any:
    definition = table.columns.get(column, _UNDECLARED)
    if definition.kind == "partition_key":
        return key[0][definition.position]
    if definition.kind == "clustering":
        return key[1][definition.position]
    cell = cells.get(column)
    return None if cell is None else cell[1]


_UNDECLARED: Final = Column("blob", "regular")


def _is_indexed(table: Table, where: Mapping[str, Any] | None) -> bool:
    """Return whether rows are asked for by a column that has an index, and not by their key."""
    asked = {*(where or ())}
    return bool(asked) and not asked >= {*table.partition_key} and asked <= {*table.indexes.values()}


def _refuse(text: str) -> Steps:
    raise ServerSaid("InvalidRequest", text)
    yield
