"""Topology of Cassandra: which verbs and properties each line has.

Read from the verbs of nodetool and the properties in the jars of 0.7.10, 1.1.12, 1.2.19, 5.0.9 and 6.0-alpha2; for lines
between them from their tickets: CASSANDRA-957 (replace a dead node, 1.0), CASSANDRA-4120 (host ids, 1.2), CASSANDRA-5916
(replace by address, 1.2.11), CASSANDRA-7935 (assassinate, 2.2).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from schemaquake.clusters.systems.topology import Topology
from schemaquake.harness.model.topology import TopologyVerb

__all__ = ["topology_of"]

_REFUSALS: Final = (
    "[Nn]ot enough live nodes to maintain replication factor",
    "is alive and owns this ID",
    "Other bootstrapping/leaving/moving nodes detected",
    "Cannot replace a live node",
)

_VERBS: Final[Mapping[TopologyVerb, str]] = {
    "move": "move -- {}",  # a token may be negative, and is no option
    "repair": "repair -full {}",
    "resume-join": "bootstrap resume",
    "flush": "flush",
    "compact": "compact",
    "cleanup": "cleanup",
    "scrub": "scrub",
    "snapshot": "snapshot -t {}",
    "refresh": "refresh -- {}",
    "drain": "drain",
    "reset-schema": "resetlocalschema",
    "reload-schema": "reloadlocalschema",
    "gossip-off": "disablegossip",
    "gossip-on": "enablegossip",
    "clients-off": "disablebinary",
    "clients-on": "enablebinary",
    "hints-off": "disablehandoff",
    "hints-on": "enablehandoff",
}

_COMMITS_PAUSED: Final = "sjk mx -b org.apache.cassandra.tcm:type=CMSOperations -f CommitsPaused -ms -v"
"""nodetool has no word of its own for it; `sjk` sets an attribute over JMX."""

_BY_LINE: Final = (
    (
        (6, 0),
        Topology(
            remove_verb="removenode",
            removed_by="host-id",
            replace_setting="cassandra.replace_address_first_boot",
            replaced_by="address",
            can_assassinate=True,
            verbs={
                **_VERBS,
                "reconfigure": "cms reconfigure {}",
                "abort-join": "abortbootstrap --ip {}",
                "abort-leave": "abortdecommission",
                "abort-move": "abortmove",
                "abort-remove": "abortremovenode --node {}",
                "pause-commits": f"{_COMMITS_PAUSED} true",
                "resume-commits": f"{_COMMITS_PAUSED} false",
            },
            refusals=(*_REFUSALS, "Can not commit transformation: .INVALID."),
        ),
    ),
    (
        (2, 2),
        Topology(
            remove_verb="removenode",
            removed_by="host-id",
            replace_setting="cassandra.replace_address_first_boot",
            replaced_by="address",
            can_assassinate=True,
            verbs=_VERBS,
            refusals=_REFUSALS,
        ),
    ),
    (
        (1, 2),
        Topology(
            remove_verb="removenode",
            removed_by="host-id",
            replace_setting="cassandra.replace_address_first_boot",
            replaced_by="address",
            can_assassinate=False,
        ),
    ),
    (
        (1, 0),
        Topology(
            remove_verb="removetoken",
            removed_by="token",
            replace_setting="cassandra.replace_token",
            replaced_by="token",
            can_assassinate=False,
        ),
    ),
    (
        (0, 0),
        Topology(
            remove_verb="removetoken",
            removed_by="token",
            replace_setting=None,
            replaced_by=None,
            can_assassinate=False,
        ),
    ),
)
"""From which line (major, minor) on, newest first."""


def topology_of(line: tuple[int, int]) -> Topology:
    """Find the verbs of that line."""
    return next(topology for first, topology in _BY_LINE if first <= line)
