"""Possible parts: the definitions that each part of an object can have after the changes that may have happened.

A part is a column, a field, an option, or the whole of a function, an aggregate, an index, a view or a replication. Every possible
change that sets it is a write. A write is superseded if a change that certainly took effect after it set the same part,
or created or dropped the whole object; any other write may be the last one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.evidence.schema_changes import SchemaChanges, SchemaObject, certainly_applied, target
from schemaquake.harness.model.operation import JSON

__all__ = ["ABSENT", "DEFAULT", "Part", "PossibleParts", "PossibleValue", "RenamedFrom", "list_possible_parts"]

ABSENT: Final = "absent"
"""The value that a change gives a column or field which is not there after it."""
DEFAULT: Final = {"default": True}
"""The value of an option that a CREATE TABLE does not name."""
_WHOLE: Final = "whole"


class Part(NamedTuple):
    """One part of an object: `aspect` is column, field, option or whole; `name` is that of the column, field or option, else ""."""

    subject: SchemaObject
    aspect: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class RenamedFrom:
    """The value of a column or field that got its name by a rename: the one that the part had under its old name."""

    part: Part


@dataclass(frozen=True, slots=True)
class PossibleValue:
    """One value of a part, and the change that gives it.

    `origin` is the change that made the part, and the name that it had then: those of this value, unless it was renamed.
    """

    operation: PairedOperation
    value: Any
    origin: tuple[PairedOperation, str]


@dataclass(slots=True)
class _Life:
    """The possible changes of one object as a whole; `settled` is the latest begin (ns) of a certain CREATE or DROP of it.

    `tables` has, for an index that may be on several tables, the same of each of them: its DROP takes only an index of its own along.
    """

    creates: list[PairedOperation] = field(default_factory=list)
    settled: int = -1
    tables: dict[str, int] = field(default_factory=dict)

    def settled_after(self, operation: PairedOperation) -> int:
        """Return the latest begin (ns) of a certain change after which what `operation` made is not there; -1: none."""
        return max(self.settled, self.tables.get(operation.argument.get("table", ""), -1))


class PossibleParts:
    """The possible values of every part of every object that the history's changes created."""

    def __init__(self, changes: SchemaChanges) -> None:
        """Collect the writes of every part."""
        self._changes = changes
        self._writes: dict[Part, list[PossibleValue]] = {}
        self._names: dict[tuple[SchemaObject, str], set[str]] = {}
        self._lives: dict[SchemaObject, _Life] = {}
        for operation in changes.possible:
            for part, value in _written(operation):
                self._writes.setdefault(part, []).append(PossibleValue(operation, value, (operation, part.name)))
                self._names.setdefault((part.subject, part.aspect), set()).add(part.name)
        for subject in changes.objects:
            life = self._lives[subject] = _Life(list(changes.creates(subject)))
            for create in life.creates:
                self._leave_out(create, subject)
            for end in filter(certainly_applied, (*life.creates, *changes.drops(subject))):
                if subject.kind == "index" and end.f == "drop-table":
                    table = end.argument["name"]
                    life.tables[table] = max(end.invoked, life.tables.get(table, -1))
                else:
                    life.settled = max(end.invoked, life.settled)

    def _leave_out(self, create: PairedOperation, subject: SchemaObject) -> None:
        """Add that a CREATE makes its object without the columns, fields and options that only other changes name."""
        declared = {part for part, _ in _written(create)}
        for aspect, value in (("column", ABSENT), ("field", ABSENT), ("option", DEFAULT)):
            for name in self.names(subject, aspect):
                part = Part(subject, aspect, name)
                if part not in declared:
                    self._writes.setdefault(part, []).append(PossibleValue(create, value, (create, name)))

    def without(self, subjects: Collection[SchemaObject]) -> PossibleParts:
        """Return the same, but with these objects as unknown ones (`is_known`)."""
        left = copy(self)
        left._lives = {subject: life for subject, life in self._lives.items() if subject not in subjects}  # noqa: SLF001 - its own
        return left

    def is_known(self, subject: SchemaObject) -> bool:
        """Tell if everything that this object may contain was asked for in the history: it, or its keyspace, was created in it.

        A statement in free text may have done anything.
        """
        life = self._lives.get(subject)
        if life is None or not life.creates or self._changes.texts(subject.keyspace):
            return False
        keyspace = self._lives.get(SchemaObject("keyspace", subject.keyspace, ""))
        births = (*life.creates, *(keyspace.creates if keyspace is not None else ()))
        return any(certainly_applied(create) for create in births)

    def may_exist(self, subject: SchemaObject) -> bool:
        """Tell if the object can be there in the end: a CREATE of it may have come after everything that certainly removed it."""
        life = self._lives.get(subject)
        return life is None or any(not _before(create, life.settled_after(create)) for create in life.creates)

    def was_there(self, create: PairedOperation) -> bool:
        """Tell if the object of a CREATE certainly was there all the time: acknowledged before it, and nothing possible removed it since."""
        subject = target(create)
        ended = create.invoked if create.completed is None else create.completed
        removals = self._changes.drops(subject)
        return any(
            certainly_applied(other)
            and _before(other, create.invoked)
            and all(_before(removal, other.invoked) or removal.invoked > ended for removal in removals)
            for other in self._changes.creates(subject)
            if other.index != create.index
        )

    def values(self, part: Part) -> Sequence[PossibleValue]:
        """Return the values that the part can have, without those that are superseded; renames are followed."""
        writes = self._writes.get(part)
        if not writes:
            return ()
        certain = (write.operation.invoked for write in writes if certainly_applied(write.operation))
        life = self._lives.get(part.subject)
        written = max(certain, default=-1)
        left = (
            write
            for write in writes
            if not _before(write.operation, max(written, -1 if life is None else life.settled_after(write.operation)))
        )
        # The part itself may be come to again: a name that was given away and got back has what it had before.
        return list(self._followed(left, set()))

    def all_values(self, part: Part) -> Sequence[PossibleValue]:
        """Return every value that the part may ever have had; renames are followed."""
        return list(self._followed(self._writes.get(part, ()), {part}))

    def values_by(self, part: Part, time: int) -> Sequence[PossibleValue]:
        """Return every value that changes begun by a time (ns) may ever have given the part; renames are followed."""
        return list(self._followed(self._writes[part], set(), until=time)) if part in self._writes else ()

    def names(self, subject: SchemaObject, aspect: str) -> frozenset[str]:
        """Return the names of the parts of an object that any possible change sets."""
        return frozenset(self._names.get((subject, aspect), ()))

    def _followed(
        self, writes: Iterable[PossibleValue], seen: set[Part], *, until: int | None = None
    ) -> Iterator[PossibleValue]:
        for write in writes:
            if until is not None and write.operation.invoked > until:
                continue
            if not isinstance(write.value, RenamedFrom):
                yield write
            elif write.value.part not in seen:
                # The old name may have had any of its values when it was renamed.
                known = self._writes.get(write.value.part, ())
                old = self._followed(known, seen | {write.value.part}, until=until)
                yield from (replace(one, operation=write.operation) for one in old if one.value != ABSENT)

    def operations(self, subject: SchemaObject) -> Sequence[PairedOperation]:
        """Return the possible changes of this object that set anything of it."""
        return self._changes.on(subject)


