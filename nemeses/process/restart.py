"""Restart: servers are taken down and started again at once; the fault lasts until they serve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.options import option
from schemaquake.harness.model.protocols import Cluster, Context, Fault, Node, Undo
from schemaquake.nemeses.process.serving import (
    SERVING_LIMIT_S,
    bring_back,
    starting,
    taken_down,
    taking_down,
    words_for_how,
)
from schemaquake.nemeses.schedule.every_node import on_every
from schemaquake.nemeses.schedule.options import TargetOptions, configured
from schemaquake.nemeses.schedule.targets import named
from schemaquake.nemeses.schedule.timetable import targeted

__all__ = ["Restart"]


@dataclass(frozen=True, kw_only=True)
class Restart:
    """`--nemesis restart`; `-O restart.how=kill`, `-O restart.targets=one,all`."""

    name = "restart"
    needs = frozenset({"signals"})
    allowed_by = "restart"
    disturbs = "process"
    effect = "down"
    options = TargetOptions()

    targets: tuple[str, ...] = option(("one",), "the targets, with commas; one is drawn for each fault")
    how: str = option("stop", "the signal: `stop` (SIGTERM) or `kill` (SIGKILL)")
    stop_limit_s: float = option(30.0, "the limit in seconds for a clean shutdown, before the server is killed")
    serving_limit_s: float = option(SERVING_LIMIT_S, "the limit in seconds for a server to serve again")

    def words_for(self, options: Mapping[str, str]) -> Mapping[str, str]:
        """Add the word `kill` for a restart by SIGKILL."""
        return words_for_how(self.name, options)

    def schedule(self, context: Context, *, random: Random) -> Sequence[Fault]:
        """Plan restarts with quiet between them. Raises PlanError."""
        restart = configured(self, context)
        taking_down(restart.how, stop_limit_s=restart.stop_limit_s)
        return targeted(
            self.name,
            context,
            random,
            targets=restart.targets,
            how=restart.how,
            stop_limit_s=restart.stop_limit_s,
            serving_limit_s=restart.serving_limit_s,
        )

    def inject(self, cluster: Cluster, fault: Fault) -> JSON:
        """Take the servers down, read that back, and start them; does not wait for them. Raises ClusterError."""
        down = taking_down(str(fault.parameters["how"]), stop_limit_s=float(fault.parameters["stop_limit_s"]))

        def restart(node: Node) -> JSON:
            states = taken_down(node, down)
            node.start()
            return states

        return {"observed": True, "nodes": on_every(named(cluster, fault.nodes), restart, task="restarting servers")}

    def undo(self, cluster: Cluster, fault: Fault) -> Mapping[str, Sequence[Undo]]:  # noqa: ARG002 - others look at it
        """Return the commands that start the servers, for an injection that broke off before it did."""
        return starting(fault)

    def heal(self, cluster: Cluster, fault: Fault) -> JSON:
        """Wait until the servers serve. Raises HealError naming the first error of one that does not."""
        limit_s = float(fault.parameters["serving_limit_s"])
        return bring_back(named(cluster, fault.nodes), deadline_s=limit_s, task="bringing restarted servers back")
