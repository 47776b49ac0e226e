"""A crew carried out by the clock of a simulation: barriers, pauses and slow statements, without a cluster.

Every worker walks its own steps; an operation takes as long as `lasts` says. Nobody passes a barrier before everybody
has come to it, and whoever ends while others wait for it is a deadlock, as in the harness.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from schemaquake.harness.model.protocols import Context, Phase, Worker, Workload
from schemaquake.harness.model.steps import Invoke, Meet, Note, Require, Step, Wait

FEATURES = frozenset(
    {
        *("keyspaces", "tables", "columns", "options", "indexes"),
        *("collections", "column-drops", "types", "functions", "views"),
    }
)


@dataclass(frozen=True)
class Done:
    """One step of one worker, from `begun` to `ended` (s); `met` counts the barriers it had passed.

    What is required is done when it is asked for first, and stands here as the operation that it is.
    """

    worker: Worker
    step: Step
    begun: float
    ended: float
    met: int


def at_once(_worker: Worker, _operation: Invoke) -> float:
    return 0.05


def carry_out(
    workload: Workload,
    phase: Phase,
    context: Context,
    *,
    label: str = "settled",
    steps_each: int | None = None,
    lasts: Callable[[Worker, Invoke], float] = at_once,
) -> list[Done]:
    """Everything the crew does in one phase, in order of time. Fails on a deadlock."""
    crew = list(workload.crew(context))
    assert [worker.index for worker in crew] == list(range(len(crew)))
    walks = [islice(workload.steps(phase, worker, context, phase_label=label), steps_each) for worker in crew]
    clocks = [0.0] * len(crew)
    done: list[Done] = []
    for met in range(1_000_000):
        names = [_walk_to_barrier(worker, walks, clocks, done, met, lasts) for worker in crew]
        if set(names) == {None}:
            return sorted(done, key=lambda one: (one.begun, one.worker.index))
        assert len(set(names)) == 1, f"workers wait for each other: {names}"
        clocks = [max(clocks)] * len(crew)
    raise AssertionError("no end of barriers")


def _walk_to_barrier(
    worker: Worker,
    walks: Sequence[Iterator[Step]],
    clocks: list[float],
    done: list[Done],
    met: int,
    lasts: Callable[[Worker, Invoke], float],
) -> str | None:
    for step in walks[worker.index]:
        begun = clocks[worker.index]
        if isinstance(step, Require):
            step = step.invoke  # noqa: PLW2901 - the simulated cluster refuses nothing
        match step:
            case Meet(name):
                return name
            case Wait(seconds):
                assert seconds >= 0
                clocks[worker.index] += seconds
            case Invoke():
                clocks[worker.index] += lasts(worker, step)
            case Note():
                pass
        done.append(Done(worker, step, begun, clocks[worker.index], met))
    return None


def operations(done: Sequence[Done]) -> list[Invoke]:
    return [one.step for one in done if isinstance(one.step, Invoke)]


def whole_run(workload: Workload, context: Context) -> list[Invoke]:
    """The operations of all phases, in order."""
    phases: list[tuple[Phase, str]] = [
        ("setup", ""),
        ("prepare", ""),
        ("main", ""),
        ("probe", "settled"),
        ("final", "settled"),
        ("probe", "restarted"),
        ("final", "restarted"),
    ]
    return [
        operation
        for phase, label in phases
        for operation in operations(carry_out(workload, phase, context, label=label))
    ]
