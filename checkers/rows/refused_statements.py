"""Refused statements: reads and writes that a coordinator refused although nothing in the schema can have been wrong with them.

Judges the refusals outside the final phases; `writability` judges the others, and `visibility` those in which a coordinator
says that it knows no such table or column. A statement fits its table if a CREATE that nothing possible can have undone was
acknowledged before it, and it names the key and no column that may be missing or of another type. A DROP that was begun after a
refusal does not explain it, but a former table of that name does, where the coordinator may not have heard of the CREATE yet. A refusal is
a doubt and not a finding: no single answer shows why. An error in its execution, which a replica may cause that does not know the
table yet, counts only if every change of the keyspace had reached all nodes, and no fault was active.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.node_schemas import PHASES
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.evidence.schema_changes import SchemaObject, target
from schemaquake.checkers.rows.probe_errors import ProbeFault, classify_error, shorten_error
from schemaquake.checkers.rows.table_certainty import TableCertainty
from schemaquake.checkers.run.admission import Admission
from schemaquake.harness.counts import counted
from schemaquake.harness.model.verdict import Doubt

__all__ = ["find_refused_statements"]

_JUDGED = ("insert", "read-rows", "know-table")
_SPREAD_NS = 10_000_000_000
"""The time in which a change reaches every node of a healthy cluster."""


def find_refused_statements(evidence: Evidence, operations: Iterable[PairedOperation]) -> Iterator[Doubt]:
    """Yield a doubt for each table with refused statements that nothing explains."""
    refused: dict[SchemaObject, list[PairedOperation]] = {}
    certainties: dict[SchemaObject, TableCertainty] = {}
    admission = Admission(evidence)
    for operation in operations:
        table = _judged_table(operation)
        if table is None:
            continue
        certainty = certainties.setdefault(table, TableCertainty(evidence, table))
        fault = classify_error(operation.error or "")
        if not any(create.entirely_before(operation) for create in certainty.creates):
            # The table may be gone later: what counts then is that it was there when the statement was refused.
            if fault is ProbeFault.STATEMENT and admission.admits(operation):
                refused.setdefault(table, []).append(operation)
            continue
        fits = operation.f == "know-table" or certainty.certainly_fits(operation)
        is_quiet = (fault is ProbeFault.STATEMENT and _knows_table(evidence, certainty, operation)) or _is_quiet(
            evidence, operation
        )
        if fits and is_quiet and fault in {ProbeFault.STATEMENT, ProbeFault.EXECUTION}:
            refused.setdefault(table, []).append(operation)
    for table, found in sorted(refused.items()):
        first = found[0]
        text = (
            f"{counted(len(found), 'statement was refused although it fits', 'statements were refused although they fit')} the table; the first, op {first.index} through "
            f"{first.node}: {shorten_error(first.error or '')}"
        )
        yield Doubt("undecided", text, (table.key,))


def _judged_table(operation: PairedOperation) -> SchemaObject | None:
    """Return the table of a refused read or write outside the final phases; None for every other operation."""
    argument = operation.argument if isinstance(operation.argument, dict) else {}
    is_judged = operation.f in _JUDGED and operation.error is not None and operation.completed is not None
    if not is_judged or argument.get("phase") in PHASES or not {"keyspace", "table"} <= argument.keys():
        return None
    return SchemaObject("table", argument["keyspace"], argument["table"])


def _knows_table(evidence: Evidence, certainty: TableCertainty, operation: PairedOperation) -> bool:
    """Tell if a coordinator that takes a statement for wrong goes by the table that was certainly created before.

    One that has not heard of that CREATE may go by a former table of the name, which had another key.
    """
    ended = operation.invoked if operation.completed is None else operation.completed
    all_creates = evidence.changes.creates(certainty.subject)
    has_former = any(create not in certainty.creates and create.invoked <= ended for create in all_creates)
    return not has_former or any(
        create.node == operation.node and create.entirely_before(operation) for create in certainty.creates
    )


def _is_quiet(evidence: Evidence, operation: PairedOperation) -> bool:
    """Tell if no fault was active, and every change of the ring or the keyspace had been spread long before or was not yet begun."""
    if evidence.notes.active(operation.invoked, operation.completed):
        return False
    ends = operation.completed or operation.invoked
    if evidence.notes.membership.is_changing(operation.invoked, ends, spread_ns=_SPREAD_NS):
        return False  # replicas refuse coordinators whose ring is another one than theirs
    keyspace = operation.argument["keyspace"]
    changes = [change for change in evidence.changes.possible if target(change).keyspace == keyspace]
    return not any(
        change.invoked <= (operation.completed or operation.invoked)
        and (change.type == "info" or (change.completed or 0) + _SPREAD_NS > operation.invoked)
        for change in (*changes, *evidence.changes.texts(keyspace))
    )
