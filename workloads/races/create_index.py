"""Racing CREATE INDEX: one name for two indexes, and an index on a column that is being dropped.

- `name`: CREATE INDEX i ON t (a) / CREATE INDEX i ON t (b)
- `column`: ALTER TABLE t DROP c / CREATE INDEX i ON t (c) (where a column can be dropped: from 2.0 on)

Up to 5.0 both are acknowledged. The first leaves one index of the two, on the younger one's column. The second leaves
an index without its column: "Unable to parse targets for index i", and no node starts again. Fixed by CEP-21
(CASSANDRA-18330). Up to 2.2 an index is an attribute of its column, up to 1.1 part of the definition that a client reads
and sends back, and the younger one takes the older one's back.

Must hold: one CREATE of a name is acknowledged; every index has its column; every node restarts.
"""

from __future__ import annotations

from random import Random

from schemaquake.harness.ddl.schema_changes import create_index, create_table, drop_column
from schemaquake.harness.model.protocols import Context
from schemaquake.harness.model.steps import Invoke
from schemaquake.workloads.races.engine import (
    POISONS,
    UNTIL_THE_RACE,
    Race,
    RacingWorkload,
    RowProbe,
    race_keyspace,
    take_turns,
)

__all__ = ["CreateIndex"]


class CreateIndex(RacingWorkload):
    """CREATE INDEX against CREATE INDEX of the same name, and against DROP of its column."""

    def __init__(self) -> None:
        super().__init__(
            name="create-index",
            requires=frozenset({"keyspaces", "tables", "columns", "indexes"}),
            race=_race,
        )


def _race(number: int, _random: Random, context: Context) -> Race:
    keyspace = race_keyspace(context, "create-index", number)
    turns = [("name", _name(keyspace))]
    if "column-drops" in context.features:
        turns.append(("column", _column(keyspace)))
    variant, (columns, sides, probes) = take_turns(number, context, turns)
    table = create_table(
        keyspace, "t", columns=[("k", "int", "partition_key"), *((column, "int", "regular") for column in columns)]
    )
    return Race(
        workload="create-index",
        variant=variant,
        number=number,
        keyspace=keyspace,
        setup=(table,),
        sides=sides,
        tables=probes,
        disturbance=POISONS,
    )


_Conflict = tuple[tuple[str, ...], tuple[tuple[Invoke, ...], ...], tuple[RowProbe, ...]]


def _name(keyspace: str) -> _Conflict:
    """Return the conflict of two indexes of one name on two columns."""
    indexes = tuple((create_index(keyspace, "i", table="t", column=column),) for column in ("a", "b"))
    return ("a", "b"), indexes, (RowProbe(table="t", row=(("a", 1), ("b", 2))),)


def _column(keyspace: str) -> _Conflict:
    """Return the conflict of an index on a column against the drop of that column; column `a` stays."""
    sides = ((drop_column(keyspace, "t", "c"),), (create_index(keyspace, "i", table="t", column="c"),))
    return (
        ("a", "c"),
        sides,
        (RowProbe(table="t", row=(("a", 1),)), RowProbe(table="t", row=(("c", 3),), phases=UNTIL_THE_RACE)),
    )
