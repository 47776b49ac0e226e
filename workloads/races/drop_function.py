"""Racing DROP FUNCTION: one coordinator drops a function while another builds an aggregate on it.

DROP FUNCTION f / CREATE AGGREGATE g(int) SFUNC f STYPE int

Up to 5.0 both are acknowledged. 2.2–3.11 load a broken aggregate and start; 4.0–5.0 cannot load the keyspace at all
("Unable to find function f referenced by UDA g") and do not start again. Fixed by CEP-21 (CASSANDRA-18330).
User-defined functions are off by default: `enable_user_defined_functions`, from 4.1 `user_defined_functions_enabled`.

Must hold: one of the two is refused; no aggregate names a function that is not there; every node restarts.
"""

from __future__ import annotations

from random import Random

from schemaquake.harness.ddl.schema_changes import create_aggregate, create_function, drop_function
from schemaquake.harness.model.protocols import Context
from schemaquake.workloads.races.engine import POISONS, Race, RacingWorkload, RowProbe, race_keyspace
from schemaquake.workloads.races.plain_table import plain_table

__all__ = ["DropFunction"]


class DropFunction(RacingWorkload):
    """DROP FUNCTION against CREATE AGGREGATE on it."""

    def __init__(self) -> None:
        super().__init__(name="drop-function", requires=frozenset({"keyspaces", "tables", "functions"}), race=_race)


def _race(number: int, _random: Random, context: Context) -> Race:
    keyspace = race_keyspace(context, "drop-function", number)
    function = create_function(
        keyspace,
        "f",
        arguments=[("state", "int"), ("value", "int")],
        returns="int",
        body="return (state == null ? 0 : state) + (value == null ? 0 : value);",
    )
    aggregate = create_aggregate(keyspace, "g", arguments=["int"], state_function="f", state_type="int")
    return Race(
        workload="drop-function",
        variant="aggregate",
        number=number,
        keyspace=keyspace,
        setup=(plain_table(keyspace, "t"), function),
        sides=((drop_function(keyspace, "f"),), (aggregate,)),
        tables=(RowProbe(table="t"),),
        disturbance=POISONS,
    )
