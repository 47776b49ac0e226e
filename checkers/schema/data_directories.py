"""Data directories: each table's rows lie in one directory of each node, and only a DROP leaves a snapshot `dropped-…`.

Judges what the nodes keep on disk (observations of kind `data-directory`: since 2.1 `<table>-<id>`, live if it holds rows
of its own) against the node's final schema and the possible DROPs. Each DROP may leave a directory behind, so a table
may have one live directory more than it was dropped; a snapshot `dropped-…` needs a possible DROP. A directory of a table that
no operation can have created is a doubt, and so are rows of a table that was dropped: a server deletes them at once, unless it is
killed meanwhile, and keeps nothing but snapshots.
Finds: `divided-data-directory`, `unexplained-snapshot`. Source: CASSANDRA-5202 and CASSANDRA-10699; in 4.0 to 5.0 the
loser of two racing CREATE TABLE drops its own table, with the rows in it. Up to 2.0 directories bear no id, and there is
nothing to judge.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.node_schemas import PHASES, FinalReadings, NodeSchema
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.evidence.schema_changes import SchemaChanges, SchemaObject, target
from schemaquake.checkers.findings.argument import Argument
from schemaquake.checkers.findings.catalogue import anomaly
from schemaquake.checkers.findings.explanation import listing, names, phase_text, where
from schemaquake.checkers.findings.tally import Tally
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.records import Records
from schemaquake.harness.model.verdict import Anomaly, Doubt, Verdict
from schemaquake.harness.units import S

__all__ = ["DataDirectories"]

# `dropped-<ms>-<table>`, and from 6.0 on `<ms>-dropped-<table>`.
_DROPPED: Final = re.compile(r"(?:\d+-)?dropped-")

_DELETED_WITHIN_NS: Final = 5 * S
"""How long after a DROP was acknowledged files may be left; a server deletes them within milliseconds, once nobody reads them."""

_BEHIND_NS: Final = 5 * S
"""How long after it was started or healed a node may be behind a DROP, and write rows of the table after it was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Directory:
    """One directory of one table on one node; `id` is the end of its name."""

    phase: str
    node: str
    id: str | None
    live: bool
    snapshots: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Table:
    """A table with its directories, and the operations that may have created and dropped it."""

    keyspace: str
    name: str
    directories: Sequence[_Directory]
    creates: Sequence[PairedOperation]
    drops: Sequence[PairedOperation]
    refused: Sequence[PairedOperation]
    """The last DROPs that certainly did nothing."""

    @property
    def key(self) -> str:
        return f"{self.keyspace}.{self.name}"


class DataDirectories:
    """Every table's rows lie in one directory of each node, under the id by which the node knows the table."""

    name = "data-directories"
    scope: Literal["keyspace", "run"] = "run"  # a keyspace without any directory may be one that was not looked at
    finds: tuple[str, ...] = ("divided-data-directory", "unexplained-snapshot")
    vouches: bool = True

    def check(self, records: Records, *, limit_s: float) -> Verdict:
        """Judge every table that the history creates. Unknown if no disk was looked at. Raises HistoryError."""
        ends = time.monotonic() + limit_s
        case = Evidence.of(records)
        found = _directories(case)
        if not found:
            return Verdict.unknown(self.name, Doubt("nothing-to-judge", "no data directory of any table was observed"))
        if all(directory.id is None for directories in found.values() for directory in directories):
            return Verdict.unknown(
                self.name, Doubt("nothing-to-judge", "no data directory bears an id, so a table can only have one")
            )
        tally = Tally(self.name)
        tally.doubt(*_unobserved(case.readings, found), *_missing(case, found), *_unasked(case, found))
        tally.doubt(*_returned(case.readings, found), *_uncounted(case, found), *_undeleted(case, found))
        for (keyspace, name), directories in found.items():
            if time.monotonic() > ends:
                tally.doubt(Doubt("time", f"the time limit of {limit_s:g} s passed after {tally.judged} tables"))
                break
            table = _table(keyspace, name, directories, case.changes)
            if table is not None:
                tally.judge(_divided(table, case.readings), _dropped(table))
        if not tally.judged and not tally.doubts:
            tally.doubt(Doubt("nothing-to-judge", "the history creates none of the tables on disk"))
        return tally.verdict(tables=tally.judged, directories=sum(map(len, found.values())))


