"""Separate run: one run in a process of its own, for a matrix or a grid, which may have several at the same time.

The process carries a plan out, judges the run, and writes the facts as its answer (`schemaquake.results.matrix.one_run`). One that
exceeds every limit of its plan is ended: first by SIGTERM, so that it heals and tears down, then by SIGKILL. The run's cluster is gone
once `outcome.json` is written; judging overlaps with the boot of the next cluster.
"""

from __future__ import annotations

import logging
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

import orjson

from schemaquake.harness.model.plan import Plan
from schemaquake.harness.sealed_json import load_sealed

__all__ = ["SeparateRun", "limit_s"]

log = logging.getLogger(__name__)

Facts = TypeVar("Facts")

_GRACE_S: Final = 90.0
"""Time that a run has to heal, tear down and judge after it was asked to end, s."""


def limit_s(plan: Plan) -> float:
    """Return the sum of a run's own limits, doubled for a busy machine, s. A run that takes longer hangs."""
    phases = 2 * plan.start_timeout_s + 4 * plan.time_limit_s + 4 * max(40.0, 4 * plan.settle_limit_s)
    return 300 + 1.5 * phases


class SeparateRun:
    """One run in a process of its own, which begins at once."""

    def __init__(self, argv: Sequence[str], plan: Plan, *, name: str, runs: Path, logs: Path) -> None:
        """`argv` is followed by three files: the plan, the folder `runs` of the run's folder, and the answer. `logs` holds them as NAME.*."""
        self._name = name
        self._runs = runs
        self._plan_file, self._answer = (logs / f"{name}.{suffix}" for suffix in ("plan.json", "answer.json"))
        self.log = logs / f"{name}.log"
        self._limit_s = limit_s(plan)
        self._asked: float | None = None
        self._plan_file.write_bytes(orjson.dumps(plan.to_json()))
        self._before = frozenset(path.name for path in runs.iterdir())  # what comes now may be its own
        with self.log.open("wb") as output:
            # A session of its own: the matrix or grid forwards Ctrl-C, once.
            self.process = subprocess.Popen(
                [*argv, str(self._plan_file), str(runs), str(self._answer)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._began = time.monotonic()

    def has_cluster(self) -> bool:
        """Return True until the run has written its outcome into a folder of its own: its nodes may still be running.

        Several runs can begin in the same second, so folders are told apart by their plans.
        """
        new = [path for path in self._runs.iterdir() if path.name not in self._before and not path.is_symlink()]
        ended = [path for path in new if (path / "outcome.json").exists()]
        return not any(_holds(path, orjson.loads(self._plan_file.read_bytes())) for path in ended)

    def has_ended(self) -> bool:
        """Return True once the process has ended; its answer can be read then."""
        return self.process.poll() is not None

    def ask_to_end(self) -> None:
        """Ask the process, once, to heal its faults, tear its cluster down and end."""
        if self._asked is None:
            self._asked = time.monotonic()
            with suppress(ProcessLookupError):
                self.process.send_signal(signal.SIGTERM)

    def end_if_overdue(self) -> None:
        """Ask a run that hangs to end, and kill one that did not end when asked."""
        now = time.monotonic()
        if self._asked is None and now - self._began > self._limit_s:
            log.warning("ending a run that hangs", extra={"run": self._name, "seconds": round(now - self._began)})
            self.ask_to_end()
        elif self._asked is not None and now - self._asked > _GRACE_S:
            self.process.kill()

    def read_answer(self, parse: Callable[[Any], Facts], refuse: Callable[..., Facts]) -> Facts:
        """Parse the facts that the process wrote. If it wrote none, `refuse` is given the reason, from its log."""
        try:
            return parse(orjson.loads(self._answer.read_bytes()))
        except (FileNotFoundError, orjson.JSONDecodeError):
            lines = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            why = (
                "the run hung and was ended"
                if self._asked is not None
                else f"the run's process ended with exit code {self.process.returncode}"
            )
            return refuse(
                f"{why}; its last output: {lines[-1][:300] if lines else 'nothing'}",
                applicable=True,
                seconds=time.monotonic() - self._began,
            )


def _holds(path: Path, wanted: Any) -> bool:
    try:
        return bool(load_sealed((path / "plan.json").read_bytes()) == wanted)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False
