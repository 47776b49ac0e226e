"""Citations: the few transactions that findings name, read once more as they stand in the history, and why each precedes the next.

Here no key is analysed: the shares of the keys are asked for reasons (`schemaquake.checkers.elle.pieces.shares.justify`). Of
several, the one counts that the transaction's earliest micro-operation shows, as where all keys are known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from schemaquake.checkers.elle.cycles import Found
from schemaquake.checkers.elle.explain import Contradiction, Reason, of_contradiction, of_cycle
from schemaquake.checkers.elle.graphs import RW, WR
from schemaquake.checkers.elle.models import Order
from schemaquake.checkers.elle.pieces.shares import Precedence
from schemaquake.checkers.elle.transactions import READ, Kind, Transactions, read_transactions
from schemaquake.checkers.elle.witnesses import Cycle
from schemaquake.checkers.exchange.exchange import Part, Rows
from schemaquake.harness.model.records import HISTORY
from schemaquake.harness.model.verdict import Anomaly

__all__ = ["Citations", "Reasons", "read_citations", "read_rows"]

Reasons: TypeAlias = Mapping[Precedence, Sequence[Reason]]

_EVENTS: Final = pa.schema([*HISTORY, pa.field("row", pa.int64())])


def read_rows(rows: Rows, message: tuple[int, Sequence[int]]) -> Part:
    """Read the events of a range that stand in some rows of the history."""
    number, wanted = message
    places = np.array(wanted, np.int64)
    events = rows.events(number).take(pa.array(places - rows.first[number]))
    columns = [*events.select(HISTORY.names).columns, pa.array(places)]
    return rows.keep(f"cited-{number}", pa.Table.from_arrays(columns, schema=_EVENTS))


def read_citations(rows: Rows, parts: Sequence[Part], kind: Kind, ids: Mapping[int, int]) -> Citations:
    """Read the transactions out of what `read_rows` kept; `ids` has the id of the transaction that was invoked in a row."""
    events = rows.read(parts, _EVENTS).sort_by("row")
    places = events["row"].to_numpy()
    transactions = read_transactions(events.select(HISTORY.names).cast(HISTORY), kind)
    number = {ids[int(places[row])]: node for node, row in enumerate(transactions.invoked)}
    return Citations(transactions, number, kind)


@dataclass(frozen=True, slots=True)
class Citations:
    """Transactions as the history has them, and the number of each id among them."""

    transactions: Transactions
    number: Mapping[int, int]
    kind: Kind

    def keys(self, id_: int) -> set[int]:
        """List the keys that a transaction touches."""
        transactions, node = self.transactions, self.number[id_]
        places = slice(int(transactions.first[node]), int(transactions.first[node + 1]))
        return set(transactions.keys[transactions.key[places]].tolist())

    def contradiction(self, name: str, found: Contradiction) -> Anomaly:
        """Write the finding of a contradiction whose transactions are ids."""
        nodes = tuple(self.number[id_] for id_ in found.transactions)
        return of_contradiction(self.transactions, name, replace(found, transactions=nodes))

    def cycle(self, found: Found, reasons: Reasons, order: Order | None) -> Anomaly:
        """Write the finding of a cycle whose nodes are ids."""
        nodes = tuple(self.number[id_] for id_ in found.cycle.nodes)
        cycle = replace(found, cycle=Cycle(nodes, found.cycle.kinds))
        ids = {node: id_ for id_, node in self.number.items()}
        return of_cycle(self.transactions, cycle, _Answers(self, ids, reasons), order)

    def place(self, claim: Precedence, facts: Mapping[str, Any]) -> int:
        """Find the micro-operation that shows why one transaction precedes the other.

        It stands in the later one of a wr dependency, and in the earlier one of any other.
        """
        transactions = self.transactions
        node = self.number[claim.after if claim.kind == WR else claim.before]
        places = range(int(transactions.first[node]), int(transactions.first[node + 1]))
        reads = claim.kind in {WR, RW}
        return next(
            at
            for at in places
            if int(transactions.keys[transactions.key[at]]) == facts["key"]
            and (transactions.f[at] == READ) == reads
            and (self.kind != "list-append" or self._last(at) == facts["value"])
        )

    def _last(self, at: int) -> int | None:
        """Get the element that was appended there, or the last one that was read."""
        transactions = self.transactions
        if transactions.f[at] != READ:
            return int(transactions.value[at])
        begin, end = int(transactions.begin[at]), int(transactions.end[at])
        return int(transactions.elements[end - 1]) if begin < end else None


@dataclass(frozen=True, slots=True)
class _Answers:
    """Evidence out of the reasons that the shares of the keys gave."""

    citations: Citations
    ids: Mapping[int, int]
    reasons: Reasons

    def reason(self, before: int, after: int, kind: int) -> Reason | None:
        """Choose the reason that the earliest micro-operation shows."""
        claim = Precedence(self.ids[before], self.ids[after], kind)
        known = self.reasons.get(claim, ())
        placed = [(self.citations.place(claim, reason.facts), reason) for reason in known]
        return min(placed, key=lambda item: item[0])[1] if placed else None

    def contradiction(self, name: str, place: int) -> Contradiction | None:
        """Raise NotImplementedError: contradictions come from the shares whole."""
        raise NotImplementedError(name, place)
