"""Prefix guard: what stands between the workloads and the keyspaces that are not theirs.

A wrapper around any connector. An operation whose statement would touch a keyspace outside the prefix, or of which
nobody can say what it touches, is never sent: it ends in `fail`, for it certainly did not happen. What the server keeps
of itself may be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from schemaquake.clusters.cql.targets import NotUnderstood, targets
from schemaquake.clusters.systems.data_directories import SYSTEM_KEYSPACES
from schemaquake.harness.ddl.cql import statement
from schemaquake.harness.model.observation import Observation
from schemaquake.harness.model.operation import Completion
from schemaquake.harness.model.protocols import Client, Connector
from schemaquake.harness.model.steps import Invoke

__all__ = ["PrefixGuard", "objection"]


@dataclass(frozen=True, slots=True)
class PrefixGuard:
    """A `Connector` whose clients keep to keyspaces named `<prefix>_…`; as picklable as the one it wraps."""

    connector: Connector
    prefix: str

    def connect(self, node: str, *, request_timeout_s: float) -> Client:
        """As the wrapped one: raises NodeUnreachable."""
        return _GuardedClient(self.connector.connect(node, request_timeout_s=request_timeout_s), self.prefix)


class _GuardedClient:
    def __init__(self, client: Client, prefix: str) -> None:
        self._client = client
        self._prefix = prefix

    def invoke(self, operation: Invoke) -> Completion:
        """As the wrapped one, unless there is an objection."""
        reason = objection(operation, self._prefix)
        if reason is not None:
            return Completion(type="fail", error=f"PrefixGuard: not sent: {reason}")
        return self._client.invoke(operation)

    def observe(self, *, phase: str, sample: int, complete: bool) -> Sequence[Observation]:
        """As the wrapped one: it reads."""
        return self._client.observe(phase=phase, sample=sample, complete=complete)

    def close(self) -> None:
        """As the wrapped one."""
        self._client.close()


def objection(operation: Invoke, prefix: str) -> str | None:
    """Why this operation may not be sent to a cluster where only `<prefix>_…` is ours; null if it may."""
    try:
        text = statement(operation.f, operation.value) if operation.query is None else operation.query.text
    except (KeyError, TypeError, AttributeError) as error:
        return f'what "{operation.f}" would touch is not known ({type(error).__name__}: {error})'
    try:
        touched = targets(text)
    except NotUnderstood as error:
        return f"{error}: {text}"
    foreign = {name for name in touched.keyspaces if not name.startswith(f"{prefix}_")}
    if touched.reads_only:
        foreign -= SYSTEM_KEYSPACES
    if foreign:
        return f"keyspace {', '.join(sorted(foreign))} is outside {prefix}_: {text}"
    return None
