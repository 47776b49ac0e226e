"""Verdicts on transactions: from what was found to what it rules out, each finding shown by the raw operations."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import pyarrow as pa

from schemaquake.checkers.elle.arrays import Mask
from schemaquake.checkers.elle.cycles import Cycles, find_cycles, process_edges
from schemaquake.checkers.elle.explain import of_contradiction, of_cycle
from schemaquake.checkers.elle.graphs import PASS, Graph
from schemaquake.checkers.elle.keys import SHOWN_MOST, Keys, analyse_keys
from schemaquake.checkers.elle.models import Order, model, order_of, prohibited, ruled_out
from schemaquake.checkers.elle.transactions import FAIL, OK, Kind, Transactions, read_transactions
from schemaquake.checkers.elle.version_order import TAKEN
from schemaquake.harness.compiled import working_time
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.verdict import Anomaly, Doubt, Validity, Verdict, make_stats

__all__ = [
    "NOTHING",
    "Findings",
    "Question",
    "concluded",
    "dependent",
    "judge_transactions",
    "register_stats",
]

NOTHING: Final[Mapping[Kind, str]] = {
    "list-append": "no transaction appends to lists or reads them",
    "rw-register": "no transaction reads or writes registers",
}
"""Why there is nothing to judge where no transaction is of the kind."""
_FIRST: Final = 1 << 12  # nodes whose edges are looked at before all others


@dataclass(slots=True)
class Question:
    """The models that are asked about, by one kind of transactions, other anomalies besides, and how long it may take."""

    kind: Kind
    models: Sequence[str]
    anomalies: Sequence[str]
    limit_s: float
    began: float = field(default_factory=working_time)
    seconds: dict[str, JSON] = field(default_factory=dict)
    forbidden: frozenset[str] = frozenset()
    order: Order | None = None

    def __post_init__(self) -> None:
        self.forbidden = prohibited(self.models, self.anomalies)
        self.order = order_of(self.forbidden)

    def lap(self, part: str, since: float) -> float:
        """Note how long something took; return the time."""
        now = time.monotonic()
        self.seconds[f"{part}_s"] = round(now - since, 4)
        return now

    def nothing(self, why: str, stats: Mapping[str, JSON]) -> Verdict:
        """Answer that there was nothing that the question applies to."""
        return Verdict.unknown(self.kind, Doubt("nothing-to-judge", why), stats=make_stats(stats))


def judge_transactions(history: pa.Table, question: Question, promises: Collection[str] = ()) -> Verdict:
    """Judge the transactions of a whole history: all keys are one share. Raises HistoryError and PlanError.

    `promises` of single registers are relied on (`schemaquake.checkers.elle.version_order.PROMISES`).
    """
    now = time.monotonic()
    transactions = read_transactions(history, question.kind)
    if not transactions.count:
        return question.nothing(NOTHING[question.kind], {})
    now = question.lap("transactions", now)
    keys = analyse_keys(transactions, question.kind, promises)
    now = question.lap("orders", now)
    _give_back()
    graph = keys.graph()
    now = question.lap("dependencies", now)
    _give_back()
    cycles = find_cycles(transactions, graph, question.order, deadline=question.began + question.limit_s)
    now = question.lap("cycles", now)
    anomalies = _shown(transactions, keys, cycles, question)
    question.lap("explanations", now)
    stats: Mapping[str, JSON] = {}
    if question.kind == "rw-register":
        kept = [promise for promise in TAKEN if promise in promises and promise not in keys.broken]
        stats = register_stats(kept, keys.broken, keys.unordered)
    findings = Findings(
        transactions=transactions.count,
        counts=keys.counts,
        cycles=cycles,
        anomalies=anomalies,
        related=lambda: (
            dependent(transactions, graph, unknown=question.kind == "list-append")
            or _ordered(transactions, question.order)
        ),
        stats=stats,
    )
    return concluded(findings, question)


def _give_back() -> None:
    """Give memory that earlier steps have freed back to the system: the allocator keeps it, and the next step is the largest."""
    pa.default_memory_pool().release_unused()


def register_stats(kept: Sequence[str], broken: Sequence[str], unordered: int) -> Mapping[str, JSON]:
    """Write the statistics of registers: the promises relied on, those found broken, the keys of incomplete order."""
    return {"promises": list(kept), "broken-promises": list(broken), "unordered-keys": unordered}


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """The findings in so many transactions: the number of each anomaly in single keys, cycles, and anomalies as shown.

    `related` says whether any transaction depends on another one, or is ordered after it, so that there was a question.
    """

    transactions: int
    counts: Mapping[str, int]
    cycles: Cycles
    anomalies: Sequence[Anomaly]
    related: Callable[[], bool]
    stats: Mapping[str, JSON]


def concluded(findings: Findings, question: Question) -> Verdict:
    """Conclude from the findings to the verdict."""
    cycles = findings.cycles
    found = set(findings.counts) | set(cycles.counts) | cycles.undecided
    weakest, stronger = ruled_out(found)
    stats: dict[str, JSON] = {
        "transactions": findings.transactions,
        "anomaly-types": sorted(found & question.forbidden),
        "found": {name: {**findings.counts, **cycles.counts}.get(name, 1) for name in sorted(found)},
        "not": weakest,
        "also-not": stronger,
        "models": sorted({model(name).name for name in question.models}),
        **findings.stats,
        **question.seconds,
    }
    valid, doubts = _answer(findings, found, question)
    if question.kind == "rw-register":
        stats["not-decided"] = _not_decided(findings, valid, question)
    verdict = Verdict(
        valid=valid,
        checker=question.kind,
        anomalies=tuple(findings.anomalies),
        stats=make_stats(stats),
        doubts=doubts,
    )
    return replace(verdict, anomalies=()) if verdict.judged_nothing else verdict


def _not_decided(findings: Findings, valid: Validity, question: Question) -> list[str]:
    """List the models that are kept only as far as the order of versions is known: elsewhere cycles go unseen."""
    if valid is not True or not findings.stats["unordered-keys"]:
        return []
    return sorted({model(name).name for name in question.models})


def _answer(findings: Findings, found: set[str], question: Question) -> tuple[Validity, tuple[Doubt, ...]]:
    """Decide validity, and the doubts if it is unknown."""
    if found & question.forbidden:
        return False, ()
    if findings.cycles.late:
        text = f"the time limit of {question.limit_s:g} s passed before every cycle was looked at"
        return "unknown", (Doubt("time", text),)
    if not findings.related():
        return "unknown", (Doubt("nothing-to-judge", "no committed transaction depends on another one"),)
    return True, ()


def dependent(transactions: Transactions, graph: Graph, *, unknown: bool) -> bool:
    """Decide whether any transaction that may have happened depends on a committed one (or, if `unknown`, on any)."""
    origin = np.zeros(graph.count, np.bool_)
    origin[: transactions.count] = transactions.status != FAIL if unknown else transactions.status == OK
    if _directly(graph, origin, min(_FIRST, graph.count)) or _directly(graph, origin, graph.count):
        return True
    source, target = graph.source(), graph.target
    into = origin[source] & (target >= transactions.count)
    out_of = (source >= transactions.count) & (target < transactions.count)
    if ((source >= transactions.count) & (target >= transactions.count)).any():
        return bool(into.any() and out_of.any())  # some way through several junctions; which one does not matter here
    # Of each junction two transactions before it and two after it, if there are so many: some pair must be two.
    before, after = np.full((2, graph.count), -1), np.full((2, graph.count), -1)
    for ends, junctions, nodes in ((before, target[into], source[into]), (after, source[out_of], target[out_of])):
        ends[0, junctions] = nodes
        ends[1, junctions[::-1]] = nodes[::-1]
    differ = [(one >= 0) & (other >= 0) & (one != other) for one in before for other in after]
    return bool(np.any(differ))


def _directly(graph: Graph, origin: Mask, nodes: int) -> bool:
    """Decide whether an edge of the first nodes leads from one of `origin` to a transaction, without a junction between."""
    source = graph.source(nodes)
    target, kind = graph.target[: len(source)], graph.kind[: len(source)]
    return bool((origin[source] & (target < graph.real) & (kind != PASS)).any())


def _ordered(transactions: Transactions, order: Order | None) -> bool:
    """Decide whether any transaction comes before another by the order alone."""
    committed = transactions.status == OK
    if order == "process":
        _, source, target, _ = process_edges(transactions)
        return bool((committed[source] & committed[target]).any())
    return (
        order == "realtime"
        and bool(committed.any())
        and int(transactions.completed[committed].min())
        < int(transactions.invoked[transactions.status != FAIL].max(initial=-1))
    )


def _shown(transactions: Transactions, keys: Keys, cycles: Cycles, question: Question) -> list[Anomaly]:
    """Write the prohibited findings, worst first as far as they are listed. Raises AssertionError for one that is not true."""
    shown: list[Anomaly] = []
    evidence, places = keys.evidence, keys.places
    for name in sorted(set(places) & question.forbidden):
        for place in places[name][:SHOWN_MOST]:
            contradiction = evidence.contradiction(name, place)
            if contradiction is None:
                raise AssertionError(f"{name} at {place}: the operations do not show it")
            shown.append(of_contradiction(transactions, name, contradiction))
    prohibited_cycles = [witness for witness in cycles.witnesses if witness.kind in question.forbidden]
    shown += [of_cycle(transactions, witness, evidence, question.order) for witness in prohibited_cycles]
    return shown
