"""Mentions: the objects of the history that a server's message names, and the changes that raced for them.

Servers name an object as `keyspace.name`, a table by its id, by its management bean (`keyspace=ks,table=t`) or by its data
directory (`/ks/t-…`), or with no more than `index i`; the last form counts only if the history has a single object of that
kind and name.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.evidence.schema_changes import SchemaObject, can_follow, target
from schemaquake.harness.model.operation import NEMESIS
from schemaquake.harness.model.records import plain

__all__ = ["Mentions"]

_QUALIFIED: Final = re.compile(r"(?<![\w.])\"?(\w+)\"?\.\"?(\w+)")
_BEAN: Final = re.compile(r"\bkeyspace=(\w+),(?:table|columnfamily|scope)=(\w+)")
_DIRECTORY: Final = re.compile(r"/(\w+)/(\w+)-[0-9a-f]{32}(?![0-9a-f])")
_ID: Final = re.compile(r"(?<![0-9a-f])[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}(?![0-9a-f])")
_BARE: Final = re.compile(r"\b(keyspace|table|view|type|function|aggregate|index) [`'\"]?(\w+)(?![\w.])", re.IGNORECASE)


class Mentions:
    """The objects that a history and its observations name, and the changes of these objects."""

    def __init__(self, evidence: Evidence) -> None:
        """Collect the objects of a history and its observations. Raises HistoryError."""
        self._changes = evidence.changes
        self._objects = {target(operation) for operation in self._changes.all if operation.f != "cql"}
        self._by_key: dict[str, set[SchemaObject]] = {}
        for known in self._objects:
            self._by_key.setdefault(known.key, set()).add(known)
        self._races = _find_first_races(evidence.history)
        observations = evidence.observations
        tables = observations.filter(pc.is_in(observations["kind"], value_set=pa.array(["table", "view"])))
        # 1.2 and 2.0 have no column for ids, but name tables by ids in their logs.
        self._by_id = {_hashed_id(known): known.key for known in self._objects if known.kind == "table"}
        self._by_id |= {
            row["id"]: f"{row['keyspace']}.{row['name']}"
            for row in tables.select(["id", "keyspace", "name"])
            .group_by(["id", "keyspace", "name"])
            .aggregate([])
            .to_pylist()
            if row["id"] is not None
        }

    def keys(self, text: str) -> Sequence[str]:
        """Find the objects of the history that the text names, as `keyspace` or `keyspace.name`, in order of the text."""
        qualified = (match for form in (_QUALIFIED, _BEAN, _DIRECTORY) for match in form.finditer(text))
        found = [(match.start(), f"{match[1]}.{match[2]}") for match in qualified]
        found += [(match.start(), self._by_id.get(match[0].replace("-", ""), "")) for match in _ID.finditer(text)]
        found += [(match.start(), self._find_only_object(match[1].lower(), match[2])) for match in _BARE.finditer(text)]
        return list(dict.fromkeys(key for _, key in sorted(found) if key in self._by_key))

    def changes(self, keys: Iterable[str]) -> Sequence[PairedOperation]:
        """List the possible changes of these objects, and the changes that raced with them, in order of invocation.

        A change raced with them if it is in the same keyspace and was invoked after the keyspace's race began; where
        no race was noted, if it overlaps a change of one of the objects.
        """
        subjects = {subject for key in keys for subject in self._by_key.get(key, ())}
        subject_changes = [operation for operation in self._changes.possible if target(operation) in subjects]
        keyspaces = {subject.keyspace for subject in subjects}
        chosen = {operation.index for operation in subject_changes}
        for operation in self._changes.possible:
            keyspace = target(operation).keyspace
            if keyspace in keyspaces and self._raced(operation, keyspace, subject_changes):
                chosen.add(operation.index)
        return [operation for operation in self._changes.possible if operation.index in chosen]

    def _raced(self, operation: PairedOperation, keyspace: str, subject_changes: Sequence[PairedOperation]) -> bool:
        if keyspace in self._races:
            return operation.invoked >= self._races[keyspace]
        return any(
            can_follow(operation, other) and can_follow(other, operation)
            for other in subject_changes
            if target(other).keyspace == keyspace
        )

    def _find_only_object(self, kind: str, name: str) -> str:
        if kind == "keyspace":
            return name
        known = [subject for subject in self._objects if subject.kind == kind and subject.name == name]
        return known[0].key if len(known) == 1 else ""


def _hashed_id(table: SchemaObject) -> str:
    """Compute the id that a server of 1.2 or 2.0 derives from a table's names, as 32 hex digits."""
    digest = hashlib.md5(f"{table.keyspace}{table.name}".encode(), usedforsecurity=False).digest()
    return UUID(bytes=digest, version=3).hex


def _find_first_races(history: pa.Table) -> Mapping[str, int]:
    """Map each keyspace to the time (ns) of the note of its first race."""
    events = plain(history.select(["process", "f", "key", "time"]))
    noted = events.filter(pc.and_(pc.equal(events["process"], NEMESIS), pc.equal(events["f"], "race"))).drop_columns(
        "f"
    )
    return {row["key"]: row["time"] for row in reversed(noted.to_pylist()) if row["key"] is not None}
