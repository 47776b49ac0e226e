"""Aim: a fault that is to begin when an operation on the topology reaches a step.

Planned as the parameter `aim` of the operation: `{"nemesis", "step", "nodes", "parameters", "hold_s"}`. Steps are the words
that `ShowsSteps.steps` returns: `PREPARE`, `START` and `MID` (the last of the steps of CEP-21 that is done), `under-way`
(gossip shows the node as joining, leaving or moving) and `stream` (rows are on their way to another node).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, runtime_checkable

from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.protocols import Fault

__all__ = ["STEPS", "Aim", "KnowsItsSteps", "ShowsSteps"]

STEPS: Final = ("PREPARE", "START", "MID", "under-way", "stream")


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """A fault, the step at which it begins, and how long it lasts."""

    nemesis: str
    step: str
    nodes: tuple[str, ...]
    parameters: Mapping[str, JSON] = field(default_factory=dict)
    hold_s: float

    @classmethod
    def of(cls, operation: Fault) -> Aim | None:
        """Read the aim that an operation was planned with; None if it has none."""
        document = operation.parameters.get("aim")
        return None if document is None else cls(**{**document, "nodes": tuple(document["nodes"])})

    def to_json(self) -> dict[str, JSON]:
        """Return the aim as a parameter of an operation."""
        return {
            "nemesis": self.nemesis,
            "step": self.step,
            "nodes": list(self.nodes),
            "parameters": dict(self.parameters),
            "hold_s": self.hold_s,
        }


@runtime_checkable
class ShowsSteps(Protocol):
    """A cluster that can be asked how far an operation on its topology has come."""

    def steps(self, nodes: Sequence[str]) -> Collection[str]:
        """Return the steps at which the operation of these nodes is by now; empty if none is seen. Raises nothing of a node's."""
        ...


@runtime_checkable
class KnowsItsSteps(Protocol):
    """A `ShowsSteps` that says beforehand which steps it can show at all."""

    def steps_shown(self) -> Collection[str]:
        """Return every step that `steps` may return."""
        ...
