"""ScyllaDB: one line from 5.2 on, whose schema is the log of group 0.

It goes by its documentation, and was never run here. Before 5.2 group 0 is behind a switch that cannot be undone, so
nothing is known of those. User-defined functions are behind a switch in all versions, and left out. Views, indexes,
conditional writes and counters are without one for keyspaces without tablets, which those of SimpleStrategy are.
"""

from __future__ import annotations

from typing import Final

from schemaquake.clusters.systems.dialect import CqlDialect
from schemaquake.clusters.systems.scylladb.container import CONTAINER
from schemaquake.clusters.systems.scylladb.group0 import Group0
from schemaquake.clusters.systems.scylladb.outcomes import TABLE
from schemaquake.clusters.systems.scylladb.read_barrier import Group0Barrier
from schemaquake.clusters.systems.system import System, split_system
from schemaquake.clusters.systems.topology import Topology
from schemaquake.harness.errors import PlanError

__all__ = ["DIALECT", "ScyllaDb"]

_FIRST_LINE: Final = (5, 2)  # 6.2 is followed by 2025.1
_FEATURES: Final = frozenset(
    {
        *("keyspaces", "tables", "columns", "options", "indexes", "types", "views"),
        *("cql", "collections", "counters", "batches", "rename", "column-drops", "conditional-writes"),
    }
)
_TOPOLOGY: Final = Topology(
    remove_verb="removenode",
    removed_by="host-id",
    replace_setting="replace_node_first_boot",  # of scylla.yaml, 5.2 and later
    replaced_by="host-id",
    can_assassinate=False,
    outlives_restart=True,  # a request stands in `system.topology`, and the coordinator comes to it ("Topology over Raft")
    # Of keyspaces without tablets, as those of SimpleStrategy are ("Nodetool repair"); always of all rows.
    verbs={"repair": "repair {}"},
    by_hand=frozenset(
        {"recover-group"}
    ),  # "Manual Recovery Procedure" of its documentation: settings, and restarts of all
)
_MEMORY_MB: Final = 1500
"""The least memory that its documentation gives a container."""

DIALECT: Final = CqlDialect(
    protocol_version=4, schema=Group0(), outcomes=TABLE, barrier=Group0Barrier(), authority="group0"
)


class ScyllaDb:
    """The family `scylladb`."""

    title = "ScyllaDB"
    known_versions = ("5.2", "5.4", "6.0", "6.1", "6.2", "2025.1")  # any version of a line is spoken to alike

    def parse(self, text: str) -> System:
        """Make the system of `scylladb:6.2.3`. Raises PlanError for a version before group 0."""
        product, version, line = split_system(text)
        if line < _FIRST_LINE:
            raise PlanError(f"nothing is known of {text}; known is {self.title} 5.2 and later")
        return System(
            product=product,
            version=version,
            era="group0",
            features=_FEATURES,
            authority=DIALECT.authority,
            cql=DIALECT,
            start="first-alone",  # up to 5.4 nodes join one at a time; from 6.0 on they need not
            layout="folders-with-ids",
            memory_mb=_MEMORY_MB,
            pull_delay_s=0,
            topology=_TOPOLOGY,
            container=CONTAINER,
        )
