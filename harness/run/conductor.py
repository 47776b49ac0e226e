"""Conductor: takes one run through its phases, from the first boot to the teardown.

Runs inside the cluster's enclosure, as `python -m schemaquake.harness.run.conductor FOLDER`; the folder holds the plan. It decides
nothing about the outcome: it leaves journals, logs and a ledger behind, and whoever reads those judges.

boot → setup → settle → prepare → [ main ∥ faults ∥ observer ] → heal → settle → probe → final readings
     → restart of every node → settle → probe → final readings → teardown
"""

from __future__ import annotations

import logging
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final, Literal

import orjson

from schemaquake.harness.console import configure_logging, progress
from schemaquake.harness.errors import (
    ClusterError,
    EnvironmentLacks,
    ExitCode,
    NodeDied,
    NotApplicable,
    SchemaquakeError,
)
from schemaquake.harness.faults.executor import FaultSchedule
from schemaquake.harness.faults.ledger import FILE_NAME, Ledger
from schemaquake.harness.history.journal import Journal, start_clock
from schemaquake.harness.model.observation import Observation
from schemaquake.harness.model.operation import JSON, NEMESIS
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.model.protocols import Boot, CatchingUp, Cluster, Context, Node, Provider, Workload
from schemaquake.harness.model.traits import cluster_traits, lack, workload_traits
from schemaquake.harness.registry import load
from schemaquake.harness.run.observer import Observer
from schemaquake.harness.run.workers import ProcessCrew

__all__ = ["Conductor", "main", "main_limit_s"]

log = logging.getLogger("schemaquake.harness.run.conductor")  # as a process of its own it is "__main__"

_PATIENCE: Final = 4
"""How many times its limit a phase may last whose end should have come by itself."""
_READING_LEAST_S: Final = 40.0


def main() -> int:
    """The run's own process; exit code 0 when the run was completed, whatever it showed."""
    folder = Path(sys.argv[1])
    configure_logging(folder / "harness.jsonl")
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGINT, _interrupt)
    outcome: dict[str, JSON] = {"completed": False, "error": None, "exit_code": int(ExitCode.CRASHED)}
    try:
        Conductor(Plan.read(folder), folder).run()
        outcome = {"completed": True, "error": None, "exit_code": 0}
    except KeyboardInterrupt:
        outcome |= {"error": "interrupted; every fault was healed and every node ended", "interrupted": True}
    except SchemaquakeError as error:
        applicable = not isinstance(error, NotApplicable)
        outcome |= {"error": str(error), "exit_code": int(error.exit_code), "applicable": applicable}
    except ExceptionGroup as group:
        outcome["error"] = "; ".join(str(error) for error in group.exceptions)
        log.debug("errors while ending the run", exc_info=group)
    except OSError as error:
        outcome["error"] = f"{error.strerror or error} ({error.filename or 'no file'})"
        log.debug("the operating system refused", exc_info=error)
    except Exception as error:
        outcome["error"] = f"{type(error).__name__}: {error} (a defect of the harness; see {folder / 'harness.jsonl'})"
        log.exception("the harness failed")
    (folder / "outcome.json").write_bytes(orjson.dumps(outcome))
    return int(str(outcome["exit_code"]))


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # once is enough: healing must not be interrupted half-way
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt


def main_limit_s(plan: Plan) -> float:
    """How long the main phase may last, and with it the cut of mode `partition`.

    What never ends, and every schedule of faults, ends at the time limit. Racing workloads end by themselves, unless the
    cluster no longer answers: then every statement takes as long as a client waits for it, and the rest of the races
    would take hours.
    """
    return plan.time_limit_s if _lasts_for_the_time_limit(plan) else _PATIENCE * plan.time_limit_s


def _lasts_for_the_time_limit(plan: Plan) -> bool:
    endless = any(workload_traits(load("workloads", name)).endless for name in plan.workloads)
    return endless or bool(plan.nemeses)


