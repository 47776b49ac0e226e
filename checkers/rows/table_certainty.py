"""Table certainty: what a coordinator must know about one table in every possible order of its schema changes.

A CREATE is *certain* if it was acknowledged and no possible DROP of the table, its keyspace or (of a view) its base, and
no statement in free text, can have come after it. A column is certain if a certain CREATE, or an acknowledged ADD after
it, made it and nothing possible can have dropped or renamed it since.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from schemaquake.checkers.evidence.cql_types import canonical
from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.node_schemas import NodeSchema, Table
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.evidence.schema_changes import SchemaObject, can_follow
from schemaquake.checkers.rows.probe_errors import ProbeFault, find_missing_column

__all__ = ["TableCertainty"]

_KEY_KINDS = frozenset({"partition_key", "clustering"})


class TableCertainty:
    """One table or view, its changes, and its final reading on every node."""

    def __init__(self, evidence: Evidence, subject: SchemaObject) -> None:
        view = SchemaObject("view", subject.keyspace, subject.name)
        self.subject = view if evidence.changes.creates(view) and not evidence.changes.creates(subject) else subject
        self.changes: Sequence[PairedOperation] = evidence.changes.on(self.subject)
        self._evidence = evidence
        self._removals = [
            *evidence.changes.drops(self.subject),
            *evidence.changes.texts(subject.keyspace),
            *self._list_base_drops(),
        ]
        self.creates = [create for create in evidence.changes.creates(self.subject) if self._is_certain(create)]
        """The certain CREATEs; more than one is an anomaly in itself."""
        self._schemas = {(schema.phase, schema.node): schema for schema in evidence.readings.schemas}

    @property
    def create(self) -> PairedOperation | None:
        """The last certain CREATE; None: there is none."""
        return self.creates[-1] if self.creates else None

    @property
    def may_yet_change(self) -> bool:
        """True if a removal of unknown outcome may take effect at any time, also between a reading and a probe."""
        return any(removal.type == "info" for removal in self._removals)

    def unread(self, phase: str) -> frozenset[str]:
        """Return the nodes that were not read completely in a phase that took place."""
        return frozenset(unread.node for unread in self._evidence.readings.unread if unread.phase == phase)

    def is_there(self, phase: str, node: str | None) -> bool:
        """Check that this node must serve the table."""
        return bool(self.creates) or self._find_shown(phase, node) is not None

    def must_serve(self, probe: PairedOperation, fault: ProbeFault) -> bool:
        """Check that no possible state of the schema justifies this error."""
        if fault is ProbeFault.NO_TABLE:
            return bool(self.creates)
        if fault is ProbeFault.NO_COLUMN:
            column = find_missing_column(probe.error or "")
            return column is not None and column in self._list_columns(probe) and self._certainly_has(column)
        if fault is ProbeFault.STATEMENT:
            return self._certainly_fits(probe)
        shown = self._find_shown(str(probe.argument["phase"]), probe.node)
        known = frozenset() if shown is None else frozenset(shown.columns)
        return all(column in known or self._certainly_has(column) for column in self._list_columns(probe))

    def _find_shown(self, phase: str, node: str | None) -> Table | None:
        """Find the table in the node's own reading; None: missing or incomplete."""
        schema: NodeSchema | None = self._schemas.get((phase, node or ""))
        if schema is None or self.subject.keyspace not in schema.keyspaces:
            return None
        name = (self.subject.keyspace, self.subject.name)
        table = schema.tables.get(name) or schema.views.get(name)
        return None if table is None or not table.has_own_row or not table.columns else table

    def _is_certain(self, create: PairedOperation) -> bool:
        answer: Mapping[str, Any] = create.value if isinstance(create.value, dict) else {}
        conditional = create.argument.get("if_not_exists") and answer.get("applied") is not True
        undone = any(can_follow(removal, create) for removal in self._removals)
        return create.acknowledged and not conditional and not undone

    def _list_base_drops(self) -> Iterable[PairedOperation]:
        """Yield the possible DROPs of a view's base table."""
        if self.subject.kind != "view":
            return
        for base in sorted({create.argument["base"] for create in self._evidence.changes.creates(self.subject)}):
            yield from self._evidence.changes.drops(SchemaObject("table", self.subject.keyspace, base))

    def _list_columns(self, probe: PairedOperation) -> Sequence[str]:
        if probe.f == "insert":
            return list(probe.argument["row"])
        return [*(probe.argument["columns"] or ()), *(probe.argument.get("where") or {})]

    def _certainly_has(self, column: str) -> bool:
        removals = [
            change
            for change in self.changes
            if (change.f == "drop-column" and change.argument["column"] == column)
            or (change.f == "rename-column" and column in {change.argument["column"], change.argument["to"]})
        ]
        makers = [create for create in self.creates if column in _map_declared_columns(create)]
        makers += [
            change
            for change in self.changes
            if change.f == "add-column"
            and change.acknowledged
            and change.argument["column"][0] == column
            and self.creates
            and not any(can_follow(removal, change) for removal in self._removals)
        ]
        return any(not any(can_follow(removal, maker) for removal in removals) for maker in makers)

    def _certainly_fits(self, probe: PairedOperation) -> bool:
        """Check that the statement fits a certain CREATE: it names the whole key, and only columns of the table."""
        columns = frozenset(self._list_columns(probe))
        if not all(self._certainly_has(column) and self._has_one_type(column) for column in columns):
            return False
        if probe.f == "read-rows":
            return not probe.argument.get("where")
        return any(
            frozenset(name for name, (_, kind) in _map_declared_columns(create).items() if kind in _KEY_KINDS)
            <= columns
            for create in self.creates
            if create.f == "create-table" and columns & _map_declared_columns(create).keys()
        )

    def _has_one_type(self, column: str) -> bool:
        types = {
            canonical(_map_declared_columns(c)[column][0])
            for c in self._list_possible_creates()
            if column in _map_declared_columns(c)
        }
        adds = (change.argument["column"] for change in self.changes if change.f == "add-column")
        types |= {canonical(cql_type) for name, cql_type in adds if name == column}
        # A value of a user-defined type may fail for one of its fields, which belong to another object.
        return len(types) == 1 and not any("<" in cql_type or "." in cql_type for cql_type in types)

    def _list_possible_creates(self) -> Iterable[PairedOperation]:
        return self._evidence.changes.creates(self.subject)


def _map_declared_columns(create: PairedOperation) -> Mapping[str, tuple[str, str]]:
    """Map the columns of a CREATE TABLE to (type, kind); a view declares no columns of its own."""
    return {name: (cql_type, kind) for name, cql_type, kind in create.argument.get("columns", ())}
