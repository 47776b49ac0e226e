"""The run that the pages read: what was recorded of one DROP TYPE race on three nodes of Cassandra 5.0.9.

An excerpt of a real run, which raced two other pairs beside it: the events and observations of one keyspace and of the
run as a whole, and from the nodes' logs the errors that name this race. Times, answers and words are as they were.
"""

from __future__ import annotations

import shutil
from pathlib import Path

RUN = Path(__file__).parents[1] / "docs" / "recorded_run"
NAME = "20261121T101054Z-drop-type-cassandra-5.0.9"


def laid_out(folder: Path) -> Path:
    """A copy as `folder/runs/NAME`, with `folder/runs/latest` pointing to it; its journals are not yet merged."""
    runs = folder / "runs"
    shutil.copytree(RUN, runs / NAME)
    (runs / "latest").symlink_to(NAME)
    return runs / NAME
