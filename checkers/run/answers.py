"""Answers: operations of clients that contradict their own questions, or the phases and keyspaces of their run.

For histories with the conductor's notes alone: those of other tools need not repeat what was asked, nor name what they set up.
Reads the whole history in Arrow: a run may have millions of reads and writes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.evidence.schema_changes import SchemaChanges, SchemaObject, certainly_applied, target
from schemaquake.checkers.findings.explanation import listing
from schemaquake.checkers.quorum.levels import count_replicas, sum_factors
from schemaquake.checkers.run.admission import Admission
from schemaquake.checkers.run.refusals import NO_REFUSAL
from schemaquake.checkers.run.whole_times import WholeTimes
from schemaquake.harness.counts import counted
from schemaquake.harness.ddl.schema_changes import SCHEMA_CHANGES
from schemaquake.harness.model.operation import NEMESIS
from schemaquake.harness.model.records import keyspace_of, plain

__all__ = ["find_misplaced_answers"]

_LEVEL: Final = r'"consistency":\s*"(?P<level>\w+)"'
_WITH_LEVEL: Final = ("get", "put", "probe")
"""Operations whose answers repeat the level at which they were asked."""
_FINAL: Final = ("final-settled", "final-restarted")
_MAY_ALWAYS_FAIL: Final = (
    frozenset({"insert", "read-rows", "delete-row", "truncate", "know-table", "cql"}) | SCHEMA_CHANGES
)
"""Operations of races, all of which may be refused: their table may be gone, or not yet there."""
_MAKING: Final = ("create-keyspace", "create-table", "create-type", "create-view")
_IS_THERE: Final = re.compile(r"already exist|AlreadyExists|already defined|duplicate", re.IGNORECASE)
_ATTEMPTS: Final = 5
_ABSENT: Final = "not applied"
_REFUSED: Final = (
    r"^(InvalidRequest|SyntaxException|Unauthorized|ConfigurationException|AlreadyExists|FunctionFailure)\b"
)
"""Errors that say that a statement is wrong, and not that nodes are missing."""
_LOST_TO_OTHERS: Final = re.compile(r"concurrent (group 0 )?modification")
"""The error of a change that met others at every attempt (group 0)."""
_RECOVERY_NS: Final = 10_000_000_000
_MISSES_REPLICAS: Final = r"^Unavailable"
"""The error of a coordinator that knows of too few replicas that are alive, in CQL and in Thrift."""
_UNREACHED: Final = r"^(NoHostAvailable|NotConnected|TTransportException|Connection\w*|(Read|Write)Timeout|(Operation)?TimedOut(Exception)?)\b"
"""The errors of who found no server on a node, or one that did not answer in time, or to which replicas did not.

