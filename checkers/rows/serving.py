"""Serving: the nodes known not to have served in a final phase, and the levels of consistency that the others can serve.

From the notes of node starts (f = "node-start"): a node whose last start before the end of a phase's probes failed was
not there to take part.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from schemaquake.checkers.evidence.node_schemas import PHASES
from schemaquake.checkers.evidence.notes import Notes

__all__ = ["find_nodes_without_service", "serves_level"]

_REPLICAS: Final[Mapping[str, int]] = {"ANY": 0, "ONE": 1, "LOCAL_ONE": 1, "TWO": 2, "THREE": 3}
"""How many of a row's replicas must answer, by level. A quorum is a majority of them; every other level needs all."""


_QUORUMS: Final = frozenset({"QUORUM", "LOCAL_QUORUM"})


def find_nodes_without_service(notes: Notes) -> Mapping[str, frozenset[str]]:
    """Map each final phase to the nodes that ended in it, and those whose last start by then failed and that are members still."""
    served: dict[str, bool] = {}
    absent: dict[str, frozenset[str]] = {}
    for phase in PHASES:
        for start in notes.starts:
            if start.node and (start.phase == "restart") == (phase == "restarted"):
                served[start.node] = start.served
        fallen = frozenset(node for node, serves in served.items() if not serves)
        absent[phase] = (fallen - notes.gone(phase, fallen)) | _find_deaths(notes, phase)
    return absent


def _find_deaths(notes: Notes, phase: str) -> frozenset[str]:
    """Find the nodes that ended by themselves from the first step of a final phase on, and before the next one."""
    begins = notes.began(f"settle-{phase}")
    ends = notes.began("restart") if phase == PHASES[0] else None
    if begins is None:
        return frozenset()
    return frozenset(
        death.node for death in notes.deaths if begins <= death.time and (ends is None or death.time < ends)
    )


def serves_level(level: str, copies: int | None, *, missing: int) -> bool:
    """Tell if enough replicas are left at this level, whichever nodes are missing; never if their number is not known."""
    if copies is None:
        return missing == 0
    needed = copies // 2 + 1 if level in _QUORUMS else _REPLICAS.get(level, copies)
    return copies - missing >= needed
