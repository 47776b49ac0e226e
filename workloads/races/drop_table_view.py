"""Racing DROP TABLE and CREATE MATERIALIZED VIEW: the base table goes while a view of it comes.

DROP TABLE t / CREATE MATERIALIZED VIEW m AS SELECT * FROM t …

Up to 5.0 both are acknowledged and the view's row stays without a base: it can be read but is never maintained, and
schema versions agree. "Not adding view m because the base table … is unknown" since 3.0.15 and 3.11.1
(CASSANDRA-13737), a broken view manager before. Fixed by CEP-21 (CASSANDRA-18330).
Views are off by default from 4.0 on: `enable_materialized_views`, from 4.1 `materialized_views_enabled`.

Must hold: one of the two is refused; every view has its base table.
"""

from __future__ import annotations

from random import Random

from schemaquake.harness.ddl.schema_changes import create_table, create_view, drop_table
from schemaquake.harness.model.protocols import Context
from schemaquake.workloads.races.engine import ALWAYS, NEVER, STALLS, Race, RacingWorkload, RowProbe, race_keyspace
from schemaquake.workloads.races.plain_table import plain_table

__all__ = ["DropTableView"]


class DropTableView(RacingWorkload):
    """DROP TABLE against CREATE MATERIALIZED VIEW of it."""

    def __init__(self) -> None:
        super().__init__(name="drop-table-view", requires=frozenset({"keyspaces", "tables", "views"}), race=_race)


def _race(number: int, _random: Random, context: Context) -> Race:
    keyspace = race_keyspace(context, "drop-table-view", number)
    base = create_table(keyspace, "t", columns=[("k", "int", "partition_key"), ("w", "int", "regular")])
    return Race(
        workload="drop-table-view",
        variant="view",
        number=number,
        keyspace=keyspace,
        setup=(plain_table(keyspace, "bystander"), base),
        sides=((drop_table(keyspace, "t"),), (create_view(keyspace, "m", base="t", primary_key=["w", "k"]),)),
        tables=(
            RowProbe(table="bystander"),
            RowProbe(table="t", row=(("w", 7),), phases=ALWAYS),
            RowProbe(table="m", row=(("w", 7),), phases=NEVER),
        ),
        disturbance=STALLS,
    )
