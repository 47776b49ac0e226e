"""Table certainty: what a coordinator must know of one table, whatever order its schema changes took effect in.

A CREATE is *certain* if it was acknowledged and no possible DROP of the table, its keyspace or (of a view) its base, and
no statement in free text, can have come after it. A column is certain if a certain CREATE, or an acknowledged ADD after
it, made it and nothing possible can have dropped or renamed it since.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from schemaquake.checkers.evidence.cql_types import canonical
from schemaquake.checkers.evidence.node_schemas import NodeSchema, Table
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.evidence.schema_changes import SchemaObject, can_follow
from schemaquake.checkers.rows.probe_errors import Fault, missing_column
from schemaquake.checkers.schema.judge import Case

__all__ = ["TableCertainty"]

_KEY_KINDS = frozenset({"partition_key", "clustering"})


class TableCertainty:
    """One table or view, its changes, and what every node showed of it."""

    def __init__(self, case: Case, subject: SchemaObject) -> None:
        view = SchemaObject("view", subject.keyspace, subject.name)
        self.subject = view if case.changes.creates(view) and not case.changes.creates(subject) else subject
        self.changes: Sequence[PairedOperation] = case.changes.on(self.subject)
        self._case = case
        self._removals = [*case.changes.drops(self.subject), *case.changes.texts(subject.keyspace), *self._of_bases()]
        self.creates = [create for create in case.changes.creates(self.subject) if self._is_certain(create)]
        """The certain CREATEs; more than one is an anomaly in itself."""
        self._schemas = {(schema.phase, schema.node): schema for schema in case.readings.schemas}

    @property
    def create(self) -> PairedOperation | None:
        """A CREATE after which the table must be there, if there is one."""
        return self.creates[-1] if self.creates else None

    @property
    def may_yet_change(self) -> bool:
        """Whether a removal of unknown outcome may take effect at any time, also between a reading and a probe."""
        return any(removal.type == "info" for removal in self._removals)

    def unread(self, phase: str) -> frozenset[str]:
        """The nodes of which that phase has no complete reading although it took place."""
        return frozenset(unread.node for unread in self._case.readings.unread if unread.phase == phase)

    def is_there(self, phase: str, node: str | None) -> bool:
        """Whether the table must be served through this node."""
        return bool(self.creates) or self._shown(phase, node) is not None

    def must_serve(self, probe: PairedOperation, fault: Fault) -> bool:
        """Whether this error leaves no way for the coordinator to be right."""
        if fault is Fault.NO_TABLE:
            return bool(self.creates)
        if fault is Fault.NO_COLUMN:
            column = missing_column(probe.error or "")
            return column is not None and column in self._columns(probe) and self._has_for_certain(column)
        if fault is Fault.STATEMENT:
            return self._fits_for_certain(probe)
        shown = self._shown(str(probe.argument["phase"]), probe.node)
        known = frozenset() if shown is None else frozenset(shown.columns)
        return all(column in known or self._has_for_certain(column) for column in self._columns(probe))

    def _shown(self, phase: str, node: str | None) -> Table | None:
        """The table in the node's own reading, if all of it is there."""
        schema: NodeSchema | None = self._schemas.get((phase, node or ""))
        if schema is None or self.subject.keyspace not in schema.keyspaces:
            return None
        name = (self.subject.keyspace, self.subject.name)
        table = schema.tables.get(name) or schema.views.get(name)
        return None if table is None or not table.has_own_row or not table.columns else table

    def _is_certain(self, create: PairedOperation) -> bool:
        told: Mapping[str, Any] = create.value if isinstance(create.value, dict) else {}
        conditional = create.argument.get("if_not_exists") and told.get("applied") is not True
        undone = any(can_follow(removal, create) for removal in self._removals)
        return create.acknowledged and not conditional and not undone

    def _of_bases(self) -> Iterable[PairedOperation]:
        """What may have taken a view's base table away."""
        if self.subject.kind != "view":
            return
        for base in sorted({create.argument["base"] for create in self._case.changes.creates(self.subject)}):
            yield from self._case.changes.drops(SchemaObject("table", self.subject.keyspace, base))

    def _columns(self, probe: PairedOperation) -> Sequence[str]:
        if probe.f == "insert":
            return list(probe.argument["row"])
        return [*(probe.argument["columns"] or ()), *(probe.argument.get("where") or {})]

    def _has_for_certain(self, column: str) -> bool:
        removals = [
            change
            for change in self.changes
            if (change.f == "drop-column" and change.argument["column"] == column)
            or (change.f == "rename-column" and column in {change.argument["column"], change.argument["to"]})
        ]
        makers = [create for create in self.creates if column in _declared(create)]
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

    def _fits_for_certain(self, probe: PairedOperation) -> bool:
        """Whether the statement is right for a certain CREATE of the table: all of its key, and columns it has."""
        columns = frozenset(self._columns(probe))
        if not all(self._has_for_certain(column) and self._has_one_type(column) for column in columns):
            return False
        if probe.f == "read-rows":
            return not probe.argument.get("where")
        return any(
            frozenset(name for name, (_, kind) in _declared(create).items() if kind in _KEY_KINDS) <= columns
            for create in self.creates
            if create.f == "create-table" and columns & _declared(create).keys()
        )

    def _has_one_type(self, column: str) -> bool:
        types = {canonical(_declared(c)[column][0]) for c in self._possible_creates() if column in _declared(c)}
        adds = (change.argument["column"] for change in self.changes if change.f == "add-column")
        types |= {canonical(cql_type) for name, cql_type in adds if name == column}
        # A value of a user-defined type fails for a field of it, which is another object's matter.
        return len(types) == 1 and not any("<" in cql_type or "." in cql_type for cql_type in types)

    def _possible_creates(self) -> Iterable[PairedOperation]:
        return self._case.changes.creates(self.subject)


def _declared(create: PairedOperation) -> Mapping[str, tuple[str, str]]:
    """Column → (type, kind) of a CREATE TABLE; a view declares no columns of its own."""
    return {name: (cql_type, kind) for name, cql_type, kind in create.argument.get("columns", ())}
