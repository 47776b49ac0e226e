"""Schema vocabulary: every name that the possible schema changes of a keyspace mention.

It says which variables the model of that keyspace has, which objects some change creates (the others may have been
there before the history began), and who refers to whom.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from schemaquake.checkers.ddl_order.variables import ABSENT, UNKNOWN, Value, Variable
from schemaquake.checkers.evidence.cql_types import canonical, user_types
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.harness.ddl.schema_changes import SCHEMA_CHANGES

__all__ = ["Vocabulary", "argument_types", "bare", "types_named", "vocabulary"]


@dataclass(slots=True)
class Vocabulary:
    """Every name that the possible changes of one keyspace mention, and which are created by one of them."""

    keyspace: str
    columns: dict[str, set[str]] = field(default_factory=dict)
    options: dict[str, set[str]] = field(default_factory=dict)
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

    def variables(self) -> Iterator[Variable]:
        """Every variable of the keyspace."""
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
        """Absent, if some possible change creates it; otherwise it may have been there before the history began."""
        whole = {"column": "relation", "option": "relation", "field": "type", "replication": "keyspace"}
        if Variable(whole.get(variable.kind, variable.kind), variable.keyspace, variable.name) in self.created:
            return ABSENT
        return UNKNOWN


def vocabulary(keyspace: str, changes: Iterable[PairedOperation]) -> Vocabulary:
    """The names in these changes, which are all that may have happened in `keyspace`."""
    words = Vocabulary(keyspace)
    for operation in changes:
        kind = operation.f.partition("-")[2]
        if operation.f in SCHEMA_CHANGES:
            _learn(words, operation.f, kind, operation.argument)
    return words


def _learn(words: Vocabulary, f: str, kind: str, value: Mapping[str, Any]) -> None:
    k, name = words.keyspace, value.get("name", "")
    if f == "create-keyspace":
        words.created.add(Variable("keyspace", k))
    elif kind in {"table", "view", "column", "options"}:
        _learn_relation(words, f, name, value)
    elif kind in {"type", "field"}:
        words.types.add(name)
        if f == "create-type":
            words.created.add(Variable("type", k, name))
        declared = value.get("fields") or ([value["field"]] if f == "add-field" else [])
        for part, cql_type in declared:
            words.fields.setdefault(name, set()).add(part)
            _learn_type(words, Variable("field", k, name, part), cql_type)
        if f == "rename-field":
            words.fields.setdefault(name, set()).update((value["field"], value["to"]))
    elif kind in {"function", "aggregate"}:
        _learn_routine(words, f, name, value)
    elif kind == "index":
        on = words.indexes.setdefault(name, set())
        if f == "create-index":
            words.created.add(Variable("index", k, name))
            on.add(value["table"])
            words.relations.add(value["table"])
            words.columns.setdefault(value["table"], set()).add(value["column"])


def _learn_relation(words: Vocabulary, f: str, name: str, value: Mapping[str, Any]) -> None:
    k = words.keyspace
    words.relations.add(name)
    columns = words.columns.setdefault(name, set())
    words.options.setdefault(name, set()).update(value.get("options") or ())
    if f in {"create-table", "create-view"}:
        words.created.add(Variable("relation", k, name))
    if f == "create-view":
        words.views.setdefault(name, set()).add(value["base"])
        words.relations.add(value["base"])
        words.columns.setdefault(value["base"], set()).update(value["primary_key"])
    declared = value.get("columns") or ([value["column"]] if f == "add-column" else [])
    for part, cql_type, *_ in declared:
        columns.add(part)
        _learn_type(words, Variable("column", k, name, part), cql_type)
    if f == "drop-column":
        columns.add(value["column"])
    if f == "rename-column":
        columns.update((value["column"], value["to"]))


def _learn_routine(words: Vocabulary, f: str, name: str, value: Mapping[str, Any]) -> None:
    k = words.keyspace
    overloads = words.routines.setdefault(name, set())
    if not f.startswith("create-"):
        return
    words.created.add(Variable("routine", k, name))
    arguments = argument_types(value)
    overloads.add(", ".join(map(canonical, arguments)))
    named = [*arguments, value.get("returns") or "", value.get("state_type") or ""]
    for cql_type in named:
        for used in types_named(cql_type, k):
            words.uses.setdefault(used, set()).add(Variable("routine", k, name))
    for function in (value.get("state_function"), value.get("final_function")):
        if function is not None:
            words.callers.setdefault(bare(function), set()).add(name)


def _learn_type(words: Vocabulary, variable: Variable, cql_type: str) -> None:
    words.written.setdefault(variable, set()).add(canonical(cql_type))
    for used in types_named(cql_type, words.keyspace):
        words.uses.setdefault(used, set()).add(variable)


def argument_types(value: Mapping[str, Any]) -> list[str]:
    """The types of the arguments of a function, [name, type] each, or of an aggregate, a type each."""
    return [argument if isinstance(argument, str) else argument[1] for argument in value["arguments"]]


def types_named(cql_type: str, keyspace: str) -> set[str]:
    """The user-defined types of `keyspace` that a type's text names."""
    return {name for where, name in user_types(cql_type, keyspace=keyspace) if where == keyspace}


def bare(function: str) -> str:
    """A function's name without its keyspace and arguments."""
    return function.rpartition(".")[2].partition("(")[0]
