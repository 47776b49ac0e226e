"""Planning: which node an operation on the topology concerns, and when it begins.

Nodes leave in an order that the seed fixes for all kinds of operations together, and each kind has places of its own in
it, so that two kinds in one run do not want the same node while there are enough. The first node stays: others join by it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Final, Protocol

from schemaquake.harness.errors import PlanError
from schemaquake.harness.model import options
from schemaquake.harness.model.membership import MemberState
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.protocols import Context, Fault
from schemaquake.nemeses.topology.aims import aim_at
from schemaquake.nemeses.topology.standard_options import TopologyOptions

__all__ = [
    "ANY",
    "draw_recovery",
    "first_place",
    "in_series",
    "joiners_of",
    "leaver",
    "leavers_of",
    "nobody_changes",
    "node_leaves",
    "node_serves",
    "place_of_those_who_stay",
    "plan_joiner",
    "plan_leaver",
    "planned",
    "spare",
]

ANY: Final = "any"
"""The value of an option that leaves the choice to the seed."""

_BEGINS: Final = (0.1, 0.3)
"""The part of the main phase in which an operation begins, so that there is time before and after it."""

_LAST_BEGINS: Final = 0.9
"""The part of the main phase after which no operation of a series begins."""

_FIRST_PLACES: Final = {"decommission": 0, "removenode": 1, "replace": 1, "assassinate": 2}
"""By nemesis that takes nodes away, in the order in which these get their places: the first place it has in a run of its own."""


def first_place(context: Context, nemesis: str) -> int:
    """Return the place, in the run's order of leaving nodes, of the first operation of a nemesis; its others have the places after it.

    The first kind of the run begins where it would begin alone. The others do, too, if that is free; where there is a series, they follow
    one another without a gap. Raises PlanError for a series that, with the other kinds, wants more nodes than can leave.
    """
    return _list_places(context)[0][nemesis]


def place_of_those_who_stay(context: Context) -> int:
    """Return the first place that no operation has which takes a node away; 0 if there is none. Raises PlanError as `first_place` does."""
    return _list_places(context)[1]


def _list_places(context: Context) -> tuple[Mapping[str, int], int]:
    """List the first place of each kind that takes nodes away, and the first one after them all."""
    counts = {name: _count_of(context, name) for name in _FIRST_PLACES if name in context.nemeses}
    series, able = any(count > 1 for count in counts.values()), leavers_of(context, ANY)
    if series and sum(counts.values()) > able:
        asked = ", ".join(f"{count} of {name}" for name, count in counts.items())
        raise PlanError(f"{asked}: each takes a node away, and {able} nodes of this run can leave; use more --nodes")
    places, free = dict(_FIRST_PLACES), 0
    for name, count in counts.items():
        places[name] = free if series and free else max(places[name], free)
        free = places[name] + count
    return places, free


def _count_of(context: Context, nemesis: str) -> int:
    """Return how many operations of a kind the run has; a count that is no number is refused where that kind is planned."""
    count = context.options.get(f"{nemesis}.count", "1")
    return int(count) if count.isdecimal() else 1


def leaver(context: Context, wanted: str, *, place: int) -> str:
    """Return the node `wanted`, or, for `any`, the one at this place of the run's order. Raises PlanError."""
    if wanted != ANY:
        return _known(context, wanted)
    order = list(context.nodes[1:])
    if not order:
        raise PlanError("a cluster of one node has none that could leave: use more --nodes")
    context.random("topology", "leavers").shuffle(order)
    return order[place % len(order)]


def spare(context: Context, wanted: str, nemesis: str, *, place: int) -> str:
    """Return the node `wanted`, or, for `any`, the spare of this number from the first on. Raises PlanError."""
    if wanted != ANY:
        return _known(context, wanted)
    if not context.spares:
        raise PlanError(f'nemesis "{nemesis}" needs a node that is no member yet: prepare one with --spares 1')
    return context.spares[place % len(context.spares)]


class _Repeated(Protocol):
    """The options that every operation has which can follow itself."""

    @property
    def name(self) -> str: ...
    @property
    def count(self) -> int: ...


def in_series(
    plan: _Repeated, context: Context, one: Callable[[int], Sequence[Fault]], *, nodes_max: int | None = None
) -> Sequence[Fault]:
    """Plan `-O NEMESIS.count=` operations; `one` plans the operation of this number, from 0 on.

    The first begins where it begins alone, the others at equal distances after it until nine tenths of the main phase have passed; one
    that is not over by then delays the next. `nodes_max` is the number of different nodes that there are for operations which a node
    goes through once; None: any number. Raises PlanError.
    """
    if plan.count < 1:
        raise PlanError(f"-O {plan.name}.count={plan.count}: at least 1")
    if nodes_max is not None and plan.count > max(nodes_max, 1):
        raise PlanError(f"-O {plan.name}.count={plan.count}: there are nodes for {nodes_max} in this run")
    found = [operation for number in range(plan.count) for operation in one(number)]
    first_s = found[0].begins_s
    apart_s = max(_LAST_BEGINS * context.time_limit_s - first_s, 0.0) / plan.count
    return [replace(operation, begins_s=round(first_s + number * apart_s, 3)) for number, operation in enumerate(found)]


