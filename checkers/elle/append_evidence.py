"""Append evidence: what the raw operations show of lists that were appended to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

import numpy as np

from schemaquake.checkers.elle.append_order import Appends
from schemaquake.checkers.elle.arrays import Ints, Longs, Mask
from schemaquake.checkers.elle.explain import Contradiction, Reason, shown
from schemaquake.checkers.elle.graphs import RW, WR, WW
from schemaquake.checkers.elle.raw_operations import RawOperations
from schemaquake.checkers.elle.transactions import APPEND, FAIL, OK, READ, Transactions

__all__ = ["AppendEvidence"]

_Finder: TypeAlias = Callable[["AppendEvidence", int], Contradiction | None]
_NOTHING: Final[Longs] = np.zeros(0, np.int64)


class AppendEvidence:
    """Looks up what the scans concluded. Places are micro-operations; of dirty-update, positions in the orders."""

    def __init__(self, transactions: Transactions, appends: Appends) -> None:
        self._transactions = transactions
        self._raw = RawOperations(transactions, appends.slots, appends.writers)
        self._appends = appends

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
        later = self._raw.written(after)
        for key, element in self._raw.written(before):
            following = self._next(key, element, later)
            if following is not None:
                text = (
                    f"{{a}} appended {element} to key {key}, and {{b}} appended {following} {self._how(key, following)}"
                )
                return Reason(text, {"key": key, "value": element, "next": following})
        return None

    def _wr(self, before: int, after: int) -> Reason | None:
        earlier = self._raw.written(before)
        if self._transactions.status[after] != OK:
            return None
        for key, at in self._reads(after):
            last = self._raw.last(at)
            if last is not None and (key, last) in earlier:
                text = f"{{b}} read key {key} as {shown(self._raw.read(at))}, whose last element {{a}} appended"
                return Reason(text, {"key": key, "value": last})
        return None

    def _rw(self, before: int, after: int) -> Reason | None:
        later = self._raw.written(after)
        if self._transactions.status[before] != OK:
            return None
        for key, at in self._reads(before):
            last = self._raw.last(at)
            following = self._next(key, last, later)
            if following is not None:
                how = self._how(key, following)
                text = f"{{a}} read key {key} as {shown(self._raw.read(at))}, and {{b}} appended {following} {how}"
                return Reason(text, {"key": key, "value": last, "next": following})
        return None

    def _next(self, key: int, element: int | None, later: Mapping[tuple[int, int], int]) -> int | None:
        """Find the append in `later` that follows the element directly; if no read shows what follows, one that came at some time."""
        read = self._read(key)
        place = -1
        if element is not None:
            place = self._place(key, element)
            if place < 0:
                return None
        place += 1
        while place < len(read) and self._place(key, int(read[place])) != place:
            place += 1  # it stands there again
        if place < len(read):
            following = int(read[place])
            return following if (key, following) in later else None
        return next((other for k, other in later if k == key and self._place(key, other) < 0), None)

    def _how(self, key: int, element: int) -> str:
        if self._place(key, element) < 0:
            return "later, since no read shows it"
        return f"next, as op {self._transactions.index[self._raw.transaction(self._longest(key))]} read"

    def _place(self, key: int, element: int) -> int:
        """Find the first place of an element in the longest read of its key; −1: it is not in it."""
        number, read = self._raw.number(key), self._read(key)
        slot = self._raw.slot(number, element)
        if slot < 0 or self._appends.writers.writer[slot] < 0:  # not appended: that is rarely asked
            found = np.flatnonzero(read == element)
            return int(found[0]) if len(found) else -1
        position = int(self._appends.orders.position[slot])
        if position < 0:
            return -1
        place = position - int(self._appends.orders.start[number])
        assert read[place] == element
        return place

    def _read(self, key: int) -> Longs:
        """Get the longest read of a key."""
        at = self._longest(key)
        return _NOTHING if at < 0 else self._raw.read(at)

    def _longest(self, key: int) -> int:
        return int(self._appends.longest[self._raw.number(key)])

    def _reads(self, transaction: int) -> list[tuple[int, int]]:
        """List (key, micro-operation) of what it read."""
        return [(self._raw.key(at), at) for at in self._raw.places(transaction) if self._transactions.f[at] == READ]

    # ── contradictions ───────────────────────────────────────────────────────────────────────────────────────────────

    def internal(self, at: int) -> Contradiction | None:
        """Explain a read that contradicts its own transaction."""
        transaction = self._raw.committed(at)
        if transaction is None:
            return None
        key, found = self._raw.key(at), self._raw.read(at)
        expected: Longs | None = None
        own: list[int] = []
        for earlier in range(int(self._transactions.first[transaction]), at):
            if self._transactions.key[earlier] != self._transactions.key[at]:
                continue
            if self._transactions.f[earlier] == READ:
                expected, own = self._raw.read(earlier), []
            else:
                own.append(int(self._transactions.value[earlier]))
        since_then = np.array(own, np.int64)
        if expected is not None:
            agrees = np.array_equal(found, np.concatenate([expected, since_then]))
        else:
            agrees = len(own) <= len(found) and np.array_equal(found[len(found) - len(own) :], since_then)
        if agrees or (expected is None and not own):
            return None
        before = f"read key {key} as {shown(expected)}" if expected is not None else ""
        since = f"appended {shown(own)} to key {key}" if own else ""
        return Contradiction(
            (transaction,),
            f"T1 itself {' and then '.join(filter(None, (before, since)))}",
            f"its next read of key {key} returned {shown(found)}",
            {"key": key, "read": found[-100:].tolist()},
        )

    def future_read(self, at: int) -> Contradiction | None:
        """Explain a read that shows what its own transaction appends only later."""
        transaction = self._raw.committed(at)
        if transaction is None:
            return None
        key, later = self._raw.key(at), np.arange(at + 1, int(self._transactions.first[transaction + 1]))
        later = later[
            (self._transactions.f[later] == APPEND) & (self._transactions.key[later] == self._transactions.key[at])
        ]
        shows = np.flatnonzero(np.isin(self._transactions.value[later], self._raw.read(at)))
        if not len(shows):
            return None
        element = int(self._transactions.value[later[shows[0]]])
        return Contradiction(
            (transaction,),
            f"T1 read key {key} as {shown(self._raw.read(at))}",
            f"T1 itself appended {element} only afterwards",
            {"key": key, "value": element},
        )

    def aborted_read(self, at: int) -> Contradiction | None:
        """Explain a read of what an aborted transaction appended."""
        return self._of_element(
            at,
            lambda writers: (writers >= 0) & (self._transactions.status[writers] == FAIL),
            "T1 read {element} of key {key}",
            "T2, which appended it, was aborted",
        )

    def garbage_read(self, at: int) -> Contradiction | None:
        """Explain a read of an element that no transaction appended."""
        return self._of_element(
            at,
            lambda writers: writers < 0,
            "T1 read {element} of key {key}",
            "no transaction of the history appended it",
        )

    def _of_element(self, at: int, wrong: Callable[[Ints], Mask], then: str, but: str) -> Contradiction | None:
        """Explain the first wrong element, by its writer (−1: no transaction appended it)."""
        transaction = self._raw.committed(at)
        if transaction is None:
            return None
        key = self._raw.key(at)
        for begin, writers in self._raw.writers(at):
            places = np.flatnonzero(wrong(writers))
            if len(places):
                element = int(self._raw.read(at)[begin + places[0]])
                writer = self._raw.writer(at, element)
                nodes = (transaction, writer) if writer >= 0 else (transaction,)
                return Contradiction(nodes, then.format(element=element, key=key), but, {"key": key, "value": element})
        return None

    def intermediate_read(self, at: int) -> Contradiction | None:
        """Explain a read that ends in the middle of another transaction's appends."""
        transaction = self._raw.committed(at)
        last = self._raw.last(at)
        if transaction is None or last is None:
            return None
        key = self._raw.key(at)
        writer = self._raw.writer(at, last)
        if writer in {-1, transaction}:
            return None
        appended = self._raw.written(writer)
        since = [element for (k, element), other in appended.items() if k == key and other > appended[key, last]]
        if not since:
            return None
        then = f"T1 read key {key} as {shown(self._raw.read(at))}, which ends with {last} of T2"
        return Contradiction(
            (transaction, writer), then, f"T2 went on to append {shown(since)} to it", {"key": key, "value": last}
        )

    def duplicate_elements(self, at: int) -> Contradiction | None:
        """Explain a read in which an element stands twice."""
        transaction = self._raw.committed(at)
        if transaction is None:
            return None
        key, read = self._raw.key(at), self._raw.read(at)
        by_value = np.argsort(read, kind="stable")
        again = by_value[1:][np.diff(read[by_value]) == 0]
        if not len(again):
            return None
        place = int(again.min())
        element = int(read[place])
        first = int(np.flatnonzero(read == element)[0])
        appended = self._raw.writer(at, element) >= 0
        then = f"{element} was appended to key {key} once" if appended else "elements are unique"
        but = f"T1 read it at place {first} and again at place {place} of {shown(read)}"
        return Contradiction((transaction,), then, but, {"key": key, "value": element, "places": [first, place]})

    def incompatible_order(self, at: int) -> Contradiction | None:
        """Two reads of a key of which neither is a beginning of the other."""
        transaction = self._raw.committed(at)
        if transaction is None:
            return None
        key, longest = self._raw.key(at), self._longest(self._raw.key(at))
        one, other = self._raw.read(at), self._raw.read(longest)
        both = min(len(one), len(other))
        differing = np.flatnonzero(one[:both] != other[:both])
        if not len(differing) or self._raw.committed(longest) is None:
            return None
        place = int(differing[0])
        then = f"T1 read key {key} as {shown(one)}, and T2 read it as {shown(other)}"
        but = f"at place {place} they differ ({one[place]}, {other[place]}), and lists are only appended to"
        return Contradiction((transaction, self._raw.transaction(longest)), then, but, {"key": key, "place": place})

    def lost_update(self, at: int) -> Contradiction | None:
        """Two transactions that read the same version and then both appended to it."""
        other = int(self._appends.partner[at])
        one, two = self._raw.committed(at), self._raw.committed(other) if other >= 0 else None
        if one is None or two is None or one == two:
            return None
        key, found = self._raw.key(at), self._raw.read(at)
        both = self._raw.writes_later(one, at) and self._raw.writes_later(two, other)
        if (
            not both
            or self._transactions.key[at] != self._transactions.key[other]
            or not np.array_equal(found, self._raw.read(other))
        ):
            return None
        then = f"T1 and T2 both read key {key} as {shown(found)} and then appended to it"
        return Contradiction(
            (one, two), then, "neither saw what the other appended", {"key": key, "read": found[-100:].tolist()}
        )

    def dirty_update(self, position: int) -> Contradiction | None:
        """Explain a committed append on top of an aborted one, in the order of a key."""
        orders = self._appends.orders
        dense = int(np.searchsorted(orders.start, position, side="right")) - 1
        key, longest = int(self._transactions.keys[dense]), int(self._appends.longest[dense])
        read = self._raw.read(longest)
        place = position - int(orders.start[dense])
        value = int(read[place])
        writer = self._raw.writer(longest, value)
        if self._raw.committed(longest) is None or writer < 0 or self._transactions.status[writer] != OK:
            return None
        for below in range(place - 1, -1, -1):
            element = int(read[below])
            if self._place(key, element) != below:
                continue  # it stands there again
            under = self._raw.writer(longest, element)
            if under >= 0 and self._transactions.status[under] == OK:
                return None
            if under >= 0 and self._transactions.status[under] == FAIL:
                then = f"T1, which appended {element} to key {key}, was aborted"
                but = f"T3 read key {key} as {shown(read)}: the {value} that T2 committed stands on top of it"
                nodes = (under, writer, self._raw.transaction(longest))
                return Contradiction(nodes, then, but, {"key": key, "aborted": element, "value": value})
        return None


_FINDERS: Final[Mapping[str, _Finder]] = {
    "internal": AppendEvidence.internal,
    "future-read": AppendEvidence.future_read,
    "G1a": AppendEvidence.aborted_read,
    "G1b": AppendEvidence.intermediate_read,
    "garbage-read": AppendEvidence.garbage_read,
    "duplicate-elements": AppendEvidence.duplicate_elements,
    "incompatible-order": AppendEvidence.incompatible_order,
    "lost-update": AppendEvidence.lost_update,
    "dirty-update": AppendEvidence.dirty_update,
}
