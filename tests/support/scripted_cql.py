"""CQL that is scripted: what each node says of its schema and peers, and what becomes of a statement. In one memory."""

from __future__ import annotations

from dataclasses import dataclass, field

from schemaquake.harness.ddl.cql import statement
from schemaquake.harness.errors import NodeUnreachable
from schemaquake.harness.model.observation import Observation
from schemaquake.harness.model.operation import Completion


@dataclass
class ScriptedCql:
    """`versions` and `keyspaces` by node; all nodes know one another but for those in `unknown`."""

    addresses: dict[str, str]
    era: str = "system_schema"
    versions: dict[str, str] = field(default_factory=dict)
    keyspaces: set[str] = field(default_factory=set)
    unknown: set[tuple[str, str]] = field(default_factory=set)
    deaf: set[str] = field(default_factory=set)
    refuses: str | None = None
    sent: list[str] = field(default_factory=list)

    def connect(self, node, *, request_timeout_s):
        if node in self.deaf:
            raise NodeUnreachable(f"node {node} did not accept a session")
        return _Client(self, node)


@dataclass
class _Client:
    cql: ScriptedCql
    node: str

    def observe(self, *, phase, sample, complete):
        def observed(kind, keyspace=None, identity=None):
            return Observation(time=0, phase=phase, node=self.node, sample=0, kind=kind, keyspace=keyspace, id=identity)

        version = self.cql.versions.get(self.node, "v1")
        return [observed("version", identity=version), *(observed("keyspace", name) for name in self.cql.keyspaces)]

    def invoke(self, operation):
        text = statement(operation.f, operation.value)
        self.cql.sent.append(text)
        if self.cql.refuses is not None:
            return Completion(type="info", error=self.cql.refuses)
        if operation.f == "drop-keyspace":
            self.cql.keyspaces.discard(operation.value["keyspace"])
        return Completion(type="ok", value=operation.value)

    def read(self, text):
        assert "system.peers" in text
        others = {name: address for name, address in self.cql.addresses.items() if name != self.node}
        return [
            {"peer": address, "rpc_address": address}
            for name, address in others.items()
            if (self.node, name) not in self.cql.unknown
        ]

    def close(self):
        pass
