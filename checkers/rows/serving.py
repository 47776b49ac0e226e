"""Serving: the nodes known not to have served in a final phase.

From the notes of node starts (f = "node-start"): a node whose last start before the end of a phase's probes failed was
not there to take part.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.checkers.evidence.node_schemas import PHASES
from schemaquake.checkers.evidence.notes import Notes
from schemaquake.harness.model.operation import NEMESIS
from schemaquake.harness.model.records import plain

__all__ = ["find_nodes_without_service"]


def find_nodes_without_service(history: pa.Table) -> Mapping[str, frozenset[str]]:
    """Map each final phase to the nodes whose last start by then failed; one that has left is missed by none."""
    events = plain(history)
    starts = events.filter(
        pc.and_(pc.equal(events["process"], NEMESIS), pc.equal(events["f"], "node-start"))
    ).to_pylist()
    notes = Notes(history)
    served: dict[str, bool] = {}
    absent: dict[str, frozenset[str]] = {}
    for phase in PHASES:
        for start in starts:
            value: dict[str, Any] = {} if start["value"] is None else orjson.loads(start["value"])
            after_restart = value.get("phase") == "restart"
            if start["node"] is not None and after_restart == (phase == "restarted"):
                served[start["node"]] = bool(value.get("served"))
        fallen = frozenset(node for node, serves in served.items() if not serves)
        absent[phase] = fallen - notes.gone(phase, fallen)
    return absent
