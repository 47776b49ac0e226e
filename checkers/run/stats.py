"""Stats: counts of operations of each kind by outcome, and of their errors.

Judges every operation of a client. Never accuses the cluster: `stats` lists the kinds of operations that never succeeded,
and a history in which no operation succeeded is `unknown`. Errors of unknown outcome, which no table of outcomes
explains, are counted by their first words (`unhandled`), with the index of one example each.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.findings.limits import LIMITS
from schemaquake.checkers.findings.tally import Tally
from schemaquake.harness.model.records import Records, plain
from schemaquake.harness.model.verdict import Doubt, Verdict

__all__ = ["Stats"]

_LIMITS: Final = replace(LIMITS, error_length=400)  # bounds the time of the pattern
_NUMBERS: Final = re.compile(r"[\w.-]*\d[\w.:-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """Counts of operations by kind and outcome."""

    name: str = "stats"
    scope: Literal["run", "keyspace"] = "run"
    finds: tuple[str, ...] = ()
    vouches: bool = False

    def check(self, records: Records, *, limit_s: float) -> Verdict:  # noqa: ARG002 - one pass needs no limit
        """Count the operations of all clients. Raises HistoryError."""
        invocation, completion = Evidence.of(records).ends()
        if not len(invocation):
            return Verdict.unknown(self.name, Doubt("nothing-to-judge", "no client invoked an operation"))
        events = plain(records.history.select(["index", "type", "f", "error"]))
        functions = events["f"].take(pa.array(invocation))
        answers = events.take(pa.array(completion, mask=completion < 0))
        types = pc.fill_null(answers["type"], "info")
        counted = (
            pa.table({"f": functions, "type": types})
            .group_by(["f", "type"], use_threads=False)
            .aggregate([([], "count_all")])
        )
        by_function: dict[str, dict[str, int]] = {}
        for row in counted.sort_by([("f", "ascending"), ("type", "ascending")]).to_pylist():
            by_function.setdefault(row["f"], {"ok": 0, "fail": 0, "info": 0})[row["type"]] = row["count_all"]
        succeeded = sum(counts["ok"] for counts in by_function.values())
        tally = Tally(self.name)
        if not succeeded:
            tally.doubt(Doubt("undecided", "no operation succeeded"))
        return tally.verdict(
            operations=len(invocation),
            ok=succeeded,
            by_function=by_function,
            never_succeeded=[f for f, counts in by_function.items() if not counts["ok"]],
            unhandled=_list_unhandled(answers, np.asarray(types.to_numpy(zero_copy_only=False))),
        )


def _list_unhandled(answers: pa.Table, types: Any) -> list[dict[str, Any]]:
    """List the errors of unknown outcome by their text without words that contain digits, the most frequent first."""
    kinds: Counter[str] = Counter()
    examples: dict[str, tuple[int, str]] = {}
    unknown = answers.filter(pa.array(types == "info")).filter(
        pc.is_valid(answers.filter(pa.array(types == "info"))["error"])
    )
    for row in unknown.select(["index", "error"]).to_pylist():
        error = row["error"][: _LIMITS.error_length]
        kind = _NUMBERS.sub("…", error.partition("\n")[0])[:120]
        kinds[kind] += 1
        examples.setdefault(kind, (row["index"], error))
    return [
        {"error": kind, "count": count, "index": examples[kind][0], "example": examples[kind][1]}
        for kind, count in kinds.most_common(_LIMITS.objects)
    ]
