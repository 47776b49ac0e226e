"""CQL client: one session with one coordinator over the native protocol.

A helpful driver would destroy the experiment, so every convenience is off: one contact point that is also the only
allowed host, no retries, no speculative execution, no metadata refresh, no wait for schema agreement, a fixed protocol
version. A completion is the answer of one coordinator to one statement.

Version 1 of the protocol is Cassandra 1.2's, 2 is 2.0's, 3 is 2.1's, 4 is 2.2's and later. Values are written into the
statements, because version 1 cannot bind them in a query, and results are not paged, which version 1 does not know.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import UUID

from cassandra import AuthenticationFailed, ConsistencyLevel, OperationTimedOut
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, NoHostAvailable, Session
from cassandra.policies import ConstantReconnectionPolicy, FallthroughRetryPolicy, WhiteListRoundRobinPolicy
from cassandra.protocol import RESULT_KIND_SCHEMA_CHANGE, ProtocolHandler
from cassandra.query import SimpleStatement, dict_factory

from schemaquake.clusters.cql.bulk import BulkSession
from schemaquake.clusters.cql.completions import completion_of, kind_of, of_condition
from schemaquake.clusters.cql.last_look import LastLook
from schemaquake.clusters.cql.outcomes import classify, is_already_there
from schemaquake.clusters.cql.queries import prepared
from schemaquake.clusters.cql.schema import memory_differs, read_schema
from schemaquake.clusters.systems.dialect import CqlDialect
from schemaquake.clusters.systems.error_words import error_words
from schemaquake.harness.ddl.cql import statement
from schemaquake.harness.ddl.schema_changes import SCHEMA_CHANGES
from schemaquake.harness.errors import NodeUnreachable
from schemaquake.harness.model.observation import Observation
from schemaquake.harness.model.operation import JSON, Completion
from schemaquake.harness.model.queries import BulkQuery, Query
from schemaquake.harness.model.steps import Invoke
from schemaquake.harness.wait import until

if TYPE_CHECKING:  # a local cluster has neither, and their checks take long to import in every worker's process
    from schemaquake.clusters.cluster_file.credentials import Credentials
    from schemaquake.clusters.cluster_file.tls import Tls

__all__ = ["CqlClient", "CqlConnector"]

T = TypeVar("T")

_SECONDS_TO_CONNECT: Final = 20.0
"""The time in which a process that has no session with a node yet, or waits for one more, must get one."""
_OPENED_AT_ONCE: Final = 16
"""The sessions that one process opens at the same time: hundreds at once would all be late together, and blame the node."""
_SECONDS_TO_RECONNECT: Final = 1.5
_SECONDS_FOR_A_TURN: Final = 0.3
_READINGS_MAX: Final = 4
_SECONDS_TO_READ: Final = 8.0
_SECONDS_FOR_A_MERGE: Final = 0.5


class _SchemaChangeSeen(ProtocolHandler):  # type: ignore[misc]  # the driver is untyped
    """A protocol handler that tells a schema change from a no-op: IF NOT EXISTS on an existing object returns no schema_change.

    The driver drops the kind of a result. The payload of a response is the one field it passes through. It is filled in
    after decoding, so this also works in protocol versions without payloads.
    """

    @classmethod
    def decode_message(cls, *arguments: Any, **named: Any) -> Any:
        message = super().decode_message(*arguments, **named)
        if getattr(message, "kind", None) == RESULT_KIND_SCHEMA_CHANGE:
            message.custom_payload = {"schema_change": b"1"}
        return message


@dataclass(frozen=True, slots=True)
class CqlConnector:
    """The addresses of the nodes, and their dialect; picklable. It holds the places of secrets, never the secrets."""

    addresses: Mapping[str, str]
    port: int
    dialect: CqlDialect
    credentials: Credentials | None = None
    tls: Tls | None = None
    releases: Mapping[str, CqlDialect] = field(default_factory=dict)
    """Dialects by the release that a server says it is, in runs whose nodes may become another one."""

    def connect(self, node: str, *, request_timeout_s: float) -> CqlClient:
        """Open a session pinned to that node. Raises EnvironmentLacks for a missing secret.

        Raises NodeUnreachable after 20 s in which that node opened no session for this process.
        """
        return CqlClient(
            node,
            self.addresses[node],
            port=self.port,
            dialect=self.dialect,
            request_timeout_s=request_timeout_s,
            credentials=self.credentials,
            tls=self.tls,
            releases=self.releases,
        )


class CqlClient:
    """A session with one coordinator. Not thread-safe: each worker has its own. Error texts never contain the login."""

    def __init__(
        self,
        node: str,
        address: str,
        *,
        port: int,
        dialect: CqlDialect,
        request_timeout_s: float,
        credentials: Credentials | None = None,
        tls: Tls | None = None,
        releases: Mapping[str, CqlDialect] | None = None,
    ) -> None:
        """`dialect` is the first one; where `releases` names others, each reading first asks the server which it is."""
        self._releases = releases or {}
        self._node = node
        self._address = address
        self._dialect = dialect
        self._credentials = credentials
        self._login = None if credentials is None else credentials.resolve()
        self._timeout_s = request_timeout_s
        logging.getLogger("cassandra").setLevel(
            logging.CRITICAL
        )  # nodes die on purpose, so the driver's warnings are noise
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
            protocol_version=dialect.protocol_version,
            execution_profiles={EXEC_PROFILE_DEFAULT: profile},
            reconnection_policy=ConstantReconnectionPolicy(0.5, max_attempts=None),
            schema_metadata_enabled=False,
            token_metadata_enabled=False,
            max_schema_agreement_wait=0,
            schema_event_refresh_window=-1,
            topology_event_refresh_window=-1,
            status_event_refresh_window=-1,
            idle_heartbeat_interval=0,  # the driver must not take a paused node for a dead one
            monitor_reporting_enabled=False,
            connect_timeout=5,
            control_connection_timeout=5,
            auth_provider=None
            if self._login is None
            else PlainTextAuthProvider(self._login.username, self._login.password),
            ssl_context=None if tls is None else tls.context(),
        )
        self._cluster, self._session = self._connect(driver, address, port)
        self._last_look = LastLook()
        self._bulk = BulkSession(self._session, timeout_s=request_timeout_s)

    def _connect(self, driver: Callable[[], Cluster], address: str, port: int) -> tuple[Cluster, Session]:
        refusal: BaseException | None = None
        door = _door_of(address, port)

        def attempt() -> tuple[Cluster, Session] | None:
            nonlocal refusal
            with door.turn() as is_ours:
                if not is_ours:
                    return None
                cluster = driver()  # a new one each time: a driver whose first connection fails has shut itself down
                try:
                    session = cluster.connect()
                except (NoHostAvailable, OperationTimedOut) as error:
                    cluster.shutdown()
                    refusal = error
                    return None
                except BaseException:
                    cluster.shutdown()  # its threads would go on to connect
                    raise
                door.opened()
                return cluster, session

        try:
            cluster, session = door.until_open(attempt)
        except TimeoutError as error:
            if self._credentials is not None and _is_login_refused(refusal):
                raise NodeUnreachable(
                    f"node {self._node} refused the login at {address}:{port} ({self._credentials}): check both"
                ) from error
            raise NodeUnreachable(
                f"node {self._node} did not accept a session at {address}:{port} within {_SECONDS_TO_CONNECT:g} s: "
                f"{self._hide_login(str(refusal or 'every attempt was still waiting for its turn'))}"
            ) from error
        session.client_protocol_handler = _SchemaChangeSeen
        return cluster, session

    def invoke(self, operation: Invoke) -> Completion:
        """Send the operation and classify the result. Every error becomes a completion."""
        try:
            match operation.query:
                case None:
                    return self._invoke(operation)
                case Query() as query:
                    return self._ask(operation, query)
                case BulkQuery() as query:
                    self._await_connection()
                    return self._bulk.carry_out(operation, query)
        except Exception as error:  # noqa: BLE001 - the table classifies every error
            outcome = classify(error, on=kind_of(operation), system_outcomes=self._dialect.outcomes)
            text = self._hide_login(error_words(error))
            return Completion(type=outcome.means, error=text, already_there=is_already_there(text))

    def _hide_login(self, text: str) -> str:
        """Remove the user name, which servers put into refusals."""
        return text if self._login is None else self._login.hide(text)

    def read(self, text: str) -> Sequence[Mapping[str, Any]]:
        """Return the rows of a statement that only reads. Raises NodeUnreachable with the node's error otherwise."""
        try:
            self._await_connection()
            return self._rows(text)
        except Exception as error:  # noqa: BLE001 - a broken node may raise anything
            answer = self._hide_login(error_words(error))
            raise NodeUnreachable(f"node {self._node} did not answer `{text}`: {answer}") from None

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
        if operation.f == "insert" and value.get("form") == "conditional":
            return of_condition(value, list(rows))
        if operation.f in SCHEMA_CHANGES and (value.get("if_exists") or value.get("if_not_exists")):
            return Completion(type="ok", value={**value, "applied": bool(future.custom_payload)})
        return Completion(type="ok", value=value)

    def _ask(self, operation: Invoke, query: Query) -> Completion:
        """Run a data workload's own CQL. The coordinator stamps its writes, because its clock is the one that faults skew."""
        self._await_connection()
        self._session.use_client_timestamp = False
        try:
            future = self._session.execute_async(prepared(query), timeout=self._timeout_s)
        finally:
            self._session.use_client_timestamp = True
        return completion_of(operation, list(future.result()))

    def _await_connection(self) -> None:
        """Wait a moment for a broken connection to come back. The operation has sent nothing yet, so this is no retry.

        It also keeps a worker whose node is down from failing thousands of operations a second.
        """

        def connected() -> bool:
            return any(state["open_count"] for state in self._session.get_pool_state().values())

        with suppress(TimeoutError):
            until(connected, deadline_s=_SECONDS_TO_RECONNECT, what="a connection", every_s=0.1)

    def observe(self, *, phase: str, sample: int, complete: bool) -> Sequence[Observation]:
        """Read the node's account of its schema; see `schemaquake.clusters.cql.schema`."""
        try:
            self._await_connection()
            release = self._follow_release()
            if not complete:
                version, epoch = self._dialect.schema.read_version(self._rows)
                if version == self._last_look.version:
                    return _with_release([self._version(phase, sample, version, epoch)], release)
            barrier = self._barrier() if complete else None
            observed = self._read_schema(phase, sample, complete=complete, barrier=barrier)
        except Exception as error:  # noqa: BLE001 - any error of a broken node is recorded
            return [self._version(phase, sample, None, None, error=self._hide_login(error_words(error)))]
        observed = _with_release(observed, release)
        return observed if complete else self._last_look.changes(observed, ended_ns=time.monotonic_ns())

    @property
    def dialect(self) -> CqlDialect:
        """The dialect of the server as it was when it was last asked for its schema."""
        return self._dialect

    def _follow_release(self) -> str | None:
        """Take the dialect of the server's present release, and return its name; None in a run of one release."""
        if not self._releases:
            return None
        release = self._dialect.schema.read_release(self._rows)
        self._dialect = self._releases.get(release, self._dialect)
        return release

    def _barrier(self) -> JSON:
        """Have the node catch up before a reading that judges, and render how that ended; null where none is needed."""
        barrier = self._dialect.barrier
        if barrier is None:
            return None
        return barrier.wait(self._address, timeout_s=min(self._timeout_s, _SECONDS_TO_READ)).to_json()

    def _read_schema(self, phase: str, sample: int, *, complete: bool, barrier: JSON) -> Sequence[Observation]:
        """Read the schema until its version is the same before and after, for a few tries.

        The tables are read one after another; a change in between would look like a table without columns. And a server
        writes its disk before its memory, and its version last: where the two differ, a merge may be under way.
        """
        observed: list[Observation] = []
        for _ in range(_READINGS_MAX):
            columns_of = self._columns_of if complete else None
            observed = list(
                read_schema(
                    self._rows,
                    self._dialect.schema,
                    phase=phase,
                    node=self._node,
                    sample=sample,
                    complete=complete,
                    columns_of=columns_of,
                    barrier=barrier,
                    authority=self._dialect.authority,
                    ring=self._dialect.ring,
                )
            )
            version = observed[0].id
            if self._dialect.schema.read_version(self._rows)[0] != version:
                continue
            if not memory_differs(observed):
                break
            with suppress(TimeoutError):
                until(
                    lambda: self._dialect.schema.read_version(self._rows)[0] != version,  # noqa: B023 - called before it changes
                    deadline_s=_SECONDS_FOR_A_MERGE,
                    what="the end of a merge",
                )
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

    def _rows(self, text: str) -> Sequence[Mapping[str, Any]]:
        found: Sequence[Mapping[str, Any]] = self._session.execute(
            SimpleStatement(text, fetch_size=None), timeout=min(self._timeout_s, _SECONDS_TO_READ)
        ).all()
        return found

    def _columns_of(self, text: str) -> Mapping[str, str]:
        """Return the columns of the answer and their types, in the driver's spelling; without rows, too."""
        found = self._session.execute(
            SimpleStatement(text, fetch_size=None), timeout=min(self._timeout_s, _SECONDS_TO_READ)
        )
        types = [cql_type.cql_parameterized_type() for cql_type in found.column_types]
        return dict(zip(found.column_names, types, strict=True))

    def close(self) -> None:
        """Close the session."""
        self._cluster.shutdown()


