"""Client requests: what an operation on the topology asks of the cluster as a client does.

Each request has a session and a process number of its own (`schemaquake.harness.model.operation.HARNESS_PROCESSES`), and stands
in the history like any other: checkers judge it without knowing who asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from typing import Final

from schemaquake.harness.history.event_sink import EventSink
from schemaquake.harness.model.operation import HARNESS_PROCESSES, JSON, Completion
from schemaquake.harness.model.protocols import Client, Cluster
from schemaquake.harness.model.steps import Invoke

__all__ = ["ClientRequests"]

_PHASE: Final = "running"


class ClientRequests:
    """The `schemaquake.harness.model.topology.Requests` of one run; safe to call from several threads."""

    def __init__(self, cluster: Cluster, journal: EventSink, *, prefix: str, request_timeout_s: float) -> None:
        """`prefix` is that of the run's keyspaces."""
        self._cluster = cluster
        self._journal = journal
        self._prefix = f"{prefix}_"
        self._request_timeout_s = request_timeout_s
        self._processes = count(HARNESS_PROCESSES)

    def ask(self, node: str, operation: Invoke) -> Completion:
        """Ask this coordinator for one operation, and record its invocation and its outcome. Raises NodeUnreachable."""
        process, f, key = next(self._processes), operation.f, operation.key
        with self._session(node) as client:
            self._journal.event(process, "invoke", f, node, key, operation.value)
            completion = client.invoke(operation)
            self._journal.event(process, completion.type, f, node, key, completion.value, completion.error)
        return completion

    def replications(self, node: str) -> Mapping[str, Mapping[str, JSON]]:
        """Return the replication of each of the run's keyspaces, as this node shows it now. Raises NodeUnreachable."""
        with self._session(node) as client:
            shown = client.observe(phase=_PHASE, sample=0, complete=True)
        return {
            one.keyspace: dict(one.definition["replication"])
            for one in shown
            if one.kind == "keyspace"
            and one.keyspace is not None
            and one.keyspace.startswith(self._prefix)
            and one.definition
            and one.definition.get("replication")
        }

    @contextmanager
    def _session(self, node: str) -> Iterator[Client]:
        client = self._cluster.connector().connect(node, request_timeout_s=self._request_timeout_s)
        try:
            yield client
        finally:
            client.close()
