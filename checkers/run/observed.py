"""Observed: whether a run shows anything at all.

A run without an acknowledged change or write, or in which some node was not read in the end, or not again after it was
restarted, or in which rows were written and never read back, has not passed: nothing was judged. This checker never
accuses the cluster; it is what keeps an empty run from being called valid.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, Literal

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.checkers.evidence.node_schemas import final_readings
from schemaquake.checkers.evidence.notes import Notes
from schemaquake.checkers.findings.explanation import phase_text
from schemaquake.harness.ddl.schema_changes import SCHEMA_CHANGES
from schemaquake.harness.history.pairing import pair
from schemaquake.harness.model.operation import NEMESIS
from schemaquake.harness.model.records import Records, plain
from schemaquake.harness.model.verdict import Doubt, Verdict, make_stats

__all__ = ["Observed"]

_CHANGES: Final = SCHEMA_CHANGES | {"cql"}
_WRITES: Final = ("insert", "delete-row", "write", "cas", "add", "txn", "batch", "put")


class Observed:
    """Something was acknowledged, and every node was read in the end."""

    name = "observed"
    scope: Literal["keyspace", "run"] = "run"
    finds: tuple[str, ...] = ()
    vouches: bool = False

    def check(self, records: Records, *, limit_s: float) -> Verdict:  # noqa: ARG002 - counting takes one pass
        """True or unknown, with what was counted. Raises HistoryError."""
        paired = plain(pair(records.history)).select(["type", "f", "argument", "value", "error"])
        counts = _counts(paired)
        changed = _acknowledged_changes(paired)
        written = sum(counts.get(f, {}).get("ok", 0) for f in _WRITES)
        doubts = [] if changed or written else [Doubt("undecided", "no schema change and no write was acknowledged")]
        doubts += _unread(records)
        if counts.get("insert", {}).get("ok", 0) and not _rows_were_read(paired):
            doubts.append(Doubt("unread", "rows were written and never read after the cluster settled"))
        return Verdict(
            valid="unknown" if doubts else True,
            checker=self.name,
            stats=make_stats(
                {
                    "operations": len(paired),
                    "by_f": counts,
                    "errors": _errors(paired),
                    "acknowledged_changes": changed,
                    "acknowledged_writes": written,
                }
            ),
            doubts=tuple(doubts),
        )


def _counts(paired: pa.Table) -> Mapping[str, Mapping[str, int]]:
    """How many operations of each f had each outcome."""
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


def _acknowledged_changes(paired: pa.Table) -> int:
    """Schema changes that were acknowledged; a no-op of IF [NOT] EXISTS changed nothing."""
    acknowledged = paired.filter(
        pc.and_(pc.equal(paired["type"], "ok"), pc.is_in(paired["f"], value_set=pa.array(sorted(_CHANGES))))
    )
    values = (orjson.loads(value) if value else None for value in acknowledged["value"].to_pylist())
    return sum(not (isinstance(value, dict) and value.get("applied") is False) for value in values)


def _unread(records: Records) -> Iterable[Doubt]:
    """The nodes of which a final phase lacks a complete reading, with what they said instead.

    Those that took part are the booted ones; a history without notes of boots tells them by its coordinators. After
    the restart it is those that served again.
    """
    starts = Notes(records.history).starts
    history = plain(records.history.select(["process", "node"]))
    workers = history.filter(pc.not_equal(history["process"], NEMESIS))["node"].drop_null()
    expected = {
        "settled": frozenset(start.node for start in starts if start.phase == "boot")
        or frozenset(pc.unique(workers).to_pylist()),
        "restarted": frozenset(start.node for start in starts if start.phase == "restart" and start.served),
    }
    readings = final_readings(records.observations, nodes=expected["settled"] | expected["restarted"])
    if not readings.of("settled"):
        yield Doubt("unread", "no node was read after the cluster settled")
        return
    errors = {(unread.phase, unread.node): unread.error for unread in readings.unread}
    for phase, nodes in expected.items():
        for node in sorted(nodes - {schema.node for schema in readings.of(phase)}):
            told = errors.get((phase, node), "no reading of it was recorded")
            yield Doubt("unread", f"{node} was not read {phase_text(phase)}: {told}")


def _rows_were_read(paired: pa.Table) -> bool:
    reads = paired.filter(pc.and_(pc.equal(paired["f"], "read-rows"), pc.equal(paired["type"], "ok")))
    return any(
        orjson.loads(value).get("phase") == "settled" for value in reads["value"].to_pylist() if value is not None
    )
