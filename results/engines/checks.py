"""Checks that can be carried piece by piece: which checkers they are of, and how one is carried.

Of the others the engine calls the checker as it is, with everything it judges.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from schemaquake.checkers.elle.list_append import ListAppend
from schemaquake.checkers.elle.rw_register import RwRegister
from schemaquake.checkers.elle.tables import of_tables
from schemaquake.checkers.linearizability.linearizable import Linearizable
from schemaquake.harness.model.protocols import Checker
from schemaquake.harness.model.records import Records
from schemaquake.harness.model.verdict import Verdict
from schemaquake.results.engines.engine import Engine
from schemaquake.results.engines.ranges import Ranges, read_range
from schemaquake.results.engines.steps import Document, each

__all__ = ["Carried", "can_be_distributed", "check_file", "is_distributed"]

_CARRIED: Final[tuple[type, ...]] = (ListAppend, RwRegister, Linearizable)


@dataclass(slots=True)
class Carried:
    """A checker of one history whose tasks an engine carries, as a checker: it reads the file, whatever it is handed."""

    checker: Checker
    engine: Engine
    history: Path
    scratch: Path
    name: str
    scope: Literal["run", "keyspace"] = "run"
    finds: tuple[str, ...] = ()
    vouches: bool = True

    def check(self, records: Records, *, limit_s: float) -> Verdict:  # noqa: ARG002 - the file has them all
        """See `check_file`."""
        return check_file(self.checker, self.history, self.engine, limit_s=limit_s, scratch=self.scratch)


def can_be_distributed(checker: Checker) -> bool:
    """Whether a check of this kind can be carried piece by piece, if there are pieces."""
    return checker.scope == "run" and type(checker) in _CARRIED


def is_distributed(checker: Checker, history: Path) -> bool:
    """Whether a check of the history in that file is carried piece by piece.

    Transactions are, where they are in several row groups: one is a single task's work. Searches are always worth it.
    """
    if not can_be_distributed(checker):
        return False
    return isinstance(checker, Linearizable) or pq.read_metadata(history).num_row_groups > 1


def check_file(checker: Checker, history: Path, engine: Engine, *, limit_s: float, scratch: Path) -> Verdict:
    """The verdict on a history in a Parquet file, the one that the checker gives on the file as a whole.

    All tasks must see the file, and the folder `scratch`, under these paths. What is written there is removed.
    Raises HistoryError for a history that cannot be, PlanError for an unknown model.
    """
    with tempfile.TemporaryDirectory(prefix=".schemaquake-", dir=scratch) as folder:
        ranges = Ranges.of(history, 2 * engine.width, Path(folder))
        if isinstance(checker, Linearizable):
            from schemaquake.results.engines.linearizable_check import LinearizableCheck  # noqa: PLC0415 - as below

            return LinearizableCheck(
                engine=engine, ranges=ranges, scratch=Path(folder), checker=checker, limit_s=limit_s
            ).verdict()
        assert isinstance(checker, ListAppend | RwRegister)
        return _of_transactions(_Asked(checker, engine, ranges, Path(folder), limit_s))


@dataclass(frozen=True, slots=True)
class _Asked:
    checker: ListAppend | RwRegister
    engine: Engine
    ranges: Ranges
    folder: Path
    limit_s: float


def _of_transactions(asked: _Asked) -> Verdict:
    """Table by table, as `schemaquake.checkers.elle.tables` does."""
    tables = _tables(asked)
    if len(tables) <= 1:
        return _of_table(asked, None, asked.folder)
    return of_tables(_verdicts(asked, tables))


def _verdicts(asked: _Asked, tables: Sequence[str | None]) -> Iterator[tuple[str, Verdict]]:
    for number, table in enumerate(tables):
        folder = asked.folder / str(number)
        folder.mkdir()
        yield str(table), _of_table(asked, {"key": table}, folder)
        shutil.rmtree(folder)


def _of_table(asked: _Asked, table: Mapping[str, str | None] | None, folder: Path) -> Verdict:
    # Their compiler takes half a second to start.
    from schemaquake.checkers.elle.verdicts import Question  # noqa: PLC0415
    from schemaquake.results.engines.transaction_check import TransactionCheck  # noqa: PLC0415

    checker = asked.checker
    promises: list[str] = []
    if isinstance(checker, RwRegister):
        promises = checker.promises
    question = Question(checker=checker.name, models=checker.models, anomalies=(), limit_s=asked.limit_s)
    check = TransactionCheck(
        engine=asked.engine,
        ranges=asked.ranges,
        scratch=folder,
        question=question,
        promises=promises,
        table=table,
    )
    return check.verdict()


def _tables(asked: _Asked) -> list[str | None]:
    """The tables of which there are transactions, in the order in which they appear."""
    if _no_keys(asked.ranges.file):
        return [None]
    found = each(asked.engine, _tables_of, asked.ranges.documents())
    return list(dict.fromkeys(table for part in found for table in part["tables"]))


def _tables_of(document: Document) -> Document:
    events = read_range(document)
    return {"tables": pc.unique(events["key"].filter(events["mops"].is_valid()).cast(pa.string())).to_pylist()}


def _no_keys(file: Path) -> bool:
    """Whether the file itself says that no event has a key."""
    metadata = pq.read_metadata(file)
    if "key" not in pq.read_schema(file).names:
        return True
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        columns = (group.column(at) for at in range(group.num_columns))
        statistics = next((column.statistics for column in columns if column.path_in_schema == "key"), None)
        if statistics is None or not statistics.has_null_count or statistics.null_count < group.num_rows:
            return False
    return True
