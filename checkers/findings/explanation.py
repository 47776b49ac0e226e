"""Explanations: the phrases of which findings are made: listings, times, phases and nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from schemaquake.checkers.findings.limits import LIMITS

__all__ = ["listing", "name_operations", "names", "phase_text", "seconds", "where"]

_PHASE_TEXT: Final = {
    "settled": "after the cluster settled",
    "restarted": "after every node was restarted",
}


def names(count: int, *, after: int = 0) -> str:
    """Name operations as an `Argument` does: `T1 and T2` for two, `T3 and T4` for two behind two others."""
    return listing(f"T{after + number + 1}" for number in range(count))


def listing(items: Iterable[str]) -> str:
    """Join items as `a`, `a and b`, `a, b and c`; none: `nothing`."""
    listed = list(items)
    return listed[0] if len(listed) == 1 else f"{', '.join(listed[:-1])} and {listed[-1]}" if listed else "nothing"


def name_operations(operations: Iterable[int]) -> str:
    """Name operations by their indices, each once and in order: `op 3 and op 5`; of many the rest is counted: `op 3, … and 2 more`."""
    named = [f"op {index}" for index in sorted(set(operations))]
    most = LIMITS.named
    return listing(named) if len(named) <= most else f"{', '.join(named[:most])} and {len(named) - most} more"


def seconds(time: int) -> str:
    """Render a time of the run, in ns, as `8.214 s`."""
    return f"{time / 1e9:.3f} s"


def where(readings: Mapping[str, Iterable[str]], one: str, many: str) -> str:
    """Render `after the cluster settled n1 and n2 have`, from phase → nodes, and the verb for one node and for many."""
    nodes = {phase: sorted(read) for phase, read in readings.items()}
    verb = one if len(list(nodes.values())[-1]) == 1 else many
    if len({tuple(read) for read in nodes.values()}) == 1:
        phases = listing(_PHASE_TEXT[phase] for phase in nodes)
        return f"{phases} {listing(next(iter(nodes.values())))} {verb}"
    return f"{', and '.join(f'{_PHASE_TEXT[phase]} {listing(read)}' for phase, read in nodes.items())} {verb}"


def phase_text(phase: str) -> str:
    """Render a final phase as `after the cluster settled`."""
    return _PHASE_TEXT[phase]
