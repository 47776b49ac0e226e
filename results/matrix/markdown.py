"""The matrix as Markdown for a repository: a compact table, broken cells with commands, promises and changes.

It is readable without the runs: it contains no links to files beside it. Text from a cluster is untrusted and escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from schemaquake.results.matrix.page import (
    Anchors,
    EraView,
    PromiseView,
    eras_of,
    facts_of,
    interval_in_words,
    version_name,
)
from schemaquake.results.matrix.summary import control_of, controls_in_words, effects_of, headline
from schemaquake.results.matrix.tally import Matrix, Row
from schemaquake.results.report.findings import Reference
from schemaquake.results.report.markdown import code_block, code_span, escaped
from schemaquake.results.report.tracked import render_tracked_markdown
from schemaquake.results.summary.cell import Cell
from schemaquake.results.wording import joined

__all__ = ["render_matrix_markdown"]

_STATES: Final = {"broke": "**broke** {n}/{m}", "held": "held {n}/{m}"}
_CONTROL_STATES: Final = {"broke": "**loud** {n}/{m}", "held": "quiet {n}/{m}"}

_LEGEND: Final = (
    "*broke* n/m: found in n of m tries; *held*: every decided try was clean; *unknown*: no try was decided, which is "
    "not a pass; *not applicable*: the version lacks the feature. A try is a race, or a whole run for an anomaly of the "
    "whole run, such as a node that does not start."
)


def render_matrix_markdown(matrix: Matrix, *, title: str = "Schema changes, version by version") -> str:
    """Render the whole document, ending in a newline."""
    groups = _groups(matrix.rows)
    views = eras_of(matrix, Anchors(matrix))
    parts = [
        f"# {escaped(title)}",
        escaped(headline(matrix)),
        *_effects(matrix),
        escaped(controls_in_words(matrix)),
        *_notes(matrix),
        _table(("", ""), [(f"**{escaped(name)}**", escaped(value)) for name, value in _facts(matrix)]),
        code_block(matrix.command, "sh"),
        *render_tracked_markdown(matrix.findings, matrix.systems),
        "## The matrix",
        _LEGEND,
        _overview(matrix, groups),
        "## Anomaly by anomaly",
        *(part for rows in groups.values() for part in _group(matrix, rows)),
        "## Promises",
        *(part for view in views if view.promises for part in _promises(view)),
        "## What changed, and why",
        *(part for view in views for part in _changes(view)),
    ]
    return "\n\n".join(parts) + "\n"


def _facts(matrix: Matrix) -> Iterable[tuple[str, str]]:
    return [*facts_of(matrix), *matrix.machine.items()]


def _effects(matrix: Matrix) -> list[str]:
    effects = [
        f"- {escaped(effect.title)}: on {len(effect.systems)} of {len(matrix.systems)}" for effect in effects_of(matrix)
    ]
    return ["\n".join(effects)] if effects else []


def _notes(matrix: Matrix) -> list[str]:
    return ["\n".join(f"- {escaped(note)}" for note in matrix.notes)] if matrix.notes else []


# ── the table ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _groups(rows: Sequence[Row]) -> Mapping[tuple[str, str], Sequence[Row]]:
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.workload, row.condition), []).append(row)
    return groups


def _overview(matrix: Matrix, groups: Mapping[tuple[str, str], Sequence[Row]]) -> str:
    """Render one row per workload for the row "any anomaly", and the controls."""
    rows = []
    for (workload, mode), own in groups.items():
        whole = replace(own[0], anomaly=None, title="")
        rows.append([_linked(workload, mode, groups), *(_cell_text(matrix.cell(whole, one)) for one in matrix.systems)])
    controls = [_cell_text(control_of(matrix, system), control=True) for system in matrix.systems]
    return _table(("race", *_versions(matrix)), [*rows, ["control: one coordinator", *controls]])


def _linked(workload: str, mode: str, groups: Mapping[tuple[str, str], Sequence[Row]]) -> str:
    """Link to the section of that name if GitHub's anchor for it is predictable."""
    heading = _heading(workload, mode, groups)
    plain = re.fullmatch(r"[a-z0-9-]+(?:, [a-z0-9-]+)*", heading)
    return f"[{heading}](#{heading.replace(', ', '-')})" if plain else code_span(heading)


def _heading(workload: str, mode: str, groups: Iterable[tuple[str, str]]) -> str:
    """Return the heading of a group: the workload, with the condition if the workload has several."""
    return workload if len({mode for _, mode in groups}) == 1 else f"{workload}, {mode}"


