"""Tally: what a matrix is, cell by cell, and how sure one may be of a rate after so many tries.

A cell says in how many of its tries one anomaly was found on one system. A try is a race that began and was decided, or
a whole run where the anomaly concerns all of it, as a node that does not start. What was not decided is no try, and is
never good news: it stands beside the cell as its reason.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal, TypeAlias

__all__ = ["CONFIDENCE", "Cell", "CellState", "Evidence", "Matrix", "Row", "Unit", "wilson"]

CellState: TypeAlias = Literal["broke", "held", "unknown", "not applicable", "not run"]
Unit: TypeAlias = Literal["race", "run"]

CONFIDENCE: Final = 0.95
"""How often an interval of `wilson` holds the true rate."""

_Z: Final = 1.959963984540054  # the normal distribution has 95 % of its mass within so many deviations


def wilson(broken: int, tried: int) -> tuple[float, float]:
    """The 95 % interval for a rate seen `broken` times in `tried`, within [0, 1]; nothing tried: nothing known.

    Wilson's score interval (1927): unlike the usual one it is honest at 0 of m and m of m, which most cells are.
    """
    assert 0 <= broken <= tried
    if not tried:
        return 0.0, 1.0
    rate, spread = broken / tried, _Z * _Z / tried
    centre = (rate + spread / 2) / (1 + spread)
    half = math.sqrt(rate * (1 - rate) * spread + spread * spread / 4) / (1 + spread)
    # At the ends the two terms are equal, and rounding must not leave 0 of m with a lower bound above 0.
    return (0.0 if not broken else max(0.0, centre - half)), (1.0 if broken == tried else min(1.0, centre + half))


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One try in which the anomaly was found: enough to believe it, and the command to see it again."""

    run: str
    """The run's folder, relative to the matrix' folder."""
    keyspace: str | None
    """The race's keyspace; None if the anomaly concerns the run as a whole."""
    title: str
    explanation: str
    statements: tuple[tuple[str, ...], ...] = ()
    """What raced: a tuple of statements for each coordinator, in the order in which they begin."""
    log_lines: tuple[str, ...] = ()
    """At most five, each `node: line`."""
    command: str = ""
    """The `schemaquake run …` that repeats the run."""
    report: str | None = None
    """The run's report.html, relative to the matrix' folder."""

    def to_json(self) -> dict[str, Any]:
        """The evidence as matrix.json holds it."""
        return _document(self) | {"statements": [list(side) for side in self.statements]}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Evidence:
        """Read back what `to_json` wrote."""
        return cls(
            **{
                **document,
                "statements": tuple(tuple(side) for side in document["statements"]),
                "log_lines": tuple(document["log_lines"]),
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One anomaly (None: any at all) of one workload in one mode on one system: found in `broken` of `tried`.

    `low` and `high` bound its rate (`wilson`). A cell is `unknown` if it was run and no try was decided. `reason` says
    why it is unknown, not applicable or not run; beside `broke` and `held`, why further runs of it were not decided.
    """

    system: str
    workload: str
    mode: str
    anomaly: str | None = None
    state: CellState
    broken: int = 0
    tried: int = 0
    low: float = 0.0
    high: float = 1.0
    unit: Unit = "race"
    """What `tried` counts."""
    reason: str = ""
    runs: tuple[str, ...] = ()
    """The folders of its runs, relative to the matrix' folder, in the order in which they were run."""
    evidence: Evidence | None = None

    @property
    def half_width(self) -> float:
        """How far the rate may be from the middle of its interval: 0.5 when nothing is known."""
        return (self.high - self.low) / 2

    def to_json(self) -> dict[str, Any]:
        """The cell as matrix.json holds it."""
        return _document(self) | {"evidence": None if self.evidence is None else self.evidence.to_json()}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Cell:
        """Read back what `to_json` wrote."""
        found = document["evidence"]
        evidence = None if found is None else Evidence.from_json(found)
        return cls(**{**document, "runs": tuple(document["runs"]), "evidence": evidence})


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the matrix, with a cell of every system: an anomaly of a workload in a mode, or (None) any of them."""

    workload: str
    mode: str
    anomaly: str | None = None
    title: str = ""
    """What the catalogue calls the anomaly; empty for the row "any anomaly"."""

    def to_json(self) -> dict[str, Any]:
        """The row as matrix.json holds it."""
        return _document(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Row:
        """Read back what `to_json` wrote."""
        return cls(**document)


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
        wanted = (system, row.workload, row.mode, row.anomaly)
        for cell in (*self.cells, *self.controls):
            if (cell.system, cell.workload, cell.mode, cell.anomaly) == wanted:
                return cell
        return Cell(system=system, workload=row.workload, mode=row.mode, anomaly=row.anomaly, state="not run")

    def to_json(self) -> dict[str, Any]:
        """The matrix as one JSON document."""
        return _document(self) | {
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


def _document(value: Evidence | Cell | Row | Matrix) -> dict[str, Any]:
    """Its fields by name, tuples as lists."""
    named = {one.name: getattr(value, one.name) for one in fields(value)}
    return {name: list(item) if isinstance(item, tuple) else item for name, item in named.items()}
