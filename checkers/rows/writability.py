"""Writability: whether every table that is there can be written and read through every coordinator.

Judges the INSERTs and reads of the final phases (probes, after the cluster settled and after every node was restarted).
A table is *there* for a coordinator if its own final reading of that phase shows it whole, or if its CREATE was
acknowledged and nothing possible can have undone it. A probe of such a table that ends in an error is a finding:
`unwritable-table`, `unreadable-table`, one of each for a table, equal errors told once.

Excused: an error that says that the table, or a column, does not exist, where that may be so; a statement that does not
fit the table, unless it fits a definition that was acknowledged and never undone; above ONE, too few nodes that serve.
Unknown: what the nodes' knowledge of one another explains; and a silence (a timeout, a broken connection), if the same
coordinator served the table otherwise or was silent only once.
Source: CASSANDRA-10699, 13004, 15899; the ScyllaDB talk (the contents of the table become inaccessible).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, Literal

from schemaquake.checkers.evidence.node_schemas import PHASES
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.evidence.schema_changes import SchemaObject, can_follow
from schemaquake.checkers.findings.catalogue import anomaly
from schemaquake.checkers.findings.explanation import explain, listing, phase_text
from schemaquake.checkers.rows.probe_errors import Fault, fault_of, in_short
from schemaquake.checkers.rows.row_operations import RowOperations, consistency, phase
from schemaquake.checkers.rows.serving import without_service
from schemaquake.checkers.rows.table_certainty import TableCertainty
from schemaquake.checkers.schema.judge import Case, Findings, judge
from schemaquake.harness.model.records import Records
from schemaquake.harness.model.verdict import Anomaly, Doubt, Verdict

__all__ = ["Writability"]

_OPS_MOST: Final = 10
_ERRORS_MOST: Final = 6
_DDL_MOST: Final = 4
_ALONE: Final = frozenset({"ONE", "LOCAL_ONE"})
_TYPES: Final = {"insert": "unwritable-table", "read-rows": "unreadable-table"}
_VERBS: Final = {"insert": "write", "read-rows": "read"}


class Writability:
    """Every table that is there takes writes and answers reads, whoever coordinates them."""

    name = "writability"
    scope: Literal["keyspace", "run"] = "keyspace"
    finds: tuple[str, ...] = ("unwritable-table", "unreadable-table")
    vouches: bool = True

    def check(self, records: Records, *, limit_s: float) -> Verdict:
        """Judge every table that was probed in a final phase. Unknown if none was."""
        rows = RowOperations(records.history)
        probes: dict[SchemaObject, list[PairedOperation]] = {}
        for table in rows.tables:
            told = [*rows.inserts.get(table, ()), *rows.reads.get(table, ())]
            mine = [operation for operation in told if phase(operation) in PHASES]
            if mine:
                probes[table] = sorted(mine, key=lambda operation: operation.index)
        if not probes:
            nothing = Doubt("nothing-to-judge", "no table was probed after the cluster settled")
            return Verdict.unknown(self.name, nothing)
        absent = without_service(records.history)
        return judge(self.name, records, partial(_find, probes=probes, absent=absent), limit_s=limit_s)


def _find(
    case: Case, probes: Mapping[SchemaObject, Sequence[PairedOperation]], absent: Mapping[str, frozenset[str]]
) -> Findings:
    for table, mine in probes.items():
        certainty = TableCertainty(case, table)
        for f in _TYPES:
            some = [probe for probe in mine if probe.f == f]
            failed: list[PairedOperation] = []
            undecided: list[PairedOperation] = []
            for probe in some:
                match _judgement(certainty, probe, mine, absent):
                    case "broken":
                        failed.append(probe)
                    case "undecided":
                        undecided.append(probe)
            if failed:
                yield _broken(certainty, f, failed, some)
            elif undecided:
                yield _undecided(table, f, undecided)
            else:
                yield None


def _judgement(
    table: TableCertainty,
    probe: PairedOperation,
    others: Sequence[PairedOperation],
    absent: Mapping[str, frozenset[str]],
) -> Literal["fine", "broken", "undecided"]:
    of = str(phase(probe))
    missing = absent.get(of, frozenset()) | table.unread(of)
    if probe.type == "ok" or (missing and (consistency(probe) not in _ALONE or probe.node in missing)):
        return "fine"
    if probe.error is None:
        return "undecided"  # cut off by the end of the run
    if table.may_yet_change or not table.is_there(of, probe.node):
        return "fine"
    fault = fault_of(probe.error)
    if fault is Fault.MEMBERSHIP:
        return "fine" if missing else "undecided"
    if fault is Fault.SILENCE:
        # One that was slow once, on a busy machine, is not broken.
        beside = [p for p in others if p is not probe and p.node == probe.node and phase(p) == of]
        served = any(p.type == "ok" and p.f == probe.f for p in beside)
        return "broken" if not served and any(p.type != "ok" for p in beside) else "undecided"
    return "broken" if table.must_serve(probe, fault) else "fine"


def _undecided(table: SchemaObject, f: str, probes: Sequence[PairedOperation]) -> Doubt:
    first = probes[0]
    return Doubt(
        "undecided",
        f"{len(probes)} probes could not {_VERBS[f]} the table, which its schema need not explain; the first, through "
        f"{first.node}: {in_short(first.error or 'no answer before the run ended')}",
        (table.key,),
    )


def _broken(
    table: TableCertainty, f: str, failed: Sequence[PairedOperation], probes: Sequence[PairedOperation]
) -> Anomaly:
    key = table.subject.key
    first = failed[0]
    nodes = sorted({probe.node or "-" for probe in failed})
    create = table.create
    ddl = [*([create] if create else []), *_racing(table, create)]
    why = "its CREATE was acknowledged and nothing can have undone it" if create else "its own schema shows the table"
    return anomaly(
        _TYPES[f],
        objects=[key],
        nodes=nodes,
        ops=[operation.index for operation in (*failed[:_OPS_MOST], *ddl)],
        evidence={"failed": len(failed), "of": len(probes), "errors": list(_errors(failed))[:_ERRORS_MOST]},
        explanation=explain(
            ddl,
            f"every coordinator must {_VERBS[f]} {key}: {why}.",
            f"{phase_text(str(phase(first)))} op {first.index}, a {_VERBS[f]} at {consistency(first)} through "
            f"{first.node}, ended in {first.type}: {in_short(first.error or '')}. Of {len(probes)} such probes "
            f"{len(failed)} failed, through {listing(nodes)}; {_others(failed, probes, nodes)}.",
        ),
    )


def _others(failed: Sequence[PairedOperation], probes: Sequence[PairedOperation], nodes: Sequence[str]) -> str:
    fine = sorted({probe.node or "-" for probe in probes if probe.type == "ok"} - set(nodes))
    silent = all(fault_of(probe.error or "") is Fault.SILENCE for probe in failed)
    told = f"none through {listing(fine)}" if fine else "no coordinator was spared"
    return f"{told}; it gave no answer, which may be all of that node and not this table alone" if silent else told


def _errors(failed: Sequence[PairedOperation]) -> Iterator[Mapping[str, Any]]:
    """Equal errors together, the most frequent first."""
    groups: dict[str, list[PairedOperation]] = {}
    for probe in failed:
        groups.setdefault(in_short(probe.error or ""), []).append(probe)
    for error, some in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        yield {
            "error": error,
            "count": len(some),
            "through": sorted({probe.node or "-" for probe in some}),
            "consistency": sorted({consistency(probe) for probe in some}),
            "phases": sorted({str(phase(probe)) for probe in some}, key=PHASES.index),
            "example": some[0].index,
        }


def _racing(table: TableCertainty, create: PairedOperation | None) -> Sequence[PairedOperation]:
    """The changes of the table that may have come after its CREATE; if none was certain, the last ones."""
    changes = [change for change in table.changes if change is not create]
    return [c for c in changes if create is None or can_follow(c, create)][-_DDL_MOST:]
