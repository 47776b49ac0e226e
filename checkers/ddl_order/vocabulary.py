"""Schema vocabulary: every name that the possible schema changes of a keyspace mention.

The variables of the keyspace's model, the objects that some change creates (the others may have been there before the
history began), and the references between them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from schemaquake.checkers.ddl_order.variables import ABSENT, UNKNOWN, Value, Variable
from schemaquake.checkers.evidence.cql_types import canonical, user_types
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.evidence.schema_changes import can_follow, certainly_applied
from schemaquake.harness.ddl.cql import indexed_column
from schemaquake.harness.ddl.schema_changes import SCHEMA_CHANGES

__all__ = ["Vocabulary", "argument_types", "bare", "read_vocabulary", "types_named"]


@dataclass(slots=True)
class Vocabulary:
    """Every name that the possible changes of one keyspace mention; `created` are those that one of them may have created."""

    keyspace: str
    columns: dict[str, set[str]] = field(default_factory=dict)
    options: dict[str, set[str]] = field(default_factory=dict)
    statics: dict[str, set[str]] = field(default_factory=dict)
    """For each table, the columns that some change declares as static."""
    renames: dict[str, set[tuple[str, str]]] = field(default_factory=dict)
    """For each table, (old, new) names of columns."""
    fields: dict[str, set[str]] = field(default_factory=dict)
    indexes: dict[str, set[str]] = field(default_factory=dict)
    """Tables on which an index of that name may be."""
    views: dict[str, set[str]] = field(default_factory=dict)
    """Base tables of a view of that name."""
    routines: dict[str, set[str]] = field(default_factory=dict)
    """Argument types of the functions and aggregates of that name: more than one is an overload."""
    relations: set[str] = field(default_factory=set)
    types: set[str] = field(default_factory=set)
    created: set[Variable] = field(default_factory=set)
    uses: dict[str, set[Variable]] = field(default_factory=dict)
    """For each type, the columns, fields and routines that may name it."""
    callers: dict[str, set[str]] = field(default_factory=dict)
    """For each function, the aggregates that may call it."""
    written: dict[Variable, set[str]] = field(default_factory=dict)
    """For each column and field, the types that statements gave it, in one spelling."""
    is_new: bool = False
    """True if the keyspace certainly was not there when the history began, so that nothing in it is older."""

    def variables(self) -> Iterator[Variable]:
        """List every variable of the keyspace."""
        k = self.keyspace
        yield Variable("keyspace", k)
        yield Variable("replication", k)
        for name in self.relations:
            yield Variable("relation", k, name)
            yield from (Variable("column", k, name, column) for column in self.columns.get(name, ()))
            yield from (Variable("option", k, name, option) for option in self.options.get(name, ()))
        for name in self.types:
            yield Variable("type", k, name)
            yield from (Variable("field", k, name, part) for part in self.fields.get(name, ()))
        yield from (Variable("routine", k, name) for name in self.routines)
        yield from (Variable("index", k, name) for name in self.indexes)

    def initial(self, variable: Variable) -> Value:
        """Return a variable's first value: absent if some possible change creates it or its new keyspace, else unknown."""
        if self.is_new:
            return ABSENT
        whole = {"column": "relation", "option": "relation", "field": "type", "replication": "keyspace"}
        if Variable(whole.get(variable.kind, variable.kind), variable.keyspace, variable.name) in self.created:
            return ABSENT
        return UNKNOWN


def read_vocabulary(keyspace: str, changes: Collection[PairedOperation], *, is_known: bool = False) -> Vocabulary:
    """Collect the names in these changes; `is_known` if nothing else may have happened in `keyspace`."""
    vocabulary = Vocabulary(keyspace, is_new=is_known and _is_created(changes))
    for operation in changes:
        kind = operation.f.partition("-")[2]
        if operation.f in SCHEMA_CHANGES:
            before = frozenset(vocabulary.created)
            _learn(vocabulary, operation.f, kind, operation.argument)
            if operation.type == "ok" and not operation.acknowledged:  # a no-op created nothing
                vocabulary.created &= before
    return vocabulary


def _is_created(changes: Collection[PairedOperation]) -> bool:
    """Tell if the keyspace came into being by one of these changes: no possible DROP of it came before its CREATE."""
    drops = [operation for operation in changes if operation.f == "drop-keyspace" and operation.possible]
    return any(
        operation.f == "create-keyspace"
        and certainly_applied(operation)
        and not any(can_follow(operation, drop) for drop in drops)
        for operation in changes
    )


