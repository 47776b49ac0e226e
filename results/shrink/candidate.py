"""Candidate: a scenario that may be smaller than the one it comes from, and the parts that can be left out of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

import orjson

from schemaquake.harness.ddl.cql import statement
from schemaquake.harness.model.plan import RestartMode
from schemaquake.harness.model.steps import Invoke
from schemaquake.workloads.races.engine import Race
from schemaquake.workloads.races.impossible import without_vain_probes
from schemaquake.workloads.races.options import Mode
from schemaquake.workloads.races.scenario_file import race_to_json

__all__ = ["Atom", "Candidate", "atoms", "keeping", "statements_of"]

Atom: TypeAlias = tuple[Literal["setup", "side", "rows"], int, int, int]
"""One statement or kind of row: (part, race, side, place); side 0 where there is none."""

_NODES_LEAST: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """The content of a run: races, the number of nodes, the faults, and the restart."""

    races: tuple[Race, ...]
    nemeses: tuple[str, ...] = ()
    mode: Mode = "barrier"
    nodes: int = 3
    restart: RestartMode = "none"
    """The restart of every node before the last readings: a fault like others, and half of a run's duration."""

    @property
    def identity(self) -> bytes:
        """Return a digest that is equal for equal scenarios."""
        return orjson.dumps(self.to_json(), option=orjson.OPT_SORT_KEYS)

    def to_json(self) -> dict[str, Any]:
        """Return the candidate as it stands in the record of tries."""
        return {
            "races": [race_to_json(race) for race in self.races],
            "nemeses": list(self.nemeses),
            "mode": self.mode,
            "nodes": self.nodes,
            "restart": self.restart,
        }

    def fewer_nodes(self) -> list[Candidate]:
        """List the candidates with every smaller number of nodes that its races can be run on, the fewest first."""
        least = max([_NODES_LEAST, *(len(race.sides) for race in self.races)])
        return [replace(self, nodes=nodes) for nodes in range(least, self.nodes)]

    def size(self) -> dict[str, int]:
        """Count the candidate's parts by kind."""
        every = atoms(self)
        return {
            "races": len(self.races),
            "statements": sum(atom[0] != "rows" for atom in every),
            "kinds of row": sum(atom[0] == "rows" for atom in every),
            "nodes": self.nodes,
            "faults": len(self.nemeses) + (self.mode == "partition") + (self.restart != "none"),
        }


def atoms(candidate: Candidate) -> list[Atom]:
    """List everything that can be left out: setup statements, racing statements, and kinds of rows."""
    found: list[Atom] = []
    for number, race in enumerate(candidate.races):
        found += [("setup", number, 0, place) for place in range(len(race.setup))]
        for side, steps in enumerate(race.sides):
            found += [("side", number, side, place) for place in range(len(steps))]
        found += [("rows", number, 0, place) for place in range(len(race.tables))]
    return found


def keeping(candidate: Candidate, kept: Sequence[Atom]) -> Candidate:
    """Return the candidate with these atoms alone. A side without statements is dropped, and with it the rows that only it would write.

    So are rows of a table that no statement creates any more: a scenario with them is refused.
    """
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
    kept = replace(
        race,
        setup=tuple(step for place, step in enumerate(race.setup) if ("setup", number, 0, place) in some),
        sides=tuple(steps for steps in sides if steps),
        tables=tuple(probes),
    )
    return without_vain_probes(kept)


def statements_of(race: Race) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Return (setup statements, statements of each coordinator), in the common notation."""

    def render_step(step: object) -> str:
        return (
            statement(step.f, step.value) if isinstance(step, Invoke) else f"-- wait {getattr(step, 'seconds', 0):g} s"
        )

    return tuple(map(render_step, race.setup)), tuple(tuple(map(render_step, side)) for side in race.sides)
