"""Ring: one node's own account of the members of its cluster, by CQL.

`system.local` and `system.peers` are node-local. Gossip is a virtual table from 5.0 on. From 6.0 on the directory of
the metadata log has every node that was ever registered and not unregistered, with its state (CEP-21), and the log is
node-local in `system.local_metadata_log`; the texts of its changes are in `system_views.cluster_metadata_log`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from schemaquake.clusters.systems.dialect import Query
from schemaquake.harness.model.operation import JSON

__all__ = ["DirectoryRing", "PeersRing"]

_FACTS: Final = "host_id, tokens, data_center, rack"
_UNDER_WAY: Final = frozenset({"BOOT", "BOOT_REPLACE", "LEAVING", "MOVING"})
_DONE_BEFORE: Final = {"START": "PREPARE", "MID": "START", "FINISH": "MID"}
"""By the step that comes next (`tcm/Transformation.java`, kinds) the one that was done last."""
_STATEMENTS: Final = 50
"""Texts of changes that are noted at most."""
_STREAMING: Final = frozenset({"init", "start"})
"""States of a stream that has not ended (`streaming/StreamingState.java`)."""


@dataclass(frozen=True, slots=True)
class PeersRing:
    """The account of servers that gossip, from 3.0 on. Lines before 4.0 show no streams, those before 5.0 no gossip."""

    steps: ClassVar[frozenset[str]] = frozenset({"under-way", "stream"})

    def read_ring(self, query: Query) -> Mapping[str, JSON]:
        """Read this node, its peers, and its gossip where that is a table."""
        return {**_members(query), "gossip": _read_gossip(query), "directory": None}

    def read_epochs(self, query: Query) -> JSON | None:  # noqa: ARG002 - later lines ask
        """Read nothing: changes of the ring are gossip, and not numbered."""
        return None

    def read_steps(self, query: Query, addresses: Sequence[str]) -> Iterator[str]:
        """Read whether gossip has one of them joining, leaving or moving, and whether this node streams."""
        gossip = _read_gossip(query) or {}
        if any(gossip.get(address) in _UNDER_WAY for address in addresses):
            yield "under-way"
        yield from _read_streams(query)


@dataclass(frozen=True, slots=True)
class DirectoryRing:
    """The account of servers with a metadata log."""

    steps: ClassVar[frozenset[str]] = frozenset({*_DONE_BEFORE.values(), "stream"})

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
        return {"entries": entries, **_read_repeated(query, entries)}

    def read_steps(self, query: Query, addresses: Sequence[str]) -> Iterator[str]:
        """Read which step of the operation of one of them is to come next, and whether this node streams."""
        for row in query("SELECT broadcast_address, multi_step_operation FROM system_views.cluster_metadata_directory"):
            step = _last_step(row["multi_step_operation"])
            if step is not None and str(row["broadcast_address"]) in addresses:
                yield step
        yield from _read_streams(query)


def _read_repeated(query: Query, entries: Sequence[Sequence[Any]]) -> Mapping[str, JSON]:
    """Read what the changes say that have an id twice, and those between: epoch → text, as `statements`; nothing if no id is there twice.

    The texts come from the distributed log, by one read at QUORUM of all of it: a read of one epoch is one of the whole log, too.
    """
    epochs: dict[str, list[int]] = {}
    for epoch, _, identity in entries:
        epochs.setdefault(identity, []).append(epoch)
    wanted = sorted({epoch for some in epochs.values() for epoch in range(some[0], some[-1] + 1) if len(some) > 1})
    if not wanted:
        return {}
    try:
        rows = list(query("SELECT epoch, transformation FROM system_views.cluster_metadata_log"))
    except Exception:  # noqa: BLE001 - without a majority it is refused, and the entries are told all the same
        return {}
    texts = {int(row["epoch"]): str(row["transformation"]) for row in rows}
    found = {str(epoch): texts[epoch] for epoch in wanted[:_STATEMENTS] if epoch in texts}
    return {"statements": found} if found else {}


def _last_step(sequence: Any) -> str | None:
    """Name the step that was done last, from the one that an operation under way has to do next."""
    if not sequence:
        return None
    following = str(sequence.get("nextStep") if isinstance(sequence, Mapping) else sequence).upper()
    return next((done for word, done in _DONE_BEFORE.items() if f"{word}_" in following), None)


def _read_streams(query: Query) -> Iterator[str]:
    """Yield `stream` if rows are on their way to or from this node."""
    try:
        rows = list(query("SELECT * FROM system_views.streaming"))
    except Exception:  # noqa: BLE001 - a line before 4.0 refuses it, each in its own words
        return
    if any(str(row.get("status")).lower() in _STREAMING for row in rows):
        yield "stream"


def _members(query: Query) -> Mapping[str, JSON]:
    (own,) = query(f"SELECT broadcast_address, {_FACTS} FROM system.local WHERE key = 'local'")
    peers = query(f"SELECT peer, {_FACTS} FROM system.peers")
    return {
        "self": _member(own["broadcast_address"], own),
        "peers": {str(row["peer"]): _member(row["peer"], row) for row in peers},
    }


def _member(address: Any, row: Mapping[str, Any]) -> JSON:
    return {
        "address": str(address),
        "host_id": _text(row["host_id"]),
        "tokens": _tokens(row["tokens"]),
        "dc": _text(row["data_center"]),
        "rack": _text(row["rack"]),
    }


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
