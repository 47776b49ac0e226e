"""Unique ids: was any id given out twice?

Judges, key by key, every answered `generate`; its value is the id.
Finds: `duplicate-id`. Source: the unique-ids test of the field (Kingsbury).
"""  # noqa: D400 - the question it answers

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Final, Literal

import orjson

from schemaquake.checkers.evidence.operation_lines import OperationLines, shortened
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.findings.catalogue import anomaly
from schemaquake.checkers.values.data_calls import calls_by_key, key_of
from schemaquake.harness.model.records import Records
from schemaquake.harness.model.verdict import Anomaly, Doubt, Verdict, make_stats

__all__ = ["UniqueIds"]

_TOLD_MOST: Final = 10
_SHOWN_MOST: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class UniqueIds:
    """No id is given out twice."""

    name: str = "unique-ids"
    scope: Literal["run", "keyspace"] = "run"
    finds: tuple[str, ...] = ("duplicate-id",)
    vouches: bool = True

    def check(self, records: Records, *, limit_s: float) -> Verdict:  # noqa: ARG002 - one pass needs no limit
        """Judge every answered `generate`. Raises HistoryError."""
        groups = calls_by_key(records.history, ("generate",), defining=("generate",))
        operations = OperationLines(records.history)
        anomalies: list[Anomaly] = []
        given = duplicated = 0
        for key, calls in groups.items():
            owners: dict[bytes, list[PairedOperation]] = defaultdict(list)
            for call in calls:
                if call.type == "ok":
                    owners[orjson.dumps(call.value, option=orjson.OPT_SORT_KEYS)].append(call)
                    given += 1
            twice = [(identity, of) for identity, of in owners.items() if len(of) > 1]
            duplicated += len(twice)
            anomalies += [
                _told(key, identity.decode(), of, operations) for identity, of in twice[: _TOLD_MOST - len(anomalies)]
            ]
        if not given:
            return Verdict.unknown(self.name, Doubt("nothing-to-judge", "no id was given out"))
        stats = make_stats({"given_out": given, "duplicated": duplicated})
        return Verdict(valid=not duplicated, checker=self.name, anomalies=tuple(anomalies), stats=stats)


def _told(key: str | None, identity: str, calls: list[PairedOperation], operations: OperationLines) -> Anomaly:
    lines = operations.lines([call.index for call in calls[:_SHOWN_MOST]])
    let = "\n".join(f"{'Let ' if n == 0 else '    '} T{n + 1} = {line}" for n, line in enumerate(lines))
    return anomaly(
        "duplicate-id",
        objects=key_of(key),
        nodes=[call.node for call in calls[:_SHOWN_MOST] if call.node is not None],
        ops=[call.index for call in calls[:_SHOWN_MOST]],
        evidence={"id": orjson.loads(identity), "times": len(calls)},
        explanation=f"{let}\nThen each of them got an id of its own.\n     But {len(calls)} of them got {shortened(identity)}.",
    )
