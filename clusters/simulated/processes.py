"""Processes: protocols on nodes, with a place to fail between any two of their steps.

A protocol is a generator of effects. Nothing is atomic across a `yield`: there the server may be killed or paused, a
message may arrive, and another process may run. An effect is resumed with its answer:

| effect | lets pass | answer |
|---|---|---|
| `Step(name)` | 10–50 µs of work in memory, before the action that the step is named for | None |
| `Sync()` | 0.1–2 ms, after which what is written next survives a kill | None |
| `Sleep(ns)` | that time of the node's monotonic clock | None |
| `Lock(stage)` | the time until the stage is free; first come, first served | None |
| `Answers` of `Server.ask` | the time until enough of those asked have answered, or a limit | themselves |
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from schemaquake.clusters.simulated import faces
from schemaquake.clusters.simulated.faces import Node, Server, Steps
from schemaquake.clusters.simulated.said import ServerSaid
from schemaquake.harness.units import US

__all__ = ["Died", "Lock", "Process", "Sleep", "Step", "Sync"]


class Died(Exception):
    """The end of a server by its own error; the text is the first line of its stack trace."""


class Process:
    """One protocol under way on one server; it ends with the server."""

    __slots__ = ("_send", "done", "handling", "node", "server", "step")

    def __init__(
        self,
        node: Node,
        server: Server,
        handling: str,
        steps: Steps,
        done: Callable[[Any, ServerSaid | None], None] | None,
    ) -> None:
        """`done` receives what the steps return, or the refusal that they raise."""
        self.server = server
        self.node = node
        self.handling = handling
        self.step = ""
        """The step that it stands at."""
        self._send = steps.send
        self.done = done

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
                answer = effect  # answers that are there already are the answer; no other effect has one
        except StopIteration as end:
            server.end(self, end.value, None)
        except ServerSaid as said:
            server.end(self, None, said)
        except Died as death:
            self.node.die(str(death))


class Step:
    """A place of a protocol where a crash can fall, before the action it is named for."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def begin(self, process: faces.Process) -> bool:
        """Let the work of the step before take its time."""
        process.step = self.name
        node = process.node
        kernel = node.kernel
        kernel.pass_step(self.name, process.handling, node.name, node.weather)
        kernel.after(kernel.cost_ns(10 * US, 50 * US), process.resume)
        return False


class Sync:
    """A wait for the disk."""

    __slots__ = ()

    def begin(self, process: faces.Process) -> bool:
        """Let the disk take its time."""
        kernel = process.node.kernel
        kernel.after(kernel.cost_ns(100 * US, 2_000 * US), process.resume)
        return False


class Sleep:
    """A pause."""

    __slots__ = ("_ns",)

    def __init__(self, ns: int) -> None:
        self._ns = ns

    def begin(self, process: faces.Process) -> bool:
        """Let the time pass."""
        process.node.kernel.after(self._ns, process.resume)
        return False


class Lock:
    """A stage of a server, which one process has at a time; released by `Server.staged`."""

    __slots__ = ("_stage",)

    def __init__(self, stage: str) -> None:
        self._stage = stage

    def begin(self, process: faces.Process) -> bool:
        """Take the stage, or wait for it."""
        return process.server.enter(self._stage, process)
