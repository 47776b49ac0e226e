"""Schema components: the changes and readings of a keyspace, divided into problems that can be searched one by one.

Objects that have nothing to do with one another are judged apart, which is sound (Herlihy and Wing, 1990, locality) and
keeps each search small: they are joined where one change reads or writes both.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Final

from schemaquake.checkers.ddl_order.search import Branch, Outcome, Problem, Step, drop_idle_steps, restrict, search
from schemaquake.checkers.ddl_order.variables import ABSENT, Alternative, Change, Guard, Value, Variable
from schemaquake.checkers.ddl_order.vocabulary import Vocabulary
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.findings.explanation import listing, seconds

__all__ = [
    "ALWAYS",
    "Component",
    "Decision",
    "Event",
    "compute_domains",
    "decide",
    "drop_idle_guards",
    "find_components",
]

ALWAYS: Final = -1
"""Before everything that the history knows of, ns."""
_CONFIGURATIONS_OF_A_PART: Final = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One change or reading of a keyspace: its model, its interval (ns), and its operation, or phase and nodes."""

    label: int
    change: Change
    begins: int
    ends: int | None
    operation: PairedOperation | None = None
    phase: str | None = None
    nodes: tuple[str, ...] = ()

    def text(self) -> str:
        """Render the event as a line of an explanation."""
        if self.operation is not None:
            return self.operation.text()
        assert self.ends is not None
        return f"the reading of {listing(self.nodes)} when {self.phase}, at {seconds(self.ends)}"


def compute_domains(vocabulary: Vocabulary, events: Sequence[Event]) -> Mapping[Variable, list[Value]]:
    """Compute every value that each variable can ever hold, the initial one first."""
    domains = {variable: [vocabulary.initial(variable)] for variable in sorted(vocabulary.variables())}
    effects: dict[Variable, list[Callable[[Value], Value]]] = {variable: [] for variable in domains}
    for event in events:
        for alternative in event.change.alternatives:
            for effect in alternative.effects:
                effects[effect.variable].append(effect.becomes)
    for variable, domain in domains.items():
        for held in domain:  # grows while it is walked
            for becomes in effects[variable]:
                following = becomes(held)
                if following not in domain:
                    domain.append(following)
    return domains


def drop_idle_guards(events: Sequence[Event], domains: Mapping[Variable, Sequence[Value]]) -> list[Event]:
    """Remove guards that no order could violate: they would join objects that are independent.

    "The keyspace exists" is such a guard where it was created before and nothing can have dropped it.
    """
    removed: dict[Variable, bool] = dict.fromkeys(domains, False)
    made: dict[Variable, int] = {}
    for event in events:
        for alternative in event.change.alternatives:
            for effect in alternative.effects:
                becomes = [effect.becomes(held) for held in domains[effect.variable] if held != ABSENT]
                removed[effect.variable] |= ABSENT in becomes
                if event.ends is not None and _leaves(event.change, effect.variable):
                    made[effect.variable] = min(made.get(effect.variable, event.ends), event.ends)

    def holds(guard: Guard, event: Event) -> bool:
        variable = guard.variable
        if all(map(guard.allows, domains[variable])):
            return True
        stands = not removed[variable] and made.get(variable, event.begins) < event.begins
        return stands and all(guard.allows(held) for held in domains[variable] if held != ABSENT)

    return [
        replace(
            event,
            change=replace(
                event.change,
                alternatives=tuple(
                    replace(a, guards=tuple(g for g in a.guards if not holds(g, event)))
                    for a in event.change.alternatives
                ),
            ),
        )
        if event.operation is not None
        else event
        for event in events
    ]


def _leaves(change: Change, variable: Variable) -> bool:
    """Tell if the variable was certainly there at some moment of the change: every way of it makes it or needs it."""
    return change.required and all(
        any(effect.variable == variable and effect.becomes(ABSENT) != ABSENT for effect in way.effects)
        or any(guard.variable == variable and not guard.allows(ABSENT) for guard in way.guards)
        for way in change.alternatives
    )


@dataclass(frozen=True, kw_only=True)
class Component:
    """Variables joined by changes, and the events that read or write them."""

    variables: tuple[Variable, ...]
    domains: Mapping[Variable, Sequence[Value]]
    events: tuple[Event, ...]

    @property
    def objects(self) -> tuple[str, ...]:
        """The objects of the component's variables, as anomalies name them."""
        return tuple(dict.fromkeys(variable.object for variable in self.variables))

    @cached_property
    def number(self) -> Mapping[Variable, int]:
        """The position of each variable in a state."""
        return {variable: number for number, variable in enumerate(self.variables)}

    @cached_property
    def problem(self) -> Problem:
        """The search problem."""
        steps = (
            Step(
                event.label,
                event.begins,
                event.ends,
                event.change.required,
                tuple(map(self._branch, event.change.alternatives)),
            )
            for event in self.events
        )
        return Problem((0,) * len(self.variables), tuple(steps))

    def _branch(self, alternative: Alternative) -> Branch:
        requires: dict[int, frozenset[int]] = {}
        for guard in alternative.guards:
            domain = self.domains[guard.variable]
            number = self.number[guard.variable]
            allowed = frozenset(at for at, held in enumerate(domain) if guard.allows(held))
            requires[number] = requires.get(number, allowed) & allowed
        assigns = []
        for effect in alternative.effects:
            domain = self.domains[effect.variable]
            table = tuple(domain.index(effect.becomes(held)) for held in domain)
            assigns.append((self.number[effect.variable], table))
        return Branch(tuple(requires.items()), tuple(assigns))


