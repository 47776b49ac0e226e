"""The grid: every pair of schema changes on related objects, and every schema change against reads and writes of its objects.

The other racing workloads reproduce what is in the catalogue. The cells of the grid are generated from descriptions of
the statements (`schemaquake.workloads.statements`); nobody wrote down which of them break. A race of a cell is as cheap
as any other: a keyspace of its own, and one settle and one restart for all cells of a run.

`-O cells=drop-type/*,*/create-index/same-*` picks cells by name, `-O batch=3/20` the third of twenty equal parts.

Up to 5.0 many cells break; since 6.0 (CEP-21) and with ScyllaDB's group 0 none should: of two statements that exclude
each other, one is refused. Source: seed document 3 (CEP-21), motivation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from schemaquake.harness.errors import NotApplicable, PlanError
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.options import configured, names, option, whole_number
from schemaquake.harness.model.protocols import Context, FaultRequest, Phase, Worker
from schemaquake.harness.model.steps import Step
from schemaquake.workloads.races.cut import requested_cuts
from schemaquake.workloads.races.engine import (
    ALWAYS,
    SINCE_THE_RACE,
    UNTIL_THE_RACE,
    WHILE_RACING,
    Lookup,
    Race,
    RowPhase,
    RowProbe,
    crew,
    race_keyspace,
    steps,
)
from schemaquake.workloads.races.options import RacingOptions
from schemaquake.workloads.statements.description import FROZEN_LIST, INT, VALUE
from schemaquake.workloads.statements.meetings import Meeting, Object, meetings

__all__ = ["Grid", "GridOptions", "cells_with_lookups", "chosen_cells"]

_STRIDE: Final = 7 * 6 * 139 + 1
"""Numbers between two turns of one cell: more than there are cells, and the next turn has other coordinators or the other order."""


def _part(text: str) -> tuple[int, int]:
    """Parse `3/20`: the third of twenty parts."""
    number, _, parts = text.partition("/")
    if not 1 <= int(number) <= int(parts):
        raise ValueError(text)
    return int(number), int(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class GridOptions(RacingOptions):
    """Options of the grid; `races` is how often each cell is raced."""

    races: int = option(1, "the number of races of each cell, 1 or more", parse=whole_number(least=1), shorthand=True)
    cells: tuple[str, ...] = option(
        ("*",), "names of cells, with commas; * stands for any letters, as in drop-type/*", parse=names
    )
    batch: tuple[int, int] = option((1, 1), "the part of the cells to race, such as 3/20", parse=_part)


class Grid:
    """Every pair of statements on related objects."""

    name = "grid"
    requires = frozenset({"keyspaces", "tables"})
    samples_setup = False
    sets_up_first = True
    options = GridOptions()

    def faults(self, context: Context) -> Sequence[FaultRequest]:
        """Return the cut of mode `partition`. Raises PlanError if it has no two sides."""
        return requested_cuts(configured(self.options, context.options), context)

    def races(self, context: Context) -> tuple[Race, ...]:
        """Return every race of the run in order: all chosen cells, repeated. Raises PlanError, NotApplicable."""
        return _races(context)

    def crew(self, context: Context) -> Sequence[Worker]:
        """Return the crew of all races. Raises PlanError for a name that no cell has, NotApplicable if no chosen cell can be raced here."""
        return crew(_races(context), context)

    def steps(self, phase: Phase, worker: Worker, context: Context, *, phase_label: str) -> Iterator[Step]:
        """Return the steps of one worker in one phase of every race."""
        return steps(_races(context), phase, worker, context, phase_label=phase_label)


def chosen_cells(options: GridOptions, features: frozenset[str]) -> tuple[tuple[int, Meeting], ...]:
    """Return the cells that the options choose, in the order of the names given, each with its number among all cells.

    Raises PlanError for a name that no cell has on any system, NotApplicable if no chosen cell can be raced on this one.
    """
    everywhere = meetings()
    for pattern in options.cells:
        if not any(fnmatchcase(cell.name, pattern) for cell in everywhere):
            raise PlanError(
                f"-O cells={pattern}: no cell of the grid has such a name, which is STATEMENT/STATEMENT/RELATION"
            )
    able = [(number, cell) for number, cell in enumerate(everywhere) if cell.features <= features]
    wanted: dict[int, Meeting] = {}
    for pattern in options.cells:
        wanted |= {number: cell for number, cell in able if fnmatchcase(cell.name, pattern) and number not in wanted}
    place, parts = options.batch
    chosen = tuple(wanted.items())[place - 1 :: parts]
    if not chosen:
        raise NotApplicable(
            f"-O cells={','.join(options.cells)}: this system has not the features of any of these cells"
        )
    return chosen


def cells_with_lookups(features: frozenset[str]) -> tuple[str, ...]:
    """Return the names of the cells whose rows are read through an index or a view, too, on a system with these features."""
    if "cql" not in features:
        return ()
    return tuple(cell.name for _, cell in chosen_cells(GridOptions(), features) if any(True for _ in _lookups(cell)))


def _races(context: Context) -> tuple[Race, ...]:
    options = configured(Grid.options, context.options)
    cells = chosen_cells(options, context.features)
    turns = range(options.first_race, options.first_race + options.races)
    return tuple(_race(number + _STRIDE * turn, cell, context) for turn in turns for number, cell in cells)


def _race(number: int, cell: Meeting, context: Context) -> Race:
    keyspace = race_keyspace(context, Grid.name, number)
    return Race(
        workload=Grid.name,
        variant=cell.name,
        number=number,
        keyspace=keyspace,
        setup=tuple(cell.setup(keyspace)),
        sides=tuple((statement.write(cell.names(keyspace, side)),) for side, statement in enumerate(cell.statements)),
        tables=tuple(_probes(cell)),
        lookups=tuple(_lookups(cell)) if "cql" in context.features else (),
        keyspace_exists=cell.keyspace_exists,
    )


# ── rows at stake ────────────────────────────────────────────────────────────────────────────────────────────────────


def _probes(cell: Meeting) -> Iterator[RowProbe]:
    """List the rows of each table of the cell, then those with a cell in a column that a side makes, removes or names."""
    views = {each.name for each in cell.objects if each.kind == "view"}
    for table in cell.objects:
        if (
            table.kind == "table"
            and table.name not in views
            and all(cell.statements[s].holds_columns for s in table.makers)
        ):
            yield from _probes_of_table(cell, table)


def _probes_of_table(cell: Meeting, table: Object) -> Iterator[RowProbe]:
    parts = [
        each for each in cell.objects if each.kind in {"column", "clustering"} and set(each.inside) & set(table.nodes)
    ]
    key = tuple((part.name, 0) for part in parts if part.kind == "clustering" and part.exists)
    lasting: frozenset[RowPhase] = ALWAYS if table.exists else SINCE_THE_RACE
    if any(part.kind == "clustering" and part.removed for part in parts):
        lasting &= UNTIL_THE_RACE  # no row can be written without a column of the key, whatever its new name
    yield RowProbe(
        table=table.name,
        row=(*key, ("v", "a row")),
        phases=lasting,
        side=table.makers[0] if len(table.makers) == 1 else None,
    )
    for part in parts:
        if part.kind == "column":
            phases = WHILE_RACING if part.makers else lasting & UNTIL_THE_RACE if part.removed else lasting
            for side in part.makers or (None,):
                value = _value(cell, part, side)
                yield RowProbe(table=table.name, row=(*key, (part.name, value)), phases=phases, side=side, rows=2)


def _lookups(cell: Meeting) -> Iterator[Lookup]:
    """List the reads through each index and view on an integer column; some may be gone, as the race ends."""
    by_node = {node: each for each in cell.objects for node in each.nodes}
    for each in cell.objects:
        wholes = {by_node[node].kind: by_node[node] for node in each.inside}
        column, table = wholes.get("column"), wholes.get("table")
        if column is None or table is None or column.shape != INT:
            continue
        if each.kind == "index":
            yield Lookup(table=table.name, column=column.name, value=VALUE, index=each.name)
        if each.kind == "view":
            yield Lookup(table=each.name, column=column.name, value=VALUE, base=table.name)


def _value(cell: Meeting, column: Object, side: int | None) -> JSON:
    """Return a value of the type that the side gives the column, or that it has already."""
    shape = column.shape if side is None else cell.names("ks", side).shapes["column"]
    match shape.partition("<")[0].partition(" ")[0]:
        case "int":
            return VALUE
        case "text":
            return "seven"
        case "list":
            return [VALUE]
        case "map":
            return {str(VALUE): VALUE}
    return [VALUE] if shape == FROZEN_LIST else _value_of_type(cell, shape.removeprefix("frozen<").removesuffix(">"))


def _value_of_type(cell: Meeting, name: str) -> JSON:
    """Return a value with the first field of the type, as the statement declares it that makes the type."""
    changes = [*cell.setup("ks"), *(one.write(cell.names("ks", side)) for side, one in enumerate(cell.statements))]
    made = next(one.value for one in changes if one.f == "create-type" and one.value["name"] == name)
    field, cql_type = made["fields"][0]
    inner = cql_type.removeprefix("frozen<").removesuffix(">")
    return {field: VALUE if inner == INT else _value_of_type(cell, inner)}
