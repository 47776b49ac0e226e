"""Metadata log (6.0): schema and topology are one log of epochs, committed by Paxos (CEP-21).

Every node applies the log in order and writes `system_schema` as before. The schema version is the epoch: UUID(0, epoch),
whose low 64 bits count and can be ordered.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from schemaquake.clusters.systems.cassandra import system_schema
from schemaquake.clusters.systems.cassandra.design import Design
from schemaquake.clusters.systems.cassandra.ring import DirectoryRing
from schemaquake.clusters.systems.dialect import Query, Stored
from schemaquake.clusters.systems.topology import ToolCommand
from schemaquake.harness.model.operation import JSON

__all__ = ["DESIGN", "MetadataLog", "is_begun", "widen_metadata_service"]

_MEMBERS_MAX: Final = 3
_LIMIT_S: Final = 90.0
_EPOCHS: Final = 2**64 - 1


@dataclass(frozen=True, slots=True)
class MetadataLog:
    """The reading of 6.0: `system_schema`, and versions that are epochs."""

    describes_memory = True

    def read_version(self, query: Query) -> tuple[str, int | None]:
        """Read the version and the epoch in its low 64 bits; null as long as the log was not begun (`is_begun`)."""
        version = system_schema.schema_version(query)
        if version is None:
            return "", None
        return str(version), version.int & _EPOCHS if is_begun(version) else None

    def read_schema(self, query: Query) -> Iterator[Stored]:
        """Read `system_schema`."""
        return system_schema.stored_objects(query)

    def read_state(self, query: Query) -> Mapping[str, JSON]:
        """Read who decides where it is not the log yet: in a cluster that was upgraded, each node's own rows."""
        version = system_schema.schema_version(query)
        return {} if version is None or is_begun(version) else {"authority": "disk"}

    def read_log(self, query: Query) -> JSON | None:  # noqa: ARG002 - other designs ask
        """Read no log: its entries are serialized for servers."""
        return None

    def read_keyspaces(self, query: Query) -> Sequence[str]:
        """Read `system_schema.keyspaces`."""
        return system_schema.keyspace_names(query)

    def read_release(self, query: Query) -> str:
        """Read `system.local`."""
        return system_schema.release_version(query)


def is_begun(version: UUID) -> bool:
    """Return whether a schema version is an epoch of the log; before `cms initialize` its low half is negative, on every node the same."""
    return version.int >> 64 == 0 and version.int < 2**63


def widen_metadata_service(nodes: int) -> Sequence[ToolCommand]:
    """Have three nodes commit metadata, so that any one may be lost: in a fresh cluster it is the first node alone."""
    if nodes == 1:
        return ()
    return (ToolCommand(arguments=("cms", "reconfigure", f"{min(_MEMBERS_MAX, nodes)}"), limit_s=_LIMIT_S),)


DESIGN: Final = Design(
    authority="log", schema=MetadataLog(), ring=DirectoryRing(), after_first_boot=widen_metadata_service
)
