"""Metadata log (6.0): schema and topology are one log of epochs, committed by Paxos (CEP-21).

Every node applies the log in order and writes `system_schema` as before. The schema version is the epoch: UUID(0, epoch),
whose low 64 bits count and can be ordered.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from schemaquake.clusters.systems.cassandra import system_schema
from schemaquake.clusters.systems.cassandra.design import Design
from schemaquake.clusters.systems.cassandra.ring import DirectoryRing
from schemaquake.clusters.systems.dialect import Query, Stored
from schemaquake.clusters.systems.topology import ToolCommand
from schemaquake.harness.model.operation import JSON

__all__ = ["DESIGN", "MetadataLog", "widen_metadata_service"]

_MEMBERS_MAX: Final = 3
_LIMIT_S: Final = 90.0


@dataclass(frozen=True, slots=True)
class MetadataLog:
    """The reading of 6.0: `system_schema`, and versions that are epochs."""

    describes_memory = True

    def read_version(self, query: Query) -> tuple[str, int | None]:
        """Read the version and the epoch in its low 64 bits."""
        version = system_schema.schema_version(query)
        return ("", None) if version is None else (str(version), version.int & (2**64 - 1))

    def read_schema(self, query: Query) -> Iterator[Stored]:
        """Read `system_schema`."""
        return system_schema.stored_objects(query)

    def read_state(self, query: Query) -> Mapping[str, JSON]:  # noqa: ARG002 - other designs ask
        """Read nothing: the version says it all."""
        return {}

    def read_log(self, query: Query) -> JSON | None:  # noqa: ARG002 - other designs ask
        """Read no log: its entries are serialized for servers."""
        return None

    def read_keyspaces(self, query: Query) -> Sequence[str]:
        """Read `system_schema.keyspaces`."""
        return system_schema.keyspace_names(query)

    def read_release(self, query: Query) -> str:
        """Read `system.local`."""
        return system_schema.release_version(query)


def widen_metadata_service(nodes: int) -> Sequence[ToolCommand]:
    """Have three nodes commit metadata, so that any one may be lost: in a fresh cluster it is the first node alone."""
    if nodes == 1:
        return ()
    return (ToolCommand(arguments=("cms", "reconfigure", f"{min(_MEMBERS_MAX, nodes)}"), limit_s=_LIMIT_S),)


DESIGN: Final = Design(
    authority="log", schema=MetadataLog(), ring=DirectoryRing(), after_first_boot=widen_metadata_service
)
