"""Schema churn: random schema changes through every coordinator, rows all the while, for as long as the run lasts.

The racing workloads reproduce what is known; this one looks for unknown anomalies. A keyspace has two tables, two
types and a function. At most four workers, on different nodes, share a keyspace, so that its history stays small
enough to be judged by itself; each worker draws one *move* after another, a few statements that belong together.

Every change can be distinguished from every other: tables carry a comment, types a field, functions a constant, that occur
once in a run; columns, indexes, views and aggregates have names that are never used again. So the state of an object
says which change made it, and DDL is judged like writes to a register.

A worker's steps do not depend on outcomes. They follow a model of intentions: the objects of the setup, the worker's own
requests, and the rule that a worker which drops a shared table, type or function creates it again at once. Alone, every
statement would be valid; together, most are, and the others are the point. In mode `single`, the control, the first worker is alone.

Up to 5.0 expect everything that the racing workloads name; since 6.0 (CEP-21) and with ScyllaDB's group 0, nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Final

from schemaquake.harness.ddl.rows import insert, read_rows
from schemaquake.harness.ddl.schema_changes import (
    add_column,
    add_field,
    alter_options,
    create_aggregate,
    create_function,
    create_index,
    create_keyspace,
    create_table,
    create_type,
    create_view,
    drop_aggregate,
    drop_column,
    drop_function,
    drop_index,
    drop_keyspace,
    drop_table,
    drop_type,
    drop_view,
)
from schemaquake.harness.errors import PlanError
from schemaquake.harness.model.options import configured, option, whole_number
from schemaquake.harness.model.protocols import Context, FaultRequest, Phase, Worker
from schemaquake.harness.model.steps import Invoke, Step, Wait
from schemaquake.workloads.races.cut import requested_cuts
from schemaquake.workloads.races.engine import race_keyspace
from schemaquake.workloads.races.one_by_one import one_by_one
from schemaquake.workloads.races.options import CutOptions

__all__ = ["ChurnWorker", "Keyspace", "SchemaChurn", "keyspaces"]

TABLES: Final = ("t0", "t1")
TYPES: Final = ("u0", "u1")
FUNCTION: Final = "f0"

_GROUP_MAX: Final = 4
_CHANGES_A_SECOND: Final = 5.0
_ROWS_A_CHANGE: Final = 4
_REMEMBERED: Final = 50
_KEYS_A_WORKER: Final = 5_000_000
_WORKERS_MAX: Final = 400  # times as many keys stay within CQL's int
_PHASE_DIGITS: Final = {"prepared": 1, "settled": 2, "restarted": 3}


@dataclass(frozen=True, slots=True)
class Keyspace:
    """A keyspace and the group of workers that change it. One keyspace of every group may be razed: dropped and created again."""

    name: str
    group: int
    may_be_razed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ChurnOptions(CutOptions):
    """Options of random schema changes; in mode `single` the first worker is alone."""

    plots: int = option(3, "the number of keyspaces that four workers share, 1 or more", parse=whole_number(least=1))


class SchemaChurn:
    """Random schema changes, mostly valid, each distinguishable from all others."""

    name = "schema-churn"
    requires = frozenset({"keyspaces", "tables", "columns", "options"})
    endless = True
    options = ChurnOptions()

    def faults(self, context: Context) -> Sequence[FaultRequest]:
        """Return the cut of mode `partition`. Raises PlanError if it has no two sides."""
        return requested_cuts(configured(self.options, context.options), context)

    def crew(self, context: Context) -> Sequence[Worker]:
        """Return `context.crew` workers, at least one a node, dealt to the nodes in turn. Raises PlanError above 400."""
        nodes = context.nodes
        workers = _workers(context)
        if workers > _WORKERS_MAX:
            raise PlanError(f"schema-churn knows keys for {_WORKERS_MAX} workers, not {workers}: lower --concurrency")
        return [Worker(index, nodes[index % len(nodes)]) for index in range(workers)]

    def steps(self, phase: Phase, worker: Worker, context: Context, *, phase_label: str) -> Iterator[Step]:
        """Return the steps of one worker in one phase; `main` never ends. Raises PlanError for a wrong option `plots`."""
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


def keyspaces(context: Context) -> tuple[Keyspace, ...]:
    """Return every keyspace of the run, group by group. Raises PlanError if the option `plots` is no positive number."""
    each = configured(SchemaChurn.options, context.options).plots
    return tuple(
        Keyspace(race_keyspace(context, "schema-churn", group * each + n), group, may_be_razed=n > 0 and n == each - 1)
        for group in range(_groups(context))
        for n in range(each)
    )


def _workers(context: Context) -> int:
    return max(context.crew, len(context.nodes))


def _groups(context: Context) -> int:
    return -(-_workers(context) // _GROUP_MAX)


def _group(worker: Worker, context: Context) -> int:
    """Return the number of a worker's group. Groups are stretches of the crew, whose neighbours are on different nodes."""
    return worker.index * _groups(context) // _workers(context)


