"""Operations on the topology as lines of an argument."""

from __future__ import annotations

from schemaquake.checkers.evidence.topology_operations import TopologyOperation
from schemaquake.checkers.findings.explanation import seconds

__all__ = ["render_change"]


def render_change(operation: TopologyOperation) -> str:
    """Render `op 91: decommission n3 at 8.214 s -> ok at 9.100 s`."""
    nodes = ", ".join(operation.nodes)
    begun = f"op {operation.index}: {operation.f} {nodes}"
    if operation.completed is None:
        return f"{begun} from {seconds(operation.invoked)} on, without an end"
    error = "" if operation.error is None else f" ({operation.error})"
    return f"{begun} at {seconds(operation.invoked)} -> {operation.outcome} at {seconds(operation.completed)}{error}"