def _group(matrix: Matrix, rows: Sequence[Row]) -> list[str]:
    """Render a table of one workload's anomalies, and a table of the broken versions with their commands."""
    first = rows[0]
    heading = _heading(first.workload, first.condition, _groups(matrix.rows))
    parts = [f"### {heading if re.fullmatch(r'[a-z0-9, -]+', heading) else code_span(heading)}"]
    kinds = [row for row in rows if row.anomaly is not None]
    if kinds:
        lines = [[_titled(row), *(_cell_text(matrix.cell(row, one)) for one in matrix.systems)] for row in kinds]
        parts.append(_table(("anomaly", *_versions(matrix)), lines))
    broke = [(system, _commanded(matrix, kinds, first, system)) for system in matrix.systems]
    commands = [(escaped(version_name(matrix, system)), *said) for system, said in broke if said]
    if commands:
        parts.append(_table(("version", "what broke", "repeat it"), commands))
    undecided = _undecided(matrix, first)
    said = [*parts[1:], *([undecided] if undecided else [])]
    return [parts[0], *(said or ["No anomaly."])]


def _titled(row: Row) -> str:
    return f"{escaped(row.title)} ({code_span(str(row.anomaly))})" if row.title else code_span(str(row.anomaly))


def _commanded(matrix: Matrix, kinds: Sequence[Row], whole: Row, system: str) -> tuple[str, str] | None:
    """Return the anomalies on one system with the interval of the rate, and the command; None if nothing broke."""
    found = [cell for cell in (matrix.cell(row, system) for row in kinds) if cell.state == "broke"]
    above = matrix.cell(whole, system)
    if above.state != "broke" and not found:
        return None
    what = joined(f"{code_span(str(cell.anomaly))} {cell.broken}/{cell.tried}" for cell in found)
    rate = f"any: {above.broken}/{above.tried}, {escaped(interval_in_words(above))}" if above.tried else ""
    evidence = next((cell.evidence for cell in (above, *found) if cell.evidence is not None), None)
    said = "; ".join(part for part in (what, rate) if part)
    return said, code_span(evidence.command) if evidence is not None and evidence.command else "–"


def _undecided(matrix: Matrix, whole: Row) -> str:
    """List why versions are unknown, not applicable or not run: each reason once, with the versions concerned."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for system in matrix.systems:
        cell = matrix.cell(whole, system)
        if cell.state not in {"broke", "held"}:
            reasons.setdefault((cell.state, cell.reason), []).append(version_name(matrix, system))
    return "\n".join(
        f"- {escaped(joined(versions))}: {state}{f' – {escaped(reason)}' if reason else ''}"
        for (state, reason), versions in reasons.items()
    )


def _cell_text(cell: Cell, *, control: bool = False) -> str:
    words: Mapping[str, str] = _CONTROL_STATES if control else _STATES
    return words.get(cell.state, cell.state).format(n=cell.broken, m=cell.tried)


def _versions(matrix: Matrix) -> list[str]:
    return [escaped(version_name(matrix, system)) for system in matrix.systems]


# ── promises and eras ────────────────────────────────────────────────────────────────────────────────────────────────


def _promises(view: EraView) -> list[str]:
    rows = [(*_describe_promise(one), f"**{one.judgement.state}**", _describe_judgement(one)) for one in view.promises]
    return [f"### {escaped(view.era.title)}: promises", _table(("said", "source", "state", "result"), rows)]


def _describe_promise(one: PromiseView) -> tuple[str, str]:
    promise = one.judgement.promise
    kind = "" if promise.kind == "promise" else "*Weakness:* "
    source = "; ".join(part for part in (escaped(one.source), _tickets(one.tickets)) if part)
    return f"{kind}{escaped(promise.says)}", source


def _describe_judgement(one: PromiseView) -> str:
    where = [escaped(f"{name} {words}") for name, _, words, _ in one.systems]
    shown = "" if one.judgement.state == "not judged" else f"<br>{', '.join(where)}"
    return f"{escaped(one.sentence)}{shown}"


def _changes(view: EraView) -> list[str]:
    rows = [
        (escaped(since), escaped(what), escaped(why), _tickets(tickets)) for since, what, why, tickets in view.changes
    ]
    source = "; ".join(part for part in (escaped(view.source), _tickets(view.tickets)) if part)
    return [
        f"### {escaped(view.era.title)}, {escaped(view.era.span)}",
        f"**Why.** {escaped(view.era.why)}",
        f"**How it works.** {escaped(view.era.design)} ({source})",
        _table(("since", "what", "why", "tickets"), rows),
    ]


def _tickets(references: Iterable[Reference]) -> str:
    return ", ".join(f"[{escaped(one.text)}]({one.url})" if one.url else escaped(one.text) for one in references)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [head, ["---"] * len(head), *rows])