def _directories(case: Evidence) -> Mapping[tuple[str, str], Sequence[_Directory]]:
    found: dict[tuple[str, str], list[_Directory]] = {}
    for sighting in case.sightings("data-directory"):
        if sighting.phase in PHASES and sighting.definition is not None:
            directory = _Directory(
                phase=sighting.phase,
                node=sighting.node,
                id=sighting.id,
                live=bool(sighting.definition.get("live")),
                snapshots=tuple(sighting.definition.get("snapshots") or ()),
            )
            found.setdefault((sighting.keyspace, sighting.name), []).append(directory)
    return dict(sorted(found.items()))


def _unobserved(readings: FinalReadings, found: Mapping[tuple[str, str], Sequence[_Directory]]) -> Iterator[Doubt]:
    """Yield a doubt for each node with tables whose disk was not read: a table has its directory from the first moment."""
    read = {(directory.phase, directory.node) for directories in found.values() for directory in directories}
    for schema in readings.schemas:
        if schema.tables and (schema.phase, schema.node) not in read:
            yield Doubt("unread", f"{phase_text(schema.phase)} the disk of {schema.node} was not read")


def _missing(case: Evidence, found: Mapping[tuple[str, str], Sequence[_Directory]]) -> Iterator[Doubt]:
    """Yield a doubt for each table that nodes have and whose directory was not seen on them, although their disks were read."""
    seen = {(d.phase, d.node, *key, d.id) for key, directories in found.items() for d in directories}
    read = {(phase, node) for phase, node, *_ in seen}
    missing: dict[tuple[str, str], dict[str, set[str]]] = {}
    for schema in case.readings.schemas:
        for kind, relations in (("table", schema.tables), ("view", schema.views)):
            for key, relation in relations.items():
                place = (schema.phase, schema.node, *key, relation.id)
                is_own = relation.id is not None and (kind, *key) not in schema.derived
                if (
                    is_own
                    and _has_opened(schema, (kind, *key))
                    and (schema.phase, schema.node) in read
                    and place not in seen
                ):
                    missing.setdefault(key, {}).setdefault(schema.phase, set()).add(schema.node)
    for (keyspace, name), places in sorted(missing.items()):
        text = f"{where(places, 'has', 'have')} the table, and no data directory of it was seen"
        yield Doubt("unread", text, (f"{keyspace}.{name}",))


def _has_opened(schema: NodeSchema, subject: tuple[str, str, str]) -> bool:
    """Tell if the node may have opened the relation: one that its memory certainly lacks never got a directory.

    A server that cannot build a table from its rows (CASSANDRA-18291) has them on disk alone, which `divergence` reports.
    """
    is_refused = subject in schema.refusals
    shows_all = schema.described or (schema.shows_memory == "statements" and schema.live and not schema.memory_error)
    is_lacking = shows_all and subject not in schema.live and subject not in schema.unanswered
    return not (is_refused or is_lacking)


def _unasked(case: Evidence, found: Mapping[tuple[str, str], Sequence[_Directory]]) -> Iterator[Doubt]:
    """Yield a doubt for each directory, in a keyspace that the history created, of a table that no operation can have created."""
    derived = {(keyspace, name) for schema in case.readings.schemas for _, keyspace, name in schema.derived}
    for (keyspace, name), directories in found.items():
        subjects = [SchemaObject(kind, keyspace, name) for kind in ("table", "view")]
        asked = any(case.changes.creates(subject) for subject in subjects) or (keyspace, name) in derived
        if _is_born(case.changes, keyspace) and not asked:
            places: dict[str, set[str]] = {}
            for directory in directories:
                places.setdefault(directory.phase, set()).add(directory.node)
            text = f"{where(places, 'has', 'have')} a data directory of the table, and no operation can have created it"
            yield Doubt("undecided", text, (f"{keyspace}.{name}",))


def _is_born(changes: SchemaChanges, keyspace: str) -> bool:
    """Tell if the history has every change of a keyspace, from its creation on."""
    creates = changes.creates(SchemaObject("keyspace", keyspace, ""))
    return any(create.acknowledged for create in creates) and not changes.texts(keyspace)


def _uncounted(case: Evidence, found: Mapping[tuple[str, str], Sequence[_Directory]]) -> Iterator[Doubt]:
    """Yield a doubt for each table, in a keyspace that the history created, with directories under more ids than it had CREATEs.

    Refused CREATEs count: the loser of a race may have made its directory before.
    """
    for (keyspace, name), directories in found.items():
        ids = {directory.id for directory in directories if directory.id is not None}
        subjects = [SchemaObject(kind, keyspace, name) for kind in ("table", "view")]
        possible = [create for subject in subjects for create in case.changes.creates(subject)]
        asked = len(possible) + sum(1 for subject in subjects for _ in case.changes.failed(subject))
        if possible and len(ids) > asked and _is_born(case.changes, keyspace):
            text = f"it has data directories under {len(ids)} ids, and {asked} CREATEs of it were asked for"
            yield Doubt("undecided", text, (f"{keyspace}.{name}",))


