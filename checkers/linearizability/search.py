"""Search: whether the calls on one object have an order that a sequential model allows, whatever the model.

Wing and Gong's depth-first search (Testing and verifying concurrent objects, 1993) with Lowe's memo of configurations
(Testing for linearizability, 2017), and just in time: a call is put into the order only when the next answer needs it.
So a configuration is (how many answers were accounted for, which of the calls that are open took effect, state), which
is small however long the history is. Calls of unknown outcome stay open for ever, and are the exponent.

For models whose every call is a guarded assignment (`schemaquake.checkers.linearizability.guarded`) there is a sharper search.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias

from schemaquake.harness.compiled import working_time
from schemaquake.harness.model.verdict import Doubt

__all__ = ["Action", "Call", "Limits", "Model", "Outcome", "search"]

Action: TypeAlias = Any
"""What a call does: hashable, and equal where it does the same."""
State: TypeAlias = Any
"""Hashable, equal where nothing tells two apart, and never None."""

_LOOK_EVERY: Final = 256  # configurations between two looks at the clock
_BYTES: Final = 400  # of a remembered configuration, measured with 20 open calls
_SHOWN_MOST: Final = 8


class Model(Protocol):
    """A sequential object."""

    @property
    def initial(self) -> State:
        """The state before the first call."""
        ...

    def step(self, state: State, action: Action) -> State | None:
        """Compute the state after the action; None if it is impossible in this state."""
        ...

    def observes(self, action: Action) -> bool:
        """Tell whether the action leaves every state as it is: then it is taken as soon as it is possible."""
        ...


@dataclass(frozen=True, slots=True)
class Call:
    """A call that took effect (`required`), or may have, once between `begins` and `ends` (ns; null: at any later time)."""

    label: int
    begins: int
    ends: int | None
    action: Action

    @property
    def required(self) -> bool:
        """True if it certainly took effect."""
        return self.ends is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of a search: a moment of `schemaquake.harness.compiled.working_time`, and bytes that the memo may take."""

    deadline: float
    memory_bytes: int = 1 << 30

    def reached(self, which: Literal["memory", "time"], configurations: int) -> Outcome:
        """Make the outcome of a search that was given up."""
        how = f" of {self.memory_bytes >> 20:,} MiB" if which == "memory" else ""
        doubt = Doubt(which, f"the {which} limit{how} was reached")
        return Outcome(linearizable="unknown", configurations=configurations, limit=doubt)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a search. Unknown: `limit` says which one was reached.

    `order`: labels in an order that works, or, where none does, the longest that does; then `states` are what the
    object could be after it, and `stuck` is the call whose answer no order explains. `lenient`: none does even if calls of unknown
    outcome may take effect more than once, as they may in `order`.
    """

    linearizable: Literal[True, False, "unknown"]
    order: tuple[int, ...] = ()
    states: tuple[State, ...] = ()
    stuck: int | None = None
    configurations: int = 0
    limit: Doubt | None = None
    lenient: bool = False


def search(model: Model, calls: Sequence[Call], limits: Limits) -> Outcome:
    """Look for an order of all required calls, and any others, each within its interval. Intervals are closed."""
    walk = _Walk(model, calls)
    order: list[int] = []
    first = walk.settled(_Configuration(0, 0, walk.steps.initial), order)
    if walk.complete(first):
        return Outcome(linearizable=True, order=walk.labels(order))
    memo = {first}
    deepest = _Deepest()
    deepest.reached(first, order)
    stack = [(first, walk.moves(first), len(order))]
    most = max(1, limits.memory_bytes // _BYTES)
    while stack:
        before, moves, length = stack[-1]
        del order[length:]
        move = next(moves, None)
        if move is None:
            stack.pop()
            continue
        call, state = move
        order.append(call)
        after = walk.settled(_Configuration(before.answered, before.taken | 1 << call, state), order)
        if walk.complete(after):
            return Outcome(linearizable=True, order=walk.labels(order), configurations=len(memo))
        if after in memo:
            continue
        memo.add(after)
        deepest.reached(after, order)
        if len(memo) >= most:
            return limits.reached("memory", len(memo))
        if len(memo) % _LOOK_EVERY == 0 and working_time() > limits.deadline:
            return limits.reached("time", len(memo))
        stack.append((after, walk.moves(after), len(order)))
    return Outcome(
        linearizable=False,
        order=walk.labels(deepest.order),
        states=tuple(walk.steps.states[state] for state in deepest.states),
        stuck=walk.awaited(deepest.answered),
        configurations=len(memo),
    )


class _Configuration(NamedTuple):
    """The number of answers accounted for, bits of the open calls that took effect, and the state."""

    answered: int
    taken: int
    state: int


class _Steps:
    """A model with states and actions as small integers: what a call does in a state is asked of it once."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._states: dict[State, int] = {}
        self._actions: dict[Action, int] = {}
        self._after: dict[tuple[int, int], int] = {}
        self.states: list[State] = []
        self.initial = self._number(model.initial)

    def _number(self, state: State) -> int:
        number = self._states.setdefault(state, len(self.states))
        if number == len(self.states):
            self.states.append(state)
        return number

    def action(self, action: Action) -> int:
        return self._actions.setdefault(action, len(self._actions))

    def step(self, state: int, action: int, call: Call) -> int:
        """Compute the state after the action, −1 if it is impossible."""
        after = self._after.get((state, action))
        if after is None:
            found = self._model.step(self.states[state], call.action)
            after = self._after[state, action] = -1 if found is None else self._number(found)
        return after


