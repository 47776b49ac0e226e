"""Logged batches: one row in each of three partitions, all of them or none.

A logged batch is written to the batch log first, so that a batch that was begun is carried out in the end, even if its
coordinator dies. It promises no isolation: a reader may see a part of it for a while.

Must hold in the end: an acknowledged batch is there as a whole, a refused one is not there at all, and one of unknown
outcome is there as a whole or not at all. The log is replayed by other nodes some seconds later (10 s, 60 s up to
2.2), so the last readings wait for that, and are made twice: a batch that is replayed between two of them is not torn.
Source: CASSANDRA-4285.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from random import Random
from typing import Final

from schemaquake.harness.model.protocols import Context, Worker
from schemaquake.harness.model.queries import Query
from schemaquake.harness.model.steps import Invoke, Step, Wait
from schemaquake.workloads.data.reading_and_writing import DataWorkload, data_keyspace, table
from schemaquake.workloads.one_a_node import share

__all__ = ["TABLES", "Batch"]

TABLES: Final = ("a", "b", "c")

_BATCHES_A_WORKER: Final = 1_000_000
_LEVEL: Final = "QUORUM"
_REPLAYED_AFTER_S: Final = 18.0
_REPLAYED_AFTER_LONG_S: Final = 75.0
_AGAIN_AFTER_S: Final = 12.0


class Batch(DataWorkload):
    """Batches across three tables, and whole tables read in the end."""

    def __init__(self) -> None:
        super().__init__(
            name="batch",
            requires=frozenset({"keyspaces", "tables", "cql", "batches"}),
            tables=lambda context: tuple(table(data_keyspace(context, "batch"), name, ("v", "int")) for name in TABLES),
            operations=_batches,
            last_reads=_last_reads,
        )


def _batches(worker: Worker, context: Context, _random: Random) -> Iterator[Invoke]:
    keyspace = data_keyspace(context, "batch")
    for number in count(worker.index * _BATCHES_A_WORKER + 1):
        # Different keys, so that the parts have different replicas where there are more nodes than replicas.
        rows = " ".join(f"INSERT INTO {keyspace}.{name} (k, v) VALUES ({number}, {number});" for name in TABLES)
        query = Query(text=f"BEGIN BATCH {rows} APPLY BATCH", consistency=_LEVEL)
        yield Invoke("batch", keyspace, {"id": number, "tables": list(TABLES), "consistency": _LEVEL}, query=query)


def _last_reads(worker: Worker, context: Context, label: str) -> Iterator[Step]:
    """Read every table at ALL, each by one worker; an unreachable replica fails the read and makes the verdict unknown."""
    mine = share(TABLES, worker, context)
    if label == "settled":
        # The batch log has its present form and pace since 3.0, the version that introduced views.
        yield Wait(_REPLAYED_AFTER_S if "views" in context.features else _REPLAYED_AFTER_LONG_S)
        yield from _readings(context, mine)
        yield Wait(_AGAIN_AFTER_S)
    yield from _readings(context, mine)


def _readings(context: Context, tables: Sequence[str]) -> Iterator[Invoke]:
    keyspace = data_keyspace(context, "batch")
    for name in tables:
        query = Query(text=f"SELECT k FROM {keyspace}.{name}", consistency="ALL", answer="column")
        yield Invoke("read-batches", f"{keyspace}.{name}", {"consistency": "ALL"}, query=query)
