"""Mending: the changes that bring a keyspace to the intended schema, whatever the order in which the statements of a round took effect.

Statements that exclude each other leave one schema or another behind, and the steps of a workload cannot know which. Every
object that is there after some order of them and not after the drawn one is dropped, and the other way round; what is not needed is refused.
Without that, most statements that follow would be about objects that are not there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations
from typing import Any, Final

from schemaquake.harness.ddl.schema_changes import (
    add_column,
    drop_aggregate,
    drop_column,
    drop_function,
    drop_index,
    drop_keyspace,
    drop_table,
    drop_type,
    drop_view,
    rename_column,
)
from schemaquake.harness.model.steps import Invoke
from schemaquake.workloads.churn.intended import IntendedKeyspace

__all__ = ["take_in_order"]

_KINDS: Final = ("keyspace", "type", "table", "column", "function", "aggregate", "index", "view")
"""Kinds of objects in the order in which they can be created."""
_DROPS: Final[Mapping[str, Any]] = {
    "type": drop_type,
    "table": drop_table,
    "function": drop_function,
    "aggregate": drop_aggregate,
    "index": drop_index,
    "view": drop_view,
}
_ORDERS_MOST: Final = 24


def take_in_order(
    changes: Sequence[Invoke],
    state: IntendedKeyspace,
    *,
    features: frozenset[str],
    replication_factor: int,
    renames: bool = False,
) -> tuple[IntendedKeyspace, tuple[Invoke, ...]]:
    """Return the keyspace after the changes in this order, and what leads to it from the outcome of any other order.

    With `renames` key columns get the names that they are to have, too.
    """
    intended = _after(changes, state)
    wanted = _contents(intended)
    outcomes = [_after(order, state) for order, _ in zip(permutations(changes), range(_ORDERS_MOST), strict=False)]
    others = [_contents(outcome) for outcome in outcomes]
    lacking = {each for other in others for each in wanted - other}
    superfluous = {each for other in others for each in other - wanted}
    if "column-drops" not in features:
        superfluous = {each for each in superfluous if each[0] != "column"}
    renamed = dict.fromkeys(each for outcome in outcomes for each in _renames(outcome, intended)) if renames else {}
    return intended, (
        *_drops(superfluous, state.name),
        *(rename_column(state.name, *each) for each in renamed),
        *_creations(lacking, intended, replication_factor),
    )


def _after(changes: Sequence[Invoke], state: IntendedKeyspace) -> IntendedKeyspace:
    after = state.copied()
    for change in changes:
        after.apply(change)
    return after


def _contents(state: IntendedKeyspace) -> set[tuple[str, tuple[str, ...]]]:
    """Return every object as (kind, names): its own, then those of the objects that it lies in."""
    return {(kind, tuple(each.values())) for kind in _KINDS for each in state.objects(kind)}


def _renames(outcome: IntendedKeyspace, intended: IntendedKeyspace) -> Iterator[tuple[str, str, str]]:
    """Yield (table, name, new name) of key columns that have another name after this outcome."""
    for name, table in intended.tables.items():
        others = outcome.tables[name].clustering if name in outcome.tables else ()
        if len(others) == len(table.clustering):
            yield from ((name, old, new) for old, new in zip(others, table.clustering, strict=True) if old != new)


def _drops(superfluous: set[tuple[str, tuple[str, ...]]], keyspace: str) -> Iterator[Invoke]:
    for kind in reversed(_KINDS):
        for name, *inside in sorted(names for found, names in superfluous if found == kind):
            if kind == "keyspace":
                yield drop_keyspace(keyspace)
            elif kind == "column":
                yield drop_column(keyspace, inside[0], name)
            else:
                yield _DROPS[kind](keyspace, name)


def _creations(
    lacking: set[tuple[str, tuple[str, ...]]], intended: IntendedKeyspace, replication_factor: int
) -> Iterator[Invoke]:
    """Yield the statements that create what may be lacking, with what the intended schema has in it."""
    tables = {names[0] for kind, names in lacking if kind == "table"}
    whole = {(kind, names[0]) for kind, names in lacking if kind != "column"}
    for change in intended.definitions(replication_factor):
        kind = change.f.removeprefix("create-")
        name = intended.name if kind == "keyspace" else change.value["name"]
        if (kind, name) in whole or (change.f == "add-column" and name in tables):
            yield change
    for column, table in sorted(names for kind, names in lacking if kind == "column"):
        if table not in tables:
            cql_type, _, kind = intended.tables[table].columns[column].partition(" ")
            yield add_column(intended.name, table, column, cql_type, static=kind == "static")
