"""Divergence: all nodes have one schema in the end, on disk and in memory, whatever their versions say.

Judges each node's final reading against the others' and against itself. Equal versions are never enough: up to 5.0 a
version is a digest of what is on disk, and a coordinator may have something else in memory. While nodes are of two
releases, versions say nothing across them (an upgraded 6.0 shows one of its own until its log begins): there the disks
are compared, by the options that both releases have.
Finds: `schema-disagreement` (versions differ), `hidden-divergence` (versions are equal, schemas are not),
`memory-disk-divergence` (a node serves another schema than the one it has on disk), `changed-by-restart` (all agreed on
an object, no change followed, and after the restart it is another: `schemaquake.checkers.schema.restarts`). Where one log decides for the whole
cluster, the disk is a copy for clients (`schemaquake.checkers.evidence.authority`): there one that differs is a
`stale-schema-copy`, and neither of the latter two.
Source: the 0.7 document, "Concurrency"; the 1.1 document, schema disagreement; CEP-21; CASSANDRA-15843, CASSANDRA-18291.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal

import orjson

from schemaquake.checkers.ddl_order.reach import Facts, Reaches, facts_of_columns, facts_of_memory, facts_of_row
from schemaquake.checkers.evidence.authority import describe_difference
from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.node_schemas import GROUP_HISTORY, PHASES, Live, NodeSchema, Table
from schemaquake.checkers.evidence.notes import Notes
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.evidence.schema_changes import SchemaObject, target
from schemaquake.checkers.evidence.statements import parse_statement
from schemaquake.checkers.findings.argument import Argument
from schemaquake.checkers.findings.catalogue import anomaly
from schemaquake.checkers.findings.explanation import listing, name_operations, phase_text, where
from schemaquake.checkers.findings.limits import LIMITS
from schemaquake.checkers.schema.judge import Findings, judge
from schemaquake.checkers.schema.restarts import find_changes_by_restart
from schemaquake.checkers.schema.stale_copies import find_stale_copies
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.records import Records
from schemaquake.harness.model.verdict import Anomaly, Doubt, Verdict, make_stats

__all__ = ["Divergence"]

_KINDS: Final = frozenset({"keyspace", "table", "view", "type", "function", "aggregate", "index"})
_OF_ITS_SYSTEM: Final = "what they say of its system: whether it shows its memory, and what decides"
_APART: Final = {"disk": "differences_on_disk", "memory": "differences_in_memory"}


class Divergence:
    """One schema, one version, on every node; in memory what is on disk."""

    name = "divergence"
    scope: Literal["keyspace", "run"] = "run"
    finds: tuple[str, ...] = (
        "schema-disagreement",
        "hidden-divergence",
        "memory-disk-divergence",
        "stale-schema-copy",
        "changed-by-restart",
    )
    vouches: bool = True
    judges_early: bool = True

    def check(self, records: Records, *, limit_s: float) -> Verdict:
        """Judge versions, disks and memories. Unknown if a node could not be read after the cluster settled.

        Stats: versions and epochs by phase and node, and how long agreement took, from the conductor's `settle` notes.
        """
        verdict = judge(self.name, records, _find, limit_s=limit_s, needs_changes=True)
        return replace(verdict, stats={**verdict.stats, **make_stats(_stats(Evidence.of(records)))})


def _find(case: Evidence) -> Findings:
    yield from _disagreement(case)
    yield from _hidden(case)
    yield from _forgotten(case)
    yield from find_stale_copies(case)
    yield from _unread_memories(case)
    yield from _odd_epochs(case)
    yield from _odd_systems(case)
    yield from find_changes_by_restart(case, {(s.phase, s.node): (_disk(s), _memory(s)) for s in case.shown.schemas})


def _odd_epochs(case: Evidence) -> Iterator[Doubt]:
    """List the versions read with two epochs. Where changes go through a group, a version outlives an epoch."""
    epochs: dict[str, set[JSON]] = {}
    for sighting in case.sightings("version"):
        facts = sighting.definition if isinstance(sighting.definition, dict) else {}
        if sighting.id is not None and GROUP_HISTORY not in facts:
            epochs.setdefault(sighting.id, set()).add(facts.get("epoch"))
    for version, found in sorted(epochs.items()):
        if len(found) > 1:
            yield Doubt("unread", f"version {version} was read with the epochs {listing(sorted(map(str, found)))}")


def _odd_systems(case: Evidence) -> Iterator[Doubt]:
    """List the nodes whose readings say two things of their system. Nodes of one release say the same, and most runs have one."""
    ways: dict[tuple[str, bool], set[tuple[JSON, ...]]] = {}
    finals: dict[JSON, set[tuple[JSON, ...]]] = {}
    for sighting in case.sightings("version"):
        facts = sighting.definition if isinstance(sighting.definition, dict) else {}
        if sighting.id is not None and "memory_error" not in facts:
            # A system that is asked table by table is so asked in final readings only.
            said = tuple(facts.get(name) for name in ("memory", "authority", "told_from"))
            # While the run goes on, a node whose version is as before is asked for nothing else. And one that becomes
            # another release has two systems, and more between its start and the end of the upgrade.
            if sighting.phase in PHASES or (any(said) and "release" not in facts):
                ways.setdefault((sighting.node, sighting.phase in PHASES), set()).add(said)
            if sighting.phase in PHASES:
                finals.setdefault(facts.get("release"), set()).add(tuple(map(str, said)))
    for (node, _), found in sorted(ways.items()):
        if len(found) > 1:
            yield Doubt("unread", f"readings of {node} differ in {_OF_ITS_SYSTEM}")
    if any(len(found) > 1 for found in finals.values()):
        yield Doubt("unread", f"the final readings of different nodes differ in {_OF_ITS_SYSTEM}")


def _unread_memories(case: Evidence) -> Iterator[Doubt]:
    """List the nodes, and the single objects, whose memory could not be compared with anything."""
    for unread in case.readings.memories_unread:
        yield Doubt("unread", f"the memory of {unread.node} was not read {phase_text(unread.phase)}: {unread.error}")
    for schema in case.readings.schemas:
        objects = sorted(SchemaObject(*subject).key for subject in schema.unanswered)
        if objects:
            text = f"{schema.node} did not answer what it has in memory {phase_text(schema.phase)}"
            yield Doubt("unread", text, tuple(objects))


# ── versions ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _disagreement(case: Evidence) -> Iterator[Anomaly | Doubt | None]:
    settles = _settles(case.notes)
    readings: dict[str, dict[str, NodeSchema]] = {}
    for phase in case.shown.phases:
        schemas = case.shown.of(phase)
        schemas = tuple(schema for nodes in _releases(schemas) if not _agree(nodes) for schema in nodes)
        if not schemas or _has_unread_version(schemas):
            continue
        moving = _find_moving(case, schemas) if (settles.get(phase) or {}).get("agreed") is True else ()
        if moving:
            yield Doubt("undecided", f"{phase_text(phase)} versions differ, and {_may_yet(moving)}")
        else:
            readings[phase] = {schema.node: schema for schema in schemas}
    yield _disagreement_anomaly(case, settles, readings) if readings else None


def _disagreement_anomaly(
    case: Evidence, settles: Mapping[str, Mapping[str, Any]], readings: Mapping[str, Mapping[str, NodeSchema]]
) -> Anomaly:
    evidence = {
        phase: {
            "versions": {node: schema.version for node, schema in nodes.items()},
            "settle": settles.get(phase),
            "differing_objects": len(differences := _differences(list(nodes.values()))),
            _APART[_source(nodes.values())]: differences[: LIMITS.objects],
        }
        for phase, nodes in readings.items()
    }
    acknowledged = [operation for operation in case.changes.all if operation.acknowledged]
    last = sorted(acknowledged, key=lambda operation: operation.completed or 0)[-1:]
    return anomaly(
        "schema-disagreement",
        nodes=[node for nodes in readings.values() for node in nodes],
        ops=[operation.index for operation in last],
        evidence=evidence,
        explanation=Argument(
            last,
            "the last acknowledged schema change was T1, and a cluster at rest comes to one schema version.",
            "; ".join(_versions_apart(phase, reading) for phase, reading in evidence.items()) + ".",
        ),
    )


def _versions_apart(phase: str, reading: Mapping[str, Any]) -> str:
    groups: dict[str, list[str]] = {}
    for node, version in reading["versions"].items():
        groups.setdefault(version, []).append(node)
    settle = reading["settle"] or {}
    quiet = f", the last {settle['quiet_s']} s without any change" if "quiet_s" in settle else ""
    waited = f" (after {settle['seconds']} s of waiting{quiet})" if "seconds" in settle else ""
    shown = listing(f"{version} on {listing(nodes)}" for version, nodes in groups.items())
    place = next(place for place, name in _APART.items() if name in reading)
    apart = reading[_APART[place]]
    left = reading["differing_objects"] - LIMITS.named
    named = [*apart[: LIMITS.named], *([f"{left} more objects"] if left > 0 else [])]
    sides = {"disk": "disks", "memory": "memories"}[place]
    schemas = f"and their {sides} differ in {listing(named)}" if apart else f"while their {sides} are equal"
    return f"{phase_text(phase)}{waited} the versions are {shown}, {schemas}"


def _find_moving(case: Evidence, schemas: Sequence[NodeSchema]) -> Sequence[PairedOperation]:
    """Return the changes of unknown outcome that explain every difference between nodes that had agreed before; or none."""
    begins, ends = case.interval(schemas[0].phase)
    reaches = case.derive(Reaches)
    stored = [schema.stored() for schema in schemas]
    stale = {(found.kind, found.keyspace, found.name) for found in case.stale}
    found: dict[int, PairedOperation] = {}
    for key in sorted(set().union(*stored) - stale):
        rows = [disk.get(key) for disk in stored]
        if all(row == rows[0] for row in rows):
            continue
        subject = SchemaObject(*key)
        causes = reaches.explain(subject, [facts_of_row(subject, row) for row in rows], begins, ends)
        if not causes:
            return ()
        found |= {cause.index: cause for cause in causes}
    # Equal schemas with different versions: a change fell between the reading of the one and of the other.
    return list(found.values()) or reaches.any_during(begins, ends)


def _may_yet(changes: Sequence[PairedOperation]) -> str:
    """Render that these changes may explain what was read."""
    named = name_operations(change.index for change in changes)
    return f"{named}, of unknown outcome, may have taken effect meanwhile"


def _settles(notes: Notes) -> Mapping[str, Mapping[str, Any]]:
    """Map each phase to the conductor's last note of how settling ended; without a phase, the n-th note is of the n-th phase."""
    settles: dict[str, Mapping[str, Any]] = {}
    unnamed = iter(("settled", "restarted"))
    for value in notes.settles:
        settles[value.get("phase") or next(unnamed, "restarted")] = value
    return settles


