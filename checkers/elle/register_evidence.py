"""Register evidence: what the raw operations show of registers that were read and written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np

from schemaquake.checkers.elle.arrays import Longs
from schemaquake.checkers.elle.explain import Contradiction, Reason, shown
from schemaquake.checkers.elle.graphs import RW, WR, WW
from schemaquake.checkers.elle.raw_operations import RawOperations
from schemaquake.checkers.elle.transactions import FAIL, INFO, OK, READ, Transactions
from schemaquake.checkers.elle.version_evidence import KeyVersions, VersionStep
from schemaquake.checkers.elle.version_order import PROMISES, Promise, Registers

__all__ = ["RegisterEvidence"]

_Finder: TypeAlias = Callable[["RegisterEvidence", int], Contradiction | None]
_KEYS_MOST: Final = 64  # keys whose versions are remembered


class RegisterEvidence:
    """Looks up what the scans concluded. Places are micro-operations; of cyclic-versions, the numbers of the circles."""

    def __init__(self, transactions: Transactions, registers: Registers) -> None:
        self._transactions = transactions
        self._raw = RawOperations(transactions, registers.slots, registers.writers)
        self._registers = registers
        self._remembered: dict[tuple[int, tuple[Promise, ...]], KeyVersions] = {}

    @cached_property
    def _by_key(self) -> tuple[Longs, Longs]:
        """Sort the touches by key, and where those of each key begin."""
        key = self._registers.touches.key
        order = np.argsort(key, kind="stable")
        return order, np.searchsorted(key[order], np.arange(len(self._transactions.keys) + 1))

    def reason(self, before: int, after: int, kind: int) -> Reason | None:
        """Why one transaction comes before the other."""
        if self._transactions.status[before] == FAIL or self._transactions.status[after] == FAIL:
            return None
        return {WW: self._ww, WR: self._wr, RW: self._rw}[kind](before, after)

    def contradiction(self, name: str, place: int) -> Contradiction | None:
        """Explain the contradiction that a scan flagged, from the raw operations."""
        return _FINDERS[name](self, place)

    # ── dependencies ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _ww(self, before: int, after: int) -> Reason | None:
        later = self._left(after)
        for key, value in self._left(before).items():
            if key in later:
                path = self._path(key, value, later[key])
                if path is not None:
                    return self._reason(f"{{a}} wrote {value} to key {key}", key, value, later[key], path)
        return None

    def _wr(self, before: int, after: int) -> Reason | None:
        if self._transactions.status[after] != OK:
            return None
        left = self._left(before)
        for key, value in self._found(after).items():
            if value is not None and left.get(key) == value:
                return Reason(f"{{b}} read {value} of key {key}, which {{a}} wrote", {"key": key, "value": value})
        return None

    def _rw(self, before: int, after: int) -> Reason | None:
        if self._transactions.status[before] != OK:
            return None
        later = self._left(after)
        for key, value in self._found(before).items():
            if key in later:
                path = self._path(key, value, later[key])
                if path is not None:
                    return self._reason(f"{{a}} read {shown(value)} of key {key}", key, value, later[key], path)
        return None

    def _reason(self, text: str, key: int, value: int | None, following: int, path: Sequence[VersionStep]) -> Reason:
        steps = [
            {"before": self._called(step.before), "after": self._called(step.after), "because": self._because(step)}
            for step in path
        ]
        why = "; ".join(
            f"{shown(self._called(step.before))} before {shown(self._called(step.after))}, since {self._because(step)}"
            for step in path
        )
        facts = {"key": key, "value": value, "next": following, "versions": steps}
        return Reason(f"{text}, and {{b}} wrote {following} later ({why})", facts)

    def _because(self, step: VersionStep) -> str:
        return step.text.format(*(f"op {self._transactions.index[node]}" for node in step.transactions))

    def _path(self, key: int, value: int | None, following: int) -> list[VersionStep] | None:
        number = self._raw.number(key)
        one, other = self._version(number, value), self._version(number, following)
        if one < 0 or other < 0 or one == other:
            return None
        return self._versions(number, self._registers.kept).path(one, other)

    def _versions(self, number: int, promises: tuple[Promise, ...]) -> KeyVersions:
        """Look up `_versions_of`, remembered for some keys; not by a cache around the method, which would keep all of this alive."""
        asked = number, promises
        if asked not in self._remembered:
            if len(self._remembered) >= _KEYS_MOST:
                self._remembered.clear()
            self._remembered[asked] = self._versions_of(number, promises)
        return self._remembered[asked]

    def _versions_of(self, number: int, promises: tuple[Promise, ...]) -> KeyVersions:
        order, start = self._by_key
        rows = order[start[number] : start[number + 1]].tolist()
        slots, writers = self._registers.slots, self._registers.writers
        begin, end = int(slots.base[number]), int(slots.base[number] + slots.size[number])
        unknown = (writers.writer[begin:end] >= 0) & (self._transactions.status[writers.writer[begin:end]] == INFO)
        possible = (begin + np.flatnonzero(unknown & writers.final[begin:end])).tolist()
        return KeyVersions(self._transactions, self._registers, rows, possible, promises)

    def _version(self, number: int, value: int | None) -> int:
        """Find the version of a value of a key; −1 if there is none."""
        return self._registers.initial + number if value is None else self._raw.slot(number, value)

    def _called(self, version: int) -> int | None:
        """Look up the value of a version; None for the initial state."""
        if version >= self._registers.initial:
            return None
        return self._raw.value(version)

    def _left(self, transaction: int) -> dict[int, int]:
        """Key → the last value the transaction wrote to it."""
        return {key: value for key, value in self._raw.written(transaction)}  # noqa: C416 - the later one of a key counts

    def _found(self, transaction: int) -> dict[int, int | None]:
        """Key → the value a transaction read of it before it wrote it."""
        found: dict[int, int | None] = {}
        wrote: set[int] = set()
        for at in self._raw.places(transaction):
            key = self._raw.key(at)
            if self._transactions.f[at] != READ:
                wrote.add(key)
            elif key not in wrote:
                found.setdefault(key, self._raw.register(at))
        return found

    # ── contradictions ───────────────────────────────────────────────────────────────────────────────────────────────

    def internal(self, at: int) -> Contradiction | None:
        """Explain a read that contradicts its own transaction."""
        transaction = self._raw.committed(at)
        if transaction is None:
            return None
        key, value = self._raw.key(at), self._raw.register(at)
        earlier = [
            n
            for n in range(int(self._transactions.first[transaction]), at)
            if self._transactions.key[n] == self._transactions.key[at]
        ]
        if not earlier or self._raw.register(earlier[-1]) == value:
            return None
        did = "read" if self._transactions.f[earlier[-1]] == READ else "wrote"
        then = f"T1 itself {did} {shown(self._raw.register(earlier[-1]))} {'of' if did == 'read' else 'to'} key {key}"
        but = f"its next read of key {key} returned {shown(value)}"
        return Contradiction((transaction,), then, but, {"key": key, "read": value})

    def future_read(self, at: int) -> Contradiction | None:
        """Explain a read that shows what its own transaction writes only later."""
        transaction = self._raw.committed(at)
        if transaction is None:
            return None
        key, value = self._raw.key(at), self._raw.register(at)
        if value is None or self._raw.written(transaction).get((key, value), -1) <= at:
            return None
        then = f"T1 read {value} of key {key}"
        return Contradiction((transaction,), then, "T1 itself wrote it only afterwards", {"key": key, "value": value})

    def aborted_read(self, at: int) -> Contradiction | None:
        """Explain a read of what an aborted transaction wrote."""
        read = self._read_of(at)
        if read is None or read[2] < 0 or self._transactions.status[read[2]] != FAIL:
            return None
        transaction, value, writer = read
        key = self._raw.key(at)
        then = f"T1 read {value} of key {key}"
        return Contradiction(
            (transaction, writer), then, "T2, which wrote it, was aborted", {"key": key, "value": value}
        )

    def intermediate_read(self, at: int) -> Contradiction | None:
        """Explain a read of what its writer then wrote over in the same transaction."""
        read = self._read_of(at)
        if read is None or read[2] in {-1, read[0]}:
            return None
        transaction, value, writer = read
        key, last = self._raw.key(at), self._left(writer)[self._raw.key(at)]
        if last == value:
            return None
        then = f"T1 read {value} of key {key}, which T2 wrote"
        return Contradiction(
            (transaction, writer), then, f"T2 itself went on to write {last} to it", {"key": key, "value": value}
        )

    def garbage_read(self, at: int) -> Contradiction | None:
        """Explain a read of a value that no transaction wrote."""
        read = self._read_of(at)
        if read is None or read[2] >= 0:
            return None
        key = self._raw.key(at)
        then = f"T1 read {read[1]} of key {key}"
        return Contradiction((read[0],), then, "no transaction of the history wrote it", {"key": key, "value": read[1]})

    def _read_of(self, at: int) -> tuple[int, int, int] | None:
        """Find (who read there, what, who wrote that)."""
        transaction = self._raw.committed(at)
        value = self._raw.register(at)
        return None if transaction is None or value is None else (transaction, value, self._raw.writer(at, value))

    def lost_update(self, at: int) -> Contradiction | None:
        """Two transactions that read the same version and then both wrote."""
        other = int(self._registers.partner[at])
        one, two = self._raw.committed(at), self._raw.committed(other) if other >= 0 else None
        if one is None or two is None or one == two:
            return None
        key, value = self._raw.key(at), self._raw.register(at)
        both = self._raw.writes_later(one, at) and self._raw.writes_later(two, other)
        if (
            not both
            or self._transactions.key[at] != self._transactions.key[other]
            or value != self._raw.register(other)
        ):
            return None
        then = f"T1 and T2 both read {shown(value)} of key {key} and then wrote it"
        return Contradiction((one, two), then, "neither saw what the other wrote", {"key": key, "read": value})

    def cyclic_versions(self, number: int) -> Contradiction | None:
        """Versions of a key that come before themselves by a promise."""
        circles = [(broken.promise, versions) for broken in self._registers.broken for versions in broken.versions]
        promise, versions = circles[number]
        before = PROMISES[: PROMISES.index(promise)]
        relied_on = (*(kept for kept in self._registers.kept if kept in before), promise)
        key = self._key_of(versions.tolist())
        order = self._versions(self._raw.number(key), relied_on)
        paths = [path for version in versions[:100].tolist() if (path := order.path(version, version)) is not None]
        if not paths:
            return None
        path = min(paths, key=len)
        nodes = tuple(dict.fromkeys(node for step in path for node in step.transactions))
        names = {node: f"T{place + 1}" for place, node in enumerate(nodes)}
        sentences = [
            f"{shown(self._called(step.before))} comes before {shown(self._called(step.after))}, because "
            f"{step.text.format(*(names[node] for node in step.transactions))}"
            for step in path
        ]
        then = f"of key {key} " + ".\n     ".join(sentences[:-1])
        facts = {"key": key, "versions": [self._called(step.before) for step in path], "promise": promise}
        return Contradiction(nodes, then, sentences[-1], facts)

    def _key_of(self, versions: Sequence[int]) -> int:
        if versions[-1] >= self._registers.initial:
            return int(self._transactions.keys[versions[-1] - self._registers.initial])
        return self._raw.key_of_slot(versions[0])


_FINDERS: Final[Mapping[str, _Finder]] = {
    "internal": RegisterEvidence.internal,
    "future-read": RegisterEvidence.future_read,
    "G1a": RegisterEvidence.aborted_read,
    "G1b": RegisterEvidence.intermediate_read,
    "garbage-read": RegisterEvidence.garbage_read,
    "lost-update": RegisterEvidence.lost_update,
    "cyclic-versions": RegisterEvidence.cyclic_versions,
}
