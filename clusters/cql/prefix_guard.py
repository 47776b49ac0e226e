"""Prefix guard: keeps the workloads of a run off keyspaces that are not theirs.

A wrapper around any connector. An operation whose statement would touch a keyspace outside the prefix, or is not
understood, is never sent: it ends in `fail`, because it certainly did not happen. The server's own tables may be read,
but for those of users and passwords.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from schemaquake.clusters.cql.targets import NotUnderstood, targets
from schemaquake.clusters.systems.data_directories import SYSTEM_KEYSPACES
from schemaquake.harness.ddl.cql import statement
from schemaquake.harness.model.observation import Observation
from schemaquake.harness.model.operation import Completion
from schemaquake.harness.model.protocols import Client, Connector
from schemaquake.harness.model.steps import Invoke

__all__ = ["PrefixGuard", "objection"]

_SECRET: Final = frozenset({"system_auth"})
"""The server's own keyspaces whose rows must not get into a history: users, and the hashes of their passwords."""


@dataclass(frozen=True, slots=True)
class PrefixGuard:
    """A `Connector` whose clients keep to keyspaces named `<prefix>_…`; as picklable as the one it wraps."""

    connector: Connector
    prefix: str

    def connect(self, node: str, *, request_timeout_s: float) -> Client:
        """Connect the wrapped connector. Raises NodeUnreachable."""
        return _GuardedClient(self.connector.connect(node, request_timeout_s=request_timeout_s), self.prefix)


class _GuardedClient:
    def __init__(self, client: Client, prefix: str) -> None:
        self._client = client
        self._prefix = prefix

    def invoke(self, operation: Invoke) -> Completion:
        """Send the operation by the wrapped client, unless there is an objection."""
        reason = objection(operation, self._prefix)
        if reason is not None:
            return Completion(type="fail", error=f"PrefixGuard: not sent: {reason}")
        return self._client.invoke(operation)

    def observe(self, *, phase: str, sample: int, complete: bool) -> Sequence[Observation]:
        """Observe by the wrapped client: it only reads."""
        return self._client.observe(phase=phase, sample=sample, complete=complete)

    def close(self) -> None:
        """Close the wrapped client."""
        self._client.close()


def objection(operation: Invoke, prefix: str) -> str | None:
    """Return why this operation may not be sent to a cluster where only `<prefix>_…` is ours; None if it may."""
    try:
        text = statement(operation.f, operation.value) if operation.query is None else operation.query.text
    except (KeyError, TypeError, AttributeError) as error:
        return f'the keyspaces of "{operation.f}" are not known ({type(error).__name__}: {error})'
    try:
        touched = targets(text)
    except NotUnderstood as error:
        return f"{error}: {text}"
    foreign = {name for name in touched.keyspaces if not name.startswith(f"{prefix}_")}
    if touched.reads_only:
        foreign -= SYSTEM_KEYSPACES - _SECRET
    if foreign:
        return f"keyspace {', '.join(sorted(foreign))} is outside {prefix}_: {text}"
    return None
