"""A nemesis that decommissions a real node as its system says, for tests."""

from __future__ import annotations

from schemaquake.clusters.systems.system import parse_system
from schemaquake.harness.model.operation import Completion
from schemaquake.harness.model.protocols import Fault

SYSTEM = "cassandra:5.0.9"
ENTRY_POINTS = {"nemeses": {"decommission-one": "decommission:Decommission"}}


class Decommission:
    """The last node leaves two seconds after the main phase has begun."""

    name = "decommission-one"
    needs = frozenset({"topology"})

    def schedule(self, context, *, random):
        node = context.nodes[-1]
        return [Fault(id=0, nemesis=self.name, begins_s=2, ends_s=context.time_limit_s, nodes=(node,))]

    def becomes(self, operation):
        return {operation.nodes[0]: "left"}

    def operate(self, cluster, operation):
        node = next(node for node in cluster.nodes if node.name == operation.nodes[0])
        for command in parse_system(SYSTEM).topology.decommission():
            done = node.nodetool(*command.arguments, timeout_s=command.limit_s)
            if done.exit_code != 0:
                return Completion(type="fail", error=f"NodetoolFailed: {(done.stderr or done.stdout).strip()[-500:]}")
        return Completion(type="ok")
