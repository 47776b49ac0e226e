"""Summary: the headline of a matrix, the result of its controls, and its most prominent anomalies.

Derived from the cells alone. A version has held only if every cell of it was decided and none broke. A version with an
undecided cell, or a cell that was not run, is counted separately.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from schemaquake.checkers.findings.catalogue import CATALOGUE, prominence_of
from schemaquake.results.matrix.tally import Matrix
from schemaquake.results.matrix.without_race import anomalies_of, known_without_race, noisy
from schemaquake.results.summary.cell import Cell, wilson
from schemaquake.results.wording import counted, joined, product_of_all, short_name, system_name

__all__ = [
    "Effect",
    "Extent",
    "Standing",
    "control_of",
    "controls_in_words",
    "effects_of",
    "extent_of",
    "headline",
    "standing_of",
]

Standing: TypeAlias = Literal["broke", "held", "unknown", "not run"]

EVERY_WORKLOAD: Final = "every workload"
"""Workload name in a cell that adds up all workloads."""


@dataclass(frozen=True, slots=True)
class Effect:
    """An anomaly, and the systems on which it was found, in the order of the matrix."""

    anomaly: str
    title: str
    systems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Extent:
    """The size of a matrix: decided races, controls among them, and runs."""

    races: int
    runs: int
    """All runs, those of earlier matrices among them."""
    earlier_runs: int


def standing_of(matrix: Matrix, system: str) -> Standing:
    """Return the state of one system as a whole. Cells that are not applicable do not count."""
    cells = [cell for cell in matrix.cells if cell.system == system]
    states = {cell.state for cell in cells}
    if "broke" in states:
        return "broke"
    whole = {cell.state for cell in cells if cell.anomaly is None}
    if "unknown" in states or {"held", "not run"} <= whole:
        return "unknown"
    return "held" if "held" in whole else "not run"


def headline(matrix: Matrix) -> str:
    """Summarise the matrix in one sentence: which versions held, how many broke, which are undecided or were not run."""
    by_standing: dict[Standing, list[str]] = {}
    for system in matrix.systems:
        by_standing.setdefault(standing_of(matrix, system), []).append(system)
    broke, held = by_standing.get("broke", []), by_standing.get("held", [])
    undecided, not_run = by_standing.get("unknown", []), by_standing.get("not run", [])
    parts = []
    if broke or held:
        parts += _decided_parts(matrix, broke, held, only=not undecided and not not_run)
    else:
        parts.append(_nothing_decided(matrix))
    if undecided and len(undecided) < len(matrix.systems):
        parts.append(
            f"{len(undecided)} {'is' if len(undecided) == 1 else 'are'} not decided ({_named(matrix, undecided)})"
        )
    if not_run and len(not_run) < len(matrix.systems):
        parts.append(f"{len(not_run)} {'was' if len(not_run) == 1 else 'were'} not run ({_named(matrix, not_run)})")
    sentence = f"{'; '.join(parts)}."
    return sentence if matrix.finished is not None else f"Not finished. {sentence}"


def _nothing_decided(matrix: Matrix) -> str:
    """Say that no system is decided as a whole, and how many cells held."""
    held = sum(cell.state == "held" and cell.anomaly is None for cell in matrix.cells)
    if not held:
        return f"Nothing is decided on {_systems(matrix)}"
    return (
        f"No anomaly was found in {counted(held, 'decided cell')}, but not every cell is decided on {_systems(matrix)}"
    )


def _decided_parts(matrix: Matrix, broke: Sequence[str], held: Sequence[str], *, only: bool) -> list[str]:
    """Describe the decided systems; there is at least one."""
    every = _systems(matrix)
    if len(matrix.systems) == len(broke):
        return [f"{system_name(broke[0])} broke" if len(broke) == 1 else f"{_all(every, len(broke))} broke"]
    if not held:
        return [f"Of {every}, {len(broke)} broke"]
    tried = _tries(cell for cell in matrix.cells if cell.anomaly is None and cell.system in held)
    if len(matrix.systems) == len(held):
        return [f"No anomaly was found on {every if len(held) > 1 else system_name(held[0])} (0 of {tried})"]
    named = _named(matrix, held)
    if len(held) == 1:
        first = "only " if only else ""
        parts = [f"Of {every}, {first}{named} came through every race it was put to without an anomaly (0 of {tried})"]
    else:
        parts = [
            f"Of {every}, {len(held)} came through every race they were put to without an anomaly ({named}: 0 of {tried})"
        ]
    return [*parts, f"{len(broke)} broke"] if broke else parts


def effects_of(matrix: Matrix) -> tuple[Effect, ...]:
    """List the anomalies with their systems: the most prominent first, among equals the most widespread."""
    found: dict[str, set[str]] = {}
    titles: dict[str, str] = {}
    for row in matrix.rows:
        if row.anomaly is not None:
            titles.setdefault(row.anomaly, _title(row.anomaly, row.title))
    for cell in matrix.cells:
        if cell.anomaly is not None and cell.state == "broke":
            found.setdefault(cell.anomaly, set()).add(cell.system)
    order = sorted(found, key=lambda kind: (-prominence_of(kind), -len(found[kind]), kind))
    return tuple(
        Effect(kind, titles.get(kind, kind), tuple(system for system in matrix.systems if system in found[kind]))
        for kind in order
    )


def control_of(matrix: Matrix, system: str) -> Cell:
    """Add up all controls of one system in one cell: broke (loud) if any is, held (quiet) only if all applicable ones are."""
    cells = [cell for cell in matrix.controls if cell.system == system and cell.anomaly is None]
    states = {cell.state for cell in cells}
    decided = [cell for cell in cells if cell.state in {"broke", "held"}]
    broken, tried = sum(cell.broken for cell in decided), sum(cell.tried for cell in decided)
    low, high = wilson(broken, tried)
    order: tuple[Literal["broke", "unknown", "not run", "held", "not applicable"], ...]
    order = ("broke", "unknown", "not run", "held", "not applicable")
    return Cell(
        system=system,
        workload=EVERY_WORKLOAD,
        mode="single",
        state=next((state for state in order if state in states), "not run"),
        broken=broken,
        tried=tried,
        low=low,
        high=high,
        reason="; ".join(f"{one.workload}: {one.reason}" for one in cells if one.state in {"unknown", "not run"}),
        runs=tuple(dict.fromkeys(run for cell in cells for run in cell.runs)),
    )


def controls_in_words(matrix: Matrix) -> str:
    """Describe the controls in a sentence."""
    whole = [control_of(matrix, system) for system in matrix.systems]
    if not matrix.controls:
        return "No controls were run."
    loud = noisy(matrix.controls)
    known = {cell: found for cell in loud if (found := known_without_race(cell, anomalies_of(matrix.controls, cell)))}
    if unexplained := _systems_of(matrix, [cell for cell in loud if cell not in known]):
        return f"The controls were not quiet: anomalies were found on {_named(matrix, unexplained)}."
    if known:
        tickets = joined(sorted({found.ticket for found in known.values()}))
        return (
            f"The controls found only known defects that need no race: on {_named(matrix, _systems_of(matrix, list(known)))}, "
            f"{tickets}."
        )
    tried = counted(sum(cell.tried for cell in whole), "try", "tries")
    open_ = [cell.system for cell in whole if cell.state in {"unknown", "not run"}]
    if open_:
        return f"No control was loud (0 of {tried}), but not all are decided: {_named(matrix, open_)}."
    return f"All controls were quiet: 0 of {tried}."


def _systems_of(matrix: Matrix, cells: Sequence[Cell]) -> list[str]:
    """Return the systems of these cells, each once, in the matrix' order."""
    return [system for system in matrix.systems if system in {cell.system for cell in cells}]


