"""Observed: whether there is anything to judge.

A run in which nothing was acknowledged, or some node was never read in the end, proves nothing, whatever the other
checkers did not find. Judges the events' outcomes and the readings of each final phase. Never accuses the cluster: the
verdict is true, or unknown with everything that is missing.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from checkers.explanation import phase_text
from checkers.notes import notes
from checkers.schema_effects import SchemaChanges
from checkers.schema_views import FinalReadings, final_readings
from harness.operations import NEMESIS
from harness.records import Records, plain
from harness.verdict import Verdict

__all__ = ["Observed"]

_WRITES: Final = ("insert", "delete-row")


class Observed:
    """Whether something was acknowledged, and every node that should have been read was."""

    name = "observed"
    scope: Final = "run"

    def check(self, records: Records, *, limit_s: float) -> Verdict:  # noqa: ARG002 - counting takes no time
        """True if there is something to judge, unknown otherwise. Raises HistoryError."""
        history = plain(records.history.select(["process", "type", "f", "node", "error"]))
        events = history.filter(pc.not_equal(history["process"], NEMESIS))
        reasons = [] if _acknowledged(records.history, events) else ["no schema change and no write was acknowledged"]
        reasons += _unread(records, events)
        return Verdict(
            valid="unknown" if reasons else True,
            checker=self.name,
            stats={"operations": _operations(events), "errors": _errors(events)},
            reason=f"nothing to judge: {'; '.join(reasons)}" if reasons else None,
        )


def _acknowledged(history: pa.Table, events: pa.Table) -> bool:
    """A schema change of IF [NOT] EXISTS that was told to be a no-op does not count."""
    writes = pc.and_(pc.equal(events["type"], "ok"), pc.is_in(events["f"], value_set=pa.array(_WRITES)))
    return bool(pc.any(writes).as_py()) or SchemaChanges(history).acknowledged


def _unread(records: Records, events: pa.Table) -> list[str]:
    """The nodes of which a final phase has no complete reading, with what they said instead.

    Those that took part are the booted ones; a history without notes of boots names them by its coordinators. After
    a restart only nodes that served again can be read.
    """
    starts = notes(records.history, "node-start")
    booted = {note.node for note in starts if note.value["phase"] == "boot"} or set(
        pc.unique(events["node"]).to_pylist()
    )
    restarted = {note.node for note in starts if note.value["phase"] == "restart" and note.value["served"]}
    expected = {
        "settled": frozenset(node for node in booted if node is not None),
        "restarted": frozenset(node for node in restarted if node is not None),
    }
    readings = final_readings(records.observations, nodes=expected["settled"] | expected["restarted"])
    found = [reason for phase, nodes in expected.items() for reason in _missing(readings, phase, nodes)]
    if not expected["settled"] and not readings.schemas:
        found.append("no node was read")
    return found


def _missing(readings: FinalReadings, phase: str, nodes: frozenset[str]) -> list[str]:
    read = {schema.node for schema in readings.of(phase)}
    errors = {unread.node: unread.error for unread in readings.unread if unread.phase == phase}
    return [
        f"{phase_text(phase)} {node} was not read ({errors.get(node, 'no reading of it was recorded')})"
        for node in sorted(nodes - read)
    ]


def _operations(events: pa.Table) -> dict[str, dict[str, int]]:
    """Events by f and type; what was invoked and never answered is the difference."""
    counts: dict[str, dict[str, int]] = {}
    for row in events.group_by(["f", "type"]).aggregate([([], "count_all")]).sort_by("f").to_pylist():
        counts.setdefault(row["f"], {})[row["type"]] = row["count_all"]
    return {f: dict(sorted(types.items())) for f, types in counts.items()}


def _errors(events: pa.Table) -> dict[str, int]:
    """Events by class of error (its text before the first colon), the most frequent first."""
    classes = pc.replace_substring_regex(events["error"].drop_null(), r"(?s):.*", "")
    counted = [(row["values"], row["counts"]) for row in pc.value_counts(classes).to_pylist()]
    return dict(sorted(counted, key=lambda pair: (-pair[1], pair[0])))
