"""File exchange: rows in files of one folder, and steps executed by an engine in this process or in Spark tasks.

Steps write each row once and read it once; the process that runs the check holds only references. All tasks must see the
history and the folder under the same paths. The history is Parquet; what steps leave is Arrow's own format, as it is read
back at once: many small parts are written and read faster than row groups of Parquet.
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

__all__ = ["EngineExchange", "FileRows"]

_MESSAGES: Final = pa.schema([("unit", pa.int32()), ("message", pa.binary())])
_ANSWERS: Final = pa.schema([("unit", pa.int32()), ("answer", pa.large_binary())])


_LZ4: Final = pa.ipc.IpcWriteOptions(compression="lz4")


@dataclass(frozen=True, slots=True)
class _Stored:
    """A reference to consecutive batches of a file, and the bytes that they take in memory."""

    file: str
    batches: range
    size: int


@dataclass(frozen=True, slots=True)
class FileRows:
    """Rows in files. What steps leave lies in Arrow's format for files, whose batches can be read one by one."""

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
        if count <= np.iinfo(np.uint16).max:
            part = part.astype(np.uint16)  # which is sorted by counting
        order = np.argsort(part, kind="stable")
        bounds = itertools.pairwise(np.searchsorted(part[order], np.arange(count + 1)))
        parts = (table.take(pa.array(order[begin:end])) if begin < end else None for begin, end in bounds)
        return self._written(name, table.schema, parts)

    def keep(self, name: str, table: pa.Table) -> Part:
        """Implement `Rows.keep`."""
        return self._written(name, table.schema, [table])[0]

    def _written(self, name: str, schema: pa.Schema, tables: Iterable[pa.Table | None]) -> list[_Stored | None]:
        path = self.folder / f"{name}.arrow"
        references: list[_Stored | None] = []
        first = 0
        with _draft(path) as draft, pa.ipc.new_file(str(draft), schema, options=_LZ4) as writer:
            for table in tables:
                if table is None:
                    references.append(None)
                    continue
                batches = table.combine_chunks().to_batches()
                for batch in batches:
                    writer.write_batch(batch)
                references.append(_Stored(str(path), range(first, first + len(batches)), table.nbytes))
                first += len(batches)
        return references

    def read(self, parts: Iterable[Part | None], schema: pa.Schema) -> pa.Table:
        """Implement `Rows.read`."""
        tables = [schema.empty_table()]
        for part in parts:
            if part is None:
                continue
            assert isinstance(part, _Stored)
            with pa.OSFile(part.file) as file, pa.ipc.open_file(file) as reader:
                table = pa.Table.from_batches(map(reader.get_batch, part.batches), reader.schema)
            tables.append(table.cast(schema))
        return pa.concat_tables(tables)


@dataclass(frozen=True, slots=True)
class EngineExchange:
    """An exchange whose steps run on an engine, one task each."""

    engine: Engine
    rows: FileRows

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
        return sum(part.size for part in parts if isinstance(part, _Stored))

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
    rows: FileRows

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

    The files need not survive a power cut, so unlike `schemaquake.harness.atomic` it does not wait for the disk.
    """
    draft = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    try:
        yield draft
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
