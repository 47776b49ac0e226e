"""Counters: every read lies between the certain additions and the possible ones.

Judges, key by key, `add` (an integer), `increment` and `decrement` (by one, or by their value) and `read` (an integer).
A read lies between the sum of the additions that were answered before it began and of those that may have taken effect
before it ended; subtractions the other way round. In O(n log n): cumulative sums and binary search. A read whose level promises
nothing (`schemaquake.checkers.values.data_calls`) may miss additions: nothing that may have happened before it is certain. One that misses
some where only a disk that was taken away, or a change of the replication, may explain it is a doubt. So is a read that lacks additions, or has
some again, that an earlier read showed otherwise whose replicas it shares: what that one read it repaired.
Finds: `counter-out-of-bounds`. Source: the counter test of the field (Kingsbury).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.operation_lines import OperationLines
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.findings.argument import Argument, label
from schemaquake.checkers.findings.catalogue import anomaly
from schemaquake.checkers.findings.limits import LIMITS
from schemaquake.checkers.findings.tally import Tally
from schemaquake.checkers.values.data_calls import Levels, ReadKind, group_calls_by_key, list_answered, list_objects
from schemaquake.harness.counts import counted
from schemaquake.harness.errors import HistoryError
from schemaquake.harness.model.records import Records
from schemaquake.harness.model.verdict import Anomaly, Doubt, Verdict

__all__ = ["Counter"]

_Numbers: TypeAlias = npt.NDArray[np.int64]
_ADDING: Final = ("add", "increment", "decrement")
_NEVER: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Counter:
    """Every read of a counter is within its bounds. `start` is its value before the first addition."""

    name: str = "counter"
    scope: Literal["run", "keyspace"] = "run"
    finds: tuple[str, ...] = ("counter-out-of-bounds",)
    vouches: bool = True
    start: int = 0

    def check(self, records: Records, *, limit_s: float) -> Verdict:  # noqa: ARG002 - n log n needs no limit
        """Judge every counter. Raises HistoryError for an addition that is no integer."""
        counters = {
            key: calls
            for key, calls in group_calls_by_key(records.history, (*_ADDING, "read"), defining=_ADDING).items()
            if _is_counter(calls)
        }
        if not counters:
            nothing = Doubt("nothing-to-judge", "no counter was added to and read")
            return Verdict.unknown(self.name, nothing)
        operations = OperationLines(records.history)
        levels = Levels(Evidence.of(records))
        tally = Tally(self.name, keep=LIMITS.findings)
        out_of_bounds = reads = additions = 0
        for key, calls in counters.items():
            strange = [read for read in list_answered(calls, "read") if not _is_sum(read.value)]
            if strange:
                text = f"{counted(len(strange), 'read was', 'reads were')} answered with no integer, the first of them op {strange[0].index}"
                tally.doubt(Doubt("undecided", text, list_objects(key)))
            lacking = [
                read for read in _list_lacking(calls) if levels.promise(read) is not False or levels.is_excused(read)
            ]
            if lacking:
                text = f"{counted(len(lacking), 'read')} found no counter that had been added to before, the first of them op {lacking[0].index}"
                tally.doubt(Doubt("undecided", text, list_objects(key)))
            bounds = _Bounds(calls, self.start, levels)
            wrong = np.flatnonzero(bounds.is_wrong)
            for at in wrong:
                tally.find("counter-out-of-bounds", partial(bounds.report, key, int(at), len(wrong), operations))
            excused = bounds.list_excused()
            if excused:
                text = (
                    f"{counted(len(excused), 'read misses additions that it', 'reads miss additions that they')} owed, the first of them op {excused[0].index}, and "
                    f"{levels.excuse(excused[0])} before may explain it"
                )
                tally.doubt(Doubt("undecided", text, list_objects(key)))
            backward = bounds.find_backward()
            if backward is not None:
                earlier, read = backward
                text = f"op {read.index} read {read.value} after op {earlier.index} had read {earlier.value}, and no additions in between can have made that of it"
                tally.doubt(Doubt("undecided", text, list_objects(key)))
            out_of_bounds += len(wrong)
            reads += len(bounds.reads)
            additions += len(calls) - len(bounds.reads)
        if not reads:
            tally.doubt(Doubt("undecided", "no read of a counter was answered"))
        return tally.verdict(counters=len(counters), reads=reads, additions=additions, out_of_bounds=out_of_bounds)


def _is_counter(calls: Sequence[PairedOperation]) -> bool:
    """Check that most reads of this key are of integers: a set has `add` and `read`, too."""
    if any(call.f in {"increment", "decrement"} for call in calls):
        return True
    answers = [read.value for read in list_answered(calls, "read")]
    sums = sum(type(value) is int for value in answers)
    others = sum(value is not None for value in answers) - sums
    return sums > others or (bool(answers) and not others)


def _list_lacking(calls: Sequence[PairedOperation]) -> Sequence[PairedOperation]:
    """List the reads that found nothing although an addition had been acknowledged before they began, and another read found a sum."""
    reads = list_answered(calls, "read")
    if all(read.value is None for read in reads):
        return ()
    added = [call for f in _ADDING for call in list_answered(calls, f)]
    return [read for read in reads if read.value is None and any(call.entirely_before(read) for call in added)]


def _is_sum(value: Any) -> bool:
    """Tell if a read shows a sum; a counter that has no row yet has none."""
    return value is None or type(value) is int


class _Bounds:
    """The reads of one counter, and the lowest and highest value that each may have."""

    def __init__(self, calls: Sequence[PairedOperation], start: int, levels: Levels) -> None:
        self.reads = [read for read in list_answered(calls, "read") if type(read.value) is int]
        self.values = _exact_array([read.value for read in self.reads])
        possible = [call for call in calls if call.f in _ADDING and call.possible]
        amounts = _exact_array([start, *(_amount(call) for call in possible)])[1:]
        begun = np.array([call.invoked for call in possible], np.int64)
        ended = np.array([call.completed if call.type == "ok" else _NEVER for call in possible], np.int64)
        read_from = np.array([read.invoked for read in self.reads], np.int64)
        read_to = np.array([read.completed for read in self.reads], np.int64)
        self._read_from, self._read_to = read_from, read_to
        parts = np.maximum(amounts, 0), np.minimum(amounts, 0)
        # Intervals are closed: an addition that ends in the instant in which a read begins need not precede it.
        surely = [_sums(ended, part, read_from, "left") for part in parts]
        possibly = [_sums(begun, part, read_to, "right") for part in parts]
        owed = np.array([levels.promise(read) is not False for read in self.reads], bool)
        excused = np.array([levels.is_excused(read) for read in self.reads], bool)
        self.lowest, self.highest = start + owed * surely[0] + possibly[1], start + possibly[0] + owed * surely[1]
        below = self.values < start + surely[0] + possibly[1]
        above = self.values > start + possibly[0] + surely[1]
        self._levels = levels
        self._surely, self._possibly = [owed * part for part in surely], possibly
        self.is_wrong = (self.values < self.lowest) | (self.values > self.highest)
        self._excused = excused & (below | above) & (self.lowest <= self.values) & (self.values <= self.highest)

    def list_excused(self) -> Sequence[PairedOperation]:
        """List the reads that would be out of bounds if no disk had been taken away and no replica moved before."""
        return [self.reads[at] for at in np.flatnonzero(self._excused)]

    def find_backward(self) -> tuple[PairedOperation, PairedOperation] | None:
        """Find a read that contradicts one which had ended before it began, and of which it must have all that this one had; None: there is none.

        Additions that the earlier one surely had do not explain a difference, all others that had begun by then may.
        """
        # A sum that is out of bounds contradicts the additions; what it does to other reads tells nothing more.
        ended = [at for at in np.argsort(self._read_to, kind="stable").tolist() if not self.is_wrong[at]]
        first = 0
        least: dict[ReadKind | None, int] = {}
        most: dict[ReadKind | None, int] = {}
        for at in np.argsort(self._read_from, kind="stable").tolist():
            while first < len(ended) and self._read_to[ended[first]] < self._read_from[at]:
                self._note_extremes(ended[first], least, most)
                first += 1
            if self.is_wrong[at]:
                continue
            for earlier in {*least.values(), *most.values()}:
                if self._contradict(earlier, at) and self._levels.shares_sight(self.reads[at], self.reads[earlier]):
                    return self.reads[earlier], self.reads[at]
        return None

    def _note_extremes(self, at: int, least: dict[ReadKind | None, int], most: dict[ReadKind | None, int]) -> None:
        """Keep, of each kind of reads, the one that says most of how low later ones may be, and the one that says most of how high."""
        kind = self._levels.kind(self.reads[at])
        if kind not in least or self._rest(at, 1) > self._rest(least[kind], 1):
            least[kind] = at
        if kind not in most or self._rest(at, 0) < self._rest(most[kind], 0):
            most[kind] = at

    def _rest(self, at: int, part: int) -> int:
        """Return what a read shows beyond the additions of one sign that it surely had."""
        return int(self.values[at]) - int(self._surely[part][at])

    def _contradict(self, earlier: int, later: int) -> bool:
        lowest = self._rest(earlier, 1) + int(self._possibly[1][later])
        highest = self._rest(earlier, 0) + int(self._possibly[0][later])
        return not lowest <= self.values[later] <= highest

    def report(self, key: str | None, at: int, count: int, operations: OperationLines) -> Anomaly:
        read = self.reads[at]
        (line,) = operations.lines([read.index])
        low, high = int(self.lowest[at]), int(self.highest[at])
        others = count - 1
        more = f" The same holds for {others} more reads." if others else ""
        return anomaly(
            "counter-out-of-bounds",
            objects=list_objects(key),
            nodes=[] if read.node is None else [read.node],
            ops=[read.index],
            evidence={"read": read.value, "lowest": low, "highest": high, "reads": count},
            explanation=Argument(
                label([line]),
                "the additions that had certainly ended when T1 began, and those that may have begun before it ended, bound "
                f"its value: at least {low} and at most {high}.",
                f"T1 read {read.value}, which is out of bounds.{more}",
            ).render(),
        )


def _exact_array(numbers: Sequence[int]) -> npt.NDArray[Any]:
    """Make an array whose sums are exact: of Python integers, which are slow, where 64 bits may overflow."""
    return np.array(numbers, np.int64 if sum(map(abs, numbers)) < 1 << 62 else object)


def _amount(call: PairedOperation) -> int:
    amount = 1 if call.argument is None and call.f != "add" else call.argument
    if type(amount) is not int:
        raise HistoryError(f"the {call.f} of index {call.index} wants an integer, and has {amount!r}")
    return -amount if call.f == "decrement" else amount


def _sums(times: _Numbers, amounts: npt.NDArray[Any], until: _Numbers, side: Literal["left", "right"]) -> Any:
    """Sum, for each time of `until`, the amounts with an earlier time (`right`: or the same time)."""
    order = np.argsort(times, kind="stable")
    sums = np.concatenate([[0], np.cumsum(amounts[order])])
    return sums[np.searchsorted(times[order], until, side=side)]
