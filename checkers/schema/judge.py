"""Judgement: from a checker's findings to its verdict, with the three ways of not knowing.

A structure checker looks at one thing after another and yields a finding or nothing for each. Here it is decided what
that makes together: false if anything was found; unknown if there was nothing to read, if a node that should have
been read was not, if one of the things could not be decided, or if time ran out; true otherwise.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow.compute as pc

from schemaquake.checkers.evidence.node_schemas import FinalReadings, final_readings
from schemaquake.checkers.evidence.schema_changes import SchemaChanges
from schemaquake.harness.model.records import Records, plain
from schemaquake.harness.model.verdict import Anomaly, Doubt, Stat, Validity, Verdict, make_stats

__all__ = ["Case", "Findings", "judge"]

Findings: TypeAlias = Iterator[Anomaly | Doubt | None]
"""One element for each thing that was judged: what was found, or None; a text says why it could not be decided."""


@dataclass(frozen=True, slots=True)
class Case:
    """What a structure checker looks at: who asked for what, and what every node has in the end."""

    changes: SchemaChanges
    readings: FinalReadings
    records: Records


def judge(
    checker: str, records: Records, find: Callable[[Case], Findings], *, limit_s: float, needs_changes: bool = False
) -> Verdict:
    """The verdict on everything that `find` yields before the time limit.

    `needs_changes`: without any acknowledged schema change there is nothing to judge. (A keyspace among many may well
    have none; a whole run must.) Raises HistoryError.
    """
    ends = time.monotonic() + limit_s
    nodes = frozenset(node for node in pc.unique(plain(records.history)["node"]).to_pylist() if node is not None)
    case = Case(SchemaChanges(records.history), final_readings(records.observations, nodes=nodes), records)
    if not case.readings.schemas:
        return Verdict.unknown(checker, Doubt("nothing-to-judge", "no final reading of any node"))
    if needs_changes and not case.changes.acknowledged:
        return Verdict.unknown(checker, Doubt("nothing-to-judge", "no schema change was acknowledged"))
    anomalies: list[Anomaly] = []
    judged = 0
    doubts = _unread(case.readings)
    late = False
    for finding in find(case):
        if late:
            doubts.append(Doubt("time", f"the time limit of {limit_s:g} s passed after {judged} objects"))
            break
        judged += 1
        if isinstance(finding, Doubt):
            doubts.append(finding)
        elif finding is not None:
            anomalies.append(finding)
        late = time.monotonic() > ends
    valid: Validity = False if anomalies else "unknown" if doubts else True
    nodes_read = len({schema.node for schema in case.readings.schemas})
    stats = make_stats({"judged": judged, "nodes": Stat(nodes_read, merge="max")})
    return Verdict(valid=valid, checker=checker, anomalies=tuple(anomalies), stats=stats, doubts=tuple(doubts))


def _unread(readings: FinalReadings) -> list[Doubt]:
    """Nodes without a reading in the first final phase. One that did not survive the restart is judged elsewhere."""
    return [
        Doubt("unread", f"{unread.node} could not be read in phase {unread.phase}: {unread.error}")
        for unread in readings.unread
        if unread.phase == readings.phases[0]
    ]
