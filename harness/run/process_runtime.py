"""Process runtime: a process a node for its workers, one for the observer, threads for faults, and the machine's time."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from schemaquake.harness.machine_time import MachineClock, ThreadTasks
from schemaquake.harness.model.protocols import Connector, Context
from schemaquake.harness.model.runtime import Task, TaskSteps
from schemaquake.harness.run.observer import ProcessObserver
from schemaquake.harness.run.workers import ProcessCrew

__all__ = ["ProcessRuntime"]


class ProcessRuntime:
    """A `Runtime`, the default of clusters whose provider has none of its own."""

    clock = MachineClock()
    is_repeatable = False

    def waiting(self) -> AbstractContextManager[None]:
        """Do nothing: waiting is by the machine's time anyway."""
        return nullcontext()

    def spawn(self, name: str, steps: TaskSteps) -> Task:
        """Begin `steps` in a thread."""
        return ThreadTasks().spawn(name, steps)

    def crew(
        self,
        workloads: Sequence[str],
        context: Context,
        connector: Connector,
        *,
        journals: Path,
        started_ns: int,
        request_timeout_s: float,
    ) -> ProcessCrew:
        """Start the workers' processes. The connector must be picklable."""
        return ProcessCrew(
            workloads,
            context,
            connector,
            journals=journals,
            started_ns=started_ns,
            request_timeout_s=request_timeout_s,
        )

    def observer(
        self, connector: Connector, *, journal: Path, started_ns: int, request_timeout_s: float
    ) -> ProcessObserver:
        """Start the observer's process."""
        return ProcessObserver(connector, journal=journal, started_ns=started_ns, request_timeout_s=request_timeout_s)
