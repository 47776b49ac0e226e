"""Checks executed piece by piece: the checkers that support it (`Piecewise`), and their execution by an engine.

The engine calls every other checker as it is, with all its input.
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
from schemaquake.results.engines.exchange import EngineExchange, FileRows
from schemaquake.results.engines.ranges import Ranges

__all__ = ["Carried", "can_be_distributed", "carried", "check_file"]


@dataclass(slots=True)
class Carried:
    """A `Piecewise` checker whose steps an engine executes. It reads the history's file and ignores the records."""

    checker: Piecewise
    engine: Engine
    history: Path
    scratch: Path
    name: str
    scope: Literal["run", "keyspace"] = "run"
    finds: tuple[str, ...] = ()
    vouches: bool = True

    def check(self, records: Records, *, limit_s: float) -> Verdict:  # noqa: ARG002 - the file has them all
        """Implement `Checker.check` by `check_file`."""
        return check_file(self.checker, self.history, self.engine, limit_s=limit_s, scratch=self.scratch)


def can_be_distributed(checker: Checker) -> TypeGuard[Piecewise]:
    """Return True if a checker can judge a run piece by piece."""
    return isinstance(checker, Piecewise) and checker.scope == "run"


def carried(checker: Checker, engine: Engine, history: Path, scratch: Path) -> Carried | None:
    """Wrap the checker for execution by the engine. None if it is not `Piecewise` or the history has too few pieces."""
    if not can_be_distributed(checker) or pq.read_metadata(history).num_row_groups < checker.ranges_least:
        return None
    return Carried(checker, engine, history, scratch, checker.name, finds=checker.finds, vouches=checker.vouches)


def check_file(checker: Piecewise, history: Path, engine: Engine, *, limit_s: float, scratch: Path) -> Verdict:
    """Judge the history in a Parquet file. The verdict equals the checker's verdict on the file as a whole.

    All tasks must see the file and the folder `scratch` under these paths. Files written to `scratch` are removed. Raises
    HistoryError for an impossible history, PlanError for an unknown model.
    """
    with tempfile.TemporaryDirectory(prefix=".schemaquake-", dir=scratch) as folder:
        ranges = Ranges.of(history, 2 * engine.width, Path(folder))
        return checker.check_pieces(EngineExchange(engine, FileRows(ranges, Path(folder))), limit_s=limit_s)
