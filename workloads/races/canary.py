"""The canary: a schema change without a competitor, which shows whether the cluster still accepts any.

A lost race may leave a cluster that takes no schema change any more (up to 1.0 forked migrations, 1.1 a reused id, up to
2.2 a definition that no merge survives), and every later race would be judged for that damage. So a table is created
through one coordinator, another one each time, and then written to through every coordinator. A failure within the
limit ends the main phase: races that were not begun are not counted.

The tables stand in a keyspace of their own, one for each canary, named for its race. They are read in the end like all
others; an anomaly in them is the damage of the last race that began.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from schemaquake.harness.ddl.rows import insert, know_table, read_rows
from schemaquake.harness.ddl.schema_changes import create_keyspace
from schemaquake.harness.model.protocols import Context, Worker
from schemaquake.harness.model.steps import Meet, Require, Step
from schemaquake.workloads.one_a_node import share, stands_for_its_node
from schemaquake.workloads.races.one_by_one import one_by_one
from schemaquake.workloads.races.plain_table import plain_table

__all__ = ["canary", "canary_keyspace", "read_canaries", "set_up_canaries"]

# Three to five times what a pull takes where pulls are quick (a second), and much more than any push.
_LIMIT_S: Final = 8.0
_ROW: Final = (("v", "tweet"),)


def canary_keyspace(context: Context) -> str:
    """Return the keyspace of the canaries' tables."""
    return f"{context.keyspace_prefix}_canary"


def set_up_canaries(context: Context) -> Iterator[Step]:
    """Create the keyspace, like all others, before anything races."""
    yield from one_by_one(
        (create_keyspace(canary_keyspace(context), replication_factor=context.replication_factor),), context
    )


def canary(name: str, coordinator: int, worker: Worker, context: Context, *, races: int = 1) -> Iterator[Step]:
    """Yield one worker's part: the coordinator of that index creates the table, then every worker writes a row of its own.

    `races` were released at once before it: each may have a change that a node has to apply first.
    Not before every coordinator knows the table: rows must not meet a replica that has not heard of it. Workers of further lanes wait.
    """
    if not stands_for_its_node(worker, context):
        yield Meet(f"{canary_keyspace(context)}.{name} made")
        yield Meet(f"{canary_keyspace(context)}.{name} known")
        return
    keyspace = canary_keyspace(context)
    limit_s = _LIMIT_S * races
    if worker.index == coordinator:
        yield Require(plain_table(keyspace, name), limit_s)
    yield Meet(f"{keyspace}.{name} made")
    yield Require(know_table(keyspace, name), limit_s)
    yield Meet(f"{keyspace}.{name} known")
    row = {"k": worker.index, **dict(_ROW)}
    yield Require(insert(keyspace, name, row, consistency="ONE", phase="racing"), limit_s)


def read_canaries(names: Sequence[str], worker: Worker, context: Context, *, phase: str) -> Iterator[Step]:
    """Read every table at ONE through every coordinator, then at ALL, each through one of them in turn."""
    mine = share(names, worker, context)
    columns = ("k", *dict(_ROW))
    for consistency, some in (("ONE", names), ("ALL", mine)):
        for name in some:
            yield read_rows(canary_keyspace(context), name, consistency=consistency, phase=phase, columns=columns)