# ── disks and memories of several nodes ──────────────────────────────────────────────────────────────────────────────


def _differences(schemas: Sequence[NodeSchema]) -> list[str]:
    """List the objects, as `kind keyspace.name`, that differ between these nodes, on disk where it could be read."""
    disks = [_disk(schema) for schema in schemas]
    subjects = sorted(set().union(*disks))
    return [
        f"{subject.kind} {subject.key}"
        for subject in subjects
        if any(disk.get(subject) != disks[0].get(subject) for disk in disks)
    ]


def _source(schemas: Iterable[NodeSchema]) -> str:
    """Return `memory` if the disk of some of these nodes cannot be read, else `disk`."""
    return "memory" if any(schema.source == "memory" for schema in schemas) else "disk"


def _hidden(case: Evidence) -> Iterator[Anomaly | Doubt | None]:
    reaches = case.derive(Reaches)
    found: dict[tuple[SchemaObject, str], dict[str, dict[str, JSON]]] = {}
    judged: set[SchemaObject] = set()
    for phase, schemas in _agreeing(case):
        is_mixed = len(_releases(schemas)) > 1
        remembering = [schema for schema in schemas if schema.remembers]
        unanswered = {SchemaObject(*subject) for schema in remembering for subject in schema.unanswered}
        whole = {schema.node: _disk(schema) for schema in schemas}
        remembered = {schema.node: _memory(schema) for schema in remembering}
        for place, sides in [("on disk", _in_common(whole))] if is_mixed else _places(schemas, whole, remembered):
            for subject in set().union(*sides.values()):
                judged.add(subject)
                if place == "in memory" and subject in unanswered:
                    continue
                shown = {node: side.get(subject) for node, side in sides.items()}
                if all(definition == next(iter(shown.values())) for definition in shown.values()):
                    continue
                facts = [_facts(subject, schema, place) for schema in schemas if schema.node in shown]
                moving = reaches.explain(subject, facts, *case.interval(phase, shown))
                if moving:
                    text = f"{phase_text(phase)} it differs {place} between nodes, and {_may_yet(moving)}"
                    yield Doubt("undecided", text, (subject.key,))
                else:
                    found.setdefault((subject, place), {})[phase] = shown
    for subject in sorted(judged):
        places = {place: found[subject, place] for place in ("on disk", "in memory") if (subject, place) in found}
        yield _hidden_anomaly(case, subject, places) if places else None