def find_components(events: Sequence[Event], domains: Mapping[Variable, Sequence[Value]]) -> Sequence[Component]:
    """Group variables that one change reads or writes; readings are cut to each component."""
    head = _heads(domains, [_touched(event.change) for event in events if event.operation is not None])
    grouped: dict[Variable, list[Event]] = {found: [] for found in head.values()}
    for event in events:
        if event.operation is None:
            for found, reading in _cut(event, head).items():
                grouped[found].append(reading)
        elif touched := _touched(event.change):
            grouped[head[touched[0]]].append(event)
    members: dict[Variable, list[Variable]] = {}
    for variable in domains:
        members.setdefault(head[variable], []).append(variable)
    return [
        Component(
            variables=tuple(variables),
            domains={variable: domains[variable] for variable in variables},
            events=tuple(grouped[found]),
        )
        for found, variables in members.items()
        if any(event.operation is not None for event in grouped[found])
    ]


def _heads(variables: Iterable[Variable], together: Iterable[Sequence[Variable]]) -> Mapping[Variable, Variable]:
    """Map each variable to one of its component, by union-find."""
    leader = {variable: variable for variable in variables}

    def find(variable: Variable) -> Variable:
        while leader[variable] != variable:
            leader[variable] = leader[leader[variable]]
            variable = leader[variable]
        return variable

    for group in together:
        for variable in group:
            leader[find(variable)] = find(group[0])
    return {variable: find(variable) for variable in leader}


def _cut(reading: Event, head: Mapping[Variable, Variable]) -> Mapping[Variable, Event]:
    guards: dict[Variable, list[Guard]] = {}
    for guard in reading.change.alternatives[0].guards:
        guards.setdefault(head[guard.variable], []).append(guard)
    return {
        found: replace(reading, change=replace(reading.change, alternatives=(Alternative(tuple(of_component)),)))
        for found, of_component in guards.items()
    }


def _touched(modelled: Change) -> list[Variable]:
    guards = [guard.variable for alternative in modelled.alternatives for guard in alternative.guards]
    return guards + [effect.variable for alternative in modelled.alternatives for effect in alternative.effects]


# ── deciding ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Decision:
    """A component with its answer; `problem` is the one that was refuted when the answer is no."""

    component: Component
    problem: Problem
    outcome: Outcome


def decide(component: Component, *, deadline: float, configurations_max: int) -> Decision:
    """Find an order, or refute that there is one.

    A problem without an order for a few of its objects has none for all: one object at a time is cheap to refute, and so
    is a problem in which optional steps may repeat. The exact search follows only where neither gives an answer.
    """
    problem = drop_idle_steps(component.problem)

    def refuted_in_part(parts: Iterable[Collection[str]], until: float) -> Decision | None:
        for names in parts:
            part = _part(component, problem, names)
            answer = search(part, repeatable=True, deadline=until, configurations_max=_CONFIGURATIONS_OF_A_PART)
            if answer.found is False:
                return Decision(component, part, answer)
        return None

    if len(component.objects) > 1:
        in_part = refuted_in_part(((name,) for name in component.objects), _share(deadline, 0.2))
        if in_part is not None:
            return in_part
    loose = search(problem, repeatable=True, deadline=_share(deadline, 0.25), configurations_max=configurations_max)
    if loose.found is True and len(set(loose.order)) == len(loose.order):
        return Decision(component, problem, loose)
    in_part = refuted_in_part(_neighbours(component), _share(deadline, 0.3))
    if in_part is not None:
        return in_part
    if loose.found is False:
        return Decision(component, problem, loose)
    return Decision(
        component,
        problem,
        search(problem, deadline=_share(deadline, 0.7), configurations_max=configurations_max),
    )


def _share(deadline: float, share: float) -> float:
    """Return the moment at which this share of the time left will be over."""
    now = time.monotonic()
    return now + (deadline - now) * share


def _part(component: Component, problem: Problem, names: Collection[str]) -> Problem:
    variables = [component.number[variable] for variable in component.variables if variable.object in names]
    required = {step.label for step in problem.steps if step.required}
    return drop_idle_steps(restrict(problem, variables=variables, required=required))


def _neighbours(component: Component) -> Sequence[Collection[str]]:
    """List pairs of objects that one change reads or writes."""
    pairs: dict[frozenset[str], None] = {}
    for event in component.events:
        if event.operation is not None:
            objects = sorted({variable.object for variable in _touched(event.change)})
            pairs |= dict.fromkeys(frozenset(pair) for pair in combinations(objects, 2))
    return list(pairs)
