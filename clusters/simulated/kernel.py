"""Kernel: the heap, the draws and the books of one run.

Every step of a protocol is counted with what was happening: the message handled, and the faults then in place (`Passage`).
A fault can be aimed at a passage.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from schemaquake.clusters.simulated.draws import Draws
from schemaquake.harness.run.event_heap import Event, EventHeap

__all__ = ["Costs", "Kernel", "Passage", "Patience", "rendered"]


class Passage(NamedTuple):
    """A step, and what was happening when a process came to it."""

    step: str
    handling: str
    """The kind of the message or request that is handled."""
    faults: str
    """Faults in place on the node, joined by `+`; empty: none."""


class Patience:
    """Limits of one length, of which nearly all are cancelled: only the oldest is in the heap, and few of the cancelled are kept."""

    __slots__ = ("_armed", "_heap", "_length_ns", "_waiting")

    def __init__(self, heap: EventHeap, length_ns: int) -> None:
        self._heap = heap
        self._length_ns = length_ns
        self._waiting: deque[tuple[int, Event]] = deque()
        self._armed = False

    def __len__(self) -> int:
        """Return how many limits are kept, cancelled ones among them."""
        return len(self._waiting)

    def begin(self, act: Callable[[], None]) -> Event:
        """Have `act` happen after that time, unless the event is cancelled."""
        event = Event(act)
        ends_ns = self._heap.now_ns + self._length_ns
        waiting = self._waiting
        while waiting and waiting[0][1].act is None:
            waiting.popleft()
        waiting.append((ends_ns, event))
        if not self._armed:
            self._armed = True
            self._heap.post(ends_ns, self._end)
        return event

    def _end(self) -> None:
        """Carry out what is due, and wait for the next that was not cancelled."""
        self._armed = False
        waiting, now_ns = self._waiting, self._heap.now_ns
        while waiting:
            ends_ns, event = waiting[0]
            if event.act is not None and ends_ns > now_ns:
                self._armed = True
                self._heap.post(ends_ns, self._end)
                return
            waiting.popleft()
            act, event.act = event.act, None
            if act is not None:
                act()


class Costs(Protocol):
    """A source of durations."""

    def between(self, least: int, most: int) -> int:
        """Return a duration of these bounds, ns."""
        ...


class Kernel:
    """The heap, the draws and the books of one run."""

    __slots__ = ("_aims", "_patience", "costs", "crashes", "draws", "dropped", "heap", "passages")

    def __init__(self, heap: EventHeap, draws: Draws) -> None:
        self.heap = heap
        self.draws = draws
        self.costs: Costs = draws.stream("costs")
        """Durations of work."""
        self.passages: Counter[Passage] = Counter()
        self.crashes: Counter[tuple[str, str]] = Counter()
        """How often a server was (killed, paused, …) while a process stood at a step."""
        self.dropped: dict[str, None] = {}
        """Ids of tables that a node has dropped, for designs in which no other takes rows of them any more."""
        self._patience: dict[int, Patience] = {}
        self._aims: dict[str, list[tuple[int, Callable[[str], None]]]] = {}

    def after(self, delay_ns: int, act: Callable[[], None]) -> None:
        """Have `act` happen that much later."""
        heap = self.heap
        heap.post(heap.now_ns + delay_ns, act)

    def limit(self, length_ns: int, act: Callable[[], None]) -> Event:
        """Have `act` happen after that time, unless the event is cancelled, which it nearly always is."""
        patience = self._patience.get(length_ns)
        if patience is None:
            patience = self._patience[length_ns] = Patience(self.heap, length_ns)
        return patience.begin(act)

    def aim(self, step: str, passage: int, act: Callable[[str], None]) -> None:
        """Have `act` happen to the node (by name) that comes to `step` as the n-th of all, from 1, before the step's action."""
        self._aims.setdefault(step, []).append((passage, act))

    def pass_step(self, step: str, handling: str, node: str, faults: str) -> None:
        """Count a passage, and carry out what is aimed at it."""
        self.passages[Passage(step, handling, faults)] += 1
        aims = self._aims.get(step)
        if aims:
            self._aims[step] = [(passage - 1, act) for passage, act in aims if passage > 1]
            for passage, act in aims:
                if passage == 1:
                    act(node)

    def cost_ns(self, least: int, most: int) -> int:
        """Draw the duration of some work."""
        return self.costs.between(least, most)


def rendered(passages: Mapping[Passage, int]) -> list[list[Any]]:
    """Return a count of passages as rows for JSON, in order."""
    return [[*passage, count] for passage, count in sorted(passages.items())]
