"""Sights: the objects that nodes showed in readings while the run went on.

Such readings are changes (`schemaquake.harness.model.observation`): an object has a row when it is another than in the reading before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.node_schemas import PHASES
from schemaquake.checkers.evidence.schema_changes import SchemaObject
from schemaquake.checkers.evidence.statements import Statement, parse_statement
from schemaquake.harness.model.records import plain

__all__ = ["Place", "Sight", "read_outages", "read_sights"]

_KINDS: Final = ("version", "keyspace", "table", "view", "type", "function", "aggregate", "live")
_SAME_MOST: Final = 64
"""The number of samples in a row that are searched for another version."""


class Place(NamedTuple):
    """A side of a node: its disk, or its memory."""

    node: str
    side: Literal["disk", "memory"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """One object in one reading of one node.

    `begins` and `ends` (ns) enclose the reading. `definition` null: it is gone. `understood` is False for a statement that
    could not be parsed. `corrected`: the node's next reading shows the object otherwise.
    """

    place: Place
    begins: int
    ends: int
    subject: SchemaObject
    definition: Mapping[str, Any] | None
    understood: bool = True
    statement: str | None = None
    """The statement of a memory, as it was spelled."""
    named: str = ""
    """The name in the statement of a memory, where it is another one than that of its row."""
    corrected: bool = False


def read_sights(case: Evidence) -> Sequence[Sight]:
    """Read the objects of all readings that are not final, in order of time."""
    return tuple(_sights(case))


def read_outages(case: Evidence) -> Mapping[str, Sequence[int]]:
    """Map each node to the times (ns) at which it could not be read: it may have ended, without a note of it."""
    found: dict[str, list[int]] = {}
    for (node, _), rows in _samples(case.observations).items():
        if any(row["kind"] == "version" and row["error"] is not None for row in rows):
            found.setdefault(node, []).append(max(row["time"] for row in rows))
    return found


def _sights(case: Evidence) -> Iterator[Sight]:
    samples = _samples(case.observations)
    last: dict[str, int] = {}
    subjects: dict[tuple[str, str, str], SchemaObject] = {}
    following = _following(samples)
    for (node, sample), rows in samples.items():
        ends = max(row["time"] for row in rows)
        unread = any(row["kind"] == "version" and "memory_error" in (row["definition"] or "") for row in rows)
        for row in rows:
            if row["kind"] == "version" or row["error"] is not None or row["keyspace"] is None:
                continue
            if unread and row["kind"] == "live" and row["definition"] is None:
                continue  # earlier releases of ours told that what could not be read was gone
            definition = None if row["definition"] is None else case.parse(row["definition"])
            sight = _sight(row, definition, subjects, begins=last.get(node, 0), ends=ends)
            if sight is not None:
                yield replace(sight, corrected=_name(row) in following[node, sample])
        last[node] = ends


def _following(
    samples: Mapping[tuple[str, int], Sequence[Mapping[str, Any]]],
) -> Mapping[tuple[str, int], frozenset[tuple[str, str, str]]]:
    """Map each sample to the objects that the node shows otherwise in its next one under another version.

    A node whose version is the same as before is not read again.
    """
    found: dict[tuple[str, int], frozenset[tuple[str, str, str]]] = {}
    later: dict[str, list[tuple[Sequence[str | None], frozenset[tuple[str, str, str]]]]] = {}
    for (node, sample), rows in reversed(list(samples.items())):
        version = [row["id"] for row in rows if row["kind"] == "version"]
        shown = frozenset(map(_name, rows))
        others = later.setdefault(node, [])
        until = next((place for place, (other, _) in enumerate(reversed(others)) if other != version), len(others))
        found[node, sample] = frozenset().union(*(names for _, names in list(reversed(others))[: until + 1]))
        others.append((version, shown))
        del others[:-_SAME_MOST]
    return found


def _samples(observations: pa.Table) -> Mapping[tuple[str, int], Sequence[Mapping[str, Any]]]:
    """Group the rows of readings that are not final by node and number, in order of their ends."""
    phases = plain(observations.select(["phase"]))["phase"]
    chosen = pc.and_(
        pc.invert(pc.is_in(phases, value_set=pa.array(PHASES))),
        pc.is_in(observations["kind"], value_set=pa.array(_KINDS)),
    )
    found: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
    for row in observations.filter(chosen).to_pylist():
        found.setdefault((row["node"], row["sample"]), []).append(row)
    return dict(sorted(found.items(), key=lambda item: (max(row["time"] for row in item[1]), item[0])))


def _name(row: Mapping[str, Any]) -> tuple[str, str, str]:
    side = "memory" if row["kind"] == "live" else row["kind"]
    return side, row["keyspace"] or "", row["name"] or ""


def _sight(
    row: Mapping[str, Any],
    definition: Any,
    subjects: dict[tuple[str, str, str], SchemaObject],
    *,
    begins: int,
    ends: int,
) -> Sight | None:
    """Make a sighting of a row; None for one that says nothing of a definition."""
    keyspace, name = row["keyspace"], row["name"] or ""
    if row["kind"] != "live":
        subject, place = SchemaObject(row["kind"], keyspace, name), Place(row["node"], "disk")
        if definition is not None and definition.get("derived_from") is not None:
            return None
        return Sight(place=place, begins=begins, ends=ends, subject=subject, definition=definition)
    place = Place(row["node"], "memory")
    if definition is None:
        known = subjects.get((row["node"], keyspace, name))
        return None if known is None else Sight(place=place, begins=begins, ends=ends, subject=known, definition=None)
    text = definition.get("statement")
    if text is None and ("columns" in definition or "refusal" in definition):
        return None
    kind = "view" if str(definition.get("kind")).startswith("materialized") else str(definition.get("kind"))
    statement = None if text is None else parse_statement(kind, text)
    bare = name[1:].split('"', 1)[0] if name.startswith('"') else name.split("(", 1)[0]
    subject = subjects[row["node"], keyspace, name] = SchemaObject(kind, keyspace, bare)
    return Sight(
        place=place,
        begins=begins,
        ends=ends,
        subject=subject,
        definition={} if statement is None else statement.definition,
        understood=statement is not None,
        statement=text,
        named="" if statement is None else _other_name(subject, statement),
    )


def _other_name(subject: SchemaObject, statement: Statement) -> str:
    """Return the name in a statement if it is not that of its row; "" if it is."""
    keyspace = statement.keyspace or subject.keyspace
    same = (keyspace, statement.name) == (subject.keyspace, subject.name)
    return "" if same else f"{keyspace}.{statement.name}".rstrip(".")
