"""Sights: the objects that nodes showed in readings while the run went on.

Such readings are changes (`schemaquake.harness.model.observation`): an object has a row when it is another than in the reading before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.node_schemas import PHASES
from schemaquake.checkers.evidence.notes import Notes
from schemaquake.checkers.evidence.schema_changes import SchemaObject
from schemaquake.checkers.evidence.statements import Statement, parse_statement
from schemaquake.harness.model.observation import kind_in_memory
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.records import plain

__all__ = ["Place", "Sight", "followed_from", "read_outages", "read_samples", "read_sights"]

_KINDS: Final = ("version", "keyspace", "table", "view", "type", "function", "aggregate", "live")
_SAME_MOST: Final = 64
"""The number of samples in a row that are searched for another version."""
_Name: TypeAlias = tuple[str, str | None, str, str]
"""Kind of a row, of the object where the row is about a memory, keyspace and name."""
_Subject: TypeAlias = tuple[str, str, str, str | None]
"""Node, keyspace, name and kind of an object in memory; kind None: the one of this name that was shown last."""


class Place(NamedTuple):
    """A side of a node: its disk, or its memory."""

    node: str
    side: Literal["disk", "memory"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """One object in one reading of one node.

    `begins` and `ends` (ns) enclose the reading. `definition` null: it is gone. `understood` is False for a statement that
    could not be parsed. `corrected`: the node's next reading shows the object otherwise. `stands`: the reading has no row of the
    object, which is therefore as it was in the reading before, or not there.
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
    stands: bool = False


def read_sights(case: Evidence) -> Sequence[Sight]:
    """Read the objects of all readings that are not final, in order of time."""
    return tuple(_sights(case))


def read_outages(case: Evidence) -> Mapping[str, Sequence[int]]:
    """Map each node to the times (ns) at which it could not be read: it may have ended, without a note of it."""
    found: dict[str, list[int]] = {}
    for (node, _), rows in read_samples(case.observations).items():
        if any(row["kind"] == "version" and row["error"] is not None for row in rows):
            found.setdefault(node, []).append(max(row["time"] for row in rows))
    return found


def _sights(case: Evidence) -> Iterator[Sight]:
    samples = read_samples(case.observations)
    last: dict[str, int] = {}
    first = followed_from(case.notes)
    subjects: dict[_Subject, SchemaObject] = {}
    following = _following(samples, case.parse)
    for (node, sample), rows in samples.items():
        ends = max(row["time"] for row in rows)
        unread = any(row["kind"] == "version" and "memory_error" in (row["definition"] or "") for row in rows)
        for row in rows:
            if row["kind"] == "version" or row["error"] is not None or row["keyspace"] is None:
                continue
            if unread and row["kind"] == "live" and row["definition"] is None:
                continue  # earlier releases of ours told that what could not be read was gone
            definition = None if row["definition"] is None else case.parse(row["definition"])
            sight = _sight(row, definition, subjects, begins=last.get(node, min(first, ends)), ends=ends)
            if sight is not None:
                yield replace(sight, corrected=not following[node, sample].isdisjoint(_names(row, case.parse)))
        last[node] = ends


def followed_from(notes: Notes) -> int:
    """Return from when on (ns) nodes are read: no session to one is opened before the members are noted for the boot. 0 if that is not noted."""
    return next(
        (note["time"] for note, value in notes.all if note["f"] == "membership" and value.get("at") == "boot"), 0
    )


def _following(
    samples: Mapping[tuple[str, int], Sequence[Mapping[str, Any]]],
    parse: Callable[[str], JSON],
) -> Mapping[tuple[str, int], frozenset[_Name]]:
    """Map each sample to the objects that the node shows otherwise in its next one under another version.

    A node whose version is the same as before is not read again.
    """
    found: dict[tuple[str, int], frozenset[_Name]] = {}
    later: dict[str, list[tuple[Sequence[str | None], frozenset[_Name]]]] = {}
    for (node, sample), rows in reversed(list(samples.items())):
        version = [row["id"] for row in rows if row["kind"] == "version"]
        shown = frozenset(name for row in rows for name in _names(row, parse))
        others = later.setdefault(node, [])
        until = next((place for place, (other, _) in enumerate(reversed(others)) if other != version), len(others))
        found[node, sample] = frozenset().union(*(names for _, names in list(reversed(others))[: until + 1]))
        others.append((version, shown))
        del others[:-_SAME_MOST]
    return found


def read_samples(observations: pa.Table) -> Mapping[tuple[str, int], Sequence[Mapping[str, Any]]]:
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


def _names(row: Mapping[str, Any], parse: Callable[[str], JSON]) -> Sequence[_Name]:
    """Return the names of the object that a row is about. An earlier release of ours did not tell the kind of one that is gone from memory."""
    keyspace, name = row["keyspace"] or "", row["name"] or ""
    if row["kind"] != "live":
        return [(row["kind"], None, keyspace, name)]
    kind = kind_in_memory("live", row["id"], None if row["definition"] is None else parse(row["definition"]))
    return [("live", each, keyspace, name) for each in (_KINDS if kind is None else (kind,))]


def _sight(
    row: Mapping[str, Any],
    definition: Any,
    subjects: dict[_Subject, SchemaObject],
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
        known = subjects.get((row["node"], keyspace, name, row["id"]))
        return None if known is None else Sight(place=place, begins=begins, ends=ends, subject=known, definition=None)
    text = definition.get("statement")
    if text is None and ("columns" in definition or "refusal" in definition):
        return None
    kind = str(kind_in_memory("live", None, definition))
    statement = None if text is None else parse_statement(kind, text)
    bare = name[1:].split('"', 1)[0] if name.startswith('"') else name.split("(", 1)[0]
    subject = SchemaObject(kind, keyspace, bare)
    subjects[row["node"], keyspace, name, kind] = subjects[row["node"], keyspace, name, None] = subject
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
