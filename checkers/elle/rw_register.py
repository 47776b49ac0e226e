"""Rw-register: whether transactions that read and write registers keep what a consistency model promises.

Judges the transactions of a history (`schemaquake.harness.model.records.HISTORY`, column `mops`) as far as the order of versions is known:
the initial state comes first, and what the store is said to promise of single keys tells more (`sequential_keys`,
`linearizable_keys`, `wfr_keys`). A model that promises real time promises sequential keys, too.

In single operations: `internal`, `future-read`, `garbage-read`, `G1a`, `G1b`, `lost-update`; in the versions of a key:
`cyclic-versions`. In cycles of dependencies: `G0`, `G1c`, `G-single-item`, `G-nonadjacent-item`, `G2-item`; where only
the order of a process closes the cycle, `G0-process`, `G1c-process`, `G-single-item-process`,
`G-nonadjacent-item-process`, `G2-item-process`; where real time does, `G0-realtime`, `G1c-realtime`,
`G-single-item-realtime`, `G-nonadjacent-item-realtime`, `G2-item-realtime`. What could not be distinguished in time:
`PL-SI-cycle-exists`, `strong-session-snapshot-isolation-cycle-exists`, `strong-snapshot-isolation-cycle-exists`.
Sources: Adya, Weak Consistency (1999); Kingsbury and Alvaro, Elle (VLDB 2020).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import pyarrow as pa

from schemaquake.checkers.elle.cycle_names import CYCLE_ANOMALIES
from schemaquake.checkers.elle.example import example_history
from schemaquake.checkers.elle.models import model
from schemaquake.checkers.elle.tables import of_each_table
from schemaquake.checkers.exchange.exchange import Exchange
from schemaquake.harness.model.records import Records
from schemaquake.harness.model.verdict import Verdict

__all__ = ["RwRegister", "check_rw_register"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RwRegister:
    """Registers that transactions read and write are consistent, as `models` promise."""

    name: str = "rw-register"
    scope: Literal["keyspace", "run"] = "run"
    finds: tuple[str, ...] = (
        "internal",
        "future-read",
        "garbage-read",
        "G1a",
        "G1b",
        "lost-update",
        "cyclic-versions",
        *CYCLE_ANOMALIES,
    )
    vouches: bool = True
    reads_lean: bool = True
    models: tuple[str, ...] = ("strict-serializable",)
    sequential_keys: bool | None = None
    linearizable_keys: bool = False
    wfr_keys: bool = False

    ranges_least: ClassVar[int] = 2
    """One range is one step's work."""

    @property
    def promises(self) -> list[str]:
        """The promises relied on, by the names of `schemaquake.checkers.elle.version_order.PROMISES`. Raises PlanError for an unknown model."""
        sequential = self.sequential_keys
        if sequential is None:
            sequential = any("sequential" in model(name).implies for name in self.models)
        asked = {"wfr": self.wfr_keys, "sequential": sequential, "linearizable": self.linearizable_keys}
        return [promise for promise, wanted in asked.items() if wanted]

    def warm(self) -> None:
        """Load what is compiled; called while a history file is still being read, whose micro-operations are lean nearly always."""
        self.check(Records.of(example_history("w", lean=True)), limit_s=60)

    def compile_all(self) -> None:
        """Compile what any history can need."""
        self.warm()
        for others in (True, False):
            promising = replace(self, wfr_keys=others, sequential_keys=others, linearizable_keys=True)
            for last in ((), (1,), (3,)):
                promising.check(Records.of(example_history("w", *last)), limit_s=60)

    def check(self, records: Records, *, limit_s: float) -> Verdict:
        """Judge every rw-register transaction of the run. Unknown if there is none. Raises HistoryError."""

        def judged(history: pa.Table, left_s: float) -> Verdict:
            return check_rw_register(
                history,
                models=self.models,
                sequential_keys=self.sequential_keys,
                linearizable_keys=self.linearizable_keys,
                wfr_keys=self.wfr_keys,
                limit_s=left_s,
            )

        return of_each_table(records.history, judged, limit_s=limit_s)

    def check_pieces(self, exchange: Exchange, *, limit_s: float) -> Verdict:
        """Judge the same piece by piece (`schemaquake.checkers.exchange.exchange.Piecewise`)."""
        # Their compiler takes half a second to start.
        from schemaquake.checkers.elle.pieces.check import check_in_pieces  # noqa: PLC0415
        from schemaquake.checkers.elle.verdicts import Question  # noqa: PLC0415

        return check_in_pieces(
            exchange,
            lambda: Question(kind="rw-register", models=self.models, anomalies=(), limit_s=limit_s),
            self.promises,
        )


def check_rw_register(
    history: pa.Table,
    *,
    models: Sequence[str] = ("strict-serializable",),
    anomalies: Sequence[str] = (),
    sequential_keys: bool | None = None,
    linearizable_keys: bool = False,
    wfr_keys: bool = False,
    limit_s: float = 60,
) -> Verdict:
    """Check that the rw-register transactions of a history keep the models, and that `anomalies` are absent besides.

    `sequential_keys`: what a process sees of a key follows what it saw before; None: if one of the models says so.
    `linearizable_keys`: so does what anybody sees after another one has completed. `wfr_keys`: what a transaction
    writes to a key follows what it read there. `stats` as of `check_list_append`, with the promises that were relied on
    (`promises`) and those found broken, and the models that are kept only as far as the order of versions is known
    (`not-decided`), which it is not of so many keys (`unordered-keys`).
    Raises HistoryError for a history that cannot be, PlanError for an unknown model.
    """
    # Their compiler takes half a second to start, and most runs have no transactions.
    from schemaquake.checkers.elle.verdicts import Question, judge_transactions  # noqa: PLC0415

    question = Question(kind="rw-register", models=models, anomalies=anomalies, limit_s=limit_s)
    asked = RwRegister(
        models=tuple(models),
        sequential_keys=sequential_keys,
        linearizable_keys=linearizable_keys,
        wfr_keys=wfr_keys,
    )
    return judge_transactions(history, question, asked.promises)