def _agreeing(case: Evidence) -> Iterator[tuple[str, Sequence[NodeSchema]]]:
    """Yield by phase the nodes that must have one schema: those of each release that show one version, and, if all do, everybody."""
    for phase in case.shown.phases:
        schemas = case.shown.of(phase)
        if _has_unread_version(schemas):
            continue
        releases = _releases(schemas)
        agreeing = [nodes for nodes in releases if _agree(nodes)]
        for nodes in agreeing:
            yield phase, nodes
        if len(agreeing) == len(releases) > 1:
            yield phase, schemas


def _releases(schemas: Iterable[NodeSchema]) -> Sequence[Sequence[NodeSchema]]:
    """Group readings by the release that they name, if all do."""
    releases: dict[str | None, list[NodeSchema]] = {}
    everybody = list(schemas)
    if any(schema.release is None for schema in everybody):
        return [everybody]
    for schema in everybody:
        releases.setdefault(schema.release, []).append(schema)
    return list(releases.values())


def _agree(schemas: Iterable[NodeSchema]) -> bool:
    return len({schema.version for schema in schemas}) == 1


def _has_unread_version(schemas: Iterable[NodeSchema]) -> bool:
    return any(schema.version is None for schema in schemas)


def _in_common(disks: Mapping[str, Mapping[SchemaObject, JSON]]) -> Mapping[str, Mapping[SchemaObject, JSON]]:
    """Leave out of tables and views the options that not all nodes that have the object name: a release has options of its own."""
    known: dict[SchemaObject, set[str]] = {}
    for disk in disks.values():
        for subject, definition in disk.items():
            if isinstance(definition, dict) and isinstance(options := definition.get("options"), dict):
                known.setdefault(subject, set(options)).intersection_update(options)

    def common(subject: SchemaObject, definition: JSON) -> JSON:
        if subject not in known or not isinstance(definition, dict):
            return definition
        options = definition.get("options") or {}
        return {**definition, "options": {name: value for name, value in options.items() if name in known[subject]}}

    return {
        node: {subject: common(subject, definition) for subject, definition in disk.items()}
        for node, disk in disks.items()
    }


