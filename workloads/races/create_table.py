"""Racing CREATE TABLE: every coordinator creates the same table, or one of its own definition, or one of its own name.

- `same`: one definition from every node. 2.1–5.0 give every coordinator's table an id of its own (CASSANDRA-5202). Up to
  3.11 the loser keeps its id in memory and says "Column family ID mismatch"; from 4.0 it drops its table for the
  winner's, and with it the rows it acknowledged. Reports: CASSANDRA-8387, 9424, 9933, 10699; fixed by CEP-21 (18330).
- `definitions`: different keys and columns. The rows of `columns` are united: a table with a partition key too many,
  whose reads fail for good. The same in old ScyllaDB (scylladb #9774).
- `names`: a different table from every node, no conflict at all. Up to 1.0 the migrations fork and the schema disagrees
  for ever (seed document 1, "Concurrency"); up to 1.1 two tables get one integer id (CASSANDRA-3794; seed document 2).

Must hold: at most one CREATE of a name is acknowledged, all nodes know the table under one id with one definition, and
every acknowledged row is read back, before and after a restart.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from schemaquake.harness.ddl.schema_changes import create_table
from schemaquake.harness.model.protocols import Context
from schemaquake.harness.model.steps import Invoke
from schemaquake.workloads.races.engine import (
    HARMLESS,
    REFUSES,
    SINCE_THE_RACE,
    WHILE_RACING,
    Race,
    RacingWorkload,
    RowProbe,
    race_keyspace,
    racers_max,
    take_turns,
)
from schemaquake.workloads.races.one_by_one import one_at_a_time
from schemaquake.workloads.races.plain_table import plain_table

__all__ = ["CreateTable"]

_Conflict = tuple[Sequence[Invoke], Sequence[RowProbe]]


class CreateTable(RacingWorkload):
    """CREATE TABLE from every node at once."""

    def __init__(self) -> None:
        super().__init__(name="create-table", requires=frozenset({"keyspaces", "tables"}), race=_race)


def _race(number: int, _random: Random, context: Context) -> Race:
    keyspace = race_keyspace(context, "create-table", number)
    sides = racers_max(context)
    conflicts = [("same", _same), ("definitions", _definitions)]
    names = ("names", _names)
    # Up to 1.1 it is the worst of the three and takes luck, while either of the others forks the schema for good, after
    # which nothing can be raced. Since 1.2 it is no conflict and would only dilute the rate of what breaks.
    turns = [names, names, names, *conflicts] if one_at_a_time(context) else [*conflicts, *conflicts, names]
    variant, conflict = take_turns(number, context, turns)
    creates, probes = conflict(keyspace, sides)
    return Race(
        workload="create-table",
        variant=variant,
        number=number,
        keyspace=keyspace,
        setup=(plain_table(keyspace, "bystander"),),
        sides=tuple((create,) for create in creates),
        tables=(RowProbe(table="bystander"), *probes),
        disturbance=REFUSES if variant == "definitions" else HARMLESS,
    )


def _same(keyspace: str, sides: int) -> _Conflict:
    """Return sides of one definition, as an application creates it at start-up on each of its servers."""
    return [plain_table(keyspace, "t")] * sides, [RowProbe(table="t", phases=SINCE_THE_RACE, rows=3)]


def _definitions(keyspace: str, sides: int) -> _Conflict:
    """Return sides with tables (a, x), (b, y), (c, z) … that share only the name."""
    shapes = list(zip("abcdefgh", "xyzstuvw", strict=True))[:sides]
    creates = [
        create_table(keyspace, "t", columns=[(key, "int", "partition_key"), (cell, "int", "regular")])
        for key, cell in shapes
    ]
    # The winning definition is not known when the schedule is made, so nothing is written to t after the race.
    probes = [
        RowProbe(table="t", key=key, row=((cell, side),), phases=WHILE_RACING, side=side, rows=3)
        for side, (key, cell) in enumerate(shapes)
    ]
    return creates, probes


def _names(keyspace: str, sides: int) -> _Conflict:
    """Return sides with tables t0, t1, t2 …, one from each coordinator."""
    creates = [plain_table(keyspace, f"t{side}") for side in range(sides)]
    probes = [
        RowProbe(table=f"t{side}", row=(("v", f"of t{side}"),), phases=SINCE_THE_RACE, side=side, rows=3)
        for side in range(sides)
    ]
    return creates, probes
