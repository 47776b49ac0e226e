"""Acknowledged rows: whether what was written is read, and nothing else.

Judges each table's INSERTs against the final reads, after the cluster settled and again after every node was restarted
(`schemaquake.checkers.rows.row_fates`), and the final reads against the INSERTs (`schemaquake.checkers.rows.row_contents`).
Finds: `lost-rows` (missing, or with a cell changed), `lost-rows-after-restart` (there when settled, or nobody could
look, and lost since), `resurrected-rows`. All such rows of one table are one finding.

Unknown: a table with rows that must be there, none of whose final reads can tell of them.
Source: CEP-21, "Racing CREATE TABLE statements" (one of the tables has to discard its data); the 0.7 document, "Handling
Failure" (an instant database); CASSANDRA-5202.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, Literal

from schemaquake.checkers.evidence.node_schemas import PHASES
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.evidence.schema_changes import can_follow, target
from schemaquake.checkers.findings.catalogue import anomaly
from schemaquake.checkers.findings.explanation import explain, listing, phase_text
from schemaquake.checkers.rows.row_contents import ChangedCell, StrangeRow, changed_cells, strange_rows
from schemaquake.checkers.rows.row_fates import Fate, TableRows
from schemaquake.checkers.rows.row_operations import RowOperations, consistency, phase
from schemaquake.checkers.schema.judge import Case, Findings, judge
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.records import Records
from schemaquake.harness.model.verdict import Anomaly, Doubt, Verdict

__all__ = ["AckedRows"]

_OPS_MOST: Final = 10
_EXAMPLES_MOST: Final = 5
_DDL_MOST: Final = 5


class AckedRows:
    """Acknowledged rows survive, unchanged, and deleted ones stay away."""

    name = "acked-rows"
    scope: Literal["keyspace", "run"] = "keyspace"
    finds: tuple[str, ...] = ("lost-rows", "lost-rows-after-restart", "resurrected-rows")
    vouches: bool = True

    def check(self, records: Records, *, limit_s: float) -> Verdict:
        """Judge every table that rows were written to or read from. Unknown if there is none."""
        rows = RowOperations(records.history)
        if not rows.tables:
            return Verdict.unknown(self.name, Doubt("nothing-to-judge", "no row was written or read"))
        return judge(self.name, records, partial(_find, rows=rows), limit_s=limit_s)


def _find(case: Case, rows: RowOperations) -> Findings:
    took_place = _phases(case, rows)
    for table in rows.tables:
        told = TableRows(case, rows, table)
        findings = [*_missing(told, took_place), *_changed(told, took_place), *_strange(told, rows, case, took_place)]
        yield from findings or (None,)


def _phases(case: Case, rows: RowOperations) -> Sequence[str]:
    """The final phases that took place, as schemas or rows that were read in them show."""
    seen = {phase(read) for reads in rows.reads.values() for read in reads} | set(case.readings.phases)
    return [name for name in PHASES if name in seen]


# ── missing ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _missing(rows: TableRows, phases: Sequence[str]) -> Iterator[Anomaly | Doubt]:
    gone_before: set[int] = set()
    for of in phases:
        due = rows.due(of)
        fates = {insert.index: rows.fate(insert, of) for insert in due}
        lost = [i for i in due if fates[i.index].told == "lost" and i.index not in gone_before]
        gone_before |= {insert.index for insert in lost}
        late = [insert for insert in lost if of == "restarted" and phase(insert) != "restarted"]
        for kind, some in (("lost-rows-after-restart", late), ("lost-rows", [i for i in lost if i not in late])):
            if some:
                yield _lost(rows, kind, of, some, due, fates)
        untold = [insert for insert in due if fates[insert.index].told == "untold"]
        if untold:
            yield Doubt(
                "unread",
                f"{len(untold)} of {len(due)} acknowledged rows could not be looked for {phase_text(of)}: "
                f"{_why_untold(rows, of)}",
                (rows.table.key,),
            )


def _lost(
    rows: TableRows,
    kind: str,
    of: str,
    lost: Sequence[PairedOperation],
    due: Sequence[PairedOperation],
    fates: Mapping[int, Fate],
) -> Anomaly:
    reads = _distinct(read for insert in lost for read in fates[insert.index].reads)
    ddl = _racing(rows, lost)
    holders = {insert.index: sorted(fates[insert.index].holders) for insert in lost}
    held = Counter(node for nodes in holders.values() for node in nodes)
    first = lost[0]
    return anomaly(
        kind,
        objects=[rows.table.key],
        nodes=(read.node for read in reads if read.node),
        ops=[operation.index for operation in (*lost[:_OPS_MOST], *ddl)],
        evidence={
            "kind": "missing",
            "phase": of,
            "lost": len(lost),
            "of": len(due),
            "written": _by_phase(lost, due),
            "examples": [_example(insert, held_by=holders[insert.index]) for insert in lost[:_EXAMPLES_MOST]],
            "held_by": dict(sorted(held.items())),
            "reads": [{"op": r.index, "node": r.node, "consistency": consistency(r)} for r in reads[:_OPS_MOST]],
        },
        explanation=explain(
            [first, *ddl],
            f"T1 was acknowledged, and nothing possible can have removed its row since; {_rule(reads)}.",
            f"{phase_text(of)} {_told_reads(reads)} it. So it is with {len(lost)} of {len(due)} acknowledged rows of "
            f"{rows.table.key} ({_told_written(lost, due)}); {_told_holders(held)}.",
        ),
    )


def _rule(reads: Sequence[PairedOperation]) -> str:
    asked = {consistency(read) for read in reads}
    if asked <= {"ONE", "LOCAL_ONE"}:
        return "some node must have it, and every node answered for itself (no read at ALL succeeded)"
    return f"a later read at {listing(sorted(asked))} must show it"


def _told_reads(reads: Sequence[PairedOperation]) -> str:
    shown = reads[0]
    through = listing(sorted({read.node or "-" for read in reads}))
    return f"reads at {consistency(shown)} through {through} (first op {shown.index}) do not show"


def _told_written(lost: Sequence[PairedOperation], due: Sequence[PairedOperation]) -> str:
    return ", ".join(
        f"{entry['lost']} of {entry['of']} written while {entry['phase']} at {entry['consistency']}"
        for entry in _by_phase(lost, due)
        if entry["lost"]
    )


def _told_holders(held: Counter[str]) -> str:
    if not held:
        return "no node's read at ONE shows any of the lost ones"
    return f"at ONE {listing(f'{node} still shows {count}' for node, count in sorted(held.items()))} of the lost ones"


def _by_phase(lost: Iterable[PairedOperation], due: Iterable[PairedOperation]) -> Sequence[Mapping[str, Any]]:
    gone = Counter((phase(insert) or "racing", consistency(insert)) for insert in lost)
    all_due = Counter((phase(insert) or "racing", consistency(insert)) for insert in due)
    return [
        {"phase": written, "consistency": at, "lost": gone[written, at], "of": count}
        for (written, at), count in all_due.items()
    ]


def _why_untold(rows: TableRows, of: str) -> str:
    reads = rows.reads(of)
    if not reads:
        return "the table was not read"
    errors = [read.error for read in reads if read.type != "ok" and read.error]
    return errors[0] if errors else "no read that succeeded lists them"


# ── changed ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _changed(rows: TableRows, phases: Sequence[str]) -> Iterator[Anomaly]:
    before: set[tuple[int, str]] = set()
    for of in phases:
        cells = {
            (cell.inserts[0].index, cell.column): cell
            for cell in changed_cells(rows, of)
            if (cell.inserts[0].index, cell.column) not in before
        }
        before |= cells.keys()
        # A row that was written after the restart cannot have been lost by it.
        late = [c for c in cells.values() if of == "restarted" and phase(c.inserts[0]) != "restarted"]
        for kind, some in (
            ("lost-rows-after-restart", late),
            ("lost-rows", [c for c in cells.values() if c not in late]),
        ):
            if some:
                yield _altered(rows, kind, of, some)


def _altered(rows: TableRows, kind: str, of: str, cells: Sequence[ChangedCell]) -> Anomaly:
    inserts = _distinct(insert for cell in cells for insert in cell.inserts)
    ddl = _racing(rows, inserts, types=True)
    first = cells[0]
    return anomaly(
        kind,
        objects=[rows.table.key],
        nodes=(cell.read.node for cell in cells if cell.read.node),
        ops=[operation.index for operation in (*inserts[:_OPS_MOST], *ddl)],
        evidence={
            "kind": "changed",
            "phase": of,
            "lost": len(cells),
            "columns": sorted({cell.column for cell in cells}),
            "examples": [
                {**_example(cell.inserts[0]), "column": cell.column, "read": cell.value, "read_op": cell.read.index}
                for cell in cells[:_EXAMPLES_MOST]
            ],
        },
        explanation=explain(
            [*first.inserts[:2], *ddl],
            f"nothing but {'T1' if len(first.inserts) == 1 else f'{len(first.inserts)} INSERTs, T1 the first,'} wrote "
            f"this row, and column {first.column} cannot have been dropped since: it must read as it was written.",
            f"{phase_text(of)} a read at {consistency(first.read)} through {first.read.node} (op {first.read.index}) "
            f"shows {first.column} = {first.value}. {len(cells)} cells of {rows.table.key} read so.",
        ),
    )


# ── strange ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _strange(rows: TableRows, operations: RowOperations, case: Case, phases: Sequence[str]) -> Iterator[Anomaly]:
    found = [(of, row) for of in phases for row in strange_rows(rows, operations, case, of)]
    revived = [(of, row) for of, row in found if row.removal is not None]
    unwritten = [(of, row) for of, row in found if row.removal is None]
    if revived:
        yield _revived(rows, revived)
    if unwritten:
        yield _unwritten(rows, unwritten)


def _revived(rows: TableRows, found: Sequence[tuple[str, StrangeRow]]) -> Anomaly:
    inserts = _distinct(insert for _, strange in found for insert in strange.inserts)
    of, first = found[0]
    removal = first.removal
    assert removal is not None
    again = [c for c in rows.changes if c.f == "create-table" and c.acknowledged and can_follow(c, removal)][:2]
    return anomaly(
        "resurrected-rows",
        objects=[rows.table.key],
        nodes=(strange.read.node for _, strange in found if strange.read.node),
        ops=[operation.index for operation in (*inserts[:_OPS_MOST], removal, *again)],
        evidence={
            "kind": "removed",
            "rows": len(inserts),
            "examples": [_example(insert) for insert in inserts[:_EXAMPLES_MOST]],
            **_sighting(found),
        },
        explanation=explain(
            [first.inserts[0], removal, *again],
            "whatever was written under this key had ended before T2 began, and T2 was acknowledged: the row is gone.",
            f"{phase_text(of)} a read at {consistency(first.read)} through {first.read.node} (op {first.read.index}) "
            f"shows it; so it is with {len(inserts)} rows of {rows.table.key}.",
        ),
    )


def _unwritten(rows: TableRows, found: Sequence[tuple[str, StrangeRow]]) -> Anomaly:
    of, first = found[0]
    count = len({str(strange.row) for _, strange in found})
    return anomaly(
        "resurrected-rows",
        objects=[rows.table.key],
        nodes=(strange.read.node for _, strange in found if strange.read.node),
        ops=sorted({strange.read.index for _, strange in found})[:_OPS_MOST],
        evidence={
            "kind": "nobody wrote it",
            "rows": count,
            "examples": [dict(strange.row) for _, strange in found[:_EXAMPLES_MOST]],
            **_sighting(found),
        },
        explanation=explain(
            [first.read],
            f"every row of {rows.table.key} has a key that some INSERT of this history was given.",
            f"{phase_text(of)} T1, a read at {consistency(first.read)}, shows the row {dict(first.row)}, and no INSERT has "
            f"its key. {count} rows were read so.",
        ),
    )


def _sighting(found: Sequence[tuple[str, StrangeRow]]) -> Mapping[str, JSON]:
    return {
        "phases": sorted({of for of, _ in found}, key=PHASES.index),
        "read_at": sorted({consistency(strange.read) for _, strange in found}),
    }


# ── what stands beside the rows ──────────────────────────────────────────────────────────────────────────────────────


def _racing(rows: TableRows, inserts: Sequence[PairedOperation], *, types: bool = False) -> Sequence[PairedOperation]:
    """The changes of the table (and of types in its keyspace) that were not over before the first row was written.

    Before them the table's last DROP and CREATE, if they were over: they say which table the row was written to.
    """
    kinds = {"table", "type"} if types else {"table"}
    first = min(inserts, key=lambda insert: insert.invoked)
    drops = [drop for drop in rows.case.changes.drops(rows.table) if not can_follow(drop, first)]
    creates = [create for create in rows.case.changes.creates(rows.table) if not can_follow(create, first)]
    together = [
        change
        for change in rows.case.changes.possible
        if can_follow(change, first)
        and target(change).kind in kinds
        and (target(change) == rows.table or (target(change).kind == "type" and _same_keyspace(change, rows)))
    ]
    return _distinct([*drops[-1:], *creates[-1:], *together])[:_DDL_MOST]


def _same_keyspace(change: PairedOperation, rows: TableRows) -> bool:
    return target(change).keyspace == rows.table.keyspace


def _example(insert: PairedOperation, **more: JSON) -> Mapping[str, JSON]:
    return {
        "op": insert.index,
        "row": insert.argument["row"],
        "through": insert.node,
        "consistency": consistency(insert),
        "phase": phase(insert),
        **more,
    }


def _distinct(operations: Iterable[PairedOperation]) -> list[PairedOperation]:
    """Each once, in order of invocation."""
    return [operation for _, operation in sorted({o.index: o for o in operations}.items())]
