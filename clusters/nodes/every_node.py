"""Every node: one action on several nodes at the same time, with the errors of all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from schemaquake.harness.errors import ClusterError

__all__ = ["on_every"]

T = TypeVar("T")


def on_every(names: Iterable[str], act: Callable[[str], T]) -> dict[str, T]:
    """Call `act` with every name at the same time, and return its results by name.

    All calls end before errors are raised, as one ClusterError.
    """
    chosen = list(names)
    with ThreadPoolExecutor(max_workers=max(1, len(chosen))) as pool:
        pending = {name: pool.submit(act, name) for name in chosen}
    failed = {name: raised for name, future in pending.items() if (raised := future.exception()) is not None}
    if failed:
        text = "; ".join(f"{name}: {raised}" for name, raised in failed.items())
        raise ClusterError(text) from next(iter(failed.values()))
    return {name: future.result() for name, future in pending.items()}
