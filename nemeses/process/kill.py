"""Kill: servers end at once, as in a power cut, and are started again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.options import option
from schemaquake.harness.model.protocols import Cluster, Context, Fault, Undo
from schemaquake.nemeses.process.serving import SERVING_LIMIT_S, bring_back, starting, take_down
from schemaquake.nemeses.schedule.options import TargetOptions, configured
from schemaquake.nemeses.schedule.targets import named
from schemaquake.nemeses.schedule.timetable import targeted

__all__ = ["Kill"]


@dataclass(frozen=True, kw_only=True)
class Kill:
    """`--nemesis kill`; `-O kill.targets=one,majority`. A majority is never down at once unless a target says so."""

    name = "kill"
    needs = frozenset({"signals"})
    allowed_by = "kill"
    disturbs = "process"
    effect = "down"
    options = TargetOptions()

    targets: tuple[str, ...] = option(("one",), "the targets, with commas; one is drawn for each fault")
    serving_limit_s: float = option(SERVING_LIMIT_S, "the limit in seconds for a server to serve again")

    def schedule(self, context: Context, *, random: Random) -> Sequence[Fault]:
        """Plan kills with 5 to 15 s of downtime plus the time of a start. Raises PlanError."""
        kill = configured(self, context)
        return targeted(self.name, context, random, targets=kill.targets, serving_limit_s=kill.serving_limit_s)

    def inject(self, cluster: Cluster, fault: Fault) -> JSON:
        """Send SIGKILL, and return each server's state before and after. Raises ClusterError if one still runs."""
        return take_down(named(cluster, fault.nodes), "kill", task="killing servers")

    def undo(self, cluster: Cluster, fault: Fault) -> Mapping[str, Sequence[Undo]]:  # noqa: ARG002 - others look at it
        """Return the commands that start the servers."""
        return starting(fault)

    def heal(self, cluster: Cluster, fault: Fault) -> JSON:
        """Start the servers and wait until they serve. Raises HealError naming the first error of one that does not."""
        limit_s = float(fault.parameters.get("serving_limit_s", self.serving_limit_s))
        return bring_back(named(cluster, fault.nodes), deadline_s=limit_s, task="bringing killed servers back")
