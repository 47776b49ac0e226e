"""Suspects: the rounds of a churn run that may have caused an anomaly, the likeliest first.

Suspected is a round in which an operation of the anomaly's explanation was asked for, then one whose statements are about its objects,
then any other of its keyspaces; the earlier one first. An anomaly that names no keyspace is looked for in those
where others were found.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.harness.ddl.cql import statement
from schemaquake.harness.errors import PlanError
from schemaquake.harness.model.operation import NEMESIS
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.model.records import HISTORY, keyspace_of, plain
from schemaquake.harness.model.steps import Invoke
from schemaquake.harness.model.verdict import Anomaly
from schemaquake.results.matrix.machine import features_of
from schemaquake.results.report.material import anomalies_of
from schemaquake.results.store.store import Store, read_table
from schemaquake.workloads.churn.races import ChurnRound, rounds_in
from schemaquake.workloads.churn.schema_churn import SchemaChurn
from schemaquake.workloads.races.engine import Race

__all__ = ["suspected_rounds"]

_MOST: Final = 60
"""The rounds that are tried at most."""


def suspected_rounds(store: Store, plan: Plan, anomaly: str) -> tuple[Race, ...]:
    """Return rounds of the store's run as races; empty if it had none.

    Raises PlanError if the plan does not give the rounds that the history notes.
    """
    if SchemaChurn.name not in plan.workloads:
        return ()
    events = read_table(
        store.path("history.parquet"),
        pa.schema([HISTORY.field(name) for name in ("index", "time", "process", "f", "key", "value")]),
    )
    noted = _noted(events)
    if not noted:
        return ()
    every = anomalies_of(store.read_verdict())
    chosen = [one for one in every if one.type == anomaly]
    known = {key for _, key, _ in noted}
    keyspaces = (_keyspaces(chosen) & known) or (_keyspaces(every) & known) or known
    rounds = rounds_in(
        plan.context(features_of(plan)), keyspaces=keyspaces, rounds=1 + max(note["round"] for _, _, note in noted)
    )
    _refuse_others(rounds, noted, keyspaces)
    asked = _rounds_of({op for one in chosen for op in one.ops}, events, noted)
    names = {name.rpartition(".")[2] for one in chosen for name in one.objects}

    def suspicion(found: ChurnRound) -> tuple[bool, bool, int]:
        in_it = (found.race.keyspace, found.number) in asked
        return not in_it, not names & found.names, found.number

    return tuple(found.race for found in sorted(rounds, key=suspicion)[:_MOST])


def _noted(events: pa.Table) -> list[tuple[int, str, Mapping[str, Any]]]:
    """Return (time, keyspace, note) of every round, in order."""
    notes = plain(events.filter(pc.and_(pc.equal(events["process"], NEMESIS), pc.equal(events["f"], "meeting"))))
    return [(row["time"], row["key"], orjson.loads(row["value"])) for row in notes.to_pylist()]


def _keyspaces(anomalies: Iterable[Anomaly]) -> set[str]:
    return {keyspace for one in anomalies for name in one.objects if (keyspace := keyspace_of(name)) is not None}


def _rounds_of(
    ops: set[int], events: pa.Table, noted: Sequence[tuple[int, str, Mapping[str, Any]]]
) -> set[tuple[str, int]]:
    """Return (keyspace, round) of each of these operations: the last round of its keyspace that was noted before it."""
    by_keyspace: dict[str, list[tuple[int, int]]] = {}
    for time, keyspace, note in noted:
        by_keyspace.setdefault(keyspace, []).append((time, note["round"]))
    rows = plain(events.filter(pc.is_in(events["index"], pa.array(sorted(ops), pa.int64()))).select(["time", "key"]))
    found = set()
    for row in rows.to_pylist():
        rounds = by_keyspace.get(keyspace_of(row["key"]) or "", [])
        place = bisect_right(rounds, (row["time"], len(noted))) - 1
        if place >= 0:
            found.add((keyspace_of(row["key"]) or "", rounds[place][1]))
    return found


def _refuse_others(
    rounds: Sequence[ChurnRound], noted: Sequence[tuple[int, str, Mapping[str, Any]]], keyspaces: set[str]
) -> None:
    """Raise PlanError if the rounds that were made again are not those of the run."""
    was = {
        (keyspace, note["round"]): {text for side in note["sides"] for text in side}
        for _, keyspace, note in noted
        if keyspace in keyspaces
    }
    made: dict[tuple[str, int], set[str]] = {}
    for found in rounds:
        texts = {
            statement(step.f, step.value) for side in found.race.sides for step in side if isinstance(step, Invoke)
        }
        made.setdefault((found.race.keyspace, found.number), texts)
    for place, texts in was.items():
        if made.get(place) != texts:
            raise PlanError(
                f"round {place[1]} of {place[0]} cannot be made again from the plan: was the run made by another version?"
            )
