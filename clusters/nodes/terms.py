"""Terms: what a deployed cluster is told of the run on it, and what its owner has laid down."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from schemaquake.harness.model.protocols import StopCondition

__all__ = ["Begins", "OwnersTerms", "RunOnNodes"]

Begins: TypeAlias = Literal["serving", "together", "first-alone"]
"""The way a run begins: on servers that run already, or by starting them, together or the first one alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOnNodes:
    """One run on a deployed cluster: where it is recorded, which keyspaces are its own, and how it begins and ends."""

    folder: Path
    """The run's folder on this machine."""
    prefix: str
    """The run's keyspaces are named by this and an underscore."""
    begins: Begins
    start_timeout_s: float
    name: str | None = None
    """The name of the run on the nodes, which the ledger keeps for a healing without the run's folder."""
    keep_data: bool = False
    """The run's keyspaces are not dropped at its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnersTerms:
    """The terms on which an owner lends the nodes; the defaults are for nodes that the run made itself."""

    max_nodes_down: int | None = None
    """The most nodes that faults may keep down at a time; see `schemaquake.harness.model.protocols.OwnersLimits`."""
    conditions: Callable[[], Sequence[StopCondition]] = lambda: ()
    """Makes the conditions that are asked while faults are on."""
    alone: bool = False
    """No keyspace may be there but the server's own and those under the run's prefix."""
