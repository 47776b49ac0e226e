"""Append evidence: what the raw operations show of lists that were appended to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np

from checkers.elle.append_order import Appends
from checkers.elle.explain import Contradiction, Reason, shown
from checkers.elle.graphs import RW, WR, WW
from checkers.elle.raw_operations import RawOperations
from checkers.elle.transactions import APPEND, FAIL, OK, READ, Transactions

__all__ = ["AppendEvidence"]

_Finder: TypeAlias = Callable[["AppendEvidence", int], Contradiction | None]
_ORDERS_MOST: Final = 64  # keys whose order is remembered


class AppendEvidence:
    """Looks up what the scans concluded. Places are micro-operations; of dirty-update, positions in the orders."""

    def __init__(self, of: Transactions, appends: Appends) -> None:
        self._of = of
        self._raw = RawOperations(of, appends.slots, appends.writers)
        self._appends = appends
        self._orders: dict[int, tuple[Sequence[int], Mapping[int, int]]] = {}

    def reason(self, before: int, after: int, kind: int) -> Reason | None:
        """Why one transaction comes before the other."""
        if self._of.status[before] == FAIL or self._of.status[after] == FAIL:
            return None
        return {WW: self._ww, WR: self._wr, RW: self._rw}[kind](before, after)

    def contradiction(self, name: str, place: int) -> Contradiction | None:
        """What is wrong there."""
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
        if self._of.status[after] != OK:
            return None
        for key, elements in self._reads(after):
            if elements and (key, elements[-1]) in earlier:
                text = f"{{b}} read key {key} as {shown(elements)}, whose last element {{a}} appended"
                return Reason(text, {"key": key, "value": elements[-1]})
        return None

    def _rw(self, before: int, after: int) -> Reason | None:
        later = self._raw.written(after)
        if self._of.status[before] != OK:
            return None
        for key, elements in self._reads(before):
            following = self._next(key, elements[-1] if elements else None, later)
            if following is not None:
                text = f"{{a}} read key {key} as {shown(elements)}, and {{b}} appended {following} {self._how(key, following)}"
                last = elements[-1] if elements else None
                return Reason(text, {"key": key, "value": last, "next": following})
        return None

    def _next(self, key: int, element: int | None, later: Mapping[tuple[int, int], int]) -> int | None:
        """Which of the appends `later` comes right after the element, or, if no read shows any after it, at some time."""
        order, places = self._order(key)
        if element is not None and element not in places:
            return None
        place = 0 if element is None else places[element] + 1
        if place < len(order):
            return order[place] if (key, order[place]) in later else None
        return next((other for k, other in later if k == key and other not in places), None)

    def _how(self, key: int, element: int) -> str:
        if element not in self._order(key)[1]:
            return "later, since no read shows it"
        return f"next, as op {self._of.index[self._raw.transaction(self._longest(key))]} read"

    def _order(self, key: int) -> tuple[Sequence[int], Mapping[int, int]]:
        """As `_order_of`, remembered for some keys; not by a cache around the method, which would keep all of this alive."""
        if key not in self._orders:
            if len(self._orders) >= _ORDERS_MOST:
                self._orders.clear()
            self._orders[key] = self._order_of(key)
        return self._orders[key]

    def _order_of(self, key: int) -> tuple[Sequence[int], Mapping[int, int]]:
        """The elements of a key as its longest read has them, each at its first place."""
        at = self._longest(key)
        elements = [] if at < 0 else self._raw.read(at)
        order = list(dict.fromkeys(elements))
        return order, {element: place for place, element in enumerate(order)}

    def _longest(self, key: int) -> int:
        return int(self._appends.longest[self._raw.number(key)])

    def _reads(self, transaction: int) -> list[tuple[int, Sequence[int]]]:
        places = self._raw.places(transaction)
        return [(self._raw.key(at), self._raw.read(at)) for at in places if self._of.f[at] == READ]

    # ── contradictions ───────────────────────────────────────────────────────────────────────────────────────────────

    def internal(self, at: int) -> Contradiction | None:
        """A read that contradicts its own transaction."""
        transaction = self._raw.committed(at)
        if transaction is None:
            return None
        key, found = self._raw.key(at), self._raw.read(at)
        expected: Sequence[int] | None = None
        own: list[int] = []
        for earlier in range(int(self._of.first[transaction]), at):
            if self._of.key[earlier] != self._of.key[at]:
                continue
            if self._of.f[earlier] == READ:
                expected, own = self._raw.read(earlier), []
            else:
                own.append(int(self._of.value[earlier]))
        agrees = found == [*expected, *own] if expected is not None else found[len(found) - len(own) :] == own
        if agrees or (expected is None and not own):
            return None
        before = f"read key {key} as {shown(expected)}" if expected is not None else ""
        since = f"appended {shown(own)} to key {key}" if own else ""
        return Contradiction(
            (transaction,),
            f"T1 itself {' and then '.join(filter(None, (before, since)))}",
            f"its next read of key {key} returned {shown(found)}",
            {"key": key, "read": found[-100:]},
        )

    def future_read(self, at: int) -> Contradiction | None:
        """A read that shows what its own transaction appends only later."""
        transaction = self._raw.committed(at)
        if transaction is None:
            return None
        key, elements = self._raw.key(at), set(self._raw.read(at))
        later = range(at + 1, int(self._of.first[transaction + 1]))
        for other in later:
            element = int(self._of.value[other])
            if self._of.f[other] == APPEND and self._of.key[other] == self._of.key[at] and element in elements:
                then = f"T1 read key {key} as {shown(self._raw.read(at))}"
                return Contradiction(
                    (transaction,),
                    then,
                    f"T1 itself appended {element} only afterwards",
                    {"key": key, "value": element},
                )
        return None

    def aborted_read(self, at: int) -> Contradiction | None:
        """A read of what an aborted transaction appended."""
        return self._of_element(
            at,
            lambda writer: writer >= 0 and self._of.status[writer] == FAIL,
            "T1 read {element} of key {key}",
            "T2, which appended it, was aborted",
        )

    def garbage_read(self, at: int) -> Contradiction | None:
        """A read of what nobody appended."""
        return self._of_element(
            at, lambda writer: writer < 0, "T1 read {element} of key {key}", "no transaction of the history appended it"
        )

    def _of_element(self, at: int, wrong: Callable[[int], bool], then: str, but: str) -> Contradiction | None:
        transaction = self._raw.committed(at)
        if transaction is None:
            return None
        key = self._raw.key(at)
        for element in self._raw.read(at):
            writer = self._raw.writer(at, element)
            if wrong(writer):
                nodes = (transaction, writer) if writer >= 0 else (transaction,)
                return Contradiction(nodes, then.format(element=element, key=key), but, {"key": key, "value": element})
        return None

    def intermediate_read(self, at: int) -> Contradiction | None:
        """A read that ends in the middle of another transaction's appends."""
        transaction = self._raw.committed(at)
        elements = self._raw.read(at)
        if transaction is None or not elements:
            return None
        key, last = self._raw.key(at), elements[-1]
        writer = self._raw.writer(at, last)
        if writer in {-1, transaction}:
            return None
        appended = self._raw.written(writer)
        since = [element for (k, element), other in appended.items() if k == key and other > appended[key, last]]
        if not since:
            return None
        then = f"T1 read key {key} as {shown(elements)}, which ends with {last} of T2"
        return Contradiction(
            (transaction, writer), then, f"T2 went on to append {shown(since)} to it", {"key": key, "value": last}
        )

    def duplicate_elements(self, at: int) -> Contradiction | None:
        """A read in which an element stands twice."""
        transaction = self._raw.committed(at)
        if transaction is None:
            return None
        key, seen = self._raw.key(at), dict[int, int]()
        for place, element in enumerate(self._raw.read(at)):
            if element in seen:
                then = (
                    f"{element} was appended to key {key} once"
                    if self._raw.writer(at, element) >= 0
                    else "elements are unique"
                )
                but = f"T1 read it at place {seen[element]} and again at place {place} of {shown(self._raw.read(at))}"
                return Contradiction(
                    (transaction,), then, but, {"key": key, "value": element, "places": [seen[element], place]}
                )
            seen[element] = place
        return None

    def incompatible_order(self, at: int) -> Contradiction | None:
        """Two reads of a key of which neither is a beginning of the other."""
        transaction = self._raw.committed(at)
        if transaction is None:
            return None
        key, longest = self._raw.key(at), self._longest(self._raw.key(at))
        one, other = self._raw.read(at), self._raw.read(longest)
        place = next((n for n, (x, y) in enumerate(zip(one, other, strict=False)) if x != y), None)
        if place is None or self._raw.committed(longest) is None:
            return None
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
        if not both or self._of.key[at] != self._of.key[other] or found != self._raw.read(other):
            return None
        then = f"T1 and T2 both read key {key} as {shown(found)} and then appended to it"
        return Contradiction(
            (one, two), then, "neither saw what the other appended", {"key": key, "read": found[-100:]}
        )

    def dirty_update(self, position: int) -> Contradiction | None:
        """A committed append on top of an aborted one, in the order of a key."""
        orders = self._appends.orders
        dense = int(np.searchsorted(orders.start, position, side="right")) - 1
        key, longest = int(self._of.keys[dense]), int(self._appends.longest[dense])
        read = self._raw.read(longest)
        place = position - int(orders.start[dense])
        writers = [self._raw.writer(longest, element) for element in read[: place + 1]]
        if self._raw.committed(longest) is None or writers[place] < 0 or self._of.status[writers[place]] != OK:
            return None
        first = {element: n for n, element in reversed(list(enumerate(read[:place])))}
        for below in range(place - 1, -1, -1):
            if first[read[below]] != below:
                continue  # it stands there again
            if writers[below] >= 0 and self._of.status[writers[below]] == OK:
                return None
            if writers[below] >= 0 and self._of.status[writers[below]] == FAIL:
                then = f"T1, which appended {read[below]} to key {key}, was aborted"
                but = f"T3 read key {key} as {shown(read)}: the {read[place]} that T2 committed stands on top of it"
                nodes = (writers[below], writers[place], self._raw.transaction(longest))
                return Contradiction(nodes, then, but, {"key": key, "aborted": read[below], "value": read[place]})
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
