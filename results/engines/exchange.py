"""Parquet exchange: rows in files of one folder, and steps executed by an engine in this process or in Spark tasks.

Steps write each row once and read it once; the process that runs the check holds only references. All tasks must see the
history and the folder under the same paths.
"""

from __future__ import annotations

import itertools
import pickle
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Generic

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from schemaquake.checkers.exchange.exchange import Answer, Exchange, Message, Part, Parts, Rows
from schemaquake.results.engines.deadline import Overdue, deadline
from schemaquake.results.engines.engine import Engine
from schemaquake.results.engines.ranges import Ranges
from schemaquake.results.store.parquet_footer import row_groups

__all__ = ["EngineExchange", "ParquetRows"]

_MESSAGES: Final = pa.schema([("unit", pa.int32()), ("message", pa.binary())])
_ANSWERS: Final = pa.schema([("unit", pa.int32()), ("answer", pa.large_binary())])


@dataclass(frozen=True, slots=True)
class _Stored:
    """A reference to a row group of a file; None for the whole file."""

    file: str
    group: int | None


@dataclass(frozen=True, slots=True)
class ParquetRows:
    """Rows in Parquet files. A file contains the parts of one table, one row group each."""

    ranges: Ranges
    folder: Path

    @property
    def metadata(self) -> Mapping[bytes, bytes]:
        """Implement `Rows.metadata`."""
        return pq.read_schema(self.ranges.file).metadata or {}

    @property
    def keyed(self) -> bool:
        """Implement `Rows.keyed`."""
        return self.ranges.keyed()

    @property
    def first(self) -> Sequence[int]:
        """Implement `Rows.first`."""
        return self.ranges.first

    def events(self, number: int) -> pa.Table:
        """Implement `Rows.events`."""
        return self.ranges.read(number)

    def share(self, name: str, table: pa.Table, part: npt.NDArray[Any], count: int) -> Parts:
        """Implement `Rows.share`."""
        path = self.folder / f"{name}.parquet"
        order = np.argsort(part, kind="stable")
        starts = np.searchsorted(part[order], np.arange(count + 1))
        references: list[Part | None] = []
        with _draft(path) as draft, pq.ParquetWriter(draft, table.schema, compression="lz4") as writer:
            groups = itertools.count()
            for begin, end in itertools.pairwise(starts):
                if begin == end:
                    references.append(None)
                    continue
                writer.write_table(table.take(pa.array(order[begin:end])), row_group_size=int(end - begin))
                references.append(_Stored(str(path), next(groups)))
        return references

    def keep(self, name: str, table: pa.Table) -> Part:
        """Implement `Rows.keep`."""
        path = self.folder / f"{name}.parquet"
        with _draft(path) as draft:
            pq.write_table(table, draft, compression="lz4")
        return _Stored(str(path), None)

    def read(self, parts: Iterable[Part | None], schema: pa.Schema) -> pa.Table:
        """Implement `Rows.read`."""
        tables = [schema.empty_table()]
        for part in parts:
            if part is None:
                continue
            assert isinstance(part, _Stored)
            with pq.ParquetFile(part.file) as file:
                table = file.read() if part.group is None else file.read_row_group(part.group)
            tables.append(table.cast(schema))
        return pa.concat_tables(tables)


@dataclass(frozen=True, slots=True)
class EngineExchange:
    """An exchange whose steps run on an engine, one task each."""

    engine: Engine
    rows: ParquetRows

    @property
    def metadata(self) -> Mapping[bytes, bytes]:
        """Implement `Rows.metadata`."""
        return self.rows.metadata

    @property
    def keyed(self) -> bool:
        """Implement `Rows.keyed`."""
        return self.rows.keyed

    @property
    def first(self) -> Sequence[int]:
        """Implement `Rows.first`."""
        return self.rows.first

    @property
    def shares(self) -> int:
        """Number of shares: two for each step that the engine runs at the same time, so that a slow one delays less."""
        return 2 * self.engine.width

    @property
    def memory_bytes(self) -> int | None:
        """Implement `Exchange.memory_bytes`."""
        return self.engine.memory_bytes

    def events(self, number: int) -> pa.Table:
        """Implement `Rows.events`."""
        return self.rows.events(number)

    def share(self, name: str, table: pa.Table, part: npt.NDArray[Any], count: int) -> Parts:
        """Implement `Rows.share`."""
        return self.rows.share(name, table, part, count)

    def keep(self, name: str, table: pa.Table) -> Part:
        """Implement `Rows.keep`."""
        return self.rows.keep(name, table)

    def read(self, parts: Iterable[Part | None], schema: pa.Schema) -> pa.Table:
        """Implement `Rows.read`."""
        return self.rows.read(parts, schema)

    def size(self, parts: Parts) -> int:
        """Implement `Exchange.size`."""
        stored = [part for part in parts if isinstance(part, _Stored)]
        groups = {file: row_groups(Path(file)) for file in {part.file for part in stored}}
        return sum(
            sum(group.size for group in groups[part.file]) if part.group is None else groups[part.file][part.group].size
            for part in stored
        )

    def each(self, step: Callable[[Rows, Message], Answer], messages: Sequence[Message]) -> list[Answer]:
        """Implement `Exchange.each`."""
        if not messages:
            return []
        units = pa.table(
            [pa.array(range(len(messages)), pa.int32()), [pickle.dumps(message) for message in messages]],
            schema=_MESSAGES,
        )
        carried = self.engine.carry(_Step(step, self.rows), units, _ANSWERS).sort_by("unit")
        return [pickle.loads(answer) for answer in carried["answer"].to_pylist()]  # noqa: S301 - of our own tasks

    def each_within(
        self, limit_s: float, step: Callable[[Rows, Message], Answer], messages: Sequence[Message]
    ) -> list[Answer | None]:
        """Implement `Exchange.each_within`."""
        return self.each(_Within(step, limit_s), messages)

    @contextmanager
    def apart(self, name: str) -> Iterator[Exchange]:
        """Implement `Exchange.apart`."""
        folder = self.rows.folder / name
        folder.mkdir()
        try:
            yield replace(self, rows=replace(self.rows, folder=folder))
        finally:
            shutil.rmtree(folder)


@dataclass(frozen=True, slots=True)
class _Step(Generic[Message, Answer]):
    """A step in the form that engines execute: messages and answers are pickled."""

    step: Callable[[Rows, Message], Answer]
    rows: ParquetRows

    def __call__(self, group: pa.Table) -> pa.Table:
        answers = [
            pickle.dumps(self.step(self.rows, pickle.loads(message)))  # noqa: S301 - as the class says
            for message in group["message"].to_pylist()
        ]
        return pa.table([group["unit"], pa.array(answers, pa.large_binary())], schema=_ANSWERS)


@dataclass(frozen=True, slots=True)
class _Within(Generic[Message, Answer]):
    """A step with a time limit."""

    step: Callable[[Rows, Message], Answer]
    limit_s: float

    def __call__(self, rows: Rows, message: Message) -> Answer | None:
        try:
            with deadline(self.limit_s):
                return self.step(rows, message)
        except Overdue:
            return None


@contextmanager
def _draft(path: Path) -> Iterator[Path]:
    """Yield a temporary path that replaces `path` when the block ends, whole or not at all: a task may be killed and retried.

    The files need not survive a power cut, so unlike `schemaquake.results.store.atomic` it does not wait for the disk.
    """
    draft = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    try:
        yield draft
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
