"""Runner: carries a plan out, from outside the cluster's enclosure.

The outside world (downloads, the user's terminal) is here; the run itself is a process of its own behind the
provider's enclosure. If this process dies, even by SIGKILL, that one dies too, with everything it started.
"""

from __future__ import annotations

import logging
import os
import platform
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any, Final

import orjson

import schemaquake
from schemaquake.harness.console import clock_of_the_command, lines_of_the_command
from schemaquake.harness.errors import DamagedFile, ExitCode, HistoryError, PlanError
from schemaquake.harness.faults.schedule import compose
from schemaquake.harness.model.plan import CLUSTER_FILE, Plan
from schemaquake.harness.model.protocols import HasDataCenters, PreparesSpares, Provider, TopologyNemesis
from schemaquake.harness.registry import load
from schemaquake.harness.run.applicability import refuse_unfit_options
from schemaquake.harness.run_folder import mark_folder
from schemaquake.harness.run_process import process_start_time
from schemaquake.harness.sealed_json import dump_sealed, load_sealed

__all__ = ["Outcome", "execute", "read_outcome", "refuse_contradictions"]

log = logging.getLogger(__name__)

_AS_CONDUCTOR: Final = ("-P", "-m", "schemaquake.harness.run.conductor")
"""The arguments of Python; -P: modules in the current folder are no part of the harness."""

_LOOK_EVERY_S: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The end of a run: completed, or the reason why not. It says nothing about the cluster's behaviour."""

    completed: bool
    error: str | None
    exit_code: ExitCode
    applicable: bool = True
    """False if the system lacks a feature that the workload needs; nothing was started."""
    interrupted: bool = False
    """True if a signal asked the run to end, also one that came too late to end it."""


def read_outcome(folder: Path) -> Outcome:
    """Read the end of the run in a folder; a folder without `outcome.json` is of a run whose process was killed.

    Raises HistoryError if the file is damaged.
    """
    path = folder / "outcome.json"
    try:
        document = load_sealed(path.read_bytes())
    except FileNotFoundError:
        return Outcome(
            completed=False,
            error="the run's process ended without a word; its journals are whole up to that moment",
            exit_code=ExitCode.CRASHED,
        )
    except ValueError as error:
        raise DamagedFile(f"{path} is damaged: {error}", path) from error
    try:
        return Outcome(
            completed=document["completed"] is True,
            error=None if document["error"] is None else str(document["error"]),
            exit_code=ExitCode(document["exit_code"]),
            applicable=bool(document.get("applicable", True)),
            interrupted=bool(document.get("interrupted", False)),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise HistoryError(f"{path} is damaged: it does not say how the run ended ({error})") from error


def execute(plan: Plan, folder: Path) -> Outcome:
    """Run a plan that `refuse_contradictions` accepts in `folder` (which exists and is empty).

    Raises PlanError, EnvironmentLacks and FetchError before anything is started; a run that fails later is an Outcome.
    """
    provider: Provider = load("clusters", plan.cluster)
    mark_folder(folder, schemaquake.__version__)
    (folder / "plan.json").write_bytes(dump_sealed(plan.to_json()))
    if plan.cluster_file is not None:
        # The folder alone suffices to heal this run.
        (folder / CLUSTER_FILE).write_bytes(plan.cluster_file.read_bytes())
    facts = {**_machine(), **provider.prepare(plan, folder)}
    (folder / "environment.json").write_bytes(orjson.dumps(facts, option=orjson.OPT_INDENT_2))
    argv = [*provider.enclosure(folder), sys.executable, *_AS_CONDUCTOR, str(folder.resolve())]
    log.info("run begins", extra={"run": str(folder), "command": plan.command()})
    interrupted = _wait(argv, folder)
    outcome = read_outcome(folder)
    return replace(outcome, interrupted=outcome.interrupted or interrupted)


def refuse_contradictions(plan: Plan) -> None:
    """Raise PlanError for a plan whose parts do not fit together, and for a name of it that is not installed.

    It is asked before a run has a folder, so that a plan which cannot be run leaves none.
    """
    provider: Provider = load("clusters", plan.cluster)
    for name in plan.workloads:
        load("workloads", name)
    nemeses = [load("nemeses", name) for name in plan.nemeses]
    if len(set(plan.workloads)) != len(plan.workloads):
        raise PlanError("a workload is named twice")
    plan.check_options()
    if plan.spares and not isinstance(provider, PreparesSpares):
        raise PlanError(
            f"--spares {plan.spares}: --cluster {plan.cluster} can prepare no spares; local, docker, ssh and simulated ones can"
        )
    if plan.ends_after_s is not None and not any(
        isinstance(load("nemeses", name), TopologyNemesis) for name in plan.nemeses
    ):
        raise PlanError(
            "--ends-after counts from the last operation on the topology, and no nemesis of this run changes the topology"
        )
    for option, count in (("--data-centers", plan.data_centers), ("--racks", plan.racks)):
        if count > 1 and not isinstance(provider, HasDataCenters):
            raise PlanError(
                f"{option} {count}: of --cluster {plan.cluster} all nodes are in one; simulated ones can be in several"
            )
    refuse_unfit_options(plan)
    # A schedule that no seed can draw would otherwise be refused by the run's own process, and leave a run without a verdict.
    compose(nemeses, plan.context(frozenset()))


def _machine() -> dict[str, str]:
    """Return the facts of this machine that the report shows."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "machine": f"{os.cpu_count()} cores, {memory:.0f} GiB",
        "kernel": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def _wait(argv: list[str], folder: Path) -> bool:
    """Start the run's process and wait; pass a signal on and wait again, so that the run can heal and tear down.

    Returns True if there was a signal.
    """
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", **clock_of_the_command(), **lines_of_the_command()}
    interrupted = False

    def pass_on(number: int, _frame: FrameType | None) -> None:
        nonlocal interrupted
        interrupted = True
        log.warning("interrupted: healing and tearing down", extra={"signal": signal.Signals(number).name})

    # Before the process begins: a signal in between would end this one, and leave that one to itself.
    restored: list[tuple[int, Any]] = [
        (n, signal.signal(n, pass_on)) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    ]
    try:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, start_new_session=True, env=environment)
        identity = {"pid": process.pid, "start_time": process_start_time(process.pid)}
        (folder / "process.json").write_bytes(orjson.dumps(identity))
        while process.poll() is None:
            if interrupted:
                _terminate(process)
            with suppress(subprocess.TimeoutExpired):
                process.wait(_LOOK_EVERY_S)
    finally:
        for number, handler in restored:
            signal.signal(number, handler)
    return interrupted


def _terminate(process: subprocess.Popen[bytes]) -> None:
    """Send SIGTERM to the run's own process, below the tools of the enclosure, which would die of it and take it with them.

    It is repeated until that process ends, which takes notice of the first it hears: before it is ready for signals
    they are lost, if it is the first of a process namespace. Before there is such a process there is nothing to heal.
    """
    conductors = _conductors(process.pid)
    for pid in conductors:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    if not conductors:
        process.kill()


def _conductors(pid: int) -> list[int]:
    """Yield the descendants of `pid` whose command is the conductor, first generation first."""
    found: list[int] = []
    generation = [pid]
    while generation and not found:
        for candidate in generation:
            command = _read(f"/proc/{candidate}/cmdline").split("\0")
            if tuple(command[1:4]) == _AS_CONDUCTOR:
                found.append(candidate)
        generation = [child for parent in generation for child in _children(parent)]
    return found


def _children(pid: int) -> list[int]:
    return [int(child) for child in _read(f"/proc/{pid}/task/{pid}/children").split()]


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
