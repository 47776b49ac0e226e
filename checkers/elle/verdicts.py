"""Verdicts on transactions: from what was found to what it rules out, each finding shown by the raw operations."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from schemaquake.checkers.elle import append_order, version_order
from schemaquake.checkers.elle.append_evidence import AppendEvidence
from schemaquake.checkers.elle.cycles import Cycles, find_cycles, process_edges
from schemaquake.checkers.elle.explain import Evidence, of_contradiction, of_cycle
from schemaquake.checkers.elle.graphs import PASS, Graph
from schemaquake.checkers.elle.models import Order, model, order_of, prohibited, ruled_out
from schemaquake.checkers.elle.register_evidence import RegisterEvidence
from schemaquake.checkers.elle.transactions import FAIL, OK, Transactions, transactions
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.verdict import Anomaly, Doubt, Stat, Validity, Verdict, make_stats

__all__ = [
    "SHOWN_MOST",
    "Findings",
    "Question",
    "concluded",
    "dependent",
    "of_list_append",
    "of_rw_register",
    "with_undecided",
]

SHOWN_MOST = 8
"""Findings of one type that are told; the others are counted."""


@dataclass(slots=True)
class Question:
    """Which models are asked about, which anomalies besides, and how long it may take."""

    checker: str
    models: Sequence[str]
    anomalies: Sequence[str]
    limit_s: float
    began: float = field(default_factory=time.monotonic)
    seconds: dict[str, JSON] = field(default_factory=dict)
    forbidden: frozenset[str] = frozenset()
    order: Order | None = None

    def __post_init__(self) -> None:
        self.forbidden = prohibited(self.models, self.anomalies)
        self.order = order_of(self.forbidden)

    def lap(self, what: str, since: float) -> float:
        """Note how long something took; return the time."""
        now = time.monotonic()
        self.seconds[f"{what}_s"] = round(now - since, 4)
        return now

    def nothing(self, why: str, stats: Mapping[str, JSON]) -> Verdict:
        """There was nothing that the question applies to."""
        return Verdict.unknown(self.checker, Doubt("nothing-to-judge", why), stats=make_stats(stats))


def of_list_append(history: pa.Table, question: Question) -> Verdict:
    """The verdict on transactions that read lists and append to them. Raises HistoryError and PlanError."""
    now = time.monotonic()
    of = transactions(history, "list-append")
    if not of.count:
        return question.nothing("no transaction appends to lists or reads them", {})
    now = question.lap("transactions", now)
    appends = append_order.analyse(of)
    now = question.lap("orders", now)
    graph = append_order.graph_of(of, appends)
    question.lap("dependencies", now)
    places = {name: found.tolist()[:SHOWN_MOST] for name, found in appends.found.items()}
    counts = {name: len(found) for name, found in appends.found.items()}
    return _judged(of, graph, places, counts, AppendEvidence(of, appends), question, {})


def of_rw_register(history: pa.Table, question: Question, promises: Collection[str]) -> Verdict:
    """The verdict on transactions that read and write registers. Raises HistoryError and PlanError."""
    now = time.monotonic()
    of = transactions(history, "rw-register")
    if not of.count:
        return question.nothing("no transaction reads or writes registers", {})
    now = question.lap("transactions", now)
    registers = version_order.analyse(of, promises)
    now = question.lap("orders", now)
    graph = version_order.graph_of(of, registers)
    question.lap("dependencies", now)
    places = {name: found.tolist()[:SHOWN_MOST] for name, found in registers.found.items()}
    counts = {name: len(found) for name, found in registers.found.items()}
    circles = sum(len(broken.versions) for broken in registers.broken)
    if circles:
        places["cyclic-versions"] = list(range(min(circles, SHOWN_MOST)))
        counts["cyclic-versions"] = circles
    unordered = version_order.unordered_keys(of, registers)
    stats: dict[str, JSON] = {
        "promises": list(registers.kept),
        "broken-promises": [broken.promise for broken in registers.broken],
        "unordered-keys": unordered,
    }
    return with_undecided(
        _judged(of, graph, places, counts, RegisterEvidence(of, registers), question, stats), question
    )


def with_undecided(verdict: Verdict, question: Question) -> Verdict:
    """The verdict on registers, with the models that are kept only as far as the order of versions is known."""
    # Nothing was found, but where the order of versions is not known there may be cycles that nobody can see.
    silent = verdict.stats["unordered-keys"].value and verdict.valid is True
    undecided = sorted({model(name).name for name in question.models}) if silent else []
    return replace(verdict, stats={**verdict.stats, "not-decided": Stat(undecided)})


def _judged(
    of: Transactions,
    graph: Graph,
    places: Mapping[str, Sequence[int]],
    counts: Mapping[str, int],
    evidence: Evidence,
    question: Question,
    stats: Mapping[str, JSON],
) -> Verdict:
    now = time.monotonic()
    cycles = find_cycles(of, graph, question.order, deadline=question.began + question.limit_s)
    now = question.lap("cycles", now)
    anomalies = _shown(of, places, cycles, evidence, question)
    question.lap("explanations", now)
    findings = Findings(
        transactions=of.count,
        counts=counts,
        cycles=cycles,
        anomalies=anomalies,
        related=lambda: dependent(of, graph, unknown=question.checker == "list-append") or _ordered(of, question.order),
        stats=stats,
    )
    return concluded(findings, question)


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What was found in `transactions`: how often each anomaly in single keys, which cycles, and what is told of it.

    `related`: whether any transaction depends on another one, or is ordered after it, so that there was a question.
    """

    transactions: int
    counts: Mapping[str, int]
    cycles: Cycles
    anomalies: Sequence[Anomaly]
    related: Callable[[], bool]
    stats: Mapping[str, JSON]


