"""Rolling upgrade: every node becomes another version with the data it has, one after another; then the upgrade is ended.

If nodes are to become several versions, one upgrade follows another, each with an order of its own.
Each node is an operation of its own, and so is the end (`stage` is `node`, `back` or `finish`), so that a run which stops
halfway says where. The value of an outcome has `system`, and `promises`: what is promised while versions are mixed
(`schemaquake.harness.model.upgrade.ChangesVersions.promises`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Final

from schemaquake.harness.errors import PlanError
from schemaquake.harness.model import options
from schemaquake.harness.model.operation import JSON, Completion
from schemaquake.harness.model.options import option, truth
from schemaquake.harness.model.protocols import Cluster, Context, Fault
from schemaquake.harness.model.upgrade import UPGRADE_STEPS, ChangesVersions
from schemaquake.harness.wait import pause_for
from schemaquake.nemeses.schedule.options import configured
from schemaquake.nemeses.topology import standard_options as standard
from schemaquake.nemeses.topology.aims import aim_at
from schemaquake.nemeses.topology.attempts import Recovery, all_up, refused, try_out
from schemaquake.nemeses.topology.planning import draw_recovery, node_serves

__all__ = ["RollingUpgrade"]

_WAYS: Final = ("retry", "abort")
_BEGINS: Final = (0.05, 0.15)
"""The part of the main phase in which the first node begins."""
_LAST_STEPS: Final = frozenset({"rewrite", "initialize"})
_GAP_S: Final = 0.001


@dataclass(frozen=True, kw_only=True)
class UpgradeOptions:
    """Options that are written without the nemesis' name, as those of all operations on the topology are."""

    to: str = option(
        "",
        "the system that nodes become, for example cassandra:6.0-alpha2; with commas several, one upgrade after another",
    )
    aim: str = option("", f"a fault at a step, as of the topology's operations; steps {', '.join(UPGRADE_STEPS)}")
    aim_s: float = option(10.0, "how long the fault that is aimed at a step lasts, in seconds")


@dataclass(frozen=True, kw_only=True)
class RollingUpgrade:
    """`--nemesis rolling-upgrade -O to=cassandra:6.0-alpha2`; `-O rolling-upgrade.nodes=2 -O aim=kill@start`."""

    name = "rolling-upgrade"
    needs = frozenset({"topology"})
    options = UpgradeOptions()

    nodes: int = option(0, "how many nodes are upgraded; 0: all, and then the upgrade is ended")
    back: bool = option(
        False, "true: in each upgrade one node that was upgraded goes back once, and is upgraded again", parse=truth
    )
    insist: bool = option(
        False,
        "true: a last step that is refused because nodes differ is asked again without comparing them (`cms initialize --ignore`)",
        parse=truth,
    )
    pause_s: float = option(5.0, "the time between the end of one operation and the next, in seconds")
    begins_s: float = standard.at()
    limit_s: float = standard.limit()
    after_failure: str = standard.after_failure(_WAYS)

    def systems(self, given: Mapping[str, str]) -> Sequence[str]:
        """Return the systems that nodes become, in order. Raises PlanError if the options name none."""
        return _targets(options.configured(self.options, given))

    def schedule(self, context: Context, *, random: Random) -> Sequence[Fault]:
        """Plan an operation for each node, in an order drawn from the seed, and the end. Raises PlanError."""
        plan = configured(self, context)
        shared = options.configured(self.options, context.options)
        targets = _targets(shared)
        if len(targets) > 1 and plan.nodes not in {0, len(context.nodes)}:
            raise PlanError(
                f"-O {self.name}.nodes={plan.nodes}: the upgrade to {targets[0]} has to end on all nodes before that to {targets[1]}"
            )
        order = list(context.nodes)
        random.shuffle(order)
        begins = plan.begins_s if plan.begins_s >= 0 else random.uniform(*_BEGINS) * context.time_limit_s
        if begins >= context.time_limit_s:
            raise PlanError(f"-O {self.name}.begins_s={begins:g}: the main phase ends at {context.time_limit_s:g} s")
        way = draw_recovery(random, _WAYS, plan.after_failure, self.name)
        stages = []
        for position, to in enumerate(targets):
            if position:
                random.shuffle(order)
            stages += [(*each, to) for each in _stages(order, plan.nodes, goes_back=plan.back, random=random)]
        aimed = _aimed(shared.aim, stages, random)
        operations = []
        for position, (stage, node, to) in enumerate(stages):
            parameters: dict[str, JSON] = {
                "stage": stage,
                "to": to,
                "limit_s": plan.limit_s,
                "pause_s": plan.pause_s if position else 0.0,
                "after_failure": way if stage == "node" else "retry",
            }
            if stage != "finish":
                parameters["takes_down"] = True
            elif plan.insist:
                parameters["insists"] = True
            if position == aimed:
                steps = _steps_of(stage)
                aim = aim_at(shared.aim, [node], context, random, hold_s=shared.aim_s, steps=steps)
                parameters["aim"] = aim.to_json()
            operations.append(
                Fault(
                    id=position,
                    nemesis=self.name,
                    # They follow one another: each begins when the one before it has ended.
                    begins_s=round(begins + position * _GAP_S, 3),
                    ends_s=context.time_limit_s,
                    nodes=(node,),
                    parameters=parameters,
                )
            )
        return operations

    becomes = node_serves

    def missing(self, cluster: Cluster) -> str | None:
        """Say why nodes of this cluster cannot become the versions that they are to."""
        if not isinstance(cluster, ChangesVersions):
            return "the version of this cluster's nodes cannot be changed"
        if not cluster.others():
            return f"all nodes are {cluster.began_as()} already"
        return next((reason for to in cluster.others() if (reason := cluster.cannot_become(to)) is not None), None)

    def operate(self, cluster: Cluster, operation: Fault) -> Completion:
        """Upgrade the node, take it back, or end the upgrade."""
        assert isinstance(cluster, ChangesVersions)
        name, stage, to = operation.nodes[0], operation.parameters["stage"], str(operation.parameters["to"])
        pause_for(float(operation.parameters["pause_s"]))
        if stage == "finish":
            completion = _finish(cluster, operation, name, to)
        elif (reason := cluster.not_ready(to) or (cluster.cannot_go_back(to) if stage == "back" else None)) is not None:
            completion = refused(reason)
        else:
            completion = _exchange(cluster, operation, name, _before(cluster, to) if stage == "back" else to)
        facts = {"stage": stage, "system": cluster.running()[name], "promises": dict(cluster.promises(to))}
        return replace(completion, value={**completion.value, **facts})


