"""Queries: the reads and writes of the data workloads, each with its CQL and the form of its answer.

| f | key | value when invoked | value when ok | workload |
|---|---|---|---|---|
| read | ks.t/K | null | the register's value, null if it has none | register, cas-register |
| write | ks.t/K | the value | the same | register, cas-register |
| cas | ks.t/K | `[old, new]` | the same; `fail` if the register held something else | cas-register |
| add | ks.t | the element; of a counter, the amount | the same | set, counter |
| read | ks.t | null | the elements; of a counter, its value | set, counter |
| txn | ks.t | null; `mops` say what is done to which key | null; `mops` with what was read | append, rw-register |
| batch | ks | `{"id": n, "tables": [name, …], "consistency": name}` | the same | batch |
| read-batches | ks.t | `{"consistency": name}` | the ids that are in this table | batch |
| put | ks.t/K | `{"value": n, "consistency": name}` | the same | quorum |
| get | ks.t/K | `{"consistency": name}` | and `"value": n or null, "writetime": µs or null` | quorum |
| probe | ks.t/K | `{"consistency": "ONE"}` | as of a get: what this one replica holds | quorum |
| write-rows | ks.t | `{"partition": n, "first": row, "count": n, "lts": µs, "consistency": name}` | the same | descriptors |
| delete-rows | ks.t | as of write-rows: a range of rows | the same | descriptors |
| delete-partition | ks.t | `{"partition": n, "lts": µs, "consistency": name}` | the same | descriptors |
| check-rows | ks.t | `{"first": partition, "count": n, "consistency": name}` | and `"rows": n, "runs": [[first, count, lts, …], …]`, one list a partition (`schemaquake.harness.descriptors.runs`), and `"strange": [[partition, clustering, value, µs], …]` where there are any | descriptors |

`f`, keys and values are those of Jepsen's histories where Jepsen has the operation, so that any checker of theirs or of
ours reads them. The text of a query is not recorded: workload, key and value determine it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from schemaquake.harness.model.operation import JSON

if TYPE_CHECKING:  # most workers never meet such an array
    import numpy as np
    import numpy.typing as npt

__all__ = ["ECHOED_WRITES", "READS", "Answer", "BulkQuery", "Fold", "Query"]

Answer: TypeAlias = Literal[
    "nothing", "applied", "cell", "column", "collection", "lists", "registers", "cell-and-writetime"
]
"""The conversion of rows to a value.

- `nothing`: the value stays as it was asked
- `applied`: a conditional write; the first column says whether it was carried out, and `fail` if not
- `cell`: the one cell of the one row, null without a row
- `column`: the first column of all rows, sorted
- `collection`: the elements of the one cell, sorted; [] without a row
- `lists`, `registers`: the n-th column of the one row is what the n-th `r` of the micro-operations read
- `cell-and-writetime`: a cell and its WRITETIME, put into the value as `value` and `writetime`
"""

READS: Final = frozenset({"read", "read-batches", "get", "probe", "check-rows"})
"""Operations that change nothing, whatever their outcome."""
ECHOED_WRITES: Final = ("write", "cas", "add", "batch", "put", "write-rows", "delete-rows", "delete-partition")
"""Writes whose value when ok is the one that was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """CQL that carries out one operation. Timestamps of writes are the coordinator's, as its clock is what faults skew."""

    text: str
    consistency: str = "QUORUM"
    """The consistency level by its name in drivers; SERIAL for a linearizable read."""
    serial_consistency: str | None = None
    """The serial consistency of a conditional write or a transaction: SERIAL or LOCAL_SERIAL."""
    answer: Answer = "nothing"


Fold: TypeAlias = "Callable[[Sequence[npt.NDArray[np.int64]]], Mapping[str, JSON]]"
"""From one array of rows × columns for each set of values to what is added to the operation's value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkQuery:
    """One statement that is prepared once and carried out with many sets of values; all columns are of type bigint.

    Writes give their own timestamps, so that the order of writes does not depend on clocks.
    """

    text: str
    """CQL with a `?` for each value."""
    values: Sequence[Sequence[int]]
    consistency: str = "QUORUM"
    fold: Fold | None = field(default=None, repr=False)
    """Makes the value of a read, whose statements are asked several at a time; None: the sets of values are one unlogged
    batch, which changes one partition."""