def list_possible_parts(case: Evidence) -> PossibleParts:
    """List the possible values of every part (`Evidence.derive`)."""
    return PossibleParts(case.changes)


def _before(operation: PairedOperation, time: int) -> bool:
    """Tell if an operation had certainly ended before that time (ns)."""
    return operation.type != "info" and operation.completed is not None and operation.completed < time


def _written(operation: PairedOperation) -> Iterator[tuple[Part, JSON | RenamedFrom]]:
    """List the parts that one change sets, with their values."""
    subject, argument = target(operation), operation.argument
    match operation.f:
        case "create-table":
            yield from ((Part(subject, "column", name), value) for name, value in _columns(argument["columns"]))
            yield from _options(subject, argument.get("options") or {})
        case "alter-options" | "alter-view":
            yield from _options(subject, argument["options"])
        case "add-column":
            name, cql_type = argument["column"]
            in_type = cql_type.lower().endswith(" static")
            text = cql_type[: -len(" static")] if in_type else cql_type
            kind = "static" if in_type or argument.get("static") else "regular"
            column = {"type": text, "kind": kind, "position": -1}
            yield Part(subject, "column", name), column
        case "drop-column":
            yield Part(subject, "column", argument["column"]), ABSENT
        case "create-type":
            yield from ((Part(subject, "field", name), {"type": cql_type}) for name, cql_type in argument["fields"])
        case "add-field":
            yield Part(subject, "field", argument["field"][0]), {"type": argument["field"][1]}
        case "rename-column" | "rename-field":
            aspect = operation.f.removeprefix("rename-")
            old = Part(subject, aspect, argument[aspect])
            yield old, ABSENT
            yield Part(subject, aspect, argument["to"]), RenamedFrom(old)
        case "create-keyspace" | "alter-keyspace":
            yield Part(subject, _WHOLE), {"replication": argument["replication"]}
        case "create-function" | "create-aggregate" | "create-index" | "create-view":
            yield Part(subject, _WHOLE), {key: v for key, v in argument.items() if key not in _NAMES}


def _options(subject: SchemaObject, options: Mapping[str, JSON]) -> Iterator[tuple[Part, JSON]]:
    return ((Part(subject, "option", name.lower()), value) for name, value in options.items())


_NAMES: Final = frozenset({"keyspace", "name", "if_not_exists", "or_replace"})


def _columns(declared: Iterable[Sequence[str]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    positions = {"partition_key": 0, "clustering": 0}
    for name, cql_type, kind in declared:
        column: dict[str, Any] = {"type": cql_type, "kind": kind, "position": positions.get(kind, -1)}
        if kind == "clustering":
            column["order"] = "asc"
        if kind in positions:
            positions[kind] += 1
        yield name, column