class _Walk:
    """The moves between configurations. Calls are numbered in order of invocation, answers in order of completion."""

    def __init__(self, model: Model, calls: Sequence[Call]) -> None:
        self.steps = _Steps(model)
        # An observation of unknown outcome constrains nothing.
        useful = [call for call in calls if call.required or not model.observes(call.action)]
        self._calls = sorted(useful, key=lambda call: (call.begins, call.label))
        self._actions = [self.steps.action(call.action) for call in self._calls]
        self._answers = sorted((call.ends, number) for number, call in enumerate(self._calls) if call.ends is not None)
        self._observers: list[list[int]] = []
        self._movers: list[list[int]] = []
        open_calls: list[int] = []
        begun = 0
        for ends, number in self._answers:
            while begun < len(self._calls) and self._calls[begun].begins <= ends:
                open_calls.append(begun)
                begun += 1
            # What must end first is tried first, what need not have happened at all comes last.
            waiting = sorted(open_calls, key=self._due)
            self._observers.append([call for call in waiting if model.observes(self._calls[call].action)])
            self._movers.append([call for call in waiting if not model.observes(self._calls[call].action)])
            open_calls.remove(number)

    def _due(self, number: int) -> tuple[bool, int, int]:
        ends = self._calls[number].ends
        return (True, 0, number) if ends is None else (False, ends, number)

    def labels(self, order: Iterable[int]) -> tuple[int, ...]:
        return tuple(self._calls[number].label for number in order)

    def complete(self, configuration: _Configuration) -> bool:
        return configuration.answered == len(self._answers)

    def awaited(self, answered: int) -> int:
        return self._calls[self._answers[answered][1]].label

    def settled(self, configuration: _Configuration, order: list[int]) -> _Configuration:
        """Settle the configuration: make every observation that fits, account for every answer that can be.

        An observation changes nothing: an order that makes it later can make it now.
        """
        answered, taken, state = configuration
        while answered < len(self._answers):
            for number in self._observers[answered]:
                if taken >> number & 1:
                    continue
                if self.steps.step(state, self._actions[number], self._calls[number]) >= 0:
                    taken |= 1 << number
                    order.append(number)
            awaited = self._answers[answered][1]
            if not taken >> awaited & 1:
                break
            taken &= ~(1 << awaited)
            answered += 1
        return _Configuration(answered, taken, state)

    def moves(self, configuration: _Configuration) -> Iterator[tuple[int, int]]:
        """List (call, state after it) for what can come next. Of calls that do the same, the one that is due first."""
        answered, taken, state = configuration
        tried: set[int] = set()
        for number in self._movers[answered]:
            action = self._actions[number]
            if taken >> number & 1 or action in tried:
                continue
            tried.add(action)
            call = self._calls[number]
            after = self.steps.step(state, action, call)
            if after >= 0 and (call.required or after != state):
                yield number, after


class _Deepest:
    """The configurations that account for the most answers."""

    def __init__(self) -> None:
        self.answered = -1
        self.order: list[int] = []
        self.states: list[int] = []

    def reached(self, configuration: _Configuration, order: Sequence[int]) -> None:
        answered, _, state = configuration
        if answered > self.answered:
            self.answered = answered
            self.order = list(order)
            self.states = [state]
        elif answered == self.answered and state not in self.states and len(self.states) < _SHOWN_MOST:
            self.states.append(state)
