"""Calls on data: the operations of a few functions, key by key, for checkers that look at one object after another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.checkers.evidence.operations import PairedOperation, operations
from schemaquake.harness.model.records import plain

__all__ = ["calls_by_key", "key_of"]


def calls_by_key(
    history: pa.Table, functions: Sequence[str], *, defining: Sequence[str]
) -> Mapping[str | None, Sequence[PairedOperation]]:
    """The operations (`f` in `functions`) of each key, in order of invocation; null: of no key.

    Only keys on which one of `defining` was called: others are somebody else's. Raises HistoryError.
    """
    known = plain(history.select([name for name in history.schema.names if name != "mops"]))
    mops = pa.nulls(len(known), history.schema.field("mops").type)
    known = known.append_column("mops", mops)
    found: dict[str | None, list[PairedOperation]] = {}
    for operation in operations(known.filter(pc.is_in(known["f"], pa.array(functions)))):
        found.setdefault(operation.key, []).append(operation)
    return {key: calls for key, calls in found.items() if any(call.f in defining for call in calls)}


def key_of(key: str | None) -> tuple[str, ...]:
    """The objects of a finding."""
    return () if key is None else (key,)
