"""Executor: runs units, each in a process of its own, several at the same time.

A unit's cluster is gone once its run has written `outcome.json`; judging overlaps with the boot of the next cluster. A run
that exceeds every limit of its plan is ended: first by SIGINT, so that it heals and tears down, then by SIGKILL.
"""

from __future__ import annotations

import logging
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

import orjson

from schemaquake.harness.model.plan import Plan
from schemaquake.harness.sealed_json import load_sealed
from schemaquake.harness.wait import pause_for
from schemaquake.results.matrix.facts import RunFacts, refused
from schemaquake.results.matrix.machine import KEPT_FREE_MB, IdleShare, available_mb
from schemaquake.results.matrix.matrix_folder import Done, MatrixFolder
from schemaquake.results.matrix.matrix_plan import MatrixPlan, Unit

__all__ = ["Executor", "Processes", "has_ended", "limit_s"]

log = logging.getLogger(__name__)

_LOOK_EVERY_S: Final = 0.2
_MOST_A_JOB: Final = 3
_BOOTING_S: Final = 6.0
_IDLE_LEAST: Final = 0.3
_GRACE_S: Final = 60.0
"""Time that a run has to heal, tear down and judge after it was asked to end, s."""


class Executor(Protocol):
    """Runs units, and owns the clock and the memory that they share."""

    def clock(self) -> float:
        """Return the time in seconds from an arbitrary origin."""
        ...

    def memory_mb(self) -> float:
        """Return the memory that further clusters may take now, MB."""
        ...

    def begin(self, unit: Unit, *, memory_mb: int) -> None:
        """Start a unit whose cluster takes `memory_mb`."""
        ...

    def has_room(self) -> bool:
        """Return True if the processors allow another cluster now. Memory is not considered."""
        ...

    def wait(self) -> Sequence[Done]:
        """Wait briefly for an event, and return the units finished since the last call."""
        ...

    def stop(self) -> Sequence[Done]:
        """End every running unit, healed and torn down, and return the units that finished nevertheless."""
        ...


def limit_s(plan: Plan) -> float:
    """Return the sum of a run's own limits, doubled for a busy machine, s. A run that takes longer hangs."""
    phases = 2 * plan.start_timeout_s + 4 * plan.time_limit_s + 4 * max(40.0, 4 * plan.settle_limit_s)
    return 300 + 1.5 * phases


@dataclass(slots=True)
class _Running:
    unit: Unit
    process: subprocess.Popen[bytes]
    answer: Path
    log: Path
    before: frozenset[str]
    """Folders of runs that existed when the unit began."""
    memory_mb: int
    began: float
    limit_s: float
    asked: float | None = None
    """Time at which the run was asked to end, or None."""


