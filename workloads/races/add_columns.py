"""Racing ALTER TABLE ADD and DROP: every coordinator adds columns of its own to one table, and drops one.

- `columns`: each side adds three int columns and (from 2.0 on) drops one that only it touches
- `collections`: each side adds three list<int> columns (from 1.2 on)

"Executing lots of schema alters concurrently can lead to dropped alters" (CASSANDRA-10250; scylladb #1207, #10655):
added columns missing, dropped ones back. 1.2–2.2 keep the types of collections in one cell of the table, so one of two
added at once is forgotten ("comparators do not match", and no change of that table ever after). Up to 1.1 a client reads
a table's whole definition and sends it back with its own column, so the younger takes the older one's back; up to 1.0
the second migration is refused or forks the schema besides (seed document 1). Fixed by CEP-21 (CASSANDRA-18330).

Must hold: every acknowledged column is there on every node with its rows, and every dropped one is gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from schemaquake.harness.ddl.schema_changes import add_column, drop_column
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.protocols import Context
from schemaquake.harness.model.steps import Invoke
from schemaquake.workloads.races.engine import (
    HARMLESS,
    POISONS,
    WHILE_RACING,
    Race,
    RacingWorkload,
    RowProbe,
    race_keyspace,
    racers_max,
    take_turns,
)
from schemaquake.workloads.races.plain_table import plain_table

__all__ = ["AddColumns"]

_COLUMNS_A_SIDE = 3


class AddColumns(RacingWorkload):
    """ALTER TABLE ADD from every node at once, each of different columns."""

    def __init__(self) -> None:
        super().__init__(name="add-columns", requires=frozenset({"keyspaces", "tables", "columns"}), race=_race)


def _race(number: int, _random: Random, context: Context) -> Race:
    keyspace = race_keyspace(context, "add-columns", number)
    racers = range(racers_max(context))
    turns = [("columns", ("int", "column-drops" in context.features))]
    if "collections" in context.features:
        turns.append(("collections", ("list<int>", False)))
    variant, (cql_type, drops) = take_turns(number, context, turns)
    doomed = [f"d{side}" for side in racers] if drops else []
    added = [[f"c{side}_{n}" for n in range(_COLUMNS_A_SIDE)] for side in racers]
    return Race(
        workload="add-columns",
        variant=variant,
        number=number,
        keyspace=keyspace,
        setup=(plain_table(keyspace, "t", *((column, "int") for column in doomed)),),
        sides=tuple(_alters(keyspace, added[side], cql_type, doomed[side : side + 1]) for side in racers),
        tables=(
            RowProbe(table="t"),
            *(
                RowProbe(table="t", row=((column, _cell(cql_type, side)),), phases=WHILE_RACING, side=side)
                for side in racers
                for column in added[side]
            ),
        ),
        # Collections share one cell of the table's row up to 2.2, before there were views.
        disturbance=POISONS if variant == "collections" and "views" not in context.features else HARMLESS,
    )


def _alters(keyspace: str, added: Sequence[str], cql_type: str, doomed: Sequence[str]) -> tuple[Invoke, ...]:
    """Return one side's alterations, with its drop between its adds, so that both race with a neighbour."""
    first, *others = (add_column(keyspace, "t", column, cql_type) for column in added)
    return (first, *(drop_column(keyspace, "t", column) for column in doomed), *others)


def _cell(cql_type: str, side: int) -> JSON:
    """Return a value that identifies the column it was written to."""
    return side if cql_type == "int" else [side, side]