def _facts(subject: SchemaObject, schema: NodeSchema, place: str) -> Facts | None:
    if place == "in memory" and schema.source != "memory":
        return facts_of_memory(subject, schema.live.get(subject))
    return facts_of_row(subject, schema.stored().get(subject))


def _hidden_anomaly(
    case: Evidence, subject: SchemaObject, places: Mapping[str, Mapping[str, Mapping[str, JSON]]]
) -> Anomaly:
    suspects = _suspects(case, subject)
    versions: dict[str, JSON] = {}
    told: set[str] = set()
    for phase, shown in ((phase, shown) for readings in places.values() for phase, shown in readings.items()):
        one_each = [nodes[0] for nodes in _releases(s for s in case.shown.of(phase) if s.node in shown)]
        is_mixed = len(one_each) > 1
        versions[phase] = {str(one.release): one.version for one in one_each} if is_mixed else one_each[0].version
        told |= {f"{one.version} of {one.release}" if is_mixed else str(one.version) for one in one_each}
    who = "the nodes of each release" if any(isinstance(one, dict) for one in versions.values()) else "all nodes"
    return anomaly(
        "hidden-divergence",
        objects=[subject.key],
        nodes=[node for readings in places.values() for nodes in readings.values() for node in nodes],
        ops=[operation.index for operation in suspects],
        evidence={"versions": versions, "definitions": places},
        explanation=Argument(
            suspects,
            f"{who} report the schema version {listing(sorted(told))}, so all must have the same {subject.kind} {subject.key}.",
            "; ".join(_apart(place, readings) for place, readings in places.items()) + ".",
        ),
    )


