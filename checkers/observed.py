"""Observed: whether a run shows anything at all.

A run without an acknowledged change or write, or in which some node's schema was not read in the end, or in which rows
were written and never read back, has not passed: nothing was judged. This checker never accuses the cluster; it is what
keeps an empty run from being called valid.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, Literal

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from checkers.schema_views import final_readings
from harness.history import pair
from harness.operations import NEMESIS
from harness.records import Records, plain
from harness.schema_changes import SCHEMA_CHANGES
from harness.verdict import Verdict

__all__ = ["Observed"]

_CHANGES: Final = SCHEMA_CHANGES | {"cql"}
_NODES_TOLD_MAX: Final = 5


class Observed:
    """Something was acknowledged, and every node was read in the end."""

    name = "observed"
    scope: Literal["keyspace", "run"] = "run"

    def check(self, records: Records, *, limit_s: float) -> Verdict:  # noqa: ARG002 - counting takes one pass
        """True or unknown, with what was counted. Raises HistoryError."""
        paired = plain(pair(records.history)).select(["type", "f", "argument", "value", "error"])
        counts = _counts(paired)
        changed = sum(by_type.get("ok", 0) for f, by_type in counts.items() if f in _CHANGES)
        written = counts.get("insert", {}).get("ok", 0)
        doubts = [] if changed or written else ["no schema change and no write was acknowledged"]
        doubts += _unread(records)
        if written and not _rows_were_read(paired):
            doubts.append("rows were written and never read after the cluster settled")
        return Verdict(
            valid="unknown" if doubts else True,
            checker=self.name,
            stats={
                "operations": len(paired),
                "by_f": counts,
                "errors": _errors(paired),
                "acknowledged_changes": changed,
                "acknowledged_writes": written,
            },
            reason="; ".join(doubts) or None,
        )


def _counts(paired: pa.Table) -> Mapping[str, Mapping[str, int]]:
    """f → type → how many."""
    grouped = paired.group_by(["f", "type"]).aggregate([("f", "count")])
    counts: dict[str, dict[str, int]] = {}
    for row in sorted(grouped.to_pylist(), key=lambda row: (row["f"], row["type"])):
        counts.setdefault(row["f"], {})[row["type"]] = row["f_count"]
    return counts


def _errors(paired: pa.Table) -> Mapping[str, int]:
    """Class of error → how many; the class is what stands before the first colon."""
    texts = pc.drop_null(paired["error"]).value_counts().to_pylist()
    classes: Counter[str] = Counter()
    for entry in texts:
        match = re.match(r"[\w.]+", entry["values"])
        classes[match[0] if match else "other"] += entry["counts"]
    return dict(sorted(classes.items()))


def _unread(records: Records) -> Iterable[str]:
    """Nodes of the run that have no complete reading after it settled."""
    history = plain(records.history.select(["process", "f", "node"]))
    told = history.filter(pc.or_(pc.not_equal(history["process"], NEMESIS), pc.equal(history["f"], "node-start")))
    nodes = frozenset(node for node in pc.unique(told["node"]).to_pylist() if node is not None)
    readings = final_readings(records.observations, nodes=nodes)
    if not readings.of("settled"):
        return ["no node was read after the cluster settled"]
    missing = [unread for unread in readings.unread if unread.phase == "settled"]
    return [
        f"{unread.node} was not read after the cluster settled: {unread.error}" for unread in missing[:_NODES_TOLD_MAX]
    ]


def _rows_were_read(paired: pa.Table) -> bool:
    reads = paired.filter(pc.and_(pc.equal(paired["f"], "read-rows"), pc.equal(paired["type"], "ok")))
    return any(
        orjson.loads(value).get("phase") == "settled" for value in reads["value"].to_pylist() if value is not None
    )
