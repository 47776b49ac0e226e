"""Maintenance: nodetool's everyday commands on one node after another, each an operation with an outcome.

A service that is switched off is switched on again at the end of the same operation, whatever happens, and a node that was
drained is restarted. A command that keeps its node from serving (`takes_down`) explains that it does not.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from schemaquake.harness.errors import PlanError
from schemaquake.harness.model.files import ShowsFiles
from schemaquake.harness.model.operation import JSON, Completion
from schemaquake.harness.model.options import names, option
from schemaquake.harness.model.protocols import Cluster, Context, Fault, Node
from schemaquake.harness.model.topology import Attempt, TopologyVerb
from schemaquake.harness.wait import pause_for
from schemaquake.nemeses.everyday.snapshots import restore_snapshot
from schemaquake.nemeses.schedule.options import configured
from schemaquake.nemeses.schedule.targets import named
from schemaquake.nemeses.topology import standard_options as standard
from schemaquake.nemeses.topology.attempts import changing, lacks, refused
from schemaquake.nemeses.topology.planning import node_serves

__all__ = ["Everyday"]

_VERBS: Final[Mapping[str, tuple[TopologyVerb, ...]]] = {
    "flush": ("flush",),
    "compact": ("compact",),
    "cleanup": ("cleanup",),
    "scrub": ("scrub",),
    "repair": ("repair",),
    "snapshot": ("snapshot",),
    "drain": ("drain",),
    "resetlocalschema": ("reset-schema",),
    "reloadlocalschema": ("reload-schema",),
    "gossip": ("gossip-off", "gossip-on"),
    "binary": ("clients-off", "clients-on"),
    "handoff": ("hints-off", "hints-on"),
    "restore": ("snapshot", "refresh"),
}
"""The requests of each kind: one, or the two that switch a service off and on."""

_OPTIONAL: Final = frozenset({"restore"})
"""Kinds that are carried out only where they are named: they need a node's files."""
_FLAGS: Final[Mapping[str, frozenset[str]]] = {
    "takes_down": frozenset({"drain", "gossip", "binary"}),
    "forgets": frozenset({"resetlocalschema", "reloadlocalschema"}),
}
"""Kinds during which the node need not serve, and kinds after which it need not know what it has shown before, as after a start."""
_ATTEMPTS: Final[Mapping[str, int]] = {
    kind: 2 for kind, verbs in _VERBS.items() if kind == "drain" or (len(verbs) > 1 and kind not in _OPTIONAL)
}
"""Kinds that take two commands: a service is switched on again, and a drained node started."""
_BEGINS: Final = (0.05, 0.85)
"""The part of the main phase in which operations begin."""
_STOP_LIMIT_S: Final = 60.0
_ON_TRIES: Final = 3


