"""Requests: what an operation asks as a client does, as an attempt like those of nodetool."""

from __future__ import annotations

from typing import Final

from schemaquake.harness.errors import ClusterError
from schemaquake.harness.model.operation import Completion
from schemaquake.harness.model.steps import Invoke
from schemaquake.harness.model.topology import Attempt, Requests
from schemaquake.harness.wait import tasks

__all__ = ["ask_as_client"]

_S: Final = 1_000_000_000


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
        seconds=(tasks().clock.now_ns() - began_ns) / _S,
        answer=completion.error or "",
    )
