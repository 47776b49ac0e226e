"""Recipe: the statements of a race, per coordinator, or the statements involved where nothing raced.

Only a race was run as its recipe says. Preparatory statements complete before the first contested statement begins. Contested statements are issued through
different coordinators at the same time, or on the two sides of a partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from schemaquake.harness.ddl.schema_changes import CREATES, DROPS, SCHEMA_CHANGES
from schemaquake.harness.model.verdict import Anomaly
from schemaquake.results.mode import mode_of
from schemaquake.results.report.material import Material, Race, races_of
from schemaquake.results.tables.statements import Statement, read_statements
from schemaquake.results.wording import joined

__all__ = ["Recipe", "Side", "contested_changes", "recipe_of"]

FAULTS_NAMED: Final = 2
WRITES_SHOWN: Final = 3
"""Writes quoted per side after the contested statements; further writes are counted in `left_out`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """The statements of one coordinator in the race."""

    node: str
    statements: tuple[Statement, ...]
    later_s: float = 0
    """Delay after the first side's first statement, s."""
    left_out: int = 0
    """Number of further writes of the same kind that are not quoted."""

    def heading(self) -> str:
        """Describe the coordinator and its delay: `n1`, or `n3, 1.4 ms later`."""
        return self.node if not self.later_s else f"{self.node}, {_apart(self.later_s)} later"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Statements that met, and those before them."""

    before: tuple[Statement, ...]
    sides: tuple[Side, ...]
    manner: str
    """How the sides are issued relative to each other; a phrase without a full stop."""
    afterwards: str
    raced: bool = True
    """True if just these statements were run; False if they were selected from a longer history and never run alone."""


def recipe_of(
    material: Material, keyspace: str, anomaly: Anomaly | None = None, *, named: Sequence[int] = ()
) -> Recipe | None:
    """Build the recipe of the race in `keyspace`, or of the changes `named` if nothing raced there. None if there are none.

    With an anomaly, the writes it names are quoted after the contested statements.
    """
    every = read_statements(material.operations, keyspaces=[keyspace])
    changes = [one for one in every if one.f in SCHEMA_CHANGES or one.f == "cql"]
    race = next((race for race in races_of(material.races) if race.keyspace == keyspace), None)
    contested = contested_changes(material, changes, race=race, named=named or (anomaly.ops if anomaly else ()))
    if not contested:
        return None
    begins = min(one.invoked for one in contested)
    earlier = [one for one in changes if one.type != "fail" and one not in contested and one.ends < begins]
    if race is None:
        earlier = _needed(earlier, keyspace, contested, anomaly)
    writes = [one for one in every if anomaly and one.index in anomaly.ops and one.f in {"insert", "delete-row"}]
    sides = [_side(node, contested, writes, begins) for node in {one.node for one in contested}]
    return Recipe(
        before=tuple(earlier),
        sides=tuple(sorted(sides, key=lambda side: (side.later_s, side.node))),
        manner=_manner(material, contested, race),
        afterwards=_afterwards(material.plan),
        raced=race is not None,
    )


def _needed(
    earlier: Iterable[Statement], keyspace: str, contested: Sequence[Statement], anomaly: Anomaly | None
) -> list[Statement]:
    """Select from a long history the statements that created or dropped the objects in question."""
    keys = {keyspace, *(one.key for one in contested), *(anomaly.objects if anomaly else ())}
    return [one for one in earlier if one.key in keys and one.f in CREATES | DROPS]


def contested_changes(
    material: Material, changes: Sequence[Statement], *, race: Race | None, named: Sequence[int] = ()
) -> tuple[Statement, ...]:
    """Select the contested schema changes of one keyspace.

    In a race these are the changes that the race's note lists as its sides. Without a race they are the changes that the
    anomaly names. Without both they are the changes that overlap a change of another coordinator, or else all changes of
    the main phase if they came through several coordinators.
    """
    main = [one for one in changes if _in_main(material, one)]
    sides = {text for side in race.sides for text in side} if race is not None else set()
    met = [one for one in main if one.text in sides] or [one for one in changes if one.index in named]
    if not met:
        met = [one for one in main if any(one.node != other.node and one.overlaps(other) for other in main)]
    if not met and len({one.node for one in main}) > 1:
        met = main
    return tuple(met)


def _in_main(material: Material, one: Statement) -> bool:
    main = material.chronicle.phase("main")
    return main is None or main.begins <= one.invoked <= main.ends


def _side(node: str, contested: Sequence[Statement], writes: Sequence[Statement], begins: int) -> Side:
    own = [one for one in writes if one.node == node]
    met = [one for one in contested if one.node == node]
    return Side(
        node=node,
        statements=tuple(sorted([*met, *own[:WRITES_SHOWN]], key=lambda one: one.invoked)),
        later_s=(min(one.invoked for one in met) - begins) / 1e9,
        left_out=max(0, len(own) - WRITES_SHOWN),
    )


def _manner(material: Material, contested: Sequence[Statement], race: Race | None) -> str:
    nodes = list(dict.fromkeys(one.node for one in sorted(contested, key=lambda one: one.invoked)))
    if len(nodes) == 1:
        return f"one after another through {nodes[0]}{_under(material, contested)}"
    if mode_of(material.plan) == "partition" and race is not None:
        return f"while the network between {joined(nodes)} is cut, and then heal it"
    if race is None and not any(
        one.node != other.node and one.overlaps(other) for one in contested for other in contested
    ):
        return f"in order of the times given, each through the node named{_under(material, contested)}"
    return f"at the same moment, each through the node named{_under(material, contested)}"


def _under(material: Material, contested: Sequence[Statement]) -> str:
    """Describe the faults that were in place when these statements were invoked."""
    begins, ends = min(one.invoked for one in contested), max(one.invoked for one in contested)
    faults = [
        fault
        for fault in material.chronicle.faults
        if fault.begins <= ends and (fault.ends is None or fault.ends >= begins)
    ]
    if len(faults) > FAULTS_NAMED:
        return f", under {len(faults)} faults ({joined(sorted({fault.nemesis for fault in faults}))})"
    return f", under {joined(f'{fault.nemesis} on {joined(fault.nodes)}' for fault in faults)}" if faults else ""


def _apart(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1000 * seconds:.1f} ms"


def _afterwards(plan: Mapping[str, Any]) -> str:
    settle = f"wait until all nodes report one schema version, at most {plan.get('settle_limit_s', 30):g} s"
    read = "then read system_schema on every node"
    if plan.get("restart", "none") == "none":
        return f"{settle}, {read}"
    return f"{settle}, {read}, kill and start every node, and read it again"
