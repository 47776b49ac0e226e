"""Weak isolation: whether transactions keep read committed, read atomic or causal consistency, whatever their order was.

Judges the transactions of a history (`schemaquake.harness.model.records.HISTORY`, column `mops`) that read and write registers, and those that
read lists and append to them. A level is kept if the transactions can have committed in some order that agrees with the
sessions (processes), with the sources of reads, and with the level's axiom; what cannot be distinguished by that is not asked.

In single operations: `internal`, `future-read`, `garbage-read`, `G1a`, `G1b`; of lists also `duplicate-elements`,
`incompatible-order`, `dirty-update`. In cycles of sessions and reads alone: `G1c`, `G1c-process`, and where lists tell who
appended after whom, `G0`, `G0-process`. Where the axiom of a level closes the cycle: of read committed, `non-monotonic-read`;
of read atomic, `fractured-read`; of causal consistency, `causality-violation`.
Sources: Biswas and Enea, On the Complexity of Checking Transactional Consistency (OOPSLA 2019); Møldrup and Pavlogiannis,
AWDIT: An Optimal Weak Database Isolation Tester (PLDI 2025).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.checkers.elle.example import example_history
from schemaquake.checkers.elle.tables import of_each_table
from schemaquake.checkers.weak_isolation.levels import strongest
from schemaquake.harness.model.records import Records, plain
from schemaquake.harness.model.verdict import Stat, Verdict, combine

__all__ = ["WeakIsolation", "check_weak_isolation"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WeakIsolation:
    """Transactions keep the weak levels that `models` names: read-committed, read-atomic, causal. Raises PlanError for others."""

    name: str = "weak-isolation"
    scope: Literal["keyspace", "run"] = "run"
    finds: tuple[str, ...] = (
        "internal",
        "future-read",
        "garbage-read",
        "duplicate-elements",
        "incompatible-order",
        "G1a",
        "dirty-update",
        "G1b",
        "G0",
        "G0-process",
        "G1c",
        "G1c-process",
        "non-monotonic-read",
        "fractured-read",
        "causality-violation",
    )
    vouches: bool = True
    reads_lean: bool = True
    models: tuple[str, ...] = ("causal",)

    def __post_init__(self) -> None:
        strongest(self.models)

    def warm(self) -> None:
        """Load what is compiled; called while a history file is still being read, whose micro-operations are lean nearly always."""
        self.check(Records.of(example_history("w", lean=True)), limit_s=60)

    def compile_all(self) -> None:
        """Compile what any history can need."""
        for last in ((), (1,), (3,)):
            for write in ("w", "append"):
                for lean in (False, True):
                    self.check(Records.of(example_history(write, *last, lean=lean)), limit_s=60)

    def check(self, records: Records, *, limit_s: float) -> Verdict:
        """Judge every transaction of the run. Unknown if there is none. Raises HistoryError."""
        return of_each_table(
            records.history,
            lambda history, left_s: check_weak_isolation(history, models=self.models, limit_s=left_s),
            limit_s=limit_s,
        )


def check_weak_isolation(history: pa.Table, *, models: Sequence[str] = ("causal",), limit_s: float = 60) -> Verdict:
    """Check that the transactions of a history keep these levels.

    `stats` has what was found with its numbers (`found`, `anomaly-types`), the weakest level that this rules out (`not`), and
    the stronger ones (`also-not`); of registers and of lists apart (`kind`), if there are both.
    Raises HistoryError for a history that cannot be, PlanError for a level that is none of these.
    """
    # Their compiler takes half a second to start, and most runs have no transactions.
    from schemaquake.checkers.weak_isolation.verdicts import of_transactions  # noqa: PLC0415

    level = strongest(models)
    verdicts = [of_transactions(history, "rw-register", level, limit_s=limit_s)]
    if verdicts[0].figures.get("transactions") != _invoked(history):
        verdicts.append(of_transactions(history, "list-append", level, limit_s=limit_s))
    judged = [verdict for verdict in verdicts if not verdict.judged_nothing]
    if len(judged) <= 1:
        return judged[0] if judged else verdicts[0]
    return Verdict(
        valid=combine(verdict.valid for verdict in judged),
        checker=judged[0].checker,
        anomalies=tuple(anomaly for verdict in judged for anomaly in verdict.anomalies),
        stats={str(verdict.stats["kind"].value): Stat(verdict.figures) for verdict in judged},
        doubts=tuple(doubt for verdict in judged for doubt in verdict.doubts),
    )


def _invoked(history: pa.Table) -> int:
    """Count the transactions of either kind."""
    invoked = pc.and_(history["mops"].is_valid(), pc.equal(plain(history.select(["type"]))["type"], "invoke"))
    return pc.sum(invoked).as_py() or 0