class Conductor:
    """One run."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self._plan = plan
        self._folder = folder
        self._journals = folder / "journals"
        self._started_ns = start_clock(self._journals)
        self._journal = Journal(self._journals / "events-conductor.jsonl", self._started_ns)

    def run(self) -> None:
        """The whole run; whatever happens, faults are healed and the cluster is torn down."""
        plan = self._plan
        provider: Provider = load("clusters", plan.cluster)
        with ExitStack() as stack:
            cluster = provider.create(plan, self._folder)
            stack.callback(cluster.stop)
            context = plan.context(cluster.features)
            self._refuse_what_cannot_be(cluster, context)
            ledger = Ledger(self._folder / FILE_NAME)
            stack.callback(ledger.close)
            self._name_in(ledger, cluster)
            faults = FaultSchedule(cluster, plan.nemeses, context, ledger=ledger, note=self._note_fault)
            stack.callback(faults.heal_everything)
            with self._phase("boot"):
                for boot in cluster.start():
                    self._note_boot(boot, "boot")
            crew = ProcessCrew(
                plan.workloads,
                context,
                cluster.connector(),
                journals=self._journals,
                started_ns=self._started_ns,
                request_timeout_s=plan.request_timeout_s,
            )
            stack.callback(crew.stop)
            observer = Observer(
                cluster.connector(),
                journal=self._journals / "observations-observer.jsonl",
                started_ns=self._started_ns,
                request_timeout_s=plan.request_timeout_s,
            )
            stack.callback(observer.stop)
            _Phases(self, plan, context, cluster, crew, observer, faults).run()

    def _name_in(self, ledger: Ledger, cluster: Cluster) -> None:
        """By what nodes that outlive the run know it; whoever heals may have the ledger alone."""
        name = cluster_traits(cluster).run_name
        if name is not None:
            ledger.skipped(ledger.record("run", {"name": name}), "nothing to undo in itself")

    def _refuse_what_cannot_be(self, cluster: Cluster, context: Context) -> None:
        """Before anything is started: features the system lacks, means the machine lacks."""
        for name in self._plan.workloads:
            workload: Workload = load("workloads", name)
            lacking = workload.requires - context.features
            if lacking:
                raise NotApplicable(
                    f'workload "{name}" is not applicable to {self._plan.system}: it has no {", ".join(sorted(lacking))}'
                )
        wanted = [*self._plan.nemeses, *(["partition"] if self._plan.mode == "partition" else [])]
        refusals = [
            f'nemesis "{name}" cannot be had here: {missing}'
            for name in wanted
            if (missing := lack(load("nemeses", name), cluster)) is not None
        ]
        if refusals:
            raise EnvironmentLacks("; ".join(refusals))

    # ── notes ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _note(self, f: str, value: JSON, *, node: str | None = None) -> None:
        """One `info` event of process −1."""
        self._journal.event(NEMESIS, "info", f, node, None, value)

    def _note_fault(self, f: str, value: JSON) -> None:
        self._note(f, value)
        if f in {"fault-begins", "fault-ends"}:
            facts = {"nemesis": value["nemesis"], "nodes": ",".join(value["nodes"]), "fault": value["id"]}
            log.info(f.replace("-", " "), extra=facts)

    def _note_boot(self, boot: Boot, phase: str) -> None:
        self._note(
            "node-start",
            {
                "phase": phase,
                "served": boot.served,
                "seconds": round(boot.seconds, 3),
                "exit_code": boot.exit_code,
                "first_error": boot.first_error,
            },
            node=boot.node,
        )

    @contextmanager
    def _phase(self, name: str, *, limit_s: float | None = None) -> Iterator[None]:
        began = time.monotonic()
        log.debug("phase begins", extra={"phase": name})
        self._note("phase", {"phase": name, "state": "begins"})
        with progress(name, limit_s=limit_s):
            yield
        self._note("phase", {"phase": name, "state": "ends"})
        log.info("phase done", extra={"phase": name, "seconds": round(time.monotonic() - began, 1)})


class _Phases:
    """What happens between boot and teardown."""

    def __init__(
        self,
        conductor: Conductor,
        plan: Plan,
        context: Context,
        cluster: Cluster,
        crew: ProcessCrew,
        observer: Observer,
        faults: FaultSchedule,
    ) -> None:
        self._conductor = conductor
        self._phase: Callable[..., Any] = conductor._phase  # noqa: SLF001 - two halves of one idea
        self._note = conductor._note  # noqa: SLF001
        self._plan = plan
        self._context = context
        self._cluster = cluster
        self._crew = crew
        self._observer = observer
        self._faults = faults
        self._nodes = {node.name: node for node in cluster.nodes}

    def run(self) -> None:
        everybody = list(self._nodes)
        self._crew.connect(everybody)
        self._observer.connect(everybody)
        self._observer.sample("running")
        with self._phase("setup"):
            self._crew.run("setup", nodes=everybody)
            self._refuse_half_a_setup()
            self._settle("setup")
        with self._phase("prepare"):
            self._crew.run("prepare", nodes=everybody)
            self._refuse_half_a_setup()
        with self._phase("main", limit_s=main_limit_s(self._plan)):
            self._main(everybody)
        with self._phase("heal"):
            serving = self._bring_back(everybody)
        self._judge("settled", serving)
        if self._plan.restart != "none":
            with self._phase("restart"):
                serving = self._restart(serving)
            self._judge("restarted", serving)

    def _main(self, nodes: Sequence[str]) -> None:
        self._note("faults-planned", {"count": len(self._faults.faults)})
        if self._context.mode == "partition":
            self._faults.cut(self._context.isolated)
        self._faults.start()
        try:
            in_time = self._crew.run("main", nodes=nodes, time_limit_s=main_limit_s(self._plan))
            if self._crew.ended_early is not None:
                log.warning("phase ended early", extra={"phase": "main", "because": self._crew.ended_early})
            elif not in_time and not _lasts_for_the_time_limit(self._plan):
                self._cut_short("main")
        finally:
            self._faults.stop()

    def _refuse_half_a_setup(self) -> None:
        """What is to be raced could not be made, and nothing was raced yet: there is nothing to judge."""
        if self._crew.ended_early is not None:
            raise ClusterError(f"the cluster did not take what is to be set up: {self._crew.ended_early}")

    def _cut_short(self, phase: str) -> None:
        """Tell that a phase ended before its steps did: what it would have read, nobody knows."""
        self._note("phase-cut-short", {"phase": phase})
        log.warning("phase cut short: the cluster answers too slowly", extra={"phase": phase})

    def _bring_back(self, nodes: Sequence[str]) -> list[str]:
        """After the faults: every node serves again, or is known not to."""
        self._faults.heal_everything()
        serving = []
        for name in nodes:
            node = self._nodes[name]
            fell = node.state() == "stopped"
            if fell:
                # Every fault that ends a node starts it again when it is healed: this one ended by itself.
                ended = node.await_serving(deadline_s=0)
                died = {"exit_code": ended.exit_code, "first_error": ended.first_error}
                self._note("node-died", died, node=name)
                node.start()
            boot = node.await_serving(deadline_s=self._plan.start_timeout_s)
            if fell:
                self._conductor._note_boot(boot, "fault")  # noqa: SLF001
            if boot.served:
                serving.append(name)
            else:
                self._tell_dead(boot, "after the faults were healed")
        if not serving:
            raise NodeDied("no node serves after the faults were healed", node="", exit_code=None, first_error="")
        return serving

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
        settled = self._observer.settle(limit_s=limit_s)
        self._note(
            "settle",
            {
                "phase": phase,
                "agreed": settled.agreed,
                "seconds": round(settled.seconds, 3),
                "versions": dict(settled.versions),
            },
        )
        level = logging.INFO if settled.agreed else logging.WARNING
        outcome = "schema settled" if settled.agreed else "schema versions still differ"
        log.log(level, outcome, extra={"phase": phase, "seconds": round(settled.seconds, 1)})

    def _judge(self, label: str, serving: Sequence[str]) -> None:
        """Settle, probe, and the complete readings of every node that serves."""
        if not serving:
            log.warning("no node serves: nothing to read", extra={"phase": label})
            return
        self._observer.sample(None)
        self._observer.connect(serving)
        self._crew.connect(serving)
        with self._phase(f"settle-{label}"):
            missing = self._cluster.await_whole(serving, deadline_s=self._plan.settle_limit_s)
            if missing is not None:
                log.warning("the cluster is not whole", extra={"phase": label, "missing": missing})
            self._settle(label)
        with self._phase(f"final-{label}"):
            self._catch_up(label, serving)
            # The schema first: a probe that fails may make a server load what it had only on disk.
            self._observer.read(label)
            for name in serving:
                self._observer.record(self._directories(label, name))
            limit_s = max(_READING_LEAST_S, _PATIENCE * self._plan.settle_limit_s)
            parts: tuple[Literal["probe", "final"], ...] = ("probe", "final")
            for part in parts:
                if not self._crew.run(part, label=label, nodes=serving, time_limit_s=limit_s):
                    self._cut_short(f"{part}-{label}")

    def _catch_up(self, label: str, serving: Sequence[str]) -> None:
        """Where nodes can be had to apply all that was committed, they are, and who did is noted."""
        if isinstance(self._cluster, CatchingUp) and (barriers := self._cluster.catch_up(serving)):
            self._note("barriers", {"phase": label, "nodes": dict(barriers)})

    def _directories(self, label: str, name: str) -> list[Observation]:
        return [
            Observation(
                time=time.monotonic_ns(),
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

    def _restart(self, serving: Sequence[str]) -> list[str]:
        """Kill every node and start it again, one after another or all at once; which of them serve afterwards."""
        self._observer.sample(None)
        nodes = [self._nodes[name] for name in serving]
        groups = [nodes] if self._plan.restart == "together" else [[node] for node in nodes]
        back = []
        for group in groups:
            names = [node.name for node in group]
            with self._faults.held_down(names, serving_limit_s=self._plan.start_timeout_s):
                for node in group:
                    node.kill()
                for node in group:
                    node.start()
                back += [node.name for node in group if self._comes_back(node)]
        return back

    def _comes_back(self, node: Node) -> bool:
        boot = node.await_serving(deadline_s=self._plan.start_timeout_s)
        self._conductor._note_boot(boot, "restart")  # noqa: SLF001
        if boot.served:
            log.info("node restarted", extra={"node": node.name, "seconds": round(boot.seconds, 1)})
        else:
            self._tell_dead(boot, "after a restart")
        return boot.served


if __name__ == "__main__":
    sys.exit(main())
