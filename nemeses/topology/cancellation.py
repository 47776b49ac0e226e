"""Cancellation: an operation is begun, and cancelled as soon as it has reached a step.

Its outcome is that of what was begun: `fail` if the cancellation was acknowledged, so that nothing may have changed, and
`ok` if the operation was faster. A bootstrap is cancelled on any line: the node that joins is killed, and where the others do not
forget it by themselves they are told to. A node that leaves or moves is called back where its system has a command for it (6.0). Real servers
abort only what has failed ("Can't abort a LEAVE operation unless it has failed"), and another node does so only for one that is down. So the
node is killed at the step, another one aborts, and the node is started again. On simulated clusters the node itself is asked, and runs on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Final

from schemaquake.harness.errors import PlanError
from schemaquake.harness.model.aim import STEPS, ShowsSteps
from schemaquake.harness.model.membership import MemberState
from schemaquake.harness.model.operation import Completion
from schemaquake.harness.model.options import one_of, option
from schemaquake.harness.model.protocols import Cluster, Context, Fault
from schemaquake.harness.model.runtime import TaskSteps
from schemaquake.harness.model.topology import Attempt, TopologyVerb
from schemaquake.harness.wait import tasks, until
from schemaquake.nemeses.schedule.options import configured
from schemaquake.nemeses.schedule.targets import named
from schemaquake.nemeses.topology import standard_options as standard
from schemaquake.nemeses.topology.attempts import ask_about_dead, changing, lacks, refused
from schemaquake.nemeses.topology.bootstrap import leave_half_joined
from schemaquake.nemeses.topology.decommission import start_again
from schemaquake.nemeses.topology.planning import ANY, in_series, joiners_of, node_serves, plan_joiner, plan_leaver

__all__ = ["AbortBootstrap", "CancelSequence"]

_KINDS: Final = ("decommission", "move")


@dataclass(frozen=True, kw_only=True)
class AbortBootstrap:
    """`--nemesis abort-bootstrap --spares 1`; `-O abort-bootstrap.step=stream`."""

    about = "Aborted bootstrap: a spare begins to join, and is cancelled as soon as it has reached a step."
    name = "abort-bootstrap"
    needs = frozenset({"topology", "signals"})
    allowed_by = "topology"
    options = standard.TopologyOptions()

    node: str = standard.node("that begins to join, a spare")
    count: int = standard.count(", each of another spare")
    step: str = standard.step()
    begins_s: float = standard.at()
    limit_s: float = standard.limit()

    def schedule(self, context: Context, *, random: Random) -> Sequence[Fault]:
        """Plan one bootstrap that is aborted, or `count`. Raises PlanError without spares."""
        plan = configured(self, context)

        def one(number: int) -> Sequence[Fault]:
            return plan_joiner(plan, context, random, place=number, step=_draw_step(random, plan.step, self.name))

        return in_series(plan, context, one, nodes_max=joiners_of(context, plan.node))

    becomes = node_serves

    words_for = standard.words_for_aim

    def missing(self, cluster: Cluster) -> str | None:
        """Say why no node can begin to join this cluster."""
        return lacks(cluster)

    def operate(self, cluster: Cluster, operation: Fault) -> Completion:
        """Start the spare, wait for the step, and abort."""
        name, limit_s = operation.nodes[0], float(operation.parameters["limit_s"])
        if named(cluster, [name])[0].state() != "stopped":
            return refused(f"{name} runs already")
        return _begin_and_cancel(
            cluster,
            operation,
            lambda: changing(cluster).join(name, limit_s=limit_s),
            lambda: [leave_half_joined(cluster, name, limit_s=limit_s)],
        )


@dataclass(frozen=True, kw_only=True)
class CancelSequence:
    """`--nemesis cancel-sequence --nodes 4`; `-O cancel-sequence.kind=move`."""

    about = (
        "Cancelled sequence: a node begins to leave or to move, which is cancelled as soon as it has reached a step."
    )
    name = "cancel-sequence"
    needs = frozenset({"topology", "signals"})
    allowed_by = "topology"
    options = standard.TopologyOptions()

    kind: str = option(ANY, "`decommission`, `move` or `any`: the seed draws", parse=one_of(ANY, *_KINDS))
    node: str = standard.node("that begins to leave or to move")
    count: int = standard.count(", of one node after another")
    step: str = standard.step()
    begins_s: float = standard.at()
    limit_s: float = standard.limit()

    def schedule(self, context: Context, *, random: Random) -> Sequence[Fault]:
        """Plan one decommission or move that is cancelled, or `count`. Raises PlanError."""
        plan = configured(self, context)

        def one(number: int) -> Sequence[Fault]:
            return plan_leaver(
                plan,
                context,
                random,
                place=number,
                kind=random.choice(_KINDS) if plan.kind == ANY else plan.kind,
                step=_draw_step(random, plan.step, self.name),
                fraction=round(random.random(), 9),
                takes_down=True,
            )

        return in_series(plan, context, one)

    def becomes(self, operation: Fault) -> Mapping[str, MemberState]:
        """Return what the node is if it was faster than the cancellation: gone, or where it moved to."""
        return {operation.nodes[0]: "left" if operation.parameters["kind"] == "decommission" else "normal"}

    words_for = standard.words_for_aim

    def missing(self, cluster: Cluster) -> str | None:
        """Say why nothing can be cancelled here."""
        return lacks(cluster, "abort-leave", "abort-move")

    def operate(self, cluster: Cluster, operation: Fault) -> Completion:
        """Ask the node to leave or to move, wait for the step, and call it back."""
        name, limit_s = operation.nodes[0], float(operation.parameters["limit_s"])
        change = changing(cluster)
        token = change.token_at(float(operation.parameters["fraction"]))
        if operation.parameters["kind"] == "decommission":
            return _begin_and_cancel(
                cluster,
                operation,
                lambda: change.ask("decommission", on=name, limit_s=limit_s),
                lambda: _call_back(cluster, name, "abort-leave", "abort-leave-of-dead", limit_s=limit_s),
            )
        return _begin_and_cancel(
            cluster,
            operation,
            lambda: change.ask("move", on=name, argument=token, limit_s=limit_s),
            lambda: _call_back(cluster, name, "abort-move", "abort-move-of-dead", limit_s=limit_s),
        )


def _call_back(
    cluster: Cluster, name: str, verb: TopologyVerb, of_dead: TopologyVerb, *, limit_s: float
) -> Sequence[Attempt]:
    """Have a node abort what it does; where only another one can, once it is down, kill it for that and start it again."""
    change = changing(cluster)
    if change.cannot(of_dead) is not None:
        return [change.ask(verb, on=name, limit_s=limit_s)]
    named(cluster, [name])[0].kill()
    aborted = ask_about_dead(cluster, name, of_dead, limit_s=limit_s)
    return [aborted, start_again(cluster, name, limit_s=limit_s)]


def _draw_step(random: Random, wanted: str, nemesis: str) -> str:
    """Draw a step; `wanted` fixes it. Raises PlanError for one that there is not."""
    if wanted == ANY:
        return random.choice(STEPS)
    if wanted not in STEPS:
        raise PlanError(f"-O {nemesis}.step={wanted}: {', '.join((ANY, *STEPS))}")
    return wanted


def _begin_and_cancel(
    cluster: Cluster, operation: Fault, begin: Callable[[], Attempt], cancel: Callable[[], Sequence[Attempt]]
) -> Completion:
    """Begin in a task of its own, cancel when any step at or behind the planned one is seen, and wait for both ends.

    The first attempt of `cancel` is the cancellation, others follow from it. Raises what `begin` raises.
    """
    begun: list[Attempt | Exception] = []

    def steps() -> TaskSteps:
        try:
            begun.append(begin())
        except Exception as error:  # noqa: BLE001 - a task must not raise: whoever waits for it does
            begun.append(error)
        return
        yield

    task = tasks().spawn(operation.nemesis, steps())
    seen = _await_step(cluster, operation, lambda: bool(begun))
    cancelled = () if begun else cancel()
    task.join()
    (ended,) = begun
    if isinstance(ended, Exception):
        raise ended
    attempts = [ended, *cancelled]
    value = {
        "attempts": [attempt.to_json() for attempt in attempts],
        # What was begun goes on until it is cancelled.
        "seconds": round(max(ended.seconds, sum(attempt.seconds for attempt in cancelled)), 3),
        "seen": seen,
    }
    outcome = ended.outcome
    if cancelled and outcome != "ok":
        # The answer to what was begun may only say that it was interrupted; that to the cancellation decides.
        outcome = "fail" if cancelled[0].outcome == "ok" else "info"
    answer = " ".join(attempt.answer or attempt.command for attempt in attempts)
    return Completion(type=outcome, value=value, error=None if outcome == "ok" else f"Cancelled: {answer}")


def _await_step(cluster: Cluster, operation: Fault, is_over: Callable[[], bool]) -> str | None:
    """Wait for the planned step or a later one; return the one that was seen, None if the operation ended before."""
    limit_s = float(operation.parameters["limit_s"])
    wanted = str(operation.parameters["step"])
    if not isinstance(cluster, ShowsSteps):
        return None
    enough = STEPS[STEPS.index(wanted) :] if wanted in {"PREPARE", "START", "MID"} else STEPS
    seen: list[str] = []

    def reached() -> bool:
        seen[:] = sorted(set(enough).intersection(cluster.steps(operation.nodes)))
        return bool(seen) or is_over()

    with suppress(TimeoutError):
        until(reached, deadline_s=limit_s, what=f"the step {wanted}")
    return seen[0] if seen else None
