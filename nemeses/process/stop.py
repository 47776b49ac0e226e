"""Stop: servers are shut down cleanly, and started again later."""

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

__all__ = ["Stop"]


@dataclass(frozen=True, kw_only=True)
class Stop:
    """`--nemesis stop`; `-O stop.targets=one,majority`. A majority is never down at once unless a target says so."""

    name = "stop"
    needs = frozenset({"signals"})
    allowed_by = "stop"
    disturbs = "process"
    effect = "down"
    options = TargetOptions()

    targets: tuple[str, ...] = option(("one",), "the targets, with commas; one is drawn for each fault")
    stop_limit_s: float = option(30.0, "the limit in seconds for a clean shutdown, before the server is killed")
    serving_limit_s: float = option(SERVING_LIMIT_S, "the limit in seconds for a server to serve again")

    def schedule(self, context: Context, *, random: Random) -> Sequence[Fault]:
        """Plan stops with 5 to 15 s of downtime plus the time of a start. Raises PlanError."""
        stop = configured(self, context)
        return targeted(
            self.name,
            context,
            random,
            targets=stop.targets,
            stop_limit_s=stop.stop_limit_s,
            serving_limit_s=stop.serving_limit_s,
        )

    def inject(self, cluster: Cluster, fault: Fault) -> JSON:
        """Send SIGTERM, and return each server's state before and after. Raises ClusterError if one still runs."""
        limit_s = float(fault.parameters.get("stop_limit_s", self.stop_limit_s))
        return take_down(named(cluster, fault.nodes), "stop", stop_limit_s=limit_s, task="stopping servers")

    def undo(self, cluster: Cluster, fault: Fault) -> Mapping[str, Sequence[Undo]]:  # noqa: ARG002 - others look at it
        """Return the commands that start the servers."""
        return starting(fault)

    def heal(self, cluster: Cluster, fault: Fault) -> JSON:
        """Start the servers and wait until they serve. Raises HealError naming the first error of one that does not."""
        limit_s = float(fault.parameters.get("serving_limit_s", self.serving_limit_s))
        return bring_back(named(cluster, fault.nodes), deadline_s=limit_s, task="bringing stopped servers back")
