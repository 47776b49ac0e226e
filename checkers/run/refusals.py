"""Refusals: stretches of time in which the system refuses every operation of one kind.

Kinds are schema changes, writes and reads. Compare-and-sets and transactions, which other operations may refuse, are left
out. An operation is refused if its answer is
an error, of whatever outcome, that says neither that there was no answer nor, of a schema change, that the schema does not
admit it (an object exists already, does not exist, or is still in use). Faults and races explain refusals, so that only these
count:

- through a coordinator that was whole all the time and for a while before, with enough whole nodes beside it;
- reads and writes of a table that was certainly there: created with an acknowledgement, dropped by no possible change, and
  left alone for a while, in which the change reaches every node. Without any possible drop in the run an object without
  a CREATE counts, too.

A storm is made of several refusals in a row, through two coordinators or more (or the only one), with nothing answered in
between.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.operation_lines import OperationLines
from schemaquake.checkers.evidence.schema_changes import SchemaChanges, SchemaObject
from schemaquake.checkers.evidence.upgrades import Upgrades
from schemaquake.checkers.findings.argument import Argument, label
from schemaquake.checkers.findings.catalogue import anomaly
from schemaquake.checkers.findings.explanation import listing, seconds
from schemaquake.checkers.findings.limits import LIMITS
from schemaquake.checkers.run.whole_times import WholeTimes
from schemaquake.harness.ddl.schema_changes import SCHEMA_CHANGES
from schemaquake.harness.model.records import Records, keyspace_of
from schemaquake.harness.model.verdict import Anomaly

__all__ = ["NO_ANSWER", "Refusals", "Storm"]

NO_ANSWER: Final = r"(?i)unavailable|nohostavailable|no host|timed? ?out|overloaded|connection|unreachable"
"""Errors for a system that did not answer."""

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
}
_S: Final = 1_000_000_000
_LONGEST_NS: Final = 5 * _S
_PAUSE_NS: Final = _LONGEST_NS // 2
_ATTEMPTS: Final = 5
_RECOVERY_NS: Final = 5 * _S
_SPREAD_NS: Final = 5 * _S
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
        paired = evidence.paired().select(["index", "type", "f", "node", "key", "invoked", "completed", "error"])
        refused = _are_refused(paired)
        if not pc.any(refused).as_py():
            return
        kinds = [_KINDS.get(f, f) for f in paired["f"].to_pylist()]
        whole = WholeTimes(evidence.notes, nodes, recovery_ns=_RECOVERY_NS)
        tables = _Tables(evidence.changes)
        rows = paired.append_column("kind", pa.array(kinds, pa.string())).append_column("refused", refused)
        for kind in sorted(set(rows.filter(refused)["kind"].to_pylist()) & set(_KINDS.values())):
            of_kind = rows.filter(pc.equal(rows["kind"], kind)).sort_by("invoked")
            asked = frozenset(pc.unique(of_kind["node"]).to_pylist()) - {None}
            counted = _counted(of_kind, whole, tables, evidence.notes.upgrades)
            for storm in _storms(kind, counted, _answer_times(of_kind)):
                if len(storm.nodes) >= min(2, len(asked)):
                    length = (storm.ends - storm.begins) / 1e9
                    self.longest_s[kind] = max(self.longest_s.get(kind, 0.0), round(length, 3))
                    if len(storm.refusals) >= _ATTEMPTS and storm.ends - storm.begins >= _LONGEST_NS:
                        self.found.append(storm)

    def report(self, storm: Storm, operations: OperationLines) -> Anomaly:
        """Report one storm, with the faults that were under way on other nodes."""
        active = self._notes.active(storm.begins, storm.ends)
        errors = Counter(refusal.error.partition(":")[0] for refusal in storm.refusals)
        indices = [refusal.index for refusal in storm.refusals]
        shown = [*indices[:2], indices[-1]]
        beside = f", beside faults on other nodes ({listing(fault.nemesis for fault in active)})" if active else ""
        return anomaly(
            "refused-operations",
            objects=list(dict.fromkeys(refusal.key for refusal in storm.refusals if refusal.key))[: LIMITS.objects],
            nodes=storm.nodes,
            ops=indices[: LIMITS.members],
            evidence={
                "kind": storm.kind,
                "begins_ns": storm.begins,
                "ends_ns": storm.ends,
                "attempts": len(indices),
                "errors": dict(errors.most_common(LIMITS.examples)),
                "faults": [{"nemesis": fault.nemesis, "nodes": list(fault.nodes)} for fault in active],
            },
            explanation=Argument(
                label(operations.lines(shown)),
                f"the coordinators and a majority of the nodes were whole{beside}, so that a {storm.kind} should have succeeded.",
                f"from {seconds(storm.begins)} to {seconds(storm.ends)} {len(indices)} in a row were refused, and none succeeded.",
            ).render(),
        )


def _are_refused(paired: pa.Table) -> pa.ChunkedArray:
    """Mark the operations that ended in a refusal, by the text of the error."""
    error = pc.fill_null(paired["error"], "")
    says_nothing = pc.or_(pc.equal(error, ""), pc.starts_with(error, "not applied"))  # the condition did not hold
    says_anything = pc.invert(pc.or_(says_nothing, pc.match_substring_regex(error, NO_ANSWER)))
    is_change = pc.is_in(paired["f"], pa.array([f for f, kind in _KINDS.items() if kind == "schema change"]))
    is_admission = pc.and_(
        pc.match_substring_regex(error, _NOT_ADMITTED), pc.invert(pc.match_substring_regex(error, _NOT_OF_THE_SCHEMA))
    )
    return pc.and_(says_anything, pc.invert(pc.and_(is_change, is_admission)))


def _answer_times(of_kind: pa.Table) -> Sequence[int]:
    """Return the times (ns) at which operations of the kind were answered otherwise, sorted."""
    is_answer = pc.or_(
        pc.equal(of_kind["type"], "ok"), pc.and_(pc.equal(of_kind["type"], "fail"), pc.invert(of_kind["refused"]))
    )
    silent = pc.match_substring_regex(pc.fill_null(of_kind["error"], ""), NO_ANSWER)
    times: list[int] = of_kind.filter(pc.and_(is_answer, pc.invert(silent)))["completed"].drop_null().to_pylist()
    return sorted(times)


def _counted(of_kind: pa.Table, whole: WholeTimes, tables: _Tables, upgrades: Upgrades) -> Iterator[_Refusal]:
    """Yield the refusals that nothing explains, in order of time; what mixed versions are to refuse is none."""
    for row in of_kind.filter(of_kind["refused"]).to_pylist():
        begun, ended = row["invoked"], row["completed"]
        if row["node"] is None or ended is None:
            continue
        if row["kind"] == "schema change" and upgrades.may_refuse(begun, ended):
            continue
        is_whole = row["node"] in whole.nodes_within(begun, ended)
        if is_whole and whole.is_enough(begun, ended) and (row["kind"] == "schema change" or tables.are_there(row)):
            yield _Refusal(row["index"], row["node"], row["key"], begun, ended, row["error"])


def _storms(kind: str, refusals: Iterator[_Refusal], answers: Sequence[int]) -> Iterator[Storm]:
    """Yield the series of refusals between which nothing was answered and no long pause lies."""
    current: list[_Refusal] = []
    for refusal in refusals:
        if current:
            answered = bisect_left(answers, current[0].begun) < bisect_left(answers, refusal.begun)
            if answered or refusal.begun - current[-1].ended > _PAUSE_NS:
                yield Storm(kind, current)
                current = []
        current.append(refusal)
    if current:
        yield Storm(kind, current)


class _Tables:
    """The times at which tables were certainly there and left alone."""

    def __init__(self, changes: SchemaChanges) -> None:
        self._changes = changes
        self._has_drops = any(change.f.startswith("drop-") for change in changes.possible)
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
            return not self._has_drops
        return (
            life.begins <= row["invoked"]
            and (life.ends is None or row["completed"] < life.ends)
            and not any(
                begun - _SPREAD_NS < row["completed"] and (ended is None or row["invoked"] < ended + _SPREAD_NS)
                for begun, ended in life.changes
            )
        )

    def _life(self, key: str) -> _Life | None:
        """Return when the table was there; None if the history does not create it."""
        keyspace, _, rest = key.partition(".")
        table = SchemaObject("table", keyspace, rest.split("/", 1)[0])
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


@dataclass(frozen=True, slots=True)
class _Life:
    """When a table was certainly there (ns; `ends` null: to the end), and the spans of its possible changes."""

    begins: int
    ends: int | None
    changes: Sequence[tuple[int, int | None]]
