"""Bank: the total of all accounts never changes.

Judges, key by key, every answered `read` of all balances (`{account: balance}`), where there are `transfer`s.
A transfer that names other things than the others, or an account that no read shows, is a doubt. So is a balance that no transfers can have
made of what the account began with by the other reads.
Finds: `wrong-total`, `negative-balance`. Source: the bank test of the field (Kingsbury): snapshot isolation.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Final, Literal

import orjson

from schemaquake.checkers.evidence.operation_lines import OperationLines, shortened
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.findings.argument import Argument, label
from schemaquake.checkers.findings.catalogue import anomaly
from schemaquake.checkers.findings.limits import LIMITS
from schemaquake.checkers.findings.tally import Tally
from schemaquake.checkers.values.data_calls import group_calls_by_key, list_answered, list_objects
from schemaquake.harness.counts import counted
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.records import Records
from schemaquake.harness.model.verdict import Anomaly, Doubt, Verdict

__all__ = ["Bank"]

_NAMED: Final = ("from", "to", "amount")
"""What a transfer names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bank:
    """Transfers keep the total, and no balance is below zero.

    `total` is the sum of all balances; None: the sum in the first read. `overdraft`: balances may be negative.
    `transfers_only`: judge only keys with transfers, and leave other reads alone.
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
        tally = Tally(self.name, keep=LIMITS.findings)
        judged = 0
        for key, calls in group_calls_by_key(records.history, ("transfer", "read"), defining=defining).items():
            answered = list_answered(calls, "read")
            reads = [call for call in answered if isinstance(call.value, dict)]
            if others := len(answered) - len(reads):
                text = f"{counted(others, 'read was', 'reads were')} answered without balances"
                tally.doubt(Doubt("undecided", text, list_objects(key)))
            if len({frozenset(read.value) for read in reads}) > 1:
                tally.doubt(Doubt("undecided", "reads do not show the same accounts", list_objects(key)))
            strange = _find_strange(list_answered(calls, "transfer"), reads)
            if strange is not None:
                text = f"op {strange.index}, a transfer that was acknowledged, does not name an amount and two accounts that reads show, as others do"
                tally.doubt(Doubt("undecided", text, list_objects(key)))
            tally.doubt(*_find_unmoved(key, calls, reads))
            judged += len(reads)
            for kind, report in self._findings(key, reads, operations):
                tally.find(kind, report)
        if not judged:
            return Verdict.unknown(self.name, Doubt("nothing-to-judge", "no read of all balances"))
        return tally.verdict(reads=judged, wrong_reads=sum(tally.found.values()))

    def _findings(
        self, key: str | None, reads: Sequence[PairedOperation], operations: OperationLines
    ) -> Iterator[tuple[str, Callable[[], Anomaly]]]:
        """Yield, for each wrong read, the type of its anomaly and a function that makes the anomaly."""
        total = self.total
        first: PairedOperation | None = None
        for read in reads:
            found = _sum_balances(read.value)
            if total is None:
                total, first = found, read
            if found is None or found != total:
                reference = first if first is not read else None
                yield "wrong-total", partial(_report_total, key, read, found, total, reference, operations)
            elif not self.overdraft and any(balance < 0 for balance in read.value.values()):
                yield "negative-balance", partial(_report_balance, key, read, operations)


def _find_strange(transfers: Sequence[PairedOperation], reads: Sequence[PairedOperation]) -> PairedOperation | None:
    """Find a transfer that does not say what the others say, or that names an account which no read shows; None: there is none.

    Histories of other tools may tell transfers, or spell accounts, in another form, which is left alone.
    """
    accounts = {account for read in reads for account in read.value}
    told = [(one, one.argument) for one in transfers if isinstance(one.argument, dict)]
    whole = [one.index for one, asked in told if set(_NAMED) <= asked.keys()]
    known = [one.index for one, asked in told if {str(asked.get(name)) for name in _NAMED[:2]} <= accounts]
    return next((one for one, _ in told for good in (whole, known) if good and one.index not in good), None)


def _find_unmoved(
    key: str | None, calls: Iterable[PairedOperation], reads: Sequence[PairedOperation]
) -> Iterator[Doubt]:
    """Yield a doubt for the first read of which no transfers can have made what it shows of what the account began with by the reads before.

    Whatever order they had, each transfer moved its amount once or not at all. So what the account began with is a balance less some of the
    transfers that had begun by then, and the same for all reads. Not judged where a transfer does not say what it moves.
    """
    transfers = [call for call in calls if call.f == "transfer" and call.type != "fail"]
    accounts = {account for read in reads for account in read.value}
    if not all(_says_what_it_moves(transfer, accounts) for transfer in transfers):
        return
    taken, given = Counter[str](), Counter[str]()
    starts: dict[str, tuple[int, int]] = {}
    begun = deque(sorted(transfers, key=lambda one: one.invoked))
    for read in sorted(reads, key=lambda one: one.completed or 0):
        while begun and begun[0].invoked < (read.completed or 0):
            for account, amount in _list_moves(begun.popleft()):
                (given if amount > 0 else taken)[account] += amount
        for account, balance in read.value.items():
            if type(balance) is not int:
                continue
            low, high = balance - given[account], balance - taken[account]
            least, most = starts.get(account, (low, high))
            starts[account] = max(least, low), min(most, high)
            if low > most or high < least:
                text = (
                    f"op {read.index} shows {balance} in account {account}, which by the transfers that had begun started with {_span(low, high)}, "
                    f"and by the reads before with {_span(least, most)}"
                )
                yield Doubt("undecided", text, list_objects(key))
                return


def _list_moves(transfer: PairedOperation) -> Sequence[tuple[str, int]]:
    """List what a transfer adds to each account; below zero: what it takes."""
    giver, taker, amount = str(transfer.argument["from"]), str(transfer.argument["to"]), transfer.argument["amount"]
    return [] if giver == taker else [(giver, -amount), (taker, amount)]


def _span(low: int, high: int) -> str:
    return str(low) if low == high else f"{low} to {high}"


def _says_what_it_moves(transfer: PairedOperation, accounts: Collection[str]) -> bool:
    """Return whether a transfer names an amount and two of these accounts, and was not answered with others."""
    asked, told = transfer.argument, transfer.value
    if not (isinstance(asked, dict) and set(_NAMED) <= asked.keys() and type(asked["amount"]) is int):
        return False
    is_known = {str(asked["from"]), str(asked["to"])} <= set(accounts)
    is_as_asked = not isinstance(told, dict) or all(told.get(name, asked[name]) == asked[name] for name in _NAMED)
    return is_known and is_as_asked


def _sum_balances(balances: Mapping[str, JSON]) -> int | None:
    """Sum the balances; None: one of them is not an integer."""
    values = list(balances.values())
    return sum(values) if all(type(value) is int for value in values) else None


def _first_balances(balances: Mapping[str, JSON]) -> Mapping[str, JSON]:
    """Return the first hundred balances, for evidence."""
    return dict(islice(balances.items(), LIMITS.members))


def _report_total(
    key: str | None,
    read: PairedOperation,
    found: int | None,
    total: int | None,
    first: PairedOperation | None,
    operations: OperationLines,
) -> Anomaly:
    calls = [read] if first is None else [first, read]
    lines = operations.lines([call.index for call in calls])
    expected = f"{total}" if first is None else f"{total}, as T1 found"
    outcome = "shows a balance that is no number" if found is None else f"has a total of {found}"
    return anomaly(
        "wrong-total",
        objects=list_objects(key),
        nodes=[call.node for call in calls if call.node is not None],
        ops=[call.index for call in calls],
        evidence={"total": found, "expected": total, "balances": _first_balances(read.value)},
        explanation=Argument(
            label(lines),
            f"transfers only move money, so the total of all accounts is always {expected}.",
            f"T{len(calls)} {outcome}.",
        ).render(),
    )


def _report_balance(key: str | None, read: PairedOperation, operations: OperationLines) -> Anomaly:
    (line,) = operations.lines([read.index])
    negative = _first_balances({account: balance for account, balance in read.value.items() if balance < 0})
    return anomaly(
        "negative-balance",
        objects=list_objects(key),
        nodes=[] if read.node is None else [read.node],
        ops=[read.index],
        evidence={"negative": negative},
        explanation=Argument(
            label([line]),
            "no transfer takes more than an account holds, so no balance is below zero.",
            f"T1 shows {shortened(orjson.dumps(negative).decode())}.",
        ).render(),
    )
