"""Quorum: unique values written and read at a stated level, then read from every replica separately.

`-O consistency=` (QUORUM) is the level of the writes, `-O read-consistency=` of the reads. A read also asks for the
WRITETIME of its value: a later write that is hidden because an earlier one has the later timestamp (a skewed
clock, CASSANDRA-6106) is no violation of a quorum, and the checker distinguishes the two.

In the end every key is probed at ONE through every node. With as many replicas as nodes every coordinator is a replica
and answers from its own data (the recipes' snitch puts it first, and the table has no speculative retry), so the probes
show which replicas hold which value.

Must hold, while R + W > N: a read shows the value of the last write that was acknowledged before it began, or of a
later one; and after settling every acknowledged value, or a later one, is on as many replicas as its level promised.
Source: seed document 4 (CEP-21), "quorum intersection"; CASSANDRA-14801, CASSANDRA-14740.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import Final

from schemaquake.harness.ddl.schema_changes import create_table
from schemaquake.harness.model.protocols import Context, Worker
from schemaquake.harness.model.queries import Query
from schemaquake.harness.model.steps import Invoke, Step
from schemaquake.workloads.data.reading_and_writing import (
    ConsistencyOptions,
    DataWorkload,
    KeyOptions,
    all_keys,
    data_keyspace,
    keys,
    my_keys,
    read_level,
    unique_values,
    write_level,
)

__all__ = ["Quorum"]

_NAME: Final = "quorum"


@dataclass(frozen=True, kw_only=True)
class QuorumOptions(KeyOptions, ConsistencyOptions):
    """Options of values that are written and read at stated levels."""


class Quorum(DataWorkload):
    """Puts and gets of unique values, and probes of every replica."""

    def __init__(self) -> None:
        super().__init__(
            name=_NAME,
            requires=frozenset({"keyspaces", "tables", "cql"}),
            tables=_tables,
            operations=_puts_and_gets,
            last_reads=_probes,
            options=QuorumOptions(),
        )


def _tables(context: Context) -> Sequence[Invoke]:
    # A probe answered by a faster replica says nothing of the intended one; 1.2 has no speculative retry.
    options = {"speculative_retry": "NONE"} if "conditional-writes" in context.features else {}
    columns = [("k", "int", "partition_key"), ("v", "int", "regular")]
    return (create_table(data_keyspace(context, _NAME), "q", columns=columns, options=options),)


def _puts_and_gets(worker: Worker, context: Context, random: Random) -> Iterator[Invoke]:
    keyspace = data_keyspace(context, _NAME)
    writes, reads = write_level(context), read_level(context)
    values = unique_values(worker)
    for key in keys(context, random):
        if random.random() < 0.5:
            value = next(values)
            query = Query(text=f"UPDATE {keyspace}.q SET v = {value} WHERE k = {key}", consistency=writes)
            yield Invoke("put", f"{keyspace}.q/{key}", {"value": value, "consistency": writes}, query=query)
        else:
            yield _get(keyspace, key, "get", reads)


def _probes(worker: Worker, context: Context, _label: str) -> Iterator[Step]:
    """Read every key through every node at ONE, before anything repairs differences; then at the level of reads."""
    keyspace = data_keyspace(context, _NAME)
    for key in all_keys(context):
        yield _get(keyspace, key, "probe", "ONE")
    reads = read_level(context)
    for key in my_keys(worker, context):
        yield _get(keyspace, key, "get", reads)


@lru_cache(maxsize=1 << 10)
def _get(keyspace: str, key: int, f: str, consistency: str) -> Invoke:
    """Return the read of a key: one is asked for again and again, while others are written beside it."""
    query = Query(
        text=f"SELECT v, WRITETIME(v) FROM {keyspace}.q WHERE k = {key}",
        consistency=consistency,
        answer="cell-and-writetime",
    )
    return Invoke(f, f"{keyspace}.q/{key}", {"consistency": consistency}, query=query)
