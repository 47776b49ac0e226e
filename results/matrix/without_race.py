"""Without a race: what is known to go wrong in a line of releases even if one client says everything in turn.

A control is there to show that the harness accuses nobody wrongly. Where a version loses data all by itself, its control
is loud for a reason that has a ticket, and the page tells the two apart. Read from `matrix.toml`.
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
    """A defect that takes no race: on which systems, in which workload, and what would show it there."""

    systems: tuple[str, ...]
    """Patterns, as `cassandra:1.2.*`."""
    workload: str
    anomalies: frozenset[str]
    """All that it may look like; a control in which anything else was found is not explained by it."""
    ticket: str
    says: str

    def explains(self, control: Cell, anomalies: frozenset[str]) -> bool:
        """Whether a loud control in which these anomalies were found is this defect, and nothing more."""
        known = any(fnmatchcase(control.system, pattern) for pattern in self.systems)
        return known and control.workload == self.workload and anomalies <= self.anomalies


def noisy(controls: Iterable[Cell]) -> list[Cell]:
    """Those in which something was found, of the row "any anomaly"."""
    return [cell for cell in controls if cell.anomaly is None and cell.state == "broke"]


def anomalies_of(controls: Iterable[Cell], control: Cell) -> frozenset[str]:
    """What was found in a control."""
    return frozenset(
        cell.anomaly
        for cell in controls
        if cell.anomaly is not None
        and cell.state == "broke"
        and (cell.system, cell.workload) == (control.system, control.workload)
    )


def known_without_race(control: Cell, anomalies: frozenset[str]) -> WithoutRace | None:
    """The known defect that explains a loud control, or None: then it must be looked into."""
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
