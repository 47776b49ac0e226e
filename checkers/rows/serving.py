"""Serving: the nodes known not to have served in a final phase.

From the notes of node starts (f = "node-start"): a node whose last start before the end of a phase's probes failed was
not there to take part.
"""

from __future__ import annotations

from collections.abc import Mapping

from schemaquake.checkers.evidence.node_schemas import PHASES
from schemaquake.checkers.evidence.notes import Notes

__all__ = ["find_nodes_without_service"]


def find_nodes_without_service(notes: Notes) -> Mapping[str, frozenset[str]]:
    """Map each final phase to the nodes whose last start by then failed, without those that left the cluster."""
    served: dict[str, bool] = {}
    absent: dict[str, frozenset[str]] = {}
    for phase in PHASES:
        for start in notes.starts:
            if start.node and (start.phase == "restart") == (phase == "restarted"):
                served[start.node] = start.served
        fallen = frozenset(node for node, serves in served.items() if not serves)
        absent[phase] = fallen - notes.gone(phase, fallen)
    return absent
