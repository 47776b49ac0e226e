"""Schema churn: random schema changes that meet on a few names, rows all the while, for as long as the run lasts.

The racing workloads reproduce what is known; this one looks for what nobody wrote down. Its statements are those of the
grid (`schemaquake.workloads.statements`), on a small pool of names for every kind of object, which all workers share: tables, columns of every
kind, types, fields, functions, aggregates, views, indexes are made, dropped and made again under one name.

Two keyspaces of three take every form of a statement, reads and writes of rows among them; the others are *plain* (`schemaquake.workloads.churn.drawing`).

Workers draw the same *rounds* from the seed (`schemaquake.workloads.churn.rounds`): two to four statements on related objects, released together,
those first whose meeting has not been drawn yet. What a round meets stands in the history as a note (f = `meeting`). Between rounds
rows are written and read.

Every change can be distinguished from every other as far as its kind allows: a comment, an option's value, a field, a constant occur once
in a run; columns differ by type, indexes and views by what they are on; a name is made and dropped in turn. So DDL is
judged like writes to registers. In mode `single`, the control, the first worker makes all changes of a round in turn. With `-O relay=true` they follow one another, too, but
each is made by another coordinator, as soon as that before it was answered.

Up to 5.0 expect everything that the racing workloads name, and more; since 6.0 (CEP-21) and with ScyllaDB's group 0, nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count, islice
from pathlib import Path
from random import Random
from typing import Any, Final, Literal

from schemaquake.harness.ddl.cql import statement
from schemaquake.harness.ddl.rows import insert, read_rows
from schemaquake.harness.errors import PlanError
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.options import configured, names, one_of, option, truth, whole_number
from schemaquake.harness.model.protocols import Context, FaultRequest, Phase, Worker
from schemaquake.harness.model.steps import Invoke, Meet, Note, Step, Wait
from schemaquake.workloads.churn.conditions import Condition, conditions_of
from schemaquake.workloads.churn.drawing import PLAIN_TABLES, TABLES, WIDE_TABLE, drawable, known_cells, plain_cells
from schemaquake.workloads.churn.earlier import read_met
from schemaquake.workloads.churn.intended import IntendedKeyspace
from schemaquake.workloads.churn.rounds import Group, Round, Rounds, base_objects
from schemaquake.workloads.one_a_node import share, stands_for_its_node
from schemaquake.workloads.races.cut import requested_cuts
from schemaquake.workloads.races.engine import race_keyspace
from schemaquake.workloads.races.one_by_one import one_by_one, rest
from schemaquake.workloads.races.options import CutOptions
from schemaquake.workloads.statements.description import DATA

__all__ = ["ChurnOptions", "SchemaChurn", "groups", "possible_cells", "rounds_of"]

_GROUP_MAX: Final = 4
_ROUND_S: Final = 0.55
"""The time (s) from one round to the next, as far as statements take no longer."""
_ROWS_A_ROUND: Final = 4
_REMEMBERED: Final = 50
_KEYSPACES_MOST: Final = 24
_KEYS_A_WORKER: Final = 5_000_000
_WORKERS_MAX: Final = 400  # times as many keys stay within CQL's int
_PHASE_DIGITS: Final = {"prepared": 1, "settled": 2, "restarted": 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChurnOptions(CutOptions):
    """Options of random schema changes; in mode `single` the first worker makes all of them."""

    season: int = option(
        30,
        "the number of meetings after which the next keyspace takes its turn, 1 or more",
        parse=whole_number(least=1),
    )
    relay: bool = option(
        False,
        "true to make the statements of a round one after another, each through the next coordinator as soon as that before it was answered",
        parse=truth,
    )
    """Nothing races then: a coordinator that does not know yet what was acknowledged elsewhere answers wrongly."""
    forms: Literal["all", "plain"] = option(
        "all",
        "all: every form of the grid's statements in two keyspaces of three; plain: in none",
        parse=one_of("all", "plain"),
    )
    rounds: int = option(
        0,
        "the number of meetings after which nothing is changed any more, and rows go on; 0: no end",
        parse=whole_number(least=0),
    )
    """So that objects of every kind are there before something else happens, as an upgrade during which nothing may be changed."""
    coverage: tuple[str, ...] = option(
        (), "folders of earlier runs, with commas: what has not met in them comes first", parse=names
    )

    def check(self, context: Context) -> None:
        """Refuse a cut without two sides, and runs that have no table of meetings. Raises PlanError."""
        CutOptions.check(self, context)
        _earlier(self.coverage)


class SchemaChurn:
    """Random schema changes that meet on a few names."""

    name = "schema-churn"
    requires = frozenset({"keyspaces", "tables", "columns", "options"})
    endless = True
    options = ChurnOptions()

    def faults(self, context: Context) -> Sequence[FaultRequest]:
        """Return the cut of mode `partition`. Raises PlanError if it has no two sides."""
        return requested_cuts(_options(context), context)

    def crew(self, context: Context) -> Sequence[Worker]:
        """Return `context.crew` workers, at least one a node, dealt to the nodes in turn. Raises PlanError above 400."""
        nodes = context.nodes
        workers = _workers(context)
        if workers > _WORKERS_MAX:
            raise PlanError(f"schema-churn knows keys for {_WORKERS_MAX} workers, not {workers}: lower --concurrency")
        return [Worker(index, nodes[index % len(nodes)]) for index in range(workers)]

    def steps(self, phase: Phase, worker: Worker, context: Context, *, phase_label: str) -> Iterator[Step]:
        """Return the steps of one worker in one phase; `main` never ends. Raises PlanError for options that do not fit."""
        match phase:
            case "setup":
                return _set_up(worker, context)
            case "prepare":
                return _fill(worker, context)
            case "main":
                return _churn(worker, context)
            case "probe":
                return _probe(worker, context, phase_label)
            case "final":
                return _read(worker, context, phase_label)


def groups(context: Context) -> tuple[Group, ...]:
    """Return the groups of the crew. Groups are stretches of it, whose neighbours are on different nodes.

    Keyspaces take turns for the time limit; in a run that goes on for longer, or has many groups, the first one has its turn again.
    """
    workers = _workers(context)
    number = -(-workers // _GROUP_MAX)
    options = _options(context)
    rounds = context.time_limit_s / _ROUND_S
    turns = int(min(rounds, options.rounds or rounds) / options.season) + 1
    turns = max(1, min(turns, _KEYSPACES_MOST // number))
    return tuple(
        Group(
            group,
            tuple(index for index in range(workers) if index * number // workers == group),
            tuple(race_keyspace(context, SchemaChurn.name, turn * number + group) for turn in range(turns)),
            options.forms == "plain",
        )
        for group in range(number)
    )


def rounds_of(group: Group, context: Context) -> Rounds:
    """Return the rounds of a group. Raises PlanError for an earlier run that cannot be read."""
    options = _options(context)
    requested = [fault.nemesis for fault in requested_cuts(options, context)]
    conditions = conditions_of(context, requested=requested, round_s=_ROUND_S)
    rounds = Rounds(group, context, conditions, options.season)
    rounds.remember(_earlier(options.coverage))
    return rounds


def possible_cells(features: frozenset[str], *, plain: bool = False) -> Sequence[str]:
    """Return the cells that can be met on a system with these features, in plain keyspaces or in others."""
    able = {each.name for each in (*drawable(features, every_form=not plain), *drawable(features, among=DATA))}
    return [
        name
        for name, cell in known_cells().items()
        if {each.name for each in cell.statements} <= able and (not plain or name in plain_cells())
    ]


def _options(context: Context) -> ChurnOptions:
    return configured(SchemaChurn.options, context.options)


@cache
def _earlier(folders: tuple[str, ...]) -> tuple[tuple[tuple[str, Condition], int], ...]:
    return tuple(read_met([Path(folder) for folder in folders]).items())


def _workers(context: Context) -> int:
    return max(context.crew, len(context.nodes))


# ── the main phase ───────────────────────────────────────────────────────────────────────────────────────────────────


def _churn(worker: Worker, context: Context) -> Iterator[Step]:
    """Yield round after round, with rows and pauses between them; when the last round is over, rows alone."""
    options = _options(context)
    single = options.mode == "single"
    relay = options.relay and not single
    group = next(each for each in groups(context) if worker.index in each.workers)
    rounds = rounds_of(group, context)
    rows = _Rows(worker, group, rounds.states, context.random("schema-churn", worker.index, "rows"))
    if worker.index == 0:
        yield Note("meetings-planned", None, {"cells": len(possible_cells(context.features, plain=group.plain))})
    mending: tuple[Invoke, ...] = ()
    for found in islice(rounds, options.rounds or None):
        for place in range(_ROWS_A_ROUND - 1):
            yield from _pause(context)
            yield rows.next(found.keyspace)
            if place == 0:
                yield from mending
        yield from _pause(context)
        # Before the meeting: nothing may delay what follows it.
        mine = _in_turn(found, worker) if single else _at_once(found, worker, rows)
        if worker.index == group.workers[0]:
            yield _note(found, mode="single" if single else "relay" if relay else "")
        yield Meet(f"{found.number} go")
        if relay:
            yield from _relay(found, worker)
            mine = mine if not found.side_of(worker.index) else []
        for change in mine:
            yield change
            if single:
                yield from rest(context)
        mending = found.mending if found.mender == worker.index and not single else ()
    yield from mending
    while True:
        yield from _pause(context)
        yield rows.next(found.keyspace)


def _in_turn(found: Round, worker: Worker) -> Sequence[Invoke]:
    """Return what the worker does in a round whose changes follow one another: all of them, or nothing."""
    return [each.change for _, side in found.sides for each in side] if worker.index == 0 else []


def _at_once(found: Round, worker: Worker, rows: _Rows) -> Sequence[Invoke]:
    """Return what the worker does while others do theirs: its side of the round, or a row beside it."""
    return [each.change for each in found.side_of(worker.index)] or [_row_beside(found, worker, rows)]


def _row_beside(found: Round, worker: Worker, rows: _Rows) -> Invoke:
    """Return what a worker without a schema change does meanwhile: its read or write of the round, or a row of a table at stake."""
    drawn = found.row_of(worker.index)
    return rows.next(found.keyspace, at_stake=found.names()) if drawn is None else drawn.change


def _relay(found: Round, worker: Worker) -> Iterator[Step]:
    """Yield the worker's statements when its turn has come; the crew meets as often in every group."""
    for place in range(_GROUP_MAX):
        if place < len(found.sides) and found.sides[place][0] == worker.index:
            yield from (each.change for each in found.sides[place][1])
        yield Meet(f"{found.number} turn {place}")


