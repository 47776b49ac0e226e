"""Allowance: the faults of a plan, compared with what the owner of a deployed cluster allows.

Checked before anything is touched. Every kind of fault needs its word in `allow`; a kind that has no word is never
injected. No fault may last longer than `max_fault_seconds`, after which the nodes undo it by themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from schemaquake.clusters.cluster_file.model import ClusterFile
from schemaquake.clusters.systems import server_options
from schemaquake.harness.errors import FaultNotAllowed, PlanError
from schemaquake.harness.faults.owners_limits import most_down
from schemaquake.harness.faults.requests import requested_faults
from schemaquake.harness.faults.schedule import compose
from schemaquake.harness.model.aim import Aim
from schemaquake.harness.model.context import Context
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.model.protocols import AllowedByOptions, Nemesis, Shortenable, TopologyNemesis
from schemaquake.harness.model.traits import nemesis_traits
from schemaquake.harness.registry import load
from schemaquake.harness.run.phases import main_limit_s

__all__ = ["Asked", "asked", "check_plan"]


class Asked(NamedTuple):
    """One word that a plan needs, the part of the plan that needs it, and how to ask for less."""

    word: str
    by: str
    instead: str


def asked(plan: Plan) -> Sequence[Asked]:
    """List every word that the plan needs; nemeses that no word allows are left out. Raises PlanError for an unknown nemesis."""
    found = [
        Asked(word, f"--nemesis {nemesis.name}", f"leave out --nemesis {nemesis.name}")
        for nemesis in _nemeses(plan)
        if (word := nemesis_traits(nemesis).allowed_by) is not None
    ]
    found += [
        Asked(word, f"-O {option}={plan.options[option]}", f"leave out -O {option}")
        for nemesis in _nemeses(plan)
        if isinstance(nemesis, AllowedByOptions)
        for option, word in nemesis.words_for(plan.options).items()
    ]
    found += [
        Asked(word, request.reason, f"leave out {request.reason}")
        for request in requested_faults(plan)
        if (word := nemesis_traits(load("nemeses", request.nemesis)).allowed_by) is not None
    ]
    if plan.restart != "none":
        found.append(Asked("restart", f"--restart {plan.restart} (of every node, at the end)", "say --restart none"))
    return found


def _nemeses(plan: Plan) -> Sequence[Nemesis]:
    return [load("nemeses", name) for name in plan.nemeses]


def check_plan(plan: Plan, file: ClusterFile) -> None:
    """Refuse a plan that the file does not allow or that contradicts it.

    Raises FaultNotAllowed with every refusal, a line each; PlanError for a plan that is made for another cluster.
    """
    _refuse(PlanError, _contradictions(plan, file))
    _refuse(FaultNotAllowed, (*_not_allowed(plan, file), *_overlong_faults(plan, file), *_too_many_down(plan, file)))


def _refuse(error: type[PlanError], sentences: Iterator[str] | Sequence[str]) -> None:
    if message := "\n".join(dict.fromkeys(sentences)):
        raise error(message)


def _contradictions(plan: Plan, file: ClusterFile) -> Iterator[str]:
    """Compare the plan with the file. The command line refuses these, too, but a plan may come from elsewhere."""
    for aspect, planned, written in (
        ("the cluster", plan.cluster, file.provider),
        ("the system", plan.system, file.system),
        ("the number of nodes", plan.nodes, file.node_count),
        ("the keyspace prefix", plan.keyspace_prefix, file.keyspace_prefix),
    ):
        if written is not None and planned != written:
            yield f"{aspect} of the plan is {planned}, and that of the cluster file {written}: change one of them"
    if file.provider == "ssh":
        if plan.spares > len(file.spares):
            yield f"--spares {plan.spares}: the cluster file names {len(file.spares)}: add [[spares]] to it, once a host"
        for option in plan.options:
            if option.startswith(server_options.PREFIXES):
                yield f"-O {option} is for servers that the harness makes itself, not for those of a deployed cluster: leave it out"
        if plan.distribution is not None:
            yield "--distribution is for servers that the harness makes itself: a deployed cluster runs its own"


def _not_allowed(plan: Plan, file: ClusterFile) -> Iterator[str]:
    reasons = [
        *((nemesis, f"--nemesis {nemesis.name}") for nemesis in _nemeses(plan)),
        *((load("nemeses", request.nemesis), request.reason) for request in requested_faults(plan)),
    ]
    for nemesis, reason in reasons:
        if nemesis_traits(nemesis).allowed_by is None:
            yield (
                f'nemesis "{nemesis.name}" declares no word of allow (allowed_by), so it cannot be used on a cluster that '
                f"outlives the run: leave out {reason}"
            )
    for need in asked(plan):
        if need.word not in file.allow:
            yield f'{need.by} needs "{need.word}", which the cluster file does not allow: add it to allow, or {need.instead}'


def _too_many_down(plan: Plan, file: ClusterFile) -> Iterator[str]:
    """Find faults and restarts that would take down more nodes at once than the owner allows."""
    limit = file.max_nodes_down
    if limit is None:
        return
    nemeses = {nemesis.name: nemesis for nemesis in _nemeses(plan)}
    context = plan.context(frozenset())
    requested = [
        (load("nemeses", request.nemesis), request.fault(id=-1 - number, ends_s=context.time_limit_s))
        for number, request in enumerate(requested_faults(plan))
    ]
    planned = [(nemeses[fault.nemesis], fault) for fault in compose(list(nemeses.values()), context)]
    aimed = [
        (load("nemeses", aim.nemesis), replace(operation, nodes=aim.nodes, parameters=aim.parameters))
        for _, operation in planned
        if (aim := Aim.of(operation)) is not None
    ]
    down = most_down([*planned, *aimed, *requested])
    if len(down) > limit:
        yield (
            f"the plan takes down {len(down)} nodes at once ({', '.join(sorted(down))}), and max_nodes_down is {limit}: raise "
            "that in the cluster file, name fewer nemeses, or choose smaller targets (schemaquake list options)"
        )
    restarted = {"none": 0, "rolling": 1, "together": plan.nodes}[plan.restart]
    if restarted > limit:
        yield (
            f"--restart {plan.restart} takes down {restarted} of the nodes at once, and max_nodes_down is {limit}: say "
            f"--restart {'rolling' if limit else 'none'}"
        )


def _overlong_faults(plan: Plan, file: ClusterFile) -> Iterator[str]:
    """Find faults that last longer than the nodes allow: undone early, they are not the planned faults."""
    limit_s = file.max_fault_seconds
    context = plan.context(frozenset())
    for nemesis in _nemeses(plan):
        if nemesis_traits(nemesis).allowed_by is None:
            continue
        if isinstance(nemesis, TopologyNemesis):  # what is done to the membership is undone by nobody
            yield from _overlong_aims(nemesis, context, limit_s)
            continue
        longest_s = max((fault.ends_s - fault.begins_s for fault in compose([nemesis], context)), default=0)
        if longest_s > limit_s:
            shorter = (
                nemesis.shortened(limit_s, node_count=plan.nodes)
                if isinstance(nemesis, Shortenable)
                else "a shorter --time-limit"
            )
            yield (
                f"--nemesis {nemesis.name} plans a fault of {longest_s:g} s, and max_fault_seconds is {limit_s:g}: "
                f"raise that in the cluster file, or ask for {shorter}"
            )
    for request in requested_faults(plan):
        if (held_s := main_limit_s(plan)) <= limit_s:
            continue
        yield (
            f"{request.reason} holds its fault for the whole main phase, which may last {held_s:g} s, and max_fault_seconds "
            f"is {limit_s:g}: raise that in the cluster file, or say --time-limit {plan.time_limit_s * limit_s / held_s:g}"
        )


def _overlong_aims(nemesis: TopologyNemesis, context: Context, limit_s: float) -> Iterator[str]:
    for operation in compose([nemesis], context):
        aim = Aim.of(operation)
        if aim is not None and aim.hold_s > limit_s:
            yield (
                f"-O aim of --nemesis {nemesis.name} holds its fault for {aim.hold_s:g} s, and max_fault_seconds is {limit_s:g}: "
                f"raise that in the cluster file, or say -O aim-s={limit_s:g}"
            )