# ── a worker's intentions and moves ────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class ChurnWorker:
    """One worker's intentions. `columns` are the int columns it added to a table and has not dropped since."""

    worker: Worker
    context: Context
    random: Random
    columns: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    tags: Iterator[int] = field(default_factory=count)

    def tag(self) -> str:
        """Return a word that no other change of the run has: worker and number."""
        return f"{self.worker.index}_{next(self.tags)}"

    def number(self) -> int:
        """Return a number that no other change of the run has, for values that must be numbers."""
        return self.worker.index * 1_000_000 + next(self.tags)

    # Each move is a few statements that belong together; rows are written between them.

    def add_column(self, keyspace: Keyspace, table: str) -> Iterator[Invoke]:
        """Add a column that this worker may drop later."""
        name = f"c{self.tag()}"
        self.columns.setdefault((keyspace.name, table), []).append(name)
        yield add_column(keyspace.name, table, name, "int")

    def drop_column(self, keyspace: Keyspace, table: str) -> Iterator[Invoke]:
        """Drop a column that this worker added, or add one."""
        mine = self.columns.get((keyspace.name, table))
        if not mine:
            yield from self.add_column(keyspace, table)
            return
        yield drop_column(keyspace.name, table, mine.pop(self.random.randrange(len(mine))))

    def alter(self, keyspace: Keyspace, table: str) -> Iterator[Invoke]:
        """Change one of two options: a write of one that reverts the other shows only if both change."""
        if self.random.random() < 0.5:
            yield alter_options(keyspace.name, table, {"comment": self.tag()})
        else:
            yield alter_options(keyspace.name, table, {"gc_grace_seconds": 10_000 + self.number()})

    def remake_table(self, keyspace: Keyspace, table: str) -> Iterator[Invoke]:
        """Drop a table and create it again."""
        self.columns.pop((keyspace.name, table), None)
        yield drop_table(keyspace.name, table)
        yield _table(keyspace.name, table, self.tag())

    def add_field(self, keyspace: Keyspace, _table: str) -> Iterator[Invoke]:
        """Add a field to a type."""
        yield add_field(keyspace.name, self.random.choice(TYPES), f"f{self.tag()}", "int")

    def remake_type(self, keyspace: Keyspace, _table: str) -> Iterator[Invoke]:
        """Drop a type and create it again."""
        name = self.random.choice(TYPES)
        yield drop_type(keyspace.name, name)
        yield _type(keyspace.name, name, self.tag())

    def use_type(self, keyspace: Keyspace, table: str) -> Iterator[Invoke]:
        """Add a column of a type and drop it, so that the type can be dropped by other workers."""
        name = f"c{self.tag()}"
        yield add_column(keyspace.name, table, name, f"frozen<{self.random.choice(TYPES)}>")
        yield drop_column(keyspace.name, table, name)

    def remake_function(self, keyspace: Keyspace, _table: str) -> Iterator[Invoke]:
        """Drop the function and create it again."""
        yield drop_function(keyspace.name, FUNCTION)
        yield _function(keyspace.name, self.number())

    def aggregate(self, keyspace: Keyspace, _table: str) -> Iterator[Invoke]:
        """Create an aggregate and drop it."""
        name = f"a{self.tag()}"
        yield create_aggregate(keyspace.name, name, arguments=["int"], state_function=FUNCTION, state_type="int")
        yield drop_aggregate(keyspace.name, name)

    def view(self, keyspace: Keyspace, table: str) -> Iterator[Invoke]:
        """Create a view and drop it."""
        name = f"m{self.tag()}"
        yield create_view(keyspace.name, name, base=table, primary_key=["v", "k"])
        yield drop_view(keyspace.name, name)

    def index(self, keyspace: Keyspace, table: str) -> Iterator[Invoke]:
        """Index a new column and drop the index: two indexes on one column would be refused without any race."""
        added = list(self.add_column(keyspace, table))
        yield from added
        name = f"i{self.tag()}"
        yield create_index(keyspace.name, name, table=table, column=added[0].value["column"][0])
        yield drop_index(keyspace.name, name)

    def raze(self, keyspace: Keyspace, _table: str) -> Iterator[Invoke]:
        """Drop the keyspace and create it anew with its objects."""
        for table in TABLES:
            self.columns.pop((keyspace.name, table), None)
        yield drop_keyspace(keyspace.name)
        yield from _objects(keyspace, self.context, self.tag, self.number)


