"""Group state: what nodes of one group show of its log and of its state, held against itself and against what was asked.

Entries of the log are what operations asked for, in an order that real time allows, under ids that bear their times; the log, read
last, has the change that its node names as its newest. After a read barrier the versions of the topology never go back, and two nodes that show one
version of it show one state; the members that vote are members. Everything here is a doubt: a whole log that is wrong on all
nodes alike, and a reading without a part, are no damage that anybody saw.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.node_schemas import PHASES
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.findings.explanation import listing, phase_text
from schemaquake.checkers.schema.node_logs import NodeLog, spaced
from schemaquake.harness.ddl.cql import statement
from schemaquake.harness.ddl.schema_changes import SCHEMA_CHANGES
from schemaquake.harness.model.verdict import Doubt

__all__ = ["find_strange_groups", "find_strange_logs"]

_MOVED: Final = 10_000_000_000
"""The time after an operation on the ring in which it may still go on."""
_FEW: Final = 2
"""The number of members of which one alone may vote: of more, two or three do in every release."""
_OF_NODE: Final = frozenset({"id", "upgrade_state", "schema_version"})
_OF_GROUP: Final = _OF_NODE | {"members", "voters"}
_OF_RING: Final = frozenset({"topology", "nodes"})


# ── the log ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def find_strange_logs(logs: Sequence[NodeLog], case: Evidence) -> Iterator[Doubt]:
    """Yield what is strange about each log; the same of several nodes once."""
    asked = _list_asked(case)
    told: dict[str, list[str]] = {}
    for log in logs:
        for text in (
            *_find_odd_ids(log),
            *_find_newer_state(log),
            *_find_unasked(log, asked),
            *_find_inversions(log, asked),
        ):
            told.setdefault(text, []).append(f"{log.node} {phase_text(log.phase)}")
    for text, places in told.items():
        yield Doubt("undecided", f"the log of {listing(places)} {text}")


def _list_asked(case: Evidence) -> Mapping[str, Sequence[PairedOperation]]:
    """Return the operations that may have made entries, by their statement; none of keyspaces that free text may have changed."""
    found: dict[str, list[PairedOperation]] = {}
    for operation in case.changes.all:
        is_spelled = operation.f in SCHEMA_CHANGES and operation.f != "alter-keyspace"
        if is_spelled and not case.changes.texts(operation.argument["keyspace"]):
            found.setdefault(spaced(statement(operation.f, operation.argument)), []).append(operation)
    return found


def _find_odd_ids(log: NodeLog) -> Iterator[str]:
    """Yield an entry whose id is not a time UUID of its epoch, where others are."""
    times = [_time_of(change.id) for change in log.changes]
    if any(time is not None for time in times):
        odd = [change for change, time in zip(log.changes, times, strict=True) if time != change.epoch]
        if odd:
            yield f"has {len(odd)} entries under ids that are not of their time, the first {odd[0].id} of epoch {odd[0].epoch}"


def _time_of(text: str) -> int | None:
    try:
        found = UUID(text)
    except ValueError:
        return None
    return found.time if found.version == 1 else None


def _find_newer_state(log: NodeLog) -> Iterator[str]:
    newest = max((change.epoch for change in log.changes), default=None)
    if log.epoch is not None and (newest is None or newest < log.epoch):
        yield f"ends with epoch {newest}, and the node had shown {log.epoch} before"


def _find_unasked(log: NodeLog, asked: Mapping[str, Sequence[PairedOperation]]) -> Iterator[str]:
    """Yield a statement about the run's keyspaces of which the log has more entries than operations can have made."""
    entries = log.statements
    if not entries.keys() & asked.keys():
        return
    keyspaces = {operation.argument["keyspace"] for operations in asked.values() for operation in operations}
    for text, count in sorted(entries.items()):
        possible = [operation for operation in asked.get(text, ()) if operation.possible]
        names = set(text.replace(".", " ").replace(";", " ").replace("(", " ").split())
        if count > len(possible) and names & keyspaces and not text.upper().startswith("ALTER KEYSPACE"):
            yield f"has {count} entries of a statement that {len(possible)} operations may have made: {text[:120]}"
            return


def _find_inversions(log: NodeLog, asked: Mapping[str, Sequence[PairedOperation]]) -> Iterator[str]:
    """Yield a change that stands behind one that was only begun when it had been acknowledged."""
    entries = log.statements
    places = [(text, asked[text][0]) for text in log.texts if entries[text] == 1 and len(asked.get(text, ())) == 1]
    latest: PairedOperation | None = None
    for _, operation in places:
        if latest is not None and operation.acknowledged and (operation.completed or 0) < latest.invoked:
            yield f"has op {operation.index} after op {latest.index}, which began only when the first had been acknowledged"
            return
        if latest is None or operation.invoked > latest.invoked:
            latest = operation


# ── the state of the group ───────────────────────────────────────────────────────────────────────────────────────────


def find_strange_groups(logs: Sequence[NodeLog], case: Evidence) -> Iterator[Doubt]:
    """Yield what is missing in, or contradicts itself in, the state that nodes show of their group."""
    read = [log for log in logs if "error" not in log.group]
    if not case.notes.upgrades.operations:  # releases tell more and less
        yield from _find_missing_parts(read)
    caught_up = [log for log in read if log.caught_up]
    yield from _find_odd_voters(caught_up)
    yield from _find_other_groups(read)
    yield from _find_older_topology(sorted(caught_up, key=lambda log: log.began))
    for phase in PHASES:
        of_phase = [log for log in caught_up if log.phase == phase]
        times = [log.began for log in of_phase]
        if len(of_phase) > 1 and not case.notes.membership.is_changing(min(times), max(times), spread_ns=_MOVED):
            yield from _find_differences(phase, of_phase)
            yield from _find_unasked_transitions(phase, of_phase)


