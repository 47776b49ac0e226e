"""Lookups: every row that is found by its key is found through each index and view of its table, too.

A *lookup* is a read through an index, or of a materialized view (`schemaquake.harness.ddl.rows`). Judges those of the final
phases at ALL against the reads of the table in the same phase. A row must be in a lookup that its values match if

- its INSERT was acknowledged, nothing else may have written its key, and nothing can have removed it or its cells;
- a read of the table at ALL shows it with the values for which the lookup asks;
- the CREATE of the index or view was acknowledged, and no acknowledged change can have undone it: a DROP of it, of its table, or of
  a column that it is on; one of unknown outcome leaves a doubt, until a final reading decides it;
- both had been acknowledged long enough ago: an index of a few rows is built within ten seconds, a view within thirty.

Finds: `missing-from-index`, `missing-from-view`. Doubts are a row that is missing earlier than that, or in a view after an operation took a disk away, one whose INSERT was never answered
although an earlier read of the table at ALL shows it, and a lookup that was not answered.
Source: CASSANDRA-13004 and 8272 (answers of an index), 13737 (a view without its table), the seeds' "no acknowledged write is lost".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from schemaquake.checkers.ddl_order.reach import Reaches
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.evidence.schema_changes import can_follow, certainly_applied
from schemaquake.checkers.findings.argument import Argument
from schemaquake.checkers.findings.catalogue import anomaly
from schemaquake.checkers.findings.explanation import name_operations, phase_text, seconds
from schemaquake.checkers.findings.limits import LIMITS
from schemaquake.checkers.rows.row_fates import Cause, TableRows
from schemaquake.checkers.rows.row_operations import (
    LookedUp,
    RowOperations,
    consistency_of,
    freeze_columns,
    looked_up,
    phase_of,
)
from schemaquake.harness.counts import counted
from schemaquake.harness.model.verdict import Anomaly, Doubt
from schemaquake.harness.units import S

__all__ = ["find_unlisted"]

_TYPES: Final = {"index": "missing-from-index", "view": "missing-from-view"}
_BUILT_WITHIN_S: Final = {"index": 10, "view": 30}


@dataclass(frozen=True, slots=True)
class _Missing:
    """A row that a lookup does not list, and the read of the table that shows it."""

    insert: PairedOperation
    lookup: PairedOperation
    shown_by: PairedOperation
    lost: tuple[Cause, ...]
    """The operations that may have taken its last copy away."""


def find_unlisted(rows: TableRows, operations: RowOperations, phases: Sequence[str]) -> Iterator[Anomaly | Doubt]:
    """Yield, for each index and view of the table and each phase, the rows that it does not find, or a doubt."""
    lookups: dict[tuple[LookedUp, str], list[PairedOperation]] = {}
    for lookup in operations.lookups.get(rows.table, ()):
        through, phase = looked_up(lookup), phase_of(lookup)
        if through is not None and phase is not None and phase in phases and consistency_of(lookup) == "ALL":
            lookups.setdefault((through, phase), []).append(lookup)
    for (through, phase), some in lookups.items():
        create = _certain_create(rows, through, some)
        if create is not None:
            yield from _judge(rows, through, phase, some, create)


def _certain_create(rows: TableRows, through: LookedUp, lookups: Sequence[PairedOperation]) -> PairedOperation | None:
    """Return the CREATE by which the index or view is there, as the lookups ask for it, but for `_open_removals`; None if there is none."""
    changes = rows.evidence.changes
    creates = changes.creates(through.subject)
    certain = [create for create in creates if certainly_applied(create)]
    if len(creates) != 1 or not certain or changes.texts(through.subject.keyspace):
        return None
    (create,) = certain
    on = create.argument.get("table", create.argument.get("base"))
    asked = any(set(lookup.argument.get("where") or {}) - _named(create) for lookup in lookups)
    if on != rows.table.name or asked:
        return None
    reaches = rows.evidence.derive(Reaches)
    for removal in _removals(rows, through, create):
        reach = reaches.find(removal)
        if removal.type == "ok" or (reach is not None and reach.decided is True):
            return None
    return create


def _named(create: PairedOperation) -> set[str]:
    """Return the columns that an index or a view is on."""
    return {create.argument.get("column"), *create.argument.get("primary_key", ())} - {None}


def _removals(rows: TableRows, through: LookedUp, create: PairedOperation) -> Sequence[PairedOperation]:
    """Return the possible changes that may have undone the CREATE of an index or a view."""
    changes, named = rows.evidence.changes, _named(create)
    undoing = [*changes.drops(through.subject), *changes.drops(rows.table)]
    undoing += (c for c in rows.changes if c.f in {"drop-column", "rename-column"} and c.argument["column"] in named)
    return [change for change in undoing if can_follow(change, create)]


def _open_removals(
    rows: TableRows, through: LookedUp, create: PairedOperation, lookup: PairedOperation
) -> Sequence[PairedOperation]:
    """Return the removals of unknown outcome that may have taken effect before the end of a lookup."""
    reaches = rows.evidence.derive(Reaches)
    ends = lookup.completed or lookup.invoked
    found = {removal.index: removal for removal in _removals(rows, through, create)}
    return [one for one in found.values() if (reach := reaches.find(one)) is None or reach.begins <= ends]


def _judge(
    rows: TableRows, through: LookedUp, phase: str, lookups: Sequence[PairedOperation], create: PairedOperation
) -> Iterator[Anomaly | Doubt]:
    kind = through.subject.kind
    unread = [lookup for lookup in lookups if lookup.type != "ok"]
    if unread:
        error = unread[0].error or "no answer before the run ended"
        text = f"{phase_text(phase)} no row could be looked for through {kind} {through.subject.key}: {error}"
        yield Doubt("unread", text, (rows.table.key,))
    answered = [lookup for lookup in lookups if lookup.type == "ok"]
    due = [insert for insert in rows.due(phase) if _writes_alone(rows, insert)]
    absent = [one for lookup in answered for one in _missing(rows, lookup, phase, due)]
    excused = [one for one in absent if one.lost]
    if excused:
        causes = name_operations(cause.index for one in excused for cause in one.lost)
        text = f"{phase_text(phase)} {kind} {through.subject.key} did not find {counted(len(excused), 'row')}, and {causes} took disks away"
        yield Doubt("undecided", text, (rows.table.key,))
    missing = [one for one in absent if not one.lost]
    late = [one for one in missing if _since(create, one) >= _BUILT_WITHIN_S[kind] * S]
    proven = [one for one in late if not _open_removals(rows, through, create, one.lookup)]
    if proven:
        yield _report(rows, through, phase, create, proven)
    elif late:
        removals = name_operations(one.index for one in _open_removals(rows, through, create, late[0].lookup))
        text = (
            f"{phase_text(phase)} {kind} {through.subject.key} did not find {counted(len(late), 'row')}, and {removals}, of unknown "
            "outcome, may have removed it"
        )
        yield Doubt("undecided", text, (rows.table.key,))
    elif missing:
        text = (
            f"{phase_text(phase)} {kind} {through.subject.key} did not find {counted(len(missing), 'row')}, "
            f"less than {_BUILT_WITHIN_S[kind]} s after it was created or they were written"
        )
        yield Doubt("undecided", text, (rows.table.key,))
    else:
        unanswered = [insert for insert in rows.perhaps_due(phase) if _writes_alone(rows, insert)]
        open_rows = [one for lookup in answered for one in _missing(rows, lookup, phase, unanswered)]
        if open_rows:
            text = (
                f"{phase_text(phase)} {kind} {through.subject.key} did not find {counted(len(open_rows), 'row')} that a read of the "
                f"table had shown (op {open_rows[0].shown_by.index}); the INSERT of unknown outcome (op {open_rows[0].insert.index}) may be why"
            )
            yield Doubt("undecided", text, (rows.table.key,))


def _writes_alone(rows: TableRows, insert: PairedOperation) -> bool:
    """Check that no other INSERT may have written the row's key."""
    key = rows.key(insert)
    return not any(other is not insert and other.type != "fail" and rows.key(other) == key for other in rows.inserts)


