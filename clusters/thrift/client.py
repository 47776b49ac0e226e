"""Thrift client: one framed connection with one coordinator of Cassandra 0.7 to 1.1.

The counterpart of `schemaquake.clusters.cql.client`, and as unhelpful on purpose: no retries, no other coordinator, no wait for
schema agreement, which the clients of that time all had. The client stops waiting for an answer after the request
timeout; a connection that broke is opened again for the next operation, never for the current one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic_ns
from typing import Any, Final, Literal

from schemaquake.clusters.cql.last_look import LastLook
from schemaquake.clusters.cql.outcomes import is_already_there
from schemaquake.clusters.systems.dialect import Authority
from schemaquake.clusters.thrift.changes import NotInThisEra, carry_out
from schemaquake.clusters.thrift.connection import Connection, NotConnected, error_text
from schemaquake.clusters.thrift.outcomes import classify
from schemaquake.clusters.thrift.rows import carry_out_rows
from schemaquake.clusters.thrift.schema import read_schema, read_version
from schemaquake.harness.ddl.schema_changes import SCHEMA_CHANGES
from schemaquake.harness.errors import NodeUnreachable
from schemaquake.harness.model.observation import Observation
from schemaquake.harness.model.operation import JSON, Completion
from schemaquake.harness.model.steps import Invoke

__all__ = ["ThriftClient", "ThriftConnector"]

_ROWS: Final = frozenset({"insert", "delete-row", "read-rows", "know-table"})
_READS: Final = frozenset({"read-rows", "know-table"})
_SECONDS_TO_CONNECT: Final = 20.0
_SECONDS_TO_RECONNECT: Final = 1.5
_READINGS_MAX: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ThriftConnector:
    """The addresses of the nodes; picklable. A server names its interface itself.

    `authority` is the source that decides their schema: their memory (0.7–1.0), or tables on their disk (1.1).
    """

    addresses: Mapping[str, str]
    port: int = 9160
    authority: Authority

    def connect(self, node: str, *, request_timeout_s: float) -> ThriftClient:
        """Connect to that node. Raises NodeUnreachable after 20 s."""
        return ThriftClient(
            node, self.addresses[node], port=self.port, authority=self.authority, request_timeout_s=request_timeout_s
        )


class ThriftClient:
    """A session with one coordinator. Not thread-safe: each worker has its own."""

    def __init__(self, node: str, address: str, *, port: int, authority: Authority, request_timeout_s: float) -> None:
        self._node = node
        self._authority = authority
        self._connection = Connection(address, port, timeout_s=request_timeout_s)
        self._last_look = LastLook()
        try:
            self._connection.ensure(deadline_s=_SECONDS_TO_CONNECT)
        except NotConnected as error:
            raise NodeUnreachable(
                f"node {node} did not accept a connection at {address}:{port} within {_SECONDS_TO_CONNECT:g} s: {error}"
            ) from error

    def invoke(self, operation: Invoke) -> Completion:
        """Make the operation's calls and classify the result. Every error becomes a completion."""
        try:
            self._connection.ensure(deadline_s=_SECONDS_TO_RECONNECT)
            return Completion(type="ok", value=self._invoke(operation))
        except Exception as error:  # noqa: BLE001 - the table classifies every error
            text = _render_error(error)
            means = classify(error, on=_kind(operation.f)).means
            return Completion(type=means, error=text, already_there=is_already_there(text))

    def _invoke(self, operation: Invoke) -> JSON:
        call, dialect = self._connection.call, self._connection.dialect
        value = operation.value
        if operation.f in _ROWS:
            return carry_out_rows(call, dialect, operation.f, value)
        if operation.f == "cql":
            if not hasattr(dialect.idl, "Compression"):
                raise NotInThisEra(f"Cassandra {dialect.name} has no CQL")
            call("execute_cql_query", value["statement"].encode(), dialect.idl.Compression.NONE)
            return value
        applied = carry_out(call, dialect, operation.f, value)
        guarded = value.get("if_exists") or value.get("if_not_exists")
        return {**value, "applied": applied} if guarded else value

    def observe(self, *, phase: str, sample: int, complete: bool) -> Sequence[Observation]:
        """Read the node's account of its schema; see `schemaquake.clusters.thrift.schema`."""
        try:
            self._connection.ensure(deadline_s=_SECONDS_TO_RECONNECT)
            if not complete:
                version, evidence = read_version(self._connection.call, self._connection.address)
                if version == self._last_look.version:
                    return [self._version(phase, sample, version, {"epoch": None, **evidence})]
            observed = self._read_schema(phase, sample)
        except Exception as error:  # noqa: BLE001 - any error of a broken node is recorded
            return [self._version(phase, sample, None, None, error=_render_error(error))]
        return observed if complete else self._last_look.changes(observed, ended_ns=monotonic_ns())

    def _read_schema(self, phase: str, sample: int) -> Sequence[Observation]:
        """Read the schema until its version is the same before and after, for a few tries."""
        observed: list[Observation] = []
        for _ in range(_READINGS_MAX):
            observed = list(
                read_schema(
                    self._connection.call,
                    self._connection.dialect,
                    address=self._connection.address,
                    has_schema_tables=self._authority == "disk",
                    phase=phase,
                    node=self._node,
                    sample=sample,
                )
            )
            if read_version(self._connection.call, self._connection.address)[0] == observed[0].id:
                break
        return observed

    def _version(
        self, phase: str, sample: int, version: str | None, definition: JSON, *, error: str | None = None
    ) -> Observation:
        return Observation(
            time=monotonic_ns(),
            phase=phase,
            node=self._node,
            sample=sample,
            kind="version",
            id=version,
            definition=definition,
            error=error,
        )

    def close(self) -> None:
        """Close the connection. May be called twice."""
        with suppress(OSError):
            self._connection.close()


def _kind(f: str) -> Literal["read", "write", "schema"]:
    if f in _READS:
        return "read"
    return "schema" if f in SCHEMA_CHANGES or f == "cql" else "write"


def _render_error(error: BaseException) -> str:
    """Render an error on one line: its class, the call that raised it, and the server's text."""
    raised: Any = getattr(error, "error", error)
    text = str(error) if raised is not error else error_text(error)
    return f"{type(raised).__name__}: {text}"[:600]
