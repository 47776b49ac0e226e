"""Deployed cluster: nodes that were there before the run and will be after it, or that outlive the harness's death.

Somebody else may need them, so a run begins only on a cluster that is whole and in agreement, leaves nothing of its own
behind, looks at the end whether it is whole again, and says what is not. Every fault has guards on the nodes themselves.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final, Literal, TypeAlias, TypeVar

from schemaquake.clusters.cql.client import CqlClient, CqlConnector
from schemaquake.clusters.cql.prefix_guard import PrefixGuard
from schemaquake.clusters.nodes import keyspaces
from schemaquake.clusters.nodes.booting import boot_in_order, run_on_first
from schemaquake.clusters.nodes.guard import Guards
from schemaquake.clusters.nodes.node import ServerNode
from schemaquake.clusters.nodes.ring import await_none_missing, taken_for_dead
from schemaquake.clusters.systems.system import System
from schemaquake.harness.errors import ClusterError, NodeUnreachable
from schemaquake.harness.model.observation import Observation
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.protocols import Boot, Connector, Fault, Node, Undo
from schemaquake.harness.wait import until

__all__ = ["Begins", "DeployedCluster"]

log = logging.getLogger(__name__)

T = TypeVar("T")

Begins: TypeAlias = Literal["serving", "together", "first-alone"]
"""Whether the servers run already, or how they are started."""

_REQUEST_LIMIT_S: Final = 20.0
_AGREEMENT_LIMIT_S: Final = 30.0
_WHOLE_LIMIT_S: Final = 30.0
_BARRIER_LIMIT_S: Final = 10.0


class DeployedCluster:
    """A `schemaquake.harness.model.protocols.Cluster`, and `Guarded`, over whatever way its nodes are reached."""

    def __init__(
        self,
        nodes: Sequence[ServerNode],
        system: System,
        cql: CqlConnector,
        guards: Guards,
        *,
        folder: Path,
        prefix: str,
        begins: Begins,
        start_timeout_s: float,
        keep_data: bool = False,
        run_name: str | None = None,
        missing: Callable[[str], str | None] = lambda _: None,
        ends: Callable[[], None] = lambda: None,
    ) -> None:
        """`folder` is the run's on this machine. `missing` says of `clock` and the like what `Cluster.missing` says.

        `ends` is called when everything else was torn down, whatever came of that.
        """
        self.nodes: Sequence[Node] = nodes
        self.run_name = run_name
        """By what the nodes know this run; in the ledger, for whoever heals from it alone."""
        self._nodes = nodes
        self.features = system.features
        self.pull_delay_s = system.pull_delay_s
        self._system = system
        self._barrier = None if system.cql is None else system.cql.barrier
        self.max_fault_s = guards.max_fault_s
        self._cql = cql
        self._guards = guards
        self._folder = folder
        self._prefix = prefix
        self._begins = begins
        self._start_timeout_s = start_timeout_s
        self._keep_data = keep_data
        self._missing = missing
        self._ends = ends
        self._stopped = False
        self._begun = False
        """Whether somebody's servers were found whole, so that they have to be so in the end."""
        self._armed: set[int] = set()

    # ── life ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def start(self) -> Sequence[Boot]:
        """Servers that run already are only looked at; the others are started in their line's order.

        Raises ClusterError naming everything that is wrong with the cluster: then nothing was changed but for the run's
        folder on the nodes, which `stop` removes. Raises NodeDied, StartTimeout for servers that it started.
        """
        self._on_all(ServerNode.prepare)
        self._on_all(lambda node: node.log.begin())
        began = time.monotonic()
        started = [] if self._begins == "serving" else self._boot()
        self._refuse_unless_whole()
        if started:
            run_on_first(self._nodes[0], self._system.after_first_boot(len(self._nodes)))
        self._refuse_leftovers()
        if started:
            return started
        self._begun = True
        return [Boot(node=node.name, served=True, seconds=time.monotonic() - began) for node in self._nodes]

    def stop(self) -> None:
        """Drop the run's keyspaces (unless `--keep-data`), look whether the cluster is whole, and remove the run's files.

        All of it is tried. Raises an ExceptionGroup of what is wrong. A node on which a guard still stands keeps its files.
        """
        if self._stopped:
            return
        self._stopped = True  # whatever comes of it is told once
        steps: list[Callable[[], object]] = []
        if self._begun:
            steps += [self._drop_keyspaces, self._refuse_unless_whole]
        steps += [partial(self._leave, node) for node in self._nodes]
        errors: list[Exception] = []
        for step in (*steps, self._ends):
            try:
                step()
            except Exception as error:  # noqa: BLE001 - teardown goes on and tells of everything at the end
                log.error("the cluster is not as it was", extra={"why": str(error)})  # noqa: TRY400 - raised below
                errors.append(error)
        if errors:
            raise ExceptionGroup("the cluster is not as it was", errors)

    def _leave(self, node: ServerNode) -> None:
        """Take along what the node's logs say, and remove the run's files; not while a guard there may be needed."""
        try:
            node.log.keep()
            if self._armed:
                raise ClusterError(
                    f"node {node.name}: faults {', '.join(map(str, sorted(self._armed)))} are not known to be healed; their "
                    f"guards there undo them in at most {self.max_fault_s:g} s, `schemaquake heal {self._folder}` at once"
                )
            node.folder.remove()
        finally:
            node.transport.close()

    def _boot(self) -> list[Boot]:
        return boot_in_order(
            self._nodes,
            first_alone=self._begins == "first-alone",
            timeout_s=self._start_timeout_s,
            system=str(self._system),
        )

    # ── looking at it ────────────────────────────────────────────────────────────────────────────────────────────────

    def _refuse_unless_whole(self) -> None:
        """Every server runs and serves, all know one another, and schema versions agree. Raises ClusterError."""
        wrong = [fault for found in self._on_all(_unwell).values() for fault in found]
        if not wrong:
            unknown = self.await_whole([node.name for node in self._nodes], deadline_s=_WHOLE_LIMIT_S)
            wrong = [text for text in (unknown, self._disagreement()) if text is not None]
        if wrong:
            raise ClusterError(f"the cluster is not whole: {'; '.join(wrong)}")

    def _disagreement(self) -> str | None:
        """Which node has which schema version, if they still differ after a while."""
        seen: dict[str, str] = {}

        def agreed() -> bool:
            seen.update({name: _version(observed) for name, observed in self._observed().items()})
            return len(set(seen.values())) == 1

        try:
            until(agreed, deadline_s=_AGREEMENT_LIMIT_S, what="agreement on the schema", every_s=1)
        except TimeoutError:
            told = ", ".join(f"{name} has {version}" for name, version in sorted(seen.items()))
            return f"schema versions differ for {_AGREEMENT_LIMIT_S:g} s: {told}"
        return None

    def _observed(self) -> Mapping[str, Sequence[Observation]]:
        """What each node says of its schema."""

        def observe(node: ServerNode) -> Sequence[Observation]:
            with self._session(node.name) as client:
                return client.observe(phase="running", sample=0, complete=False)

        return self._on_all(observe)

    def _refuse_leftovers(self) -> None:
        left = sorted(
            {name for observed in self._observed().values() for name in keyspaces.under(self._prefix, observed)}
        )
        if left:
            drops = " ".join(f"DROP KEYSPACE {name};" for name in left)
            raise ClusterError(
                f"there are keyspaces under the prefix {self._prefix}_ already: {', '.join(left)}. Nothing of this run's can be "
                f"told from them: drop them, if they are of an earlier run ({drops}), or choose another keyspace_prefix"
            )

    def await_whole(self, names: Sequence[str], *, deadline_s: float) -> str | None:
        """Wait until each of these nodes knows all the others of them and takes none for dead; else what is missing.

        Whom a node knows it tells by CQL, whom it takes for alive only in its log: of a server that was started before
        the run, what it said last, if it said anything; one that was started since has said it of each.
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

    def catch_up(self, names: Sequence[str]) -> Mapping[str, JSON]:
        """Have each of these nodes apply all that was committed before; by name whether it did. Empty without barriers."""
        barrier = self._barrier
        if barrier is None:
            return {}
        nodes = [node for node in self._nodes if node.name in names]
        return self._on_all(lambda node: barrier.wait_on(node, timeout_s=_BARRIER_LIMIT_S).to_json(), nodes)

    # ── what is asked of it ──────────────────────────────────────────────────────────────────────────────────────────

    def connector(self) -> Connector:
        """Sessions that keep to the run's keyspaces."""
        return PrefixGuard(self._cql, self._prefix)

    def missing(self, means: str) -> str | None:
        """Why there are no such means here, or None."""
        if means == "topology":
            return "nodes of a deployed cluster are neither added nor removed"
        return self._missing(means)

    def arm(self, fault: Fault, undo: Mapping[str, Sequence[Undo]]) -> None:
        """Have the nodes undo this fault by themselves; see `schemaquake.harness.model.protocols.Guarded`."""
        self._armed.add(fault.id)
        self._guards.arm(fault, undo)

    def disarm(self, fault: Fault) -> None:
        """End the guards of this fault."""
        self._guards.disarm(fault)
        self._armed.discard(fault.id)

    def expired(self, fault: Fault) -> Mapping[str, JSON]:
        """What guards of this fault have done by themselves."""
        return self._guards.expired(fault)

    # ── its parts ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _drop_keyspaces(self) -> None:
        if self._keep_data:
            return
        _, foreign = self.drop(keyspaces.made_by(self._folder))
        if foreign:
            raise ClusterError(
                f"keyspaces under the prefix that this run is not known to have made, and so are left: {', '.join(foreign)}"
            )

    def drop(self, made: frozenset[str]) -> tuple[Sequence[str], Sequence[str]]:
        """Drop those of these keyspaces that there are, through the first node that accepts a session.

        Returns the dropped ones, and others under the prefix, which are left alone. Raises ClusterError naming those
        that could not be dropped.
        """
        refusals = []
        for node in self._nodes:
            try:
                with self._session(node.name) as client:
                    there = keyspaces.under(self._prefix, client.observe(phase="running", sample=0, complete=False))
                    keyspaces.drop(there & made, client)
            except NodeUnreachable as error:
                refusals.append(str(error))
            else:
                return sorted(there & made), sorted(there - made)
        raise ClusterError(f"keyspaces of this run may be left: {', '.join(sorted(made))}: {'; '.join(refusals)}")

    def end_guards(self) -> Sequence[str]:
        """End guards of faults that are healed, of which whoever healed them did not come to tell; a sentence each."""
        ended = []
        for name, faults in self._guards.known().items():
            for number in faults:
                self._guards.end(name, number)
                ended.append(f"node {name}: the guard of fault {number}, which is healed, was ended")
        return ended

    def clean(self) -> Sequence[str]:
        """Remove the run's files from every node; a sentence for each that had some. Raises ClusterError."""
        cleaned = self._on_all(lambda node: node.folder.remove())
        return [f"node {name}: the run's files were removed" for name, had in cleaned.items() if had]

    def close(self) -> None:
        """Let go of every node."""
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
        """What `act` returned for each node, all at once. Raises ClusterError with what any raised."""
        chosen = self._nodes if nodes is None else nodes
        with ThreadPoolExecutor(max_workers=max(1, len(chosen))) as pool:
            pending = {node.name: pool.submit(act, node) for node in chosen}
        failed = {name: raised for name, future in pending.items() if (raised := future.exception()) is not None}
        if failed:
            raise ClusterError("; ".join(f"{name}: {raised}" for name, raised in failed.items())) from next(
                iter(failed.values())
            )
        return {name: future.result() for name, future in pending.items()}


def _unwell(node: ServerNode) -> Sequence[str]:
    """What is wrong with one server, as far as it can be seen from outside."""
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
    """A node that could not be read has its own."""
    version = next(o for o in observed if o.kind == "version")
    return version.id or f"none ({version.node}: {version.error})"
