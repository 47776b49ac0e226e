"""Races of churn: single rounds of a run as races that can be run by themselves.

A round is raced in a keyspace of its own, which the setup makes what was intended before that round, with what the
round's statements are about and nothing else. So a run that broke can be looked for in the few statements of one round.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from schemaquake.harness.ddl.cql import statement
from schemaquake.harness.model.protocols import Context
from schemaquake.harness.model.steps import Invoke
from schemaquake.workloads.churn.drawing import PLAIN_TABLES
from schemaquake.workloads.churn.rounds import Round
from schemaquake.workloads.churn.schema_churn import SchemaChurn, groups, rounds_of
from schemaquake.workloads.races.engine import ALWAYS, SINCE_THE_RACE, Race, RowProbe

__all__ = ["ChurnRound", "rounds_in"]


@dataclass(frozen=True, slots=True)
class ChurnRound:
    """One round of a run, as a race; `follows` are the rounds of the same keyspace before it."""

    number: int
    race: Race
    names: frozenset[str]
    """Names of the objects that its statements are about."""


def rounds_in(context: Context, *, keyspaces: Collection[str], rounds: int) -> tuple[ChurnRound, ...]:
    """Return the first rounds of each group, so many of each, as far as they were in these keyspaces.

    A second race of each two successive rounds follows, in which no worker waits between them. Raises PlanError as the workload does.
    """
    found = []
    for group in groups(context):
        drawing = rounds_of(group, context)
        before: tuple[Round, list[Invoke]] | None = None
        for each in islice(drawing, rounds):
            if each.keyspace not in keyspaces:
                continue
            setup = list(drawing.states[each.keyspace].definitions(context.replication_factor))
            found.append(_raced([each], setup, each.number, len(context.nodes)))
            if before is not None and before[0].keyspace == each.keyspace:
                found.append(_raced([before[0], each], before[1], each.number, len(context.nodes)))
            before = (each, setup)
    return tuple(found)


def _raced(rounds: Sequence[Round], setup: Sequence[Invoke], number: int, nodes: int) -> ChurnRound:
    sides: dict[int, list[Invoke]] = {}
    for each in rounds:
        for worker, drawn in each.stated():
            # Workers of one node are one coordinator.
            sides.setdefault(worker % nodes, []).extend(one.change for one in drawn)
    stated = [change for side in sides.values() for change in side]
    makes_keyspace = any(change.f == "create-keyspace" for change in setup)
    needed = tuple(_needed(setup, stated))
    tables = {name for name in PLAIN_TABLES if any(_name(change) == name for change in (*needed, *stated))}
    race = Race(
        workload=SchemaChurn.name,
        variant="+".join(str(each.number) for each in rounds),
        number=number,
        keyspace=rounds[0].keyspace,
        setup=tuple(change for change in needed if change.f != "create-keyspace"),
        sides=tuple(tuple(side) for side in sides.values()),
        tables=tuple(_probe(table, needed) for table in sorted(tables)),
        keyspace_exists=makes_keyspace,
    )
    names = {name for each in rounds for name in each.names()}
    return ChurnRound(number, race, frozenset(names))


def _needed(setup: Sequence[Invoke], stated: Sequence[Invoke]) -> Iterator[Invoke]:
    """Yield the statements that create what the others name, and what that is made of."""
    words = {word for change in stated for word in _words(change)}
    kept: set[int] = set()
    for place in reversed(range(len(setup))):
        change = setup[place]
        parts = {_name(change)}
        if change.f == "create-index":
            parts |= {change.value["table"]}
        if parts & words:
            kept.add(place)
            words |= _words(change)
    yield from (change for place, change in enumerate(setup) if place in kept)


def _words(change: Invoke) -> set[str]:
    return set(re.findall(r"\w+", statement(change.f, change.value)))


def _name(change: Invoke) -> str:
    value = change.value
    assert isinstance(value, dict)
    name = value.get("name", value["keyspace"])
    return str(name)


def _probe(table: str, setup: Sequence[Invoke]) -> RowProbe:
    """Return the rows of one table that must survive; those of one that is dropped or made meanwhile may be gone with it."""
    exists = any(change.f == "create-table" and _name(change) == table for change in setup)
    return RowProbe(table=table, phases=ALWAYS if exists else SINCE_THE_RACE)
