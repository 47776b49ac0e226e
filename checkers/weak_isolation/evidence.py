"""Evidence: what the raw operations show of a circle or of an axiom broken at once, in the form Let …, Then …, But ….

Let  T1 = op 2: p0 w 1 1 -> ok at 0.001 s
     T2 = op 4: p0 w 1 2, w 2 2 -> ok at 0.002 s
     T3 = op 6: p1 r 2 2, r 1 1 -> ok at 0.003 s
Then T1 came before T2 in process 0.
     But T2 committed before T1, because T3 first read 2 of key 2, which T2 wrote, and T3 read 1 of key 1, which T1 wrote,
     although T2 wrote 2 to it: no order of commits is like that, and read committed asks for one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from schemaquake.checkers.elle.arrays import Ints
from schemaquake.checkers.elle.explain import Contradiction, Evidence, shown
from schemaquake.checkers.elle.graphs import ORDER, WR, WW
from schemaquake.checkers.elle.raw_operations import RawOperations
from schemaquake.checkers.elle.transactions import FAIL, OK, READ, Transactions
from schemaquake.checkers.weak_isolation.axioms import EARLIER, KEY, LATER, READER
from schemaquake.checkers.weak_isolation.levels import Level
from schemaquake.checkers.weak_isolation.readings import INITIAL, Readings
from schemaquake.checkers.weak_isolation.routes import route
from schemaquake.checkers.weak_isolation.violations import Broken, Circle
from schemaquake.harness.model.operation import JSON

__all__ = ["Witnesses"]

_TRANSACTIONS_MOST: Final = 8  # that an explanation lists; the others are called by their index
_STEPS_MOST: Final = 200
_WAY_MOST: Final = 8  # steps by which one transaction happened before another that are put into words
_SAID: Final[dict[Level, str]] = {
    "read-committed": "read committed",
    "read-atomic": "read atomic",
    "causal": "causal consistency",
}


@dataclass(slots=True)
class _Cast:
    """Transactions that take part in an explanation, in order of their appearance."""

    of: Transactions
    nodes: list[int] = field(default_factory=list)

    def name(self, node: int) -> str:
        """Name a transaction: T1, T2 …; one that is not listed, by the index of its invocation."""
        if node not in self.nodes:
            self.nodes.append(node)
        place = self.nodes.index(node)
        return f"T{place + 1}" if place < _TRANSACTIONS_MOST else f"op {self.of.index[node]}"


class Witnesses:
    """Says why, and says nothing that the operations do not show."""

    def __init__(
        self,
        transactions: Transactions,
        readings: Readings,
        raw: RawOperations,
        evidence: Evidence,
        *,
        lists: bool,
        position: Ints | None,
    ) -> None:
        self._transactions = transactions
        self._readings = readings
        self._raw = raw
        self._evidence = evidence
        self._lists = lists
        self._position = position

    def of_circle(self, circle: Circle, steps: Ints) -> Contradiction | None:
        """Explain the cycle, with every edge that is shown justified; None if one cannot be. `steps` are those of its level."""
        nodes = circle.cycle.nodes
        by_ends = _ByEnds(steps)
        cast = _Cast(self._transactions)
        for node in nodes[:_STEPS_MOST]:
            cast.name(node)
        said: list[str] = []
        facts: list[JSON] = []
        for at, (node, kind) in enumerate(zip(nodes, circle.cycle.kinds, strict=True)):
            following, last = nodes[(at + 1) % len(nodes)], at == len(nodes) - 1
            if at >= _STEPS_MOST and not last:
                continue
            listed = at < _TRANSACTIONS_MOST - 1 or last
            # Who is needed only for what is not said is not listed either.
            silent = cast if listed else _Cast(self._transactions, list(nodes[:_TRANSACTIONS_MOST]))
            explained = self._edge(silent, node, following, kind, circle.level, by_ends)
            if explained is None:
                return None
            if listed:
                said.append(explained[0])
            if at < _STEPS_MOST:
                ends = {"from": int(self._transactions.index[node]), "to": int(self._transactions.index[following])}
                facts.append({**ends, **explained[1]})
        left_out = len(nodes) - len(said)
        then = [*said[:-1], *([f"… and {left_out} steps more"] if left_out else [])]
        about = {"length": len(nodes), "component": circle.component, "shortest": circle.shortest}
        return Contradiction(
            tuple(cast.nodes[:_STEPS_MOST]),
            ".\n     ".join(then),
            f"{said[-1]}: no order of commits is like that, and {_SAID[circle.level]} asks for one",
            {"level": circle.level, "steps": facts, **about},
        )

    def of_broken(self, broken: Broken) -> Contradiction | None:
        """Explain a read of a key in its initial state by a transaction that saw a writer of it."""
        cast = _Cast(self._transactions, [broken.reader, broken.earlier])
        explained = self._axiom(cast, broken.level, (broken.earlier, INITIAL, broken.reader, broken.key))
        if explained is None:
            return None
        seen, found, facts = explained
        return Contradiction(
            tuple(cast.nodes[:_STEPS_MOST]),
            seen,
            f"{found}: by {_SAID[broken.level]}, whoever sees T2 sees what it wrote, or something later",
            {"level": broken.level, **facts},
        )

    # ── edges ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _edge(
        self, cast: _Cast, before: int, after: int, kind: int, level: Level, steps: _ByEnds
    ) -> tuple[str, dict[str, JSON]] | None:
        """Why one is before the other, in words and as facts; None if the operations do not show it."""
        a, b = cast.name(before), cast.name(after)
        if kind == ORDER:
            return self._in_session(a, b, before, after)
        if kind == WR:
            for at, key, value, writer in self._reads(after):
                if (
                    writer == before
                    and self._transactions.status[before] != FAIL
                    and self._transactions.status[after] == OK
                ):
                    text = f"{a} comes before {b}, because {b} {self._read(at, a)}"
                    return text, {"kind": "wr", "key": key, "value": value}
            return None
        if kind == WW:
            reason = self._evidence.reason(before, after, kind)
            if reason is None:
                return None
            text = f"{a} comes before {b}, because {reason.text.format(a=a, b=b)}"
            return text, {"kind": "ww", **reason.facts}
        for step in steps.between(before, after):
            explained = self._axiom(cast, level, step)
            if explained is not None:
                seen, found, facts = explained
                return f"{a} committed before {b}, because {seen}, and {found}", {"kind": level, **facts}
        return None

    def _in_session(self, a: str, b: str, before: int, after: int) -> tuple[str, dict[str, JSON]] | None:
        of = self._transactions
        if of.process[before] != of.process[after] or of.invoked[before] >= of.invoked[after]:
            return None
        process = int(of.process[before])
        return f"{a} came before {b} in process {process}", {"kind": "process", "process": process}

    def _axiom(self, cast: _Cast, level: Level, step: Sequence[int]) -> tuple[str, str, dict[str, JSON]] | None:
        """Explain how the reader saw the earlier one, what it read all the same, and both as facts."""
        earlier, later, reader, number = step[EARLIER], step[LATER], step[READER], step[KEY]
        key = int(self._transactions.keys[number])
        value = next((value for k, value in self._raw.written(earlier) if k == key), None)
        reads = [(at, k, v) for at, k, v, writer in self._reads(reader) if k == key and writer == later]
        if (
            value is None
            or not reads
            or FAIL in {self._transactions.status[earlier], self._transactions.status[reader]}
        ):
            return None
        for at, _, found in reads:
            seen = self._seen(cast, level, earlier, reader, at)
            if seen is not None:
                a, c = cast.name(earlier), cast.name(reader)
                then = "then " if level == "read-committed" else ""
                wrote = "appended" if self._lists else "wrote"
                text = f"{then}{c} {self._read(at, cast.name(later) if later != INITIAL else None)}, although {a} {wrote} {value} to it"
                facts: dict[str, JSON] = {
                    "reader": int(self._transactions.index[reader]),
                    "key": key,
                    "read": found,
                    "overlooked": value,
                    "seen": seen[1],
                }
                return seen[0], text, facts
        return None

    def _seen(self, cast: _Cast, level: Level, earlier: int, reader: int, at: int) -> tuple[str, list[JSON]] | None:
        """Explain how the reader saw the earlier one, as its level has it, before it read what is at that place."""
        a, c = cast.name(earlier), cast.name(reader)
        mine = [(place, k, v) for place, k, v, writer in self._reads(reader) if writer == earlier]
        for place, key, value in mine:
            if level != "read-committed" or place < at:
                order = "first " if level == "read-committed" else ""
                return f"{c} {order}{self._read(place, a)}", [{"kind": "wr", "key": key, "value": value}]
        if level == "read-committed":
            return None
        explained = self._in_session(a, c, earlier, reader)
        if explained is not None:
            return explained[0], [explained[1]]
        if level == "read-atomic" or self._position is None:
            return None
        way = route(self._readings, self._position, earlier, reader)
        if way is None:
            return None
        shown_way = way[:_STEPS_MOST]
        steps = [self._edge(cast, before, after, kind, level, _NO_STEPS) for before, after, kind in shown_way]
        if any(step is None for step in steps):
            return None
        known = [step for step in steps if step is not None]
        texts = [text.partition(", because ")[2] or text for text, _ in known[:_WAY_MOST]]
        if len(way) > _WAY_MOST:
            texts.append(f"… and {len(way) - _WAY_MOST} steps more")
        facts: list[JSON] = [
            {"from": int(self._transactions.index[before]), "to": int(self._transactions.index[after]), **fact}
            for (before, after, _), (_, fact) in zip(shown_way, known, strict=True)
        ]
        return f"{a} happened before {c} ({'; '.join(texts)})", facts

    def _read(self, at: int, writer: str | None) -> str:
        """Describe a read and the writer of its value."""
        key = self._raw.key(at)
        if self._lists:
            whose = f", whose last element {writer} appended" if writer else ""
            return f"read key {key} as {shown(self._raw.read(at))}{whose}"
        return f"read {shown(self._raw.register(at))} of key {key}{f', which {writer} wrote' if writer else ''}"

    def _reads(self, transaction: int) -> Iterator[tuple[int, int, int | None, int]]:
        """List (place, key, value, writer) of every read of a key that the transaction itself had not written."""
        of = self._transactions
        wrote: set[int] = set()
        for at in self._raw.places(transaction):
            key = self._raw.key(at)
            if of.f[at] != READ:
                wrote.add(key)
            elif key not in wrote:
                value = self._value(at)
                yield at, key, value, INITIAL if value is None else self._raw.writer(at, value)

    def _value(self, at: int) -> int | None:
        """Find the value of a read; of a list, its last element."""
        if not self._lists:
            return self._raw.register(at)
        return self._raw.last(at)


class _ByEnds:
    """Steps of a level, to be looked up by the transactions that they lead from and to."""

    def __init__(self, steps: Ints) -> None:
        self._steps = steps[np.lexsort((steps[:, LATER], steps[:, EARLIER]))]

    def between(self, before: int, after: int) -> list[list[int]]:
        """List the transactions from one to the other, in their own order."""
        earlier = self._steps[:, EARLIER]
        begin, end = np.searchsorted(earlier, [before, before + 1])
        begin, end = begin + np.searchsorted(self._steps[begin:end, LATER], [after, after + 1])
        found: list[list[int]] = self._steps[begin:end].tolist()
        return found


_NO_STEPS: Final = _ByEnds(np.zeros((0, 4), np.int32))