def _apart(place: str, readings: Mapping[str, Mapping[str, JSON]]) -> str:
    """Render `after the cluster settled there is in memory none on n1 and definition A on n2 and n3`."""
    letters: dict[bytes, str] = {}
    moments: dict[str, list[str]] = {}
    for phase, nodes in readings.items():
        groups: dict[str, list[str]] = {}
        for node, definition in nodes.items():
            text = orjson.dumps(definition, option=orjson.OPT_SORT_KEYS)
            if definition is not None:
                letters.setdefault(text, chr(ord("A") + len(letters)))
            groups.setdefault(letters.get(text, ""), []).append(node)
        parts = [
            f"definition {letter} on {listing(held)}" if letter else f"none on {listing(held)}"
            for letter, held in groups.items()
        ]
        moments.setdefault(listing(parts), []).append(phase_text(phase))
    return "; ".join(f"{listing(when)} there is {place} {parts}" for parts, when in moments.items())


def _places(
    schemas: Sequence[NodeSchema],
    stored: Mapping[str, Mapping[SchemaObject, JSON]],
    remembered: Mapping[str, Mapping[SchemaObject, JSON]],
) -> Sequence[tuple[str, Mapping[str, Mapping[SchemaObject, JSON]]]]:
    """List the places in which nodes must have the same, each with node → objects."""
    if _source(schemas) == "memory":
        return [("in memory", stored)]  # the disk cannot be read
    if remembered and _have_one_log(schemas):
        return [("in memory", remembered)]  # the disk is a copy
    return [("on disk", stored), ("in memory", remembered)]


def _have_one_log(schemas: Iterable[NodeSchema]) -> bool:
    """Tell if one log of changes decides for all of these nodes."""
    return all(schema.follows_log for schema in schemas)


def _disk(schema: NodeSchema) -> Mapping[SchemaObject, JSON]:
    """Return the objects on a node's disk as comparable values; a table with its id."""
    return {SchemaObject(*key): value for key, value in schema.stored().items()}


def _memory(schema: NodeSchema) -> Mapping[SchemaObject, JSON]:
    return {SchemaObject(*key): _comparable(live) for key, live in schema.live.items() if key[0] in _KINDS}


def _comparable(live: Live) -> JSON:
    return _spelled(live.statement or "") if live.columns is None else dict(sorted(live.columns.items()))


def _spelled(statement: str) -> str:
    """Spell a statement with single spaces and sorted maps: a coordinator may keep a map in the order it was typed in."""
    text = " ".join(statement.split())
    return re.sub(r"\{([^{}]*)\}", lambda found: f"{{{', '.join(sorted(re.split(r', *', found[1])))}}}", text)