_Move = Callable[[ChurnWorker, Keyspace, str], Iterator[Invoke]]

# (weight, feature, move). Alterations outweigh drops, or few of them would find their object.
_MOVES: Final[tuple[tuple[int, str, _Move], ...]] = (
    (30, "columns", ChurnWorker.add_column),
    (14, "column-drops", ChurnWorker.drop_column),
    (20, "options", ChurnWorker.alter),
    (6, "tables", ChurnWorker.remake_table),
    (8, "types", ChurnWorker.add_field),
    (4, "types", ChurnWorker.remake_type),
    (5, "types", ChurnWorker.use_type),
    (3, "functions", ChurnWorker.remake_function),
    (4, "functions", ChurnWorker.aggregate),
    (2, "views", ChurnWorker.view),
    (4, "indexes", ChurnWorker.index),
    (1, "keyspaces", ChurnWorker.raze),
)


def _churn(worker: Worker, context: Context) -> Iterator[Step]:
    """Yield move after move, with rows and pauses after every statement."""
    if configured(SchemaChurn.options, context.options).mode == "single" and worker.index:
        return  # the control: one worker through one coordinator meets no conflict
    churner = ChurnWorker(worker, context, context.random("schema-churn", worker.index, "moves"))
    random = churner.random
    mine = [keyspace for keyspace in keyspaces(context) if keyspace.group == _group(worker, context)]
    moves = [(weight, move) for weight, feature, move in _MOVES if feature in context.features | SchemaChurn.requires]
    rows = _rows(churner, mine)
    while True:
        keyspace, table = random.choice(mine), random.choice(TABLES)
        able = [(w, move) for w, move in moves if keyspace.may_be_razed or move is not ChurnWorker.raze]
        (move,) = random.choices([move for _, move in able], weights=[w for w, _ in able])
        for change in move(churner, keyspace, table):
            yield change
            for _ in range(_ROWS_A_CHANGE):
                yield from _pause(context)
                yield next(rows)
            yield from _pause(context)


def _pause(context: Context) -> Iterator[Wait]:
    """Pace the crew to five changes a second; if the plan names a rate, of all operations, the harness keeps it."""
    if context.rate is None:
        yield Wait(_workers(context) / _CHANGES_A_SECOND / (_ROWS_A_CHANGE + 1))


