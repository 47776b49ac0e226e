"""Steps: the numbered places of a model's protocols, as values that are made once."""

from __future__ import annotations

from schemaquake.clusters.simulated.processes import Step

__all__ = ["numbered"]


def numbered(protocol: str, *names: str) -> tuple[Step, ...]:
    """Make the steps of one protocol, named `protocol/name`."""
    return tuple(Step(f"{protocol}/{name}") for name in names)
