"""The matrix as a page: versions across, anomalies down, with the evidence and the command behind every cell.

One self-contained file with links to the reports of the runs beside it. A cell shows its state as a word, a shape, a colour
and n of m. An undecided cell never looks like a pass. All text from a cluster is untrusted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from typing import Final

from schemaquake.results.matrix.eras import ERAS, Era, era_of
from schemaquake.results.matrix.matrix_plan import parse_nemesis
from schemaquake.results.matrix.promises import DOCUMENTS, Judgement, JudgementState, OnSystem, judgements
from schemaquake.results.matrix.summary import control_of, controls_in_words, effects_of, extent_of, headline
from schemaquake.results.matrix.tally import Matrix, Row
from schemaquake.results.report.addresses import BESIDE_THE_RUNS, Addresses
from schemaquake.results.report.findings import Reference, references_of
from schemaquake.results.report.html import render
from schemaquake.results.report.tracked import TrackedView, tracked_view
from schemaquake.results.summary.cell import Cell, Evidence
from schemaquake.results.wording import counted, joined, length_of_time, short_name, system_name

__all__ = [
    "JUDGEMENT_STYLES",
    "Anchors",
    "EraView",
    "PromiseView",
    "cell_sentence",
    "eras_of",
    "facts_of",
    "interval_in_words",
    "render_matrix_html",
    "version_name",
]

EFFECTS_SHOWN: Final = 5
"""Maximum number of anomalies under the headline; the table has all of them."""

_QUIET: Final = {"broke": "loud", "held": "quiet"}
"""State → word used for a control."""

JUDGEMENT_STYLES: Final[Mapping[JudgementState, tuple[str, str]]] = {
    "kept": ("ok", "✓"),
    "broken": ("fail", "✕"),
    "confirmed": ("fail", "✕"),
    "not seen": ("other", "·"),
    "not judged": ("other", "–"),
}
"""Colour and shape of a judgement. A weakness that was not seen is neutral."""

_EXPLAINED: Final = frozenset({"broke", "held", "unknown"})
"""States of an anomaly's cell that have a detail; others are explained in the row of their workload."""


def render_matrix_html(matrix: Matrix, addresses: Addresses = BESIDE_THE_RUNS) -> str:
    """Render the whole page. `addresses` says where the pages of runs and findings are."""
    return render("matrix.html.j2", charts=False, more="matrix", page=_page(matrix), addresses=addresses)


# ── what the template is given ───────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class _CellView:
    cell: Cell
    anchor: str | None
    """Anchor of the cell's detail; None if it has none."""
    mark: str
    style: str
    word: str
    name: str
    """Display name of the system."""
    sentence: str
    found: Sequence[tuple[str, str, str]] = ()
    """In the row "any anomaly": (title, n/m, anchor) of each anomaly found, as in the rows below."""
    evidence: Evidence | None = None

    @property
    def figure(self) -> str:
        """Count `3/12`; empty without tries."""
        return f"{self.cell.broken}/{self.cell.tried}" if self.cell.tried else ""

    @property
    def bar(self) -> tuple[int, int] | None:
        """Left edge and width of the interval in per cent; None without tries."""
        if not self.cell.tried:
            return None
        low, high = round(100 * self.cell.low), round(100 * self.cell.high)
        return low, max(1, high - low)


