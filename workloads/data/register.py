"""Registers by lightweight transactions: every key is one value that is read, written and compared-and-set.

- `register`: unique values are written and read; linearizability is then decided in O(n log n)
- `cas-register`: five values over and over, written, read, and compared-and-set, as in Jepsen's tests

Writes are conditional (`IF`), with a condition that always holds where the operation has none; reads are at SERIAL. That is the
whole of what Cassandra promises to be linearizable (CASSANDRA-5062), and what was not so before 3.0.24, 3.11.10 and
4.0-rc: a serial read could miss a proposal that a minority had accepted and that took effect later (CASSANDRA-12126).

Must hold: every key's history is linearizable, under any fault.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from schemaquake.harness.model.options import configured, option
from schemaquake.harness.model.protocols import Context, Worker
from schemaquake.harness.model.queries import Query
from schemaquake.harness.model.steps import Invoke, Step
from schemaquake.workloads.data.reading_and_writing import (
    DataWorkload,
    KeyOptions,
    data_keyspace,
    keys,
    my_keys,
    table,
    unique_values,
)

__all__ = ["CasRegister", "Register"]

_VALUES: Final = 5
_PADDING_MOST: Final = 30_000
_REQUIRES: Final = frozenset({"keyspaces", "tables", "conditional-writes"})


def _padding(text: str) -> int:
    if not 0 <= (size := int(text)) <= _PADDING_MOST:
        raise ValueError(text)
    return size


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterOptions(KeyOptions):
    """Options of registers that are read and written."""

    padding: int = option(0, f"the number of bytes written beside each value, at most {_PADDING_MOST}", parse=_padding)
    """Padding makes proposals larger than promises, so that a nemesis can drop them by size."""


class Register(DataWorkload):
    """Reads and writes of unique values."""

    about = "Registers by lightweight transactions: every key is one value that is read and written."

    def __init__(self) -> None:
        super().__init__(
            name="register",
            requires=_REQUIRES,
            tables=lambda context: _tables(context, "register"),
            operations=_reads_and_writes,
            last_reads=lambda worker, context, _label: _last_reads(worker, context, "register"),
            options=RegisterOptions(),
        )


class CasRegister(DataWorkload):
    """Reads, writes and compare-and-set of a few values."""

    about = "Registers by lightweight transactions: every key is one value that is read, written and compared-and-set."

    def __init__(self) -> None:
        super().__init__(
            name="cas-register",
            requires=_REQUIRES,
            tables=lambda context: _tables(context, "cas-register"),
            operations=_reads_writes_and_sets,
            last_reads=lambda worker, context, _label: _last_reads(worker, context, "cas-register"),
            options=KeyOptions(),
        )


def _tables(context: Context, workload: str) -> Sequence[Invoke]:
    # The column `never` is never written: a condition on it always holds, also before the row exists.
    return (table(data_keyspace(context, workload), "r", ("v", "int"), ("padding", "text"), ("never", "int")),)


def _reads_and_writes(worker: Worker, context: Context, random: Random) -> Iterator[Invoke]:
    keyspace = data_keyspace(context, "register")
    values = unique_values(worker)
    padding = configured(RegisterOptions(), context.options).padding
    for key in keys(context, random):
        if random.random() < 0.5:
            yield _write(keyspace, key, next(values), padding=padding)
        else:
            yield _read(keyspace, key)


def _reads_writes_and_sets(_worker: Worker, context: Context, random: Random) -> Iterator[Invoke]:
    keyspace = data_keyspace(context, "cas-register")
    for key in keys(context, random):
        match random.randrange(3):
            case 0:
                yield _read(keyspace, key)
            case 1:
                yield _write(keyspace, key, random.randrange(_VALUES))
            case _:
                yield _compare_and_set(keyspace, key, random.randrange(_VALUES), random.randrange(_VALUES))


def _last_reads(worker: Worker, context: Context, workload: str) -> Iterator[Step]:
    """Read every key once, shared out over the nodes."""
    for key in my_keys(worker, context):
        yield _read(data_keyspace(context, workload), key)


def _read(keyspace: str, key: int) -> Invoke:
    query = Query(text=f"SELECT v FROM {keyspace}.r WHERE k = {key}", consistency="SERIAL", answer="cell")
    return Invoke("read", f"{keyspace}.r/{key}", None, query=query)


def _write(keyspace: str, key: int, value: int, *, padding: int = 0) -> Invoke:
    beside = f", padding = '{'x' * padding}'" if padding else ""
    text = f"UPDATE {keyspace}.r SET v = {value}{beside} WHERE k = {key} IF never = null"
    return Invoke("write", f"{keyspace}.r/{key}", value, query=_conditional(text))


def _compare_and_set(keyspace: str, key: int, old: int, new: int) -> Invoke:
    text = f"UPDATE {keyspace}.r SET v = {new} WHERE k = {key} IF v = {old}"
    return Invoke("cas", f"{keyspace}.r/{key}", [old, new], query=_conditional(text))


def _conditional(text: str) -> Query:
    return Query(text=text, consistency="QUORUM", serial_consistency="SERIAL", answer="applied")
