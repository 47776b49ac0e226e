"""The axioms as they are written, tried on every order in which a few transactions may have committed.

A transaction takes part if it committed, or if its outcome is unknown and a committed one saw something of it. A list was
read from who appended its last element, and elements were appended in the order in which the longest read has them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

from small_histories import Transaction

LEVELS = ("read-committed", "read-atomic", "causal")
INITIAL = -1
Pairs = set[tuple[int, int]]


@dataclass(frozen=True)
class Story:
    """Who takes part, what each read from whom (key, writer), in its order, and wrote; sessions, reads, both closed; lists."""

    part: Sequence[int]
    reads: Mapping[int, list[tuple[int, int]]]
    writes: Mapping[int, set[int]]
    sessions: Pairs
    read_from: Pairs
    happened_before: Pairs
    appended_before: Pairs

    def sees(self, level: str, reader: int, at: int, other: int) -> bool:
        """Whether the reader of its read `at` must not overlook the other one."""
        return {
            "read-committed": any(source == other for _, source in self.reads[reader][:at]),
            "read-atomic": (other, reader) in self.sessions | self.read_from,
            "causal": (other, reader) in self.happened_before,
        }[level]


def story(transactions: Sequence[Transaction]) -> Story:
    by_time = sorted(transactions, key=lambda one: one.invoked)
    writer = {(k, v): n for n, one in enumerate(by_time) for f, k, v in one.mops if f != "r" and one.type != "fail"}
    reads = {n: list(_reads(n, one, writer)) for n, one in enumerate(by_time) if one.type == "ok"}
    shown = {
        writer[key, element]
        for n in reads
        for f, key, value in by_time[n].mops
        for element in (value if f == "r" and isinstance(value, list) else [value])
        if f == "r" and (key, element) in writer
    }
    part = sorted(set(reads) | shown)
    sessions = {(a, b) for a in part for b in part if a < b and by_time[a].process == by_time[b].process}
    read_from = {(w, t) for t, found in reads.items() for _, w in found if w != INITIAL}
    return Story(
        part=part,
        reads=reads,
        writes={n: {k for f, k, _ in by_time[n].mops if f != "r"} for n in part},
        sessions=sessions,
        read_from=read_from,
        happened_before=closed(sessions | read_from, part),
        appended_before={pair for pair in _list_order(by_time, writer) if set(pair) <= set(part)},
    )


def allowed(transactions: Sequence[Transaction]) -> set[str]:
    """The levels that some commit order fulfils. What is wrong with a read in itself is not looked at."""
    of = story(transactions)
    if any(a == b for a, b in of.happened_before):
        return set()
    found: set[str] = set()
    for order in permutations(of.part):
        place = {n: at for at, n in enumerate(order)} | {INITIAL: -1}
        if all(place[a] < place[b] for a, b in of.happened_before | of.appended_before):
            found |= {level for level in LEVELS if _fulfils(level, place, of)}
    return found


def saturated(transactions: Sequence[Transaction]) -> set[str]:
    """The same for more transactions: the levels whose axioms, applied wherever they apply, lead in no circle."""
    of = story(transactions)
    found = set()
    for level in LEVELS:
        before = of.happened_before | of.appended_before
        for reader, read in of.reads.items():
            for at, (key, source) in enumerate(read):
                for other in of.part:
                    if other not in {source, reader} and key in of.writes[other] and of.sees(level, reader, at, other):
                        before = before | {(other, source)}
        nodes = [INITIAL, *of.part]
        before |= {(INITIAL, node) for node in of.part}
        if not any(a == b for a, b in closed(before, nodes)):
            found.add(level)
    return found


def closed(pairs: Pairs, nodes: Sequence[int]) -> Pairs:
    """Everything that follows."""
    after: dict[int, set[int]] = {node: set() for node in nodes}
    for a, b in pairs:
        after[a].add(b)
    for via in nodes:
        for node in nodes:
            if via in after[node]:
                after[node] |= after[via]
    return {(a, b) for a in nodes for b in after[a]}


def _fulfils(level: str, place: Mapping[int, int], of: Story) -> bool:
    for reader, read in of.reads.items():
        for at, (key, source) in enumerate(read):
            for other in of.part:
                overlooked = other not in {source, reader} and key in of.writes[other] and place[other] > place[source]
                if overlooked and of.sees(level, reader, at, other):
                    return False
    return True


def _reads(n: int, one: Transaction, writer: Mapping[tuple[int, int], int]) -> Iterator[tuple[int, int]]:
    """(key, from whom) of everything that a transaction read from others, in its order."""
    wrote: set[int] = set()
    for f, key, value in one.mops:
        if f != "r":
            wrote.add(key)
            continue
        last = (value[-1] if value else None) if isinstance(value, list) else value
        source = INITIAL if last is None else writer.get((key, last))
        if key not in wrote and source is not None and source != n:
            yield key, source


def _list_order(by_time: Sequence[Transaction], writer: Mapping[tuple[int, int], int]) -> Pairs:
    """Whose element stands before whose, and before whose that no read shows."""
    longest: dict[int, list[int]] = {}
    for one in by_time:
        for f, key, value in one.mops:
            if f == "r" and one.type == "ok" and isinstance(value, list) and len(value) >= len(longest.get(key, [])):
                longest[key] = value
    found: Pairs = set()
    for key, elements in longest.items():
        known = [writer[key, element] for element in elements if (key, element) in writer]
        unseen = [w for (k, element), w in writer.items() if k == key and element not in elements]
        found |= {(a, b) for at, a in enumerate(known) for b in [*known[at + 1 :], *unseen] if a != b}
    return found
