"""Racing DROP KEYSPACE: one coordinator drops a keyspace while another creates an object in it.

- `table`: DROP KEYSPACE ks / CREATE TABLE ks.t1
- `type`: DROP KEYSPACE ks / CREATE TYPE ks.u1 (where there are types)

Every change of anything in a keyspace writes the keyspace's own row again (CASSANDRA-5631). If the CREATE is the
younger, the keyspace is back after an acknowledged DROP, with the new object alone: its other tables and all their rows
are gone. If it is the older, the acknowledged CREATE vanishes, which is right. 1.2.16 and 2.0.6 to 5.0; fixed by CEP-21
(CASSANDRA-18330).

Must hold: after an acknowledged DROP the keyspace is gone, or the DROP was refused and everything is there.
"""

from __future__ import annotations

from random import Random

from schemaquake.harness.ddl.schema_changes import create_type, drop_keyspace
from schemaquake.harness.model.protocols import Context
from schemaquake.harness.model.steps import Invoke
from schemaquake.workloads.races.engine import SINCE_THE_RACE, Race, RacingWorkload, RowProbe, race_keyspace, take_turns
from schemaquake.workloads.races.plain_table import plain_table

__all__ = ["DropKeyspace"]


class DropKeyspace(RacingWorkload):
    """DROP KEYSPACE against CREATE TABLE and CREATE TYPE in it."""

    def __init__(self) -> None:
        super().__init__(name="drop-keyspace", requires=frozenset({"keyspaces", "tables"}), race=_race)


def _race(number: int, _random: Random, context: Context) -> Race:
    keyspace = race_keyspace(context, "drop-keyspace", number)
    variant, (create, probes) = take_turns(number, context, _newcomers(keyspace, context))
    return Race(
        workload="drop-keyspace",
        variant=variant,
        number=number,
        keyspace=keyspace,
        setup=(plain_table(keyspace, "t"),),
        sides=((drop_keyspace(keyspace),), (create,)),
        # No row has to outlive the race. Rows are written all the same, because a table that still exists must accept them.
        tables=(RowProbe(table="t"), *probes),
    )


def _newcomers(keyspace: str, context: Context) -> list[tuple[str, tuple[Invoke, tuple[RowProbe, ...]]]]:
    """Return, by variant, the object created in the keyspace while it is dropped, and rows for it."""
    rows = RowProbe(table="t1", row=(("v", "of t1"),), phases=SINCE_THE_RACE, side=1, rows=3)
    table = ("table", (plain_table(keyspace, "t1"), (rows,)))
    if "types" not in context.features:
        return [table]
    return [table, ("type", (create_type(keyspace, "u1", fields=[("a", "int")]), ()))]
