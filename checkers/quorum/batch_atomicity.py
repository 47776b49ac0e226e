"""Batch atomicity: every logged batch is applied to all of its tables, or to none.

Judges `batch` and `read-batches` of `schemaquake.harness.model.queries`: readings of whole tables, at levels whose replicas
must overlap with those of the batches (R + W > N). An acknowledged batch is in every later reading of all its tables; a
refused batch is in none; a batch of unknown outcome is in all of them or in none, in the end. It may be applied from the
batch log at any time until then, so it counts as torn only if one table was read with it at least 8 s before the last
reading of another table lacked it: the tables of a batch are written from the log within a moment of each other.
Finds: `lost-batch`, `torn-batch`, `refused-batch-applied`, `unwritten-value`, `repeated-rows`.

A logged batch is not isolated: while it is applied, a reading may show a part of it. A disk that an operation took away since a batch
began may have had one of its copies, and the batch log.
Unknown: batches whose tables were not all read; a batch of unknown outcome that was seen in part for less than 8 s, or after a
disk was taken away; an acknowledged one that is missing where such disks may have had all copies that its level promised.
Source: CASSANDRA-4285 (atomic batches).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.evidence.topology_operations import DiskLosses
from schemaquake.checkers.findings.argument import Argument, label
from schemaquake.checkers.findings.catalogue import anomaly
from schemaquake.checkers.findings.explanation import listing, seconds
from schemaquake.checkers.findings.limits import LIMITS
from schemaquake.checkers.findings.tally import Tally
from schemaquake.checkers.quorum.centers import find_centers
from schemaquake.checkers.quorum.levels import count_replicas
from schemaquake.checkers.quorum.operations import find_replication_factors
from schemaquake.harness.errors import HistoryError
from schemaquake.harness.model.records import Records
from schemaquake.harness.model.verdict import Anomaly, Doubt, Verdict

__all__ = ["BatchAtomicity"]

_OPERATIONS: Final = ("batch", "read-batches")
_TORN_FOR_NS: Final = 8_000_000_000


class BatchAtomicity:
    """A logged batch is applied as a whole, or not at all."""

    name = "batch-atomicity"
    scope: Literal["keyspace", "run"] = "keyspace"
    finds: tuple[str, ...] = ("lost-batch", "torn-batch", "refused-batch-applied", "unwritten-value", "repeated-rows")
    vouches: bool = True

    def check(self, records: Records, *, limit_s: float) -> Verdict:  # noqa: ARG002 - one pass over the readings
        """Judge every batch. Raises HistoryError for two batches of one number, and for a malformed batch."""
        evidence = Evidence.of(records)
        batches, readings = _read_batches(evidence)
        if not batches or not readings:
            missing = "batch was written" if not batches else "table of batches was read"
            return Verdict.unknown(self.name, Doubt("nothing-to-judge", f"no {missing}"))
        factors = find_replication_factors(records.history)
        if len(factors) != 1:
            text = "the replication factor of the keyspace is not known, so the levels that must overlap are not known"
            return Verdict.unknown(self.name, Doubt("undecided", text))
        if find_centers(records.history) != {}:
            text = "the keyspace has replicas in several data centres, and what levels promise of batches there is not judged"
            return Verdict.unknown(self.name, Doubt("undecided", text))
        found = _Violations(batches, readings, copies=next(iter(factors)), losses=evidence.notes.losses)
        found.judge()
        tally = Tally(self.name)
        tally.add(*found.report())
        tally.doubt(*found.doubts)
        stats = {
            "batches": len(batches),
            "acknowledged": sum(batch.operation.type == "ok" for batch in batches.values()),
            "of_unknown_outcome": sum(batch.operation.type == "info" for batch in batches.values()),
            "readings": len(readings),
            **{kind.replace("-", "_"): len(group) for kind, group in found.violations.items()},
        }
        return tally.verdict(**stats)


@dataclass(frozen=True, slots=True)
class _Batch:
    """One logged batch, with the tables that it has a row in."""

    operation: PairedOperation
    tables: tuple[str, ...]
    level: str


@dataclass(frozen=True, slots=True)
class _Reading:
    """One read of a whole table at one level; `ids` are the numbers of the batches in it."""

    operation: PairedOperation
    table: str
    level: str
    ids: frozenset[int]
    repeated: frozenset[int]
    """The numbers that it lists more than once."""

    @property
    def answered(self) -> int:
        """The time of the answer, in ns."""
        assert self.operation.completed is not None
        return self.operation.completed


@dataclass(slots=True)
class _Violation:
    """One batch, with the readings that show it and those that miss it; `batch` None: no batch has this number."""

    number: int
    batch: _Batch | None
    shown_by: list[_Reading] = field(default_factory=list)
    missed_by: list[_Reading] = field(default_factory=list)


def _read_batches(evidence: Evidence) -> tuple[Mapping[int, _Batch], Sequence[_Reading]]:
    """Read the batches, by number, and the answered readings, in order of invocation."""
    batches: dict[int, _Batch] = {}
    readings: list[_Reading] = []
    for operation in evidence.operations(_OPERATIONS):
        if operation.process < 0:
            continue
        request: Any = operation.argument if isinstance(operation.argument, dict) else {}
        level = str(request.get("consistency"))
        if operation.f == "read-batches":
            if operation.type == "ok":
                readings.append(_parse_reading(operation, level))
            continue
        number, tables = request.get("id"), request.get("tables")
        if type(number) is not int or not tables:
            raise HistoryError(f"op {operation.index}: a batch has a number and tables, not {operation.argument!r}")
        if number in batches:
            raise HistoryError(f"op {batches[number].operation.index} and op {operation.index} are both batch {number}")
        batches[number] = _Batch(operation, tuple(f"{operation.key}.{table}" for table in tables), level)
    return batches, readings


def _parse_reading(operation: PairedOperation, level: str) -> _Reading:
    if not isinstance(operation.value, list) or not all(type(number) is int for number in operation.value):
        raise HistoryError(f"op {operation.index}: a reading of batches shows a list of numbers")
    repeated = frozenset(number for number, count in Counter(operation.value).items() if count > 1)
    return _Reading(operation, operation.key or "", level, frozenset(operation.value), repeated)


class _Violations:
    """The violations of each kind, and the doubts."""

    def __init__(
        self, batches: Mapping[int, _Batch], readings: Sequence[_Reading], *, copies: int, losses: DiskLosses
    ) -> None:
        self._batches = batches
        self._copies = copies
        self._losses = losses
        self._readings: dict[str, list[_Reading]] = {}
        for reading in sorted(readings, key=lambda reading: reading.operation.invoked):
            self._readings.setdefault(reading.table, []).append(reading)
        self.violations: dict[str, list[_Violation]] = {
            kind: []
            for kind in ("lost-batch", "torn-batch", "refused-batch-applied", "unwritten-value", "repeated-rows")
        }
        self.doubts: list[Doubt] = []

    def judge(self) -> None:
        """Judge every batch, and every number in a reading that no batch has."""
        unread: list[_Batch] = []
        replaying: list[_Batch] = []
        excused: list[_Batch] = []
        for number, batch in self._batches.items():
            match batch.operation.type:
                case "ok":
                    self._judge_acknowledged(number, batch, unread, excused)
                case "fail":
                    shown = [r for table in batch.tables for r in self._readings_of(table) if number in r.ids]
                    if shown:
                        self.violations["refused-batch-applied"].append(_Violation(number, batch, shown))
                case "info":
                    self._judge_unknown_outcome(number, batch, unread, replaying, excused)
        self._find_unwritten()
        self._find_repeated()
        if unread:
            text = (
                f"{len(unread)} batches have a table without a reading at a level that must show them; the first is op "
                f"{unread[0].operation.index}"
            )
            self.doubts.append(Doubt("unread", text))
        if replaying:
            text = (
                f"{len(replaying)} batches of unknown outcome were seen in part, too late to tell whether they stay so; the "
                f"first is op {replaying[0].operation.index}"
            )
            self.doubts.append(Doubt("undecided", text))
        if excused:
            text = (
                f"{len(excused)} batches are missing, as a whole or in part, which a disk that was taken away may explain; the first "
                f"is op {excused[0].operation.index}"
            )
            self.doubts.append(Doubt("undecided", text))

    def _readings_of(self, table: str) -> Sequence[_Reading]:
        return self._readings.get(table, ())

    def _shares(self, reading: _Reading, batch: _Batch, *, lost: int) -> bool:
        """Return whether a reading asks a replica that acknowledged a batch, if so many of these lost their disk in between."""
        copies = count_replicas(batch.level, self._copies) - lost
        return copies + count_replicas(reading.level, self._copies) > self._copies

    def _lost(self, batch: _Batch, reading: _Reading) -> int:
        """Count the disks that operations may have taken away after a batch was begun and before a reading ended."""
        return self._losses.count_between(batch.operation.invoked, reading.answered)

    def _judge_acknowledged(self, number: int, batch: _Batch, unread: list[_Batch], excused: list[_Batch]) -> None:
        later = {
            table: [
                r
                for r in self._readings_of(table)
                if batch.operation.entirely_before(r.operation) and self._shares(r, batch, lost=0)
            ]
            for table in batch.tables
        }
        missing = [r for group in later.values() for r in group if number not in r.ids]
        missed = [r for r in missing if self._shares(r, batch, lost=self._lost(batch, r))]
        shown = [r for table in batch.tables for r in self._readings_of(table) if number in r.ids]
        if missed:
            kind = "torn-batch" if shown else "lost-batch"
            self.violations[kind].append(_Violation(number, batch, shown, missed))
        elif missing:
            excused.append(batch)
        elif not all(later.values()):
            unread.append(batch)

    def _judge_unknown_outcome(
        self, number: int, batch: _Batch, unread: list[_Batch], replaying: list[_Batch], excused: list[_Batch]
    ) -> None:
        last = [self._readings_of(table)[-1] for table in batch.tables if self._readings_of(table)]
        shown = [r for table in batch.tables for r in self._readings_of(table) if number in r.ids]
        first = min((r.answered for r in shown), default=None)
        # A reading at ALL shows the rows of every replica; a lower level may miss a row that only some replicas have so far.
        missed = [r for r in last if number not in r.ids and r.level == "ALL"]
        if first is not None and missed:
            for_good = [r for r in missed if r.operation.invoked - first >= _TORN_FOR_NS]
            if any(self._lost(batch, r) for r in missed):
                excused.append(batch)  # how many copies it had is not known
            elif for_good:
                self.violations["torn-batch"].append(_Violation(number, batch, shown, for_good))
            else:
                replaying.append(batch)
        elif first is not None and len([r for r in last if number in r.ids]) < len(batch.tables):
            unread.append(batch)

    def _find_unwritten(self) -> None:
        strange: dict[int, _Violation] = {}
        for group in self._readings.values():
            for reading in group:
                for number in reading.ids:
                    batch = self._batches.get(number)
                    if batch is None or reading.table not in batch.tables or reading.answered < batch.operation.invoked:
                        strange.setdefault(number, _Violation(number, batch)).shown_by.append(reading)
        self.violations["unwritten-value"] += [strange[number] for number in sorted(strange)]

    def _find_repeated(self) -> None:
        repeated: dict[int, _Violation] = {}
        for group in self._readings.values():
            for reading in group:
                for number in reading.repeated:
                    found = repeated.setdefault(number, _Violation(number, self._batches.get(number)))
                    found.shown_by.append(reading)
        self.violations["repeated-rows"] += [repeated[number] for number in sorted(repeated)]

    def report(self) -> Iterator[Anomaly]:
        """Yield one finding per kind, with the first case in full."""
        for kind, group in self.violations.items():
            if group:
                yield _report_kind(kind, group, total=len(self._batches))


# ── findings ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _report_kind(kind: str, group: Sequence[_Violation], *, total: int) -> Anomaly:
    first = group[0]
    tables = sorted({r.table for violation in group for r in (*violation.shown_by, *violation.missed_by)})
    examples = group[: LIMITS.examples]
    readings = [r for violation in examples for r in (violation.shown_by[-1:] + violation.missed_by[-1:])]
    batches = [violation.batch.operation for violation in examples if violation.batch is not None]
    lines = [] if first.batch is None else label([_render_batch(first.batch)])
    return anomaly(
        kind,
        objects=tables,
        nodes=[operation.node for operation in (*batches, *(r.operation for r in readings)) if operation.node],
        ops=[operation.index for operation in (*batches, *(r.operation for r in readings))],
        evidence={
            "count": len(group),
            "of": total,
            "examples": [
                {
                    "batch": violation.number,
                    "op": None if violation.batch is None else violation.batch.operation.index,
                    "there": [_render_evidence(r) for r in violation.shown_by],
                    "not_there": [_render_evidence(r) for r in violation.missed_by],
                }
                for violation in examples
            ],
        },
        explanation=Argument(lines, *_explain(kind, first, len(group))),
    )


def _explain(kind: str, first: _Violation, count: int) -> tuple[str, str]:
    shown, missed = _render_readings(first.shown_by), _render_readings(first.missed_by)
    more = f" The same holds for {count} batches." if count > 1 else ""
    due = "T1 was acknowledged, so every later reading at a level that overlaps with it must show its rows, in all of its tables."
    match kind:
        case "lost-batch":
            return due, f"batch {first.number} is not in {missed}, and no reading shows it at all.{more}"
        case "torn-batch" if first.batch is not None and first.batch.operation.type == "ok":
            return due, f"batch {first.number} is not in {missed}, though it is in {shown}.{more}"
        case "torn-batch":
            in_part = f"batch {first.number} is in {shown}, and not in {missed}"
            return (
                "the outcome of T1 is unknown: in the end its rows are in all of its tables, or in none.",
                f"{in_part}, and the batch log applies all tables of a batch together.{more}",
            )
        case "refused-batch-applied":
            return "T1 was refused, so no table has a row of it.", f"batch {first.number} is in {shown}.{more}"
        case "repeated-rows":
            return "the number of a batch is the key of its rows, so one answer lists it once.", (
                f"batch {first.number} is more than once in {shown}.{more}"
            )
    if first.batch is None:
        return f"no operation ever wrote batch {first.number}.", f"it is in {shown}.{more}"
    return "T1 has no row in that table, or had not begun by then.", f"it is in {shown}.{more}"


def _render_readings(readings: Sequence[_Reading]) -> str:
    """Render the last of these readings of each table: `k.a (op 9 at ALL, 20.100 s) and k.b (…)`."""
    last = {reading.table: reading for reading in readings}
    return listing(
        f"{table} (op {r.operation.index} at {r.level}, {seconds(r.answered)})" for table, r in sorted(last.items())
    )


def _render_batch(batch: _Batch) -> str:
    number = batch.operation.argument["id"]
    return batch.operation.text(f"logged batch {number} at {batch.level} into {listing(batch.tables)}")


def _render_evidence(reading: _Reading) -> Mapping[str, Any]:
    return {
        "table": reading.table,
        "op": reading.operation.index,
        "node": reading.operation.node,
        "consistency": reading.level,
        "at_s": round(reading.answered / 1e9, 3),
    }
