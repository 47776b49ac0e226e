"""Objects: created objects are there, dropped ones are gone, and nothing else exists.

Judges every keyspace, table, view, type, function, aggregate and index of each node's final reading against the
possible CREATEs and DROPs. Dropping a keyspace drops what is in it; dropping a table drops its indexes.
Finds: `resurrected-object`, `vanished-object`, `unexplained-object`.

A keyspace needs a CREATE KEYSPACE to exist. `DROP KEYSPACE k` and `CREATE TABLE k.t` may both be acknowledged, and in no
order of the two can k exist afterwards: before the DROP the CREATE is undone by it, after the DROP there is nothing to
create a table in. So k is resurrected, with t in it; that t vanished would be legal.
Source: the 0.7 document, "Handling Failure" (an instant database); the ScyllaDB talk, shadowed keyspaces; CASSANDRA-5631.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.node_schemas import NodeSchema
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.evidence.schema_changes import (
    SchemaChanges,
    SchemaObject,
    can_follow,
    certainly_applied,
    indexed_place,
    target,
)
from schemaquake.checkers.findings.argument import Argument
from schemaquake.checkers.findings.catalogue import anomaly
from schemaquake.checkers.findings.explanation import names, where
from schemaquake.checkers.findings.limits import LIMITS
from schemaquake.checkers.schema.judge import Findings, doubt_free_text, judge
from schemaquake.harness.ddl.schema_changes import RELATIONS
from schemaquake.harness.model.records import Records
from schemaquake.harness.model.verdict import Anomaly, Verdict

__all__ = ["Objects", "find_removals"]

_Places: TypeAlias = Mapping[str, frozenset[str]]
"""Phase → nodes."""


class Objects:
    """Acknowledged CREATEs and DROPs show in what exists."""

    name = "objects"
    scope: Literal["keyspace", "run"] = "keyspace"
    finds: tuple[str, ...] = ("resurrected-object", "vanished-object", "unexplained-object")
    vouches: bool = True
    judges_early: bool = True

    def check(self, records: Records, *, limit_s: float) -> Verdict:
        """Judge the existence of every object. Unknown without final readings."""
        return judge(self.name, records, _find, limit_s=limit_s)


def _find(case: Evidence) -> Findings:
    present = {
        (schema.phase, schema.node): frozenset(SchemaObject(*found) for found in schema.objects())
        for schema in case.readings.schemas
    }
    there = frozenset[SchemaObject]().union(*present.values())
    undead: set[SchemaObject] = set()
    missing: dict[SchemaObject, _Places] = {}
    # Keyspaces first: the finding on a resurrected or vanished one covers its contents.
    for subject in sorted(there.union(case.changes.objects), key=lambda s: (s.kind != "keyspace", s)):
        keyspace = SchemaObject("keyspace", subject.keyspace, "")
        here = _places(case.readings.schemas, present, subject, shown=True)
        gone = _places(case.readings.schemas, present, subject, shown=False)
        resurrected = _resurrected(case, subject, here, covered_by=keyspace if keyspace in undead else None)
        vanished = _vanished(case, subject, _without(gone, missing.get(keyspace, {})), there)
        if resurrected and subject == keyspace:
            undead.add(keyspace)
        if vanished and subject == keyspace:
            missing[keyspace] = gone
        finding = resurrected or vanished or _unexplained(case, subject, here)
        yield doubt_free_text(case, subject.keyspace, finding)


def _places(
    schemas: Iterable[NodeSchema],
    present: Mapping[tuple[str, str], frozenset[SchemaObject]],
    subject: SchemaObject,
    *,
    shown: bool,
) -> _Places:
    places: dict[str, frozenset[str]] = {}
    for schema in schemas:
        if (subject in present[schema.phase, schema.node]) == shown:
            places[schema.phase] = places.get(schema.phase, frozenset()) | {schema.node}
    return places


def _without(places: _Places, excluded: _Places) -> _Places:
    left = {phase: nodes - excluded.get(phase, frozenset()) for phase, nodes in places.items()}
    return {phase: nodes for phase, nodes in left.items() if nodes}


def _sorted(places: _Places) -> Mapping[str, Sequence[str]]:
    return {phase: sorted(nodes) for phase, nodes in places.items()}


# ── dropped, and there ───────────────────────────────────────────────────────────────────────────────────────────────


def _resurrected(
    case: Evidence, subject: SchemaObject, here: _Places, *, covered_by: SchemaObject | None
) -> Anomaly | None:
    if not here:
        return None
    creates = case.changes.creates(subject)
    final_drops = [
        drop
        for drop in _certain_drops(case.changes, subject)
        if not any(can_follow(create, drop) for create in creates)
    ]
    if covered_by is not None:
        final_drops = [drop for drop in final_drops if target(drop) != covered_by]
    if not final_drops:
        return None
    drop = final_drops[-1]
    late = [other for other in _within(case.changes, subject) if other is not drop and can_follow(other, drop)]
    late = late[: LIMITS.suspects]
    evidence: dict[str, Any] = {"exists": _sorted(here)}
    if subject.kind == "keyspace":
        evidence["contents"] = _contents(case.readings.schemas, subject)
    return anomaly(
        "resurrected-object",
        objects=[subject.key],
        nodes=_nodes(here),
        ops=[operation.index for operation in (drop, *late)],
        evidence=evidence,
        explanation=Argument(
            [drop, *late],
            f"T1 was acknowledged and removes {subject.kind} {subject.key}, and no CREATE of it can have come after T1."
            + _no_creators(subject, late),
            f"{where(here, 'has', 'have')} {subject.kind} {subject.key}.",
        ),
    )


def _certain_drops(changes: SchemaChanges, subject: SchemaObject) -> Sequence[PairedOperation]:
    """Return the acknowledged operations after which the object cannot have been there."""
    tables = {create.argument["table"] for create in changes.creates(subject)} if subject.kind == "index" else set()
    return [
        drop
        for drop in changes.drops(subject)
        # An index that may have been on either of two tables does not certainly go with one of them.
        if drop.acknowledged and not (target(drop).kind == "table" and subject.kind == "index" and len(tables) != 1)
    ]


def _within(changes: SchemaChanges, subject: SchemaObject) -> Iterable[PairedOperation]:
    """List the possible changes of the object and, if it is a keyspace, of its contents."""
    for operation in changes.possible:
        concerned = target(operation)
        if concerned == subject or (subject.kind == "keyspace" and concerned.keyspace == subject.keyspace):
            yield operation


def _no_creators(subject: SchemaObject, late: Sequence[PairedOperation]) -> str:
    if not late:
        return ""
    verb = "creates" if len(late) == 1 else "create"
    others = f" {names(len(late), after=1)} may have, but {verb} no {subject.kind} {subject.key}"
    return f"{others}: before T1 it is undone by T1, after T1 it must be refused." if len(late) == 1 else f"{others}."


def _contents(schemas: Iterable[NodeSchema], keyspace: SchemaObject) -> Mapping[str, Any]:
    """Map phase and node to the contents of the keyspace there, as `kind keyspace.name`."""
    contents: dict[str, dict[str, list[str]]] = {}
    for schema in schemas:
        inside = [SchemaObject(*found) for found in schema.objects()]
        texts = sorted(f"{s.kind} {s.key}" for s in inside if s.keyspace == keyspace.keyspace and s != keyspace)
        contents.setdefault(schema.phase, {})[schema.node] = texts
    return contents


# ── created, and not there ───────────────────────────────────────────────────────────────────────────────────────────


def _vanished(case: Evidence, subject: SchemaObject, gone: _Places, objects: frozenset[SchemaObject]) -> Anomaly | None:
    if not gone:
        return None
    removals = find_removals(case.changes, subject)
    creates = [
        create
        for create in case.changes.creates(subject)
        if create.acknowledged
        and not any(can_follow(removal, create) for removal in removals)
        and not _may_find_another(case.changes, subject, create, objects)
    ]
    if not creates:
        return None
    create = creates[-1]
    before = [removal for removal in removals if removal.acknowledged][-3:]
    return anomaly(
        "vanished-object",
        objects=[subject.key],
        nodes=_nodes(gone),
        ops=[operation.index for operation in (create, *before)],
        evidence={"absent": _sorted(gone)},
        explanation=Argument(
            [create, *before],
            f"T1 was acknowledged, and no possible DROP of {subject.kind} {subject.key}"
            + ("" if subject.kind == "keyspace" else " or of its keyspace")
            + " can have come after it"
            + (f": {names(len(before), after=1)} had been completed before." if before else "."),
            f"{where(gone, 'lacks', 'lack')} {subject.kind} {subject.key}.",
        ),
    )


def find_removals(changes: SchemaChanges, subject: SchemaObject) -> Sequence[PairedOperation]:
    """Return possible removals of the object: its drops, and for an index or a view those of its column or base table."""
    removals = list(changes.drops(subject))
    creates = changes.creates(subject)
    if subject.kind == "index":
        grounds = {indexed_place(create) for create in creates}
        for table, column in sorted(grounds):
            alters = changes.on(SchemaObject("table", subject.keyspace, table))
            removals += [
                a for a in alters if a.f in {"drop-column", "rename-column"} and a.argument["column"] == column
            ]
    if subject.kind == "view":
        for base in sorted({create.argument["base"] for create in creates}):
            removals += [o for o in changes.on(SchemaObject("table", subject.keyspace, base)) if o.f == "drop-table"]
    return removals


# ── there, and never created ─────────────────────────────────────────────────────────────────────────────────────────


def _unexplained(case: Evidence, subject: SchemaObject, here: _Places) -> Anomaly | None:
    """Find an object without a CREATE in a keyspace that this history created: elsewhere it may be older than the run."""
    keyspace = SchemaObject("keyspace", subject.keyspace, "")
    births = [create for create in case.changes.creates(keyspace) if certainly_applied(create)]
    if not here or not births or subject == keyspace:
        return None
    if case.changes.creates(subject):
        return None
    failed = list(case.changes.failed(subject))
    return anomaly(
        "unexplained-object",
        objects=[subject.key],
        nodes=_nodes(here),
        ops=[operation.index for operation in (births[0], *failed)],
        evidence={"exists": _sorted(here)},
        explanation=Argument(
            [births[0], *failed],
            f"the keyspace was created by T1, so nothing in it is older than this history, and {_no_request(failed)}.",
            f"{where(here, 'has', 'have')} {subject.kind} {subject.key}.",
        ),
    )


def _may_find_another(
    changes: SchemaChanges, subject: SchemaObject, create: PairedOperation, objects: frozenset[SchemaObject]
) -> bool:
    """Tell if IF NOT EXISTS may have found something in the object's place, which is one of `objects` or may have been removed later."""
    return any(
        can_follow(create, other)
        and (target(other) in objects or any(can_follow(one, other) for one in find_removals(changes, target(other))))
        for other in ([] if certainly_applied(create) else _list_others_in_place(changes, subject, create))
    )


def _list_others_in_place(
    changes: SchemaChanges, subject: SchemaObject, create: PairedOperation
) -> Sequence[PairedOperation]:
    """List the possible CREATEs of other objects that this one cannot be beside: a table or view of its name, an index on its column."""
    if subject.kind == "index":
        place = (subject.keyspace, *indexed_place(create))
        indexes = [other for other in changes.possible if other.f == create.f and target(other) != subject]
        return [other for other in indexes if (target(other).keyspace, *indexed_place(other)) == place]
    kinds = RELATIONS - {subject.kind} if subject.kind in RELATIONS else ()
    return [other for kind in kinds for other in changes.creates(subject._replace(kind=kind))]


def _no_request(failed: Sequence[PairedOperation]) -> str:
    if not failed:
        return "no operation asked for this object"
    return f"{names(len(failed), after=1)} failed: nothing else asked for this object"


def _nodes(places: _Places) -> Iterable[str]:
    return (node for nodes in places.values() for node in nodes)
