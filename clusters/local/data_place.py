"""Data place: whether the servers of a local cluster keep their files in memory or on the disk.

Servers sync each write and each schema change to disk before they answer, three of them to one disk, and a new system table is
several files. In memory a run takes two thirds of its time. What a fault leaves of a server's files is the same: a killed process
loses nothing that it has written to a file, synced or not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from schemaquake.harness.errors import EnvironmentLacks, PlanError
from schemaquake.harness.model.options import configured, one_of, option
from schemaquake.harness.model.plan import Plan

__all__ = ["DATA_OPTION", "DataOptions", "memory_for_data", "requested_place"]

DATA_OPTION: Final = "server-data"


@dataclass(frozen=True, slots=True)
class DataOptions:
    """The options (`-O`) about the servers' files."""

    server_data: str | None = option(
        None,
        "memory or disk: where servers keep their data; by default in memory, if it has room and the main phase lasts ten minutes at most",
        parse=one_of("memory", "disk"),
    )


_LONGEST_S: Final = 600
"""A longer run may write more than memory should be trusted with."""
_LEAST_MB: Final = 1024
"""Room for one node: a small cluster's takes 100 to 200 MB, most of it segments of the commit log."""
_MOST_MB: Final = 4096


def requested_place(plan: Plan) -> str | None:
    """Return "memory" or "disk" if the plan chooses one. Raises PlanError for another word, or one that contradicts the plan."""
    place = configured(DataOptions(), plan.options).server_data
    if place == "memory" and plan.keep_data:
        raise PlanError(f"-O {DATA_OPTION}=memory contradicts --keep-data: what is in memory ends with the run")
    return place


def memory_for_data(plan: Plan, *, free_mb: int | None) -> int | None:
    """Return how many MB of memory the files of each node may take, or None if they lie on the disk.

    `free_mb` is what is left of the machine's memory when all servers run; None if that is not known. Raises PlanError as
    `requested_place` does, and EnvironmentLacks if memory was asked for and has no room.
    """
    place = requested_place(plan)
    room_mb = (free_mb or 0) // (plan.nodes + plan.spares)
    if place == "memory" and room_mb < _LEAST_MB:
        raise EnvironmentLacks(
            f"-O {DATA_OPTION}=memory needs {_LEAST_MB} MB a node beside the servers' own memory, and {room_mb} MB are left. "
            f"Use fewer --nodes, end other programs, or leave the option out."
        )
    by_itself = place is None and not plan.keep_data and plan.time_limit_s <= _LONGEST_S and room_mb >= _LEAST_MB
    return min(room_mb, _MOST_MB) if place == "memory" or by_itself else None
