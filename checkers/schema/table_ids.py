"""Table ids: all nodes know each table under one id, which never changes and is no other table's.

Judges each node's final schema readings, and for changes every reading of the run.
Finds: `conflicting-table-ids` (nodes differ in the end), `changing-table-id` (more ids were seen than the possible
DROPs account for), `shared-table-id` (two names, one id).
Ids that one server counts up, and that are not in the order in which their tables were created, are doubts.
Source: CEP-21, "Racing CREATE TABLE statements"; the Cassandra 1.1 document, ID collisions; CASSANDRA-10699, -3794.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, Literal

from schemaquake.checkers.ddl_order.reach import Reaches
from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.node_schemas import PHASES
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.evidence.schema_changes import SchemaObject, can_follow, certainly_applied
from schemaquake.checkers.findings.argument import Argument
from schemaquake.checkers.findings.catalogue import anomaly
from schemaquake.checkers.findings.explanation import listing, names, phase_text, seconds, where
from schemaquake.checkers.schema.judge import Findings, doubt_free_text, judge
from schemaquake.harness.model.records import Records
from schemaquake.harness.model.verdict import Anomaly, Doubt, Verdict

__all__ = ["TableIds"]

_HEX_DIGITS: Final = 32
_COUNTED_BY_EPOCHS: Final = "1b255f4def2540a6"


class TableIds:
    """One table, one id: on every node, until it is dropped."""

    name = "table-ids"
    scope: Literal["keyspace", "run"] = "keyspace"
    finds: tuple[str, ...] = ("conflicting-table-ids", "changing-table-id", "shared-table-id")
    vouches: bool = True
    judges_early: bool = True
    conflicts: tuple[str, ...] = ("conflicting-table-ids", "shared-table-id")

    def check(self, records: Records, *, limit_s: float) -> Verdict:
        """Judge ids of tables and views. Unknown without final readings."""
        return judge(self.name, records, _find, limit_s=limit_s)


@dataclass(frozen=True, slots=True)
class _Seen:
    """Times (ns) of the first and last sighting of an id under a name, and the nodes that showed it."""

    first: int
    last: int
    nodes: tuple[str, ...]


def _find(case: Evidence) -> Findings:
    final = _final_ids(case)
    seen = _seen_ids(case)
    for subject in sorted(final.keys() | seen.keys()):
        conflict = _conflict(case, subject, final.get(subject, {}), seen.get(subject, {}))
        change = None if conflict else _change(case, subject, seen.get(subject, {}))
        yield conflict or doubt_free_text(case, subject.keyspace, change)
    yield from _shared(case, final)
    yield from _disordered(case, final, seen)


def _final_ids(case: Evidence) -> Mapping[SchemaObject, Mapping[str, Mapping[str, str]]]:
    """Map each table or view to phase → node → id."""
    ids: dict[SchemaObject, dict[str, dict[str, str]]] = {}
    for schema in case.readings.schemas:
        for kind, tables in (("table", schema.tables), ("view", schema.views)):
            for (keyspace, name), table in tables.items():
                if table.id is not None:
                    subject = SchemaObject(kind, keyspace, name)
                    ids.setdefault(subject, {}).setdefault(schema.phase, {})[schema.node] = table.id
    return ids


def _seen_ids(case: Evidence) -> Mapping[SchemaObject, Mapping[str, _Seen]]:
    """Map each table or view to every id it was seen under, in order of first sight; not by nodes whose copy of it is stale."""
    stale = {(found.node, found.kind, found.keyspace, found.name) for found in case.stale}
    seen: dict[SchemaObject, dict[str, _Seen]] = {}
    for kind in ("table", "view"):
        for sighting in case.sightings(kind):
            if sighting.id is None or sighting.definition is None:
                continue
            if (sighting.node, kind, sighting.keyspace, sighting.name) in stale:
                continue
            ids = seen.setdefault(SchemaObject(kind, sighting.keyspace, sighting.name), {})
            before = ids.get(sighting.id, _Seen(sighting.time, sighting.time, ()))
            ids[sighting.id] = _Seen(before.first, sighting.time, tuple(sorted({*before.nodes, sighting.node})))
    return seen


def _conflict(
    case: Evidence, subject: SchemaObject, final: Mapping[str, Mapping[str, str]], seen: Mapping[str, _Seen]
) -> Anomaly | Doubt | None:
    readings = {phase: nodes for phase, nodes in final.items() if len(set(nodes.values())) > 1}
    if not readings:
        return None
    moving = {
        phase: case.derive(Reaches).touching(subject, *case.interval(phase, nodes)) for phase, nodes in readings.items()
    }
    if all(
        {"create-", "drop-"} <= {change.f[: change.f.index("-") + 1] for change in found} for found in moving.values()
    ):
        changes = [change for of_phase in moving.values() for change in of_phase]
        text = f"nodes know it under different ids, and op {changes[0].index}, of unknown outcome, may have taken effect meanwhile"
        return Doubt("undecided", text, (subject.key,))
    creates = case.changes.creates(subject)
    return anomaly(
        "conflicting-table-ids",
        objects=[subject.key],
        nodes=[node for nodes in readings.values() for node in nodes],
        ops=[operation.index for operation in creates],
        evidence={"ids": readings, "seen": _timeline(seen)},
        explanation=Argument(
            creates,
            f"{_acknowledged(creates)}a table has one id on every node, for its rows travel under it.",
            "; ".join(
                f"{where({phase: nodes}, 'knows', 'know')} {subject.key} as {_by_id(nodes)}"
                for phase, nodes in readings.items()
            )
            + ".",
        ),
    )


def _change(case: Evidence, subject: SchemaObject, seen: Mapping[str, _Seen]) -> Anomaly | None:
    if len(seen) < 2:
        return None
    # Every life of a table has one id, and only a DROP that a CREATE can follow ends one life and allows the next.
    # Which DROP explains which change need not be known: there must be enough of them.
    creates = case.changes.creates(subject)
    ends = [drop for drop in case.changes.drops(subject) if any(can_follow(create, drop) for create in creates)]
    if len(seen) <= 1 + len(ends):
        return None
    drops = (
        f"only {names(len(ends), after=len(creates))} can have ended a life of it"
        if ends
        else "no operation can have dropped it"
    )
    return anomaly(
        "changing-table-id",
        objects=[subject.key],
        nodes=[node for sight in seen.values() for node in sight.nodes],
        ops=[operation.index for operation in (*creates, *ends)],
        evidence={"ids": _timeline(seen)},
        explanation=Argument(
            [*creates, *ends],
            f"{_acknowledged(creates)}{drops}, so {subject.key} can have had {_times(1 + len(ends))} at most.",
            "it was seen as "
            + listing(
                f"{table_id} ({listing(sight.nodes)}, {seconds(sight.first)} to {seconds(sight.last)})"
                for table_id, sight in seen.items()
            )
            + ".",
        ),
    )


def _disordered(
    case: Evidence,
    final: Mapping[SchemaObject, Mapping[str, Mapping[str, str]]],
    seen: Mapping[SchemaObject, Mapping[str, _Seen]],
) -> Iterator[Doubt]:
    """Yield a doubt for each table of which the id has a higher number than that of a later one from the same counter."""
    counted: dict[str, list[tuple[int, PairedOperation]]] = {}
    for subject in sorted(final.keys() | seen.keys()):
        shown = {table_id for nodes in final.get(subject, {}).values() for table_id in nodes.values()}
        for (counter, number), create in _lives(case, subject, shown, shown | set(seen.get(subject, ()))):
            counted.setdefault(counter, []).append((number, create))
    for counter in sorted(counted):
        in_order = sorted(counted[counter], key=lambda one: one[0])
        latest = in_order[0][1]
        for _, create in in_order[1:]:
            if create.entirely_before(latest):
                text = f"{latest.key} was created after {create.key}, and has an id from before it"
                yield Doubt("undecided", text, tuple(sorted({str(latest.key), str(create.key)})))
            latest = max(latest, create, key=lambda one: one.invoked)


def _lives(
    case: Evidence, subject: SchemaObject, shown: AbstractSet[str], seen: AbstractSet[str]
) -> Iterable[tuple[tuple[str, int], PairedOperation]]:
    """Return the places of a table's ids in their counter, each with the CREATE that made that life.

    `shown` are the ids of final readings and `seen` all. If there are as many as CREATEs, which followed one another, each has one; else the
    final id is of the last CREATE.
    """
    creates = case.changes.creates(subject)
    places = [place for one in seen if (place := _place(one)) is not None]
    is_whole = len(places) == len(seen) == len(creates) and len({counter for counter, _ in places}) == 1
    is_certain = all(map(certainly_applied, creates)) and not case.changes.texts(subject.keyspace)
    if is_whole and is_certain and all(one.entirely_before(other) for one, other in pairwise(creates)):
        return zip(sorted(places), creates, strict=True)
    create = _last_create(case, subject)
    place = _place(next(iter(shown))) if len(shown) == 1 else None
    return [(place, create)] if place is not None and create is not None else []


def _last_create(case: Evidence, subject: SchemaObject) -> PairedOperation | None:
    """Return the CREATE that certainly made the last life of a table; None: it is not known which did."""
    creates = case.changes.creates(subject)
    last = creates[-1] if creates else None
    if last is None or not certainly_applied(last) or case.changes.texts(subject.keyspace):
        return None
    return last if all(other.entirely_before(last) for other in creates[:-1]) else None


def _place(table_id: str) -> tuple[str, int] | None:
    """Return the counter that an id is from, and its number there; None: it was not counted.

    Time uuids (RFC 4122, version 1) of one start of a server end alike, and their times only grow, whatever its clock does. Since 6.0
    an id ends with the epoch at which the table was created (`TableId.java`).
    """
    if len(table_id) != _HEX_DIGITS:
        return None
    if table_id.startswith(_COUNTED_BY_EPOCHS):
        return _COUNTED_BY_EPOCHS, int(table_id[16:], 16)
    if table_id[12] == "1" and table_id[16] in "89ab":
        return table_id[16:], int(table_id[13:16] + table_id[8:12] + table_id[:8], 16)
    return None


def _shared(case: Evidence, final: Mapping[SchemaObject, Mapping[str, Mapping[str, str]]]) -> Iterator[Anomaly]:
    owners: dict[tuple[str, ...], dict[str, Any]] = {}
    for phase in PHASES:
        subjects: dict[str, dict[SchemaObject, list[str]]] = {}
        for subject, phases in final.items():
            for node, table_id in phases.get(phase, {}).items():
                subjects.setdefault(table_id, {}).setdefault(subject, []).append(node)
        for table_id, holders in subjects.items():
            if len(holders) > 1:
                nodes_of = {subject.key: sorted(nodes) for subject, nodes in sorted(holders.items())}
                owners.setdefault(tuple(nodes_of), {})[phase] = {"id": table_id, "nodes": nodes_of}
    for keys, phases in sorted(owners.items()):
        yield _shared_anomaly(case, keys, phases, [s for s in sorted(final) if s.key in keys])


def _shared_anomaly(
    case: Evidence, keys: Sequence[str], phases: Mapping[str, Any], subjects: Sequence[SchemaObject]
) -> Anomaly:
    creates = [operation for subject in subjects for operation in case.changes.creates(subject)]
    moments: dict[str, list[str]] = {}
    for phase, found in phases.items():
        holders = listing(f"of {key} on {listing(nodes)}" for key, nodes in found["nodes"].items())
        moments.setdefault(f"{found['id']} is the id {holders}", []).append(phase_text(phase))
    return anomaly(
        "shared-table-id",
        objects=keys,
        nodes=[node for found in phases.values() for nodes in found["nodes"].values() for node in nodes],
        ops=[operation.index for operation in creates],
        evidence=phases,
        explanation=Argument(
            creates,
            f"{listing(keys)} are {len(keys)} tables, and rows are stored by table id.",
            "; ".join(f"{listing(when)} {holders}" for holders, when in moments.items()) + ".",
        ),
    )


def _acknowledged(creates: Sequence[PairedOperation]) -> str:
    acknowledged = sum(create.acknowledged for create in creates)
    return f"{acknowledged} CREATEs of it were acknowledged, and " if acknowledged > 1 else ""


def _times(count: int) -> str:
    return "one id" if count == 1 else f"{count} ids"


def _by_id(nodes: Mapping[str, str]) -> str:
    holders: dict[str, list[str]] = {}
    for node, table_id in sorted(nodes.items()):
        holders.setdefault(table_id, []).append(node)
    return listing(f"{table_id} ({listing(held)})" for table_id, held in holders.items())


def _timeline(seen: Mapping[str, _Seen]) -> Mapping[str, Any]:
    return {
        table_id: {"first_ns": sight.first, "last_ns": sight.last, "nodes": list(sight.nodes)}
        for table_id, sight in seen.items()
    }
