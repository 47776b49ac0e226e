"""Context: what a workload and a nemesis may know about their run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

__all__ = ["Context"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What a workload may know about its run. The same context always gives the same steps."""

    seed: int
    nodes: tuple[str, ...]
    workloads: tuple[str, ...] = ()
    """Names of all workloads of the run, which share its cluster."""
    replication_factor: int = 3
    keyspace_prefix: str = "sq"
    features: frozenset[str] = frozenset()
    spares: tuple[str, ...] = ()
    """Nodes that are prepared and no members yet. A workload may pin workers to them, which begin their main phase when
    the node has joined, without its meetings."""
    crew: int = 3
    time_limit_s: float = 60
    rate: float | None = None
    under_faults: bool = False
    """Whether nemeses are at work while the main phase runs: what would be over in a moment should last as long as they do."""
    options: Mapping[str, str] = field(default_factory=dict)
    """`-O name=value` of the command line; a plugin reads those that it declares (`schemaquake.harness.model.options`)."""

    def random(self, *names: object) -> Random:
        """A generator of its own for every purpose: the same seed and names give the same numbers."""
        return Random("/".join(map(str, (self.seed, *names))))
