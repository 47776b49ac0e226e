"""Descriptions of findings for people: titles, rates and standings, rendered from their data."""

from __future__ import annotations

from typing import Final

from schemaquake.checkers.findings.catalogue import CATALOGUE
from schemaquake.results.findings.cause import Cause
from schemaquake.results.findings.finding import Finding, Rate, Symptom
from schemaquake.results.findings.known import KnownAs
from schemaquake.results.findings.shapes import Shape
from schemaquake.results.findings.tracking import Sighting, TrackedFinding
from schemaquake.results.wording import counted, joined

__all__ = [
    "describe_cause",
    "describe_known",
    "describe_otherwise",
    "describe_rate",
    "describe_standing",
    "describe_symptom",
    "title_of",
]

_STATEMENTS: Final = {
    "alter-keyspace": "ALTER KEYSPACE {}",
    "add-column": "ALTER TABLE {} ADD",
    "drop-column": "ALTER TABLE {} DROP",
    "rename-column": "ALTER TABLE {} RENAME",
    "alter-options": "ALTER TABLE {} WITH",
    "add-field": "ALTER TYPE {} ADD",
    "rename-field": "ALTER TYPE {} RENAME",
    "create-view": "CREATE MATERIALIZED VIEW {}",
    "alter-view": "ALTER MATERIALIZED VIEW {}",
    "drop-view": "DROP MATERIALIZED VIEW {}",
    "cql": "a statement on {}",
}
_RELATIONS: Final = {
    "in": "in {}",
    "of": "of {}",
    "on": "on {}",
    "uses": "with type {}",
    "calls": "with function {}",
    "at": "column {}",
}
_IN_ORDER: Final = ("at", "on", "of", "in", "uses", "calls")


def title_of(finding: Finding) -> str:
    """Return the title of a finding: the known one, or one made from its cause."""
    known = finding.known
    return describe_cause(finding.cause) if known is None else known.title


def describe_cause(cause: Cause) -> str:
    """Describe the contested statements: `DROP TYPE A meets CREATE TABLE B with type A`. Objects are letters."""
    if cause.upgrade_to is not None:
        return "The schema is changed while nodes are of two versions"
    if not cause.statements:
        known = CATALOGUE.get(cause.symptom or "")
        title = known.title if known else str(cause.symptom)
        return title if cause.mechanism is None else f"{title} ({cause.mechanism})"
    fault = "" if cause.fault is None else f" during {joined(cause.fault.split('+'))}"
    parts = [_describe_shape(shape) for shape in cause.statements]
    if len(parts) == 1:
        again = ", twice or more at once" if cause.statements[0].several else ""
        return f"{parts[0]}{again}{fault}"
    return f"{parts[0]} meets {joined(parts[1:])}{fault}"


def _describe_shape(shape: Shape) -> str:
    verb, _, kind = shape.f.partition("-")
    text = _STATEMENTS.get(shape.f, f"{verb} {kind} {{}}".upper()).format(shape.object)
    relations = sorted(shape.relations, key=lambda one: _IN_ORDER.index(one.role))
    words = _RELATIONS | ({"at": "field {}"} if kind == "field" else {})
    return " ".join([text, *(words[one.role].format(one.object) for one in relations)])


def describe_rate(rate: Rate) -> str:
    """Describe a rate with its interval: `3 of 3 races, 44–100 %`."""
    low, high = rate.interval
    return f"{rate.broken} of {counted(rate.tried, rate.unit)}, {100 * low:.0f}–{100 * high:.0f} %"


def describe_standing(finding: Finding) -> str:
    """Describe the standing: `known: CASSANDRA-18330`, `new` (to Schemaquake's list), or `cause not known`."""
    if finding.known is None and not finding.cause.known:
        return "cause not known"
    return describe_known(None if finding.known is None else finding.known.known_as)


def describe_known(known: KnownAs | None) -> str:
    """Describe what is known of a finding with known statements: `known: CASSANDRA-18330`, or `new`."""
    return "new" if known is None else f"known: {joined(known.tickets) or 'no ticket yet'}"


def describe_otherwise(tracked: TrackedFinding, sighting: Sighting) -> str:
    """Describe what the same statements are known as on a system, `SQ-NOZW55CK: a row is written …, known: no ticket yet`.

    Empty if that is what they are known as elsewhere. Designs may break in ways of their own under the same statements.
    """
    if not tracked.known_otherwise(sighting):
        return ""
    title = f": {sighting.known.title}" if sighting.known else ""
    return f"{sighting.id}{title}, {describe_known(sighting.known)}"


def describe_symptom(finding: Finding, symptom: Symptom) -> str:
    """Describe how often a symptom showed: `in 2 of 3 races`, or the number of anomalies if no race is concerned."""
    if symptom.races:
        return f"in {len(symptom.races)} of {counted(len(finding.races), 'broken race')}"
    return "once" if len(symptom.anomalies) == 1 else f"{len(symptom.anomalies):,} times"
