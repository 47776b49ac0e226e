"""Timelines: the operations on each object, in order, with their outcomes.

An object is a key of the history: a keyspace, a table, a type … Operations of the run as a whole have no key and are
in no timeline. Pure function of `schemaquake.harness.history.pairing.OPERATIONS`; the objects of a keyspace give the same rows as the run.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.harness.model.records import keyspace_of, plain

__all__ = ["TIMELINES", "tabulate_timelines"]

_OPERATION: Final = pa.struct(
    [
        ("index", pa.int64()),
        ("completion", pa.int64()),
        ("process", pa.int32()),
        ("node", pa.string()),
        ("f", pa.string()),
        ("type", pa.string()),  # ok, fail, info
        ("invoked", pa.int64()),  # ns since the run started
        ("completed", pa.int64()),
    ]
)

TIMELINES: Final = pa.schema(
    [
        ("keyspace", pa.string()),
        ("key", pa.string()),
        ("ok", pa.int64()),
        ("fail", pa.int64()),
        ("info", pa.int64()),
        ("operations", pa.list_(_OPERATION)),  # by index
    ]
)


def tabulate_timelines(operations: pa.Table) -> pa.Table:
    """Return one row an object (`TIMELINES`, by key)."""
    columns = plain(operations.select([*(field.name for field in _OPERATION), "key"]))
    keyed = columns.filter(columns["key"].is_valid()).sort_by([("key", "ascending"), ("index", "ascending")])
    if not len(keyed):
        return TIMELINES.empty_table()
    runs = pc.run_end_encode(keyed["key"].combine_chunks())
    ends = runs.run_ends.to_numpy()
    begins = np.append(0, ends[:-1])
    objects = {"key": runs.values, "keyspace": pa.array([keyspace_of(key) for key in runs.values.to_pylist()])}
    for outcome in ("ok", "fail", "info"):
        reached = pc.equal(keyed["type"], outcome).to_numpy(zero_copy_only=False)
        objects[outcome] = pa.array(np.add.reduceat(reached.astype(np.int64), begins))
    structs = keyed.select([field.name for field in _OPERATION]).to_struct_array().combine_chunks().cast(_OPERATION)
    offsets = pa.array(np.append(begins, len(keyed)).astype(np.int32))
    objects["operations"] = pa.ListArray.from_arrays(offsets, structs)
    return pa.table(objects).select(TIMELINES.names).cast(TIMELINES)