# ── one node's memory and its own disk ───────────────────────────────────────────────────────────────────────────────


def _forgotten(case: Evidence) -> Findings:
    reaches = case.derive(Reaches)
    kinds = _remembered_kinds(case.shown.schemas)
    found: dict[tuple[SchemaObject, str], dict[str, dict[str, JSON]]] = {}
    judged: set[SchemaObject] = set()
    for schema in case.shown.schemas:
        yield from _not_understood(schema)
        if not schema.remembers or schema.follows_log:
            continue
        judged |= set(_disk(schema))
        for subject, text, evidence, sides in _own_differences(schema, kinds):
            moving = reaches.explain(subject, sides, *case.interval(schema.phase, (schema.node,)))
            if moving:
                doubt = f"{phase_text(schema.phase)} {schema.node} has it {text}, and {_may_yet(moving)}"
                yield Doubt("undecided", doubt, (subject.key,))
            else:
                found.setdefault((subject, text), {}).setdefault(schema.phase, {})[schema.node] = evidence
    for subject, text in sorted(found):
        yield _forgotten_anomaly(case, subject, text, found[subject, text])
    yield from [None] * len(judged - {subject for subject, _ in found})


def _remembered_kinds(schemas: Sequence[NodeSchema]) -> frozenset[str]:
    """Return the kinds of objects that this system shows of its memory.

    A node whose memory is read as statements leaves nothing out, whether its reading says so or shows a keyspace in one.
    Of the others a kind that no node shows is one that the system does not show, and nothing follows from its absence.
    """
    if any(schema.shows_memory == "statements" and not schema.memory_error for schema in schemas):
        return _KINDS
    if any(live.statement is not None for s in schemas for (kind, _, _), live in s.live.items() if kind == "keyspace"):
        return _KINDS
    return frozenset(kind for schema in schemas for kind, _, _ in (*schema.live, *schema.refusals))


def _own_differences(
    schema: NodeSchema, kinds: frozenset[str]
) -> Iterator[tuple[SchemaObject, str, JSON, Sequence[Facts | None]]]:
    """Yield (object, difference, evidence, facts) for each object that differs between this node's memory and its disk."""
    left_out = {SchemaObject(*found) for found in (*schema.derived, *schema.unanswered)} | _halves(schema)
    disk = {subject for subject in map(SchemaObject._make, schema.objects()) if subject.kind in kinds} - left_out
    memory = {subject for subject in map(SchemaObject._make, schema.live) if subject.kind in _KINDS} - left_out
    only_memory, only_disk = memory - disk, disk - memory
    for side, wrong in ((only_memory, "only in memory, not on disk"), (only_disk, "only on disk, not in memory")):
        for subject in side:
            keyspace = SchemaObject("keyspace", subject.keyspace, "")
            if subject == keyspace or keyspace not in side:
                live = schema.live.get(subject)
                yield (
                    subject,
                    wrong,
                    live.evidence if live else schema.refusals.get(subject),
                    (None, facts_of_columns(())),
                )
    for subject in sorted(memory & disk):
        yield from _contents_apart(schema, subject, schema.live[subject])


def _contents_apart(
    schema: NodeSchema, subject: SchemaObject, live: Live
) -> Iterator[tuple[SchemaObject, str, JSON, Sequence[Facts | None]]]:
    """Compare everything that both sides show of an object."""
    tables = {"table": schema.tables, "view": schema.views}.get(subject.kind, {})
    table = tables.get((subject.keyspace, subject.name))
    if table is not None and (columns := list(_columns_apart(subject, table, live))):
        yield from columns
        return
    statement = None if live.statement is None else parse_statement(subject.kind, live.statement)
    difference = None if statement is None else describe_difference(subject, schema, statement)
    if difference is not None:
        text, parts = difference
        stored = None if subject.kind == "index" else schema.stored().get(subject)
        evidence = {"memory": live.statement, "disk": stored}
        shown = (facts_of_memory(subject, live) or {}, facts_of_row(subject, stored) or {})
        sides = [{part: side[part] for part in parts if part in side} for side in shown]
        yield subject, f"that {text} on disk", evidence, sides


