"""Every node: the same act on several nodes at once, all of them tried before an error is raised."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from schemaquake.harness.errors import ClusterError, NodeDied, StartTimeout
from schemaquake.harness.model.protocols import Node
from schemaquake.harness.wait import is_simulated

__all__ = ["on_every"]

T = TypeVar("T")


def on_every(
    nodes: Sequence[Node], act: Callable[[Node], T], *, task: str, error: type[ClusterError] = ClusterError
) -> dict[str, T]:
    """Carry out `act` on each node and return its results by name; one thread a node, so that far nodes do not wait for one another.

    If any raised, raises `error` naming the task, the nodes and their errors. Its cause is a NodeDied or a StartTimeout only
    if servers that do not serve are all that went wrong.
    """
    if not nodes:
        return {}
    if is_simulated():
        return _in_turn(nodes, act, task=task, error=error)
    with ThreadPoolExecutor(max_workers=len(nodes)) as pool:
        pending = {node.name: pool.submit(act, node) for node in nodes}
    _raise(
        {name: raised for name, future in pending.items() if (raised := future.exception()) is not None},
        task=task,
        error=error,
    )
    return {name: future.result() for name, future in pending.items()}


def _in_turn(nodes: Sequence[Node], act: Callable[[Node], T], *, task: str, error: type[ClusterError]) -> dict[str, T]:
    """Carry out `act` on one node after another, in the one thread of a simulation."""
    results: dict[str, T] = {}
    failed: dict[str, BaseException] = {}
    for node in nodes:
        try:
            results[node.name] = act(node)
        except Exception as raised:  # noqa: BLE001 - the other nodes come first; raised below
            failed[node.name] = raised
    _raise(failed, task=task, error=error)
    return results


def _raise(failed: Mapping[str, BaseException], *, task: str, error: type[ClusterError]) -> None:
    """Raise `error` if anything failed; its cause is the gravest failure."""
    if failed:
        text = "; ".join(f"{name}: {raised}" for name, raised in failed.items())
        gravest = min(failed.values(), key=lambda raised: isinstance(raised, NodeDied | StartTimeout))
        raise error(f"{task}: {text}") from gravest
