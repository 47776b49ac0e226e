"""Writability: every table that is there can be written and read through every coordinator.

Judges the INSERTs and reads of the final phases (probes, after the cluster settled and after every node was restarted).
A table is *there* for a coordinator if its own final reading of that phase shows it whole, or if its CREATE was
acknowledged and nothing possible can have undone it. A probe of such a table that ends in an error is a finding:
`unwritable-table`, `unreadable-table`, one of each for a table, with equal errors grouped.

Excused: an error about a missing table or column that may really be missing; an error about a statement that does not
fit the table as the node shows it, unless it fits a definition that was acknowledged and never undone; no answer from a
node that did not start.
Unknown: a refusal of a statement that fits what the node shows; an error that a change of unknown outcome explains, which
may have come between the coordinator's reading and the probe; one that the coordinator's view of live replicas explains;
and a silence (a timeout, a broken connection), if too few nodes served for the probe's level, if the same coordinator
served the table otherwise, or if it was silent only once.
Source: CASSANDRA-10699, 13004, 15899; the ScyllaDB talk (the contents of the table become inaccessible).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, Literal

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.node_schemas import PHASES
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.evidence.schema_changes import SchemaObject, can_follow
from schemaquake.checkers.findings.argument import Argument
from schemaquake.checkers.findings.catalogue import anomaly
from schemaquake.checkers.findings.explanation import listing, phase_text
from schemaquake.checkers.findings.limits import LIMITS
from schemaquake.checkers.rows.probe_errors import ProbeFault, classify_error, shorten_error
from schemaquake.checkers.rows.row_operations import RowOperations, consistency_of, phase_of
from schemaquake.checkers.rows.serving import find_nodes_without_service, serves_level
from schemaquake.checkers.rows.table_certainty import TableCertainty
from schemaquake.checkers.schema.judge import Findings, judge
from schemaquake.harness.model.records import Records
from schemaquake.harness.model.verdict import Anomaly, Doubt, Verdict

__all__ = ["Writability"]

_LIMITS: Final = replace(LIMITS, examples=6, suspects=4)
_TYPES: Final = {"insert": "unwritable-table", "read-rows": "unreadable-table"}
_VERBS: Final = {"insert": "write", "read-rows": "read"}


class Writability:
    """Every table that is there takes writes and answers reads through every coordinator."""

    name = "writability"
    scope: Literal["keyspace", "run"] = "keyspace"
    finds: tuple[str, ...] = ("unwritable-table", "unreadable-table")
    vouches: bool = True

    def check(self, records: Records, *, limit_s: float) -> Verdict:
        """Judge every table that was probed in a final phase. Unknown if none was."""
        evidence = Evidence.of(records)
        rows = evidence.derive(RowOperations)
        probes: dict[SchemaObject, list[PairedOperation]] = {}
        for table in rows.tables:
            operations = [*rows.inserts.get(table, ()), *rows.reads.get(table, ())]
            finals = [operation for operation in operations if phase_of(operation) in PHASES]
            if finals:
                probes[table] = sorted(finals, key=lambda operation: operation.index)
        if not probes:
            doubt = Doubt("nothing-to-judge", "no table was probed after the cluster settled")
            return Verdict.unknown(self.name, doubt)
        absent = find_nodes_without_service(evidence.notes)
        return judge(self.name, records, partial(_find, probes=probes, absent=absent), limit_s=limit_s)


def _find(
    evidence: Evidence, probes: Mapping[SchemaObject, Sequence[PairedOperation]], absent: Mapping[str, frozenset[str]]
) -> Findings:
    for table, table_probes in probes.items():
        certainty = TableCertainty(evidence, table)
        for f in _TYPES:
            kind_probes = [probe for probe in table_probes if probe.f == f]
            failed: list[PairedOperation] = []
            undecided: list[PairedOperation] = []
            for probe in kind_probes:
                match _judge_probe(certainty, probe, table_probes, absent):
                    case "broken":
                        failed.append(probe)
                    case "undecided":
                        undecided.append(probe)
            if failed:
                yield _report_failure(certainty, f, failed, kind_probes)
            elif undecided:
                yield _report_doubt(table, f, undecided)
            else:
                yield None


def _judge_probe(
    table: TableCertainty,
    probe: PairedOperation,
    probes: Sequence[PairedOperation],
    absent: Mapping[str, frozenset[str]],
) -> Literal["fine", "broken", "undecided"]:
    phase = str(phase_of(probe))
    if probe.type == "ok":
        return "fine"
    if probe.error is None:
        return "undecided"  # The end of the run cut the probe off.
    fault = classify_error(probe.error)
    down = absent.get(phase, frozenset())
    if (fault is ProbeFault.SILENCE and probe.node in down) or not table.is_there(phase, probe.node):
        return "fine"
    if fault is ProbeFault.MEMBERSHIP or probe.node in down:
        return "undecided"
    if fault is ProbeFault.SILENCE:
        return _judge_silence(table, probe, probes, down)
    if not table.must_serve(probe, fault):
        return "fine" if fault is not ProbeFault.STATEMENT or table.may_refuse(probe) else "undecided"
    if table.find_changes_under_way(probe, anywhere=fault is ProbeFault.EXECUTION):
        return "undecided"
    return "undecided" if table.texts and not table.creates else "broken"


def _judge_silence(
    table: TableCertainty, probe: PairedOperation, probes: Sequence[PairedOperation], down: frozenset[str]
) -> Literal["broken", "undecided"]:
    phase = str(phase_of(probe))
    missing = down | table.unread(phase)
    if missing and not serves_level(consistency_of(probe), table.replicas(phase), missing=len(missing)):
        return "undecided"
    if table.find_changes_under_way(probe):
        return "undecided"
    # One slow answer, on a busy machine, does not make a table broken.
    same_node = [p for p in probes if p is not probe and p.node == probe.node and phase_of(p) == phase]
    served = any(p.type == "ok" and p.f == probe.f for p in same_node)
    return "broken" if not served and any(p.type != "ok" for p in same_node) else "undecided"


def _report_doubt(table: SchemaObject, f: str, probes: Sequence[PairedOperation]) -> Doubt:
    first = probes[0]
    return Doubt(
        "undecided",
        f"{len(probes)} probes could not {_VERBS[f]} the table, for a reason that may lie outside its schema; the first, through "
        f"{first.node}: {shorten_error(first.error or 'no answer before the run ended')}",
        (table.key,),
    )


def _report_failure(
    table: TableCertainty, f: str, failed: Sequence[PairedOperation], probes: Sequence[PairedOperation]
) -> Anomaly:
    key = table.subject.key
    first = failed[0]
    nodes = sorted({probe.node or "-" for probe in failed})
    create = table.create
    ddl = [*([create] if create else []), *_list_racing_changes(table, create)]
    why = (
        "its CREATE was acknowledged and no operation can have undone it"
        if create
        else "its own schema shows the table"
    )
    return anomaly(
        _TYPES[f],
        objects=[key],
        nodes=nodes,
        ops=[operation.index for operation in (*failed[: _LIMITS.operations], *ddl)],
        evidence={"failed": len(failed), "of": len(probes), "errors": list(_group_errors(failed))[: _LIMITS.examples]},
        explanation=Argument(
            ddl,
            f"every coordinator must {_VERBS[f]} {key}: {why}.",
            f"{phase_text(str(phase_of(first)))} op {first.index}, a {_VERBS[f]} at {consistency_of(first)} through "
            f"{first.node}, ended in {first.type}: {shorten_error(first.error or '')}. Of {len(probes)} such probes "
            f"{len(failed)} failed, through {listing(nodes)}; {_describe_other_coordinators(failed, probes, nodes)}.",
        ),
    )


def _describe_other_coordinators(
    failed: Sequence[PairedOperation], probes: Sequence[PairedOperation], nodes: Sequence[str]
) -> str:
    fine = sorted({probe.node or "-" for probe in probes if probe.type == "ok"} - set(nodes))
    silent = all(classify_error(probe.error or "") is ProbeFault.SILENCE for probe in failed)
    text = f"none through {listing(fine)}" if fine else "no coordinator was spared"
    return (
        f"{text}; the coordinator gave no answer, so the whole node may be at fault and not only this table"
        if silent
        else text
    )


def _group_errors(failed: Sequence[PairedOperation]) -> Iterator[Mapping[str, Any]]:
    """Yield each distinct error with its probes, the most frequent first."""
    groups: dict[str, list[PairedOperation]] = {}
    for probe in failed:
        groups.setdefault(shorten_error(probe.error or ""), []).append(probe)
    for error, group in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        yield {
            "error": error,
            "count": len(group),
            "through": sorted({probe.node or "-" for probe in group}),
            "consistency": sorted({consistency_of(probe) for probe in group}),
            "phases": sorted({str(phase_of(probe)) for probe in group}, key=PHASES.index),
            "example": group[0].index,
        }


def _list_racing_changes(table: TableCertainty, create: PairedOperation | None) -> Sequence[PairedOperation]:
    """List the last changes of the table that may have followed its CREATE; without a certain CREATE, its last changes."""
    changes = [change for change in table.changes if change is not create]
    return [c for c in changes if create is None or can_follow(c, create)][-_LIMITS.suspects :]
