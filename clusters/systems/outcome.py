"""Outcome: one row of a table that says what an error proves about the operation that met it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = ["Kind", "Outcome", "first_match"]

Kind: TypeAlias = Literal["read", "write", "conditional", "schema"]
"""Kinds of operations: a read changes nothing; a conditional write takes several rounds; `schema` is DDL."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One row: an error (class name and, where it matters, its text), on which operations, and what it proves."""

    error: str
    text: str
    """A regular expression searched in the message; empty matches any."""
    on: Literal["any", "read", "write", "conditional", "schema"]
    means: Literal["ok", "fail", "info"]
    because: str


def first_match(rows: Iterable[Outcome], error: BaseException, message: str, *, on: Kind) -> Outcome:
    """Find the first row for this error on this kind of operation; an error's base classes count, by name.

    The last row of `rows` has to match everything.
    """
    names = {cls.__name__ for cls in type(error).__mro__}
    for row in rows:
        if row.on in {"any", on} and (row.error == "*" or row.error in names) and re.search(row.text, message):
            return row
    raise AssertionError("the last row matches everything")