def _with_release(observed: Sequence[Observation], release: str | None) -> Sequence[Observation]:
    """Name the release in the version's row, the first one, where nodes may differ in it."""
    if release is None:
        return observed
    version = observed[0]
    return [replace(version, definition={**version.definition, "release": release}), *observed[1:]]


class _Door:
    """The way into one node for all sessions of this process: a few open at a time, and each that opens is a sign of life."""

    def __init__(self) -> None:
        self._turns = threading.BoundedSemaphore(_OPENED_AT_ONCE)
        self._opened_s = -math.inf

    @contextmanager
    def turn(self) -> Iterator[bool]:
        """Wait a moment for one of the turns; yields False if there is none yet."""
        is_ours = self._turns.acquire(timeout=_SECONDS_FOR_A_TURN)
        try:
            yield is_ours
        finally:
            if is_ours:
                self._turns.release()

    def opened(self) -> None:
        """Note that a session was opened just now."""
        self._opened_s = time.monotonic()

    def until_open(self, attempt: Callable[[], T | None]) -> T:
        """Repeat the attempt until it succeeds. Raises TimeoutError once no session of this process was opened for 20 s."""
        began_s = time.monotonic()
        while True:
            left_s = max(began_s, self._opened_s) + _SECONDS_TO_CONNECT - time.monotonic()
            with suppress(TimeoutError):
                return until(attempt, deadline_s=max(0.0, left_s), what="a session", every_s=0.3)
            if time.monotonic() >= max(began_s, self._opened_s) + _SECONDS_TO_CONNECT:
                raise TimeoutError("no session was opened")


@cache
def _door_of(address: str, port: int) -> _Door:  # noqa: ARG001 - one for each
    return _Door()


def _is_login_refused(refusal: BaseException | None) -> bool:
    """Return True if the server refused the login. The server's text is not quoted, because it names the user."""
    errors = refusal.errors.values() if isinstance(refusal, NoHostAvailable) else [refusal]
    return any(isinstance(error, AuthenticationFailed) for error in errors)


def _row(row: Mapping[str, Any]) -> dict[str, JSON]:
    return {name: _json(cell) for name, cell in row.items()}


def _json(cell: Any) -> JSON:
    """Convert a cell to JSON: a user-defined type's value to a map, sets sorted, and types that JSON lacks to text."""
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
