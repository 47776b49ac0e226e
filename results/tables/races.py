"""Races: the result of each one, from the workload's notes and the anomalies that were found.

A race is an event of process −1 with f = "race": its key is the race's keyspace, its value says `workload`, `number`,
`mode` and the statements of its `sides`. Everything in that keyspace belongs to the race. Which anomalies belong to which
race is decided in `schemaquake.results.tables.attribution`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from schemaquake.harness.model.records import keyspace_of, plain
from schemaquake.harness.model.verdict import Anomaly
from schemaquake.results.tables.attribution import Ground, attribute_all, read_ground

__all__ = ["RACES", "tabulate_races"]

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


def tabulate_races(history: pa.Table, operations: pa.Table, anomalies: Sequence[Anomaly]) -> pa.Table:
    """Return one row a race (`RACES`), in the order in which they were run.

    `history` and `operations` are of the whole run.
    """
    ground = read_ground(history)
    if not ground.races:
        return RACES.empty_table()
    outcomes = _outcomes(operations)
    found = _found(anomalies, operations, ground)
    rows = []
    for keyspace, note in ground.races.items():
        types = sorted(found.get(keyspace, ()))
        description = {name: note.get(name) for name in ("workload", "variant", "number", "mode", "sides")}
        counts = outcomes.get(keyspace, dict.fromkeys(_OUTCOMES, 0))
        rows.append({"keyspace": keyspace, **description, "broken": bool(types), "anomalies": types, **counts})
    return pa.Table.from_pylist(rows, schema=RACES)


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


def _found(anomalies: Sequence[Anomaly], operations: pa.Table, ground: Ground) -> dict[str, set[str]]:
    """Collect the types of anomaly of each race."""
    found: dict[str, set[str]] = {}
    for anomaly, attribution in zip(anomalies, attribute_all(anomalies, ground, operations), strict=True):
        for keyspace in attribution.races:
            found.setdefault(keyspace, set()).add(anomaly.type)
    return found
