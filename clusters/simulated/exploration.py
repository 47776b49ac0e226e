"""Exploration: all orders of the events of a small world, up to the order of independent ones.

A world is begun anew for each execution and takes the events that it is told to, and tells of each what it touched: its node, and what
nodes share. Two events are dependent if they touched one thing; an event happens after those that caused it. `explore` is source-DPOR with sleep sets (Abdulla et al., POPL 2014): it carries
out at least one execution of each class of orders that differ only in independent events, and counts executions that sleep sets
cut short. `every_state` merges equal states instead, and counts all orders.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol, TypeAlias

__all__ = [
    "Event",
    "EventId",
    "Explored",
    "Pick",
    "States",
    "Unrepeatable",
    "World",
    "every_state",
    "explore",
    "sample",
]

EventId: TypeAlias = tuple[object, ...]
Pick: TypeAlias = "Callable[[Sequence[Event]], Event]"


class Event(NamedTuple):
    """One thing that may happen next."""

    id: EventId
    """The same in every execution in which it has the same causes."""
    node: str
    causes: tuple[EventId, ...]
    """Events without which it is not there, or may not happen yet."""


class Unrepeatable(Exception):
    """An event that did not come again: something that is no event, such as a timer, had a part in it."""


class World(Protocol):
    """A deterministic system but for the order of its events."""

    def begin(self) -> None:
        """Begin anew."""
        ...

    def pending(self) -> Sequence[Event]:
        """Return what may happen next; an event stays until it is taken."""
        ...

    def take(self, event: Event) -> frozenset[str]:
        """Let an event happen, and return what it touched: its node, and objects that nodes share. May raise Unrepeatable."""
        ...

    def state(self) -> Hashable:
        """Return all that the future depends on."""
        ...


@dataclass(slots=True)
class Explored:
    """The outcome of an exploration."""

    executions: int = 0
    """That came to their end: one or more of each class of orders."""
    blocked: int = 0
    """That a sleep set cut short: all that could come is explored elsewhere."""
    cut: int = 0
    """That were too deep, and were not judged."""
    lost: int = 0
    """Whose events did not come again, and that were given up."""
    transitions: int = 0
    """Events taken, those of replays among them."""
    states: int = 0
    """Different states that were seen, at ends and on the way to them."""
    depth: int = 0
    complete: bool = True
    """False if a limit ended it."""
    ends: dict[Hashable, int] = field(default_factory=dict)
    """By what `judge` made of an end the number of executions."""
    shortest: dict[Hashable, tuple[EventId, ...]] = field(default_factory=dict)
    """By the same the shortest execution that came to it."""


class _Frame:
    __slots__ = ("backtrack", "event", "pending", "sleep", "touched")

    def __init__(self, pending: Sequence[Event], sleep: dict[EventId, frozenset[str]]) -> None:
        self.pending = {event.id: event for event in pending}
        self.sleep = sleep
        """Events that need not be taken from here, with what each touches."""
        self.touched: frozenset[str] = frozenset()
        self.backtrack: dict[EventId, None] = {}
        self.event: Event | None = None
        """The event that was taken from here."""


def explore(
    world: World, judge: Callable[[], Hashable], *, most: int = 100_000, deepest: int = 1_000, reduces: bool = True
) -> Explored:
    """Explore the orders of a world's events; `judge` is called at the end of each execution.

    At most so many executions, none of more than `deepest` events: what is cut so is not complete. Without `reduces` every
    order is an execution of its own, independent events or not: the ends are the same, and that is how the reduction is tested.
    """
    out = Explored()
    frames: list[_Frame] = []
    seen: set[Hashable] = set()
    while True:
        how = _carry_out(world, frames, out, deepest, seen, reduces=reduces)
        out.states = len(seen)
        if how == "blocked":
            out.blocked += 1
        elif how == "cut":
            out.cut += 1
            out.complete = False
        elif how == "lost":
            out.lost += 1
            out.complete = False
        else:
            out.executions += 1
            end = judge()
            out.ends[end] = out.ends.get(end, 0) + 1
            events = [frame.event for frame in frames if frame.event is not None]
            out.depth = max(out.depth, len(events))
            if end not in out.shortest or len(events) < len(out.shortest[end]):
                out.shortest[end] = tuple(event.id for event in events)
        if not _back(frames):
            return out
        if out.executions + out.blocked + out.cut + out.lost >= most:
            out.complete = False
            return out


def sample(
    world: World, judge: Callable[[], Hashable], picks: Callable[[], Pick], *, count: int, deepest: int
) -> Explored:
    """Carry out so many executions, in each of which one of `picks` chooses every next event: what a search that is cut has not come to.

    Never complete: an order may come twice, and others not at all.
    """
    out = Explored(complete=False)
    seen: set[Hashable] = set()
    for _ in range(count):
        world.begin()
        pick = picks()
        way: list[EventId] = []
        while (pending := world.pending()) and len(way) < deepest:
            event = pick(pending)
            world.take(event)
            way.append(event.id)
            seen.add(world.state())
        out.transitions += len(way)
        out.depth = max(out.depth, len(way))
        if pending:
            out.cut += 1
            continue
        out.executions += 1
        end = judge()
        out.ends[end] = out.ends.get(end, 0) + 1
        if end not in out.shortest or len(way) < len(out.shortest[end]):
            out.shortest[end] = tuple(way)
    out.states = len(seen)
    return out


def _carry_out(  # noqa: C901 - replay and going on share their limits
    world: World, frames: list[_Frame], out: Explored, deepest: int, seen: set[Hashable], *, reduces: bool
) -> Literal["ended", "blocked", "cut", "lost"]:
    """Replay the events of the frames, and go on to the end, until all that is left sleeps, or to the greatest depth."""
    world.begin()
    for place, frame in enumerate(frames):
        assert frame.event is not None
        try:
            frame.touched = world.take(frame.event)
        except Unrepeatable:
            del frames[place + 1 :]
            return "lost"
        out.transitions += 1
    if frames:
        seen.add(world.state())
        if reduces:
            _race(frames)
    while True:
        before = frames[-1] if frames else None
        sleep: dict[EventId, frozenset[str]] = {}
        if before is not None and reduces:
            sleep = {name: touched for name, touched in before.sleep.items() if not touched & before.touched}
        frame = _Frame(world.pending(), sleep)
        if not frame.pending:
            return "ended"
        if len(frames) >= deepest:
            return "cut"
        awake = next((event for name, event in frame.pending.items() if name not in sleep), None)
        if awake is None:
            return "blocked"
        frame.backtrack = {awake.id: None} if reduces else dict.fromkeys(frame.pending)
        frame.event = awake
        frames.append(frame)
        frame.touched = world.take(awake)
        out.transitions += 1
        seen.add(world.state())
        if reduces:
            _race(frames)


def _back(frames: list[_Frame]) -> bool:
    """Go back to the last place from which another event has to be taken, and choose it. False if there is none."""
    while frames:
        frame = frames[-1]
        assert frame.event is not None
        frame.sleep[frame.event.id] = frame.touched
        left = next((name for name in frame.backtrack if name not in frame.sleep), None)
        if left is not None:
            frame.event = frame.pending[left]
            return True
        frames.pop()
    return False


def _race(frames: Sequence[_Frame]) -> None:
    """Where the last event races with an earlier one, note what is to be tried first there.

    They race if they touched one thing, and the later one does not happen after the earlier one by way of a third.
    """
    steps = [(frame.event, frame.touched) for frame in frames if frame.event is not None]
    last, touched = steps[-1]
    for place in range(len(steps) - 2, -1, -1):
        earlier, its = steps[place]
        if not its & touched:
            continue
        # All that happens after the earlier event, up to the last one: by what it touched, or by what caused it.
        after = {earlier.id}
        reached = its
        free: list[tuple[Event, frozenset[str]]] = []
        between: frozenset[str] = frozenset()
        for event, own in steps[place + 1 : -1]:
            if own & reached or any(cause in after for cause in event.causes):
                after.add(event.id)
                reached |= own
                between |= own
            else:
                free.append((event, own))
        if between & touched or any(cause in after for cause in last.causes):
            continue  # by way of a third, or not there before the earlier one
        frame = frames[place]
        initials = [name for name in _initials([*free, (last, touched)]) if name in frame.pending]
        if initials and not any(name in frame.backtrack for name in initials):
            frame.backtrack[initials[0]] = None


def _initials(steps: Sequence[tuple[Event, frozenset[str]]]) -> list[EventId]:
    """Return the events of a sequence that none before it in the sequence has to precede."""
    found = []
    seen: set[EventId] = set()
    reached: frozenset[str] = frozenset()
    for event, own in steps:
        if not own & reached and not any(cause in seen for cause in event.causes):
            found.append(event.id)
        seen.add(event.id)
        reached |= own
    return found


@dataclass(frozen=True, slots=True)
class States:
    """All states of a world."""

    states: int
    orders: int
    """Orders of the events, from the begin to an end."""
    ends: int
    complete: bool


def every_state(world: World, *, most: int = 100_000) -> States:
    """Find every state, and count the orders that lead to an end. Equal states are looked at once."""
    children: dict[Hashable, list[Hashable]] = {}
    world.begin()
    first = world.state()
    open_paths: list[tuple[Hashable, tuple[Event, ...]]] = [(first, ())]
    complete = True
    while open_paths:
        state, path = open_paths.pop()
        if state in children:
            continue
        if len(children) >= most:
            complete = False
            break
        _go_to(world, path)
        children[state] = []
        for event in world.pending():
            _go_to(world, path)
            world.take(event)
            child = world.state()
            children[state].append(child)
            if child not in children:
                open_paths.append((child, (*path, event)))
    orders = _paths(children, first) if complete else 0
    return States(len(children), orders, sum(not after for after in children.values()), complete)


def _go_to(world: World, path: Sequence[Event]) -> None:
    world.begin()
    for event in path:
        world.take(event)


def _paths(children: Mapping[Hashable, Sequence[Hashable]], first: Hashable) -> int:
    """Count the ways from the first state to states without a child. Events are finite, so there is no circle."""
    known: dict[Hashable, int] = {}
    stack = [first]
    while stack:
        state = stack[-1]
        left = [child for child in children[state] if child not in known]
        if left:
            stack += left
        else:
            known[state] = sum(known[child] for child in children[state]) or 1
            stack.pop()
    return known[first]
