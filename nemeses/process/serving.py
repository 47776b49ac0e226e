"""Serving: take servers down and bring them back, each step read back from the system."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from schemaquake.harness.errors import HealError, NodeDied, PlanError, StartTimeout
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.protocols import Boot, Fault, Node, Undo
from schemaquake.harness.wait import until
from schemaquake.nemeses.schedule.every_node import on_every

__all__ = [
    "SERVING_LIMIT_S",
    "await_state",
    "bring_back",
    "starting",
    "take_down",
    "taken_down",
    "taking_down",
    "words_for_how",
]

SERVING_LIMIT_S: Final = 120.0
"""The default limit, in seconds, for a server to serve again."""

_STATE_LIMIT_S: Final = 10.0


def take_down(nodes: Sequence[Node], how: str, *, stop_limit_s: float = 30.0, task: str) -> JSON:
    """Stop or kill the servers: `{"observed": True, "nodes": {name: {"before", "after": "stopped"}}}`.

    Raises ClusterError if one of them still runs.
    """
    act = taking_down(how, stop_limit_s=stop_limit_s)
    return {"observed": True, "nodes": on_every(nodes, partial(taken_down, act=act), task=task)}


def taken_down(node: Node, act: Callable[[Node], None]) -> JSON:
    """Carry out `act` on one server, and return its states before and after. Raises TimeoutError if it still runs."""
    before = node.state()
    act(node)
    return {"before": before, "after": await_state(node, "stopped")}


def taking_down(how: str, *, stop_limit_s: float) -> Callable[[Node], None]:
    """Return `stop` (SIGTERM, and SIGKILL after the limit) or `kill` as an act on a node. Raises PlanError for another word."""

    def stop(node: Node) -> None:
        node.stop(deadline_s=stop_limit_s)

    def kill(node: Node) -> None:
        node.kill()

    match how:
        case "stop":
            return stop
        case "kill":
            return kill
    raise PlanError(f'"{how}" is not a way to take a server down. Known: "stop", "kill".')


def words_for_how(nemesis: str, options: Mapping[str, str]) -> Mapping[str, str]:
    """Name the word that allows the nemesis' option `how`, where its own word does not: `kill` for SIGKILL."""
    option = f"{nemesis}.how"
    return {option: "kill"} if options.get(option) == "kill" else {}


def await_state(node: Node, *wanted: str) -> str:
    """Wait until the node is in one of these states, and return it. Raises TimeoutError with the last one seen."""
    seen = ""

    def reached() -> bool:
        nonlocal seen
        seen = node.state()
        return seen in wanted

    until(reached, deadline_s=_STATE_LIMIT_S, what=f"state {' or '.join(wanted)} of {node.name}")
    return seen


def bring_back(nodes: Sequence[Node], *, deadline_s: float, task: str) -> JSON:
    """Start the servers that do not run and wait until all serve; idempotent.

    `{"observed": True, "nodes": {name: {"seconds", "after": "running"}}}`. Raises HealError, naming the first error of
    a server that does not come back; its cause is then a NodeDied or a StartTimeout.
    """

    def serve(node: Node) -> JSON:
        node.resume()
        node.start()
        boot = node.await_serving(deadline_s=deadline_s)
        if not boot.served:
            raise _start_error(boot, deadline_s)
        return {"seconds": round(boot.seconds, 3), "after": await_state(node, "running")}

    return {"observed": True, "nodes": on_every(nodes, serve, task=task, error=HealError)}


def starting(fault: Fault) -> Mapping[str, Sequence[Undo]]:
    """Return the commands that start each node without waiting for it: the `undo` of faults that take servers down."""
    return {name: [Undo(verb="resume"), Undo(verb="start")] for name in fault.nodes}


def _start_error(boot: Boot, deadline_s: float) -> Exception:
    error = boot.first_error or "no error in its log"
    if boot.exit_code is None:
        return StartTimeout(f"it did not serve within {deadline_s:g} s; its log says: {error}")
    return NodeDied(
        f"it ended while starting, exit code {boot.exit_code}; its log says: {error}",
        node=boot.node,
        exit_code=boot.exit_code,
        first_error=error,
    )
