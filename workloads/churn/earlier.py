"""Earlier runs: what has met in them, and under which conditions, from the tables in their folders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from schemaquake.harness.errors import PlanError
from schemaquake.workloads.churn.conditions import Condition

__all__ = ["TABLE", "read_met"]

TABLE: Final = Path("analysis") / "meetings.parquet"
"""The table of a run's folder that says what met in it."""


def read_met(folders: Sequence[Path]) -> Counter[tuple[str, Condition]]:
    """Count the meetings of earlier runs by cell and condition. Raises PlanError for a folder without such a table."""
    met: Counter[tuple[str, Condition]] = Counter()
    for folder in folders:
        try:
            rows = pq.read_table(folder / TABLE, columns=["cell", "faults", "restart", "count"]).to_pylist()
        except (OSError, pa.ArrowInvalid, KeyError) as error:
            raise PlanError(f"-O coverage={folder}: {folder / TABLE} cannot be read: {error}") from error
        for row in rows:
            met[row["cell"], Condition(row["faults"], row["restart"])] += row["count"]
    return met
