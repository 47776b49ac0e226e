"""Probe errors: what a server's error to a read or a write says about the table.

From the error as the client tells it: `Class: words of the server`. Texts were seen on Cassandra 0.7 to 6.0 and are in
the sources of ScyllaDB.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import Final

__all__ = ["Fault", "fault_of", "in_short", "missing_column"]


class Fault(Enum):
    """What is wrong, as far as the error tells."""

    NO_TABLE = auto()
    """The coordinator does not know the table or its keyspace."""
    NO_COLUMN = auto()
    """The coordinator does not know a column; `missing_column` tells which."""
    STATEMENT = auto()
    """The statement does not fit the table as the coordinator knows it."""
    MEMBERSHIP = auto()
    """Too few replicas were alive, in the coordinator's opinion: no matter of schema."""
    SILENCE = auto()
    """No connection, or no answer in time, of the coordinator or of its replicas."""
    EXECUTION = auto()
    """It was understood, and went wrong."""


_LENGTH_MOST: Final = 300
_NO_TABLE: Final = re.compile(
    r"unconfigured (table|columnfamily)|(table|keyspace|columnfamily|column family) \S+ does not exist|"
    r"(keyspace|table) '?\S+'? (does not exist|not found)|can't find a column family",
    re.IGNORECASE,
)
_NO_COLUMN: Final = re.compile(
    r"(?:undefined (?:column )?name|unknown identifier|unrecognized name|unknown column) '?\"?(\w+)", re.IGNORECASE
)
_REFUSED: Final = re.compile(r"^(InvalidRequest(?:Exception)?|SyntaxException|ConfigurationException|Unauthorized)\b")
_SILENT: Final = re.compile(
    r"^(NoHostAvailable|OperationTimedOut|Connection\w*|WriteTimeout|ReadTimeout|TimedOut\w*|NotConnected|TTransportException|TimeoutError|IsBootstrapping\w*|Overloaded\w*)\b"
)


def fault_of(error: str) -> Fault:
    """Class an error."""
    if _SILENT.search(error):
        return Fault.SILENCE
    if error.startswith("Unavailable"):
        return Fault.MEMBERSHIP
    if _NO_TABLE.search(error):
        return Fault.NO_TABLE
    if _NO_COLUMN.search(error):
        return Fault.NO_COLUMN
    return Fault.STATEMENT if _REFUSED.search(error) else Fault.EXECUTION


def missing_column(error: str) -> str | None:
    """The column that the coordinator says it does not know."""
    found = _NO_COLUMN.search(error)
    return None if found is None else found[1]


def in_short(error: str) -> str:
    """The error without what repeats it (codes, and the list of what the server counted), at most 300 characters."""
    told = re.sub(r"<?Error from server: code=\S+ \[[^\]]*\] message=", "", error)
    told = re.sub(r"\s+info=\{.*", "", told).rstrip(">")
    return told if len(told) <= _LENGTH_MOST else f"{told[:_LENGTH_MOST]} …"
