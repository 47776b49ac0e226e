"""Conductor: takes one run through its phases, from the first boot to the teardown.

Runs inside the cluster's enclosure, as `python -m schemaquake.harness.run.conductor FOLDER`; the folder holds the plan. It judges
nothing: it leaves journals, logs and a ledger behind for the checkers.

boot → phases (`schemaquake.harness.run.phases`) → teardown
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path
from types import FrameType

from schemaquake.harness.atomic import write_bytes
from schemaquake.harness.console import configure_logging, progress, stderr
from schemaquake.harness.errors import EnvironmentLacks, ExitCode, NotApplicable, SchemaquakeError
from schemaquake.harness.faults.client_requests import ClientRequests
from schemaquake.harness.faults.ledger import FILE_NAME, Ledger
from schemaquake.harness.faults.membership import Roster, TopologyOperations
from schemaquake.harness.faults.requests import nemeses_of, requested_faults
from schemaquake.harness.faults.schedule import FaultSchedule
from schemaquake.harness.history.journal import Journal, start_clock, sync_regularly
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.model.protocols import Cluster, Context, Provider, TopologyNemesis
from schemaquake.harness.model.runtime import Runtime, RuntimeProvider
from schemaquake.harness.model.traits import cluster_traits, lack, lacking_means
from schemaquake.harness.registry import load
from schemaquake.harness.run.applicability import refuse_lacking
from schemaquake.harness.run.following import Following
from schemaquake.harness.run.interpreter import assign
from schemaquake.harness.run.limits import refuse_oversized
from schemaquake.harness.run.notes import Notes, Progress
from schemaquake.harness.run.phases import Phases, starts_in_two
from schemaquake.harness.run.process_runtime import ProcessRuntime
from schemaquake.harness.sealed_json import dump_sealed
from schemaquake.harness.standard_streams import make_safe

__all__ = ["Conductor", "main"]

log = logging.getLogger("schemaquake.harness.run.conductor")  # as a process of its own it is "__main__"


def main() -> int:
    """Carry out the run in its own process; exit code 0 when the run was completed, whatever it showed."""
    make_safe()
    folder = Path(sys.argv[1])
    configure_logging(folder / "harness.jsonl")
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGINT, _interrupt)
    outcome: dict[str, JSON] = {"completed": False, "error": None, "exit_code": int(ExitCode.CRASHED)}
    try:
        Conductor(Plan.read(folder), folder, progress=_on_stderr, halted=_end_at_once).run()
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
        outcome["error"] = f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}"
        log.debug("the operating system refused", exc_info=error)
    except Exception as error:
        outcome["error"] = f"{type(error).__name__}: {error} (a defect of the harness; see {folder / 'harness.jsonl'})"
        log.exception("the harness failed")
    _note_end(folder / "outcome.json", outcome)
    return int(str(outcome["exit_code"]))


def _note_end(path: Path, outcome: dict[str, JSON]) -> None:
    """Write how the run ended, whole or not at all; where there is no room for it, on standard error."""
    try:
        write_bytes(path, dump_sealed(outcome))
    except OSError as error:
        end = outcome["error"] or "the run was completed"
        stderr().print(f"schemaquake: cannot write {path}: {error.strerror or error}; {end}", markup=False)


def _on_stderr(phase: str, limit_s: float | None) -> AbstractContextManager[None]:
    return progress(phase, limit_s=limit_s)


def _end_at_once(_reason: str) -> None:
    """End the load together with the faults: what the owner's condition protects may suffer from either."""
    os.kill(os.getpid(), signal.SIGTERM)


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # once is enough: healing must not be interrupted half-way
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt


def _no_progress(_phase: str, _limit_s: float | None) -> AbstractContextManager[None]:
    return nullcontext()


