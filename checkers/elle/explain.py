"""Explanations of what was found among transactions, in the form Let …, Then …, But ….

Let  T1 = op 12: p3 append 5 3 -> ok at 8.214 s
     T2 = op 14: p1 r 5 [1] -> ok at 8.219 s
Then T1 comes before T2, because T1 completed at 8.214 s, before T2 was invoked.
     But T2 comes before T1, because T2 read key 5 as [1], and T1 appended 3 next: a contradiction.

Everything said here is looked up in the raw operations once more, by the giver of the evidence (`Evidence`): what cannot
be shown there is not said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np

from schemaquake.checkers.elle.arrays import Longs
from schemaquake.checkers.elle.cycles import Found
from schemaquake.checkers.elle.graphs import ORDER, RW, WR, WW
from schemaquake.checkers.elle.models import Order
from schemaquake.checkers.elle.transactions import NEVER, MicroOp, Transactions
from schemaquake.checkers.findings.catalogue import anomaly
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.verdict import Anomaly

__all__ = ["Contradiction", "Evidence", "Reason", "of_contradiction", "of_cycle", "shown"]

_KINDS: Final = {WW: "ww", WR: "wr", RW: "rw"}
_TRANSACTIONS_MOST: Final = 8
_EVIDENCE_MOST: Final = 200
_MICRO_OPS_MOST: Final = 12
_ELEMENTS_MOST: Final = 12
_LIST_MOST: Final = 100
_ELEMENTS_OF_ALL: Final = 20_000


@dataclass(frozen=True, slots=True)
class Reason:
    """Why one transaction comes before another: a sentence about {a} and {b}, and its facts."""

    text: str
    facts: dict[str, JSON] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A contradiction within single operations: the transactions, called T1, T2 … in `then` and `but`, and the facts."""

    transactions: tuple[int, ...]
    then: str
    but: str
    facts: dict[str, JSON] = field(default_factory=dict)


class Evidence(Protocol):
    """A source of reasons, looked up in the raw operations."""

    def reason(self, before: int, after: int, kind: int) -> Reason | None:
        """Why `before` comes before `after` by a dependency of that kind; None if the operations do not show it."""
        ...

    def contradiction(self, name: str, place: int) -> Contradiction | None:
        """Explain the anomaly found at that place; None if the operations do not show it."""
        ...


def of_cycle(transactions: Transactions, found: Found, evidence: Evidence, order: Order | None) -> Anomaly:
    """Make the finding of a cycle, every edge of it justified. Raises AssertionError if one cannot be: then we are wrong."""
    nodes = found.cycle.nodes
    steps: list[str] = []
    facts: list[JSON] = []
    for at, (node, kind) in enumerate(zip(nodes, found.cycle.kinds, strict=True)):
        following = nodes[(at + 1) % len(nodes)]
        reason = (
            _order(transactions, node, following, order) if kind == ORDER else evidence.reason(node, following, kind)
        )
        if reason is None:
            raise AssertionError(
                f"{found.kind}: nothing shows that op {transactions.index[node]} precedes op {transactions.index[following]}"
            )
        last = at == len(nodes) - 1
        a, b = f"T{at + 1}", f"T{(at + 1) % len(nodes) + 1}"
        because = reason.text.format(a=a, b=b)
        if at < _TRANSACTIONS_MOST - 1 or last:
            steps.append(f"{a} comes before {b}, because {because}")
        if at < _EVIDENCE_MOST:
            ends = {"from": int(transactions.index[node]), "to": int(transactions.index[following])}
            kind_name = order if kind == ORDER else _KINDS[kind]
            facts.append({**ends, "kind": kind_name, **reason.facts, "because": because})
    left_out = len(nodes) - len(steps)
    then = ".\n     ".join([*steps[:-1], *([f"… and {left_out} steps more"] if left_out else [])])
    return anomaly(
        found.kind,
        ops=(int(transactions.index[node]) for node in nodes[:_EVIDENCE_MOST]),
        evidence={
            "steps": facts,
            "transactions": _evidence_of(transactions, nodes[:_EVIDENCE_MOST]),
            "length": len(nodes),
            "component": found.component,
            "shortest": found.shortest,
        },
        explanation=f"{_let(transactions, nodes)}\nThen {then}.\n     But {steps[-1]}: a contradiction.",
    )


def of_contradiction(transactions: Transactions, name: str, found: Contradiction) -> Anomaly:
    """Make the finding of an anomaly that is no cycle."""
    return anomaly(
        name,
        ops=(int(transactions.index[node]) for node in found.transactions),
        evidence={"transactions": _evidence_of(transactions, found.transactions), **found.facts},
        explanation=f"{_let(transactions, found.transactions)}\nThen {found.then}.\n     But {found.but}.",
    )


