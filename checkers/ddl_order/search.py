"""Linearization: the search for one order of steps, each within its own interval, that a sequential model allows.

Wing and Gong's search (Testing and verifying concurrent objects, 1993) with Lowe's memo of (linearized set, state)
(Testing for linearizability, 2017). The model is a set of variables over small integers and steps that are guarded
assignments, so that the same problem can be asked of fewer variables (`restrict`): a problem that then has no order has
none with all of them either, so a witness can be made small without being made false.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal, TypeAlias

from schemaquake.harness.model.verdict import Doubt

__all__ = ["Branch", "Outcome", "Problem", "State", "Step", "after", "drop_idle_steps", "restrict", "search"]

State: TypeAlias = tuple[int, ...]
_CONFIGURATIONS_BETWEEN_LOOKS_AT_THE_CLOCK: Final = 64
_NEVER: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class Branch:
    """One way to take a step: every variable of `requires` must hold one of the values, then `assigns` are carried out.

    `assigns` maps old to new: `(variable, table)` sets the variable to `table[old value]`.
    """

    requires: tuple[tuple[int, frozenset[int]], ...]
    assigns: tuple[tuple[int, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True)
class Step:
    """An event that must (`required`) or may happen once between `begins` and `ends` (ns; null: at any time after `begins`).

    Intervals are closed: two that share an instant may be ordered either way.
    """

    label: int
    begins: int
    ends: int | None
    required: bool
    branches: tuple[Branch, ...]

    @property
    def observes(self) -> bool:
        """True if it changes nothing, whatever the state: then it is taken as soon as it can be."""
        return not any(branch.assigns for branch in self.branches)


@dataclass(frozen=True)
class Problem:
    """An initial state and steps; labels are unique. Steps are put in order of `begins`."""

    initial: State
    steps: tuple[Step, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", tuple(sorted(self.steps, key=lambda step: (step.begins, step.label))))

    @cached_property
    def required(self) -> int:
        """Bits of the steps that must be taken."""
        return _bits(number for number, step in enumerate(self.steps) if step.required)

    @cached_property
    def reads(self) -> Sequence[frozenset[int]]:
        """The variables that each step requires something of."""
        return [frozenset(v for branch in step.branches for v, _ in branch.requires) for step in self.steps]

    @cached_property
    def writes(self) -> Sequence[frozenset[int]]:
        """The variables that each step may assign."""
        return [frozenset(v for branch in step.branches for v, _ in branch.assigns) for step in self.steps]

    @cached_property
    def must_precede(self) -> Sequence[int]:
        """Bits of the required steps that end before each step begins."""
        ends = [(_end(step), 1 << number) for number, step in enumerate(self.steps) if step.required]
        return [_bits_of(bit for end, bit in ends if end < step.begins) for step in self.steps]

    @cached_property
    def may_disturb(self) -> Sequence[int]:
        """Bits of the steps that may come before each step and do not commute with it.

        Two steps commute unless one writes what the other reads or writes, or one must not come after the other.
        """
        readers = [0] * len(self.initial)
        for number, variables in enumerate(self.reads):
            for variable in variables:
                readers[variable] |= 1 << number
        disturbing = []
        for number in range(len(self.steps)):
            others = _bits_of(readers[v] | self.writers[v] for v in self.writes[number])
            others |= _bits_of(self.writers[v] for v in self.reads[number])
            others |= self.expires[number]
            disturbing.append(others & self.may_precede[number] & ~(1 << number))
        return disturbing

    @cached_property
    def may_precede(self) -> Sequence[int]:
        """Bits of the steps that do not begin after each step's end."""
        return [_bits(n for n, other in enumerate(self.steps) if other.begins <= _end(step)) for step in self.steps]

    @cached_property
    def too_late_after(self) -> Sequence[int]:
        """Bits of the steps that begin after each optional step's end."""
        return [
            0 if step.required else _bits(n for n, other in enumerate(self.steps) if other.begins > _end(step))
            for step in self.steps
        ]

    @cached_property
    def expires(self) -> Sequence[int]:
        """Bits of the optional steps that cannot follow each step."""
        expired = [0] * len(self.steps)
        for number, late in enumerate(self.too_late_after):
            for other in _numbers(late):
                expired[other] |= 1 << number
        return expired

    @cached_property
    def observers(self) -> Sequence[tuple[int, int, tuple[Branch, ...]]]:
        """Free observations, as (bit, bits of the required steps that end before it begins, branches).

        An observation that some optional step cannot follow is not free: that step might still have to come first.
        """
        return [
            (1 << number, self.must_precede[number], step.branches)
            for number, step in enumerate(self.steps)
            if step.required and step.observes and not self.expires[number]
        ]

    @cached_property
    def writers(self) -> Sequence[int]:
        """Bits of the steps that may assign each variable."""
        writers = [0] * len(self.initial)
        for number, step in enumerate(self.steps):
            for branch in step.branches:
                for variable, _ in branch.assigns:
                    writers[variable] |= 1 << number
        return writers

    @cached_property
    def expectations(self) -> Sequence[Sequence[tuple[int, frozenset[int]]]]:
        """Values of each variable that observations with a single branch require: (bit, values)."""
        wanted: list[list[tuple[int, frozenset[int]]]] = [[] for _ in self.initial]
        for number, step in enumerate(self.steps):
            if step.required and step.observes and len(step.branches) == 1:
                for variable, values in step.branches[0].requires:
                    wanted[variable].append((1 << number, values))
        return wanted