def _returned(readings: FinalReadings, found: Mapping[tuple[str, str], Sequence[_Directory]]) -> Iterator[Doubt]:
    """Yield a doubt for each table that nodes keep, after the restart, in a directory of a former life that they had not before."""
    read = {
        directory.node for directories in found.values() for directory in directories if directory.phase == PHASES[0]
    }
    known = {
        (schema.node, *key, relation.id)
        for schema in readings.schemas
        for relations in (schema.tables, schema.views)
        for key, relation in relations.items()
    }
    shown = {schema.node for schema in readings.schemas if schema.phase == PHASES[1]}
    for (keyspace, name), directories in found.items():
        before = {(directory.node, directory.id) for directory in directories if directory.phase == PHASES[0]}
        after = {(directory.node, directory.id) for directory in directories if directory.phase == PHASES[1]}
        returned = sorted(
            node
            for node, identity in after - before
            if node in read & shown and identity is not None and (node, keyspace, name, identity) not in known
        )
        if returned:
            text = f"{listing(returned)} had a directory of a former life of the table after the restart alone"
            yield Doubt("undecided", text, (f"{keyspace}.{name}",))


def _undeleted(case: Evidence, found: Mapping[tuple[str, str], Sequence[_Directory]]) -> Iterator[Doubt]:
    """Yield a doubt for each table of which nodes keep rows of a former life, although nothing kept them from deleting these."""
    read = {(directory.phase, directory.node) for directories in found.values() for directory in directories}
    for (keyspace, name), directories in found.items():
        table = _table(keyspace, name, directories, case.changes)
        if table is None or not table.drops:
            continue
        known = {r.id for s in case.readings.schemas if (r := _of(s.tables, s.views, table)) is not None}
        live = {(d.phase, d.node, d.id) for d in directories if d.live and d.id is not None and d.id not in known}
        places: dict[str, set[str]] = {}
        for phase, node, identity in live:
            others = {other for other in PHASES if (other, node, identity) in live}
            if _is_undeleted(case, table, phase, node, others, read):
                places.setdefault(phase, set()).add(node)
        if places:
            readings: dict[str, set[str]] = {each: places[each] for each in PHASES if each in places}
            text = f"{where(readings, 'keeps', 'keep')} rows of a former life of the table, which was dropped"
            yield Doubt("undecided", text, (table.key,))


def _is_undeleted(
    case: Evidence, table: _Table, phase: str, node: str, phases: Collection[str], read: Collection[tuple[str, str]]
) -> bool:
    """Tell if a node should have deleted the rows of a former life by this reading. `phases`: the readings that have them."""
    if (PHASES[0], node) in read and PHASES[0] not in phases:
        return True  # nothing writes rows of it while servers are only started again
    settled, begins = (case.begins.get((each, node)) for each in (PHASES[0], phase))
    ends = [settled if drop.type == "info" else drop.completed for drop in table.drops]
    since, until = min(drop.invoked for drop in table.drops), max((end for end in ends if end is not None), default=0)
    since, until = since - _BEHIND_NS, until + _DELETED_WITHIN_NS
    restart = case.notes.began("restart")  # which kills servers, also in the midst of deleting files
    before = begins if phase == PHASES[0] or restart is None else restart
    return before is not None and None not in ends and until <= before and not _may_keep_files(case, node, since, until)


def _may_keep_files(case: Evidence, node: str, since: int, until: int) -> bool:
    """Tell if a node may have been kept from deleting files in an interval (ns): killed or cut off, or while others read or send them."""
    starts = any(
        s.node == node and s.phase not in {"boot", "restart"} for s in case.notes.starts if since < s.time < until
    )
    deaths = any(death.node == node for death in case.notes.deaths if since < death.time < until)
    operations = any(o.invoked < until and (o.completed is None or o.completed > since) for o in case.notes.operations)
    killed = case.notes.planned.get("kills") is True
    return killed or starts or deaths or operations or bool(case.notes.active(since, until))


