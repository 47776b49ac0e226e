"""Observed: the run holds enough observations for a verdict.

A run does not pass without an acknowledged change or write, without a final reading of every node, both after settling
and after a restart, with rows that were written and never read back, with a phase that was cut short, or with notes of
the conductor that are missing or contradict one another (`schemaquake.checkers.run.course`). This checker never accuses
the cluster; it keeps an empty run from being called valid.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, Literal

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.notes import Notes
from schemaquake.checkers.evidence.schema_changes import SchemaObject
from schemaquake.checkers.findings.explanation import phase_text
from schemaquake.checkers.findings.tally import Tally
from schemaquake.checkers.run.course import find_gaps
from schemaquake.harness.ddl.schema_changes import SCHEMA_CHANGES
from schemaquake.harness.model.operation import NEMESIS
from schemaquake.harness.model.records import Records, plain
from schemaquake.harness.model.verdict import Doubt, Verdict

__all__ = ["Observed"]

_CHANGES: Final = SCHEMA_CHANGES | {"cql"}
_WRITES: Final = ("insert", "delete-row", "truncate", "write", "cas", "add", "txn", "batch", "put")
_DATA: Final = ("write", "cas", "add", "txn", "batch", "put", "write-rows")


class Observed:
    """A change or write was acknowledged, and every node was read in the end."""

    name = "observed"
    scope: Literal["keyspace", "run"] = "run"
    finds: tuple[str, ...] = ()
    vouches: bool = False

    def check(self, records: Records, *, limit_s: float) -> Verdict:  # noqa: ARG002 - counting takes one pass
        """Judge whether the run was observed: true or unknown, with counts. Raises HistoryError."""
        evidence = Evidence.of(records)
        paired = evidence.paired().select(["type", "f", "argument", "value", "error"])
        counts = _count_outcomes(paired)
        changed = _count_acknowledged_changes(paired)
        written = sum(counts.get(f, {}).get("ok", 0) for f in _WRITES)
        tally = Tally(self.name)
        if not changed and not written:
            tally.doubt(Doubt("undecided", "no schema change and no write was acknowledged"))
        tally.doubt(*_list_unread_nodes(records), *_list_shortened_phases(evidence.notes), *find_gaps(evidence))
        if _are_rows_to_be_read(evidence, paired) and not _have_rows_been_read(paired):
            tally.doubt(Doubt("unread", "rows were written and never read after the cluster settled"))
        if _is_data_unread(evidence, paired):
            tally.doubt(Doubt("unread", "data were written, and nothing was read after the cluster settled"))
        return tally.verdict(
            operations=len(paired),
            by_f=counts,
            errors=_count_errors(paired),
            acknowledged_changes=changed,
            acknowledged_writes=written,
        )


def _count_outcomes(paired: pa.Table) -> Mapping[str, Mapping[str, int]]:
    """Count the operations of each f by outcome."""
    grouped = paired.group_by(["f", "type"], use_threads=False).aggregate([("f", "count")])
    counts: dict[str, dict[str, int]] = {}
    for row in sorted(grouped.to_pylist(), key=lambda row: (row["f"], row["type"])):
        counts.setdefault(row["f"], {})[row["type"]] = row["f_count"]
    return counts


def _count_errors(paired: pa.Table) -> Mapping[str, int]:
    """Count the errors by class, the text before the first colon."""
    texts = pc.drop_null(paired["error"]).value_counts().to_pylist()
    classes: Counter[str] = Counter()
    for entry in texts:
        match = re.match(r"[\w.]+", entry["values"])
        classes[match[0] if match else "other"] += entry["counts"]
    return dict(sorted(classes.items()))


def _count_acknowledged_changes(paired: pa.Table) -> int:
    """Count the acknowledged schema changes, without no-ops of IF [NOT] EXISTS."""
    acknowledged = paired.filter(
        pc.and_(pc.equal(paired["type"], "ok"), pc.is_in(paired["f"], value_set=pa.array(sorted(_CHANGES))))
    )
    values = (orjson.loads(value) if value else None for value in acknowledged["value"].to_pylist())
    return sum(not (isinstance(value, dict) and value.get("applied") is False) for value in values)


def _list_unread_nodes(records: Records) -> Iterable[Doubt]:
    """Yield a doubt for each node that was not read completely in a final phase, with its error.

    The nodes of a run are the booted ones, and in a history without notes of boots its coordinators. After the restart
    they are the ones that served again.
    """
    evidence = Evidence.of(records)
    notes, starts = evidence.notes, evidence.notes.starts
    history = plain(records.history.select(["process", "node"]))
    workers = history.filter(pc.not_equal(history["process"], NEMESIS))["node"].drop_null()
    expected = {
        "settled": frozenset(start.node for start in starts if start.phase == "boot")
        or frozenset(pc.unique(workers).to_pylist()),
        "restarted": frozenset(start.node for start in starts if start.phase == "restart" and start.served),
    }
    if (began := notes.began("final-settled")) is not None:
        expected["settled"] |= notes.membership.serving(began)
    readings = evidence.shown
    if not readings.of("settled"):
        yield Doubt("unread", "no node was read after the cluster settled")
        return
    errors = {(unread.phase, unread.node): unread.error for unread in readings.unread}
    for phase, nodes in expected.items():
        for node in sorted(nodes - notes.gone(phase, nodes) - {schema.node for schema in readings.of(phase)}):
            reason = errors.get((phase, node), "no reading of it was recorded")
            yield Doubt("unread", f"{node} was not read {phase_text(phase)}: {reason}")


def _list_shortened_phases(notes: Notes) -> Iterable[Doubt]:
    """Yield a doubt for each phase whose steps were not all taken: what they would have read is missing."""
    for phase, because in dict.fromkeys(notes.shortened):
        yield Doubt("incomplete-run", f"phase {phase} ended before its steps did: {because}")
    for phase in notes.unended:
        yield Doubt("incomplete-run", f"phase {phase} began and never ended")


def _are_rows_to_be_read(evidence: Evidence, paired: pa.Table) -> bool:
    """Tell if a row was written whose table may still be there: one that a DROP can have taken and that no node shows has none."""
    written = pc.and_(pc.equal(paired["f"], "insert"), pc.equal(paired["type"], "ok"))
    arguments = [orjson.loads(text) for text in pc.unique(paired.filter(written)["argument"]).to_pylist()]
    tables = {(argument["keyspace"], argument["table"]) for argument in arguments}
    shown = {
        (keyspace, name)
        for schema in evidence.shown.of("settled")
        for _, keyspace, name in (*schema.stored(), *schema.live)
    }
    return any(table in shown or not evidence.changes.drops(SchemaObject("table", *table)) for table in sorted(tables))


def _is_data_unread(evidence: Evidence, paired: pa.Table) -> bool:
    """Tell if clients wrote data other than rows of races, and asked for nothing any more in the final phases."""
    began = evidence.notes.began("final-settled")
    written = pc.and_(pc.equal(paired["type"], "ok"), pc.is_in(paired["f"], value_set=pa.array(_DATA)))
    if began is None or not pc.any(written).as_py():
        return False
    history = plain(evidence.history.select(["time", "process", "f"]))
    late = history.filter(pc.and_(pc.greater_equal(history["time"], began), pc.not_equal(history["process"], NEMESIS)))
    return not len(late)


def _have_rows_been_read(paired: pa.Table) -> bool:
    reads = paired.filter(pc.and_(pc.equal(paired["f"], "read-rows"), pc.equal(paired["type"], "ok")))
    return any(
        orjson.loads(value).get("phase") == "settled" for value in reads["value"].to_pylist() if value is not None
    )
