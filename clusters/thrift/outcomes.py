"""Thrift outcomes: what an error of Cassandra 0.7 to 1.1 proves about the operation that met it, by `error_table`."""

from __future__ import annotations

from typing import Literal

from schemaquake.clusters.systems.outcome import Outcome, first_match
from schemaquake.clusters.thrift.connection import CallFailed, error_text
from schemaquake.clusters.thrift.error_table import TABLE

__all__ = ["TABLE", "classify"]


def classify(error: BaseException, *, on: Literal["read", "write", "schema"]) -> Outcome:
    """Return the first row for this error on this kind of operation. The cause of a CallFailed counts, by its class's names."""
    raised = error.error if isinstance(error, CallFailed) else error
    message = str(error) if isinstance(error, CallFailed) else error_text(error)
    return first_match(TABLE, raised, message, on=on)