class _OnOneNode(Protocol):
    """The options that every operation on one node has."""

    @property
    def name(self) -> str: ...
    @property
    def node(self) -> str: ...
    @property
    def begins_s(self) -> float: ...
    @property
    def limit_s(self) -> float: ...


def plan_leaver(
    plan: _OnOneNode, context: Context, random: Random, *, place: int, **parameters: JSON
) -> Sequence[Fault]:
    """Plan an operation on the member at this place of the run's order (see `leaver`). Raises PlanError."""
    return _plan_on(leaver(context, plan.node, place=place), plan, context, random, parameters)


def plan_joiner(
    plan: _OnOneNode, context: Context, random: Random, *, place: int = 0, **parameters: JSON
) -> Sequence[Fault]:
    """Plan an operation on the spare of this number. Raises PlanError without spares."""
    return _plan_on(spare(context, plan.node, plan.name, place=place), plan, context, random, parameters)


def leavers_of(context: Context, wanted: str) -> int:
    """Return how many different nodes can leave: all founders but the first, or the one that is wanted."""
    return len(context.nodes) - 1 if wanted == ANY else 1


def joiners_of(context: Context, wanted: str) -> int:
    """Return how many different nodes can join: the spares, or the one that is wanted."""
    return len(context.spares) if wanted == ANY else 1


def _plan_on(
    node: str, plan: _OnOneNode, context: Context, random: Random, parameters: Mapping[str, JSON]
) -> Sequence[Fault]:
    limits = {"begins_s": plan.begins_s, "limit_s": plan.limit_s}
    return planned(plan.name, context, random, nodes=(node,), **limits, **parameters)


def node_leaves(_nemesis: object, operation: Fault) -> Mapping[str, MemberState]:
    """Return that the operation's node has left afterwards; serves as a `TopologyNemesis.becomes`."""
    return {operation.nodes[0]: "left"}


def node_serves(_nemesis: object, operation: Fault) -> Mapping[str, MemberState]:
    """Return that the operation's node is a normal member afterwards; serves as a `TopologyNemesis.becomes`."""
    return {operation.nodes[0]: "normal"}


def nobody_changes(_nemesis: object, operation: Fault) -> Mapping[str, MemberState]:  # noqa: ARG001 - others depend on it
    """Return nothing: every node stays what it is; serves as a `TopologyNemesis.becomes`."""
    return {}


def draw_recovery(random: Random, ways: Sequence[str], wanted: str, nemesis: str) -> str:
    """Draw what is done after a failure from the ways there are; `wanted` fixes it. Raises PlanError for an unknown one."""
    if wanted == ANY:
        return random.choice(ways)
    if wanted not in ways:
        raise PlanError(f"-O {nemesis}.after_failure={wanted}: {', '.join((ANY, *ways))}")
    return wanted


def planned(
    nemesis: str, context: Context, random: Random, *, nodes: Sequence[str], begins_s: float, **parameters: JSON
) -> list[Fault]:
    """Plan one operation; it begins at `begins_s`, or at a drawn time if that is negative. Raises PlanError."""
    standard = options.configured(TopologyOptions(), context.options)
    if standard.overlap:
        parameters["overlaps"] = True
    if standard.aim:
        aim = aim_at(standard.aim, nodes, context, context.random("topology", "aim", nemesis), hold_s=standard.aim_s)
        parameters["aim"] = aim.to_json()
    drawn = random.uniform(*_BEGINS) * context.time_limit_s
    begins = drawn if begins_s < 0 else begins_s
    if begins >= context.time_limit_s:
        raise PlanError(f"-O {nemesis}.begins_s={begins:g}: the main phase ends at {context.time_limit_s:g} s")
    return [
        Fault(
            id=0,
            nemesis=nemesis,
            begins_s=round(begins, 3),
            ends_s=context.time_limit_s,
            nodes=tuple(nodes),
            parameters=parameters,
        )
    ]


def _known(context: Context, name: str) -> str:
    if name not in (*context.nodes, *context.spares):
        raise PlanError(f'there is no node "{name}". Nodes: {", ".join((*context.nodes, *context.spares))}.')
    return name
