"""Probe errors: the fault behind a server's error to a read or a write.

Judges the error as the client records it: `Class: message of the server`. The messages were seen on Cassandra 0.7 to 6.0
and are in the sources of ScyllaDB.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import Final

from schemaquake.checkers.findings.limits import LIMITS

__all__ = ["ProbeFault", "classify_error", "find_missing_column", "shorten_error"]


class ProbeFault(Enum):
    """The kind of fault that an error shows."""

    NO_TABLE = auto()
    """The coordinator does not know the table or its keyspace."""
    NO_COLUMN = auto()
    """The coordinator does not know a column; `find_missing_column` returns its name."""
    STATEMENT = auto()
    """The statement does not fit the table as the coordinator knows it."""
    MEMBERSHIP = auto()
    """Too few replicas were alive in the coordinator's view, which is no matter of schema."""
    SILENCE = auto()
    """No connection to the coordinator, or no answer in time from it or its replicas."""
    EXECUTION = auto()
    """The server understood the statement, and failed to execute it."""


_NO_TABLE: Final = re.compile(
    r"unconfigured (table|columnfamily)|(table|keyspace|columnfamily|column family) \S+ (does not|doesn't) exist|"
    r"(keyspace|table) '?\S+'? not found|can't find a column family",
    re.IGNORECASE,
)
_NO_COLUMN: Final = re.compile(
    r"(?:undefined (?:column )?name|unknown identifier|unrecognized name|unknown column) '?\"?(\w+)", re.IGNORECASE
)
_REFUSED: Final = re.compile(r"^(InvalidRequest(?:Exception)?|SyntaxException|ConfigurationException|Unauthorized)\b")
_SILENT: Final = re.compile(
    r"^(NoHostAvailable|OperationTimedOut|Connection\w*|WriteTimeout|ReadTimeout|TimedOut\w*|NotConnected|TTransportException|TimeoutError|IsBootstrapping\w*|Overloaded\w*)\b"
)


def classify_error(error: str) -> ProbeFault:
    """Classify an error of a read or a write."""
    if _SILENT.search(error):
        return ProbeFault.SILENCE
    if error.startswith("Unavailable"):
        return ProbeFault.MEMBERSHIP
    if _NO_TABLE.search(error):
        return ProbeFault.NO_TABLE
    if _NO_COLUMN.search(error):
        return ProbeFault.NO_COLUMN
    return ProbeFault.STATEMENT if _REFUSED.search(error) else ProbeFault.EXECUTION


def find_missing_column(error: str) -> str | None:
    """Find the name of the column that the coordinator does not know; None: the error names none."""
    found = _NO_COLUMN.search(error)
    return None if found is None else found[1]


def shorten_error(error: str) -> str:
    """Shorten an error to at most 300 characters, without the driver's codes and counts."""
    text = re.sub(r"<?Error from server: code=\S+ \[[^\]]*\] message=", "", error)
    text = re.sub(r"\s+info=\{.*", "", text).rstrip(">")
    return text if len(text) <= LIMITS.error_length else f"{text[: LIMITS.error_length]} …"