@dataclass(frozen=True, slots=True)
class Outcome:
    """The answer of a search. `order`: labels in an order that works. `limit`: the one reached, where `found` is unknown."""

    found: Literal[True, False, "unknown"]
    order: tuple[int, ...] = ()
    configurations: int = 0
    limit: Doubt | None = None


def search(problem: Problem, *, repeatable: bool = False, deadline: float, configurations_max: int) -> Outcome:
    """Look for an order; ends at `deadline` (time.monotonic) or after so many remembered configurations.

    With `repeatable`, an optional step may be taken any number of times. That is a weaker problem, so False still means
    that there is no order, and it is far cheaper to refute: the optional steps taken need not be remembered. True then
    means little, unless the order takes every step at most once.
    """
    walk = _Walk(problem, repeatable=repeatable)
    first = walk.settled(0, problem.initial, range(len(problem.initial)))
    if first is None:
        return Outcome(False)
    if walk.complete(first[0]):
        return Outcome(True)
    memo = _Memo(problem.required)
    memo.remember(*first)
    stack = [walk.successors(*first)]
    order: list[int] = []
    while stack:
        following = next(stack[-1], None)
        if following is None:
            stack.pop()
            del order[-1:]
            continue
        label, (taken, state) = following
        if walk.complete(taken):
            return Outcome(True, (*order, label), memo.size)
        if not memo.remember(taken, state):
            continue
        limit = _limit_reached(memo.size, configurations_max, deadline)
        if limit is not None:
            return Outcome("unknown", (), memo.size, limit)
        order.append(label)
        stack.append(walk.successors(taken, state))
    return Outcome(False, (), memo.size)


class _Memo:
    """The visited configurations. One that reached the same with more optional steps taken is not worth a visit."""

    def __init__(self, required: int) -> None:
        self._required = required
        self._used: dict[tuple[int, State], list[int]] = {}
        self.size = 0

    def remember(self, taken: int, state: State) -> bool:
        """Remember a configuration; False if it is not worth a visit."""
        used = taken & ~self._required
        visited = self._used.setdefault((taken & self._required, state), [])
        if any(fewer & ~used == 0 for fewer in visited):
            return False
        visited.append(used)
        self.size += 1
        return True


def _limit_reached(configurations: int, configurations_max: int, deadline: float) -> Doubt | None:
    if configurations >= configurations_max:
        return Doubt("memory", f"{configurations_max:,} configurations did not suffice")
    if configurations % _CONFIGURATIONS_BETWEEN_LOOKS_AT_THE_CLOCK == 0 and time.monotonic() > deadline:
        return Doubt("time", "the time limit was reached")
    return None


