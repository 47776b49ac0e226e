"""Findings: everything that is wrong by some level, each thing shown by the raw operations."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

import numpy as np

from schemaquake.checkers.elle import version_order
from schemaquake.checkers.elle.append_evidence import AppendEvidence
from schemaquake.checkers.elle.append_order import Appends
from schemaquake.checkers.elle.arrays import Ints
from schemaquake.checkers.elle.explain import Evidence, of_contradiction
from schemaquake.checkers.elle.raw_operations import RawOperations
from schemaquake.checkers.elle.register_evidence import RegisterEvidence
from schemaquake.checkers.elle.transactions import Transactions
from schemaquake.checkers.weak_isolation.axioms import of_read_atomic, of_read_committed
from schemaquake.checkers.weak_isolation.causality import TooMuch, of_causality
from schemaquake.checkers.weak_isolation.commit_order import commit_order
from schemaquake.checkers.weak_isolation.evidence import Witnesses
from schemaquake.checkers.weak_isolation.question import CHECKER, MEMORY_BYTES, Question
from schemaquake.checkers.weak_isolation.readings import Found, Readings
from schemaquake.checkers.weak_isolation.violations import Violations
from schemaquake.harness.model.verdict import Anomaly, Doubt, Verdict, make_stats

__all__ = ["of_violations"]

_SHOWN_MOST: Final = 8  # findings of one type; the others are counted


def of_violations(
    transactions: Transactions,
    readings: Readings,
    found: Found,
    appends: Appends | None,
    known: Ints,
    question: Question,
) -> Verdict:
    """Make the verdict with everything that is wrong, what the weakest level rules out first. Raises AssertionError if it is not so."""
    now = time.monotonic()
    violations = Violations(readings, late=question.late)
    for name, places in sorted(found.places.items()):
        violations.add(name, "read-committed", len(places))
    if commit_order(readings, known) is None:
        violations.of_dependencies(known)
    steps = {"read-committed": np.concatenate([known, of_read_committed(readings)])}
    violations.of_axiom("read-committed", steps["read-committed"])
    doubt = None
    if question.level != "read-committed":
        violations.add("internal", "read-atomic", len(found.repeated))
        steps["read-atomic"] = np.concatenate([known, of_read_atomic(readings)])
        violations.of_axiom("read-atomic", steps["read-atomic"])
    order = None
    if question.level == "causal":
        order, doubt = _causal(readings, known, steps, violations, question)
    now = question.lap("violations", now)
    anomalies = _shown(transactions, readings, found, appends, steps, order, violations, question)
    question.lap("explanations", now)
    assert violations.weakest is not None, "no order of commits, but nothing that prevents one"
    stats = make_stats(question.stats(transactions.count, violations.counts, violations.weakest))
    doubts = () if doubt is None else (doubt,)
    return Verdict(valid=False, checker=CHECKER, anomalies=tuple(anomalies), stats=stats, doubts=doubts)


def _causal(
    readings: Readings, known: Ints, steps: dict[str, Ints], violations: Violations, question: Question
) -> tuple[Ints | None, Doubt | None]:
    """Look at causality, too, and return the order in which that was done; or why it was not."""
    # What happened before what is known even where read atomic puts it in a circle.
    for steps_so_far in (steps["read-atomic"], known):
        order = commit_order(readings, steps_so_far)
        if order is not None:
            break
    else:
        return None, Doubt("undecided", "causality was not looked at: reads and sessions themselves lead in a circle")
    try:
        more = of_causality(readings, order, late=question.late, memory_bytes=MEMORY_BYTES)
    except TooMuch as much:
        return None, question.too_much(much)
    steps["causal"] = np.concatenate([steps["read-atomic"], more])
    violations.of_axiom("causal", steps["causal"])
    return order, None


def _shown(
    transactions: Transactions,
    readings: Readings,
    found: Found,
    appends: Appends | None,
    steps: Mapping[str, Ints],
    order: Ints | None,
    violations: Violations,
    question: Question,
) -> list[Anomaly]:
    """Make the findings as far as they are listed. Raises AssertionError for one that the operations do not show."""
    evidence, raw = _evidence(transactions, appends)
    position = None
    if order is not None:
        position = np.full(transactions.count, -1, np.int32)
        position[order] = np.arange(len(order), dtype=np.int32)
    witnesses = Witnesses(transactions, readings, raw, evidence, lists=appends is not None, position=position)
    places = {name: at.tolist() for name, at in found.places.items()}
    if question.level != "read-committed":
        places["internal"] = [*places.get("internal", ()), *found.repeated.tolist()]
    contradictions = [
        (name, evidence.contradiction(name, place)) for name in sorted(places) for place in places[name][:_SHOWN_MOST]
    ]
    contradictions += [(broken.name, witnesses.of_broken(broken)) for broken in violations.broken]
    contradictions += [(circle.name, witnesses.of_circle(circle, steps[circle.level])) for circle in violations.circles]
    shown = []
    for name, contradiction in contradictions:
        if contradiction is None:
            raise AssertionError(f"{name}: the operations do not show it")
        shown.append(of_contradiction(transactions, name, contradiction))
    return shown


def _evidence(transactions: Transactions, appends: Appends | None) -> tuple[Evidence, RawOperations]:
    if appends is not None:
        return AppendEvidence(transactions, appends), RawOperations(transactions, appends.slots, appends.writers)
    registers = version_order.analyse(transactions, ())
    return RegisterEvidence(transactions, registers), RawOperations(transactions, registers.slots, registers.writers)
