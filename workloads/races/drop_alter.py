"""Racing DROP TABLE and ALTER TABLE: the table goes while it is altered.

- `comment`: DROP TABLE t / ALTER TABLE t WITH comment = …
- `column`: DROP TABLE t / ALTER TABLE t ADD w int

ALTER writes the table's whole row again but only the columns it changes. If it is the younger of the two, the row comes
back without the columns of its key: "No partition columns found for table", `MissingColumns`. Up to 5.0 both are
acknowledged, schema versions differ for good, and a node starts again only with an option that ignores corrupted schema tables.
Tickets: CASSANDRA-13180, 14379; fixed by CEP-21 (18330).

Must hold: if DROP was acknowledged the table is gone, with all its rows in the schema tables; every node restarts.
"""

from __future__ import annotations

from random import Random

from schemaquake.harness.ddl.schema_changes import add_column, alter_options, drop_table
from schemaquake.harness.model.protocols import Context
from schemaquake.workloads.races.engine import (
    POISONS,
    WHILE_RACING,
    Race,
    RacingWorkload,
    RowProbe,
    race_keyspace,
    take_turns,
)
from schemaquake.workloads.races.plain_table import plain_table

__all__ = ["DropAlter"]


class DropAlter(RacingWorkload):
    """DROP TABLE against ALTER TABLE."""

    def __init__(self) -> None:
        super().__init__(
            name="drop-alter",
            requires=frozenset({"keyspaces", "tables", "columns", "options"}),
            race=_race,
        )


def _race(number: int, _random: Random, context: Context) -> Race:
    keyspace = race_keyspace(context, "drop-alter", number)
    column = RowProbe(table="t", row=(("w", 7),), phases=WHILE_RACING, side=1, rows=3)
    turns = [
        ("comment", (alter_options(keyspace, "t", {"comment": f"race {number}"}), ())),
        ("column", (add_column(keyspace, "t", "w", "int"), (column,))),
    ]
    variant, (alter, probes) = take_turns(number, context, turns)
    return Race(
        workload="drop-alter",
        variant=variant,
        number=number,
        keyspace=keyspace,
        setup=(plain_table(keyspace, "bystander"), plain_table(keyspace, "t")),
        sides=((drop_table(keyspace, "t"),), (alter,)),
        tables=(RowProbe(table="bystander"), RowProbe(table="t"), *probes),
        disturbance=POISONS,
    )