def extent_of(matrix: Matrix) -> Extent:
    """Count the decided races and the runs."""
    every = (*matrix.cells, *matrix.controls)
    return Extent(
        races=sum(cell.tried for cell in every if cell.anomaly is None and cell.unit == "race"),
        runs=len({run for cell in every for run in cell.runs}) + matrix.earlier_runs,
        earlier_runs=matrix.earlier_runs,
    )


def _tries(cells: Iterable[Cell]) -> str:
    cells = list(cells)
    units = {cell.unit for cell in cells}
    tried = sum(cell.tried for cell in cells)
    return counted(tried, units.pop()) if len(units) == 1 else counted(tried, "try", "tries")


def _systems(matrix: Matrix) -> str:
    """Describe the systems: `15 versions of Cassandra`, or `3 systems` if they are of several products."""
    product = product_of_all(matrix.systems)
    if product is not None:
        return f"{counted(len(matrix.systems), 'version')} of {product}"
    return counted(len(matrix.systems), "system")


def _all(every: str, count: int) -> str:
    """Describe all systems: `Both versions of Cassandra`, `All 15 versions of Cassandra`."""
    return f"Both {every.partition(' ')[2]}" if count == 2 else f"All {every}"


def _named(matrix: Matrix, systems: Sequence[str]) -> str:
    """Join the systems' names; versions alone if there is only one product."""
    return joined(short_name(system, matrix.systems) for system in systems)


def _title(kind: str, title: str) -> str:
    return title or (CATALOGUE[kind].title if kind in CATALOGUE else kind)
