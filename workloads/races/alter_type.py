"""Racing ALTER TYPE: two coordinators each add a field to one user-defined type, and rows are written with both.

ALTER TYPE u ADD f1 int / ALTER TYPE u ADD f2 int

A type's fields are one list in one cell, so the younger list takes the older one's field back, although both were
acknowledged; and because values hold their fields by position, a row written with f1 is read as f2. 2.1–5.0; under a
partition the versions may differ until a restart and a SELECT cannot be decoded. Fixed by CEP-21 (CASSANDRA-18330).
CASSANDRA-13776 made nodes merge a type's versions (3.0.15, 3.11.1), which does not bring the field back.

Must hold: both fields, if both were acknowledged, are there on every node, and every row reads as it was written.
"""

from __future__ import annotations

from random import Random

from schemaquake.harness.ddl.schema_changes import add_field, create_table, create_type
from schemaquake.harness.model.protocols import Context
from schemaquake.workloads.races.engine import WHILE_RACING, Race, RacingWorkload, RowProbe, race_keyspace

__all__ = ["AlterType"]


class AlterType(RacingWorkload):
    """ALTER TYPE ADD against ALTER TYPE ADD, with values of the type at stake."""

    def __init__(self) -> None:
        super().__init__(name="alter-type", requires=frozenset({"keyspaces", "tables", "types"}), race=_race)


def _race(number: int, _random: Random, context: Context) -> Race:
    keyspace = race_keyspace(context, "alter-type", number)
    table = create_table(keyspace, "t", columns=[("k", "int", "partition_key"), ("c", "frozen<u>", "regular")])
    # Distinct values: a value written as f1 is recognised when it is read as f2.
    with_f1 = RowProbe(table="t", row=(("c", {"a": 1, "f1": 11}),), phases=WHILE_RACING, side=0, rows=3)
    with_f2 = RowProbe(table="t", row=(("c", {"a": 1, "f2": 22}),), phases=WHILE_RACING, side=1, rows=3)
    return Race(
        workload="alter-type",
        variant="field",
        number=number,
        keyspace=keyspace,
        setup=(create_type(keyspace, "u", fields=[("a", "int")]), table),
        sides=((add_field(keyspace, "u", "f1", "int"),), (add_field(keyspace, "u", "f2", "int"),)),
        tables=(RowProbe(table="t", row=(("c", {"a": 1}),)), with_f1, with_f2),
    )
