"""Topology of Cassandra: which verbs and properties each line has.

Read from the verbs of nodetool and the properties in the jars of 0.7.10, 1.1.12, 1.2.19, 5.0.9 and 6.0-alpha2; for lines
between them from their tickets: CASSANDRA-957 (replace a dead node, 1.0), CASSANDRA-4120 (host ids, 1.2), CASSANDRA-5916
(replace by address, 1.2.11), CASSANDRA-7935 (assassinate, 2.2), CASSANDRA-6719 (import, 4.0). The jar of 6.0-alpha2 has no sstableloader.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from schemaquake.clusters.systems.topology import ManagementCall, Tool, Topology
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

_LOADER: Final[Mapping[TopologyVerb, str]] = {"load": "-d {}"}
_LOADER_TOOLS: Final[Mapping[TopologyVerb, Tool]] = {"load": "sstableloader"}
_IMPORT: Final[Mapping[TopologyVerb, str]] = {"import": "import {}"}

_COMMITS_PAUSED: Final = "sjk mx -b org.apache.cassandra.tcm:type=CMSOperations -f CommitsPaused -ms -v"
"""nodetool has no word of its own for it; `sjk` sets an attribute over JMX."""

_SERVICE: Final = "org.apache.cassandra.db:type=StorageService"
_PROXY: Final = "org.apache.cassandra.db:type=StorageProxy"
_CALLS: Final[Mapping[TopologyVerb, ManagementCall]] = {
    "reset-schema": ManagementCall(bean=_SERVICE, name="resetLocalSchema"),
    "reload-schema": ManagementCall(bean=_SERVICE, name="reloadLocalSchema"),
    "gossip-off": ManagementCall(bean=_SERVICE, name="stopGossiping"),
    "gossip-on": ManagementCall(bean=_SERVICE, name="startGossiping"),
    "hints-off": ManagementCall(bean=_PROXY, name="HintedHandoffEnabled", arguments=(False,), sets=True),
    "hints-on": ManagementCall(bean=_PROXY, name="HintedHandoffEnabled", arguments=(True,), sets=True),
}
"""What nodetool does for these verbs (`tools/nodetool`, `NodeProbe`)."""
_COMMITS: Final = ManagementCall(
    bean="org.apache.cassandra.tcm:type=CMSOperations", name="CommitsPaused", arguments=(True,), sets=True
)

_SINCE_2_2: Final = Topology(
    remove_verb="removenode",
    removed_by="host-id",
    replace_setting="cassandra.replace_address_first_boot",
    replaced_by="address",
    can_assassinate=True,
    verbs={**_VERBS, **_LOADER},
    tools=_LOADER_TOOLS,
    calls=_CALLS,
    ring_bean=_SERVICE,
    refusals=_REFUSALS,
)

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
                **_IMPORT,
                "reconfigure": "cms reconfigure {}",
                "abort-join": "abortbootstrap --ip {}",
                "abort-leave": "abortdecommission",
                "abort-leave-of-dead": "abortdecommission --node {}",
                "abort-move": "abortmove",
                "abort-move-of-dead": "abortmove --node {}",
                "abort-remove": "abortremovenode --node {}",
                "pause-commits": f"{_COMMITS_PAUSED} true",
                "resume-commits": f"{_COMMITS_PAUSED} false",
            },
            calls={**_CALLS, "pause-commits": _COMMITS, "resume-commits": replace(_COMMITS, arguments=(False,))},
            ring_bean=_SERVICE,
            refusals=(
                *_REFUSALS,
                "Can not commit transformation: .INVALID.",
                "Can't abort bootstrap for .* it is alive",
            ),
        ),
    ),
    ((4, 0), replace(_SINCE_2_2, verbs={**_SINCE_2_2.verbs, **_IMPORT})),
    ((2, 2), _SINCE_2_2),
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
