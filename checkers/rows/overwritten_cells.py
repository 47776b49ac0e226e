"""Overwritten cells: a cell that reads as an older value than the one that an acknowledged write left in it.

Judges the final reads of one table by key. A value is overwritten if every write of it to its row had ended before an acknowledged INSERT
of another value or of null, or an acknowledged DELETE of that cell, began; the read began after that one was acknowledged, and one of the
replicas that answered it must have had it. Whole collections and values of user-defined types replace each other like any other value. Not
judged: columns that may have been dropped or renamed since, rows that may have been removed since, and deleted cells, which nulls are, too,
where `gc_grace_seconds` may be over. Servers go by timestamps: `schemaquake.checkers.rows.row_contents.find_ambiguous` says where they may
contradict the order of the clients.
Reads before the final phases are judged alike, and for rows that were deleted as a whole, but are doubts: changes are under way meanwhile.
Finds: `lost-rows`, one for each phase. Source: the seeds' "no acknowledged write is lost".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.findings.argument import Argument
from schemaquake.checkers.findings.catalogue import anomaly
from schemaquake.checkers.findings.explanation import name_operations, phase_text
from schemaquake.checkers.findings.limits import LIMITS
from schemaquake.checkers.rows.row_contents import find_ambiguous, list_exact_types
from schemaquake.checkers.rows.row_fates import Cause, MatchedRow, TableRows, overlaps
from schemaquake.checkers.rows.row_operations import consistency_of, looked_up
from schemaquake.checkers.rows.same_values import is_null, same_value
from schemaquake.harness.counts import counted
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.verdict import Anomaly, Doubt

__all__ = ["find_outdated_on_the_way", "find_overwritten"]


@dataclass(frozen=True, slots=True)
class _Overwritten:
    """A cell with a value that `writers` wrote before `later` wrote or deleted it; `doubtful` are operations that may be why."""

    read: PairedOperation
    column: str
    value: JSON
    writers: tuple[PairedOperation, ...]
    later: PairedOperation
    doubtful: tuple[Cause, ...]


def find_overwritten(rows: TableRows, phases: Sequence[str]) -> Iterator[Anomaly | Doubt]:
    """Yield the overwritten cells that the reads of each phase show, or a doubt."""
    types = list_exact_types(rows) if len(rows.inserts) > 1 or rows.cell_deletes else {}
    for phase in phases if types else ():
        found = [cell for matched in rows.matched(phase) for cell in _in_row(rows, matched, types, phase)]
        doubtful = [cell for cell in found if cell.doubtful]
        if doubtful:
            causes = name_operations(operation.index for cell in doubtful for operation in cell.doubtful)
            text = f"{phase_text(phase)} {counted(len(doubtful), 'cell reads', 'cells read')} as an older value than was written last, and {causes} may be why"
            yield Doubt("undecided", text, (rows.table.key,))
        certain = [cell for cell in found if not cell.doubtful]
        if certain:
            yield _report(rows, phase, certain)


def find_outdated_on_the_way(rows: TableRows) -> Iterator[Doubt]:
    """Yield a doubt if a read while statements raced shows a row after its DELETE, or a cell after it was written over.

    Left out: tables whose replicas may have moved, that may have been dropped, or that statements in free text concern.
    """
    if rows.moves or rows.texts or rows.may_be_dropped_as_a_whole():
        return
    types = list_exact_types(rows)
    for matched in rows.matched(None):
        later = _find_delete(rows, matched)
        replaced = None if later else next(_in_row(rows, matched, types, None), None)
        later = later or (None if replaced is None or replaced.doubtful else replaced.later)
        if later is not None:
            text = f"op {matched.read.index} shows what op {later.index}, which was acknowledged before at a level that binds it, had taken away"
            yield Doubt("undecided", text, (rows.table.key,))
            return


def _find_delete(rows: TableRows, matched: MatchedRow) -> PairedOperation | None:
    """Find an acknowledged DELETE of a row that came after every write of it, and that a read must have met."""
    read, row, _key, inserts = matched
    for delete in () if rows.forgets_deletes else rows.deletes_by_key.of(row):
        is_binding = delete.f == "delete-row" and delete.type == "ok" and overlaps(delete, read)
        is_between = delete.entirely_before(read) and all(insert.entirely_before(delete) for insert in inserts)
        if is_binding and is_between and not find_ambiguous(rows, delete, inserts):
            return delete
    return None


def _in_row(
    rows: TableRows, matched: MatchedRow, types: Mapping[str, str], phase: str | None
) -> Iterator[_Overwritten]:
    read, row, key, inserts = matched
    if looked_up(read) is not None:
        return
    for column in sorted(types.keys() & row.keys() - set(key)):
        value, cql_type = row[column], types[column]
        if value is None:
            continue
        writers = tuple(insert for insert in inserts if _writes(insert, column, value, cql_type))
        # A later write of the same value is one of `writers`.
        later = next(
            (
                one
                for one in _later_writes(rows, matched, column)
                if all(writer.entirely_before(one) for writer in writers)
            ),
            None,
        )
        if later is None or not any(insert.type == "ok" for insert in writers):
            continue
        # A move of replicas, or a change under way, may be why a read misses either write.
        around = {one.index: one for writer in writers if phase for one in rows.find_doubtful(writer, phase)}
        doubtful = (
            *find_ambiguous(rows, later, writers),
            *around.values(),
            *rows.find_lost_disks(later, [read]),
            *rows.texts,
            *rows.find_namesakes(read, row),
        )
        yield _Overwritten(read, column, value, writers, later, doubtful)


def _writes(insert: PairedOperation, column: str, value: JSON, cql_type: str) -> bool:
    written = insert.argument["row"].get(column)
    return written is not None and same_value(value, written, cql_type=cql_type, nulls_match=True)


def _later_writes(rows: TableRows, matched: MatchedRow, column: str) -> Iterator[PairedOperation]:
    """Yield the acknowledged writes and deletes of a cell whose effect the read must show, as nothing can have undone them."""
    for insert in matched.inserts:
        is_written = insert.type == "ok" and column in insert.argument["row"]
        if is_written and rows.forgets_deletes and is_null(insert.argument["row"][column]):
            continue
        is_owed = insert.entirely_before(matched.read) and rows.must_meet(insert, matched.read)
        if is_written and is_owed and not (rows.may_be_gone(insert) or rows.may_be_dropped(column, insert)):
            yield insert
    renamed = any(rows.may_be_renamed(column, insert) for insert in matched.inserts)
    for delete in () if renamed or rows.forgets_deletes else rows.cell_deletes_by_key.of(matched.row):
        is_deleted = delete.type == "ok" and column in delete.argument["columns"]
        if is_deleted and delete.entirely_before(matched.read) and overlaps(delete, matched.read):
            yield delete


def _report(rows: TableRows, phase: str, cells: Sequence[_Overwritten]) -> Anomaly:
    first = cells[0]
    writes = {one.index: one for cell in cells for one in (*cell.writers, cell.later)}
    places = {(cell.writers[0].index, cell.column) for cell in cells}
    return anomaly(
        "lost-rows",
        objects=[rows.table.key],
        nodes=(cell.read.node for cell in cells if cell.read.node),
        ops=sorted(writes)[: LIMITS.operations],
        evidence={
            "kind": "overwritten",
            "phase": phase,
            "lost": len(places),
            "columns": sorted({cell.column for cell in cells}),
            "examples": [
                {"op": cell.later.index, "column": cell.column, "read": cell.value, "read_op": cell.read.index}
                for cell in cells[: LIMITS.examples]
            ],
        },
        explanation=Argument(
            [first.writers[0], first.later],
            f"every write of this value had ended before T2 began, and T2, which was acknowledged, left another one in {first.column}: "
            "a later read must not show the older one.",
            f"{phase_text(phase)} a read at {consistency_of(first.read)} through {first.read.node} (op {first.read.index}) "
            f"shows {first.column} = {first.value}. The same holds for {counted(len(places), 'cell')} of {rows.table.key}.",
        ),
    )
