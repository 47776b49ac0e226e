"""Descriptors: rows that are pure functions of seed and position, written, deleted and checked in bulk (after Harry).

`-O partitions=` partitions of `-O partition-rows=` rows each: with 1000 of 1000 a million rows, of which nothing is kept
in the history but which write covered which rows. Every write gives its own write time, so that clocks decide nothing.
Each partition has one worker that changes it, and every worker checks all of them.

- `prepare`: every row is written, and all are checked at QUORUM through every coordinator
- `main`: overwrites of a hundred rows, deletions of ranges and of whole partitions, four of five at `-O consistency=`
  (QUORUM), the others at ONE; and checks of a few partitions at QUORUM, ONE and ALL, while nodes join, leave or are held
  up in the middle of it
- `final`: every partition is read at ONE through every node, so that each replica tells what it holds itself (the
  recipes have a coordinator ask itself first); then at QUORUM through every coordinator; then at ALL

The idea is Harry's (CASSANDRA-15348; see `schemaquake.harness.descriptors`). Must hold: what CEP-21 says of quorums in
all pairs of epochs in use. Judged by the checker `replica-sets`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, Final

import numpy as np

from schemaquake.harness.ddl.schema_changes import create_keyspace, create_table
from schemaquake.harness.descriptors.functions import cds, pd, vds
from schemaquake.harness.descriptors.runs import fold_rows
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.options import configured, one_of, option, whole_number
from schemaquake.harness.model.protocols import Context, Phase, Worker
from schemaquake.harness.model.queries import BulkQuery
from schemaquake.harness.model.steps import Invoke, Meet, Require, Step, Wait
from schemaquake.workloads.data.reading_and_writing import LevelOptions, data_keyspace
from schemaquake.workloads.one_a_node import share, stands_for_its_node

__all__ = ["Descriptors"]

_NAME: Final = "descriptors"
_TABLE: Final = "d"
_BLOCKING: Final = "BLOCKING"
_ROWS_A_WRITE: Final = 100
_PARTITIONS_A_CHECK: Final = 20
_PARTITIONS_IN_PASSING: Final = 4
_OPERATIONS_A_SECOND: Final = 60.0
_LIMIT_S: Final = 60.0
_FIRST_WRITES_LIMIT_S: Final = 30.0


@dataclass(frozen=True, kw_only=True)
class DescriptorOptions(LevelOptions):
    """Options of rows that are described by seed and position."""

    partitions: int = option(60, "the number of partitions", parse=whole_number(least=1))
    partition_rows: int = option(200, "the rows that each partition may have", parse=whole_number(least=1))
    read_repair: str = option(
        _BLOCKING,
        "the table's `read_repair` (from 4.0 on): with `NONE` no check repairs the copies that a later one is to count",
        parse=one_of(_BLOCKING, "NONE"),
    )


class Descriptors:
    """Bulk writes, deletions and checks of rows that need no history of their own."""

    name = _NAME
    requires = frozenset(
        {"keyspaces", "tables", "cql", "conditional-writes"}
    )  # of the line that learnt to batch prepared
    options = DescriptorOptions()
    endless = True
    keeps_schema = True

    def crew(self, context: Context) -> Sequence[Worker]:
        """Return at least one worker a node, and one on each spare, which only checks."""
        everybody = (*context.nodes, *context.spares)
        deal = [*everybody, *(context.nodes[n % len(context.nodes)] for n in range(context.crew - len(context.nodes)))]
        return [Worker(number, node) for number, node in enumerate(deal)]

    def steps(self, phase: Phase, worker: Worker, context: Context, *, phase_label: str) -> Iterator[Step]:  # noqa: ARG002 - both final phases are alike
        """Return the steps of one worker in one phase; `main` never ends."""
        rows = _Rows(context, worker)
        match phase:
            case "setup" if worker.index == 0:
                yield Require(create_keyspace(rows.keyspace, replication_factor=context.replication_factor), _LIMIT_S)
                yield Require(rows.table(), _LIMIT_S)
            case "prepare":
                yield from rows.prepare()
            case "main":
                for operation in rows.operations(context.random(_NAME, worker.index, "main")):
                    if context.rate is None:  # else the harness keeps the pace
                        yield Wait(len(self.crew(context)) / _OPERATIONS_A_SECOND)
                    yield operation
            case "final":
                yield from rows.finish()


class _Rows:
    """The operations of one worker. Its writes have numbers, which no other worker's have: their write times in µs."""

    def __init__(self, context: Context, worker: Worker) -> None:
        self._options = configured(DescriptorOptions(), context.options)
        self._seed = context.seed
        self._worker = worker
        self._writers = max(context.crew, len(context.nodes))
        self._context = context
        self._number = 0
        self.keyspace = data_keyspace(context, _NAME)
        self._key = f"{self.keyspace}.{_TABLE}"
        on_spare = worker.node in context.spares
        self._stands_for_node = on_spare or stands_for_its_node(worker, context)
        # Spares come after the nodes in the crew, and the further workers on nodes after both.
        place = worker.index if worker.index < len(context.nodes) else worker.index - len(context.spares)
        self._place = 0 if on_spare else place
        self._own = () if on_spare else range(place, self._options.partitions, self._writers)

    def table(self) -> Invoke:
        """Return the creation of the table."""
        columns = [("pk", "bigint", "partition_key"), ("ck", "bigint", "clustering"), ("v", "bigint", "regular")]
        # A probe answered by a faster replica says nothing of the intended one.
        options = {"speculative_retry": "NONE"}
        if self._options.read_repair != _BLOCKING:  # earlier lines do not know the word
            options["read_repair"] = self._options.read_repair
        return create_table(self.keyspace, _TABLE, columns=columns, options=options)

    def prepare(self) -> Iterator[Step]:
        """Give every row of the worker's partitions its first value; when all have done so, check all partitions."""
        for partition in self._own:
            for first in range(0, self._options.partition_rows, _ROWS_A_WRITE):
                yield Require(self._write(partition, first, self._options.consistency), _FIRST_WRITES_LIMIT_S)
        yield Meet("written")
        if self._stands_for_node:
            yield from self._checks("QUORUM")

    def finish(self) -> Iterator[Step]:
        """Check all partitions: at ONE through every node, and then, as a higher level repairs what it finds, at QUORUM and ALL."""
        if self._stands_for_node:
            yield from self._checks("ONE")
        yield Meet("probed")
        if self._stands_for_node:
            yield from self._checks("QUORUM")
            yield from self._checks("ALL", shared=True)

    def operations(self, random: Random) -> Iterator[Invoke]:
        """Yield operations for ever."""
        self._number = 1 << 32  # behind all first writes
        while True:
            drawn = random.random()
            if not self._own or drawn < 0.35:
                first = random.randrange(self._options.partitions)
                yield self._check(first, _PARTITIONS_IN_PASSING, random.choice(("QUORUM", "QUORUM", "ONE", "ALL")))
                continue
            partition = random.choice(self._own)
            level = "ONE" if random.random() < 0.2 else self._options.consistency
            first = random.randrange(self._options.partition_rows)
            if drawn < 0.85:
                yield self._write(partition, first - first % _ROWS_A_WRITE, level)
            elif drawn < 0.98:
                yield self._delete_rows(partition, first, random.randint(1, _ROWS_A_WRITE), level)
            else:
                yield self._delete_partition(partition, level)

    def _checks(self, consistency: str, *, shared: bool = False) -> Iterator[Invoke]:
        """Yield checks of all partitions; `shared` ones only of those that no other node's worker has."""
        firsts = range(0, self._options.partitions, _PARTITIONS_A_CHECK)
        for first in share(firsts, self._worker, self._context) if shared else firsts:
            yield self._check(first, _PARTITIONS_A_CHECK, consistency)

    def _write(self, partition: int, first: int, consistency: str) -> Invoke:
        count = min(_ROWS_A_WRITE, self._options.partition_rows - first)
        lts = self._next()
        clusterings = cds(self._seed, partition, first, count)
        values = vds(self._seed, partition, np.arange(first, first + count), lts)
        key = pd(self._seed, partition)
        query = BulkQuery(
            text=f"INSERT INTO {self._key} (pk, ck, v) VALUES (?, ?, ?) USING TIMESTAMP ?",
            values=[(key, ck, v, lts) for ck, v in zip(clusterings.tolist(), values.tolist(), strict=True)],
            consistency=consistency,
        )
        value = {"partition": partition, "pd": str(key), "first": first, "count": count, "lts": lts}
        value["consistency"] = consistency
        return Invoke("write-rows", self._key, value, query=query)

    def _delete_rows(self, partition: int, first: int, count: int, consistency: str) -> Invoke:
        count = min(count, self._options.partition_rows - first)
        lts = self._next()
        clusterings = cds(self._seed, partition, first, count).tolist()
        query = BulkQuery(
            text=f"DELETE FROM {self._key} USING TIMESTAMP ? WHERE pk = ? AND ck >= ? AND ck <= ?",
            values=[(lts, pd(self._seed, partition), clusterings[0], clusterings[-1])],
            consistency=consistency,
        )
        value = {"partition": partition, "first": first, "count": count, "lts": lts, "consistency": consistency}
        return Invoke("delete-rows", self._key, value, query=query)

    def _delete_partition(self, partition: int, consistency: str) -> Invoke:
        lts = self._next()
        query = BulkQuery(
            text=f"DELETE FROM {self._key} USING TIMESTAMP ? WHERE pk = ?",
            values=[(lts, pd(self._seed, partition))],
            consistency=consistency,
        )
        value = {"partition": partition, "lts": lts, "consistency": consistency}
        return Invoke("delete-partition", self._key, value, query=query)

    def _check(self, first: int, count: int, consistency: str) -> Invoke:
        count = min(count, self._options.partitions - first)
        query = BulkQuery(
            text=f"SELECT ck, v, WRITETIME(v) FROM {self._key} WHERE pk = ?",
            values=[(pd(self._seed, first + place),) for place in range(count)],
            consistency=consistency,
            fold=partial(_fold, self._seed, first),
        )
        return Invoke(
            "check-rows", self._key, {"first": first, "count": count, "consistency": consistency}, query=query
        )

    def _next(self) -> int:
        """Return the write time (µs) of the next write."""
        self._number += 1
        return self._number * self._writers + self._place


def _fold(seed: int, first: int, answers: Sequence[Any]) -> Mapping[str, JSON]:
    """Fold the rows of partitions, from number `first` on, into the value of a check."""
    found = [fold_rows(seed, first + place, *rows.T) for place, rows in enumerate(answers)]
    strange = [[first + place, *row] for place, one in enumerate(found) for row in one.strange]
    value = {"rows": sum(one.rows for one in found), "runs": [list(one.runs) for one in found]}
    return {**value, "strange": strange} if strange else value
