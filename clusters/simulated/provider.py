"""Simulated: models of schema protocols in virtual time, each run repeated by its seed (`--cluster simulated`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from schemaquake.clusters.simulated.aims import OPTIONS as AIMS
from schemaquake.clusters.simulated.aims import aim_all, parse_end, parse_strikes
from schemaquake.clusters.simulated.cluster import SimulatedCluster
from schemaquake.clusters.simulated.draws import Draws
from schemaquake.clusters.simulated.faces import ChangingRing, Model, Recovering, Watched
from schemaquake.clusters.simulated.kernel import Kernel
from schemaquake.clusters.simulated.models.commit_rules import parse_rules
from schemaquake.clusters.simulated.models.gossiped_ring import GossipedRing
from schemaquake.clusters.simulated.models.group0 import Group0
from schemaquake.clusters.simulated.models.merged_rows import MergedRows, Release
from schemaquake.clusters.simulated.models.metadata_log import MetadataLog
from schemaquake.clusters.simulated.models.migrations import Migrations
from schemaquake.clusters.simulated.models.rows import Rows
from schemaquake.clusters.simulated.models.sequences import Sequences
from schemaquake.clusters.simulated.models.topology_coordinator import Coordinator
from schemaquake.clusters.simulated.ring import Ring
from schemaquake.clusters.simulated.slow_links import OPTIONS as SLOW_LINKS
from schemaquake.clusters.simulated.slow_links import parse_slow_links
from schemaquake.clusters.systems.simulated.family import Blueprint, blueprint_of, flaws_of, promises_of
from schemaquake.clusters.systems.system import parse_system
from schemaquake.harness.ddl.schema_changes import SCHEMA_CHANGES
from schemaquake.harness.errors import PlanError
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.model.protocols import Demands
from schemaquake.harness.model.topology import TopologyVerb
from schemaquake.harness.placements.ring import Location
from schemaquake.harness.run.event_heap import EventHeap
from schemaquake.harness.run.simulated_runtime import SimulatedRuntime

__all__ = [
    "OPTIONS",
    "SimulatedProvider",
    "asks_before_it_answers",
    "list_habits",
    "list_recovery_steps",
    "list_ring_steps",
    "list_steps",
    "list_steps_of",
    "list_verbs",
]

_Build: TypeAlias = Callable[[Ring, frozenset[str], Blueprint, Mapping[str, str]], Model]

OPTIONS: Final[Mapping[str, str]] = {
    "bugs": "the flaws that are switched on: `default`, `none`, or names with + or -, with commas",
    "bug": "one flaw alone, switched on in a design that has no other",
    **AIMS,
    **SLOW_LINKS,
    "order": "what brings changes into one order in designs that have none, without the flaw `no-order` (up to 5.0): `sequencer`, at once on all nodes, or `turns`, one after another by the design's own protocol",
    "log": "how members decide an entry of the log (6.0): `register`, at once and by a majority, or `paxos`, by messages and with state on disk",
    "snapshots": "how often a node puts its log into a snapshot: `seldom`, every hundredth epoch (6.0) or twenty-fourth entry (group 0), or `often`, every eighth or fourth",
    "append": "how many entries of group 0 a leader sends at a time: `many`, all that a member lacks, or `single`, one after another",
    "invariants": "whether what must hold of all nodes at once is looked at from outside: `unchecked`, or `checked`, where a breach stands as a failed assertion in a node's log",
    "cms.pause": "commits that wait for 4 s before they are made (6.0): create-table, or FINISH_JOIN@2 for its second; with commas",
    "cms.refuse": "commits that are refused (6.0)",
    "cms.delay": "commits that the other nodes are sent 4 s later (6.0)",
    "cms.drop": "commits that the other nodes are not sent, and whose answer is lost (6.0)",
    "cms.double": "commits that the other nodes are sent twice (6.0)",
    "cms.reorder": "commits that the other nodes are sent after the next one (6.0)",
}

ORDERS: Final = ("sequencer", "turns")
"""What stands in for the order that designs up to 5.0 lack, where they are not to show that."""
LOGS: Final = ("register", "paxos")
"""The ways in which an entry of the metadata log is decided."""
SNAPSHOTS: Final = ("seldom", "often")
"""How often a node puts its log into a snapshot."""

APPENDS: Final = ("many", "single")
"""How many entries of its log a leader of group 0 sends at a time."""

_HABITS: Final = frozenset({"order", "log", "snapshots", "append"})
"""Options by which some designs do something in several ways; see `list_habits`."""

INVARIANTS: Final = ("unchecked", "checked")
"""Whether an observer of all nodes looks at what the design says of them."""

_MODELS: Final[Mapping[str, _Build]] = {
    "raft-group": lambda ring, flaws, _blueprint, options: Group0(
        ring,
        flaws,
        **({"snapshot_every": 4, "trailing": 2} if _has_often_snapshots(options) else {}),
        **({"entries_most": 1} if _has_single_appends(options) else {}),
    ),
    "merged-schema-rows": lambda ring, flaws, blueprint, options: MergedRows(
        ring, flaws, Release(**blueprint.release), pull_delay_s=blueprint.pull_delay_s, by_turns=_is_by_turns(options)
    ),
    "metadata-log": lambda ring, flaws, _blueprint, options: MetadataLog(
        ring,
        flaws,
        parse_rules(options, SCHEMA_CHANGES),
        by_paxos=_is_by_paxos(options),
        snapshot_every=8 if _has_often_snapshots(options) else 100,
    ),
    "ordered-migrations": lambda ring, flaws, _blueprint, options: Migrations(
        ring, flaws, by_turns=_is_by_turns(options)
    ),
    "rows": lambda ring, flaws, blueprint, options: Rows(
        ring, flaws, pull_delay_s=blueprint.pull_delay_s, by_turns=_is_by_turns(options)
    ),
}
"""Models by the name that a blueprint gives."""


def _is_by_turns(options: Mapping[str, str]) -> bool:
    order = options.get("order", ORDERS[0])
    if order not in ORDERS:
        raise PlanError(f"-O order={order}: {' or '.join(ORDERS)}")
    return order == "turns"


def _is_by_paxos(options: Mapping[str, str]) -> bool:
    log = options.get("log", LOGS[0])
    if log not in LOGS:
        raise PlanError(f"-O log={log}: the log is a {' or '.join(LOGS)}")
    return log == "paxos"


def _has_often_snapshots(options: Mapping[str, str]) -> bool:
    often = options.get("snapshots", SNAPSHOTS[0])
    if often not in SNAPSHOTS:
        raise PlanError(f"-O snapshots={often}: {' or '.join(SNAPSHOTS)}")
    return often == SNAPSHOTS[1]


def _has_single_appends(options: Mapping[str, str]) -> bool:
    append = options.get("append", APPENDS[0])
    if append not in APPENDS:
        raise PlanError(f"-O append={append}: {' or '.join(APPENDS)}")
    return append == APPENDS[1]


def _has_checked_invariants(options: Mapping[str, str]) -> bool:
    wanted = options.get("invariants", INVARIANTS[0])
    if wanted not in INVARIANTS:
        raise PlanError(f"-O invariants={wanted}: {' or '.join(INVARIANTS)}")
    return wanted == "checked"


def list_steps() -> Mapping[str, str]:
    """List the steps of all models, each with the module that describes its protocol."""
    models = (Migrations, MergedRows, Rows, Group0, MetadataLog)
    return {step: model.__module__.rpartition(".")[2] for model in models for step in model.steps}


def list_steps_of(system: str) -> tuple[str, ...]:
    """List the steps of the protocols of a simulated system."""
    return _model_of(system).steps


def _model_of(system: str) -> Model:
    """Return a model of the system with one node, to be asked what it is able to do."""
    blueprint = blueprint_of(system)
    return _MODELS[blueprint.model](Ring(("n1",)), frozenset(), blueprint, {})


def list_ring_steps() -> frozenset[str]:
    """List the steps that only a change of the ring, or of the group, comes to."""
    return frozenset({*Sequences.steps, *GossipedRing.steps, *Coordinator.steps, *Group0.recovery})


def list_recovery_steps() -> frozenset[str]:
    """List the steps that only the recovery of a lost group comes to."""
    return frozenset(Group0.recovery)


def asks_before_it_answers(system: str) -> bool:
    """Return whether a coordinator of a simulated system carries out all that was committed before it answers."""
    return blueprint_of(system).model == "raft-group"


def list_verbs(system: str) -> frozenset[TopologyVerb]:
    """List what an operator can ask of the ring of a simulated system; empty: it does not change, and no node joins it."""
    model = _model_of(system)
    if not isinstance(model, ChangingRing):
        return frozenset()
    topology = parse_system(system).topology
    by_hand = topology.by_hand if isinstance(model, Recovering) else frozenset()
    return by_hand | {verb for verb in model.verbs if topology.commands(verb, "?")}


def list_habits(system: str) -> Mapping[str, tuple[str, ...]]:
    """List the options by which a design does something in several ways, each with its values, the usual one first."""
    match blueprint_of(system).model:
        case "metadata-log":
            return {"log": LOGS, "snapshots": SNAPSHOTS}
        case "raft-group":
            return {"snapshots": SNAPSHOTS, "append": APPENDS}
    return {"order": ORDERS}


def _refuse_foreign(plan: Plan) -> None:
    """Refuse options that choose a way of another design: this one would ignore them. Raises PlanError."""
    habits = list_habits(plan.system)
    has_log = blueprint_of(plan.system).model == "metadata-log"
    for name in plan.options:
        if (name in _HABITS and name not in habits) or (name.startswith("cms.") and name in OPTIONS and not has_log):
            own = [*habits, *(option for option in OPTIONS if option.startswith("cms.") and has_log)]
            raise PlanError(f"-O {name} is not applicable to {plan.system}. Applicable: {', '.join(own)}.")


class SimulatedProvider:
    """Clusters in virtual time: no Java, no root, no waiting."""

    name = "simulated"
    takes_options = OPTIONS
    prepares_spares = True
    has_data_centers = True

    def __init__(self) -> None:
        self._runtime: SimulatedRuntime | None = None

    def prepare(self, plan: Plan, folder: Path) -> Mapping[str, str]:  # noqa: ARG002 - nothing is fetched
        """Refuse what cannot be simulated. Raises PlanError."""
        blueprint = blueprint_of(plan.system)
        flaws = flaws_of(blueprint, plan.options)
        promises = "; ".join(f"{promise.text} ({promise.source})" for promise in promises_of(blueprint))
        return {"simulated": blueprint.like, "flaws": ", ".join(sorted(flaws)) or "none", "promises": promises}

    def demands(self, plan: Plan) -> Demands:
        """Return the features of the system; memory is hardly needed. Raises PlanError."""
        return Demands(memory_mb=200, features=parse_system(plan.system).features)

    def unstarted(self, plan: Plan) -> SimulatedCluster:
        """Return the cluster of the plan, of which no node runs. Raises PlanError, also for an option that its design ignores."""
        _refuse_foreign(plan)
        provider = SimulatedProvider()  # so that a cluster that is shown is not the one that runs
        provider.runtime(plan)
        return provider.create(plan, Path())

    def enclosure(self, folder: Path) -> Sequence[str]:  # noqa: ARG002 - nothing is to be enclosed
        """Return no command."""
        return ()

    def runtime(self, plan: Plan) -> SimulatedRuntime:  # noqa: ARG002 - the heap begins at 0 for all
        """Return the runtime in virtual time that the cluster shares."""
        self._runtime = SimulatedRuntime(EventHeap())
        return self._runtime

    def create(self, plan: Plan, folder: Path) -> SimulatedCluster:
        """Create the cluster of this plan. Raises PlanError."""
        assert self._runtime is not None
        blueprint = blueprint_of(plan.system)
        kernel = Kernel(self._runtime.heap, Draws(plan.seed))
        locations = {name: Location(center, rack) for name, (center, rack) in plan.locations.items()}
        centers = {name: center for name, (center, _) in plan.locations.items()}
        model = _MODELS[blueprint.model](
            Ring(plan.node_names, locations), flaws_of(blueprint, plan.options), blueprint, plan.options
        )
        everybody = (*plan.node_names, *plan.spare_names)
        strikes = parse_strikes(plan.options, model.steps, everybody)
        within_ns = parse_end(plan.options)
        slow_links = parse_slow_links(plan.options, everybody, centers)

        def aim() -> None:
            """Aim only now: passages are counted from when the cluster stands."""
            cluster.nodes[0].network.slow_down(slow_links)
            aim_all(kernel, {node.name: node for node in cluster.nodes}, strikes, within_ns=within_ns)

        cluster = SimulatedCluster(
            parse_system(plan.system),
            model,
            kernel,
            names=plan.node_names,
            folder=folder,
            start_timeout_s=plan.start_timeout_s,
            started=aim,
            spares=plan.spare_names,
            locations=locations,
        )
        cluster.kills_servers = any(strike.verb == "kill" for strike in strikes)
        if _has_checked_invariants(plan.options) and isinstance(model, Watched):
            model.watch(cluster.nodes)
        return cluster

    def heal(self, folder: Path) -> Sequence[str]:  # noqa: ARG002 - a simulation leaves nothing behind
        """Undo nothing: a simulation ends with its process."""
        return ()