def _missing(
    rows: TableRows, lookup: PairedOperation, phase: str, due: Sequence[PairedOperation]
) -> Iterator[_Missing]:
    where: Mapping[str, object] = lookup.argument.get("where") or {}
    shown, named = lookup.value["rows"], lookup.argument.get("columns")
    for insert in due:
        row, key = insert.argument["row"], rows.keys[insert.index]
        matches = all(column in row and row[column] == value for column, value in where.items())
        is_early = insert.type != "ok" or insert.entirely_before(lookup)
        if not matches or not is_early or not rows.must_meet(insert, lookup):
            continue
        columns = [column for column in key if named is None or column in named]
        wanted = freeze_columns(row, columns)
        if not columns or any(one.keys() >= set(columns) and freeze_columns(one, columns) == wanted for one in shown):
            continue
        cells = [column for column in where if column not in key]
        if any(rows.may_be_dropped(cell, insert) for cell in cells) or rows.find_doubtful(insert, phase):
            continue
        read = _shown_by_key(rows, insert, where, phase)
        if read is not None and (insert.type == "ok" or read.entirely_before(lookup)):
            yield _Missing(insert, lookup, read, tuple(_find_lost_disks(rows, lookup, insert)))


def _find_lost_disks(rows: TableRows, lookup: PairedOperation, insert: PairedOperation) -> Sequence[Cause]:
    """Return the operations that may have taken away the last copy of a row that a view lacks; an index is where its rows are.

    Each replica of a table sends a row of a view to one replica of the view, so that one disk may have had the last of both.
    """
    through = looked_up(lookup)
    return rows.list_disks_lost(insert, lookup) if through is not None and through.subject.kind == "view" else ()


