"""Grids that were never run: their facts, as a batch's process writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from schemaquake.results.grid.facts import BatchFacts, FoundCause, RaceFacts, Symptom
from schemaquake.results.grid.folder import DoneBatch
from schemaquake.results.grid.plan import Batch, GridPlan

OLD, NEW = "cassandra:5.0.9", "cassandra:6.0-alpha2"


def grid_plan(**changes: object) -> GridPlan:
    """Plan a grid of two systems."""
    values: dict[str, object] = {"systems": (OLD, NEW), "tries": 2, "batch": 4, "command": "schemaquake grid"}
    return GridPlan(**{**values, **changes})  # type: ignore[arg-type]  # a test's own values


def symptom(name: str, words: str = "It is broken.") -> Symptom:
    """Make one anomaly of a race."""
    return Symptom(type=name, title=f"{name}: k.t", explanation=words)


def race(
    cell: str, *anomalies: str, acknowledged: int = 2, doubts: Sequence[str] = (), finding: FoundCause | None = None
) -> RaceFacts:
    """Make the facts of one race."""
    return RaceFacts(
        cell=cell,
        keyspace="sq_grid_000",
        statements=("DROP TYPE u", "CREATE TABLE t (k int)"),
        acknowledged=acknowledged,
        symptoms=tuple(map(symptom, anomalies)),
        finding=finding,
        doubts=tuple(doubts),
    )


def finished(
    batch: Batch,
    found: Mapping[str, Sequence[str]] | None = None,
    *,
    at_large: Sequence[str] = (),
    only: int | None = None,
) -> DoneBatch:
    """Finish a batch: `found` maps cells to their anomalies; with `only`, the races after that many never began."""
    races = tuple(race(cell, *(found or {}).get(cell, ())) for cell in batch.cells[:only])
    facts = BatchFacts(
        run="runs/x", completed=True, seconds=1.0, races=races, at_large=tuple(map(symptom, at_large)), command="c"
    )
    return DoneBatch(batch, facts)
