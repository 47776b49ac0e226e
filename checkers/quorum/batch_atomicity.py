"""Batch atomicity: whether every logged batch is there as a whole, or not at all.

Judges `batch` and `read-batches` of `schemaquake.harness.model.queries`: readings of whole tables, at levels that must meet the batches'
(R + W > N). An acknowledged batch is in every later reading of all its tables; a refused one in none; one whose outcome
nobody knows is in all of them or in none, in the end. It may be carried out from the log of batches at any time until
then, so it counts as torn only if one table was seen with it at least 8 s before another was read without it, at the
last reading of that one: the tables of a batch are written from the log within a moment of each other.
Finds: `lost-batch`, `torn-batch`, `refused-batch-applied`, `unwritten-value`.

A logged batch is not isolated: while it is carried out a reading may show a part of it.
Unknown: batches whose tables were not all read; one of unknown outcome that was seen in part, for less than that long.
Source: CASSANDRA-4285 (atomic batches).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.checkers.evidence.operations import PairedOperation, operations
from schemaquake.checkers.findings.catalogue import anomaly
from schemaquake.checkers.findings.explanation import explain, listing, seconds
from schemaquake.checkers.quorum.operations import replicas_of, replication_factors
from schemaquake.harness.errors import HistoryError
from schemaquake.harness.model.records import Records, plain
from schemaquake.harness.model.verdict import Anomaly, Doubt, Verdict, make_stats

__all__ = ["BatchAtomicity"]

_OPERATIONS: Final = ("batch", "read-batches")
_TORN_FOR_NS: Final = 8_000_000_000
_EXAMPLES_MOST: Final = 5


class BatchAtomicity:
    """All of a logged batch, or nothing of it."""

    name = "batch-atomicity"
    scope: Literal["keyspace", "run"] = "keyspace"
    finds: tuple[str, ...] = ("lost-batch", "torn-batch", "refused-batch-applied", "unwritten-value")
    vouches: bool = True

    def check(self, records: Records, *, limit_s: float) -> Verdict:  # noqa: ARG002 - one pass over the readings
        """Judge every batch. Raises HistoryError for two batches of one number, and for what is no batch."""
        batches, readings = _read(records.history)
        if not batches or not readings:
            missing = "batch was asked for" if not batches else "table of batches was read"
            return Verdict.unknown(self.name, Doubt("nothing-to-judge", f"no {missing}"))
        factors = replication_factors(records.history)
        if len(factors) != 1:
            text = "how many replicas the keyspace keeps is not known, so neither is what a reading must show"
            return Verdict.unknown(self.name, Doubt("undecided", text))
        found = _Found(batches, readings, copies=next(iter(factors)))
        found.judge()
        stats = {
            "batches": len(batches),
            "acknowledged": sum(batch.operation.type == "ok" for batch in batches.values()),
            "of_unknown_outcome": sum(batch.operation.type == "info" for batch in batches.values()),
            "readings": len(readings),
            **{kind.replace("-", "_"): len(some) for kind, some in found.wrong.items()},
        }
        anomalies = tuple(found.told())
        return Verdict(
            valid=False if anomalies else "unknown" if found.doubts else True,
            checker=self.name,
            anomalies=anomalies,
            stats=make_stats(stats),
            doubts=tuple(found.doubts),
        )


@dataclass(frozen=True, slots=True)
class _Batch:
    """One logged batch: the tables it has a row in."""

    operation: PairedOperation
    tables: tuple[str, ...]
    level: str


@dataclass(frozen=True, slots=True)
class _Reading:
    """One whole table as one read at one level showed it."""

    operation: PairedOperation
    table: str
    level: str
    ids: frozenset[int]

    @property
    def answered(self) -> int:
        """When (ns)."""
        assert self.operation.completed is not None
        return self.operation.completed


@dataclass(slots=True)
class _Wrong:
    """One batch, or a number that is none, with the readings that show it and those that do not."""

    number: int
    batch: _Batch | None
    shown_by: list[_Reading] = field(default_factory=list)
    missed_by: list[_Reading] = field(default_factory=list)


def _read(history: pa.Table) -> tuple[Mapping[int, _Batch], Sequence[_Reading]]:
    """Batches by number, and the readings that were answered, in order of invocation."""
    mine = history.filter(
        pc.and_(
            pc.is_in(plain(history.select(["f"]))["f"], value_set=pa.array(_OPERATIONS)),
            pc.greater_equal(history["process"], 0),
        )
    )
    batches: dict[int, _Batch] = {}
    readings: list[_Reading] = []
    for operation in operations(mine):
        asked: Any = operation.argument if isinstance(operation.argument, dict) else {}
        level = str(asked.get("consistency"))
        if operation.f == "read-batches":
            if operation.type == "ok":
                readings.append(_reading(operation, level))
            continue
        number, tables = asked.get("id"), asked.get("tables")
        if type(number) is not int or not tables:
            raise HistoryError(f"op {operation.index}: a batch has a number and tables, not {operation.argument!r}")
        if number in batches:
            raise HistoryError(f"op {batches[number].operation.index} and op {operation.index} are both batch {number}")
        batches[number] = _Batch(operation, tuple(f"{operation.key}.{table}" for table in tables), level)
    return batches, readings


def _reading(operation: PairedOperation, level: str) -> _Reading:
    if not isinstance(operation.value, list) or not all(type(number) is int for number in operation.value):
        raise HistoryError(f"op {operation.index}: a reading of batches shows a list of numbers")
    return _Reading(operation, operation.key or "", level, frozenset(operation.value))


class _Found:
    """What is wrong, kind by kind, and what could not be decided."""

    def __init__(self, batches: Mapping[int, _Batch], readings: Sequence[_Reading], *, copies: int) -> None:
        self._batches = batches
        self._copies = copies
        self._readings: dict[str, list[_Reading]] = {}
        for reading in sorted(readings, key=lambda reading: reading.operation.invoked):
            self._readings.setdefault(reading.table, []).append(reading)
        self.wrong: dict[str, list[_Wrong]] = {
            kind: [] for kind in ("lost-batch", "torn-batch", "refused-batch-applied", "unwritten-value")
        }
        self.doubts: list[Doubt] = []

    def judge(self) -> None:
        """Look at every batch, and at every number that is none."""
        unread: list[_Batch] = []
        replaying: list[_Batch] = []
        for number, batch in self._batches.items():
            match batch.operation.type:
                case "ok":
                    self._acknowledged(number, batch, unread)
                case "fail":
                    shown = [r for table in batch.tables for r in self._of(table) if number in r.ids]
                    if shown:
                        self.wrong["refused-batch-applied"].append(_Wrong(number, batch, shown))
                case "info":
                    self._of_unknown_outcome(number, batch, unread, replaying)
        self._unwritten()
        if unread:
            text = (
                f"{len(unread)} batches have a table that no reading shows that must meet them, the first is op "
                f"{unread[0].operation.index}"
            )
            self.doubts.append(Doubt("unread", text))
        if replaying:
            text = (
                f"{len(replaying)} batches of unknown outcome were seen in part, too late to tell whether for good; the "
                f"first is op {replaying[0].operation.index}"
            )
            self.doubts.append(Doubt("undecided", text))

    def _of(self, table: str) -> Sequence[_Reading]:
        return self._readings.get(table, ())

    def _must_show(self, reading: _Reading, batch: _Batch) -> bool:
        return replicas_of(reading.level, self._copies) + replicas_of(batch.level, self._copies) > self._copies

    def _acknowledged(self, number: int, batch: _Batch, unread: list[_Batch]) -> None:
        later = {
            table: [
                r for r in self._of(table) if batch.operation.entirely_before(r.operation) and self._must_show(r, batch)
            ]
            for table in batch.tables
        }
        missed = [r for some in later.values() for r in some if number not in r.ids]
        shown = [r for table in batch.tables for r in self._of(table) if number in r.ids]
        if missed:
            kind = "torn-batch" if shown else "lost-batch"
            self.wrong[kind].append(_Wrong(number, batch, shown, missed))
        elif not all(later.values()):
            unread.append(batch)

    def _of_unknown_outcome(self, number: int, batch: _Batch, unread: list[_Batch], replaying: list[_Batch]) -> None:
        last = [self._of(table)[-1] for table in batch.tables if self._of(table)]
        shown = [r for table in batch.tables for r in self._of(table) if number in r.ids]
        first = min((r.answered for r in shown), default=None)
        # A reading at ALL shows what any replica has; one below may miss what only some of them have so far.
        missed = [r for r in last if number not in r.ids and r.level == "ALL"]
        if first is not None and missed:
            for_good = [r for r in missed if r.operation.invoked - first >= _TORN_FOR_NS]
            if for_good:
                self.wrong["torn-batch"].append(_Wrong(number, batch, shown, for_good))
            else:
                replaying.append(batch)
        elif first is not None and len([r for r in last if number in r.ids]) < len(batch.tables):
            unread.append(batch)

    def _unwritten(self) -> None:
        strange: dict[int, _Wrong] = {}
        for some in self._readings.values():
            for reading in some:
                for number in reading.ids:
                    batch = self._batches.get(number)
                    if batch is None or reading.table not in batch.tables or reading.answered < batch.operation.invoked:
                        strange.setdefault(number, _Wrong(number, batch)).shown_by.append(reading)
        self.wrong["unwritten-value"] += [strange[number] for number in sorted(strange)]

    def told(self) -> Iterator[Anomaly]:
        """One finding a kind, with the first case in full."""
        for kind, some in self.wrong.items():
            if some:
                yield _anomaly(kind, some, total=len(self._batches))


# ── what is told ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _anomaly(kind: str, some: Sequence[_Wrong], *, total: int) -> Anomaly:
    first = some[0]
    tables = sorted({r.table for wrong in some for r in (*wrong.shown_by, *wrong.missed_by)})
    told = some[:_EXAMPLES_MOST]
    readings = [r for wrong in told for r in (wrong.shown_by[-1:] + wrong.missed_by[-1:])]
    batches = [wrong.batch.operation for wrong in told if wrong.batch is not None]
    lines = [] if first.batch is None else [f"T1 = {_text(first.batch)}"]
    return anomaly(
        kind,
        objects=tables,
        nodes=[operation.node for operation in (*batches, *(r.operation for r in readings)) if operation.node],
        ops=[operation.index for operation in (*batches, *(r.operation for r in readings))],
        evidence={
            "count": len(some),
            "of": total,
            "examples": [
                {
                    "batch": wrong.number,
                    "op": None if wrong.batch is None else wrong.batch.operation.index,
                    "there": [_evidence(r) for r in wrong.shown_by],
                    "not_there": [_evidence(r) for r in wrong.missed_by],
                }
                for wrong in told
            ],
        },
        explanation=explain(lines, *_reasoning(kind, first, len(some))),
    )


def _reasoning(kind: str, first: _Wrong, count: int) -> tuple[str, str]:
    there, not_there = _places(first.shown_by), _places(first.missed_by)
    so = f" So it is with {count} batches." if count > 1 else ""
    due = "T1 was acknowledged, so every later reading that must meet it shows its row, in all of its tables."
    match kind:
        case "lost-batch":
            return due, f"batch {first.number} is not in {not_there}, and no reading shows it at all.{so}"
        case "torn-batch" if first.batch is not None and first.batch.operation.type == "ok":
            return due, f"batch {first.number} is not in {not_there}, though it is in {there}.{so}"
        case "torn-batch":
            in_part = f"batch {first.number} is in {there}, and not in {not_there}"
            return (
                "nobody knows the outcome of T1: in the end its rows are in all of its tables, or in none.",
                f"{in_part}, and what is carried out from the log of batches is carried out together.{so}",
            )
        case "refused-batch-applied":
            return "T1 was refused, so nothing of it is anywhere.", f"batch {first.number} is in {there}.{so}"
    if first.batch is None:
        return f"nobody asked for batch {first.number}, at any time.", f"it is in {there}.{so}"
    return "T1 has no row in that table, or had not been asked for by then.", f"it is in {there}.{so}"


def _places(readings: Sequence[_Reading]) -> str:
    """`k.a (op 9 at ALL, 20.100 s) and k.b (…)`: of each table the last of these readings."""
    last = {reading.table: reading for reading in readings}
    return listing(
        f"{table} (op {r.operation.index} at {r.level}, {seconds(r.answered)})" for table, r in sorted(last.items())
    )


def _text(batch: _Batch) -> str:
    operation = batch.operation
    number = operation.argument["id"]
    outcome = operation.type if operation.error is None else f"{operation.type} ({operation.error})"
    when = "" if operation.completed is None else f" at {seconds(operation.completed)}"
    return (
        f"op {operation.index}: p{operation.process} {operation.node or '-'} logged batch {number} at {batch.level} into "
        f"{listing(batch.tables)} -> {outcome}{when}"
    )


def _evidence(reading: _Reading) -> Mapping[str, Any]:
    return {
        "table": reading.table,
        "op": reading.operation.index,
        "node": reading.operation.node,
        "consistency": reading.level,
        "at_s": round(reading.answered / 1e9, 3),
    }