def _order(transactions: Transactions, before: int, after: int, order: Order | None) -> Reason | None:
    """Why one came before the other in its process, or in real time."""
    if order == "process":
        if (
            transactions.process[before] != transactions.process[after]
            or transactions.invoked[before] >= transactions.invoked[after]
        ):
            return None
        process = int(transactions.process[before])
        return Reason(f"{{a}} came before {{b}} in process {process}", {"process": process})
    if transactions.completed[before] == NEVER or transactions.completed[before] >= transactions.invoked[after]:
        return None
    completed, invoked = (
        transactions.time_of(transactions.completed[before]),
        transactions.time_of(transactions.invoked[after]),
    )
    moments = _seconds(completed), _seconds(invoked)
    if moments[0] == moments[1]:
        moments = f"{completed:,} ns", f"{invoked:,} ns"
    text = f"{{a}} completed at {moments[0]}, before {{b}} was invoked at {moments[1]}"
    return Reason(text, {"completed": completed, "invoked": invoked})


def _let(transactions: Transactions, nodes: Sequence[int]) -> str:
    lines = [f"T{number + 1} = {_line(transactions, node)}" for number, node in enumerate(nodes[:_TRANSACTIONS_MOST])]
    if len(nodes) > _TRANSACTIONS_MOST:
        lines.append(f"… and {len(nodes) - _TRANSACTIONS_MOST} more")
    return "\n".join(f"{'     ' if number else 'Let  '}{line}" for number, line in enumerate(lines))


def _line(transactions: Transactions, node: int) -> str:
    """`op 12: p3 append 5 3, r 6 [1 2] -> ok at 8.214 s`."""
    begin, end = int(transactions.first[node]), int(transactions.first[node + 1])
    words = [_words(transactions.micro_operation(at)) for at in range(begin, min(end, begin + _MICRO_OPS_MOST))]
    if end - begin > _MICRO_OPS_MOST:
        words.append(f"… and {end - begin - _MICRO_OPS_MOST} more")
    outcome = ("ok", "fail", "info")[transactions.status[node]]
    when = (
        f" at {_seconds(transactions.time_of(transactions.completed[node]))}"
        if transactions.completed[node] != NEVER
        else ""
    )
    return f"op {transactions.index[node]}: p{transactions.process[node]} {', '.join(words)} -> {outcome}{when}"


def _words(micro_op: MicroOp) -> str:
    f, key, value = micro_op
    return f"{f} {key} {shown(value)}"


def shown(value: int | Sequence[int] | Longs | None) -> str:
    """Render a value, or a list with its middle left out if it is long."""
    if value is None:
        return "nothing"
    if isinstance(value, int):
        return str(value)
    if len(value) > _ELEMENTS_MOST:
        half = _ELEMENTS_MOST // 2
        return f"[{' '.join(map(str, value[:half]))} … {' '.join(map(str, value[-half:]))}] of {len(value)}"
    return f"[{' '.join(map(str, value))}]"


def _evidence_of(transactions: Transactions, nodes: Sequence[int]) -> list[JSON]:
    """Transactions as evidence holds them, times in ns; long lists by their end, and the shorter the more there are."""
    count = sum(min(int(transactions.first[node + 1] - transactions.first[node]), _LIST_MOST) for node in nodes)
    most = min(_LIST_MOST, max(_ELEMENTS_MOST, _ELEMENTS_OF_ALL // max(count, 1)))
    return [_transaction_evidence(transactions, node, most) for node in nodes]


def _transaction_evidence(transactions: Transactions, node: int, most: int) -> JSON:
    begin, end = int(transactions.first[node]), int(transactions.first[node + 1])
    mops = [transactions.micro_operation(at) for at in range(begin, min(end, begin + _LIST_MOST))]
    return {
        "op": int(transactions.index[node]),
        "process": int(transactions.process[node]),
        "type": ("ok", "fail", "info")[transactions.status[node]],
        "invoked": transactions.time_of(transactions.invoked[node]),
        "completed": transactions.time_of(transactions.completed[node])
        if transactions.completed[node] != NEVER
        else None,
        "mops": [[f, key, _end_of(value, most) if isinstance(value, np.ndarray) else value] for f, key, value in mops],
    }


def _end_of(elements: Longs, most: int) -> list[JSON]:
    end: list[JSON] = elements[-most:].tolist()
    return end if len(elements) <= most else ["…", *end]


def _seconds(time_ns: int) -> str:
    return f"{time_ns / 1e9:.3f} s"
