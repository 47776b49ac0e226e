"""Bank: is the money that all accounts hold together always the same?

Judges, key by key, every answered `read` of all balances (`{account: balance}`), where there are `transfer`s.
Finds: `wrong-total`, `negative-balance`. Source: the bank test of the field (Kingsbury): snapshot isolation.
"""  # noqa: D400 - the question it answers

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Final, Literal

import orjson

from schemaquake.checkers.evidence.operation_lines import OperationLines, shortened
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.findings.catalogue import anomaly
from schemaquake.checkers.values.data_calls import calls_by_key, key_of
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.records import Records
from schemaquake.harness.model.verdict import Anomaly, Doubt, Verdict, make_stats

__all__ = ["Bank"]

_TOLD_MOST: Final = 10
_BALANCES_MOST: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Bank:
    """Transfers leave the total as it is, and no balance below zero.

    `total`: what all accounts hold together; None: what the first read found. `overdraft`: balances may be negative.
    `transfers_only`: judge only where there are transfers, so that reads of something else are left alone.
    """

    name: str = "bank"
    scope: Literal["run", "keyspace"] = "run"
    finds: tuple[str, ...] = ("wrong-total", "negative-balance")
    vouches: bool = True
    total: int | None = None
    overdraft: bool = False
    transfers_only: bool = True

    def check(self, records: Records, *, limit_s: float) -> Verdict:  # noqa: ARG002 - one pass needs no limit
        """Judge every read of all balances. Raises HistoryError."""
        defining = ("transfer",) if self.transfers_only else ("transfer", "read")
        operations = OperationLines(records.history)
        anomalies: list[Anomaly] = []
        judged = wrong = 0
        for key, calls in calls_by_key(records.history, ("transfer", "read"), defining=defining).items():
            reads = [call for call in calls if call.f == "read" and call.type == "ok" and isinstance(call.value, dict)]
            judged += len(reads)
            for found in self._findings(key, reads, operations):
                wrong += 1
                if len(anomalies) < _TOLD_MOST:
                    anomalies.append(found())
        if not judged:
            return Verdict.unknown(self.name, Doubt("nothing-to-judge", "no read of all balances"))
        return Verdict(
            valid=not wrong,
            checker=self.name,
            anomalies=tuple(anomalies),
            stats=make_stats({"reads": judged, "wrong_reads": wrong}),
        )

    def _findings(
        self, key: str | None, reads: Sequence[PairedOperation], operations: OperationLines
    ) -> Iterator[Callable[[], Anomaly]]:
        """What is wrong with each read that is wrong; to be put into words by whoever tells of it."""
        total = self.total
        first: PairedOperation | None = None
        for read in reads:
            found = _total(read.value)
            if total is None:
                total, first = found, read
            if found is None or found != total:
                yield partial(_of_total, key, read, found, total, first if first is not read else None, operations)
            elif not self.overdraft and any(balance < 0 for balance in read.value.values()):
                yield partial(_of_balance, key, read, operations)


def _total(balances: Mapping[str, JSON]) -> int | None:
    """None if one of them is no number."""
    values = list(balances.values())
    return sum(values) if all(type(value) is int for value in values) else None


def _some(balances: Mapping[str, JSON]) -> Mapping[str, JSON]:
    """The first ones, which is all of them for anybody who reads them."""
    return dict(islice(balances.items(), _BALANCES_MOST))


def _of_total(
    key: str | None,
    read: PairedOperation,
    found: int | None,
    total: int | None,
    first: PairedOperation | None,
    operations: OperationLines,
) -> Anomaly:
    calls = [read] if first is None else [first, read]
    lines = operations.lines([call.index for call in calls])
    let = "\n".join(f"{'Let ' if n == 0 else '    '} T{n + 1} = {line}" for n, line in enumerate(lines))
    expected = f"{total}" if first is None else f"{total}, as T1 found"
    said = "shows a balance that is no number" if found is None else f"makes it {found}"
    return anomaly(
        "wrong-total",
        objects=key_of(key),
        nodes=[call.node for call in calls if call.node is not None],
        ops=[call.index for call in calls],
        evidence={"total": found, "expected": total, "balances": _some(read.value)},
        explanation=f"{let}\nThen transfers only move money, so that all accounts together always hold {expected}.\n"
        f"     But T{len(calls)} {said}.",
    )


def _of_balance(key: str | None, read: PairedOperation, operations: OperationLines) -> Anomaly:
    (line,) = operations.lines([read.index])
    negative = _some({account: balance for account, balance in read.value.items() if balance < 0})
    return anomaly(
        "negative-balance",
        objects=key_of(key),
        nodes=[] if read.node is None else [read.node],
        ops=[read.index],
        evidence={"negative": negative},
        explanation=f"Let  T1 = {line}\nThen no transfer takes more than there is, so that no balance is below zero.\n"
        f"     But T1 shows {shortened(orjson.dumps(negative).decode())}.",
    )
