"""Clock skew: wall clocks that jump, or flicker between two times.

A server stamps schema changes and rows with its wall clock, so a skew decides which of two changes wins. *jump* shifts
each clock once and leaves it; *strobe* goes on toggling it between true time and the offset until it is healed.
Parameters: `{"kind", "offsets": {node: seconds}, "period_s"}`. What the clocks show is read back each time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from schemaquake.harness.errors import ClusterError, HealError, PlanError
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.options import option
from schemaquake.harness.model.protocols import Cluster, Context, Fault, Node, Undo
from schemaquake.harness.wait import until
from schemaquake.nemeses.schedule.activity import Activities, Work
from schemaquake.nemeses.schedule.every_node import on_every
from schemaquake.nemeses.schedule.options import TargetOptions, configured
from schemaquake.nemeses.schedule.targets import named
from schemaquake.nemeses.schedule.timetable import targeted

__all__ = ["ClockSkew"]

_KINDS = ("jump", "strobe")

# As good as true. An offset of zero would end the skew, and would restart the service that keeps a host's clock.
_TRUE_S = 0.001


@dataclass(frozen=True, kw_only=True)
class ClockSkew:
    """`--nemesis clock`; `-O clock.kinds=jump`, `-O clock.max_skew_s=30`, `-O clock.targets=all`."""

    name = "clock"
    needs = frozenset({"clock"})
    allowed_by = "clock"
    disturbs = "clock"
    effect = "clocks"
    options = TargetOptions()

    targets: tuple[str, ...] = option(("one", "all"), "the targets, with commas; one is drawn for each fault")
    kinds: tuple[str, ...] = option(_KINDS, "the kinds of skew, with commas; one is drawn for each fault")
    max_skew_s: float = option(120.0, "the largest offset in seconds")
    """Each node's is drawn between a tenth of this and this, ahead or behind."""
    period_s: float = option(4.0, "the period of a strobe in seconds: half at true time, half at the offset")
    """A server may take a second to follow."""
    tolerance_s: float = option(1.0, "the largest distance in seconds between the wanted offset and the one read back")
    read_back_limit_s: float = option(15.0, "the limit in seconds for a node to show the wanted offset")
    _activities: Activities[JSON] = field(default_factory=Activities, init=False, repr=False, compare=False)

    def schedule(self, context: Context, *, random: Random) -> Sequence[Fault]:
        """Plan skews of 5 to 15 s with quiet between them. Raises PlanError for parameters out of range."""
        skew = configured(self, context)
        skew.check()
        faults = targeted(self.name, context, random, targets=skew.targets)
        return [replace(fault, parameters={**fault.parameters, **skew.draw(fault.nodes, random)}) for fault in faults]

    def check(self) -> None:
        """Raise PlanError, naming the parameter, if the smallest skew would be within the tolerance."""
        for kind in self.kinds:
            if kind not in _KINDS:
                raise PlanError(f'clock.kinds: unknown kind "{kind}". Known: {", ".join(_KINDS)}.')
        if self.max_skew_s / 10 <= self.tolerance_s:
            raise PlanError(
                f"clock.max_skew_s={self.max_skew_s:g}: the smallest skew is a tenth of it, and lies within the tolerance "
                f"(clock.tolerance_s={self.tolerance_s:g})"
            )
        if self.period_s <= 0:
            raise PlanError(f"clock.period_s={self.period_s:g}: a period is longer than 0")

    def draw(self, nodes: Sequence[str], random: Random) -> Mapping[str, JSON]:
        """Draw the parameters of one fault on these nodes."""
        offsets = {
            name: round(random.choice((-1, 1)) * random.uniform(0.1, 1.0) * self.max_skew_s, 3) for name in nodes
        }
        return {"kind": random.choice(self.kinds), "offsets": offsets, "period_s": self.period_s}

    def inject(self, cluster: Cluster, fault: Fault) -> JSON:
        """Shift the clocks and read them back: `{"observed": True, "tolerance_s", "nodes": {name: {"wanted", "read"}}}` in seconds.

        A strobe goes on in the background. Raises ClusterError if a clock does not follow.
        """
        nodes = named(cluster, fault.nodes)
        offsets = fault.parameters["offsets"]

        def shift(node: Node) -> JSON:
            return {"wanted": offsets[node.name], "read": self._set(node, offsets[node.name])}

        shifted = on_every(nodes, shift, task="skewing clocks")
        if fault.parameters["kind"] == "strobe":
            half_s = float(fault.parameters["period_s"]) / 2

            def strobe() -> Work[JSON]:
                toggles = 0
                while (yield half_s):
                    toggles += 1
                    for node in nodes:
                        node.skew_clock(_TRUE_S if toggles % 2 else offsets[node.name])
                return toggles

            self._activities.begin(fault.id, strobe(), name=f"clock strobe {fault.id}")
        return {"observed": True, "tolerance_s": self.tolerance_s, "nodes": shifted}

    def undo(self, cluster: Cluster, fault: Fault) -> Mapping[str, Sequence[Undo]]:  # noqa: ARG002 - others look at it
        """Return the command that restores true time. It ends the strobe of a live harness too, whose guard holds the clock."""
        return {name: [Undo(verb="clock")] for name in fault.nodes}

    def heal(self, cluster: Cluster, fault: Fault) -> JSON:
        """Restore true time and read it back: `{"observed", "tolerance_s", "toggles", "broke_off", "nodes": {name: {"before", "after"}}}`.

        `observed`: every clock was still skewed when healing began, or had been strobed. Raises HealError.
        """
        toggles: JSON = None
        broke_off = None
        try:
            toggles = self._activities.finish(fault.id, deadline_s=self.read_back_limit_s)
        except TimeoutError as error:
            raise HealError(f"a strobe goes on and would skew the clocks again: {error}") from error
        except (ClusterError, OSError) as error:
            broke_off = str(error)  # the clocks are restored first; the effect reports how the strobe ended

        def restore(node: Node) -> JSON:
            before = round(node.clock_offset(), 3)
            return {"before": before, "after": self._set(node, 0.0)}

        restored = on_every(named(cluster, fault.nodes), restore, task="restoring clocks", error=HealError)
        lasted = all(abs(clock["before"]) > self.tolerance_s for clock in restored.values())
        observed = lasted or bool(toggles)
        strobed = {"toggles": toggles, "broke_off": broke_off}
        return {"observed": observed, "tolerance_s": self.tolerance_s, **strobed, "nodes": restored}

    def _set(self, node: Node, wanted_s: float) -> float:
        """Shift one clock and return the offset read back. Raises TimeoutError if it does not reach the wanted one."""
        node.skew_clock(wanted_s)
        read_s = 0.0

        def is_there() -> bool:
            nonlocal read_s
            read_s = node.clock_offset()
            return abs(read_s - wanted_s) <= self.tolerance_s

        until(is_there, deadline_s=self.read_back_limit_s, what=f"a clock offset of {wanted_s:+g} s on {node.name}")
        return round(read_s, 3)
