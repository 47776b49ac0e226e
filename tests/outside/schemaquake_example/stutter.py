"""Stutter: a server on an overloaded host does not stop; it freezes and wakes, several times a second."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

from schemaquake.api import (
    JSON,
    Activities,
    Cluster,
    Context,
    Fault,
    HealError,
    Node,
    PlanError,
    Undo,
    configured,
    named,
    targeted,
    until,
)


@dataclass(frozen=True, kw_only=True)
class Stutter:
    """`--nemesis stutter`; `-O stutter.period_s=0.2`, `-O stutter.targets=one,minority`."""

    name = "stutter"
    needs = frozenset({"signals"})
    allowed_by = "pause"
    disturbs = "process"

    targets: tuple[str, ...] = ("one",)
    period_s: float = 0.5
    _activities: Activities[int] = field(default_factory=Activities, init=False, repr=False)

    def schedule(self, context: Context, *, random: Random) -> Sequence[Fault]:
        """Plan faults of 5 to 15 s with quiet between them."""
        stutter = configured(self, context)
        if stutter.period_s <= 0:
            raise PlanError("stutter.period_s is longer than nothing")
        return targeted(self.name, context, random, targets=stutter.targets, period_s=stutter.period_s)

    def inject(self, cluster: Cluster, fault: Fault) -> JSON:
        """Freeze once, read that back, and go on in the background."""
        nodes = named(cluster, fault.nodes)
        half_s = fault.parameters["period_s"] / 2
        states = freeze(nodes)

        def stutter() -> Generator[float, bool, int]:
            pauses = 1
            while (yield half_s):
                for node in nodes:
                    node.resume()
                yield half_s
                pauses += set(freeze(nodes).values()) == {"paused"}
            return pauses

        self._activities.begin(fault.id, stutter(), name=f"stutter {fault.id}")
        return {"observed": set(states.values()) == {"paused"}, "nodes": states}

    def undo(self, cluster: Cluster, fault: Fault) -> Mapping[str, Sequence[Undo]]:
        """Have each node wake its server by itself if the harness never comes to heal."""
        return {name: [Undo(verb="resume")] for name in fault.nodes}

    def heal(self, cluster: Cluster, fault: Fault) -> JSON:
        """End the background, wake every server, and read that back."""
        pauses = self._activities.finish(fault.id, deadline_s=10)
        nodes = named(cluster, fault.nodes)
        for node in nodes:
            node.resume()
        states = states_after(nodes, "paused")
        if "paused" in states.values():
            raise HealError(f"still frozen: {states}")
        return {"observed": True, "pauses": pauses, "nodes": states}


def freeze(nodes: Sequence[Node]) -> dict[str, str]:
    """Freeze these servers and read their states back."""
    for node in nodes:
        node.pause()
    return states_after(nodes, "running")


def states_after(nodes: Sequence[Node], before: str) -> dict[str, str]:
    """Read the states of these servers once none is what it was `before`: a signal takes a moment to arrive."""
    for node in nodes:
        with suppress(TimeoutError):
            until(lambda node=node: node.state() != before, deadline_s=120, what=f"{node.name} to change its state")
    return {node.name: node.state() for node in nodes}
