"""Levels of consistency: how many replicas there are, how many an answer stands for, and whether two answers have one in common."""

from __future__ import annotations

from collections.abc import Mapping

from schemaquake.harness.errors import HistoryError
from schemaquake.harness.model.operation import JSON

__all__ = ["count_replicas", "read_factor", "share_a_replica", "sum_factors"]


def count_replicas(level: str, replication_factor: int) -> int:
    """Count the replicas that an answer at this level stands for. Raises HistoryError for an unknown level."""
    majority = replication_factor // 2 + 1
    known = {"ONE": 1, "LOCAL_ONE": 1, "TWO": 2, "THREE": 3, "ALL": replication_factor}
    known |= dict.fromkeys(("QUORUM", "LOCAL_QUORUM", "EACH_QUORUM"), majority)
    if level not in known:
        raise HistoryError(f"a put, get or probe at the level {level!r}: known are {', '.join(sorted(known))}")
    return known[level]


def share_a_replica(write: str, read: str, replication_factor: int) -> bool:
    """Return whether answers at these two levels have a replica in common. Raises HistoryError for an unknown level."""
    return count_replicas(write, replication_factor) + count_replicas(read, replication_factor) > replication_factor


def sum_factors(replication: Mapping[str, JSON]) -> int:
    """Sum the replication factors of all data centres. Raises HistoryError for what is no factor."""
    return sum(read_factor(copies) for option, copies in replication.items() if option != "class")


def read_factor(copies: JSON) -> int:
    """Read a replication factor; "3/1" are three replicas, one of them transient. Raises HistoryError for anything else."""
    whole, slash, transient = str(copies).partition("/")
    if not whole.isdecimal() or (slash and not transient.isdecimal()):
        raise HistoryError(f"the replication factor {copies!r} is no number")
    return int(whole)