def _table(keyspace: str, name: str, directories: Sequence[_Directory], changes: SchemaChanges) -> _Table | None:
    """Gather a table's operations; null if the history does not create it, or raw statements may have done anything to it."""
    if changes.texts(keyspace):
        return None
    table, view = (SchemaObject(kind, keyspace, name) for kind in ("table", "view"))
    creates = [operation for subject in (table, view) for operation in changes.creates(subject)]
    # A view may go with its base.
    bases = {create.argument["base"] for create in changes.creates(view)}
    subjects = [table, view, *(SchemaObject("table", keyspace, base) for base in sorted(bases))]
    drops = {operation.index: operation for subject in subjects for operation in changes.drops(subject)}
    refused = [operation for operation in changes.all if operation.type == "fail" and _would_drop(operation, table)]
    return _Table(keyspace, name, directories, creates, list(drops.values()), refused[-2:]) if creates else None


def _would_drop(operation: PairedOperation, table: SchemaObject) -> bool:
    if operation.f not in {"drop-table", "drop-view", "drop-keyspace"}:
        return False
    subject = target(operation)
    return subject.keyspace == table.keyspace and subject.name in {"", table.name}


# ── two places ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _divided(table: _Table, readings: FinalReadings) -> Anomaly | None:
    known = {(s.phase, s.node): t.id for s in readings.schemas if (t := _of(s.tables, s.views, table)) is not None}
    lines: list[str] = []
    evidence: list[JSON] = []
    nodes: list[str] = []
    for (phase, node), live in _live(table):
        schema_id = known.get((phase, node))
        strangers = [d for d in live if schema_id is not None and d.id is not None and d.id != schema_id]
        if len(live) <= 1 + len(table.drops) and not (strangers and not table.drops):
            continue
        ids = listing(f"{d.id}" for d in live)
        lines.append(
            f"{phase_text(phase)} {node} keeps rows of {table.key} under {ids}, and knows it as {schema_id or 'nothing'}"
        )
        evidence.append({"phase": phase, "node": node, "live": [d.id for d in live], "schema": schema_id})
        nodes.append(node)
    if not lines:
        return None
    lives = "one life" if not table.drops else f"at most {1 + len(table.drops)} lives"
    return anomaly(
        "divided-data-directory",
        objects=[table.key],
        nodes=nodes,
        ops=[operation.index for operation in (*table.creates, *table.drops)],
        evidence=evidence,
        explanation=Argument(
            [*table.creates, *table.drops],
            f"{table.key} had {lives} between its possible creations and drops, each with one id and one directory.",
            "; ".join(lines) + ".",
        ),
    )


def _of(tables: Mapping[tuple[str, str], JSON], views: Mapping[tuple[str, str], JSON], table: _Table) -> JSON:
    key = (table.keyspace, table.name)
    return tables.get(key) or views.get(key)


def _live(table: _Table) -> Iterator[tuple[tuple[str, str], Sequence[_Directory]]]:
    """List the live directories of each node in each phase, one for each id."""
    places: dict[tuple[str, str], dict[str | None, _Directory]] = {}
    for directory in table.directories:
        if directory.live:
            places.setdefault((directory.phase, directory.node), {})[directory.id] = directory
    for place, live in sorted(places.items(), key=lambda entry: (PHASES.index(entry[0][0]), entry[0][1])):
        yield place, [live[identity] for identity in sorted(live, key=str)]


# ── secret drops ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _dropped(table: _Table) -> Anomaly | None:
    if table.drops:
        return None
    seen: dict[str, dict[str, str | None]] = {}
    for directory in table.directories:
        for snapshot in directory.snapshots:
            if _DROPPED.match(snapshot):
                seen.setdefault(directory.node, {})[snapshot] = directory.id
    if not seen:
        return None
    snapshots_shown = [
        f"{node} has the snapshot {snapshot} of id {identity}"
        for node, snapshots in sorted(seen.items())
        for snapshot, identity in sorted(snapshots.items())
    ]
    return anomaly(
        "unexplained-snapshot",
        objects=[table.key],
        nodes=seen,
        ops=[operation.index for operation in (*table.creates, *table.refused)],
        evidence={node: dict(sorted(snapshots.items())) for node, snapshots in sorted(seen.items())},
        explanation=Argument(
            [*table.creates, *table.refused],
            f"{names(len(table.creates))} can have created {table.key}, and no operation can have dropped it or its keyspace"
            + (": every DROP was refused." if table.refused else "."),
            f"a server takes a snapshot `dropped-…` only when it drops a table: {'; '.join(snapshots_shown)}.",
        ),
    )
