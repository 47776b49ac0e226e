"""Telling: the few transactions of which something is told, read once more as they stand in the history, and why each precedes the next.

Whoever tells has no keys: he asks the shares of the keys, and takes, as one who has all keys would, what the
transaction's earliest micro-operation shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from schemaquake.checkers.elle.cycles import Found
from schemaquake.checkers.elle.explain import Contradiction, Reason, of_contradiction, of_cycle
from schemaquake.checkers.elle.graphs import RW, WR
from schemaquake.checkers.elle.models import Order
from schemaquake.checkers.elle.transactions import READ, Transactions, transactions
from schemaquake.checkers.elle.witnesses import Cycle
from schemaquake.harness.model.records import HISTORY
from schemaquake.harness.model.verdict import Anomaly
from schemaquake.results.engines.parts import read_whole, write_whole
from schemaquake.results.engines.ranges import read_range
from schemaquake.results.engines.steps import Document

__all__ = ["Told", "read_events"]

_EVENTS: Final = pa.schema([*HISTORY, pa.field("row", pa.int64())])


def read_events(document: Document) -> Document:
    """The events of a range that stand in the given rows."""
    events = read_range(document)
    wanted = np.array(document["wanted"], np.int64)
    kept = events.take(pa.array(wanted - document["first"]))
    table = pa.Table.from_arrays([*kept.columns, pa.array(wanted)], schema=_EVENTS)
    file = Path(document["folder"]) / f"told-{document['range']}.parquet"
    return {"events": write_whole(file, table)}


@dataclass(frozen=True, slots=True)
class Told:
    """Transactions by id, as the history has them."""

    of: Transactions
    number: Mapping[int, int]
    kind: str

    @classmethod
    def of_events(cls, files: Sequence[str], kind: Any, ids: Mapping[int, int]) -> Told:
        """From what `read_events` wrote; `ids` has the id of the transaction that was invoked in a row."""
        events = read_whole(files, _EVENTS).sort_by("row")
        rows = events["row"].to_numpy()
        of = transactions(events.select(HISTORY.names).cast(HISTORY), kind)
        return cls(of, {ids[int(rows[row])]: node for node, row in enumerate(of.invoked)}, kind)

    def keys(self, id_: int) -> set[int]:
        """The keys that a transaction touches."""
        node = self.number[id_]
        places = slice(int(self.of.first[node]), int(self.of.first[node + 1]))
        return set(self.of.keys[self.of.key[places]].tolist())

    def contradiction(self, name: str, found: Document) -> Anomaly:
        """The anomaly that a share of the keys found."""
        nodes = tuple(self.number[id_] for id_ in found["transactions"])
        return of_contradiction(self.of, name, Contradiction(nodes, found["then"], found["but"], found["facts"]))

    def cycle(
        self, found: Found, reasons: Mapping[tuple[int, int, int], Sequence[Document]], order: Order | None
    ) -> Anomaly:
        """A cycle whose nodes are ids."""
        nodes = tuple(self.number[id_] for id_ in found.cycle.nodes)
        here = replace(found, cycle=Cycle(nodes, found.cycle.kinds))
        by_number = {
            (self.number[one], self.number[other], kind): known for (one, other, kind), known in reasons.items()
        }
        return of_cycle(self.of, here, _Answers(self, by_number), order)

    def place(self, before: int, after: int, kind: int, facts: Mapping[str, Any]) -> int:
        """The micro-operation by which one transaction precedes the other, in the one whose micro-operations are gone through."""
        node = after if kind == WR else before
        begin, end = int(self.of.first[node]), int(self.of.first[node + 1])
        of_key = [at for at in range(begin, end) if int(self.of.keys[self.of.key[at]]) == facts["key"]]
        reads = kind in {WR, RW}
        fitting = [at for at in of_key if (self.of.f[at] == READ) == reads]
        if self.kind == "list-append":
            fitting = [at for at in fitting if self._last(at) == facts["value"]]
        return fitting[0]

    def _last(self, at: int) -> int | None:
        """What was appended there, or the last element that was read."""
        if self.of.f[at] != READ:
            return int(self.of.value[at])
        begin, end = int(self.of.begin[at]), int(self.of.end[at])
        return int(self.of.elements[end - 1]) if begin < end else None


class _Answers:
    """Reasons as the shares of the keys gave them."""

    def __init__(self, told: Told, reasons: Mapping[tuple[int, int, int], Sequence[Document]]) -> None:
        self._told = told
        self._reasons = reasons

    def reason(self, before: int, after: int, kind: int) -> Reason | None:
        """The one that the earliest micro-operation shows."""
        known = self._reasons.get((before, after, kind), ())
        placed = [(self._told.place(before, after, kind, one["facts"]), one) for one in known]
        if not placed:
            return None
        _, first = min(placed, key=lambda item: item[0])
        return Reason(first["text"], first["facts"])

    def contradiction(self, name: str, place: int) -> Contradiction | None:
        """Nothing is asked here of single keys."""
        raise NotImplementedError(name, place)