def _note(found: Round, *, mode: str) -> Note:
    sides = [[statement(each.change.f, each.change.value) for each in drawn] for _, drawn in found.stated()]
    # Statements that follow one another do not meet.
    value: dict[str, Any] = {"round": found.number, "sides": sides, "cells": [] if mode else list(found.cells)}
    return Note("meeting", found.keyspace, value)


def _pause(context: Context) -> Iterator[Wait]:
    """Pace the crew to about two rounds a second; if the plan names a rate, of all operations, the harness keeps it."""
    if context.rate is None:
        yield Wait(_ROUND_S / _ROWS_A_ROUND)


# ── rows ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


class _Rows:
    """Inserts of unused keys, at QUORUM and at ONE, and reads of rows that this worker inserted lately."""

    def __init__(self, worker: Worker, group: Group, states: dict[str, IntendedKeyspace], random: Random) -> None:
        self._worker = worker
        self._group = group
        self._states = states
        self._random = random
        self._lately: list[tuple[str, str, int]] = []
        self._number = 0

    def next(self, keyspace: str, *, at_stake: Sequence[str] = ()) -> Invoke:
        """Return the next row of this keyspace; with `at_stake`, an insert into one of these tables and columns if it can be."""
        random = self._random
        if not at_stake and self._lately and (random.random() < 0.3 or self._number == _KEYS_A_WORKER):
            where, table, key = random.choice(self._lately)
            return read_rows(where, table, consistency="QUORUM", phase="racing", columns=["k"], where={"k": key})
        state = self._states[keyspace]
        able = [name for name in TABLES if name in state.tables and state.tables[name].holds_columns]
        staked = [name for name in able if name in at_stake]
        table = random.choice(staked or able or PLAIN_TABLES)
        key = (self._worker.index + 1) * _KEYS_A_WORKER + self._number
        row = self._row(state, table, key, at_stake)
        self._lately = [*self._lately[1 - _REMEMBERED :], (keyspace, table, key)]
        self._number += 1
        return insert(keyspace, table, row, consistency=random.choice(["QUORUM", "ONE"]), phase="racing")

    def _row(self, state: IntendedKeyspace, table: str, key: int, at_stake: Sequence[str]) -> dict[str, JSON]:
        """Return a row of the table as it is meant to be, sometimes with a cell of a column that comes and goes."""
        columns = state.tables[table].columns if table in state.tables else {}
        row: dict[str, JSON] = {"k": key}
        row |= {name: 0 for name, shape in columns.items() if shape.endswith(" clustering")}
        row["v"] = f"row {self._number}"
        others = [name for name, shape in columns.items() if name not in row and _value(shape, 0) is not None]
        wanted = [name for name in others if name in at_stake]
        if wanted or (others and self._random.random() < 0.3):
            name = self._random.choice(wanted or others)
            row[name] = _value(columns[name], self._number)
        return row