def _exchange(cluster: Cluster, operation: Fault, name: str, system: str) -> Completion:
    """Have one node become this system, or, if that fails and it is to be aborted, what it was."""
    assert isinstance(cluster, ChangesVersions)
    limit_s, before = float(operation.parameters["limit_s"]), cluster.running()[name]
    others = partial(all_up, cluster, name)
    if not others():
        return refused("another node is down, and one at a time is upgraded")
    become = partial(cluster.become, name, system, limit_s=limit_s)
    back = partial(cluster.become, name, before, limit_s=limit_s)
    return try_out(operation, become, Recovery(up=others, retry=become, abort=back))


def _finish(cluster: Cluster, operation: Fault, name: str, to: str) -> Completion:
    """Carry out the last commands on this node, if every node is upgraded."""
    assert isinstance(cluster, ChangesVersions)
    old = sorted(node for node, system in cluster.running().items() if system != to)
    if old:
        return refused(f"{', '.join(old)} did not become {to}")
    finish = partial(cluster.finish, to, on=name, limit_s=float(operation.parameters["limit_s"]))
    completion = try_out(operation, finish, Recovery(up=partial(all_up, cluster), retry=finish))
    if completion.type != "fail" or operation.parameters.get("insists") is not True:
        return completion
    again = partial(finish, insists=True)
    second = try_out(operation, again, Recovery(up=partial(all_up, cluster), retry=again))
    attempts = [*completion.value["attempts"], *second.value["attempts"]]
    seconds = round(completion.value["seconds"] + second.value["seconds"], 3)
    return replace(second, value={**second.value, "attempts": attempts, "seconds": seconds})


def _before(cluster: ChangesVersions, system: str) -> str:
    """Return the system that nodes are before they become this one."""
    path = [cluster.began_as(), *cluster.others()]
    return path[path.index(system) - 1]


def _targets(shared: UpgradeOptions) -> Sequence[str]:
    targets = [name for part in shared.to.split(",") if (name := part.strip())]
    if not targets:
        raise PlanError("rolling-upgrade needs to know what nodes become: -O to=cassandra:6.0-alpha2")
    if len(set(targets)) < len(targets):
        raise PlanError(f"-O to={shared.to}: name each system once")
    return targets


def _stages(order: Sequence[str], count: int, *, goes_back: bool, random: Random) -> Iterator[tuple[str, str]]:
    """Yield (stage, node) in order; the node that goes back is a drawn one of those before the last."""
    chosen = order[: count or len(order)]
    returning = random.randrange(max(1, len(chosen) - 1)) if goes_back else -1
    for position, node in enumerate(chosen):
        yield "node", node
        if position == returning:
            yield "back", node
            yield "node", node
    if len(chosen) == len(order):
        yield "finish", random.choice(order)


def _aimed(text: str, stages: Sequence[tuple[str, str, str]], random: Random) -> int | None:
    """Draw the operation that has the step of an aim; None without an aim, and where no operation has the step."""
    if not text:
        return None
    fitting = [n for n, (stage, *_) in enumerate(stages) if any(f"@{step}" in text for step in _steps_of(stage))]
    return random.choice(fitting or range(len(stages)))


def _steps_of(stage: str) -> tuple[str, ...]:
    return tuple(step for step in UPGRADE_STEPS if (step in _LAST_STEPS) == (stage == "finish"))
