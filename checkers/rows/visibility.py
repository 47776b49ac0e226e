"""Visibility: an acknowledged object or column is known to every coordinator within the time that the system promises.

Judges every read, write and schema change, outside the final phases, whose coordinator answered that it knows no such
keyspace, table, column, type, function or aggregate, although its CREATE or ADD had been acknowledged before the operation
began and nothing can have dropped or renamed it before the operation ended. Where every node merges changes by itself, a coordinator may learn of one later: at
the latest when it asks another node for what it lacks. How long it waits before it does (`pull_delay_s` of the system) is
in the note `run-planned`; the time counts from the acknowledgement, or from the last fault or start that may have kept the
change away. A shorter ignorance is counted in the statistics, and is a doubt if the coordinator itself had acknowledged a change of the object before, or had
agreed with all nodes on a schema that has it. A statement that was refused for any other reason, and that
nothing can have been wrong with, is a doubt (`schemaquake.checkers.rows.refused_statements`).
Finds: `invisible-change`. Source: CASSANDRA-5904, CASSANDRA-18291 (a version is announced before its schema is known),
CASSANDRA-15899; ScyllaDB, Making Schema Changes Safe with Raft ("you may not see the tables you just created").
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.checkers.ddl_order.reach import Reaches
from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.node_schemas import PHASES
from schemaquake.checkers.evidence.notes import Notes
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.evidence.schema_changes import SchemaChanges, SchemaObject, certainly_applied, target
from schemaquake.checkers.findings.argument import Argument
from schemaquake.checkers.findings.catalogue import anomaly
from schemaquake.checkers.findings.explanation import listing, name_operations
from schemaquake.checkers.findings.limits import LIMITS
from schemaquake.checkers.findings.tally import Tally
from schemaquake.checkers.rows.probe_errors import ProbeFault, classify_error, find_missing_column, shorten_error
from schemaquake.checkers.rows.refused_statements import find_refused_statements
from schemaquake.harness.ddl.schema_changes import SCHEMA_CHANGES
from schemaquake.harness.model.records import Records, plain
from schemaquake.harness.model.verdict import Anomaly, Doubt, Stat, Verdict
from schemaquake.harness.units import S

__all__ = ["Visibility"]

_ASKING: Final = (
    "insert",
    "read-rows",
    "delete-row",
    "truncate",
    "know-table",
    "add-column",
    "drop-column",
    "alter-options",
    "rename-column",
    "drop-table",
    "create-index",
    "create-view",
    "create-table",
    "create-type",
    "create-function",
    "create-aggregate",
    "alter-keyspace",
    "drop-keyspace",
    "drop-type",
    "add-field",
    "rename-field",
    "drop-function",
    "drop-aggregate",
)
_OWN: Final = frozenset({"drop-type", "add-field", "rename-field", "drop-function", "drop-aggregate"})
"""Changes of an object that must be there, and is no table."""
_NOT_THERE: Final = re.compile(
    r"\b(?:type|function|aggregate)\b.*(?:does not|doesn't) exist", re.IGNORECASE | re.DOTALL
)
_NO_KEYSPACE: Final = re.compile(r"\bkeyspace '?\S+ (?:does not|doesn't) exist", re.IGNORECASE)
_SPREAD_S: Final = 10
"""The time in which a change reaches every node of a healthy cluster, beside the delay of a pull."""


class _Subject(NamedTuple):
    """A table or another object, or with `column` a column of the table."""

    table: SchemaObject
    column: str | None

    @property
    def text(self) -> str:
        return (
            f"{self.table.kind} {self.table.key}"
            if self.column is None
            else f"column {self.column} of {self.table.key}"
        )


@dataclass(frozen=True, slots=True)
class _Ignorance:
    """One answer of a coordinator that does not know what had been acknowledged; `lasted` in ns since it must begin to.

    `removals` are changes of unknown outcome that may explain it.
    """

    change: PairedOperation
    operation: PairedOperation
    lasted: int
    removals: tuple[PairedOperation, ...] = ()
    own: PairedOperation | None = None
    """A change of it that this coordinator itself had acknowledged, and cannot have lost since."""
    had_agreed: bool = False
    """True if this coordinator had agreed with all nodes on a schema that has it, and cannot have lost it since."""


class Visibility:
    """Every coordinator knows every acknowledged table and column, in time."""

    name = "visibility"
    scope: Literal["keyspace", "run"] = "run"
    finds: tuple[str, ...] = ("invisible-change",)
    vouches: bool = False  # an answer in time shows little: what nodes have in the end is judged by others

    def check(self, records: Records, *, limit_s: float) -> Verdict:  # noqa: ARG002 - one pass over the refused operations
        """Judge every such answer. Unknown for a run that does not say what its system promises. Raises HistoryError."""
        evidence = Evidence.of(records)
        asked = pc.sum(pc.is_in(plain(records.history.select(["f"]))["f"], pa.array(_ASKING))).as_py()
        if not asked or not evidence.changes.acknowledged:
            nothing = Doubt("nothing-to-judge", "no table was created with an acknowledgement and used")
            return Verdict.unknown(self.name, nothing)
        refused = _refused_operations(evidence)
        found: dict[_Subject, list[_Ignorance]] = {}
        for operation in refused:
            subject = _unknown_subject(operation)
            change = None if subject is None else _certain_change(evidence, subject, operation)
            if subject is not None and change is not None:
                since = _began(evidence.notes, change, operation)
                if since is not None:
                    lasted = operation.invoked - since
                    open_ones = _open_removals(evidence, subject, operation)
                    own = _own_change(evidence, subject, operation)
                    had_agreed = _had_agreed(evidence.notes, change, operation)
                    ignorance = _Ignorance(change, operation, lasted, tuple(open_ones), own, had_agreed)
                    found.setdefault(subject, []).append(ignorance)
        tally = Tally(self.name)
        for subject, answers in sorted(found.items(), key=lambda one: (one[0].table, one[0].column or "")):
            tally.judge(_judge_answers(subject, answers, evidence.notes.pull_delay_s))
        tally.doubt(*find_refused_statements(evidence, refused))
        longest = {
            node: round(max(one.lasted for one in answers if one.operation.node == node) / S, 3)
            for answers in [[one for several in found.values() for one in several]]
            for node in sorted({one.operation.node or "" for one in answers})
        }
        return tally.verdict(
            events=asked,
            unknown_to_a_coordinator=sum(map(len, found.values())),
            longest_unknown_s=Stat(longest, "s", "max"),
        )


def _refused_operations(evidence: Evidence) -> Sequence[PairedOperation]:
    """Pair the operations of the processes that were ever refused one: among millions of rows they are few."""
    events = plain(evidence.history.select(["process", "f", "error"]))
    of_tables = pc.is_in(events["f"], pa.array(_ASKING))
    refused = pc.unique(events.filter(pc.and_(of_tables, pc.is_valid(events["error"])))["process"])
    return evidence.operations(_ASKING, processes=refused)


def _unknown_subject(operation: PairedOperation) -> _Subject | None:
    """Return what the coordinator did not know, by its error; None if it knew all, or was asked in a final phase."""
    argument = operation.argument if isinstance(operation.argument, dict) else {}
    keyspace, named = argument.get("keyspace"), "base" if operation.f == "create-view" else "table"
    table = argument.get(named) or argument.get("name")
    if operation.error is None or operation.completed is None or not keyspace:
        return None
    if operation.f in SCHEMA_CHANGES and _NO_KEYSPACE.search(operation.error):
        return _Subject(SchemaObject("keyspace", keyspace, ""), None)
    if operation.f in _OWN:
        return _Subject(target(operation), None) if _NOT_THERE.search(operation.error) else None
    if not table or (operation.f.startswith("create-") and operation.f not in {"create-index", "create-view"}):
        return None
    if argument.get("phase") in PHASES:  # judged by `writability`
        return None
    subject = SchemaObject("table", keyspace, table)
    match classify_error(operation.error):
        case ProbeFault.NO_TABLE:
            return _Subject(subject, None)
        case ProbeFault.NO_COLUMN:
            column = find_missing_column(operation.error)
            return None if column is None else _Subject(subject, column)
    return None


def _certain_change(evidence: Evidence, subject: _Subject, operation: PairedOperation) -> PairedOperation | None:
    """Return the acknowledged change by which the subject was there all the time of the operation, but for `_open_removals`."""
    assert operation.completed is not None
    changes = evidence.changes
    creates = changes.creates(subject.table)
    makers: Iterable[PairedOperation] = creates
    breakers = _removals(changes, subject)
    if subject.column is not None:
        makers = [change for change in changes.on(subject.table) if _gives(change, subject.column)]
        # Of several CREATEs another one may be the table's.
        breakers += creates if len(creates) > 1 else []
    open_ones = _open_removals(evidence, subject, operation)
    reaches = evidence.derive(Reaches)
    for change in breakers:
        reach = reaches.find(change)
        if change not in open_ones and (change.invoked if reach is None else reach.begins) <= operation.completed:
            return None
    known = [change for change in makers if change.acknowledged and change.entirely_before(operation)]
    return min(known, key=lambda change: change.completed or 0, default=None)


def _own_change(evidence: Evidence, subject: _Subject, operation: PairedOperation) -> PairedOperation | None:
    """Return the last change of the subject that the coordinator had acknowledged, with neither a fault nor a start of it since.

    It had the subject then, whichever nodes learn of it later.
    """
    assert operation.completed is not None
    notes = evidence.notes
    changes = [
        change
        for change in evidence.changes.on(subject.table)
        if change.node == operation.node
        and certainly_applied(change)
        and change.entirely_before(operation)
        and (subject.column is None or _gives(change, subject.column))
        and _is_undisturbed(notes, operation, change.invoked)
    ]
    return max(changes, key=lambda change: change.completed or 0, default=None)


def _had_agreed(notes: Notes, change: PairedOperation, operation: PairedOperation) -> bool:
    """Tell if the coordinator had agreed with all nodes on a schema that has this change, with nothing since by which it may lose it."""
    assert change.completed is not None
    return any(
        change.completed <= begun and ended <= operation.invoked and _is_undisturbed(notes, operation, ended)
        for begun, ended in notes.agreements(operation.node or "")
    )


def _is_undisturbed(notes: Notes, operation: PairedOperation, since: int) -> bool:
    """Check that neither a fault, nor a start of the coordinator, nor a change of the ring lies between a time (ns) and the end of an operation."""
    ends = operation.completed
    assert ends is not None
    is_started = any(start.node == operation.node and since <= start.time <= ends for start in notes.starts)
    return (
        not is_started and not notes.active(since, ends) and not notes.membership.is_changing(since, ends, spread_ns=0)
    )


def _gives(change: PairedOperation, column: str) -> bool:
    """Tell if the change made this column."""
    if change.f == "add-column":
        return bool(change.argument["column"][0] == column)
    return change.f == "create-table" and any(name == column for name, *_ in change.argument["columns"])


def _removals(changes: SchemaChanges, subject: _Subject) -> list[PairedOperation]:
    """Return the possible changes after which the subject may not be there."""
    removals = [*changes.drops(subject.table), *changes.texts(subject.table.keyspace)]
    if subject.column is not None:
        removals += (change for change in changes.on(subject.table) if change.f in {"drop-column", "rename-column"})
    return removals


def _open_removals(evidence: Evidence, subject: _Subject, operation: PairedOperation) -> Sequence[PairedOperation]:
    """Return the removals that may have taken effect by then, and of which no final reading shows whether they ever did."""
    assert operation.completed is not None
    reaches = evidence.derive(Reaches)
    found = [(removal, reaches.find(removal)) for removal in _removals(evidence.changes, subject)]
    return [
        removal
        for removal, reach in found
        if reach is not None and reach.begins <= operation.completed and reach.decided is None
    ]


def _began(notes: Notes, change: PairedOperation, operation: PairedOperation) -> int | None:
    """Return the time (ns) from which the coordinator had nothing to keep the change from it; None: it still has.

    A fault on another node than the two keeps nothing from them.
    """
    assert change.completed is not None
    times = [change.completed]
    times += [start.time for start in notes.starts if start.node == operation.node and start.time <= operation.invoked]
    for fault in notes.active(change.invoked, operation.completed):
        if fault.ends is None or fault.ends >= operation.invoked:
            if not fault.nodes or {change.node, operation.node} & set(fault.nodes):
                return None
        else:
            times.append(fault.ends)
    return max(times)


def _judge_answers(
    subject: _Subject, answers: Sequence[_Ignorance], pull_delay_s: float | None
) -> Anomaly | Doubt | None:
    limit_s = _SPREAD_S + (pull_delay_s or 0)
    late = [answer for answer in answers if answer.lasted > limit_s * S]
    own = [(one.operation, one.own) for one in answers if one.own is not None and not one.removals]
    if not late and own:
        ignorant, change = own[0]
        text = f"{ignorant.node} did not know it in op {ignorant.index}, after it had acknowledged op {change.index}"
        return Doubt("undecided", text, (subject.table.key,))
    agreed = [one for one in answers if one.had_agreed and not one.removals]
    if not late and agreed:
        ignorant = agreed[0].operation
        text = (
            f"{ignorant.node} did not know it in op {ignorant.index}, after it had agreed with all nodes on one schema"
        )
        return Doubt("undecided", text, (subject.table.key,))
    if not late:
        return None
    proven = [answer for answer in late if not answer.removals]
    if not proven:
        first = late[0]
        removals = name_operations(removal.index for removal in first.removals)
        text = f"{first.operation.node} did not know it, and {removals}, of unknown outcome, may be why"
        return Doubt("undecided", text, (subject.table.key,))
    late = proven
    if pull_delay_s is None:
        text = "a coordinator did not know it, and the run does not say within which time its system makes it known"
        return Doubt("undecided", text, (subject.table.key,))
    return _report(subject, late, limit_s)


def _report(subject: _Subject, late: Sequence[_Ignorance], limit_s: float) -> Anomaly:
    longest = max(late, key=lambda answer: answer.lasted)
    nodes = sorted({answer.operation.node or "" for answer in late})
    shown = list(_few([answer.operation for answer in late]))
    return anomaly(
        "invisible-change",
        objects=[subject.table.key],
        nodes=nodes,
        ops=[longest.change.index, *(answer.operation.index for answer in late[: LIMITS.operations])],
        evidence={
            "column": subject.column,
            "limit_s": limit_s,
            "answers": len(late),
            "lasted_s": {
                node: round(max(answer.lasted for answer in late if answer.operation.node == node) / S, 3)
                for node in nodes
            },
            "error": shorten_error(longest.operation.error or ""),
        },
        explanation=Argument(
            [longest.change, *shown],
            f"T1 was acknowledged, and nothing can have taken the {subject.text} away since: every coordinator knows it "
            f"within {limit_s:g} s, faults not counted.",
            f"{listing(nodes)} did not know it up to {longest.lasted / S:.1f} s later.",
        ),
    )


def _few(operations: Sequence[PairedOperation]) -> Iterator[PairedOperation]:
    """List the first and the last of the operations, each once."""
    yield operations[0]
    if len(operations) > 1:
        yield operations[-1]
