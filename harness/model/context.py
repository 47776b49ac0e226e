"""Context: the facts of a run that its workloads and nemeses may use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

__all__ = ["Context"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The facts of a run that its workloads and nemeses may use. The same context always gives the same steps."""

    seed: int
    nodes: tuple[str, ...]
    workloads: tuple[str, ...] = ()
    """Names of all workloads of the run, which share its cluster."""
    schema_changers: tuple[str, ...] = ()
    """Those of `workloads` that may change the schema after their setup."""
    replication_factor: int = 3
    """Replicas of every row; where there are several data centres, in each of them."""
    data_centers: Mapping[str, str] = field(default_factory=dict)
    """By node the data centre; empty where there is one, of one rack."""
    keyspace_prefix: str = "sq"
    features: frozenset[str] = frozenset()
    spares: tuple[str, ...] = ()
    """Nodes that are prepared and no members yet. A workload may pin workers to them, which begin their main phase when
    the node has joined, without its meetings."""
    taking_part: frozenset[str] | None = None
    """The nodes whose workers take part in the phase that the steps are for; None: those of all nodes."""
    crew: int = 3
    time_limit_s: float = 60
    rate: float | None = None
    nemeses: tuple[str, ...] = ()
    """Names of the run's nemeses, those that its workloads ask for apart."""
    under_faults: bool = False
    """True if nemeses act in the main phase: work that would end at once should then last as long as they do."""
    options: Mapping[str, str] = field(default_factory=dict)
    """`-O name=value` of the command line; a plugin reads those that it declares (`schemaquake.harness.model.options`)."""

    def random(self, *names: object) -> Random:
        """Return a random generator for one purpose: the same seed and names give the same numbers."""
        return Random("/".join(map(str, (self.seed, *names))))
