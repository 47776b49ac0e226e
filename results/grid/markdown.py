"""The grid as Markdown for a repository: how much broke, what broke, and what differs between versions.

It is readable without the runs: it has no links to files beside it. Text from a cluster is untrusted and escaped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from schemaquake.results.grid.page import GridState, describe_cause_standing, headline_of, relation_in_words
from schemaquake.results.grid.tally import WORST_FIRST, GridCell, differences
from schemaquake.results.report.markdown import code_block, code_span, escaped
from schemaquake.results.wording import system_name

__all__ = ["render_grid_markdown"]


def render_grid_markdown(state: GridState) -> str:
    """Render the whole document, ending in a newline."""
    plan = state.plan
    parts = [
        "# Grid of schema changes",
        escaped(headline_of(state.cells)),
        f"Begun {escaped(state.started)}, {state.batches} clusters, seed {plan.seed}, up to {plan.tries} races of each cell.",
        code_block(plan.command, "sh"),
        "## How much broke",
        _states(state),
    ]
    for system in plan.systems:
        broken = [cell for cell in state.cells if cell.system == system and cell.state == "broke"]
        parts += [f"## What broke on {escaped(system_name(system))}", _broken(broken)]
    for before, after in zip(plan.systems, plan.systems[1:], strict=False):
        found = differences(state.cells, before, after)
        parts += [
            f"## From {escaped(system_name(before))} to {escaped(system_name(after))}",
            found.sentence,
            *(["Broke on the later one alone:", _list(found.worse)] if found.worse else []),
            *(["Broke on the earlier one alone:", _list(found.mended)] if found.mended else []),
        ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _states(state: GridState) -> str:
    lines = [f"| system | mode | {' | '.join(WORST_FIRST)} |", f"|---|---|{'---|' * len(WORST_FIRST)}"]
    for system in state.plan.systems:
        for mode in state.plan.modes:
            states = Counter(cell.state for cell in state.cells if (cell.system, cell.mode) == (system, mode))
            if not states.keys() - {"not run", "not applicable"} and len(state.plan.modes) > 1:
                continue  # published grids have modes in which only some of their systems were raced
            figures = " | ".join(str(states[name]) for name in WORST_FIRST)
            lines.append(f"| {escaped(system_name(system))} | {mode} | {figures} |")
    return "\n".join(lines)


def _broken(cells: Iterable[GridCell]) -> str:
    rows = [
        f"| {code_span(cell.pair[0])} | {code_span(cell.pair[1])} | {escaped(relation_in_words(cell.relation))} "
        f"| {cell.mode} | {cell.broken}/{cell.tried} | {', '.join(code_span(kind) for kind, _ in cell.anomalies)} "
        f"| {escaped('; '.join(f'{one.id}, {describe_cause_standing(one)}' for one in cell.findings))} |"
        for cell in cells
    ]
    if not rows:
        return "Nothing."
    head = [
        "| statement | statement | objects | mode | broke | anomalies, the worst first | finding |",
        "|---|---|---|---|---|---|---|",
    ]
    return "\n".join([*head, *rows])


def _list(cells: Iterable[GridCell]) -> str:
    return "\n".join(f"- {code_span(cell.name)}, {cell.mode}: {cell.broken}/{cell.tried}" for cell in cells)
