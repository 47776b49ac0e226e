"""List-append: whether transactions that read lists and append to them keep what a consistency model promises.

Judges the transactions of a history (`schemaquake.harness.model.records.HISTORY`, column `mops`) by the consistency models it is asked
about, and says which weaker ones are ruled out, too. Each finding is shown by the operations themselves.

In single operations: `internal`, `future-read`, `garbage-read`, `duplicate-elements`, `incompatible-order`, `G1a`,
`dirty-update`, `G1b`, `lost-update`. In cycles of dependencies: `G0`, `G1c`, `G-single-item`, `G-nonadjacent-item`,
`G2-item`; where only the order of a process closes the cycle, `G0-process`, `G1c-process`, `G-single-item-process`,
`G-nonadjacent-item-process`, `G2-item-process`; where real time does, `G0-realtime`, `G1c-realtime`,
`G-single-item-realtime`, `G-nonadjacent-item-realtime`, `G2-item-realtime`. What could not be distinguished in time:
`PL-SI-cycle-exists`, `strong-session-snapshot-isolation-cycle-exists`, `strong-snapshot-isolation-cycle-exists`.
Sources: Adya, Weak Consistency (1999); Kingsbury and Alvaro, Elle (VLDB 2020).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import pyarrow as pa

from schemaquake.checkers.elle.cycle_names import CYCLE_ANOMALIES
from schemaquake.checkers.elle.example import example_history
from schemaquake.checkers.elle.tables import of_each_table
from schemaquake.checkers.exchange.exchange import Exchange
from schemaquake.harness.model.records import Records
from schemaquake.harness.model.verdict import Verdict

__all__ = ["ListAppend", "check_list_append"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListAppend:
    """Lists that transactions read and append to are consistent, as `models` promise."""

    name: str = "list-append"
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
        "lost-update",
        *CYCLE_ANOMALIES,
    )
    vouches: bool = True
    reads_lean: bool = True
    models: tuple[str, ...] = ("strict-serializable",)

    ranges_least: ClassVar[int] = 2
    """One range is one step's work."""

    def warm(self) -> None:
        """Load what is compiled; called while a history file is still being read, whose micro-operations are lean nearly always."""
        self.check(Records.of(example_history("append", lean=True)), limit_s=60)

    def compile_all(self) -> None:
        """Compile what any history can need."""
        from schemaquake.checkers.exchange.memory import MemoryExchange  # noqa: PLC0415 - a check of one history loads no pieces

        for last in ((), (1,), (3,)):
            history = example_history("append", *last)
            self.check(Records.of(history), limit_s=60)
            self.check(Records.of(example_history("append", *last, lean=True)), limit_s=60)
            self.check_pieces(MemoryExchange(history=history, cuts=(2,)), limit_s=60)

    def check(self, records: Records, *, limit_s: float) -> Verdict:
        """Judge every list-append transaction of the run. Unknown if there is none. Raises HistoryError."""
        return of_each_table(
            records.history,
            lambda history, left_s: check_list_append(history, models=self.models, limit_s=left_s),
            limit_s=limit_s,
        )

    def check_pieces(self, exchange: Exchange, *, limit_s: float) -> Verdict:
        """Judge the same piece by piece (`schemaquake.checkers.exchange.exchange.Piecewise`)."""
        # Their compiler takes half a second to start.
        from schemaquake.checkers.elle.pieces.check import check_in_pieces  # noqa: PLC0415
        from schemaquake.checkers.elle.verdicts import Question  # noqa: PLC0415

        return check_in_pieces(
            exchange, lambda: Question(kind="list-append", models=self.models, anomalies=(), limit_s=limit_s)
        )


def check_list_append(
    history: pa.Table,
    *,
    models: Sequence[str] = ("strict-serializable",),
    anomalies: Sequence[str] = (),
    limit_s: float = 60,
) -> Verdict:
    """Check that the list-append transactions of a history keep the models, and that `anomalies` are absent besides.

    `stats` has the prohibited anomalies that were found (`anomaly-types`), all that were found with their numbers
    (`found`), the weakest models that these rule out (`not`), and the stronger ones (`also-not`).
    Raises HistoryError for a history that cannot be, PlanError for an unknown model.
    """
    # Their compiler takes half a second to start, and most runs have no transactions.
    from schemaquake.checkers.elle.verdicts import Question, judge_transactions  # noqa: PLC0415

    question = Question(kind="list-append", models=models, anomalies=anomalies, limit_s=limit_s)
    return judge_transactions(history, question)
