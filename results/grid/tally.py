"""The tally of a grid: each cell on each system in each mode, with its rate and what it costs.

A try is a race that began, before the batch's cluster was poisoned, and about which nothing is in doubt or that broke.
`refused` is a cell that never broke and of whose two changes one was refused in every try: the design excludes the race.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

import pyarrow as pa

from schemaquake.results.grid.facts import FoundCause, RaceFacts, Symptom
from schemaquake.results.grid.folder import DoneBatch
from schemaquake.results.grid.plan import GridPlan
from schemaquake.results.intervals import wilson
from schemaquake.results.wording import counted
from schemaquake.workloads.races.options import Mode
from schemaquake.workloads.statements.description import DATA
from schemaquake.workloads.statements.meetings import Meeting

__all__ = [
    "CELLS",
    "MARKS",
    "STYLES",
    "WORST_FIRST",
    "Difference",
    "GridCell",
    "State",
    "cells_table",
    "differences",
    "tally",
]

State: TypeAlias = Literal["broke", "unknown", "held", "refused", "not applicable", "not run"]

WORST_FIRST: Final[Sequence[State]] = ("broke", "unknown", "held", "refused", "not run", "not applicable")
MARKS: Final[Mapping[State, str]] = {
    "broke": "✕",
    "unknown": "?",
    "held": "✓",
    "refused": "⊘",
    "not run": "·",
    "not applicable": "–",
}
STYLES: Final[Mapping[State, str]] = {
    "broke": "fail",
    "unknown": "info",
    "held": "ok",
    "refused": "ok",
    "not run": "other",
    "not applicable": "other",
}
_DATA: Final = frozenset(statement.name for statement in DATA)


@dataclass(frozen=True, slots=True, kw_only=True)
class GridCell:
    """One cell on one system in one mode: found broken in `broken` of `tried` races."""

    system: str
    mode: Mode
    name: str
    state: State
    broken: int = 0
    tried: int = 0
    doubtful: int = 0
    """Races that began and were not decided."""
    anomalies: tuple[tuple[str, int], ...] = ()
    """(type, races), the worst first."""
    worst: Symptom | None = None
    """The worst symptom of the first race that broke, in the order of its finding."""
    findings: tuple[FoundCause, ...] = ()
    """The findings of the races that broke, each once."""
    statements: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()
    """Folders of the runs in which it broke, or of all if it did not; relative to the grid's folder."""

    @property
    def pair(self) -> tuple[str, str]:
        """The names of the two statements."""
        first, second, _ = self.name.split("/")
        return first, second

    @property
    def relation(self) -> str:
        """The relation of their objects."""
        return self.name.rsplit("/", 1)[1]

    @property
    def is_new(self) -> bool:
        """True if it broke and no finding of it is known."""
        return bool(self.findings) and not any(one.known for one in self.findings)

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the rate."""
        return wilson(self.broken, self.tried)

    def command(self, seed: int) -> str:
        """Return the command that races this cell alone."""
        mode = "" if self.mode == "barrier" else f" --mode {self.mode}"
        return (
            f"schemaquake run --system {self.system} --workload grid{mode} --seed {seed} --races 5 -O cells={self.name}"
        )


def tally(plan: GridPlan, done: Iterable[DoneBatch], cells: Mapping[str, Sequence[Meeting]]) -> list[GridCell]:
    """Tally every cell. `cells` maps each system to the cells that it can be raced by."""
    raced: dict[tuple[str, Mode, str], list[tuple[RaceFacts, str | None]]] = {}
    for one in done:
        for race in counted_races(one):
            raced.setdefault((one.unit.system, one.unit.mode, race.cell), []).append((race, one.facts.run))
    every = dict.fromkeys(cell.name for some in cells.values() for cell in some)
    able = {system: {cell.name for cell in some} for system, some in cells.items()}
    return [
        _cell(system, mode, name, raced.get((system, mode, name), ()), able=name in able[system])
        for system in plan.systems
        for mode in plan.modes
        for name in every
    ]


def counted_races(done: DoneBatch) -> Sequence[RaceFacts]:
    """Return the races of a batch, with an anomaly that names no race charged to its only one."""
    races = done.facts.races
    if len(done.unit.cells) == 1 and len(races) == 1 and done.facts.at_large:
        (race,) = races
        own = {symptom.type for symptom in race.symptoms}
        more = tuple(symptom for symptom in done.facts.at_large if symptom.type not in own)
        return [replace(race, symptoms=(*race.symptoms, *more))]
    return races


def _cell(system: str, mode: Mode, name: str, races: Sequence[tuple[RaceFacts, str | None]], *, able: bool) -> GridCell:
    broken = [(race, run) for race, run in races if race.symptoms]
    decided = [(race, run) for race, run in races if race.symptoms or not race.doubts]
    kinds = Counter(symptom.type for race, _ in broken for symptom in race.symptoms)
    order = {symptom.type: place for race, _ in broken for place, symptom in enumerate(race.symptoms)}
    shown = broken or decided or list(races)
    return GridCell(
        system=system,
        mode=mode,
        name=name,
        state=_state(able=able, races=races, broken=len(broken), decided=[race for race, _ in decided]),
        broken=len(broken),
        tried=len(decided),
        doubtful=len(races) - len(decided),
        anomalies=tuple(sorted(kinds.items(), key=lambda item: (order[item[0]], item[0]))),
        worst=broken[0][0].symptoms[0] if broken else None,
        findings=tuple({race.finding.id: race.finding for race, _ in broken if race.finding is not None}.values()),
        statements=shown[0][0].statements if shown else (),
        doubts=tuple(dict.fromkeys(doubt for race, _ in races for doubt in race.doubts))[:3],
        runs=tuple(dict.fromkeys(run for _, run in shown if run is not None)),
    )


def _state(*, able: bool, races: Sequence[Any], broken: int, decided: Sequence[RaceFacts]) -> State:
    if not able:
        return "not applicable"
    if not races:
        return "not run"
    if broken:
        return "broke"
    if not decided:
        return "unknown"
    changes = [race for race in decided if not _DATA & set(race.cell.split("/"))]
    # A change that nobody answered was perhaps made: that is no refusal.
    return "refused" if changes and all(race.acknowledged + race.unanswered < 2 for race in changes) else "held"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The cells that two systems decided, by what became of them; as they are on the later one."""

    broken: Sequence[GridCell]
    """Broke on both."""
    mended: Sequence[GridCell]
    """Broke on the earlier one, and none of its races did on the later one."""
    worse: Sequence[GridCell]
    """Broke on the later one alone."""
    whole: Sequence[GridCell]
    """Broke on neither."""

    @property
    def sentence(self) -> str:
        """The numbers in words."""
        compared = len(self.broken) + len(self.mended) + len(self.worse) + len(self.whole)
        if not compared:
            return "No cell was decided on both."
        return (
            f"Of {counted(compared, 'cell')} that both decided, {len(self.broken)} broke on both, {len(self.mended)} on the earlier one alone, "
            f"{len(self.worse)} on the later one alone, and {len(self.whole)} on neither."
        )


