"""Pause: servers freeze, as in a long garbage collection, and go on as if nothing had happened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from schemaquake.harness.errors import HealError
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.options import option
from schemaquake.harness.model.protocols import Cluster, Context, Fault, Node, Undo
from schemaquake.nemeses.process.serving import await_state
from schemaquake.nemeses.schedule.every_node import on_every
from schemaquake.nemeses.schedule.options import TargetOptions, configured
from schemaquake.nemeses.schedule.targets import named
from schemaquake.nemeses.schedule.timetable import targeted

__all__ = ["Pause"]


@dataclass(frozen=True, kw_only=True)
class Pause:
    """`--nemesis pause`; `-O pause.targets=one,majority`. A majority is never frozen at once unless a target says so."""

    name = "pause"
    needs = frozenset({"signals"})
    allowed_by = "pause"
    disturbs = "process"
    effect = "frozen"
    options = TargetOptions()

    targets: tuple[str, ...] = option(("one",), "the targets, with commas; one is drawn for each fault")

    def schedule(self, context: Context, *, random: Random) -> Sequence[Fault]:
        """Plan pauses of 5 to 15 s with quiet between them. Raises PlanError."""
        return targeted(self.name, context, random, targets=configured(self, context).targets)

    def inject(self, cluster: Cluster, fault: Fault) -> JSON:
        """Send SIGSTOP, and return each server's state before and after. Raises ClusterError if one is not frozen."""

        def freeze(node: Node) -> JSON:
            before = node.state()
            node.pause()
            return {"before": before, "after": await_state(node, "paused")}

        nodes = named(cluster, fault.nodes)
        return {"observed": True, "nodes": on_every(nodes, freeze, task="pausing servers")}

    def undo(self, cluster: Cluster, fault: Fault) -> Mapping[str, Sequence[Undo]]:  # noqa: ARG002 - others look at it
        """Return the commands that send SIGCONT."""
        return {name: [Undo(verb="resume")] for name in fault.nodes}

    def heal(self, cluster: Cluster, fault: Fault) -> JSON:
        """Send SIGCONT; a server that has ended meanwhile is left alone. Raises HealError if one is still frozen."""

        def thaw(node: Node) -> JSON:
            before = node.state()
            node.resume()
            return {"before": before, "after": await_state(node, "running", "stopped")}

        thawed = on_every(named(cluster, fault.nodes), thaw, task="resuming servers", error=HealError)
        # A server that was no longer frozen had been resumed, or ended, by something else.
        return {"observed": all(states["before"] == "paused" for states in thawed.values()), "nodes": thawed}
