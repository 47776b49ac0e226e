"""Operations per second that the harness itself can record: `python -m benchmarks.operations [--seconds S]`.

The real crew, in its real worker processes, writes both ends of every operation ahead into its journals; only the
client does nothing. What remains is what the harness costs, and so how fast a cluster it could keep up with.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.figures import Figure, machine, print_table
from schemaquake.harness.ddl.rows import insert
from schemaquake.harness.history.journal import EVENT_JOURNALS, read_clock, start_clock
from schemaquake.harness.history.merge import merge_history
from schemaquake.harness.model.observation import Observation
from schemaquake.harness.model.operation import Completion
from schemaquake.harness.model.protocols import Context, Phase, Worker
from schemaquake.harness.model.steps import Invoke, Step
from schemaquake.harness.run.workers import ProcessCrew

NODES = ("n1", "n2")
"""A process a node: as many as the machine of the goal has cores."""

GOAL = 20_000


class Inserts:
    """Rows without end; as many workers a node as `-O workers=N` says."""

    name = "inserts"
    requires: frozenset[str] = frozenset()
    endless = True

    def crew(self, context: Context) -> Sequence[Worker]:
        count = len(context.nodes) * int(context.options["workers"])
        return [Worker(index, context.nodes[index % len(context.nodes)]) for index in range(count)]

    def steps(self, phase: Phase, worker: Worker, context: Context, *, phase_label: str) -> Iterator[Step]:  # noqa: ARG002
        number = worker.index
        while phase == "main":
            yield insert("sq", "t", {"k": number, "v": worker.node}, consistency="ONE")
            number += 1


class NoClient:
    """Answers at once."""

    def invoke(self, operation: Invoke) -> Completion:
        return Completion(type="ok", value=operation.value)

    def observe(self, *, phase: str, sample: int, complete: bool) -> Sequence[Observation]:  # noqa: ARG002
        return []

    def close(self) -> None:
        """There is nothing to close."""


@dataclass(frozen=True)
class NoConnector:
    """Answers every operation without asking any server."""

    def connect(self, node: str, *, request_timeout_s: float) -> NoClient:  # noqa: ARG002
        return NoClient()


@contextmanager
def installed(folder: Path) -> Iterator[None]:
    """The workload as a plugin, which worker processes find as they find anybody's."""
    metadata = folder / "benchmark-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: benchmark\nVersion: 1.0\n", encoding="ascii")
    entry_points = "[schemaquake.workloads]\ninserts = benchmarks.operations:Inserts\n"
    (metadata / "entry_points.txt").write_text(entry_points, encoding="ascii")
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


def recorded_per_second(folder: Path, *, workers: int, seconds: float) -> float:
    """Operations a second, two events each, by all processes together; without the start of the interpreters."""
    journals = folder / f"journals-{workers}"
    crew = ProcessCrew(
        ["inserts"],
        Context(seed=1, nodes=NODES, options={"workers": str(workers)}),
        NoConnector(),
        journals=journals,
        started_ns=start_clock(journals),
        request_timeout_s=1,
    )
    try:
        crew.connect(NODES)
        crew.run("main", nodes=NODES, time_limit_s=seconds)
    finally:
        crew.stop()
    times = merge_history(sorted(journals.glob(EVENT_JOURNALS)), read_clock(journals))["time"].to_numpy()
    return float(len(times) / 2 / ((times[-1] - times[0]) / 1e9))


def figures(*, seconds: float = 5) -> Iterator[Figure]:
    """One worker a process, and three."""
    with tempfile.TemporaryDirectory(prefix="schemaquake-") as name, installed(Path(name)):
        for workers in (1, 3):
            what = f"recorded by {len(NODES)} processes of {workers} worker{'s' * (workers > 1)}, client does nothing"
            rate = recorded_per_second(Path(name), workers=workers, seconds=seconds)
            yield Figure(
                "operations", what, rate, "operations/s", f"≥ {GOAL:,}" if os.cpu_count() == len(NODES) else ""
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5)
    options = parser.parse_args()
    facts = machine()
    print_table(figures(seconds=options.seconds), facts)


if __name__ == "__main__":
    main()
