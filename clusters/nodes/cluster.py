"""Deployed cluster: nodes that exist before and after the run, or that live on when the harness dies.

Others may need them, so a run begins only on a cluster that is whole and in agreement, leaves nothing of its own
behind, checks at the end that the cluster is whole again, and reports what is not. Every fault has guards on the nodes.
"""

from __future__ import annotations

import copy
import logging
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Final, TypeVar

from schemaquake.clusters.cql.client import CqlClient, CqlConnector
from schemaquake.clusters.cql.prefix_guard import PrefixGuard
from schemaquake.clusters.nodes import keyspaces
from schemaquake.clusters.nodes.booting import boot_in_order, run_on_first
from schemaquake.clusters.nodes.every_node import on_every
from schemaquake.clusters.nodes.fence import FencedTransport
from schemaquake.clusters.nodes.guard import Guards
from schemaquake.clusters.nodes.guard_watch import GuardWatch
from schemaquake.clusters.nodes.lease import Leases
from schemaquake.clusters.nodes.node import ServerNode
from schemaquake.clusters.nodes.ownership import read_ownership
from schemaquake.clusters.nodes.reshaping import Reshaping, Spares
from schemaquake.clusters.nodes.ring import await_none_missing, taken_for_dead
from schemaquake.clusters.nodes.terms import OwnersTerms, RunOnNodes
from schemaquake.clusters.systems.system import System
from schemaquake.harness.errors import ClusterError, NodeUnreachable
from schemaquake.harness.model.files import ServerFiles
from schemaquake.harness.model.membership import SERVING, Member
from schemaquake.harness.model.observation import Observation
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.protocols import Boot, Connector, Fault, Node, StopCondition, Undo
from schemaquake.harness.model.topology import Attempt, TopologyVerb
from schemaquake.harness.wait import until

__all__ = ["DeployedCluster"]

log = logging.getLogger(__name__)

T = TypeVar("T")

_REQUEST_LIMIT_S: Final = 20.0
_AGREEMENT_LIMIT_S: Final = 30.0
_WHOLE_LIMIT_S: Final = 30.0
_BARRIER_LIMIT_S: Final = 10.0
_SERVERS_OWN: Final = re.compile(r"system(_.*)?")
"""The names of the server's own keyspaces."""
_NOT_RESHAPED: Final = "nodes of a deployed cluster are neither added nor removed"


