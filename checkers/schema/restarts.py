"""Restarts: the schema after every node was restarted is the one that all nodes had before.

Compares each node's reading of phase `restarted` with its own of phase `settled`, side by side: disk with disk, memory with
memory. Only objects on which all nodes agreed before are judged; where they did not, that is a finding already. A change
that may have taken effect in between makes an object undecided: one without an answer, and one that came later.
A release writes the options that an older one has left on its disk in its own way when it starts (seen from 3.11 to 6.0); of nodes that
were upgraded the options that changes asked for are compared.
Finds: `changed-by-restart`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from schemaquake.checkers.ddl_order.reach import Facts, Reaches, facts_of_memory, facts_of_row
from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.node_schemas import NodeSchema
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.evidence.option_values import can_be
from schemaquake.checkers.evidence.schema_changes import SchemaObject, target
from schemaquake.checkers.findings.argument import Argument
from schemaquake.checkers.findings.catalogue import anomaly
from schemaquake.checkers.findings.explanation import listing, name_operations
from schemaquake.checkers.findings.limits import LIMITS
from schemaquake.checkers.schema.judge import Findings
from schemaquake.checkers.schema.possible_parts import list_possible_parts
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.records import keyspace_of
from schemaquake.harness.model.verdict import Anomaly, Doubt

__all__ = ["find_changes_by_restart"]

_Sides: TypeAlias = Mapping[tuple[str, str], tuple[Mapping[SchemaObject, JSON], Mapping[SchemaObject, JSON]]]
"""(phase, node) → the objects on disk, and those in memory, as comparable values."""
_PLACES = ("on disk", "in memory")


def find_changes_by_restart(case: Evidence, sides: _Sides) -> Findings:
    """Yield a finding for each object that is another after the restart, a doubt where a change may explain it, else None."""
    nodes = sorted({node for phase, node in sides if ("settled", node) in sides and ("restarted", node) in sides})
    if not nodes:
        return
    for place, name in enumerate(_PLACES):
        before = {node: sides["settled", node][place] for node in nodes}
        after = {node: sides["restarted", node][place] for node in nodes}
        if not any(before.values()) or not all(map(bool, after.values())):
            continue  # memory was not read
        everything = {node: held[place] for (phase, node), held in sides.items() if phase == "settled"}
        for subject in sorted(set().union(*before.values(), *after.values())):
            if _agreed(subject, everything):
                yield _judge(case, subject, name, before, after)


def _agreed(subject: SchemaObject, sides: Mapping[str, Mapping[SchemaObject, JSON]]) -> bool:
    shown = [side.get(subject) for side in sides.values()]
    return all(definition == shown[0] for definition in shown)


def _judge(
    case: Evidence,
    subject: SchemaObject,
    place: str,
    before: Mapping[str, Mapping[SchemaObject, JSON]],
    after: Mapping[str, Mapping[SchemaObject, JSON]],
) -> Anomaly | Doubt | None:
    changed = {
        node: {"settled": before[node].get(subject), "restarted": after[node].get(subject)}
        for node in before
        if not _is_same(case, subject, before[node].get(subject), after[node].get(subject))
    }
    if not changed:
        return None
    late = _late(case, subject, place, list(changed))
    if late:
        operations = name_operations(operation.index for operation in late)
        text = f"{subject.kind} {subject.key} is another after the restart, and {operations} may be why"
        return Doubt("undecided", text, (subject.key,))
    last = [operation for operation in case.changes.possible if target(operation).key == subject.key][
        -LIMITS.suspects :
    ]
    return anomaly(
        "changed-by-restart",
        objects=[subject.key],
        nodes=list(changed),
        ops=[operation.index for operation in last],
        evidence={"place": place, "readings": changed},
        explanation=Argument(
            last,
            f"when the cluster had settled all nodes had one {subject.kind} {subject.key} {place}, and no change of it "
            "can have taken effect since, so it must be the same after every node was restarted.",
            f"{listing(sorted(changed))} {'shows' if len(changed) == 1 else 'show'} {_what(changed)} {place} then.",
        ),
    )


def _is_same(case: Evidence, subject: SchemaObject, before: JSON, after: JSON) -> bool:
    """Tell if nothing became another; of upgraded nodes an option may have, as long as it can be what changes asked for."""
    if before == after:
        return True
    if not (case.notes.upgrades.operations and isinstance(before, Mapping) and isinstance(after, Mapping)):
        return False
    (earlier, of_before), (later, of_after) = _split_off_options(before), _split_off_options(after)
    asked = case.derive(list_possible_parts).names(subject, "option")
    return earlier == later and all(can_be(of_after.get(name), of_before.get(name)) for name in asked)


def _split_off_options(definition: Mapping[str, JSON]) -> tuple[Mapping[str, JSON], Mapping[str, JSON]]:
    rest = {name: value for name, value in definition.items() if name != "options"}
    options = definition.get("options")
    return rest, options if isinstance(options, Mapping) else {}


def _what(changed: Mapping[str, Mapping[str, Any]]) -> str:
    shown = {"none" if sides["restarted"] is None else "another definition of it" for sides in changed.values()}
    return listing(sorted(shown))


def _late(case: Evidence, subject: SchemaObject, place: str, nodes: Sequence[str]) -> Sequence[PairedOperation]:
    """Return the changes that may have taken effect between the two readings of these nodes, and explain the difference."""
    begins, ends = case.interval("settled", nodes)[0], case.interval("restarted", nodes)[1]
    sides = [_facts(schema, subject, place) for schema in case.shown.schemas if schema.node in nodes]
    moving = case.derive(Reaches).explain(subject, sides, begins, ends)
    later = [
        operation
        for operation in (*case.changes.possible, *case.changes.texts(subject.keyspace))
        if operation.type == "ok" and (operation.completed or 0) >= begins and _keyspace(operation) == subject.keyspace
    ]
    return [*moving, *later]


def _keyspace(operation: PairedOperation) -> str | None:
    return operation.argument.get("keyspace") or keyspace_of(operation.key)


def _facts(schema: NodeSchema, subject: SchemaObject, place: str) -> Facts | None:
    if place == _PLACES[0]:
        return facts_of_row(subject, schema.stored().get(subject))
    return facts_of_memory(subject, schema.live.get(subject))
