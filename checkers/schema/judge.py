"""Judgement: from a structure checker's findings to its verdict, with the three ways of not knowing.

A structure checker looks at one object after another and yields a finding or None for each. The verdict is false if
anything was found; unknown if there was nothing to read, if a node that should have been read was not, if an object
could not be decided, or if time ran out; true otherwise.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TypeAlias

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.node_schemas import FinalReadings
from schemaquake.checkers.evidence.schema_changes import can_follow
from schemaquake.checkers.findings.tally import Tally
from schemaquake.harness.model.records import Records
from schemaquake.harness.model.verdict import Anomaly, Doubt, Stat, Verdict

__all__ = ["Findings", "doubt_free_text", "judge"]

Findings: TypeAlias = Iterator[Anomaly | Doubt | None]
"""One element for each object judged: an anomaly, a doubt why it could not be decided, or None for a sound one."""


def judge(
    checker: str, records: Records, find: Callable[[Evidence], Findings], *, limit_s: float, needs_changes: bool = False
) -> Verdict:
    """Make the verdict on everything that `find` yields before the time limit.

    `needs_changes`: without any acknowledged schema change there is nothing to judge. (A keyspace among many may well
    have none; a whole run must.) A keyspace that was read, and in which nothing of the kind is left or was promised, is
    sound; that no keyspace of a run had any is found where they are combined. Raises HistoryError.
    """
    ends = time.monotonic() + limit_s
    evidence = Evidence.of(records)
    changes, readings = evidence.changes, evidence.readings
    if not readings.schemas:
        return Verdict.unknown(checker, Doubt("nothing-to-judge", "no final reading of any node"))
    if needs_changes and not changes.acknowledged:
        return Verdict.unknown(checker, Doubt("nothing-to-judge", "no schema change was acknowledged"))
    tally = Tally(checker)
    tally.doubt(*_unread(readings))
    late = False
    for finding in find(evidence):
        if late:
            tally.doubt(Doubt("time", f"the time limit of {limit_s:g} s passed after {tally.judged} objects"))
            break
        tally.judge(finding)
        late = time.monotonic() > ends
    nodes = len({schema.node for schema in readings.schemas})
    return tally.verdict(judged=tally.judged, nodes=Stat(nodes, merge="max"))


def _unread(readings: FinalReadings) -> Iterator[Doubt]:
    """List nodes without a reading in the first final phase. One that did not survive the restart is judged elsewhere."""
    for unread in readings.unread:
        if unread.phase == readings.phases[0]:
            yield Doubt("unread", f"{unread.node} could not be read in phase {unread.phase}: {unread.error}")


def doubt_free_text(case: Evidence, keyspace: str, finding: Anomaly | None) -> Anomaly | Doubt | None:
    """Return a finding about this keyspace, or a doubt where a statement in free text may be why, whose meaning is not known.

    One that was answered before the operations of the finding began is not.
    """
    if finding is None:
        return None
    named = [operation for operation in case.changes.all if operation.index in finding.ops]
    texts = [
        text
        for text in case.changes.texts(keyspace)
        if not named or any(can_follow(text, operation) for operation in named)
    ]
    if not texts:
        return finding
    text = f"{finding.type}, unless op {texts[0].index}, free text whose meaning is not known, is why"
    return Doubt("undecided", text, finding.objects)