def _value(shape: str, number: int) -> JSON:
    """Return a value for a column of this shape; None for one that churn does not write."""
    cql_type = shape.partition(" ")[0]
    if cql_type.endswith("list<int>") or cql_type == "frozen<list<int>>":
        return [number]
    if cql_type.startswith("frozen<"):
        return {"a": number}
    return {"int": number, "text": f"cell {number}"}.get(cql_type)


def _row(keyspace: str, table: str, worker: Worker, phase: str) -> Invoke:
    """Return the insert of one worker, table and phase, at QUORUM; keys are negative, apart from those of the main phase."""
    key = -(_PHASE_DIGITS[phase] * 10_000 + worker.index)
    return insert(keyspace, table, {"k": key, "v": phase}, consistency="QUORUM", phase=phase)


def _keyspaces(context: Context) -> list[str]:
    return [keyspace for group in groups(context) for keyspace in group.keyspaces]


def _fill(worker: Worker, context: Context) -> Iterator[Step]:
    if stands_for_its_node(worker, context):
        for keyspace in _keyspaces(context):
            for table in PLAIN_TABLES:
                yield _row(keyspace, table, worker, "prepared")


def _probe(worker: Worker, context: Context, phase_label: str) -> Iterator[Step]:
    """Write a row through every coordinator and read it back; a table that is legally gone refuses both."""
    if stands_for_its_node(worker, context):
        for keyspace in _keyspaces(context):
            for table in PLAIN_TABLES:
                row = _row(keyspace, table, worker, phase_label)
                key = row.value["row"]["k"]
                yield row
                yield read_rows(
                    keyspace, table, consistency="QUORUM", phase=phase_label, columns=["k", "v"], where={"k": key}
                )


def _read(worker: Worker, context: Context, phase_label: str) -> Iterator[Step]:
    """Read every table at ONE through every coordinator, then at ALL through one, because ALL repairs differences."""
    if not stands_for_its_node(worker, context):
        return
    everything = [(keyspace, table) for keyspace in _keyspaces(context) for table in TABLES]
    for consistency, some in (("ONE", everything), ("ALL", share(everything, worker, context))):
        for keyspace, table in some:
            # Thrift returns no row without a cell, and knows no table whose rows have a key of their own.
            columns = ["k"] if table == WIDE_TABLE and "cql" in context.features else ["k", "v"]
            yield read_rows(keyspace, table, consistency=consistency, phase=phase_label, columns=columns)


def _set_up(worker: Worker, context: Context) -> Iterator[Step]:
    """Create every keyspace with its objects, by the first worker alone."""
    if worker.index == 0:
        tags = count(900_000)
        for group in groups(context):
            for keyspace in group.keyspaces:
                made = base_objects(keyspace, context, tags, plain=group.is_plain(keyspace))
                yield from one_by_one(made, context)
