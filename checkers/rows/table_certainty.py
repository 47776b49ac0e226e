"""Table certainty: what a coordinator must know about one table in every possible order of its schema changes.

A CREATE is *certain* if it was acknowledged and no possible DROP of the table, its keyspace or (of a view) its base, and
no statement in free text, can have come after it. A column is certain if a certain CREATE, or an acknowledged ADD after
it, made it and nothing possible can have dropped or renamed it since.

Where a removal of unknown outcome keeps that open, the node's own reading decides: what it shows was not removed before.
Whether it was removed between the reading and a probe is in doubt as long as the removal may take effect
(`schemaquake.checkers.ddl_order.reach`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from schemaquake.checkers.ddl_order.reach import Reaches
from schemaquake.checkers.evidence.cql_types import NATIVE, can_hold, canonical
from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.node_schemas import NodeSchema, Table
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.evidence.schema_changes import SchemaObject, can_follow
from schemaquake.checkers.rows.probe_errors import ProbeFault, find_missing_column
from schemaquake.harness.model.operation import JSON

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
        self._standing = [create for create in evidence.changes.creates(self.subject) if self._is_standing(create)]
        self._schemas = {(schema.phase, schema.node): schema for schema in evidence.readings.schemas}
        self._reaches = evidence.derive(Reaches)

    @property
    def create(self) -> PairedOperation | None:
        """The last certain CREATE; None: there is none."""
        return self.creates[-1] if self.creates else None

    def find_changes_under_way(self, probe: PairedOperation, *, anywhere: bool = False) -> Sequence[PairedOperation]:
        """Return changes of unknown outcome that may have come between the node's own reading and the end of this probe.

        Those that may remove or replace the table, a view's base, or a column of the statement; `anywhere`: any in the keyspace.
        """
        phase = str(probe.argument["phase"])
        begins = min(probe.invoked, self._evidence.begins.get((phase, probe.node or ""), probe.invoked))
        ends = probe.invoked if probe.completed is None else probe.completed
        columns = [("column", column) for column in self._list_columns(probe)]
        bases = [create.argument["base"] for create in self.changes if create.f == "create-view"]
        subjects = [self.subject, *(SchemaObject("table", self.subject.keyspace, base) for base in sorted(set(bases)))]
        return [
            reach.operation
            for reach in self._reaches.of(self.subject.keyspace)
            if reach.during(begins, ends) and (anywhere or any(reach.touches(one, columns) for one in subjects))
        ]

    @property
    def texts(self) -> Sequence[PairedOperation]:
        """The statements in free text that may have done anything to the table."""
        return self._evidence.changes.texts(self.subject.keyspace)

    def replicas(self, phase: str) -> int | None:
        """Return the number of replicas of a row in that phase; None: readings show none, or different ones."""
        shown = {
            (schema.keyspaces.get(self.subject.keyspace) or {}).get("replication", {}).get("replication_factor")
            for schema in self._evidence.readings.of(phase)
        }
        factors = {int(factor) for factor in shown if factor is not None and str(factor).isdecimal()}
        return factors.pop() if len(factors) == 1 else None

    def unread(self, phase: str) -> frozenset[str]:
        """Return the nodes that were not read completely in a phase that took place."""
        return frozenset(unread.node for unread in self._evidence.readings.unread if unread.phase == phase)

    def is_there(self, phase: str, node: str | None) -> bool:
        """Check that this node must serve the table."""
        return bool(self.creates) or self._find_shown(phase, node) is not None

    def must_serve(self, probe: PairedOperation, fault: ProbeFault) -> bool:
        """Check that no possible state of the schema justifies this error."""
        shown = self._find_shown(str(probe.argument["phase"]), probe.node)
        known = frozenset() if shown is None else frozenset(shown.columns)
        if fault is ProbeFault.NO_TABLE:
            return bool(self.creates) or (shown is not None and bool(self._standing))
        if fault is ProbeFault.NO_COLUMN:
            column = find_missing_column(probe.error or "")
            if column is None or column not in self._list_columns(probe):
                return False
            return self._certainly_has(column) or (column in known and bool(self._standing) and self._stands(column))
        if fault is ProbeFault.STATEMENT:
            return self.certainly_fits(probe)
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

    def _is_standing(self, create: PairedOperation) -> bool:
        """Check that a CREATE was acknowledged, and that no acknowledged removal can have come after it."""
        undone = any(removal.type == "ok" and can_follow(removal, create) for removal in self._removals)
        return create.acknowledged and not undone

    def _stands(self, column: str) -> bool:
        """Check that no acknowledged operation dropped or renamed the column."""
        return not any(removal.type == "ok" for removal in self._list_column_removals(column))

    def _list_column_removals(self, column: str) -> Sequence[PairedOperation]:
        return [
            change
            for change in self.changes
            if (change.f == "drop-column" and change.argument["column"] == column)
            or (change.f == "rename-column" and column in {change.argument["column"], change.argument["to"]})
        ]

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

    def _certainly_has(self, column: str, *, when: PairedOperation | None = None) -> bool:
        """Check that the table has the column, or had it when the operation began."""
        removals = self._list_column_removals(column)
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
        return any(
            (when is None or maker.entirely_before(when))
            and not any(can_follow(removal, maker) for removal in removals)
            for maker in makers
        )

    def certainly_fits(self, probe: PairedOperation) -> bool:
        """Check that the statement fits a certain CREATE: it names the key, and only columns of the table, with values of their types.

        A read may name no key at all, to have all rows.
        """
        columns = frozenset(self._list_columns(probe))
        if not all(self._certainly_has(column, when=probe) and self._has_one_type(column) for column in columns):
            return False
        if not self._can_hold_all(probe):
            return False
        asked = frozenset(probe.argument.get("where") or {}) if probe.f == "read-rows" else columns
        if probe.f == "read-rows" and not asked:
            return True
        return any(
            key <= asked and (probe.f == "insert" or key == asked)
            for create in self.creates
            if create.f == "create-table" and columns & _map_declared_columns(create).keys()
            for key in [_declared_key(create)]
        )

    def may_refuse(self, probe: PairedOperation) -> bool:
        """Check that what the node itself shows explains the refusal of a statement, or that definition or types are open.

        A statement that fits what the node shows, and every CREATE, is explained by nothing that is known.
        """
        shown = self._find_shown(str(probe.argument["phase"]), probe.node)
        columns = self._list_columns(probe)
        if shown is None or not all(column in shown.columns and self._has_one_type(column) for column in columns):
            return True
        if not self._can_hold_all(probe):
            return True
        key = {name for name, column in shown.columns.items() if column.kind in _KEY_KINDS}
        if any(_declared_key(create) != key for create in self._list_possible_creates()):
            return True
        asked = set(columns if probe.f == "insert" else probe.argument.get("where") or key)
        return not key or not key <= asked or (probe.f != "insert" and asked != key)

    def _can_hold_all(self, probe: PairedOperation) -> bool:
        """Tell if each value can be one of its column: the value of a type that was refused cannot."""
        values: Mapping[str, JSON] = probe.argument["row"] if probe.f == "insert" else probe.argument.get("where") or {}
        return all(can_hold(cql_type, value) for column, value in values.items() for cql_type in self._types(column))

    def _has_one_type(self, column: str) -> bool:
        """Tell if the column has one type, of single values.

        A value of a user-defined type may fail for one of its fields, which belong to another object. `canonical` leaves
        `frozen<>` out, so that the bare name of such a type is found here.
        """
        types = self._types(column)
        return len(types) == 1 and types <= NATIVE

    def _types(self, column: str) -> set[str]:
        """Return the types that possible changes gave the column."""
        types = {
            canonical(_map_declared_columns(c)[column][0])
            for c in self._list_possible_creates()
            if column in _map_declared_columns(c)
        }
        adds = (change.argument["column"] for change in self.changes if change.f == "add-column")
        return types | {canonical(cql_type) for name, cql_type in adds if name == column}

    def _list_possible_creates(self) -> Iterable[PairedOperation]:
        return self._evidence.changes.creates(self.subject)


def _declared_key(create: PairedOperation) -> frozenset[str]:
    return frozenset(name for name, (_, kind) in _map_declared_columns(create).items() if kind in _KEY_KINDS)


def _map_declared_columns(create: PairedOperation) -> Mapping[str, tuple[str, str]]:
    """Map the columns of a CREATE TABLE to (type, kind); a view declares no columns of its own."""
    return {name: (cql_type, kind) for name, cql_type, kind in create.argument.get("columns", ())}
