"""Racing DROP and CREATE of one name: a dropped object must not shadow the new one, nor come back in it.

- `elsewhere`: DROP TABLE t / CREATE TABLE t, tried three times: the first fails on a coordinator that has not heard
- `both`: DROP TABLE t, CREATE TABLE t from both, as two deployments of one migration script would
- `column`: ALTER TABLE t DROP c, ADD c from both (from 2.0 on: before, a dropped column keeps its cells by design)
- `instant-database`: DROP TABLE t, CREATE TABLE t from one, while the others only write rows; under faults with half the
  time of a race between the two, so that a node may be killed while its files are being dropped

A node of 0.7 that fails while it applies a DROP keeps the data files, and they are "an instant database" for the next
table of that name (seed document 1, "Handling Failure", steps 4 and 5): use `--nemesis kill`. 1.2 and 2.0 give the name
its old id back (CASSANDRA-5202): a node that was killed replays the dropped table's rows into the new one, which takes
no race at all (mode `single` shows it too); and a node that receives DROP and CREATE in one pull sees no change and keeps the
old rows: use `--mode partition`. With different ids the two are distinguished, but such a pull looks like a table that changed its id
("Column family ID mismatch", 1.1 and 2.1–3.11). 3.0–5.0: a DROP whose clock is ahead shadows the CREATE acknowledged
after it, which then exists in one node's memory only, or nowhere: use `--nemesis clock`; two re-creations have two ids
(CASSANDRA-10699). In every version a column dropped by a fast clock hides the rows of the column that replaced it.

Must hold: a row written before an acknowledged DROP does not come back, a row acknowledged after the CREATE stays.
"""

from __future__ import annotations

from random import Random

from schemaquake.harness.ddl.schema_changes import add_column, drop_column, drop_table
from schemaquake.harness.model.protocols import Context
from schemaquake.harness.model.steps import Invoke, Wait
from schemaquake.workloads.races.engine import (
    ALWAYS,
    UNTIL_THE_RACE,
    Race,
    RacingWorkload,
    RowProbe,
    pause_before_a_race,
    race_keyspace,
    race_numbers,
    take_turns,
)
from schemaquake.workloads.races.one_by_one import rest
from schemaquake.workloads.races.plain_table import plain_table

__all__ = ["DropRecreate"]

_Conflict = tuple[tuple[tuple[Invoke | Wait, ...], ...], tuple[RowProbe, ...]]
_TRIES = 3


class DropRecreate(RacingWorkload):
    """DROP and CREATE of one name through two coordinators."""

    def __init__(self) -> None:
        super().__init__(name="drop-recreate", requires=frozenset({"keyspaces", "tables", "columns"}), race=_race)


def _race(number: int, _random: Random, context: Context) -> Race:
    keyspace = race_keyspace(context, "drop-recreate", number)
    turns = [("elsewhere", _elsewhere(keyspace)), ("both", _both(keyspace))]
    if "column-drops" in context.features:
        turns.append(("column", _column(keyspace)))
    turns.append(("instant-database", _instant_database(keyspace, context)))
    variant, (sides, probes) = take_turns(number, context, turns)
    return Race(
        workload="drop-recreate",
        variant=variant,
        number=number,
        keyspace=keyspace,
        setup=(plain_table(keyspace, "bystander"), plain_table(keyspace, "t", ("c", "int"))),
        sides=sides,
        tables=(RowProbe(table="bystander"), *probes),
    )


def _elsewhere(keyspace: str) -> _Conflict:
    """Return the conflict of a DROP on its way to the coordinator that creates, which does not wait for it, as in the field."""
    create = plain_table(keyspace, "t", ("c", "int"))
    return ((drop_table(keyspace, "t"),), (create,) * _TRIES), (RowProbe(table="t", phases=ALWAYS, rows=3),)


def _both(keyspace: str) -> _Conflict:
    """Return a conflict in which, in any order, the last CREATE follows the last DROP: the table must exist in the end."""
    side = (drop_table(keyspace, "t"), plain_table(keyspace, "t", ("c", "int")))
    return (side, side), (RowProbe(table="t", phases=ALWAYS, rows=3),)


def _column(keyspace: str) -> _Conflict:
    """Return the conflict over a dropped column: its cells from before the DROP are gone for good, those from after the ADD are not."""
    side = (drop_column(keyspace, "t", "c"), add_column(keyspace, "t", "c", "int"))
    probes = (RowProbe(table="t"), RowProbe(table="t", row=(("c", 3),), phases=UNTIL_THE_RACE, rows=3))
    return (side, side), probes


def _instant_database(keyspace: str, context: Context) -> _Conflict:
    """Return a conflict without a competing DROP: rows from before it in the new table were left behind on some node."""
    between = pause_before_a_race(context, len(race_numbers(context))) / 2
    waits = (Wait(between),) if between else tuple(rest(context))
    side: tuple[Invoke | Wait, ...] = (
        drop_table(keyspace, "t"),
        *waits,
        plain_table(keyspace, "t", ("c", "int")),
    )
    return (side, ()), (RowProbe(table="t", phases=ALWAYS, rows=3),)
