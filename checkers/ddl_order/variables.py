"""Schema variables: the single facts of a keyspace's schema, and conditions and effects on them.

A table, a column of it, an option, a type, a field …: each is one `Variable` with one value at a time. What a schema
change needs and does (`schemaquake.checkers.ddl_order.model`), and what a node shows (`schemaquake.checkers.ddl_order.observation`), are guards and effects
on single variables, so that objects which have nothing to do with one another can be judged apart.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from schemaquake.harness.ddl.schema_changes import NAMESPACES

__all__ = [
    "ABSENT",
    "OBJECT_KINDS",
    "RENAMED",
    "UNKNOWN",
    "UNSET",
    "Alternative",
    "Change",
    "ColumnValue",
    "Effect",
    "Guard",
    "Value",
    "Variable",
    "becomes",
    "describe",
    "exists",
    "is_a",
    "is_no",
    "lacks",
    "title",
]

Value: TypeAlias = Hashable
ABSENT: Final = "absent"
UNKNOWN: Final = "unknown"
"""The value of an object that no change creates: it may have been there before the history began."""
UNSET: Final = "unset"
"""The value of an option or a replication factor that no statement of the history has set."""
RENAMED: Final = "renamed"
"""The value of a field that got its name by RENAME: its type is not followed."""
OBJECT_KINDS: Final[Mapping[str, str]] = {"keyspace": "keyspace", **NAMESPACES}
"""Kind of object → kind of the variable that says whether the object is there."""


class Variable(NamedTuple):
    """One fact about a keyspace. `kind`: keyspace, replication, relation, column, option, type, field, routine, index.

    Tables and views share their names, and so do functions and aggregates. `part` is the column, option or field.
    """

    kind: str
    keyspace: str
    name: str = ""
    part: str = ""

    @property
    def object(self) -> str:
        """`keyspace` or `keyspace.name`, as anomalies name it."""
        return f"{self.keyspace}.{self.name}" if self.name else self.keyspace


class ColumnValue(NamedTuple):
    """A column as declared; null where a rename left it open."""

    type: str | None
    kind: str | None


@dataclass(frozen=True, slots=True)
class Guard:
    """A condition on one variable; `needs` is its text: "k.t does not exist"."""

    variable: Variable
    allows: Callable[[Value], bool]
    needs: str


@dataclass(frozen=True, slots=True)
class Effect:
    """A change of one variable: `becomes` maps its old value to the new one."""

    variable: Variable
    becomes: Callable[[Value], Value]


@dataclass(frozen=True, slots=True)
class Alternative:
    """One way in which a change can take place."""

    guards: tuple[Guard, ...] = ()
    effects: tuple[Effect, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A schema change, or a reading, as the model sees it; the interval is that of its operation.

    `required`: it certainly took place. `stale`: it only reported what its coordinator knew, which may have been old.
    """

    required: bool
    alternatives: tuple[Alternative, ...]
    stale: bool = False


def becomes(variable: Variable, value: Value) -> Effect:
    """Make the effect that gives a variable this value, whatever it was."""
    return Effect(variable, lambda _: value)


def exists(variable: Variable) -> Guard:
    """Make the guard that an object, column or field is there."""
    return Guard(variable, lambda held: held != ABSENT, f"{title(variable)} exists")


def lacks(variable: Variable) -> Guard:
    """Make the guard that an object, column or field is not there."""
    return Guard(variable, lambda held: held in (ABSENT, UNKNOWN), f"{title(variable)} does not exist")


def is_a(variable: Variable, kind: str) -> Guard:
    """Make the guard that a relation is a `table`, or a `view`."""
    return Guard(
        variable,
        lambda held: held == UNKNOWN or (isinstance(held, tuple) and held[0] == kind),
        f"{variable.object} is a {kind}",
    )


def is_no(variable: Variable, kind: str) -> Guard:
    """Make the guard that a relation is no `table`, or no `view`, or that a routine is no `function`, or no `aggregate`."""
    return Guard(
        variable,
        lambda held: not (isinstance(held, tuple) and held[0] == kind),
        f"{variable.object} is no {kind}",
    )


def title(variable: Variable) -> str:
    """Render a variable as the subject of a clause: "column c of k.t"."""
    return _TITLES.get(variable.kind, "{kind} {object}").format(
        kind=variable.kind, object=variable.object, part=variable.part, keyspace=variable.keyspace
    )


_TITLES: Final = {
    "replication": "the replication factor of {keyspace}",
    "relation": "table {object}",
    "routine": "function {object}",
    "column": "column {part} of {object}",
    "option": "option {part} of {object}",
    "field": "field {part} of type {object}",
}


def describe(variable: Variable, value: Value) -> str:
    """Render a variable's value as a clause: "table k.t does not exist", "column c of k.t is int"."""
    match value:
        case "unknown":
            return f"nothing is known of {title(variable)}"
        case ("view", base):
            return f"{variable.object} is a view of {variable.keyspace}.{base}"
        case ("function" | "aggregate" as kind, tuple() as used, tuple() as called):
            uses = ", ".join(f"{variable.keyspace}.{name}" for name in (*used, *called))
            return f"{kind} {variable.object} {f'uses {uses}' if uses else 'exists'}"
    return f"{title(variable)} {_predicate(variable, value)}"


def _predicate(variable: Variable, value: Value) -> str:
    match value:
        case "absent":
            predicate = "does not exist"
        case "unset":
            predicate = "has its default"
        case ColumnValue(str() as cql_type, kind):
            predicate = f"is {cql_type} ({kind})" if kind else f"is {cql_type}"
        case (str() as table, str() as column) if variable.kind == "index":
            predicate = f"is on column {column} of {variable.keyspace}.{table}"
        case str() if variable.kind in _RENDERED_KINDS and value != RENAMED:
            predicate = f"is {value}"
        case _:
            predicate = "exists"
    return predicate


_RENDERED_KINDS: Final = frozenset({"option", "replication", "field"})
