"""Stale copies: nodes whose `system_schema` is not what the cluster's log of changes says.

Judges, where one log decides for the whole cluster (6.0, ScyllaDB), each node's schema tables against the newest
schema in memory (`schemaquake.checkers.evidence.authority`). One finding a node: what a driver that reads its copy
sees, since when, and whether the copy was right after the restart. Finds: `stale-schema-copy`.
Source: CEP-21 (`system_schema` is written from the log for the sake of clients); seen on 6.0-alpha2 under clock skew,
where rows written with a later timestamp hide the newer ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from schemaquake.checkers.ddl_order.reach import Reaches
from schemaquake.checkers.evidence.authority import StaleObject
from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.node_schemas import PHASES
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.evidence.schema_changes import SchemaObject, target
from schemaquake.checkers.findings.argument import Argument
from schemaquake.checkers.findings.catalogue import anomaly
from schemaquake.checkers.findings.explanation import listing, phase_text, seconds
from schemaquake.checkers.findings.limits import LIMITS
from schemaquake.harness.model.observation import kind_in_memory
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.verdict import Anomaly, Doubt

__all__ = ["find_stale_copies"]

_CURES = {
    "cured": "After its restart its copy was right.",
    "not cured": "Its restart did not cure it.",
    "new": "Before its restart its copy was right.",
    "not observed": "No reading after a restart shows whether that cures it.",
}


def find_stale_copies(case: Evidence) -> Iterator[Anomaly | Doubt | None]:
    """Yield one finding for each node with a stale copy, and None for each other node that a log decides for."""
    by_node: dict[str, list[StaleObject]] = {}
    for found in case.stale:
        moving = _find_moving(case, found)
        if moving:
            text = f"{phase_text(found.phase)} the copy of {found.node} {found.text}, and op {moving[0].index}, of unknown outcome,"
            yield Doubt("undecided", f"{text} may have taken effect while it was read", (found.key,))
        else:
            by_node.setdefault(found.node, []).append(found)
    judged = {schema.node for schema in case.readings.schemas if schema.follows_log}
    for node in sorted(judged | by_node.keys()):
        yield _report(case, node, by_node[node]) if node in by_node else None


def _find_moving(case: Evidence, found: StaleObject) -> Sequence[PairedOperation]:
    """Return a change that may have come between the readings of memory and of the copy, for each part; or none."""
    begins, ends = case.interval(found.phase, (found.node,))
    subject = SchemaObject(found.kind, found.keyspace, found.name)
    reaches = [reach for reach in case.derive(Reaches).of(found.keyspace) if reach.during(begins, ends)]
    causes = [
        next((r.operation for r in reaches if r.touches(subject, parts)), None)
        for parts in ([[part] for part in found.parts] or [[]])
    ]
    return [cause for cause in causes if cause is not None] if None not in causes else ()


def _report(case: Evidence, node: str, stale: Sequence[StaleObject]) -> Anomaly:
    objects = {(found.kind, found.key): found for found in stale}
    restart = _restart(case, node, stale)
    since, until = _since(case, stale), _until(case, stale)
    changes = _last_changes(case, {key for _, key in objects})
    seen = listing(f"{found.kind} {found.key} {found.text}" for found in list(objects.values())[: LIMITS.named])
    more = len(objects) - LIMITS.named
    phases = [phase for phase in PHASES if any(found.phase == phase for found in stale)]
    return anomaly(
        "stale-schema-copy",
        objects=dict.fromkeys(key for _, key in objects),
        nodes=[node],
        ops=[operation.index for operation in changes],
        evidence={
            "copies": _evidence(stale),
            "since_ns": since,
            "until_ns": until,
            "restart": restart,
        },
        explanation=Argument(
            changes,
            "one log of changes decides what the schema is, and each node's schema tables are a copy of its outcome for "
            "drivers to read.",
            f"{listing(map(phase_text, phases))} a driver that reads the copy on {node} sees that {seen}"
            f"{f', and {more} more objects otherwise' if more > 0 else ''}. It was seen so from {seconds(since)} to "
            f"{seconds(until)}. {_CURES[restart]}",
        ),
    )


def _evidence(stale: Sequence[StaleObject]) -> Mapping[str, Any]:
    phases: dict[str, dict[str, JSON]] = {}
    for found in stale:
        shown = phases.setdefault(found.phase, {})
        if len(shown) < LIMITS.objects:
            shown[f"{found.kind} {found.key}"] = {
                "difference": found.text,
                "copy": found.copy,
                "authority": found.authority,
            }
    return phases


def _restart(case: Evidence, node: str, stale: Sequence[StaleObject]) -> str:
    """Tell what the reading after the restart says of a copy: cured, not cured, new, or not observed."""
    before = any(found.phase == PHASES[0] for found in stale)
    after = any(found.phase == PHASES[1] for found in stale)
    read = {schema.phase for schema in case.shown.schemas if schema.node == node}
    if after:
        return "not cured" if before or PHASES[0] not in read else "new"
    return "cured" if PHASES[1] in read else "not observed"


def _since(case: Evidence, stale: Sequence[StaleObject]) -> int:
    """Return the time (ns) of the first reading from which on a copy and its authority were as they are in the end."""
    first = next(schema.time for schema in case.shown.schemas if (schema.phase, schema.node) == _place(stale[0]))
    return min([first, *(since for found in stale if (since := _steady_since(case, found)) is not None)])


def _steady_since(case: Evidence, found: StaleObject) -> int | None:
    """Return the later of the times since which the node showed the copy, and its memory, as in the first final reading."""
    since = [_last_change(case, found, kind) for kind in (found.kind, "live")]
    known = [time for time in since if time is not None]
    return max(known) if known and found.kind != "index" else None


def _last_change(case: Evidence, found: StaleObject, kind: str) -> int | None:
    sightings = [
        sighting
        for sighting in case.sightings(kind)
        if (sighting.node, sighting.keyspace) == (found.node, found.keyspace)
        and (sighting.name or "").partition("(")[0].strip('"') == found.name
        and kind_in_memory(kind, sighting.id, sighting.definition) in {None, found.kind}
        and (sighting.phase == found.phase or sighting.phase not in PHASES)
    ]
    shown: object = object()
    since: int | None = None
    for sighting in sightings:
        state = (sighting.id, sighting.definition)
        if state != shown:
            shown, since = state, sighting.time
    return since


def _until(case: Evidence, stale: Sequence[StaleObject]) -> int:
    places = {_place(found) for found in stale}
    return max(schema.time for schema in case.shown.schemas if (schema.phase, schema.node) in places)


def _place(found: StaleObject) -> tuple[str, str]:
    return found.phase, found.node


def _last_changes(case: Evidence, keys: set[str]) -> Sequence[PairedOperation]:
    """Return the last possible changes of these objects."""
    return [change for change in case.changes.possible if target(change).key in keys][-LIMITS.suspects :]
