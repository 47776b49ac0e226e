"""Tally: the matrix as rows and cells (`schemaquake.results.summary.cell`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from schemaquake.results.findings.tracking import TrackedFinding
from schemaquake.results.summary.cell import Cell, condition_name, document_of, mode_and_nemeses

__all__ = ["Matrix", "Row"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of the matrix, with one cell per system: an anomaly of a workload in a mode, or any anomaly if `anomaly` is None."""

    workload: str
    mode: str
    nemeses: tuple[str, ...] = ()
    anomaly: str | None = None
    title: str = ""
    """Title of the anomaly in the catalogue; empty for the row "any anomaly"."""

    @property
    def condition(self) -> str:
        """The mode with the active nemeses: `barrier, kill and pause`."""
        return condition_name(self.mode, self.nemeses)

    def cell_not_run(self, system: str) -> Cell:
        """Build the cell of a system on which the row was never run."""
        return Cell(
            system=system,
            workload=self.workload,
            mode=self.mode,
            nemeses=self.nemeses,
            anomaly=self.anomaly,
            state="not run",
        )

    def to_json(self) -> dict[str, Any]:
        """Return the row as the document in tally.json."""
        return document_of(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Row:
        """Parse what `to_json` returned."""
        mode, nemeses = mode_and_nemeses(document)
        return cls(**{**document, "mode": mode, "nemeses": nemeses})


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """The whole matrix: the input of the page, and the document of `--json`.

    `rows` are in the order of the page: workloads as planned, each with the row "any anomaly" and then its anomalies.
    `cells` has one cell for every row and system. Controls run the same statements one after another through one
    coordinator (mode `single`), where no anomaly may be found; `control_rows` and `controls` have the same form.
    """

    systems: tuple[str, ...]
    rows: tuple[Row, ...]
    cells: tuple[Cell, ...]
    control_rows: tuple[Row, ...] = ()
    controls: tuple[Cell, ...] = ()
    started: str
    """UTC, ISO 8601."""
    finished: str | None = None
    """None while the matrix is running or after an interruption; `--resume` continues it."""
    seconds: float = 0.0
    """Wall time of all sessions, without the pauses between them."""
    command: str
    """The `schemaquake matrix …` command that created the matrix."""
    machine: Mapping[str, str] = field(default_factory=dict)
    """Properties of the machine, as in environment.json."""
    earlier_runs: int = 0
    """Runs of earlier matrices, with which it began (`--known`): their races count, and their folders are elsewhere."""
    findings: tuple[TrackedFinding, ...] = ()
    """The causes that the runs found, controls left out; empty in a matrix of 0.1."""
    notes: tuple[str, ...] = ()
    """Notes shown before the cells: exhausted budgets, controls that were not quiet."""

    def cell(self, row: Row, system: str) -> Cell:
        """Return the cell of a row of `rows` or `control_rows`; a cell that was never run has the state `not run`."""
        wanted = (system, row.workload, row.condition, row.anomaly)
        for cell in (*self.cells, *self.controls):
            if (cell.system, cell.workload, cell.condition, cell.anomaly) == wanted:
                return cell
        return row.cell_not_run(system)

    def to_json(self) -> dict[str, Any]:
        """Return the matrix as one JSON document."""
        return (
            {"findings": [finding.to_json() for finding in self.findings]}
            | document_of(replace(self, findings=()))
            | {
                "findings": [finding.to_json() for finding in self.findings],
                "rows": [row.to_json() for row in self.rows],
                "cells": [cell.to_json() for cell in self.cells],
                "control_rows": [row.to_json() for row in self.control_rows],
                "controls": [cell.to_json() for cell in self.controls],
                "machine": dict(self.machine),
            }
        )

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Matrix:
        """Parse what `to_json` returned."""
        return cls(
            **{
                **document,
                "systems": tuple(document["systems"]),
                "rows": tuple(Row.from_json(row) for row in document["rows"]),
                "cells": tuple(Cell.from_json(cell) for cell in document["cells"]),
                "control_rows": tuple(Row.from_json(row) for row in document["control_rows"]),
                "controls": tuple(Cell.from_json(cell) for cell in document["controls"]),
                "notes": tuple(document["notes"]),
                "findings": tuple(map(TrackedFinding.from_json, document.get("findings", ()))),
            }
        )
