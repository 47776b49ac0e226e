"""Race-free defects: known defects of a line of releases that need no concurrency.

A control shows that the harness does not report false anomalies. A version that loses data without a race has a loud control
with a known ticket, and the page distinguishes the two cases. Read from `matrix.toml`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache

from schemaquake.results.matrix.matrix_plan import document
from schemaquake.results.summary.cell import Cell

__all__ = ["WithoutRace", "anomalies_of", "known_without_race", "noisy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WithoutRace:
    """A defect that needs no race: its systems, its workload, and the anomalies that show it."""

    systems: tuple[str, ...]
    """Patterns such as `cassandra:1.2.*`."""
    workload: str
    anomalies: frozenset[str]
    """All anomalies that the defect may cause; a control with any other anomaly is not explained by it."""
    ticket: str
    says: str

    def explains(self, control: Cell, anomalies: frozenset[str]) -> bool:
        """Return True if this defect explains a loud control with these anomalies completely."""
        known = any(fnmatchcase(control.system, pattern) for pattern in self.systems)
        return known and control.workload == self.workload and anomalies <= self.anomalies


def noisy(controls: Iterable[Cell]) -> list[Cell]:
    """Select the controls in whose row "any anomaly" something was found."""
    return [cell for cell in controls if cell.anomaly is None and cell.state == "broke"]


def anomalies_of(controls: Iterable[Cell], control: Cell) -> frozenset[str]:
    """Collect the anomalies found in a control."""
    return frozenset(
        cell.anomaly
        for cell in controls
        if cell.anomaly is not None
        and cell.state == "broke"
        and (cell.system, cell.workload) == (control.system, control.workload)
    )


def known_without_race(control: Cell, anomalies: frozenset[str]) -> WithoutRace | None:
    """Return the known defect that explains a loud control; None if the control needs an investigation."""
    return next((one for one in _known() if one.explains(control, anomalies)), None)


@cache
def _known() -> tuple[WithoutRace, ...]:
    return tuple(
        WithoutRace(
            systems=tuple(entry["systems"]),
            workload=entry["workload"],
            anomalies=frozenset(entry["anomalies"]),
            ticket=entry["ticket"],
            says=entry["says"],
        )
        for entry in document()["without_race"]
    )
