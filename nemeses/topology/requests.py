"""Requests: what an operation asks as a client does, as an attempt like those of nodetool."""

from __future__ import annotations

from schemaquake.harness.errors import ClusterError
from schemaquake.harness.model.operation import Completion
from schemaquake.harness.model.protocols import Cluster, Fault
from schemaquake.harness.model.steps import Invoke
from schemaquake.harness.model.topology import Attempt, Requests
from schemaquake.harness.units import S
from schemaquake.harness.wait import tasks
from schemaquake.nemeses.topology.attempts import refused

__all__ = ["ask_as_client", "refuse_unrecorded"]


def ask_as_client(requests: Requests, coordinator: str, operation: Invoke, *, command: str) -> Attempt:
    """Ask this coordinator once; `command` is what people read. A coordinator without a session leaves the outcome open."""
    began_ns = tasks().clock.now_ns()
    try:
        completion = requests.ask(coordinator, operation)
    except ClusterError as error:  # no session: nothing was asked
        completion = Completion(type="info", error=str(error))
    return Attempt(
        outcome=completion.type,
        command=command,
        node=coordinator,
        seconds=(tasks().clock.now_ns() - began_ns) / S,
        answer=completion.error or "",
    )


def refuse_unrecorded(_nemesis: object, cluster: Cluster, operation: Fault) -> Completion:  # noqa: ARG001 - others depend on them
    """Refuse: a schema change that nothing records would be one that no checker knows of."""
    return refused("requests of clients cannot be recorded here")
