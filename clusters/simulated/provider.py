"""Provider: `--cluster simulated`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from schemaquake.clusters.simulated.cluster import SimulatedCluster
from schemaquake.clusters.simulated.draws import Draws
from schemaquake.clusters.simulated.faces import Model
from schemaquake.clusters.simulated.kernel import Kernel
from schemaquake.clusters.simulated.models.metadata_log import MetadataLog
from schemaquake.clusters.simulated.models.rows import Rows
from schemaquake.clusters.simulated.node import SimulatedNode
from schemaquake.clusters.simulated.ring import Ring
from schemaquake.clusters.systems.simulated.family import Blueprint, blueprint_of, flaws_of
from schemaquake.clusters.systems.system import parse_system
from schemaquake.harness.errors import PlanError
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.model.protocols import Demands
from schemaquake.harness.run.event_heap import EventHeap
from schemaquake.harness.run.simulated_runtime import SimulatedRuntime

__all__ = ["OPTIONS", "SimulatedProvider", "list_steps"]

_Build: TypeAlias = Callable[[Ring, frozenset[str], Blueprint], Model]

OPTIONS: Final[Mapping[str, str]] = {
    "bugs": "the flaws that are switched on: `default`, `none`, or names with + or -, with commas",
    "bug": "one flaw alone, switched on in a design that has no other",
    "kill.at": "a step at which a server is killed, and started again 3 s later: 4.0/apply/e5, or 4.0/apply/e5@2 for its second passage",
    "pause.at": "a step at which a server is frozen for 3 s",
}

_MODELS: Final[Mapping[str, _Build]] = {
    "metadata-log": lambda ring, flaws, _blueprint: MetadataLog(ring, flaws),
    "rows": lambda ring, flaws, blueprint: Rows(ring, flaws, pull_delay_s=blueprint.pull_delay_s),
}
"""Models by the name that a blueprint gives."""


_DOWN_NS: Final = 3_000_000_000


def list_steps() -> Mapping[str, str]:
    """List the steps of all models, each with the module that describes its protocol."""
    models = (Rows, MetadataLog)
    return {step: model.__module__.rpartition(".")[2] for model in models for step in model.steps}


class SimulatedProvider:
    """Clusters in virtual time: no Java, no root, no waiting."""

    name = "simulated"
    takes_options = OPTIONS

    def __init__(self) -> None:
        self._runtime: SimulatedRuntime | None = None

    def prepare(self, plan: Plan, folder: Path) -> Mapping[str, str]:  # noqa: ARG002 - nothing is fetched
        """Refuse what cannot be simulated. Raises PlanError."""
        blueprint = blueprint_of(plan.system)
        flaws = flaws_of(blueprint, plan.options)
        return {"simulated": blueprint.like, "flaws": ", ".join(sorted(flaws)) or "none"}

    def demands(self, plan: Plan) -> Demands:
        """Return the features of the system; memory is hardly needed. Raises PlanError."""
        return Demands(memory_mb=200, features=parse_system(plan.system).features)

    def enclosure(self, folder: Path) -> Sequence[str]:  # noqa: ARG002 - nothing is to be enclosed
        """Return no command."""
        return ()

    def runtime(self, plan: Plan) -> SimulatedRuntime:  # noqa: ARG002 - the heap begins at 0 for all
        """Return the runtime in virtual time that the cluster shares."""
        self._runtime = SimulatedRuntime(EventHeap())
        return self._runtime

    def create(self, plan: Plan, folder: Path) -> SimulatedCluster:
        """Create the cluster of this plan. Raises PlanError."""
        assert self._runtime is not None
        blueprint = blueprint_of(plan.system)
        kernel = Kernel(self._runtime.heap, Draws(plan.seed))
        model = _MODELS[blueprint.model](Ring(plan.node_names), flaws_of(blueprint, plan.options), blueprint)
        cluster = SimulatedCluster(
            parse_system(plan.system),
            model,
            kernel,
            names=plan.node_names,
            folder=folder,
            start_timeout_s=plan.start_timeout_s,
        )
        _aim(kernel, model, {node.name: node for node in cluster.nodes}, plan.options)
        return cluster

    def heal(self, folder: Path) -> Sequence[str]:  # noqa: ARG002 - a simulation leaves nothing behind
        """Undo nothing: a simulation ends with its process."""
        return ()


def _aim(kernel: Kernel, model: Model, nodes: Mapping[str, SimulatedNode], options: Mapping[str, str]) -> None:
    """Aim faults at passages of steps, as `kill.at` and `pause.at` say. Raises PlanError for a step that the model has not."""

    def kill(name: str) -> None:
        nodes[name].kill()
        kernel.after(_DOWN_NS, nodes[name].start)

    def pause(name: str) -> None:
        nodes[name].pause()
        kernel.after(_DOWN_NS, nodes[name].resume)

    for option, act in (("kill.at", kill), ("pause.at", pause)):
        if option in options:
            step, _, passage = options[option].partition("@")
            if step not in model.steps or not (passage or "1").isdecimal():
                raise PlanError(f"-O {option}={options[option]}: no such step. Steps: {', '.join(model.steps)}")
            kernel.aim(step, int(passage or "1"), act)
