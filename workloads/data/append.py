"""List-append: transactions that append unique elements to lists and read whole lists, as Elle wants them.

- `append`: one micro-operation a transaction, by lightweight transactions and SERIAL reads: must be strictly
  serializable, which for single operations is linearizability
- `append-accord`: several keys a transaction, by Accord's `BEGIN TRANSACTION` (CEP-15; 6.0): must be strictly serializable

Source of the idea: Kingsbury & Alvaro, "Elle: Inferring Isolation Anomalies from Experimental Observations", VLDB 2020.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Final

from schemaquake.harness.ddl.schema_changes import create_table
from schemaquake.harness.model.operation import MicroOp
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

__all__ = ["Append", "AppendAccord"]

_MICRO_OPERATIONS_MAX: Final = 4


class Append(DataWorkload):
    """One append or one read of one list."""

    about = "List-append, one list at a time: unique elements are appended by lightweight transactions, and whole lists are read."

    def __init__(self) -> None:
        super().__init__(
            name="append",
            requires=frozenset({"keyspaces", "tables", "collections", "conditional-writes"}),
            tables=lambda context: (
                table(data_keyspace(context, "append"), "a", ("l", "list<int>"), ("never", "int")),
            ),
            operations=_single,
            last_reads=_last_single_reads,
            options=KeyOptions(),
        )


class AppendAccord(DataWorkload):
    """Appends and reads of up to four lists in one transaction."""

    about = "List-append by Accord transactions (6.0): appends to and reads of up to four lists at once, as Elle wants them."

    def __init__(self) -> None:
        super().__init__(
            name="append-accord",
            requires=frozenset({"keyspaces", "tables", "collections", "accord"}),
            tables=_transactional_table,
            operations=_transactions,
            last_reads=_last_transactions,
            options=KeyOptions(),
        )


# ── one key at a time ────────────────────────────────────────────────────────────────────────────────────────────────


def _single(worker: Worker, context: Context, random: Random) -> Iterator[Invoke]:
    keyspace = data_keyspace(context, "append")
    elements = unique_values(worker)
    for key in keys(context, random):
        yield _append(keyspace, key, next(elements)) if random.random() < 0.5 else _read(keyspace, key)


def _append(keyspace: str, key: int, element: int) -> Invoke:
    query = Query(
        text=f"UPDATE {keyspace}.a SET l = l + [{element}] WHERE k = {key} IF never = null",
        serial_consistency="SERIAL",
        answer="applied",
    )
    return Invoke("txn", f"{keyspace}.a", None, (("append", key, element, None),), query)


def _read(keyspace: str, key: int) -> Invoke:
    query = Query(text=f"SELECT l FROM {keyspace}.a WHERE k = {key}", consistency="SERIAL", answer="lists")
    return Invoke("txn", f"{keyspace}.a", None, (("r", key, None, None),), query)


def _last_single_reads(worker: Worker, context: Context, _label: str) -> Iterator[Step]:
    for key in my_keys(worker, context):
        yield _read(data_keyspace(context, "append"), key)


# ── several keys ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _transactional_table(context: Context) -> Sequence[Invoke]:
    columns = [("k", "int", "partition_key"), ("l", "list<int>", "regular")]
    keyspace = data_keyspace(context, "append-accord")
    return (create_table(keyspace, "a", columns=columns, options={"transactional_mode": "full"}),)


def _transactions(worker: Worker, context: Context, random: Random) -> Iterator[Invoke]:
    keyspace = data_keyspace(context, "append-accord")
    elements = unique_values(worker)
    chosen = keys(context, random)
    while True:
        some = list(dict.fromkeys(next(chosen) for _ in range(random.randint(1, _MICRO_OPERATIONS_MAX))))
        # A transaction reads before it writes, in any order of its text: a key is either read, or appended to, or both in
        # that order.
        mops: list[MicroOp] = [("r", key, None, None) for key in some if random.random() < 0.6]
        mops += [("append", key, next(elements), None) for key in some if random.random() < 0.6]
        if mops:
            yield _transaction(keyspace, mops)


def _transaction(keyspace: str, mops: Sequence[MicroOp]) -> Invoke:
    reads = [key for f, key, _, _ in mops if f == "r"]
    lets = [f"LET r{key} = (SELECT l FROM {keyspace}.a WHERE k = {key});" for key in reads]
    selects = [f"SELECT {', '.join(f'r{key}.l' for key in reads)};"] if reads else []
    updates = [f"UPDATE {keyspace}.a SET l += [{element}] WHERE k = {key};" for f, key, element, _ in mops if f != "r"]
    query = Query(
        text=" ".join(["BEGIN TRANSACTION", *lets, *selects, *updates, "COMMIT TRANSACTION"]),
        serial_consistency="SERIAL",
        answer="lists",
    )
    return Invoke("txn", f"{keyspace}.a", None, tuple(mops), query)


def _last_transactions(worker: Worker, context: Context, _label: str) -> Iterator[Step]:
    for key in my_keys(worker, context):
        yield _transaction(data_keyspace(context, "append-accord"), [("r", key, None, None)])
