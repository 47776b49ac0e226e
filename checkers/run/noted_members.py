"""Noted members: notes of the membership and of operations on it that contradict one another, or what nodes said of themselves.

The conductor notes the members after the boot, after each operation, after healing and after the restart, with the state that is
expected of each (`schemaquake.harness.run.following`). What it expects follows from the operations; addresses, spares and host ids stay as they
are, unless an operation concerns the node. An operation's end repeats what was asked, and its outcome follows from its attempts
(`schemaquake.nemeses.topology.attempts` says how).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.notes import Note, may_start, traits_of
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.evidence.schema_changes import SchemaObject
from schemaquake.checkers.evidence.upgrades import LAST_STAGE, STAGES
from schemaquake.checkers.findings.explanation import listing
from schemaquake.harness.model.membership import MEMBER_STATES, TopologyChange, expected_states
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.traits import NemesisTraits

__all__ = ["find_strange_members", "find_strange_operations"]

_FIELDS: Final = {"state", "address", "host_id", "spare", "expected"}
_ATTEMPT: Final[Mapping[str, type | tuple[type, ...]]] = {
    "outcome": str,
    "command": str,
    "node": str,
    "seconds": (int, float),
    "answer": str,
    "timed_out": bool,
}
_OUTCOMES: Final = frozenset({"ok", "fail", "info"})
_BEFORE: Final = {"heal": "final-settled", "restart": "final-restarted"}
"""The moments of which every run has a note, and the phase that comes after it."""
_ROUNDING_S: Final = 1.0
_ROUNDED_S: Final = 0.1
"""How far sums of rounded times may be apart."""
_ORDER: Final = ("ok", "fail", "info")
_SNAPSHOT: Final = "snapshot"
"""A word of the command by which a node is asked for a snapshot, and of no other one."""


def find_strange_members(evidence: Evidence) -> Iterator[str]:
    """Yield what is missing or wrong in the notes of the members; runs of 0.1 have none."""
    notes = evidence.notes
    noted = [note for note in evidence.notes.all if note.event["f"] == "membership"]
    if not notes.planned and not noted:
        return
    moments = [value.get("at") for _, value in noted]
    if moments[:1] != ["boot"] or "boot" in moments[1:]:
        yield "the members that the cluster had when it was booted are not noted, or more than once"
    for moment, phase in _BEFORE.items():
        if (notes.began(phase) is not None) > moments.count(moment) or moments.count(moment) > 1:
            yield f"the members are noted {moments.count(moment)} times at the moment {moment}"
    ended = sum(row["type"] != "invoke" for row, _ in _operations(evidence))
    if notes.planned and moments.count("operation") != ended and "nemesis-died" not in notes.kinds:
        yield f"{ended} operations on the topology ended, and the members are noted {moments.count('operation')} times behind one"
    if strange := sorted({str(moment) for moment in moments} - {"boot", "operation", "death", *_BEFORE}):
        yield f"a note of the members is of no moment of a run, but of {listing(strange)}"
    shapes = [text for row, value in noted for text in _find_strange_shape(row, value)]
    yield from shapes
    if not shapes and noted:
        yield from _find_changed_members(evidence, noted)
        yield from _find_shared_host_ids(evidence, noted)
        yield from _find_strange_host_ids(evidence, noted)
        yield from _find_unknown_host_ids(evidence, noted)
        yield from _find_unstable(evidence, noted)


def _find_strange_shape(row: Mapping[str, Any], value: Mapping[str, Any]) -> Iterator[str]:
    members = value.get("members")
    if not isinstance(members, dict) or not members:
        yield f"the note of the members of number {row['index']} names none"
        return
    for node, member in members.items():
        is_whole = isinstance(member, dict) and member.keys() == _FIELDS
        if (
            not is_whole
            or {member["state"], member["expected"]} - MEMBER_STATES
            or not isinstance(member["spare"], bool)
        ):
            yield f"the note of the members of number {row['index']} does not say of {node} what such notes say"


def _find_changed_members(evidence: Evidence, noted: Sequence[Note]) -> Iterator[str]:
    """Yield where two notes differ in what no operation can have changed, and where what is expected does not follow."""
    first = noted[0][1]["members"]
    changing = _changing(evidence)
    concerned = {node for _, value in changing for node in value.get("nodes") or ()}
    # A node that becomes another version keeps its address; 6.0 gives it another host id.
    upgrades = {upgrade.index for upgrade in evidence.notes.upgrades.operations}
    begun = [value for row, value in changing if row["type"] == "invoke" and row["index"] not in upgrades]
    moved = {node for value in begun for node in value.get("nodes") or ()}
    initial = {node: member["expected"] for node, member in first.items()}
    for row, value in noted:
        members = value["members"]
        if members.keys() != first.keys():
            yield f"the notes of the members name different nodes: {listing(sorted(members.keys() ^ first.keys()))} not in each"
            continue
        strange = [
            node
            for node in first
            if _differ(first[node], members[node], concerned=node in concerned, moved=node in moved)
        ]
        if strange:
            yield f"the notes of the members differ on {listing(strange)}, and no operation concerns the difference"
        shown = {node: member["state"] for node, member in members.items()}
        due = expected_states(initial, _changes_by(evidence, row), shown)
        wrong = sorted(node for node, member in members.items() if member["expected"] != due.get(node))
        if wrong:
            yield f"what is expected of {listing(wrong)} in the note of the members of number {row['index']} does not follow from the operations"


def _differ(first: Mapping[str, Any], other: Mapping[str, Any], *, concerned: bool, moved: bool) -> bool:
    """Tell if two notes of a node differ in what is always the same.

    An operation that concerns it may give it another host id, and one that is no upgrade (`moved`) another address.
    """
    if first["spare"] != other["spare"]:
        return True
    ids = {first["host_id"], other["host_id"]} - {None}
    return (not moved and first["address"] != other["address"]) or (not concerned and len(ids) > 1)


def _find_unstable(evidence: Evidence, noted: Sequence[Note]) -> Iterator[str]:
    """Yield where nodes that an operation concerned have two host ids or addresses before the first such one, or after the last of all.

    Those of others never change (`_find_changed_members`).
    """
    begun: dict[str, int] = {}
    last = 0
    for row, value in _changing(evidence):
        last = row["index"]
        for node in value.get("nodes") or ():
            begun.setdefault(node, last)
    told: dict[tuple[str, str], dict[str, set[str]]] = {}
    for row, value in noted:
        for node, member in value["members"].items():
            when = "before" if row["index"] < begun.get(node, 0) else "after"
            if node not in begun or (when == "after" and not (row["index"] > last and value["at"] in _BEFORE)):
                continue
            for name in ("host_id", "address"):
                if member[name] is not None:
                    told.setdefault((when, name), {}).setdefault(node, set()).add(member[name])
    for (when, name), found in told.items():
        unstable = sorted(node for node, different in found.items() if len(different) > 1)
        if unstable:
            words = {"host_id": "host ids", "address": "addresses"}[name]
            yield f"notes of the members give {listing(unstable)} two {words} {when} any operation that may change them"


def _operations(evidence: Evidence) -> Iterator[Note]:
    return (note for note in evidence.notes.all if "becomes" in note.value and "operation" in note.value)


def _changing(evidence: Evidence) -> Sequence[Note]:
    """Return the notes of the operations that may give members other addresses or host ids."""
    return [note for note in _operations(evidence) if not traits_of(note.event["f"]).keeps_members]


def _changes_by(evidence: Evidence, note: Mapping[str, Any]) -> list[TopologyChange]:
    """Return the operations begun before a note, with the outcomes of those that had ended."""
    found: dict[Any, TopologyChange] = {}
    for row, value in _operations(evidence):
        if row["index"] < note["index"]:
            outcome = None if row["type"] == "invoke" else row["type"]
            found[value["operation"]] = TopologyChange(becomes=value["becomes"], outcome=outcome)
    return list(found.values())


def _find_shared_host_ids(evidence: Evidence, noted: Sequence[Note]) -> Iterator[str]:
    """Yield the host ids that notes give two nodes, also one after the other: a server draws its own.

    A node that takes another one's place may take its host id, too: up to 2.2 it does.
    """
    bearers: dict[str, set[str]] = {}
    for _, value in noted:
        for node, member in value["members"].items():
            if member["host_id"] is not None:
                bearers.setdefault(member["host_id"], set()).add(node)
    together = [set(value["becomes"]) for _, value in _operations(evidence)]
    for host_id, nodes in sorted(bearers.items()):
        if len(nodes) > 1 and not any(nodes <= concerned for concerned in together):
            yield f"the notes of the members give {listing(sorted(nodes))} one host id, {host_id}"


def _find_strange_host_ids(evidence: Evidence, noted: Sequence[Note]) -> Iterator[str]:
    """Yield the nodes that say of themselves, in a final reading, another host id than the last note of the members before it."""
    upgrades = evidence.notes.upgrades
    if upgrades.operations and upgrades.finished is None:  # nodes that are half upgraded may be told by two host ids
        return
    for sighting in evidence.sightings("ring"):
        own = sighting.definition.get("self") if isinstance(sighting.definition, dict) else None
        if not isinstance(own, dict):
            continue
        before = [value["members"] for row, value in noted if row["time"] <= sighting.time]
        known = before[-1].get(sighting.node, {}).get("host_id") if before else None
        if known is not None and own.get("host_id") not in {None, known}:
            yield f"{sighting.node} has another host id by the notes of the members than by its own word"


def _find_unknown_host_ids(evidence: Evidence, noted: Sequence[Note]) -> Iterator[str]:
    """Yield the members to which a directory gives, in a final reading, a host id that no note of the members has for their address.

    An operation that did not end well may have given its node one that was not noted.
    """
    if evidence.notes.upgrades.operations:  # the notes have ids of before, directories those of after
        return
    ended_well = {value["operation"] for row, value in _operations(evidence) if row["type"] == "ok"}
    open_ended = {
        node
        for _, value in _operations(evidence)
        if value["operation"] not in ended_well
        for node in value.get("nodes") or ()
    }
    known: dict[str, set[str]] = {}
    for _, value in noted:
        for node, member in value["members"].items():
            if node not in open_ended and member["address"] is not None and member["host_id"] is not None:
                known.setdefault(member["address"], set()).add(member["host_id"])
    strange: dict[str, set[str]] = {}
    for sighting in evidence.sightings("ring"):
        directory = sighting.definition.get("directory") if isinstance(sighting.definition, dict) else None
        for address, entry in directory.items() if isinstance(directory, dict) else ():
            identity = entry.get("host_id") if isinstance(entry, dict) else None
            if identity is not None and address in known and identity not in known[address]:
                strange.setdefault(address, set()).add(sighting.node)
    for address, nodes in sorted(strange.items()):
        yield f"the directories of {listing(sorted(nodes))} give {address} a host id that no note of the members has"


def find_strange_operations(evidence: Evidence) -> Iterator[str]:
    """Yield the operations on the topology whose end is of something else, or does not follow from the attempts."""
    begun: dict[Any, Note] = {}
    for note in _operations(evidence):
        number = note.value["operation"]
        if note.event["type"] == "invoke":
            begun[number] = note
        elif number not in begun:
            yield f"operation {number} ended and never began"
        else:
            asked = begun[number]
            found = chain(
                _find_strange_end(asked, note),
                _find_strange_reload(evidence, asked, note),
                _find_strange_everyday(asked, note),
                _find_strange_upgrade(asked, note),
                _find_strange_length(asked, note),
            )
            strange = next(found, None)
            if strange is not None:
                yield f"operation {number} on the topology ended as none can: {strange}"
    yield from _find_strange_steps(evidence)


def _find_strange_end(asked: Note, ended: Note) -> Iterator[str]:
    names = (asked.value.keys() | ended.value.keys()) - {"effect"}
    changed = sorted(name for name in names if asked.value.get(name) != ended.value.get(name))
    if changed:
        yield f"its {listing(changed)} is not what was asked"
    kind, error = ended.event["type"], ended.event["error"]
    effect = ended.value.get("effect")
    attempts = effect.get("attempts") if isinstance(effect, dict) else None
    if kind == "fail" and error is None:
        yield "it failed without an error"
    if not isinstance(effect, dict) or attempts is None:
        if kind == "ok":
            yield "it was acknowledged, and what was attempted is not noted"
        return
    if not isinstance(attempts, list) or not all(map(_is_attempt, attempts)):
        yield "its attempts do not say what attempts say"
        return
    yield from _find_strange_attempts(asked, ended, attempts)
    outcomes = [attempt["outcome"] for attempt in attempts]
    # One that was to be cancelled, and says at which step, is acknowledged if it was faster than that.
    deciding = outcomes[:1] if "seen" in effect else outcomes[-1:]
    if kind == "ok" and deciding != ["ok"]:
        yield "it was acknowledged, and the attempt that decides was not"
    if kind == "fail" and set(outcomes) == {"info"}:
        yield "it failed, and no attempt did"


def _find_strange_attempts(asked: Note, ended: Note, attempts: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    longest_s = _lasted_s(asked, ended) + _ROUNDING_S
    if any(not 0 <= attempt["seconds"] <= longest_s for attempt in attempts):
        yield "an attempt lasted longer than all of it"
    if any(attempt["timed_out"] and attempt["outcome"] == "ok" for attempt in attempts):
        yield "an attempt was acknowledged, and had not ended within its limit"
    if any(may_start(attempt) and attempt["node"] not in asked.value.get("nodes", ()) for attempt in attempts):
        yield "it started another node than it was asked for"


def _lasted_s(asked: Note, ended: Note) -> float:
    return float(ended.event["time"] - asked.event["time"]) / 1e9


def _find_strange_reload(evidence: Evidence, asked: Note, ended: Note) -> Iterator[str]:
    """Yield where what a reload of a table says of itself does not follow from its attempts, or from the changes that clients recorded."""
    parameters, effect = asked.value.get("parameters"), ended.value.get("effect")
    if not isinstance(parameters, dict) or not parameters.get("reloads"):
        return
    table = SchemaObject("table", str(parameters.get("keyspace")), str(parameters.get("table")))
    within = _changes_during(evidence, table, asked, ended)
    if ended.event["type"] == "ok" and not {"drop-table", "create-table"} <= {change.f for change in within}:
        yield f"it was acknowledged, and no DROP and CREATE of {table.key} was in that time"
    noted = effect if isinstance(effect, dict) else {}
    snapshots, attempts = noted.get("snapshots"), noted.get("attempts")
    made = {f"{change.f} {change.key}": change.node for change in within}
    others = [
        each
        for each in attempts or ()
        if each["outcome"] == "ok" and made.get(each["command"], each["node"]) != each["node"]
    ]
    if others:
        yield f"{listing(each['command'] for each in others)} went through another node than its attempts name"
    if snapshots is None and attempts and parameters.get("dated"):
        yield "it does not say when its snapshots began"
    if snapshots is not None and attempts:  # neither of before they were noted, nor without an attempt
        yield from _find_strange_snapshots(asked, ended, snapshots, attempts)


def _changes_during(evidence: Evidence, table: SchemaObject, asked: Note, ended: Note) -> Sequence[PairedOperation]:
    """List the acknowledged changes of a table that began and ended between two notes."""
    begins, ends = asked.event["time"], ended.event["time"]
    return [
        change
        for change in evidence.changes.on(table)
        if change.acknowledged
        and begins <= change.invoked
        and change.completed is not None
        and change.completed <= ends
    ]


def _find_strange_snapshots(
    asked: Note, ended: Note, snapshots: JSON, attempts: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    """Yield where a reload names other snapshots than its attempts, or a time (s after it began) that these leave no room for."""
    lengths = [attempt["seconds"] for attempt in attempts]
    # Each snapshot was asked for after the attempts before it, and before itself and all that came after.
    possible = {
        attempt["node"]: (
            sum(lengths[:number]) - _ROUNDING_S,
            _lasted_s(asked, ended) - sum(lengths[number:]) + _ROUNDING_S,
        )
        for number, attempt in enumerate(attempts)
        if _SNAPSHOT in attempt["command"].split()
    }
    if not isinstance(snapshots, dict) or snapshots.keys() != possible.keys():
        yield "it names other snapshots than were attempted"
    elif any(
        not isinstance(at, int | float) or not possible[node][0] <= at <= possible[node][1]
        for node, at in snapshots.items()
    ):
        yield "a snapshot was asked for at another time than its attempts leave it"


def _find_strange_upgrade(asked: Note, ended: Note) -> Iterator[str]:
    """Yield where a step of an upgrade is another one at its end, or was acknowledged without a start as what the node is said to be."""
    parameters, effect = asked.value.get("parameters"), ended.value.get("effect")
    if not isinstance(parameters, dict) or parameters.get("stage") not in STAGES or not isinstance(effect, dict):
        return
    attempts = effect.get("attempts") or []
    if attempts and effect.get("stage") != parameters["stage"]:
        yield "it ended as another stage than it began"
    if parameters["stage"] != LAST_STAGE and any([attempt["node"]] != asked.value.get("nodes") for attempt in attempts):
        yield "it was attempted on another node than it was asked for"
    started = [attempt["command"] for attempt in attempts if attempt["outcome"] == "ok"]
    becomes_other = parameters["stage"] != LAST_STAGE and ended.event["type"] == "ok"
    if becomes_other and started and not started[-1].endswith(f"start as {effect.get('system')}"):
        yield f"it was acknowledged, and no attempt started the node as {effect.get('system')}"


def _find_strange_length(asked: Note, ended: Note) -> Iterator[str]:
    """Yield where an operation that says how long it took lasted less than its attempts, or longer than there was time for."""
    effect = ended.value.get("effect")
    seconds = effect.get("seconds") if isinstance(effect, dict) else None
    if not isinstance(effect, dict) or not isinstance(seconds, int | float):
        return
    lengths = [attempt["seconds"] for attempt in effect.get("attempts") or ()]
    # What was begun, and what cancelled it, went on at once.
    least_s = max(lengths, default=0.0) if "seen" in effect else sum(lengths)
    if not least_s - _ROUNDED_S <= seconds <= _lasted_s(asked, ended) + _ROUNDING_S:
        yield "it lasted less than its attempts, or longer than there was time for"


def _find_strange_steps(evidence: Evidence) -> Iterator[str]:
    """Yield the notes of operations without a number, and those of steps that name none, or an operation that was not going on."""
    going_on: set[Any] = set()
    for event, value in evidence.notes.all:
        number = value.get("operation")
        is_step = event["f"] == "operation-step"
        if number is None:
            if is_step or "becomes" in value:
                yield f"number {event['index']} notes an operation, and not which"
        elif "becomes" in value:
            (going_on.add if event["type"] == "invoke" else going_on.discard)(number)
        elif is_step:
            step = value.get("step")
            if number not in going_on:
                yield f"number {event['index']} notes a step of an operation that was not going on"
            elif not isinstance(step, str) or not step:
                yield f"number {event['index']} notes a step, and not which"


def _find_strange_everyday(asked: Note, ended: Note) -> Iterator[str]:
    """Yield where an everyday operation is another one at its end, or its outcome does not follow from its attempts, one after another."""
    parameters, effect = asked.value.get("parameters"), ended.value.get("effect")
    traits = traits_of(ended.event["f"])
    if traits.kind_flags is None or not isinstance(parameters, dict) or not isinstance(effect, dict):
        return
    if effect.get("attempts") is not None:
        yield from _compare_everyday(asked, ended, parameters, effect, traits)


def _compare_everyday(
    asked: Note,
    ended: Note,
    parameters: Mapping[str, Any],
    effect: Mapping[str, Any],
    traits: NemesisTraits,
) -> Iterator[str]:
    attempts = effect["attempts"]
    kind = parameters.get("kind")
    flags = (traits.kind_flags or {}).items()
    wrong = sorted(flag for flag, kinds in flags if (parameters.get(flag) is True) != (kind in kinds))
    if wrong:
        yield f"its {listing(wrong)} is not that of its kind"
    if not attempts:
        if ended.event["type"] != "fail":
            yield "nothing was attempted, and it was not refused"
        return
    if ended.event["type"] == "ok" and len(attempts) < (traits.kind_attempts or {}).get(str(kind), 1):
        yield "it was acknowledged, and fewer commands were carried out than it takes"
    if effect.get("kind", kind) != kind:
        yield "it carried out another kind than was asked for"
    if {attempt["node"] for attempt in attempts} != set(asked.value.get("nodes") or ()):
        yield "it was attempted on another node than it was asked for"
    if str(parameters.get("argument") or "") not in attempts[0]["command"]:
        yield "its first attempt does not name what was asked for"
    worst = max((attempt["outcome"] for attempt in attempts), key=_ORDER.index)
    if ended.event["type"] != (worst if worst != "fail" or len(attempts) == 1 else "info"):
        yield "its outcome is not that of its attempts"
    if sum(attempt["seconds"] for attempt in attempts) > _lasted_s(asked, ended) + _ROUNDING_S:
        yield "its attempts lasted longer than all of it"


def _is_attempt(attempt: Any) -> bool:
    return (
        isinstance(attempt, dict)
        and attempt.keys() == _ATTEMPT.keys()
        and all(isinstance(attempt[name], kind) for name, kind in _ATTEMPT.items())
        and attempt["outcome"] in _OUTCOMES
    )
