"""Memory: an exchange within one process, whose references are the rows themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from schemaquake.checkers.exchange.exchange import Answer, Exchange, Message, Part, Parts, Rows

__all__ = ["MemoryExchange"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryExchange:
    """A history in memory, cut into ranges before the rows `cuts`, and steps called one after another.

    Calls are not ended: a step that takes long takes long.
    """

    history: pa.Table
    cuts: Sequence[int] = ()
    shares: int = 1
    memory_bytes: int | None = None

    @property
    def metadata(self) -> Mapping[bytes, bytes]:
        """See `Rows`."""
        return self.history.schema.metadata or {}

    @property
    def keyed(self) -> bool:
        """See `Rows`."""
        return bool(self.history["key"].null_count < len(self.history))

    @property
    def first(self) -> Sequence[int]:
        """See `Rows`."""
        return (0, *self.cuts, len(self.history))

    def events(self, number: int) -> pa.Table:
        """See `Rows`."""
        return self.history.slice(self.first[number], self.first[number + 1] - self.first[number])

    def share(self, name: str, table: pa.Table, part: npt.NDArray[Any], count: int) -> Parts:  # noqa: ARG002 - rows need no name here
        """See `Rows`."""
        chosen = [np.flatnonzero(part == number) for number in range(count)]
        return [table.take(pa.array(rows)) if len(rows) else None for rows in chosen]

    def keep(self, name: str, table: pa.Table) -> Part:  # noqa: ARG002 - as above
        """See `Rows`."""
        return table

    def read(self, parts: Iterable[Part | None], schema: pa.Schema) -> pa.Table:
        """See `Rows`."""
        tables = [schema.empty_table()]
        for part in parts:
            if part is not None:
                assert isinstance(part, pa.Table)
                tables.append(part.cast(schema))
        return pa.concat_tables(tables)

    def size(self, parts: Parts) -> int:
        """See `Exchange`."""
        return sum(part.nbytes for part in parts if isinstance(part, pa.Table))

    def each(self, step: Callable[[Rows, Message], Answer], messages: Sequence[Message]) -> list[Answer]:
        """See `Exchange`."""
        return [step(self, message) for message in messages]

    def each_within(
        self,
        limit_s: float,  # noqa: ARG002 - as the class says
        step: Callable[[Rows, Message], Answer],
        messages: Sequence[Message],
    ) -> list[Answer | None]:
        """See `Exchange`."""
        return [step(self, message) for message in messages]

    @contextmanager
    def apart(self, name: str) -> Iterator[Exchange]:  # noqa: ARG002 - as above
        """See `Exchange`."""
        yield self
