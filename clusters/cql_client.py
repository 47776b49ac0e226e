"""CQL client: one session with one coordinator over the native protocol.

A driver that helps would destroy the experiment, so every kindness is off: one contact point that is also the only
allowed host, no retries, no speculative execution, no metadata refresh, no wait for schema agreement, a fixed protocol
version. What remains tells exactly what one coordinator answered to one statement.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal
from uuid import UUID

from cassandra import ConsistencyLevel, OperationTimedOut
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, NoHostAvailable, Session
from cassandra.policies import ConstantReconnectionPolicy, FallthroughRetryPolicy, WhiteListRoundRobinPolicy
from cassandra.protocol import RESULT_KIND_SCHEMA_CHANGE, ProtocolHandler
from cassandra.query import SimpleStatement, dict_factory

from clusters.outcomes import classify
from clusters.schema_reading import digest, read_schema, read_version
from harness.cql import statement
from harness.errors import NodeUnreachable
from harness.operations import JSON, Completion
from harness.schema_changes import SCHEMA_CHANGES
from harness.schema_observation import Observation
from harness.steps import Invoke
from harness.wait import until

__all__ = ["CqlClient", "CqlConnector"]

_READS: Final = frozenset({"read-rows", "read-schema"})
_SECONDS_TO_CONNECT: Final = 20.0
_SECONDS_TO_RECONNECT: Final = 1.5
_READINGS_MAX: Final = 4
_SECONDS_TO_READ: Final = 8.0


class _SchemaChangeSeen(ProtocolHandler):  # type: ignore[misc]  # the driver is untyped
    """Tells a schema change from a no-op: IF NOT EXISTS on what exists comes back without a schema_change result.

    The driver forgets the kind of a result; the payload of a response is the one thing it hands through.
    """

    @classmethod
    def decode_message(cls, *arguments: Any, **named: Any) -> Any:
        message = super().decode_message(*arguments, **named)
        if getattr(message, "kind", None) == RESULT_KIND_SCHEMA_CHANGE:
            message.custom_payload = {"schema_change": b"1"}
        return message


@dataclass(frozen=True, slots=True)
class CqlConnector:
    """Where the nodes are, and which dialect they speak; picklable."""

    addresses: Mapping[str, str]
    port: int
    protocol_version: int
    era: str

    def connect(self, node: str, *, request_timeout_s: float) -> CqlClient:
        """A session pinned to that node; raises NodeUnreachable after 20 s."""
        return CqlClient(
            node,
            self.addresses[node],
            port=self.port,
            protocol_version=self.protocol_version,
            era=self.era,
            request_timeout_s=request_timeout_s,
        )


class CqlClient:
    """The session. Not thread-safe: a worker's own."""

    def __init__(
        self, node: str, address: str, *, port: int, protocol_version: int, era: str, request_timeout_s: float
    ) -> None:
        self._node = node
        self._era = era
        self._timeout_s = request_timeout_s
        logging.getLogger("cassandra").setLevel(logging.CRITICAL)  # a dying node is our subject, not the driver's news
        profile = ExecutionProfile(
            load_balancing_policy=WhiteListRoundRobinPolicy([address]),
            retry_policy=FallthroughRetryPolicy(),
            request_timeout=request_timeout_s,
            row_factory=dict_factory,
            consistency_level=ConsistencyLevel.ONE,
        )
        driver = partial(
            Cluster,
            [address],
            port=port,
            protocol_version=protocol_version,
            execution_profiles={EXEC_PROFILE_DEFAULT: profile},
            reconnection_policy=ConstantReconnectionPolicy(0.5, max_attempts=None),
            schema_metadata_enabled=False,
            token_metadata_enabled=False,
            max_schema_agreement_wait=0,
            schema_event_refresh_window=-1,
            topology_event_refresh_window=-1,
            status_event_refresh_window=-1,
            idle_heartbeat_interval=0,  # a paused node is not a dead one
            monitor_reporting_enabled=False,
            connect_timeout=5,
            control_connection_timeout=5,
        )
        self._cluster, self._session = self._connect(driver, address, port)
        self._known: dict[tuple[str, str | None, str | None], bytes] = {}
        self._known_version: str | None = None

    def _connect(self, driver: Callable[[], Cluster], address: str, port: int) -> tuple[Cluster, Session]:
        refusal: BaseException | None = None

        def attempt() -> tuple[Cluster, Session] | None:
            nonlocal refusal
            cluster = driver()  # anew every time: one whose first connection fails has shut itself down
            try:
                return cluster, cluster.connect()
            except (NoHostAvailable, OperationTimedOut) as error:
                cluster.shutdown()
                refusal = error
                return None

        try:
            cluster, session = until(attempt, deadline_s=_SECONDS_TO_CONNECT, what="a session", every_s=0.3)
        except TimeoutError as error:
            raise NodeUnreachable(
                f"node {self._node} did not accept a session at {address}:{port} within {_SECONDS_TO_CONNECT:g} s: {refusal}"
            ) from error
        session.client_protocol_handler = _SchemaChangeSeen
        return cluster, session

    def invoke(self, operation: Invoke) -> Completion:
        """Send it, and class what comes back; an error of any kind becomes a completion."""
        try:
            return self._invoke(operation)
        except Exception as error:  # noqa: BLE001 - the table decides, and what it does not list is info
            outcome = classify(error, on=_kind(operation.f))
            return Completion(type=outcome.means, error=_say(error))

    def _invoke(self, operation: Invoke) -> Completion:
        self._await_connection()
        value = operation.value
        text = statement(operation.f, value)
        consistency = ConsistencyLevel.name_to_value[value.get("consistency", "ONE")]
        future = self._session.execute_async(
            SimpleStatement(text, consistency_level=consistency, fetch_size=None), timeout=self._timeout_s
        )
        rows = future.result()
        if operation.f == "read-rows":
            return Completion(type="ok", value={**value, "rows": [_row(row) for row in rows]})
        if operation.f in SCHEMA_CHANGES and (value.get("if_exists") or value.get("if_not_exists")):
            return Completion(type="ok", value={**value, "applied": bool(future.custom_payload)})
        return Completion(type="ok", value=value)

    def _await_connection(self) -> None:
        """Give a broken connection a moment to come back before sending; nothing was sent yet, so this is no retry.

        It also keeps a worker whose node is down from failing thousands of operations a second.
        """

        def connected() -> bool:
            return any(state["open_count"] for state in self._session.get_pool_state().values())

        with suppress(TimeoutError):
            until(connected, deadline_s=_SECONDS_TO_RECONNECT, what="a connection", every_s=0.1)

    def observe(self, *, phase: str, sample: int, complete: bool) -> Sequence[Observation]:
        """The node's account of its schema; see `clusters.schema_reading`."""
        try:
            self._await_connection()
            if not complete:
                version, epoch = read_version(self._rows, self._era)
                if version == self._known_version:
                    return [self._version(phase, sample, version, epoch)]
            observed = self._read_schema(phase, sample)
        except Exception as error:  # noqa: BLE001 - whatever a broken node answers is what was observed
            return [self._version(phase, sample, None, None, error=_say(error))]
        return observed if complete else self._changes(observed)

    def _read_schema(self, phase: str, sample: int) -> Sequence[Observation]:
        """A reading during which the node's schema stood still, if it does so within a few tries.

        The tables are read one after another; a change in between would look like a table without columns.
        """
        observed: list[Observation] = []
        for _ in range(_READINGS_MAX):
            observed = list(read_schema(self._rows, era=self._era, phase=phase, node=self._node, sample=sample))
            if read_version(self._rows, self._era)[0] == observed[0].id:
                break
        return observed

    def _version(
        self, phase: str, sample: int, version: str | None, epoch: int | None, *, error: str | None = None
    ) -> Observation:
        return Observation(
            time=time.monotonic_ns(),
            phase=phase,
            node=self._node,
            sample=sample,
            kind="version",
            id=version,
            definition=None if version is None else {"epoch": epoch},
            error=error,
        )

    def _changes(self, observed: Sequence[Observation]) -> Sequence[Observation]:
        """What differs from this client's last look; an object that is gone gets one row without a definition."""
        version = observed[0]
        current = {(o.kind, o.keyspace, o.name): o for o in observed if o.kind != "version"}
        changes = [o for key, o in current.items() if self._known.get(key) != digest(o)]
        gone = [
            Observation(
                time=version.time,
                phase=version.phase,
                node=version.node,
                sample=version.sample,
                kind=kind,
                keyspace=keyspace,
                name=name,
            )
            for kind, keyspace, name in self._known.keys() - current.keys()
        ]
        self._known = {key: digest(o) for key, o in current.items()}
        self._known_version = version.id
        return [version, *changes, *gone]

    def _rows(self, text: str) -> Sequence[Mapping[str, Any]]:
        found: Sequence[Mapping[str, Any]] = self._session.execute(
            SimpleStatement(text, fetch_size=None), timeout=min(self._timeout_s, _SECONDS_TO_READ)
        ).all()
        return found

    def close(self) -> None:
        """End the session."""
        self._cluster.shutdown()


def _kind(f: str) -> Literal["read", "write", "schema"]:
    if f in _READS:
        return "read"
    return "schema" if f in SCHEMA_CHANGES or f == "cql" else "write"


def _say(error: BaseException) -> str:
    """The error in the server's words, on one line, class first."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:600]


def _row(row: Mapping[str, Any]) -> dict[str, JSON]:
    return {name: _json(cell) for name, cell in row.items()}


def _json(cell: Any) -> JSON:
    """A cell as JSON: a user-defined type's value as a map, sets sorted, what JSON lacks as text."""
    match cell:
        case None | bool() | int() | float() | str():
            return cell
        case bytes():
            return cell.hex()
        case UUID():
            return str(cell)
        case Mapping():
            return {str(key): _json(entry) for key, entry in cell.items()}
    if hasattr(cell, "_asdict"):
        return {name: _json(entry) for name, entry in cell._asdict().items()}
    if hasattr(cell, "_fields"):
        return {name: _json(getattr(cell, name)) for name in cell._fields}
    if isinstance(cell, (list, tuple)):
        return [_json(entry) for entry in cell]
    try:
        return [_json(entry) for entry in sorted(cell)]
    except TypeError:
        return str(cell)