def restrict(problem: Problem, *, variables: Collection[int], required: Collection[int]) -> Problem:
    """Restrict a problem to these variables, and its required steps to these labels.

    Other steps that change the variables still may be taken within their intervals; other observations are left out.
    Every order of the whole problem is one of this problem too. Variables keep their numbers.
    """
    kept = frozenset(variables)
    steps = []
    for step in problem.steps:
        must = step.required and step.label in required
        if step.observes and not must:
            continue
        branches = tuple(
            dict.fromkeys(
                Branch(
                    tuple((variable, values) for variable, values in branch.requires if variable in kept),
                    tuple((variable, table) for variable, table in branch.assigns if variable in kept),
                )
                for branch in step.branches
            )
        )
        # A step that says nothing about these variables can be placed anywhere.
        if any(branch.assigns for branch in branches) or (must and all(branch.requires for branch in branches)):
            steps.append(Step(step.label, step.begins, step.ends, must, branches))
    return Problem(problem.initial, tuple(steps))


def drop_idle_steps(problem: Problem) -> Problem:
    """Remove optional steps that can only stand in the way: an order with one is an order without it.

    Such a step changes a value to one that no other step requires: every step that allows the new value allows the old.
    """
    kept = list(problem.steps)
    for step in [step for step in problem.steps if not step.required]:
        others = [other for other in kept if other is not step]
        changes = {
            (v, old, new) for b in step.branches for v, t in b.assigns for old, new in enumerate(t) if old != new
        }
        if all(_no_worse(variable, old, new, others, changes) for variable, old, new in changes):
            kept = others
    return Problem(problem.initial, tuple(kept))


def _no_worse(
    variable: int, old: int, new: int, steps: Sequence[Step], changes: Collection[tuple[int, int, int]]
) -> bool:
    for branch in (branch for step in steps for branch in step.branches):
        if any(asked == variable and new in values and old not in values for asked, values in branch.requires):
            return False
        for written, table in branch.assigns:
            if written == variable and table[old] != table[new] and (variable, table[old], table[new]) not in changes:
                return False
    return True


def after(branch: Branch, state: State) -> State | None:
    """Return the state once the branch was taken, None if its requirements do not hold."""
    for variable, values in branch.requires:
        if state[variable] not in values:
            return None
    if not branch.assigns:
        return state
    changed = list(state)
    for variable, table in branch.assigns:
        changed[variable] = table[state[variable]]
    return tuple(changed)


