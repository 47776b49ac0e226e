"""Tally: what a matrix is, row by row and cell by cell (`schemaquake.results.summary.cell`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from schemaquake.results.summary.cell import Cell, condition_name, document_of, mode_and_nemeses

__all__ = ["Matrix", "Row"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the matrix, with a cell of every system: an anomaly of a workload in a mode, or (None) any of them."""

    workload: str
    mode: str
    nemeses: tuple[str, ...] = ()
    anomaly: str | None = None
    title: str = ""
    """What the catalogue calls the anomaly; empty for the row "any anomaly"."""

    @property
    def condition(self) -> str:
        """The mode, with the nemeses at work: `barrier, kill and pause`."""
        return condition_name(self.mode, self.nemeses)

    def cell_not_run(self, system: str) -> Cell:
        """Make the cell of a system on which the row was never run."""
        return Cell(
            system=system,
            workload=self.workload,
            mode=self.mode,
            nemeses=self.nemeses,
            anomaly=self.anomaly,
            state="not run",
        )

    def to_json(self) -> dict[str, Any]:
        """The row as matrix.json holds it."""
        return document_of(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Row:
        """Read back what `to_json` wrote."""
        mode, nemeses = mode_and_nemeses(document)
        return cls(**{**document, "mode": mode, "nemeses": nemeses})


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """All of it: what a page is drawn from, and what `--json` prints.

    `rows` are in the order of the page: workloads as planned, of each the row "any anomaly" and then its anomalies.
    `cells` has one cell for every row and system. Controls are the same statements one after another through one
    coordinator (mode `single`), where nothing may be found: `control_rows` and `controls`, laid out likewise.
    """

    systems: tuple[str, ...]
    rows: tuple[Row, ...]
    cells: tuple[Cell, ...]
    control_rows: tuple[Row, ...] = ()
    controls: tuple[Cell, ...] = ()
    started: str
    """UTC, ISO 8601."""
    finished: str | None = None
    """None while it is going on, or after it was interrupted: `--resume` goes on with it."""
    seconds: float = 0.0
    """Wall time spent on it, the pauses between interruption and resumption left out."""
    command: str
    """The `schemaquake matrix …` that made it."""
    machine: Mapping[str, str] = field(default_factory=dict)
    """What of the machine a reader should know, as environment.json has it."""
    notes: tuple[str, ...] = ()
    """What a reader must know before the cells: budgets that ended, controls that were not quiet."""

    def cell(self, row: Row, system: str) -> Cell:
        """The cell of a row of `rows` or `control_rows`; one that was never run says so."""
        wanted = (system, row.workload, row.condition, row.anomaly)
        for cell in (*self.cells, *self.controls):
            if (cell.system, cell.workload, cell.condition, cell.anomaly) == wanted:
                return cell
        return row.cell_not_run(system)

    def to_json(self) -> dict[str, Any]:
        """The matrix as one JSON document."""
        return document_of(self) | {
            "rows": [row.to_json() for row in self.rows],
            "cells": [cell.to_json() for cell in self.cells],
            "control_rows": [row.to_json() for row in self.control_rows],
            "controls": [cell.to_json() for cell in self.controls],
            "machine": dict(self.machine),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Matrix:
        """Read back what `to_json` wrote."""
        return cls(
            **{
                **document,
                "systems": tuple(document["systems"]),
                "rows": tuple(Row.from_json(row) for row in document["rows"]),
                "cells": tuple(Cell.from_json(cell) for cell in document["cells"]),
                "control_rows": tuple(Row.from_json(row) for row in document["control_rows"]),
                "controls": tuple(Cell.from_json(cell) for cell in document["controls"]),
                "notes": tuple(document["notes"]),
            }
        )
