"""One by one: schema changes that are not raced, made by one coordinator in turn, as every era's manual asks.

Up to 1.1 a migration is refused, or forks the cluster, while an earlier one is still on its way to some node
(seed document 1, "Concurrency": only one migration can be active within a cluster at any time). The client never
waits for agreement, so the schedule leaves each change time to arrive.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from harness.protocols import Context
from harness.steps import Invoke, Step, Wait

__all__ = ["one_by_one", "rest"]

# Long against the milliseconds a migration takes to reach an idle peer, short against a run.
_REST_S: Final = 0.4


def one_by_one(changes: Iterable[Invoke], context: Context) -> Iterator[Step]:
    """The changes in order, each with time to reach every node where the era needs that."""
    for change in changes:
        yield change
        yield from rest(context)


def rest(context: Context) -> Iterator[Wait]:
    """The pause between two changes that must not meet; none in eras whose coordinators change schema on their own.

    Ordered migrations ended with 1.1 and user-defined types began with 2.1: no types stands for "may be that old".
    """
    if "types" not in context.features:
        yield Wait(_REST_S)
