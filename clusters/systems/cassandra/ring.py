"""Ring: one node's own account of the members of its cluster, by CQL.

`system.local` and `system.peers` are node-local. Gossip is a virtual table from 5.0 on. From 6.0 on the directory of
the metadata log has every node that was ever registered and not unregistered, with its state (CEP-21), and the log is
node-local in `system.local_metadata_log`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from schemaquake.clusters.systems.dialect import Query
from schemaquake.harness.model.operation import JSON

__all__ = ["DirectoryRing", "PeersRing"]


@dataclass(frozen=True, slots=True)
class PeersRing:
    """The account of servers that gossip, from 3.0 on."""

    def read_ring(self, query: Query) -> Mapping[str, JSON]:
        """Read this node, its peers, and its gossip where that is a table."""
        return {**_members(query), "gossip": _read_gossip(query), "directory": None}

    def read_epochs(self, query: Query) -> JSON | None:  # noqa: ARG002 - later lines ask
        """Read nothing: changes of the ring are gossip, and not numbered."""
        return None


@dataclass(frozen=True, slots=True)
class DirectoryRing:
    """The account of servers with a metadata log."""

    def read_ring(self, query: Query) -> Mapping[str, JSON]:
        """Read this node, its peers, its gossip and the directory."""
        rows = query("SELECT * FROM system_views.cluster_metadata_directory")
        directory = {
            str(row["broadcast_address"]): {
                "host_id": _text(row["host_id"]),
                "state": _text(row["state"]),
                "tokens": _tokens(row["tokens"]),
                "sequence": _text(row["multi_step_operation"] or None),
            }
            for row in rows
        }
        return {**_members(query), "gossip": _read_gossip(query), "directory": directory}

    def read_epochs(self, query: Query) -> JSON | None:
        """Read the entries of the log that this node has, in order of their epochs."""
        rows = query("SELECT epoch, kind, entry_id FROM system.local_metadata_log")
        entries = sorted([int(row["epoch"]), _text(row["kind"]), _text(row["entry_id"])] for row in rows)
        return {"entries": entries}


def _members(query: Query) -> Mapping[str, JSON]:
    (own,) = query("SELECT broadcast_address, host_id, tokens FROM system.local WHERE key = 'local'")
    peers = query("SELECT peer, host_id, tokens FROM system.peers")
    return {
        "self": _member(own["broadcast_address"], own),
        "peers": {str(row["peer"]): _member(row["peer"], row) for row in peers},
    }


def _member(address: Any, row: Mapping[str, Any]) -> JSON:
    return {"address": str(address), "host_id": _text(row["host_id"]), "tokens": _tokens(row["tokens"])}


def _read_gossip(query: Query) -> JSON:
    """Read the status that gossip has for each address, by its first word; None where gossip is no table."""
    try:
        rows = list(query("SELECT * FROM system_views.gossip_info"))
    except Exception:  # noqa: BLE001 - a line before 5.0 refuses it, each in its own words
        return None
    return {
        str(row["address"]): str(row.get("status_with_port") or row.get("status") or "").split(",")[0] for row in rows
    }


def _tokens(cell: Any) -> list[str]:
    return sorted(map(str, cell or ()))


def _text(cell: Any) -> str | None:
    return None if cell is None else str(cell)