def differences(cells: Sequence[GridCell], before: str, after: str) -> Difference:
    """Compare two systems cell by cell, mode by mode. A cell that one of them did not decide is left out."""
    old = {(cell.mode, cell.name): cell for cell in cells if cell.system == before}
    both = [
        (old[cell.mode, cell.name], cell) for cell in cells if cell.system == after and (cell.mode, cell.name) in old
    ]
    decided = {"broke", "held", "refused"}
    found: dict[tuple[bool, bool], list[GridCell]] = {}
    for then, now in both:
        if {then.state, now.state} <= decided:
            found.setdefault((then.state == "broke", now.state == "broke"), []).append(now)
    return Difference(
        broken=found.get((True, True), ()),
        mended=found.get((True, False), ()),
        worse=found.get((False, True), ()),
        whole=found.get((False, False), ()),
    )


CELLS: Final = pa.schema(
    [
        ("system", pa.string()),
        ("mode", pa.string()),
        ("cell", pa.string()),
        ("first", pa.string()),
        ("second", pa.string()),
        ("relation", pa.string()),
        ("state", pa.string()),
        ("broken", pa.int64()),
        ("tried", pa.int64()),
        ("doubtful", pa.int64()),
        ("low", pa.float64()),  # the 95 % interval of the rate
        ("high", pa.float64()),
        ("anomalies", pa.list_(pa.string())),  # types, the worst first
        ("statements", pa.list_(pa.string())),
        ("findings", pa.list_(pa.string())),  # ids, as `schemaquake findings` has them
        ("tickets", pa.list_(pa.string())),  # of the findings that are known
        ("new", pa.bool_()),  # it broke, and the project's list of known findings has none of its findings
    ]
)


def cells_table(cells: Sequence[GridCell]) -> pa.Table:
    """Return one row a cell (`CELLS`)."""
    rows = [
        {
            "system": cell.system,
            "mode": cell.mode,
            "cell": cell.name,
            "first": cell.pair[0],
            "second": cell.pair[1],
            "relation": cell.relation,
            "state": cell.state,
            "broken": cell.broken,
            "tried": cell.tried,
            "doubtful": cell.doubtful,
            "low": cell.interval[0],
            "high": cell.interval[1],
            "anomalies": [kind for kind, _ in cell.anomalies],
            "statements": list(cell.statements),
            "findings": [one.id for one in cell.findings],
            "tickets": sorted({ticket for one in cell.findings for ticket in one.tickets}),
            "new": cell.is_new,
        }
        for cell in cells
    ]
    return pa.Table.from_pylist(rows, schema=CELLS)
