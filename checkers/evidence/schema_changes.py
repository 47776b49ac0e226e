"""Schema changes: the operations that may have created, removed or changed an object, and their possible orders.

An operation is *possible* if it was acknowledged or its outcome is unknown; a `fail` and an acknowledged no-op of
IF [NOT] EXISTS did nothing. A statement in free text (f = "cql") may have done anything to the keyspaces it concerns.
`b` *can follow* `a` unless it had certainly taken effect before `a` began.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.harness.ddl.cql import indexed_column
from schemaquake.harness.ddl.schema_changes import RELATIONS, SCHEMA_CHANGES
from schemaquake.harness.model.records import keyspace_of

__all__ = [
    "SchemaChanges",
    "SchemaObject",
    "can_follow",
    "certainly_applied",
    "indexed_place",
    "surely_changed",
    "target",
]

_KIND_OF: Final = {
    "alter-keyspace": "keyspace",
    "add-column": "table",
    "drop-column": "table",
    "rename-column": "table",
    "alter-options": "table",
    "add-field": "type",
    "rename-field": "type",
}

_CREATES_RELATION: Final = frozenset(f"create-{kind}" for kind in RELATIONS)
_MAY_DO_NOTHING: Final = frozenset({"alter-options", "alter-view", "alter-keyspace"})
"""Changes that may give an object what it has, as CREATE OR REPLACE may."""

# What a statement begins with when it leaves the schema alone.
_HARMLESS: Final = frozenset(
    {"select", "insert", "update", "delete", "begin", "use", "truncate", "list", "grant", "revoke", "describe", "desc"}
)


class SchemaObject(NamedTuple):
    """The object of a schema change; the name of a keyspace is ""."""

    kind: str
    keyspace: str
    name: str

    @property
    def key(self) -> str:
        """The object's name in verdicts: `keyspace` or `keyspace.name`."""
        return f"{self.keyspace}.{self.name}" if self.name else self.keyspace


def target(operation: PairedOperation) -> SchemaObject:
    """Return the object that a schema change of `schemaquake.harness.ddl.schema_changes` creates, changes or drops."""
    kind = _KIND_OF.get(operation.f) or operation.f.split("-", 1)[1]
    return SchemaObject(kind, operation.argument["keyspace"], operation.argument.get("name", ""))


def indexed_place(create: PairedOperation) -> tuple[str, str]:
    """Return the table and the column that a CREATE INDEX names."""
    return create.argument["table"], indexed_column(create.argument["column"])


def can_follow(later: PairedOperation, earlier: PairedOperation) -> bool:
    """Tell if `later` may have taken effect after `earlier`, by real time."""
    return not later.entirely_before(earlier)


def certainly_applied(operation: PairedOperation) -> bool:
    """Tell if an operation was acknowledged, and is known to be no no-op where it said IF [NOT] EXISTS."""
    answer = operation.value if isinstance(operation.value, dict) else {}
    return operation.acknowledged and (not _is_guarded(operation) or answer.get("applied") is True)


def surely_changed(operation: PairedOperation) -> bool:
    """Tell if a change was acknowledged and cannot have done nothing; with IF [NOT] EXISTS its coordinator may take another's for its own."""
    may_do_nothing = operation.f in _MAY_DO_NOTHING or _is_guarded(operation) or operation.argument.get("or_replace")
    return operation.acknowledged and operation.f in SCHEMA_CHANGES and not may_do_nothing


def _is_guarded(operation: PairedOperation) -> bool:
    return bool(operation.argument.get("if_not_exists") or operation.argument.get("if_exists"))