@dataclass(frozen=True, kw_only=True)
class Everyday:
    """`--nemesis everyday`; `-O everyday.kinds=resetlocalschema,flush -O everyday.count=6`."""

    name = "everyday"
    needs = frozenset({"topology"})
    keeps_members = True
    kind_flags = _FLAGS
    kind_attempts = _ATTEMPTS

    kinds: tuple[str, ...] = option(
        tuple(kind for kind in _VERBS if kind not in _OPTIONAL),
        f"the kinds that the seed draws from: {', '.join(_VERBS)}",
        parse=names,
    )
    count: int = option(5, "how many operations are carried out")
    hold_s: float = option(8.0, "how long a service stays switched off, in seconds")
    limit_s: float = standard.limit()

    def schedule(self, context: Context, *, random: Random) -> Sequence[Fault]:
        """Plan the operations: kinds in turn, in a drawn order, each on a drawn node at a drawn time. Raises PlanError."""
        plan = configured(self, context)
        unknown = sorted(set(plan.kinds) - _VERBS.keys())
        if unknown or not plan.kinds:
            raise PlanError(f"-O everyday.kinds: {', '.join(unknown) or 'none'}; known are {', '.join(_VERBS)}")
        if plan.count < 1:
            raise PlanError(f"-O everyday.count={plan.count}: at least 1")
        order = random.sample(plan.kinds, len(plan.kinds))
        begins = sorted(random.uniform(*_BEGINS) * context.time_limit_s for _ in range(plan.count))
        return [
            Fault(
                id=position,
                nemesis=self.name,
                begins_s=round(second, 3),
                ends_s=context.time_limit_s,
                nodes=(random.choice(context.nodes),),
                parameters=_parameters(order[position % len(order)], plan, position),
            )
            for position, second in enumerate(begins)
        ]

    becomes = node_serves

    def missing(self, cluster: Cluster) -> str | None:
        """Say why no node here can be maintained: the system has none of the commands."""
        reasons = [lacks(cluster, *verbs) for verbs in _VERBS.values()]
        return reasons[0] if all(reason is not None for reason in reasons) else None

    def operate(self, cluster: Cluster, operation: Fault) -> Completion:
        """Carry out the command, or both of them with a pause between."""
        name, kind = operation.nodes[0], str(operation.parameters["kind"])
        if (reason := lacks(cluster, *_VERBS[kind])) is not None:
            return refused(reason)
        if kind in _OPTIONAL and (not isinstance(cluster, ShowsFiles) or cluster.missing("files") is not None):
            return refused("the files of this cluster are not the run's own")
        (node,) = named(cluster, [name])
        if node.state() != "running":
            return refused(f"{name} does not run")
        began = time.monotonic()
        attempts = (
            restore_snapshot(cluster, operation, node) if kind in _OPTIONAL else _carry_out(cluster, operation, node)
        )
        worst = max(attempts, key=lambda attempt: ("ok", "fail", "info").index(attempt.outcome))
        value = {
            "attempts": [attempt.to_json() for attempt in attempts],
            "kind": kind,
            "seconds": round(time.monotonic() - began, 3),
        }
        # A refusal of the second command does not undo the first.
        outcome = worst.outcome if worst.outcome != "fail" or len(attempts) == 1 else "info"
        error = None if outcome == "ok" else f"Failed: {worst.answer or worst.command}"
        return Completion(type=outcome, value=value, error=error)


def _parameters(kind: str, plan: Everyday, position: int) -> dict[str, JSON]:
    parameters: dict[str, JSON] = {"kind": kind, "limit_s": plan.limit_s, "hold_s": plan.hold_s}
    parameters |= {flag: True for flag, kinds in _FLAGS.items() if kind in kinds}
    if kind in {"snapshot", "restore"}:
        parameters["argument"] = f"schemaquake{position}"
    return parameters


def _carry_out(cluster: Cluster, operation: Fault, node: Node) -> list[Attempt]:
    """Ask for everything that the kind takes, in order."""
    change, limit_s = changing(cluster), float(operation.parameters["limit_s"])
    argument = operation.parameters.get("argument")
    first, *second = _VERBS[str(operation.parameters["kind"])]
    attempts: list[Attempt] = []
    try:
        attempts.append(
            change.ask(first, on=node.name, argument=None if argument is None else str(argument), limit_s=limit_s)
        )
        if second:
            pause_for(float(operation.parameters["hold_s"]))
    finally:
        for verb in second:
            attempts += _until_on(cluster, verb, node, limit_s)
    if first == "drain":
        attempts.append(_restart(node, limit_s))
    return attempts


def _until_on(cluster: Cluster, verb: TopologyVerb, node: Node, limit_s: float) -> list[Attempt]:
    """Switch a service on again; return the attempt that did, or the last of three. A node that was restarted has it on."""
    attempts: list[Attempt] = []
    while len(attempts) < _ON_TRIES and node.state() != "stopped":
        attempts.append(changing(cluster).ask(verb, on=node.name, limit_s=limit_s))
        if attempts[-1].outcome == "ok":
            break
        pause_for(1.0)
    return attempts[-1:]


def _restart(node: Node, limit_s: float) -> Attempt:
    """Stop and start the server of a drained node, which serves no client until then."""
    node.stop(deadline_s=_STOP_LIMIT_S)
    node.start()
    boot = node.await_serving(deadline_s=limit_s)
    return Attempt(
        outcome="ok" if boot.served else "info",
        command="stop, start",
        node=node.name,
        seconds=boot.seconds,
        answer=boot.first_error or "",
        timed_out=not boot.served and not boot.ended,
    )
