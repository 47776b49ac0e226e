"""Races: the result of each one, from the workload's notes and the anomalies that were found.

A race is an event of process −1 with f = "race": its key is the race's keyspace, its value says `workload`, `number`,
`mode` and the statements of its `sides`. Everything in that keyspace belongs to the race.

Damage elsewhere may be a race's, too: a note may name a `canary`, a table of a keyspace in which nothing races, and a
main phase that ended early (`phase-ended-early`) leaves keyspaces whose races never began. Anomalies in either are the
damage of the last race that began: canaries before it succeeded, and nothing raced after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.harness.model.operation import NEMESIS
from schemaquake.harness.model.records import keyspace_of, plain
from schemaquake.harness.model.verdict import Anomaly

__all__ = ["RACES", "races"]

RACES: Final = pa.schema(
    [
        ("keyspace", pa.string()),
        ("workload", pa.string()),
        ("variant", pa.string()),
        ("number", pa.int64()),
        ("mode", pa.string()),
        ("sides", pa.list_(pa.list_(pa.string()))),  # the statements of each coordinator, in the order they begin
        ("broken", pa.bool_()),
        ("anomalies", pa.list_(pa.string())),  # types, each once, sorted
        ("ok", pa.int64()),  # outcomes of the keyspace's operations
        ("fail", pa.int64()),
        ("info", pa.int64()),
    ]
)

_OUTCOMES: Final = ("ok", "fail", "info")


def races(history: pa.Table, operations: pa.Table, anomalies: Iterable[Anomaly]) -> pa.Table:
    """Return one row a race (`RACES`), in the order in which they were run.

    `history` and `operations` are of the whole run. An anomaly belongs to the keyspaces of its objects; one without
    objects to those of its operations.
    """
    notes = _notes(history)
    if not notes:
        return RACES.empty_table()
    outcomes = _outcomes(operations)
    found = _found(anomalies, operations)
    strays = found.keys() - notes.keys()
    if not _ended_early(history):
        strays &= _canaries(notes)
    for keyspace in strays:
        found.setdefault(next(reversed(notes)), set()).update(found[keyspace])
    rows = []
    for keyspace, note in notes.items():
        types = sorted(found.get(keyspace, ()))
        description = {name: note.get(name) for name in ("workload", "variant", "number", "mode", "sides")}
        counts = outcomes.get(keyspace, dict.fromkeys(_OUTCOMES, 0))
        rows.append({"keyspace": keyspace, **description, "broken": bool(types), "anomalies": types, **counts})
    return pa.Table.from_pylist(rows, schema=RACES)


def _notes(history: pa.Table) -> dict[str, dict[str, Any]]:
    """Return the value of each race's note, by keyspace."""
    events = history.filter(pc.and_(pc.equal(history["process"], NEMESIS), pc.equal(history["f"], "race")))
    notes: dict[str, dict[str, Any]] = {}
    for event in events.select(["key", "value"]).to_pylist():
        value = orjson.loads(event["value"] or "{}")
        keyspace = keyspace_of(event["key"]) or value.get("keyspace")
        if keyspace is not None:
            notes.setdefault(keyspace, value)
    return notes


def _canaries(notes: Mapping[str, Mapping[str, Any]]) -> frozenset[str | None]:
    return frozenset(keyspace_of(note["canary"]) for note in notes.values() if note.get("canary") is not None)


def _ended_early(history: pa.Table) -> bool:
    """Return True if the main phase ended before all races began."""
    notes = history.filter(pc.and_(pc.equal(history["process"], NEMESIS), pc.equal(history["f"], "phase-ended-early")))
    return any(orjson.loads(value or "{}").get("phase") == "main" for value in notes["value"].to_pylist())


def _outcomes(operations: pa.Table) -> dict[str, dict[str, int]]:
    """Count the operations of each keyspace by outcome."""
    counted = (
        plain(operations.select(["key", "type"]))
        .group_by(["key", "type"], use_threads=False)
        .aggregate([([], "count_all")])
    )
    outcomes: dict[str, dict[str, int]] = {}
    for row in counted.to_pylist():
        keyspace = keyspace_of(row["key"])
        if keyspace is not None:
            outcomes.setdefault(keyspace, dict.fromkeys(_OUTCOMES, 0))[row["type"]] += row["count_all"]
    return outcomes


def _found(anomalies: Iterable[Anomaly], operations: pa.Table) -> dict[str, set[str]]:
    """Collect the types of anomaly in each keyspace."""
    found: dict[str, set[str]] = {}
    for anomaly in anomalies:
        keys = anomaly.objects or _keys(operations, anomaly.ops)
        for keyspace in {keyspace_of(key) for key in keys} - {None}:
            found.setdefault(str(keyspace), set()).add(anomaly.type)
    return found


def _keys(operations: pa.Table, indices: Sequence[int]) -> list[str]:
    """Return the keys of the operations with these indices, of invocation or completion."""
    if not indices:
        return []
    wanted = pa.array(indices, pa.int64())
    either = pc.or_kleene(pc.is_in(operations["index"], wanted), pc.is_in(operations["completion"], wanted))
    return [key for key in pc.unique(operations["key"].filter(either)).to_pylist() if key is not None]
