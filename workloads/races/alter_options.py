"""Racing ALTER TABLE: two coordinators alter one table in ways that do not contradict each other.

- `options`: ALTER TABLE t WITH comment = … / ALTER TABLE t WITH gc_grace_seconds = …
- `column`: ALTER TABLE t WITH comment = … / ALTER TABLE t ADD c int

From 3.0 on ALTER writes every option of the table, as its own coordinator knows them, so the younger one takes the older
one's change back. Both were acknowledged; no fault is needed. Up to 5.0; fixed by CEP-21 (CASSANDRA-18330).

Must hold: both changes, if both were acknowledged, show on every node.
"""

from __future__ import annotations

from random import Random

from schemaquake.harness.ddl.schema_changes import add_column
from schemaquake.harness.ddl.schema_changes import alter_options as alter
from schemaquake.harness.model.protocols import Context
from schemaquake.workloads.races.engine import WHILE_RACING, Race, RacingWorkload, RowProbe, race_keyspace, take_turns
from schemaquake.workloads.races.plain_table import plain_table

__all__ = ["AlterOptions"]

_GC_GRACE_S = 3_600
"""A value other than the default of ten days, and longer than a run, so that tombstones outlive it."""


class AlterOptions(RacingWorkload):
    """ALTER TABLE against ALTER TABLE: one acknowledged change is lost."""

    def __init__(self) -> None:
        super().__init__(
            name="alter-options", requires=frozenset({"keyspaces", "tables", "columns", "options"}), race=_race
        )


def _race(number: int, _random: Random, context: Context) -> Race:
    keyspace = race_keyspace(context, "alter-options", number)
    column = RowProbe(table="t", row=(("c", 7),), phases=WHILE_RACING, side=1, rows=3)
    turns = [
        ("options", (alter(keyspace, "t", {"gc_grace_seconds": _GC_GRACE_S}), ())),
        ("column", (add_column(keyspace, "t", "c", "int"), (column,))),
    ]
    variant, (other, probes) = take_turns(number, context, turns)
    return Race(
        workload="alter-options",
        variant=variant,
        number=number,
        keyspace=keyspace,
        setup=(plain_table(keyspace, "t"),),
        sides=((alter(keyspace, "t", {"comment": f"race {number}"}),), (other,)),
        tables=(RowProbe(table="t"), *probes),
    )
