"""Acknowledged rows: every acknowledged row is read, and no other row is.

Judges each table's INSERTs against the final reads, after the cluster settled and again after every node was restarted
(`schemaquake.checkers.rows.row_fates`), the final reads against the INSERTs (`schemaquake.checkers.rows.row_contents`),
and what is found through indexes and views against what is found by key (`schemaquake.checkers.rows.lookups`), and each answer
by itself (`schemaquake.checkers.rows.repeated_rows`).
Finds: `lost-rows` (missing, or with a cell changed or as it was before it was written over), `lost-rows-after-restart` (lost since the cluster settled, as far as
the reads of that phase show), `resurrected-rows`, `missing-from-index`, `missing-from-view`, `repeated-rows`,
`resurrected-cells`. All such rows of one table are one finding.

Unknown: a table with rows that must be there, none of which any final read could show; a read while statements race that lacks a row
which must be there, or shows one that must not.
Source: CEP-21, "Racing CREATE TABLE statements" (one of the tables has to discard its data); the 0.7 document, "Handling
Failure" (an instant database); CASSANDRA-5202.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, Final, Literal

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.node_schemas import PHASES
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.evidence.schema_changes import can_follow, target
from schemaquake.checkers.findings.argument import Argument
from schemaquake.checkers.findings.catalogue import anomaly
from schemaquake.checkers.findings.explanation import listing, name_operations, phase_text
from schemaquake.checkers.findings.limits import LIMITS
from schemaquake.checkers.rows.lookups import find_unlisted
from schemaquake.checkers.rows.overwritten_cells import find_outdated_on_the_way, find_overwritten
from schemaquake.checkers.rows.repeated_rows import find_repeated
from schemaquake.checkers.rows.row_contents import (
    ChangedCell,
    StrangeRow,
    find_changed_cells,
    find_returned_cells,
    find_strange_rows,
)
from schemaquake.checkers.rows.row_fates import Cause, Fate, TableRows
from schemaquake.checkers.rows.row_operations import RowOperations, consistency_of, phase_of
from schemaquake.checkers.rows.unasked_rows import find_unasked
from schemaquake.checkers.schema.judge import Findings, judge
from schemaquake.harness.counts import counted
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.records import Records
from schemaquake.harness.model.verdict import Anomaly, Doubt, Verdict

__all__ = ["AckedRows"]

_LIMITS: Final = replace(LIMITS, suspects=5)


class AckedRows:
    """Acknowledged rows survive, unchanged, and deleted ones stay away."""

    name = "acked-rows"
    scope: Literal["keyspace", "run"] = "keyspace"
    finds: tuple[str, ...] = (
        "lost-rows",
        "lost-rows-after-restart",
        "resurrected-rows",
        "resurrected-cells",
        "missing-from-index",
        "missing-from-view",
        "repeated-rows",
    )
    vouches: bool = True

    def check(self, records: Records, *, limit_s: float) -> Verdict:
        """Judge every table that rows were written to or read from. Unknown if there is none."""
        rows = Evidence.of(records).derive(RowOperations)
        if not rows.tables:
            return Verdict.unknown(self.name, Doubt("nothing-to-judge", "no row was written or read"))
        return judge(self.name, records, partial(_find, rows=rows), limit_s=limit_s)


def _find(evidence: Evidence, rows: RowOperations) -> Findings:
    phases = _list_phases(evidence, rows)
    for table in rows.tables:
        table_rows = TableRows(evidence, rows, table)
        findings = [
            *_find_missing(table_rows, phases),
            *_find_missing_on_the_way(table_rows),
            *find_outdated_on_the_way(table_rows),
            *_find_changed(table_rows, phases),
            *_find_returned(table_rows, phases),
            *find_overwritten(table_rows, phases),
            *_find_strange(table_rows, rows, evidence, phases),
            *find_unlisted(table_rows, rows, phases),
            *find_repeated(evidence, rows, table),
            *find_unasked(evidence, rows, table),
        ]
        yield from findings or (None,)


def _list_phases(evidence: Evidence, rows: RowOperations) -> Sequence[str]:
    """List the final phases in which a schema or a row was read."""
    seen = {phase_of(read) for reads in rows.reads.values() for read in reads} | set(evidence.readings.phases)
    return [name for name in PHASES if name in seen]


# ── missing ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _find_missing(rows: TableRows, phases: Sequence[str]) -> Iterator[Anomaly | Doubt]:
    gone_before: set[int] = set()
    for phase in phases:
        due = rows.due(phase)
        fates = {insert.index: rows.fate(insert, phase) for insert in due}
        lost = [i for i in due if fates[i.index].outcome == "lost" and i.index not in gone_before]
        doubtful = {
            i.index: causes
            for i in lost
            if (causes := (*rows.find_doubtful(i, phase), *rows.find_lost_disks(i, fates[i.index].reads)))
        }
        if doubtful:
            yield _doubt_missing(rows, phase, doubtful)
            lost = [insert for insert in lost if insert.index not in doubtful]
        gone_before |= {insert.index for insert in lost}
        late = [insert for insert in lost if phase == "restarted" and phase_of(insert) != "restarted"]
        for kind, group in (("lost-rows-after-restart", late), ("lost-rows", [i for i in lost if i not in late])):
            if group:
                yield _report_missing(rows, kind, phase, group, due, fates)
        unread = [
            i
            for i in due
            if fates[i.index].outcome == "unread" and rows.is_followed(i) and not rows.went_with_the_table(i, phase)
        ]
        if unread:
            yield Doubt(
                "unread",
                f"{len(unread)} of {len(due)} acknowledged rows could not be looked for {phase_text(phase)}: "
                f"{_explain_unread(rows, phase)}",
                (rows.table.key,),
            )


def _find_missing_on_the_way(rows: TableRows) -> Iterator[Doubt]:
    """Yield a doubt if a read while statements raced lacks a row that was acknowledged before, at levels that share a replica."""
    missed = ((insert, read) for insert in rows.inserts if (read := rows.missed_on_the_way(insert)) is not None)
    for insert, read in islice(missed, 1):
        text = f"op {read.index} does not list the row of op {insert.index}, which was acknowledged before at a level that binds it"
        yield Doubt("undecided", text, (rows.table.key,))


def _doubt_missing(rows: TableRows, phase: str, doubtful: Mapping[int, Sequence[Cause]]) -> Doubt:
    causes = name_operations(operation.index for of_row in doubtful.values() for operation in of_row)
    text = f"{phase_text(phase)} {counted(len(doubtful), 'acknowledged row was', 'acknowledged rows were')} not found, and {causes} may be why"
    return Doubt("undecided", text, (rows.table.key,))


def _report_missing(
    rows: TableRows,
    kind: str,
    phase: str,
    lost: Sequence[PairedOperation],
    due: Sequence[PairedOperation],
    fates: Mapping[int, Fate],
) -> Anomaly:
    reads = _list_distinct(read for insert in lost for read in fates[insert.index].reads)
    ddl = _list_racing_changes(rows, lost)
    holders = {insert.index: sorted(fates[insert.index].holders) for insert in lost}
    held = Counter(node for nodes in holders.values() for node in nodes)
    first = lost[0]
    return anomaly(
        kind,
        objects=[rows.table.key],
        nodes=(read.node for read in reads if read.node),
        ops=[operation.index for operation in (*lost[: _LIMITS.operations], *ddl)],
        evidence={
            "kind": "missing",
            "phase": phase,
            "lost": len(lost),
            "of": len(due),
            "written": _count_by_phase(lost, due),
            "examples": [
                _describe_insert(insert, held_by=holders[insert.index]) for insert in lost[: _LIMITS.examples]
            ],
            "held_by": dict(sorted(held.items())),
            "reads": [
                {"op": r.index, "node": r.node, "consistency": consistency_of(r)} for r in reads[: _LIMITS.operations]
            ],
        },
        explanation=Argument(
            [first, *ddl],
            f"T1 was acknowledged, and no possible operation can have removed its row since; {_state_rule(reads)}.",
            f"{phase_text(phase)} {_describe_reads(reads)} its row. The same holds for {len(lost)} of {len(due)} acknowledged rows of "
            f"{rows.table.key} ({_describe_writes(lost, due)}); {_describe_holders(held)}.",
        ),
    )


def _state_rule(reads: Sequence[PairedOperation]) -> str:
    levels = {consistency_of(read) for read in reads}
    if levels <= {"ONE", "LOCAL_ONE"}:
        return "some node must have the row, and every node answered for itself (no read at ALL succeeded)"
    return f"a later read at {listing(sorted(levels))} must show the row"


def _describe_reads(reads: Sequence[PairedOperation]) -> str:
    first = reads[0]
    nodes = listing(sorted({read.node or "-" for read in reads}))
    return f"reads at {consistency_of(first)} through {nodes} (first op {first.index}) do not show"


def _describe_writes(lost: Sequence[PairedOperation], due: Sequence[PairedOperation]) -> str:
    return ", ".join(
        f"{entry['lost']} of {entry['of']} written while {entry['phase']} at {entry['consistency']}"
        for entry in _count_by_phase(lost, due)
        if entry["lost"]
    )


def _describe_holders(held: Counter[str]) -> str:
    if not held:
        return "no read at ONE shows any of the lost rows"
    return f"at ONE {listing(f'{node} still shows {count}' for node, count in sorted(held.items()))} of the lost rows"


def _count_by_phase(lost: Iterable[PairedOperation], due: Iterable[PairedOperation]) -> Sequence[Mapping[str, Any]]:
    gone = Counter((phase_of(insert) or "racing", consistency_of(insert)) for insert in lost)
    all_due = Counter((phase_of(insert) or "racing", consistency_of(insert)) for insert in due)
    return [
        {"phase": written, "consistency": level, "lost": gone[written, level], "of": count}
        for (written, level), count in all_due.items()
    ]


def _explain_unread(rows: TableRows, phase: str) -> str:
    reads = rows.reads(phase)
    if not reads:
        return "the table was not read"
    errors = [read.error for read in reads if read.type != "ok" and read.error]
    return errors[0] if errors else "no read that succeeded lists them"


# ── changed ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _find_changed(rows: TableRows, phases: Sequence[str]) -> Iterator[Anomaly | Doubt]:
    before: set[tuple[int, str]] = set()
    for phase in phases:
        all_cells = {
            (cell.inserts[0].index, cell.column): cell
            for cell in find_changed_cells(rows, phase)
            if (cell.inserts[0].index, cell.column) not in before
        }
        doubtful = [cell for cell in all_cells.values() if cell.doubtful]
        if doubtful:
            causes = name_operations(operation.index for cell in doubtful for operation in cell.doubtful)
            text = (
                f"{phase_text(phase)} {len(doubtful)} cells do not read as they were written, and {causes} may be why"
            )
            yield Doubt("undecided", text, (rows.table.key,))
        cells = {place: cell for place, cell in all_cells.items() if not cell.doubtful}
        before |= cells.keys()
        # A row that was written after the restart cannot have been lost by it.
        late = [c for c in cells.values() if phase == "restarted" and phase_of(c.inserts[0]) != "restarted"]
        for kind, group in (
            ("lost-rows-after-restart", late),
            ("lost-rows", [c for c in cells.values() if c not in late]),
        ):
            if group:
                yield _report_changed(rows, kind, phase, group)


def _report_changed(rows: TableRows, kind: str, phase: str, cells: Sequence[ChangedCell]) -> Anomaly:
    inserts = _list_distinct(insert for cell in cells for insert in cell.inserts)
    ddl = _list_racing_changes(rows, inserts, types=True)
    first = cells[0]
    return anomaly(
        kind,
        objects=[rows.table.key],
        nodes=(cell.read.node for cell in cells if cell.read.node),
        ops=[operation.index for operation in (*inserts[: _LIMITS.operations], *ddl)],
        evidence={
            "kind": "changed",
            "phase": phase,
            "lost": len(cells),
            "columns": sorted({cell.column for cell in cells}),
            "examples": [_describe_cell(cell) for cell in cells[: _LIMITS.examples]],
        },
        explanation=Argument(
            [*first.inserts[:2], *ddl],
            f"nothing but {'T1' if len(first.inserts) == 1 else f'{len(first.inserts)} INSERTs, T1 the first,'} wrote "
            f"this row{'' if first.value is not None else f', and column {first.column} cannot have been dropped since'}: "
            f"{first.column} must read as it was written.",
            f"{phase_text(phase)} a read at {consistency_of(first.read)} through {first.read.node} (op {first.read.index}) "
            f"shows {first.column} = {first.value}. {len(cells)} cells of {rows.table.key} differ from what was written.",
        ),
    )


# ── returned ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _find_returned(rows: TableRows, phases: Sequence[str]) -> Iterator[Anomaly | Doubt]:
    found = [(phase, cell) for phase in phases for cell in find_returned_cells(rows, phase)]
    doubtful = [cell for _, cell in found if cell.doubtful]
    if doubtful:
        causes = name_operations(operation.index for cell in doubtful for operation in cell.doubtful)
        text = f"{len(doubtful)} cells of dropped columns were read that should not be there, and {causes} may be why"
        yield Doubt("undecided", text, (rows.table.key,))
    certain = [(phase, cell) for phase, cell in found if not cell.doubtful]
    if certain:
        yield _report_returned(rows, certain)


def _report_returned(rows: TableRows, found: Sequence[tuple[str, ChangedCell]]) -> Anomaly:
    phase, first = found[0]
    drop = first.drop
    assert drop is not None
    inserts = _list_distinct(insert for _, cell in found for insert in cell.inserts)
    adds = [add for add in rows.column_adds(first.column) if can_follow(add, drop)][:2]
    cells = {(cell.inserts[0].index, cell.column) for _, cell in found}
    return anomaly(
        "resurrected-cells",
        objects=[rows.table.key],
        nodes=(cell.read.node for _, cell in found if cell.read.node),
        ops=[operation.index for operation in (*inserts[: _LIMITS.operations], drop, *adds)],
        evidence={
            "cells": len(cells),
            "columns": sorted({cell.column for _, cell in found}),
            "phases": sorted({each for each, _ in found}, key=PHASES.index),
            "read_at": sorted({consistency_of(cell.read) for _, cell in found}),
            "examples": [_describe_cell(cell) for _, cell in found[: _LIMITS.examples]],
        },
        explanation=Argument(
            [first.inserts[0], drop, *adds],
            f"every write of this value had ended before T2 began, and T2, which was acknowledged, dropped {first.column}: it must read "
            "as null, or as a value that was written later.",
            f"{phase_text(phase)} a read at {consistency_of(first.read)} through {first.read.node} (op {first.read.index}) "
            f"shows {first.column} = {first.value}. The same holds for {len(cells)} cells of {rows.table.key}.",
        ),
    )


# ── strange ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _find_strange(
    rows: TableRows, operations: RowOperations, evidence: Evidence, phases: Sequence[str]
) -> Iterator[Anomaly | Doubt]:
    strange = [(phase, row) for phase in phases for row in find_strange_rows(rows, operations, evidence, phase)]
    doubtful = [row for _, row in strange if row.doubtful]
    if doubtful:
        causes = name_operations(operation.index for row in doubtful for operation in row.doubtful)
        text = (
            f"{counted(len(doubtful), 'row was', 'rows were')} read that should not be there, and {causes} may be why"
        )
        yield Doubt("undecided", text, (rows.table.key,))
    found = [(phase, row) for phase, row in strange if not row.doubtful]
    revived = [(phase, row) for phase, row in found if row.removal is not None]
    unwritten = [(phase, row) for phase, row in found if row.removal is None]
    if revived:
        yield _report_revived(rows, revived)
    if unwritten:
        yield _report_unwritten(rows, unwritten)


def _report_revived(rows: TableRows, found: Sequence[tuple[str, StrangeRow]]) -> Anomaly:
    inserts = _list_distinct(insert for _, strange in found for insert in strange.inserts)
    phase, first = found[0]
    removal = first.removal
    assert removal is not None
    recreates = [c for c in rows.changes if c.f == "create-table" and c.acknowledged and can_follow(c, removal)][:2]
    return anomaly(
        "resurrected-rows",
        objects=[rows.table.key],
        nodes=(strange.read.node for _, strange in found if strange.read.node),
        ops=[operation.index for operation in (*inserts[: _LIMITS.operations], removal, *recreates)],
        evidence={
            "kind": "removed",
            "rows": len(inserts),
            "examples": [_describe_insert(insert) for insert in inserts[: _LIMITS.examples]],
            **_describe_sightings(found),
        },
        explanation=Argument(
            [first.inserts[0], removal, *recreates],
            "every write of this key had ended before T2 began, and T2 was acknowledged: the row must be gone.",
            f"{phase_text(phase)} a read at {consistency_of(first.read)} through {first.read.node} (op {first.read.index}) "
            f"shows the row. The same holds for {counted(len(inserts), 'row')} of {rows.table.key}.",
        ),
    )


def _report_unwritten(rows: TableRows, found: Sequence[tuple[str, StrangeRow]]) -> Anomaly:
    phase, first = found[0]
    count = len({str(strange.row) for _, strange in found})
    return anomaly(
        "resurrected-rows",
        objects=[rows.table.key],
        nodes=(strange.read.node for _, strange in found if strange.read.node),
        ops=sorted({strange.read.index for _, strange in found})[: _LIMITS.operations],
        evidence={
            "kind": "nobody wrote it",
            "rows": count,
            "examples": [dict(strange.row) for _, strange in found[: _LIMITS.examples]],
            **_describe_sightings(found),
        },
        explanation=Argument(
            [first.read],
            f"every row of {rows.table.key} has a key that some INSERT of this history wrote.",
            f"{phase_text(phase)} T1, a read at {consistency_of(first.read)}, shows the row {dict(first.row)}, and no INSERT has "
            f"its key. The same holds for {counted(count, 'row')}.",
        ),
    )


def _describe_sightings(found: Sequence[tuple[str, StrangeRow]]) -> Mapping[str, JSON]:
    return {
        "phases": sorted({phase for phase, _ in found}, key=PHASES.index),
        "read_at": sorted({consistency_of(strange.read) for _, strange in found}),
    }


# ── context of the findings ──────────────────────────────────────────────────────────────────────────────────────


def _list_racing_changes(
    rows: TableRows, inserts: Sequence[PairedOperation], *, types: bool = False
) -> Sequence[PairedOperation]:
    """List the changes of the table (with `types`, of its keyspace's types too) that the first insert may have raced with.

    The table's last DROP and CREATE from before the insert come first: they show which table the row was written to.
    """
    kinds = {"table", "type"} if types else {"table"}
    first = min(inserts, key=lambda insert: insert.invoked)
    drops = [drop for drop in rows.evidence.changes.drops(rows.table) if not can_follow(drop, first)]
    creates = [create for create in rows.evidence.changes.creates(rows.table) if not can_follow(create, first)]
    concurrent = [
        change
        for change in rows.evidence.changes.possible
        if can_follow(change, first)
        and target(change).kind in kinds
        and (target(change) == rows.table or (target(change).kind == "type" and _is_same_keyspace(change, rows)))
    ]
    return _list_distinct([*drops[-1:], *creates[-1:], *concurrent])[: _LIMITS.suspects]


def _is_same_keyspace(change: PairedOperation, rows: TableRows) -> bool:
    return target(change).keyspace == rows.table.keyspace


def _describe_cell(cell: ChangedCell) -> Mapping[str, JSON]:
    return _describe_insert(cell.inserts[0], column=cell.column, read=cell.value, read_op=cell.read.index)


def _describe_insert(insert: PairedOperation, **more: JSON) -> Mapping[str, JSON]:
    return {
        "op": insert.index,
        "row": insert.argument["row"],
        "through": insert.node,
        "consistency": consistency_of(insert),
        "phase": phase_of(insert),
        **more,
    }


def _list_distinct(operations: Iterable[PairedOperation]) -> list[PairedOperation]:
    """List each operation once, in order of invocation."""
    return [operation for _, operation in sorted({o.index: o for o in operations}.items())]