def _parts(group: Mapping[str, Any]) -> frozenset[str]:
    topology = group.get("topology")
    inner = topology if isinstance(topology, Mapping) else {}
    return frozenset({*group, *(f"topology.{name}" for name in inner)})


def _written_parts(group: Mapping[str, Any]) -> frozenset[str]:
    """Return the parts that every reading of such a group has, whatever its release: the reader writes them together."""
    of_group = _OF_GROUP if group.get("id") is not None else _OF_NODE
    return of_group | (_OF_RING if group.keys() & _OF_RING else frozenset())


def _find_missing_parts(logs: Sequence[NodeLog]) -> Iterator[Doubt]:
    """Yield what a node does not tell of its group, and others do, or it does in another reading."""
    known = frozenset[str]().union(*(_parts(log.group) for log in logs))
    for log in logs:
        if missing := sorted((known | _written_parts(log.group)) - _parts(log.group)):
            yield Doubt(
                "unread", f"{phase_text(log.phase)} {log.node} tells nothing of {listing(missing)} of its group"
            )


def _find_odd_voters(logs: Sequence[NodeLog]) -> Iterator[Doubt]:
    for log in logs:
        members, voters = log.group.get("members"), log.group.get("voters")
        if members is None or voters is None:
            continue
        if len(voters) == 1 and len(set(members)) > _FEW:
            text = f"{phase_text(log.phase)} {log.node} knows one member that votes, of {len(members)}"
            yield Doubt("undecided", text)
        if not voters or len(set(voters)) < len(voters) or not set(voters) <= set(members):
            text = f"{phase_text(log.phase)} the members that vote are not members of the group of {log.node}, or none, or twice"
            yield Doubt("undecided", text)


def _find_other_groups(logs: Sequence[NodeLog]) -> Iterator[Doubt]:
    """Yield a node that was of another group before the restart: only an operator gives it another one, and none does then."""
    before: dict[str, NodeLog] = {}
    for log in sorted(logs, key=lambda log: log.began):
        first = before.setdefault(log.node, log)
        if first.group.get("id") != log.group.get("id"):
            text = f"{phase_text(log.phase)} {log.node} is of group {log.group.get('id')}, and was of {first.group.get('id')}"
            yield Doubt("undecided", text)


def _find_unasked_transitions(phase: str, logs: Sequence[NodeLog]) -> Iterator[Doubt]:
    """Yield a change of the ring that nodes are in the middle of, while no operation goes on; tablets may move at any time."""
    for log in logs:
        transition = (log.group.get("topology") or {}).get("transition_state")
        if transition is not None and "tablet" not in str(transition):
            text = (
                f"{phase_text(phase)} {log.node} is in the middle of {transition}, and no operation on the ring goes on"
            )
            yield Doubt("undecided", text)
            return


def _find_older_topology(logs: Sequence[NodeLog]) -> Iterator[Doubt]:
    """Yield a version of the topology that is older than one that a node showed before; the logs are in order of time."""
    newest: dict[str, tuple[int, NodeLog]] = {}
    for log in logs:
        topology = log.group.get("topology") or {}
        version, fence = topology.get("version"), topology.get("fence_version")
        if isinstance(version, int) and isinstance(fence, int) and fence > version:
            yield Doubt(
                "undecided",
                f"{phase_text(log.phase)} {log.node} shows a fence {fence} above the topology's version {version}",
            )
        for name, value in (("version", version), ("fence_version", fence)):
            if not isinstance(value, int):
                continue
            before, other = newest.get(name, (value, log))
            if value < before:
                text = f"{log.node} shows {name} {value} of the topology, and {other.node} had shown {before} before"
                yield Doubt("undecided", text)
            newest[name] = max((value, log), (before, other), key=lambda one: one[0])


def _find_differences(phase: str, logs: Sequence[NodeLog]) -> Iterator[Doubt]:
    """Yield in what nodes differ that show the same members, the same version of the topology, or the same newest change."""
    subjects: Mapping[str, Any] = {
        "members that vote": lambda log: (sorted(log.group.get("members") or ()), sorted(log.group.get("voters") or ())),
        "states of the topology": lambda log: (_version(log.group), (log.group.get("topology") or {}).get("transition_state")),
        "versions of the schema": lambda log: (log.epoch, log.group.get("schema_version")),
    }  # fmt: skip
    for subject, of_log in subjects.items():
        found: dict[str, Counter[str]] = {}
        for log in logs:
            key, value = of_log(log)
            found.setdefault(str(key), Counter())[str(value)] += 1
        if any(len(values) > 1 for values in found.values()):
            yield Doubt(
                "undecided", f"{phase_text(phase)} {listing(log.node for log in logs)} show different {subject}"
            )
    versions = {_version(log.group) for log in logs}
    transitions = {(log.group.get("topology") or {}).get("transition_state") for log in logs}
    if len(versions) > 1 and transitions == {None}:
        text = f"{phase_text(phase)} {listing(log.node for log in logs)} show different versions of a topology that does not change"
        yield Doubt("undecided", text)


def _version(group: Mapping[str, Any]) -> tuple[Any, Any]:
    topology = group.get("topology") or {}
    return topology.get("version"), topology.get("fence_version")