Faults at steps of a simulated protocol have no notes, but clients and the observer meet them.
"""
_OF_ALL_REPLICAS: Final = ("ONE", "TWO", "THREE", "QUORUM", "ALL")
"""Levels of which any replica counts."""
_REJOINED_NS: Final = 30_000_000_000
"""How long after a fault nodes may still take each other for dead."""
_HEARD_NS: Final = 2_000_000_000
"""How long after an entry of a log was acknowledged every coordinator that nothing disturbs has it: entries are sent to all at once."""


def find_misplaced_answers(evidence: Evidence) -> Iterator[str]:
    """Yield what is wrong with the answers of a run with notes. Raises HistoryError."""
    events = plain(evidence.history.select(["index", "time", "process", "type", "f", "node", "key", "value", "error"]))
    invocation, completion = evidence.ends()
    asked, answered = events.take(pa.array(invocation)), completion >= 0
    yield from _find_other_ends(events, invocation[answered], completion[answered])
    yield from _find_wordless_refusals(events)
    yield from _find_baseless_refusals(evidence.changes)
    yield from _find_unfounded_refusals(evidence)
    yield from _find_unknown_owners(evidence)
    yield from _find_silent_phases(evidence, asked["time"].to_numpy())
    yield from _find_unmade_keyspaces(evidence, events)
    yield from _find_never_acknowledged(events)
    answers = events.take(pa.array(completion, mask=~answered))
    yield from _find_odd_refusals(evidence, asked, answers)
    yield from _find_missing_replicas(evidence, asked, answers)


def _find_other_ends(
    events: pa.Table,
    invocation: np.ndarray[tuple[int], np.dtype[np.int64]],
    completion: np.ndarray[tuple[int], np.dtype[np.int64]],
) -> Iterator[str]:
    """Yield the first operation that was answered by another node than was asked, about another key, or at another level."""
    first, second = events.take(pa.array(invocation)), events.take(pa.array(completion))
    for column in ("node", "key"):
        alike = pc.equal(pc.fill_null(first[column], ""), pc.fill_null(second[column], ""))
        if not pc.all(alike, min_count=0).as_py():
            at = first["index"].filter(pc.invert(alike))[0].as_py()
            yield f"op {at} was asked and answered with two values of {column}"
    leveled = pc.and_(pc.equal(second["type"], "ok"), pc.is_in(first["f"], value_set=pa.array(_WITH_LEVEL)))
    first, second = first.filter(leveled), second.filter(leveled)
    levels = [
        pc.fill_null(pc.struct_field(pc.extract_regex(rows["value"], _LEVEL), "level"), "") for rows in (first, second)
    ]
    alike = pc.equal(*levels)
    if len(first) and not pc.all(alike).as_py():
        at = first["index"].filter(pc.invert(alike))[0].as_py()
        yield f"op {at} was asked at one level and answered at another"


def _find_wordless_refusals(events: pa.Table) -> Iterator[str]:
    """Yield how many operations were refused without any error: a client always has one, by which a refusal is judged."""
    refused = pc.and_(pc.equal(events["type"], "fail"), pc.not_equal(events["process"], NEMESIS))
    wordless = events.filter(pc.and_(refused, pc.equal(pc.fill_null(events["error"], ""), "")))
    if len(wordless):
        yield f"{counted(len(wordless), 'operation was', 'operations were')} refused without an error, the first of them at event {wordless['index'][0].as_py()}"


def _find_baseless_refusals(changes: SchemaChanges) -> Iterator[str]:
    """Yield the CREATEs that were refused because the object is there already, although nothing can have made it.

    Only of keyspaces that the history itself created, before or afterwards, and in them: others may be older than it.
    """
    for change in changes.all:
        if change.f not in _MAKING or change.type != "fail" or change.completed is None:
            continue
        if _IS_THERE.search(change.error or "") is None or changes.texts(change.argument["keyspace"]):
            continue
        subject = target(change)
        named = [
            other
            for other in changes.possible
            if (target(other).keyspace, target(other).name) == (subject.keyspace, subject.name)
            and other.invoked <= change.completed
        ]
        if not named and changes.founds(subject.keyspace):
            yield f"op {change.index} was refused because {subject.key} is there already, and nothing can have made it"


def _find_unfounded_refusals(evidence: Evidence) -> Iterator[str]:
    """Yield how many changes were refused that the schema certainly admits, long after any fault or operation on the ring."""
    admission = Admission(evidence)
    found = [
        change
        for change in evidence.changes.all
        if change.type == "fail"
        and NO_REFUSAL.search(change.error or "") is None
        and not _lost_to_others(evidence.changes, change)
        and _is_undisturbed(evidence, change)
        and admission.is_certain(change.index)
    ]
    if found:
        text = f"{len(found)} schema changes were refused although the schema certainly admits them"
        yield f"{text}, the first of them {found[0].text()}"


def _lost_to_others(changes: SchemaChanges, change: PairedOperation) -> bool:
    """Tell if a change was refused because others came first each time, and there was another one at that time."""
    return _LOST_TO_OTHERS.search(change.error or "") is not None and any(
        other.index != change.index and not (other.entirely_before(change) or change.entirely_before(other))
        for other in changes.possible
    )


def _is_undisturbed(evidence: Evidence, change: PairedOperation) -> bool:
    """Tell if a change was asked for long after any fault or operation on the ring, in a run without an upgrade."""
    ended = change.invoked if change.completed is None else change.completed
    return (
        not evidence.notes.active(change.invoked - _RECOVERY_NS, ended)
        and not evidence.notes.membership.is_changing(change.invoked, ended, spread_ns=_RECOVERY_NS)
        and not evidence.notes.upgrades.operations
    )


def _find_unknown_owners(evidence: Evidence) -> Iterator[str]:
    """Yield how many changes were refused because their keyspace is not there, by a coordinator that must know it.

    One that acknowledged the CREATE knows it from then on, and so does any other one that asks the log before it answers. One that
    follows a log without asking has heard of it a while later, where nothing disturbs it, and once it acknowledged a later entry.
    """
    changes = evidence.changes
    schemas = evidence.readings.schemas
    heard_ns = None
    if schemas and all(schema.follows_log for schema in schemas):
        heard_ns = 0 if all(schema.asks_before_it_answers for schema in schemas) else _HEARD_NS
    found = [
        change
        for change in changes.all
        if change.type == "fail"
        and change.f in SCHEMA_CHANGES
        and change.f != "create-keyspace"
        and _is_without_keyspace(change)
        and _is_known(changes, change, heard_ns=heard_ns)
        and _is_undisturbed(evidence, change)
    ]
    if found:
        text = f"{len(found)} schema changes were refused because their keyspace is not there, which their coordinator knew"
        yield f"{text}, the first of them {found[0].text()}"


def _is_without_keyspace(change: PairedOperation) -> bool:
    """Tell if a change was refused because there is no such keyspace, in the words of any release."""
    name = rf"['\"]?{re.escape(change.argument['keyspace'])}\b['\"]?"
    absent = rf"keyspace {name} (doesn.t|does not) exist|(non.?existing|unknown|no such|find a|find) keyspace {name}"
    return re.search(f"(?i){absent}", change.error or "") is not None


def _is_known(changes: SchemaChanges, change: PairedOperation, *, heard_ns: int | None) -> bool:
    """Tell if the coordinator of a change certainly knew its keyspace: nothing possible can have removed it since its CREATE.

    `heard_ns` is how long after an acknowledgement the other coordinators have heard of it; None: that is not known.
    """
    keyspace = SchemaObject("keyspace", change.argument["keyspace"], "")
    ended = change.invoked if change.completed is None else change.completed
    removals = [one for one in changes.drops(keyspace) if one.invoked <= ended]
    return not changes.texts(keyspace.keyspace) and any(
        certainly_applied(create)
        and (create.node == change.node or _has_heard(changes, create, change, heard_ns))
        and create.entirely_before(change)
        and all(removal.entirely_before(create) for removal in removals)
        for create in changes.creates(keyspace)
    )


def _has_heard(changes: SchemaChanges, create: PairedOperation, change: PairedOperation, heard_ns: int | None) -> bool:
    """Tell if the coordinator of a change had followed the log past a CREATE: for a while, or to a later entry of its own."""
    if heard_ns is None or create.completed is None:
        return False
    return create.completed + heard_ns <= change.invoked or any(
        own.node == change.node
        and certainly_applied(own)
        and not (own.argument.get("if_exists") or own.argument.get("if_not_exists"))
        and create.entirely_before(own)
        and own.entirely_before(change)
        for own in changes.all
    )


def _find_silent_phases(evidence: Evidence, times: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Iterator[str]:
    """Yield the phases of a whole run in which no client asked anything: what it asks in one final phase, it asks in the other."""
    if not evidence.notes.planned:
        return
    spans: dict[str, list[int]] = {}
    for time, name, _ in evidence.notes.phases:
        spans.setdefault(str(name), []).append(time)
    silent = {
        phase: not np.any((times >= span[0]) & (times <= span[-1])) for phase, span in spans.items() if len(span) > 1
    }
    final = [phase for phase in _FINAL if phase in silent]
    for phase in ("main", *(final if not all(silent[phase] for phase in final) else ())):
        if silent.get(phase):
            yield f"no client asked anything in phase {phase}"


def _find_unmade_keyspaces(evidence: Evidence, events: pa.Table) -> Iterator[str]:
    """Yield the keyspaces that clients wrote or read although nothing can have created them: a run sets up what it uses."""
    changes = evidence.changes
    if not evidence.notes.planned:
        return
    made = {target(change).keyspace for change in changes.all if change.f == "create-keyspace" and change.possible}
    used = events.filter(pc.and_(pc.equal(events["type"], "ok"), pc.not_equal(events["process"], NEMESIS)))
    # A DROP IF EXISTS finds nothing in a keyspace that is not there, and is acknowledged.
    used = used.filter(pc.invert(pc.is_in(used["f"], value_set=pa.array(sorted(SCHEMA_CHANGES)))))
    keys = [key for key in pc.unique(used["key"]).to_pylist() if key is not None and "." in key]
    unmade = sorted({str(keyspace_of(key)) for key in keys} - made)
    changed = {target(change).keyspace for change in changes.possible if change.acknowledged}
    strange = [keyspace for keyspace in unmade if keyspace not in changed and not changes.texts(keyspace)]
    if strange:
        yield f"rows of {listing(strange)} were written or read, and no operation can have created it"


def _find_never_acknowledged(events: pa.Table) -> Iterator[str]:
    """Yield the kinds of operations on data that were tried again and again, and never acknowledged."""
    ended = events.filter(pc.and_(pc.not_equal(events["type"], "invoke"), pc.not_equal(events["process"], NEMESIS)))
    tried = ended.filter(pc.invert(pc.starts_with(pc.fill_null(ended["error"], ""), _ABSENT)))
    known = {count["values"]: count["counts"] for count in tried["f"].value_counts().to_pylist()}
    acknowledged = set(pc.unique(ended.filter(pc.equal(ended["type"], "ok"))["f"]).to_pylist())
    for f, count in sorted(known.items()):
        if count >= _ATTEMPTS and f not in acknowledged and f not in _MAY_ALWAYS_FAIL:
            yield f"none of {count} operations {f} was acknowledged"


def _find_odd_refusals(evidence: Evidence, asked: pa.Table, answers: pa.Table) -> Iterator[str]:
    """Yield the operations on data whose statement was refused although others of their kind were accepted.

    Their key had been in use before, or their table is ever in use and the nodes had agreed on one schema since the last change of
    its keyspace. Not judged: one within ten seconds of a fault, or of an operation on the ring, and one of a keyspace that changes all the while.
    """
    races = pc.is_in(asked["f"], value_set=pa.array(sorted(_MAY_ALWAYS_FAIL)))
    wrong = pc.fill_null(pc.match_substring_regex(answers["error"], _REFUSED), fill_value=False)
    refused = pc.and_(
        pc.and_(wrong, pc.fill_null(pc.equal(answers["type"], "fail"), fill_value=False)), pc.invert(races)
    )
    if not pc.any(refused).as_py():
        return
    accepted = asked.filter(pc.fill_null(pc.equal(answers["type"], "ok"), fill_value=False))
    used: dict[str | None, int] = {}
    for key, time in zip(accepted["key"].to_pylist(), accepted["time"].to_pylist(), strict=True):
        used.setdefault(key, time)
    tables = {_table_of(key) for key in used}
    for f in sorted(set(pc.unique(asked["f"].filter(refused)).to_pylist()) & set(pc.unique(accepted["f"]).to_pylist())):
        odd = asked.filter(pc.and_(refused, pc.equal(asked["f"], f)))
        found = [
            row
            for row in odd.select(["index", "time", "key"]).to_pylist()
            if _is_odd(evidence, row)
            and (
                used.get(row["key"], row["time"]) < row["time"]
                or (_table_of(row["key"]) in tables and _has_settled(evidence, row))
            )
        ]
        if found:
            yield f"{counted(len(found), f'operation {f} was', f'operations {f} were')} refused as wrong, the first of them op {found[0]['index']}, and others like them were not"


def _find_missing_replicas(evidence: Evidence, asked: pa.Table, answers: pa.Table) -> Iterator[str]:
    """Yield how many operations were refused for want of live replicas, long after any fault and start, while every node was whole.

    Only at a level at which that kind of operation was ever acknowledged in that keyspace, and where no change of the keyspace and no
    operation on the ring can have given it other replicas. A node on which a client or the observer found no server, or that did not answer
    in time, was not whole, and is again ten seconds later.
    """
    missing = pc.fill_null(pc.match_substring_regex(answers["error"], _MISSES_REPLICAS), fill_value=False)
    if evidence.notes.membership.operations or not pc.any(missing).as_py():
        return
    accepted = asked.filter(pc.fill_null(pc.equal(answers["type"], "ok"), fill_value=False))
    attained = {_request_of(row) for row in accepted.select(["f", "key", "value"]).to_pylist()}
    whole = WholeTimes(evidence.notes, sorted(evidence.nodes), recovery_ns=_RECOVERY_NS, needs_all=True)
    ends = answers["time"].filter(missing).to_pylist()
    seen = evidence.observations.filter(pc.equal(evidence.observations["kind"], "version"))
    unreached = [
        *_list_unreached(asked, answers["time"], answers["error"]),
        *_list_unreached(seen, seen["time"], seen["error"]),
    ]
    found = [
        row["index"]
        for row, end in zip(asked.filter(missing).to_pylist(), ends, strict=True)
        if _request_of(row) in attained
        and whole.is_enough(row["time"], end)
        and not evidence.notes.active(row["time"] - _REJOINED_NS, end)
        and _keeps_its_replicas(evidence.changes, keyspace_of(row["key"]))
        and not _may_lack_replicas(
            row, {node for node, begins, until in unreached if begins <= end and row["time"] <= until}, evidence.changes
        )
    ]
    if found:
        yield f"{counted(len(found), 'operation was', 'operations were')} refused for want of replicas, the first of them op {found[0]}, while every node was whole"


def _list_unreached(
    asked: pa.Table, times: pa.ChunkedArray, errors: pa.ChunkedArray
) -> Iterator[tuple[str | None, int, int]]:
    """Yield each node that had no server for who asked it, or none that answered in time, and the times (ns) from then to a while after.

    `times` and `errors` are those of the answers, a row for each of `asked`.
    """
    without = pc.fill_null(pc.match_substring_regex(errors, _UNREACHED), fill_value=False)
    columns = (asked["node"], asked["time"], times)
    for node, begins, ends in zip(*(each.filter(without).to_pylist() for each in columns), strict=True):
        yield node, begins, ends + _RECOVERY_NS


def _may_lack_replicas(row: Mapping[str, Any], unreached: Collection[str | None], changes: SchemaChanges) -> bool:
    """Tell if nodes without a server that answers explain that a coordinator knew of too few live replicas.

    One that was away itself may still take others for dead. For any other one, too many must be away for the level; each of them
    may be a replica. Of levels that are not known, and of keyspaces with several data centres, one node that was away is enough.
    """
    if not unreached or row["node"] in unreached:
        return bool(unreached)
    _, keyspace, level = _request_of(row)
    replications = [
        one.argument.get("replication") or {} for one in changes.on(SchemaObject("keyspace", str(keyspace), ""))
    ]
    if level not in _OF_ALL_REPLICAS or [len(replication) for replication in replications] != [
        2
    ]:  # a class, and a factor
        return True
    copies = sum_factors(replications[0])
    return copies - len(unreached) < count_replicas(str(level), copies)


def _request_of(row: Mapping[str, Any]) -> tuple[str, str | None, str | None]:
    """Return the kind of an operation, its keyspace, and its level."""
    level = re.search(_LEVEL, row["value"] or "")
    return row["f"], keyspace_of(row["key"]), level and level["level"]


def _keeps_its_replicas(changes: SchemaChanges, keyspace: str | None) -> bool:
    """Tell if no change but one CREATE can have said how many replicas a keyspace has."""
    if keyspace is None:
        return False
    return len(changes.on(SchemaObject("keyspace", keyspace, ""))) <= 1 and not changes.texts(keyspace)


def _table_of(key: str | None) -> str | None:
    """Return the table of a key, which may name one of its rows."""
    return None if key is None else key.partition("/")[0]


def _has_settled(evidence: Evidence, row: Mapping[str, Any]) -> bool:
    """Tell if the nodes had agreed on one schema before a question, and after the last change of its keyspace by then."""
    changes = [change for change in evidence.changes.possible if target(change).keyspace == keyspace_of(row["key"])]
    last = max((change.completed or row["time"] for change in changes), default=row["time"])
    notes = (
        value for event, value in evidence.notes.all if event["f"] == "settle" and last < event["time"] < row["time"]
    )
    return any(value.get("agreed") is True for value in notes)


def _is_odd(evidence: Evidence, row: Mapping[str, Any]) -> bool:
    """Tell if nothing else that went on explains a refusal."""
    time = row["time"]
    if evidence.notes.active(time - _RECOVERY_NS, time) or evidence.notes.membership.is_changing(
        time, time, spread_ns=_RECOVERY_NS
    ):
        return False
    changes = [change for change in evidence.changes.possible if target(change).keyspace == keyspace_of(row["key"])]
    return all(change.type == "ok" and (change.completed or 0) < time for change in changes)
