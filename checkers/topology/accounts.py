"""Accounts: what each node said of the members of its cluster in the final readings (`ring` and `epochs` rows)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import orjson
import pyarrow.compute as pc

from schemaquake.checkers.evidence.evidence import Evidence

__all__ = ["IN_GOSSIP", "OUTSIDE", "PHASES", "Account", "Phase", "read_accounts", "read_addresses"]

Phase = Literal["settled", "restarted"]
PHASES: Final[tuple[Phase, ...]] = ("settled", "restarted")

OUTSIDE: Final = frozenset({"LEFT", "REGISTERED"})
"""States of the directory in which a node is no member."""

IN_GOSSIP: Final = "gossip (NORMAL)"
"""The source of an address that a node lists in its gossip."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """One node's account of the ring in one phase; `error` says why there is none."""

    phase: str
    node: str
    address: str
    members: Mapping[str, Mapping[str, Any]]
    """Address → `{"host_id", "tokens"}` of every member, the node itself included."""
    gossip: Mapping[str, str] | None = None
    """Address → the first word of its status; None: gossip is no table here."""
    directory: Mapping[str, Mapping[str, Any]] | None = None
    """Address → `{"host_id", "state", "tokens", "sequence"}`; None: there is no directory."""
    error: str | None = None
    time: int = 0
    """When it was noted (ns since the run's begin)."""

    def sources(self, address: str) -> list[str]:
        """Name the tables in which this node lists that address as a member's."""
        found = ["system.peers"] if address in self.members and address != self.address else []
        if self.directory is not None and self.directory.get(address, {}).get("state", "LEFT") not in OUTSIDE:
            found.append("the directory")
        if self.gossip is not None and self.gossip.get(address) == "NORMAL":
            found.append(IN_GOSSIP)
        return found

    def lists(self, address: str) -> bool:
        """Return whether the address is a member's in every table that must have it."""
        in_directory = self.directory is None or self.directory.get(address, {}).get("state", "LEFT") not in OUTSIDE
        return address in self.members and in_directory


def read_accounts(evidence: Evidence) -> Sequence[Account]:
    """Read the accounts of the final phases, the last one of each node in each, by phase and node."""
    table = evidence.observations
    rows = table.filter(pc.equal(table["kind"], "ring")).sort_by([("time", "ascending")]).to_pylist()
    found = {(row["phase"], row["node"]): _account(row) for row in rows if row["phase"] in PHASES}
    return [found[key] for key in sorted(found)]


def read_addresses(evidence: Evidence) -> Mapping[str, str]:
    """Read the address of every node from the notes of the membership; empty without any."""
    return evidence.notes.membership.addresses


def _account(row: Mapping[str, Any]) -> Account:
    if row["definition"] is None:
        return Account(phase=row["phase"], node=row["node"], address="", members={}, error=row["error"] or "no answer")
    told = orjson.loads(row["definition"])
    own = told["self"]
    return Account(
        phase=row["phase"],
        node=row["node"],
        address=own["address"],
        members={**told["peers"], own["address"]: own},
        gossip=told.get("gossip"),
        directory=told.get("directory"),
        time=row["time"],
    )