class DeployedCluster:
    """A `schemaquake.harness.model.protocols.Cluster`, and `Guarded`, of nodes behind any transport."""

    def __init__(
        self,
        nodes: Sequence[ServerNode],
        system: System,
        cql: CqlConnector,
        guards: Guards,
        run: RunOnNodes,
        *,
        owner: OwnersTerms | None = None,
        spares: Spares | None = None,
        leases: Leases | None = None,
        missing: Callable[[str], str | None] = lambda _: None,
        files: Callable[[str], ServerFiles] | None = None,
        ends: Callable[[], None] = lambda: None,
    ) -> None:
        """`nodes` are the founders and the spares; `owner` is None for nodes that the run made itself.

        `leases` are those of the hosts; None for nodes that no other run can reach. `missing` answers as `Cluster.missing`
        does. `files` returns where a node's server has its files, of nodes that the run made; None: they are an owner's.
        `ends` is called after everything else was torn down, even if that failed.
        """
        owner, spares = owner or OwnersTerms(), spares or Spares()
        self.nodes: Sequence[Node] = nodes
        self.run_name = run.name
        self._nodes = nodes
        self._founders = [node for node in nodes if node.name not in spares.names]
        self.features = system.features
        self.pull_delay_s = system.pull_delay_s
        self._system = system
        self._barrier = None if system.cql is None else system.cql.barrier
        self.max_fault_s = guards.max_fault_s
        self._cql = cql
        self._guards = guards
        self._guard_watch = GuardWatch(guards)
        self._leases = leases
        self._run = run
        self._owner = owner
        self._spares = spares
        self._missing = missing
        self.max_nodes_down = owner.max_nodes_down
        self._files = files
        self._ends = ends
        self._stopped = False
        self._begun = False
        """True once running servers were found whole, so that they must be whole at the end."""
        self._armed: set[int] = set()
        self._may_reshape = spares.prepare_to_join is not None
        self._reshaping = Reshaping(
            nodes,
            system,
            None if system.cql is None else cql,
            spares=spares.names,
            prepare=spares.prepare_to_join or _refuse_to_join,
        )

    # ── life ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def start(self) -> Sequence[Boot]:
        """Check servers that run already, or start them in their line's order, and require a whole cluster.

        Hosts that outlive the run are leased first: a host that another run holds is refused, with that run, its owner and
        the time that is left.
        Raises ClusterError naming everything that is wrong with the cluster; then only the run's folder on the nodes was
        made, which `stop` removes. Raises NodeDied, StartTimeout for servers that it started.
        """
        if self._leases is not None:
            self._leases.take()
        if unfit := self._spares.unfit():
            raise ClusterError("; ".join(unfit))
        self._on_all(ServerNode.prepare)
        self._on_all(lambda node: node.log.begin())
        began = time.monotonic()
        started = [] if self._run.begins == "serving" else self._boot()
        self._refuse_unless_whole()
        if started:
            run_on_first(self._nodes[0], self._system.after_first_boot(len(self._founders)))
        self._refuse_leftovers()
        if self._owner.alone:
            self._refuse_foreign()
        self._reshaping.begin()
        if started:
            return started
        self._begun = True
        return [Boot(node=node.name, served=True, seconds=time.monotonic() - began) for node in self._founders]

    def stop(self) -> None:
        """Drop the run's keyspaces (unless `--keep-data`), check that the cluster is whole, and remove the run's files.

        Every step is tried. Raises an ExceptionGroup of what failed. A node on which a guard may be needed keeps its files.
        """
        if self._stopped:
            return
        self._stopped = True  # errors are raised once
        steps: list[Callable[[], object]] = []
        if self._begun:
            steps += [self._drop_keyspaces, self._refuse_unless_whole]
        steps += [self._spares.tidy, self._end_renewing, *(partial(self._leave, node) for node in self._nodes)]
        errors: list[Exception] = []
        for step in (self._reshaping.close, *steps, self._ends):
            try:
                step()
            except Exception as error:  # noqa: BLE001 - teardown goes on and raises everything at the end
                log.error("the cluster is not as it was", extra={"why": str(error)})  # noqa: TRY400 - raised below
                errors.append(error)
        if errors:
            raise ExceptionGroup("the cluster is not as it was", errors)

    def _leave(self, node: ServerNode) -> None:
        """Copy the node's log and remove the run's files, unless a guard there may be needed."""
        try:
            node.log.keep()
            if self._armed:
                raise ClusterError(
                    f"node {node.name}: faults {', '.join(map(str, sorted(self._armed)))} may not be healed; their "
                    f"guards there undo them in at most {self.max_fault_s:g} s, `schemaquake heal {self._run.folder}` at once"
                )
            node.folder.remove()
            if self._leases is not None:
                self._leases.release(node.name)
        finally:
            node.transport.close()

    def _end_renewing(self) -> None:
        self._guard_watch.close()
        if self._leases is not None:
            self._leases.let_expire()

    def _boot(self) -> list[Boot]:
        return boot_in_order(
            self._founders,
            first_alone=self._run.begins == "first-alone",
            timeout_s=self._run.start_timeout_s,
            system=str(self._system),
        )

    # ── checks ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _refuse_unless_whole(self) -> None:
        """Require that every server serves, that all know one another, and that schema versions agree. Raises ClusterError."""
        members = self._members_now()
        wrong = [fault for found in self._on_all(_unwell, members).values() for fault in found]
        if not wrong:
            unknown = self.await_whole([node.name for node in members], deadline_s=_WHOLE_LIMIT_S)
            wrong = [text for text in (unknown, self._disagreement()) if text is not None]
        if wrong:
            raise ClusterError(f"the cluster is not whole: {'; '.join(wrong)}")

    def _members_now(self) -> Sequence[ServerNode]:
        """List the nodes that are to serve: the founders, and once operations may have changed that, those that are members."""
        if not (self._begun and self._may_reshape):
            return self._founders
        states = {name: member.state for name, member in self.members().items()}
        return [node for node in self._nodes if states[node.name] in SERVING]

    def _disagreement(self) -> str | None:
        """Wait for one schema version. Describe the versions of all nodes if they still differ, else return None."""
        seen: dict[str, str] = {}

        def agreed() -> bool:
            seen.update({name: _version(observed) for name, observed in self._observed().items()})
            return len(set(seen.values())) == 1

        try:
            until(agreed, deadline_s=_AGREEMENT_LIMIT_S, what="agreement on the schema", every_s=1)
        except TimeoutError:
            versions = ", ".join(f"{name} has {version}" for name, version in sorted(seen.items()))
            return f"schema versions differ for {_AGREEMENT_LIMIT_S:g} s: {versions}"
        return None

    def _observed(self) -> Mapping[str, Sequence[Observation]]:
        """Read every node's account of its schema."""

        def observe(node: ServerNode) -> Sequence[Observation]:
            with self._session(node.name) as client:
                return client.observe(phase="running", sample=0, complete=False)

        return self._on_all(observe, self._members_now())

    def _refuse_leftovers(self) -> None:
        left = sorted(
            {name for observed in self._observed().values() for name in keyspaces.under(self._run.prefix, observed)}
        )
        if left:
            drops = " ".join(f"DROP KEYSPACE {name};" for name in left)
            raise ClusterError(
                f"there are keyspaces under the prefix {self._run.prefix}_ already: {', '.join(left)}. They cannot be told from this "
                f"run's own: drop them if an earlier run left them ({drops}), or choose another keyspace_prefix"
            )

    def _refuse_foreign(self) -> None:
        """Require that no rows of others are on the cluster whose membership this run changes. Raises ClusterError."""
        with self._session(self._founders[0].name) as client:
            names = client.dialect.schema.read_keyspaces(client.read)
        of_the_run = f"{self._run.prefix}_"
        foreign = sorted(name for name in names if not (name.startswith(of_the_run) or _SERVERS_OWN.fullmatch(name)))
        if foreign:
            raise ClusterError(
                f"operations on the topology concern every keyspace, and there are others' on this cluster: {', '.join(foreign)}. "
                "Leave those operations out, or, if that may be, write shared = true into the cluster file"
            )

    def await_whole(self, names: Sequence[str], *, deadline_s: float) -> str | None:
        """Wait until each of these nodes knows all the others and takes none for dead. Return what is missing, or None.

        The nodes that a node knows are in CQL; those that it takes for alive are only in its log. A server that was started
        before the run may have logged that long ago; one that was started since has logged it of each.
        """
        nodes = [node for node in self._nodes if node.name in names]

        def missing() -> Sequence[str]:
            return [text for found in self._on_all(partial(self._missing_at, nodes), nodes).values() for text in found]

        return await_none_missing(missing, deadline_s=deadline_s, every_s=1)

    def _missing_at(self, nodes: Sequence[ServerNode], node: ServerNode) -> Sequence[str]:
        """Describe which of the other nodes this one does not know, or takes for dead."""
        others = [other for other in nodes if other is not node]
        membership = self._system.membership
        try:
            with self._session(node.name) as client:
                known = membership.read_peers(client.read)
        except NodeUnreachable as error:
            return [str(error)]
        unknown = [f"{node.name} does not know {other.name}" for other in others if other.address not in known]
        return unknown or taken_for_dead(node, others, membership, silence_counts=False)

    def members(self) -> Mapping[str, Member]:
        """Read the state of every node from those that answer; before the start it is the plan. Raises ClusterError."""
        return self._reshaping.members()

    def ownership(self, names: Sequence[str], *, prefix: str) -> Mapping[str, JSON]:
        """Ask these nodes for the replicas of each range of the run's keyspaces. Raises ClusterError."""
        nodes = [node for node in self._nodes if node.name in names]
        return read_ownership(nodes, self._cql, self._system, prefix=prefix)

    def catch_up(self, names: Sequence[str]) -> Mapping[str, JSON]:
        """Have each of these nodes apply all that was committed before. Return by name whether it did; empty without barriers."""
        barrier = self._barrier
        if barrier is None:
            return {}
        nodes = [node for node in self._nodes if node.name in names]
        return self._on_all(lambda node: barrier.wait_on(node, timeout_s=_BARRIER_LIMIT_S).to_json(), nodes)

    # ── changes of the membership ────────────────────────────────────────────────────────────────────────────────────

    def cannot(self, verb: TopologyVerb) -> str | None:
        """Return why the cluster cannot be asked that; see `schemaquake.harness.model.topology.ChangesTopology`."""
        return self._reshaping.cannot(verb) if self._may_reshape else _NOT_RESHAPED

    def cannot_replace(self) -> str | None:
        """Return why no node can take a dead one's place; None if one can."""
        return (
            (self._spares.cannot_replace() or self._reshaping.cannot_replace()) if self._may_reshape else _NOT_RESHAPED
        )

    def outlives_restart(self) -> bool:
        """Return whether a change goes on when the node that began it is restarted."""
        return self._reshaping.outlives_restart()

    def ask(
        self, verb: TopologyVerb, *, on: str, about: str | None = None, argument: str | None = None, limit_s: float
    ) -> Attempt:
        """Ask node `on` for a change by nodetool. Raises ClusterError, also where the membership stays as it is."""
        if not self._may_reshape:
            raise ClusterError(_NOT_RESHAPED)
        self._refuse_if_taken()
        return self._reshaping.ask(verb, on=on, about=about, argument=argument, limit_s=limit_s)

    def join(self, node: str, *, replacing: str | None = None, limit_s: float) -> Attempt:
        """Start a node with an empty disk, and wait until it serves. Raises ClusterError."""
        self._refuse_if_taken()
        return self._reshaping.join(node, replacing=replacing, limit_s=limit_s)

    def steps(self, nodes: Sequence[str]) -> Collection[str]:
        """Return the steps at which the operation of these nodes is; see `schemaquake.harness.model.aim.ShowsSteps`."""
        return self._reshaping.steps(nodes)

    def steps_shown(self) -> Collection[str]:
        """Return the steps that this system can show; see `schemaquake.harness.model.aim.KnowsItsSteps`."""
        return self._reshaping.steps_shown()

    def await_dead(self, node: str, *, limit_s: float) -> str | None:
        """Wait until every other node that runs has logged that this one is down. Return what is missing, or None."""
        return self._reshaping.await_dead(node, limit_s=limit_s)

    def token_at(self, fraction: float) -> str:
        """Return the token that lies this far along the ring, from 0 to 1. Raises PlanError for a system not started here."""
        return self._reshaping.token_at(fraction)

    def server_files(self, node: str) -> ServerFiles:
        """Return the folders of a node's server; see `schemaquake.harness.model.files.ShowsFiles`. Raises ClusterError."""
        if self._files is None:
            raise ClusterError(f"the files of {node} are its owner's")
        return self._files(node)

    # ── what others use ─────────────────────────────────────────────────────────────────────────────────────────────

    def connector(self) -> Connector:
        """Make a connector whose sessions keep to the run's keyspaces."""
        return PrefixGuard(self._cql, self._run.prefix)

    def missing(self, means: str) -> str | None:
        """Return why the cluster lacks these means, None if it has them."""
        if means == "topology":
            return None if self._may_reshape else _NOT_RESHAPED
        return self._missing(means)

    def stop_conditions(self) -> Sequence[StopCondition]:
        """Make the owner's conditions, to be asked while faults are on."""
        return self._owner.conditions()

    def arm(self, fault: Fault, undo: Mapping[str, Sequence[Undo]]) -> None:
        """Have the nodes undo this fault by themselves; see `schemaquake.harness.model.protocols.Guarded`."""
        self._armed.add(fault.id)
        self._guards.arm(fault, undo)
        self._guard_watch.begin(fault.id, undo)
        # Only now: a run that takes our lease over looks for guards that stand, and we look for the lease, so one of us sees.
        if self._leases is not None:
            self._leases.require(undo)

    def disarm(self, fault: Fault) -> None:
        """Disarm the guards of this fault."""
        self._guards.disarm(fault)
        self._guard_watch.end(fault.id)
        self._armed.discard(fault.id)

    def abandon(self, fault: Fault) -> None:
        """End the guards of this fault without looking; see `schemaquake.harness.model.protocols.Fencing`."""
        self._guards.disarm(fault, unneeded=True)
        self._guard_watch.end(fault.id)
        self._armed.discard(fault.id)

    def refuse_if_taken(self, fault: Fault) -> None:
        """Raise ClusterError if another run holds a host; see `schemaquake.harness.model.protocols.Fencing`."""
        self._refuse_if_taken(fault.nodes)

    def fenced(self, fault: Fault) -> DeployedCluster:
        """Return the cluster as this fault's injection acts on it; see `schemaquake.harness.model.protocols.Fencing`."""
        view = copy.copy(self)
        view._nodes = [  # noqa: SLF001 - its own
            node.through(FencedTransport(node.transport, self._guards.of(node.name), fault.id), fault.id)
            for node in self._nodes
        ]
        view.nodes = view._nodes  # noqa: SLF001 - the same
        return view

    def expired(self, fault: Fault) -> Mapping[str, JSON]:
        """Report what guards of this fault have done by themselves."""
        return self._guards.expired(fault)

    # ── its parts ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _refuse_if_taken(self, names: Sequence[str] | None = None) -> None:
        """Require that no other run holds one of these hosts, by default of all. Raises ClusterError."""
        if self._leases is not None:
            self._leases.refuse_if_taken([node.name for node in self._nodes] if names is None else names)

    def _drop_keyspaces(self) -> None:
        if self._run.keep_data:
            return
        _, foreign = self.drop(keyspaces.made_by(self._run.folder))
        if foreign:
            raise ClusterError(
                f"these keyspaces under the prefix were not made by this run, as far as its journals show, and are left: {', '.join(foreign)}"
            )

    def drop(self, made: frozenset[str]) -> tuple[Sequence[str], Sequence[str]]:
        """Drop those of these keyspaces that exist, through the first node that accepts a session.

        Returns the dropped ones, and the others under the prefix, which are left alone. Raises ClusterError naming those
        that could not be dropped.
        """
        refusals = []
        for node in self._nodes:
            try:
                with self._session(node.name) as client:
                    there = keyspaces.under(self._run.prefix, client.observe(phase="running", sample=0, complete=False))
                    keyspaces.drop(there & made, client)
            except NodeUnreachable as error:
                refusals.append(str(error))
            else:
                return sorted(there & made), sorted(there - made)
        raise ClusterError(f"keyspaces of this run may be left: {', '.join(sorted(made))}: {'; '.join(refusals)}")

    def fire_guards_but(self, named: frozenset[int]) -> Sequence[str]:
        """Have the guards of all faults but these undo them now. Returns a sentence for each.

        Raises ClusterError for a host that does not answer and a fault that is not undone.
        """
        done = []
        for name, faults in self._guards.known().items():
            for number in sorted(set(faults) - named):
                fired = self._guards.of(name).fire(number)
                if fired is not None and not fired.ended:
                    raise ClusterError(f"node {name}: the guard of fault {number} goes on undoing it")
                done.append(f"node {name}: fault {number}, which the ledger does not name, was undone by its guard")
        return done

    def end_guards(self) -> Sequence[str]:
        """Disarm guards left over from faults already healed. Returns a sentence for each."""
        ended = []
        for name, faults in self._guards.known().items():
            for number in faults:
                self._guards.end(name, number)
                ended.append(f"node {name}: the guard of fault {number}, which is healed, was disarmed")
        return ended

    def clean(self) -> Sequence[str]:
        """Remove the run's files from every node. Returns a sentence for each node that had some. Raises ClusterError."""
        cleaned = self._on_all(lambda node: node.folder.remove())
        return [f"node {name}: the run's files were removed" for name, had in cleaned.items() if had]

    def lease_to_heal(self) -> None:
        """Take the hosts' leases, so that no run disturbs them meanwhile. Raises ClusterError if another run holds one."""
        if self._leases is not None:
            self._leases.take_to_heal()

    def end_leases(self) -> Sequence[str]:
        """Give the hosts' leases back. Return no sentence, because a lease is no damage. Raises ClusterError."""
        leases = self._leases
        if leases is not None:
            self._on_all(lambda node: leases.release(node.name))
        return []

    def close(self) -> None:
        """Close the transports of all nodes."""
        for node in self._nodes:
            node.transport.close()

    @contextmanager
    def _session(self, name: str) -> Iterator[CqlClient]:
        client = self._cql.connect(name, request_timeout_s=_REQUEST_LIMIT_S)
        try:
            yield client
        finally:
            client.close()

    def _on_all(self, act: Callable[[ServerNode], T], nodes: Sequence[ServerNode] | None = None) -> dict[str, T]:
        """Call `act` with every node at the same time, and return its results by name. Raises ClusterError with all errors."""
        chosen = {node.name: node for node in (self._nodes if nodes is None else nodes)}
        return on_every(chosen, lambda name: act(chosen[name]))


def _refuse_to_join(node: ServerNode, **_: object) -> None:
    raise ClusterError(f"{node.name} cannot join: {_NOT_RESHAPED}")


def _unwell(node: ServerNode) -> Sequence[str]:
    """Describe what is wrong with one server, as seen from outside."""
    try:
        state = node.state()
    except ClusterError as error:
        return [str(error)]
    if state != "running":
        return [f"the server of {node.name} is {state}"]
    with suppress(TimeoutError):
        until(node.answers, deadline_s=5, what="an answer", every_s=0.5)
        return []
    return [f"{node.name} does not answer {node.client_port}"]


def _version(observed: Sequence[Observation]) -> str:
    """Find the schema version; a node that could not be read has one of its own."""
    version = next(o for o in observed if o.kind == "version")
    return version.id or f"none ({version.node}: {version.error})"
