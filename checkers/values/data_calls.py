"""Calls on data: the operations of a few functions, grouped by key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.checkers.evidence.operations import PairedOperation, operations
from schemaquake.harness.model.records import plain

__all__ = ["group_calls_by_key", "list_objects"]


def group_calls_by_key(
    history: pa.Table, functions: Sequence[str], *, defining: Sequence[str]
) -> Mapping[str | None, Sequence[PairedOperation]]:
    """Group the operations (`f` in `functions`) by key, in order of invocation; None: operations without a key.

    Only keys with an operation of `defining` are returned: other checkers judge the others. Raises HistoryError.
    """
    events = plain(history.select([name for name in history.schema.names if name != "mops"]))
    mops = pa.nulls(len(events), history.schema.field("mops").type)
    events = events.append_column("mops", mops)
    found: dict[str | None, list[PairedOperation]] = {}
    for operation in operations(events.filter(pc.is_in(events["f"], pa.array(functions)))):
        found.setdefault(operation.key, []).append(operation)
    return {key: calls for key, calls in found.items() if any(call.f in defining for call in calls)}


def list_objects(key: str | None) -> tuple[str, ...]:
    """List the objects of a finding about this key."""
    return () if key is None else (key,)
