"""Rounds: the statements that meet, one round after another, drawn so that what has not met yet comes first.

A round has two to four statements on one keyspace, each for another worker, released together; sometimes a worker goes on with a
second one at once. The others write a row of a table at stake in the same instant. Each statement would be carried
out if it came first, or after the one that was drawn before it, and all of them together form the grid's cells.

Rounds follow from the seed, the group of workers and what earlier runs have met, so every worker draws the same ones.
Keyspaces take turns: a keyspace is at stake for some rounds (a *season*), so that histories stay small enough to be judged, and
damage stays where it was done.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, count
from random import Random
from typing import Final

from schemaquake.harness.ddl.schema_changes import (
    create_function,
    create_keyspace,
    create_table,
    create_type,
)
from schemaquake.harness.model.protocols import Context
from schemaquake.harness.model.steps import Invoke
from schemaquake.workloads.churn.conditions import Condition, Conditions
from schemaquake.workloads.churn.drawing import (
    CLUSTERINGS,
    COLUMNS,
    FUNCTIONS,
    PLAIN_TABLES,
    TYPES,
    WIDE_TABLE,
    Drawn,
    cells_of,
    column_shapes,
    draw,
    drawable,
    plain_cells,
)
from schemaquake.workloads.churn.intended import IntendedKeyspace
from schemaquake.workloads.churn.mending import take_in_order
from schemaquake.workloads.statements.description import DATA, Statement

__all__ = ["Group", "Round", "Rounds", "base_objects"]

_SIDES_MOST: Final = 4
_FIRSTS: Final = 5
_FOLLOWERS: Final = 18
"""Statements tried for the first and for each further place of a round; the one with the most that has not met is taken."""
_MORE_THAN_TWO: Final = 0.6
_SECONDS: Final = 0.2
"""The share of workers with a second statement, which they send without waiting for the others."""
_DISTANT: Final = 0.1
"""The worth of a meeting of statements that have nothing but their keyspace in common."""
_KEPT: Final[Mapping[str, float]] = {"keyspace": 0.2, "table": 0.35}
"""The share of possible removals, of objects with much in them, that are taken: else there would seldom be anything in them."""
_WHOLE_KEYSPACE_EVERY: Final = 3
"""One keyspace of so many may itself be dropped and altered: rows of the others stay."""
_PLAIN_KEYSPACE_EVERY: Final = 3
"""One keyspace of so many is plain: rows of its wide table can be written whatever is raced. The others take every form of a statement."""
_ROW_STATEMENTS: Final = 0.75
"""The share of workers without a schema change that read or write rows by a statement of the grid."""
_ROW_TRIES: Final = 8
_TRUNCATED: Final = 0.2
"""The share of possible TRUNCATEs that are taken: else few rows would last."""
_SETUP_TAGS: Final = 900_000


@dataclass(frozen=True, slots=True)
class Group:
    """Workers that share keyspaces: their numbers in the crew, and the keyspaces in the order of their turns."""

    number: int
    workers: tuple[int, ...]
    keyspaces: tuple[str, ...]
    plain: bool = False
    """True if all keyspaces are plain."""

    def is_plain(self, keyspace: str) -> bool:
        """Return True for a keyspace in which not every form of a statement is drawn."""
        return self.plain or self.keyspaces.index(keyspace) % _PLAIN_KEYSPACE_EVERY == 0


@dataclass(frozen=True, slots=True)
class Round:
    """One meeting: the statements of each worker that has some, and the cells in which they meet."""

    number: int
    keyspace: str
    sides: tuple[tuple[int, tuple[Drawn, ...]], ...]
    """(worker, its statements), in the order in which the intended schema takes them."""
    cells: tuple[str, ...]
    mender: int
    """The worker that makes `mending` once all of them are answered."""
    mending: tuple[Invoke, ...]
    """Changes that make the keyspace what is intended, if the statements took effect in another order than the drawn one."""
    rows: tuple[tuple[int, Drawn], ...] = ()
    """(worker, its read or write) of some of the others."""

    def side_of(self, worker: int) -> tuple[Drawn, ...]:
        """Return the statements of a worker; empty if it has none."""
        return next((drawn for member, drawn in self.sides if member == worker), ())

    def row_of(self, worker: int) -> Drawn | None:
        """Return the read or write of a worker without a schema change; None if it has none."""
        return dict(self.rows).get(worker)

    def stated(self) -> tuple[tuple[int, tuple[Drawn, ...]], ...]:
        """Return (worker, its statements), reads and writes included."""
        return (*self.sides, *((worker, (drawn,)) for worker, drawn in self.rows))

    def names(self) -> tuple[str, ...]:
        """Return the names of all objects that its statements are about, each once."""
        every = [name for _, side in self.sides for drawn in side for name in drawn.names.slots.values()]
        return tuple(dict.fromkeys(every))


@dataclass(slots=True)
class Rounds:
    """The rounds of one group, without end. `states` are the intended keyspaces after the rounds that were drawn so far."""

    group: Group
    context: Context
    conditions: Conditions
    season: int
    """The number of rounds for which a keyspace is at stake."""
    states: dict[str, IntendedKeyspace] = field(default_factory=dict)
    _met: Counter[tuple[str, Condition]] = field(default_factory=Counter)

    def remember(self, met: Iterable[tuple[tuple[str, Condition], int]]) -> None:
        """Take into account what earlier runs have met, as ((cell, condition), how often)."""
        self._met.update(dict(met))

    def __iter__(self) -> Iterator[Round]:
        """Yield the rounds; `states` are as before a round when it is yielded, and after it when the next one is asked for."""
        random = self.context.random("schema-churn", self.group.number, "rounds")
        tags = count(self.group.number * 1_000_000 + 10)
        for keyspace in self.group.keyspaces:
            self.states[keyspace] = _prepared(keyspace, self.context, plain=self.group.is_plain(keyspace))
        for number in count():
            turn = number // self.season % len(self.group.keyspaces)
            keyspace = self.group.keyspaces[turn]
            plain = self.group.is_plain(keyspace)
            drawing = _Drawing(
                state=self.states[keyspace],
                statements=_allowed(self.context.features, whole=turn % _WHOLE_KEYSPACE_EVERY == 2, plain=plain),
                rows=() if plain else drawable(self.context.features, among=DATA),
                plain=plain,
                random=random,
                tags=tags,
                met=self._met,
                condition=self.conditions.foreseen(number),
            )
            drawn, cells = drawing.round(len(self.group.workers))
            for each in drawn:
                self._met[each[0].statement.name, drawing.condition] += 1
            workers = random.sample(self.group.workers, len(drawn))
            rows, met = drawing.row_statements([each for each in self.group.workers if each not in workers], drawn)
            cells = tuple(dict.fromkeys((*cells, *met)))
            for cell in cells:
                self._met[cell, drawing.condition] += 1
            after, mending = take_in_order(
                [each.change for side in drawn for each in side],
                self.states[keyspace],
                features=self.context.features,
                replication_factor=self.context.replication_factor,
                renames=not plain,
            )
            sides = tuple(zip(workers, drawn, strict=True))
            yield Round(number, keyspace, sides, cells, random.choice(self.group.workers), mending, rows)
            self.states[keyspace] = after


@dataclass(slots=True, kw_only=True)
class _Drawing:
    """The drawing of one round."""

    state: IntendedKeyspace
    statements: Sequence[Statement]
    rows: Sequence[Statement]
    """Reads and writes to draw from."""
    plain: bool
    random: Random
    tags: Iterator[int]
    met: Counter[tuple[str, Condition]]
    condition: Condition

    def round(self, workers: int) -> tuple[list[tuple[Drawn, ...]], tuple[str, ...]]:
        """Return the statements of each side, and the cells in which they meet."""
        sides = self._sides(workers)
        drawn: list[Drawn] = []
        after = self.state.copied()
        for place in range(sides):
            found = self._next(drawn, after, _FOLLOWERS if place else _FIRSTS)
            if found is None:
                break
            drawn.append(found)
            after.apply(found.change)
        whole: list[tuple[Drawn, ...]] = []
        for one in drawn:
            second = self._second(one, after) if self.random.random() < _SECONDS else None
            if second is not None:
                after.apply(second.change)
            whole.append((one,) if second is None else (one, second))
        cells = [cell for a, b in combinations(drawn, 2) for cell in cells_of(a, b, self.state)]
        return whole, tuple(dict.fromkeys(cells))

    def row_statements(
        self, workers: Sequence[int], sides: Sequence[tuple[Drawn, ...]]
    ) -> tuple[tuple[tuple[int, Drawn], ...], tuple[str, ...]]:
        """Return reads and writes of some of these workers, and the cells in which they meet the schema changes."""
        changes = [side[0] for side in sides]
        preferred = [name for each in changes for name in each.names.slots.values()]
        found: list[tuple[int, Drawn]] = []
        for worker in workers if self.rows else ():
            if self.random.random() < _ROW_STATEMENTS:
                tried = [self._row_statement(preferred) for _ in range(_ROW_TRIES)]
                able = [(self._worth(each, changes), number, each) for number, each in enumerate(tried) if each]
                found += [(worker, max(able)[2])] if able else []
        cells = [cell for _, row in found for each in changes for cell in cells_of(each, row, self.state)]
        return tuple(found), tuple(dict.fromkeys(cells))

    def _row_statement(self, preferred: Sequence[str]) -> Drawn | None:
        statement = self.random.choice(self.rows)
        if statement.name == "truncate-table" and self.random.random() > _TRUNCATED:
            return None
        return self._draw(statement, self.state, preferred)

    def _draw(self, statement: Statement, state: IntendedKeyspace, preferred: Sequence[str]) -> Drawn | None:
        return draw(
            statement,
            state,
            self.random,
            tag=next(self.tags),
            preferred=preferred,
            before=self.state,
            shapes=() if self.plain else column_shapes(self.statements),
            every_form=not self.plain,
        )

    def _sides(self, workers: int) -> int:
        most = min(_SIDES_MOST, workers)
        return most if most <= 2 or self.random.random() < _MORE_THAN_TWO else self.random.randint(2, most - 1)

    def _next(self, drawn: Sequence[Drawn], after: IntendedKeyspace, tries: int) -> Drawn | None:
        """Return the statement that adds most of what has not met; None if none can be drawn."""
        preferred = [name for each in drawn for name in each.names.slots.values()]
        best: tuple[float, float] | None = None
        chosen: Drawn | None = None
        for number, statement in enumerate(self.random.sample(self.statements, len(self.statements))):
            if number >= tries and chosen is not None:
                break
            if statement.subject.role == "removes" and self.random.random() > _KEPT.get(statement.subject.kind, 1.0):
                continue
            state = after if drawn and self.random.random() < 0.5 else self.state
            found = self._draw(statement, state, preferred)
            if found is None or (self.plain and any(found.change == each.change for each in drawn)):
                continue
            worth = (self._worth(found, drawn), self.random.random())
            if best is None or worth > best:
                best, chosen = worth, found
        return chosen

    def _worth(self, found: Drawn, drawn: Sequence[Drawn]) -> float:
        """Return how much a statement adds: for the first, how seldom its kind was drawn; else how seldom the cells were met."""
        if not drawn:
            return -float(self.met[found.statement.name, self.condition])
        every = [cell for each in drawn for cell in cells_of(each, found, self.state)]
        return sum(
            (_DISTANT if cell.endswith("/keyspace") else 1.0) / (1 + self.met[cell, self.condition]) ** 2
            for cell in every
            if not self.plain or cell in plain_cells()
        )

    def _second(self, one: Drawn, after: IntendedKeyspace) -> Drawn | None:
        """Return a statement on the same objects that can follow all of the round."""
        for _ in range(_FIRSTS):
            statement = self.random.choice(self.statements)
            found = self._draw(statement, after, list(one.names.slots.values()))
            if found is not None and statement.subject.kind != "keyspace":
                return found
        return None


def _allowed(features: frozenset[str], *, whole: bool, plain: bool) -> Sequence[Statement]:
    """Return the statements to be drawn; those on the keyspace itself only where `whole`, and always its creation."""
    return [
        statement
        for statement in drawable(features, every_form=not plain)
        if whole or statement.subject.kind != "keyspace" or statement.subject.role == "makes"
    ]


def base_objects(keyspace: str, context: Context, tags: Iterator[int], *, plain: bool) -> Iterator[Invoke]:
    """Yield the statements that create a keyspace with the objects that churn begins with."""
    yield create_keyspace(keyspace, replication_factor=context.replication_factor)
    for name in TYPES[:1] if "types" in context.features else ():
        yield create_type(keyspace, name, fields=[("a", "int"), (f"of_{next(tags)}", "text")])
    for table in (*PLAIN_TABLES, *((WIDE_TABLE,) if "cql" in context.features else ())):
        columns = [("k", "int", "partition_key"), ("v", "text", "regular"), (COLUMNS[0], "int", "regular")]
        if table == WIDE_TABLE:
            columns[1:1] = [(name, "int", "clustering") for name in (CLUSTERINGS[:1] if plain else CLUSTERINGS)]
        yield create_table(keyspace, table, columns=columns, options={"comment": f"side {next(tags)}"})
    for name in FUNCTIONS[:1] if "functions" in context.features else ():
        yield create_function(
            keyspace,
            name,
            arguments=[("state", "int"), ("value", "int")],
            returns="int",
            body=f"return {100 + next(tags)};",
        )


def _prepared(keyspace: str, context: Context, *, plain: bool) -> IntendedKeyspace:
    """Return a keyspace as the setup leaves it."""
    state = IntendedKeyspace(keyspace)
    for change in base_objects(keyspace, context, count(_SETUP_TAGS), plain=plain):
        state.apply(change)
    return state