class _Walk:
    """The moves between configurations (bits of the steps taken, state) of one problem."""

    def __init__(self, problem: Problem, *, repeatable: bool) -> None:
        self._problem = problem
        self._repeatable = repeatable
        self._steps = problem.steps
        self._all = (1 << len(problem.steps)) - 1
        self._required = problem.required
        self._observed = _bits_of(bit for bit, _, _ in problem.observers)
        self._within_reach: dict[tuple[int, int, int], frozenset[int]] = {}

    def complete(self, taken: int) -> bool:
        return taken & self._required == self._required

    def settled(self, taken: int, state: State, touched: Collection[int]) -> tuple[int, State] | None:
        """Make every free observation that fits; None if one can never fit any more.

        A free observation changes nothing, so an order that makes it later can make it now.
        """
        for bit, before, branches in self._problem.observers:
            if taken & bit or before & ~taken:
                continue
            if any(after(branch, state) is not None for branch in branches):
                taken |= bit
        for variable in touched:
            for bit, values in self._problem.expectations[variable]:
                if not taken & bit and values.isdisjoint(self._reachable(variable, state[variable], taken)):
                    return None
        return taken, state

    def _reachable(self, variable: int, value: int, taken: int) -> frozenset[int]:
        """Compute the values that a variable may still get if every step left that writes it could be taken at any time."""
        writers = self._problem.writers[variable] & ~taken
        key = (variable, value, writers)
        known = self._within_reach.get(key)
        if known is None:
            tables = [
                table
                for number in _numbers(writers)
                for branch in self._steps[number].branches
                for written, table in branch.assigns
                if written == variable
            ]
            reached = [value]
            for held in reached:  # grows while it is walked
                reached += {table[held] for table in tables} - set(reached)
            known = self._within_reach[key] = frozenset(reached)
        return known

    def successors(self, taken: int, state: State) -> Iterator[tuple[int, tuple[int, State]]]:
        """Yield (label, configuration after it) for enough steps to miss no order; required ones come first."""
        for number in self._worth_trying(taken, state):
            step = self._steps[number]
            marks = 0 if self._repeatable and not step.required else 1 << number
            for branch in step.branches:
                following = after(branch, state)
                if following is None or (following == state and not step.required):
                    continue  # an optional step that changes nothing need not be taken
                configuration = self.settled(taken | marks, following, [variable for variable, _ in branch.assigns])
                if configuration is not None:
                    yield step.label, configuration

    def _worth_trying(self, taken: int, state: State) -> Sequence[int]:
        """Choose a stubborn set (Valmari, 1989): steps of which one can come next in some order, if there is any order.

        It is built around a step that must come some time, in the way that leaves the fewest to try. If it is possible now,
        everything that does not commute with it and may come before it belongs to the set; if not, whatever could make
        it possible. The first step of an order that is in the set commutes with all before it, and so can be the next.
        """
        best: Sequence[int] | None = None
        for number in self._soonest(taken):
            stubborn = self._stubborn(number, taken, state)
            if best is None or len(stubborn) < len(best):
                best = stubborn
            if len(best) <= 1:
                break
        return best or ()

    def _soonest(self, taken: int) -> Iterator[int]:
        """List required steps that no other required step must precede, by their ends; observations are left out."""
        candidates: list[int] = []
        earliest_end = _NEVER
        for number in _numbers(self._required & ~taken):
            step = self._steps[number]
            if step.begins > earliest_end:
                break
            earliest_end = min(earliest_end, _end(step))
            candidates.append(number)
        return iter(sorted(candidates, key=lambda number: _end(self._steps[number])))

    def _stubborn(self, number: int, taken: int, state: State) -> Sequence[int]:
        """Return the possible steps of the stubborn set around `number`; required ones first."""
        left = self._all & ~taken
        found = 1 << number
        unexplored = found
        possible: list[int] = []
        while unexplored:
            lowest = unexplored & -unexplored
            unexplored ^= lowest
            current = lowest.bit_length() - 1
            more = self._blockers(current, taken, state)
            if more is None:
                possible.append(current)
                more = self._problem.may_disturb[current]
            more &= left & ~found
            found |= more
            unexplored |= more
        possible.sort(key=lambda at: (not self._steps[at].required, _end(self._steps[at])))
        return [at for at in possible if not self._observed >> at & 1]

    def _blockers(self, number: int, taken: int, state: State) -> int | None:
        """Return the bits of steps of which one must come before this one can; None if it is possible now."""
        step = self._steps[number]
        if not step.required and self._problem.too_late_after[number] & taken:
            return 0
        before = self._problem.must_precede[number] & ~taken
        if before:
            return before & -before
        enabling = 0
        for branch in step.branches:
            failing = next((v for v, values in branch.requires if state[v] not in values), None)
            if failing is None:
                return None
            enabling |= self._problem.writers[failing] & self._problem.may_precede[number]
        return enabling


def _numbers(bits: int) -> Iterator[int]:
    while bits:
        lowest = bits & -bits
        bits ^= lowest
        yield lowest.bit_length() - 1


def _end(step: Step) -> int:
    return _NEVER if step.ends is None else step.ends


def _bits(numbers: Iterator[int]) -> int:
    return _bits_of(1 << number for number in numbers)


def _bits_of(bits: Iterator[int]) -> int:
    found = 0
    for bit in bits:
        found |= bit
    return found
