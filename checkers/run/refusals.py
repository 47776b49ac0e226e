"""Refusals: stretches of time in which the system refuses every operation of one kind.

Kinds are schema changes, writes, reads, compare-and-sets and transactions; then those of one function (`f`), of one consistency
level, of one table, and through one coordinator. What is part of a wider storm is no storm of its own. Compare-and-sets and
transactions that others at the same time may have refused, by the words of the error, are not refused. An operation is refused if its answer is
an error, of whatever outcome, that says neither that there was no answer nor, of a schema change, that the schema does not
admit it (an object exists already, does not exist, or is still in use): unless the schema certainly admits it
(`schemaquake.checkers.run.admission`). Faults and races explain refusals, so that only these count:

- through a coordinator that was whole all the time and for a while before, with enough whole nodes beside it;
- reads and writes of a table that was certainly there: created with an acknowledgement, dropped by no possible change, and
  left alone for a while, in which the change reaches every node. An object of which the history has no CREATE and no possible
  drop, and none of its keyspace, counts, too;
- schema changes while no operation keeps the schema from being changed. Whether one without a known end still does is a doubt.

An ALTER of unknown outcome may take effect at any time after its begin, once: a storm that it explains then is a doubt.

A storm is made of several refusals in a row, through two coordinators or more (or the only one that was asked), with
nothing answered in between. Through one of several coordinators it is one of a part of the operations.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.operation_lines import OperationLines
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.evidence.schema_changes import SchemaChanges, SchemaObject, target
from schemaquake.checkers.evidence.topology_operations import TopologyOperation
from schemaquake.checkers.findings.argument import Argument, label
from schemaquake.checkers.findings.catalogue import anomaly
from schemaquake.checkers.findings.explanation import listing, seconds
from schemaquake.checkers.findings.limits import LIMITS
from schemaquake.checkers.run.admission import Admission
from schemaquake.checkers.run.whole_times import WholeTimes
from schemaquake.harness.ddl.schema_changes import ALTERS, SCHEMA_CHANGES
from schemaquake.harness.model.records import Records, keyspace_of
from schemaquake.harness.model.verdict import Anomaly, Doubt
from schemaquake.harness.units import S

__all__ = ["NEEDS_ALL", "NOT_OFFERED", "NO_ANSWER", "NO_REFUSAL", "Refusals", "Storm"]

NO_ANSWER: Final = (
    r"(?i)unavailable|nohostavailable|no host|timed? ?out|overloaded|connection|not ?connected|unreachable"
)
"""Errors for a system that did not answer."""
NEEDS_ALL: Final = r'"consistency": ?"(?:ALL|EACH_QUORUM|THREE)"'
"""The levels that no operation reaches while a single replica is down, with the usual three copies."""

# What a coordinator says of a change that its schema does not admit, or that it never takes.
_NOT_ADMITTED: Final = (
    r"(?i)exist|unknown|undefined|unconfigured|no such|not found|cannot|can.t|still used|in use|duplicate|conflict|"
    r"referenc|syntax|unauthorized|not (enabled|supported|allowed)|disabled|invalid"
)
_NOT_OF_THE_SCHEMA: Final = r"(?i)disagree|agreement|commit|mismatch|ServerError|ConfigurationException: Column family"
"""What is no such answer, whatever words are beside it."""

_KINDS: Final[Mapping[str, str]] = {
    **dict.fromkeys((*SCHEMA_CHANGES, "cql"), "schema change"),
    **dict.fromkeys(("insert", "delete-row", "truncate", "write", "add", "batch", "put"), "write"),
    **dict.fromkeys(("read", "read-rows", "get"), "read"),
    "cas": "compare-and-set",
    "txn": "transaction",
}
_CHANGE: Final = "schema change"
_BY_OTHERS: Final = r"(?i)caswrite|contention|conflict|concurren|serializ|deadlock|abort|preempt|invalidated|exhausted|roll(ed)? ?back|retr(y|ies)"
"""What systems say of a compare-and-set or a transaction that others at the same time had refused, or may have."""
NOT_OFFERED: Final = r"(?i)unauthorized|not (enabled|supported|allowed)|disabled|guardrail|unsupported"
"""What a system says of a change that it does not offer."""
NO_REFUSAL: Final = re.compile(rf"{NO_ANSWER}|{NOT_OFFERED.removeprefix('(?i)')}|^RefusedHere|disagree|not yet agree")
"""Errors of a change that the system did not answer, or never offers, or that a client of ours did not ask for; up to 1.1
changes that meet are refused for a disagreement."""
_LEVEL: Final = r'"consistency":\s*"(?P<level>\w+)"'
_TABLE: Final = r"^(?P<table>[^/]+\.[^/]+)"
_FINAL: Final = r'"phase":\s*"(?:settled|restarted)"'
_LONGEST_NS: Final = 5 * S
_PAUSE_NS: Final = _LONGEST_NS // 2
_ATTEMPTS: Final = 5
_ATTEMPTS_THROUGH_ONE: Final = 10
"""One coordinator of several may be the slow one: that it refuses takes more to say."""
_RECOVERY_NS: Final = 5 * S
_SPREAD_NS: Final = 5 * S
"""The time after a change in which not every node need know it."""


@dataclass(frozen=True, slots=True)
class _Refusal:
    """One refused operation; times in ns."""

    index: int
    node: str
    key: str | None
    begun: int
    ended: int
    error: str


@dataclass(frozen=True, slots=True)
class Storm:
    """Refusals of one kind in a row, with nothing answered in between."""

    kind: str
    refusals: Sequence[_Refusal]
    narrowed: Mapping[str, str]
    """What the refused operations have in common, as `f`, `consistency`, `table` or `node`; empty: all operations of the kind."""

    @property
    def begins(self) -> int:
        """The time (ns) at which the first one began."""
        return self.refusals[0].begun

    @property
    def ends(self) -> int:
        """The time (ns) at which the last one was refused."""
        return max(refusal.ended for refusal in self.refusals)

    @property
    def nodes(self) -> frozenset[str]:
        """The coordinators."""
        return frozenset(refusal.node for refusal in self.refusals)


class Refusals:
    """The refusals of a run that no fault and no race explains, and the storms among them."""

    def __init__(self, records: Records, nodes: Sequence[str]) -> None:
        """Read them from records; `nodes` are those of the history. Raises HistoryError."""
        evidence = Evidence.of(records)
        self._notes = evidence.notes
        self.longest_s: dict[str, float] = {}
        """By kind, the longest stretch without an answer that was not a refusal."""
        self.found: list[Storm] = []
        self.doubts: list[Doubt] = []
        """Storms that changes of unknown outcome explain if they took effect late, and refusals by an operation that may have ended."""
        paired = evidence.paired().select(
            ["index", "type", "f", "node", "key", "invoked", "completed", "argument", "error"]
        )
        refused = _are_refused(paired, Admission(evidence))
        if not pc.any(refused).as_py():
            return
        circumstances, doubted = _Circumstances(evidence, nodes), set[int]()
        rows = paired.append_column("kind", _kinds(paired)).append_column("refused", refused)
        for kind in sorted(set(rows.filter(refused)["kind"].to_pylist()) & set(_KINDS.values())):
            of_kind = rows.filter(pc.equal(rows["kind"], kind)).sort_by("invoked")
            for part in _parts(kind, of_kind):
                storms = list(_find_storms(part, circumstances))
                if not part.narrowed:
                    lengths = [(storm.ends - storm.begins) / 1e9 for storm in storms]
                    self.longest_s.update({kind: round(max(lengths), 3)} if lengths else {})
                known = {refusal.index for storm in self.found for refusal in storm.refusals}
                for storm in storms:
                    is_known = not known.isdisjoint(refusal.index for refusal in storm.refusals)
                    if is_known or not _is_storm(part, storm.refusals):
                        continue
                    late = circumstances.find_late(part, storm)
                    if not late:
                        self.found.append(storm)
                    elif doubted.isdisjoint(refusal.index for refusal in storm.refusals):
                        doubted |= {refusal.index for refusal in storm.refusals}
                        self.doubts.append(_doubt(storm, late))
        for operation in circumstances.without_end:
            text = f"schema changes were refused after {operation.f} (op {operation.index}), and it is not known whether it had ended"
            self.doubts.append(Doubt("undecided", text))

    def report(self, storm: Storm, operations: OperationLines) -> Anomaly:
        """Report one storm, with the faults that were under way on other nodes."""
        active = self._notes.active(storm.begins, storm.ends)
        errors = Counter(refusal.error.partition(":")[0] for refusal in storm.refusals)
        indices = [refusal.index for refusal in storm.refusals]
        shown = [*indices[:2], indices[-1]]
        beside = f", beside faults on other nodes ({listing(fault.nemesis for fault in active)})" if active else ""
        of = f" ({listing(storm.narrowed.values())})" if storm.narrowed else ""
        return anomaly(
            "refused-operations",
            objects=list(dict.fromkeys(refusal.key for refusal in storm.refusals if refusal.key))[: LIMITS.objects],
            nodes=storm.nodes,
            ops=indices[: LIMITS.members],
            evidence={
                "kind": storm.kind,
                **storm.narrowed,
                "begins_ns": storm.begins,
                "ends_ns": storm.ends,
                "attempts": len(indices),
                "errors": dict(errors.most_common(LIMITS.examples)),
                "faults": [{"nemesis": fault.nemesis, "nodes": list(fault.nodes)} for fault in active],
            },
            explanation=Argument(
                label(operations.lines(shown)),
                f"the coordinators and a majority of the nodes were whole{beside}, so that a {storm.kind}{of} should have succeeded.",
                f"from {seconds(storm.begins)} to {seconds(storm.ends)} {len(indices)} in a row were refused, and none succeeded.",
            ).render(),
        )


def _are_refused(paired: pa.Table, admission: Admission) -> pa.ChunkedArray:
    """Mark the operations that ended in a refusal, by the text of the error; of a change that is certainly admitted, any text."""
    error = pc.fill_null(paired["error"], "")
    says_nothing = pc.or_(pc.equal(error, ""), pc.starts_with(error, "not applied"))  # the condition did not hold
    says_anything = pc.invert(pc.or_(says_nothing, pc.match_substring_regex(error, NO_ANSWER)))
    is_change = pc.is_in(paired["f"], pa.array([f for f, kind in _KINDS.items() if kind == _CHANGE]))
    is_admission = pc.and_(
        pc.match_substring_regex(error, _NOT_ADMITTED), pc.invert(pc.match_substring_regex(error, _NOT_OF_THE_SCHEMA))
    )
    excused = pc.and_(pc.and_(says_anything, is_change), is_admission)
    # Few of the operations are changes that were refused with such words.
    judged = pc.and_(excused, pc.invert(pc.match_substring_regex(error, NOT_OFFERED)))
    baseless = [index for index in paired["index"].filter(judged).to_pylist() if admission.is_certain(index)]
    excused = pc.and_(excused, pc.invert(pc.is_in(paired["index"], pa.array(baseless, pa.int64()))))
    is_conditional = pc.is_in(paired["f"], pa.array(["cas", "txn"]))
    excused = pc.or_(excused, pc.and_(is_conditional, pc.match_substring_regex(error, _BY_OTHERS)))
    return pc.and_(says_anything, pc.invert(excused))


def _kinds(paired: pa.Table) -> pa.Array:
    encoded = paired["f"].combine_chunks().dictionary_encode()
    names = pa.array([_KINDS.get(f, f) for f in encoded.dictionary.to_pylist()], pa.string())
    return names.take(encoded.indices)


# ── parts of the operations of a kind ────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Part:
    """Operations of one kind, in order of invocation: all, or those with one value of each column of `narrowed`."""

    kind: str
    narrowed: Mapping[str, str]
    rows: pa.Table


def _parts(kind: str, of_kind: pa.Table) -> Iterator[_Part]:
    """Yield all operations of a kind, then its parts in which enough was refused, for long enough; wider ones first."""
    yield _Part(kind, {}, of_kind)
    if kind == _CHANGE:
        narrower: Sequence[Sequence[str]] = [["f"], ["node"], ["f", "node"]]
    else:
        argument = pc.fill_null(of_kind["argument"], "")
        level = pc.struct_field(pc.extract_regex(argument, _LEVEL), "level")
        table = pc.struct_field(pc.extract_regex(pc.fill_null(of_kind["key"], ""), _TABLE), "table")
        final = pc.match_substring_regex(argument, _FINAL)  # each probe of a final phase is judged by `writability`
        of_kind = of_kind.append_column("consistency", level).append_column("table", table).filter(pc.invert(final))
        narrower = [["consistency"], ["f"], ["table"], ["f", "consistency"], ["table", "consistency"]]
        narrower += [["node"], *([*columns, "node"] for columns in narrower)]
    refused = of_kind.filter(of_kind["refused"])
    for columns in narrower:
        groups = refused.group_by(columns, use_threads=False).aggregate([("invoked", "min"), ("completed", "max")])
        for group in groups.to_pylist():
            values = {column: group[column] for column in columns}
            long = (group["completed_max"] or 0) - group["invoked_min"] >= _LONGEST_NS
            if long and None not in values.values():
                rows = of_kind
                for column, value in values.items():
                    rows = rows.filter(pc.fill_null(pc.equal(rows[column], value), fill_value=False))
                if len(rows) < len(of_kind):
                    yield _Part(kind, values, rows)


def _find_storms(part: _Part, circumstances: _Circumstances) -> Iterator[Storm]:
    """Yield the storms of one part, however short, through several coordinators or the only one that was asked."""
    asked = frozenset(pc.unique(part.rows["node"]).to_pylist()) - {None}
    for storm in _storms(part, circumstances.counted(part), _answer_times(part.rows)):
        if len(storm.nodes) >= min(2, len(asked)):
            yield storm


def _is_storm(part: _Part, refusals: Sequence[_Refusal]) -> bool:
    """Tell if refusals in a row are enough, for long enough."""
    least = _ATTEMPTS_THROUGH_ONE if "node" in part.narrowed else _ATTEMPTS
    return len(refusals) >= least and max(one.ended for one in refusals) - refusals[0].begun >= _LONGEST_NS


def _count_effects(part: _Part, refusals: Sequence[_Refusal]) -> int:
    """Count the changes that must have taken effect one after the other, at the worst times, so that no storm is left."""
    count, until, current = 0, -1, list[_Refusal]()
    for refusal in refusals:
        if refusal.begun <= until:
            continue
        current.append(refusal)
        if _is_storm(part, current):
            count, until, current = count + 1, refusal.begun + _SPREAD_NS, []
    return count


def _doubt(storm: Storm, late: Sequence[PairedOperation]) -> Doubt:
    """Say that changes of unknown outcome may explain a storm."""
    tables = sorted({_table_of(refusal.key).key for refusal in storm.refusals if refusal.key is not None})
    text = (
        f"from {seconds(storm.begins)} to {seconds(storm.ends)} {len(storm.refusals)} operations ({storm.kind}) in a row were "
        f"refused, as they may be when op {late[0].index}, a change of unknown outcome, took effect only then"
    )
    return Doubt("undecided", text, tuple(tables[: LIMITS.objects]))


def _answer_times(rows: pa.Table) -> Sequence[int]:
    """Return the times (ns) at which operations were answered otherwise, sorted."""
    is_answer = pc.or_(
        pc.equal(rows["type"], "ok"), pc.and_(pc.equal(rows["type"], "fail"), pc.invert(rows["refused"]))
    )
    silent = pc.match_substring_regex(pc.fill_null(rows["error"], ""), NO_ANSWER)
    times: list[int] = rows.filter(pc.and_(is_answer, pc.invert(silent)))["completed"].drop_null().to_pylist()
    return sorted(times)


def _storms(part: _Part, refusals: Iterator[_Refusal], answers: Sequence[int]) -> Iterator[Storm]:
    """Yield the series of refusals between which nothing was answered and no long pause lies."""
    current: list[_Refusal] = []
    for refusal in refusals:
        if current:
            answered = bisect_left(answers, current[0].begun) < bisect_left(answers, refusal.begun)
            if answered or refusal.begun - current[-1].ended > _PAUSE_NS:
                yield Storm(part.kind, current, part.narrowed)
                current = []
        current.append(refusal)
    if current:
        yield Storm(part.kind, current, part.narrowed)


# ── what explains refusals ───────────────────────────────────────────────────────────────────────────────────────────


class _Circumstances:
    """Everything in a run that may explain a refusal."""

    def __init__(self, evidence: Evidence, nodes: Sequence[str]) -> None:
        self._whole = {
            needs_all: WholeTimes(evidence.notes, nodes, recovery_ns=_RECOVERY_NS, needs_all=needs_all)
            for needs_all in (False, True)
        }
        self._upgrades = evidence.notes.upgrades
        self._stops = [operation for operation in evidence.notes.operations if operation.stops_changes]
        self.without_end: list[TopologyOperation] = []
        """Those of them of unknown outcome that explained a refusal after their answer."""
        self._tables = _Tables(evidence.changes)
        self._admission = Admission(evidence)

    def counted(self, part: _Part) -> Iterator[_Refusal]:
        """Yield the refusals that nothing explains, in order of time; what mixed versions are to refuse is none."""
        for row in part.rows.filter(part.rows["refused"]).to_pylist():
            begun, ended = row["invoked"], row["completed"]
            if row["node"] is not None and ended is not None and not self._explains(part, row):
                yield _Refusal(row["index"], row["node"], row["key"], begun, ended, row["error"])

    def find_late(self, part: _Part, storm: Storm) -> Sequence[PairedOperation]:
        """List the changes of unknown outcome that explain a storm if they took effect in it; none: they are too few.

        Such a change may take effect at any time after its begin, and once: every node knows it a while later.
        """
        late: dict[int, PairedOperation] = {}
        left = []
        for refusal in storm.refusals if storm.kind != _CHANGE else ():
            unsettled = self._tables.list_unsettled(refusal.key, storm.ends)
            late |= {change.index: change for change in unsettled}
            left += [] if unsettled else [refusal]
        if not late or _is_storm(part, left) or _count_effects(part, storm.refusals) > len(late):
            return ()
        return [late[index] for index in sorted(late)]

    def _explains(self, part: _Part, row: Mapping[str, Any]) -> bool:
        begun, ended = row["invoked"], row["completed"]
        whole = self._whole[re.search(NEEDS_ALL, row["argument"] or "") is not None]
        if row["node"] not in whole.nodes_within(begun, ended) or not whole.is_enough(begun, ended):
            return True
        if row["kind"] == _CHANGE:
            # Each function has its own reasons to be refused, which are not all known; all of them together have none.
            admitted = not part.narrowed or self._admission.is_certain(row["index"])
            return self._upgrades.may_refuse(begun, ended) or self._are_stopped(begun, ended) or not admitted
        return not self._tables.are_there(row) or not self._admission.fits(_operation(row), part=bool(part.narrowed))

    def _are_stopped(self, begun: int, ended: int) -> bool:
        """Return whether an operation that keeps the schema from being changed may have been in effect at that time (ns)."""
        stopping = [
            one for one in self._stops if one.invoked <= ended and (one.ends_ns is None or begun <= one.ends_ns)
        ]
        sure = [one for one in stopping if one.completed is not None and begun <= one.completed]
        self.without_end += [one for one in stopping if not sure and one not in self.without_end]
        return bool(stopping)


def _operation(row: Mapping[str, Any]) -> PairedOperation:
    names = ("index", "type", "f", "node", "key", "invoked", "completed", "error")
    argument = None if row["argument"] is None else orjson.loads(row["argument"])
    return PairedOperation(process=0, argument=argument, value=None, **{name: row[name] for name in names})


class _Tables:
    """The times at which tables were certainly there and left alone."""

    def __init__(self, changes: SchemaChanges) -> None:
        self._changes = changes
        self._has_drops = any(change.f.startswith("drop-") for change in changes.possible)
        self._created = frozenset(target(change) for change in changes.all if change.f.startswith("create-"))
        self._known: dict[str, _Life | None] = {}

    def are_there(self, row: Mapping[str, Any]) -> bool:
        """Tell if the table of an operation was certainly there, and long enough for every node to know it."""
        key = row["key"]
        if key is None or "." not in key:
            return not self._has_drops
        if key not in self._known:
            self._known[key] = self._life(key)
        life = self._known[key]
        if life is None:
            return not self._may_be_gone(key) and not self._is_of_this_run(key)
        return (
            life.begins <= row["invoked"]
            and (life.ends is None or row["completed"] < life.ends)
            and not any(
                begun - _SPREAD_NS < row["completed"] and (ended is None or row["invoked"] < ended + _SPREAD_NS)
                for begun, ended in life.changes
            )
        )

    def list_unsettled(self, key: str | None, until: int) -> Sequence[PairedOperation]:
        """List the changes of the table of a key, and of its keyspace, that began by a time (ns), and whose outcome is unknown."""
        if key is None or "." not in key:
            return ()
        table = _table_of(key)
        return [
            change
            for subject in (table, SchemaObject("keyspace", table.keyspace, ""))
            for change in self._changes.on(subject)
            if change.type == "info" and change.f in ALTERS and change.invoked <= until
        ]

    def _may_be_gone(self, key: str) -> bool:
        """Tell if something may have dropped the table of a key, or its keyspace."""
        table = _table_of(key)
        return bool(self._changes.drops(table) or self._changes.texts(table.keyspace))

    def _is_of_this_run(self, key: str) -> bool:
        """Tell if the history has a CREATE of this table or of its keyspace, with whatever answer: it was not there before."""
        table = _table_of(key)
        return bool(self._created & {table, SchemaObject("keyspace", table.keyspace, "")})

    def _life(self, key: str) -> _Life | None:
        """Return when the table was there; None if no CREATE of it was acknowledged."""
        table = _table_of(key)
        keyspace = table.keyspace
        creates = [change for change in self._changes.creates(table) if change.acknowledged]
        if not creates:
            return None
        drops = self._changes.drops(table)
        contested = [*drops, *self._changes.texts(keyspace)]
        return _Life(
            begins=min(change.completed or 0 for change in creates) + _SPREAD_NS,
            ends=min((change.invoked for change in contested), default=None),
            changes=[
                (change.invoked, change.completed)
                for subject in (table, SchemaObject("keyspace", keyspace_of(key) or "", ""))
                for change in self._changes.on(subject)
                if change not in creates
            ],
        )


def _table_of(key: str) -> SchemaObject:
    """Return the table of a key such as `k.t` or `k.t/row`."""
    keyspace, _, rest = key.partition(".")
    return SchemaObject("table", keyspace, rest.split("/", 1)[0])


@dataclass(frozen=True, slots=True)
class _Life:
    """When a table was certainly there (ns; `ends` null: to the end), and the spans of its possible changes."""

    begins: int
    ends: int | None
    changes: Sequence[tuple[int, int | None]]
