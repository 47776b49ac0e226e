"""A node that speaks Thrift, in this process: the interface of an era served over a framed socket, schema in a dict."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy

from thriftpy2.protocol import TBinaryProtocolFactory
from thriftpy2.rpc import make_server
from thriftpy2.thrift import TApplicationException
from thriftpy2.transport import TFramedTransportFactory

from schemaquake.clusters.thrift.dialects import Dialect

OWN = "127.0.0.1"


class ThriftNode:
    """The handler. `calls` is what it was asked, by name and arguments; `answers` by call are raised or returned instead."""

    def __init__(self, dialect: Dialect, *, interface: str | None = None) -> None:
        self.dialect = dialect
        self.idl = dialect.idl
        self.interface = interface or dialect.idl.VERSION
        self.keyspaces = {}
        self.versions = {"v1": [OWN]}
        self.rows = {}
        self.calls = []
        self.answers = {}
        self.keyspace = None
        self.next_id = 1000

    def _asked(self, name, *arguments):
        self.calls.append((name, *map(deepcopy, arguments)))
        answer = self.answers.get(name)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def names(self):
        return [call[0] for call in self.calls]

    def _refuse(self, why):
        raise self.idl.InvalidRequestException(why=why)

    def table(self, keyspace, name):
        return next((table for table in self.keyspaces[keyspace].cf_defs if table.name == name), None)

    # ── describing ───────────────────────────────────────────────────────────────────────────────────────────────────

    def describe_version(self):
        return self._asked("describe_version") or self.interface

    def describe_schema_versions(self):
        self._asked("describe_schema_versions")
        return self.versions

    def describe_keyspaces(self):
        self._asked("describe_keyspaces")
        return list(self.keyspaces.values())

    def describe_keyspace(self, keyspace):
        self._asked("describe_keyspace", keyspace)
        if keyspace not in self.keyspaces:
            raise self.idl.NotFoundException
        return self.keyspaces[keyspace]

    # ── schema changes ───────────────────────────────────────────────────────────────────────────────────────────────

    def set_keyspace(self, keyspace):
        self._asked("set_keyspace", keyspace)
        if keyspace not in self.keyspaces and keyspace != "system":
            self._refuse(f"Keyspace {keyspace} does not exist")
        self.keyspace = keyspace

    def system_add_keyspace(self, definition):
        self._asked("system_add_keyspace", definition)
        if definition.name in self.keyspaces:
            self._refuse("Keyspace already exists.")
        self.keyspaces[definition.name] = definition
        return "v2"

    def system_update_keyspace(self, definition):
        self._asked("system_update_keyspace", definition)
        if definition.cf_defs:
            self._refuse("Keyspace update must not contain any column family definitions.")
        definition.cf_defs = self.keyspaces[definition.name].cf_defs
        self.keyspaces[definition.name] = definition
        return "v2"

    def system_drop_keyspace(self, keyspace):
        self._asked("system_drop_keyspace", keyspace)
        if self.keyspaces.pop(keyspace, None) is None:
            self._refuse("Keyspace does not exist.")
        return "v2"

    def system_add_column_family(self, definition):
        self._asked("system_add_column_family", definition)
        if self.keyspace != definition.keyspace:
            self._refuse("You have not set a keyspace for this session")
        if self.table(definition.keyspace, definition.name):
            self._refuse("CF is already defined in that keyspace.")
        definition.id = self.next_id
        self.next_id += 1
        definition.gc_grace_seconds = definition.gc_grace_seconds or 864000
        for column in definition.column_metadata:
            column.validation_class = f"org.apache.cassandra.db.marshal.{column.validation_class}"
        self.keyspaces[definition.keyspace].cf_defs.append(definition)
        return "v2"

    def system_update_column_family(self, definition):
        self._asked("system_update_column_family", definition)
        tables = self.keyspaces[definition.keyspace].cf_defs
        tables[:] = [definition if table.name == definition.name else table for table in tables]
        return "v2"

    def system_drop_column_family(self, name):
        self._asked("system_drop_column_family", name)
        tables = self.keyspaces[self.keyspace].cf_defs
        if not self.table(self.keyspace, name):
            self._refuse("CF is not defined in that keyspace.")
        tables[:] = [table for table in tables if table.name != name]
        return "v2"

    # ── rows ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _rows(self, name):
        if self.keyspace != "system" and not self.table(self.keyspace, name):
            self._refuse(f"unconfigured columnfamily {name}")
        return self.rows.setdefault((self.keyspace, name), {})

    def batch_mutate(self, mutations, level):
        self._asked("batch_mutate", mutations, level)
        for key, tables in mutations.items():
            for name, some in tables.items():
                row = self._rows(name).setdefault(key, {})
                for mutation in some:
                    if mutation.deletion is not None:
                        for column in mutation.deletion.predicate.column_names:
                            row.pop(column, None)
                    else:
                        column = mutation.column_or_supercolumn.column
                        row[column.name] = column.value

    def remove(self, key, path, timestamp, level):
        self._asked("remove", key, path, timestamp, level)
        self._rows(path.column_family)[key] = {}  # shown without columns, as a row of tombstones is

    def _slice(self, row):
        return [
            self.idl.ColumnOrSuperColumn(column=self.idl.Column(name=name, value=value, timestamp=1))
            for name, value in sorted(row.items())
        ]

    def get_slice(self, key, parent, predicate, level):
        self._asked("get_slice", key, parent, predicate, level)
        return self._slice(self._rows(parent.column_family).get(key, {}))

    def get_range_slices(self, parent, predicate, keys, level):
        self._asked("get_range_slices", parent, predicate, keys, level)
        found = sorted(item for item in self._rows(parent.column_family).items() if item[0] >= keys.start_key)
        return [self.idl.KeySlice(key=key, columns=self._slice(row)) for key, row in found[: keys.count]]

    def execute_cql_query(self, query, compression):
        self._asked("execute_cql_query", query, compression)
        return self.idl.CqlResult(type=self.idl.CqlResultType.VOID)

    def internal_error(self, call):
        """What the server's own generated code answers where its handler fails."""
        message = f"Internal error processing {call}"
        self.answers[call] = TApplicationException(TApplicationException.INTERNAL_ERROR, message)


@contextmanager
def served(node: ThriftNode) -> Iterator[int]:
    """The port at which the node is reached while this lasts."""
    server = make_server(
        node.idl.Cassandra,
        node,
        host=OWN,
        port=_free_port(),
        proto_factory=TBinaryProtocolFactory(strict_read=False),
        trans_factory=TFramedTransportFactory(),
        client_timeout=None,
    )
    server.daemon = True
    server.trans.listen()
    server.trans.listen = lambda: None  # it listens already: whoever connects from now on is heard
    thread = threading.Thread(target=server.serve, daemon=True)
    thread.start()
    try:
        yield server.trans.port
    finally:
        server.close()
        server.trans.close()


def _free_port() -> int:
    with socket.create_server((OWN, 0)) as taken:
        return taken.getsockname()[1]
