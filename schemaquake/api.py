"""The public face: every name that a package of workloads, nemeses, checkers, formats or systems needs.

What is not here may change with any release. Each kind is found through an entry point, as pytest finds its plugins, and
nothing inherits from anything here: a protocol says what a plugin has, and its traits say what it may declare besides.

**Workloads** (`schemaquake.workloads`): Workload, WorkloadTraits, Context, Worker, Phase; the steps Invoke, Require, Meet, Wait
and Note (Step is any of them); the modules schema_changes and rows, whose functions make steps, and statement, which shows
the CQL of one; Query for CQL of one's own, MicroOp for transactions; the module
options, to declare and read `-O`; FaultRequest, for a fault that lasts as long as the main phase.

**Nemeses** (`schemaquake.nemeses`): Nemesis, NemesisTraits, Fault, Undo; the optional verbs Undoable, OwnLack, AllowedByOptions
and Shortenable; TopologyNemesis, whose faults are operations on the membership, with MemberState and Completion; Cluster, Node and Executed, through which faults act; and what ours are made with: configured (options), targeted
(a timetable), named (nodes by name), on_every (all nodes at once), Activities (a fault that goes on), until (a wait).

**Checkers** (`schemaquake.checkers`): Checker, Records, Verdict, Anomaly, Doubt, Stat, make_stats, Validity; plain, pair and operations to read records,
HISTORY and OBSERVATIONS (their schemas) to write some in a test; and, for the types in one's own `anomalies.toml` (the entry
point `schemaquake.anomalies` names the package that has it), anomaly to make a finding and Argument to explain it.

**History formats** (`schemaquake.formats`): HistoryFormat.

**Systems** (`schemaquake.systems`): SystemFamily, System, parse_system, split_system; and, for a system that is no fork of one that
is known, what a System is made of: CqlDialect, SchemaReading, ReadBarrier, Barrier, Outcome, Container, Topology, ToolCommand.

**Clusters** (`schemaquake.clusters`): Provider, Cluster, ClusterTraits, CatchingUp, Guarded, MemberListing (Member, MemberState), Node, Boot, Connector, Client, Completion,
Observation.

**Errors**: SchemaquakeError and all below it, PlanError, ClusterError, NodeUnreachable, NodeDied, StartTimeout, HealError,
EnvironmentLacks, HistoryError. JSON is the type of what is written down.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from schemaquake.harness.ddl import rows, schema_changes
from schemaquake.harness.ddl.cql import statement
from schemaquake.harness.errors import (
    ClusterError,
    EnvironmentLacks,
    HealError,
    HistoryError,
    NodeDied,
    NodeUnreachable,
    PlanError,
    SchemaquakeError,
    StartTimeout,
)
from schemaquake.harness.model import options
from schemaquake.harness.model.membership import Member, MemberState
from schemaquake.harness.model.observation import Observation
from schemaquake.harness.model.operation import JSON, Completion, MicroOp
from schemaquake.harness.model.protocols import (
    AllowedByOptions,
    Boot,
    CatchingUp,
    Checker,
    Client,
    Cluster,
    Connector,
    Context,
    Executed,
    Fault,
    FaultRequest,
    Guarded,
    HistoryFormat,
    MemberListing,
    Nemesis,
    Node,
    OwnLack,
    Phase,
    Provider,
    Shortenable,
    TopologyNemesis,
    Undo,
    Undoable,
    Worker,
    Workload,
)
from schemaquake.harness.model.queries import Query
from schemaquake.harness.model.steps import Invoke, Meet, Note, Require, Step, Wait
from schemaquake.harness.model.traits import ClusterTraits, NemesisTraits, WorkloadTraits
from schemaquake.harness.model.verdict import Anomaly, Doubt, Stat, Validity, Verdict, make_stats
from schemaquake.harness.wait import until

if TYPE_CHECKING:
    from schemaquake.checkers.evidence.operations import operations
    from schemaquake.checkers.findings.argument import Argument
    from schemaquake.checkers.findings.catalogue import anomaly
    from schemaquake.clusters.systems.dialect import Barrier, CqlDialect, ReadBarrier, SchemaReading
    from schemaquake.clusters.systems.outcome import Outcome
    from schemaquake.clusters.systems.system import Container, System, SystemFamily, parse_system, split_system
    from schemaquake.clusters.systems.topology import ToolCommand, Topology
    from schemaquake.harness.history.pairing import pair
    from schemaquake.harness.model.records import HISTORY, OBSERVATIONS, Records, plain
    from schemaquake.nemeses.schedule.activity import Activities
    from schemaquake.nemeses.schedule.every_node import on_every
    from schemaquake.nemeses.schedule.options import configured
    from schemaquake.nemeses.schedule.targets import named
    from schemaquake.nemeses.schedule.timetable import targeted

__all__ = [
    "HISTORY",
    "JSON",
    "OBSERVATIONS",
    "Activities",
    "AllowedByOptions",
    "Anomaly",
    "Argument",
    "Barrier",
    "Boot",
    "CatchingUp",
    "Checker",
    "Client",
    "Cluster",
    "ClusterError",
    "ClusterTraits",
    "Completion",
    "Connector",
    "Container",
    "Context",
    "CqlDialect",
    "Doubt",
    "EnvironmentLacks",
    "Executed",
    "Fault",
    "FaultRequest",
    "Guarded",
    "HealError",
    "HistoryError",
    "HistoryFormat",
    "Invoke",
    "Meet",
    "Member",
    "MemberListing",
    "MemberState",
    "MicroOp",
    "Nemesis",
    "NemesisTraits",
    "Node",
    "NodeDied",
    "NodeUnreachable",
    "Note",
    "Observation",
    "Outcome",
    "OwnLack",
    "Phase",
    "PlanError",
    "Provider",
    "Query",
    "ReadBarrier",
    "Records",
    "Require",
    "SchemaReading",
    "SchemaquakeError",
    "Shortenable",
    "StartTimeout",
    "Stat",
    "Step",
    "System",
    "SystemFamily",
    "ToolCommand",
    "Topology",
    "TopologyNemesis",
    "Undo",
    "Undoable",
    "Validity",
    "Verdict",
    "Wait",
    "Worker",
    "Workload",
    "WorkloadTraits",
    "anomaly",
    "configured",
    "make_stats",
    "named",
    "on_every",
    "operations",
    "options",
    "pair",
    "parse_system",
    "plain",
    "rows",
    "schema_changes",
    "split_system",
    "statement",
    "targeted",
    "until",
]

_LATER: Final = {
    "schemaquake.checkers.evidence.operations": ("operations",),
    "schemaquake.checkers.findings.argument": ("Argument",),
    "schemaquake.checkers.findings.catalogue": ("anomaly",),
    "schemaquake.clusters.systems.dialect": ("Barrier", "CqlDialect", "ReadBarrier", "SchemaReading"),
    "schemaquake.clusters.systems.outcome": ("Outcome",),
    "schemaquake.clusters.systems.system": ("Container", "System", "SystemFamily", "parse_system", "split_system"),
    "schemaquake.clusters.systems.topology": ("ToolCommand", "Topology"),
    "schemaquake.harness.history.pairing": ("pair",),
    "schemaquake.harness.model.records": ("HISTORY", "OBSERVATIONS", "Records", "plain"),
    "schemaquake.nemeses.schedule.activity": ("Activities",),
    "schemaquake.nemeses.schedule.every_node": ("on_every",),
    "schemaquake.nemeses.schedule.options": ("configured",),
    "schemaquake.nemeses.schedule.targets": ("named",),
    "schemaquake.nemeses.schedule.timetable": ("targeted",),
}
"""Modules that are imported when one of their names is asked for: a worker that only takes steps needs neither Arrow nor checkers."""


def __getattr__(name: str) -> Any:
    """Import a name of `_LATER`."""
    for module, later in _LATER.items():
        if name in later:
            return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
