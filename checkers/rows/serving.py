"""Serving: which nodes are known not to have served in a final phase.

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
from schemaquake.harness.model.operation import NEMESIS
from schemaquake.harness.model.records import plain

__all__ = ["without_service"]


def without_service(history: pa.Table) -> Mapping[str, frozenset[str]]:
    """Final phase → nodes that had been started for it, or before, and did not serve."""
    told = plain(history)
    starts = told.filter(pc.and_(pc.equal(told["process"], NEMESIS), pc.equal(told["f"], "node-start"))).to_pylist()
    served: dict[str, bool] = {}
    found: dict[str, frozenset[str]] = {}
    for of in PHASES:
        for start in starts:
            value: dict[str, Any] = {} if start["value"] is None else orjson.loads(start["value"])
            after_restart = value.get("phase") == "restart"
            if start["node"] is not None and after_restart == (of == "restarted"):
                served[start["node"]] = bool(value.get("served"))
        found[of] = frozenset(node for node, serves in served.items() if not serves)
    return found
