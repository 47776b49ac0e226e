"""Upgrade: what a cluster must be able to do for its nodes to become another version, one after another, with their data.

Systems are named as on the command line (`product:version`). Which commands a step takes is the cluster's affair.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, Protocol, TypeAlias, runtime_checkable

from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.model.topology import Attempt
from schemaquake.harness.registry import load

__all__ = ["UPGRADE_STEPS", "ChangesVersions", "LeadsToSystems", "UpgradeStep", "systems_of"]

UpgradeStep: TypeAlias = Literal["drain", "stop", "start", "rewrite", "initialize"]

UPGRADE_STEPS: Final[tuple[UpgradeStep, ...]] = ("drain", "stop", "start", "rewrite", "initialize")
"""What a node is doing, as an aim names it.

`drain`: it flushes and refuses clients. `stop`: its server ends. `start`: a server of the other version starts with its
data. `rewrite`: its files are written in the newer format. `initialize`: the last commands of the upgrade are under way.
"""


@runtime_checkable
class LeadsToSystems(Protocol):
    """A nemesis whose operations need servers of further systems, which the cluster has to prepare."""

    def systems(self, options: Mapping[str, str]) -> Sequence[str]:
        """Return the systems (`product:version`) that the run's options ask for. Raises PlanError."""
        ...


@runtime_checkable
class ChangesVersions(Protocol):
    """A cluster whose nodes can become another version."""

    def began_as(self) -> str:
        """Return the system that all nodes were in the beginning."""
        ...

    def others(self) -> Sequence[str]:
        """Return the further systems that were prepared, in the order in which nodes become them."""
        ...

    def running(self) -> Mapping[str, str]:
        """Return the system of each node, as it would be started now."""
        ...

    def cannot_become(self, system: str) -> str | None:
        """Return why a node of the system before it cannot become this one, as a sentence; None if it can."""
        ...

    def cannot_go_back(self, system: str) -> str | None:
        """Return why a node that became this system cannot become the one before it again; None if it can."""
        ...

    def not_ready(self, system: str) -> str | None:
        """Return why no node may become this system yet: the upgrade before it has not ended on all nodes. None if one may."""
        ...

    def promises(self, system: str) -> Mapping[str, JSON]:
        """Return what is promised while nodes become this system: `{"schema_changes": {"old", "new"}, "until", "source"}`.

        `refused`: such nodes take no schema change. `unsupported`: none should be asked for. `until` is `nodes` or `last-steps`.
        """
        ...

    def become(self, node: str, system: str, *, limit_s: float) -> Attempt:
        """Drain the node, end its server, and start one of this system with the same data; wait until it serves.

        May be called again after a failure: what is done already is left out.
        """
        ...

    def finish(self, system: str, *, on: str, limit_s: float, insists: bool = False) -> Attempt:
        """Carry out what ends the upgrade when all nodes are this system, on this node and then on each; what is done is left out.

        `insists`: go on although nodes differ, as far as the system has a word for it.
        """
        ...


def systems_of(plan: Plan) -> tuple[str, ...]:
    """Return the plan's system and those that its nemeses lead to, each once. Raises PlanError."""
    found = [plan.system]
    for name in plan.nemeses:
        nemesis = load("nemeses", name)
        if isinstance(nemesis, LeadsToSystems):
            found += nemesis.systems(plan.options)
    return tuple(dict.fromkeys(found))
