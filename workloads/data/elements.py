"""Elements: `set`, which only ever grows, and `counter`, which is added to; both are read as a whole.

- `set`: every element is inserted once, as a row of a table (`-O kind=rows`) or into a set column
  (`-O kind=collection`); reads return all of them
- `counter`: amounts are added to a counter column, some of them negative, and the sum is read

`-O consistency=` (QUORUM) is the level of the writes, `-O read-consistency=` that of the reads. With both at QUORUM no
acknowledged element may be missing from a later read. With ONE, and a node cut off while hints are off
(`-O yaml.hinted_handoff_enabled=false`), elements are missing from reads through another node, and a doubt of the checker names them.

A counter's increment that timed out may be counted or not (info). Up to 2.0 counter shards could drift when nodes died
(CASSANDRA-6504 rewrote them in 2.1).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from schemaquake.harness.errors import PlanError
from schemaquake.harness.model.options import configured, one_of, option
from schemaquake.harness.model.protocols import Context, Worker
from schemaquake.harness.model.queries import Query
from schemaquake.harness.model.steps import Invoke, Step, Wait
from schemaquake.workloads.data.reading_and_writing import (
    ConsistencyOptions,
    DataWorkload,
    data_keyspace,
    levels_of_reads,
    read_level,
    table,
    unique_values,
    write_level,
)

__all__ = ["CounterWorkload", "SetWorkload"]

_READS = 0.1
_SECONDS_TO_READ = 2.0
_ROW = 0


@dataclass(frozen=True, kw_only=True)
class SetOptions(ConsistencyOptions):
    """Options of a set that grows."""

    kind: str = option(
        "rows",
        '"rows" (each element is a row of a table) or "collection" (each is an element of one set column)',
        parse=one_of("rows", "collection"),
    )


class SetWorkload(DataWorkload):
    """Inserts of unique elements, and reads of all of them."""

    about = "Sets: unique elements are added, each with a row of its own or in a collection, and all of them are read."

    def __init__(self) -> None:
        super().__init__(
            name="set",
            requires=frozenset({"keyspaces", "tables", "cql"}),
            tables=_set_tables,
            operations=_adds_and_reads,
            last_reads=_last_set_reads,
            options=SetOptions(),
        )


class CounterWorkload(DataWorkload):
    """Increments and decrements of one counter, and reads of it."""

    about = "Counters: one counter is added to and subtracted from, and read."

    def __init__(self) -> None:
        super().__init__(
            name="counter",
            requires=frozenset({"keyspaces", "tables", "cql", "counters"}),
            tables=lambda context: (table(data_keyspace(context, "counter"), "c", ("n", "counter")),),
            operations=_increments_and_reads,
            last_reads=_last_counter_reads,
            options=ConsistencyOptions(),
        )


# ── sets ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _set_tables(context: Context) -> Sequence[Invoke]:
    keyspace = data_keyspace(context, "set")
    return (
        table(keyspace, "s", ("e", "set<int>")) if _in_a_collection(context) else table(keyspace, "s", ("v", "int")),
    )


def _in_a_collection(context: Context) -> bool:
    is_asked_for = configured(SetOptions(), context.options).kind == "collection"
    if is_asked_for and "collections" not in context.features:
        raise PlanError("kind=collection needs collections, which this system does not have; kind=rows needs none")
    return is_asked_for


def _adds_and_reads(worker: Worker, context: Context, random: Random) -> Iterator[Invoke]:
    for element in unique_values(worker):
        yield _add_element(context, element)
        if random.random() < _READS:
            yield _read_set(context)


def _add_element(context: Context, element: int) -> Invoke:
    keyspace = data_keyspace(context, "set")
    if _in_a_collection(context):
        text = f"UPDATE {keyspace}.s SET e = e + {{{element}}} WHERE k = {_ROW}"
    else:
        text = f"INSERT INTO {keyspace}.s (k, v) VALUES ({element}, 0)"
    return Invoke("add", f"{keyspace}.s", element, query=Query(text=text, consistency=write_level(context)))


def _read_set(context: Context) -> Invoke:
    keyspace = data_keyspace(context, "set")
    collected = _in_a_collection(context)
    query = Query(
        text=f"SELECT e FROM {keyspace}.s WHERE k = {_ROW}" if collected else f"SELECT k FROM {keyspace}.s",
        consistency=read_level(context),
        answer="collection" if collected else "column",
    )
    return Invoke("read", f"{keyspace}.s", levels_of_reads(context), query=query)


def _last_set_reads(worker: Worker, context: Context, _label: str) -> Iterator[Step]:
    """Read in turn: with two reads at once, the one that misses an element for good could not be determined."""
    yield Wait(worker.index * _SECONDS_TO_READ)
    yield _read_set(context)


# ── counters ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _increments_and_reads(_worker: Worker, context: Context, random: Random) -> Iterator[Invoke]:
    while True:
        yield _increment(context, random.choice([1, 2, 3, 5, -1, -2])) if random.random() < 0.7 else _sum(context)


def _increment(context: Context, amount: int) -> Invoke:
    keyspace = data_keyspace(context, "counter")
    sign = "+" if amount > 0 else "-"
    text = f"UPDATE {keyspace}.c SET n = n {sign} {abs(amount)} WHERE k = {_ROW}"
    return Invoke("add", f"{keyspace}.c", amount, query=Query(text=text, consistency=write_level(context)))


def _sum(context: Context) -> Invoke:
    keyspace = data_keyspace(context, "counter")
    query = Query(
        text=f"SELECT n FROM {keyspace}.c WHERE k = {_ROW}",
        consistency=read_level(context),
        answer="cell",
    )
    return Invoke("read", f"{keyspace}.c", levels_of_reads(context), query=query)


def _last_counter_reads(_worker: Worker, context: Context, _label: str) -> Iterator[Step]:
    yield _sum(context)
