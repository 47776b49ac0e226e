"""Masters: where the tasks of a Spark run, by the address of its master."""

from __future__ import annotations

__all__ = ["is_local"]


def is_local(master: str | None) -> bool:
    """Return True if tasks run on this machine: the master is a local one (`local[2]`), or none is named."""
    return master is None or master.startswith("local")
