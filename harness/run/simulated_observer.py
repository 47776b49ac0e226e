"""Simulated observer: looks at every node of a simulated cluster, on its event heap."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeGuard

from schemaquake.harness.errors import ClusterError
from schemaquake.harness.history.journal import ObservationJournal
from schemaquake.harness.model.observation import Observation
from schemaquake.harness.model.protocols import Client, Connector, EventClient
from schemaquake.harness.model.runtime import Settled, Sleep
from schemaquake.harness.run.event_heap import EventHeap
from schemaquake.harness.run.observing import SAMPLE_EVERY_S, Look, settle
from schemaquake.harness.units import S

__all__ = ["SimulatedObserver"]


class SimulatedObserver:
    """One client a node. Looks follow one another: one that is asked for while another goes on waits for it."""

    def __init__(
        self, heap: EventHeap, connector: Connector, *, journal: Path, started_ns: int, request_timeout_s: float
    ) -> None:
        self._heap = heap
        self._connector = connector
        self._journal = ObservationJournal(journal, started_ns, durable=False)
        self._timeout_s = request_timeout_s
        self._clients: dict[str, Client] = {}
        self._answer_in_events: dict[type, bool] = {}
        """By a client's class whether it is an `EventClient`: a protocol takes long to ask."""
        self._phase: str | None = None
        self._sampling = False
        self._samples = 0
        self._looking = False
        self._wanted: deque[tuple[Look, Callable[[Any], None]]] = deque()

    def connect(self, nodes: Iterable[str]) -> None:
        """Open (or open anew) a session to each of these nodes, when a look that goes on has ended."""
        self._await(lambda: not self._looking)
        for client in self._clients.values():
            client.close()
        self._clients = {}
        for node in nodes:
            self._clients[node] = self._connector.connect(node, request_timeout_s=self._timeout_s)

    def follow(self, nodes: Iterable[str]) -> None:
        """Observe these nodes from now on, with the sessions that there are. Raises NodeUnreachable."""
        self._await(lambda: not self._looking)
        wanted = tuple(nodes)
        for node in [node for node in self._clients if node not in wanted]:
            self._clients.pop(node).close()
        for node in wanted:
            if node not in self._clients:
                self._clients[node] = self._connector.connect(node, request_timeout_s=self._timeout_s)

    def sample(self, phase: str | None) -> None:
        """Begin to sample under that phase's name, or stop (None)."""
        self._phase = phase
        if phase is not None and not self._sampling:
            self._sampling = True
            self._go_on(self._sample(), None)

    def _sample(self) -> Generator[Look | Sleep, Any, None]:
        while self._phase is not None:
            yield Look(self._phase, complete=False)
            yield Sleep(self._heap.now_ns + int(SAMPLE_EVERY_S * S))
        self._sampling = False

    def settle(self, *, limit_s: float, quiet_s: float = 0) -> Settled:
        """Run the heap until the nodes agree, or the limit passes, or all is quiet."""
        found: list[Settled] = []

        def steps() -> Generator[Look | Sleep, Any, None]:
            found.append((yield from settle(now_ns=lambda: self._heap.now_ns, limit_s=limit_s, quiet_s=quiet_s)))

        self._go_on(steps(), None)
        self._await(lambda: bool(found))
        return found[0]

    def read(self, phase: str) -> None:
        """Read every node completely."""
        read: list[Sequence[Observation]] = []
        self._ask(Look(phase, complete=True), read.append)
        self._await(lambda: bool(read))

    def record(self, observations: Sequence[Observation]) -> None:
        """Record one reading of one node that was taken elsewhere."""
        self._journal.append(observations)

    def stop(self) -> None:
        """Close sessions and journal; idempotent."""
        self._phase = None
        for client in self._clients.values():
            client.close()
        self._clients = {}
        self._journal.close()

    def _await(self, is_done: Callable[[], bool]) -> None:
        if not self._heap.run(is_done):
            raise ClusterError("the observer waits, and nothing is left to happen: a client does not answer")

    def _go_on(self, steps: Generator[Look | Sleep, Any, None], answer: Any) -> None:
        try:
            match steps.send(answer):
                case Look() as look:
                    self._ask(look, partial(self._go_on, steps))
                case Sleep(until_ns):
                    self._heap.at(until_ns, partial(self._go_on, steps, None))
        except StopIteration:
            return

    # ── looks ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _ask(self, look: Look, answer: Callable[[Any], None]) -> None:
        self._wanted.append((look, answer))
        if not self._looking:
            self._begin()

    def _begin(self) -> None:
        look, answer = self._wanted.popleft()
        self._looking = True
        self._samples += 1
        readings: dict[str, Sequence[Observation]] = {}
        nodes = list(self._clients)

        def receive(node: str, reading: Sequence[Observation]) -> None:
            readings[node] = reading
            if len(readings) == len(nodes):
                self._end([readings[name] for name in nodes], answer)

        for node in nodes:
            client = self._clients[node]
            if self._is_of_events(client):
                client.look(
                    phase=look.phase, sample=self._samples, complete=look.complete, answer=partial(receive, node)
                )
            else:
                reading = client.observe(phase=look.phase, sample=self._samples, complete=look.complete)
                self._heap.at(self._heap.now_ns, partial(receive, node, reading))
        if not nodes:
            self._heap.at(self._heap.now_ns, partial(self._end, [], answer))

    def _is_of_events(self, client: Client) -> TypeGuard[EventClient]:
        known = self._answer_in_events.get(type(client))
        if known is None:
            known = self._answer_in_events[type(client)] = isinstance(client, EventClient)
        return known

    def _end(self, readings: Sequence[Sequence[Observation]], answer: Callable[[Any], None]) -> None:
        for reading in readings:
            self._journal.append(reading)
        self._looking = False
        answer([observation for reading in readings for observation in reading])
        if self._wanted and not self._looking:
            self._begin()
