"""Exchange: what a check that is made piece by piece needs of the place where it is made.

The check is a series of *steps*: functions of the rows that other steps left and of a message, which give an answer. Messages
and answers are frozen dataclasses of numbers, findings and references (`Part`); rows do not travel in them. A step shares
rows out, each to the part that will need it, and steps that are given the references read them.

Where rows lie and who calls the steps is not the check's business: in memory (`schemaquake.checkers.exchange.memory`), or in
Parquet files, in this process or in the tasks of a Spark session (`schemaquake.results.engines.exchange`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy.typing as npt
import pyarrow as pa

from schemaquake.harness.model.protocols import Checker
from schemaquake.harness.model.verdict import Verdict

__all__ = ["Answer", "Exchange", "Message", "Part", "Parts", "Piecewise", "Rows", "of_part"]

Message = TypeVar("Message")
Answer = TypeVar("Answer")

Part: TypeAlias = object
"""A reference to rows, opaque to steps: only the exchange that gave it can read it."""
Parts: TypeAlias = Sequence[Part | None]
"""References to the rows of every part of one table; None for a part without rows."""


class Rows(Protocol):
    """The rows that steps see: the history in ranges, and what steps shared out. Picklable, if steps run elsewhere."""

    @property
    def metadata(self) -> Mapping[bytes, bytes]:
        """The metadata of the history's table."""
        ...

    @property
    def keyed(self) -> bool:
        """False if the history is known to have no event with a key."""
        ...

    @property
    def first(self) -> Sequence[int]:
        """The first row of each range, in order, and the number of rows: range r is `first[r]:first[r + 1]`."""
        ...

    def events(self, number: int) -> pa.Table:
        """Read one range of the history, as `HISTORY` in order of the index. Raises HistoryError."""
        ...

    def share(self, name: str, table: pa.Table, part: npt.NDArray[Any], count: int) -> Parts:
        """Share rows out: row n goes to `part[n]`; to none, if that is `count`. A step called twice writes one name twice."""
        ...

    def keep(self, name: str, table: pa.Table) -> Part:
        """Keep a table as a whole."""
        ...

    def read(self, parts: Iterable[Part | None], schema: pa.Schema) -> pa.Table:
        """Read rows back, one part after another, as `schema`."""
        ...


class Exchange(Rows, Protocol):
    """Rows of a history, and the calling of steps on them."""

    @property
    def shares(self) -> int:
        """The number of parts into which work is divided that can be divided at will."""
        ...

    @property
    def memory_bytes(self) -> int | None:
        """The memory that one step may take; None: no limit is known."""
        ...

    def size(self, parts: Parts) -> int:
        """Estimate the bytes that rows take in memory."""
        ...

    def each(self, step: Callable[[Rows, Message], Answer], messages: Sequence[Message]) -> list[Answer]:
        """Call the step on every message; return the answers in the order of the messages. A step may be called twice."""
        ...

    def each_within(
        self, limit_s: float, step: Callable[[Rows, Message], Answer], messages: Sequence[Message]
    ) -> list[Answer | None]:
        """Call the step on every message, as `each`; None stands for the answer of a call ended after `limit_s`."""
        ...

    def apart(self, name: str) -> AbstractContextManager[Exchange]:
        """Exchange the same history's rows apart from all others, and forget them when the block ends."""
        ...


@runtime_checkable
class Piecewise(Checker, Protocol):
    """A checker that can judge a history piece by piece, with the verdict that it gives on the whole."""

    @property
    def ranges_least(self) -> int:
        """The number of ranges from which on pieces are worth it."""
        ...

    def check_pieces(self, exchange: Exchange, *, limit_s: float) -> Verdict:
        """Judge the history of the exchange. Raises HistoryError, and PlanError for an unknown model."""
        ...


def of_part(written: Iterable[Parts], part: int) -> list[Part]:
    """Select the references of one part in several tables that were shared out alike."""
    found = (parts[part] for parts in written if parts)
    return [reference for reference in found if reference is not None]
