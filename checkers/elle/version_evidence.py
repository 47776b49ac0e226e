"""Version evidence: why one version of a register comes before another, by the promises that are relied on."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from schemaquake.checkers.elle.transactions import NEVER, Transactions
from schemaquake.checkers.elle.version_order import Promise, Registers

__all__ = ["KeyVersions", "VersionStep"]


@dataclass(frozen=True, slots=True)
class VersionStep:
    """One version comes before another: why, and the transactions that show it, as {0} and {1} of `text`."""

    before: int
    after: int
    text: str
    transactions: tuple[int, ...]


class KeyVersions:
    """The accesses of committed transactions to one key, `rows` of the touches, and what orders its versions.

    `possible` are versions that transactions of unknown outcome may have written.
    """

    def __init__(
        self,
        transactions: Transactions,
        registers: Registers,
        rows: Sequence[int],
        possible: Collection[int],
        promises: Sequence[Promise],
    ) -> None:
        self._transactions = transactions
        self._initial = registers.initial
        self._possible = set(possible)
        touches = registers.touches
        self._rows = [(int(touches.transaction[row]), int(touches.read[row]), int(touches.write[row])) for row in rows]
        self._next: dict[int, list[VersionStep]] = {}
        self._known: dict[int, tuple[int, int]] = {}  # version → (completion, transaction) that left it first
        self._asked: dict[int, tuple[int, int]] = {}  # version → (invocation, transaction) that found it last
        if "wfr" in promises:
            self._add_own()
        if "sequential" in promises:
            self._add_processes()
        if "linearizable" in promises:
            self._add_real_time()

    def path(self, before: int, after: int) -> list[VersionStep] | None:
        """Find the shortest way from one version to another, or around to itself; None if their order is not known."""
        steps: dict[int, VersionStep | None] = {before: None}
        waiting = deque([before])
        while waiting:
            version = waiting.popleft()
            for step in self._from(version):
                if step.after == after:
                    found = [step]
                    at = steps[step.before]
                    while at is not None:
                        found.append(at)
                        at = steps[at.before]
                    return found[::-1]
                if step.after not in steps:
                    steps[step.after] = step
                    waiting.append(step.after)
        return None

    def _from(self, version: int) -> Iterator[VersionStep]:
        if version >= self._initial:
            text = "every key begins in its initial state"
            values = {v for _, read, write in self._rows for v in (read, write) if 0 <= v < self._initial}
            values |= self._possible
            yield from (VersionStep(version, value, text, ()) for value in sorted(values))
        yield from self._next.get(version, ())
        if version in self._known:
            completed, left_by = self._known[version]
            for other, (invoked, found_by) in self._asked.items():
                if completed < invoked and other != version:
                    text = "{0} left the one and completed before {1} was invoked, which found the other"
                    yield VersionStep(version, other, text, (left_by, found_by))

    def _add_own(self) -> None:
        for transaction, read, write in self._rows:
            if read >= 0 and write >= 0 and read != write:
                text = "{0} read the one and wrote the other"
                self._next.setdefault(read, []).append(VersionStep(read, write, text, (transaction,)))

    def _add_processes(self) -> None:
        recent: dict[int, tuple[int, int]] = {}
        for transaction, read, write in self._rows:
            process = int(self._transactions.process[transaction])
            found = read if read >= 0 else write
            if process in recent and recent[process][1] != found:
                earlier, left = recent[process]
                text = f"process {process} left the one in {{0}} and found the other in {{1}}"
                self._next.setdefault(left, []).append(VersionStep(left, found, text, (earlier, transaction)))
            recent[process] = (transaction, write if write >= 0 else read)

    def _add_real_time(self) -> None:
        for transaction, read, write in self._rows:
            found, left = read if read >= 0 else write, write if write >= 0 else read
            completed, invoked = (
                int(self._transactions.completed[transaction]),
                int(self._transactions.invoked[transaction]),
            )
            if completed != NEVER:
                self._known[left] = min(self._known.get(left, (NEVER, -1)), (completed, transaction))
            self._asked[found] = max(self._asked.get(found, (-1, -1)), (invoked, transaction))
