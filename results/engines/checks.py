"""Checks carried piece by piece: the checkers that declare that they can be (`Piecewise`), and how one is carried.

Of the others the engine calls the checker as it is, with everything it judges.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeGuard

import pyarrow.parquet as pq

from schemaquake.checkers.exchange.exchange import Piecewise
from schemaquake.harness.model.protocols import Checker
from schemaquake.harness.model.records import Records
from schemaquake.harness.model.verdict import Verdict
from schemaquake.results.engines.engine import Engine
from schemaquake.results.engines.exchange import EngineExchange, ParquetRows
from schemaquake.results.engines.ranges import Ranges

__all__ = ["Carried", "can_be_distributed", "carried", "check_file"]


@dataclass(slots=True)
class Carried:
    """A checker of one history whose steps an engine carries, as a checker: it reads the file, and ignores the records."""

    checker: Piecewise
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


def can_be_distributed(checker: Checker) -> TypeGuard[Piecewise]:
    """Tell whether a checker can judge a run piece by piece, if there are pieces."""
    return isinstance(checker, Piecewise) and checker.scope == "run"


def carried(checker: Checker, engine: Engine, history: Path, scratch: Path) -> Carried | None:
    """Return the checker as one that the engine carries; None if it cannot be, or the history has too few pieces for it."""
    if not can_be_distributed(checker) or pq.read_metadata(history).num_row_groups < checker.ranges_least:
        return None
    return Carried(checker, engine, history, scratch, checker.name, finds=checker.finds, vouches=checker.vouches)


def check_file(checker: Piecewise, history: Path, engine: Engine, *, limit_s: float, scratch: Path) -> Verdict:
    """Judge the history in a Parquet file; the verdict is the one that the checker gives on the file as a whole.

    All tasks must see the file, and the folder `scratch`, under these paths. Files written there are removed.
    Raises HistoryError for a history that cannot be, PlanError for an unknown model.
    """
    with tempfile.TemporaryDirectory(prefix=".schemaquake-", dir=scratch) as folder:
        ranges = Ranges.of(history, 2 * engine.width, Path(folder))
        return checker.check_pieces(EngineExchange(engine, ParquetRows(ranges, Path(folder))), limit_s=limit_s)