class Conductor:
    """One run."""

    def __init__(
        self,
        plan: Plan,
        folder: Path,
        *,
        progress: Progress = _no_progress,
        halted: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`halted` is called, from another thread, when a condition of the cluster's owner ends the faults."""
        self._plan = plan
        self._halted = halted
        self._folder = folder
        self._journals = folder / "journals"
        self._provider: Provider = load("clusters", plan.cluster)
        self._runtime: Runtime = (
            self._provider.runtime(plan) if isinstance(self._provider, RuntimeProvider) else ProcessRuntime()
        )
        self._started_ns = start_clock(self._journals, self._runtime.clock, durable=not self._runtime.is_repeatable)
        self._journal = Journal(
            self._journals / "events-conductor.jsonl",
            self._started_ns,
            clock=self._runtime.clock,
            durable=not self._runtime.is_repeatable,
        )
        self._notes = Notes(self._journal, self._runtime.clock, progress)

    def run(self) -> None:
        """Carry out the whole run; in any case heal its faults and tear the cluster down."""
        plan, runtime, notes = self._plan, self._runtime, self._notes
        with ExitStack() as stack:
            stack.callback(self._journal.close)
            if not runtime.is_repeatable:
                sync_regularly([self._journal])
            stack.enter_context(runtime.waiting())
            cluster = self._provider.create(plan, self._folder)
            stack.callback(cluster.stop)
            roster = Roster(cluster)
            context = replace(plan.context(cluster.features), spares=roster.spares)
            self._refuse_what_cannot_be(cluster, context)
            self._refuse_what_is_too_large(context)
            ledger = Ledger(self._folder / FILE_NAME, clock=runtime.clock, durable=not runtime.is_repeatable)
            stack.callback(ledger.close)
            self._name_in(ledger, cluster)
            following = Following(roster, notes)
            faults = FaultSchedule(
                cluster,
                plan.nemeses,
                context,
                ledger=ledger,
                note=notes.write_fault,
                tasks=runtime,
                requested=requested_faults(plan),
                halted=self._halted,
                ends_after_s=plan.ends_after_s,
                topology=TopologyOperations(
                    cluster,
                    roster,
                    ledger,
                    note=notes.write_operation,
                    changed=following.changed,
                    requests=ClientRequests(
                        cluster,
                        self._journal,
                        prefix=plan.keyspace_prefix,
                        request_timeout_s=plan.request_timeout_s,
                    ),
                ),
            )
            stack.callback(faults.stop)
            in_two = starts_in_two(plan, cluster)
            with notes.phase("boot"):
                for boot in cluster.start() if in_two is None else in_two.start_first():
                    notes.write_boot(boot, "boot")
            crew = runtime.crew(
                plan.workloads,
                context,
                cluster.connector(),
                journals=self._journals,
                started_ns=self._started_ns,
                request_timeout_s=plan.request_timeout_s,
            )
            stack.callback(crew.stop)
            observer = runtime.observer(
                cluster.connector(),
                journal=self._journals / "observations-observer.jsonl",
                started_ns=self._started_ns,
                request_timeout_s=plan.request_timeout_s,
            )
            stack.callback(observer.stop)
            following.begin(crew, observer)
            Phases(
                plan,
                cluster,
                clock=runtime.clock,
                crew=crew,
                observer=observer,
                faults=faults,
                notes=notes,
                following=following,
                start_others=None if in_two is None else in_two.start_others,
            ).run()

    def _name_in(self, ledger: Ledger, cluster: Cluster) -> None:
        """Record the name by which nodes that outlive the run know it, so that the ledger alone suffices to heal."""
        name = cluster_traits(cluster).run_name
        if name is not None:
            ledger.name_run(name)

    def _refuse_what_is_too_large(self, context: Context) -> None:
        """Refuse a plan whose workers this machine cannot carry; virtual ones need nothing of it."""
        if isinstance(self._runtime, ProcessRuntime):
            workers = Counter(one.member.node for one in assign(self._plan.workloads, context))
            refuse_oversized(workers, self._folder)

    def _refuse_what_cannot_be(self, cluster: Cluster, context: Context) -> None:
        """Refuse, before anything is started, a plan whose features the system lacks or whose means the machine lacks."""
        refuse_lacking(self._plan, context.features)
        nemeses = {name: load("nemeses", name) for name in nemeses_of(self._plan)}
        lacks = {name: why for name, nemesis in nemeses.items() if (why := lack(nemesis, cluster)) is not None}
        if lacks:
            words = "; ".join(f'nemesis "{name}" cannot be had here: {why}' for name, why in lacks.items())
            # What an operation on the topology itself finds lacking is a command that the system never had.
            never = all(
                isinstance(nemeses[name], TopologyNemesis) and lacking_means(nemeses[name], cluster) is None
                for name in lacks
            )
            raise NotApplicable(words) if never else EnvironmentLacks(words)


if __name__ == "__main__":
    sys.exit(main())
