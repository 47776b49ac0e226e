"""The grid as a page: statements across and down, and behind each pair its relations, evidence and command.

One self-contained file with links to the reports of the runs beside it. The colour of a pair is that of its worst cell; a cell
that was not decided never looks like a pass. All text from a cluster is untrusted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from schemaquake.results.grid.facts import FoundCause
from schemaquake.results.grid.plan import GridPlan
from schemaquake.results.grid.tally import MARKS, STYLES, WORST_FIRST, GridCell, State, differences
from schemaquake.results.report.addresses import BESIDE_THE_RUNS, Addresses
from schemaquake.results.report.html import render
from schemaquake.results.wording import counted, length_of_time, system_name
from schemaquake.workloads.statements.description import DATA, LEFT_OUT, SCHEMA

__all__ = ["GridState", "describe_cause_standing", "headline_of", "relation_in_words", "render_grid_html"]

_WORDS: Final[Mapping[State, str]] = {
    "broke": "broke",
    "unknown": "unknown",
    "held": "held",
    "refused": "one was refused",
    "not run": "not run",
    "not applicable": "not applicable",
}
_RELATIONS: Final[Mapping[str, str]] = {
    "same": "both are about one {}",
    "names": "one names the {} that the other is about",
    "crossed": "each names the {} that the other changes",
    "siblings": "their objects share a {}",
    "name": "two objects of one name",
    "keyspace": "they share nothing but the keyspace",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GridState:
    """A grid as it is known now."""

    plan: GridPlan
    cells: Sequence[GridCell]
    started: str
    seconds: float
    """Sum of the batches' times, s."""
    batches: int
    machine: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _CellView:
    cell: GridCell
    mark: str
    style: str
    word: str
    relation: str
    """The relation of the two objects, in words."""
    figure: str
    command: str
    findings: Sequence[tuple[str, str, str]]
    """(id, title, standing) of each finding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _PairView:
    anchor: str
    first: str
    second: str
    mark: str
    style: str
    figure: str
    """Number of broken relations of all tried; empty if nothing was tried."""
    sentence: str
    cells: Sequence[_CellView]
    loud: bool
    """True if the pair has a detail that is worth opening."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    title: str
    anchor: str
    summary: str
    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[_PairView | None]]]
    pairs: Sequence[_PairView]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Difference:
    before: str
    after: str
    sentence: str
    mended: Sequence[_CellView]
    worse: Sequence[_CellView]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Page:
    title: str
    headline: str
    command: str
    facts: Sequence[tuple[str, str]]
    machine: Sequence[tuple[str, str]]
    legend: Sequence[tuple[str, str, str]]
    tables: Sequence[_Table]
    differences: Sequence[_Difference]
    left_out: Sequence[tuple[str, str]]


def render_grid_html(state: GridState, addresses: Addresses = BESIDE_THE_RUNS) -> str:
    """Render the whole page. `addresses` says where the pages of runs and findings are."""
    return render("grid.html.j2", charts=False, more="grid", page=_page(state), addresses=addresses)


def headline_of(cells: Iterable[GridCell]) -> str:
    """Say in a sentence how many cells broke, of all that were tried, by system."""
    by_system: dict[str, Counter[str]] = {}
    new: Counter[str] = Counter()
    for cell in cells:
        new[cell.system] += cell.is_new
        if cell.tried or cell.doubtful:
            by_system.setdefault(cell.system, Counter())[cell.state] += 1
    said = [
        f"{system_name(system)}: {states['broke']} of {counted(states.total(), 'cell')} broke"
        + (f", {counted(new[system], 'cell')} with a finding that is not known" if new[system] else "")
        for system, states in by_system.items()
    ]
    return "; ".join(said) + "." if said else "Nothing was raced yet."


