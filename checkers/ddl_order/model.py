"""Schema model: guards and effects of each schema change, as if changes happened one at a time.

Guards are what Cassandra's own validation promises: CREATE only what is absent, with the types, functions and base that
it names; DROP only what exists and nothing uses; ALTER only what is there. Where versions differ, the model allows what
any of them allows: dropping an indexed column takes the index along, as up to 2.2, although 3.0 and later refuse it. Servers
that are known to be of 4.0 or later keep a column that an index or any view of its table depends on, and ScyllaDB one that a
view has, its own one of an index included (`Dependents`).
Source: CEP-21, "Schema Management"; the validation in `cql3/statements/schema` of 2.1 to 6.0, and in ScyllaDB's `alter_table_statement`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, Literal, TypeAlias

import orjson

from schemaquake.checkers.ddl_order.variables import (
    ABSENT,
    OBJECT_KINDS,
    RENAMED,
    UNKNOWN,
    UNSET,
    Alternative,
    Change,
    ColumnValue,
    Effect,
    Guard,
    Value,
    Variable,
    becomes,
    exists,
    is_a,
    is_no,
    lacks,
    title,
)
from schemaquake.checkers.ddl_order.vocabulary import Vocabulary, argument_types, bare, types_named
from schemaquake.checkers.evidence.cql_types import canonical
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.harness.ddl.cql import indexed_column
from schemaquake.harness.model.operation import JSON

__all__ = ["Dependents", "model_change", "model_refusal"]

Dependents: TypeAlias = Literal["none", "of the table", "by views"]
"""What keeps a column from being dropped: nothing for certain; an index on it and any view of its table; a view that has it."""

_THERE: Final = re.compile(r"\balready exist", re.IGNORECASE)
"""The words of servers for a CREATE of what is there."""


def model_change(
    operation: PairedOperation,
    vocabulary: Vocabulary,
    *,
    follows_log: bool = False,
    is_fresh: bool = False,
    dependents: Dependents = "none",
) -> Change | None:
    """Model one possible schema change of the keyspace as guards and effects; None if it cannot have changed anything.

    An `ok` that was a no-op of IF [NOT] EXISTS proves only that its coordinator knew, or did not know, the object; on 6.0
    that comes from the coordinator's own, possibly stale metadata, so it may refer to any earlier moment, unless the
    coordinator asks the log first (`is_fresh`). Where the client could not tell a no-op from a change, the change is optional.

    Where a log decides (`follows_log`), a coordinator compares its schema before and after: it also says that it made a
    change if another one's came in between, and its own was the no-op. One that asks the log first says it of its own alone.
    """
    value = operation.argument
    conditional = bool(value.get("if_exists") or value.get("if_not_exists"))
    applied = operation.value.get("applied") if isinstance(operation.value, dict) else None
    if operation.type == "ok" and conditional and applied is False:
        ways = _ways_of_no_op(operation.f, value, vocabulary)
        return Change(required=True, alternatives=ways, stale=not is_fresh) if ways else None
    certain = operation.type == "ok" and (not conditional or applied is True)
    made = _MAKERS[operation.f](value, vocabulary)
    if dependents != "none" and operation.f == "drop-column":
        made = replace(
            made, guards=(*made.guards, *_depend_on_column(value, vocabulary, by_views=dependents == "by views"))
        )
    if not (certain and conditional and follows_log) or is_fresh:
        return Change(required=certain, alternatives=(made,))
    ways = _ways_of_no_op(operation.f, value, vocabulary) or (Alternative(),)
    return Change(required=True, alternatives=(made, *ways))


def model_refusal(operation: PairedOperation, vocabulary: Vocabulary) -> Change | None:
    """Model a CREATE that was refused because its object is there, which it was at some moment of the refusal; None for other failures."""
    if operation.type != "fail" or not operation.f.startswith("create-") or not _THERE.search(operation.error or ""):
        return None
    guard = _proof_of_no_op(operation.f, operation.argument, vocabulary)
    return None if guard is None else Change(required=True, alternatives=(Alternative((guard,)),))


def _ways_of_no_op(f: str, value: Mapping[str, Any], vocabulary: Vocabulary) -> tuple[Alternative, ...]:
    """List the ways in which IF [NOT] EXISTS may have left nothing to do; empty: not all of them are known.

    An index is not created either where another one is on its column, of whatever name; that may be older than the history.
    """
    if f != "create-index":
        guard = _proof_of_no_op(f, value, vocabulary)
        return () if guard is None else (Alternative((guard,)),)
    if not vocabulary.is_new:
        return ()
    k, name, table, column = vocabulary.keyspace, value["name"], value["table"], indexed_column(value["column"])
    others = [index for index, tables in sorted(vocabulary.indexes.items()) if index != name and table in tables]
    return (
        Alternative((exists(Variable("index", k, name)),)),
        *(
            Alternative(
                (
                    Guard(
                        Variable("index", k, index),
                        _is_one_of((table, column), UNKNOWN),
                        _on_column(index, k, table, column),
                    ),
                )
            )
            for index in others
        ),
    )


def _on_column(index: str, keyspace: str, table: str, column: str) -> str:
    return f"index {keyspace}.{index} is on column {column} of {keyspace}.{table}"


def _is_one_of(*wanted: Value) -> Callable[[Value], bool]:
    return lambda held: held in wanted


def _proof_of_no_op(f: str, value: Mapping[str, Any], vocabulary: Vocabulary) -> Guard | None:
    """Make the guard that a no-op proves; None for an index, which is not created either if another one has its column.

    Tables and views have names in common, and so have functions and aggregates: DROP … IF EXISTS of one kind leaves the other.
    """
    verb, _, kind = f.partition("-")
    if kind == "index" and verb == "create":
        return None
    variable = Variable(OBJECT_KINDS[kind], vocabulary.keyspace, value.get("name", ""))
    if verb == "create":
        return exists(variable)
    return is_no(variable, kind) if variable.kind in {"relation", "routine"} else lacks(variable)


def _create_keyspace(value: Mapping[str, Any], vocabulary: Vocabulary) -> Alternative:
    variable = Variable("keyspace", vocabulary.keyspace)
    return Alternative((lacks(variable),), (becomes(variable, "keyspace"), _replicate(value, vocabulary)))


def _alter_keyspace(value: Mapping[str, Any], vocabulary: Vocabulary) -> Alternative:
    return _on(Variable("keyspace", vocabulary.keyspace), effects=(_replicate(value, vocabulary),))


def _replicate(value: Mapping[str, Any], vocabulary: Vocabulary) -> Effect:
    factor = (value.get("replication") or {}).get("replication_factor")
    return becomes(Variable("replication", vocabulary.keyspace), UNSET if factor is None else str(factor))


def _drop_keyspace(_: Mapping[str, Any], vocabulary: Vocabulary) -> Alternative:
    return Alternative(
        (exists(Variable("keyspace", vocabulary.keyspace)),),
        tuple(becomes(variable, ABSENT) for variable in sorted(vocabulary.variables())),
    )


def _create_table(value: Mapping[str, Any], vocabulary: Vocabulary) -> Alternative:
    k, name = vocabulary.keyspace, value["name"]
    declared = {column: ColumnValue(canonical(cql_type), kind) for column, cql_type, kind in value["columns"]}
    given = value.get("options") or {}
    used = [used for _, cql_type, _ in value["columns"] for used in types_named(cql_type, k)]
    return Alternative(
        (*_in_keyspace(vocabulary), lacks(Variable("relation", k, name)), *_types_exist(used, vocabulary)),
        (
            becomes(Variable("relation", k, name), ("table",)),
            *(
                becomes(Variable("column", k, name, c), declared.get(c, ABSENT))
                for c in sorted(vocabulary.columns[name])
            ),
            *(
                becomes(Variable("option", k, name, o), _spelled(given[o]) if o in given else UNSET)
                for o in sorted(vocabulary.options[name])
            ),
        ),
    )


def _drop_relation(value: Mapping[str, Any], vocabulary: Vocabulary, *, kind: str) -> Alternative:
    k, name = vocabulary.keyspace, value["name"]
    relation = Variable("relation", k, name)
    guards = [is_a(relation, kind)]
    effects = [becomes(relation, ABSENT)]
    for parts, part_kind in ((vocabulary.columns, "column"), (vocabulary.options, "option")):
        effects += (becomes(Variable(part_kind, k, name, part), ABSENT) for part in sorted(parts.get(name, ())))
    if kind == "table":
        guards += _not_viewed(name, vocabulary)
        effects += (
            Effect(Variable("index", k, index), _unless(lambda old: isinstance(old, tuple) and old[0] == name))
            for index, tables in sorted(vocabulary.indexes.items())
            if name in tables
        )
    return Alternative(tuple(guards), tuple(effects))


def _create_view(value: Mapping[str, Any], vocabulary: Vocabulary) -> Alternative:
    k, name, base = vocabulary.keyspace, value["name"], value["base"]
    effects = [becomes(Variable("relation", k, name), ("view", base))]
    effects += (becomes(Variable("option", k, name, o), UNSET) for o in sorted(vocabulary.options.get(name, ())))
    return _on(
        Variable("relation", k, base),
        kind="table",
        guards=(
            lacks(Variable("relation", k, name)),
            *(exists(Variable("column", k, base, column)) for column in value["primary_key"]),
        ),
        effects=tuple(effects),
    )


def _add_column(value: Mapping[str, Any], vocabulary: Vocabulary) -> Alternative:
    k, name = vocabulary.keyspace, value["name"]
    part, cql_type = value["column"]
    column = Variable("column", k, name, part)
    return _on(
        Variable("relation", k, name),
        kind="table",
        guards=(lacks(column), *_types_exist(types_named(cql_type, k), vocabulary)),
        effects=(becomes(column, ColumnValue(canonical(cql_type), "static" if value.get("static") else None)),),
    )


def _drop_column(value: Mapping[str, Any], vocabulary: Vocabulary) -> Alternative:
    k, name = vocabulary.keyspace, value["name"]
    column = Variable("column", k, name, value["column"])
    return _on(
        Variable("relation", k, name),
        kind="table",
        guards=(exists(column),),
        effects=(
            becomes(column, ABSENT),
            *(
                Effect(Variable("index", k, index), _unless(lambda old: old == (name, value["column"])))
                for index, tables in sorted(vocabulary.indexes.items())
                if name in tables
            ),
        ),
    )


def _depend_on_column(value: Mapping[str, Any], vocabulary: Vocabulary, *, by_views: bool) -> Iterator[Guard]:
    """List guards that no index is on a column, and no view on its table.

    By views: that of an index on a part of a collection may not have the column, and no view has a static one.
    """
    k, name, column = vocabulary.keyspace, value["name"], value["column"]
    types = vocabulary.written.get(Variable("column", k, name, column), ())
    is_whole = not any(cql_type.startswith(_COLLECTIONS) for cql_type in types)
    for index, tables in sorted(vocabulary.indexes.items()):
        if name in tables and (is_whole or not by_views):
            text = f"index {k}.{index} is not on column {column} of {k}.{name}"
            yield Guard(Variable("index", k, index), _differs((name, column)), text)
    if not (by_views and column in vocabulary.statics.get(name, ())):
        yield from _not_viewed(name, vocabulary)


_COLLECTIONS: Final = ("list<", "map<", "set<")


def _not_viewed(table: str, vocabulary: Vocabulary) -> Iterator[Guard]:
    """List guards that no view is on a table."""
    k = vocabulary.keyspace
    for view, bases in sorted(vocabulary.views.items()):
        if table in bases:
            yield Guard(
                Variable("relation", k, view), _differs(("view", table)), f"{k}.{view} is not a view of {k}.{table}"
            )


def _rename(value: Mapping[str, Any], vocabulary: Vocabulary, *, owner: str, part: str, renamed: Value) -> Alternative:
    k, name = vocabulary.keyspace, value["name"]
    old, new = Variable(part, k, name, value[part]), Variable(part, k, name, value["to"])
    return _on(
        Variable(owner, k, name),
        kind="table" if owner == "relation" else None,
        guards=(exists(old), lacks(new)),
        effects=(becomes(old, ABSENT), becomes(new, renamed)),
    )


def _alter_options(value: Mapping[str, Any], vocabulary: Vocabulary, *, kind: str | None = None) -> Alternative:
    k, name = vocabulary.keyspace, value["name"]
    return _on(
        Variable("relation", k, name),
        kind=kind,
        effects=tuple(
            becomes(Variable("option", k, name, o), _spelled(v)) for o, v in sorted(value["options"].items())
        ),
    )


def _create_type(value: Mapping[str, Any], vocabulary: Vocabulary) -> Alternative:
    k, name = vocabulary.keyspace, value["name"]
    declared = {part: canonical(cql_type) for part, cql_type in value["fields"]}
    used = [used for _, cql_type in value["fields"] for used in types_named(cql_type, k)]
    return Alternative(
        (*_in_keyspace(vocabulary), lacks(Variable("type", k, name)), *_types_exist(used, vocabulary)),
        (
            becomes(Variable("type", k, name), "type"),
            *(
                becomes(Variable("field", k, name, f), declared.get(f, ABSENT))
                for f in sorted(vocabulary.fields.get(name, ()))
            ),
        ),
    )


def _add_field(value: Mapping[str, Any], vocabulary: Vocabulary) -> Alternative:
    k, name = vocabulary.keyspace, value["name"]
    part, cql_type = value["field"]
    added = Variable("field", k, name, part)
    return _on(
        Variable("type", k, name),
        guards=(lacks(added), *_types_exist(types_named(cql_type, k), vocabulary)),
        effects=(becomes(added, canonical(cql_type)),),
    )


def _drop_type(value: Mapping[str, Any], vocabulary: Vocabulary) -> Alternative:
    k, name = vocabulary.keyspace, value["name"]
    unused = (
        Guard(variable, _does_not_use(name, k), f"{title(variable)} does not use type {k}.{name}")
        for variable in sorted(vocabulary.uses.get(name, ()))
    )
    return _on(
        Variable("type", k, name),
        guards=tuple(unused),
        effects=(
            becomes(Variable("type", k, name), ABSENT),
            *(becomes(Variable("field", k, name, part), ABSENT) for part in sorted(vocabulary.fields.get(name, ()))),
        ),
    )


def _create_routine(value: Mapping[str, Any], vocabulary: Vocabulary, *, kind: str) -> Alternative:
    k, name = vocabulary.keyspace, value["name"]
    arguments = argument_types(value)
    named = [*arguments, value.get("returns") or "", value.get("state_type") or ""]
    used = sorted({used for cql_type in named for used in types_named(cql_type, k)})
    called = [bare(f) for f in (value.get("state_function"), value.get("final_function")) if f is not None]
    routine = Variable("routine", k, name)
    return Alternative(
        (
            *_in_keyspace(vocabulary),
            *(() if value.get("or_replace") else (lacks(routine),)),
            *_types_exist(used, vocabulary),
            *(exists(Variable("routine", k, function)) for function in called if function in vocabulary.routines),
        ),
        (becomes(routine, (kind, tuple(used), tuple(called))),),
    )


def _drop_routine(value: Mapping[str, Any], vocabulary: Vocabulary) -> Alternative:
    k, name = vocabulary.keyspace, value["name"]
    uncalled = (
        Guard(
            Variable("routine", k, aggregate),
            _does_not_call(name),
            f"aggregate {k}.{aggregate} does not use function {k}.{name}",
        )
        for aggregate in sorted(vocabulary.callers.get(name, ()))
    )
    return _on(
        Variable("routine", k, name),
        guards=tuple(uncalled),
        effects=(becomes(Variable("routine", k, name), ABSENT),),
    )


def _create_index(value: Mapping[str, Any], vocabulary: Vocabulary) -> Alternative:
    k, name, table = vocabulary.keyspace, value["name"], value["table"]
    index, column = Variable("index", k, name), indexed_column(value["column"])
    return _on(
        Variable("relation", k, table),
        kind="table",
        guards=(lacks(index), exists(Variable("column", k, table, column))),
        effects=(becomes(index, (table, column)),),
    )


def _drop_index(value: Mapping[str, Any], vocabulary: Vocabulary) -> Alternative:
    index = Variable("index", vocabulary.keyspace, value["name"])
    return Alternative((exists(index),), (becomes(index, ABSENT),))


_MAKERS: Final[Mapping[str, Callable[[Mapping[str, Any], Vocabulary], Alternative]]] = {
    "create-keyspace": _create_keyspace,
    "alter-keyspace": _alter_keyspace,
    "drop-keyspace": _drop_keyspace,
    "create-table": _create_table,
    "drop-table": lambda value, vocabulary: _drop_relation(value, vocabulary, kind="table"),
    "add-column": _add_column,
    "drop-column": _drop_column,
    "rename-column": lambda value, vocabulary: _rename(
        value, vocabulary, owner="relation", part="column", renamed=ColumnValue(None, None)
    ),
    "alter-options": _alter_options,
    "create-type": _create_type,
    "add-field": _add_field,
    "rename-field": lambda value, vocabulary: _rename(value, vocabulary, owner="type", part="field", renamed=RENAMED),
    "drop-type": _drop_type,
    "create-function": lambda value, vocabulary: _create_routine(value, vocabulary, kind="function"),
    "drop-function": _drop_routine,
    "create-aggregate": lambda value, vocabulary: _create_routine(value, vocabulary, kind="aggregate"),
    "drop-aggregate": _drop_routine,
    "create-view": _create_view,
    "alter-view": lambda value, vocabulary: _alter_options(value, vocabulary, kind="view"),
    "drop-view": lambda value, vocabulary: _drop_relation(value, vocabulary, kind="view"),
    "create-index": _create_index,
    "drop-index": _drop_index,
}


def _in_keyspace(vocabulary: Vocabulary) -> tuple[Guard]:
    return (exists(Variable("keyspace", vocabulary.keyspace)),)


def _types_exist(used: Iterable[str], vocabulary: Vocabulary) -> Iterator[Guard]:
    """List guards that these types exist; one that no change of the history names is not modelled."""
    return (
        exists(Variable("type", vocabulary.keyspace, name)) for name in sorted(set(used)) if name in vocabulary.types
    )


def _on(
    subject: Variable, *, kind: str | None = None, guards: tuple[Guard, ...] = (), effects: tuple[Effect, ...] = ()
) -> Alternative:
    """Model a change of an object that must exist; the change itself proves that it was there."""
    must = exists(subject) if kind is None else is_a(subject, kind)
    found: Value = {"relation": (kind or "table",), "routine": ("function", (), ())}.get(subject.kind, subject.kind)
    proof = Effect(subject, lambda old: found if old == UNKNOWN else old)
    written = {effect.variable for effect in effects}
    return Alternative((must, *guards), effects if subject in written else (proof, *effects))


def _unless(goes: Callable[[Value], bool]) -> Callable[[Value], Value]:
    return lambda old: ABSENT if goes(old) else old


def _differs(unwanted: Value) -> Callable[[Value], bool]:
    return lambda held: held != unwanted


def _does_not_call(function: str) -> Callable[[Value], bool]:
    def allows(held: Value) -> bool:
        match held:
            case (_, _, tuple() as called):
                return function not in called
        return True

    return allows


def _does_not_use(name: str, keyspace: str) -> Callable[[Value], bool]:
    def allows(held: Value) -> bool:
        match held:
            case ColumnValue(str() as cql_type, _):
                return name not in types_named(cql_type, keyspace)
            case (_, tuple() as used, _):
                return name not in used
            case str() as cql_type if cql_type not in (ABSENT, UNKNOWN, RENAMED):
                return name not in types_named(cql_type, keyspace)
        return True

    return allows


def _spelled(value: JSON) -> str:
    """Spell an option's value as JSON text, which can be compared and put into a state."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
