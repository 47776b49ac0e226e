"""Aiming: watch an operation on the topology, note its steps, and strike when it reaches the one that was aimed at.

Notes of process −1, beside the operation's own: `operation-step {"operation", "step"}` whenever the cluster shows a step
that it did not show before, and `aim-missed {"operation", "nemesis", "step"}` if the step that a fault was aimed at was
never seen. The fault itself goes the way of every other: ledger, injection, healing. Looks are taken by the run's own time
(`schemaquake.harness.wait`), so that those of a simulation are repeatable.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final, TypeAlias

from schemaquake.harness.errors import ClusterError, NotApplicable
from schemaquake.harness.model.aim import Aim, KnowsItsSteps, ShowsSteps
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.protocols import Cluster, Fault
from schemaquake.harness.model.runtime import Sleep, TaskSteps
from schemaquake.harness.units import S
from schemaquake.harness.wait import tasks

__all__ = ["Strike", "refuse_unseen", "watched"]

log = logging.getLogger(__name__)

Strike: TypeAlias = Callable[[Aim], AbstractContextManager[None]]
"""A function whose context keeps the fault of an aim in place."""

_LOOK_EVERY_S: Final = 0.05


def refuse_unseen(cluster: Cluster, operations: Iterable[Fault], asked: str) -> None:
    """Refuse a plan that aims at a step which this cluster never shows. Raises NotApplicable.

    `asked` is the option as it was given: a step that is not named there was drawn, and may be missed.
    """
    if not isinstance(cluster, KnowsItsSteps):
        return
    shown = cluster.steps_shown()
    for operation in operations:
        aim = Aim.of(operation)
        if aim is not None and f"@{aim.step}" in asked and aim.step not in shown:
            known = f"known here are {', '.join(sorted(shown))}" if shown else "it shows none"
            raise NotApplicable(f"-O aim={asked}: this system shows no step {aim.step} of {operation.nemesis}; {known}")


@contextmanager
def watched(
    cluster: Cluster,
    operation: Fault,
    number: int,
    *,
    note: Callable[[str, JSON], None],
    strike: Strike | None,
) -> Iterator[None]:
    """Watch the operation while the block carries it out; a fault that is in place at its end is held to its own end."""
    aim = Aim.of(operation)
    if not isinstance(cluster, ShowsSteps):
        if aim is not None:
            note("aim-missed", {"operation": number, "nemesis": aim.nemesis, "step": aim.step})
        yield
        return
    watch = _Watch(cluster, operation, number, note=note, strike=strike)
    task = tasks().spawn(f"watch of {operation.nemesis}", watch.run())
    try:
        yield
    finally:
        watch.ended = True
        task.join()
    if aim is not None and not watch.struck:
        note("aim-missed", {"operation": number, "nemesis": aim.nemesis, "step": aim.step})


class _Watch:
    """The looks at one operation."""

    def __init__(
        self,
        cluster: ShowsSteps,
        operation: Fault,
        number: int,
        *,
        note: Callable[[str, JSON], None],
        strike: Strike | None,
    ) -> None:
        self.ended = False
        self.struck = False
        self._cluster = cluster
        self._operation = operation
        self._aim = Aim.of(operation)
        self._number = number
        self._note = note
        self._strike = strike
        self._seen: frozenset[str] = frozenset()

    def run(self) -> TaskSteps:
        """Look until the operation has ended."""
        while (yield self._pause(_LOOK_EVERY_S)) and not self.ended:
            try:
                yield from self._look()
            except (ClusterError, OSError) as error:
                log.warning("the steps of an operation could not be read", extra={"error": str(error)})

    def _look(self) -> TaskSteps:
        steps = frozenset(self._cluster.steps(self._operation.nodes))
        new, self._seen = steps - self._seen, steps
        aim = self._aim
        if aim is None or self._strike is None or self.struck or aim.step not in steps:
            self._tell(new)
            return
        self.struck = True
        with self._strike(aim):
            self._tell(new)
            yield self._pause(aim.hold_s)

    def _pause(self, seconds: float) -> Sleep:
        return Sleep(tasks().clock.now_ns() + round(seconds * S))

    def _tell(self, steps: frozenset[str]) -> None:
        for step in sorted(steps):
            self._note("operation-step", {"operation": self._number, "step": step})
