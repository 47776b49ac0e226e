"""Owner's limits: how many nodes faults may take down at once, and the conditions under which every fault is undone.

The number is compared with the plan before anything is touched, and again before each injection. Conditions are asked in
threads of their own while faults are on, because an answer may be late exactly when it matters.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from schemaquake.harness.model.protocols import Fault, Nemesis, StopCondition, TakesDown, TopologyNemesis
from schemaquake.harness.model.traits import nemesis_traits

__all__ = ["ConditionWatch", "most_down", "nodes_down"]

log = logging.getLogger(__name__)

_PROCESS: Final = "process"


def nodes_down(nemesis: Nemesis, fault: Fault) -> frozenset[str]:
    """Return the nodes that do not serve, or hear no majority, under this fault.

    A nemesis says so itself (`TakesDown`); of others, one that takes hold of the server's process takes down all its nodes.
    """
    if isinstance(nemesis, TakesDown):
        return frozenset(nemesis.down(fault))
    if isinstance(nemesis, TopologyNemesis):  # it takes down the node that is to be dead
        return frozenset(fault.nodes[:1] if fault.parameters.get("loses_disk") else ())
    return frozenset(fault.nodes) if nemesis_traits(nemesis).disturbs == _PROCESS else frozenset()


def most_down(faults: Iterable[tuple[Nemesis, Fault]]) -> frozenset[str]:
    """Return the largest set of nodes that these faults take down at one moment of the plan."""
    planned = [(fault, nodes_down(nemesis, fault)) for nemesis, fault in faults]
    moments = [
        frozenset().union(*(down for other, down in planned if other.begins_s <= fault.begins_s < other.ends_s))
        for fault, _ in planned
    ]
    return max(moments, key=len, default=frozenset())


class ConditionWatch:
    """The threads that ask the owner's conditions, one each, until one says that everything is to be undone."""

    def __init__(self, conditions: Sequence[StopCondition], *, halt: Callable[[str], None]) -> None:
        """`halt` is called once, with the reason, in a thread of its own."""
        self._halt = halt
        self._ended = threading.Event()
        self._first = threading.Lock()
        self._threads = [
            threading.Thread(target=self._ask, args=(condition,), name=f"stop_if {condition.name}", daemon=True)
            for condition in conditions
        ]

    def start(self) -> None:
        """Begin to ask."""
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Ask no more. A question under way is not waited for."""
        self._ended.set()

    def _ask(self, condition: StopCondition) -> None:
        try:
            while not self._ended.is_set():
                try:
                    reason = condition.ask()
                except Exception as error:  # noqa: BLE001 - a condition that cannot be asked protects nobody
                    reason = f"it could not be asked: {type(error).__name__}: {error}"
                if reason is not None:
                    self._say(f"{condition.name}: {reason}")
                    return
                self._ended.wait(condition.every_s)
        finally:
            condition.close()

    def _say(self, reason: str) -> None:
        with self._first:
            if self._ended.is_set():
                return
            self._ended.set()
        log.warning("the owner's condition says stop: everything is undone", extra={"condition": reason})
        self._halt(reason)
