"""Phases: the course of a run between boot and teardown.

setup → settle → prepare → [ main ∥ faults ∥ observer ] → heal → settle → probe → final readings
      → restart of every node → settle → probe → final readings
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final, Literal

from schemaquake.harness.errors import ClusterError, NodeDied, NodeUnreachable
from schemaquake.harness.faults.requests import server_restart
from schemaquake.harness.faults.schedule import FaultSchedule
from schemaquake.harness.model.observation import Observation
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.model.protocols import Boot, CatchingUp, Cluster, Node, ShowsOwnership, StartsInTwo
from schemaquake.harness.model.runtime import Clock, Crew, Observer
from schemaquake.harness.model.traits import cluster_traits, workload_traits
from schemaquake.harness.registry import load
from schemaquake.harness.run.following import Following
from schemaquake.harness.run.notes import Notes

__all__ = ["Phases", "main_limit_s", "starts_in_two"]

log = logging.getLogger("schemaquake.harness.run.conductor")

_PATIENCE: Final = 4
"""The multiple of its limit that a phase may last whose end should come by itself."""
_READING_LEAST_S: Final = 40.0


def main_limit_s(plan: Plan) -> float:
    """Return the longest duration of the main phase in seconds, and so of the faults that workloads request.

    What never ends, and every schedule of faults, ends at the time limit. Racing workloads end by themselves, unless the
    cluster no longer answers: then every statement takes as long as a client waits for it, and the rest of the races
    would take hours.
    """
    return plan.time_limit_s if _lasts_for_the_time_limit(plan) else _PATIENCE * plan.time_limit_s


def _lasts_for_the_time_limit(plan: Plan) -> bool:
    endless = any(workload_traits(load("workloads", name)).endless for name in plan.workloads)
    return endless or bool(plan.nemeses)


def starts_in_two(plan: Plan, cluster: Cluster) -> StartsInTwo | None:
    """Return the cluster if its first node takes the whole setup before the others are started; else None."""
    if not isinstance(cluster, StartsInTwo) or not cluster_traits(cluster).late_nodes_take_over:
        return None
    declared = [workload_traits(load("workloads", name)).sets_up_first for name in plan.workloads]
    return cluster if all(declared) else None


def _samples_setup(plan: Plan) -> bool:
    return all(workload_traits(load("workloads", name)).samples_setup for name in plan.workloads)


class Phases:
    """The course of one run between boot and teardown, on any runtime."""

    def __init__(
        self,
        plan: Plan,
        cluster: Cluster,
        *,
        clock: Clock,
        crew: Crew,
        observer: Observer,
        faults: FaultSchedule,
        notes: Notes,
        following: Following,
        start_others: Callable[[], Sequence[Boot]] | None = None,
    ) -> None:
        """`start_others` boots all nodes but the first, once the first has taken the setup; None: all of them serve already."""
        self._plan = plan
        self._cluster = cluster
        self._clock = clock
        self._crew = crew
        self._observer = observer
        self._faults = faults
        self._notes = notes
        self._following = following
        self._start_others = start_others
        self._nodes = {node.name: node for node in cluster.nodes}

    def run(self) -> None:
        """Go from the crew's first session to the last final readings."""
        traits = cluster_traits(self._cluster)
        self._notes.write(
            "run-planned",
            {
                "restart": self._plan.restart,
                "logs": self._list_nodes_with_logs(),
                "pull_delay_s": traits.pull_delay_s,
                **({"utc": self._clock.utc().isoformat(timespec="milliseconds")} if traits.shares_clock else {}),
                **({"kills": True} if traits.kills_servers else {}),
            },
        )
        everybody = self._set_up() if self._start_others is None else self._set_up_first(self._start_others)
        self._observer.sample("running")
        with self._notes.phase("prepare"):
            self._crew.run("prepare", nodes=everybody)
            self._refuse_half_a_setup()
        with self._notes.phase("main", limit_s=main_limit_s(self._plan)):
            # The workers of spares begin when their node has joined.
            self._main([*everybody, *self._following.spares])
        with self._notes.phase("heal"):
            self._faults.stop()
            serving = self._bring_back(self._following.look("heal"))
        self._judge("settled", serving)
        if self._plan.restart != "none":
            with self._notes.phase("restart"):
                # A node may have left since: one that is no member is neither started nor read.
                back = self._restart([name for name in serving if name in self._following.serving])
                self._following.look("restart")
                serving = [name for name in back if name in self._following.serving]
            self._judge("restarted", serving)

    def _set_up(self) -> list[str]:
        """Carry out the setup on the whole cluster; return the nodes that should serve."""
        everybody = self._following.look("boot")
        self._crew.connect(everybody)
        self._observer.connect(everybody)
        if _samples_setup(self._plan):
            self._observer.sample("running")
        with self._notes.phase("setup"):
            self._crew.run("setup", nodes=everybody)
            self._refuse_half_a_setup()
            self._settle("setup")
        return everybody

    def _set_up_first(self, start_others: Callable[[], Sequence[Boot]]) -> list[str]:
        """Carry out the setup on the first node, then start the others; return the nodes that should serve."""
        first = self._plan.node_names[:1]
        self._crew.connect(first)
        with self._notes.phase("setup"):
            self._crew.run("setup", nodes=first)
            self._refuse_half_a_setup()
            for boot in start_others():
                self._notes.write_boot(boot, "boot")
            everybody = self._following.look("boot")
            self._crew.connect(everybody)
            self._observer.connect(everybody)
            self._settle("setup")
        return everybody

    def _main(self, nodes: Sequence[str]) -> None:
        operations = len(self._faults.operations)
        faults = [fault.id for fault in self._faults.faults if fault not in self._faults.operations]
        self._notes.write(
            "faults-planned",
            {"count": len(faults), "ids": faults} | ({"operations": operations} if operations else {}),
        )
        self._faults.start(finish=self._crew.finish_main)
        try:
            in_time = self._crew.run("main", nodes=nodes, time_limit_s=main_limit_s(self._plan))
            if self._crew.ended_early is not None:
                log.warning("phase ended early", extra={"phase": "main", "because": self._crew.ended_early})
            elif not in_time and not _lasts_for_the_time_limit(self._plan):
                self._cut_short("main")
        finally:
            self._faults.stop()

    def _list_nodes_with_logs(self) -> list[str]:
        """List the nodes whose logs belong to the run's evidence: all but those of a cluster without any.

        Nodes that are started after the setup will have one if the first has.
        """
        kept = {name for name, node in self._nodes.items() if _keeps_log(node)}
        if self._start_others is not None and kept:
            kept |= set(self._plan.node_names)
        return sorted(kept)

    def _refuse_half_a_setup(self) -> None:
        """Raise ClusterError if the setup failed: nothing was raced, and there is nothing to judge."""
        if self._crew.ended_early is not None:
            raise ClusterError(f"the cluster did not take what is to be set up: {self._crew.ended_early}")

    def _cut_short(self, phase: str) -> None:
        """Note that a phase ended before its steps did, so that its remaining reads are missing."""
        self._notes.write("phase-cut-short", {"phase": phase})
        log.warning("phase cut short: the cluster answers too slowly", extra={"phase": phase})

    def _bring_back(self, nodes: Sequence[str]) -> list[str]:
        """Have every node that should serve do so again, after the faults; return those that do."""
        fallen = [name for name in nodes if self._nodes[name].state() == "stopped"]
        if fallen:  # one whose place was taken from it meanwhile has nothing to come back to
            members = self._following.look("death")
            nodes = [name for name in nodes if name in members]
        serving = []
        for name in nodes:
            node = self._nodes[name]
            fell = name in fallen
            if fell:
                # Every fault that ends a node starts it again when it is healed: this one ended by itself.
                self._note_death(node)
                node.start()
            boot = node.await_serving(deadline_s=self._plan.start_timeout_s)
            if fell:
                self._notes.write_boot(boot, "fault")
            if boot.served:
                serving.append(name)
            else:
                self._tell_dead(boot, "after the faults were healed")
        if not serving:
            raise NodeDied("no node serves after the faults were healed", node="", exit_code=None, first_error="")
        return serving

    def _has_ended(self, name: str) -> bool:
        try:
            return self._nodes[name].state() == "stopped"
        except ClusterError:
            return False  # a machine that does not answer says nothing of its server

    def _note_death(self, node: Node) -> None:
        ended = node.await_serving(deadline_s=0)
        died = {"exit_code": ended.exit_code, "first_error": ended.first_error}
        self._notes.write("node-died", died, node=node.name)

    def _tell_dead(self, boot: Boot, when: str) -> None:
        log.warning(
            "node does not start",
            extra={"node": boot.node, "when": when, "exit_code": boot.exit_code, "first_error": boot.first_error},
        )

    def _settle(self, phase: str) -> None:
        limit_s = self._plan.settle_limit_s
        if phase == "setup":  # what begins in disagreement tells of nothing else
            limit_s *= _PATIENCE
        if phase == "settled":  # just after a start nodes ask at once
            limit_s += cluster_traits(self._cluster).pull_delay_s
        # What is set up is not read as it is: whether it is agreed upon decides whether there is a race at all.
        quiet_s = 0 if phase == "setup" else cluster_traits(self._cluster).quiet_s
        settled = self._observer.settle(limit_s=limit_s, quiet_s=quiet_s)
        note: dict[str, JSON] = {
            "phase": phase,
            "agreed": settled.agreed,
            "seconds": round(settled.seconds, 3),
            "versions": dict(settled.versions),
        }
        if settled.quiet_s is not None:
            note["quiet_s"] = round(settled.quiet_s, 3)
        self._notes.write("settle", note)
        level = logging.INFO if settled.agreed else logging.WARNING
        outcome = "schema settled" if settled.agreed else "schema versions still differ"
        log.log(level, outcome, extra={"phase": phase, "seconds": round(settled.seconds, 1)})

    def _judge(self, label: str, serving: Sequence[str]) -> None:
        """Settle, probe, and read every node that serves completely."""
        if not serving:
            log.warning("no node serves: nothing to read", extra={"phase": label})
            return
        self._observer.sample(None)
        serving = self._open_sessions(label, serving)
        with self._notes.phase(f"settle-{label}"):
            missing = self._cluster.await_whole(serving, deadline_s=self._plan.settle_limit_s)
            if missing is not None:
                log.warning("the cluster is not whole", extra={"phase": label, "missing": missing})
            self._settle(label)
        with self._notes.phase(f"final-{label}"):
            self._catch_up(label, serving)
            # The schema first: a failing probe may make a server load definitions that it had only on disk.
            self._observer.read(label)
            for name in serving:
                self._observer.record(self._directories(label, name))
            if self._faults.operations:
                self._observer.record(self._ownership(label, serving))
            limit_s = max(_READING_LEAST_S, _PATIENCE * self._plan.settle_limit_s)
            parts: tuple[Literal["probe", "final"], ...] = ("probe", "final")
            for part in parts:
                if not self._crew.run(part, label=label, nodes=serving, time_limit_s=limit_s):
                    self._cut_short(f"{part}-{label}")
            self._note_the_ended(label, serving)

    def _open_sessions(self, label: str, names: Sequence[str]) -> Sequence[str]:
        """Open a session to each of these nodes; return those that have one: a node may end between its start and its reading.

        Raises NodeUnreachable for a node that goes on and accepts none.
        """
        while True:
            try:
                self._observer.connect(names)
                self._crew.connect(names)
            except NodeUnreachable:
                alive = self._note_the_ended(label, names)
                if not alive or len(alive) == len(names):
                    raise
                names = alive
            else:
                return names

    def _note_the_ended(self, label: str, names: Sequence[str]) -> Sequence[str]:
        """Note which of these nodes have ended by themselves, after the members, which say who may; return the others."""
        ended = [name for name in names if self._has_ended(name)]
        if ended:
            self._following.look("death")
            log.warning("nodes have ended by themselves", extra={"phase": label, "nodes": ",".join(ended)})
        for name in ended:
            self._note_death(self._nodes[name])
        return [name for name in names if name not in ended]

    def _catch_up(self, label: str, serving: Sequence[str]) -> None:
        """Have nodes apply all committed changes, on clusters that can, and note the result of each node."""
        if isinstance(self._cluster, CatchingUp) and (barriers := self._cluster.catch_up(serving)):
            self._notes.write("barriers", {"phase": label, "nodes": dict(barriers)})

    def _directories(self, label: str, name: str) -> list[Observation]:
        return [
            Observation(
                time=self._clock.stamp_ns(),
                phase=label,
                node=name,
                sample=0,
                kind="data-directory",
                keyspace=keyspace,
                name=table,
                id=identity,
                definition={"live": live, "snapshots": list(snapshots)},
            )
            for keyspace, table, identity, live, snapshots in self._nodes[name].data_directories()
        ]

    def _ownership(self, label: str, serving: Sequence[str]) -> list[Observation]:
        """Read the replicas of every range as each node describes them; nothing on clusters that cannot be asked."""
        if not isinstance(self._cluster, ShowsOwnership):
            return []
        try:
            described = self._cluster.ownership(serving, prefix=self._plan.keyspace_prefix)
        except ClusterError as error:
            log.warning("the ownership could not be read", extra={"phase": label, "error": str(error)})
            return []
        return [
            Observation(
                time=self._clock.stamp_ns(), phase=label, node=name, sample=0, kind="ownership", definition=definition
            )
            for name, definition in described.items()
        ]

    def _restart(self, serving: Sequence[str]) -> list[str]:
        """Restart every node, one after another or all at once. Returns the nodes that serve afterwards."""
        self._observer.sample(None)
        nodes = [self._nodes[name] for name in serving]
        groups = [nodes] if self._plan.restart == "together" else [[node] for node in nodes]
        back = []
        for group in groups:
            names = [node.name for node in group]
            limit_s = self._plan.start_timeout_s
            restart = server_restart(names, serving_limit_s=limit_s)
            with self._faults.guarded_restart(restart, serving_limit_s=limit_s) as fenced:
                for node in fenced.nodes:
                    if node.name in names:
                        node.kill()
                for node in group:
                    node.start()
                back += [node.name for node in group if self._comes_back(node)]
        return back

    def _comes_back(self, node: Node) -> bool:
        boot = node.await_serving(deadline_s=self._plan.start_timeout_s)
        self._notes.write_boot(boot, "restart")
        if boot.served:
            log.info("node restarted", extra={"node": node.name, "seconds": round(boot.seconds, 1)})
        else:
            self._tell_dead(boot, "after a restart")
        return boot.served


def _keeps_log(node: Node) -> bool:
    try:
        return bool(node.log_text())
    except (ClusterError, OSError):  # there is one, and it cannot be read just now
        return True
