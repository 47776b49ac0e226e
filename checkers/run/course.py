"""Course: the conductor's notes are those of a run that went its whole way.

Judges the notes that every run has (`schemaquake.harness.run.phases`): each phase begins and ends once, none that every run
has is missing, every node was started before it answered, and each wait for one schema version says of which nodes, with
which versions, and whether they agreed. Events are numbered without a gap, in order of time. The run also creates the keyspaces that it changes. A note that is missing or contradicts another is a doubt: checkers believe them.
Histories without notes of phases, such as those of other tools, are not judged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.evidence.schema_changes import target
from schemaquake.checkers.findings.explanation import listing
from schemaquake.checkers.run.answers import find_misplaced_answers
from schemaquake.checkers.run.copied_readings import find_copied_readings
from schemaquake.checkers.run.denials import find_denials
from schemaquake.checkers.run.noted_members import find_strange_members, find_strange_operations
from schemaquake.checkers.run.places import find_misplaced
from schemaquake.checkers.run.questions import find_strange_questions
from schemaquake.checkers.run.row_questions import find_answers_of_absent, find_strange_row_questions
from schemaquake.checkers.run.samples import find_strange_samples
from schemaquake.checkers.run.standing_versions import find_standing_versions
from schemaquake.checkers.run.starts import find_strange_starts
from schemaquake.harness.ddl.schema_changes import SCHEMA_CHANGES
from schemaquake.harness.model.verdict import Doubt

__all__ = ["find_gaps"]

_ALWAYS: Final = ("boot", "setup", "prepare", "main", "settle-settled", "final-settled")
_AFTER_RESTART: Final = ("restart", "settle-restarted", "final-restarted")
"""The phases of a run with a restart in the end, after which any node served."""
_SETTLED: Final = frozenset({"setup", "settled", "restarted"})
"""The phases that a note of settling may name."""
_RESTARTS: Final = frozenset({"rolling", "together", "none"})
_REPEATED: Final = (
    *("insert", "delete-row", "read-rows", "truncate", "know-table"),
    *("write-rows", "delete-rows", "delete-partition", "check-rows"),
)
"""Operations on rows whose answers repeat the question, with rows and outcomes beside it."""
_READ: Final = ("settled", "restarted")
"""The phases of final readings."""
_UNREADABLE: Final = "unreadable: "


def find_gaps(evidence: Evidence) -> Iterator[Doubt]:
    """Yield a doubt for each note that is missing, damaged, or contradicts what else was recorded."""
    if evidence.notes.phases:
        course = (_find_lost_events, _find_plan, _find_phases, find_misplaced, find_strange_starts, _find_settles)
        members = (find_strange_members, find_strange_operations)
        versions = (_find_strange_versions, find_standing_versions, find_copied_readings, find_strange_samples)
        answers = (_find_strange_answers, find_misplaced_answers, find_strange_questions, find_strange_row_questions)
        finders = (find_denials, *course, *members, _find_foreign_keyspaces, _find_new_keyspaces, *versions, *answers)
        for text in (text for find in finders for text in find(evidence)):
            yield Doubt("incomplete-run", text)
        yield from find_answers_of_absent(evidence)


def _find_lost_events(evidence: Evidence) -> Iterator[str]:
    """Yield where the numbers of events leave some out, and where their times go back: a history has all events in order."""
    for column, text in (("index", "there are no events between"), ("time", "the times of events go back between")):
        values = evidence.history[column].combine_chunks()
        steps = pc.subtract(values[1:], values[:-1])
        odd = pc.not_equal(steps, 1) if column == "index" else pc.less(steps, 0)
        places = pc.indices_nonzero(odd.fill_null(True)).to_pylist()
        if places:
            numbers = evidence.history["index"].take(pa.array([places[0], places[0] + 1])).to_pylist()
            yield f"{text} number {numbers[0]} and number {numbers[1]}"
    first = evidence.history["index"][0].as_py()
    if first:
        yield f"there are no events before number {first}"


def _find_plan(evidence: Evidence) -> Iterator[str]:
    """Yield what is missing or wrong in the note of the plan, and what a run that has it lacks; runs of 0.1 have none."""
    notes = evidence.notes
    planned = notes.planned
    if not planned:
        if notes.membership.initial:
            yield "the members of the cluster are noted, and what the run planned is not"
        return
    if "faults-planned" not in notes.kinds and notes.began("main") is not None:
        yield "how many faults were planned is not noted"
    if planned.get("restart") not in _RESTARTS:
        yield "the note of the plan does not say how nodes were to be restarted"
    elif planned["restart"] == "none" and notes.began("restart") is not None:
        yield "nodes were restarted, and the note of the plan says that none was to be"
    yield from _find_planned_faults(evidence)
    if "pull_delay_s" not in planned:
        yield "the note of the plan does not say how long a node waits before it asks for a schema that it lacks"
    if "utc" in planned and notes.begins_ms is None:
        yield "the note of the plan does not say at which time of day the run began"
    logs, booted = planned.get("logs"), _booted(evidence)
    if logs is None:
        yield "the note of the plan does not say which nodes keep a log"
    elif logs and not booted <= set(logs):
        yield f"the note of the plan lists logs of some nodes, and none of {listing(sorted(booted - set(logs)))}"


def _find_planned_faults(evidence: Evidence) -> Iterator[str]:
    for note, value in evidence.notes.all:
        ids = value.get("ids")
        if note["f"] == "faults-planned" and not (
            isinstance(ids, list) and len(set(ids)) == value.get("count") == len(ids)
        ):
            yield "the note of the planned faults does not say which they are"


def _booted(evidence: Evidence) -> frozenset[str]:
    """Return the nodes that served at the start of the run."""
    return frozenset(start.node for start in evidence.notes.starts if start.phase == "boot" and start.served)


def _find_phases(evidence: Evidence) -> Iterator[str]:
    notes = evidence.notes
    begun = Counter(name for _, name, state in notes.phases if state == "begins" and name is not None)
    ended = Counter(name for _, name, state in notes.phases if state == "ends" and name is not None)
    if len(notes.phases) > begun.total() + ended.total():
        yield "a note of a phase does not say which phase it is of, or whether it begins or ends"
    for phase in sorted((ended - begun).keys()):
        yield f"phase {phase} ended and was never noted to begin"
    for phase in sorted(phase for phase, count in begun.items() if count > 1):
        yield f"phase {phase} began {begun[phase]} times"
    noted = begun.keys() | ended.keys()
    came_back = any(start.served for start in notes.starts if start.phase == "restart")
    after_restart = _AFTER_RESTART if came_back or noted & set(_AFTER_RESTART[1:]) else ()
    for phase in (*_ALWAYS, *after_restart):
        if "boot" in noted and phase not in noted:
            yield f"there is no note of phase {phase}"


def _find_foreign_keyspaces(evidence: Evidence) -> Iterator[str]:
    """Yield the keyspaces that were changed although nothing can have created them: a run sets up what it changes."""
    changes = evidence.changes
    made = {target(change).keyspace for change in changes.all if change.f == "create-keyspace" and change.possible}
    changed = {target(change).keyspace for change in changes.possible if change.acknowledged}
    for keyspace in sorted(changed - made):
        if not changes.texts(keyspace):
            yield f"keyspace {keyspace} was changed, and no operation can have created it"


def _find_new_keyspaces(evidence: Evidence) -> Iterator[str]:
    """Yield the keyspaces of unknown origin, without an operation or a reading before the final ones.

    One that is older than the run is in its first readings.
    """
    changes = evidence.changes
    early = [sight for sight in evidence.sightings("keyspace") if sight.phase not in _READ]
    concerned = {target(change).keyspace for change in changes.all if change.f in SCHEMA_CHANGES}
    known = {sight.keyspace for sight in early} | concerned
    shown = {keyspace for schema in evidence.shown.schemas for keyspace in schema.keyspaces}
    for keyspace in sorted(shown - known) if early else ():
        if not changes.texts(keyspace):
            yield f"keyspace {keyspace} is in a final reading and in none before, and no operation concerns it"


def _may_be_no_op(change: PairedOperation) -> bool:
    """Tell if a change was asked with IF [NOT] EXISTS."""
    return bool(change.argument.get("if_exists") or change.argument.get("if_not_exists"))


def _says_it(change: PairedOperation) -> bool:
    """Tell if an answer says whether anything was changed."""
    return isinstance(change.value, dict) and isinstance(change.value.get("applied"), bool)


def _find_strange_answers(evidence: Evidence) -> Iterator[str]:
    """Yield the answers that do not repeat what was asked, as every client of ours lets them: they are of something else.

    A client that says of one change with IF [NOT] EXISTS whether anything was changed says it of each, and of no other change.
    """
    answered = [(change, _says_it(change)) for change in evidence.changes.all if change.type == "ok"]
    says_it = [says for change, says in answered if _may_be_no_op(change)]
    if any(says_it) and not all(says_it):
        yield "some changes with IF [NOT] EXISTS were answered without whether they changed anything, others with it"
    for change in (change for change, says in answered if says and not _may_be_no_op(change)):
        yield f"the answer of op {change.index} says whether it changed anything, and it was asked without IF [NOT] EXISTS"
    for operation in (*evidence.changes.all, *evidence.operations(_REPEATED)):
        asked, answer = operation.argument, operation.value
        named = _name(asked) if isinstance(asked, dict) and operation.f != "cql" else ""
        if named and operation.key not in {None, named}:
            yield f"the question of op {operation.index} names another object than its key"
        if operation.type == "ok" and isinstance(asked, dict) and isinstance(answer, dict):
            strange = sorted(name for name, value in asked.items() if answer.get(name) != value)
            if strange:
                yield f"the answer of op {operation.index} differs from its question in {listing(strange)}"


def _name(asked: Mapping[str, Any]) -> str:
    """Return the key of an operation that names an object of the schema: its keyspace, and in it the object or the table of rows; empty if it names none."""
    return ".".join(str(asked[part]) for part in ("keyspace", "name" if "name" in asked else "table") if part in asked)


def _find_strange_versions(evidence: Evidence) -> Iterator[str]:
    """Yield the nodes of the Thrift days whose list of all nodes' versions contradicts what these showed themselves.

    Each node lists all nodes by version, in its reading. Not judged where some were not read, or differ: others say that.
    """
    rows = evidence.observations.filter(pc.equal(evidence.observations["kind"], "version"))
    members = evidence.notes.membership
    by_phase = {
        phase: _last_by_node(rows.filter(pc.equal(rows["phase"], phase)).select(["node", "sample", "id", "definition"]))
        for phase in (_READ if not members.changes else ())
    }
    lists_in = {
        phase: {node: orjson.loads(row["definition"] or "{}").get("versions") for node, row in last.items()}
        for phase, last in by_phase.items()
    }
    is_listed = any(any(lists.values()) for lists in lists_in.values())
    for phase, lists in lists_in.items():
        last = by_phase[phase]
        alike = len({row["id"] for row in last.values()}) == 1
        if not is_listed or not alike or any(unread.phase == phase for unread in evidence.shown.unread):
            continue
        noted = {members.addresses.get(node) for node in last}
        listed = {address for shown in lists.values() for nodes in (shown or {}).values() for address in nodes}
        known = listed if None in noted else noted
        for node, shown in sorted(lists.items()):
            if shown is None or {version: set(nodes) for version, nodes in shown.items()} != {last[node]["id"]: known}:
                yield f"{node} lists the versions of all nodes otherwise than they showed them when {phase}"


def _last_by_node(rows: pa.Table) -> Mapping[str, Mapping[str, Any]]:
    return {row["node"]: row for row in sorted(rows.to_pylist(), key=itemgetter("sample"))}


def _find_settles(evidence: Evidence) -> Iterator[str]:
    notes = evidence.notes
    named = Counter(settle.get("phase") for settle in notes.settles)
    for phase in sorted({str(name) for name in named} - _SETTLED):
        yield f"a note of settling names no phase of a run, but {phase}"
    for phase in _READ:
        if notes.began(f"final-{phase}") is not None and not named[phase]:
            yield f"nodes were read when {phase}, and how they settled before is not noted"
    if notes.planned and notes.began("prepare") is not None and not named["setup"]:
        yield "how the nodes settled after the setup is not noted"
    for settle in notes.settles:
        yield from _find_contradictions(evidence, settle)


def _find_contradictions(evidence: Evidence, settle: Mapping[str, Any]) -> Iterator[str]:
    phase, agreed, versions = settle.get("phase"), settle.get("agreed"), settle.get("versions")
    if not isinstance(agreed, bool) or not isinstance(versions, dict):
        yield f"the note of how phase {phase} settled does not say which versions the nodes had, and if they agreed"
        return
    if agreed != _agree(list(versions.values())):
        yield f"phase {phase} is noted to have {'agreed' if agreed else 'not agreed'}, with versions that say otherwise"
    read = {schema.node for schema in evidence.shown.of(str(phase))} if phase in _READ else _booted(evidence)
    unread = {unread.node for unread in evidence.shown.unread if unread.phase == phase}
    known = read | unread | evidence.notes.gone(str(phase), versions)
    if read and not read <= versions.keys() <= known:
        strange = sorted(read ^ versions.keys())
        yield f"the versions noted when phase {phase} settled are not those of the nodes that served: {listing(strange)} differ"
    elif agreed and _agree(list(versions.values())):
        yield from _find_moved(evidence, str(phase), str(next(iter(versions.values()))))


def _find_moved(evidence: Evidence, phase: str, settled_at: str) -> Iterator[str]:
    """Yield that all nodes showed another version than the one at which they had just settled; where they differ, others say that."""
    shown = {str(schema.version) for schema in evidence.shown.of(phase) if schema.version is not None}
    # A change whose outcome nobody knows may take effect at any time.
    if len(shown) == 1 and shown != {settled_at} and not any(change.type == "info" for change in evidence.changes.all):
        yield f"the nodes settled at one version and showed another one when they were read, {phase}"


def _agree(versions: Sequence[Any]) -> bool:
    return len(set(map(str, versions))) == 1 and not any(
        version is None or str(version).startswith(_UNREADABLE) for version in versions
    )
