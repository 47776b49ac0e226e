"""Models: sequential objects that a history can be judged against, by the names that knossos and elle-cli give them.

Registers and mutexes are `Register` and `Mutex`, whose calls are guarded assignments and are searched as such
(`schemaquake.checkers.linearizability.guarded`). Any other model says which functions it knows, what a call of one does (`action`),
and how actions change a state. A model of one's own is any object with the methods of `HistoryModel`.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import orjson

from schemaquake.checkers.linearizability.search import Action, State
from schemaquake.harness.model.operation import JSON

__all__ = [
    "HistoryModel",
    "Mutex",
    "Register",
    "counter",
    "described",
    "fifo_queue",
    "frozen",
    "growing_set",
    "multi_register",
    "unordered_queue",
]

Result: TypeAlias = Literal["ok", "fail", "info"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Register:
    """A value that is read, written and, with `swaps`, compared and set.

    `failed_cas` informative: a failed cas says that the value was another one; ignored: it says nothing.
    `null_reads` unknown: a read of null says nothing, as knossos has it; value: null was there, as porcupine has it.
    """

    start: JSON = None
    swaps: bool = True
    failed_cas: Literal["ignored", "informative"] = "ignored"
    null_reads: Literal["value", "unknown"] = "value"

    @property
    def functions(self) -> frozenset[str]:
        """The `f` of the operations that it judges."""
        return frozenset({"read", "write", "cas"} if self.swaps else {"read", "write"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutex:
    """A lock that is acquired and released; free at first."""

    functions: frozenset[str] = frozenset({"acquire", "release"})


@runtime_checkable
class HistoryModel(Protocol):
    """A sequential object, and how calls of a history act on it (see `schemaquake.checkers.linearizability.search.Model`)."""

    @property
    def functions(self) -> frozenset[str]:
        """The `f` of the operations that it judges; all others are left out."""
        ...

    @property
    def initial(self) -> State:
        """The state before the first call."""
        ...

    def action(self, f: str, result: Result, argument: JSON, value: JSON) -> Action | None:
        """Build the action of such a call; None if it constrains nothing. Raises ValueError for values it cannot have."""
        ...

    def part(self, action: Action) -> Hashable | None:
        """Find the part of the object the action acts on, where parts do not depend on each other; None: on any of them."""
        ...

    def step(self, state: State, action: Action) -> State | None:
        """Compute the state after the action; None if it is impossible in this state."""
        ...

    def observes(self, action: Action) -> bool:
        """Tell whether the action leaves every state as it is."""
        ...


@dataclass(frozen=True, slots=True)
class _Text:
    """A value by its JSON: 1, true and "1" are three values, and null is one."""

    json: str


def frozen(value: JSON) -> Any:
    """Convert a JSON value into one that can be hashed, equal where the value is; never None."""
    return value if type(value) is int or type(value) is str else _Text(_text(value))


def _text(value: JSON) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def described(state: State) -> str:
    """Render a state as an explanation shows it."""
    if isinstance(state, frozenset):
        shown = sorted(described(element) for element in state)
    elif isinstance(state, tuple):
        shown = [described(element) for element in state]
    else:
        return state.json if isinstance(state, _Text) else str(state)
    opens, closes = "{}" if isinstance(state, frozenset) else "[]"
    return f"{opens}{', '.join(shown[:20])}{', …' if len(shown) > 20 else ''}{closes}"


class _WholeObject:
    """The common part of models whose parts hang together."""

    def part(self, action: Action) -> Hashable | None:  # noqa: ARG002 - as the protocol has it
        return 0


@dataclass(frozen=True)
class _MultiRegister(_WholeObject):
    """Several registers, read and written together: the value of a txn is `[["r" or "w", key, value], …]`."""

    start: Mapping[str, JSON] | None
    null_reads: Literal["value", "unknown"]
    functions: frozenset[str] = frozenset({"txn", "read", "write"})

    @property
    def initial(self) -> State:
        return tuple(sorted((key, frozen(value)) for key, value in (self.start or {}).items()))

    def action(self, f: str, result: Result, argument: JSON, value: JSON) -> Action | None:
        if result == "fail":
            return None
        steps = value if result == "ok" else argument
        if not isinstance(steps, list) or any(not isinstance(step, list) or len(step) != 3 for step in steps):
            raise ValueError(f"a {f} of several registers wants [[r or w, key, value], …], not {_text(steps)}")
        seen = result == "ok"
        found = tuple(
            (f, k if isinstance(k, str) else _text(k), frozen(v))
            for f, k, v in steps
            if f == "w" or (seen and not (v is None and self.null_reads == "unknown"))
        )
        return found or None

    def step(self, state: State, action: Action) -> State | None:
        held = dict(state)
        for f, key, value in action:
            if f == "w":
                held[key] = value
            elif held.get(key, frozen(None)) != value:
                return None
        return tuple(sorted(held.items()))

    def observes(self, action: Action) -> bool:
        return all(f != "w" for f, _, _ in action)


@dataclass(frozen=True)
class _GrowingSet(_WholeObject):
    """A set: `add` and `remove` one element, `read` all of them."""

    functions: frozenset[str] = frozenset({"add", "remove", "read"})
    initial: State = frozenset()

    def action(self, f: str, result: Result, argument: JSON, value: JSON) -> Action | None:
        if f == "read":
            if result != "ok":
                return None
            if not isinstance(value, list):
                raise ValueError(f"a read of a set has a list of elements, not {_text(value)}")
            return "read", frozenset(map(frozen, value))
        return None if result == "fail" else (f, frozen(argument))

    def step(self, state: State, action: Action) -> State | None:
        assert isinstance(state, frozenset)
        f, value = action
        if f == "read":
            return state if state == value else None
        return state | {value} if f == "add" else state - {value}

    def observes(self, action: Action) -> bool:
        return bool(action[0] == "read")


@dataclass(frozen=True)
class _Counter(_WholeObject):
    """A number: `add` (any integer, 1 where none is given), `increment`, `decrement`, `read`."""

    start: int
    functions: frozenset[str] = frozenset({"add", "increment", "decrement", "read"})

    @property
    def initial(self) -> State:
        return self.start

    def action(self, f: str, result: Result, argument: JSON, value: JSON) -> Action | None:
        if result == "fail" or (f == "read" and result != "ok"):
            return None
        number = value if f == "read" else 1 if argument is None else argument
        if type(number) is not int:
            raise ValueError(f"a {f} of a counter has an integer, not {_text(number)}")
        return ("read", number) if f == "read" else ("add", -number if f == "decrement" else number)

    def step(self, state: State, action: Action) -> State | None:
        assert isinstance(state, int)
        f, number = action
        if f == "add":
            return state + number
        return state if state == number else None

    def observes(self, action: Action) -> bool:
        return bool(action[0] == "read")


@dataclass(frozen=True)
class _FifoQueue(_WholeObject):
    """A queue: `enqueue` at its end, `dequeue` from its front. A dequeue of unknown outcome may have taken the front."""

    functions: frozenset[str] = frozenset({"enqueue", "dequeue"})
    initial: State = ()

    def action(self, f: str, result: Result, argument: JSON, value: JSON) -> Action | None:
        if result == "fail":
            return None
        if f == "enqueue":
            return "enqueue", frozen(argument)
        return ("dequeue", frozen(value)) if result == "ok" else ("dequeue",)

    def step(self, state: State, action: Action) -> State | None:
        assert isinstance(state, tuple)
        match action:
            case ("enqueue", value):
                return (*state, value)
            case ("dequeue", value):
                return state[1:] if state[:1] == (value,) else None
            case _:
                return state[1:]

    def observes(self, action: Action) -> bool:  # noqa: ARG002 - whatever it is
        return False


@dataclass(frozen=True)
class _UnorderedQueue:
    """A bag: `enqueue` puts one element in, `dequeue` takes any out.

    What happens to one element does not depend on the others, so each is judged apart. A dequeue of unknown outcome may
    have taken any one; it is allowed once for each element, which is more than there can have been, and so makes no false finding.
    """

    functions: frozenset[str] = frozenset({"enqueue", "dequeue"})
    initial: State = 0

    def action(self, f: str, result: Result, argument: JSON, value: JSON) -> Action | None:
        if result == "fail":
            return None
        if f == "enqueue":
            return "enqueue", frozen(argument)
        return "dequeue", None if result == "info" else frozen(value)

    def part(self, action: Action) -> Hashable | None:
        part: Hashable | None = action[1]
        return part

    def step(self, state: State, action: Action) -> State | None:
        assert isinstance(state, int)
        if action[0] == "enqueue":
            return state + 1
        return state - 1 if state else None

    def observes(self, action: Action) -> bool:  # noqa: ARG002 - whatever it is
        return False


def multi_register(
    start: Mapping[str, JSON] | None = None, *, null_reads: Literal["value", "unknown"] = "value"
) -> HistoryModel:
    """Several registers, read and written together (`txn`, `[["r" or "w", key, value], …]`); null where `start` has none."""
    return _MultiRegister(start, null_reads)


def growing_set() -> HistoryModel:
    """Model a set, empty at first: `add`, `remove`, `read`."""
    return _GrowingSet()


def counter(start: int = 0) -> HistoryModel:
    """Model a number: `add`, `increment`, `decrement`, `read`."""
    return _Counter(start)


def fifo_queue() -> HistoryModel:
    """Model a queue, empty at first: `enqueue`, `dequeue`."""
    return _FifoQueue()


def unordered_queue() -> HistoryModel:
    """Model a bag, empty at first: `enqueue`, `dequeue`."""
    return _UnorderedQueue()
