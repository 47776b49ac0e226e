"""rw-register: plain reads and writes of unique values at QUORUM, as transactions of one micro-operation.

Last-write-wins registers of a single partition at QUORUM promise that every value read was written (read
committed, per key) and, while clocks agree, that a read shows the last acknowledged write. Elle's `rw-register` says
which of the levels hold; `-O consistency=ONE` lowers both sides.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from schemaquake.harness.model.protocols import Context, Worker
from schemaquake.harness.model.queries import Query
from schemaquake.harness.model.steps import Invoke, Step
from schemaquake.workloads.data.reading_and_writing import (
    DataWorkload,
    KeyOptions,
    LevelOptions,
    data_keyspace,
    keys,
    my_keys,
    table,
    unique_values,
    write_level,
)

__all__ = ["RwRegister"]

_NAME = "rw-register"


@dataclass(frozen=True, kw_only=True)
class RwRegisterOptions(KeyOptions, LevelOptions):
    """Options of registers that are read and written at a stated level."""


class RwRegister(DataWorkload):
    """One read or one write of one key."""

    def __init__(self) -> None:
        super().__init__(
            name=_NAME,
            requires=frozenset({"keyspaces", "tables", "cql"}),
            tables=lambda context: (table(data_keyspace(context, _NAME), "r", ("v", "int")),),
            operations=_operations,
            last_reads=_last_reads,
            options=RwRegisterOptions(),
        )


def _operations(worker: Worker, context: Context, random: Random) -> Iterator[Invoke]:
    values = unique_values(worker)
    level = write_level(context)
    for key in keys(context, random):
        yield _write(context, key, next(values), level) if random.random() < 0.5 else _read(context, key, level)


def _last_reads(worker: Worker, context: Context, _label: str) -> Iterator[Step]:
    for key in my_keys(worker, context):
        yield _read(context, key, write_level(context))


def _write(context: Context, key: int, value: int, level: str) -> Invoke:
    keyspace = data_keyspace(context, _NAME)
    query = Query(text=f"UPDATE {keyspace}.r SET v = {value} WHERE k = {key}", consistency=level)
    return Invoke("txn", f"{keyspace}.r", None, (("w", key, value, None),), query)


def _read(context: Context, key: int, level: str) -> Invoke:
    keyspace = data_keyspace(context, _NAME)
    query = Query(text=f"SELECT v FROM {keyspace}.r WHERE k = {key}", consistency=level, answer="registers")
    return Invoke("txn", f"{keyspace}.r", None, (("r", key, None, None),), query)