def _page(state: GridState) -> _Page:
    plan = state.plan
    places = [(system, mode) for system in plan.systems for mode in plan.modes]
    return _Page(
        title="Grid of schema changes",
        headline=headline_of(state.cells),
        command=plan.command,
        facts=[
            ("Started", f"{datetime.fromisoformat(state.started):%Y-%m-%d %H:%M} UTC"),
            ("Clusters", f"{counted(state.batches, 'batch', 'batches')}, {length_of_time(state.seconds)}"),
            ("Tries of each cell", f"{plan.tries} wanted"),
            ("Seed", str(plan.seed)),
        ],
        machine=list(state.machine.items()),
        legend=[(STYLES[name], f"{MARKS[name]} {name}", text) for name, text in _LEGEND.items()],
        tables=[table for table in (_table(state, *place) for place in places) if table.columns],
        differences=[
            _Difference(
                before=system_name(before),
                after=system_name(after),
                sentence=found.sentence,
                mended=[_view(cell, plan.seed) for cell in found.mended],
                worse=[_view(cell, plan.seed) for cell in found.worse],
            )
            for before, after in zip(plan.systems, plan.systems[1:], strict=False)
            for found in [differences(state.cells, before, after)]
        ],
        left_out=list(LEFT_OUT.items()),
    )


_LEGEND: Final[Mapping[State, str]] = {
    "broke": "an anomaly was proven in at least one race",
    "held": "both statements can succeed together, and every decided race was clean",
    "refused": "every race was clean, and one of the two changes was always refused",
    "unknown": "no race was decided; this is not a pass",
    "not applicable": "the version lacks a feature",
    "not run": "no race of it began yet",
}


def _table(state: GridState, system: str, mode: str) -> _Table:
    mine = [cell for cell in state.cells if cell.system == system and cell.mode == mode]
    by_pair: dict[tuple[str, str], list[GridCell]] = {}
    for cell in mine:
        by_pair.setdefault(cell.pair, []).append(cell)
    prefix = f"{system}.{mode}"
    views = {pair: _pair(pair, cells, prefix, state.plan.seed) for pair, cells in by_pair.items()}
    used = {name for pair in by_pair for name in pair}
    names = [statement.name for statement in SCHEMA if statement.name in used]
    columns = [*names, *(statement.name for statement in DATA if statement.name in used)]
    states = Counter(cell.state for cell in mine)
    return _Table(
        title=f"{system_name(system)}, mode {mode}",
        anchor=prefix,
        summary=", ".join(f"{states[name]} {name}" for name in WORST_FIRST if states[name]),
        columns=columns,
        rows=[(name, [views.get((name, other)) for other in columns]) for name in names],
        pairs=[view for view in views.values() if view.figure or view.loud],
    )


def _pair(pair: tuple[str, str], cells: Sequence[GridCell], prefix: str, seed: int) -> _PairView:
    worst = min((cell.state for cell in cells), key=WORST_FIRST.index)
    tried = [cell for cell in cells if cell.tried or cell.doubtful]
    broken = [cell for cell in cells if cell.state == "broke"]
    figure = f"{len(broken)}/{len(tried)}" if tried else ""
    first, second = pair
    return _PairView(
        anchor=f"{prefix}.{first}.{second}",
        first=first,
        second=second,
        mark=MARKS[worst],
        style=STYLES[worst],
        figure=figure,
        sentence=f"{first} and {second}: {_WORDS[worst]}"
        + (f", {len(broken)} of {counted(len(tried), 'relation')} broke" if tried else ""),
        cells=[_view(cell, seed) for cell in sorted(cells, key=lambda one: WORST_FIRST.index(one.state))],
        loud=bool(broken),
    )


def _view(cell: GridCell, seed: int) -> _CellView:
    low, high = cell.interval
    figure = f"{cell.broken} of {counted(cell.tried, 'race')} ({low:.0%} to {high:.0%})" if cell.tried else ""
    return _CellView(
        cell=cell,
        mark=MARKS[cell.state],
        style=STYLES[cell.state],
        word=_WORDS[cell.state],
        relation=relation_in_words(cell.relation),
        figure=figure,
        command=cell.command(seed),
        findings=[(one.id, one.title, describe_cause_standing(one)) for one in cell.findings],
    )


def describe_cause_standing(finding: FoundCause) -> str:
    """Say what is known of a finding: `known: CASSANDRA-18330`, or `new`."""
    return f"known: {', '.join(finding.tickets) or 'no ticket yet'}" if finding.known else "new"


def relation_in_words(relation: str) -> str:
    """Return the relation of a cell's objects in words."""
    kind, _, about = relation.partition("-")
    about, exists, _ = about.partition("-that-exists")
    if kind == "name" and about:
        return "two objects of one name in one table"
    return _RELATIONS[kind].format(about.replace("-", " ")) + (", which is there before" if exists else "")
