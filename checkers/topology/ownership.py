"""Ownership: the replicas of each range, as nodes described them, and as they follow from a ring (`ownership` rows)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import orjson
import pyarrow.compute as pc

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.topology.accounts import PHASES, Account
from schemaquake.harness.placements.ring import Location, Ring
from schemaquake.harness.placements.strategies import Placement, Replica, parse_strategy

__all__ = ["Described", "model_of", "read_described", "read_replications"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """One node's description of one keyspace in one phase; `error` says why there is none."""

    phase: str
    node: str
    keyspace: str
    placement: Placement | None = None
    flaw: str | None = None
    """What makes the ranges no ring: a gap, an overlap, or a replica that is named twice."""
    error: str | None = None


def read_described(evidence: Evidence) -> Sequence[Described]:
    """Read the descriptions of the final phases, the last one of each node in each, by phase, node and keyspace."""
    table = evidence.observations
    rows = table.filter(pc.equal(table["kind"], "ownership")).sort_by([("time", "ascending")]).to_pylist()
    found = {
        (PHASES.index(row["phase"]), row["node"], keyspace): _described(row["phase"], row["node"], keyspace, answer)
        for row in rows
        if row["phase"] in PHASES and row["definition"] is not None
        for keyspace, answer in orjson.loads(row["definition"]).items()
    }
    return [found[key] for key in sorted(found)]


def read_replications(evidence: Evidence) -> Mapping[tuple[str, str, str], Mapping[str, str]]:
    """Read the replication of each keyspace by (phase, node, keyspace), as the final readings show it."""
    return {
        (schema.phase, schema.node, keyspace): {name: str(text) for name, text in definition["replication"].items()}
        for phase in PHASES
        for schema in evidence.shown.of(phase)
        for keyspace, definition in schema.keyspaces.items()
        if definition and definition.get("replication")
    }


def model_of(account: Account, replication: Mapping[str, str]) -> Placement:
    """Place the replicas of a keyspace on the ring that a node lists; nodes are called by their addresses.

    Raises ValueError for a strategy that is not modelled, a token that is no number or two nodes have, or no tokens.
    """
    tokens = {address: [int(token) for token in member["tokens"]] for address, member in account.members.items()}
    locations = {
        address: Location(str(member.get("dc") or "datacenter1"), str(member.get("rack") or "rack1"))
        for address, member in account.members.items()
    }
    ring = Ring.of(tokens, locations)
    if not ring.tokens:
        raise ValueError("it lists no tokens")
    return parse_strategy(replication).replicate(ring)


def _described(phase: str, node: str, keyspace: str, answer: Mapping[str, Any]) -> Described:
    if "ranges" not in answer:
        return Described(phase=phase, node=node, keyspace=keyspace, error=str(answer.get("error")))
    ranges = sorted((int(end), int(start), tuple(map(str, addresses))) for start, end, addresses in answer["ranges"])
    placement = Placement(
        tuple(end for end, _, _ in ranges),
        tuple(tuple(Replica(address) for address in addresses) for _, _, addresses in ranges),
    )
    return Described(phase=phase, node=node, keyspace=keyspace, placement=placement, flaw=_find_flaw(ranges))


def _find_flaw(ranges: Sequence[tuple[int, int, tuple[str, ...]]]) -> str | None:
    """Say what makes the ranges, sorted by their ends, no ring; None if they are one."""
    if not ranges:
        return "it names no range"
    for (end, _, _), (_, start, _) in pairwise([ranges[-1], *ranges]):
        if start != end:
            return f"no range follows the one that ends at {end}, and one begins at {start}"
    for end, _, addresses in ranges:
        if len(set(addresses)) < len(addresses):
            return f"it names a replica twice for token {end}"
    return None
