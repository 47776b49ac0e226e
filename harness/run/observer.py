"""Observer: a process with a session to every node that reads each node's own account of its schema.

It samples while the run goes on, answers when all nodes agree (settle), and takes the complete readings that checkers judge.
A process of its own, so that reading three schemas never delays a racing statement.
"""

from __future__ import annotations

import multiprocessing
import signal
import threading
import time
import traceback
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from schemaquake.harness.errors import ClusterError
from schemaquake.harness.history.journal import ObservationJournal, sync_regularly
from schemaquake.harness.model.observation import Observation
from schemaquake.harness.model.protocols import Client, Connector
from schemaquake.harness.model.runtime import Settled, Sleep
from schemaquake.harness.run.failures import Failure, classify_failure
from schemaquake.harness.run.lifeline import end_with_parent
from schemaquake.harness.run.observing import SAMPLE_EVERY_S, Look, settle
from schemaquake.harness.units import S
from schemaquake.harness.wait import pause_for

__all__ = ["ProcessObserver"]


class ProcessObserver:
    """The observer process, seen from the conductor."""

    def __init__(self, connector: Connector, *, journal: Path, started_ns: int, request_timeout_s: float) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._asking = threading.Lock()
        self._connection, theirs = spawn.Pipe()
        self._process = spawn.Process(
            target=_serve,
            args=(theirs, connector, journal, started_ns, request_timeout_s),
            name="observer",
            daemon=True,
        )
        self._process.start()
        theirs.close()

    def connect(self, nodes: Iterable[str]) -> None:
        """Open (or open anew) a session to each of these nodes, and observe only these from now on."""
        self._ask("connect", tuple(nodes))

    def follow(self, nodes: Iterable[str]) -> None:
        """Observe these nodes from now on, with the sessions that there are. Raises NodeUnreachable."""
        self._ask("follow", tuple(nodes))

    def sample(self, phase: str | None) -> None:
        """Begin to sample under that phase's name, or stop (None)."""
        self._ask("sample", phase)

    def settle(self, *, limit_s: float, quiet_s: float = 0) -> Settled:
        """Wait until every node shows the same schema version, twice in a row, or the limit passes, or all is quiet."""
        settled: Settled = self._ask("settle", (limit_s, quiet_s))
        return settled

    def read(self, phase: str) -> None:
        """Read every node completely, and record that under the phase's name."""
        self._ask("read", phase)

    def record(self, observations: Sequence[Observation]) -> None:
        """Record one reading of one node that was taken elsewhere (its data directories)."""
        self._ask("record", list(observations))

    def _ask(self, verb: str, argument: Any) -> Any:
        try:
            with self._asking:
                self._connection.send((verb, argument))
                answer = self._connection.recv()
        except (EOFError, OSError) as error:
            self._process.join(5)
            raise ClusterError(f"the observer process ended by itself, exit code {self._process.exitcode}") from error
        if isinstance(answer, Failure):
            raise answer.to_error("the observer", ClusterError)
        return answer

    def stop(self) -> None:
        """End the process; idempotent."""
        with suppress(OSError):
            self._connection.send(("end", None))
        self._process.join(3)
        if self._process.is_alive():
            self._process.kill()
            self._process.join(5)


# ── inside the observer process ──────────────────────────────────────────────────────────────────────────────────────


def _serve(
    connection: Connection, connector: Connector, journal: Path, started_ns: int, request_timeout_s: float
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    end_with_parent()
    observations = ObservationJournal(journal, started_ns)
    sync_regularly([observations])
    reader = _SchemaReader(connector, observations, request_timeout_s)
    threading.Thread(target=reader.sample_for_ever, daemon=True).start()
    while True:
        try:
            verb, argument = connection.recv()
        except EOFError:
            return
        if verb == "end":
            reader.close()
            return
        if reader.sampling_failed is not None:
            connection.send(reader.sampling_failed)
            continue
        try:
            answer = getattr(reader, verb)(argument)
        except Exception as error:  # noqa: BLE001 - handed to the conductor, which ends the run
            answer = classify_failure(error)
        connection.send(answer)


class _SchemaReader:
    """One client a node; a lock keeps sampling and asked readings apart."""

    def __init__(self, connector: Connector, journal: ObservationJournal, request_timeout_s: float) -> None:
        self._connector = connector
        self._journal = journal
        self._timeout_s = request_timeout_s
        self._clients: dict[str, Client] = {}
        self._lock = threading.Lock()
        self._phase: str | None = None
        self._samples = 0
        self.sampling_failed: Failure | None = None
        """The defect that ended the sampling thread, else None: a run without its samples must not look whole."""
        self._pool = ThreadPoolExecutor(max_workers=16)

    def connect(self, nodes: Sequence[str]) -> None:
        with self._lock:
            for client in self._clients.values():
                client.close()
            self._clients = {}
            for node in nodes:
                self._clients[node] = self._connector.connect(node, request_timeout_s=self._timeout_s)

    def follow(self, nodes: Sequence[str]) -> None:
        with self._lock:
            for node in self._clients.keys() - set(nodes):
                self._clients.pop(node).close()
            for node in nodes:
                if node not in self._clients:
                    self._clients[node] = self._connector.connect(node, request_timeout_s=self._timeout_s)

    def sample(self, phase: str | None) -> None:
        self._phase = phase

    def sample_for_ever(self) -> None:
        try:
            while True:
                phase = self._phase
                if phase is not None:
                    self._observe(phase, complete=False)
                pause_for(SAMPLE_EVERY_S)
        except Exception:  # noqa: BLE001 - handed to the conductor at its next question, which ends the run
            self.sampling_failed = Failure("failed", traceback.format_exc())

    def settle(self, limits: tuple[float, float]) -> Settled:
        limit_s, quiet_s = limits
        steps = settle(now_ns=time.monotonic_ns, limit_s=limit_s, quiet_s=quiet_s)
        answer: Sequence[Observation] | None = None
        try:
            while True:
                match steps.send(answer):
                    case Look(phase, complete):
                        answer = self._observe(phase, complete=complete)
                    case Sleep(until_ns):
                        pause_for((until_ns - time.monotonic_ns()) / S)
        except StopIteration as end:
            settled: Settled = end.value
            return settled

    def read(self, phase: str) -> None:
        self._observe(phase, complete=True)
        self._journal.sync()

    def record(self, observations: Sequence[Observation]) -> None:
        self._journal.append(observations)

    def _observe(self, phase: str, *, complete: bool) -> Sequence[Observation]:
        with self._lock:
            self._samples += 1
            sample = self._samples
            readings = list(
                self._pool.map(
                    lambda client: client.observe(phase=phase, sample=sample, complete=complete), self._clients.values()
                )
            )
            for reading in readings:
                self._journal.append(reading)
            return [observation for reading in readings for observation in reading]

    def close(self) -> None:
        self._phase = None
        with self._lock:
            for client in self._clients.values():
                client.close()
            self._journal.close()
