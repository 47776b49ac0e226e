"""Rolling restart: one server after another is restarted, each when the one before serves again, as an operator would.

The round continues by itself after the injection; healing lets it finish the current server, and ensures that all serve.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from schemaquake.harness.errors import ClusterError, HealError
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
from schemaquake.nemeses.schedule.activity import Activities, Work
from schemaquake.nemeses.schedule.options import TargetOptions, configured
from schemaquake.nemeses.schedule.targets import named
from schemaquake.nemeses.schedule.timetable import targeted

__all__ = ["RollingRestart"]


@dataclass(frozen=True, kw_only=True)
class RollingRestart:
    """`--nemesis rolling-restart`; `-O rolling-restart.how=kill`."""

    name = "rolling-restart"
    needs = frozenset({"signals"})
    allowed_by = "restart"
    disturbs = "process"
    effect = "down-in-turn"
    options = TargetOptions()

    targets: tuple[str, ...] = option(("all",), "the targets, with commas; one is drawn for each fault")
    how: str = option("stop", "the signal: `stop` (SIGTERM) or `kill` (SIGKILL)")
    seconds_a_node: float = option(25.0, "the planned duration of one restart, in seconds")
    """Servers that are not reached within the round are left running."""
    stop_limit_s: float = option(30.0, "the limit in seconds for a clean shutdown, before the server is killed")
    serving_limit_s: float = option(SERVING_LIMIT_S, "the limit in seconds for a server to serve again")
    _activities: Activities[None] = field(default_factory=Activities, init=False, repr=False, compare=False)
    _restarted: dict[int, list[str]] = field(default_factory=dict, init=False, repr=False, compare=False)
    """By fault, kept where the round breaks off: healing is then tried again, and says what was restarted."""

    def words_for(self, options: Mapping[str, str]) -> Mapping[str, str]:
        """Add the word `kill` for a restart by SIGKILL."""
        return words_for_how(self.name, options)

    def shortened(self, limit_s: float, *, node_count: int) -> str:
        """Divide the limit among the nodes of a round."""
        return f"-O {self.name}.seconds_a_node={limit_s / node_count:g} or less"

    def schedule(self, context: Context, *, random: Random) -> Sequence[Fault]:
        """Plan rounds over the targets, in random order; at least one, however short the run. Raises PlanError."""
        rolling = configured(self, context)
        taking_down(rolling.how, stop_limit_s=rolling.stop_limit_s)
        round_s = rolling.seconds_a_node * len(context.nodes)
        return targeted(
            self.name,
            context,
            random,
            targets=rolling.targets,
            fault_s=(round_s, round_s),
            quiet_s=(3.0, 15.0),
            how=rolling.how,
            stop_limit_s=rolling.stop_limit_s,
            serving_limit_s=rolling.serving_limit_s,
        )

    def down(self, fault: Fault) -> Sequence[str]:
        """Return one name: its nodes are restarted one after another."""
        return [f"one of {', '.join(fault.nodes)}"]

    def inject(self, cluster: Cluster, fault: Fault) -> JSON:
        """Take the first server down, read that back, and restart the others in the background. Raises ClusterError."""
        first, *rest = named(cluster, fault.nodes)
        down = taking_down(str(fault.parameters["how"]), stop_limit_s=float(fault.parameters["stop_limit_s"]))
        states = taken_down(first, down)
        limit_s = float(fault.parameters["serving_limit_s"])

        restarted = self._restarted[fault.id] = []

        def roll() -> Work[None]:
            restarted.append(self._bring_back(first, limit_s))
            for node in rest:
                if not (yield 0):
                    break
                taken_down(node, down)
                restarted.append(self._bring_back(node, limit_s))

        self._activities.begin(fault.id, roll(), name=f"rolling restart {fault.id}")
        return {"observed": True, "nodes": {first.name: states}}

    def undo(self, cluster: Cluster, fault: Fault) -> Mapping[str, Sequence[Undo]]:  # noqa: ARG002 - others look at it
        """Return the commands that start all servers; the round itself ends with the harness."""
        return starting(fault)

    def heal(self, cluster: Cluster, fault: Fault) -> JSON:
        """End the round and wait until all serve; `{"observed", "restarted": [name], "nodes"}`.

        Raises HealError naming the first error of a server that does not come back.
        """
        limit_s = float(fault.parameters["serving_limit_s"])
        try:
            self._activities.finish(fault.id, deadline_s=limit_s + float(fault.parameters["stop_limit_s"]) + 30)
        except (ClusterError, OSError) as error:
            raise HealError(f"the rolling restart broke off: {error}") from error.__cause__ or error
        effect = bring_back(named(cluster, fault.nodes), deadline_s=limit_s, task="bringing restarted servers back")
        restarted = self._restarted.get(fault.id, [])
        return {**effect, "observed": bool(restarted), "restarted": [*restarted]}

    def _bring_back(self, node: Node, limit_s: float) -> str:
        bring_back([node], deadline_s=limit_s, task="rolling restart")
        return node.name
