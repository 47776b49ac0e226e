"""Ownership: the replicas of every range of a keyspace, as each node describes them (`nodetool describering`)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Final

from schemaquake.clusters.cql.client import CqlConnector
from schemaquake.clusters.nodes.every_node import on_every
from schemaquake.clusters.nodes.node import ServerNode
from schemaquake.clusters.systems.system import System
from schemaquake.harness.errors import ClusterError, NodeUnreachable
from schemaquake.harness.model.operation import JSON

__all__ = ["parse_ranges", "read_ownership"]

_RANGE: Final = re.compile(
    r"TokenRange\(start_token:(?P<start>-?\d+), end_token:(?P<end>-?\d+), endpoints:\[(?P<endpoints>[^\]]*)\]"
)
_PORT: Final = re.compile(r":\d+$")
_KEYSPACES_MOST: Final = 2
"""Each reading starts a virtual machine on each node."""
_REQUEST_LIMIT_S: Final = 10.0


def read_ownership(
    nodes: Sequence[ServerNode], connector: CqlConnector, system: System, *, prefix: str
) -> Mapping[str, JSON]:
    """Ask each node for the ranges of the keyspaces named `<prefix>_…`, one for each way of replication, at most two.

    By node, in the shape of an `ownership` row. Nodes without an answer have an error for each keyspace; empty where
    the system's account of the ring is not read, or there is no such keyspace.
    """
    if system.cql is None or system.cql.ring is None or not nodes:
        return {}
    keyspaces = _choose_keyspaces(nodes[0], connector, prefix)
    by_name = {node.name: node for node in nodes}
    if not keyspaces:
        return {}
    return on_every(by_name, lambda name: {each: _describe(by_name[name], system, each) for each in keyspaces})


def parse_ranges(text: str) -> Sequence[tuple[str, str, Sequence[str]]]:
    """Find (start token, end token, addresses) of every range in an answer of `nodetool describering`."""
    return [
        (match["start"], match["end"], [_PORT.sub("", each.strip()) for each in match["endpoints"].split(",") if each])
        for match in _RANGE.finditer(text)
    ]


def _choose_keyspaces(node: ServerNode, connector: CqlConnector, prefix: str) -> Sequence[str]:
    """Choose the first keyspace of each way of replication; none if the node does not answer."""
    try:
        with closing(connector.connect(node.name, request_timeout_s=_REQUEST_LIMIT_S)) as client:
            rows = client.read("SELECT keyspace_name, replication FROM system_schema.keyspaces")
    except NodeUnreachable:
        return []
    chosen: dict[str, str] = {}
    for row in sorted(rows, key=lambda row: str(row["keyspace_name"])):
        if str(row["keyspace_name"]).startswith(f"{prefix}_"):
            chosen.setdefault(str(sorted(row["replication"].items())), str(row["keyspace_name"]))
    return list(chosen.values())[:_KEYSPACES_MOST]


def _describe(node: ServerNode, system: System, keyspace: str) -> JSON:
    command = system.topology.describe_ring(keyspace)
    try:
        done = node.manage(command, timeout_s=command.limit_s)
    except ClusterError as error:
        return {"error": str(error)}
    ranges = parse_ranges(done.stdout)
    if done.exit_code != 0 or not ranges:
        return {"error": (done.stderr or done.stdout).strip()[-300:] or "no range was named"}
    return {"ranges": [[start, end, list(addresses)] for start, end, addresses in ranges]}
