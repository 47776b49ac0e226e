"""DDL witness: the proof that a component's schema changes have no order, with as few of them as possible.

A step is left out of a witness by making it optional within its own interval, and an object by removing all guards on
it: a problem that then still has no order has none in the whole history either. Deleting operations from the history
would be wrong: without the DROP between them, two CREATEs contradict each other that did not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from schemaquake.checkers.ddl_order.components import ALWAYS, Component, Decision, Event
from schemaquake.checkers.ddl_order.search import Problem, State, Step, after, drop_idle_steps, restrict, search
from schemaquake.checkers.ddl_order.variables import describe
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.findings.argument import Argument
from schemaquake.checkers.findings.catalogue import anomaly
from schemaquake.checkers.findings.explanation import listing
from schemaquake.checkers.findings.limits import LIMITS
from schemaquake.harness.model.verdict import Anomaly

__all__ = ["explain_refutation", "shorten_listing"]

_CONFIGURATIONS_OF_A_WITNESS: Final = 5_000
_WORTH: Final = ("option", "replication", "field", "column", "index", "routine", "type", "relation", "keyspace")
"""Kinds of variables; the first is left out of a witness first."""


@dataclass(slots=True)
class _Witness:
    """The variables and steps of a refutation, made fewer as long as no order appears."""

    problem: Problem
    deadline: float
    variables: list[int]
    required: list[int]
    found: Problem = field(init=False)

    def __post_init__(self) -> None:
        self.found = self.problem

    def shrink(self, readings: Collection[int]) -> None:
        """Leave out readings, then variables, then whole steps: first in halves, then one by one."""
        without = [label for label in self.required if label not in readings]
        if self._refuted(self.variables, without):
            self.required = without
        self.variables = self._fewer(self.variables, lambda kept: self._refuted(kept, self.required))
        self.required = self._fewer(self.required, lambda kept: self._refuted(self.variables, kept))
        self.variables = self._fewer(self.variables, lambda kept: self._refuted(kept, self.required))
        self.found = self._asked(self.variables, self.required)

    def _asked(self, variables: Collection[int], required: Collection[int]) -> Problem:
        return drop_idle_steps(restrict(self.problem, variables=variables, required=required))

    def _refuted(self, variables: Collection[int], required: Collection[int]) -> bool:
        part = restrict(self.problem, variables=variables, required=required)
        answer = search(part, repeatable=True, deadline=self.deadline, configurations_max=_CONFIGURATIONS_OF_A_WITNESS)
        return answer.found is False

    def _fewer(self, wanted: list[int], refuted: Callable[[list[int]], bool]) -> list[int]:
        size = max(1, len(wanted) // 2)
        while True:
            start = 0
            while start < len(wanted) and time.monotonic() < self.deadline:
                kept = wanted[:start] + wanted[start + size :]
                if refuted(kept):
                    wanted = kept
                else:
                    start += size
            if size == 1 or time.monotonic() >= self.deadline:
                return wanted
            size //= 2


def explain_refutation(decision: Decision, *, deadline: float) -> Anomaly:
    """Make the finding, with the smallest witness that could be found in time."""
    component = decision.component
    events = {event.label: event for event in component.events}
    witness = _Witness(
        problem=decision.problem,
        deadline=max(deadline, time.monotonic() + 1),
        variables=sorted(range(len(component.variables)), key=lambda n: _WORTH.index(component.variables[n].kind)),
        required=sorted(
            (step.label for step in decision.problem.steps if step.required), key=lambda label: _worth(events[label])
        ),
    )
    witness.shrink({label for label, event in events.items() if event.operation is None})
    proof = _Proof(component, witness.found)
    by_answers_alone = all(event.operation is not None for event in proof.needed)
    return anomaly(
        "non-linearizable-ddl",
        objects=dict.fromkeys(component.variables[number].object for number in sorted(witness.variables)),
        nodes=_nodes(proof.needed),
        ops=_indices(proof.needed) or _indices(proof.before),
        evidence={
            "contradicts": "answers" if by_answers_alone else "readings",
            "needed": [event.text() for event in proof.needed],
            "before": [event.text() for event in proof.before],
            "why": proof.lines,
            "of_no_help": _indices(proof.others),
        },
        explanation=proof.text(by_answers_alone=by_answers_alone),
    )


def _worth(event: Event) -> tuple[bool, bool, int]:
    """Rank an event: late readings are left out first, then earlier ones, then changes, the latest first."""
    return event.operation is not None, event.phase != "restarted", -event.begins


def _indices(events: Sequence[Event]) -> list[int]:
    return [event.operation.index for event in events if event.operation is not None]


def _nodes(needed: Sequence[Event]) -> list[str]:
    coordinators = [e.operation.node for e in needed if e.operation is not None and e.operation.node is not None]
    return [*coordinators, *(node for event in needed for node in event.nodes)]


class _Proof:
    """The refutation of every order of a witness, each followed until a step is refused."""

    def __init__(self, component: Component, problem: Problem) -> None:
        self._component = component
        self._problem = problem
        self._events = {event.label: event for event in component.events}
        self._required = [step for step in problem.steps if step.required]
        self.needed = [self._events[step.label] for step in self._required]
        self._names = self._named()
        self._tracked = {
            component.variables[variable]
            for step in problem.steps
            for branch in step.branches
            for variable, _ in (*branch.requires, *branch.assigns)
        }
        first = min((step.begins for step in self._required if step.begins != ALWAYS), default=0)
        optional = [step for step in problem.steps if not step.required]
        earlier = [
            step for step in optional if self._acknowledged(step) and step.ends is not None and step.ends < first
        ]
        self._state, self._authors, self.before = self._at_first(earlier)
        self._helpers = [step for step in optional if self._state is problem.initial or step not in earlier]
        self.others = [self._events[step.label] for step in self._helpers]
        self.lines: list[str] = []
        self._follow((), self._state, self._authors)

    def _named(self) -> Mapping[int, str]:
        names = {label: f"op {e.operation.index}" for label, e in self._events.items() if e.operation is not None}
        changes = [event for event in self.needed if event.operation is not None]
        readings = [event for event in self.needed if event.operation is None]
        names |= {event.label: f"T{number}" for number, event in enumerate(changes, 1)}
        return names | {event.label: f"R{number}" for number, event in enumerate(readings, 1)}

    def _acknowledged(self, step: Step) -> bool:
        return self._events[step.label].change.required

    def _at_first(self, earlier: Sequence[Step]) -> tuple[State, Mapping[int, str], list[Event]]:
        """Return the state after the acknowledged changes before all of these, the author of each value, and those changes.

        If they have no order of their own (their objects are judged only in part here), it is the initial state.
        """
        initial = self._problem.initial
        mandatory = Problem(initial, tuple(replace(step, required=True) for step in earlier))
        answer = search(mandatory, deadline=time.monotonic() + 1, configurations_max=_CONFIGURATIONS_OF_A_WITNESS)
        if answer.found is not True:
            return initial, {}, []
        steps = {step.label: step for step in earlier}
        state = initial
        last: dict[int, int] = {}
        for label in answer.order:
            following = _first(steps[label], state)
            assert following is not None
            last |= {number: label for number, _ in _changed(state, following)}
            state = following
        shown = answer.order if len(answer.order) <= LIMITS.named else sorted(set(last.values()))
        before = [self._events[label] for label in shown]
        return state, {number: self._names[label] for number, label in last.items()}, before

    def _follow(self, taken: tuple[int, ...], state: State, authors: Mapping[int, str]) -> None:
        """Take every required step that real time allows next; add a line for each that the state refuses."""
        left = [step for step in self._required if step.label not in taken]
        for step in left:
            if len(self.lines) >= LIMITS.lines:
                return
            if any(_precedes(other, step) for other in left):
                continue
            ways = list(self._ways(step, taken, state))
            if not ways:
                line = self._refusal(self._events[step.label], taken, state, authors)
                if line not in self.lines:
                    self.lines.append(line)
            for way in ways:
                reached, wrote = state, dict(authors)
                for label, following in way:
                    wrote |= {number: self._names[label] for number, _ in _changed(reached, following)}
                    reached = following
                self._follow((*taken, *(label for label, _ in way)), reached, wrote)

    def _ways(self, step: Step, taken: Sequence[int], state: State) -> Iterable[Sequence[tuple[int, State]]]:
        """List ways to take a step: alone or, if it is refused, after each optional change that makes it legal.

        A way is a sequence of labels, each with the state after it.
        """
        following = _first(step, state)
        if following is not None:
            yield [(step.label, following)]
            return
        for helper in self._helpers:
            taken_before = (other for other in self._required if other.label in taken)
            left = (other for other in self._required if other.label not in taken)
            untimely = any(_precedes(helper, other) for other in taken_before) or any(
                _precedes(other, helper) for other in left
            )
            helped = None if untimely or helper.label in taken else _first(helper, state)
            following = None if helped is None else _first(step, helped)
            if helped is not None and following is not None:
                yield [(helper.label, helped), (step.label, following)]

    def _refusal(self, event: Event, taken: Sequence[int], state: State, authors: Mapping[int, str]) -> str:
        when = f"after {', '.join(self._names[label] for label in taken)}, " if taken else "at first, "
        refused = f"{when}{self._names[event.label]} cannot come"
        for guard in event.change.alternatives[0].guards:
            number = self._component.number[guard.variable]
            held = self._component.domains[guard.variable][state[number]]
            if guard.variable in self._tracked and not guard.allows(held):
                verb = "shows that" if event.operation is None else "is legal only if"
                by = f" (by {authors[number]})" if number in authors else ""
                return f"{refused}: it {verb} {guard.needs}, but {describe(guard.variable, held)}{by}"
        return refused

    def text(self, *, by_answers_alone: bool) -> str:
        """Render the explanation."""
        changes = [event.operation for event in self.needed if event.operation is not None]
        readings = [event for event in self.needed if event.operation is None]
        let: list[PairedOperation | str] = [*changes]
        let += [f"{self._names[event.label]} = {event.text()}" for event in readings]
        let += [f"before them, {event.text()}" for event in self.before]
        then = (
            "each was acknowledged, so in some order, each between its call and its answer, all of them were legal."
            if by_answers_alone
            else "each change was acknowledged, so in some order all of them were legal and lead to what was read."
        )
        but = f"no order does it: {'; '.join(self.lines)}."
        helpers = [self._names[event.label] for event in self.others]
        if helpers:
            but += f" Wherever {shorten_listing(helpers)} took effect, if at all, it does not help."
        return Argument(let, then, but).render()


def _first(step: Step, state: State) -> State | None:
    """Return the state after the first branch of the step that is possible."""
    return next((reached for branch in step.branches if (reached := after(branch, state)) is not None), None)


def _precedes(one: Step, other: Step) -> bool:
    return one.ends is not None and one.ends < other.begins


def _changed(before: State, following: State) -> Iterable[tuple[int, int]]:
    return ((number, new) for number, (old, new) in enumerate(zip(before, following, strict=True)) if old != new)


def shorten_listing(items: Sequence[str]) -> str:
    """Join items as `a, b and c`; of many, the first eight and the number of the others."""
    if len(items) > LIMITS.lines:
        return f"{', '.join(items[: LIMITS.lines])} and {len(items) - LIMITS.lines} more"
    return listing(items)
