"""Kernel: processes on nodes, in virtual time, with a place to fail between any two of their steps.

A protocol is a generator of effects. Nothing is atomic across a `yield`: there the server may be killed or paused, a
message may arrive, and another process may run. An effect is resumed with its answer:

| effect | lets pass | answer |
|---|---|---|
| `Step(name)` | 10–50 µs of work in memory, before the action that the step is named for | None |
| `Sync()` | 0.1–2 ms, after which what is written next survives a kill | None |
| `Sleep(ns)` | that time of the node's monotonic clock | None |
| `Lock(stage)` | the time until the stage is free; first come, first served | None |
| `Gather` | the time until enough of those asked have answered, or its limit | itself |

Every step is counted with what was happening: the message handled, and the faults then in place (`Coverage`).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Generator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias

from schemaquake.clusters.simulated.draws import Draws
from schemaquake.clusters.simulated.said import ServerSaid
from schemaquake.harness.run.event_heap import EventHeap

if TYPE_CHECKING:
    from schemaquake.clusters.simulated.node import SimulatedNode
    from schemaquake.clusters.simulated.server import Server

__all__ = ["Died", "Effect", "Kernel", "Lock", "Passage", "Process", "Sleep", "Step", "Steps", "Sync"]

_US: Final = 1_000


class Died(Exception):
    """The end of a server by its own error; the text is the first line of its stack trace."""


class Effect(Protocol):
    """One thing that a protocol yields."""

    def begin(self, process: Process) -> bool:
        """Begin; return True if the process can go on at once."""
        ...


Steps: TypeAlias = Generator[Effect, Any, Any]


class Passage(NamedTuple):
    """A step, and what was happening when a process came to it."""

    step: str
    handling: str
    """The kind of the message or request that is handled."""
    faults: str
    """Faults in place on the node, joined by `+`; empty: none."""


class Kernel:
    """The heap, the draws and the books of one run."""

    __slots__ = ("_aims", "_costs", "crashes", "draws", "heap", "passages")

    def __init__(self, heap: EventHeap, draws: Draws) -> None:
        self.heap = heap
        self.draws = draws
        self._costs = draws.stream("costs")
        self.passages: Counter[Passage] = Counter()
        self.crashes: Counter[tuple[str, str]] = Counter()
        """How often a server was (killed, paused, …) while a process stood at a step."""
        self._aims: dict[str, list[tuple[int, Callable[[SimulatedNode], None]]]] = {}

    def after(self, delay_ns: int, act: Callable[[], None]) -> None:
        """Have `act` happen that much later."""
        self.heap.at(self.heap.now_ns + delay_ns, act)

    def aim(self, step: str, passage: int, act: Callable[[SimulatedNode], None]) -> None:
        """Have `act` happen to the node that comes to `step` as the n-th of all nodes (from 1), before the step's action."""
        self._aims.setdefault(step, []).append((passage, act))

    def pass_step(self, step: str, process: Process) -> None:
        """Count a passage, and carry out what is aimed at it."""
        node = process.node
        self.passages[Passage(step, process.handling, node.weather)] += 1
        aims = self._aims.get(step)
        if aims:
            self._aims[step] = [(passage - 1, act) for passage, act in aims if passage > 1]
            for passage, act in aims:
                if passage == 1:
                    act(node)

    def cost_ns(self, least: int, most: int) -> int:
        """Draw the duration of some work."""
        return self._costs.between(least, most)


class Process:
    """One protocol under way on one server; it ends with the server."""

    __slots__ = ("_done", "_send", "handling", "node", "server", "step")

    def __init__(
        self,
        server: Server,
        handling: str,
        steps: Steps,
        done: Callable[[Any, ServerSaid | None], None] | None = None,
    ) -> None:
        """`done` receives what the steps return, or the refusal that they raise."""
        self.server = server
        self.node = server.node
        self.handling = handling
        self.step = ""
        """The step that it stands at."""
        self._send = steps.send
        self._done = done
        server.processes[self] = None

    def resume(self, answer: Any = None) -> None:
        """Go on until the next effect that takes time."""
        server = self.server
        if self.node.server is not server:
            return  # the server was killed meanwhile, and its processes with it
        if self.node.is_paused:
            self.node.postpone(partial(self.resume, answer))
            return
        try:
            while True:
                effect = self._send(answer)
                if not effect.begin(self):
                    return
                answer = None
        except StopIteration as end:
            del server.processes[self]
            if self._done is not None:
                self._done(end.value, None)
        except ServerSaid as said:
            del server.processes[self]
            if self._done is None:
                raise
            self._done(None, said)
        except Died as death:
            self.node.die(str(death))


class Step:
    """A place of a protocol where a crash can fall, before the action it is named for."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def begin(self, process: Process) -> bool:
        """Let the work of the step before take its time."""
        process.step = self.name
        kernel = process.node.kernel
        kernel.pass_step(self.name, process)
        kernel.after(kernel.cost_ns(10 * _US, 50 * _US), process.resume)
        return False


class Sync:
    """A wait for the disk."""

    __slots__ = ()

    def begin(self, process: Process) -> bool:
        """Let the disk take its time."""
        kernel = process.node.kernel
        kernel.after(kernel.cost_ns(100 * _US, 2_000 * _US), process.resume)
        return False


class Sleep:
    """A pause."""

    __slots__ = ("_ns",)

    def __init__(self, ns: int) -> None:
        self._ns = ns

    def begin(self, process: Process) -> bool:
        """Let the time pass."""
        process.node.kernel.after(self._ns, process.resume)
        return False


class Lock:
    """A stage of a server, which one process has at a time; released by `Server.release`."""

    __slots__ = ("_stage",)

    def __init__(self, stage: str) -> None:
        self._stage = stage

    def begin(self, process: Process) -> bool:
        """Take the stage, or wait for it."""
        waiting = process.server.stages.get(self._stage)
        if waiting is None:
            process.server.stages[self._stage] = deque()
            return True
        waiting.append(process)
        return False


def rendered(passages: Mapping[Passage, int]) -> list[list[Any]]:
    """Return a count of passages as rows for JSON, in order."""
    return [[*passage, count] for passage, count in sorted(passages.items())]
