"""Client: one session with one simulated coordinator, in events of virtual time.

The errors of simulated servers have the classes and words of real ones, and what they prove is read from the same tables
of outcomes (`schemaquake.clusters.cql.outcomes`): a model never says whether something happened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from schemaquake.clusters.cql.completions import completion_of
from schemaquake.clusters.cql.last_look import LastLook
from schemaquake.clusters.cql.outcomes import is_already_there
from schemaquake.clusters.simulated.accounts import Account, Shown
from schemaquake.clusters.simulated.faces import CatchingUp
from schemaquake.clusters.simulated.node import SimulatedNode
from schemaquake.clusters.simulated.said import ServerSaid, as_exception
from schemaquake.clusters.simulated.server import Server
from schemaquake.clusters.systems.dialect import Barrier
from schemaquake.clusters.systems.error_words import error_words
from schemaquake.harness.ddl.schema_changes import SCHEMA_CHANGES
from schemaquake.harness.errors import NodeUnreachable
from schemaquake.harness.model.observation import Observation
from schemaquake.harness.model.operation import Completion
from schemaquake.harness.model.steps import Invoke
from schemaquake.harness.run.event_heap import Event
from schemaquake.harness.units import US, S
from schemaquake.harness.wait import until

__all__ = ["SimulatedClient", "SimulatedConnector"]

_SECONDS_TO_CONNECT: Final = 20.0
_RECONNECTS_NS: Final = 1_500_000_000
_LOOKS_AGAIN_NS: Final = 100_000_000
_BARRIER_NS: Final = 15 * S
_FASTEST_NS: Final = 50 * US
_SLOWEST_NS: Final = 200 * US


class SimulatedConnector:
    """The way to the nodes of one simulated cluster."""

    def __init__(self, nodes: Mapping[str, SimulatedNode], account: Account) -> None:
        self._nodes = nodes
        self._account = account

    def connect(self, node: str, *, request_timeout_s: float) -> SimulatedClient:
        """Open a session pinned to that node. Raises NodeUnreachable after 20 s."""
        coordinator = self._nodes[node]
        try:
            until(lambda: coordinator.serving, deadline_s=_SECONDS_TO_CONNECT, what="a session", every_s=0.3)
        except TimeoutError as error:
            raise NodeUnreachable(
                f"node {node} did not accept a session at {coordinator.address}:9042 within {_SECONDS_TO_CONNECT:g} s"
            ) from error
        return SimulatedClient(coordinator, self._account, request_timeout_s)


class SimulatedClient:
    """A session with one coordinator (an `EventClient`)."""

    def __init__(self, node: SimulatedNode, account: Account, request_timeout_s: float) -> None:
        self._node = node
        self._account = account
        self._timeout_ns = round(request_timeout_s * S)
        self._way = node.kernel.draws.stream("client", node.name)
        self._last_look = LastLook()

    # ── operations ───────────────────────────────────────────────────────────────────────────────────────────────────

    def submit(self, operation: Invoke, answer: Callable[[Completion], None]) -> None:
        """Send an operation to the coordinator; `answer` receives its completion in a later event."""
        self._send(operation, answer, self._node.kernel.heap.now_ns + _RECONNECTS_NS)

    def _send(self, operation: Invoke, answer: Callable[[Completion], None], gives_up_ns: int) -> None:
        """Wait a moment for a lost connection, then send."""
        heap = self._node.kernel.heap
        if self._is_connected():
            _Request(self._node, operation, partial(self._complete, operation, answer), self._way, self._timeout_ns)
        elif heap.now_ns < gives_up_ns:
            heap.post(heap.now_ns + _LOOKS_AGAIN_NS, partial(self._send, operation, answer, gives_up_ns))
        else:
            self._complete(operation, answer, None, ServerSaid("NoHostAvailable", "Unable to complete the operation"))

    def _is_connected(self) -> bool:
        """Return True if a connection stands: a frozen server keeps those it has."""
        server = self._node.server
        return server is not None and server.phase == "serving"

    def _complete(
        self, operation: Invoke, answer: Callable[[Completion], None], result: Any, said: ServerSaid | None
    ) -> None:
        if said is None:
            answer(_completion(operation, result))
            return
        outcome, error = self._account.outcome_of(said, operation)
        text = error_words(error)
        answer(Completion(type=outcome.means, error=text, already_there=is_already_there(text)))

    # ── observations ─────────────────────────────────────────────────────────────────────────────────────────────────

    def look(self, *, phase: str, sample: int, complete: bool, answer: Callable[[Sequence[Observation]], None]) -> None:
        """Read the node's account of its schema; `answer` receives it in a later event."""
        heap = self._node.kernel.heap

        def read(barrier: Barrier | None) -> None:
            heap.post(
                heap.now_ns + self._way.between(200 * US, 600 * US),
                lambda: answer(self._observe(phase, sample, complete=complete, barrier=barrier)),
            )

        model = self._node.model
        if complete and isinstance(model, CatchingUp) and self._node.serving is not None:
            _Wait(self._node, model, read)
        else:
            read(None)

    def _observe(self, phase: str, sample: int, *, complete: bool, barrier: Barrier | None) -> Sequence[Observation]:
        server = self._node.serving
        if server is None:
            refusal = ServerSaid("OperationTimedOut" if self._node.is_paused else "NoHostAvailable", "no answer")
            unread = Shown("version", None, None, None, None)
            return [self._observation(phase, sample, unread, error=error_words(as_exception(refusal)))]
        version = self._account.read_version(self._node)
        waited = {} if barrier is None else {"barrier": barrier.to_json()}
        assert isinstance(version.definition, dict)
        version = version._replace(definition={**version.definition, **waited})
        seen = [self._observation(phase, sample, version)]
        if not complete and version.id == self._last_look.version:
            return seen
        shown = self._account.read_schema(self._node, complete=complete)
        seen += [self._observation(phase, sample, row) for row in shown]
        return seen if complete else self._last_look.changes(seen)

    def _observation(self, phase: str, sample: int, shown: Shown, *, error: str | None = None) -> Observation:
        return Observation(
            time=self._node.kernel.heap.stamp_ns(),
            phase=phase,
            node=self._node.name,
            sample=sample,
            kind=shown.kind,
            keyspace=shown.keyspace,
            name=shown.name,
            id=shown.id,
            definition=shown.definition,
            error=error,
        )

    # ── waiting for an answer ────────────────────────────────────────────────────────────────────────────────────────

    def invoke(self, operation: Invoke) -> Completion:
        """Send an operation and run the events until it is answered."""
        answers: list[Completion] = []
        self.submit(operation, answers.append)
        self._node.kernel.heap.run(lambda: bool(answers))
        return answers[0]

    def observe(self, *, phase: str, sample: int, complete: bool) -> Sequence[Observation]:
        """Read the node's account of its schema, and run the events until it is there."""
        answers: list[Sequence[Observation]] = []
        self.look(phase=phase, sample=sample, complete=complete, answer=answers.append)
        self._node.kernel.heap.run(lambda: bool(answers))
        return answers[0]

    def close(self) -> None:
        """End the session; operations under way are answered all the same."""


