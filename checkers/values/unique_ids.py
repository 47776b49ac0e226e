"""Unique ids: no id is given out twice.

Judges, key by key, every answered `generate`, whose value is the id.
Finds: `duplicate-id`. Source: the unique-ids test of the field (Kingsbury).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from typing import Literal

import orjson

from schemaquake.checkers.evidence.operation_lines import OperationLines, shortened
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.findings.argument import Argument, label
from schemaquake.checkers.findings.catalogue import anomaly
from schemaquake.checkers.findings.limits import LIMITS
from schemaquake.checkers.findings.tally import Tally
from schemaquake.checkers.values.data_calls import group_calls_by_key, list_objects
from schemaquake.harness.counts import counted
from schemaquake.harness.model.records import Records
from schemaquake.harness.model.verdict import Anomaly, Doubt, Verdict

__all__ = ["UniqueIds"]


@dataclass(frozen=True, slots=True, kw_only=True)
class UniqueIds:
    """No id is given out twice."""

    name: str = "unique-ids"
    scope: Literal["run", "keyspace"] = "run"
    finds: tuple[str, ...] = ("duplicate-id",)
    vouches: bool = True

    def check(self, records: Records, *, limit_s: float) -> Verdict:  # noqa: ARG002 - one pass needs no limit
        """Judge every answered `generate`. Raises HistoryError."""
        groups = group_calls_by_key(records.history, ("generate",), defining=("generate",))
        operations = OperationLines(records.history)
        tally = Tally(self.name, keep=LIMITS.findings)
        given = duplicated = 0
        for key, calls in groups.items():
            owners: dict[bytes, list[PairedOperation]] = defaultdict(list)
            missing = [call for call in calls if call.type == "ok" and call.value is None]
            if missing:
                text = f"{counted(len(missing), 'operation was', 'operations were')} answered without an id, the first of them op {missing[0].index}"
                tally.doubt(Doubt("undecided", text, list_objects(key)))
            for call in calls:
                if call.type == "ok" and call.value is not None:
                    owners[orjson.dumps(call.value, option=orjson.OPT_SORT_KEYS)].append(call)
                    given += 1
            for identity, owner_calls in owners.items():
                if len(owner_calls) > 1:
                    duplicated += 1
                    tally.find("duplicate-id", partial(_report, key, identity.decode(), owner_calls, operations))
        if not given:
            return Verdict.unknown(self.name, Doubt("nothing-to-judge", "no id was given out"))
        return tally.verdict(given_out=given, duplicated=duplicated)


def _report(key: str | None, identity: str, calls: list[PairedOperation], operations: OperationLines) -> Anomaly:
    lines = operations.lines([call.index for call in calls[: LIMITS.lines]])
    return anomaly(
        "duplicate-id",
        objects=list_objects(key),
        nodes=[call.node for call in calls[: LIMITS.lines] if call.node is not None],
        ops=[call.index for call in calls[: LIMITS.lines]],
        evidence={"id": orjson.loads(identity), "times": len(calls)},
        explanation=Argument(
            label(lines),
            "each operation must get an id of its own.",
            f"{len(calls)} of them got {shortened(identity)}.",
        ).render(),
    )