class SchemaChanges:
    """The possible schema changes of a history, by the object they are about."""

    functions: Final = SCHEMA_CHANGES | {"cql"}
    """The functions of operations that change the schema, or may."""

    def __init__(
        self, changes: Sequence[PairedOperation], *, mistakes_no_ops: Callable[[], bool] = lambda: False
    ) -> None:
        """Take the operations of these functions, in order of invocation.

        `mistakes_no_ops` tells if a coordinator compares its schema before and after a change of a log: where it was behind,
        it answers a no-op of IF [NOT] EXISTS as the change that another one had made.
        """
        self.all = changes
        """Every schema change as it was answered, failed ones too, in order of invocation."""
        self.possible: Sequence[PairedOperation] = [
            operation
            for operation in self.all
            if operation.f != "cql" and (operation.acknowledged or operation.type == "info")
        ]
        """Those that may have taken effect; whether it was this one is open where another may have come before it."""
        if (twins := _may_be_no_ops(self.possible)) and mistakes_no_ops():
            self.possible = [_left_open(one) if one.index in twins else one for one in self.possible]
        self.free_texts: Sequence[PairedOperation] = [
            operation for operation in self.all if operation.f == "cql" and _may_change(operation)
        ]
        """The possible statements in free text that may have changed the schema."""
        self._texts_of: dict[str, Sequence[PairedOperation]] = {}
        self._creates: dict[SchemaObject, Sequence[PairedOperation]] = {}
        self._drops: dict[SchemaObject, Sequence[PairedOperation]] = {}
        self._by_target: dict[SchemaObject, list[PairedOperation]] = {}
        for operation in self.possible:
            self._by_target.setdefault(target(operation), []).append(operation)

    @property
    def objects(self) -> Iterable[SchemaObject]:
        """Every object that a possible change is about, sorted."""
        return sorted(self._by_target)

    @property
    def acknowledged(self) -> bool:
        """True if any schema change at all, free text included, was acknowledged."""
        return any(operation.acknowledged for operation in (*self.possible, *self.free_texts))

    def on(self, subject: SchemaObject) -> Sequence[PairedOperation]:
        """Return the possible changes of this very object, in order of invocation."""
        return self._by_target.get(subject, ())

    def creates(self, subject: SchemaObject) -> Sequence[PairedOperation]:
        """Return the possible CREATEs of this object."""
        found = self._creates.get(subject)
        if found is None:
            found = self._creates[subject] = [one for one in self.on(subject) if one.f.startswith("create-")]
        return found

    def drops(self, subject: SchemaObject) -> Sequence[PairedOperation]:
        """Return the possible operations after which this object is gone: its own DROPs and those of its keyspace.

        For an index, the DROPs of every table that a possible CREATE put it on count, too.
        """
        known = self._drops.get(subject)
        if known is not None:
            return known
        subjects = [subject]
        if subject.kind != "keyspace":
            subjects.append(SchemaObject("keyspace", subject.keyspace, ""))
        if subject.kind == "index":
            tables = {operation.argument["table"] for operation in self.creates(subject)}
            subjects += [SchemaObject("table", subject.keyspace, table) for table in sorted(tables)]
        found = [operation for s in subjects for operation in self.on(s) if operation.f.startswith("drop-")]
        known = self._drops[subject] = [operation for operation in found if operation.f != "drop-column"]
        return known

    def names_of_column(self, table: SchemaObject, column: str) -> frozenset[str]:
        """Return the names that a column of a table may have, or ever have had, since it had this one: those of its possible renames."""
        names = {column}
        renames = [change for change in self.on(table) if change.f == "rename-column"]
        for _ in renames:
            names |= {change.argument["to"] for change in renames if change.argument["column"] in names}
        return frozenset(names)

    def texts(self, keyspace: str) -> Sequence[PairedOperation]:
        """Return the possible statements in free text that may have changed anything in this keyspace."""
        if keyspace not in self._texts_of:
            self._texts_of[keyspace] = [text for text in self.free_texts if _concerns(text, keyspace)]
        return self._texts_of[keyspace]

    def founds(self, keyspace: str) -> bool:
        """Check that an operation certainly created this keyspace, which no other one can have dropped before: nothing in it is older."""
        whole = SchemaObject("keyspace", keyspace, "")
        return any(
            certainly_applied(create) and all(create.entirely_before(drop) for drop in self.drops(whole))
            for create in self.creates(whole)
        )

    def failed(self, subject: SchemaObject) -> Iterator[PairedOperation]:
        """List the CREATEs of this object that certainly did nothing."""
        for operation in self.all:
            if operation.type == "fail" and operation.f == f"create-{subject.kind}" and target(operation) == subject:
                yield operation


def _may_be_no_ops(possible: Sequence[PairedOperation]) -> Collection[int]:
    """Collect the changes with IF [NOT] EXISTS (by index) that were answered as applied, and may have met one like them before."""
    alike: dict[tuple[str, ...], list[PairedOperation]] = {}
    for operation in possible:
        for likeness in _likenesses(operation):
            alike.setdefault(likeness, []).append(operation)
    return {
        operation.index
        for several in alike.values()
        for operation in several
        if _is_guarded(operation)
        and certainly_applied(operation)
        and any(other.index != operation.index and can_follow(operation, other) for other in several)
    }


def _likenesses(operation: PairedOperation) -> Iterator[tuple[str, ...]]:
    """Yield what a change does, in each way in which one that did the same leaves nothing to do.

    A CREATE of a view finds a table of its name there, and the other way round. One of an index finds another on its column, too.
    """
    _, keyspace, name = target(operation)
    yield "create-relation" if operation.f in _CREATES_RELATION else operation.f, keyspace, name
    if operation.f == "create-index":
        yield "index-column", keyspace, *indexed_place(operation)


def _left_open(operation: PairedOperation) -> PairedOperation:
    """Return a change without the answer that it was applied."""
    value = dict(operation.value)
    del value["applied"]
    return replace(operation, value=value)


def _may_change(operation: PairedOperation) -> bool:
    if not operation.possible:
        return False
    keywords = str(operation.argument["statement"]).split(None, 1)
    return not keywords or keywords[0].lower() not in _HARMLESS


def _concerns(operation: PairedOperation, keyspace: str) -> bool:
    """Tell if the statement may be about this keyspace: by its key, by no key at all, or by a word of its text."""
    named = keyspace_of(operation.key)
    if named is None or named == keyspace:
        return True
    # A name without quotes is the same in any case.
    return re.search(rf"\b{re.escape(keyspace)}\b", str(operation.argument["statement"]), re.IGNORECASE) is not None
