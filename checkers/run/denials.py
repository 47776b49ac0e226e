"""Denials: a coordinator refuses to drop or rename what it must know, because there was no such thing.

Judges each refused DROP and RENAME whose error says that an object or a column is not there, although its CREATE or ADD had been
acknowledged and nothing can have removed it by then. The coordinator must have known it: it had acknowledged the change itself, it had
shown the object, or all nodes had agreed on one schema since; and neither a fault nor a start came between. What a coordinator does
not know that learns of changes later is judged by `schemaquake.checkers.rows.visibility`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.evidence.schema_changes import SchemaObject, certainly_applied, target
from schemaquake.checkers.evidence.sights import Sight, read_sights
from schemaquake.checkers.findings.explanation import seconds
from schemaquake.checkers.run.refusals import NO_REFUSAL

__all__ = ["find_denials"]

_ABSENT: Final = re.compile(
    r"(?:does not|doesn't) exist|not found|non[- ]existing|unconfigured|(?:undefined|unknown) (?:column|name)|not be found|not defined",
    re.IGNORECASE,
)
_OF_COLUMNS: Final = frozenset({"drop-column", "rename-column"})
_SIGNED: Final = frozenset({"function", "aggregate"})
"""Kinds of objects of which several may have one name."""


class _Knowledge(NamedTuple):
    """Since when (ns) a coordinator certainly knew what it denied, and from what."""

    since: int
    text: str


def find_denials(evidence: Evidence) -> Iterator[str]:
    """Yield the refusals that contradict what their coordinators knew."""
    refused = [
        change
        for change in evidence.changes.all
        if change.type == "fail"
        and change.completed is not None
        and (change.f in _OF_COLUMNS or change.f.startswith("drop-"))
        and _ABSENT.search(change.error or "")
        and not NO_REFUSAL.search(change.error or "")
    ]
    if not refused or evidence.notes.planned.get("kills") is True:
        return
    sights = evidence.derive(read_sights)
    for change in refused:
        maker = _maker(evidence, change)
        if maker is None:
            continue
        known = [
            one for one in _knowledge(evidence, sights, change, maker) if _is_undisturbed(evidence, change, one.since)
        ]
        if known:
            denied = (
                f"column {change.argument['column']} of {change.key}" if change.f in _OF_COLUMNS else str(change.key)
            )
            yield (
                f"op {change.index} was refused because {denied} is not there, nothing can have removed it, and {change.node} "
                f"{known[0].text}"
            )


def _maker(evidence: Evidence, change: PairedOperation) -> PairedOperation | None:
    """Return the change that certainly made what was denied, if nothing can have removed it until the refusal ended."""
    assert change.completed is not None
    changes, subject = evidence.changes, target(change)
    creates = changes.creates(subject)
    makers: Sequence[PairedOperation] = creates
    removals = [*changes.drops(subject), *changes.texts(subject.keyspace)]
    if change.f in _OF_COLUMNS:
        column = change.argument["column"]
        makers = [one for one in changes.on(subject) if _gives(one, column)]
        # A column that another one is renamed to comes and goes with it.
        removals += [one for one in changes.on(subject) if one.f in _OF_COLUMNS]
    elif subject.kind in _SIGNED and any(
        one.argument.get("arguments") != change.argument.get("arguments") for one in makers
    ):
        return None
    if len(creates) > 1 or len(makers) != 1 or any(one.invoked <= change.completed for one in removals):
        return None
    (maker,) = makers
    return maker if certainly_applied(maker) and maker.entirely_before(change) else None


def _gives(change: PairedOperation, column: str) -> bool:
    """Tell if a change made a column of this name."""
    if change.f == "add-column":
        return bool(change.argument["column"][0] == column)
    return change.f == "create-table" and any(name == column for name, *_ in change.argument.get("columns") or ())


def _knowledge(
    evidence: Evidence, sights: Iterable[Sight], change: PairedOperation, maker: PairedOperation
) -> Iterator[_Knowledge]:
    """Yield from what the coordinator knew what was made, before it denied it."""
    assert maker.completed is not None
    if maker.node == change.node:
        yield _Knowledge(maker.completed, f"had acknowledged op {maker.index}")
    for begun, ended in evidence.notes.agreements(change.node or ""):
        if maker.completed <= begun and ended <= change.invoked:
            yield _Knowledge(ended, f"had agreed with all nodes on one schema after op {maker.index}")
    subject = target(change)
    for sight in sights:
        is_before = sight.place == (change.node, "memory") and sight.subject == subject and sight.ends <= change.invoked
        if is_before and not sight.corrected and _shows(sight, change, subject):
            yield _Knowledge(sight.ends, f"had shown it at {seconds(sight.ends)}")


def _shows(sight: Sight, change: PairedOperation, subject: SchemaObject) -> bool:
    """Tell if a node showed what the change is about."""
    if sight.definition is None or not sight.understood or sight.named or subject.kind in _SIGNED:
        return False
    return change.f not in _OF_COLUMNS or change.argument["column"] in (sight.definition.get("columns") or {})


def _is_undisturbed(evidence: Evidence, change: PairedOperation, since: int) -> bool:
    """Tell if no fault, start or operation came between, by which a node may lose what it knew."""
    assert change.completed is not None
    notes = evidence.notes
    starts = any(start.node == change.node and since <= start.time <= change.completed for start in notes.starts)
    outages = notes.active(since, change.completed)
    return not starts and not outages and not notes.membership.is_changing(since, change.completed, spread_ns=0)