@dataclass(slots=True)
class Processes:
    """Runs units in processes. It allocates at most the memory available at the beginning, and at most the memory available now."""

    plan: MatrixPlan
    folder: MatrixFolder
    at_once: int = 1
    """Number of clusters regardless of the load."""
    elastic: bool = False
    """True to start more clusters while cores are idle: a cluster mostly waits for its schema to settle."""
    _idle: Callable[[], float] = field(default_factory=IdleShare)
    _begun_at: float = -math.inf
    _budget_mb: float = field(default_factory=lambda: available_mb() - KEPT_FREE_MB)
    _running: dict[str, _Running] = field(default_factory=dict)
    _number: int = 0

    def clock(self) -> float:
        """Implement `Executor.clock`."""
        return time.monotonic()

    def memory_mb(self) -> float:
        """Implement `Executor.memory_mb`. A cluster that has just begun has not allocated its memory yet, so its demand is subtracted."""
        promised = sum(one.memory_mb for one in self._running.values() if self._has_cluster(one))
        return min(self._budget_mb - promised, available_mb() - KEPT_FREE_MB)

    def has_room(self) -> bool:
        """Implement `Executor.has_room`. A unit that is being judged has no cluster, but needs a core."""
        idle = self._idle()
        if len(self._running) >= _MOST_A_JOB * self.at_once:
            return False
        clusters = self.clusters()
        if clusters < self.at_once:
            return True
        # The load does not include units that have just begun.
        settled = time.monotonic() - self._begun_at > _BOOTING_S
        return self.elastic and settled and idle >= _IDLE_LEAST

    def begin(self, unit: Unit, *, memory_mb: int) -> None:
        """Implement `Executor.begin`."""
        self._number += 1
        self._begun_at = time.monotonic()
        plan = self.plan.run_plan(unit)
        stem = f"{self._number:04d}-{os.getpid()}-" + "".join(c if c.isalnum() or c in ".-" else "-" for c in unit.id)
        plan_file, answer = (self.folder.logs / f"{stem[:150]}.{suffix}" for suffix in ("plan.json", "answer.json"))
        plan_file.write_bytes(orjson.dumps(plan.to_json()))
        said = plan_file.with_name(f"{stem[:150]}.log")
        argv = [
            sys.executable,
            "-m",
            "schemaquake.results.matrix.one_run",
            str(plan_file),
            str(self.folder.runs),
            str(answer),
        ]
        before = frozenset(path.name for path in self.folder.runs.iterdir())  # what comes now may be its own
        with said.open("wb") as output:
            # A session of its own: this process forwards Ctrl-C, once.
            process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        self._running[unit.id] = _Running(
            unit=unit,
            process=process,
            answer=answer,
            log=said,
            before=before,
            memory_mb=memory_mb,
            began=time.monotonic(),
            limit_s=limit_s(plan),
        )

    def clusters(self) -> int:
        """Return the number of units that have a cluster now."""
        return sum(self._has_cluster(one) for one in self._running.values())

    def wait(self) -> Sequence[Done]:
        """Implement `Executor.wait`."""
        pause_for(_LOOK_EVERY_S)
        for one in self._running.values():
            self._end_if_overdue(one)
        return self._collect()

    def stop(self) -> Sequence[Done]:
        """Implement `Executor.stop`."""
        for one in self._running.values():
            self._ask(one)
        done: list[Done] = []
        while self._running:
            done += self.wait()
        # An interrupted unit is run again: half a run is not a try.
        return [one for one in done if one.facts.completed]

    def _has_cluster(self, one: _Running) -> bool:
        """Return True until the run has written its outcome: its nodes may still be running."""
        plan_file = one.answer.with_name(one.answer.name.replace(".answer.json", ".plan.json"))
        return not has_ended(self.folder.runs, plan_file, one.before)

    def _end_if_overdue(self, one: _Running) -> None:
        now = time.monotonic()
        if one.asked is None and now - one.began > one.limit_s:
            log.warning("ending a run that hangs", extra={"unit": one.unit.id, "seconds": round(now - one.began)})
            self._ask(one)
        elif one.asked is not None and now - one.asked > _GRACE_S:
            one.process.kill()

    def _ask(self, one: _Running) -> None:
        if one.asked is None:
            one.asked = time.monotonic()
            with suppress(ProcessLookupError):
                one.process.send_signal(signal.SIGTERM)

    def _collect(self) -> list[Done]:
        done = []
        for one in [one for one in self._running.values() if one.process.poll() is not None]:
            del self._running[one.unit.id]
            done.append(Done(one.unit, _answer(one)))
        return done


def has_ended(runs: Path, plan_file: Path, before: Collection[str]) -> bool:
    """Return True if the run of this plan has written its outcome into a folder of `runs`: its nodes are gone.

    `before` are the names of the folders that were there when it began. Several runs can begin in the same second, so folders are
    told apart by their plans.
    """
    new = [path for path in runs.iterdir() if path.name not in before and not path.is_symlink()]
    ended = [path for path in new if (path / "outcome.json").exists()]
    return any(_holds(path, orjson.loads(plan_file.read_bytes())) for path in ended)


def _holds(path: Path, wanted: Any) -> bool:
    try:
        return bool(load_sealed((path / "plan.json").read_bytes()) == wanted)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False


def _answer(one: _Running) -> RunFacts:
    """Read the facts that the run's process wrote. If it wrote none, its log gives the reason."""
    try:
        return RunFacts.from_json(orjson.loads(one.answer.read_bytes()))
    except (FileNotFoundError, orjson.JSONDecodeError):
        lines = one.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        why = (
            "the run hung and was ended"
            if one.asked is not None
            else f"the run's process ended with exit code {one.process.returncode}"
        )
        return refused(
            f"{why}; its last output: {lines[-1][:300] if lines else 'nothing'}",
            applicable=True,
            seconds=time.monotonic() - one.began,
        )
