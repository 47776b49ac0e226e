"""Racing DROP TYPE: one coordinator drops a type while another begins to use it (the example of CEP-21).

- `table`: DROP TYPE u / CREATE TABLE x (k int PRIMARY KEY, c frozen<u>)
- `column`: DROP TYPE u / ALTER TABLE t ADD c frozen<u>
- `nested`: DROP TYPE u / CREATE TYPE w (b frozen<u>)

Each coordinator checks its own schema alone, so up to 5.0 both are acknowledged. Every node that merges the two then
fails with `Unknown type`: it takes no further change of that keyspace, schema versions differ for good, and from 3.0 on
it does not start again. (2.1 and 2.2 start, with a table without its type.) Fixed by CEP-21 (CASSANDRA-18330).

Must hold: one of the two is refused; no definition names a type that is not there; every node restarts.
"""

from __future__ import annotations

from random import Random

from schemaquake.harness.ddl.schema_changes import add_column, create_table, create_type, drop_type
from schemaquake.harness.model.protocols import Context
from schemaquake.harness.model.steps import Invoke
from schemaquake.workloads.races.engine import (
    POISONS,
    SINCE_THE_RACE,
    WHILE_RACING,
    Race,
    RacingWorkload,
    RowProbe,
    race_keyspace,
    take_turns,
)
from schemaquake.workloads.races.plain_table import plain_table

__all__ = ["DropType"]

_CELL = ("c", {"a": 1, "b": "one"})


class DropType(RacingWorkload):
    """DROP TYPE against a definition that begins to use the type."""

    def __init__(self) -> None:
        super().__init__(
            name="drop-type",
            requires=frozenset({"keyspaces", "tables", "columns", "types"}),
            race=_race,
        )


def _race(number: int, _random: Random, context: Context) -> Race:
    keyspace = race_keyspace(context, "drop-type", number)
    variant, (use, probes) = take_turns(number, context, _uses(keyspace))
    return Race(
        workload="drop-type",
        variant=variant,
        number=number,
        keyspace=keyspace,
        setup=(create_type(keyspace, "u", fields=[("a", "int"), ("b", "text")]), plain_table(keyspace, "t")),
        sides=((drop_type(keyspace, "u"),), (use,)),
        tables=(RowProbe(table="t"), *probes),
        disturbance=POISONS,
    )


def _uses(keyspace: str) -> list[tuple[str, tuple[Invoke, tuple[RowProbe, ...]]]]:
    """Return, by variant, the definition that begins to use the type, and the rows at stake if it is accepted."""
    table = create_table(keyspace, "x", columns=[("k", "int", "partition_key"), ("c", "frozen<u>", "regular")])
    return [
        ("table", (table, (RowProbe(table="x", row=(_CELL,), phases=SINCE_THE_RACE, side=1, rows=3),))),
        (
            "column",
            (
                add_column(keyspace, "t", "c", "frozen<u>"),
                (RowProbe(table="t", row=(_CELL,), phases=WHILE_RACING, side=1, rows=3),),
            ),
        ),
        ("nested", (create_type(keyspace, "w", fields=[("b", "frozen<u>")]), ())),
    ]
