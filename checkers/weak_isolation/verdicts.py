"""Verdicts on weak levels: from what transactions read of each other to whether a level is kept."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from schemaquake.checkers.elle.arrays import Ints
from schemaquake.checkers.elle.transactions import READ, read_transactions
from schemaquake.checkers.weak_isolation.axioms import LATER, of_read_atomic, of_read_committed
from schemaquake.checkers.weak_isolation.causality import TooMuch, of_causality
from schemaquake.checkers.weak_isolation.commit_order import commit_order
from schemaquake.checkers.weak_isolation.levels import Level
from schemaquake.checkers.weak_isolation.question import CHECKER, MEMORY_BYTES, Kind, Question
from schemaquake.checkers.weak_isolation.readings import INITIAL, Readings, of_lists, of_registers
from schemaquake.harness.model.verdict import Doubt, Verdict, make_stats

__all__ = ["of_transactions"]


def of_transactions(history: pa.Table, kind: Kind, level: Level, *, limit_s: float) -> Verdict:
    """Judge the transactions of one kind. Raises HistoryError."""
    question = Question(kind, level, limit_s)
    now = question.began
    of = read_transactions(history, kind)
    now = question.lap("transactions", now)
    things = "lists" if kind == "list-append" else "registers"
    if not (of.f != READ).any() and not of.given.any() and not (of.begin < of.end).any():
        return Verdict.unknown(CHECKER, Doubt("nothing-to-judge", f"no transaction writes {things} or reads one"))
    appends, known = None, np.zeros((0, 4), np.int32)
    if kind == "list-append":
        readings, found, appends, known = of_lists(of)
    else:
        readings, found = of_registers(of)
    now = question.lap("readings", now)
    if not len(readings.read_key) and not found.places:
        nothing = Doubt("nothing-to-judge", f"no committed transaction read {things} that another one may have written")
        return Verdict.unknown(CHECKER, nothing)
    repeated = len(found.repeated) > 0 and level != "read-committed"
    try:
        fulfilled = _fulfilled(readings, known, level, question.late)
    except TooMuch as much:
        if not (found.places or repeated):
            return Verdict.unknown(
                CHECKER, question.too_much(much), stats=make_stats(question.stats(of.count, {}, None))
            )
        fulfilled = False
    question.lap("axioms", now)
    if fulfilled and not (found.places or repeated):
        return Verdict(valid=True, checker=CHECKER, stats=make_stats(question.stats(of.count, {}, None)))
    # Most histories are clean, and do without the modules that explain.
    from schemaquake.checkers.weak_isolation.findings import of_violations  # noqa: PLC0415

    return of_violations(of, readings, found, appends, known, question)


def _fulfilled(readings: Readings, known: Ints, level: Level, late: Callable[[], bool]) -> bool:
    """Tell whether there is an order of commits as the level wants it. Raises TooMuch."""
    steps = np.concatenate(
        [known, of_read_committed(readings) if level == "read-committed" else of_read_atomic(readings)]
    )
    if (steps[:, LATER] == INITIAL).any():
        return False
    order = commit_order(readings, steps)
    if order is None or level != "causal":
        return order is not None
    more = of_causality(readings, order, late=late, memory_bytes=MEMORY_BYTES)
    if not len(more):
        return True
    return not (more[:, LATER] == INITIAL).any() and commit_order(readings, np.concatenate([steps, more])) is not None