class _Wait:
    """The wait for a read barrier, which ends with the server at the latest."""

    def __init__(self, node: SimulatedNode, model: CatchingUp, done: Callable[[Barrier], None]) -> None:
        assert node.server is not None
        self._heap = node.kernel.heap
        self._server: Server = node.server
        self._done: Callable[[Barrier], None] | None = done
        self._began_ns = self._heap.now_ns
        self._server.requests[self._end] = None
        self._limit: Event = node.kernel.limit(_BARRIER_NS, partial(self._end, False, None))
        self._server.begin("read-barrier", model.catch_up(node), self._end)

    def _end(self, passed: bool | None, _said: ServerSaid | None) -> None:
        done, self._done = self._done, None
        if done is not None:
            self._server.requests.pop(self._end, None)
            self._limit.cancel()
            seconds = (self._heap.now_ns - self._began_ns) / S
            why = None if passed else "raft operation [read_barrier] timed out"
            done(Barrier(passed=bool(passed), seconds=seconds, why=why))


class _Request:
    """One operation on its way: answered once, by the server, by the end of its connection, or by the client's patience."""

    __slots__ = ("_done", "_limit", "_node", "_server", "_way")

    def __init__(
        self,
        node: SimulatedNode,
        operation: Invoke,
        done: Callable[[Any, ServerSaid | None], None],
        way: Any,
        timeout_ns: int,
    ) -> None:
        heap = node.kernel.heap
        assert node.server is not None
        self._node = node
        self._server: Server = node.server
        self._done: Callable[[Any, ServerSaid | None], None] | None = done
        self._way = way
        self._server.requests[self] = None
        self._limit: Event = node.kernel.limit(timeout_ns, self._time_out)
        heap.post(heap.now_ns + way.between(_FASTEST_NS, _SLOWEST_NS), partial(self._arrive, operation))

    def _arrive(self, operation: Invoke) -> None:
        node = self._node
        if node.server is not self._server:
            return
        if node.is_paused:
            node.postpone(partial(self._arrive, operation))
            return
        try:
            steps = node.model.serve(node, operation)
        except ServerSaid as said:
            self._answered(None, said)
        else:
            self._server.begin(operation.f, steps, self._answered)

    def _answered(self, result: Any, said: ServerSaid | None) -> None:
        """Send the server's answer back."""
        heap = self._node.kernel.heap
        heap.post(heap.now_ns + self._way.between(_FASTEST_NS, _SLOWEST_NS), partial(self, result, said))

    def __call__(self, result: Any, said: ServerSaid | None) -> None:
        """Hand the answer over, if there was none before."""
        done, self._done = self._done, None
        if done is not None:
            self._server.requests.pop(self, None)
            self._limit.cancel()
            done(result, said)

    def _time_out(self) -> None:
        self(None, ServerSaid("OperationTimedOut", "errors={}, last_host=" + self._node.address + ":9042"))


def _completion(operation: Invoke, result: Any) -> Completion:
    value = operation.value
    if operation.query is not None:
        return completion_of(operation, result or ())
    if operation.f == "read-rows":
        return Completion(type="ok", value={**value, "rows": result})
    if operation.f in SCHEMA_CHANGES and (value.get("if_exists") or value.get("if_not_exists")):
        return Completion(type="ok", value={**value, "applied": bool(result)})
    return Completion(type="ok", value=value)