@dataclass(frozen=True, slots=True, kw_only=True)
class _RowView:
    title: str
    anomaly: str | None
    anchor: str
    cells: Sequence[_CellView]

    def explained(self) -> Iterable[_CellView]:
        """Select the cells that have a detail."""
        return (one for one in self.cells if one.anchor is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """One workload under one condition: the row "any anomaly", then one row per anomaly."""

    anchor: str
    workload: str
    condition: str
    rows: Sequence[_RowView]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    name: str
    full_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Span:
    """The columns of one era, under its name."""

    title: str
    anchor: str | None
    columns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _EffectView:
    title: str
    anchor: str
    where: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PromiseView:
    """A promise with its judgement in words."""

    judgement: Judgement
    style: str
    mark: str
    sentence: str
    """Judgement as a sentence, with its full stop."""
    systems: Sequence[tuple[str, str, str, str | None]]
    """(version, style, mark and words, anchor of the evidence)."""
    source: str
    tickets: Sequence[Reference]


@dataclass(frozen=True, slots=True, kw_only=True)
class EraView:
    """An era with its promises and changes."""

    era: Era
    anchor: str
    source: str
    tickets: Sequence[Reference]
    promises: Sequence[PromiseView]
    changes: Sequence[tuple[str, str, str, Sequence[Reference]]]
    """(since, what, why, tickets)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Page:
    title: str
    headline: str
    controls_sentence: str
    finished: bool
    effects: Sequence[_EffectView]
    effects_left_out: int
    facts: Sequence[tuple[str, str]]
    machine: Sequence[tuple[str, str]]
    notes: Sequence[str]
    command: str
    columns: Sequence[_Column]
    spans: Sequence[_Span]
    control: _RowView
    groups: Sequence[_Group]
    control_groups: Sequence[_Group]
    eras: Sequence[EraView]
    documents: Mapping[str, str]
    findings: Sequence[TrackedView]


def _page(matrix: Matrix) -> _Page:
    anchors = Anchors(matrix)
    effects = effects_of(matrix)
    return _Page(
        title=f"Matrix: {counted(len(matrix.systems), 'system')}",
        headline=headline(matrix),
        controls_sentence=controls_in_words(matrix),
        finished=matrix.finished is not None,
        effects=[
            _EffectView(
                title=effect.title,
                anchor=anchors.anomaly_anchor(effect.anomaly),
                where=f"on {len(effect.systems)} of {len(matrix.systems)}",
            )
            for effect in effects[:EFFECTS_SHOWN]
        ],
        effects_left_out=max(0, len(effects) - EFFECTS_SHOWN),
        facts=facts_of(matrix),
        machine=list(matrix.machine.items()),
        notes=matrix.notes,
        command=matrix.command,
        columns=[
            _Column(name=version_name(matrix, system), full_name=system_name(system)) for system in matrix.systems
        ],
        spans=_spans(matrix.systems),
        control=_control_row(matrix),
        groups=_groups(matrix, matrix.rows, matrix.cells, anchors),
        control_groups=_groups(matrix, matrix.control_rows, matrix.controls, anchors),
        eras=eras_of(matrix, anchors),
        documents=DOCUMENTS,
        findings=[tracked_view(finding) for finding in matrix.findings],
    )


# ── names, addresses, words ──────────────────────────────────────────────────────────────────────────────────────────


class Anchors:
    """A unique element id for every workload and cell of a matrix, from letters that need no escaping."""

    def __init__(self, matrix: Matrix) -> None:
        self._ids: dict[tuple[str | None, ...], str] = {}
        taken: set[str] = set()
        for row in (*matrix.rows, *matrix.control_rows):
            self._name(("workload", row.workload, row.condition), f"{row.workload}.{row.condition}", taken)
            self._name(("row", row.workload, row.condition, row.anomaly), _row_name(row), taken)
            for system in matrix.systems:
                version = system.partition(":")[2] or system
                key = ("cell", system, row.workload, row.condition, row.anomaly)
                self._name(key, f"{_row_name(row)}.{version}", taken)
        self._first: dict[str, str] = {}
        for row in matrix.rows:
            if row.anomaly is not None:
                self._first.setdefault(row.anomaly, self.row_anchor(row))

    def workload_anchor(self, workload: str, mode: str) -> str:
        """Return the id of a workload's group of rows."""
        return self._ids["workload", workload, mode]

    def row_anchor(self, row: Row) -> str:
        """Return the id of a row in the table."""
        return self._ids["row", row.workload, row.condition, row.anomaly]

    def cell_anchor(self, cell: Cell) -> str | None:
        """Return the id of a cell's detail; None for a cell that is in no row."""
        return self._ids.get(("cell", cell.system, cell.workload, cell.condition, cell.anomaly))

    def anomaly_anchor(self, anomaly: str) -> str:
        """Return the id of the first row of that anomaly."""
        return self._first[anomaly]

    def _name(self, key: tuple[str | None, ...], wanted: str, taken: set[str]) -> None:
        if key in self._ids:
            return
        plain = "".join(
            letter if letter.isascii() and (letter.isalnum() or letter == ".") else "-" for letter in wanted
        )
        number = 1
        name = f"cell.{plain}" if key[0] == "cell" else f"{key[0]}.{plain}"
        while name in taken:
            number += 1
            name = f"{key[0]}.{plain}.{number}"
        taken.add(name)
        self._ids[key] = name


def _row_name(row: Row) -> str:
    return f"{row.workload}.{row.condition}.{row.anomaly or 'any'}"


def version_name(matrix: Matrix, system: str) -> str:
    """Return `5.0.9` if all systems are of one product, else `Cassandra 5.0.9`."""
    return short_name(system, matrix.systems)


def interval_in_words(cell: Cell) -> str:
    """Describe the interval: `between 76 % and 100 %` contains the true rate with 95 % confidence."""
    return f"between {cell.low:.0%} and {cell.high:.0%}".replace("%", " %")


def cell_sentence(cell: Cell, *, control: bool = False) -> str:
    """Describe a cell in a sentence for its title, its detail and screen readers."""
    word = _QUIET.get(cell.state, cell.state) if control else cell.state
    if cell.state in {"broke", "held"}:
        found = "found" if cell.anomaly is not None else "an anomaly was found"
        tried = counted(cell.tried, cell.unit)
        return f"{word}: {found} in {cell.broken} of {tried}; the true rate is {interval_in_words(cell)}."
    reason = cell.reason.rstrip(".")
    return f"{word}: {reason}." if reason else f"{word}."


def facts_of(matrix: Matrix) -> list[tuple[str, str]]:
    """List the page's facts: the systems and races that were run, the time and the duration."""
    extent = extent_of(matrix)
    workloads = list(dict.fromkeys(row.workload for row in matrix.rows))
    modes = list(dict.fromkeys(row.mode for row in matrix.rows))
    # Their options stand in the rows.
    named = [dict.fromkeys(parse_nemesis(text)[0] for text in row.nemeses) for row in matrix.rows]
    faults = list(dict.fromkeys(" and ".join(names) or "none" for names in named))
    earlier = f", {extent.earlier_runs:,} of them of earlier matrices" if extent.earlier_runs else ""
    return [
        ("Systems", str(len(matrix.systems))),
        ("Workloads", str(len(workloads))),
        ("Mode", joined(modes)),
        *([("Nemeses", "; ".join(faults))] if faults != ["none"] else []),
        ("Races decided", f"{extent.races:,}"),
        ("Runs", f"{extent.runs:,}{earlier}"),
        ("Took", length_of_time(matrix.seconds)),
        ("Started", _moment(matrix.started)),
        ("Finished", _moment(matrix.finished) if matrix.finished else "not yet"),
    ]


def _moment(text: str) -> str:
    """Format a time as `2026-11-21 10:02 UTC`. Text that is not a time stays unchanged."""
    try:
        return f"{datetime.fromisoformat(text):%Y-%m-%d %H:%M} UTC"
    except ValueError:
        return text


# ── the table ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _spans(systems: Sequence[str]) -> list[_Span]:
    """Group neighbouring columns of one era."""
    spans = []
    for era, columns in groupby(systems, key=era_of):
        short = era.short if era is not None else ""
        spans.append(_Span(title=short, anchor=f"era.{era.name}" if era else None, columns=len(list(columns))))
    return spans


def _groups(matrix: Matrix, rows: Sequence[Row], cells: Sequence[Cell], anchors: Anchors) -> list[_Group]:
    """Group rows by workload and condition, in the order of the matrix. The condition is named if the workload has several."""
    several = len({row.condition for row in rows}) > 1
    by_place = {(cell.system, cell.workload, cell.condition, cell.anomaly): cell for cell in cells}
    by_group: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        by_group.setdefault((row.workload, row.condition), []).append(row)
    control = rows is matrix.control_rows
    return [
        _Group(
            anchor=anchors.workload_anchor(workload, mode),
            workload=workload,
            condition=mode if several else "",
            rows=[_row_view(matrix, row, by_place, anchors, among=own, control=control) for row in own],
        )
        for (workload, mode), own in by_group.items()
    ]


_Places = Mapping[tuple[str, str, str, str | None], Cell]


def _row_view(
    matrix: Matrix, row: Row, by_place: _Places, anchors: Anchors, *, among: Sequence[Row], control: bool
) -> _RowView:
    """Prepare a row. `among` are the rows of the same workload and condition."""
    cells = []
    for system in matrix.systems:
        cell = by_place.get((system, row.workload, row.condition, row.anomaly)) or _never_run(system, row)
        below = []
        if row.anomaly is None:
            others = (
                (one, by_place.get((system, one.workload, one.condition, one.anomaly))) for one in among if one.anomaly
            )
            below = [(one, other) for one, other in others if other is not None and other.state == "broke"]
        cells.append(_cell_view(cell, anchors, below, control=control))
    title = "any anomaly" if row.anomaly is None else row.title or row.anomaly
    return _RowView(title=title, anomaly=row.anomaly, anchor=anchors.row_anchor(row), cells=cells)


def _never_run(system: str, row: Row) -> Cell:
    return row.cell_not_run(system)


def _cell_view(cell: Cell, anchors: Anchors, below: Iterable[tuple[Row, Cell]], *, control: bool = False) -> _CellView:
    """Prepare a cell. For the row "any anomaly", `below` are the broken cells of single anomalies."""
    below = list(below)
    # Evidence is shown once, in the anomaly's row; the row "any anomaly" links to it.
    shown_below = any(other.evidence is not None for _, other in below)
    explained = cell.anomaly is None or cell.state in _EXPLAINED
    return _CellView(
        cell=cell,
        anchor=anchors.cell_anchor(cell) if explained else None,
        mark=cell.mark,
        style=cell.style,
        word=_QUIET.get(cell.state, cell.state) if control else cell.state,
        name=system_name(cell.system),
        sentence=cell_sentence(cell, control=control),
        found=[
            (row.title or str(row.anomaly), f"{other.broken}/{other.tried}", str(anchors.cell_anchor(other)))
            for row, other in below
        ],
        evidence=None if shown_below else cell.evidence,
    )


def _control_row(matrix: Matrix) -> _RowView:
    """Prepare the row that shows all controls of a system in one cell."""
    cells = []
    for system in matrix.systems:
        cell = control_of(matrix, system)
        sentence = cell_sentence(cell, control=True)
        view = _CellView(
            cell=replace(cell, reason=""),
            anchor=None,
            mark=cell.mark,
            style=cell.style,
            word=_QUIET.get(cell.state, cell.state),
            name=system_name(system),
            sentence=sentence,
        )
        cells.append(view)
    return _RowView(
        title="control: the same statements one after another through one coordinator",
        anomaly=None,
        anchor="row.control",
        cells=cells,
    )


# ── promises and eras ────────────────────────────────────────────────────────────────────────────────────────────────


def eras_of(matrix: Matrix, anchors: Anchors) -> list[EraView]:
    """Prepare all eras in order, each with its promises and their judgements."""
    judged: dict[str, list[Judgement]] = {}
    for judgement in judgements(matrix):
        judged.setdefault(judgement.promise.era, []).append(judgement)
    return [
        EraView(
            era=era,
            anchor=f"era.{era.name}",
            source="; ".join(era.source),
            tickets=references_of(era.tickets),
            promises=[_promise_view(matrix, one, anchors) for one in judged.get(era.name, ())],
            changes=[(one.since, one.what, one.why, references_of(one.tickets)) for one in era.changes],
        )
        for era in ERAS
    ]


def _promise_view(matrix: Matrix, judgement: Judgement, anchors: Anchors) -> PromiseView:
    style, mark = JUDGEMENT_STYLES[judgement.state]
    return PromiseView(
        judgement=judgement,
        style=style,
        mark=mark,
        sentence=_judged(judgement),
        systems=[_on_system(matrix, one, anchors) for one in judgement.systems],
        source="; ".join(judgement.promise.source),
        tickets=references_of(judgement.promise.tickets),
    )


def _judged(judgement: Judgement) -> str:
    """Describe the judgement of a promise over all systems."""
    decided = [one for one in judgement.systems if one.state != "not judged"]
    if judgement.state == "not judged":
        return f"Not judged: {judgement.reason.rstrip('.')}."
    tried = f"{counted(judgement.tried, 'try', 'tries')} on {counted(len(decided), 'version')}"
    left = len(judgement.systems) - len(decided)
    open_ = f" Not decided on {left} more." if left else ""
    if judgement.state == "kept":
        return f"Kept in {tried}.{open_}"
    if judgement.state == "not seen":
        return f"Not seen in {tried}.{open_}"
    word = "Broken" if judgement.state == "broken" else "Confirmed"
    shown = judgement.on(judgement.state)
    return f"{word} on {len(shown)} of {counted(len(decided), 'version')}.{open_}"


def _on_system(matrix: Matrix, one: OnSystem, anchors: Anchors) -> tuple[str, str, str, str | None]:
    style, mark = JUDGEMENT_STYLES[one.state]
    name = version_name(matrix, one.system)
    if one.shown:
        worst = one.shown[0]
        return name, style, f"{mark} {worst.broken}/{worst.tried} {worst.workload}", anchors.cell_anchor(worst)
    words = f"{mark} 0/{one.tried}" if one.tried else f"{mark} {one.state}"
    return name, style, words, None