# ── rows ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _rows(churner: ChurnWorker, mine: Sequence[Keyspace]) -> Iterator[Invoke]:
    """Yield inserts of unused keys, at QUORUM and at ONE, and reads of rows that this worker inserted lately."""
    random = churner.random
    lately: list[tuple[str, str, int]] = []
    n = 0
    while True:
        if lately and (random.random() < 0.3 or n == _KEYS_A_WORKER):
            keyspace, table, key = random.choice(lately)
            yield read_rows(keyspace, table, consistency="QUORUM", phase="racing", columns=["k", "v"], where={"k": key})
            continue
        keyspace, table = random.choice(mine).name, random.choice(TABLES)
        key = (churner.worker.index + 1) * _KEYS_A_WORKER + n
        row = {"k": key, "v": f"row {n}"}
        columns = churner.columns.get((keyspace, table))
        if columns and random.random() < 0.3:
            row[random.choice(columns)] = n
        lately = [*lately[1 - _REMEMBERED :], (keyspace, table, key)]
        yield insert(keyspace, table, row, consistency=random.choice(["QUORUM", "ONE"]), phase="racing")
        n += 1


def _row(keyspace: Keyspace, table: str, worker: Worker, phase: str) -> Invoke:
    """Return the insert of one worker, table and phase, at QUORUM; keys are negative, apart from those of the main phase."""
    key = -(_PHASE_DIGITS[phase] * 10_000 + worker.index)
    return insert(keyspace.name, table, {"k": key, "v": phase}, consistency="QUORUM", phase=phase)


def _fill(worker: Worker, context: Context) -> Iterator[Step]:
    if worker.index < len(context.nodes):
        for keyspace in keyspaces(context):
            for table in TABLES:
                yield _row(keyspace, table, worker, "prepared")


def _probe(worker: Worker, context: Context, phase_label: str) -> Iterator[Step]:
    """Write a row through every coordinator and read it back; a table that is legally gone refuses both."""
    if worker.index < len(context.nodes):
        for keyspace in keyspaces(context):
            for table in TABLES:
                row = _row(keyspace, table, worker, phase_label)
                yield row
                yield read_rows(
                    keyspace.name,
                    table,
                    consistency="QUORUM",
                    phase=phase_label,
                    columns=["k", "v"],
                    where={"k": row.value["row"]["k"]},
                )


def _read(worker: Worker, context: Context, phase_label: str) -> Iterator[Step]:
    """Read every table at ONE through every coordinator, then at ALL through one, because ALL repairs differences."""
    if worker.index >= len(context.nodes):
        return
    everything = [(keyspace, table) for keyspace in keyspaces(context) for table in TABLES]
    for consistency, some in (("ONE", everything), ("ALL", everything[worker.index :: len(context.nodes)])):
        for keyspace, table in some:
            yield read_rows(keyspace.name, table, consistency=consistency, phase=phase_label, columns=["k", "v"])


# ── objects ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _set_up(worker: Worker, context: Context) -> Iterator[Step]:
    """Create every keyspace, by the first worker alone."""
    if worker.index == 0:
        # Tags of workers that do not exist: the first that churns begins at its own.
        tags = count()
        for keyspace in keyspaces(context):
            changes = _objects(keyspace, context, lambda: f"setup_{next(tags)}", lambda: 900_000_000 + next(tags))
            yield from one_by_one(changes, context)


def _objects(
    keyspace: Keyspace, context: Context, tag: Callable[[], str], number: Callable[[], int]
) -> Iterator[Invoke]:
    """Create a keyspace and everything that is shared in it."""
    yield create_keyspace(keyspace.name, replication_factor=context.replication_factor)
    for table in TABLES:
        yield _table(keyspace.name, table, tag())
    if "types" in context.features:
        for name in TYPES:
            yield _type(keyspace.name, name, tag())
    if "functions" in context.features:
        yield _function(keyspace.name, number())


def _table(keyspace: str, name: str, tag: str) -> Invoke:
    columns = [("k", "int", "partition_key"), ("v", "text", "regular")]
    return create_table(keyspace, name, columns=columns, options={"comment": tag})


def _type(keyspace: str, name: str, tag: str) -> Invoke:
    return create_type(keyspace, name, fields=[("a", "int"), (f"f{tag}", "int")])


def _function(keyspace: str, number: int) -> Invoke:
    return create_function(
        keyspace,
        FUNCTION,
        arguments=[("state", "int"), ("value", "int")],
        returns="int",
        body=f"return (state == null ? 0 : state) + (value == null ? {number} : value);",
    )
