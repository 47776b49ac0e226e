"""Sets: every element that was added stays in the set, once.

Judges, key by key, `add` of one element and `read` of all of them (a list). For each element, it finds the time at which
it was *known* (its add was answered, or a read showed it), the last read that showed it, and the last that did not.
Finds: `lost-element`, `stale-element` (only where a read must be fresh), `duplicated-element`, `unexpected-element`. A read
must be fresh where its level and that of the additions share a replica (`schemaquake.checkers.values.data_calls`): then it shows
every element whose add was acknowledged before it began. A late element that only an earlier read with a replica in common had shown is a
doubt: that read repaired what it asked. A read *owes* an element if its level shares a replica with that of the element's
acknowledged add, or with an earlier read that shows it; where reads do not say their levels, each owes all that was known before. A late element, and
no lost one, is a doubt where a disk that was taken away explains it, or a change of the replication factor that was asked for before the read ended.
What is read of a key that nothing but reads asked for is a doubt, too: its additions are not in the history.
Source: CASSANDRA-12126 and the set tests of the field (Kingsbury).

| an element is | if |
|---|---|
| lost | a read that owes it lacks it, and no read that ended after that one began shows it |
| stale | a read that began after it was known lacks it, and a later one, or one that owes it, shows it |
| undecided | reads that began after it was known lack it to the last, and none of them owes it |
| stable | no read that began after it was known lacks it, and at least one shows it |
| never read | it was added for certain, and no read began after that |
| recovered | the outcome of its add is unknown, and a read showed it |
| unexpected | a read shows it that was answered before any add of it began, or all that began were refused |
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.operation_lines import OperationLines, shortened
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.findings.argument import Argument, label
from schemaquake.checkers.findings.catalogue import anomaly
from schemaquake.checkers.findings.limits import LIMITS
from schemaquake.checkers.findings.tally import Tally
from schemaquake.checkers.values.data_calls import (
    Levels,
    ReadKind,
    group_calls_by_key,
    list_answered,
    list_objects,
    list_reads_alone,
)
from schemaquake.harness.counts import counted
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.records import Records
from schemaquake.harness.model.verdict import Anomaly, Doubt, Stat, Verdict

__all__ = ["SetFull"]

_Mask: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetFull:
    """Added elements stay in the set, once each.

    `fresh`: every read must show every element known before it began (a linearizable set); otherwise only reads whose levels
    promise it, and a late element that no such read lacks is counted as stale.
    """

    name: str = "set-full"
    scope: Literal["run", "keyspace"] = "run"
    finds: tuple[str, ...] = ("lost-element", "stale-element", "duplicated-element", "unexpected-element")
    vouches: bool = True
    fresh: bool = False

    def check(self, records: Records, *, limit_s: float) -> Verdict:
        """Judge every set."""
        deadline = time.monotonic() + limit_s
        sets = {
            key: calls
            for key, calls in group_calls_by_key(records.history, ("add", "read"), defining=("add",)).items()
            if _is_set(calls)
        }
        unwritten = [] if self.fresh else list(_find_unwritten(records.history))
        if not sets:
            nothing = Doubt("nothing-to-judge", "no set was added to and read")
            return Verdict.unknown(self.name, *(unwritten or [nothing]))
        operations = OperationLines(records.history)
        levels = Levels(Evidence.of(records))
        tally = Tally(self.name)
        tally.doubt(*unwritten)
        unread: list[str] = []
        never_read = 0
        stats: Counter[str] = Counter()
        latencies: list[int] = []
        for number, (key, calls) in enumerate(sets.items()):
            if time.monotonic() > deadline:
                tally.doubt(Doubt("time", f"the time limit of {limit_s:g} s passed after {number} of {len(sets)} sets"))
                break
            strange = [read for read in list_answered(calls, "read") if not _is_listing(read.value)]
            if strange:
                text = f"{counted(len(strange), 'read was', 'reads were')} answered with no list, the first of them op {strange[0].index}"
                tally.doubt(Doubt("undecided", text, list_objects(key)))
                calls = [call for call in calls if call not in strange]  # noqa: PLW2901 - those that can be judged
            timeline = _Timeline(key, calls, levels, fresh=self.fresh)
            if len(tally.anomalies) < LIMITS.findings_of_all:
                tally.add(*timeline.findings(key, operations))
            tally.doubt(*timeline.doubts(key))
            stats.update(timeline.counts())
            latencies += timeline.latencies()
            if not timeline.reads:
                unread += [] if key is None else [key]
                never_read += 1
        if never_read:
            tally.doubt(Doubt("undecided", f"{never_read} of {len(sets)} sets were never read", tuple(unread)))
        return tally.verdict(sets=len(sets), **stats, **_compute_quantiles(latencies))


def _is_set(calls: Sequence[PairedOperation]) -> bool:
    """Check that the reads of this key are not mostly integers: a counter has `add` and `read`, too."""
    answers = [read.value for read in list_answered(calls, "read")]
    return 2 * sum(type(value) is int for value in answers) <= sum(value is not None for value in answers)


def _find_unwritten(history: pa.Table) -> Iterator[Doubt]:
    """Yield a doubt for each key of which reads list elements, or a sum, although nothing was ever asked for but these reads."""
    for key, reads in list_reads_alone(history).items():
        shown = next((read for read in reads if isinstance(read.value, list | int) and read.value), None)
        if shown is not None:
            text = f"op {shown.index} read {shortened(_json(shown.value))}, and no operation wrote anything there"
            yield Doubt("undecided", text, list_objects(key))


def _is_listing(value: JSON) -> bool:
    return isinstance(value, list | None)


def _compute_quantiles(latencies: Sequence[int]) -> Mapping[str, Stat]:
    """Compute quantiles of the time (ms) until every read showed an element."""
    if not latencies:
        return {}
    found = np.quantile(np.array(latencies), [0.5, 0.99, 1.0]) / 1e6
    names = ("stable_median_ms", "stable_p99_ms", "stable_slowest_ms")
    return {name: Stat(time, "ms", "max") for name, time in zip(names, found.round(3).tolist(), strict=True)}


@dataclass(slots=True)
class _Element:
    """One element of a set. Times are ns; `runs` are the stretches of reads, by position, that show it."""

    value: JSON
    adds: list[PairedOperation] = field(default_factory=list)
    known: int | None = None
    runs: list[tuple[int, int]] = field(default_factory=list)
    outcome: str = ""
    lacking: int | None = None  # position of the last read that began after it was known and lacks it
    shown: int | None = None  # position of the last read that shows it
    missed: int | None = None  # position of the last read that lacks it although it was owed to it
    unseen: int | None = None  # position of the last read that lacks it although an earlier one repaired a replica
    excused: int | None = None  # position of the last read that lacks it and would owe it, but for a lost disk

    @property
    def acknowledged(self) -> Sequence[PairedOperation]:
        return [add for add in self.adds if add.type == "ok"]


class _Timeline:
    """The elements of one set, with the reads that show and lack each."""

    def __init__(self, key: str | None, calls: Sequence[PairedOperation], levels: Levels, *, fresh: bool) -> None:
        self._fresh = fresh
        self.reads = list_answered(calls, "read")
        self.reads.sort(key=lambda read: read.invoked)
        self.elements: dict[Hashable, _Element] = {}
        self.unexpected: dict[Hashable, PairedOperation] = {}
        self.refused: dict[Hashable, PairedOperation] = {}
        self.duplicated: dict[Hashable, PairedOperation] = {}
        for add in (call for call in calls if call.f == "add"):
            if add.possible:
                self.elements.setdefault(_hashable(add.argument), _Element(add.argument)).adds.append(add)
            else:
                self.refused[_hashable(add.argument)] = add
        self._find_runs()
        self._invoked = np.array([read.invoked for read in self.reads], np.int64)
        ends = np.array([_end(read) for read in self.reads], np.int64)
        self._ends = ends
        self._latest_end = _RangeMaximum(ends)
        self._earliest_end = _RangeMaximum(-ends)
        self._debts = _Debts(key, self.reads, levels)
        for element in self.elements.values():
            self._classify(element)

    def _find_runs(self) -> None:
        """Find the runs of reads that show each element.

        Each read is compared with the one before: a set that only grows costs no more than its last read.
        """
        before: frozenset[Hashable] = frozenset()
        since: dict[Hashable, int] = {}
        for position, read in enumerate(self.reads):
            values = [_hashable(value) for value in read.value or ()]
            seen = frozenset(values)
            if len(seen) < len(values):
                for value, count in Counter(values).items():
                    if count > 1:
                        self.duplicated.setdefault(value, read)
            for value in seen - before:
                since[value] = position
                if value not in self.elements:
                    self.unexpected.setdefault(value, read)
            for value in before - seen:
                self._end_run(value, since.pop(value), position)
            before = seen
        for value, begin in since.items():
            self._end_run(value, begin, len(self.reads))

    def _end_run(self, value: Hashable, begin: int, end: int) -> None:
        element = self.elements.get(value)
        if element is not None:
            element.runs.append((begin, end))

    def _classify(self, element: _Element) -> None:
        """Set when the element was known, the last reads that show and lack it, and its outcome."""
        element.runs.sort()
        seen = min((-self._earliest_end.between(begin, end) for begin, end in element.runs), default=None)
        if seen is not None and seen < element.adds[0].invoked:
            shown = (read for begin, end in element.runs for read in self.reads[begin:end])
            self.unexpected[_hashable(element.value)] = next(read for read in shown if _end(read) == seen)
        answers = [_end(add) for add in element.acknowledged]
        element.known = min([*answers, *([] if seen is None else [seen])], default=None)
        last = element.runs[-1][1] - 1 if element.runs else None
        element.shown = last
        if element.known is None:
            element.outcome = "unknown"
            return
        after = int(np.searchsorted(self._invoked, element.known, side="right"))
        element.lacking = self._last_lacking(element, after)
        if element.lacking is None:
            read_after = any(end > after for _, end in element.runs)
            element.outcome = "stable" if read_after else "never-read"
            return
        began = int(self._invoked[element.lacking])
        shown_later = any(self._latest_end.between(begin, end) >= began for begin, end in element.runs)
        showing = self._mask_showing(element)
        element.outcome = "stale" if shown_later else self._settle_gone(element, showing)
        owing = self._mask_owing_additions(element) & ~showing
        element.missed = _last(owing & self._debts.undisturbed)
        element.excused = _last(owing & self._debts.excused)
        repaired = self._mask_owing_sights(showing) & ~showing
        element.unseen = _last(repaired & self._debts.undisturbed & self._debts.steady_ring)

    def _settle_gone(self, element: _Element, showing: _Mask) -> str:
        """Return the outcome of an element that the last reads lack, and set the read that lost it."""
        if self._fresh:
            return "lost"
        owing = self._mask_owing(element, showing)
        lacking = np.flatnonzero(owing & ~showing)
        if len(lacking) and not (self._ends[showing] >= self._invoked[lacking[-1]]).any():
            element.lacking = int(lacking[-1])
            return "lost"
        return "stale" if owing.any() else "undecided"

    def _mask_owing(self, element: _Element, showing: _Mask) -> _Mask:
        """Find the reads that owe the element: because its add was acknowledged before, or because a read had shown it."""
        assert element.known is not None
        owing = self._debts.unsaid & (self._invoked > element.known)
        owing |= self._mask_owing_additions(element)
        return owing | self._mask_owing_sights(showing)

    def _mask_owing_sights(self, showing: _Mask) -> _Mask:
        """Find the reads that began after one was answered that shows the element, and share a replica with it."""
        owing = np.zeros(len(self.reads), bool)
        for kind, is_of_kind in self._debts.kinds():
            ends = self._ends[showing & is_of_kind]
            if len(ends):
                owing |= self._debts.to_sight(kind) & (self._invoked > ends.min())
        return owing

    def _mask_owing_additions(self, element: _Element) -> _Mask:
        """Find the reads that began after an acknowledged add of the element, and share a replica with it."""
        owing = np.zeros(len(self.reads), bool)
        for add in element.acknowledged:
            owing |= self._debts.to_addition(add) & (self._invoked > _end(add))
        return owing

    def _mask_showing(self, element: _Element) -> _Mask:
        showing = np.zeros(len(self.reads), bool)
        for begin, end in element.runs:
            showing[begin:end] = True
        return showing

    def _last_lacking(self, element: _Element, after: int) -> int | None:
        """Find the last read from position `after` on that lacks the element; None: there is none."""
        candidate = len(self.reads) - 1
        for begin, end in reversed(element.runs):
            if candidate >= end:
                break
            candidate = begin - 1
        return candidate if candidate >= after else None

    def counts(self) -> Mapping[str, int]:
        outcomes = Counter(element.outcome for element in self.elements.values())
        recovered = sum(not element.acknowledged and bool(element.runs) for element in self.elements.values())
        return {
            "elements": len(self.elements),
            "reads": len(self.reads),
            "lost": outcomes["lost"],
            "stale": outcomes["stale"],
            "stable": outcomes["stable"],
            "never_read": outcomes["never-read"],
            "recovered": recovered,
            "duplicated": len(self.duplicated),
            "unexpected": len(self.unexpected),
        }

    def latencies(self) -> list[int]:
        """List, for each stable or stale element, the time (ns) after it was known at which a read still lacked it."""
        found = []
        for element in self.elements.values():
            if element.outcome in {"stable", "stale"}:
                assert element.known is not None
                found.append(0 if element.lacking is None else int(self._invoked[element.lacking]) - element.known)
        return found

    def doubts(self, key: str | None) -> Iterator[Doubt]:
        """Yield the doubts about the elements of which no read tells whether they are lost, and about those that came late after a disk was lost."""
        elements = self.elements.values()
        gone = [(one.value, one.lacking) for one in elements if one.outcome == "undecided" and one.lacking is not None]
        late = [one for one in elements if one.outcome == "stale" and one.missed is None]
        excused = [(one.value, one.excused) for one in late if one.excused is not None]
        unseen = [(one.value, one.unseen) for one in late if one.unseen is not None]
        for found, why in (
            (unseen, "that op {} lacks had been shown by an earlier read, which repaired the replicas that it asked"),
            (gone, "that the last reads lack, as op {}, may be lost: no read that owed it came after"),
            (excused, "that op {} owed but lacks: {} before may explain it"),
        ):
            if found:
                shown = ", ".join(shortened(_json(value)) for value, _ in found[: LIMITS.members])
                more = ", …" if len(found) > LIMITS.members else ""
                read = self.reads[max(position for _, position in found)]
                text = f"{counted(len(found), 'element')} ({shown}{more}) {why.format(read.index, self._debts.excuse(read))}"
                yield Doubt("undecided", text, list_objects(key))

    # ── findings ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def findings(self, key: str | None, operations: OperationLines) -> Sequence[Anomaly]:
        found: list[Anomaly] = []
        lost = [element for element in self.elements.values() if element.outcome == "lost"]
        late = [element for element in self.elements.values() if element.outcome == "stale"]
        stale = late if self._fresh else [element for element in late if element.missed is not None]
        for kind, elements in (("lost-element", lost), ("stale-element", stale)):
            found += [
                self._report_element(kind, key, element, len(elements), operations)
                for element in elements[: LIMITS.findings]
            ]
        for value, read in list(self.duplicated.items())[: LIMITS.findings]:
            found.append(self._report_read("duplicated-element", key, value, read, operations))
        for value, read in list(self.unexpected.items())[: LIMITS.findings]:
            found.append(self._report_read("unexpected-element", key, value, read, operations))
        return found

    def _report_element(
        self, kind: str, key: str | None, element: _Element, count: int, operations: OperationLines
    ) -> Anomaly:
        assert element.lacking is not None
        assert element.known is not None
        add = (element.acknowledged or element.adds)[0]
        missed = element.missed if kind == "stale-element" and element.missed is not None else element.lacking
        lacking = self.reads[missed]
        shown = None if element.shown is None else self.reads[element.shown]
        calls = [add, *([shown] if shown is not None else []), lacking]
        lines = operations.lines([call.index for call in calls])
        last = f"T{len(calls)}"
        seen = "no read ever showed it" if shown is None else "T2 is the last that shows it"
        others = count - 1
        more = f" The same holds for {others} more elements." if others else ""
        return anomaly(
            kind,
            objects=list_objects(key),
            nodes=[call.node for call in calls if call.node is not None],
            ops=[call.index for call in calls],
            evidence={
                "element": element.value,
                "known_ns": element.known,
                "last_lacking_ns": lacking.invoked,
                "last_shown_ns": None if shown is None else shown.invoked,
                "runs": element.runs[-LIMITS.members :],
                "elements": count,
            },
            explanation=Argument(
                label(lines),
                f"{shortened(_json(element.value))} was in the set from {element.known / 1e9:.6f} s on.",
                f"{last} began after that and lacks it; {seen}.{more}",
            ).render(),
        )

    def _report_read(
        self, kind: str, key: str | None, value: Hashable, read: PairedOperation, operations: OperationLines
    ) -> Anomaly:
        refused = self.refused.get(value) if kind == "unexpected-element" else None
        if refused is not None and refused.invoked > _end(read):
            refused = None  # it was seen before that
        added = self.elements.get(value)
        calls, must = [read], "T1"
        element, evidence = shortened(_json(_original(value))), {"element": _original(value)}
        if kind == "duplicated-element":
            but = f"T1 shows {element} more than once."
        elif refused is not None:
            calls, must = [refused, read], "T2"
            but = f"T2 shows {element}: T1, which was answered as refused, took effect."
            evidence["refused_with"] = (refused.error or "").partition(":")[0]
        elif added is not None:
            calls = [read, added.adds[0]]
            but = f"T1 shows {element}, and T2, which added it first, began only after T1 was answered."
        else:
            but = f"T1 shows {element}, and nobody added it."
        return anomaly(
            kind,
            objects=list_objects(key),
            nodes=[call.node for call in calls if call.node is not None],
            ops=[call.index for call in calls],
            evidence=evidence,
            explanation=Argument(
                label(operations.lines([call.index for call in calls])),
                f"{must} must show each added element once, and no others.",
                but,
            ).render(),
        )


class _Debts:
    """Which reads of one set owe what, by their levels, as masks of all its reads."""

    def __init__(self, key: str | None, reads: Sequence[PairedOperation], levels: Levels) -> None:
        self._key = key
        self._levels = levels
        kinds = [levels.kind(read) for read in reads]
        self._kinds = {kind: number for number, kind in enumerate(dict.fromkeys(kinds)) if kind is not None}
        self._numbers = np.array([-1 if kind is None else self._kinds[kind] for kind in kinds], np.int64)
        self.unsaid: _Mask = self._numbers < 0
        """Reads that do not say their levels."""
        is_steady = ~self.unsaid & np.array([levels.is_steady(read) for read in reads], bool)
        is_after_loss = np.array(
            [kind is not None and levels.is_after_loss(read) for kind, read in zip(kinds, reads, strict=True)], bool
        )
        self.undisturbed: _Mask = is_steady & ~is_after_loss
        """Reads before which nothing happened by which replicas may have come to lack what was acknowledged."""
        always = np.array([levels.owes_always(key, kind) for kind in self._kinds], bool)
        is_moved = ~self.unsaid & ~is_steady
        is_moved[is_moved] = always[self._numbers[is_moved]]
        self.excused: _Mask = (is_steady & is_after_loss) | is_moved
        """Reads before which a disk was taken away, or the replication changed to one by which their levels promise as much."""
        self.steady_ring: _Mask = np.array([levels.is_ring_steady(read) for read in reads], bool)
        """Reads that ended before any node began to join, leave or move: what a read repairs, it does not send to a node that joins."""
        self._to_additions: dict[str | None, _Mask] = {}
        self._to_sights: dict[ReadKind, _Mask] = {}

    def kinds(self) -> Iterator[tuple[ReadKind, _Mask]]:
        """Yield each kind of reads that say their levels, with a mask of them."""
        for kind, number in self._kinds.items():
            yield kind, self._numbers == number

    def excuse(self, read: PairedOperation) -> str:
        """Render why a read that is excused may lack what it owed."""
        return self._levels.excuse(read)

    def to_addition(self, add: PairedOperation) -> _Mask:
        """Mask the reads that share a replica with this addition, if it was acknowledged."""
        center = self._levels.center(add)
        if center not in self._to_additions:
            self._to_additions[center] = self._mask(
                kind for kind in self._kinds if self._levels.owes_addition(self._key, kind, center)
            )
        return self._to_additions[center]

    def to_sight(self, earlier: ReadKind) -> _Mask:
        """Mask the reads that share a replica with a read of that kind."""
        if earlier not in self._to_sights:
            self._to_sights[earlier] = self._mask(
                kind for kind in self._kinds if self._levels.owes_sight(self._key, kind, earlier)
            )
        return self._to_sights[earlier]

    def _mask(self, kinds: Iterable[ReadKind]) -> _Mask:
        return np.isin(self._numbers, [self._kinds[kind] for kind in kinds])


def _last(mask: _Mask) -> int | None:
    """Return the last position of a mask; None: there is none."""
    found = np.flatnonzero(mask)
    return int(found[-1]) if len(found) else None


class _RangeMaximum:
    """A sparse table: the greatest value of any stretch of an array, in two look-ups."""

    def __init__(self, values: npt.NDArray[np.int64]) -> None:
        self._levels = [values]
        width = 1
        while 2 * width <= len(values):
            level = self._levels[-1]
            self._levels.append(np.maximum(level[:-width], level[width:]))
            width *= 2

    def between(self, begin: int, end: int) -> int:
        level = (end - begin).bit_length() - 1
        values = self._levels[level]
        return int(max(values[begin], values[end - (1 << level)]))


def _end(read: PairedOperation) -> int:
    assert read.completed is not None
    return read.completed


def _hashable(value: JSON) -> Hashable:
    """Make a hashable key of a JSON value: 1 and true have different keys."""
    if isinstance(value, int | str) and not isinstance(value, bool):
        return value
    return (orjson.dumps(value, option=orjson.OPT_SORT_KEYS),)


def _original(value: Hashable) -> Any:
    if isinstance(value, tuple):
        (text,) = value
        return orjson.loads(text)
    return value


def _json(value: JSON) -> str:
    return orjson.dumps(value).decode()
