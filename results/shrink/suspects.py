"""Suspects: the rounds of a churn run that may have caused an anomaly, the likeliest first.

Suspected is a round in which an operation of the anomaly's explanation was asked for, then one whose statements are about its objects,
then any other of its keyspaces; the earlier one first. An anomaly that names no keyspace is looked for in those
where others were found.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
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

__all__ = ["Suspects", "read_suspects", "suspected_rounds"]

_MOST: Final = 60
"""The rounds that are tried at most."""


@dataclass(frozen=True, slots=True)
class Suspects:
    """The rounds of a run of churn, made again from its plan, and when each was begun."""

    rounds: tuple[ChurnRound, ...]
    events: pa.Table
    noted: Sequence[tuple[int, str, Mapping[str, Any]]]
    fallback: frozenset[str]
    """Keyspaces in which anomalies were found, or else all: where those are looked for that name none."""

    def of(self, anomalies: Sequence[Anomaly]) -> tuple[Race, ...]:
        """Return the rounds that may have caused these anomalies, the likeliest first."""
        keyspaces = (_keyspaces(anomalies) & {key for _, key, _ in self.noted}) or self.fallback
        asked = _rounds_of({op for one in anomalies for op in one.ops}, self.events, self.noted)
        names = {name.rpartition(".")[2] for one in anomalies for name in one.objects}

        def suspicion(found: ChurnRound) -> tuple[bool, bool, int]:
            in_it = (found.race.keyspace, found.number) in asked
            return not in_it, not names & found.names, found.number

        mine = [found for found in self.rounds if found.race.keyspace in keyspaces]
        return tuple(found.race for found in sorted(mine, key=suspicion)[:_MOST])


def read_suspects(store: Store, plan: Plan, anomalies: Sequence[Anomaly]) -> Suspects | None:
    """Return the rounds of the store's run in whose keyspaces these were found; None if the run had no rounds.

    Raises PlanError if the plan does not give the rounds that the history notes.
    """
    if SchemaChurn.name not in plan.workloads:
        return None
    events = read_table(
        store.path("history.parquet"),
        pa.schema([HISTORY.field(name) for name in ("index", "time", "process", "f", "key", "value")]),
    )
    noted = _noted(events)
    if not noted:
        return None
    known = {key for _, key, _ in noted}
    every = anomalies_of(store.read_verdict())
    fallback = (_keyspaces(every) & known) or known
    nameless = any(not _keyspaces([one]) & known for one in anomalies)
    keyspaces = (_keyspaces(anomalies) & known) | (fallback if nameless else set())
    rounds = rounds_in(
        plan.context(features_of(plan)), keyspaces=keyspaces, rounds=1 + max(note["round"] for _, _, note in noted)
    )
    _refuse_others(rounds, noted, keyspaces)
    return Suspects(rounds, events, noted, frozenset(fallback))


def suspected_rounds(store: Store, plan: Plan, anomaly: str) -> tuple[Race, ...]:
    """Return the suspected rounds of all anomalies of that type; empty if the run had no rounds. Raises PlanError as `read_suspects`."""
    chosen = [one for one in anomalies_of(store.read_verdict()) if one.type == anomaly]
    suspects = read_suspects(store, plan, chosen)
    return () if suspects is None else suspects.of(chosen)


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