def _shown_by_key(
    rows: TableRows, insert: PairedOperation, where: Mapping[str, object], phase: str
) -> PairedOperation | None:
    """Return a read of the table at ALL that shows the row with the values for which a lookup asks."""
    row, key = insert.argument["row"], rows.keys[insert.index]
    for read in rows.reads(phase):
        if read.type == "ok" and consistency_of(read) == "ALL":
            for one in read.value["rows"]:
                whole = one.keys() >= {*key, *where} and freeze_columns(one, key) == freeze_columns(row, key)
                if whole and all(one[column] == value for column, value in where.items()):
                    return read
    return None


def _since(create: PairedOperation, missing: _Missing) -> int:
    """Return the time (ns) between the later acknowledgement, of the CREATE or of the INSERT, and the lookup."""
    return missing.lookup.invoked - max(create.completed or 0, missing.insert.completed or 0)


def _report(
    rows: TableRows, through: LookedUp, phase: str, create: PairedOperation, missing: Sequence[_Missing]
) -> Anomaly:
    first, kind = missing[0], through.subject.kind
    inserts = {one.insert.index: one.insert for one in missing}
    return anomaly(
        _TYPES[kind],
        objects=[rows.table.key, through.subject.key],
        nodes=(one.lookup.node for one in missing if one.lookup.node),
        ops=[create.index, *list(inserts)[: LIMITS.operations], first.lookup.index, first.shown_by.index],
        evidence={
            kind: through.subject.key,
            "phase": phase,
            "missing": len(inserts),
            "examples": [
                {"op": one.index, "row": one.argument["row"]} for one in list(inserts.values())[: LIMITS.examples]
            ],
            "lookup": first.lookup.index,
            "shown_by": first.shown_by.index,
        },
        explanation=Argument(
            [create, first.insert, first.shown_by],
            f"T1 and T2 were acknowledged, nothing can have undone them, and T3, a read of {rows.table.key} at ALL "
            f"{phase_text(phase)}, shows the row: {kind} {through.subject.key} must find it.",
            f"A read at ALL through {first.lookup.node} (op {first.lookup.index}, at {seconds(first.lookup.invoked)}) by that "
            f"{kind} does not list it. The same holds for {counted(len(inserts), 'row')}.",
        ),
    )