def _learn(vocabulary: Vocabulary, f: str, kind: str, value: Mapping[str, Any]) -> None:
    k, name = vocabulary.keyspace, value.get("name", "")
    if f == "create-keyspace":
        vocabulary.created.add(Variable("keyspace", k))
    elif kind in {"table", "view", "column", "options"}:
        _learn_relation(vocabulary, f, name, value)
    elif kind in {"type", "field"}:
        vocabulary.types.add(name)
        if f == "create-type":
            vocabulary.created.add(Variable("type", k, name))
        declared = value.get("fields") or ([value["field"]] if f == "add-field" else [])
        for part, cql_type in declared:
            vocabulary.fields.setdefault(name, set()).add(part)
            _learn_type(vocabulary, Variable("field", k, name, part), cql_type)
        if f == "rename-field":
            vocabulary.fields.setdefault(name, set()).update((value["field"], value["to"]))
    elif kind in {"function", "aggregate"}:
        _learn_routine(vocabulary, f, name, value)
    elif kind == "index":
        on = vocabulary.indexes.setdefault(name, set())
        if f == "create-index":
            vocabulary.created.add(Variable("index", k, name))
            on.add(value["table"])
            vocabulary.relations.add(value["table"])
            vocabulary.columns.setdefault(value["table"], set()).add(indexed_column(value["column"]))


def _learn_relation(vocabulary: Vocabulary, f: str, name: str, value: Mapping[str, Any]) -> None:
    k = vocabulary.keyspace
    vocabulary.relations.add(name)
    columns = vocabulary.columns.setdefault(name, set())
    vocabulary.options.setdefault(name, set()).update(value.get("options") or ())
    if f in {"create-table", "create-view"}:
        vocabulary.created.add(Variable("relation", k, name))
    if f == "create-view":
        vocabulary.views.setdefault(name, set()).add(value["base"])
        vocabulary.relations.add(value["base"])
        vocabulary.columns.setdefault(value["base"], set()).update(value["primary_key"])
    declared = value.get("columns") or ([value["column"]] if f == "add-column" else [])
    for part, cql_type, *kind in declared:
        columns.add(part)
        if "static" in kind or value.get("static") or cql_type.lower().endswith(" static"):
            vocabulary.statics.setdefault(name, set()).add(part)
        _learn_type(vocabulary, Variable("column", k, name, part), cql_type)
    if f == "drop-column":
        columns.add(value["column"])
    if f == "rename-column":
        columns.update((value["column"], value["to"]))
        vocabulary.renames.setdefault(name, set()).add((value["column"], value["to"]))


def _learn_routine(vocabulary: Vocabulary, f: str, name: str, value: Mapping[str, Any]) -> None:
    k = vocabulary.keyspace
    overloads = vocabulary.routines.setdefault(name, set())
    if not f.startswith("create-"):
        return
    vocabulary.created.add(Variable("routine", k, name))
    arguments = argument_types(value)
    overloads.add(", ".join(map(canonical, arguments)))
    named = [*arguments, value.get("returns") or "", value.get("state_type") or ""]
    for cql_type in named:
        for used in types_named(cql_type, k):
            vocabulary.uses.setdefault(used, set()).add(Variable("routine", k, name))
    for function in (value.get("state_function"), value.get("final_function")):
        if function is not None:
            vocabulary.callers.setdefault(bare(function), set()).add(name)


def _learn_type(vocabulary: Vocabulary, variable: Variable, cql_type: str) -> None:
    vocabulary.written.setdefault(variable, set()).add(canonical(cql_type))
    for used in types_named(cql_type, vocabulary.keyspace):
        vocabulary.uses.setdefault(used, set()).add(variable)


def argument_types(value: Mapping[str, Any]) -> list[str]:
    """Return the argument types of a function, whose arguments are [name, type], or of an aggregate, whose are types."""
    return [argument if isinstance(argument, str) else argument[1] for argument in value["arguments"]]


def types_named(cql_type: str, keyspace: str) -> set[str]:
    """Find the user-defined types of `keyspace` that a type's text names."""
    return {name for where, name in user_types(cql_type, keyspace=keyspace) if where == keyspace}


def bare(function: str) -> str:
    """Strip keyspace and arguments off a function's name."""
    return function.rpartition(".")[2].partition("(")[0]
