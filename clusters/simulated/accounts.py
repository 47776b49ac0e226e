"""Accounts: how a client reads one simulated node's schema, and what the node's errors prove, by the protocol that it speaks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final, NamedTuple, Protocol

from schemaquake.clusters.cql.completions import kind_of
from schemaquake.clusters.cql.outcomes import classify
from schemaquake.clusters.simulated.faces import Node
from schemaquake.clusters.simulated.said import ServerSaid, as_exception
from schemaquake.clusters.simulated.schema.definitions import Keyspace, Schema, Table
from schemaquake.clusters.simulated.schema.describing import describe
from schemaquake.clusters.systems.cassandra.system_schema import stored_objects
from schemaquake.clusters.systems.data_directories import SYSTEM_KEYSPACES
from schemaquake.clusters.systems.dialect import Authority, CqlDialect
from schemaquake.clusters.systems.outcome import Outcome, first_match
from schemaquake.clusters.systems.system import System
from schemaquake.clusters.thrift.error_table import TABLE
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.steps import Invoke

__all__ = ["Account", "Shown", "account_of"]


class Shown(NamedTuple):
    """One row of an observation."""

    kind: str
    keyspace: str | None
    name: str | None
    id: str | None
    definition: JSON


class Account(Protocol):
    """One protocol's way of reading."""

    def read_version(self, node: Node) -> Shown:
        """Read the node's version."""
        ...

    def read_schema(self, node: Node, *, complete: bool) -> Iterator[Shown]:
        """Read every object, on disk and in memory; the log of changes, if there is one, belongs to a complete reading."""
        ...

    def outcome_of(self, said: ServerSaid, operation: Invoke) -> tuple[Outcome, Exception]:
        """Return what an error proves about an operation, and the error as this protocol's clients raise it."""
        ...


def account_of(system: System) -> Account:
    """Return the account that a system's clients read."""
    if system.cql is not None:
        return _ByCql(system.cql)
    return _ByThrift(system.authority, names_keys="collections" not in system.features and not system.applies_in_order)


def _live(schema: Schema) -> Iterator[Shown]:
    """Yield what is in memory, as statements."""
    for row in describe(schema):
        within = None if row["type"] == "keyspace" else row["name"]
        definition = {"kind": row["type"], "statement": row["create_statement"]}
        yield Shown("live", row["keyspace_name"], within, None, definition)


class _ByCql:
    """The schema tables, and DESCRIBE where the system has it."""

    def __init__(self, dialect: CqlDialect) -> None:
        self._dialect = dialect

    def read_version(self, node: Node) -> Shown:
        query = partial(node.model.answer, node)
        version, epoch = self._dialect.schema.read_version(query)
        authority = self._dialect.authority
        decides = {} if authority == "disk" else {"authority": authority}
        state = self._dialect.schema.read_state(query)
        described = self._dialect.schema.describes_memory and node.model.describes_memory
        memory = {"memory": "statements"} if described else {}
        return Shown("version", None, None, version, {"epoch": epoch, **decides, **memory, **state})

    def read_schema(self, node: Node, *, complete: bool) -> Iterator[Shown]:
        query = partial(node.model.answer, node)
        if complete and self._dialect.ring is not None:
            yield Shown("ring", None, None, None, self._dialect.ring.read_ring(query))
            entries = self._dialect.ring.read_epochs(query)
            if entries is not None:
                yield Shown("epochs", None, None, None, entries)
        log = self._dialect.schema.read_log(query) if complete else None
        if log is not None:
            yield Shown("log", None, None, None, log)
        for kind, keyspace, name, identity, found in self._dialect.schema.read_schema(query):
            if keyspace not in SYSTEM_KEYSPACES:
                yield Shown(kind, keyspace, name, identity, found)
        if self._dialect.schema.describes_memory and node.model.describes_memory:
            assert node.server is not None
            yield from _live(node.server.memory)

    def outcome_of(self, said: ServerSaid, operation: Invoke) -> tuple[Outcome, Exception]:
        error = as_exception(said)
        return classify(error, on=kind_of(operation), system_outcomes=self._dialect.outcomes), error


_ERRORS: Final[Mapping[str, str]] = {
    "NoHostAvailable": "NotConnected",
    "OperationTimedOut": "OSError",
    "ConnectionShutdown": "TTransportException",
    "InvalidRequest": "InvalidRequestException",
    "AlreadyExists": "InvalidRequestException",
    "ConfigurationException": "InvalidRequestException",
    "ServerError": "TApplicationException",
    "Unavailable": "UnavailableException",
    "WriteTimeout": "TimedOutException",
    "ReadTimeout": "TimedOutException",
    "WriteFailure": "TimedOutException",
    "ReadFailure": "TimedOutException",
}
"""Errors of CQL by their counterparts in Thrift."""


class _ByThrift:
    """The definitions in memory; in 1.1 the schema tables on disk, too (`schemaquake.clusters.thrift.schema`)."""

    def __init__(self, authority: Authority, *, names_keys: bool) -> None:
        """Without `names_keys` (0.7) a definition does not say which of its columns is the key's."""
        self._has_tables = authority == "disk"
        self._kind_of_columns = "regular" if names_keys else "untold"
        self._names_keys = names_keys

    def read_version(self, node: Node) -> Shown:
        assert node.server is not None
        source = {"memory": "statements"} if self._has_tables else {"told_from": "memory"}
        # Real nodes ask all others and list what these answered; gossip, which is all that is at hand here, may be old. An empty list
        # says that the reading is of Thrift, whose servers take columns that nothing declared.
        definition: dict[str, JSON] = {"epoch": None, **source, "versions": {}}
        return Shown("version", None, None, str(node.server.version), definition)

    def read_schema(self, node: Node, *, complete: bool) -> Iterator[Shown]:  # noqa: ARG002 - there is no log
        assert node.server is not None
        if self._has_tables:
            for kind, keyspace, name, identity, definition in stored_objects(partial(node.model.answer, node)):
                yield Shown(kind, keyspace, name, identity, definition)
            yield from _live(node.server.memory)
            return
        for name in sorted(node.server.memory):
            yield from self._remembered(node.server.memory[name])

    def _remembered(self, keyspace: Keyspace) -> Iterator[Shown]:
        replication = {"replication": dict(keyspace.replication), "durable_writes": True}
        yield Shown("keyspace", keyspace.name, None, None, replication)
        for name, table in sorted(keyspace.tables.items()):
            yield Shown("table", keyspace.name, name, table.id, self._definition(table))

    def _definition(self, table: Table) -> JSON:
        columns: dict[str, JSON] = {}
        for name, column in sorted(table.columns.items()):
            is_key = column.kind == "partition_key" and self._names_keys
            kind = "partition_key" if is_key else self._kind_of_columns
            columns[name] = {"type": column.type, "kind": kind, "position": 0 if is_key else -1}
        indexes = {index: {"kind": "KEYS", "target": target} for index, target in sorted(table.indexes.items())}
        return {"columns": columns, "dropped_columns": {}, "options": dict(table.options), "indexes": indexes}

    def outcome_of(self, said: ServerSaid, operation: Invoke) -> tuple[Outcome, Exception]:
        error = as_exception(ServerSaid(_ERRORS.get(said.error, said.error), str(said)))
        return first_match(TABLE, error, str(error), on=kind_of(operation)), error