def concluded(findings: Findings, question: Question) -> Verdict:
    """The verdict that follows from the findings."""
    cycles = findings.cycles
    found = set(findings.counts) | set(cycles.counts) | cycles.undecided
    weakest, stronger = ruled_out(found)
    told: dict[str, JSON] = {
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
    verdict = Verdict(
        valid=valid,
        checker=question.checker,
        anomalies=tuple(findings.anomalies),
        stats=make_stats(told),
        doubts=doubts,
    )
    return replace(verdict, anomalies=()) if verdict.judged_nothing else verdict


def _answer(findings: Findings, found: set[str], question: Question) -> tuple[Validity, tuple[Doubt, ...]]:
    """What that makes together, and why it is unknown."""
    if found & question.forbidden:
        return False, ()
    if findings.cycles.late:
        text = f"the time limit of {question.limit_s:g} s passed before every cycle was looked at"
        return "unknown", (Doubt("time", text),)
    if not findings.related():
        return "unknown", (Doubt("nothing-to-judge", "no committed transaction depends on another one"),)
    return True, ()


def dependent(of: Transactions, graph: Graph, *, unknown: bool) -> bool:
    """Whether any transaction that may have happened depends on a committed one (or, if `unknown`, on any)."""
    origin = np.zeros(graph.count, np.bool_)
    origin[: of.count] = of.status != FAIL if unknown else of.status == OK
    source, target = graph.source(), graph.target
    into = origin[source] & (target >= of.count)
    if (origin[source] & ~into & (graph.kind != PASS)).any():
        return True
    out_of = (source >= of.count) & (target < of.count)
    if ((source >= of.count) & (target >= of.count)).any():
        return bool(into.any() and out_of.any())  # some way through several junctions; which one does not matter here
    # Of each junction two transactions before it and two after it, if there are so many: some pair must be two.
    before, after = np.full((2, graph.count), -1), np.full((2, graph.count), -1)
    for ends, junctions, nodes in ((before, target[into], source[into]), (after, source[out_of], target[out_of])):
        ends[0, junctions] = nodes
        ends[1, junctions[::-1]] = nodes[::-1]
    differ = [(one >= 0) & (other >= 0) & (one != other) for one in before for other in after]
    return bool(np.any(differ))


def _ordered(of: Transactions, order: Order | None) -> bool:
    """Whether any transaction comes before another by the order alone."""
    committed = of.status == OK
    if order == "process":
        _, source, target, _ = process_edges(of)
        return bool((committed[source] & committed[target]).any())
    return (
        order == "realtime"
        and bool(committed.any())
        and int(of.completed[committed].min()) < int(of.invoked[of.status != FAIL].max(initial=-1))
    )


def _shown(
    of: Transactions, places: Mapping[str, Sequence[int]], cycles: Cycles, evidence: Evidence, question: Question
) -> list[Anomaly]:
    """The prohibited findings, worst first as far as they are listed. Raises AssertionError for one that is not true."""
    shown: list[Anomaly] = []
    for name in sorted(set(places) & question.forbidden):
        for place in places[name]:
            contradiction = evidence.contradiction(name, place)
            if contradiction is None:
                raise AssertionError(f"{name} at {place}: the operations do not show it")
            shown.append(of_contradiction(of, name, contradiction))
    told = [witness for witness in cycles.witnesses if witness.kind in question.forbidden]
    shown += [of_cycle(of, witness, evidence, question.order) for witness in told]
    return shown
