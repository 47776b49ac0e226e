"""Processes: when a node's server process may have ended or begun."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from schemaquake.checkers.evidence.notes import Notes

__all__ = ["LEAD_NS", "NEVER", "ends_of_processes"]

LEAD_NS: Final = 2_000_000_000
"""The longest time (ns) between the beginning of a fault or start and its note, which follows its effect."""

NEVER: Final = 2**63 - 1
"""The time (ns) of an end that is not known: an operation without one may take effect at any later time."""
_HARMLESS: Final = frozenset({"packets", "frozen"})
"""Effects of faults that change neither the clock nor the process of a node."""


def ends_of_processes(notes: Notes, node: str) -> Iterator[tuple[int, int]]:
    """Yield (begin, end) in ns of every event that ends a server process or begins one."""
    for start in notes.starts:
        if start.node == node:
            yield start.time - int(start.seconds * 1e9) - LEAD_NS, start.time
    for death in notes.deaths:
        if death.node == node:
            yield death.time - LEAD_NS, death.time
    for fault in notes.faults:
        if node in fault.nodes and fault.effect not in _HARMLESS | {"clocks"}:
            yield fault.begins - LEAD_NS, NEVER if fault.ends is None else fault.ends + LEAD_NS
