"""Candidate: a scenario that may be smaller than the one it comes from, and what of it can be left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

import orjson

from schemaquake.harness.ddl.cql import statement
from schemaquake.harness.model.plan import RestartMode
from schemaquake.harness.model.steps import Invoke
from schemaquake.workloads.races.engine import Race
from schemaquake.workloads.races.options import Mode
from schemaquake.workloads.races.scenario import race_to_json

__all__ = ["Atom", "Candidate", "atoms", "keeping", "statements_of"]

Atom: TypeAlias = tuple[Literal["setup", "side", "rows"], int, int, int]
"""One statement or kind of row: (where, race, side, place); side 0 where there is none."""

_NODES_LEAST: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """What a run would do: races, on so many nodes, under these faults, and with or without a restart."""

    races: tuple[Race, ...]
    nemeses: tuple[str, ...] = ()
    mode: Mode = "barrier"
    nodes: int = 3
    restart: RestartMode = "none"
    """Of every node before the last readings: a fault like others, and half of what a run takes."""

    @property
    def identity(self) -> bytes:
        """The same for the same scenario."""
        return orjson.dumps(self.to_json(), option=orjson.OPT_SORT_KEYS)

    def to_json(self) -> dict[str, Any]:
        """For the record of what was tried."""
        return {
            "races": [race_to_json(race) for race in self.races],
            "nemeses": list(self.nemeses),
            "mode": self.mode,
            "nodes": self.nodes,
            "restart": self.restart,
        }

    def fewer_nodes(self) -> list[Candidate]:
        """With every smaller number of nodes that its races can be run on, the fewest first."""
        least = max([_NODES_LEAST, *(len(race.sides) for race in self.races)])
        return [replace(self, nodes=nodes) for nodes in range(least, self.nodes)]

    def size(self) -> dict[str, int]:
        """How much there is of everything, as a person would count."""
        every = atoms(self)
        return {
            "races": len(self.races),
            "statements": sum(atom[0] != "rows" for atom in every),
            "kinds of row": sum(atom[0] == "rows" for atom in every),
            "nodes": self.nodes,
            "faults": len(self.nemeses) + (self.mode == "partition") + (self.restart != "none"),
        }


def atoms(candidate: Candidate) -> list[Atom]:
    """Everything that can be left out: what is set up, what races, and which rows are written."""
    found: list[Atom] = []
    for number, race in enumerate(candidate.races):
        found += [("setup", number, 0, place) for place in range(len(race.setup))]
        for side, steps in enumerate(race.sides):
            found += [("side", number, side, place) for place in range(len(steps))]
        found += [("rows", number, 0, place) for place in range(len(race.tables))]
    return found


def keeping(candidate: Candidate, kept: Sequence[Atom]) -> Candidate:
    """The candidate with these atoms alone. A side without statements goes, and with it the rows only it would write."""
    some = frozenset(kept)
    return replace(candidate, races=tuple(_kept(race, n, some) for n, race in enumerate(candidate.races)))


def _kept(race: Race, number: int, some: frozenset[Atom]) -> Race:
    sides = [
        tuple(step for place, step in enumerate(steps) if ("side", number, side, place) in some)
        for side, steps in enumerate(race.sides)
    ]
    places = {side: place for place, side in enumerate(side for side, steps in enumerate(sides) if steps)}
    probes = [
        replace(probe, side=None if probe.side is None else places[probe.side])
        for place, probe in enumerate(race.tables)
        if ("rows", number, 0, place) in some and (probe.side is None or probe.side in places)
    ]
    return replace(
        race,
        setup=tuple(step for place, step in enumerate(race.setup) if ("setup", number, 0, place) in some),
        sides=tuple(steps for steps in sides if steps),
        tables=tuple(probes),
    )


def statements_of(race: Race) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """(what comes before, what each coordinator is asked), in the common notation."""

    def told(step: object) -> str:
        return (
            statement(step.f, step.value) if isinstance(step, Invoke) else f"-- wait {getattr(step, 'seconds', 0):g} s"
        )

    return tuple(map(told, race.setup)), tuple(tuple(map(told, side)) for side in race.sides)
