"""Client port: where a node serves clients, and the one request that shows whether it does."""

from __future__ import annotations

from dataclasses import dataclass
from ssl import SSLContext

from schemaquake.clusters.cql.protocol import answers_cql
from schemaquake.clusters.thrift.protocol import answers_thrift

__all__ = ["ClientPort"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientPort:
    """An address and port of one node, and the protocol of its clients."""

    address: str
    port: int
    protocol_version: int | None
    """The version of the native protocol; None for a server that speaks Thrift alone."""
    tls: SSLContext | None = None

    def __str__(self) -> str:
        return f"{'Thrift' if self.protocol_version is None else 'CQL'} at {self.address}:{self.port}"

    def answers(self) -> bool:
        """Ask the server for what it supports, and return True if it answers."""
        if self.protocol_version is None:
            return answers_thrift(self.address, self.port)
        return answers_cql(self.address, self.port, version=self.protocol_version, tls=self.tls)