def _not_understood(schema: NodeSchema) -> Iterator[Doubt]:
    """Yield a doubt for each object whose description from memory cannot be compared with anything."""
    for key, live in schema.live.items():
        subject = SchemaObject(*key)
        if live.columns is None and (live.statement is None or parse_statement(subject.kind, live.statement) is None):
            text = f"the description of {subject.kind} {subject.key} in {schema.node}'s memory is not understood"
            yield Doubt("unread", text, (subject.key,))


def _halves(schema: NodeSchema) -> set[SchemaObject]:
    """Return headless tables: no node can have them in memory, and `references` finds them on disk."""
    return {
        SchemaObject(kind, keyspace, name)
        for kind, tables in (("table", schema.tables), ("view", schema.views))
        for (keyspace, name), table in tables.items()
        if table.headless
    }


def _columns_apart(
    subject: SchemaObject, table: Table, live: Live
) -> Iterator[tuple[SchemaObject, str, JSON, Sequence[Facts | None]]]:
    if live.columns is not None:
        remembered = frozenset(live.columns)
        extra = remembered - table.columns.keys()
    else:
        statement = parse_statement("table", live.statement or "")
        if statement is None:
            return
        remembered = frozenset(statement.definition["columns"])
        # A statement for restoring a table may declare dropped columns too, so as to drop them again.
        extra = remembered - table.columns.keys() - table.dropped_columns
    lacking = table.columns.keys() - remembered
    if extra or lacking:
        parts = [f"{_columns(extra)} in memory only"] if extra else []
        parts += [f"{_columns(lacking)} on disk only"] if lacking else []
        evidence = {"memory": sorted(remembered), "disk": sorted(table.columns)}
        # One that was dropped and added again is declared as a column of the table.
        undeclared = table.dropped_columns - table.columns.keys() if live.columns is None else frozenset[str]()
        compared = remembered - undeclared
        sides = (facts_of_columns(compared), facts_of_columns(table.columns))
        yield subject, f"with {listing(parts)}", evidence, sides


def _columns(names: Iterable[str]) -> str:
    columns = sorted(names)
    return f"column{'s' if len(columns) > 1 else ''} {listing(columns)}"


def _forgotten_anomaly(
    case: Evidence, subject: SchemaObject, text: str, readings: Mapping[str, Mapping[str, JSON]]
) -> Anomaly:
    suspects = _suspects(case, subject)
    return anomaly(
        "memory-disk-divergence",
        objects=[subject.key],
        nodes=[node for nodes in readings.values() for node in nodes],
        ops=[operation.index for operation in suspects],
        evidence={"difference": text, "readings": readings},
        explanation=Argument(
            suspects,
            f"a node loads its schema from its disk, so it must serve the {subject.kind} {subject.key} that it has there, and no other.",
            f"{where(readings, 'has', 'have')} {subject.kind} {subject.key} {text}.",
        ),
    )


def _suspects(case: Evidence, subject: SchemaObject) -> Sequence[PairedOperation]:
    """Return the last possible changes of the object, and DROPs of its keyspace."""
    return [
        operation
        for operation in case.changes.possible
        if target(operation).key == subject.key
        or (operation.f == "drop-keyspace" and target(operation).keyspace == subject.keyspace)
    ][-LIMITS.suspects :]


def _stats(case: Evidence) -> Mapping[str, JSON]:
    readings, settles = case.shown, _settles(case.notes)
    return {
        "versions": {phase: {s.node: s.version for s in readings.of(phase)} for phase in readings.phases},
        "epochs": {
            phase: {s.node: s.epoch for s in readings.of(phase) if s.epoch is not None} for phase in readings.phases
        },
        "agreed": {phase: settle.get("agreed") for phase, settle in settles.items()},
        "agreement_s": {phase: settle.get("seconds") for phase, settle in settles.items() if settle.get("agreed")},
    }
